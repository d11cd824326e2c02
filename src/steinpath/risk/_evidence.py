"""Quantities used by the checks: rows, their order, and the iterations near the selected one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steinpath._support.arrays import Array, root_mean_square, to_numpy
from steinpath._support.caching import cached_property
from steinpath._support.printing import number
from steinpath.design._base import Design
from steinpath.design._transformed import InterceptDesign

if TYPE_CHECKING:
    from steinpath.risk._risk import Risk

# Number of rows that are compared with all others, and maximum number of comparisons.
_FEWEST_COMPARED, _COMPARED, _COMPARISONS = 32, 128, 2**20
# Number of cosines whose median is taken.
_FOR_MEDIAN = 2**16
# Size of X up to which its columns are examined one by one, and the number examined together.
_MOST_ENTRIES, _BLOCK = 2**25, 128
# Columns count as correlated above this; maximum numbers of rows and of columns examined.
_CORRELATED, _FOR_CORRELATIONS, _MOST_CORRELATED = 0.2, 500, 1000


@dataclass(frozen=True)
class Diagnostic:
    """Result of one check of an estimate.

    Attributes
    ----------
    name : str
        Name of the check.
    value, threshold : float
        Computed value, and the largest value without a warning.
    message : str
        Warning with the consequence and a remedy, which applies only if the check warns.
    meaning : str
        What the check looks for, independent of its result.
    unit : str
        Unit of the value, such as "standard errors"; "%" of a share, and "1/rows" of the inverse of
        a number of rows.
    """

    name: str
    value: float
    threshold: float
    message: str
    meaning: str = ""
    unit: str = ""

    @property
    def warns(self) -> bool:
        """Whether the value exceeds the threshold."""
        return self.value > self.threshold

    @property
    def shown(self) -> tuple[str, str]:
        """The value and the threshold in words, such as "400 rows" and "at least 30"."""
        if self.unit.startswith("1/") and self.value > 0:
            counts = number(1 / self.value), number(1 / self.threshold)
            return f"{counts[0]} {self.unit[2:]}", f"at least {counts[1]}"
        if self.unit == "%":
            return f"{self.value:.0%}", f"at most {self.threshold:.0%}"
        shown = [
            number(each, 3) if math.isfinite(each) else "–" for each in (self.value, self.threshold)
        ]
        return f"{shown[0]} {self.unit}".strip().replace("-", "−"), f"at most {shown[1]}"


class Evidence:
    """Risk estimate, selected iteration, and quantities shared by several checks."""

    def __init__(self, risk: Risk, at: int | None = None):
        self.risk, self.path = risk, risk.path
        self.selected, self.whole = risk.best_iter if at is None else at, at is None
        # other plausible selections: the iterations from half to twice the selected one
        self.near = slice(self.selected // 2, min(2 * self.selected, self.path.n_iter) + 1)
        # whether X is small enough to examine its columns one by one
        self.is_readable = self.path.n_samples * self.path.n_features <= _MOST_ENTRIES
        # whether the estimate relies on the theory, unlike methods that leave rows out
        self.corrected = risk.method not in ("loo", "folds")
        # remedy for a correction that may be wrong
        self.advice = (
            "check and correct it with audit=32, or use method='loo'"
            if risk.audit is None
            else "use method='loo', or audit more rows, such as audit=128"
        )

    # ----- The rows -----

    @cached_property
    def row_squares(self) -> np.ndarray:
        """Squared norms of the rows of X, centred if the path has an intercept."""
        return to_numpy(self.path.design.row_squares()).astype(float)

    @cached_property
    def sources(self) -> np.ndarray | None:
        """Index of the observation of each row, if weights were expanded into repeated rows."""
        return features_of(self.path.design).source_rows

    @cached_property
    def distinct(self) -> np.ndarray:
        """First row of each observation, in order; all rows if there are no weights."""
        if self.sources is None:
            return np.arange(self.path.n_samples)
        return np.sort(np.unique(self.sources, return_index=True)[1])

    @cached_property
    def neighbours(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of consecutive observations, except those within a group."""
        first, second = self.distinct[:-1], self.distinct[1:]
        groups = self.distinct if self.risk.groups is None else self.risk.groups[self.distinct]
        apart = groups[:-1] != groups[1:]
        return first[apart], second[apart]

    @cached_property
    def rows(self) -> np.ndarray:
        """Rows to compare with all others: a fixed sample, so that warnings are reproducible."""
        n = self.path.n_samples
        shuffled = np.random.default_rng(0).permutation(self.distinct)
        return shuffled[: min(_COMPARED, max(_COMPARISONS // n, _FEWEST_COMPARED))]

    @cached_property
    def cosines(self) -> np.ndarray:
        """Cosines of `rows` with all centred rows; 0 with themselves and with zero rows."""
        design, rows, n = self.path.design, self.rows, self.path.n_samples
        selected = np.zeros((n, len(rows) + 1))
        selected[rows, np.arange(len(rows))] = 1.0
        selected[:, -1] = 1 / n
        # the rows, their mean, and the products of both with all rows, using the available products
        block = design.unweighted.adjoint(design.array(selected))
        products = to_numpy(design.forward(block)).astype(float).T
        products, with_mean = products[:-1], products[-1]
        products = products - with_mean - with_mean[rows, None] + with_mean.mean()
        # an intercept centres the columns anyway
        center = None if self.path.fit_intercept else block[:, -1]
        return self._as_cosines(products, to_numpy(design.row_squares(center)).astype(float))

    @cached_property
    def shuffled_cosines(self) -> np.ndarray | None:
        """Cosines after rows are reassembled from parts of other rows; None if X is too large.

        A part consists of the columns of a category, or of several highly correlated columns.
        """
        if not self.is_readable:
            return None
        design, rows, order = self.path.design, self.rows, self.distinct
        parts = iter(_parts(design, order))
        products, squares = np.zeros((len(rows), self.path.n_samples)), np.zeros(1)
        for X, groups in blocks_of_columns(design):
            for columns, part in zip(groups, parts, strict=False):
                other = order[np.random.default_rng([0, part]).permutation(len(order))]
                X[order[:, None], columns] = X[other[:, None], columns]
            X -= X.mean(axis=0)
            products += X[rows] @ X.T
            squares = squares + (X**2).sum(axis=1)
        return self._as_cosines(products, squares)

    def _as_cosines(self, products: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """Turn products of `rows` with all rows into cosines; 0 within an observation or group."""
        # rows at the mean have no direction
        lengths = np.sqrt(np.where(squares > 1e-12 * squares.max(), squares, np.inf))
        cosines = np.clip(products / lengths[self.rows, None] / lengths, -1, 1)
        cosines[np.arange(len(self.rows)), self.rows] = 0.0
        # repeated rows are one observation, and rows of a group are left out together
        for labels in (self.sources, self.risk.groups):
            if labels is not None:
                cosines[labels[self.rows, None] == labels] = 0.0
        return np.asarray(cosines)

    @cached_property
    def dimension(self) -> float:
        """Dimension in which random directions would be as similar as the rows.

        In k dimensions the squared cosine of two random directions has mean ``1 / k`` and, unless k
        is small, median 0.455 of it; the median is robust to a few duplicates.
        """
        # a median of this many is accurate to one percent
        some = self.cosines.ravel()[:: max(1, self.cosines.size // _FOR_MEDIAN)]
        middle = float(np.median(some**2))
        return min(max(0.455 / middle, 1.0), self.path.n_features) if middle > 0 else 1.0

    # ----- Their residuals -----

    @cached_property
    def residuals(self) -> np.ndarray:
        """Corrected residuals at the selected iteration."""
        return to_numpy(self.risk.residuals(self.selected)).astype(float)

    @cached_property
    def signs(self) -> np.ndarray:
        """Whether residuals are above (1) or below (-1) their median."""
        return np.asarray(np.sign(self.residuals - np.median(self.residuals)))

    # ----- The estimate -----

    @property
    def own_effect(self) -> float:
        """Relative correction: how much a row, or a duplicate of it, reduces its own error."""
        if self.risk.centered:  # the values are differences and give no scale
            return math.inf
        value, train = (float(x[self.selected]) for x in (self.risk.values, self.risk.train))
        return max(value - train, 0.0) / value if value > 0 else 0.0

    @property
    def disagreement(self) -> float:
        """Difference between audit and estimate near the selection, in standard errors."""
        audit, stderr = self.risk.audit, float(self.risk.stderr[self.selected])
        if audit is None:
            return 0.0
        size = root_mean_square(to_numpy(audit.difference).astype(float)[self.near])
        if stderr > 0:
            return size / stderr
        return math.inf if size > 0 else 0.0


def features_of(design: Design) -> Design:
    """Return the design without the intercept; its columns are equal up to their means."""
    return design.inner if isinstance(design, InterceptDesign) else design


def columns_of(design: Design, which: np.ndarray) -> Array:
    """Return some columns of X as an array, centred if there is an intercept."""
    wanted = which
    if isinstance(design, InterceptDesign):  # every part of it has the last column
        wanted = np.append(which, design.shape[1] - 1)
    part = design.part(None, wanted)
    if part is not None:
        return part.forward(part.array(np.eye(len(wanted))))[:, : len(which)]
    unit_vectors = np.zeros((design.shape[1], len(which)))
    unit_vectors[which, np.arange(len(which))] = 1
    return design.forward(design.array(unit_vectors))


def blocks_of_columns(design: Design) -> Iterator[tuple[np.ndarray, list[list[int]]]]:
    """Iterate over blocks of columns as arrays, and their groups, without splitting a category."""
    design = features_of(design).unweighted
    start, width, (n, p), whole = 0, _BLOCK, design.shape, None
    if design.part(None, np.arange(1)) is None:  # one product, with the smaller identity matrix
        identity = design.array(np.eye(min(n, p)))
        whole = to_numpy(design.forward(identity) if p <= n else design.adjoint(identity).T)
    while start < p:
        end = min(start + width, p)
        X = columns_of(design, np.arange(start, end)) if whole is None else whole[:, start:end]
        X = np.array(to_numpy(X), float)
        groups = _categories(X)
        if end < p:  # the last group may continue
            if len(groups) == 1:
                width *= 2
                continue
            groups.pop()
        size = sum(map(len, groups))
        yield X[:, :size], groups
        start += size


def _parts(design: Design, order: np.ndarray) -> list[int]:
    """Return the part of a row to which each column, or category, belongs.

    The most correlated ones are merged first, as long as no part has more than half of them.
    """
    kept = order[np.linspace(0, len(order) - 1, min(len(order), _FOR_CORRELATIONS)).astype(int)]
    columns, sizes, few = [], [], design.shape[1] <= _MOST_CORRELATED
    for X, groups in blocks_of_columns(design):
        sizes += [len(group) for group in groups]
        if few:
            columns.append(X[kept])
    count = len(sizes)
    part = list(range(count))
    if not few or count < 3:
        return part
    units = np.hstack(columns)
    units -= units.mean(axis=0)
    lengths = np.linalg.norm(units, axis=0)
    units /= np.where(lengths > 1e-9 * lengths.max(initial=0), lengths, np.inf)
    starts = np.cumsum([0, *sizes[:-1]])
    correlations = np.abs(units.T @ units)
    for axis in (0, 1):
        correlations = np.maximum.reduceat(correlations, starts, axis=axis)
    by_chance = 4 / math.sqrt(len(kept))
    first, second = np.nonzero(np.triu(correlations, 1) > max(_CORRELATED, by_chance))
    strongest = np.argsort(-correlations[first, second], kind="stable")
    members = {k: [k] for k in part}
    for i, j in zip(first[strongest], second[strongest], strict=True):
        a, b = part[i], part[j]
        if a != b and len(members[a]) + len(members[b]) <= count / 2:
            for k in members[b]:
                part[k] = a
            members[a] += members.pop(b)
    return part


def _categories(X: np.ndarray) -> list[list[int]]:
    """Return groups of adjacent columns that are dummy variables of one category."""
    groups: list[list[int]] = []
    taken = np.ones(len(X), bool)  # by one of the columns of the last group
    for j, column in enumerate(X.T):
        above = column > column.min()
        binary = bool(np.all(column[above] == column.max()))
        if groups and binary and not np.any(taken & above):
            groups[-1].append(j)
            taken |= above
        else:
            groups.append([j])
            taken = above if binary else np.ones(len(X), bool)
    return groups
