"""Plots to check an estimate: residuals, diagnostics, the audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath._support.colours import BLACK, BLUE, GREY, ORANGE
from steinpath._support.validation import check_count
from steinpath.plots._style import (
    draw_band,
    drawing_on,
    name_of_loss,
    note,
    note_beyond,
    open_frame,
    place_legend,
    set_time_axis,
    write_decades,
)
from steinpath.problem._scoring import observation_losses

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from steinpath.risk._estimate import Risk

# Above this number, points are rasterised in vector formats.
_MANY_POINTS = 2000
# Ratios of value to threshold below this are drawn at the end of the scale.
_SMALLEST_RATIO = 1e-2


def plot_residuals(risk: Risk, t: int | None = None, ax: Axes | None = None) -> Axes:
    """Plot corrected against raw residuals, with the mean scoring loss of both.

    Corrected residuals are computed from the corrected fitted values and approximate leave-one-out
    residuals. If a few residuals are much larger than the rest, they are drawn as marks on the
    frame and counted above it.

    Parameters
    ----------
    risk : Risk
        Risk estimate to plot.
    t : int, optional
        Iteration; by default, the one with the smallest estimated risk.
    ax : matplotlib.axes.Axes, optional
        Axes to plot on. If None, a new figure is created.

    Returns
    -------
    matplotlib.axes.Axes
    """
    last = risk.path.n_iter
    t = risk.best_iter if t is None else check_count("t", t, low=0, high=last)
    response, at = risk.path.response, slice(t, t + 1)
    predictions = [risk.path.products_at(at), risk.predictions.of(at)]
    raw, corrected = (to_numpy(response - values)[0] for values in predictions)
    losses = [
        float(to_numpy(observation_losses(risk.criterion, response, values)).mean())
        for values in predictions
    ]
    limit = _limit_of(np.concatenate([raw, corrected]))
    with drawing_on(ax, (3.4, 3.4)) as axes:
        axes.plot([-limit, limit], [-limit, limit], color=GREY, lw=0.7, zorder=1)
        _draw_points(axes, raw, corrected)
        _mark_outside(axes, raw, corrected, limit)
        axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")
        axes.set(xlabel=f"raw residual at iteration {t}", ylabel="corrected residual")
        axes.set_yticks(axes.get_xticks())
        axes.set(xlim=(-limit, limit), ylim=(-limit, limit))
        text = f"mean {name_of_loss(risk.test_loss)}\nraw {losses[0]:.3g}"
        text += f"\ncorrected {losses[1]:.3g}"
        axes.text(0.03, 0.97, text, transform=axes.transAxes, va="top", fontsize="medium")
        open_frame(axes)
    return axes


def _limit_of(residuals: np.ndarray) -> float:
    """Return the axis limit: the largest residual, unless a few are much larger than the rest."""
    sizes = np.abs(residuals)
    largest, usual = float(sizes.max()), 1.5 * float(np.quantile(sizes, 0.98))
    return 1.06 * (usual if 0 < 1.3 * usual < largest else largest) or 1.0


def _draw_points(ax: Axes, raw: np.ndarray, corrected: np.ndarray) -> None:
    n = len(raw)
    ax.plot(
        raw,
        corrected,
        "o",
        color=BLUE,
        ms=float(np.clip(12 / n**0.25, 1.5, 5)),
        mew=0,
        alpha=float(np.clip(20 / n**0.5, 0.15, 0.7)),
        rasterized=n > _MANY_POINTS,
        label="observations",
    )


def _mark_outside(ax: Axes, raw: np.ndarray, corrected: np.ndarray, limit: float) -> None:
    """Mark points outside the axis limits on the frame, and write their number above it."""
    beyond = np.maximum(np.abs(raw), np.abs(corrected)) > limit
    count = int(beyond.sum())
    if not count:
        return
    inside = [np.clip(values[beyond], -limit, limit) for values in (raw, corrected)]
    ax.plot(*inside, "D", mfc="none", mec=ORANGE, ms=3.5, mew=0.8, clip_on=False, label="outside")
    note(ax, f"{count} of {len(raw)} outside, marked on the frame")


def plot_diagnostics(risk: Risk, ax: Axes | None = None) -> Axes:
    """Plot the value of each diagnostic relative to its threshold; it warns above 1.

    Values that are zero, not finite or far below their threshold are drawn as arrows at the end of
    the scale.

    Parameters
    ----------
    risk : Risk
        Risk estimate to plot.
    ax : matplotlib.axes.Axes, optional
        Axes to plot on. If None, a new figure is created.

    Returns
    -------
    matplotlib.axes.Axes
    """
    found = risk.diagnostics
    ratios = np.array([each.value / each.threshold for each in found])
    finite = ratios[np.isfinite(ratios)]
    low, high = _SMALLEST_RATIO, max(5.0, 2 * float(finite.max(initial=1.0)))
    # values that are not positive or not finite are drawn at an end of the scale
    shown = np.clip(np.nan_to_num(ratios, nan=low, posinf=high, neginf=low), low, high)
    with drawing_on(ax, (4.8, 0.7 + 0.19 * len(found))) as axes:
        axes.axvline(1, color=BLACK, lw=0.8, ls=(0, (4, 2)), label="threshold")
        for place, (each, ratio) in enumerate(zip(found, shown, strict=True)):
            colour, marker = (ORANGE, "D") if each.warns else (BLUE, "o")
            axes.plot([low / 1.3, ratio], [place, place], color=colour, lw=0.8, alpha=0.6)
            marker = "<" if ratio == low else ">" if ratio == high else marker
            axes.plot(ratio, place, marker, color=colour, clip_on=False, label=each.name)
        axes.set_xscale("log")
        axes.set_xlim(low / 1.3, high)  # leaves room for the marker at the lower end
        axes.set_ylim(len(found) - 0.5, -0.5)
        axes.set_yticks(range(len(found)), [each.name for each in found])
        axes.tick_params(axis="y", length=0)
        for tick, each in zip(axes.get_yticklabels(), found, strict=True):
            if each.warns:
                tick.set(color=ORANGE, fontweight="bold")
        axes.set_xlabel("value / threshold")
        write_decades(axes)
        open_frame(axes)
    return axes


def plot_audit(risk: Risk, ax: Axes | None = None, *, log_time: bool = False) -> Axes:
    """Plot the audit: exact leave-one-out minus estimated risk, and the bias correction applied.

    Parameters
    ----------
    risk : Risk
        Risk estimate with an audit.
    ax : matplotlib.axes.Axes, optional
        Axes to plot on. If None, a new figure is created.
    log_time : bool, default=False
        Whether to show iterations on a logarithmic scale.

    Returns
    -------
    matplotlib.axes.Axes
    """
    audit = risk.audit
    if audit is None:
        raise ValueError("the estimate has no audit; use estimate_risk(path, audit=32)")
    difference, error, repair = (
        to_numpy(values) for values in (audit.difference, audit.stderr, audit.repair)
    )
    t, low, high = np.arange(len(difference)), difference - 2 * error, difference + 2 * error
    with drawing_on(ax) as axes:
        axes.axhline(0, color=BLACK, lw=0.5)
        axes.plot(t, difference, color=BLUE, label="leave-one-out − estimated")
        draw_band(axes, low, high)
        axes.plot(t, repair, color=ORANGE, ls="--", label="correction applied")
        set_time_axis(axes, len(t) - 1, log_time)
        axes.set_ylabel(f"difference in {name_of_loss(risk.test_loss)}")
        open_frame(axes)
        _show_most(axes, low, high)
        place_legend(axes)
    return axes


def _show_most(ax: Axes, low: np.ndarray, high: np.ndarray) -> None:
    """Set the y limits to show the whole band except values far from the rest of it."""
    sizes = np.maximum(np.abs(low), np.abs(high))
    cap = 4 * float(np.quantile(sizes, 0.75)) or float(sizes.max())
    within = sizes <= cap
    bottom, top = min(low[within].min(), 0.0), max(high[within].max(), 0.0)
    margin = 0.05 * (top - bottom) or 1.0
    ax.set_ylim(bottom - margin, top + margin)
    note_beyond(ax, sizes[~within])
