"""A share of the rows: what the engine sees of X where it works on one block of many.

Arrays of one entry per column are the same at all blocks; arrays of one entry per row exist block
by block. The engine runs at every block, unchanged, and meets the others only in sums over rows.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy.sparse import issparse

from steinpath._support.arrays import Array
from steinpath.design._base import Design
from steinpath.design._dense import DenseDesign
from steinpath.design._sparse import SparseDesign


class Exchange(Protocol):
    """Hands out what one block found, and returns what all of them found together."""

    def __call__(self, kind: str, value: Array) -> Array:
        """Return the "sum" or the "largest" of the values of all blocks, as a new array."""


class ShareDesign(Design):
    """Some of the rows of X, in one piece.

    Parameters
    ----------
    rows : Design
        These rows.
    start : int
        How many rows come before them.
    n_rows : int
        Number of all rows.
    exchange : callable
        Where partial results go, and totals come from.
    """

    def __init__(self, rows: Design, start: int, n_rows: int, exchange: Exchange):
        self._rows, self._start, self._n_rows, self._exchange = rows, start, n_rows, exchange
        self.shape, self.example = rows.shape, rows.example

    @property
    def n_rows(self) -> int:
        return self._n_rows

    def over_rows(self, partial: Array) -> Array:
        return self._exchange("sum", partial)

    def largest(self, value: float) -> float:
        return float(self._exchange("largest", np.asarray(value)))

    def here(self, values: Array) -> Array:
        return values[self._start : self._start + self.shape[0], ...]

    def matmat(self, block: Array) -> Array:
        return self._rows.matmat(block)

    def rmatmat(self, block: Array) -> Array:
        return self.over_rows(self._rows.rmatmat(block))

    def adjoint_and_total(self, block: Array) -> tuple[Array, Array]:
        own = [self._rows.adjoint(block), np.sum(block, axis=0, keepdims=True)]
        both = self.over_rows(np.concatenate(own))
        return both[:-1, ...], both[-1, ...]

    def row_squares(self, center: Array | None = None) -> Array:
        return self._rows.row_squares(center)

    def astype(self, dtype: Any) -> ShareDesign:
        rows = self._rows.astype(dtype)
        return self if rows is self._rows else self._with(rows)

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> ShareDesign | None:
        part = self._rows.part(rows, columns)
        return None if part is None else self._with(part)

    @property
    def has_gram(self) -> bool:
        return self._rows.has_gram

    def gram(self, of_rows: bool = False, dtype: Any = None, center: Array | None = None) -> Array:
        if of_rows:
            raise NotImplementedError("products of rows with rows that are elsewhere")
        return self.over_rows(self._rows.gram(False, dtype, center))

    def _with(self, rows: Design) -> ShareDesign:
        return ShareDesign(rows, self._start, self._n_rows, self._exchange)


def design_of_checked(block: Any, dtype: Any) -> Design:
    """Return the design of a block that was checked before, dense or sparse."""
    if issparse(block):
        return SparseDesign.of_checked(block).astype(dtype)
    # what came over a network may lie at odd addresses, where products are slow
    block = np.require(block, requirements=["ALIGNED"])
    return DenseDesign.of_checked(block).astype(dtype)
