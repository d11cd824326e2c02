"""Rows: how many there are, and how a sum over them is taken.

Losses are told so instead of reading it off their argument, which may hold rows that weigh more
than others, rows that are left out, or only a block of the rows, the rest being elsewhere. Losses
for classification are told the class of each row, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from steinpath._support.arrays import Array, along_rows, namespace, rows_product


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a problem.

    Attributes
    ----------
    count : int, or Array of shape (members, 1)
        The sample size n in the scaling of losses, residuals and duals.
    weights : Array of shape (n,) or (n, members, 1), optional
        How much each row counts: zero for a row that is left out. All count 1 by default.
    complete : callable, optional
        Makes a sum over all rows of a sum over those that are here, if others are elsewhere.
    labels : Array of shape (n,) or (n, members, 1), optional
        The class of each row, -1 or 1, for losses of margins.
    """

    count: Any
    weights: Array | None = None
    complete: Callable[[Array], Array] | None = None
    labels: Array | None = None

    @classmethod
    def of(cls, block: Array) -> Rows:
        """Return the rows of an array that has them all, each counting once."""
        return cls(block.shape[0])

    @cached_property
    def root(self) -> Any:
        """Square root of `count`."""
        if hasattr(self.count, "ndim"):
            return namespace(self.count).sqrt(self.count)
        return math.sqrt(self.count)

    def weighted(self, block: Array) -> Array:
        """Multiply the rows of a block by their weights."""
        return block if self.weights is None else along_rows(self.weights, block) * block

    def total(self, block: Array, keepdims: bool = False) -> Array:
        """Sum over the rows of a vector or block."""
        partial = namespace(block).sum(self.weighted(block), axis=0, keepdims=keepdims)
        return partial if self.complete is None else self.complete(partial)

    def inner(self, first: Array, second: Array) -> Array:
        """``firstᵀ second`` over the rows; see `rows_product`."""
        partial = rows_product(self.weighted(first), second)
        return partial if self.complete is None else self.complete(partial)
