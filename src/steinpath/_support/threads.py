"""Threads and worker processes: limits for the BLAS, and tasks side by side on one thread each.

Two threads that share a small product wait for each other longer than they compute, in particular
beside another busy process. It is faster to split large work into independent parts.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TypeVar

from threadpoolctl import ThreadpoolController, threadpool_limits

# Number of multiplications from which on a second thread pays off: some ten milliseconds.
_LARGE_PRODUCT = 2e8

Item = TypeVar("Item")
Result = TypeVar("Result")

# Threads for parts that run side by side while the BLAS itself is limited to one.
_parts: ContextVar[int | None] = ContextVar("parts", default=None)


_controller = functools.cache(ThreadpoolController)


def threads_allowed() -> int:
    """Return the number of threads available to the caller: as many as the BLAS may use."""
    if (known := _parts.get()) is not None:
        return known
    if not _is_main():  # the thread that started this one uses the others
        return 1
    pools = _controller().select(user_api="blas").info()
    return max([int(pool["num_threads"]) for pool in pools], default=1)


def threads_of_tasks(multiplications: float) -> int:
    """Return the number of threads for tasks of many steps with products of this size.

    More than two would wait for the interpreter; and large products use all threads.
    """
    return min(threads_allowed(), 2) if multiplications < _LARGE_PRODUCT else 1


@contextmanager
def one_thread_unless(multiplications: float) -> Iterator[None]:
    """Limit the BLAS to one thread unless products have many multiplications each."""
    if multiplications >= _LARGE_PRODUCT or not _is_main():
        yield
        return
    token = _parts.set(threads_allowed())
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _parts.reset(token)


def _is_main() -> bool:
    """Whether this is the main thread: limits set by several would not be restored."""
    return threading.current_thread() is threading.main_thread()


def in_threads(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    threads: int,
    give_up: Callable[[], None] | None = None,
) -> list[Result]:
    """Call a function, which spends its time in NumPy, with each item in up to ``threads`` threads.

    ``give_up`` is called if a call fails or is interrupted; running calls are waited for.
    """
    if threads <= 1 or len(items) <= 1:
        return [function(item) for item in items]

    def alone(item: Item) -> Result:
        _parts.set(1)  # in this call's own context
        return function(item)

    with (
        _controller().limit(limits=1, user_api="blas"),
        ThreadPoolExecutor(min(threads, len(items))) as pool,
    ):
        # the context carries the listeners of progress and warnings
        tasks = [pool.submit(copy_context().run, alone, item) for item in items]
        try:
            return [task.result() for task in tasks]
        except BaseException:
            for task in tasks:
                task.cancel()
            if give_up is not None:
                give_up()
            raise


@functools.cache
def pin_threads() -> None:
    """Limit this worker process to one thread for its lifetime."""
    threadpool_limits(1)


def exit_with_parent(parent: int) -> None:
    """Exit soon after the parent process does; Ctrl-C is left to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
