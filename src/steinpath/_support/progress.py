"""Progress reports of long computations, and requests to stop them early.

Every iterate of a path, and every path of several, is a result of its own, so work that is stopped
early still returns what was computed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    """Announce a task (0 steps: unknown), and return what to call after each of its steps."""
    listens = listener.get()
    return (lambda: False) if listens is None else listens(what, steps)


class Lines:
    """A listener that prints a line for each stage, and with ``verbose`` of 2 for its tenths."""

    def __init__(self, name: str, verbose: int, inner: Listener | None = None):
        self._name, self._verbose, self._inner = name, verbose, inner
        self._pending: Callable[[], None] | None = None

    def __call__(self, what: str, steps: int) -> Step:
        """Print the previous stage, and begin a new one."""
        self.end()
        start, done = time.monotonic(), 0
        inner = None if self._inner is None else self._inner(what, steps)

        def show() -> None:
            count = f" ({done}/{max(steps, done)})" if steps or done else ""
            self.tell(f"{what}{count}, total={time.monotonic() - start:6.1f}s")

        def step() -> bool:
            nonlocal done
            done += 1
            if self._verbose > 1 and done < steps and 10 * done // steps > 10 * (done - 1) // steps:
                show()
            return inner is not None and inner()

        self._pending = show
        return step

    def tell(self, message: str) -> None:
        """Print a message."""
        print(f"[{self._name}] {message}", flush=True)

    def end(self) -> None:
        """Print the stage under way, if there is one."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending()


def tell(message: str) -> None:
    """Print a message if progress is printed; see `printing`."""
    listens = listener.get()
    if isinstance(listens, Lines):
        listens.end()
        listens.tell(message)


@contextmanager
def printing(verbose: Any, name: str) -> Iterator[None]:
    """Print progress to standard output in a ``with`` block, unless ``verbose`` is 0."""
    from steinpath._support.validation import check_count  # NumPy, which clocks do not need

    level = int(verbose) if isinstance(verbose, bool) else check_count("verbose", verbose, low=0)
    if not level:
        yield
        return
    lines = Lines(name, level, listener.get())
    token = listener.set(lines)
    try:
        yield
        lines.end()
    finally:
        listener.reset(token)


def make_bars(**options: Any) -> Progress:
    """Return progress bars for a terminal, with a description, the share done and the time left."""
    from rich import progress

    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(elapsed_when_finished=True),
        **options,
    )
