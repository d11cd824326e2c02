"""Replications in parallel: joblib processes, workers of a Dask cluster, or batches on a device.

In processes and on a cluster, each replication uses one thread, so that its result does not depend
on how many run in parallel: results are reproducible bit for bit.
"""

from __future__ import annotations

import gc
import json
import os
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

from steinpath._support.threads import exit_with_parent, pin_threads
from steinpath.study._output import versions
from steinpath.study._replicate import draw_batch, most_members, replicate, replicate_batch
from steinpath.study._settings import Configuration, Curves
from steinpath.study._store import CODE, StudyError


class Job(NamedTuple):
    """A replication to compute."""

    config: Configuration
    seed: int


class JobResult(NamedTuple):
    """Columns of a replication with notes on its computation, or the reason for its failure."""

    job: Job
    curves: Curves
    notes: dict[str, str]
    error: str = ""


# Number of consecutive times that a cluster may be lost without any replication finished.
_ATTEMPTS = 3

_FEWER = "fewer jobs leave more memory for each"
_DIED = f"its process died each time (possibly out of memory: {_FEWER})"


def _attempt(jobs: Sequence[Job], work: Callable[[], list[Curves]]) -> list[JobResult]:
    """Compute replications; an error is returned as their result."""
    start = time.monotonic()
    try:
        curves = work()
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.name}, line {place.lineno} of {place.filename.rsplit('/', 1)[-1]}"
        text = f"{type(error).__name__}: {error} (in {where})"
        text += f"; {_FEWER}" if isinstance(error, MemoryError) else ""
        return [JobResult(job, {}, {}, text) for job in jobs]
    seconds = f"{(time.monotonic() - start) / len(jobs):.3f}"
    torch = ["torch"] if jobs[0].config.backend == "torch" else []
    used = json.dumps(versions("numpy", "scipy", *torch), sort_keys=True)
    notes = {"seconds": seconds, "code": CODE, "versions": used}
    return [JobResult(job, own, notes) for job, own in zip(jobs, curves, strict=True)]


def attempt(job: Job) -> JobResult:
    """Compute a replication in this process."""
    (result,) = _attempt([job], lambda: [replicate(*job)])
    return result


def in_worker(job: Job) -> JobResult:
    """Compute a replication in a worker process."""
    pin_threads()
    return attempt(job)


# This machine


def locally(todo: Sequence[Job], jobs: int) -> Generator[JobResult]:
    """Compute replications in ``jobs`` processes on this machine; yield them as they finish."""
    if jobs == 1:
        with threadpool_limits(1):
            yield from map(attempt, todo)
        return
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool, ProcessPoolExecutor

    # dispatch two per process: no process waits, and little is lost on interruption
    ahead = 2 * jobs
    workers: dict[str, Any] = {"initializer": exit_with_parent, "initargs": (os.getpid(),)}
    order: dict[str, Any] = {"return_as": "generator_unordered", "batch_size": 1}
    left = dict.fromkeys(todo)
    while left:
        parallel = Parallel(jobs, pre_dispatch=ahead, **order, **workers)
        try:
            with warnings.catch_warnings():
                # joblib replaces a stopped worker, and ending early is intended
                warnings.filterwarnings("ignore", "A worker stopped while some jobs were given")
                warnings.filterwarnings("ignore", r"\d+ tasks ")
                for result in parallel(delayed(in_worker)(job) for job in list(left)):
                    del left[result.job]
                    yield result
        except BrokenProcessPool:  # caused by one of the dispatched jobs: each in its own process
            for job in list(left)[:ahead]:
                del left[job]
                with ProcessPoolExecutor(max_workers=1, **workers) as process:
                    try:
                        result = process.submit(in_worker, job).result()
                    except BrokenProcessPool:
                        result = JobResult(job, {}, {}, _DIED)
                yield result


def in_batches(todo: Sequence[Job], jobs: int) -> Generator[JobResult]:
    """Compute replications in batches on a device; data and true risks by ``jobs`` workers."""
    import torch

    device = todo[0].config.device
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:  # torch raises either for a missing device
        raise StudyError(f"torch cannot use the device {device!r}: {error}") from None
    seeds: dict[Configuration, list[int]] = {}
    for config, seed in todo:
        seeds.setdefault(config, []).append(seed)
    batches = [
        (tuple(own[i : i + size]), config)
        for config, own in seeds.items()
        for size in [most_members(config)]
        for i in range(0, len(own), size)
    ]
    # those that share their data follow each other
    batches.sort(key=lambda b: (b[0], b[1].rows, b[1].n, b[1].p, b[1].loss, b[1].noise))
    with threadpool_limits(1):
        for members, config in batches:
            yield from _attempt_batch(config, members, jobs)
    draw_batch.cache_clear()


def _attempt_batch(config: Configuration, seeds: tuple[int, ...], jobs: int) -> Iterator[JobResult]:
    """Compute replications as a batch; if that fails, in halves, down to single replications."""
    todo = [Job(config, seed) for seed in seeds]
    results = _attempt(todo, lambda: replicate_batch(config, seeds, jobs))
    if len(seeds) == 1 or not results[0].error:
        yield from results
        return
    draw_batch.cache_clear()
    middle = len(seeds) // 2
    for half in (seeds[:middle], seeds[middle:]):
        yield from _attempt_batch(config, half, jobs)


# Clusters


def on_cluster(todo: Sequence[Job], cluster: str) -> Generator[JobResult]:
    """Compute replications on a Dask cluster; after a lost connection, try the rest again."""
    left, attempts = dict.fromkeys(todo), 0
    while left and attempts < _ATTEMPTS:
        attempts += 1
        with connected(cluster) as client:
            from distributed import KilledWorker, as_completed

            # the scheduler retries a replication that crashed its worker
            # `distributed.scheduler.allowed-failures` times
            futures = client.map(in_worker, list(left), pure=False, batch_size=1000)
            jobs = {future.key: job for future, job in zip(futures, left, strict=True)}
            waiting = as_completed(futures)
            del futures  # so that each result is released after use
            for future in waiting:
                if future.status not in ("finished", "error"):
                    break
                try:
                    error = future.exception()
                    result = future.result() if error is None else None
                except (OSError, CancelledError):  # the connection broke
                    break
                if result is None:
                    died = isinstance(error, KilledWorker)
                    text = _DIED if died else f"{type(error).__name__}: {error}"
                    result = JobResult(jobs[future.key], {}, {}, text)
                del left[result.job]
                attempts = 0
                yield result
    for job in left:
        yield JobResult(job, {}, {}, f"the connection to the cluster {cluster} was lost")


@contextmanager
def connected(cluster: str, **options: Any) -> Iterator[Any]:
    """Connect to a scheduler ("tcp://host:8786" or its file, ending in ".json"); yield a client.

    Given a number of workers, start a temporary `distributed.LocalCluster`, with its options.
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
    address, problem = cluster, ""
    if cluster.endswith(".json"):  # a client would wait for a file that is missing
        try:
            address = json.loads(Path(cluster).read_bytes())["address"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            problem = f"has no address ({type(error).__name__}: {error})"
            problem = "does not exist" if isinstance(error, FileNotFoundError) else problem
            raise StudyError(f"no workers at {cluster}: the scheduler file {problem}") from None
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
        except (OSError, ValueError) as error:
            problem = str(error)
        if problem:
            # A client that failed to connect closes when it is garbage-collected. That is safe
            # here, where nothing refers to it; while another client is being created, it would
            # deadlock.
            gc.collect()
            raise StudyError(f"no workers at {cluster}: {problem}")
        yield client
