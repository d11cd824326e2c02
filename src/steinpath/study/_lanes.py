"""Replications in batches on a device, by this process or by several that share the device.

A single process spends more time in Python than a large GPU spends on arithmetic. Several
processes, called lanes, keep the GPU busy. Each lane requests groups of batches that share their
data, draws the data of the next group while it works on the current one, starts its own processes
for the true risks, and sends results to the process that started it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from itertools import chain, groupby
from multiprocessing.connection import Connection, wait
from typing import Any

from threadpoolctl import threadpool_limits

from steinpath._support.processes import (
    children_ignoring_interrupts,
    exit_with_parent,
    pin_threads,
    start_worker,
)
from steinpath._support.progress import Clock
from steinpath.study._batch import (
    MOST_MEMBERS,
    BatchData,
    Finish,
    draw_batch,
    law,
    most_members,
    start_batch,
)
from steinpath.study._parallel import FEWER, Job, JobResult, done, failed
from steinpath.study._settings import Configuration
from steinpath.study._store import StudyError

#: Batches of several configurations that share their data: seeds and configuration of each batch.
Group = list[tuple[tuple[int, ...], Configuration]]

# Number of processes that share a GPU, and the minimum work for which starting them pays.
_LANES, _LEAST_JOBS, _LEAST_BATCHES = 3, 4, 6
# Seconds that they are given to end their own processes.
_PATIENCE = 5
# Batches of a lane that may wait for their true risks while the device continues.
_WAITING = 2

_DIED = f"a process using the device died (possibly out of memory: {FEWER})"


def in_batches(todo: Sequence[Job], jobs: int, lanes: int | None = None) -> Generator[JobResult]:
    """Compute replications on a device, many per batch; yield each result when it is finished.

    Parameters
    ----------
    todo : sequence of Job
        Replications to compute, all on the same backend and device.
    jobs : int
        Number of threads that draw data, and of processes that compute true risks.
    lanes : int, optional
        Number of processes that share the device; 0 uses only this process. By default, several
        if the device is a GPU and there is enough work and ``jobs`` is large enough, otherwise 0.
    """
    seeds: dict[Configuration, list[int]] = {}
    for config, seed in todo:
        seeds.setdefault(config, []).append(seed)
    device = todo[0].config.device
    if lanes is None:
        batches = sum(-(-len(those) // MOST_MEMBERS) for those in seeds.values())
        worth = jobs >= _LEAST_JOBS and batches >= _LEAST_BATCHES
        lanes = _LANES if worth and device.startswith("cuda") else 0
    if not lanes:
        _check_device(device)
        groups = _groups(seeds, 1)
        with threadpool_limits(1), closing(_work(groups, device, jobs)) as results:
            yield from results
        return
    # starting them takes seconds: meanwhile, import torch and check the device
    with _started(lanes, device, max(jobs // lanes, 1)) as connections:
        _check_device(device)
        yield from _dealt(_groups(seeds, lanes), connections)


def _check_device(device: str) -> None:
    """Raise StudyError if this machine does not have the device."""
    import torch

    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:  # torch raises either for a missing device
        raise StudyError(f"torch cannot use the device {device!r}: {error}") from None


def _groups(seeds: dict[Configuration, list[int]], lanes: int) -> list[Group]:
    """Return batches that fit on the device, grouped by the data they share."""
    chunks = [
        (tuple(those[i : i + size]), config)
        for config, those in seeds.items()
        for size in [most_members(config, lanes)]
        for i in range(0, len(those), size)
    ]

    def data_of(chunk: tuple[tuple[int, ...], Configuration]) -> tuple[Any, ...]:
        return chunk[0], law(chunk[1])

    return [list(group) for _, group in groupby(sorted(chunks, key=data_of), data_of)]


def _size(group: Group) -> int:
    return sum(len(those) * config.n * config.p for those, config in group)


# ------------------------------------------------------------------------------------------------
# Several processes
# ------------------------------------------------------------------------------------------------


@contextmanager
def _started(lanes: int, device: str, jobs: int) -> Iterator[list[Connection]]:
    """Start processes that share a device; terminate them on exit."""
    context = _new_processes()
    connections, processes = [], []
    try:
        for _ in range(lanes):
            ours, theirs = context.Pipe()
            connections.append(ours)
            arguments = (theirs, os.getpid(), device, jobs)
            process = context.Process(target=_lane, args=arguments)
            # our copy must be closed to detect when they end
            with theirs, children_ignoring_interrupts():
                process.start()
            processes.append(process)
        yield connections
    finally:
        for process in processes:
            process.terminate()
        for connection in connections:
            connection.close()
        patience = Clock()
        for process in processes:
            process.join(max(_PATIENCE - patience(), 0))
            if process.is_alive():
                process.kill()
                process.join()


def _shares(groups: Iterable[Group], lanes: int) -> list[deque[Group]]:
    """Distribute groups over lanes, largest first, to balance the work.

    Each lane starts with its smallest group, while the root of a large covariance is computed.
    """
    shares: list[deque[Group]] = [deque() for _ in range(lanes)]
    sizes = [0] * lanes
    for group in sorted(groups, key=_size, reverse=True):
        least = sizes.index(min(sizes))
        shares[least].appendleft(group)
        sizes[least] += _size(group)
    return shares


def _dealt(groups: Iterable[Group], connections: Sequence[Connection]) -> Iterator[JobResult]:
    """Send each process a group when it requests one; yield results.

    Processes request groups ahead of their work, so the order of requests does not reflect their
    load. Each has its own share, and takes groups from other shares when its own is finished.
    """
    shares = dict(zip(connections, _shares(groups, len(connections)), strict=True))
    has: dict[Connection, dict[Job, None]] = {each: {} for each in connections}
    while has:
        ready = wait(list(has))
        for connection in [each for each in has if each in ready]:
            try:
                result = connection.recv()
                if result is None:
                    share = shares[connection] or max(shares.values(), key=len)
                    group = share.popleft() if share else []
                    has[connection] |= dict.fromkeys(_jobs_of(group))
                    connection.send(group)
            except (EOFError, OSError):  # it has finished or died
                for job in has.pop(connection):
                    yield JobResult(job, None, error=_DIED)
                continue
            if result is not None:
                del has[connection][result.job]
                yield result
    for group in chain.from_iterable(shares.values()):  # no process was left to take it
        for job in _jobs_of(group):
            yield JobResult(job, None, error=_DIED)


def _jobs_of(group: Group) -> list[Job]:
    return [Job(config, seed) for seeds, config in group for seed in seeds]


def _lane(connection: Connection, parent: int, device: str, jobs: int) -> None:
    """Work on the groups received through the connection until there are no more."""
    exit_with_parent(parent)
    # SystemExit ends its own processes during clean-up
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    import torch  # noqa: F401  # so that pin_threads limits its threads as well

    pin_threads()

    def asked_for() -> Iterator[Group]:
        connection.send(None)
        while group := connection.recv():
            yield group
            connection.send(None)

    gone = suppress(EOFError, BrokenPipeError, ConnectionResetError)  # the parent has ended
    with gone, connection, closing(_work(asked_for(), device, jobs)) as results:
        for result in results:
            connection.send(result)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # about to end anyway


# ------------------------------------------------------------------------------------------------
# One process
# ------------------------------------------------------------------------------------------------


def _work(groups: Iterable[Group], device: str, jobs: int) -> Generator[JobResult]:
    """Work on groups of batches one after the other; yield results while the device continues."""
    with (
        ThreadPoolExecutor(1) as ahead,
        _processes(jobs) as workers,
        _own_stream(device),
    ):

        def draw_for(group: Group) -> Future[BatchData] | None:
            return ahead.submit(draw_batch, group[0][1], group[0][0], jobs) if group else None

        remaining = iter(groups)
        waiting: deque[Iterator[JobResult]] = deque()
        group = next(remaining, [])
        drawing = draw_for(group)
        while drawing is not None:
            # if drawing failed, it is attempted again below, where the error becomes a result
            data = None if drawing.exception() else drawing.result()
            following = next(remaining, [])
            drawing = draw_for(following)
            for seeds, config in group:
                waiting.append(_attempt_batch(config, seeds, data, workers))
                if len(waiting) > _WAITING:
                    yield from waiting.popleft()
            del data
            group = following
        yield from chain.from_iterable(waiting)


@contextmanager
def _own_stream(device: str) -> Iterator[None]:
    """Use a separate CUDA stream, so that work and drawing of data can overlap."""
    if not device.startswith("cuda"):
        yield
        return
    import torch

    with torch.cuda.stream(torch.cuda.Stream(device)):  # type: ignore[no-untyped-call]
        yield


def _attempt_batch(
    config: Configuration, seeds: Sequence[int], data: BatchData | None, workers: Executor | None
) -> Iterator[JobResult]:
    """Compute replications as a batch; if that fails, in halves, down to single replications.

    Returns when the device has finished; the iterator waits for the true risks.
    """
    clock = Clock()
    pending = problem = None
    try:
        data = draw_batch(config, seeds) if data is None else data
        pending = start_batch(config, data, workers)
    except Exception as error:
        problem = failed(Job(config, seeds[0]), error)
    del data
    seconds = clock() / len(seeds)
    if pending is not None:
        return _finished(config, seeds, pending, seconds)
    if len(seeds) == 1:
        assert problem is not None
        return iter([problem])
    # outside of the handler, which keeps the device memory of the failed attempt alive
    middle = len(seeds) // 2
    halves = (seeds[:middle], seeds[middle:])
    return chain(*(_attempt_batch(config, half, None, workers) for half in halves))


def _finished(
    config: Configuration, seeds: Sequence[int], pending: Sequence[Finish], seconds: float
) -> Iterator[JobResult]:
    for seed, finish in zip(seeds, pending, strict=True):
        job = Job(config, seed)
        try:
            result = done(job, finish(), seconds)
        except Exception as error:
            result = failed(job, error)
        yield result


@contextmanager
def _processes(count: int) -> Iterator[Executor | None]:
    """Start ``count`` processes for small tasks; none if 1, when this process does them itself."""
    if count == 1:
        yield None
        return
    processes = ProcessPoolExecutor(
        count, mp_context=_new_processes(), initializer=start_worker, initargs=(os.getpid(),)
    )
    try:
        yield processes
    finally:
        processes.shutdown(wait=True, cancel_futures=True)  # pending tasks are not needed


def _new_processes() -> Any:
    """Return a context whose processes do not import the caller's script, unlike "spawn"."""
    from joblib.externals.loky.backend.context import get_context

    return get_context("loky")
