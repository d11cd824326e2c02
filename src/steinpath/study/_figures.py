"""Common parts of the figures: panels by loss and penalty, curves with bands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from steinpath._support.charts import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, YELLOW
from steinpath.study._base import Table
from steinpath.study._settings import pair_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Label, colour and line style of each estimator, distinguishable in greyscale and by
#: colour-blind readers.
STYLES: dict[str, dict[str, Any]] = {
    "truth": {"label": "true risk $R$", "color": BLACK, "ls": "-", "lw": 1.6},
    "tilde": {"label": r"$\tilde R$, covariance known", "color": BLUE, "ls": "--"},
    "hat": {"label": r"$\hat R$", "color": ORANGE, "ls": "-."},
    "scaled": {"label": r"$\hat R$, row scale", "color": GREEN, "ls": "--"},
    "audited": {"label": r"$\hat R$, audited", "color": GREEN, "ls": "-"},
    "safe": {"label": r"$\hat R$, audited, automatic row scale", "color": BLUE, "ls": ":"},
    "mended": {"label": "audited with 64 rows", "color": GREEN, "ls": "-"},
    "burman": {"label": "10-fold, Burman", "color": PURPLE, "ls": ":"},
    "five": {"label": "5-fold", "color": PURPLE, "ls": ":"},
    "ten": {"label": "10-fold", "color": YELLOW, "ls": "--"},
    "loo": {"label": "leave-one-out", "color": GREY, "ls": "-"},
    "train": {"label": "training error", "color": GREY, "ls": ":"},
}

#: Names of the estimators in tables.
PLAIN = {
    "truth": "R",
    "tilde": "R̃",
    "hat": "R̂",
    "scaled": "R̂, rows scaled",
    "audited": "R̂ audited",
    "safe": "R̂ audited, auto",
    "mended": "audited by 64 rows",
    "burman": "10-fold, Burman",
    "five": "5-fold",
    "ten": "10-fold",
    "loo": "leave-one-out",
}


class Panel(NamedTuple):
    """A panel and the rows to plot in it."""

    ax: Axes
    rows: Table


def select(table: Table, **values: Any) -> Table:
    """Return the rows of a table with the given values."""
    return [row for row in table if all(row[name] == value for name, value in values.items())]


def column(table: Table, name: str) -> np.ndarray:
    """Return one column of a table."""
    return np.array([row[name] for row in table])


def distinct(table: Table, *names: str) -> list[Any]:
    """Return the distinct values of one or several columns, in order of appearance."""
    values = [tuple(row[name] for name in names) for row in table]
    return list(dict.fromkeys(v[0] if len(names) == 1 else v for v in values))


def panels(
    rows: int, columns: int, *, width: float = 2.7, height: float = 2.2, **options: Any
) -> tuple[Figure, np.ndarray]:
    """Create a figure with panels, and return their axes as a matrix."""
    size = (width * columns, height * rows + 0.4)
    from steinpath.plots import import_pyplot

    figure, axes = import_pyplot().subplots(
        rows, columns, figsize=size, layout="constrained", squeeze=False, **options
    )
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize="small")
    return figure, axes


def pair_panels(table: Table, **options: Any) -> tuple[Figure, np.ndarray, list[Panel]]:
    """Create panels by loss (rows) and penalty (columns), each with its rows of the table."""
    losses, penalties = distinct(table, "loss"), distinct(table, "penalty")
    figure, axes = panels(len(losses), len(penalties), sharex=True, **options)
    found = []
    for row, loss in zip(axes, losses, strict=True):
        for ax, penalty in zip(row, penalties, strict=True):
            ax.set_title(pair_title(loss, penalty), fontsize="small")
            found.append(Panel(ax, select(table, loss=loss, penalty=penalty)))
    return figure, axes, found


def draw_curve(ax: Axes, rows: Table, name: str, **changes: Any) -> None:
    """Draw a mean over replications against the iteration, with a ± 2 s.e. band."""
    style = {"lw": 1.3, **STYLES.get(name, {}), **changes}
    t, mean, error = (column(rows, key) for key in ("iterate", name, f"{name}_se"))
    ax.plot(t, mean, **style)
    ax.fill_between(t, mean - 2 * error, mean + 2 * error, color=style["color"], alpha=0.2, lw=0)


def label_iterations(axes: np.ndarray) -> None:
    """Label the x axes of the bottom panels."""
    for ax in axes[-1]:
        ax.set_xlabel("iteration", fontsize="small")


def share_legend(figure: Figure, axes: np.ndarray, columns: int = 5) -> None:
    """Draw one legend for all panels, below them."""
    found: dict[str, Any] = {}
    for ax in axes.flat:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.legend(
        list(found.values()),
        list(found),
        loc="outside lower center",
        ncols=min(columns, len(found)),
        frameon=False,
        fontsize="small",
    )


def around(ax: Axes, rows: Table, names: Iterable[str], beyond: float = 2.0) -> None:
    """Set the y limits to show the curves except values far above their ends."""
    curves: Sequence[np.ndarray] = [column(rows, name) for name in names]
    low = min(curve.min() for curve in curves)
    later = max(np.quantile(curve, 0.98) for curve in curves)
    span = later - low
    top = min(max(curve.max() for curve in curves), later + beyond * span)
    ax.set_ylim(low - 0.08 * span, top + 0.08 * span)
