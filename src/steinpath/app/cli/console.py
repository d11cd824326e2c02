"""Results of the commands on the console."""

from __future__ import annotations

import numpy as np
from rich.console import Console

from steinpath._support.printing import to_digits_of, with_error
from steinpath.app.cli.display import print_table, print_warnings, say, shown
from steinpath.app.defaults import FDR, LEVEL
from steinpath.app.fitted import Fitted
from steinpath.app.intervals import FitIntervals, Interval
from steinpath.app.report.build import Result, facts

# Numbers of coefficients and of intervals that are printed; the files have all.
_SHOWN, _SHOWN_INTERVALS = 10, 20
_UNKNOWN = "–"


def print_fit(console: Console, result: Result) -> None:
    """Print the key figures and the largest coefficients."""
    fitted = result.fitted
    console.print(f"{shown(result.target)}: {fitted.words}", style="bold")
    print_warnings(console, fitted.warnings)
    print_table(console, ["", ""], facts(fitted), left=1)
    say(console, f"{fitted.meaning_of_error}.")
    if fitted.classes:
        _print_confusion(console, fitted)
    count = _print_coefficients(console, fitted)
    if count > _SHOWN:
        console.print(f"… and {count - _SHOWN} more, in model.json")
    if fitted.caption:
        say(console, f"{fitted.caption[0].upper()}{fitted.caption[1:]}.")
    _print_rest(console, result)


def _print_confusion(console: Console, fitted: Fitted) -> None:
    """Print the confusion matrix of held-out rows."""
    head = ["actual", *(shown(f"→ {label}", 14) for label in fitted.classes), "correct"]
    rows = []
    for k, counts in enumerate(fitted.estimator.confusion_):
        share = f"{counts[k] / counts.sum():.0%}" if counts.sum() else ""
        rows.append([shown(fitted.classes[k], 24), *map(str, counts.tolist()), share])
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
        cells = [f"{value:+.3g}" if value else "0" for value in effects[:, j]]
        cells = cells if fitted.several else [f"{models[0].coef[j]:.4g}", *cells]
        rows.append([shown(models[0].names[j]), *cells])
    if rows:
        print_table(console, head, rows, left=1)
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
    rows = []
    for k, (alpha, risk) in enumerate(zip(fitted.main.alphas_, tuning.risks, strict=True)):
        selected = k == tuning.best[0]
        t = tuning.best_iter if selected else risk.best_iter
        difference = "selected" if selected else ""
        if tuning.settled[k] and not selected:  # others are not comparable
            difference = with_error(*tuning.compare((k, t), tuning.best))
        estimate = with_error(float(risk.values[t]), float(risk.stderr[t]))
        count = int((risk.path.coef[t] != 0).sum())
        rows.append([f"{alpha:.3g}", str(t), str(count), estimate, difference])
    of = f" {fitted.main_label!r:.60} vs rest, {fitted.scored_by}," if fitted.several else ""
    say(console, f"The best model, {fitted.words},{of} by alpha (not adjusted for selection):")
    head = "alpha", "best iteration", "nonzeros", "risk", "difference"
    print_table(console, head, rows, bold=tuning.best[0])
    if not tuning.settled.all():
        console.print("Values of alpha without a difference were screened out by a rough estimate.")
    _print_rest(console, result)


def _print_ranks(console: Console, result: Result) -> None:
    fitted = result.fitted
    console.print(f"{shown(result.target)}: expected {fitted.ranked_by}", style="bold")
    print_warnings(console, fitted.warnings)
    head = ("loss", "penalty", "alpha", "iteration", "nonzeros", "risk", "difference")
    rows = []
    for k, row in enumerate(result.ranking):
        behind = with_error(row.behind, row.behind_stderr) if k else ""
        numbers = f"{row.alpha:.3g}", str(row.iterate), str(row.nonzeros)
        rows.append([row.loss, row.penalty, *numbers, with_error(row.risk, row.stderr), behind])
    print_table(console, head, rows, left=2, bold=0)
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
    rows = [
        [shown(row.name), *_cells(row), "*" if row.significant else ""]
        for row in intervals.by_evidence[:_SHOWN_INTERVALS]
    ]
    print_table(console, head, rows, left=1)
    if len(intervals.rows) > _SHOWN_INTERVALS:
        console.print(f"… and {len(intervals.rows) - _SHOWN_INTERVALS} more, in intervals.csv")
    say(
        console,
        f"* significant by the Benjamini–Hochberg procedure, false discovery rate {FDR:.0%}.",
    )
    say(console, intervals.assumptions)
    print_warnings(console, intervals.warnings)
    for note in intervals.notes:
        say(console, f"Note: {note}.")


def _cells(row: Interval) -> list[str]:
    if not row.identified:
        return [_UNKNOWN] * 5
    values = (row.estimate, row.stderr, row.lower, row.upper)
    return [*(to_digits_of(value, row.stderr) for value in values), row.short_pvalue]
