"""Results of the commands on the console."""

from __future__ import annotations

import numpy as np
from rich.console import Console

from steinpath._support.messages import worded
from steinpath._support.printing import to_digits_of, with_error
from steinpath.app.cli.display import make_table, print_warnings, say, shown
from steinpath.app.cli.outputs import Result
from steinpath.app.cli.words import option
from steinpath.app.defaults import FDR, LEVEL
from steinpath.app.fitted import Fitted
from steinpath.app.intervals import FitIntervals, Interval
from steinpath.app.report.build import facts

# Numbers of coefficients and of intervals that are printed; the files have all.
_SHOWN, _SHOWN_INTERVALS = 10, 20
_UNKNOWN = "–"


def print_fit(console: Console, result: Result) -> None:
    """Print the key figures and the largest coefficients."""
    fitted = result.fitted
    console.print(f"{shown(result.target)}: {fitted.words}", style="bold")
    _print_warnings(console, fitted)
    table = make_table("", "", left=1)
    table.show_header = False
    for what, value in facts(fitted):
        table.add_row(what, value)
    console.print(table)
    say(console, f"{fitted.meaning_of_error}.")
    if fitted.classes:
        _print_confusion(console, fitted)
    count = _print_coefficients(console, fitted)
    if count > _SHOWN:
        console.print(f"… and {count - _SHOWN} more, in model.json")
    if fitted.caption:
        say(console, f"{fitted.caption[0].upper()}{fitted.caption[1:]}.")
    _print_rest(console, result)


def _print_warnings(console: Console, fitted: Fitted) -> None:
    print_warnings(console, [worded(warning, option) for warning in fitted.warnings])


def _print_confusion(console: Console, fitted: Fitted) -> None:
    """Print the confusion matrix of held-out rows."""
    head = ["actual", *(shown(f"→ {label}", 14) for label in fitted.classes), "correct"]
    table = make_table("", *[""] * (len(head) - 1), left=1)
    for column, title in zip(table.columns, head, strict=True):
        column.header = title
    for k, (label, counts) in enumerate(
        zip(fitted.classes, fitted.estimator.confusion_, strict=True)
    ):
        share = f"{counts[k] / counts.sum():.0%}" if counts.sum() else ""
        table.add_row(shown(label, 24), *map(str, counts.tolist()), share)
    say(console, "Confusion matrix of held-out rows (→ predicted class):")
    console.print(table)


def _print_coefficients(console: Console, fitted: Fitted) -> int:
    """Print the largest coefficients; return the number of features with any."""
    models = [fitted.coefficients(each) for each in fitted.models]
    effects = np.stack([each.effects for each in models])
    largest = np.argsort(-np.abs(effects).max(axis=0), kind="stable")[:_SHOWN]
    if fitted.several:
        table = make_table("per s.d.", *[""] * len(models), left=1)
        for column, label in zip(table.columns[1:], fitted.labels, strict=True):
            column.header = shown(label, 14)
    else:
        table = make_table("feature", "coefficient", "per s.d.", left=1)
    for j in (j for j in largest if effects[:, j].any()):
        cells = [f"{value:+.3g}" if value else "0" for value in effects[:, j]]
        cells = cells if fitted.several else [f"{models[0].coef[j]:.4g}", *cells]
        table.add_row(shown(models[0].names[j]), *cells)
    if table.rows:
        console.print(table)
    return int(effects.any(axis=0).sum())


def print_ranking(console: Console, result: Result) -> None:
    """Print the losses and penalties, the best first."""
    _print_ranks(console, result)
    _print_rest(console, result)
    console.print("To save the best model, use `steinpath tune`.")


def print_tuning(console: Console, result: Result) -> None:
    """Print the ranking, and the alpha grid of the best model."""
    _print_ranks(console, result)
    fitted, tuning = result.fitted, result.fitted.tuning
    table = make_table("alpha", "best iteration", "nonzeros", "risk", "difference", left=0)
    for k, (alpha, risk) in enumerate(zip(fitted.main.alphas_, tuning.risks, strict=True)):
        selected = k == tuning.best[0]
        t = tuning.best_iter if selected else risk.best_iter
        # the risks of values that were screened out are not comparable
        known = tuning.settled[k] and not selected
        difference = with_error(*tuning.compare((k, t), tuning.best)) if known else ""
        table.add_row(
            f"{alpha:.3g}",
            str(t),
            str(int((risk.path.coef[t] != 0).sum())),
            with_error(float(risk.values[t]), float(risk.stderr[t])),
            "selected" if selected else difference,
            style="bold" if selected else None,
        )
    of = f" {fitted.main_label!r:.60} vs rest, {fitted.scored_by}," if fitted.several else ""
    say(console, f"The best model, {fitted.words},{of} by alpha (not adjusted for selection):")
    console.print(table)
    if not tuning.settled.all():
        console.print("Values of alpha without a difference were screened out by a rough estimate.")
    _print_rest(console, result)


def _print_ranks(console: Console, result: Result) -> None:
    fitted = result.fitted
    console.print(f"{shown(result.target)}: expected {fitted.ranked_by}", style="bold")
    _print_warnings(console, fitted)
    head = ("loss", "penalty", "alpha", "iteration", "nonzeros", "risk", "difference")
    table = make_table(*head, left=2)
    for k, row in enumerate(result.ranking):
        table.add_row(
            row.loss,
            row.penalty,
            f"{row.alpha:.3g}",
            str(row.iterate),
            str(row.nonzeros),
            with_error(row.risk, row.stderr),
            with_error(row.behind, row.behind_stderr) if k else "",
            style=None if k else "bold",
        )
    console.print(table)
    say(console, f"{fitted.meaning_of_error}.")
    if len(result.ranking) > 1:
        say(console, "It is not adjusted for the selection among losses and penalties.")


def _print_rest(console: Console, result: Result) -> None:
    """Print the intervals, the number of iterations and the notes."""
    if result.intervals is not None:
        _print_intervals(console, result.intervals)
    say(console, result.fitted.ended("--n-iter"))
    for note in result.notes:
        say(console, f"Note: {note}.")


def _print_intervals(console: Console, intervals: FitIntervals) -> None:
    """Print the intervals with the smallest p-values, and their assumptions."""
    say(
        console,
        f"{LEVEL:.0%} confidence intervals for the coefficients, from iteration "
        f"{intervals.found.t} of {intervals.n_iter}:",
    )
    head = ("feature", "estimate", "std. error", "lower", "upper", "p-value", "")
    table = make_table(*head, left=1)
    for row in intervals.by_evidence[:_SHOWN_INTERVALS]:
        table.add_row(shown(row.name), *_cells(row), "*" if row.significant else "")
    console.print(table)
    if len(intervals.rows) > _SHOWN_INTERVALS:
        console.print(f"… and {len(intervals.rows) - _SHOWN_INTERVALS} more, in intervals.csv")
    say(
        console,
        f"* significant by the Benjamini–Hochberg procedure, false discovery rate {FDR:.0%}.",
    )
    say(console, intervals.assumptions)
    print_warnings(console, [worded(warning, option) for warning in intervals.warnings])
    for note in intervals.notes:
        say(console, f"Note: {note}.")


def _cells(row: Interval) -> list[str]:
    if not row.identified:
        return [_UNKNOWN] * 5
    values = (row.estimate, row.stderr, row.lower, row.upper)
    return [*(to_digits_of(value, row.stderr) for value in values), row.short_pvalue]
