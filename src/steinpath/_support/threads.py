"""Threads: how many the BLAS may use, and runs side by side where each has one.

Two threads that share a small product wait for each other longer than they work, and much longer
beside another busy process. Large work is better cut into parts that know nothing of each other.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TypeVar

from threadpoolctl import ThreadpoolController

# Multiplications of a product from which on a second thread pays: some ten milliseconds.
_LARGE_PRODUCT = 2e8

Item = TypeVar("Item")
Result = TypeVar("Result")


# Threads for parts that run side by side, where the BLAS itself was told to use one.
_parts: ContextVar[int | None] = ContextVar("parts", default=None)


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def threads_allowed() -> int:
    """Return how many threads there may be here: as many as the BLAS may use, by who called."""
    known = _parts.get()
    if known is not None:
        return known
    if not _is_main():  # who started this thread has others
        return 1
    pools = _controller().select(user_api="blas").info()
    return max([int(pool["num_threads"]) for pool in pools], default=1)


@contextmanager
def one_thread_unless(multiplications: float) -> Iterator[None]:
    """Let the BLAS use one thread, unless its products have so many multiplications that more pay.

    Parameters
    ----------
    multiplications : float
        Of each product, about.
    """
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
    """Whether this is the main thread, which alone may set limits: they are the whole process's.

    Two threads that set them side by side would not restore what was there before.
    """
    return threading.current_thread() is threading.main_thread()


def in_threads(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    threads: int,
    give_up: Callable[[], None] | None = None,
) -> list[Result]:
    """Call a function with each item, in so many threads, in each of which the BLAS uses one.

    Parameters
    ----------
    function : callable
        It spends its time in NumPy, which lets other threads work meanwhile.
    items : sequence
        Its arguments.
    threads : int
        How many calls there may be at a time.
    give_up : callable, optional
        Called if one of them fails, or is interrupted: the others are waited for.
    """
    if threads <= 1 or len(items) <= 1:
        return [function(item) for item in items]

    def alone(item: Item) -> Result:
        _parts.set(1)  # in a context of its own
        return function(item)

    with (
        _controller().limit(limits=1, user_api="blas"),
        ThreadPoolExecutor(min(threads, len(items))) as pool,
    ):
        # who listens to progress or warnings is known to the context
        tasks = [pool.submit(copy_context().run, alone, item) for item in items]
        try:
            return [task.result() for task in tasks]
        except BaseException:
            for task in tasks:
                task.cancel()
            if give_up is not None:
                give_up()
            raise
