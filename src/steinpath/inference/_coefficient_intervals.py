"""Confidence intervals for coefficients, as `coefficient_intervals` returns them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtr, stdtrit

from steinpath._support.charts import interval_chart, on_axes
from steinpath._support.printing import Summary, fragment, number
from steinpath._support.tabular import Tabular
from steinpath._support.validation import check_count, check_number
from steinpath.risk._evidence import Diagnostic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Intervals in the chart that notebooks show.
_SHOWN = 15


@dataclass(frozen=True, eq=False)
class CoefficientIntervals(Tabular):
    """Confidence intervals for coefficients. Returned by `coefficient_intervals`.

    Arrays are NumPy arrays with one entry for each requested feature. A coefficient that is not
    identified, because its column is constant or a linear combination of others, has an infinite
    ``stderr`` and a p-value of 1.

    Attributes
    ----------
    estimate : ndarray of shape (k,)
        Estimates, debiased for the penalty and early stopping.
    stderr : ndarray of shape (k,)
        Their standard errors, which include the Monte Carlo error.
    lower, upper : ndarray of shape (k,)
        Ends of the intervals.
    pvalue : ndarray of shape (k,)
        Two-sided p-values of the hypotheses that the coefficients are zero.
    t : int
        The iteration they are computed from.
    features : ndarray of int of shape (k,)
        Indices of the columns of X.
    level : float
        Confidence level of each single interval.
    df : ndarray of shape (k,)
        Degrees of freedom of the t distribution of the intervals and p-values: rows, less an
        intercept and the columns in the regression of the feature on others; infinite (the normal
        distribution) if the covariance is known; and at most the number of groups less one.
    probe_stderr : ndarray of shape (k,)
        Monte Carlo error alone, from the random probes.
    relative_width : ndarray of shape (n_iter + 1,)
        Approximate average width of the intervals at each iteration relative to that at ``t``. It
        is infinite at 0, and not computed (NaN) after ``t`` if ``t`` was given, and otherwise after
        about ``4 * t``.
    scale : str
        "coefficient"; or "index" for margin losses (classification): the intervals are for the
        coefficients of the linear combination that the response depends on, up to one factor
        that is common to all of them. Tests, signs and ratios do not depend on it.
    scores : str
        "covariance", "residuals" or "node-wise lasso": how the part of each column that the others
        do not explain was computed.
    diagnostics : tuple of Diagnostic
        Checks of the assumptions.
    warnings : tuple of str
        Messages of the diagnostics that advise against trusting the intervals; an empty tuple means
        no warnings.
    names : tuple of str, or None
        Names of the features, if they are known.
    """

    estimate: np.ndarray
    stderr: np.ndarray
    t: int
    features: np.ndarray
    level: float
    df: np.ndarray
    probe_stderr: np.ndarray
    relative_width: np.ndarray = field(repr=False)
    scores: str
    diagnostics: tuple[Diagnostic, ...] = field(default=(), repr=False)
    names: tuple[str, ...] | None = field(default=None, repr=False)
    scale: str = "coefficient"
    #: Library of the data frame that X came as, if it did.
    library: str | None = field(default=None, repr=False)

    @property
    def lower(self) -> np.ndarray:
        """Lower ends of the intervals."""
        return np.asarray(self.estimate - self._half_width)

    @property
    def upper(self) -> np.ndarray:
        """Upper ends of the intervals."""
        return np.asarray(self.estimate + self._half_width)

    @property
    def pvalue(self) -> np.ndarray:
        """Two-sided p-values."""
        sizes = np.abs(self.estimate)
        certain = np.where(sizes > 0, np.inf, 0.0)  # for an exact fit
        scores = np.divide(sizes, self.stderr, out=certain, where=self.stderr > 0)
        return np.asarray(2 * stdtr(self.df, -scores))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the intervals."""
        return tuple(check.message for check in self.diagnostics if check.warns)

    @property
    def what(self) -> str:
        """What the intervals are for, in words."""
        return f"coefficient{self.up_to_a_factor}"

    @property
    def up_to_a_factor(self) -> str:
        """The words that follow the coefficients if they have a common factor; empty otherwise."""
        return " up to a common factor" * (self.scale == "index")

    @property
    def _half_width(self) -> np.ndarray:
        return np.asarray(stdtrit(self.df, 0.5 + self.level / 2) * self.stderr)

    def significant(self, fdr: float = 0.1, n_tests: int | None = None) -> np.ndarray:
        """Return which coefficients the Benjamini–Hochberg procedure declares nonzero.

        Parameters
        ----------
        fdr : float, default=0.1
            Nominal false discovery rate.
        n_tests : int, optional
            Number of hypotheses; by default the number of requested features. If these were
            selected from the same data, for instance by a lasso, pass the number of features that
            they were selected from: the others then count as not rejected.

        Returns
        -------
        ndarray of bool of shape (k,)
            Whether each coefficient is declared nonzero.
        """
        fdr = check_number("fdr", fdr, low=0, high=1, open_low=True, open_high=True)
        order = np.argsort(self.pvalue)
        count = len(order)
        n_tests = count if n_tests is None else check_count("n_tests", n_tests, low=count)
        passed = np.flatnonzero(self.pvalue[order] <= fdr * np.arange(1, count + 1) / n_tests)
        nonzero = np.zeros(count, dtype=bool)
        nonzero[order[: passed.max(initial=-1) + 1]] = True
        return nonzero

    def rescaled(self, scale: np.ndarray) -> CoefficientIntervals:
        """Return the intervals for the columns before they were divided by a scale.

        Parameters
        ----------
        scale : ndarray of shape (p,)
            The scale of each column of X.

        Returns
        -------
        CoefficientIntervals
            The intervals in the original units.
        """
        names = "estimate", "stderr", "probe_stderr"
        scaled = {name: getattr(self, name) / scale[self.features] for name in names}
        return replace(self, **scaled)

    def to_dict(self) -> dict[str, Any]:
        """Return a table as columns by name: one row for each feature.

        Returns
        -------
        dict
            Columns "feature" (the name, or the index if there are no names), "estimate", "stderr",
            "lower", "upper" and "pvalue".
        """
        names = "estimate", "stderr", "lower", "upper", "pvalue"
        feature = self.features if self.names is None else list(self.names)
        return {"feature": feature, **{name: getattr(self, name) for name in names}}

    def summary(self) -> Summary:
        """Summarise the intervals as a table, in the style of statsmodels.

        Returns
        -------
        Summary
            ``print`` it for plain text; notebooks show it as HTML. It has one row for each feature;
            use ``features`` to request fewer.
        """
        tail = (1 - self.level) / 2
        law = "t" if np.isfinite(self.df).any() else "z"
        head = ("coef", "std err", f"P>|{law}|", f"[{tail:.3g}", f"{1 - tail:.3g}]")
        columns = (self.estimate, self.stderr, self.pvalue, self.lower, self.upper)
        rows = tuple(
            (name, f"{b:.4f}", f"{se:.3f}", f"{p:.3f}", f"{low:.3f}", f"{high:.3f}")
            if 1e-2 <= max(abs(b), se) < 1e5
            else (name, number(b, 3), number(se, 3), f"{p:.3f}", number(low, 3), number(high, 3))
            for name, b, se, p, low, high in zip(self._labels(), *columns, strict=True)
        )
        up_to = self.up_to_a_factor and f",{self.up_to_a_factor}"
        note = (
            f"Debiased estimates{up_to}. The level holds for each interval separately; p-values "
            "are two-sided and not adjusted for multiple testing (see significant())."
        )
        return Summary("Coefficient Intervals", self._facts(), head, rows, (note, *self.warnings))

    def _labels(self) -> list[str]:
        return [f"x{j}" for j in self.features] if self.names is None else list(self.names)

    def _facts(self) -> tuple[tuple[str, str], ...]:
        return (
            ("No. Coefficients", str(len(self.features))),
            ("Confidence Level", f"{self.level:g}"),
            ("Iteration", str(self.t)),
            ("Scores", self.scores),
            *([("Scale", "index (up to a factor)")] if self.scale == "index" else []),
        )

    def _repr_html_(self) -> str:
        count = int(self.significant().sum())
        facts = [*self._facts(), ("Nonzero (FDR 0.1)", f"{count} of {len(self.features)}")]
        # the smallest p-values, in the order of the estimates
        shown = np.argsort(self.pvalue, kind="stable")[:_SHOWN]
        shown = shown[np.argsort(-self.estimate[shown], kind="stable")]
        names, label = self._labels(), f"{self.what}, {self.level:.0%} interval"
        if len(shown) < len(names):
            label += f" ({len(shown)} smallest p-values)"
        columns = (values[shown] for values in (self.estimate, self.lower, self.upper))
        chart = interval_chart([names[k] for k in shown], *columns, x_label=label)
        return fragment("Coefficient intervals", facts, chart, notes=self.warnings)

    @on_axes
    def plot(
        self,
        ax: Axes | None = None,
        *,
        most: int = 40,
        fdr: float = 0.1,
        n_tests: int | None = None,
    ) -> Axes:
        """Plot the intervals, sorted by their estimates: a forest plot."""
        from steinpath.plots import plot_intervals

        return plot_intervals(self, ax, most=most, fdr=fdr, n_tests=n_tests)

    def __repr__(self) -> str:
        count = len(self.features)
        return (
            f"<CoefficientIntervals ({self.level:.0%}) of {count} coefficient{'s' * (count != 1)} "
            f"at iteration {self.t}, scores by {self.scores}>"
        )
