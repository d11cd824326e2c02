"""Replications in parallel: processes here by joblib, the workers of a Dask cluster, or batches.

Each replication runs on one thread, wherever it runs, so that its result does not depend on how
many run beside it: sums come out the same to the last bit. Batches, on a device, are not so exact.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

from steinpath._support.progress import Clock
from steinpath.study._batch import BatchData, Finish, draw_batch, law, most_members, start_batch
from steinpath.study._replicate import Curves, replicate
from steinpath.study._settings import Setting
from steinpath.study._store import StudyError
from steinpath.study._versions import CODE, computed_with


class Job(NamedTuple):
    """A replication to do."""

    setting: Setting
    seed: int


class JobResult(NamedTuple):
    """A replication that was done, with what it took, or why it was not."""

    job: Job
    curves: Curves | None
    seconds: float = 0.0
    error: str = ""
    code: str = ""  # and versions, of the process that did it
    versions: str = ""


class WorkersLost(Exception):
    """Workers were lost, with replications that may well succeed the next time."""


_FEWER = "with fewer at once there is more memory for each"
_DIED = f"its process died each time (of memory, perhaps: {_FEWER})"


def attempt(job: Job) -> JobResult:
    """Do a replication; an error in it is a result like any other."""
    clock = Clock()
    try:
        curves = replicate(*job)
    except Exception as error:
        return _failed(job, error)
    return _done(job, curves, clock())


def _done(job: Job, curves: Curves, seconds: float) -> JobResult:
    return JobResult(job, curves, seconds, code=CODE, versions=computed_with(job.setting))


def _failed(job: Job, error: Exception) -> JobResult:
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{place.name}, line {place.lineno} of {place.filename.rsplit('/', 1)[-1]}"
    text = f"{type(error).__name__}: {error} (in {where})"
    if isinstance(error, MemoryError):
        text += f"; {_FEWER}"
    return JobResult(job, None, error=text)


@lru_cache(maxsize=1)
def _pin_threads() -> None:
    """Limit this process, a worker, to one thread for good: its threads may share the setting."""
    threadpool_limits(1)


def in_worker(job: Job) -> JobResult:
    """Do a replication in a process that does nothing else."""
    _pin_threads()
    return attempt(job)


def _leave_with(parent: int) -> None:
    """End this process soon after the one that started it, which may have been killed.

    Ctrl-C on a terminal reaches both; what is to be done then, the other one knows.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def locally(todo: Sequence[Job], jobs: int) -> Generator[JobResult]:
    """Do replications on this machine, in so many processes; yield them as they are done."""
    if jobs == 1:
        with threadpool_limits(1):
            yield from map(attempt, todo)
        return
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    # two per process under way, so that no process waits and little is lost
    ahead = 2 * jobs
    left = dict.fromkeys(todo)
    while left:
        parallel = Parallel(
            jobs,
            return_as="generator_unordered",
            batch_size=1,
            pre_dispatch=ahead,
            initializer=_leave_with,
            initargs=(os.getpid(),),
        )
        calls = (delayed(in_worker)(job) for job in list(left))
        try:
            with warnings.catch_warnings():
                # it starts another worker in its place; and if we end early, that is meant
                for told in ("A worker stopped while some jobs were given", r"\d+ tasks "):
                    warnings.filterwarnings("ignore", told)
                for result in parallel(calls):
                    del left[result.job]
                    yield result
        except BrokenProcessPool:  # by one of those that were under way
            for job in list(left)[:ahead]:
                del left[job]
                yield _by_itself(job)


def _by_itself(job: Job) -> JobResult:
    """Do a replication in a process of its own, which it may take down with it."""
    from joblib.externals.loky.process_executor import BrokenProcessPool, ProcessPoolExecutor

    follow = {"initializer": _leave_with, "initargs": (os.getpid(),)}
    with ProcessPoolExecutor(max_workers=1, **follow) as process:
        try:
            result: JobResult = process.submit(in_worker, job).result()
            return result
        except BrokenProcessPool:
            return JobResult(job, None, error=_DIED)


def in_batches(todo: Sequence[Job], jobs: int) -> Generator[JobResult]:
    """Do replications on a device, many of a setting at once; yield each batch when it is done.

    Parameters
    ----------
    todo : sequence of Job
        What to do, on one backend and device.
    jobs : int
        Threads that draw data, and processes that compute true risks, while the device works.
    """
    seeds: dict[Setting, list[int]] = {}
    for setting, seed in todo:
        seeds.setdefault(setting, []).append(seed)
    chunks = [
        (tuple(those[i : i + size]), setting)
        for setting, those in seeds.items()
        for size in [most_members(setting)]
        for i in range(0, len(those), size)
    ]

    def data_of(chunk: tuple[tuple[int, ...], Setting]) -> tuple[Any, ...]:
        return chunk[0], law(chunk[1])

    # what shares its data comes together, and data are drawn while those before are in use
    groups = [list(group) for _, group in groupby(sorted(chunks, key=data_of), data_of)]
    with threadpool_limits(1), ThreadPoolExecutor(1) as ahead, _processes(jobs) as workers:
        waiting: list[Iterator[JobResult]] = []

        def draw_for(group: list[tuple[tuple[int, ...], Setting]]) -> Future[BatchData]:
            those, setting = group[0]
            return ahead.submit(draw_batch, setting, those, jobs)

        following = draw_for(groups[0])
        for k, group in enumerate(groups):
            # what cannot be drawn fails again, and is then a result
            data = None if following.exception() else following.result()
            if k + 1 < len(groups):
                following = draw_for(groups[k + 1])
            for those, setting in group:
                waiting.append(_attempt_batch(setting, those, data, workers))
                if len(waiting) > 1:  # the device had the next to do while we waited for one
                    yield from waiting.pop(0)
            del data
        for results in waiting:
            yield from results


def _attempt_batch(
    setting: Setting, seeds: Sequence[int], data: BatchData | None, workers: Executor | None
) -> Iterator[JobResult]:
    """Do replications as a batch, in halves if that fails, down to single ones.

    Returns when the device is done; the true risks are waited for by who asks for the results.
    """
    clock = Clock()
    pending = problem = None
    try:
        data = draw_batch(setting, seeds) if data is None else data
        pending = start_batch(setting, data, workers)
    except Exception as error:
        problem = _failed(Job(setting, seeds[0]), error)
    del data
    seconds = clock() / len(seeds)
    if pending is not None:
        return _finished(setting, seeds, pending, seconds)
    if len(seeds) == 1:
        assert problem is not None
        return iter([problem])
    # outside of the handler, which keeps what the failed attempt holds of the device's memory
    middle = len(seeds) // 2
    halves = (seeds[:middle], seeds[middle:])
    return chain(*(_attempt_batch(setting, half, None, workers) for half in halves))


def _finished(
    setting: Setting, seeds: Sequence[int], pending: Sequence[Finish], seconds: float
) -> Iterator[JobResult]:
    for seed, finish in zip(seeds, pending, strict=True):
        job = Job(setting, seed)
        try:
            result = _done(job, finish(), seconds)
        except Exception as error:
            result = _failed(job, error)
        yield result


@contextmanager
def _processes(count: int) -> Iterator[Executor | None]:
    """Start so many processes for small tasks; none for one, since then we do them ourselves."""
    if count == 1:
        yield None
        return
    from joblib.externals.loky import ProcessPoolExecutor

    processes = ProcessPoolExecutor(
        count, initializer=_begin_with, initargs=(os.getpid(),), timeout=600
    )
    try:
        yield processes
    finally:
        processes.shutdown(wait=True, kill_workers=True)


def _begin_with(parent: int) -> None:
    _leave_with(parent)
    _pin_threads()


def on_cluster(todo: Sequence[Job], cluster: str) -> Generator[JobResult]:
    """Do replications on a Dask cluster; yield them as they are done.

    Parameters
    ----------
    todo : sequence of Job
        What to do.
    cluster : str
        Address of a scheduler, as "tcp://host:8786"; a scheduler file, ending in ".json"; or a
        number of workers, for a cluster on this machine.
    """
    with connected(cluster) as client:
        from distributed import KilledWorker, as_completed

        # a replication that took its worker down with it is tried elsewhere by the scheduler,
        # `distributed.scheduler.allowed-failures` times
        futures = client.map(in_worker, todo, pure=False, batch_size=1000)
        keys = {future.key: job for future, job in zip(futures, todo, strict=True)}
        waiting = as_completed(futures)
        lost = WorkersLost(f"the connection to the cluster {cluster} was lost")
        del futures  # so that each is forgotten, here and there, when it has been used
        for future in waiting:
            job = keys[future.key]
            if future.status not in ("finished", "error"):
                raise lost
            try:
                error = future.exception()
                result = future.result() if error is None else None
            except (OSError, CancelledError):  # the connection broke
                raise lost from None
            if result is None:
                text = f"{type(error).__name__}: {error}"
                text = _DIED if isinstance(error, KilledWorker) else text
                result = JobResult(job, None, error=text)
            yield result


def _address_in(file: Path) -> str:
    """Return the address in a scheduler's file; the client would wait for one for ever."""
    problem = "there is no such scheduler file yet"
    for _ in range(10):
        if not file.is_file():
            break
        try:
            return str(json.loads(file.read_bytes())["address"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            problem = f"there is no address in it: {type(error).__name__}: {error}"
            time.sleep(0.1)  # perhaps it is just being written
    raise StudyError(f"no workers at {file}: {problem}")


@contextmanager
def connected(cluster: str) -> Iterator[Any]:
    """Connect to a cluster that is there, or start one on this machine for the while."""
    try:
        from dask import config
        from distributed import Client, LocalCluster
    except ImportError:
        raise StudyError("clusters need Dask: pip install 'steinpath[cluster]'") from None
    if not cluster.strip() or (cluster.isdecimal() and int(cluster) == 0):
        raise StudyError("a cluster needs one worker at least, or the address of a scheduler")
    address = _address_in(Path(cluster)) if cluster.endswith(".json") else cluster
    problem = ""
    with ExitStack() as stack:
        try:
            if cluster.isdecimal():
                # a worker that is lost comes back, however long that takes on a busy machine
                patience = {"distributed.deploy.lost-worker-timeout": "1 hour"}
                stack.enter_context(config.set(patience))
                # nobody else's machine may talk to it: what it is sent, it runs
                where = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
                size = {"n_workers": int(cluster), "threads_per_worker": 1}
                workers = stack.enter_context(LocalCluster(**where, **size))
                client = Client(workers)
            else:
                client = Client(address)
            stack.enter_context(client)
            client.wait_for_workers(1, timeout=60)
        except (OSError, TimeoutError, ValueError) as error:
            problem = str(error)
        if problem:
            # A client that could not connect closes when it is collected. Here, where nothing
            # holds on to it, that is safe; while another is being made, they would wait for each
            # other for ever.
            gc.collect()
            raise StudyError(f"no workers at {cluster}: {problem}")
        yield client
