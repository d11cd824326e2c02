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

Ten folds, corrected for training on fewer rows, can replace the sample: they use all rows and have
different sources of error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from steinpath._support.arrays import (
    Array,
    cast,
    like,
    namespace,
    take,
    to_numpy,
    units_of,
)
from steinpath._support.caching import cached_property
from steinpath.engine._batch import Batch
from steinpath.engine._tangents import design_in
from steinpath.problem._scoring import check_finite, for_differences
from steinpath.risk._held_out import HeldOut, RowSample, losses_of
from steinpath.risk._methods import (
    Estimate,
    fold_runs,
    leave_groups_out,
    leave_rows_out,
    pooled,
)
from steinpath.risk._options import ResolvedOptions

#: Differences up to this many standard errors are treated as noise. A smaller number corrects more
#: of a wrong estimate, a larger one changes less of a right one (`benchmarks/accuracy/trust.py`).
NOISE = 1.75
# Values below this multiple of the machine precision are treated as rounding errors.
_ROUNDING = 64


def hold_out_rows(
    options: ResolvedOptions, audit: int | str, exact: Estimate | None = None
) -> HeldOut:
    """Rerun the path without some rows or groups, one at a time, or in ten folds.

    ``exact`` is a leave-one-out estimate of all rows, if that was the method; nothing is run then.
    """
    path, rng, groups, n = options.path, options.rng, options.groups, options.path.n_samples
    batch, dtype = Batch.of(path), getattr(namespace(path.y), options.precision)
    if audit == "folds" and exact is None:
        runs = fold_runs([options], batch, design_in(batch, dtype, [rng]))
        (held_out,) = runs.extended(batch)
        if held_out.losses is not None:
            raise ValueError(
                "an audit tests each row once, but cv has splits that test rows repeatedly; use "
                "method='folds'"
            )
        return held_out
    units = options.units(n)
    m = units if audit == "folds" else min(int(audit), units)
    drawn = rng.choice(units, m, replace=False)
    rows = drawn if groups is None else np.flatnonzero(np.isin(groups, drawn))
    codes = None if groups is None else np.unique(groups[rows], return_inverse=True)[1]
    weights = path.data.sample_weight
    weights = None if weights is None else weights[rows]
    interactions = None
    if exact is not None:
        predictions, interactions = exact.predictions.at(rows), exact.interactions
    elif groups is not None:
        values = leave_groups_out(options, drawn, design_in(batch, dtype, [rng]))
        predictions = path.design.from_local(
            take(values, path.design.places(rows)[1], axis=1), rows
        )
    else:
        design = design_in(batch, dtype, [rng])
        predictions, interactions = leave_rows_out(options, rows, design)
    sample = RowSample.of(len(rows), weights, codes, population=units)
    return HeldOut(rows, predictions, sample, interactions=interactions)


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
    noise : float
        A `difference` up to this many standard errors is treated as noise and not added.
    """

    rows: np.ndarray
    differences: Array = field(repr=False)
    slope: Array = field(repr=False)
    correlation: Array = field(repr=False)
    #: The rows or groups that the differences are of.
    sample: RowSample = field(repr=False)
    noise: float = field(default=NOISE, repr=False)

    @cached_property
    def difference(self) -> Array:
        """Mean leave-one-out loss minus the mean estimated loss."""
        return self.sample.mean(self.differences)

    @cached_property
    def misfit(self) -> float:
        """Root mean square of the differences, over rows and iterations."""
        return self.sample.root_mean_square(self.differences)

    @cached_property
    def stderr(self) -> Array:
        """Standard error of `difference`."""
        return self.sample.stderr(self.differences)

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
        seen, noise = pooled(difference), pooled(stderr)
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
        first, second = self.differences[t1 : t1 + 1, :], other.differences[t2 : t2 + 1, :]
        added = self.share[t1] * first - other.share[t2] * second
        return float(self._error(added, first - second - added)[0])

    def _error(self, added: Array, rest: Array) -> Array:
        xp, sample = namespace(added), self.sample
        unit = units_of(sample.largest(rest))
        rest = rest / unit
        # subtract the noise of the squared mean
        bias = sample.mean(rest) ** 2 - sample.stderr(rest) ** 2
        bias = unit[:, 0] * xp.sqrt(xp.where(bias > 0, bias, 0 * bias))
        return xp.hypot(sample.stderr(added), bias)


def compare(
    options: ResolvedOptions, estimate: Estimate, held_out: HeldOut, noise: float = NOISE
) -> Audit:
    """Compare an estimate with the predictions of runs without the rows; see `Audit.noise`."""
    path, rows, sample = options.path, held_out.rows, held_out.sample
    local = sample.design is not None
    if local:  # (nearly) all rows: each block has its own
        predictions = estimate.predictions.own(path.design.places(rows)[1])
    else:
        predictions = estimate.predictions.at(rows)
    criterion = for_differences(options.criterion, predictions, sample.mean if local else None)

    def losses(values: Array, optimism: Array) -> Array:
        added = optimism if isinstance(optimism, float) else optimism[:, None]
        return losses_of(path, criterion, rows, values, local) + added

    estimated = losses(predictions, estimate.optimism)
    differences = losses(check_finite(held_out.predictions), held_out.optimism) - estimated
    xp = namespace(path.y)
    rounding = _ROUNDING * xp.finfo(path.response.dtype).eps * sample.largest(estimated)
    differences = xp.where(xp.abs(differences) > rounding, differences, 0 * differences)
    slope, correlation = _regression(predictions, held_out.predictions, sample)
    differences, units = sample.by_unit(differences)
    return Audit(rows, differences, slope, correlation, units, noise)


def _regression(x: Array, y: Array, sample: RowSample) -> tuple[Array, Array]:
    """Return slope and correlation of each row of ``y`` on that of ``x``."""
    xp = namespace(x)

    def centred(block: Array) -> Array:
        """Subtract the means of a block, setting rounding errors to zero."""
        rest = block - sample.mean(block)[:, None]
        spread, size = (sample.largest(x) for x in (rest, block))
        return xp.where(spread > _ROUNDING * xp.finfo(x.dtype).eps * size, rest, 0 * rest)

    x, y = centred(x), centred(y)
    xx, yy, xy = (sample.sum(product) for product in (x * x, y * y, x * y))
    both = (xx > 0) & (yy > 0)
    one = xp.ones_like(xx)
    neither = cast((xx == 0) & (yy == 0), xx.dtype)
    slope = xp.where(both, xy / xp.where(both, xx, one), neither)
    correlation = xp.where(both, xy / xp.where(both, xp.sqrt(xx) * xp.sqrt(yy), one), neither)
    return slope, correlation
