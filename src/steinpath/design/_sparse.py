"""SciPy sparse matrices, which are never converted to dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from steinpath._support.arrays import Array
from steinpath._support.validation import check_array, check_magnitude, check_shape, read_array
from steinpath.design._base import ScalableDesign


class SparseDesign(ScalableDesign):
    """Sparse matrix of SciPy in any format; with ``any_size``, a `ScaledDesign` rescales it."""

    def __init__(self, X: Any, any_size: bool = False):
        # either format multiplies equally fast from both sides, so only one is kept
        self.matrix = compressed(X)
        if not self.matrix.has_canonical_format:  # entries may be stored as several summands
            self.matrix = self.matrix.copy()
            self.matrix.sum_duplicates()
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        if self.matrix.nnz:
            self.matrix = self._with(check_array("X", self.matrix.data, ndim=1))
            if not any_size:
                check_magnitude("X", self.matrix.data)
        elif self.matrix.dtype not in (np.float32, np.float64):
            self.matrix = self.matrix.astype(float)
        self.example = np.zeros(1, dtype=self.matrix.dtype)

    @classmethod
    def of_checked(cls, X: Any) -> SparseDesign:
        """Return a design of a CSR or CSC matrix whose entries were checked before."""
        design = cls.__new__(cls)
        design.matrix, design.shape = X, (int(X.shape[0]), int(X.shape[1]))
        design.example = np.zeros(1, dtype=X.dtype)
        return design

    def matmat(self, block: Array) -> Array:
        return self.matrix @ block

    def rmatmat(self, block: Array) -> Array:
        return self.matrix.T @ block

    def astype(self, dtype: Any) -> SparseDesign:
        if dtype == self.matrix.dtype:
            return self
        return SparseDesign.of_checked(self._with(self.matrix.data.astype(dtype)))

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> SparseDesign:
        part = self.matrix if rows is None else self.matrix[rows]
        return SparseDesign.of_checked(part if columns is None else part[:, columns])

    def row_squares(self, center: Array | None = None, scale: Array | None = None) -> Array:
        data = self.matrix.data.astype(float)
        weights = np.ones(self.shape[1]) if scale is None else 1 / scale.astype(float) ** 2
        squares = self._with(data**2) @ weights
        if center is not None:
            center = center.astype(float)
            size = squares + weights @ center**2
            squares = size - 2 * (self._with(data) @ (weights * center))
            # differences of equal numbers are rounding errors
            squares[squares < 1e-12 * size] = 0.0
        return squares.astype(self.matrix.dtype)

    def _with(self, data: np.ndarray) -> Any:
        """Return a matrix with other entries in the same positions."""
        places = self.matrix.indices, self.matrix.indptr
        return type(self.matrix)((data, *places), shape=self.shape)


def compressed(X: Any) -> Any:
    """Return a sparse matrix as a CSR or CSC matrix with valid indices, which products trust."""
    check_shape("X", X.shape, ndim=2)
    matrix = X if X.format in ("csr", "csc") else X.tocsr()
    parts = read_array("X", matrix.data), matrix.indices, matrix.indptr
    try:
        # a new matrix also finds out again whether its indices are sorted
        matrix = type(matrix)(parts, shape=X.shape, copy=False)
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"X is an invalid sparse matrix: {error}") from None
    return matrix
