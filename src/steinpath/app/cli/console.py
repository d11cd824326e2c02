"""Progress and results of the commands on the console."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from steinpath._support.messages import worded
from steinpath._support.printing import number, printable, to_digits_of, with_error
from steinpath._support.progress import Step, listener, make_bars
from steinpath.app import FDR, LEVEL
from steinpath.app.cli.commands import option
from steinpath.app.cli.entry import handling
from steinpath.app.fitted import FitIntervals, Fitted, count_shown
from steinpath.app.report.build import Result, facts

# Numbers of coefficients and of intervals that are printed; the files have all.
_SHOWN, _SHOWN_INTERVALS = 10, 20
# Classes whose tables fit in a terminal.
_MOST_CLASSES = 12
_UNKNOWN = "–"


class Display(ExitStack):
    """Progress bars on a terminal; nothing elsewhere.

    While it is active, the first Ctrl-C or SIGTERM requests to stop with what is finished. A second
    one, or the first one if nothing is finished yet, aborts.

    `enough` tells whether a stop was requested.
    """

    def __init__(self) -> None:
        super().__init__()
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
        before = signal.getsignal(signal.SIGINT)
        self._stop = before if callable(before) else signal.default_int_handler
        for each in (signal.SIGINT, signal.SIGTERM):
            self.enter_context(handling(each, self._interrupt))
        self.callback(listener.reset, listener.set(self.begin))
        if not self._bars.disable:  # rich before 14 prints a line for disabled bars, too
            self.enter_context(self._bars)
        return self

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


def print_result(console: Console, command: str, result: Result) -> None:
    """Print what ``fit``, ``tune`` or ``compare`` found."""
    (_print_fit if command == "fit" else _print_ranks)(console, result)
    if command == "tune":
        _print_grid(console, result)
    if result.intervals is not None:
        _print_intervals(console, result.intervals, result.fitted.main.n_iter_)
    say(console, result.fitted.ended("--n-iter"))
    for note in result.notes:
        say(console, f"Note: {note}.")
    if command == "compare":
        console.print("To save the best model, use `steinpath tune`.")


def _print_fit(console: Console, result: Result) -> None:
    """Print the key figures and the largest coefficients."""
    fitted = result.fitted
    console.print(f"{shown(result.target)}: {fitted.words}", style="bold")
    print_warnings(console, fitted.estimator.warnings_)
    print_table(console, ["", ""], facts(fitted), left=1)
    say(console, f"{fitted.meaning_of_error}.")
    if fitted.levels:
        _print_levels(console, fitted)
    if (k := len(fitted.classes)) > _MOST_CLASSES:
        say(console, f"The confusion matrix of the {k} classes is in report.html.")
        say(console, "Their coefficients are in model.json.")
        return
    if fitted.classes:
        _print_confusion(console, fitted)
    count = _print_coefficients(console, fitted)
    if count > _SHOWN:
        console.print(f"… and {count - _SHOWN} more, in model.json")
    if fitted.log_target:
        say(console, "Coefficients are for the logarithm of the target.")
    if fitted.caption:
        say(console, f"{fitted.caption[0].upper()}{fitted.caption[1:]}.")


def _print_levels(console: Console, fitted: Fitted) -> None:
    """Print the terms that were compared."""
    rows, bold = [], [level.selected for level in fitted.levels].index(True)
    for level in fitted.levels:
        difference = with_error(level.difference, level.difference_stderr, signed=True)
        cells = with_error(level.risk, level.stderr), difference if level.difference > 0 else ""
        rows.append([level.words, str(level.n_features), *cells, "*" if level.selected else ""])
    say(
        console,
        f"{fitted.scored_by.capitalize()} by terms (* selected; not adjusted for the selection):",
    )
    print_table(console, ("terms", "features", "risk", "difference", ""), rows, left=1, bold=bold)


def _print_confusion(console: Console, fitted: Fitted) -> None:
    """Print the confusion matrix of held-out rows."""
    head = ["actual", *(shown(f"→ {label}", 14) for label in fitted.classes), "correct"]
    rows = []
    for k, counts in enumerate(fitted.estimator.confusion_):
        share = f"{counts[k] / counts.sum():.0%}" if counts.sum() else ""
        rows.append([shown(fitted.classes[k], 24), *map(count_shown, counts.tolist()), share])
    say(console, "Confusion matrix of held-out rows (→ predicted class):")
    print_table(console, head, rows, left=1)


def _print_coefficients(console: Console, fitted: Fitted) -> int:
    """Print the largest coefficients; return the number of features with any."""
    models = [fitted.coefficients(each) for each in fitted.models]
    effects = np.stack([each.effects for each in models])
    largest = np.argsort(-np.abs(effects).max(axis=0), kind="stable")[:_SHOWN]
    head, rows = ["feature", "coefficient", "per s.d."], []
    if fitted.several:
        head = ["per s.d.", *(shown(label, 14) for label in fitted.labels)]
    for j in (j for j in largest if effects[:, j].any()):
        cells = [number(value, 3, "+") if value else "0" for value in effects[:, j]]
        cells = cells if fitted.several else [number(models[0].coef[j]), *cells]
        rows.append([shown(models[0].names[j]), *cells])
    if rows:
        print_table(console, head, rows, left=1)
    return int(effects.any(axis=0).sum())


def _print_grid(console: Console, result: Result) -> None:
    """Print the alpha grid of the best model."""
    fitted, tuning = result.fitted, result.fitted.tuning
    rows = []
    for k, (alpha, risk) in enumerate(zip(fitted.main.alphas_, tuning.risks, strict=True)):
        selected = k == tuning.best[0]
        t = tuning.best_iter if selected else risk.best_iter
        difference = "selected" if selected else ""
        if tuning.settled[k] and not selected:  # others are not comparable
            difference = with_error(*tuning.compare((k, t), tuning.best))
        estimate = with_error(float(risk.values[t]), float(risk.stderr[t]))
        count = int((risk.path.coef[t] != 0).sum())
        rows.append([number(alpha, 3), str(t), str(count), estimate, difference])
    of = f" {fitted.main_label!r:.60} vs rest, {fitted.scored_by}," if fitted.several else ""
    say(console, f"The best model, {fitted.words},{of} by alpha (not adjusted for selection):")
    head = "alpha", "best iteration", "nonzeros", "risk", "difference"
    print_table(console, head, rows, bold=tuning.best[0])
    if not tuning.settled.all():
        console.print("Values of alpha without a difference were screened out by a rough estimate.")


def _print_ranks(console: Console, result: Result) -> None:
    """Print the losses and penalties, the best first."""
    fitted = result.fitted
    console.print(f"{shown(result.target)}: expected {fitted.words_of(result.score)}", style="bold")
    print_warnings(console, fitted.estimator.warnings_)
    head = ("loss", "penalty", "alpha", "iteration", "nonzeros", "risk", "difference")
    rows = []
    for k, row in enumerate(result.ranking):
        behind = with_error(row.behind, row.behind_stderr) if k else ""
        numbers = number(row.alpha, 3), str(row.iterate), str(row.nonzeros)
        rows.append([row.loss, row.penalty, *numbers, with_error(row.risk, row.stderr), behind])
    print_table(console, head, rows, left=2, bold=0)
    say(console, f"{fitted.meaning_of_error}.")
    if len(result.ranking) > 1:
        say(console, "It is not adjusted for the selection among losses and penalties.")


def _print_intervals(console: Console, intervals: FitIntervals, n_iter: int) -> None:
    """Print the intervals with the smallest p-values, and their assumptions."""
    found = intervals.found
    what = f"{LEVEL:.0%} confidence intervals for the coefficients{found.up_to_a_factor}"
    say(console, f"{what}, from iteration {found.t} of {n_iter}:")
    head, rows = ("feature", "estimate", "std. error", "lower", "upper", "p-value", ""), []
    for row in intervals.by_evidence[:_SHOWN_INTERVALS]:
        cells = [to_digits_of(value, row.stderr) for value in row[1:5]]
        cells = [*cells, row.short_pvalue] if row.identified else [_UNKNOWN] * 5
        rows.append([shown(row.name), *cells, "*" if row.significant else ""])
    print_table(console, head, rows, left=1)
    if len(intervals.rows) > _SHOWN_INTERVALS:
        console.print(f"… and {len(intervals.rows) - _SHOWN_INTERVALS} more, in intervals.csv")
    procedure = "by the Benjamini–Hochberg procedure"
    say(console, f"* significant {procedure}, false discovery rate {FDR:.0%}.")
    say(console, intervals.assumptions)
    print_warnings(console, intervals.warnings)
    for note in intervals.notes:
        say(console, f"Note: {note}.")
