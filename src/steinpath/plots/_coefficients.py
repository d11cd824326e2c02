"""Coefficient paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import isotonic_regression

from steinpath._support.arrays import to_numpy
from steinpath._support.charts import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, YELLOW, on_axes
from steinpath._support.printing import printable
from steinpath._support.validation import check_count
from steinpath.plots._style import drawing_on, height_of, set_time_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from steinpath.engine._path import Path

# Maximum number of unlabelled coefficients drawn, and maximum length of a name.
_GREY_LINES, _NAME_LENGTH = 500, 24
_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, BLACK, SKY, YELLOW)
# Names at the right, each connected with the end of its curve.
_AT_RIGHT: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "axes fraction"}
_AT_RIGHT |= {"va": "center", "parse_math": False, "annotation_clip": False}
_CONNECTION: dict[str, Any] = {"arrowstyle": "-", "lw": 0.5, "relpos": (0, 0.5)}
_CONNECTION |= {"shrinkA": 0, "shrinkB": 0}
# The number of an iteration, above the frame.
_ABOVE: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "xytext": (0, 2)}
_ABOVE |= {"textcoords": "offset points", "ha": "center", "va": "bottom", "fontsize": "small"}
_DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)))


@on_axes
def plot_coefficients(
    path: Path,
    names: Sequence[str] | None = None,
    *,
    scale: Any = None,
    best: int | None = None,
    top: int = 10,
    ax: Axes | None = None,
) -> Axes:
    """Plot the coefficients against the iteration, with the largest coloured and labelled.

    The largest coefficients are those at iteration ``best``, or at the last iteration if ``best``
    is None. Of the others, the 500 largest are drawn in grey.

    Parameters
    ----------
    names : sequence of str of length p, optional
        Names of the columns of X; ``x0``, ``x1``, … by default. Long names are shortened.
    scale : array-like of shape (p,), optional
        Factors by which the coefficients are multiplied, such as the standard deviations of the
        columns, to make them comparable.
    best : int, optional
        Selected iteration, marked by a vertical line.
    top : int, default=10
        Maximum number of coefficients to label.
    """
    if isinstance(path, Sequence):
        raise ValueError("path is a batch of paths; plot its members one at a time")
    p, last = path.n_features, path.n_iter
    names = [f"x{j}" for j in range(p)] if names is None else [str(name) for name in names]
    if len(names) != p:
        raise ValueError(f"names must have length {p}, one per column of X; got {len(names)}")
    top = check_count("top", top, low=0)
    if best is not None:
        best = check_count("best", best, low=0, high=last)
    scales = np.ones(p) if scale is None else np.asarray(to_numpy(scale))
    if scales.shape != (p,):
        raise ValueError(f"scale must have shape ({p},), one per column of X; got {scales.shape}")
    # copy only the coefficients that are drawn: the whole path may be large
    coef, t = to_numpy(path.coef), last if best is None else best
    on_path = largest_sizes(coef) * np.abs(scales)
    order = np.lexsort((-on_path, -np.abs(coef[t] * scales)))
    order = order[on_path[order] > 0][: top + _GREY_LINES]
    coef = coef[:, order] * scales[order]
    names = [names[j] for j in order[:top]]
    with drawing_on(ax) as axes:
        from matplotlib.collections import LineCollection

        segments = [np.column_stack([np.arange(last + 1), curve]) for curve in coef[:, top:].T]
        grey = LineCollection(segments, colors="#aaaaaa", linewidths=0.4, zorder=1.2)
        grey.set_rasterized(len(segments) > 200)
        axes.add_collection(grey)
        for k, name in enumerate(names):
            colour, dash = _COLOURS[k % len(_COLOURS)], _DASHES[k // len(_COLOURS) % len(_DASHES)]
            axes.plot(coef[:, k], color=colour, ls=dash, label=f"_{name}", zorder=2.5)
        axes.axhline(0, color=BLACK, lw=0.5, zorder=1)
        if best is not None:
            line: dict[str, Any] = {"ls": (0, (4, 2)), "label": f"iteration {best}"}
            axes.axvline(best, color=ORANGE, lw=0.8, zorder=1.5, **line)
            axes.annotate(f"{best}", (best, 1), color=ORANGE, **_ABOVE)
        low, high = (min(coef.min(initial=0), 0.0), max(coef.max(initial=0), 0.0))
        margin = 0.04 * (high - low) or 1.0
        axes.set_ylim(low - margin, high + margin)
        axes.set_ylabel("coefficient" if scale is None else "coefficient × scale")
        set_time_axis(axes, last, log=True)
        _label_ends(axes, coef[-1, :top], names)
    return axes


def largest_sizes(coef: np.ndarray) -> np.ndarray:
    """Return the largest absolute value of each coefficient on a path, without copying the path."""
    return np.asarray(np.maximum(coef.max(axis=0), -coef.min(axis=0)))


def _label_ends(ax: Axes, ends: np.ndarray, names: Sequence[str]) -> None:
    """Label the first curves at their right ends, as many as fit."""
    curves = ax.get_lines()
    size = 0.9 * float(ax.xaxis.label.get_fontsize())
    gap = 1.2 * size / height_of(ax)
    count = min(len(names), int(1.06 / gap))
    low, high = ax.get_ylim()
    places = spread((ends[:count] - low) / (high - low), gap, -0.03, 1.03)
    for curve, end, name, place in zip(curves, ends, names, places, strict=False):
        ax.annotate(
            shorten(printable(name), _NAME_LENGTH),
            (1, end),
            xytext=(1.05, place),
            fontsize=size,
            color=curve.get_color(),
            arrowprops=_CONNECTION | {"color": curve.get_color()},
            **_AT_RIGHT,
        )


def spread(places: np.ndarray, gap: float, low: float, high: float) -> np.ndarray:
    """Move numbers as little as possible so that they are ``gap`` apart and within limits."""
    if not len(places):
        return places
    order, steps = np.argsort(places, kind="stable"), gap * np.arange(len(places))
    # after subtracting the gaps, the remainders only have to be increasing
    free = isotonic_regression(places[order] - steps).x
    moved = np.empty(len(places))
    moved[order] = np.clip(free, low, max(low, high - steps[-1])) + steps
    return moved


def shorten(name: str, length: int) -> str:
    """Abbreviate a long name in the middle."""
    if len(name) <= length:
        return name
    head = (length - 1) * 2 // 3
    return f"{name[:head].rstrip()}…{name[-(length - 1 - head) :].lstrip()}"
