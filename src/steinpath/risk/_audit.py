r"""Audit: check and correct an estimate with leave-one-out refits for a random sample of rows.

Leaving a row out of the recursion adds one column to its products, so exact leave-one-out of the
whole path is affordable for a random sample S of m rows. With the estimated losses of all rows as
the control variate,

.. math:: \hat R_t + d_t, \qquad
          d_t = \frac1m \sum_{i \in S} [\ell(y_i, \mathrm{loo}_i^t)
                - \ell(y_i, \mathrm{corrected}_i^t)]

is unbiased for the leave-one-out risk for any distribution of the rows. Its error is that of
:math:`d_t`, which is small if the correction is accurate. If :math:`d_t` is mostly noise, adding it
would increase the error. It is therefore shrunk (positive-part shrinkage) by the factor
``max(0, 1 - (c·se / d)²)``, with both squares averaged over the iterations from half to twice
``t``.

Ten folds with Burman's correction can replace the sample: they use all rows and have different
sources of error.

The runs are as long as the selection requires: up to twice the iteration with the smallest risk,
and further if the audit moves the minimum. Later iterations use the last audited difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from steinpath._support.arrays import (
    Array,
    cast,
    group_sums,
    like,
    namespace,
    root_mean_square,
    scattered_sums,
    take,
    to_numpy,
    units_of,
)
from steinpath._support.caching import cached_property
from steinpath.design._base import Design
from steinpath.engine._batch import Batch
from steinpath.engine._tangents import design_in
from steinpath.problem._scoring import check_finite, for_differences
from steinpath.risk._interactions import Interactions, held, losses_of
from steinpath.risk._methods import Estimate, fold_runs, leave_groups_out, leave_out_rows
from steinpath.risk._problem import Problem
from steinpath.risk._row_statistics import RowStatistics

# Additional iterations that are audited beyond twice the best one.
_MARGIN = 16
#: Differences up to this many standard errors are treated as noise. A smaller number corrects more
#: of a wrong estimate, a larger one changes less of a right one (`benchmarks/accuracy/trust.py`).
NOISE = 1.75
#: Attributes of an audit that are computed from all rows, each from the preceding ones.
CURVES = ("difference", "stderr", "significance", "share", "error", "misfit")
# Values below this multiple of the machine precision are treated as rounding errors.
_ROUNDING = 64


class LeftOut(NamedTuple):
    """Predictions of held-out rows by runs without them.

    Attributes
    ----------
    rows : ndarray of int of shape (m,)
        Held-out rows.
    predictions : Array of shape (T, m)
        Their predictions for the first iterations.
    optimism : Array of shape (T,) or float
        Added to their losses: Burman's correction, for folds.
    shrink : float
        Standard error of a mean over the rows, for values with standard deviation 1.
    interactions : Interactions or None
        Dependence between the losses of the rows; not available for folds.
    """

    rows: np.ndarray
    predictions: Array
    optimism: Array
    shrink: float
    interactions: Interactions | None = None
    #: Design that holds the rows, if predictions are those of local rows only.
    shared: Design | None = None

    @property
    def until(self) -> int:
        """Last iteration of the runs."""
        return int(self.predictions.shape[0]) - 1


def reach(best: int, n_iter: int) -> int:
    """Return the last iteration to audit if ``best`` may be selected."""
    return min(2 * best + _MARGIN, n_iter)


def leave_rows_out(problem: Problem, how: int | str, exact: Estimate | None = None) -> LeftOut:
    """Rerun the path without some of the rows.

    Parameters
    ----------
    problem : Problem
        Path, and the precision of its reruns.
    how : int or "folds"
        Number of rows (or groups) to leave out one at a time, or ten folds.
    exact : Estimate, optional
        Leave-one-out estimate of all rows, if that was the method; there is then nothing to check.
    """
    path, rng = problem.path, problem.rng
    batch, groups = Batch.of(path), problem.options.groups
    n, dtype = path.n_samples, getattr(namespace(path.y), problem.options.precision)
    units = problem.options.units(n)
    if how == "folds" and exact is None:
        runs = fold_runs(problem, batch, design_in(batch, dtype, [rng]))
        (crossed,) = runs.extended(batch)
        rows = np.flatnonzero(runs.splits.tests)
        predictions = take(crossed.predictions, path.design.places(rows)[1], axis=1)
        if runs.splits.tests.max() > 1:
            raise ValueError(
                "an audit tests each row once, but cv has splits that test rows repeatedly; use "
                "method='folds'"
            )
        tested = len(rows) if groups is None else len(np.unique(groups[rows]))
        shared = None if path.design.is_whole else path.design
        shrink = 1 / math.sqrt(tested)
        return LeftOut(rows, predictions, crossed.optimism, shrink, shared=shared)
    if groups is not None:
        m = units if how == "folds" else min(int(how), units)
        some = rng.choice(units, m, replace=False)
        rows = np.flatnonzero(np.isin(groups, some))
        if exact is None:
            found = leave_groups_out(problem, some, design_in(batch, dtype, [rng]))
            predictions = path.design.picked(found, rows)
        else:
            predictions = exact.predictions.at(rows)
        return LeftOut(rows, predictions, 0.0, math.sqrt((1 - m / units) / m))
    m = n if how == "folds" else min(int(how), n)
    rows = rng.choice(n, m, replace=False)
    if exact is not None:
        predictions, pairs = exact.predictions.at(rows), exact.interactions
    else:
        predictions, pairs = leave_out_rows(problem, rows, design_in(batch, dtype, [rng]))
    return LeftOut(rows, predictions, 0.0, math.sqrt((1 - m / n) / m), pairs)


@dataclass(frozen=True, eq=False)
class Audit:
    """Comparison of an estimate with leave-one-out refits, for every iteration.

    Attributes
    ----------
    rows : ndarray of int of shape (m,)
        Rows that were left out.
    difference : Array of shape (n_iter + 1,)
        Mean over these rows of the leave-one-out loss minus the estimated loss.
    stderr : Array of shape (n_iter + 1,)
        Standard error of `difference`; zero if all rows were left out one by one.
    slope, correlation : Array of shape (n_iter + 1,)
        Slope and correlation of the leave-one-out predictions against the corrected ones; both are
        1 for perfect agreement. They are 1 if all predictions are equal, and 0 if only those of one
        kind are.
    share : Array of shape (n_iter + 1,)
        Share of `difference` that was added to the estimate, from 0 to 1.
    significance : ndarray of shape (n_iter + 1,)
        Size of `difference` in standard errors, over the iterations from half to twice each one.
    repair : Array of shape (n_iter + 1,)
        Correction that was added to the estimate: ``share * difference``.
    repaired : Array of bool of shape (n_iter + 1,)
        Whether the estimate was corrected.
    error : Array of shape (n_iter + 1,)
        Standard error of the corrected estimate with respect to the leave-one-out risk: the error
        of the correction, and the part of the difference that was not added.
    differences : Array of shape (n_iter + 1, m)
        `difference` for each row, or for each group if there are groups.
    until : int
        Last audited iteration. Its values are used for all later ones.
    noise : float
        A `difference` up to this many standard errors is treated as noise and not added.
    """

    rows: np.ndarray
    differences: Array = field(repr=False)
    slope: Array = field(repr=False)
    correlation: Array = field(repr=False)
    shrink: float = field(repr=False)
    noise: float = field(default=NOISE, repr=False)
    until: int = -1
    #: Design that holds the rows, if `differences` are those of local rows only.
    shared: Design | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.until < 0:  # all iterations
            object.__setattr__(self, "until", int(self.differences.shape[0]) - 1)

    @cached_property
    def difference(self) -> Array:
        """Mean leave-one-out loss minus the mean estimated loss."""
        return self._over.mean(self.differences)

    @property
    def _over(self) -> RowStatistics:
        count = self.differences.shape[1] if self.shared is None else len(self.rows)
        return RowStatistics(count, self.shared)

    @cached_property
    def misfit(self) -> float:
        """Root mean square of the differences, over rows and iterations."""
        if self.shared is None:
            return root_mean_square(self.differences)
        unit = units_of(self._over.largest(self.differences))
        means = self._over.mean((self.differences / unit) ** 2)
        return root_mean_square(unit[:, 0] * np.sqrt(means))

    @cached_property
    def stderr(self) -> Array:
        """Standard error of `difference`."""
        return self._stderr(self.differences)

    @cached_property
    def share(self) -> Array:
        """Share of `difference` that was added to the estimate."""
        if not self.noise:
            return 0 * self.difference + 1
        seen = np.maximum(self.significance, self.noise)
        return like(1 - (self.noise / seen) ** 2, self.difference)

    @cached_property
    def significance(self) -> np.ndarray:
        """Root mean square of `difference` over that of its standard error, near each iteration."""
        difference, stderr = to_numpy(self.difference), to_numpy(self.stderr)
        seen, noise = _pooled(difference), _pooled(stderr)
        some = seen > 0
        ratio = np.zeros(len(seen))
        with np.errstate(divide="ignore"):  # without noise, every difference is significant
            ratio[some] = seen[some] / noise[some]
        return ratio

    @property
    def repair(self) -> Array:
        """Correction that was added to the estimate."""
        return self.share * self.difference

    @property
    def repaired(self) -> Array:
        """Whether the estimate was corrected."""
        return self.share > 0

    @cached_property
    def error(self) -> Array:
        """Standard error of the corrected estimate with respect to the leave-one-out risk."""
        added = self.share[:, None] * self.differences
        return self._error(added, self.differences - added)

    def error_between(self, t1: int, t2: int, other: Audit | None = None) -> float:
        """Return the same for the difference of two iterations, the second of another path."""
        other = self if other is None else other
        if not np.array_equal(self.rows, other.rows):
            return math.hypot(float(self.error[t1]), float(other.error[t2]))
        first, second = self.differences_at(t1), other.differences_at(t2)
        added = self.share[t1] * first - other.share[t2] * second
        return float(self._error(added, first - second - added)[0])

    def compute(self) -> None:
        """Compute all curves now, while all blocks of rows do the same.

        Properties are not used for that: in Python 3.11 ``cached_property`` has one lock for all
        instances, so two blocks would wait for each other.
        """
        for name in CURVES:
            self.__dict__[name] = vars(Audit)[name].func(self)

    def differences_at(self, t: int) -> Array:
        """Return `differences` of one iteration, of shape (1, m)."""
        return self.differences[t : t + 1, :]

    def _stderr(self, values: Array) -> Array:
        return self.shrink * self._over.deviation(values)

    def _error(self, added: Array, left: Array) -> Array:
        xp = namespace(added)
        unit = units_of(self._over.largest(left))
        left = left / unit
        # subtract the noise of the squared mean
        seen = self._over.mean(left) ** 2 - self._stderr(left) ** 2
        seen = unit[:, 0] * xp.sqrt(xp.where(seen > 0, seen, 0 * seen))
        return xp.hypot(self._stderr(added), seen)


def compare(problem: Problem, found: Estimate, left_out: LeftOut, noise: float = NOISE) -> Audit:
    """Compare an estimate with the predictions of runs without the rows.

    Parameters
    ----------
    problem : Problem
        Path and scoring loss.
    found : Estimate
        Estimate to check.
    left_out : LeftOut
        Predictions of held-out rows.
    noise : float
        Differences up to this many standard errors are treated as noise; 0 if the estimate assumes
        independent rows although they are known to be dependent.
    """
    path, rows, known = problem.path, left_out.rows, slice(0, left_out.until + 1)
    xp, eps = namespace(path.y), namespace(path.y).finfo(path.response.dtype).eps
    over, own = RowStatistics(len(rows), left_out.shared), None
    if over.shared is None:
        predictions = found.predictions.at(rows)[known, :]
    else:  # (nearly) all rows: each block has its own
        own = over.shared.places(rows)[1]
        predictions = found.predictions.own(own)[known, :]
    optimism = found.optimism if isinstance(found.optimism, float) else found.optimism[known]
    mean = None if over.shared is None else over.mean
    criterion = for_differences(problem.criterion, predictions, mean)
    estimated, real = (
        losses_of(path, criterion, rows, values, own) + added
        for values, added in (
            (predictions, _column(optimism)),
            (check_finite(left_out.predictions), _column(left_out.optimism)),
        )
    )
    differences = real - estimated
    rounding = _ROUNDING * eps * over.largest(estimated)
    differences = xp.where(xp.abs(differences) > rounding, differences, 0 * differences)
    groups, shared = problem.options.groups, over.shared
    if groups is not None:
        # sums over groups, which are independent, scaled so that their mean is that of the rows
        codes = np.unique(groups[rows], return_inverse=True)[1]
        if shared is None:
            differences = group_sums(differences, codes)
        else:
            codes, count = codes[shared.places(rows)[0]], int(codes.max()) + 1
            differences = shared.over_rows(scattered_sums(differences, codes, count))
            shared = None  # all groups are known at this point
        differences = differences * (differences.shape[1] / len(rows))
    slope, correlation = _regression(predictions, left_out.predictions, over)
    differences, slope, correlation = (
        held(each, path.n_iter) for each in (differences, slope, correlation)
    )
    how = left_out.shrink, noise, left_out.until, shared
    audit = Audit(rows, differences, slope, correlation, *how)
    if shared is not None:
        audit.compute()
    return audit


def _column(values: Array) -> Array:
    return values if isinstance(values, float) else values[:, None]


def _regression(x: Array, y: Array, over: RowStatistics) -> tuple[Array, Array]:
    """Return slope and correlation of each row of ``y`` on that of ``x``."""
    xp = namespace(x)

    def centred(block: Array) -> Array:
        """Subtract the means of a block, setting rounding errors to zero."""
        rest = block - over.mean(block)[:, None]
        spread, size = (over.largest(x) for x in (rest, block))
        return xp.where(spread > _ROUNDING * xp.finfo(x.dtype).eps * size, rest, 0 * rest)

    x, y = centred(x), centred(y)
    xx, yy, xy = (over.sum(product) for product in (x * x, y * y, x * y))
    both = (xx > 0) & (yy > 0)
    one = xp.ones_like(xx)
    neither = cast((xx == 0) & (yy == 0), xx.dtype)
    slope = xp.where(both, xy / xp.where(both, xx, one), neither)
    correlation = xp.where(both, xy / xp.where(both, xp.sqrt(xx) * xp.sqrt(yy), one), neither)
    return slope, correlation


def _pooled(values: np.ndarray) -> np.ndarray:
    """Return the root mean square over the iterations from half to twice each one."""
    values = values.astype(float)
    return np.array([root_mean_square(values[t // 2 : 2 * t + 1]) for t in range(len(values))])
