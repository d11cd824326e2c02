"""Publication-quality plots. Matplotlib is imported on first use.

Each function draws on the axes passed to it, in the user's own style, or on a new figure in the
style of this package. ``matplotlib.rcParams`` is not modified. `save` writes a figure to a file.
"""

from steinpath._support.colours import BLUE, GREEN, GREY, ORANGE
from steinpath.plots._checks import plot_audit, plot_diagnostics, plot_residuals
from steinpath.plots._classes import plot_reliability, plot_roc
from steinpath.plots._coefficients import plot_coefficients
from steinpath.plots._intervals import plot_intervals
from steinpath.plots._left_out import plot_left_out_residuals, plot_predicted
from steinpath.plots._ranking import plot_ranking
from steinpath.plots._risks import RiskPathDisplay, plot_penalties, plot_risk, plot_tuning
from steinpath.plots._style import close, import_pyplot, new_axes, save
from steinpath.plots._summary import plot_summary

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "ORANGE",
    "RiskPathDisplay",
    "close",
    "import_pyplot",
    "new_axes",
    "plot_audit",
    "plot_coefficients",
    "plot_diagnostics",
    "plot_intervals",
    "plot_left_out_residuals",
    "plot_penalties",
    "plot_predicted",
    "plot_ranking",
    "plot_reliability",
    "plot_residuals",
    "plot_risk",
    "plot_roc",
    "plot_summary",
    "plot_tuning",
    "save",
]
