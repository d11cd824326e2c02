"""Run a study: compute and store missing replications, then write tables and figures."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from steinpath._support.printing import printable
from steinpath._support.validation import check_count
from steinpath.study._base import Results, Sizes, Study, Table
from steinpath.study._lanes import in_batches
from steinpath.study._manifest import Manifest
from steinpath.study._output import write_figures, write_summary, write_tables
from steinpath.study._parallel import Job, JobResult, WorkersLost, locally, on_cluster
from steinpath.study._progress import progress
from steinpath.study._replicate import check_backend, check_curves
from steinpath.study._settings import Configuration
from steinpath.study._store import Store, StudyError
from steinpath.study._versions import CODE, computed_with

# Number of threads that write replications, and maximum number of unwritten replications.
_WRITERS, _UNWRITTEN = 4, 256
# Number of consecutive times that a cluster may be lost without any replication finished.
_ATTEMPTS = 3


@dataclass(frozen=True)
class Report:
    """Result of a study.

    Attributes
    ----------
    summary : list of dict
        Summary table of the replications available for all configurations; empty if there are
        fewer than two.
    files : list of Path
        Tables and figures written.
    finished, total : int
        Number of finished and of requested replications.
    failures : list of str
        Reasons for failed replications, each with its count.
    """

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

    Parameters
    ----------
    study : Study
        One of `steinpath.study.STUDIES`.
    folder : str or Path
        Folder for replications, tables and figures. Replications already stored there, by this
        study or another with the same configurations, are reused.
    sizes : Sizes, optional
        Size of the study; the full size by default.
    seed : int, default=0
        Seed of the first replication; further replications use consecutive seeds.
    jobs : int, default=1
        Number of processes on this machine.
    cluster : str, optional
        Run on a Dask cluster instead; see `steinpath.study._parallel.on_cluster`.
    backend : {"numpy", "torch"}, default="numpy"
        Array library.
    device : str, default="cpu"
        Device of the arrays.
    redraw : bool, default=False
        Only write tables and figures from stored replications.
    console : rich.console.Console, optional
        Console for progress and messages; none by default.

    Returns
    -------
    Report
    """
    if cluster is None:
        check_backend(backend, device)
    seed, jobs = check_count("seed", seed, low=0), check_count("jobs", jobs)
    sizes, console = sizes or study.full, console or Console(quiet=True)
    if study.full.iters and not sizes.iters:
        raise ValueError(f"the study {study.name!r} requires at least two iterations")
    plan = [
        s if s.numpy_alone else replace(s, backend=backend, device=device)
        for s in study.plan(sizes)
    ]
    if not plan:
        raise ValueError(f"the study {study.name!r} requires at least one value of n and of p")
    # run every configuration once before any twice: an interrupted study is a smaller study
    todo = [Job(config, seed + r) for r in range(sizes.reps) for config in plan]
    store = Store(folder)
    out = store.folder / study.name
    failures: list[str] = []
    with store.alone():
        notes = {job: store.notes(*job) for job in todo}
        missing = [job for job in todo if not notes[job]]
        if missing and (others := store.by_other_code(plan)):
            _say(
                f"Ignoring {others} replications in {store.parts} that were computed with a "
                "different version of the code",
                console,
            )
        manifest = Manifest.of(out, study, sizes, seed, plan)
        expected = _versions_in(notes)
        if missing and not redraw and cluster is None:
            expected.add(computed_with(plan[0]))
        _say_if_mixed(expected, console)
        if missing and not redraw:
            with manifest.run() as entry:
                failures = _compute(store, missing, len(todo), study.name, jobs, cluster, console)
                entry["failures"] = failures
            notes = {job: store.notes(*job) for job in todo}
            missing = [job for job in todo if not notes[job]]
            if not _versions_in(notes) <= expected:  # workers of a cluster may differ
                _say_if_mixed(_versions_in(notes), console)
        results = _read(store, plan, set(todo) - set(missing))
        if results or not redraw:
            manifest.write()
        summary, files = [], []
        if results:
            summary, exhibits = study.summary(results), study.exhibits(results)
            files = [*write_summary(out, summary), *write_tables(out, exhibits)]
            try:
                files += write_figures(out, exhibits)
            except ImportError as error:  # e.g. on a cluster without matplotlib
                _say(f"No figures: {error}; use --redraw to draw them later", console)
    return Report(summary, files, len(todo) - len(missing), len(todo), failures)


def _say(text: str, console: Console) -> None:
    console.print(printable(text), style="yellow", markup=False, highlight=False)


def _versions_in(notes: Mapping[Job, Mapping[bytes, bytes]]) -> set[str]:
    """Return the versions that replications were computed with."""
    return {
        found.get(b"versions", b"unknown").decode(errors="replace")
        for found in notes.values()
        if found
    }


def _say_if_mixed(versions: set[str], console: Console) -> None:
    if len(versions) > 1:
        _say(
            f"The replications were computed with different versions: "
            f"{'; '.join(sorted(versions))}. Use another folder to compute all with one version",
            console,
        )


def _compute(
    store: Store,
    todo: Sequence[Job],
    total: int,
    title: str,
    jobs: int,
    cluster: str | None,
    console: Console,
) -> list[str]:
    """Compute and store replications; return the reasons for failures."""
    reasons: Counter[str] = Counter()
    left = dict.fromkeys(todo)
    with progress(title, total - len(todo), total, console) as advance:
        attempts = 0  # consecutive, without progress
        while left and attempts < _ATTEMPTS:
            todo = list(left)
            on_device = cluster is None and todo[0].config.backend != "numpy"
            if cluster is not None:
                source = on_cluster(todo, cluster)
            elif todo[0].config.backend == "numpy":
                source = locally(todo, jobs)
            else:
                source = in_batches(todo, jobs)
            try:
                with closing(source), closing(_kept(store, source, on_device)) as kept:
                    for job, reason in kept:
                        if reason:
                            reasons[reason] += 1
                        del left[job]
                        advance()
            except WorkersLost as error:
                attempts = attempts + 1 if len(left) == len(todo) else 0
                _say(f"{title}: {error}; {len(left)} replications remain", console)
                if attempts == _ATTEMPTS:
                    reasons[str(error)] += len(left)
    return [f"{count} × {reason}" for reason, count in reasons.items()]


def _kept(store: Store, source: Iterable[JobResult], on_device: bool) -> Generator[tuple[Job, str]]:
    """Store replications as they finish; those of a device in several threads.

    Yields each replication with the reason for its failure, or an empty string.
    """
    if not on_device:
        for result in source:
            yield result.job, _keep(store, result)
        return
    with ThreadPoolExecutor(_WRITERS) as writers:
        waiting: deque[tuple[Job, Future[str]]] = deque()
        for result in source:
            waiting.append((result.job, writers.submit(_keep, store, result)))
            while waiting and (waiting[0][1].done() or len(waiting) > _UNWRITTEN):
                job, reason = waiting.popleft()
                yield job, reason.result()
        for job, reason in waiting:
            yield job, reason.result()


def _keep(store: Store, result: JobResult) -> str:
    """Store a replication; return the reason if it failed, otherwise an empty string."""
    if result.curves is None:
        return result.error
    if result.code != CODE:
        raise StudyError(
            "a worker uses a different version of steinpath than this process: install the same "
            "version everywhere and run the same command again. Finished replications are kept"
        )
    try:
        check_curves(result.job.config, result.curves)
    except ValueError as error:
        return f"ValueError: {error}"
    seconds, versions = f"{result.seconds:.3f}", result.versions
    store.write(*result.job, result.curves, seconds=seconds, versions=versions)
    return ""


def _read(store: Store, plan: Sequence[Configuration], finished: Iterable[Job]) -> Results:
    """Read the replications available for all configurations; empty if fewer than two."""
    seeds: dict[Configuration, set[int]] = {config: set() for config in plan}
    for config, seed in finished:
        seeds[config].add(seed)
    common = sorted(set.intersection(*seeds.values()))
    return {config: store.read(config, common) for config in plan} if len(common) > 1 else {}
