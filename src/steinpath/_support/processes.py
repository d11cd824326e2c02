"""Worker processes: they exit with their parent and use one thread each."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import lru_cache

from threadpoolctl import threadpool_limits


@lru_cache(maxsize=1)
def pin_threads() -> None:
    """Limit this worker process to one thread for its lifetime."""
    threadpool_limits(1)


def exit_with_parent(parent: int) -> None:
    """Exit soon after the parent process does, even if it was killed.

    Ctrl-C in a terminal reaches both processes; the parent decides what to do.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
