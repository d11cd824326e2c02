"""Classes of rows that were left out: how well they are told apart, and probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath._support.colours import BLUE, GREEN, GREY, ORANGE
from steinpath.plots._style import drawing_on, note, open_frame, place_legend
from steinpath.problem._margins import Logistic, class_probabilities

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from steinpath.tuning._tuning import Tuning

# Bins of probabilities, and rows of each at least.
_MOST_BINS, _ROWS_OF_A_BIN = 10, 15
# Classes that have a colour of their own, and a name in the legend.
_COLOURS = (BLUE, ORANGE, GREEN, "#cc79a7", "#56b4e9", "#8b6a00", "#e0b000", "#000000")


class RocCurve(NamedTuple):
    """Shares of rows above each threshold.

    Attributes
    ----------
    false_positive, true_positive : ndarray of shape (k,)
        Of the rows of the other classes, and of those of the class; both from 0 to 1.
    area : float
        Area under the curve: the probability that a row of the class has a larger decision value
        than a row of another; NaN without rows of both.
    """

    false_positive: np.ndarray
    true_positive: np.ndarray
    area: float


def roc_curve(positive: np.ndarray, values: np.ndarray) -> RocCurve:
    """Return the ROC curve of decision values.

    Parameters
    ----------
    positive : ndarray of bool of shape (m,)
        Which rows are of the class.
    values : ndarray of shape (m,)
        Decision values: larger ones are more like the class.
    """
    order = np.argsort(-values, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(values[order])), len(order) - 1)  # ties are one step
    hits = np.cumsum(positive[order])[ends]
    false, true = np.append(0.0, 1 + ends - hits), np.append(0.0, hits)
    if not (false[-1] and true[-1]):
        return RocCurve(false, true, float("nan"))
    false, true = false / false[-1], true / true[-1]
    area = float(np.sum(np.diff(false) * (true[1:] + true[:-1])) / 2)
    return RocCurve(false, true, area)


class Reliability(NamedTuple):
    """Rows in bins of their predicted probability.

    Attributes
    ----------
    predicted, observed : ndarray of shape (k,)
        Mean predicted probability in each bin, and share of rows that are of the class.
    stderr : ndarray of shape (k,)
        Standard error of that share, if the predicted probabilities were right.
    rows : ndarray of int of shape (k,)
        How many rows are in each bin.
    """

    predicted: np.ndarray
    observed: np.ndarray
    stderr: np.ndarray
    rows: np.ndarray


def reliability(positive: np.ndarray, probability: np.ndarray) -> Reliability:
    """Return shares of a class in bins of about equally many rows, by predicted probability.

    Parameters
    ----------
    positive : ndarray of bool of shape (m,)
        Which rows are of the class.
    probability : ndarray of shape (m,)
        Predicted probability that they are.
    """
    n_bins = int(np.clip(len(positive) // _ROWS_OF_A_BIN, 1, _MOST_BINS))
    order = np.argsort(probability, kind="stable")
    # where a bin would begin within equal probabilities, it begins with the first of them
    starts = np.searchsorted(
        probability[order], probability[order][np.arange(n_bins) * len(order) // n_bins]
    )
    starts = np.unique(starts)
    count = np.diff(np.append(starts, len(order)))
    predicted, observed, variance = (
        np.add.reduceat(each[order].astype(float), starts) / count
        for each in (probability, positive, probability * (1 - probability))
    )
    return Reliability(predicted, observed, np.sqrt(variance / count), count)


def plot_roc(tuning: Tuning | Mapping[str, Tuning], ax: Axes | None = None) -> Axes:
    """Draw the ROC curve, of rows that were left out.

    The share of rows of the class 1 whose decision value is above a threshold, over that of the
    other rows, for all thresholds. Each row is predicted by a model that was fitted without it,
    with the penalty and the iterate that were chosen without it.

    Parameters
    ----------
    tuning : Tuning, or mapping of str to Tuning
        Of a loss of labels, such as `steinpath.Logistic`; of several classes, that of each against
        the rest, by the name of the class.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
    """
    tunings = _by_class(tuning)
    curves = {}
    for name, each in tunings.items():
        positive, values = _left_out(each)
        curves[name] = roc_curve(positive, values)
    with drawing_on(ax, (3.4, 3.6)) as axes:
        axes.plot([0, 1], [0, 1], color=GREY, lw=0.7, zorder=1)
        for k, (name, curve) in enumerate(curves.items()):
            label = f"{name}: {curve.area:.3f}" if name else f"AUC {curve.area:.3f}"
            axes.plot(*curve[:2], **_style(k, label))
        axes.set(xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        open_frame(axes)
        if len(curves) > 1:
            note(axes, "area under the curve (AUC)")
            place_legend(axes)
        else:
            note(axes, label)
    return axes


def plot_reliability(tuning: Tuning | Mapping[str, Tuning], ax: Axes | None = None) -> Axes:
    """Draw observed shares over predicted probabilities, of rows that were left out.

    Rows are put into bins of about equally many, by the probability that was predicted for them;
    on the diagonal, predicted probabilities are right. Lines are ± 2 standard errors of the shares.

    Parameters
    ----------
    tuning : Tuning, or mapping of str to Tuning
        Of `steinpath.Logistic`; of several classes, that of each against the rest, by the name of
        the class. Their probabilities are divided by their sum.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
    """
    tunings = _by_class(tuning)
    for each in tunings.values():
        if not isinstance(each.path.loss, Logistic):
            raise ValueError(
                f"probabilities are those of the logistic loss, and this is {each.path.loss!r}; "
                "use plot_roc"
            )
    rows: np.ndarray | None = None  # of time series, not all leave out the same ones
    for each in tunings.values():
        rows = each.chosen.rows if rows is None else np.intersect1d(rows, each.chosen.rows)
    seen = [_left_out(each, rows) for each in tunings.values()]
    shares = class_probabilities(np.stack([values for _, values in seen], axis=1))
    if len(seen) == 1:
        shares = shares[:, 1:]
    with drawing_on(ax, (3.4, 3.6)) as axes:
        axes.plot([0, 1], [0, 1], color=GREY, lw=0.7, zorder=1)
        for k, (name, (positive, _)) in enumerate(zip(tunings, seen, strict=True)):
            bins = reliability(positive, shares[:, k])
            style = _style(k, name or "rows left out")
            axes.plot(bins.predicted, bins.observed, "o-", ms=3.5, **style)
            low, high = (bins.observed + side * 2 * bins.stderr for side in (-1, 1))
            ends = np.clip(low, 0, 1), np.clip(high, 0, 1)
            axes.vlines(bins.predicted, *ends, color=style["color"], lw=0.7, alpha=0.6)
        axes.set(xlabel="predicted probability, the row left out", ylabel="observed share")
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        open_frame(axes)
        if len(tunings) > 1:
            place_legend(axes)
    return axes


def _style(k: int, label: str) -> dict[str, Any]:
    if k < len(_COLOURS):
        return {"color": _COLOURS[k], "lw": 1.2, "label": label}
    return {"color": GREY, "lw": 0.7, "label": "_" + label}


def _by_class(tuning: Tuning | Mapping[str, Tuning]) -> Mapping[str, Tuning]:
    tunings = tuning if isinstance(tuning, Mapping) else {"": tuning}
    for each in tunings.values():
        if not each.path.loss.margin:
            raise ValueError(
                "this plot is of classes, and the loss must be Logistic, Hinge or SquaredHinge; "
                f"got {each.path.loss!r}"
            )
    return tunings


def _left_out(tuning: Tuning, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows that were left out are of the class 1, and their decision values."""
    chosen = tuning.chosen
    rows = chosen.rows if rows is None else rows
    actual = np.asarray(to_numpy(tuning.path.y), float)[rows]
    places = np.searchsorted(chosen.rows, rows)
    return actual > 0, np.asarray(to_numpy(chosen.predictions), float)[places]
