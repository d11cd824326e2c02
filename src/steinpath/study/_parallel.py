"""Replications in parallel: joblib processes on this machine, or workers of a Dask cluster.

Each replication uses one thread, so that its result does not depend on how many run in parallel:
results are reproducible bit for bit. Batches on a device, which are not, are in
`steinpath.study._lanes`.
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
from steinpath.study._settings import Configuration
from steinpath.study._store import StudyError
from steinpath.study._versions import CODE, computed_with


class Job(NamedTuple):
    """A replication to compute."""

    config: Configuration
    seed: int


class JobResult(NamedTuple):
    """Result of a replication with its computing time, or the reason for its failure."""

    job: Job
    curves: Curves | None
    seconds: float = 0.0
    error: str = ""
    code: str = ""  # code and versions of the process that computed it
    versions: str = ""


class WorkersLost(Exception):
    """Workers were lost; their replications can be tried again."""


#: Advice after running out of memory.
FEWER = "fewer jobs leave more memory for each"
_DIED = f"its process died each time (possibly out of memory: {FEWER})"


def attempt(job: Job) -> JobResult:
    """Compute a replication; an error is returned as a result."""
    clock = Clock()
    try:
        curves = replicate(*job)
    except Exception as error:
        return failed(job, error)
    return done(job, curves, clock())


def done(job: Job, curves: Curves, seconds: float) -> JobResult:
    """Return the result of a replication computed in this process."""
    return JobResult(job, curves, seconds, code=CODE, versions=computed_with(job.config))


def failed(job: Job, error: Exception) -> JobResult:
    """Return the result of a failed replication."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{place.name}, line {place.lineno} of {place.filename.rsplit('/', 1)[-1]}"
    text = f"{type(error).__name__}: {error} (in {where})"
    if isinstance(error, MemoryError):
        text += f"; {FEWER}"
    return JobResult(job, None, error=text)


def in_worker(job: Job) -> JobResult:
    """Compute a replication in a worker process."""
    pin_threads()
    return attempt(job)


def locally(todo: Sequence[Job], jobs: int) -> Generator[JobResult]:
    """Compute replications in ``jobs`` processes on this machine; yield them as they finish."""
    if jobs == 1:
        with threadpool_limits(1):
            yield from map(attempt, todo)
        return
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    # dispatch two per process: no process waits, and little is lost on interruption
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
                # joblib replaces a stopped worker, and ending early is intended
                for told in ("A worker stopped while some jobs were given", r"\d+ tasks "):
                    warnings.filterwarnings("ignore", told)
                for result in parallel(calls):
                    del left[result.job]
                    yield result
        except BrokenProcessPool:  # caused by one of the dispatched jobs
            for job in list(left)[:ahead]:
                del left[job]
                yield _by_itself(job)


def _by_itself(job: Job) -> JobResult:
    """Compute a replication in its own process, in case it crashes the process."""
    from joblib.externals.loky.process_executor import BrokenProcessPool, ProcessPoolExecutor

    follow = {"initializer": exit_with_parent, "initargs": (os.getpid(),)}
    with ProcessPoolExecutor(max_workers=1, **follow) as process:
        try:
            result: JobResult = process.submit(in_worker, job).result()
            return result
        except BrokenProcessPool:
            return JobResult(job, None, error=_DIED)


def on_cluster(todo: Sequence[Job], cluster: str) -> Generator[JobResult]:
    """Compute replications on a Dask cluster; yield them as they finish.

    Parameters
    ----------
    todo : sequence of Job
        Replications to compute.
    cluster : str
        Address of a scheduler, such as "tcp://host:8786"; a scheduler file ending in ".json"; or a
        number of workers, to start a cluster on this machine.
    """
    with connected(cluster) as client:
        from distributed import KilledWorker, as_completed

        # the scheduler retries a replication that crashed its worker
        # `distributed.scheduler.allowed-failures` times
        futures = client.map(in_worker, todo, pure=False, batch_size=1000)
        keys = {future.key: job for future, job in zip(futures, todo, strict=True)}
        waiting = as_completed(futures)
        lost = WorkersLost(f"the connection to the cluster {cluster} was lost")
        del futures  # so that each result is released after use
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
    """Return the address in a scheduler file; the client would wait forever for a missing one."""
    problem = "the scheduler file does not exist"
    for _ in range(10):
        if not file.is_file():
            break
        try:
            return str(json.loads(file.read_bytes())["address"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            problem = f"the scheduler file has no address: {type(error).__name__}: {error}"
            time.sleep(0.1)  # it may be incomplete, still being written
    raise StudyError(f"no workers at {file}: {problem}")


@contextmanager
def connected(cluster: str, **options: Any) -> Iterator[Any]:
    """Connect to an existing cluster, or start a temporary one on this machine.

    Parameters
    ----------
    cluster : str
        As for `on_cluster`.
    **options
        Options of `distributed.LocalCluster`, if one is started.
    """
    try:
        from dask import config
        from distributed import Client, LocalCluster
    except ImportError:
        raise StudyError("clusters require Dask: pip install 'steinpath[cluster]'") from None
    if not cluster.strip() or (cluster.isdecimal() and int(cluster) == 0):
        raise StudyError(
            "cluster must be the address of a scheduler, a scheduler file (.json), or a number of "
            f"workers of at least 1; got {cluster!r}"
        )
    address = _address_in(Path(cluster)) if cluster.endswith(".json") else cluster
    problem = ""
    with ExitStack() as stack:
        try:
            if cluster.isdecimal():
                # a lost worker is restarted, which may take long on a busy machine
                patience = {"distributed.deploy.lost-worker-timeout": "1 hour"}
                stack.enter_context(config.set(patience))
                # local connections only: the scheduler executes whatever it receives
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
            # A client that failed to connect closes when it is garbage-collected. That is safe
            # here, where nothing refers to it; while another client is being created, it would
            # deadlock.
            gc.collect()
            raise StudyError(f"no workers at {cluster}: {problem}")
        yield client
