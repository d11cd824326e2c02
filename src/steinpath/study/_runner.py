"""Run a study: compute and store missing replications, then write tables and figures."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from rich.console import Console

from steinpath._support.printing import printable
from steinpath._support.progress import make_bars
from steinpath._support.validation import check_choice, check_count
from steinpath.study._base import Results, Sizes, Study, Table
from steinpath.study._output import Manifest, write_figures, write_tables
from steinpath.study._parallel import Job, JobResult, in_batches, locally, on_cluster
from steinpath.study._settings import Configuration
from steinpath.study._store import CODE, Store, StudyError


@dataclass(frozen=True)
class Report:
    """Result of a study; without two replications of all configurations, its summary is empty."""

    summary: Table
    files: list[Path]
    finished: int
    total: int
    failures: list[str]


def run_study(
    study: Study,
    folder: str | Path,
    sizes: Sizes | None = None,
    *,
    seed: int = 0,
    jobs: int = 1,
    cluster: str | None = None,
    backend: str = "numpy",
    device: str = "cpu",
    redraw: bool = False,
    console: Console | None = None,
) -> Report:
    """Compute the missing replications of a study, and write its tables and figures.

    Stored replications of the same configurations are reused; with ``redraw``, no others are
    computed. Seeds are consecutive from ``seed``. Replications run in ``jobs`` processes on this
    machine, or on a Dask cluster (see `steinpath.study.connected`).
    """
    if cluster is None:
        check_backend(backend, device)
    seed, jobs = check_count("seed", seed, low=0), check_count("jobs", jobs)
    sizes, console = sizes or study.full, console or Console(quiet=True)
    if study.full.iters and not sizes.iters:
        raise ValueError(f"the study {study.name!r} requires at least two iterations")
    plan = [
        replace(s, backend=backend, device=device) if s.kind == "path" else s
        for s in study.plan(sizes)
    ]
    if not plan:
        raise ValueError(f"the study {study.name!r} requires at least one value of n and of p")
    # run every configuration once before any twice: an interrupted study is a smaller study
    todo = [Job(config, seed + r) for r in range(sizes.reps) for config in plan]
    store = Store(folder)
    out = store.folder / study.name
    settings = {config.key: config.describe() for config in plan}
    about = {"study": study.name, "sizes": asdict(sizes), "seed": seed, "settings": settings}
    summary, files, failures = [], [], []
    with store.alone():
        missing = [job for job in todo if not store.has(*job)]
        keys = [file.stem.split("-")[:2] for file in store.parts.glob("*.parquet")]
        others = sum(key[0] in settings and key[1:] != [CODE] for key in keys)
        if missing and others:
            _say(
                f"Ignoring {others} replications in {store.parts} that were computed with a "
                "different version of the code",
                console,
            )
        manifest = Manifest(out / "manifest.json", about)
        if missing and not redraw:
            source = _source(missing, jobs, cluster)
            progress = _progress(study.name, len(todo) - len(missing), len(todo), console)
            with manifest.run() as entry, closing(source), progress as advance:
                failures = entry["failures"] = _store_all(store, source, advance)
        finished = [job for job in todo if store.has(*job)]
        results = _read(store, plan, finished, console)
        if results or not redraw:
            manifest.write()
        if results:
            summary, exhibits = study.summary(results), study.exhibits(results)
            files = write_tables(out, summary, exhibits)
            try:
                files += write_figures(out, exhibits)
            except ImportError as error:  # e.g. on a cluster without matplotlib
                _say(f"No figures: {error}; use --redraw to draw them later", console)
    return Report(summary, files, len(finished), len(todo), failures)


def check_backend(backend: str, device: str) -> None:
    """Raise ValueError if a backend is not available; its devices are checked on first use."""
    check_choice("backend", backend, ("numpy", "torch"))
    if backend == "numpy" and device != "cpu":
        raise ValueError(f"the backend 'numpy' supports only the device 'cpu'; got {device!r}")
    if backend == "torch" and find_spec("torch") is None:  # importing it takes seconds
        raise ValueError("the backend 'torch' requires torch: pip install torch")


def _say(text: str, console: Console) -> None:
    console.print(printable(text), style="yellow", markup=False, highlight=False)


def _source(todo: Sequence[Job], jobs: int, cluster: str | None) -> Generator[JobResult]:
    """Compute replications where they should be computed; yield them as they finish."""
    if cluster is not None:
        return on_cluster(todo, cluster)
    return (locally if todo[0].config.backend == "numpy" else in_batches)(todo, jobs)


def _store_all(store: Store, source: Iterable[JobResult], advance: Callable[[], None]) -> list[str]:
    """Store replications as they finish; return the reasons for failures."""
    reasons: Counter[str] = Counter()
    for result in source:
        reason = result.error or _problem(result)
        if reason:
            reasons[reason] += 1
        else:
            store.write(*result.job, result.curves, result.notes)
        advance()
    return [f"{count} × {reason}" for reason, count in reasons.items()]


def _problem(result: JobResult) -> str:
    """Return why a replication is a failure, or an empty string; raise if its code is another."""
    if result.notes["code"] != CODE:
        raise StudyError(
            "a worker uses a different version of steinpath than this process: install the same "
            "version everywhere and run the same command again. Finished replications are kept"
        )
    wrong = (name for name, values in result.curves.items() if not np.isfinite(values).all())
    name = next(wrong, None)
    return f"ValueError: column {name!r} contains NaN or infinite values" if name else ""


def _read(
    store: Store, plan: Sequence[Configuration], finished: Sequence[Job], console: Console
) -> Results:
    """Read the replications available for all configurations; empty if fewer than two."""
    seeds = [{seed for config, seed in finished if config == own} for own in plan]
    common = sorted(set.intersection(*seeds))
    results: Results = {}
    mixed: set[str] = set()
    for config in plan if len(common) > 1 else ():
        results[config], versions = store.read(config, common)
        mixed |= versions
    if len(mixed) > 1:
        _say(
            f"The replications were computed with different versions: {'; '.join(sorted(mixed))}. "
            "Use another folder to compute all with one version",
            console,
        )
    return results


@contextmanager
def _progress(title: str, done: int, total: int, console: Console) -> Iterator[Callable[[], None]]:
    """Show a bar, or lines every 5% and every minute; yield a function that counts one more."""
    if console.is_terminal:
        with make_bars(console=console, speed_estimate_period=120) as bar:
            task = bar.add_task(title, total=total, completed=done)
            yield lambda: bar.advance(task)
        return
    start, before = time.monotonic(), done
    printed, when = done, 0.0

    def advance() -> None:
        nonlocal done, printed, when
        done += 1
        now = time.monotonic() - start
        last = done == total
        if last or 20 * (done - printed) >= total or now - when >= 60:
            printed, when = done, now
            left = timedelta(seconds=round(now / (done - before) * (total - done)))
            rest = f"done in {now:.0f} s" if last else f"{left} left"
            console.print(f"{title}: {done} of {total}, {rest}", highlight=False)

    yield advance
