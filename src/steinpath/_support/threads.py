"""Threads: how many the BLAS may use, and runs side by side where each has one.

Two threads that share a small product wait for each other longer than they work, and much longer
beside another busy process. Large work is better cut into parts that know nothing of each other.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from threadpoolctl import ThreadpoolController

# Multiplications of a product from which on a second thread pays: some ten milliseconds.
_LARGE_PRODUCT = 2e8

Item = TypeVar("Item")
Result = TypeVar("Result")


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def blas_threads() -> int:
    """Return how many threads the BLAS may use here: by the machine, or by who called."""
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
    if multiplications >= _LARGE_PRODUCT:
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        yield


def in_threads(
    function: Callable[[Item], Result], items: Sequence[Item], threads: int
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
    """
    if threads <= 1 or len(items) <= 1:
        return [function(item) for item in items]
    with (
        _controller().limit(limits=1, user_api="blas"),
        ThreadPoolExecutor(min(threads, len(items))) as pool,
    ):
        # who listens to progress or warnings is known to the context
        tasks = [pool.submit(contextvars.copy_context().run, function, item) for item in items]
        try:
            return [task.result() for task in tasks]
        except BaseException:
            for task in tasks:
                task.cancel()
            raise
