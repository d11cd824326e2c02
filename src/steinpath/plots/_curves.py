"""What the columns of a table contribute to a fitted model: curves, products and importance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier

from steinpath._support.charts import BLACK, BLUE, GREY, ORANGE, on_axes
from steinpath._support.printing import printable
from steinpath._support.validation import check_count
from steinpath.estimators._columns import Column
from steinpath.estimators._effects import ColumnCurve, column_curves, column_effects, pair_surfaces
from steinpath.plots._coefficients import shorten
from steinpath.plots._lists import label_lines
from steinpath.plots._style import TICKS, drawing_on, dress, new_figure, note

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Levels of a category; characters of their names, of all of them side by side, and of columns.
_LEVELS, _SHORT, _BESIDE, _LONG = 12, 14, 22, 26
# Numbers from this on have ticks such as "2M".
_LARGE = 1e5
# Surfaces can be large where there are few rows: share of the values within the range of colours.
_INSIDE = 0.98


@on_axes
def plot_curves(
    model: Any,
    columns: Sequence[str] | None = None,
    *,
    which: int = 0,
    most: int = 9,
    fig: Any = None,
) -> Any:
    """Plot the contribution of each column of a table to the predictions, most important first.

    Numbers and dates have curves with a band of ± 2 standard errors; marks at the bottom are the
    knots, at quantiles of the column. Categories have points with error bars, for the 12 levels
    with the largest contributions. Contributions are relative to their mean, without products.

    Parameters
    ----------
    columns : sequence of str, optional
        Names of columns with nonzero coefficients; by default the most important ones.
    most : int, default=9
        Maximum number of columns, if `columns` is None.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    curves = {curve.name: curve for curve in column_curves(model, which)}
    names = [*curves][: check_count("most", most)] if columns is None else [*columns]
    for name in names:
        if name not in curves:
            raise ValueError(f"columns: {name!r} is not a column with nonzero coefficients")
    known = {column.name: column for column in model[0].columns_}
    with _panels(fig, len(names), 3, (2.15, 1.75), sharey=True) as (figure, axes):
        for ax, name in zip(axes, names, strict=True):
            _draw_curve(ax, curves[name], known[name])
            ax.set_title(_short(name), parse_math=False)
        figure.supylabel(contribution(model[-1]), fontsize=axes[0].yaxis.label.get_fontsize())
    return figure


@on_axes
def plot_products(model: Any, *, which: int = 0, most: int = 4, fig: Any = None) -> Any:
    """Plot the contributions of the products of two columns as heat maps, the largest first.

    They are added to the contributions of single columns. All panels have the same colours; values
    beyond their range, which covers 98% of a surface, occur where there are few rows.

    Parameters
    ----------
    most : int, default=4
        Maximum number of pairs of columns.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    from matplotlib.colors import LinearSegmentedColormap

    surfaces = pair_surfaces(model, which, check_count("most", most))
    known = {column.name: column for column in model[0].columns_}
    colours = LinearSegmentedColormap.from_list("", [BLUE, "white", ORANGE])
    with _panels(fig, len(surfaces), 2, (2.9, 2.2)) as (figure, axes):
        limit = max(float(np.quantile(np.abs(each.effect), _INSIDE)) for each in surfaces) or 1.0
        for ax, (names, sides, effect) in zip(axes, surfaces, strict=True):
            if sides[0].dtype == object:  # levels are on the vertical axis
                names, sides, effect = names[::-1], sides[::-1], effect.T
            places = list[np.ndarray]()
            for k, axis in enumerate((ax.xaxis, ax.yaxis)):
                axis.set_label_text(_short(names[k]), parse_math=False)
                at, across = sides[k], np.moveaxis(effect, k, 0)
                if not known[names[k]].holds_numbers:  # a level is a strip with two edges
                    shown = np.sort(largest_levels(np.abs(across).max(axis=1)))
                    at, effect = at[shown], np.moveaxis(np.repeat(across[shown], 2, axis=0), 0, k)
                    if k and len(shown) < len(across):
                        note(ax, f"{len(shown)} of {len(across)} levels")
                places.append(_set_axis(axis, known[names[k]], at))
                if len(at) < effect.shape[k]:
                    places[k] = np.repeat(places[k], 2) + np.tile([-0.5, 0.5], len(at))
            style: dict[str, Any] = {"cmap": colours, "vmin": -limit, "vmax": limit}
            mesh = ax.pcolormesh(*places, effect.T, shading="gouraud", rasterized=True, **style)
            ax.spines[["top", "right"]].set_visible(True)
        down = -(-len(surfaces) // 2)
        style = {"extend": "both", "aspect": 25, "shrink": 1 / down**0.5, "pad": 0.03}
        bar = figure.colorbar(mesh, ax=[*axes], label=contribution(model[-1]), **style)
        bar.outline.set_visible(False)
        if fig is None:
            bar.ax.tick_params(**TICKS["major"])
    return figure


@on_axes
def plot_importance(model: Any, ax: Axes | None = None, *, most: int = 20) -> Axes:
    """Plot the importance of each column of a table, the largest first.

    The importance is about the standard deviation of the contribution of a column to the
    predictions; see `steinpath.column_effects`. Its share is written at the right.

    Parameters
    ----------
    most : int, default=20
        Maximum number of columns.
    """
    effects = column_effects(model)
    shown = np.flatnonzero(effects.importance)[: check_count("most", most)]
    if not len(shown):
        raise ValueError("nothing to plot: all coefficients are zero")
    sizes, count = effects.importance[shown], int(np.count_nonzero(effects.importance))
    with drawing_on(ax, (4.8, 0.75 + 0.17 * len(shown))) as axes:
        axes.barh(range(len(shown)), sizes, color=BLUE, height=0.65)
        for place, k in enumerate(shown):
            text, at = f"{effects.share[k]:.1%}", (effects.importance[k], place)
            offset: dict[str, Any] = {"xytext": (4, 0), "textcoords": "offset points"}
            axes.annotate(text, at, va="center_baseline", color=GREY, fontsize="small", **offset)
        label_lines(axes, [_short(name) for name in effects.column[shown]])
        axes.locator_params(axis="x", nbins=6)
        axes.set(xlabel="importance", xlim=(0, 1.15 * sizes.max()))
        some = f"{len(shown)} of {count} columns, " if len(shown) < count else ""
        note(axes, f"{some}share of the sum of squares")
    return axes


def contribution(estimator: Any) -> str:
    """Return what columns contribute to, for labels."""
    if is_classifier(estimator):
        return "contribution to the decision value"
    of_log = getattr(estimator, "transform_target_", None) == "log"
    return f"contribution to {'log(prediction)' if of_log else 'the prediction'}"


@contextmanager
def _panels(
    fig: Any, count: int, across: int, size: tuple[float, float], **shared: Any
) -> Iterator[tuple[Any, Any]]:
    """Yield a figure, by default a new one, and axes for some panels in it."""
    if not count:
        raise ValueError("nothing to plot: all of these coefficients are zero")
    across = min(across, count)
    down = -(-count // across)
    if fig is None:
        whole = size[0] * across + 0.6, size[1] * down + 0.1
        with new_figure(whole) as figure, _panels(figure, count, across, size, **shared) as found:
            for ax in found[1]:
                dress(ax)
            yield found
        return
    grid = fig.subplots(down, across, squeeze=False, **shared).ravel()
    for ax in grid[count:]:
        ax.remove()
    for ax in grid[:count]:
        ax.spines[["top", "right"]].set_visible(False)
    yield fig, grid[:count]


def _draw_curve(ax: Axes, curve: ColumnCurve, column: Column) -> None:
    """Draw the curve of a number or date, or the points of a category."""
    _, at, effect, stderr = curve
    ax.axhline(0, color=GREY, lw=0.6, ls=":", zorder=1)
    if column.holds_numbers:
        places, error = _set_axis(ax.xaxis, column, at), 2 * stderr
        ax.fill_between(places, effect - error, effect + error, color=BLUE, alpha=0.15, lw=0)
        ax.plot(places, effect, color=BLUE)
        ax.margins(x=0.02)
        if column.curves and not column.curves[-1].period:
            knots = _places(column, np.array(column.curves[-1].knots))
            style: dict[str, Any] = {"color": BLACK, "mew": 0.5, "ms": 4, "clip_on": False}
            ax.plot(knots, 0 * knots, "|", transform=ax.get_xaxis_transform(), **style)
        elif not column.curves and not isinstance(column.fill, float):
            ax.set_xlabel("difference from the mean")
        return
    largest = largest_levels(np.abs(effect))
    shown = largest[np.argsort(-effect[largest], kind="stable")]
    places = _set_axis(ax.xaxis, column, at[shown])
    error = np.nan_to_num(2 * stderr[shown])
    ax.errorbar(places, effect[shown], error, fmt="o", ms=3.5, color=BLUE, elinewidth=1)
    ax.set_xlim(-0.6, len(shown) - 0.4)
    if len(shown) < len(at):
        note(ax, f"{len(shown)} of {len(at)} levels")


def _set_axis(axis: Any, column: Column, at: np.ndarray) -> np.ndarray:
    """Return the places of values of a column on an axis, with ticks at round ones."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    places = _places(column, at)
    if not column.holds_numbers:
        names = [shorten(printable(level), _SHORT) for level in at]
        axis.set_ticks(places, names, parse_math=False)
        if axis.axis_name == "x" and len("  ".join(names)) > _BESIDE:
            axis.set_tick_params(rotation=90)
        return places
    if column.kind == "date":
        locator = _dates().AutoDateLocator(minticks=2, maxticks=5)
        axis.set_major_locator(locator)
        axis.set_major_formatter(_dates().ConciseDateFormatter(locator, show_offset=False))
    elif column.curves and (period := int(column.curves[-1].period)):
        axis.set_ticks(np.arange(0, period + 1, max(1, period // 4)))
    else:
        axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        if np.abs(at).max() >= _LARGE:
            axis.set_major_formatter(EngFormatter(sep=""))
    return places


def _places(column: Column, at: np.ndarray) -> np.ndarray:
    """Return values of a column as numbers on an axis."""
    if not column.holds_numbers:
        return np.arange(len(at))
    return at + _dates().date2num(np.datetime64(0, "D")) if column.kind == "date" else at


def _dates() -> Any:
    from matplotlib import dates

    return dates


def largest_levels(sizes: np.ndarray) -> np.ndarray:
    """Return the levels that are shown, the largest first."""
    return np.argsort(-sizes, kind="stable")[:_LEVELS]


def _short(name: str) -> str:
    return shorten(printable(name), _LONG)
