"""Long work tells whoever listens how far it is, and may be told that this is enough.

Every iterate of a path, and every path of several, is a result of its own: work that is cut short
is shorter, not lost.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

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


def _on() -> bool:
    return False
