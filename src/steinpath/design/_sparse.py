"""Sparse matrices of SciPy, which never become dense."""

from __future__ import annotations

from typing import Any

import numpy as np

from steinpath._support.arrays import Array
from steinpath._support.validation import check_array, check_magnitude, check_shape
from steinpath.design._base import ScalableDesign


class SparseDesign(ScalableDesign):
    """A SciPy sparse matrix, which never becomes dense.

    Parameters
    ----------
    X : sparse matrix or array of shape (n, p)
        In any format; real and finite. float32 and float64 stay what they are, integers become
        float64.
    any_size : bool, default=False
        Whether entries may be of any size, because a `ScaledDesign` makes it moderate.
    """

    def __init__(self, X: Any, any_size: bool = False):
        check_shape("X", X.shape, ndim=2)
        _check_places(X)
        # either form multiplies as fast from both sides: keeping both would not pay
        self.matrix = X if X.format in ("csr", "csc") else X.tocsr()
        if not self.matrix.has_canonical_format:  # entries may be there in several parts
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
        """Return a design of a matrix in one of the two forms, whose entries were checked."""
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
            squares[squares < 1e-12 * size] = 0.0  # what is left of equal numbers is rounding
        return squares.astype(self.matrix.dtype)

    def _with(self, data: np.ndarray) -> Any:
        """Return the matrix with other entries in the same places."""
        places = self.matrix.indices, self.matrix.indptr
        return type(self.matrix)((data, *places), shape=self.shape)


def _check_places(X: Any) -> None:
    """Refuse a matrix whose entries are outside of it: products would read there."""
    if X.format in ("csr", "csc", "bsr"):
        try:  # on a view, which the check may change
            view = type(X)((X.data, X.indices, X.indptr), shape=X.shape, copy=False)
            view.check_format(full_check=True)
        except ValueError as error:
            raise ValueError(f"X is a broken sparse matrix: {error}") from None
