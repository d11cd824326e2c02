"""Plots with one line for each coefficient, model or diagnostic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.charts import BLACK, BLUE, GREY, ORANGE, on_axes
from steinpath._support.printing import with_error
from steinpath._support.validation import check_count
from steinpath.plots._coefficients import shorten
from steinpath.plots._style import drawing_on, note, use_log_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from steinpath.inference._coefficient_intervals import CoefficientIntervals
    from steinpath.risk._risk import Risk

# Ratios of value to threshold below this are drawn at the end of the scale.
_SMALLEST_RATIO = 1e-2


# Longest name of a line: longer ones would leave no room for the lines.
_LONGEST = 60


@on_axes
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
    """
    most = check_count("most", most)
    known = np.flatnonzero(np.isfinite(intervals.stderr))
    if not len(known):
        raise ValueError("nothing to plot: no coefficient is identified")
    shown = known[np.argsort(intervals.pvalue[known], kind="stable")[:most]]
    shown = shown[np.argsort(-intervals.estimate[shown], kind="stable")]
    significant = intervals.significant(fdr, n_tests)
    names = intervals.names or [f"column {j}" for j in intervals.features]
    total = len(intervals.features)
    with drawing_on(ax, (4.8, 0.75 + 0.17 * len(shown))) as axes:
        axes.axvline(0, color=GREY, lw=0.6, ls=":", zorder=1)
        for place, k in enumerate(shown):
            colour = ORANGE if significant[k] else GREY
            ends = intervals.lower[k], intervals.upper[k]
            axes.plot(ends, [place] * 2, color=colour, lw=1, solid_capstyle="butt")
            axes.plot(intervals.estimate[k], place, "o", color=colour, ms=3)
        label_lines(axes, [names[k] for k in shown])
        axes.locator_params(axis="x", nbins=6)
        axes.set_xlabel(f"{intervals.what}, {intervals.level:.0%} confidence interval")
        some = f"{len(shown)} of {total}, " if len(shown) < total else ""
        note(axes, f"{some}coloured: significant at FDR {fdr:.0%}")
    return axes


@on_axes
def plot_ranking(rows: Sequence[Any], ax: Axes | None = None) -> Axes:
    """Plot the estimated risks of models with ± 2 standard errors, best first.

    The difference from the best model is written at the right. Models much worse than the others
    are drawn as arrows at the end of the scale.

    Parameters
    ----------
    rows : sequence of Ranked
        Models to plot, in any order; see ``steinpath.app.fitted``.
    """
    if not len(rows):
        raise ValueError("nothing to rank: rows is empty")
    rows = sorted(rows, key=lambda row: row.risk)
    risks, errors = (np.array([getattr(row, name) for row in rows]) for name in ("risk", "stderr"))
    errors = np.where(np.isfinite(errors), errors, 0.0)  # those that are not known
    low, high = _range_of(risks, 2 * errors)
    with drawing_on(ax, (4.8, 0.75 + 0.2 * len(rows))) as axes:
        axes.axvline(risks[0], color=GREY, lw=0.6, ls=":", zorder=1)
        for place, (risk, error) in enumerate(zip(risks, errors, strict=True)):
            colour, marker = (BLUE, "o") if place else (ORANGE, "D")
            axes.plot([risk - 2 * error, risk + 2 * error], [place] * 2, color=colour, lw=1)
            marker = ">" if risk > high else marker
            axes.plot(min(risk, high), place, marker, color=colour, clip_on=False)
            if len(rows) > 1:
                behind = rows[place].behind, rows[place].behind_stderr
                difference = with_error(*behind, signed=True)
                text = difference if any(behind) else "best"
                axes.annotate(text, (1, place), **_AT_RIGHT)
        if len(rows) > 1:
            note(axes, "difference ± s.e.", outside=True)
        label_lines(axes, [f"{row.loss} + {row.penalty}" for row in rows])
        axes.locator_params(axis="x", nbins=6)
        axes.set(xlim=(low, high), xlabel="estimated risk ± 2 standard errors")
    return axes


_AT_RIGHT: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "xytext": (8, 0)}
_AT_RIGHT |= {"textcoords": "offset points", "va": "center_baseline"}
_AT_RIGHT |= {"fontsize": "medium", "annotation_clip": False}


def _range_of(risks: np.ndarray, errors: np.ndarray) -> tuple[float, float]:
    """Return axis limits: the range of the risks except those much larger than most."""
    seen = max(float(np.median(risks)) - risks[0], errors[0])
    near = risks <= risks[0] + 6 * seen
    low, high = float((risks - errors)[near].min()), float((risks + errors)[near].max())
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


@on_axes
def plot_diagnostics(risk: Risk, ax: Axes | None = None) -> Axes:
    """Plot the value of each diagnostic relative to its threshold; it warns above 1.

    Values that are zero, not finite or far below their threshold are drawn as arrows at the end of
    the scale.
    """
    diagnostics = risk.diagnostics
    ratios = np.array([diagnostic.value / diagnostic.threshold for diagnostic in diagnostics])
    finite = ratios[np.isfinite(ratios)]
    low, high = _SMALLEST_RATIO, max(5.0, 2 * float(finite.max(initial=1.0)))
    shown = np.clip(np.nan_to_num(ratios, nan=low, posinf=high, neginf=low), low, high)
    with drawing_on(ax, (4.8, 0.7 + 0.19 * len(diagnostics))) as axes:
        axes.axvline(1, color=BLACK, lw=0.8, ls=(0, (4, 2)), label="threshold")
        for place, (diagnostic, ratio) in enumerate(zip(diagnostics, shown, strict=True)):
            colour, marker = (ORANGE, "D") if diagnostic.warns else (BLUE, "o")
            axes.plot([low / 1.3, ratio], [place, place], color=colour, lw=0.8, alpha=0.6)
            marker = "<" if ratio == low else ">" if ratio == high else marker
            axes.plot(ratio, place, marker, color=colour, clip_on=False, label=diagnostic.name)
        use_log_scale(axes)
        axes.set_xlim(low / 1.3, high)  # leaves room for the marker at the lower end
        label_lines(axes, [diagnostic.name for diagnostic in diagnostics])
        for tick, diagnostic in zip(axes.get_yticklabels(), diagnostics, strict=True):
            if diagnostic.warns:
                tick.set(color=ORANGE, fontweight="bold")
        axes.set_xlabel("value / threshold")
    return axes


def label_lines(ax: Axes, names: Sequence[str]) -> None:
    """Name lines at heights 0, 1, …, from the top."""
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_yticks(range(len(names)), [shorten(name, _LONGEST) for name in names])
    ax.tick_params(axis="y", length=0)
