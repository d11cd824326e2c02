r"""Confidence intervals for coefficients, at any iteration of a path.

An iterate of a penalised fit is biased, and so is one before convergence. With the scores
:math:`z_j` of `steinpath.inference._scores`, Stein's formula gives

.. math:: \hat b_j^t = b_j^{t-1} + \frac{\Omega_{jj}\, z_j^\top u^t
          + \sum_{s<t} c_{t,s} (b_j^s - b_j^{t-1})}{C_t},
          \qquad c_{t,s} = n^{-1/2}\, \mathrm{tr}(\partial u^t / \partial v^s),
          \quad C_t = \sum_s c_{t,s},

which is centred at the true coefficient, for Gaussian rows and n large. The second-order Stein
formula gives its variance, :math:`(\Omega_{jj} \|u^t\|^2 + \|M_j\|_F^2) / C_t^2` with
:math:`M_j = n^{-1/2} \sum_s (b^*_j - b_j^s)\, \partial u^t / \partial v^s`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from steinpath._support.frames import to_frame
from steinpath._support.html import fragment, interval_chart
from steinpath._support.summary import Summary
from steinpath._support.validation import (
    check_choice,
    check_count,
    check_instance,
    check_number,
    check_rng,
    spawned,
)
from steinpath.engine._batch import Batch
from steinpath.engine._path import Path, RemotePath
from steinpath.engine._traces import row_squares_of
from steinpath.inference._debias import Debiased, debias
from steinpath.inference._interval_checks import between_groups, check_intervals
from steinpath.inference._scores import (
    Scores,
    known_scores,
    nodewise_scores,
    residual_scores,
    uses_residuals,
)
from steinpath.risk._evidence import Diagnostic
from steinpath.risk._splits import check_groups

# Intervals in the chart that notebooks show.
_SHOWN = 15

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class CoefficientIntervals:
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
    probe_stderr : ndarray of shape (k,)
        Monte Carlo error alone, from the random probes.
    relative_width : ndarray of shape (n_iter + 1,)
        Approximate average width of the intervals at each iteration relative to that at ``t``. It
        is infinite at 0, and not computed (NaN) after ``t`` if ``t`` was given, and otherwise after
        about ``4 * t``.
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
    probe_stderr: np.ndarray
    relative_width: np.ndarray = field(repr=False)
    scores: str
    diagnostics: tuple[Diagnostic, ...] = field(default=(), repr=False)
    names: tuple[str, ...] | None = field(default=None, repr=False)
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
        return np.asarray(2 * ndtr(-scores))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the intervals."""
        return tuple(each.message for each in self.diagnostics if each.warns)

    @property
    def _half_width(self) -> np.ndarray:
        return float(ndtri(0.5 + self.level / 2)) * self.stderr

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
        if n_tests is None:
            n_tests = len(order)
        n_tests = check_count("n_tests", n_tests, low=len(order))
        ranks = np.arange(1, len(order) + 1)
        passed = np.flatnonzero(self.pvalue[order] <= fdr * ranks / n_tests)
        found = np.zeros(len(order), dtype=bool)
        found[order[: passed[-1] + 1 if len(passed) else 0]] = True
        return found

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
        own = scale[self.features]
        return replace(
            self,
            estimate=self.estimate / own,
            stderr=self.stderr / own,
            probe_stderr=self.probe_stderr / own,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a table as columns by name: one row for each feature.

        Returns
        -------
        dict
            Columns "feature" (the name, or the index if there are no names), "estimate", "stderr",
            "lower", "upper" and "pvalue".
        """
        feature: Any = self.features if self.names is None else list(self.names)
        return {
            "feature": feature,
            "estimate": self.estimate,
            "stderr": self.stderr,
            "lower": self.lower,
            "upper": self.upper,
            "pvalue": self.pvalue,
        }

    def to_frame(self, library: str | None = None) -> Any:
        """Return the table of `to_dict` as a data frame.

        Parameters
        ----------
        library : {"pandas", "polars"}, optional
            The library; by default that of X if an estimator was fitted to a data frame, and
            otherwise the first of these that is installed.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            One row for each feature.
        """
        return to_frame(self.to_dict(), library, self.library)

    def summary(self) -> Summary:
        """Summarise the intervals as a table, in the style of statsmodels.

        Returns
        -------
        Summary
            ``print`` it for plain text; notebooks show it as HTML. It has one row for each feature;
            use ``features`` to request fewer.
        """
        tail = (1 - self.level) / 2
        head = ("coef", "std err", "P>|z|", f"[{tail:.3g}", f"{1 - tail:.3g}]")
        columns = (self.estimate, self.stderr, self.pvalue, self.lower, self.upper)
        rows = tuple(
            (name, f"{b:.4f}", f"{se:.3f}", f"{p:.3f}", f"{low:.3f}", f"{high:.3f}")
            if 1e-2 <= max(abs(b), se) < 1e5
            else (name, f"{b:.3g}", f"{se:.3g}", f"{p:.3f}", f"{low:.3g}", f"{high:.3g}")
            for name, b, se, p, low, high in zip(self._labels(), *columns, strict=True)
        )
        note = (
            "Debiased estimates. The level holds for each interval separately; p-values are "
            "two-sided and not adjusted for multiple testing (see significant())."
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
        )

    def _repr_html_(self) -> str:
        found = int(self.significant().sum())
        facts = [*self._facts(), ("Nonzero (FDR 0.1)", f"{found} of {len(self.features)}")]
        # the smallest p-values, in the order of the estimates
        some = np.argsort(self.pvalue, kind="stable")[:_SHOWN]
        some = some[np.argsort(-self.estimate[some], kind="stable")]
        names, label = self._labels(), f"coefficient, {self.level:.0%} interval"
        if len(some) < len(names):
            label += f" ({len(some)} smallest p-values)"
        ends = (each[some] for each in (self.estimate, self.lower, self.upper))
        chart = interval_chart([names[k] for k in some], *ends, x_label=label)
        return fragment("Coefficient intervals", facts, chart, notes=self.warnings)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        most: int = 40,
        fdr: float = 0.1,
        n_tests: int | None = None,
    ) -> Axes:
        """Plot the intervals, sorted by their estimates: a forest plot.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; a new figure by default.
        most : int, default=40
            Number of intervals to draw: those with the smallest p-values.
        fdr : float, default=0.1
            False discovery rate at which coefficients are marked.
        n_tests : int, optional
            Number of hypotheses; see `significant`.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        from steinpath.plots import plot_intervals

        return plot_intervals(self, ax, most=most, fdr=fdr, n_tests=n_tests)

    def __repr__(self) -> str:
        count = len(self.features)
        return (
            f"<CoefficientIntervals ({self.level:.0%}) of {count} coefficient{'s' * (count != 1)} "
            f"at iteration {self.t}, scores by {self.scores}>"
        )


class IntervalOptions(NamedTuple):
    """Options of `coefficient_intervals` about rows and scores."""

    covariance: Any = None
    precision: Any = None
    row_scale: Any = None
    groups: Any = None
    scores: str = "auto"
    names: Any = None


def coefficient_intervals(
    path: Path,
    t: int | None = None,
    features: Any = None,
    covariance: Any = None,
    level: float = 0.95,
    rng: Any = None,
    *,
    precision: Any = None,
    row_scale: Any = None,
    groups: Any = None,
    scores: str = "auto",
    names: Any = None,
) -> CoefficientIntervals:
    r"""Return confidence intervals for coefficients of a linear model, from any iterate of a path.

    The estimates are debiased for the penalty and early stopping, with the derivatives of the dual
    iterates with respect to the residuals. This is valid for every regression loss and every
    penalty, also with more columns than rows, if the model is linear and the rows of X are
    independent and approximately Gaussian.

    Parameters
    ----------
    path : Path
        The path, as returned by `run`.
    t : int, optional
        The iteration, at least 1. By default an early one with short intervals: the first whose
        average width is within 3% of the smallest. For this comparison each :math:`C_t` (see
        Notes) is reduced by three standard errors, so that chance hardly affects the
        selection. The search ends at four times the best iteration so far.
    features : array-like of int, optional
        Indices of columns of X; all by default.
    covariance : array-like of shape (p, p), optional
        Covariance of the rows of X, if it is known.
    level : float, default=0.95
        Confidence level of each interval.
    rng : None, int or numpy.random.Generator
        Random numbers for the probes.
    precision : array-like of shape (p, p), optional
        Inverse of the covariance, as an alternative to ``covariance``.
    row_scale : None, "norm" or array-like of shape (n,)
        Row scales, for rows whose norms vary; see `steinpath.estimate_risk`.
    groups : array-like of shape (n,), optional
        Group labels of rows that depend on each other. Standard errors are then cluster-robust:
        they treat groups as independent.
    scores : {"auto", "residuals", "node-wise lasso"}, default="auto"
        How to compute the part of each column that the others do not explain, if the covariance is
        not known: by least squares, which needs more rows than columns and widens intervals by
        :math:`\sqrt{n / (n - p)}`, or by the lasso with penalty :math:`\sqrt{\log p / n} / 2` on
        standardised columns. "auto" uses least squares if there are three times as many rows as
        columns.
    names : sequence of str of length p, optional
        Names of the columns, for tables, plots and warnings.

    Returns
    -------
    CoefficientIntervals
        Estimates, standard errors, intervals and p-values.

    Notes
    -----
    With :math:`\Omega` the inverse covariance of the rows and
    :math:`z_j = X \Omega e_j / \Omega_{jj}`, the estimate at iteration t is
    :math:`(\Omega_{jj} z_j^\top u^t + \sum_s c_{t,s} b_j^s) / C_t` with
    :math:`c_{t,s} = n^{-1/2}\, \mathrm{tr}(\partial u^t / \partial v^s)` and
    :math:`C_t = \sum_s c_{t,s}`. Its variance is
    :math:`(\Omega_{jj} \|u^t\|^2 + \|M_j\|_F^2) / C_t^2` with
    :math:`M_j = n^{-1/2} \sum_s (b^*_j - b_j^s)\, \partial u^t / \partial v^s`: the second term,
    from the second-order Stein formula, is the uncertainty of :math:`C_t`, and matters for
    coefficients that are far from zero. Where the scores are estimated, their norms replace
    :math:`\Omega_{jj}`, and :math:`(\Omega_{jj} z_j^\top u^t)^2 / n` is subtracted from either
    term, since the component along a score does not vary then. The traces are estimated with random
    signs. Intervals are not available for margin losses (classification), since they assume a
    linear model of the response, nor for paths with sample weights.

    Examples
    --------
    >>> import numpy as np
    >>> import steinpath as sp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 150))
    >>> y = X[:, :3].sum(axis=1) + rng.standard_t(2, size=300)
    >>> path = sp.run(X, y, sp.LAD(), sp.Lasso(0.5), n_iter=100)
    >>> ci = sp.coefficient_intervals(path, features=[0, 1, 2], rng=0)
    >>> bool(np.all((ci.lower < 1) & (1 < ci.upper)))
    True
    """
    options = IntervalOptions(covariance, precision, row_scale, groups, scores, names)
    (found,) = intervals_along(path, [t], features, level, rng, options)
    return found


def intervals_along(
    path: Path,
    times: Sequence[int | None],
    features: Any,
    level: float,
    rng: Any,
    options: IntervalOptions,
) -> list[CoefficientIntervals]:
    """Return intervals at several iterations; scores and total responses are computed once.

    Parameters
    ----------
    path, features, level, rng
        As for `coefficient_intervals`.
    times : sequence of int or None
        The iterations, each as ``t`` of `coefficient_intervals`.
    options : IntervalOptions
        Other options.
    """
    check_instance("path", path, Path, "sp.run(X, y, loss, penalty)")
    if isinstance(path, RemotePath):
        remote: list[CoefficientIntervals] = path.coefficient_intervals(
            times, features, level, rng, options
        )
        return remote
    found = _intervals(Batch.of(path), [path], times, features, options, level, [check_rng(rng)])
    return [each for (each,) in found]


def coefficient_intervals_batch(
    batch: Batch,
    t: int | None = None,
    features: Any = None,
    covariance: Any = None,
    level: float = 0.95,
    rng: Any = None,
    *,
    precision: Any = None,
    row_scale: Any = None,
    scores: str = "auto",
) -> list[CoefficientIntervals]:
    """Return confidence intervals for the coefficients of every path of a batch, in one pass.

    Parameters
    ----------
    batch : Batch
        The paths, as returned by `run_batch`.
    t : int, optional
        The iteration, as for `coefficient_intervals`.
    features : array-like of int, optional
        Indices of columns of X; all by default.
    covariance : array-like of shape (p, p), optional
        Covariance of the rows of X, the same for all paths.
    level : float, default=0.95
        Confidence level of each interval.
    rng : None, int or numpy.random.Generator
        Random numbers for the probes.
    precision : array-like of shape (p, p), optional
        Inverse of the covariance, as an alternative to ``covariance``.
    row_scale : None or "norm"
        As for `coefficient_intervals`.
    scores : {"auto", "residuals", "node-wise lasso"}, default="auto"
        As for `coefficient_intervals`.

    Returns
    -------
    list of CoefficientIntervals
        One for each path.
    """
    check_instance("batch", batch, Batch, "sp.run_batch(X, y, loss, penalty)")
    if row_scale is not None:
        check_choice("row_scale", row_scale, ("norm",))
    rng = check_rng(rng)
    options = IntervalOptions(covariance, precision, row_scale, None, scores)
    rngs = [spawned(rng) for _ in range(len(batch))]
    (found,) = _intervals(batch, list(batch), [t], features, options, level, rngs)
    return found


def _intervals(
    batch: Batch,
    paths: Sequence[Path],
    times: Sequence[int | None],
    features: Any,
    options: IntervalOptions,
    level: float,
    rngs: Sequence[np.random.Generator],
) -> list[list[CoefficientIntervals]]:
    """Do as `coefficient_intervals`, for several iterations and all paths of a batch."""
    path = paths[0]
    if path.loss.margin:
        raise ValueError(
            f"coefficient intervals are not available for {path.loss!r}: they assume a linear "
            "model of the response; use a regression loss such as sp.LAD()"
        )
    path.refuse_weights(
        "coefficient intervals are not available with non-uniform sample weights; run the path "
        "without sample_weight, or repeat rows"
    )
    times = [t if t is None else check_count("t", t, high=path.n_iter) for t in times]
    level = check_number("level", level, low=0, high=1, open_low=True, open_high=True)
    wanted = check_features(features, path.n_features)
    groups = None if options.groups is None else check_groups(options.groups)
    if groups is not None and len(groups) != path.n_samples:
        raise ValueError(f"groups has {len(groups)} labels, but X has {path.n_samples} rows")
    names = _names_of(wanted, options.names, path.n_features)
    scores = [replace(_scores(each, wanted, options), names=names) for each in paths]
    return [
        [_of(own, each, level, groups) for own, each in zip(scores, at_one_time, strict=True)]
        for at_one_time in debias(batch, scores, times, rngs)
    ]


def _of(
    scores: Scores, found: Debiased, level: float, groups: np.ndarray | None
) -> CoefficientIntervals:
    """Return the intervals of debiased coefficients."""
    stderr = found.stderr if groups is None else between_groups(scores, found, groups)
    stderr = np.hypot(stderr, found.noise)
    return CoefficientIntervals(
        found.estimate,
        stderr,
        found.t,
        scores.features,
        level,
        found.noise,
        found.relative_width,
        scores.kind,
        check_intervals(scores, found, stderr, groups),
        scores.names,
    )


def check_features(features: Any, p: int) -> np.ndarray:
    """Return indices of columns of X, as non-negative integers."""
    if features is None:
        return np.arange(p)
    given = np.asarray(features)
    if given.dtype == bool and given.shape == (p,):
        given = np.flatnonzero(given)
    if given.ndim == 0:
        given = given[None]
    if given.ndim != 1 or given.dtype.kind not in "iu" or not given.size:
        raise ValueError(
            f"features must be column indices of X, integers from 0 to {p - 1}; got "
            f"{features!r:.60}"
        )
    outside = given[(given < -p) | (given >= p)]
    if outside.size:
        raise ValueError(f"features must be from 0 to {p - 1}; got {outside[0]}")
    return np.where(given < 0, given + p, given).astype(np.intp)


def _names_of(features: np.ndarray, names: Any, p: int) -> tuple[str, ...] | None:
    """Return the names of some columns, if those of all are given."""
    if names is None:
        return None
    if isinstance(names, str) or len(names) != p:
        raise ValueError(f"names must have one entry for each of {p} columns; got {names!r:.60}")
    return tuple(str(names[j]) for j in features)


def _scores(path: Path, features: np.ndarray, options: IntervalOptions) -> Scores:
    check_choice("scores", options.scores, ("auto", "residuals", "node-wise lasso"))
    squares = row_squares_of(path, options.row_scale)
    given = [options.covariance is not None, options.precision is not None]
    if any(given):
        if all(given):
            raise ValueError("pass either covariance or precision, not both")
        if options.scores != "auto":
            raise ValueError("scores has no effect if covariance or precision is given; omit it")
        return known_scores(path, options.covariance, options.precision, features, squares)
    kind = options.scores
    if kind == "auto":
        kind = "residuals" if uses_residuals(path) else "node-wise lasso"
    if kind == "node-wise lasso":
        return nodewise_scores(path, features, squares)
    if path.n_samples - path.fit_intercept <= path.n_features:
        raise ValueError(
            f"scores='residuals' needs more rows than columns, but X has {path.n_samples} rows and "
            f"{path.n_features} columns; use scores='node-wise lasso'"
        )
    return residual_scores(path, features, squares)
