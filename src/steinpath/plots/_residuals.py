"""Residuals and out-of-fold predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath._support.charts import BLUE, GREY, ORANGE, on_axes
from steinpath._support.printing import number
from steinpath._support.validation import check_count
from steinpath.plots._style import drawing_on, name_of_loss, note, place_legend
from steinpath.problem._scoring import observation_losses

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from steinpath.risk._risk import Risk
    from steinpath.tuning._tuning import Tuning

#: Quantiles of the residuals that bound their median and their central 50% and 90%.
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
# Above this number, points are rasterised in vector formats.
_MANY_POINTS = 2000
_MOST_BARS = 40


def held_out(tuning: Tuning, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the responses of some held-out rows, by default of all, and their predictions."""
    chosen = tuning.chosen
    rows = chosen.rows if rows is None else rows
    predictions = np.asarray(to_numpy(chosen.predictions), float)
    actual = np.asarray(to_numpy(tuning.path.y), float)
    return actual[rows], predictions[np.searchsorted(chosen.rows, rows)]


@on_axes
def plot_residuals(risk: Risk, t: int | None = None, ax: Axes | None = None) -> Axes:
    """Plot corrected against raw residuals, with the mean scoring loss of both.

    Corrected residuals are computed from the corrected fitted values and approximate leave-one-out
    residuals. If a few residuals are much larger than the rest, they are drawn as marks on the
    frame and counted above it.

    Parameters
    ----------
    t : int, optional
        Iteration; by default, the one with the smallest estimated risk.
    """
    t = risk.best_iter if t is None else check_count("t", t, low=0, high=risk.path.n_iter)
    response, at = risk.path.response, slice(t, t + 1)
    predictions = [risk.path.products_at(at), risk.predictions.of(at)]
    raw, corrected = (to_numpy(response - values)[0] for values in predictions)
    losses = [
        float(to_numpy(observation_losses(risk.criterion, response, values)).mean())
        for values in predictions
    ]
    sizes = np.abs([raw, corrected])
    largest, usual = float(sizes.max()), 1.5 * float(np.quantile(sizes, 0.98))
    limit = 1.06 * (usual if 0 < 1.3 * usual < largest else largest) or 1.0
    with drawing_on(ax, (3.4, 3.4)) as axes:
        _draw_points(axes, raw, corrected, (-limit, limit), "observations")
        axes.set(xlabel=f"raw residual at iteration {t}", ylabel="corrected residual")
        text = f"mean {name_of_loss(risk.test_loss)}\nraw {number(losses[0], 3)}"
        text += f"\ncorrected {number(losses[1], 3)}"
        axes.text(0.03, 0.97, text, transform=axes.transAxes, va="top", fontsize="medium")
    return axes


@on_axes
def plot_predicted(tuning: Tuning, ax: Axes | None = None, *, offset: float = 0.0) -> Axes:
    """Plot actual values against out-of-fold predictions.

    Each row is predicted by a model fitted without it; the regularisation strength and the
    iteration are also selected without it. If a few values are far from the rest, they are drawn
    as marks on the frame and counted above it.

    Parameters
    ----------
    offset : float, default=0
        Constant added to actual values and predictions, to undo centring of the response.
    """
    actual, predicted = (values + offset for values in held_out(tuning))
    limits = _frame_of(np.concatenate([actual, predicted]))
    with drawing_on(ax, (3.4, 3.4)) as axes:
        _draw_points(axes, predicted, actual, limits, "out-of-fold")
        axes.set(xlabel="out-of-fold prediction", ylabel="actual value")
    return axes


def _draw_points(
    ax: Axes, x: np.ndarray, y: np.ndarray, limits: tuple[float, float], label: str
) -> None:
    """Draw points in a square with its diagonal; those beyond its limits are marked on the frame.

    The more points there are, the smaller and lighter they are.
    """
    n, points = len(x), np.array([x, y])
    beyond = np.any((points < limits[0]) | (points > limits[1]), axis=0)
    size, alpha = np.clip(12 / n**0.25, 1.5, 5), np.clip(20 / n**0.5, 0.15, 0.7)
    ax.plot(limits, limits, color=GREY, lw=0.7, zorder=1)
    style: dict[str, Any] = {"ms": float(size), "alpha": float(alpha), "mew": 0, "label": label}
    ax.plot(*points[:, ~beyond], "o", color=BLUE, rasterized=n > _MANY_POINTS, **style)
    if beyond.any():
        style = {"mfc": "none", "mec": ORANGE, "ms": 3.5, "mew": 0.8, "label": "outside"}
        ax.plot(*np.clip(points[:, beyond], *limits), "D", clip_on=False, **style)
        note(ax, f"{beyond.sum()} of {n} outside, marked on the frame")
    ax.set(xlim=limits, ylim=limits, aspect="equal")
    ax.set_yticks(ax.get_xticks())
    ax.set(xlim=limits, ylim=limits)  # again: ticks beyond them move them


@on_axes
def plot_left_out_residuals(tuning: Tuning, ax: Axes | None = None) -> Axes:
    """Plot a histogram of out-of-fold residuals, with their median and central 50% and 90%.

    See `plot_predicted` for how the predictions are made.
    """
    residuals = np.subtract(*held_out(tuning))
    low, high = _frame_of(residuals)
    count = int(np.sum((residuals < low) | (residuals > high)))
    bars = int(np.clip(np.ceil(1.5 * np.sqrt(len(residuals))), 5, _MOST_BARS))
    q05, q25, middle, q75, q95 = np.clip(np.quantile(residuals, QUANTILES), low, high)
    with drawing_on(ax) as axes:
        axes.axvspan(q05, q95, color=BLUE, alpha=0.12, lw=0, label="central 90%")
        axes.axvspan(q25, q75, color=BLUE, alpha=0.2, lw=0, label="central 50%")
        edges = np.linspace(low, high, bars + 1).tolist()
        axes.hist(np.clip(residuals, low, high), edges, color=BLUE, alpha=0.75, rwidth=0.92)
        label = f"median {number(middle, 3)}".replace("-", "−")
        axes.axvline(middle, color=ORANGE, lw=1.2, label=label)
        axes.set(xlim=(low, high), xlabel="out-of-fold residual", ylabel="number of rows")
        if count:
            note(axes, f"{count} of {len(residuals)} outside, counted in the first and last bars")
        place_legend(axes, columns=3)
    return axes


def _frame_of(values: np.ndarray) -> tuple[float, float]:
    """Return axis limits: the range of the values, unless a few are far from the rest."""
    usual = np.quantile(values, [0.02, 0.98])
    reach = float(usual[1] - usual[0]) / 4
    low = max(float(values.min()), float(usual[0]) - reach)
    high = min(float(values.max()), float(usual[1]) + reach)
    margin = 0.04 * (high - low) or abs(high) or 1.0
    return low - margin, high + margin
