"""A share of the rows: the design as seen by the engine on one of many blocks.

Arrays with one entry per column are the same on all blocks; arrays with one entry per row are
distributed. The engine runs unchanged on every block and communicates only in sums over rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.sparse import issparse

from steinpath._support.arrays import Array
from steinpath.cluster._stored import StoredBlock
from steinpath.design._base import ScalableDesign
from steinpath.design._dense import DenseDesign
from steinpath.design._sparse import SparseDesign


class Exchange(Protocol):
    """Sends the partial result of one block, and returns the total over all blocks."""

    def __call__(self, kind: str, value: Array) -> Array:
        """Return the "sum", the "largest" or the "first" of the values of all blocks, as a copy."""


@dataclass(frozen=True)
class Place:
    """Position of a block among all rows.

    Attributes
    ----------
    index : int
        Index of the block.
    start : int
        Index of its first row.
    n_rows : int
        Number of rows of all blocks.
    largest : int
        Number of rows of the largest block.
    """

    index: int
    start: int
    n_rows: int
    largest: int


class ShareDesign(ScalableDesign):
    """A contiguous block of the rows of X.

    Parameters
    ----------
    rows : ScalableDesign
        Rows of the block.
    place : Place
        Position of the block among all rows.
    exchange : callable
        Returns totals for partial results.
    y : Array of shape (n,), optional
        Responses of all rows, once known.
    """

    def __init__(
        self, rows: ScalableDesign, place: Place, exchange: Exchange, y: Array | None = None
    ):
        self._rows, self._place, self._exchange, self._y = rows, place, exchange, y
        self.shape, self.example = rows.shape, rows.example
        self.out_of_core = rows.out_of_core

    def with_responses(self, y: Array) -> ShareDesign:
        """Return the same rows with the responses of all rows."""
        return ShareDesign(self._rows, self._place, self._exchange, y)

    @property
    def own(self) -> ScalableDesign:
        """The rows of this block alone; sums are not over all rows."""
        return self._rows

    @property
    def n_rows(self) -> int:
        return self._place.n_rows

    @property
    def largest_share(self) -> int:
        return self._place.largest

    @property
    def all_y(self) -> Array | None:
        return self._y

    def over_rows(self, partial: Array) -> Array:
        return self._exchange("sum", partial)

    def largest(self, value: Any) -> Any:
        return self._exchange("largest", np.asarray(value))

    def local(self, values: Array) -> Array:
        first = self._place.start
        return values[first : first + self.shape[0], ...]

    def once(self, compute: Callable[[], Array]) -> Array:
        return self._exchange("first", np.zeros(0) if self._place.index else compute())

    def matmat(self, block: Array) -> Array:
        return self._rows.matmat(block)

    def rmatmat(self, block: Array) -> Array:
        return self.over_rows(self._rows.rmatmat(block))

    def adjoint_and_total(self, block: Array) -> tuple[Array, Array]:
        own = [self._rows.adjoint(block), np.sum(block, axis=0, keepdims=True)]
        both = self.over_rows(np.concatenate(own))
        return both[:-1, ...], both[-1, ...]

    def row_squares(self, center: Array | None = None, scale: Array | None = None) -> Array:
        return self._rows.row_squares(center, scale)

    def astype(self, dtype: Any) -> ShareDesign:
        rows = self._rows.astype(dtype)
        return self if rows is self._rows else self._with(rows)

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> ShareDesign | None:
        part = self._rows.part(rows, columns)
        # all blocks must decide alike: if a part is too large to copy on one, none copies it
        if self.out_of_core and self.largest(float(part is None)):
            return None
        return None if part is None else self._with(part)

    @property
    def has_gram(self) -> bool:
        return self._rows.has_gram

    def gram(self, of_rows: bool = False, dtype: Any = None, center: Array | None = None) -> Array:
        if of_rows:
            raise NotImplementedError("products of rows with rows of other blocks")
        return self.over_rows(self._rows.gram(False, dtype, center))

    def _with(self, rows: ScalableDesign) -> ShareDesign:
        return ShareDesign(rows, self._place, self._exchange, self._y)


def design_of_checked(block: Any, dtype: Any) -> ScalableDesign:
    """Return the design of a validated block: dense, sparse or in a file."""
    if isinstance(block, StoredBlock):
        return block.design.astype(dtype)
    if issparse(block):
        return SparseDesign.of_checked(block).astype(dtype)
    # arrays received over a network may be unaligned, which makes products slow
    block = np.require(block, requirements=["ALIGNED"])
    return DenseDesign.of_checked(block).astype(dtype)
