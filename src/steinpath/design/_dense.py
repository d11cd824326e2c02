"""Matrices in memory, in any array namespace: one for all members, or one per member."""

from __future__ import annotations

from typing import Any

import numpy as np

from steinpath._support.arrays import Array, cast, members_product, namespace, take
from steinpath._support.validation import check_array, check_magnitude
from steinpath.design._base import Design, ScalableDesign

# Rows or columns of X processed together where a copy of all of X is avoided.
_PIECE = 512
# Maximum number of columns, and minimum size of the matrix, for a transposed product; see `_times`.
_FEW_COLUMNS, _LARGE = 64, 2**18


class DenseDesign(ScalableDesign):
    """Matrix in memory, in any array namespace; not copied."""

    has_gram = True

    def __init__(self, X: Any):
        self.example = check_array("X", X, ndim=2)
        check_magnitude("X", self.example)
        self.shape = (int(self.example.shape[0]), int(self.example.shape[1]))

    def matmat(self, block: Array) -> Array:
        return _times(self.example, block)

    def rmatmat(self, block: Array) -> Array:
        return _times(self.example.T, block)

    def astype(self, dtype: Any) -> DenseDesign:
        values = cast(self.example, dtype)
        return self if values is self.example else self.of_checked(values)

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> DenseDesign:
        values = self.example
        # select along the axis with fewer entries first: the intermediate copy is smaller
        kept = [(c, axis) for axis, c in enumerate((rows, columns)) if c is not None]
        for coordinates, axis in sorted(kept, key=lambda part: len(part[0]) / self.shape[part[1]]):
            values = take(values, coordinates, axis=axis)
        return self.of_checked(values)

    def gram(self, of_rows: bool = False, dtype: Any = None, center: Array | None = None) -> Array:
        X, dtype = self.example, dtype or self.example.dtype
        if center is None and dtype == X.dtype:
            return X @ X.T if of_rows else X.T @ X
        # in blocks, to avoid a second copy of X
        shift = cast(self.zeros(self.shape[1]) if center is None else center, dtype)
        length = self.shape[1] if of_rows else self.shape[0]
        total: Array = 0.0
        for i in range(0, length, _PIECE):
            piece = slice(i, min(i + _PIECE, length))
            if of_rows:
                part = (cast(X[:, piece], dtype) - shift[piece]).T
            else:
                part = cast(X[piece, :], dtype) - shift
            total = part.T @ part + total
        return total

    @classmethod
    def of_checked(cls, values: Array) -> DenseDesign:
        """Return a design of entries that were checked before."""
        design = cls.__new__(cls)
        design.example, design.shape = values, tuple(values.shape)
        return design

    def row_squares(self, center: Array | None = None, scale: Array | None = None) -> Array:
        xp, (n, p) = namespace(self.example), self.shape
        center, scale = 0.0 if center is None else center, 1.0 if scale is None else scale
        rows = max(1, 2**20 // p)  # in blocks, to avoid a second copy of X
        parts = (self.example[i : min(i + rows, n), :] for i in range(0, n, rows))
        return xp.concat([xp.sum(((part - center) / scale) ** 2, axis=1) for part in parts])


def _times(matrix: Array, block: Array) -> Array:
    """Return ``matrix @ block``; NumPy's libraries multiply a few columns by a transpose slowly."""
    turned = (
        type(block) is np.ndarray
        and block.ndim == 2
        and 1 < block.shape[1] <= _FEW_COLUMNS
        and matrix.size >= _LARGE
        and matrix.dtype == np.float32
        and matrix.flags.f_contiguous
    )
    return (block.T @ matrix.T).T if turned else matrix @ block


class StackedDesign(Design):
    """Matrices of one shape, one per member: an array (members, n, p) that was checked before."""

    def __init__(self, X: Array):
        self.example, self.shape = X, (int(X.shape[1]), int(X.shape[2]))

    @property
    def members(self) -> int:
        return int(self.example.shape[0])

    def member(self, k: int) -> DenseDesign:
        return DenseDesign.of_checked(self.example[k, ...])

    def matmat(self, block: Array) -> Array:
        raise NotImplementedError("members have their own matrices: blocks must have three axes")

    rmatmat = matmat

    def forward(self, block: Array) -> Array:
        return members_product(self.example, block)

    def adjoint(self, block: Array) -> Array:
        return members_product(namespace(block).matrix_transpose(self.example), block)

    def row_squares(self, center: Array | None = None) -> Array:
        centers = (None if center is None else center[:, k, 0] for k in range(self.members))
        squares = [self.member(k).row_squares(own) for k, own in enumerate(centers)]
        return namespace(self.example).stack(squares, axis=1)[:, :, None]

    def astype(self, dtype: Any) -> StackedDesign:
        return StackedDesign(cast(self.example, dtype))

    def some(self, members: np.ndarray) -> StackedDesign:
        return StackedDesign(take(self.example, members))
