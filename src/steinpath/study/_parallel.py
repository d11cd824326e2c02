"""Replications in parallel: processes here by joblib, or the workers of a Dask cluster.

Each replication runs on one thread, wherever it runs, so that its result does not depend on how
many run beside it: sums come out the same to the last bit. For batches on a device, which are not
so exact, see `steinpath.study._lanes`.
"""

from __future__ import annotations

import gc
import json
import os
import time
import traceback
import warnings
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

from steinpath._support.processes import exit_with_parent, pin_threads
from steinpath._support.progress import Clock
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


#: Why to ask for fewer jobs.
FEWER = "with fewer at once there is more memory for each"
_DIED = f"its process died each time (of memory, perhaps: {FEWER})"


def attempt(job: Job) -> JobResult:
    """Do a replication; an error in it is a result like any other."""
    clock = Clock()
    try:
        curves = replicate(*job)
    except Exception as error:
        return failed(job, error)
    return done(job, curves, clock())


def done(job: Job, curves: Curves, seconds: float) -> JobResult:
    """Return a replication that was done in this process."""
    return JobResult(job, curves, seconds, code=CODE, versions=computed_with(job.setting))


def failed(job: Job, error: Exception) -> JobResult:
    """Return why a replication was not done."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{place.name}, line {place.lineno} of {place.filename.rsplit('/', 1)[-1]}"
    text = f"{type(error).__name__}: {error} (in {where})"
    if isinstance(error, MemoryError):
        text += f"; {FEWER}"
    return JobResult(job, None, error=text)


def in_worker(job: Job) -> JobResult:
    """Do a replication in a process that does nothing else."""
    pin_threads()
    return attempt(job)


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
            initializer=exit_with_parent,
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

    follow = {"initializer": exit_with_parent, "initargs": (os.getpid(),)}
    with ProcessPoolExecutor(max_workers=1, **follow) as process:
        try:
            result: JobResult = process.submit(in_worker, job).result()
            return result
        except BrokenProcessPool:
            return JobResult(job, None, error=_DIED)


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
def connected(cluster: str, **options: Any) -> Iterator[Any]:
    """Connect to a cluster that is there, or start one on this machine for the while.

    Parameters
    ----------
    cluster : str
        As for `on_cluster`.
    **options
        Of `distributed.LocalCluster`, if one is started.
    """
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
                workers = stack.enter_context(LocalCluster(**where, **size, **options))
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
