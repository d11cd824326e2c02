"""Publication-quality plots. Matplotlib is imported on first use.

Each function draws on the axes passed to it, in the user's own style, or on a new figure in the
style of this package, and returns the axes. ``matplotlib.rcParams`` is not modified. `save` writes
a figure to a file.
"""

from steinpath._support.charts import BLUE, GREEN, GREY, ORANGE
from steinpath.plots._classes import plot_reliability, plot_roc, reliability, roc_curve
from steinpath.plots._coefficients import largest_sizes, plot_coefficients, shorten
from steinpath.plots._curves import (
    contribution,
    largest_levels,
    plot_curves,
    plot_importance,
    plot_products,
)
from steinpath.plots._lists import plot_diagnostics, plot_intervals, plot_ranking
from steinpath.plots._residuals import (
    QUANTILES,
    held_out,
    plot_left_out_residuals,
    plot_predicted,
    plot_residuals,
)
from steinpath.plots._risks import (
    RiskPathDisplay,
    plot_audit,
    plot_penalties,
    plot_risk,
    plot_summary,
    plot_tuning,
)
from steinpath.plots._style import check_ending, close, drawn_as, import_pyplot, save

__all__ = ["BLUE", "GREEN", "GREY", "ORANGE", "RiskPathDisplay", "close", "import_pyplot"]
__all__ += ["plot_audit", "plot_coefficients", "plot_curves", "plot_diagnostics"]
__all__ += ["plot_importance", "plot_intervals", "plot_left_out_residuals", "plot_penalties"]
__all__ += ["plot_predicted", "plot_products", "plot_ranking", "plot_reliability"]
__all__ += ["plot_residuals", "plot_risk", "plot_roc", "plot_summary", "plot_tuning", "save"]
# for the report and the command
__all__ += ["QUANTILES", "check_ending", "contribution", "drawn_as", "held_out", "largest_levels"]
__all__ += ["largest_sizes", "reliability", "roc_curve", "shorten"]
