"""Progress of a study: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console

from steinpath._support.progress import Clock, make_bars


class Advance(Protocol):
    """Reports one more item as finished."""

    def __call__(self) -> None: ...


@contextmanager
def progress(title: str, done: int, total: int, console: Console) -> Iterator[Advance]:
    """Show progress.

    Parameters
    ----------
    title : str
        Title of the bar.
    done, total : int
        Number of items already finished, and in total.
    console : rich.console.Console
        Console to print on.
    """
    if not console.is_terminal:
        yield _Lines(title, done, total, console)
        return
    with make_bars(console=console, speed_estimate_period=120) as bar:
        task = bar.add_task(title, total=total, completed=done)
        yield lambda: bar.advance(task)


class _Lines:
    """Prints a line for every 5% of the work, and every minute."""

    def __init__(self, title: str, done: int, total: int, console: Console):
        self.title, self.done, self.total, self.console = title, done, total, console
        self.before, self.clock = done, Clock()
        self.said, self.when = done, 0.0

    def __call__(self) -> None:
        self.done += 1
        now = self.clock()
        last = self.done == self.total
        if not last and 20 * (self.done - self.said) < self.total and now - self.when < 60:
            return
        self.said, self.when = self.done, now
        each = now / (self.done - self.before)
        left = each * (self.total - self.done)
        rest = f"done in {now:.0f} s" if last else f"{_duration(left)} left"
        self.console.print(f"{self.title}: {self.done} of {self.total}, {rest}", highlight=False)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
