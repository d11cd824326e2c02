"""Comparison of losses and penalties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.colours import BLUE, GREY, ORANGE
from steinpath._support.printing import with_error
from steinpath.plots._style import drawing_on, note, open_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_ranking(rows: Sequence[Any], ax: Axes | None = None) -> Axes:
    """Plot the estimated risks of models with ± 2 standard errors, best first.

    The difference from the best model is written at the right. Models much worse than the others
    are drawn as arrows at the end of the scale.

    Parameters
    ----------
    rows : sequence of Ranked
        Models to plot, in any order; see ``steinpath.app.fitted``.
    ax : matplotlib.axes.Axes, optional
        Axes to plot on. If None, a new figure is created.

    Returns
    -------
    matplotlib.axes.Axes
    """
    if not len(rows):
        raise ValueError("nothing to rank: rows is empty")
    rows = sorted(rows, key=lambda row: row.risk)
    risks, errors = (np.array([getattr(row, name) for row in rows]) for name in ("risk", "stderr"))
    low, high = _range_of(risks, 2 * errors)
    with drawing_on(ax, (4.8, 0.75 + 0.2 * len(rows))) as axes:
        axes.axvline(risks[0], color=GREY, lw=0.6, ls=":", zorder=1)
        for place, (risk, error) in enumerate(zip(risks, errors, strict=True)):
            colour, marker = (BLUE, "o") if place else (ORANGE, "D")
            axes.plot([risk - 2 * error, risk + 2 * error], [place] * 2, color=colour, lw=1)
            marker = ">" if risk > high else marker
            axes.plot(min(risk, high), place, marker, color=colour, clip_on=False)
            if len(rows) > 1:
                axes.annotate(_behind(rows[place]), (1, place), **_AT_RIGHT)
        if len(rows) > 1:
            note(axes, "difference ± s.e.", outside=True)
        axes.set(xlim=(low, high), ylim=(len(rows) - 0.4, -0.6))
        axes.set_yticks(range(len(rows)), [f"{row.loss} + {row.penalty}" for row in rows])
        axes.tick_params(axis="y", length=0)
        axes.locator_params(axis="x", nbins=6)
        axes.set_xlabel("estimated risk ± 2 standard errors")
        open_frame(axes)
    return axes


_AT_RIGHT: dict[str, Any] = {
    "xycoords": ("axes fraction", "data"),
    "xytext": (8, 0),
    "textcoords": "offset points",
    "va": "center_baseline",
    "fontsize": "medium",
    "annotation_clip": False,
}


def _behind(row: Any) -> str:
    if not row.behind and not row.behind_stderr:
        return "best"
    return with_error(row.behind, row.behind_stderr, signed=True, exponent_from=1e4)


def _range_of(risks: np.ndarray, errors: np.ndarray) -> tuple[float, float]:
    """Return axis limits: the range of the risks except those much larger than most."""
    seen = max(float(np.median(risks)) - risks[0], errors[0])
    near = risks <= risks[0] + 6 * seen
    low, high = float((risks - errors)[near].min()), float((risks + errors)[near].max())
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin
