"""Plots of out-of-fold predictions and residuals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath._support.colours import BLUE, GREY, ORANGE
from steinpath.plots._style import drawing_on, note, open_frame, place_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from steinpath.tuning._tuning import Tuning

#: Quantiles of the residuals that bound their median and their central 50% and 90%.
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
# Above this number, points are rasterised in vector formats.
_MANY_POINTS = 2000
_MOST_BARS = 40


def plot_predicted(tuning: Tuning, ax: Axes | None = None, *, offset: float = 0.0) -> Axes:
    """Plot actual values against out-of-fold predictions.

    Each row is predicted by a model fitted without it; the regularisation strength and the
    iteration are also selected without it. If a few values are far from the rest, they are drawn
    as marks on the frame and counted above it.

    Parameters
    ----------
    tuning : Tuning
        Tuning result to plot.
    ax : matplotlib.axes.Axes, optional
        Axes to plot on. If None, a new figure is created.
    offset : float, default=0
        Constant added to actual values and predictions, to undo centring of the response.

    Returns
    -------
    matplotlib.axes.Axes
    """
    actual, predicted = _left_out(tuning)
    actual, predicted = actual + offset, predicted + offset
    low, high = _frame_of(np.concatenate([actual, predicted]))
    inside = [np.clip(values, low, high) for values in (predicted, actual)]
    beyond = (inside[0] != predicted) | (inside[1] != actual)
    n, count = len(actual), int(beyond.sum())
    with drawing_on(ax, (3.4, 3.4)) as axes:
        axes.plot([low, high], [low, high], color=GREY, lw=0.7, zorder=1)
        axes.plot(
            predicted[~beyond],
            actual[~beyond],
            "o",
            color=BLUE,
            ms=float(np.clip(12 / n**0.25, 1.5, 5)),
            mew=0,
            alpha=float(np.clip(20 / n**0.5, 0.15, 0.7)),
            rasterized=n > _MANY_POINTS,
            label="out-of-fold",
        )
        if count:
            style: dict[str, Any] = {"mfc": "none", "mec": ORANGE, "ms": 3.5, "mew": 0.8}
            at = [values[beyond] for values in inside]
            axes.plot(*at, "D", clip_on=False, label="outside", **style)
            note(axes, f"{count} of {n} outside, marked on the frame")
        axes.set(xlabel="out-of-fold prediction", ylabel="actual value", aspect="equal")
        axes.set(xlim=(low, high), ylim=(low, high))
        axes.set_yticks(axes.get_xticks())
        axes.set(xlim=(low, high), ylim=(low, high))
        open_frame(axes)
    return axes


def plot_left_out_residuals(tuning: Tuning, ax: Axes | None = None) -> Axes:
    """Plot a histogram of out-of-fold residuals, with their median and central 50% and 90%.

    See `plot_predicted` for how the predictions are made.

    Parameters
    ----------
    tuning : Tuning
        Tuning result to plot.
    ax : matplotlib.axes.Axes, optional
        Axes to plot on. If None, a new figure is created.

    Returns
    -------
    matplotlib.axes.Axes
    """
    actual, predicted = _left_out(tuning)
    residuals = actual - predicted
    low, high = _frame_of(residuals)
    count = int(np.sum((residuals < low) | (residuals > high)))
    bars = int(np.clip(np.ceil(1.5 * np.sqrt(len(residuals))), 5, _MOST_BARS))
    q05, q25, middle, q75, q95 = np.clip(np.quantile(residuals, QUANTILES), low, high)
    with drawing_on(ax) as axes:
        axes.axvspan(q05, q95, color=BLUE, alpha=0.12, lw=0, label="central 90%")
        axes.axvspan(q25, q75, color=BLUE, alpha=0.2, lw=0, label="central 50%")
        edges = np.linspace(low, high, bars + 1).tolist()
        axes.hist(np.clip(residuals, low, high), edges, color=BLUE, alpha=0.75, rwidth=0.92)
        axes.axvline(middle, color=ORANGE, lw=1.2, label=f"median {middle:.3g}".replace("-", "−"))
        axes.set(xlim=(low, high), xlabel="out-of-fold residual", ylabel="number of rows")
        if count:
            note(axes, f"{count} of {len(residuals)} outside, counted in the first and last bars")
        open_frame(axes)
        place_legend(axes, columns=3)
    return axes


def _left_out(tuning: Tuning) -> tuple[np.ndarray, np.ndarray]:
    """Return the responses of the held-out rows, and their out-of-fold predictions."""
    chosen = tuning.chosen
    actual = np.asarray(to_numpy(tuning.path.y), float)[chosen.rows]
    return actual, np.asarray(to_numpy(chosen.predictions), float)


def _frame_of(values: np.ndarray) -> tuple[float, float]:
    """Return axis limits: the range of the values, unless a few are far from the rest."""
    low, high = float(values.min()), float(values.max())
    usual = np.quantile(values, [0.02, 0.98])
    reach = float(usual[1] - usual[0]) / 4
    low, high = max(low, float(usual[0]) - reach), min(high, float(usual[1]) + reach)
    margin = 0.04 * (high - low) or abs(high) or 1.0
    return low - margin, high + margin
