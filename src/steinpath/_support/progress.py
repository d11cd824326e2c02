"""Long work tells whoever listens how far it is, and may be told that this is enough.

Every iterate of a path, and every path of several, is a result of its own: work that is cut short
is shorter, not lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

#: Told that one more step is done; True says that it is enough.
Step = Callable[[], bool]
#: Told what begins and of how many steps it is (0 where nobody knows).
Listener = Callable[[str, int], Step]

listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def begin(what: str, steps: int) -> Step:
    """Announce some work; what is returned is to be called after each step of it.

    Parameters
    ----------
    what : str
        What begins.
    steps : int
        Number of its steps, 0 where nobody knows.
    """
    listens = listener.get()
    return _on if listens is None else listens(what, steps)


class Clock:
    """Tells the seconds since it was made, never fewer than before.

    The machine's clock may go back, where a virtual one is moved or has slept: that time does not
    count.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a handler of Ctrl-C may ask while it is being asked
        self._seconds, self._before = 0.0, time.monotonic()

    def __call__(self) -> float:
        with self._lock:
            now = time.monotonic()
            self._seconds += max(now - self._before, 0.0)
            self._before = now
            return self._seconds


def make_bars(**options: Any) -> Progress:
    """Return bars for a terminal: what is going on, how much of it is done, the time left.

    Parameters
    ----------
    **options
        Of `rich.progress.Progress`, which is imported when there is something to show.
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
