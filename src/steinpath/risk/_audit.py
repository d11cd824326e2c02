r"""Checking an estimate against runs that leave rows out, and repairing it where they disagree.

Leaving a row out of the recursion is one more column of its products, so that exact leave-one-out
of the whole path is affordable for a random sample S of m rows. With the estimated losses of all
rows as the control variate,

.. math:: \hat R_t + d_t, \qquad
          d_t = \frac1m \sum_{i \in S} [\ell(y_i, \mathrm{loo}_i^t)
                - \ell(y_i, \mathrm{corrected}_i^t)]

is unbiased for the leave-one-out risk whatever the rows are like, and its error is that of
:math:`d_t`: small where the correction is good. Where it is so good that :math:`d_t` is noise,
adding it would only do harm. So it is added in proportion to what can be seen of it, by
positive-part shrinkage: the share ``max(0, 1 - (c·se / d)²)``, with both squares averaged over
the iterates from half to twice ``t``.

Ten folds with Burman's correction can take the place of the sample: all rows, and a different
set of weaknesses.

The runs go as far as a choice needs them: to twice the iterate with the smallest risk, and further
if what they find moves it there. Later iterates are taken to be off by as much as the last one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
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
from steinpath.design._base import Design
from steinpath.engine._batch import Batch
from steinpath.engine._precision import design_in
from steinpath.problem._scoring import check_finite, for_differences
from steinpath.risk._interactions import Interactions, held, losses_of
from steinpath.risk._methods import (
    Estimate,
    Problem,
    fold_runs,
    leave_groups_out,
    leave_out_rows,
)
from steinpath.risk._row_statistics import RowStatistics

# Iterates beyond twice the best one that are audited, too.
_MARGIN = 16
#: Differences up to this many standard errors are taken for noise. A smaller number repairs more
#: of a wrong estimate, a larger one leaves more of a right one alone; `benchmarks/trust.py`.
NOISE = 1.75
#: Attributes of an audit that are computed from all rows, each from those before it.
CURVES = ("difference", "stderr", "significance", "share", "error", "misfit")
# What is below this many times the machine precision is taken for rounding.
_ROUNDING = 64


class LeftOut(NamedTuple):
    """Predictions by runs without the rows that they predict.

    Attributes
    ----------
    rows : ndarray of int of shape (m,)
        The rows.
    predictions : Array of shape (T, m)
        Of these rows, by the first iterates.
    optimism : Array of shape (T,) or float
        To be added to their losses: Burman's correction, for folds.
    shrink : float
        Standard error of a mean over the rows, for values of standard deviation 1.
    interactions : Interactions or None
        How the losses of the rows depend on each other; not known for folds.
    """

    rows: np.ndarray
    predictions: Array
    optimism: Array
    shrink: float
    interactions: Interactions | None = None
    #: Where the rows are, if predictions are only those of rows that are here.
    shared: Design | None = None

    @property
    def until(self) -> int:
        """The last iterate that the runs reached."""
        return int(self.predictions.shape[0]) - 1


def reach(best: int, n_iter: int) -> int:
    """Return how far an audit goes for the sake of an iterate that may be chosen."""
    return min(2 * best + _MARGIN, n_iter)


def leave_rows_out(problem: Problem, how: int | str, exact: Estimate | None = None) -> LeftOut:
    """Run the path again without some of the rows.

    Parameters
    ----------
    problem : Problem
        The path, and in which precision to run it.
    how : int or "folds"
        Number of rows, or of groups, to leave out one at a time; or ten folds.
    exact : Estimate, optional
        What leave-one-out of all rows found, if that was the method: there is nothing to check.
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
                "an audit tests each row once, and cv has splits that test rows again; use "
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
    """How an estimate compares with runs that leave rows out, iterate by iterate.

    Attributes
    ----------
    rows : ndarray of int of shape (m,)
        The rows that were left out.
    difference : Array of shape (n_iter + 1,)
        Mean over these rows of the loss when left out, less the estimated loss.
    stderr : Array of shape (n_iter + 1,)
        Standard error of `difference`; zero once all rows were left out one by one.
    slope, correlation : Array of shape (n_iter + 1,)
        Of the fitted values when left out, against the corrected ones: 1 at best. Where all
        fitted values are equal they are 1, or 0 if only those of one kind are.
    share : Array of shape (n_iter + 1,)
        How much of `difference` was added to the estimate, from 0 to 1.
    significance : ndarray of shape (n_iter + 1,)
        Size of `difference` in standard errors, over the iterates from half to twice each one.
    repair : Array of shape (n_iter + 1,)
        What was added to the estimate: ``share * difference``.
    repaired : Array of bool of shape (n_iter + 1,)
        Whether anything was.
    error : Array of shape (n_iter + 1,)
        Standard error of the repaired estimate as one of the leave-one-out risk: the noise of what
        was added, and what is seen of the difference that was not.
    differences : Array of shape (n_iter + 1, m)
        `difference` row by row; or group by group, if there are groups.
    until : int
        The last iterate that was audited. All that is said of later ones is taken from it.
    noise : float
        A `difference` up to this many standard errors is taken for noise, and not added.
    """

    rows: np.ndarray
    differences: Array = field(repr=False)
    slope: Array = field(repr=False)
    correlation: Array = field(repr=False)
    shrink: float = field(repr=False)
    noise: float = field(default=NOISE, repr=False)
    until: int = -1
    #: Where rows are, if `differences` are only those of rows that are here.
    shared: Design | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.until < 0:  # all of them were
            object.__setattr__(self, "until", int(self.differences.shape[0]) - 1)

    @cached_property
    def difference(self) -> Array:
        """Mean loss when left out, less the mean estimated loss."""
        return self._over.mean(self.differences)

    @property
    def _over(self) -> RowStatistics:
        count = self.differences.shape[1] if self.shared is None else len(self.rows)
        return RowStatistics(count, self.shared)

    @cached_property
    def misfit(self) -> float:
        """Root mean square of the differences, over rows and iterates."""
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
        """How much of `difference` was added to the estimate."""
        if not self.noise:
            return 0 * self.difference + 1
        seen = np.maximum(self.significance, self.noise)
        return like(1 - (self.noise / seen) ** 2, self.difference)

    @cached_property
    def significance(self) -> np.ndarray:
        """Root mean square of `difference` over that of its standard error, near each iterate."""
        difference, stderr = to_numpy(self.difference), to_numpy(self.stderr)
        seen, noise = _pooled(difference), _pooled(stderr)
        some = seen > 0
        ratio = np.zeros(len(seen))
        with np.errstate(divide="ignore"):  # without noise, all that is seen is significant
            ratio[some] = seen[some] / noise[some]
        return ratio

    @property
    def repair(self) -> Array:
        """What was added to the estimate."""
        return self.share * self.difference

    @property
    def repaired(self) -> Array:
        """Whether anything was added to the estimate."""
        return self.share > 0

    @cached_property
    def error(self) -> Array:
        """Standard error of the repaired estimate as one of the leave-one-out risk."""
        added = self.share[:, None] * self.differences
        return self._error(added, self.differences - added)

    def error_between(self, t1: int, t2: int, other: Audit | None = None) -> float:
        """Return the same for the difference between two iterates, the second of another path."""
        other = self if other is None else other
        if not np.array_equal(self.rows, other.rows):
            return math.hypot(float(self.error[t1]), float(other.error[t2]))
        first, second = self.differences_at(t1), other.differences_at(t2)
        added = self.share[t1] * first - other.share[t2] * second
        return float(self._error(added, first - second - added)[0])

    def compute(self) -> None:
        """Compute all curves now, while all blocks of rows do the same.

        Not by reading the properties: in Python 3.11 their lock is that of all instances, and one
        block would wait for another one, which waits for it.
        """
        for name in CURVES:
            self.__dict__[name] = vars(Audit)[name].func(self)

    def differences_at(self, t: int) -> Array:
        """Return `differences` of one iterate, of shape (1, m)."""
        return self.differences[t : t + 1, :]

    def _stderr(self, values: Array) -> Array:
        return self.shrink * self._over.deviation(values)

    def _error(self, added: Array, left: Array) -> Array:
        xp = namespace(added)
        unit = units_of(self._over.largest(left))
        left = left / unit
        # of the square of a mean, its own noise is not to be counted
        seen = self._over.mean(left) ** 2 - self._stderr(left) ** 2
        seen = unit[:, 0] * xp.sqrt(xp.where(seen > 0, seen, 0 * seen))
        return xp.hypot(self._stderr(added), seen)


def compare(problem: Problem, found: Estimate, left_out: LeftOut, noise: float = NOISE) -> Audit:
    """Compare an estimate with what runs without the rows predicted for them.

    Parameters
    ----------
    problem : Problem
        The path, and how predictions are scored.
    found : Estimate
        What a method found.
    left_out : LeftOut
        What the runs predicted.
    noise : float
        Differences up to this many standard errors are taken for noise; 0 where the estimate is
        for independent rows, and these are not, so that it is known to be wrong.
    """
    path, rows, known = problem.path, left_out.rows, slice(0, left_out.until + 1)
    xp, eps = namespace(path.y), namespace(path.y).finfo(path.response.dtype).eps
    over, own = RowStatistics(len(rows), left_out.shared), None
    if over.shared is None:
        predictions = found.predictions.at(rows)[known, :]
    else:  # all rows, or nearly so: each block has its own
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
        # sums over groups, which are independent, on a scale on which their mean is that of rows
        codes = np.unique(groups[rows], return_inverse=True)[1]
        if shared is None:
            differences = group_sums(differences, codes)
        else:
            codes, count = codes[shared.places(rows)[0]], int(codes.max()) + 1
            differences = shared.over_rows(scattered_sums(differences, codes, count))
            shared = None  # all groups are known now
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
    """Slope and correlation of each row of ``y`` on that of ``x``."""
    xp = namespace(x)

    def centred(block: Array) -> Array:
        """Return a block less its means; what is left of equal numbers is rounding."""
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
    """Root mean square over the iterates from half to twice each one."""
    values = values.astype(float)
    return np.array([root_mean_square(values[t // 2 : 2 * t + 1]) for t in range(len(values))])
