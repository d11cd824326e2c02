"""ROC curves and reliability diagrams of out-of-fold predictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from steinpath._support.charts import BLUE, GREEN, GREY, ORANGE, on_axes
from steinpath.estimators._scores import Decisions
from steinpath.plots._residuals import held_out
from steinpath.plots._style import drawing_on, note, place_legend
from steinpath.problem._margins import Logistic, class_probabilities

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from steinpath.tuning._tuning import Tuning

# Maximum number of bins of a reliability diagram, and minimum number of rows in each.
_MOST_BINS, _ROWS_OF_A_BIN = 10, 15
# Classes beyond these are drawn in grey, without an entry in the legend.
_COLOURS = (BLUE, ORANGE, GREEN, "#cc79a7", "#56b4e9", "#8b6a00", "#e0b000", "#000000")


class RocCurve(NamedTuple):
    """False and true positive rates at each threshold, from 0 to 1, and the area under the curve.

    The area is NaN unless there are rows of the class and of others.
    """

    false_positive: np.ndarray
    true_positive: np.ndarray
    area: float


def roc_curve(positive: np.ndarray, values: np.ndarray) -> RocCurve:
    """Return the ROC curve of decision values; `positive` marks the rows of the class, (m,)."""
    order = np.argsort(-values, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(values[order])), len(order) - 1)  # ties are one step
    hits = np.cumsum(positive[order])[ends]
    false, true = np.append(0.0, 1 + ends - hits), np.append(0.0, hits)
    if not (false[-1] and true[-1]):
        return RocCurve(false, true, float("nan"))
    false, true = false / false[-1], true / true[-1]
    return RocCurve(false, true, float(np.sum(np.diff(false) * (true[1:] + true[:-1])) / 2))


class Reliability(NamedTuple):
    """Means over rows in quantile bins of their predicted probability, each of shape (k,).

    stderr: of the observed frequency if the probabilities were calibrated; rows: in each bin
    """

    predicted: np.ndarray
    observed: np.ndarray
    stderr: np.ndarray
    rows: np.ndarray


def reliability(positive: np.ndarray, probability: np.ndarray) -> Reliability:
    """Return observed frequencies of a class in quantile bins of its predicted probability."""
    n_bins = int(np.clip(len(positive) // _ROWS_OF_A_BIN, 1, _MOST_BINS))
    order = np.argsort(probability, kind="stable")
    ranked = probability[order]
    # equal probabilities are kept in one bin
    starts = np.unique(np.searchsorted(ranked, ranked[np.arange(n_bins) * len(order) // n_bins]))
    count = np.diff(np.append(starts, len(order)))
    predicted, observed, variance = (
        np.add.reduceat(values[order].astype(float), starts) / count
        for values in (probability, positive, probability * (1 - probability))
    )
    return Reliability(predicted, observed, np.sqrt(variance / count), count)


@on_axes
def plot_roc(tuning: Tuning | Mapping[str, Tuning], ax: Axes | None = None) -> Axes:
    """Plot the ROC curve of out-of-fold decision values; see `plot_predicted` for these.

    Parameters
    ----------
    tuning : Tuning, or mapping of str to Tuning
        Result of `steinpath.tune` with a margin loss, such as `steinpath.Logistic`. With
        more than two classes, a mapping from class name to the one-vs-rest result.
    """
    curves = {}
    for name, one in _by_class(tuning).items():
        actual, values = held_out(one)
        curves[name] = roc_curve(actual > 0, values)
    with _unit_square(ax, "false positive rate", "true positive rate", len(curves)) as axes:
        for k, (name, curve) in enumerate(curves.items()):
            label = f"{name}: " * bool(name) + f"AUC {curve.area:.3f}"
            axes.plot(*curve[:2], **_style(k, label))
        if len(curves) == 1:
            note(axes, label)
    return axes


@on_axes
def plot_reliability(tuning: Tuning | Mapping[str, Tuning], ax: Axes | None = None) -> Axes:
    """Plot a reliability diagram (calibration curve) of out-of-fold probabilities.

    Rows are grouped into quantile bins of their predicted probability. Points on the diagonal are
    calibrated. Vertical lines show ± 2 standard errors of the observed frequencies.

    Parameters
    ----------
    tuning : Tuning, or mapping of str to Tuning
        Result of `steinpath.tune` with `steinpath.Logistic`. With more than two classes, a
        mapping from class name to the one-vs-rest result, whose probabilities are coupled as by
        `steinpath.LogisticLasso`.
    """
    tunings = _by_class(tuning)
    for one in tunings.values():
        if not isinstance(one.path.loss, Logistic):
            raise ValueError(
                f"plot_reliability requires the logistic loss; got {one.path.loss!r}; use "
                "plot_roc for other losses"
            )
    # for time series, held-out rows may differ between classes
    rows = reduce(np.intersect1d, [one.chosen.rows for one in tunings.values()])
    pairs = [held_out(one, rows) for one in tunings.values()]
    signs, values = (np.stack(part, axis=1) for part in zip(*pairs, strict=True))
    decisions = Decisions(values, signs.argmax(axis=1))
    coupling = decisions.coupling() if decisions.several else ()
    shares = class_probabilities(values, coupling)
    if len(pairs) == 1:
        shares = shares[:, 1:]
    labels = "predicted probability (out-of-fold)", "observed frequency"
    with _unit_square(ax, *labels, len(tunings)) as axes:
        for k, (name, (actual, _)) in enumerate(zip(tunings, pairs, strict=True)):
            bins = reliability(actual > 0, shares[:, k])
            style = _style(k, name or "out-of-fold")
            axes.plot(bins.predicted, bins.observed, "o-", ms=3.5, **style)
            ends = (np.clip(bins.observed + side * 2 * bins.stderr, 0, 1) for side in (-1, 1))
            axes.vlines(bins.predicted, *ends, color=style["color"], lw=0.7, alpha=0.6)
    return axes


def _style(k: int, label: str) -> dict[str, Any]:
    if k < len(_COLOURS):
        return {"color": _COLOURS[k], "lw": 1.2, "label": label}
    return {"color": GREY, "lw": 0.7, "label": "_" + label}


@contextmanager
def _unit_square(ax: Axes | None, x_label: str, y_label: str, n_classes: int) -> Iterator[Axes]:
    """Yield axes from 0 to 1 with their diagonal, and a legend if there are several classes."""
    with drawing_on(ax, (3.4, 3.6)) as axes:
        axes.plot([0, 1], [0, 1], color=GREY, lw=0.7, zorder=1)
        yield axes
        limits = (-0.02, 1.02)
        axes.set(xlabel=x_label, ylabel=y_label, xlim=limits, ylim=limits, aspect="equal")
        if n_classes > 1:
            place_legend(axes)


def _by_class(tuning: Tuning | Mapping[str, Tuning]) -> Mapping[str, Tuning]:
    tunings = tuning if isinstance(tuning, Mapping) else {"": tuning}
    for one in tunings.values():
        if not one.path.loss.margin:
            raise ValueError(
                "this plot requires a margin loss (Logistic, Hinge or SquaredHinge); got "
                f"{one.path.loss!r}"
            )
    return tunings
