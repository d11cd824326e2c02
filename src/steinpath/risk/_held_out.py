r"""Rows of an estimate: means and standard errors over them, and predictions by runs without them.

A mean of n independent losses has the variance of one of them divided by n. Leave-one-out losses
are not independent: the fits that predict observations i and j share all others, and each contains
the other. Let :math:`a_{ij}` be the change of the leave-one-out loss of i when j is left out as
well. The covariance of the two losses, beyond that of the risks of their fits, is :math:`E[a_{ij}
a_{ji}]`; the other terms vanish given the rest of the data. As an estimate of the risk of the
present fit, leave-one-out therefore has the variance

.. math:: \mathrm{Var}(\text{loss}) / n + E[a_{ij} a_{ji}] .

If p is proportional to n, each :math:`a_{ij}` is of order :math:`n^{-1/2}`, so the second term is
as large as the first, and much larger late on the path. It is estimated by the mean over a few
pairs of rows, each left out together in one more column of the reruns. Because a standard error
that is too small is the worse mistake, the standard error of that mean is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from steinpath._support.arrays import (
    Array,
    deviation,
    group_sums,
    largest_along,
    like,
    namespace,
    root_mean_square,
    scattered_sums,
    units_of,
)
from steinpath.design._base import Design
from steinpath.engine._data import RunData
from steinpath.engine._path import Path
from steinpath.problem._scoring import PerObservation, for_differences, losses_at

# Maximum number of pairs that are left out together.
_PAIRS = 32


@dataclass(frozen=True, eq=False)
class RowSample:
    """Rows, all of them local or only some, over which values of shape (T, rows) are averaged."""

    #: Sum of the counts of all rows.
    total: float
    #: Number of independent units: rows, or groups of them.
    units: int
    #: Number of all rows.
    n_rows: int = 0
    #: Count of each (local) row; 1 if None.
    counts: np.ndarray | None = None
    #: Group of each (local) row, and the number of groups.
    groups: np.ndarray | None = None
    n_groups: int = 0
    #: Number of units from which these were drawn without replacement; None: infinitely many.
    population: int | None = None
    #: Design that holds the rows, if values are those of the local rows only, and the sample of
    #: all rows.
    design: Design | None = None
    whole: RowSample | None = None

    @classmethod
    def of(
        cls,
        n_rows: int,
        counts: np.ndarray | None = None,
        groups: np.ndarray | None = None,
        population: int | None = None,
    ) -> RowSample:
        """Return a sample of rows, which count by numbers of tests or by weights."""
        total = n_rows if counts is None else float(counts.sum())
        units, n_groups = n_rows if counts is None else np.count_nonzero(counts), 0
        if groups is not None:
            labels, groups = np.unique(groups, return_inverse=True)
            units = n_groups = len(labels)
            if counts is not None:
                units = len(np.unique(groups[counts > 0]))
        return cls(total, int(units), n_rows, counts, groups, n_groups, population)

    @classmethod
    def over(
        cls,
        data: RunData,
        rows: np.ndarray | None = None,
        tests: np.ndarray | None = None,
        groups: np.ndarray | None = None,
    ) -> RowSample:
        """Return some rows of the data, or all; ``groups`` are of all rows.

        They count by their sample weights, and by their numbers of ``tests``. Values are those of
        local rows.
        """
        which = np.arange(data.design.n_rows) if rows is None else rows
        counts = tests if data.sample_weight is None else data.sample_weight[which]
        if counts is not tests and tests is not None:
            counts = counts * tests
        if counts is not None and not counts.any():
            raise ValueError("sample_weight is zero for all rows that are held out")
        if counts is not None and np.all(counts == 1):
            counts = None
        groups = None if groups is None else groups[which]
        return cls.of(len(which), counts, groups).local_to(data.design, rows)

    def local_to(self, design: Design, rows: np.ndarray | None = None) -> RowSample:
        """Return the same sample for values of local rows; it has the given rows, or all."""
        if design.is_whole:
            return self
        which = design.local(np.arange(design.n_rows)) if rows is None else design.places(rows)[0]
        counts, groups = (None if x is None else x[which] for x in (self.counts, self.groups))
        return replace(self, counts=counts, groups=groups, design=design, whole=self)

    @property
    def effective_units(self) -> float:
        """Number of independent units; of weighted rows, Kish's effective number."""
        own = self.whole or self
        if own.counts is None or own.groups is not None:
            return own.units
        return own.total**2 / float(np.sum(own.counts**2))

    def counted(self, values: Array) -> Array:
        """Return values times the counts of their rows."""
        return values if self.counts is None else values * like(self.counts, values)

    def sum(self, values: Array) -> Array:
        """Return sums over all rows as often as they count, of shape (T,)."""
        return self._sum(self.counted(values))

    def _sum(self, values: Array) -> Array:
        sums = namespace(values).sum(values, axis=1)
        return sums if self.design is None else self.design.over_rows(sums)

    def mean(self, values: Array) -> Array:
        """Return means over all rows as often as they count, of shape (T,)."""
        return self.sum(values) / self.total

    def largest(self, values: Array) -> Array:
        """Return the largest absolute values, of shape (T, 1)."""
        if self.design is None:
            return largest_along(values, axis=1)
        return np.asarray(self.design.largest(np.max(np.abs(values), axis=1, initial=0.0)))[:, None]

    def norm(self, values: Array) -> Array:
        """Return roots of sums of squares, of shape (T,), without overflow or underflow."""
        unit = units_of(self.largest(values))
        return unit[:, 0] * namespace(values).sqrt(self._sum((values / unit) ** 2))

    def root_mean_square(self, values: Array) -> float:
        """Return the root mean square over rows and iterations."""
        return root_mean_square(self.norm(values)) / math.sqrt(self.total)

    def deviation(self, values: Array) -> Array:
        """Return sample standard deviations, of shape (T,); 0 for a single row."""
        if self.total == 1:
            return 0 * self.mean(values)
        if self.design is None:
            return deviation(values, axis=1)
        return self.norm(values - self.mean(values)[:, None]) / math.sqrt(self.total - 1)

    def stderr(self, values: Array) -> Array:
        """Return standard errors of means over a part of the population, of shape (T,)."""
        rest = 1.0 if self.population is None else 1 - self.total / self.population
        return math.sqrt(rest / self.total) * self.deviation(values)

    def mean_and_error(self, values: Array) -> tuple[Array, Array]:
        """Return means and their standard errors; infinite if there is a single unit.

        The errors are those of ratios, since the sum of the counts is random, too.
        """
        means = self.mean(values)
        gaps, sample = self._by_group(self.counted(values - means[:, None]))
        spread, units = sample.norm(gaps), self.units
        if units < 2:
            return means, 0 * spread + math.inf
        return means, spread * math.sqrt(units / (units - 1)) / self.total

    def by_unit(self, values: Array) -> tuple[Array, RowSample]:
        """Return one value of each independent unit with the same means, and their sample.

        Their variances are those of the ratios to which these means are equal.
        """
        if self.counts is None and self.groups is None:
            return values, self
        means = self.mean(values)[:, None]
        gaps, sample = self._by_group(self.counted(values - means))
        return means + gaps * (sample.total / self.total), sample

    def _by_group(self, values: Array) -> tuple[Array, RowSample]:
        """Return sums over the groups, which are independent, and the sample of the groups."""
        if self.groups is None:
            alike: dict[str, Any] = {"total": self.n_rows, "counts": None}
            whole = None if self.whole is None else replace(self.whole, **alike)
            return values, replace(self, whole=whole, **alike)
        if self.design is None:
            sums = group_sums(values, self.groups)
        else:  # from here on, all blocks have all groups
            sums = scattered_sums(values, self.groups, self.n_groups)
            sums = self.design.over_rows(sums)
        count = sums.shape[1]
        return sums, RowSample(count, self.units, n_rows=count, population=self.population)


class HeldOut(NamedTuple):
    """Rows that were predicted by runs without them."""

    rows: np.ndarray
    #: Minus the level of y, of shape (T, m); of local rows only, if `sample` is local to a design.
    predictions: Array
    sample: RowSample
    #: Means over the tests of each row, of shape (T, m), where they are tested repeatedly.
    losses: Array | None = None
    #: Added to mean losses, of shape (T,) or 0: Burman's correction for training on fewer rows.
    optimism: Array = 0.0
    #: Dependence between the losses, if rows were left out one at a time.
    interactions: Interactions | None = None

    def tests(self, n_rows: int) -> np.ndarray | None:
        """Return whether each row was held out, as 0 or 1; None if all were."""
        all_rows = len(self.rows) == n_rows
        return None if all_rows else np.bincount(self.rows, minlength=n_rows).astype(float)


@dataclass(frozen=True, eq=False)
class Interactions:
    """Effect of leaving out one observation of a pair on the other."""

    #: ``a_ij`` and ``a_ji`` of each pair for each iteration, of shape (n_iter + 1, q, 2): the
    #: leave-one-out loss of one observation minus its loss when the other is left out as well.
    changes: Array
    #: Indices of the observations, of shape (q, 2).
    pairs: Any = None

    @classmethod
    def between(
        cls,
        path: Path,
        criterion: PerObservation,
        pairs: np.ndarray,
        alone: Array,
        together: Array,
    ) -> Interactions:
        """Compare predictions (n_iter + 1, q, 2) of rows left out ``alone`` and in pairs."""
        xp, rows = namespace(alone), np.reshape(pairs, (-1,))
        blocks = [xp.reshape(x, (x.shape[0], len(rows))) for x in (alone, together)]
        criterion = for_differences(criterion, blocks[0])
        losses = [losses_of(path, criterion, rows, x) for x in blocks]
        changes = losses[0] - losses[1]
        if (weights := path.data.sample_weight) is not None:
            changes = changes * like(weights[rows], changes)
        return cls(xp.reshape(changes, alone.shape), pairs)

    def stderr(self) -> Array:
        """Return the root of the covariance of two losses for each iteration, on the safe side."""
        return _root_covariance(self.changes)

    def stderr_between(self, t1: int, t2: int, other: Interactions | None = None) -> float:
        """Return the same for the difference of two iterations, the second of another path."""
        other = self if other is None else other
        first, second = self.changes[t1 : t1 + 1, ...], other.changes[t2 : t2 + 1, ...]
        if np.array_equal(self.pairs, other.pairs):
            return float(_root_covariance(first - second)[0])
        return math.hypot(float(_root_covariance(first)[0]), float(_root_covariance(second)[0]))


def _root_covariance(changes: Array) -> Array:
    xp = namespace(changes)
    q = changes.shape[1]
    # in units of the largest, since fourth powers of losses may overflow
    largest = xp.max(xp.abs(changes), axis=(1, 2)) if q else xp.sum(changes, axis=(1, 2))
    unit = units_of(largest)
    scaled = changes / unit[:, None, None]
    products = scaled[:, :, 0] * scaled[:, :, 1]
    if q < 2:  # the noise of a single pair is unknown
        bound = xp.sum(xp.abs(products), axis=1)
    else:
        bound = xp.mean(products, axis=1) + xp.std(products, axis=1, correction=1.0) / math.sqrt(q)
    return xp.sqrt(xp.where(bound > 0, bound, 0 * bound)) * unit


def disjoint_pairs(rows: np.ndarray) -> np.ndarray:
    """Return disjoint pairs of the first rows, of shape (q, 2)."""
    q = min(len(rows) // 2, _PAIRS)
    return rows[: 2 * q].reshape(q, 2)


def n_columns(n_rows: int) -> int:
    """Return the number of runs needed to leave rows out, one at a time and in pairs."""
    return n_rows + min(n_rows // 2, _PAIRS)


def losses_of(
    path: Path,
    criterion: PerObservation,
    rows: np.ndarray,
    predictions: Array,
    local: bool = False,
) -> Array:
    """Return the losses of predictions (T, m) of distinct rows, or of the local rows among them."""
    y, design = path.response, path.design
    others = path.products_at(slice(0, predictions.shape[0]))
    which, where = design.places(rows)
    if local or design.is_whole:
        return losses_at(criterion, y, where, predictions, others)
    losses = losses_at(criterion, y, where, predictions[:, which], others)
    return design.from_local(losses, rows)
