"""SciPy sparse matrices, which are never converted to dense ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
from scipy import sparse

from steinpath._support.arrays import Array
from steinpath._support.reading import read_array
from steinpath._support.validation import check_array, check_magnitude, check_shape
from steinpath.design._base import ScalableDesign


class SparseDesign(ScalableDesign):
    """SciPy sparse matrix, never converted to a dense one.

    Parameters
    ----------
    X : sparse matrix or array of shape (n, p)
        In any format; real and finite. float32 and float64 are kept, integers become float64.
    any_size : bool, default=False
        Whether entries may have any magnitude, because a `ScaledDesign` rescales them.
    """

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
            squares[squares < 1e-12 * size] = (
                0.0  # differences of equal numbers are rounding errors
            )
        return squares.astype(self.matrix.dtype)

    def _with(self, data: np.ndarray) -> Any:
        """Return a matrix with other entries in the same positions."""
        places = self.matrix.indices, self.matrix.indptr
        return type(self.matrix)((data, *places), shape=self.shape)


# ------------------------------------------------------------------------------------------------
# Validation of the sparsity structure
# ------------------------------------------------------------------------------------------------


def compressed(X: Any) -> Any:
    """Return a CSR or CSC matrix whose indices are checked to be in bounds.

    SciPy's conversions and products trust indices and would access memory out of bounds. The flag
    for sorted indices is not used either, as it may be out of date.

    Parameters
    ----------
    X : sparse matrix or array of shape (n, p)
        Matrix in any format.
    """
    check_shape("X", X.shape, ndim=2)
    if X.format not in _CONVERSIONS:
        raise TypeError(f"X is a sparse matrix of unknown format {X.format!r}; pass X.tocsr()")
    entries, converted = _CONVERSIONS[X.format]
    with _errors_explained():
        values = entries(X)
    data = read_array("X", values)
    if data.dtype == np.float16:  # not supported by SciPy's sparse matrices
        raise TypeError("X has dtype float16; use float32 or float64")
    with _errors_explained():
        return converted(X, data)


@contextmanager
def _errors_explained() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, IndexError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"X is an invalid sparse matrix: {error}") from None


def _integers(values: Any) -> np.ndarray:
    """Return indices; values that are not integers would be truncated silently."""
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"indices must be integers, got {array.dtype}")
    return array if array.size else array.astype(np.int64)


def _made(X: Any, kind: str, parts: tuple[Any, ...]) -> Any:
    """Return a matrix of another format, as an array or a matrix like X."""
    suffix = "array" if isinstance(X, sparse.sparray) else "matrix"
    return getattr(sparse, f"{kind}_{suffix}")(parts, shape=X.shape, copy=False)


def _from_compressed(X: Any, data: np.ndarray) -> Any:
    ends = _integers(X.indptr)
    if np.any(ends[1:] < ends[:-1]):
        raise ValueError("index pointer values must form a non-decreasing sequence")
    _integers(X.indices)
    matrix = _made(X, X.format, (data, X.indices, X.indptr))
    matrix.check_format(full_check=True)
    return matrix.tocsr() if X.format == "bsr" else matrix


def _from_coordinates(X: Any, data: np.ndarray) -> Any:
    return _made(X, "coo", (data, tuple(map(_integers, X.coords)))).tocsr()


def _from_dictionary(X: Any, data: np.ndarray) -> Any:
    places = _integers([*X.keys()]).reshape(len(data), 2).T
    return _made(X, "coo", (data.astype(X.dtype), tuple(places))).tocsr()


def _from_diagonals(X: Any, data: np.ndarray) -> Any:
    offsets = _integers(X.offsets)
    if data.ndim != 2 or offsets.shape != data.shape[:1]:
        raise ValueError(
            f"offsets of shape {offsets.shape} do not match data of shape {data.shape}"
        )
    inside = (offsets > -X.shape[0]) & (offsets < X.shape[1])
    return _made(X, "dia", (data[inside], offsets[inside])).tocsr()


def _from_lists(X: Any, data: np.ndarray) -> Any:
    counts = [len(columns) for columns in X.rows]
    if counts != [len(values) for values in X.data]:
        raise ValueError("rows and data must have lists of the same lengths")
    indices = _integers([*chain.from_iterable(X.rows)])
    matrix = _made(X, "csr", (data.astype(X.dtype), indices, np.cumsum([0, *counts])))
    matrix.check_format(full_check=True)
    if not matrix.has_canonical_format:
        raise ValueError("indices of each row must be sorted and unique")
    return matrix


# For each format: where its entries are stored, and how to convert it.
_CONVERSIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, np.ndarray], Any]]] = {
    "csr": (attrgetter("data"), _from_compressed),
    "csc": (attrgetter("data"), _from_compressed),
    "bsr": (attrgetter("data"), _from_compressed),
    "coo": (attrgetter("data"), _from_coordinates),
    "dia": (attrgetter("data"), _from_diagonals),
    "dok": (lambda X: [*X.values()], _from_dictionary),
    "lil": (lambda X: [*chain.from_iterable(X.data)], _from_lists),
}
