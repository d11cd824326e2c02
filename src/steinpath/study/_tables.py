"""Tables of results, and common parts of the figures that are drawn from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from steinpath._support.charts import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, YELLOW
from steinpath.study._base import Exhibit, Results, Row, Table
from steinpath.study._settings import Configuration, Curves, pair_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Name of each estimator, its name in tables and in figures, colour and line style: distinguishable
# in greyscale and by colour-blind readers.
_ESTIMATORS = (
    ("truth", "R", "true risk $R$", BLACK, "-"),
    ("tilde", "R̃", r"$\tilde R$, covariance known", BLUE, "--"),
    ("hat", "R̂", r"$\hat R$", ORANGE, "-."),
    ("scaled", "R̂, rows scaled", r"$\hat R$, row scale", GREEN, "--"),
    ("audited", "R̂ audited", r"$\hat R$, audited", GREEN, "-"),
    ("safe", "R̂ audited, auto", r"$\hat R$, audited, automatic row scale", BLUE, ":"),
    ("unaudited", "R̂ unaudited", r"$\hat R$, unaudited", ORANGE, "-."),
    ("folds", "10-fold, corrected", "10-fold, corrected", PURPLE, ":"),
    ("mended", "audited by 64 rows", "audited with 64 rows", GREEN, "-"),
    ("burman", "10-fold, corrected", "10-fold, corrected", PURPLE, ":"),
    ("five", "5-fold", "5-fold", PURPLE, ":"),
    ("ten", "10-fold", "10-fold", YELLOW, "--"),
    ("loo", "leave-one-out", "leave-one-out", GREY, "-"),
    ("train", "training error", "training error", GREY, ":"),
)
PLAIN = {name: plain for name, plain, *_ in _ESTIMATORS}
STYLES: dict[str, dict[str, Any]] = {
    name: {"label": label, "color": colour, "ls": ls, "lw": 1.6 if name == "truth" else 1.3}
    for name, _, label, colour, ls in _ESTIMATORS
}

#: Points of a panel: table, name of a column, style.
Series = list[tuple[Table, str, dict[str, Any]]]
#: A panel of `draw_bars`: its title, points and unit, and the place of a line if there is one.
Bars = tuple[str, Series, str, float | None]

#: Nominal coverage of ± 2 standard errors.
NOMINAL = float(1 - 2 * ndtr(-2))


def mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean over the replications and its standard error."""
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def centered(values: np.ndarray) -> np.ndarray:
    """Subtract the risk of the zero prediction (iteration 0) in each replication."""
    return np.asarray(values - values[:, :1])


def inside(values: np.ndarray) -> np.ndarray:
    """Return whether zero is within two standard errors of the mean over the replications."""
    mean, error = mean_and_error(values)
    return np.asarray(np.abs(mean) <= 2 * error)


def means(columns: Curves) -> Row:
    """Return the mean of each column over the replications, each followed by its s.e."""
    row: Row = {}
    for name, values in columns.items():
        mean, error = mean_and_error(values)
        row |= {name: float(mean), f"{name}_se": float(error)}
    return row


def mean_curves(s: Configuration, curves: Curves, names: Iterable[str], **labels: Any) -> Table:
    """Return rows with the mean over replications of each iterate's risks, and its s.e."""
    columns = {name: mean_and_error(curves[name]) for name in names}
    return [
        {"loss": s.loss, "penalty": s.penalty, **labels, "iterate": t}
        | {name: float(mean[t]) for name, (mean, _) in columns.items()}
        | {f"{name}_se": float(error[t]) for name, (_, error) in columns.items()}
        for t in range(s.iters + 1)
    ]


def labels_of(s: Configuration, columns: Curves) -> Row:
    """Return the columns that tables of configurations have in common."""
    reps = len(next(iter(columns.values())))
    return {"loss": s.loss, "penalty": s.penalty, "n": s.n, "p": s.p, "reps": reps}


def columns_under(columns: Curves, name: str) -> Curves:
    """Return the columns whose names start with ``name_``, with this prefix removed."""
    start = f"{name}_"
    return {k.removeprefix(start): v for k, v in columns.items() if k.startswith(start)}


def exhibits_by_size(
    name: str | Callable[[Configuration], str],
    results: Results,
    rows: Callable[[Configuration, Curves], Table],
    draw: Callable[[Table], Figure],
) -> list[Exhibit]:
    """Return an exhibit for each name, n and p, with the rows of all its configurations."""
    tables: dict[str, Table] = {}
    for config, curves in results.items():
        own = name if isinstance(name, str) else name(config)
        tables.setdefault(f"{own}-n{config.n}-p{config.p}", []).extend(rows(config, curves))
    return [Exhibit(own, table, draw) for own, table in tables.items()]


def renamed(
    table: Table, names: Iterable[str], titles: dict[str, str], **values: dict[str, str]
) -> Table:
    """Return columns of a table, some under titles, with display names of pairs and `values`."""
    titles = {name: name for name in names} | titles
    summary = []
    for row in table:
        shown = row | {name: display[row[name]] for name, display in values.items()}
        shown["pair"] = pair_title(row["loss"], row["penalty"])
        summary.append({title: shown[name] for name, title in titles.items()})
    return summary


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
    from steinpath.plots import import_pyplot

    size = (width * columns, height * rows + 0.4)
    figure, axes = import_pyplot().subplots(
        rows, columns, figsize=size, layout="constrained", squeeze=False, **options
    )
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize="small")
    return figure, axes


def draw_pairs(
    table: Table,
    names: Iterable[str],
    ylabel: Callable[[str], str],
    more: Callable[[Axes], Any] = lambda ax: None,
    columns: int = 5,
    **options: Any,
) -> Figure:
    """Draw curves of each pair, with a y label given the loss."""

    def draw(ax: Axes, rows: Table) -> None:
        draw_curves(ax, rows, names)
        more(ax)

    figure, axes = pair_panels(table, draw, ylabel, **options)
    return share_legend(figure, axes, columns, xlabel="iteration")


def pair_panels(
    table: Table,
    draw: Callable[[Axes, Table], None],
    ylabel: Callable[[str], str],
    **options: Any,
) -> tuple[Figure, np.ndarray]:
    """Draw panels by loss (rows, each with its y label) and penalty (columns)."""
    losses, penalties = distinct(table, "loss"), distinct(table, "penalty")
    figure, axes = panels(len(losses), len(penalties), sharex=True, **options)
    for row, loss in zip(axes, losses, strict=True):
        for ax, penalty in zip(row, penalties, strict=True):
            ax.set_title(pair_title(loss, penalty), fontsize="small")
            draw(ax, select(table, loss=loss, penalty=penalty))
        row[0].set_ylabel(ylabel(loss), fontsize="small")
    return figure, axes


def draw_curves(ax: Axes, rows: Table, names: Iterable[str], **changes: Any) -> None:
    """Draw means over replications against the iteration, with ± 2 s.e. bands if they have s.e."""
    t = column(rows, "iterate")
    for name in names:
        style = {**STYLES.get(name, {"lw": 1.3}), **changes}
        mean = column(rows, name)
        ax.plot(t, mean, **style)
        if rows and f"{name}_se" in rows[0]:
            error = 2 * column(rows, f"{name}_se")
            ax.fill_between(t, mean - error, mean + error, color=style["color"], alpha=0.2, lw=0)


def draw_bars(labels: list[str], bars: list[Bars], width: float) -> tuple[Figure, np.ndarray]:
    """Draw panels of labelled rows, the first on top, as points with ± 2 s.e. if they have s.e."""
    figure, (axes,) = panels(1, len(bars), width=width, height=0.2 * len(labels) + 0.8, sharey=True)
    axes[0].set_yticks(np.arange(len(labels)), labels, fontsize="x-small")
    axes[0].set_ylim(len(labels) - 0.5, -0.5)
    for ax, (title, series, unit, line) in zip(axes, bars, strict=True):
        for k, (table, name, style) in enumerate(series):
            place = np.arange(len(table)) + (k - (len(series) - 1) / 2) * 0.6 / len(series)
            mean, style = column(table, name), {**style, "ls": "", "ms": 4, "lw": 1}
            if f"{name}_se" in table[0]:
                ax.errorbar(mean, place, xerr=2 * column(table, f"{name}_se"), **style)
            else:
                ax.plot(mean, place, **style)
        if line is not None:
            ax.axvline(line, color=GREY, lw=1)
        ax.set_title(title, fontsize="small")
        ax.set_xlabel(unit, fontsize="small")
    return figure, axes


def nominal_band(span: Callable[..., Any], reps: int, *, label: bool = True) -> None:
    """Draw, with `axhspan` or `axvspan`, where coverage of ± 2 s.e. may lie by chance."""
    chance = 2 * np.sqrt(NOMINAL * (1 - NOMINAL) / reps)
    text = f"{NOMINAL:.1%}, ± 2 s.e. of {reps} replications" if label else None
    high = min(1.0, NOMINAL + chance)
    span(NOMINAL - chance, high, color=GREY, alpha=0.15, lw=0, label=text)


def size_label(row: Row) -> str:
    """Return the display name of the pair of a row, and its n and p."""
    return f"{pair_title(row['loss'], row['penalty'])} {row['n']}×{row['p']}"


def share_legend(figure: Figure, axes: np.ndarray, columns: int = 5, xlabel: str = "") -> Figure:
    """Draw one legend for all panels, below them and their x label; return the figure."""
    for ax in axes[-1] if xlabel else ():
        ax.set_xlabel(xlabel, fontsize="small")
    handles: dict[str, Any] = {}
    for ax in axes.flat:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    place: dict[str, Any] = {"loc": "outside lower center", "ncols": min(columns, len(handles))}
    figure.legend(handles.values(), handles, frameon=False, fontsize="small", **place)
    return figure


def around(ax: Axes, rows: Table, names: Iterable[str]) -> None:
    """Set the y limits to show the curves except values far above their ends."""
    curves = [column(rows, name) for name in names]
    low = min(curve.min() for curve in curves)
    later = max(np.quantile(curve, 0.98) for curve in curves)
    span = later - low
    top = min(max(curve.max() for curve in curves), later + 2 * span)
    ax.set_ylim(low - 0.08 * span, top + 0.08 * span)
