"""Colours of all plots, and small SVG charts for notebooks.

Neither matplotlib nor JavaScript is needed. Text and axes have the colour of the surrounding text,
so that charts are legible in light and dark notebooks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath._support.docstrings import describes
from steinpath._support.printing import number, text

# The colour-blind-safe palette of Okabe and Ito (2008).
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"
PURPLE, SKY, YELLOW, BLACK = "#CC79A7", "#56B4E9", "#E69F00", "#000000"
_COLOURS = (BLUE, ORANGE, GREEN, SKY, PURPLE, YELLOW)
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 420, 190, 58, 12, 20, 34
# Points of a line, and characters of a label, at most: the size of the page is bounded.
_MOST_POINTS, _MOST_CHARACTERS = 80, 24
# Share of the largest values of a chart that may be cut off: iterates may diverge.
_CUT_OFF = 0.02

# Parameters of several plots, which do not describe them themselves.
on_axes = describes(
    """\
path : Path
    Path to plot.
risk : Risk
    Risk estimate to plot.
tuning : Tuning
    Tuning result to plot.
intervals : CoefficientIntervals
    Intervals to plot.
model : Pipeline
    Fitted pipeline of a `steinpath.TableEncoder` and an estimator such as `steinpath.LADLasso`.
which : int, default=0
    Index of one of several classes or quantiles.
fig : matplotlib.figure.Figure or SubFigure, optional
    Figure to plot on. If None, a new figure is created.
ax : matplotlib.axes.Axes, optional
    Axes to plot on. If None, a new figure is created.
names : sequence of str of length p, optional
    Names of the columns of X.
log_time : bool, default=False
    Whether to show iterations on a logarithmic scale.
most : int, default=40
    Maximum number of intervals: those with the smallest p-values are plotted. Coefficients
    that are not identified are excluded.
fdr : float, default=0.1
    False discovery rate for the coloured coefficients.
n_tests : int, optional
    Number of hypotheses; see `steinpath.CoefficientIntervals.significant`.""",
    returns="matplotlib.axes.Axes\n    The axes.",
)


def line_chart(
    x: Any,
    lines: Mapping[str, Any],
    *,
    x_label: str,
    marked: int | None = None,
    errors: Any = None,
    log_x: bool = False,
    legend: bool = True,
) -> str:
    """Return a chart of lines as SVG; all but the first are dashed, if there is a legend.

    marked: index of a point of the first line; errors: its standard errors, shown as a band
    """
    x = _floats(x)
    heights = {name: _floats(y) for name, y in lines.items()}
    first = next(iter(heights.values()), np.zeros(0))
    errors = np.zeros(len(first)) if errors is None else _floats(errors)
    band = first + errors, first - errors
    every = np.concatenate([*heights.values(), *band])
    every = every[np.isfinite(every)]
    if not len(every):
        return ""
    positions = np.log(x) if log_x else x
    to_x = _Scale(positions.min(), positions.max(), _LEFT, _WIDTH - _RIGHT)
    low, high = _range(every)
    to_y = _Scale(low, high, _HEIGHT - _BOTTOM, _TOP)
    kept = np.unique(np.linspace(0, len(x) - 1, min(len(x), _MOST_POINTS)).astype(int))
    if marked is not None:
        kept = np.union1d(kept, [marked % len(x)])
    parts = [_frame(x_label, [(to_x(positions[k]), number(x[k], 3)) for k in (0, -1)], to_y)]
    if np.any(errors > 0):
        around = [_points(to_x(positions[kept]), to_y(each[kept])) for each in band]
        points = " ".join([around[0], *reversed(around[1].split(" "))])
        parts.append(f'<polygon points="{points}" fill="{BLUE}" fill-opacity=".18"/>')
    for k, (name, y) in enumerate(heights.items()):
        colour, dash = _COLOURS[k % len(_COLOURS)], ' stroke-dasharray="4 3"' * (k > 0 and legend)
        points = _points(to_x(positions[kept]), to_y(y[kept]))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"{dash}>'
            f"<title>{text(name, _MOST_CHARACTERS)}</title></polyline>"
        )
        if legend:
            left = _LEFT + 110 * k
            parts.append(
                f'<line x1="{left}" x2="{left + 16}" y1="{_TOP - 11}" y2="{_TOP - 11}" '
                f'stroke="{colour}" stroke-width="2"{dash}/>'
                + _label(left + 20, _TOP - 8, name, "start")
            )
    if marked is not None:
        across, down = to_x(positions[marked]), to_y(first[marked])
        circle = f'<circle cx="{across:.1f}" cy="{down:.1f}" r="3.5" fill="{ORANGE}"/>'
        parts += [_rule(across, _HEIGHT), circle]
    return _svg(_HEIGHT, parts)


def interval_chart(
    names: Sequence[object], estimate: Any, lower: Any, upper: Any, *, x_label: str
) -> str:
    """Return a forest plot as SVG: intervals with finite ends, and a rule at zero."""
    estimate, lower, upper = map(_floats, (estimate, lower, upper))
    shown = np.flatnonzero(np.isfinite(lower) & np.isfinite(upper))
    if not len(shown):
        return ""
    left, height = 150, _TOP + 16 * len(shown) + _BOTTOM
    low, high = min(float(lower[shown].min()), 0.0), max(float(upper[shown].max()), 0.0)
    to_x = _Scale(low, high, left, _WIDTH - _RIGHT)
    ends = [(to_x(low), number(low, 3)), (to_x(high), number(high, 3))]
    parts = [_frame(x_label, ends, None, left, height), _rule(to_x(0.0), height)]
    for row, k in enumerate(shown.tolist()):
        y = _TOP + 16 * row + 8
        colour = "currentColor" if lower[k] <= 0 <= upper[k] else BLUE
        parts.append(
            f'<line x1="{to_x(lower[k]):.1f}" x2="{to_x(upper[k]):.1f}" y1="{y}" y2="{y}" '
            f'stroke="{colour}" stroke-width="2"/>'
            f'<circle cx="{to_x(estimate[k]):.1f}" cy="{y}" r="3" fill="{colour}"/>'
            + _label(left - 6, y + 3.5, names[k], "end")
        )
    return _svg(height, parts)


def _svg(height: int, parts: Iterable[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" role="img" font-family="sans-serif" font-size="10">'
        f"{''.join(parts)}</svg>"
    )


def _rule(x: Any, height: int) -> str:
    """Return a dashed vertical line across a chart."""
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{height - _BOTTOM}" '
        'stroke="currentColor" stroke-opacity=".5" stroke-dasharray="2 2"/>'
    )


def _label(x: Any, y: Any, value: object, anchor: str, most: int | None = _MOST_CHARACTERS) -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {where} fill="currentColor">{text(value, most)}</text>'


def _frame(
    x_label: str,
    ticks: Iterable[tuple[Any, str]],
    to_y: Any,
    left: int = _LEFT,
    height: int = _HEIGHT,
) -> str:
    """Return the axes with the ends of their ranges."""
    bottom, right = height - _BOTTOM, _WIDTH - _RIGHT
    axes = f"M{left} {_TOP}V{bottom}H{right}" if to_y is not None else f"M{left} {bottom}H{right}"
    parts = [f'<path d="{axes}" fill="none" stroke="currentColor" stroke-opacity=".5"/>']
    parts += [_label(at, bottom + 13, tick, "middle") for at, tick in ticks]
    parts.append(_label((left + right) / 2, height - 6, x_label, "middle", most=None))
    if to_y is not None:
        for at, value in ((bottom, to_y.low), (_TOP + 8, to_y.high)):
            parts.append(_label(left - 5, at, number(value, 3), "end"))
    return "".join(parts)


class _Scale:
    """Maps an interval of values to an interval of pixels; values outside are put at its ends."""

    def __init__(self, low: float, high: float, start: float, end: float):
        self.low, self.high, self.start, self.end = float(low), float(high), start, end

    def __call__(self, values: Any) -> Any:
        width = self.high - self.low
        with np.errstate(invalid="ignore", over="ignore"):
            shares = (np.asarray(values, float) - self.low) / (width if width > 0 else 1.0)
        shares = np.clip(np.nan_to_num(shares, nan=1.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
        return self.start + shares * (self.end - self.start)


def _range(values: np.ndarray) -> tuple[float, float]:
    """Return the range of values to show, with a margin."""
    low, high = float(values.min()), float(np.quantile(values, 1 - _CUT_OFF))
    if not math.isfinite(high - low) or high <= low:
        return low, low + max(abs(low), 1.0)
    margin = 0.06 * (high - low)
    return low - margin, high + margin


def _floats(values: Any) -> np.ndarray:
    return to_numpy(values).astype(float)


def _points(x: Any, y: Any) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
