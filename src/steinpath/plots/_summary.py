"""Summary figure of a tuning result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath.plots._classes import plot_roc
from steinpath.plots._coefficients import plot_coefficients
from steinpath.plots._lists import plot_diagnostics
from steinpath.plots._residuals import plot_residuals
from steinpath.plots._risks import plot_audit, plot_penalties, plot_risk, plot_tuning
from steinpath.plots._style import dress, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from steinpath.tuning._tuning import Tuning

_SIZE = (9.6, 5.8)


def plot_summary(tuning: Tuning, names: Sequence[str] | None = None, scale: Any = None) -> Figure:
    """Plot a summary of a tuning result in six panels.

    (a) Estimated risk by iteration at the selected regularisation strength, (b) estimated risk over
    all regularisation strengths and iterations, (c) coefficients, (d) diagnostics, (e) corrected
    against raw residuals, or for classification the out-of-fold ROC curve, and (f) the audit, or
    without an audit the smallest risk for each regularisation strength.

    Parameters
    ----------
    tuning : Tuning
        Tuning result to plot.
    names : sequence of str of length p, optional
        Names of the columns of X.
    scale : array-like of shape (p,), optional
        Factors by which the coefficients are multiplied; see `plot_coefficients`.
    """
    k, best = tuning.best
    risk = tuning.risks[k]
    with new_figure(_SIZE, **{"legend.fontsize": 7}) as figure:
        axes = figure.subplots(2, 3).ravel()
        for letter, ax in zip("abcdef", axes, strict=True):
            dress(ax)
            ax.set_title(f"({letter})", loc="left", fontweight="bold")
        plot_risk(risk, axes[0], log_time=True, best=best)
        plot_tuning(tuning, axes[1])
        plot_diagnostics(risk, axes[3])
        if risk.path.loss.margin:
            plot_roc(tuning, axes[4])
        else:
            plot_residuals(risk, best, axes[4])
        if risk.audit is not None and np.any(to_numpy(risk.audit.difference)):
            plot_audit(risk, axes[5], log_time=True)
        else:
            plot_penalties(tuning, axes[5])
        # last, because its labels are placed according to the final layout
        plot_coefficients(risk.path, names, scale=scale, best=best, ax=axes[2])
    return figure
