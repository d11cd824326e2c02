"""What the checks of an estimate look at: its rows, their order, the iterates near the choice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from steinpath._support.arrays import take, to_numpy
from steinpath.design._base import Design
from steinpath.design._transformed import InterceptDesign

if TYPE_CHECKING:
    from steinpath.risk._estimate import Risk

# Rows that are compared with all others, and how many comparisons there may be.
_COMPARED, _COMPARISONS = 128, 2**23
# Entries of X up to which its columns are looked at one by one.
_MOST_ENTRIES = 4 * _COMPARISONS
# Columns that are looked at together.
_BLOCK = 128


@dataclass(frozen=True)
class Diagnostic:
    """One check of an estimate.

    Attributes
    ----------
    name : str
        What was checked.
    value, threshold : float
        The number found, and the largest that is no cause for concern.
    message : str
        What it means and what to do, in plain words.
    meaning : str
        What is asked, whatever the answer.
    """

    name: str
    value: float
    threshold: float
    message: str
    meaning: str = ""

    @property
    def warns(self) -> bool:
        """Whether the value is beyond the threshold."""
        return self.value > self.threshold


class Evidence:
    """A risk estimate, the iterate that was chosen, and what several checks want to know.

    Parameters
    ----------
    risk : Risk
        The estimate.
    at : int, optional
        The chosen iterate; that with the smallest estimated risk by default.
    """

    def __init__(self, risk: Risk, at: int | None = None):
        self.risk, self.path = risk, risk.path
        #: The chosen iterate.
        self.chosen = risk.best_iter if at is None else at
        #: Iterates that a choice could as well have fallen on: from half to twice the chosen one.
        self.near = slice(self.chosen // 2, min(2 * self.chosen, self.path.n_iter) + 1)
        #: Whether the estimate rests on the theory: leaving rows out needs none.
        self.corrected = risk.method not in ("loo", "folds")
        #: What to do about a correction that may be wrong.
        self.advice = (
            "check and repair it by an audit, audit=32, or use method='loo'"
            if risk.audit is None
            else "use method='loo', or an audit of more rows, such as audit=128"
        )

    # ----- The rows -----

    @cached_property
    def row_squares(self) -> np.ndarray:
        """Squared norms of the rows of X as the path saw them: centred if it has an intercept."""
        return to_numpy(self.path.design.row_squares()).astype(float)

    @cached_property
    def sources(self) -> np.ndarray | None:
        """Which observation each row stands for, where weights were written out as rows."""
        return features_of(self.path.design).source_rows

    @cached_property
    def distinct(self) -> np.ndarray:
        """The first row of each observation, in their order: all rows, unless there are weights."""
        if self.sources is None:
            return np.arange(self.path.n_samples)
        return np.sort(np.unique(self.sources, return_index=True)[1])

    @cached_property
    def rows(self) -> np.ndarray:
        """Rows that are compared with all: a fixed sample, so that warnings are reproducible."""
        n = self.path.n_samples
        return self.rng.permutation(self.distinct)[: min(_COMPARED, _COMPARISONS // n + 1)]

    @property
    def rng(self) -> np.random.Generator:
        """Random numbers, the same each time."""
        return np.random.default_rng(0)

    @cached_property
    def cosines(self) -> np.ndarray:
        """Cosines of `rows` with all rows, centred; 0 with themselves and with rows of zeros."""
        design, rows = self.path.design, self.rows
        n = self.path.n_samples
        chosen = np.zeros((n, len(rows) + 1))
        chosen[rows, np.arange(len(rows))] = 1.0
        chosen[:, -1] = 1 / n
        # the rows, their mean, and the products of both with all rows, by the products there are
        block = design.adjoint(design.array(chosen))
        products = to_numpy(design.forward(block)).astype(float).T
        products, with_mean = products[:-1], products[-1]
        products = products - with_mean - with_mean[rows, None] + with_mean.mean()
        center = None if self.path.fit_intercept else block[:, -1]  # an intercept centres anyway
        return self.as_cosines(products, to_numpy(design.row_squares(center)).astype(float))

    @cached_property
    def shuffled_cosines(self) -> np.ndarray | None:
        """The same once each column, or category, is shuffled by itself; None if X is too large."""
        design = self.path.design
        n, rng, rows = len(self.distinct), self.rng, self.rows
        if not self.is_readable:
            return None
        products, squares = np.zeros((len(rows), self.path.n_samples)), 0.0
        for X, groups in blocks_of_columns(design):
            for columns in groups:
                kept = X[self.distinct[:, None], columns]
                X[self.distinct[:, None], columns] = kept[rng.permutation(n)]
            X -= X.mean(axis=0)
            products += X[rows] @ X.T
            squares = squares + (X**2).sum(axis=1)
        return self.as_cosines(products, np.asarray(squares))

    def as_cosines(self, products: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """Turn products of `rows` with all rows into cosines, those of an observation with itself 0.

        Rows at the mean have no direction.
        """
        lengths = np.sqrt(np.where(squares > 1e-12 * squares.max(), squares, np.inf))
        cosines = np.clip(products / lengths[self.rows, None] / lengths, -1, 1)
        cosines[np.arange(len(self.rows)), self.rows] = 0.0
        if self.sources is not None:  # copies by count are one observation
            cosines[self.sources[self.rows, None] == self.sources] = 0.0
        return np.asarray(cosines)

    @cached_property
    def dimension(self) -> float:
        """Dimension in which random directions would be as much alike as those of the rows.

        In k dimensions the squared cosine of two of them has mean ``1 / k`` and, unless k is
        small, median 0.455 of it; the median does not mind a few copies.
        """
        middle = float(np.median(self.cosines**2))
        return min(max(0.455 / middle, 1.0), self.path.n_features) if middle > 0 else 1.0

    @property
    def is_readable(self) -> bool:
        """Whether X is small enough to look at its columns one by one."""
        return self.path.n_samples * self.path.n_features <= _MOST_ENTRIES

    # ----- Their residuals -----

    @cached_property
    def residuals(self) -> np.ndarray:
        """Of the chosen iterate, corrected."""
        return to_numpy(self.risk.residuals(self.chosen)).astype(float)

    @cached_property
    def signs(self) -> np.ndarray:
        """Whether residuals are above (1) or below (-1) their median."""
        return np.sign(self.residuals - np.median(self.residuals))


def features_of(design: Design) -> Design:
    """Return the design without the intercept, whose columns are the same up to their means."""
    return design.features if isinstance(design, InterceptDesign) else design


def blocks_of_columns(design: Design) -> Iterator[tuple[np.ndarray, list[list[int]]]]:
    """Columns as arrays, some at a time, since of a sparse X not all fit; no category is cut."""
    design = features_of(design)
    n, p = design.shape
    whole = None
    if design.part(None, np.arange(1)) is None:  # by whichever product has the smaller identity
        whole = (
            design.forward(design.array(np.eye(p)))
            if p <= n
            else design.adjoint(design.array(np.eye(n))).T
        )
    start, width = 0, _BLOCK
    while start < p:
        columns = np.arange(start, min(start + width, p))
        if whole is None:
            part = design.part(None, columns)
            assert part is not None
            X = part.forward(part.array(np.eye(len(columns))))
        else:
            X = take(whole, columns, axis=1)
        X = np.array(to_numpy(X), float)
        groups = _categories(X)
        if columns[-1] + 1 < p:  # the last group may go on
            if len(groups) == 1:
                width *= 2
                continue
            groups.pop()
        size = sum(map(len, groups))
        yield X[:, :size], groups
        start += size


def _categories(X: np.ndarray) -> list[list[int]]:
    """Return the columns, those together that follow each other and say one of several things."""
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
