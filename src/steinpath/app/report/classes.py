"""Collect the content of the report of a classification."""

from __future__ import annotations

import math

import numpy as np

from steinpath._support.printing import to_digits_of, with_error
from steinpath.app.classes import ClassFit
from steinpath.app.report.content import ClassContent, ClassCurve
from steinpath.plots._classes import reliability, roc_curve
from steinpath.problem._margins import class_probabilities
from steinpath.problem._penalties import NoPenalty

# Most points of a curve on the page.
_MOST_POINTS = 400


def facts_of_classes(fit: ClassFit) -> tuple[tuple[str, str], ...]:
    """Return the key figures."""
    n, p = fit.data.encoded.X.shape
    found = []
    for score in fit.scores:
        found += [
            (f"expected {score.words}", with_error(score.value, score.stderr)),
            (score.constant_words, to_digits_of(score.constant, score.stderr)),
        ]
    training = to_digits_of(fit.train_error_rate, fit.error_rate.stderr)
    found.append(("training error rate", training))
    if not fit.several:
        seen = fit.left_out_classes
        area = roc_curve(seen.actual == 1, seen.values[:, 0]).area
        found.append(("area under the ROC curve", f"{area:.3f}"))
        found.append(("selected iteration", f"{fit.tuning.best_iter} of {fit.tuning.path.n_iter}"))
        if fit.spec.penalty != NoPenalty.name:
            found.append(("selected alpha", f"{fit.alpha:.3g}"))
    what = "features used" if fit.several else "nonzero coefficients"
    return (*found, (what, f"{fit.nonzeros} of {p}"), ("rows", f"{n:,}"))


def verdict_of_classes(fit: ClassFit, rows: str) -> str:
    """State the expected misclassification rate and that of the majority class.

    Parameters
    ----------
    fit : ClassFit
        The fit.
    rows : str
        The new rows, in words.
    """
    score = fit.error_rate
    return (
        f"On {rows}, the expected misclassification rate is {_percent(score.value)} ± "
        f"{_percent(score.stderr)} ({fit.meaning_of_error}); "
        f"{compared(score.value, score.constant)} of always predicting the most frequent class "
        f"({_percent(score.constant)})."
    )


def compared(risk: float, constant: float) -> str:
    """Return a risk in words, relative to that of a constant prediction: "71% below that"."""
    percent = 100 * (1 - risk / constant) if constant else math.nan
    if not math.isfinite(percent):
        return "compare it with that"
    size = f"{abs(percent):.{int(abs(percent) < 10)}f}%"
    return f"it is {size} {'below' if percent > 0 else 'above'} that"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def content_of_classes(fit: ClassFit) -> ClassContent:
    """Return the confusion matrix and the curves of the out-of-fold predictions."""
    seen = fit.left_out_classes
    first = 0 if fit.several else 1
    roc, bins = [], []
    shares = class_probabilities(seen.values)
    for k, label in enumerate(fit.labels, start=first):
        curve = roc_curve(seen.actual == k, seen.values[:, k - first])
        places = _some(curve.false_positive, curve.true_positive)
        x, y = (tuple(part[places].tolist()) for part in curve[:2])
        roc.append(ClassCurve(label, x, y, area=curve.area))
        if fit.has_probabilities:
            found = reliability(seen.actual == k, shares[:, k])
            x, y, stderr = (tuple(part.tolist()) for part in found[:3])
            bins.append(ClassCurve(label, x, y, stderr))
    models = [
        (
            label,
            f"{each.alpha:.3g}",
            f"{each.tuning.best_iter:,} of {each.tuning.path.n_iter:,}",
            f"{each.nonzeros:,}",
            with_error(*each.estimate),
        )
        for label, each in zip(fit.labels, fit.fits, strict=True)
    ]
    return ClassContent(
        labels=fit.classes,
        confusion=tuple(map(tuple, fit.confusion.tolist())),
        models=tuple(models) if fit.several else (),
        main=fit.main_label,
        roc=tuple(roc),
        reliability=tuple(bins),
    )


def _some(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the indices of the corners of a step curve; a subset of very many."""
    turns = (np.diff(x[1:]) != 0) != (np.diff(x[:-1]) != 0)
    turns |= (np.diff(y[1:]) != 0) != (np.diff(y[:-1]) != 0)
    places = np.concatenate([[0], 1 + np.flatnonzero(turns), [len(x) - 1]])
    if len(places) <= _MOST_POINTS:
        return np.asarray(places)
    return np.asarray(places[np.linspace(0, len(places) - 1, _MOST_POINTS).astype(int)])
