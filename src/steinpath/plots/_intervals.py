"""Forest plot of confidence intervals for coefficients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steinpath._support.colours import GREY, ORANGE
from steinpath._support.validation import check_count
from steinpath.plots._style import drawing_on, note, open_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from steinpath.inference._coefficient_intervals import CoefficientIntervals


def plot_intervals(
    intervals: CoefficientIntervals,
    ax: Axes | None = None,
    *,
    most: int = 40,
    fdr: float = 0.1,
    n_tests: int | None = None,
) -> Axes:
    """Plot confidence intervals for coefficients, sorted by estimate.

    Coefficients selected by the Benjamini–Hochberg procedure are coloured.

    Parameters
    ----------
    intervals : CoefficientIntervals
        Intervals to plot.
    ax : matplotlib.axes.Axes, optional
        Axes to plot on. If None, a new figure is created.
    most : int, default=40
        Maximum number of intervals: those with the smallest p-values are plotted. Coefficients
        that are not identified are excluded.
    fdr : float, default=0.1
        False discovery rate for the coloured coefficients.
    n_tests : int, optional
        Number of hypotheses; see `steinpath.CoefficientIntervals.significant`.

    Returns
    -------
    matplotlib.axes.Axes
    """
    most = check_count("most", most)
    known = np.flatnonzero(np.isfinite(intervals.stderr))
    if not len(known):
        raise ValueError("nothing to plot: no coefficient is identified")
    shown = known[np.argsort(intervals.pvalue[known], kind="stable")[:most]]
    shown = shown[np.argsort(-intervals.estimate[shown], kind="stable")]
    found = intervals.significant(fdr, n_tests)
    names = intervals.names or [f"column {j}" for j in intervals.features]
    with drawing_on(ax, (4.8, 0.75 + 0.17 * len(shown))) as axes:
        axes.axvline(0, color=GREY, lw=0.6, ls=":", zorder=1)
        for place, k in enumerate(shown):
            colour = ORANGE if found[k] else GREY
            ends = intervals.lower[k], intervals.upper[k]
            axes.plot(ends, [place] * 2, color=colour, lw=1, solid_capstyle="butt")
            axes.plot(intervals.estimate[k], place, "o", color=colour, ms=3)
        axes.set(ylim=(len(shown) - 0.4, -0.6))
        axes.set_yticks(range(len(shown)), [names[k] for k in shown])
        axes.tick_params(axis="y", length=0)
        axes.locator_params(axis="x", nbins=6)
        axes.set_xlabel(f"coefficient with {intervals.level:.0%} confidence interval")
        some = f"{len(shown)} of {len(intervals.features)}, " * (
            len(shown) < len(intervals.features)
        )
        note(axes, f"{some}coloured: significant at FDR {fdr:.0%}")
        open_frame(axes)
    return axes
