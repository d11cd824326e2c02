"""Progress reports of long computations, and requests to stop them early.

Every iterate of a path, and every path of several, is a result of its own, so work that is stopped
early still returns what was computed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

#: Called after each step; returning True requests a stop.
Step = Callable[[], bool]
#: Called with a description of the work and its number of steps (0 if unknown).
Listener = Callable[[str, int], Step]

listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def begin(what: str, steps: int) -> Step:
    """Announce a task and return the function to call after each of its steps.

    Parameters
    ----------
    what : str
        Description of the task.
    steps : int
        Number of steps, 0 if unknown.
    """
    listens = listener.get()
    return _on if listens is None else listens(what, steps)


class Clock:
    """Monotonic clock: seconds since it was created.

    The system clock may go back, for example when a virtual machine is moved or suspended; that
    time is ignored.
    """

    def __init__(self) -> None:
        self._lock = (
            threading.RLock()
        )  # re-entrant: a Ctrl-C handler may read the clock during a reading
        self._seconds, self._before = 0.0, time.monotonic()

    def __call__(self) -> float:
        with self._lock:
            now = time.monotonic()
            self._seconds += max(now - self._before, 0.0)
            self._before = now
            return self._seconds


def make_bars(**options: Any) -> Progress:
    """Return progress bars for a terminal, with a description, the share done and the time left.

    Parameters
    ----------
    **options
        Passed to `rich.progress.Progress`, which is imported only when needed.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        get_time=Clock(),
        **options,
    )


def _on() -> bool:
    return False
