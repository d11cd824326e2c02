"""Replications in batches on a device: by this process, or by several that share the device.

One process is busy with Python for longer than a large GPU is with the arithmetic. Several, called
lanes, keep it at work: each asks for groups of batches that share their data, draws those of the
next group while it works on the present one, has processes of its own that compute true risks, and
sends what is done to the process that started it.
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
from steinpath.study._settings import Setting
from steinpath.study._store import StudyError

#: Batches of several settings that share their data: seeds and setting of each.
Group = list[tuple[tuple[int, ...], Setting]]

# Processes that share a GPU, and what makes them worth their start.
_LANES, _LEAST_JOBS, _LEAST_BATCHES = 3, 4, 6
# Seconds that they have to end their own processes.
_PATIENCE = 5
# Batches of a lane that may wait for their true risks while the device goes on.
_WAITING = 2

_DIED = f"the process that worked on the device died (of memory, perhaps: {FEWER})"


def in_batches(todo: Sequence[Job], jobs: int, lanes: int | None = None) -> Generator[JobResult]:
    """Do replications on a device, many of a setting at once; yield each when it is done.

    Parameters
    ----------
    todo : sequence of Job
        What to do, on one backend and device.
    jobs : int
        Threads that draw data, and processes that compute true risks, while the device works.
    lanes : int, optional
        Processes that share the device; with 0 this process does it all. By default as many as
        keep a GPU busy, if there is enough to do and there are jobs enough, and 0 otherwise.
    """
    seeds: dict[Setting, list[int]] = {}
    for setting, seed in todo:
        seeds.setdefault(setting, []).append(seed)
    device = todo[0].setting.device
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
    # they start, which takes seconds, while we import torch and look at the device
    with _started(lanes, device, max(jobs // lanes, 1)) as connections:
        _check_device(device)
        yield from _dealt(_groups(seeds, lanes), connections)


def _check_device(device: str) -> None:
    """Refuse a device that this machine does not have."""
    import torch

    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:  # torch says either of a missing device
        raise StudyError(f"torch cannot use the device {device!r}: {error}") from None


def _groups(seeds: dict[Setting, list[int]], lanes: int) -> list[Group]:
    """Return batches that fit on the device together; what shares its data comes together."""
    chunks = [
        (tuple(those[i : i + size]), setting)
        for setting, those in seeds.items()
        for size in [most_members(setting, lanes)]
        for i in range(0, len(those), size)
    ]

    def data_of(chunk: tuple[tuple[int, ...], Setting]) -> tuple[Any, ...]:
        return chunk[0], law(chunk[1])

    return [list(group) for _, group in groupby(sorted(chunks, key=data_of), data_of)]


def _size(group: Group) -> int:
    return sum(len(those) * setting.n * setting.p for those, setting in group)


# ------------------------------------------------------------------------------------------------
# Several processes
# ------------------------------------------------------------------------------------------------


@contextmanager
def _started(lanes: int, device: str, jobs: int) -> Iterator[list[Connection]]:
    """Start processes that share a device; they end when this does, whatever they are doing."""
    context = _new_processes()
    connections, processes = [], []
    try:
        for _ in range(lanes):
            ours, theirs = context.Pipe()
            connections.append(ours)
            arguments = (theirs, os.getpid(), device, jobs)
            process = context.Process(target=_lane, args=arguments)
            with (
                theirs,
                children_ignoring_interrupts(),
            ):  # with our copy closed, we are told when they end
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
    """Share out groups, the large ones first, so that all have about as much to do.

    Each begins with its smallest: meanwhile, the root of a large covariance is found.
    """
    shares: list[deque[Group]] = [deque() for _ in range(lanes)]
    sizes = [0] * lanes
    for group in sorted(groups, key=_size, reverse=True):
        least = sizes.index(min(sizes))
        shares[least].appendleft(group)
        sizes[least] += _size(group)
    return shares


def _dealt(groups: Iterable[Group], connections: Sequence[Connection]) -> Iterator[JobResult]:
    """Give each process a group when it asks for one; yield what they have done.

    They ask for one ahead of their work, so that who asks first is not who has least to do: each
    has its share, and goes on with those of others when it is through with that.
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
            except (EOFError, OSError):  # it has finished, or it died
                for job in has.pop(connection):
                    yield JobResult(job, None, error=_DIED)
                continue
            if result is not None:
                del has[connection][result.job]
                yield result
    for group in chain.from_iterable(shares.values()):  # for which there was nobody left
        for job in _jobs_of(group):
            yield JobResult(job, None, error=_DIED)


def _jobs_of(group: Group) -> list[Job]:
    return [Job(setting, seed) for seeds, setting in group for seed in seeds]


def _lane(connection: Connection, parent: int, device: str, jobs: int) -> None:
    """Do what the process at the other end has to do, until there is no more."""
    exit_with_parent(parent)
    # the exception ends its own processes on its way
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    import torch  # noqa: F401  # whose threads are to be limited, too

    pin_threads()

    def asked_for() -> Iterator[Group]:
        connection.send(None)
        while group := connection.recv():
            yield group
            connection.send(None)

    gone = suppress(EOFError, BrokenPipeError, ConnectionResetError)  # nobody is there any more
    with gone, connection, closing(_work(asked_for(), device, jobs)) as results:
        for result in results:
            connection.send(result)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # we are about to end


# ------------------------------------------------------------------------------------------------
# One process
# ------------------------------------------------------------------------------------------------


def _work(groups: Iterable[Group], device: str, jobs: int) -> Generator[JobResult]:
    """Do groups of batches, one after the other; yield results while the device has more to do."""
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
            # what cannot be drawn fails again, and is then a result
            data = None if drawing.exception() else drawing.result()
            following = next(remaining, [])
            drawing = draw_for(following)
            for seeds, setting in group:
                waiting.append(_attempt_batch(setting, seeds, data, workers))
                if len(waiting) > _WAITING:
                    yield from waiting.popleft()
            del data
            group = following
        yield from chain.from_iterable(waiting)


@contextmanager
def _own_stream(device: str) -> Iterator[None]:
    """Let a GPU work for this thread while it draws data for another one."""
    if not device.startswith("cuda"):
        yield
        return
    import torch

    with torch.cuda.stream(torch.cuda.Stream(device)):  # type: ignore[no-untyped-call]
        yield


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
        problem = failed(Job(setting, seeds[0]), error)
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
            result = done(job, finish(), seconds)
        except Exception as error:
            result = failed(job, error)
        yield result


@contextmanager
def _processes(count: int) -> Iterator[Executor | None]:
    """Start so many processes for small tasks; none for one, since then we do them ourselves."""
    if count == 1:
        yield None
        return
    processes = ProcessPoolExecutor(
        count, mp_context=_new_processes(), initializer=start_worker, initargs=(os.getpid(),)
    )
    try:
        yield processes
    finally:
        processes.shutdown(wait=True, cancel_futures=True)  # nobody waits for what has not begun


def _new_processes() -> Any:
    """Return what starts processes that do not import the caller's script, as spawned ones do."""
    from joblib.externals.loky.backend.context import get_context

    return get_context("loky")
