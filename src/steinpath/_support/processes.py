"""What processes that work for another one have in common: they end with it, on one thread each."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from threadpoolctl import threadpool_limits


@lru_cache(maxsize=1)
def pin_threads() -> None:
    """Limit this process, a worker, to one thread for good: its threads may share the setting."""
    threadpool_limits(1)


def leave_with(parent: int) -> None:
    """End this process soon after the one that started it, which may have been killed.

    Ctrl-C on a terminal reaches both; what is to be done then, the other one knows.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def begin_with(parent: int) -> None:
    """Begin a worker of small tasks: it ends with the process that started it, and has a thread."""
    leave_with(parent)
    pin_threads()


@contextmanager
def deaf_children() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach, even while they are importing modules."""
    if not hasattr(signal, "pthread_sigmask"):  # not POSIX
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
