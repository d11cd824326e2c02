r"""Confidence intervals for coefficients, at any iterate of a path.

An iterate of a penalised fit is biased, and so is one of an algorithm that has not converged. With
the scores :math:`z_j` of `steinpath.inference._scores`, Stein's formula gives

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

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class CoefficientIntervals:
    """Confidence intervals for coefficients. Made by `coefficient_intervals`.

    Arrays are NumPy's, with one entry for each of the features asked for. A coefficient that is not
    identified, because its column is constant or a linear combination of others, has infinite
    ``stderr`` and the p-value 1.

    Attributes
    ----------
    estimate : ndarray of shape (k,)
        Estimates without the bias of the penalty and of early stopping.
    stderr : ndarray of shape (k,)
        Their standard errors, the Monte Carlo error included.
    lower, upper : ndarray of shape (k,)
        Ends of the intervals.
    pvalue : ndarray of shape (k,)
        Two-sided p-values of the hypotheses that the coefficients are zero.
    t : int
        The iterate they are computed from.
    features : ndarray of int of shape (k,)
        The columns of X.
    level : float
        Confidence level of each interval by itself.
    probe_stderr : ndarray of shape (k,)
        Monte Carlo error alone, from the random probes.
    relative_width : ndarray of shape (n_iter + 1,)
        Average width of the intervals at each iterate relative to that at ``t``, roughly: infinite
        at 0, not computed (NaN) after ``t`` if that was given, and else after about ``4 * t``.
    scores : str
        "covariance", "residuals" or "node-wise lasso": how the part of each column was found that
        the others do not explain.
    diagnostics : tuple of Diagnostic
        What was checked.
    warnings : tuple of str
        Messages of the diagnostics that advise against trusting the intervals.
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
    #: Names of the features, if they are known.
    names: tuple[str, ...] | None = field(default=None, repr=False)

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
        certain = np.where(sizes > 0, np.inf, 0.0)  # of an exact fit
        scores = np.divide(sizes, self.stderr, out=certain, where=self.stderr > 0)
        return np.asarray(2 * ndtr(-scores))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons not to trust the intervals."""
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
            Number of hypotheses; that of the features asked for by default. Where these were
            chosen by the same data, such as those that a lasso selected, give the number of
            features that they were chosen from: the others then count as not rejected.

        Returns
        -------
        ndarray of bool of shape (k,)
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
        """Return the intervals for columns as they were before each was divided by its scale.

        Parameters
        ----------
        scale : ndarray of shape (p,)
            What all columns of X were divided by.
        """
        own = scale[self.features]
        return replace(
            self,
            estimate=self.estimate / own,
            stderr=self.stderr / own,
            probe_stderr=self.probe_stderr / own,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the columns of a table: one row for each feature, with its name if it is known."""
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
        """Return the table as a data frame.

        Parameters
        ----------
        library : {"pandas", "polars"}, optional
            Whose; the first of these that is installed by default.
        """
        if library is not None:
            check_choice("library", library, ("pandas", "polars"))
        try:
            if library != "polars":
                import pandas

                return pandas.DataFrame(self.to_dict())
        except ImportError:
            pass
        try:
            if library != "pandas":
                import polars

                return polars.DataFrame(self.to_dict())
        except ImportError:
            pass
        raise ImportError(
            f"to_frame needs {library or 'pandas or polars'}; install it, or use to_dict()"
        )

    def plot(
        self,
        ax: Axes | None = None,
        *,
        most: int = 40,
        fdr: float = 0.1,
        n_tests: int | None = None,
    ) -> Axes:
        """Draw the intervals, sorted by their estimates: a forest plot.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        most : int, default=40
            How many to draw: those with the smallest p-values.
        fdr : float, default=0.1
            False discovery rate at which coefficients are marked.
        n_tests : int, optional
            Number of hypotheses; see `significant`.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from steinpath.plots import plot_intervals

        return plot_intervals(self, ax, most=most, fdr=fdr, n_tests=n_tests)

    def __repr__(self) -> str:
        count = len(self.features)
        return (
            f"<CoefficientIntervals ({self.level:.0%}) of {count} coefficient{'s' * (count != 1)} "
            f"at iterate {self.t}, scores by {self.scores}>"
        )


class IntervalOptions(NamedTuple):
    """What `coefficient_intervals` may be told about rows and scores."""

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
    r"""Confidence intervals for the coefficients of the linear model, from any iterate of a path.

    The bias of each coefficient, from the penalty and from stopping early, is removed by the
    responses of the dual iterates to the residuals. That is valid for every loss and penalty of
    the family and for more columns than rows, if the rows of X are independent and roughly
    Gaussian and the model is linear.

    Parameters
    ----------
    path : Path
        What `run` returned.
    t : int, optional
        The iterate, from 1 on. By default an early one with short intervals: the first whose
        average width is within 3% of the smallest, each width being that of a total response
        :math:`C_t` smaller by three standard errors, so that chance hardly enters the choice. The
        search ends at four times the best iterate so far.
    features : array-like of int, optional
        Columns of X; all by default.
    covariance : array-like of shape (p, p), optional
        Covariance of the rows of X, if it is known.
    level : float, default=0.95
        Confidence level of each interval.
    rng : None, int or numpy.random.Generator
        Randomness of the probes.
    precision : array-like of shape (p, p), optional
        Inverse of the covariance, in its place.
    row_scale : None, "norm" or array-like of shape (n,)
        Sizes of rows that are unequal, as in elliptical designs; see `steinpath.estimate_risk`.
    groups : array-like of shape (n,), optional
        Labels of groups of rows that are not independent of each other. Standard errors are then
        from the spread of the groups' contributions, which takes groups to be independent.
    scores : {"auto", "residuals", "node-wise lasso"}, default="auto"
        How to find the part of each column that the others do not explain, if the covariance is not
        known: by least squares, which needs more rows than columns and makes intervals wider by
        :math:`\sqrt{n / (n - p)}`, or by the lasso with penalty :math:`\sqrt{\log p / n} / 2` on
        standardised columns. "auto" takes least squares if there are three times as many rows as
        columns.
    names : sequence of str of length p, optional
        Names of the columns, for tables, plots and warnings.

    Returns
    -------
    CoefficientIntervals

    Notes
    -----
    With :math:`\Omega` the inverse covariance of the rows and
    :math:`z_j = X \Omega e_j / \Omega_{jj}`, the estimate at iterate t is
    :math:`(\Omega_{jj} z_j^\top u^t + \sum_s c_{t,s} b_j^s) / C_t` with
    :math:`c_{t,s} = n^{-1/2}\, \mathrm{tr}(\partial u^t / \partial v^s)` and
    :math:`C_t = \sum_s c_{t,s}`. Its variance is
    :math:`(\Omega_{jj} \|u^t\|^2 + \|M_j\|_F^2) / C_t^2` with
    :math:`M_j = n^{-1/2} \sum_s (b^*_j - b_j^s)\, \partial u^t / \partial v^s`: the second term,
    from the second-order Stein formula, is the uncertainty of :math:`C_t`, and matters for
    coefficients that are far from zero. Where the scores are estimated, their own sizes replace
    :math:`\Omega_{jj}`, and :math:`(\Omega_{jj} z_j^\top u^t)^2 / n` is subtracted from either
    term: what is proportional to a score does not vary then. The traces are estimated with random
    signs. Not available for losses of margins (classification), whose coefficients have another
    meaning, nor for paths with sample weights.

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
    """Return intervals at several iterates, whose scores and total responses are computed once.

    Parameters
    ----------
    path, features, level, rng
        As for `coefficient_intervals`.
    times : sequence of int or None
        The iterates, each as ``t`` of `coefficient_intervals`.
    options : IntervalOptions
        The rest.
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
    """Confidence intervals for the coefficients of every member, their tangents advancing together.

    Parameters
    ----------
    batch : Batch
        What `run_batch` returned.
    t, features, covariance, level, rng, precision, scores
        As for `coefficient_intervals`, the same for all members.
    row_scale : None or "norm"
        As for `coefficient_intervals`.

    Returns
    -------
    list of CoefficientIntervals
        One for each member.
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
    """Do as `coefficient_intervals`, for each of some iterates and all paths of a batch."""
    path = paths[0]
    if path.loss.margin:
        raise ValueError(
            f"coefficient intervals are not available for {path.loss!r}: they are derived for a "
            "linear model of the response, and coefficients of a classifier have another meaning; "
            "use a regression loss such as sp.LAD()"
        )
    path.refuse_weights(
        "coefficient intervals are not available with unequal sample weights; run the path without "
        "sample_weight, or repeat rows"
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
    """Return columns of X as increasing or other distinct numbers from 0 on."""
    if features is None:
        return np.arange(p)
    given = np.asarray(features)
    if given.dtype == bool and given.shape == (p,):
        given = np.flatnonzero(given)
    if given.ndim == 0:
        given = given[None]
    if given.ndim != 1 or given.dtype.kind not in "iu" or not given.size:
        raise ValueError(
            f"features must be a list of columns of X, as numbers from 0 to {p - 1}; got "
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
        raise ValueError(f"names must be those of the {p} columns of X; got {names!r:.60}")
    return tuple(str(names[j]) for j in features)


def _scores(path: Path, features: np.ndarray, options: IntervalOptions) -> Scores:
    check_choice("scores", options.scores, ("auto", "residuals", "node-wise lasso"))
    squares = row_squares_of(path, options.row_scale)
    given = [options.covariance is not None, options.precision is not None]
    if any(given):
        if all(given):
            raise ValueError("give the covariance or the precision matrix, not both")
        if options.scores != "auto":
            raise ValueError("scores are those of the covariance where that is given; leave it out")
        return known_scores(path, options.covariance, options.precision, features, squares)
    kind = options.scores
    if kind == "auto":
        kind = "residuals" if uses_residuals(path) else "node-wise lasso"
    if kind == "node-wise lasso":
        return nodewise_scores(path, features, squares)
    if path.n_samples - path.fit_intercept <= path.n_features:
        raise ValueError(
            f"scores='residuals' needs more rows than columns; X has {path.n_samples} and "
            f"{path.n_features}: use scores='node-wise lasso'"
        )
    return residual_scores(path, features, squares)
