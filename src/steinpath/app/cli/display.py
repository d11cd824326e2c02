"""What a person sees while a command works, and when it is done."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from steinpath._support.printing import printable
from steinpath._support.progress import Step, listener, make_bars
from steinpath.app.cli.entry import handling


class Display:
    """A bar for each part of the work, on a terminal; elsewhere nothing.

    Within it, Ctrl-C or SIGTERM asks the work to make do with what is finished; a second one ends
    it, and so does the first one where nothing is finished yet.

    Attributes
    ----------
    enough : bool
        Whether that has happened.
    """

    def __init__(self) -> None:
        self.enough = self._begun = False
        self.console = Console(stderr=True)
        self._bars = make_bars(
            console=self.console, transient=True, disable=not self.console.is_terminal
        )

    def begin(self, what: str, steps: int) -> Step:
        """Show that something begins; see `steinpath._support.progress`."""
        for task in self._bars.tasks:
            if task.finished or task.total is None:
                self._bars.remove_task(task.id)
        shown = self._bars.add_task(printable(what), total=steps or None)

        def step() -> bool:
            self._begun = True
            self._bars.advance(shown)
            return self.enough

        return step

    def __enter__(self) -> Display:
        self._token = listener.set(self.begin)
        self._signals = ExitStack()
        before = signal.getsignal(signal.SIGINT)
        self._stop = before if callable(before) else signal.default_int_handler
        for number in (signal.SIGINT, signal.SIGTERM):
            self._signals.enter_context(handling(number, self._interrupt))
        if not self._bars.disable:  # rich before 14 ends also what it does not show by a line
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._bars.disable:
            self._bars.stop()
        listener.reset(self._token)
        self._signals.close()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.enough or not self._begun:
            self._stop(number, frame)
        self.enough = True
        self.console.print("Stopping: making do with what is finished (Ctrl-C again to give up).")


def make_console(quiet: bool = False) -> Console:
    """Return where to print results: as wide as the terminal, and wide enough for any file."""
    width = None if sys.stdout.isatty() else 120
    # a column may well be called :heart:
    return Console(quiet=quiet, width=width, emoji=False)


def make_table(*head: str, left: int = 0) -> Table:
    """Return a table of numbers, after so many columns of words."""
    table = Table(*map(escape, head), box=box.SIMPLE_HEAD, pad_edge=False)
    for k, column in enumerate(table.columns):
        column.justify, column.no_wrap = "left" if k < left else "right", True
    return table


def shown(name: str, width: int = 40) -> str:
    """Return a name from the data as it can be shown: on one line, and not too long."""
    plain = printable(name).replace("\n", "\N{REPLACEMENT CHARACTER}")
    return escape(plain if len(plain) <= width else f"{plain[: width - 1]}…")


def say(console: Console, text: str, **options: Any) -> None:
    """Print text that has names in it which are not ours, literally."""
    console.print(printable(text), markup=False, highlight=False, **options)


def print_warnings(console: Console, warnings: Iterable[str]) -> None:
    """Print reasons not to trust an estimate."""
    for warning in warnings:
        say(console, f"Warning: {warning}.", style="yellow")
