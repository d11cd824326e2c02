"""Run a study: do what is missing, keep what is done, then write tables and figures."""

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
from steinpath.study._settings import Setting
from steinpath.study._store import Store, StudyError
from steinpath.study._versions import CODE, computed_with

# Threads that write replications, and how many may wait for them.
_WRITERS, _UNWRITTEN = 4, 256
# Times in a row that a cluster may be lost without a replication done in between.
_ATTEMPTS = 3


@dataclass(frozen=True)
class Report:
    """What became of a study.

    Attributes
    ----------
    summary : list of dict
        The study's short table, of the replications that all settings have; empty if those are
        fewer than two.
    files : list of Path
        Tables and figures that were written.
    finished, total : int
        Replications that are there, and that were asked for.
    failures : list of str
        Why the others are not: each reason, and how many it stopped.
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
    """Run a study, or what is missing of it, and write its tables and figures.

    Parameters
    ----------
    study : Study
        One of `steinpath.study.STUDIES`.
    folder : str or Path
        Where replications, tables and figures go. Replications that are there already, from
        this study or another that shares settings with it, are not done again.
    sizes : Sizes, optional
        How large it is; the study's full size by default.
    seed : int, default=0
        Of the first replication; those of the others follow.
    jobs : int, default=1
        Processes on this machine.
    cluster : str, optional
        Do it on a Dask cluster instead: see `steinpath.study._parallel.on_cluster`.
    backend : {"numpy", "torch"}, default="numpy"
        Array library.
    device : str, default="cpu"
        Device of its arrays.
    redraw : bool, default=False
        Only write tables and figures, of the replications that are there.
    console : rich.console.Console, optional
        Where to show progress; nowhere by default.

    Returns
    -------
    Report
    """
    if cluster is None:
        check_backend(backend, device)
    seed, jobs = check_count("seed", seed, low=0), check_count("jobs", jobs)
    sizes, console = sizes or study.full, console or Console(quiet=True)
    if study.full.iters and not sizes.iters:
        raise ValueError(f"the study {study.name!r} needs a number of iterations, two at least")
    plan = [
        s if s.numpy_alone else replace(s, backend=backend, device=device)
        for s in study.plan(sizes)
    ]
    if not plan:
        raise ValueError(f"the study {study.name!r} needs a value of n and of p at least")
    # all settings once before any twice: a study that is stopped is a smaller study
    todo = [Job(setting, seed + r) for r in range(sizes.reps) for setting in plan]
    store = Store(folder)
    out = store.folder / study.name
    failures: list[str] = []
    with store.alone():
        notes = {job: store.notes(*job) for job in todo}
        missing = [job for job in todo if not notes[job]]
        if missing and (others := store.by_other_code(plan)):
            _say(
                f"Replications in {store.parts} that were computed with other code are kept, and "
                f"not used: {others}",
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
            if not _versions_in(notes) <= expected:  # a cluster's workers have their own
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
            except ImportError as error:  # a cluster's head node, say: draw elsewhere
                _say(f"No figures: {error}; --redraw draws them later", console)
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
            f"{'; '.join(sorted(versions))}. Use another folder to have all of them from one",
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
    """Do and keep replications; return why some failed."""
    reasons: Counter[str] = Counter()
    left = dict.fromkeys(todo)
    with progress(title, total - len(todo), total, console) as advance:
        attempts = 0  # in vain
        while left and attempts < _ATTEMPTS:
            todo = list(left)
            on_device = cluster is None and todo[0].setting.backend != "numpy"
            if cluster is not None:
                source = on_cluster(todo, cluster)
            elif todo[0].setting.backend == "numpy":
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
                _say(f"{title}: {error}; {len(left)} replications are left", console)
                if attempts == _ATTEMPTS:
                    reasons[str(error)] += len(left)
    return [f"{count} × {reason}" for reason, count in reasons.items()]


def _kept(store: Store, source: Iterable[JobResult], on_device: bool) -> Generator[tuple[Job, str]]:
    """Keep replications as they come: those of a device several at a time, while others run.

    Yields each one that is done with, and why it failed if it did.
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
    """Keep a replication; return why it failed, if it did."""
    if result.curves is None:
        return result.error
    if result.code != CODE:
        raise StudyError(
            "a worker has other code than this process: install the same version of steinpath "
            "for all of them, and run the same command again. What is finished is kept"
        )
    try:
        check_curves(result.job.setting, result.curves)
    except ValueError as error:
        return f"ValueError: {error}"
    seconds, versions = f"{result.seconds:.3f}", result.versions
    store.write(*result.job, result.curves, seconds=seconds, versions=versions)
    return ""


def _read(store: Store, plan: Sequence[Setting], finished: Iterable[Job]) -> Results:
    """Read the replications that all settings have, if two or more: else nothing compares."""
    seeds: dict[Setting, set[int]] = {setting: set() for setting in plan}
    for setting, seed in finished:
        seeds[setting].add(seed)
    common = sorted(set.intersection(*seeds.values()))
    return {setting: store.read(setting, common) for setting in plan} if len(common) > 1 else {}
