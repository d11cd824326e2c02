"""Rows of a problem: their number and how to sum over them.

Losses receive this information explicitly, because their argument may hold weighted rows, held-out
rows, or only a block of the rows. Classification losses also receive the class of each row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from steinpath._support.arrays import Array, along_rows, cast, namespace, rows_product
from steinpath._support.caching import cached_property


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a problem."""

    #: Sample size n in the scaling of losses, residuals and duals; an array is (members, 1).
    count: Any
    #: Weight of each row, (n,) or (n, members, 1); zero for a held-out row. All 1 by default.
    weights: Array | None = None
    #: Turns a sum over local rows into the sum over all rows, if some are stored elsewhere.
    complete: Callable[[Array], Array] | None = None
    #: Class of each row, -1 or 1, for margin losses; (n,) or (n, members, 1).
    labels: Array | None = None

    @classmethod
    def of(cls, block: Array) -> Rows:
        """Return the rows of an array that holds all of them, with weight 1."""
        return cls(block.shape[0])

    @cached_property
    def root(self) -> Any:
        """Square root of `count`."""
        several = hasattr(self.count, "ndim")
        return namespace(self.count).sqrt(self.count) if several else math.sqrt(self.count)

    def weighted(self, block: Array) -> Array:
        """Multiply the rows of a block by their weights."""
        if self.weights is None:
            return block
        return along_rows(cast(self.weights, block.dtype), block) * block

    def total(self, block: Array, keepdims: bool = False) -> Array:
        """Sum over the rows of a vector or block."""
        partial = namespace(block).sum(self.weighted(block), axis=0, keepdims=keepdims)
        return partial if self.complete is None else self.complete(partial)

    def inner(self, first: Array, second: Array) -> Array:
        """``firstᵀ second`` over the rows; see `rows_product`."""
        partial = rows_product(self.weighted(first), second)
        return partial if self.complete is None else self.complete(partial)
