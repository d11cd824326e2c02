"""Style of all plots, and writing them to files."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from steinpath._support.charts import BLUE, GREY
from steinpath._support.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Width and height of a figure with one plot, in inches.
SIZE = (4.8, 3.2)

#: Style of new figures. The font is the user's.
STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.labelsize": 8.5,
    "axes.titlesize": 8.5,
    "axes.labelpad": 3,
    "axes.linewidth": 0.6,
    "axes.edgecolor": "#333333",
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.5,
    "axes.grid": False,
    "axes.facecolor": "white",
    "figure.facecolor": "white",
}
# Matplotlib creates ticks when it draws, by then outside of rc_context: set their style explicitly.
TICKS: dict[Literal["major", "minor"], dict[str, Any]] = {
    "major": {"length": 3, "width": 0.6, "pad": 2.5, "labelsize": 8},
    "minor": {"length": 1.6, "width": 0.4},
}

# Text is written as text, and files are reproducible.
_FILES: dict[str, Any] = {"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "steinpath"}
#: File extensions, with resolution and metadata to omit.
_FORMATS: dict[str, tuple[int, dict[str, None]]] = {
    ".png": (200, {"Software": None}),
    ".pdf": (300, {"CreationDate": None}),
    ".svg": (300, {"Date": None}),
}


def import_pyplot() -> Any:
    """Return ``matplotlib.pyplot``; raise ImportError with instructions if it is missing."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError:  # other ImportErrors, such as for lack of memory, pass through
        raise ImportError("plots require matplotlib: pip install 'steinpath[plot]'") from None
    return pyplot


@contextmanager
def drawing_on(
    ax: Axes | None, size: tuple[float, float] = SIZE, whole_frame: bool = False
) -> Iterator[Axes]:
    """Yield axes to draw on: ``ax``, or those of a new figure in the style of this package."""
    if ax is None:
        with new_figure(size) as figure, drawing_on(figure.subplots(), size, whole_frame) as axes:
            dress(axes)
            yield axes
        return
    if not whole_frame:
        ax.spines[["top", "right"]].set_visible(False)
    yield ax


@contextmanager
def new_figure(size: tuple[float, float], **style: Any) -> Iterator[Figure]:
    """Yield a new figure in the style of this package, updated by ``style``."""
    pyplot = import_pyplot()
    with pyplot.rc_context(STYLE | style):
        yield pyplot.figure(figsize=size, layout="constrained")


def dress(ax: Axes) -> None:
    """Set the tick style of new axes."""
    for which, ticks in TICKS.items():
        ax.tick_params(which=which, color=STYLE["axes.edgecolor"], **ticks)


def save(drawn: Axes | Figure, file: str | os.PathLike[str]) -> None:
    """Write a figure to a file. The same figure always gives the same bytes.

    Parameters
    ----------
    drawn : matplotlib.axes.Axes or matplotlib.figure.Figure
        The figure, or any axes on it.
    file : str or path-like
        File to write, with the extension ``.png`` (200 dots per inch), ``.pdf`` (fonts embedded)
        or ``.svg`` (text kept as text).
    """
    ending = check_ending(file)
    dpi, metadata = _FORMATS[ending]
    figure = figure_of(drawn)
    # without a layout engine text may lie outside the figure: enlarge the figure to include it
    box = "tight" if figure.get_layout_engine() is None else None
    options = {"dpi": dpi, "metadata": metadata, "bbox_inches": box}
    with import_pyplot().rc_context(_FILES), _same_layout_after(figure):
        content = drawn_as(figure, ending[1:], **options)
    write_bytes(FilePath(file), content)


def drawn_as(figure: Figure, kind: str, **options: Any) -> bytes:
    """Return a figure as the content of a file; matplotlib's writers fail badly on a full disk."""
    content = io.BytesIO()
    try:
        figure.savefig(content, format=kind, **options)
    except Exception as error:
        # an interrupted writer raises another error during clean-up, which hides the original one
        reason: BaseException | None = error
        while reason is not None and not isinstance(reason, KeyboardInterrupt | MemoryError):
            reason = reason.__context__
        if reason is None:
            raise
        raise reason from None
    return content.getvalue()


def close(drawn: Axes | Figure) -> None:
    """Close a figure, which pyplot would otherwise keep in memory."""
    import_pyplot().close(figure_of(drawn))


def check_ending(file: str | os.PathLike[str]) -> str:
    """Return the extension of a file for a plot; raise ValueError if it is not supported."""
    ending = FilePath(file).suffix.lower()
    if ending not in _FORMATS:
        raise ValueError(f"file must end in {', '.join(_FORMATS)}; got {os.fspath(file)!r}")
    return ending


@contextmanager
def _same_layout_after(figure: Figure) -> Iterator[None]:
    """Restore the positions of axes, because each layout starts from the one before."""
    before = [(ax, ax.get_position(True), ax.get_position()) for ax in figure.axes]
    try:
        yield
    finally:
        for ax, original, active in before:
            ax._set_position(original, "original")  # type: ignore[attr-defined]
            ax._set_position(active, "active")  # type: ignore[attr-defined]


def figure_of(drawn: Axes | Figure) -> Figure:
    """Return the root figure of axes or of a subfigure."""
    figure = drawn.get_figure(root=True)
    if figure is None:
        raise ValueError("the axes no longer belong to a figure")
    return figure


# Multiples of powers of ten that are labelled; fewer for longer paths.
_STEPS: tuple[Sequence[int], ...] = (range(1, 8), (1, 2, 5), (1, 3), (1,))


def set_time_axis(ax: Axes, last: int, log: bool, margin: float = 0.0) -> None:
    """Set the x axis to iterations 0 to ``last``; if ``log``, logarithmic from 1."""
    from matplotlib.ticker import MaxNLocator, NullFormatter

    if log:
        ax.set_xscale("symlog", linthresh=1, linscale=0.4)
        steps = _STEPS[sum(last >= limit for limit in (8, 20, 2000))]
        powers = 10 ** np.arange(len(str(last)))
        ticks = [0, *(int(m * power) for power in powers for m in steps if m * power <= last)]
        ax.set_xticks(ticks, [f"{tick}" for tick in ticks])
        between = np.multiply.outer(powers, np.arange(2, 10)).ravel()
        ax.set_xticks(between[between <= last], minor=True)
        ax.xaxis.set_minor_formatter(NullFormatter())
    else:
        ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 2.5, 5, 10]))
    ax.set(xlabel="iteration", xlim=(-margin, last + margin))


def draw_band(ax: Axes, low: np.ndarray, high: np.ndarray) -> None:
    """Shade a band of two standard errors."""
    label = "± 2 standard errors"
    ax.fill_between(np.arange(len(low)), low, high, color=BLUE, alpha=0.15, lw=0, label=label)


def place_legend(ax: Axes, columns: int = 2) -> None:
    """Place the legend below the axes, or above the curves if the figure has no layout engine."""
    from matplotlib.transforms import ScaledTranslation

    figure = figure_of(ax)
    style: dict[str, Any] = {"handlelength": 1.6, "columnspacing": 1.0}
    style |= {"borderaxespad": 0.3, "borderpad": 0.2, "labelspacing": 0.35, "handletextpad": 0.6}
    text = float(ax.xaxis.label.get_fontsize())
    if figure.get_layout_engine() is not None:
        below = ScaledTranslation(0, -(2.6 * text + 10) / 72, figure.dpi_scale_trans)
        style |= {"bbox_to_anchor": (0.5, 0), "bbox_transform": ax.transAxes + below}
        ax.legend(loc="upper center", frameon=False, ncols=columns, **style)
        return
    labels, box = ax.get_legend_handles_labels()[1], ax.get_window_extent()
    longest = (0.6 * max(map(len, labels)) + 4) * text  # in points, roughly
    columns = max(1, min(columns, int(box.width * 72 / figure.dpi / longest)))
    share = min(1.5 * text * -(-len(labels) // columns) / height_of(ax), 0.5)
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + share / (1 - share) * (high - low))
    ax.legend(loc="upper right", edgecolor="none", framealpha=1, ncols=columns, **style)


def height_of(ax: Axes) -> float:
    """Return the height of axes in points after layout."""
    figure = figure_of(ax)
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
    return float(ax.get_window_extent().height) * 72 / float(figure.dpi)


def note(ax: Axes, text: str, outside: bool = False) -> None:
    """Write a note above the frame at its right end, or to the right of the frame."""
    at: dict[str, Any] = {"xytext": (8, 2) if outside else (0, 2), "textcoords": "offset points"}
    at |= {"xycoords": "axes fraction", "ha": "left" if outside else "right", "va": "bottom"}
    ax.annotate(text, (1, 1), color=GREY, fontsize="small", **at)


def use_log_scale(ax: Axes) -> None:
    """Use a logarithmic x axis, with powers of ten as plain numbers."""
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


def name_of_loss(test_loss: str) -> str:
    """Return the name of a scoring loss for labels, such as "absolute loss"."""
    return f"{test_loss.replace('_', '-')} loss"
