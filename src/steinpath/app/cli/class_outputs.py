"""Output of the commands for classification."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console

from steinpath.app.classes import ClassFit
from steinpath.app.cli.display import make_table, say, shown
from steinpath.app.models import Classes

#: Number of coefficients that are printed; the model file has all.
SHOWN = 10


def coefficients_of_classes(fit: ClassFit) -> tuple[np.ndarray, Any]:
    """Return coefficients and intercepts; with several classes, one row for each."""
    if not fit.several:
        return fit.coef, fit.intercept
    return np.stack([each.coef for each in fit.fits]), np.array([e.intercept for e in fit.fits])


def kept_classes(fit: ClassFit) -> Classes:
    """Return the classes for a model file."""
    score = fit.error_rate
    return Classes(fit.classes, score.value, score.stderr, fit.has_probabilities)


def json_of_classes(fit: ClassFit) -> dict[str, Any]:
    """Return the results for classes as a JSON object."""
    return {
        "classes": list(fit.classes),
        "class_weight": fit.spec.loss.class_weight,  # type: ignore[attr-defined]
        "scores": {
            score.name: {
                "expected": score.value,
                "stderr": _finite(score.stderr),
                "constant": score.constant,
            }
            for score in fit.scores
        },
        "error_rate": fit.error_rate.value,
        "error_rate_stderr": _finite(fit.error_rate.stderr),
        "train_error_rate": fit.train_error_rate,
        "confusion": fit.confusion.tolist(),
        "models": [
            {
                "class": label,
                "alpha": each.alpha,
                "iterate": each.tuning.best_iter,
                "nonzeros": each.nonzeros,
                "intercept": each.intercept,
                "risk": each.estimate[0],
                "stderr": _finite(each.estimate[1]),
            }
            for label, each in zip(fit.labels, fit.fits, strict=True)
        ],
    }


def _finite(stderr: float) -> float | None:
    return stderr if math.isfinite(stderr) else None


def drawings_of_classes(fit: ClassFit) -> dict[str, Callable[[], Any]]:
    """Return the plots for classification, by file name."""
    from steinpath import plots

    tunings = {label: each.tuning for label, each in zip(fit.labels, fit.fits, strict=True)}
    of = tunings if fit.several else fit.tuning
    found: dict[str, Callable[[], Any]] = {"roc.pdf": lambda: plots.plot_roc(of)}
    if fit.has_probabilities:
        found["reliability.pdf"] = lambda: plots.plot_reliability(of)
    return found


def print_confusion(console: Console, fit: ClassFit) -> None:
    """Print the confusion matrix of held-out rows."""
    head = ["actual", *(shown(f"→ {label}", 14) for label in fit.classes), "correct"]
    table = make_table("", *[""] * (len(head) - 1), left=1)
    for column, title in zip(table.columns, head, strict=True):
        column.header = title
    for k, (label, counts) in enumerate(zip(fit.classes, fit.confusion, strict=True)):
        share = f"{counts[k] / counts.sum():.0%}" if counts.sum() else ""
        table.add_row(shown(label, 24), *map(str, counts.tolist()), share)
    say(console, "Confusion matrix of held-out rows (→ predicted class):")
    console.print(table)


def print_coefficients_of_several(console: Console, fit: ClassFit) -> int:
    """Print the largest coefficients of all classes; return the number of features with any."""
    effects = np.stack([each.reported.effects for each in fit.fits])
    names = fit.reported.names
    largest = np.argsort(-np.abs(effects).max(axis=0), kind="stable")[:SHOWN]
    table = make_table("per s.d.", *[""] * len(fit.classes), left=1)
    for column, label in zip(table.columns[1:], fit.classes, strict=True):
        column.header = shown(label, 14)
    for j in largest:
        if np.any(effects[:, j]):
            cells = [f"{value:+.3g}" if value else "0" for value in effects[:, j]]
            table.add_row(shown(names[j]), *cells)
    count = int(np.any(effects, axis=0).sum())
    if count:
        console.print(table)
    return count
