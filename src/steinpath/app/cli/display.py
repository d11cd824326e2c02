"""Progress and results on the console."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from steinpath._support.messages import worded
from steinpath._support.printing import printable
from steinpath._support.progress import Step, listener, make_bars
from steinpath.app.cli.entry import handling
from steinpath.app.cli.words import option


class Display:
    """Progress bars on a terminal; nothing elsewhere.

    While it is active, the first Ctrl-C or SIGTERM requests to stop with what is finished. A second
    one, or the first one if nothing is finished yet, aborts.

    `enough` tells whether a stop was requested.
    """

    def __init__(self) -> None:
        self.enough = self._begun = False
        self.console = Console(stderr=True)
        self._bars = make_bars(
            console=self.console, transient=True, disable=not self.console.is_terminal
        )

    def begin(self, what: str, steps: int) -> Step:
        """Show a new task; see `steinpath._support.progress`."""
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
        if not self._bars.disable:  # rich before 14 prints a line for disabled bars, too
            self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        if not self._bars.disable:
            self._bars.stop()
        listener.reset(self._token)
        self._signals.close()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.enough or not self._begun:
            self._stop(number, frame)
        self.enough = True
        self.console.print("Stopping; finished results are kept (Ctrl-C again to abort).")


def make_console(quiet: bool = False) -> Console:
    """Return a console as wide as the terminal, or of width 120 for a file."""
    width = None if sys.stdout.isatty() else 120
    # a column may be named :heart:
    return Console(quiet=quiet, width=width, emoji=False)


def print_table(
    console: Console,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    left: int = 0,
    bold: int | None = None,
) -> None:
    """Print `left` columns of text, and columns of numbers after them, with one row in bold."""
    table = Table(*head, box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(head))
    for k, column in enumerate(table.columns):
        column.justify, column.no_wrap = "left" if k < left else "right", True
    for k, row in enumerate(rows):
        table.add_row(*row, style="bold" if k == bold else None)
    console.print(table)


def shown(name: str, width: int = 40) -> str:
    """Return a name from the data for display: on one line, and shortened if necessary."""
    plain = printable(name).replace("\n", "\N{REPLACEMENT CHARACTER}")
    return escape(plain if len(plain) <= width else f"{plain[: width - 1]}…")


def say(console: Console, text: str, **options: Any) -> None:
    """Print text literally, since it may contain names from the data."""
    console.print(printable(text), markup=False, highlight=False, **options)


def print_warnings(console: Console, warnings: Iterable[str]) -> None:
    """Print warnings about an estimate, in the words of the command."""
    for warning in warnings:
        say(console, f"Warning: {worded(warning, option)}.", style="yellow")
