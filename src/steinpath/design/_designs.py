"""Designs: the matrix X behind two products.

The engine touches X only through ``matmat`` and ``rmatmat``. Anything with these, a ``shape``
and a ``norm()`` can stand in for X; `Design` gives the rest.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import array_api_compat
import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator, svds

from steinpath._support.arrays import (
    Array,
    along_rows,
    cast,
    like,
    namespace,
    rows_product,
    take,
    to_numpy,
)
from steinpath._support.validation import check_array, check_magnitude, check_shape
from steinpath.design._norm import norm_in_few_passes

# Rows or columns of X that are looked at together where a copy of all of X is to be avoided.
_PIECE = 512
# Designs this narrow are decomposed whole: ARPACK needs room for its Krylov space.
_SMALL = 32


class Design(ABC):
    """An ``(n, p)`` matrix that can be multiplied from both sides.

    Attributes
    ----------
    shape : tuple of int
        ``(n, p)``.
    example : Array
        Any array of the design's namespace, dtype and device: what new arrays are made like.
    weights : Array of shape (n,) or None
        How much each row counts, with mean 1; None if all count alike. `rmatmat` has them in it.
    dear : bool
        Whether a product costs much more than its arithmetic, as where X is read from a file.
    """

    shape: tuple[int, int]
    example: Array
    weights: Array | None = None
    dear: bool = False
    _norm: tuple[float, float] | None = None  # where it is known, and its tolerance

    @abstractmethod
    def matmat(self, block: Array) -> Array:
        """``X @ block`` for a vector or a block of columns: a new array."""

    @abstractmethod
    def rmatmat(self, block: Array) -> Array:
        """``Xᵀ @ block`` for a vector or a block of columns: a new array."""

    # A design may hold a share of the rows, and others the rest. Arrays of one entry per row then
    # have ``shape[0]`` entries, those of its own, and what is said of all goes through these:

    @property
    def n_rows(self) -> int:
        """Number of all rows."""
        return self.shape[0]

    @property
    def is_whole(self) -> bool:
        """Whether all rows are here."""
        return self.n_rows == self.shape[0]

    def over_rows(self, partial: Array) -> Array:
        """Return a sum over all rows, from the sum over those that are here."""
        return partial

    def largest(self, value: float) -> float:
        """Return the largest number of all shares."""
        return value

    def here(self, values: Array) -> Array:
        """Return the rows that are here of an array that has them all."""
        return values

    def total(self, block: Array) -> Array:
        """Sum over the rows of a vector or block, each as often as it counts."""
        weighted = block if self.weights is None else along_rows(self.weights, block) * block
        return self.over_rows(namespace(block).sum(weighted, axis=0))

    def rmatmat_and_total(self, block: Array) -> tuple[Array, Array]:
        """Return `rmatmat` and `total` of a block: both are sums over all rows."""
        return self.rmatmat(block), self.total(block)

    def row_squares(self, center: Array | None = None) -> Array:
        """Squared Euclidean distance of each row's features from their ``center``, or from 0."""
        raise NotImplementedError(f"{type(self).__name__} does not know the sizes of its rows")

    def astype(self, dtype: Any) -> Design:
        """Return the design in another precision, or itself where that is not to be had."""
        return self

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> Design | None:
        """Return a copy of some rows and columns (None: of all); None if that does not pay."""
        return None

    @property
    def has_gram(self) -> bool:
        """Whether `gram` is there, and pays."""
        return False

    def gram(self, of_rows: bool = False, dtype: Any = None, center: Array | None = None) -> Array:
        """``Xᵀ X``, or ``X Xᵀ`` of the rows, after subtracting the features' ``center``.

        Computed in the precision ``dtype``, the design's own by default.
        """
        raise NotImplementedError(f"{type(self).__name__} has no Gram matrix")

    def norm(self, tol: float = 1e-6) -> float:
        """Largest singular value: to ``tol`` and, unlike random estimates, not low."""
        known = self._norm
        if known is None or known[1] > tol:
            known = self._norm = (self._largest_singular_value(tol), tol)
        return known[0]

    def zeros(self, *shape: int) -> Array:
        """Return zeros like the design."""
        return namespace(self.example).zeros(
            shape, dtype=self.example.dtype, device=array_api_compat.device(self.example)
        )

    def array(self, values: Any) -> Array:
        """``values`` as an array like the design."""
        return like(values, self.example)

    def signs(self, rng: np.random.Generator, *shape: int) -> Array:
        """Return random signs like the design: the probes of all trace estimates."""
        return self.array(rng.integers(0, 2, shape) * 2.0 - 1.0)

    def _largest_singular_value(self, tol: float) -> float:
        n, p = self.shape
        # of the matrix with rows times the roots of their weights
        roots = np.ones(n) if self.weights is None else np.sqrt(to_numpy(self.weights))

        def forth(b: np.ndarray) -> np.ndarray:
            return np.asarray((roots * to_numpy(self.matmat(self.array(b))).T).T)

        def back(u: np.ndarray) -> np.ndarray:
            return to_numpy(self.rmatmat(self.array((u.T / roots).T))).astype(float, copy=False)

        if not self.is_whole:
            # only XᵀX shows rows that are elsewhere. ARPACK may let no other thread of its process
            # in while it waits for a product, and here each of them may wait for all others.
            if p <= _SMALL:
                return math.sqrt(max(np.linalg.eigvalsh(back(forth(np.eye(p))))[-1], 0.0))
            return norm_in_few_passes(forth, back, p, tol**1.5)
        if min(n, p) <= _SMALL:
            columns = forth(np.eye(p)) if p <= n else back(np.eye(n))
            return float(np.linalg.norm(columns.astype(float), 2))
        if self.dear:
            first, second = (forth, back) if p <= n else (back, forth)
            return norm_in_few_passes(first, second, min(n, p), tol)
        operator = LinearOperator(
            dtype=np.float64,
            shape=self.shape,
            matvec=lambda b: forth(b.ravel()),
            rmatvec=lambda u: back(u.ravel()),
        )
        start = np.random.default_rng(0).standard_normal(min(n, p))
        if not np.any(operator.matvec(start) if p <= n else operator.rmatvec(start)):
            return 0.0  # ARPACK refuses the zero matrix
        values = svds(operator, k=1, tol=tol, v0=start, return_singular_vectors=False)
        return float(values[0])


class ScalableDesign(Design):
    """A design that knows the sizes of its rows also after its columns are divided by numbers."""

    @abstractmethod
    def row_squares(self, center: Array | None = None, scale: Array | None = None) -> Array:
        """Squared Euclidean distance of each row's features from their ``center``, or from 0.

        With ``scale``, each feature's distance is divided by its own.
        """

    def astype(self, dtype: Any) -> ScalableDesign:
        return self

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> ScalableDesign | None:
        return None


class DenseDesign(ScalableDesign):
    """A matrix held in memory, in any array namespace.

    Parameters
    ----------
    X : array-like of shape (n, p)
        Real and finite. float32 and float64 stay what they are, integers become float64.
    """

    def __init__(self, X: Any):
        self.example = check_array("X", X, ndim=2)
        check_magnitude("X", self.example)
        self.shape = (int(self.example.shape[0]), int(self.example.shape[1]))

    def matmat(self, block: Array) -> Array:
        return self.example @ block

    def rmatmat(self, block: Array) -> Array:
        return self.example.T @ block

    def astype(self, dtype: Any) -> DenseDesign:
        values = cast(self.example, dtype)
        return self if values is self.example else self.of_checked(values)

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> DenseDesign:
        values = self.example
        # the scarcer first: the copy in between is then the smaller
        kept = [(c, axis) for axis, c in enumerate((rows, columns)) if c is not None]
        for coordinates, axis in sorted(kept, key=lambda part: len(part[0]) / self.shape[part[1]]):
            values = take(values, coordinates, axis=axis)
        return self.of_checked(values)

    @property
    def has_gram(self) -> bool:
        return True

    def gram(self, of_rows: bool = False, dtype: Any = None, center: Array | None = None) -> Array:
        X, dtype = self.example, dtype or self.example.dtype
        if center is None and dtype == X.dtype:
            return X @ X.T if of_rows else X.T @ X
        # in pieces, so as not to hold a second X
        shift = cast(self.zeros(self.shape[1]) if center is None else center, dtype)
        length = self.shape[1] if of_rows else self.shape[0]
        total: Array = 0.0
        for i in range(0, length, _PIECE):
            piece = slice(i, min(i + _PIECE, length))
            if of_rows:
                part = cast(X[:, piece], dtype) - shift[piece]
                total = part @ part.T + total
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
        xp = namespace(self.example)
        n, p = self.shape
        center = self.zeros(p) if center is None else center
        scale = 1.0 if scale is None else scale
        rows = max(1, 2**20 // p)  # in pieces, so as not to hold a second X
        pieces = [
            xp.sum(((self.example[i : min(i + rows, n), :] - center) / scale) ** 2, axis=1)
            for i in range(0, n, rows)
        ]
        return xp.concat(pieces)


class InterceptDesign(Design):
    """Columns centred by their means, and one more column of equal entries: the intercept's.

    The centring is a rank-one correction of each product, so X itself is never copied. The last
    column holds ``height``, the root mean square of the centred entries: 1 for standardised
    features, and in other units what keeps the intercept's speed and the norm of the whole in
    proportion.

    Parameters
    ----------
    features : Design
        The columns.
    means : Array of shape (p,), or (p, members) for a batch of designs, optional
        Their means; computed by default.
    height : float, or Array of shape (members,), optional
        Entry of the last column; computed by default.
    """

    def __init__(self, features: Design, means: Array | None = None, height: Any = None):
        n, p = features.shape
        self.features = features
        self.shape = (n, p + 1)
        self.example, self.weights, self.dear = features.example, features.weights, features.dear
        if means is None:
            means = features.rmatmat(self.zeros(n) + 1.0) / self.n_rows
        self.means = cast(means, self.example.dtype)
        if height is None:
            mean_square = float(self.total(self.row_squares())) / (self.n_rows * p)
            height = math.sqrt(mean_square) or 1.0
        self.height = height if isinstance(height, float) else cast(height, self.example.dtype)

    @property
    def n_rows(self) -> int:
        return self.features.n_rows

    def over_rows(self, partial: Array) -> Array:
        return self.features.over_rows(partial)

    def largest(self, value: float) -> float:
        return self.features.largest(value)

    def here(self, values: Array) -> Array:
        return self.features.here(values)

    def astype(self, dtype: Any) -> InterceptDesign:
        return InterceptDesign(self.features.astype(dtype), self.means, self.height)

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> InterceptDesign | None:
        # the last column belongs to every part: nothing makes the intercept's tangents vanish
        inner = None if columns is None else columns[:-1]
        features = self.features.part(rows, inner)
        if features is None:
            return None
        means = self.means if inner is None else take(self.means, inner)
        return InterceptDesign(features, means, self.height)

    @property
    def has_gram(self) -> bool:
        return self.features.has_gram

    def gram(self, of_rows: bool = False, dtype: Any = None, center: Array | None = None) -> Array:
        inner = self.features.gram(of_rows, dtype, self.means if center is None else center)
        if of_rows:
            return inner + self.height**2
        # the constant column is orthogonal to centred ones
        xp = namespace(inner)
        side = xp.zeros_like(inner[:, :1])
        corner = side[:1, :] + self.n_rows * self.height**2
        top = xp.concat([inner, side], axis=1)
        return xp.concat([top, xp.concat([side.T, corner], axis=1)], axis=0)

    def matmat(self, block: Array) -> Array:
        head, last = block[:-1, ...], block[-1, ...]
        own = along_rows(self.height, last) * last - rows_product(self.means, head)
        return self.features.matmat(head) + own

    def rmatmat(self, block: Array) -> Array:
        xp = namespace(block)
        head, total = self.features.rmatmat_and_total(block)
        head = head - along_rows(self.means, block) * total
        last = along_rows(self.height, total) * total
        return xp.concat([head, xp.reshape(last, (1, *block.shape[1:]))], axis=0)

    def row_squares(self, center: Array | None = None) -> Array:
        return self.features.row_squares(self.means if center is None else center)

    def intercepts(self, b: Array) -> Array:
        """Return the intercepts in the features' own coordinates, from rows of iterates."""
        return self.height * b[:, -1] - b[:, :-1] @ self.means


class WeightedDesign(Design):
    """Rows that count unequally: integer weights are as good as rows repeated so many times.

    Fitted values and duals are those of one copy of each row, and ``rmatmat`` adds up all copies.

    Parameters
    ----------
    rows : Design
        The rows.
    weights : array-like of shape (n,)
        Positive; divided by their mean.
    """

    def __init__(self, rows: Design, weights: Any):
        self.rows, self.shape, self.example, self.dear = rows, rows.shape, rows.example, rows.dear
        weights = check_array("sample_weight", weights, ndim=1, reference=rows.example)
        xp = namespace(weights)
        if weights.shape[0] != self.shape[0]:
            raise ValueError(
                f"X has {self.shape[0]} rows, but sample_weight has {weights.shape[0]} entries"
            )
        if not xp.all(weights > 0):
            raise ValueError("sample_weight must be positive; leave out the rows that do not count")
        self.given, self.weights = weights, weights / xp.mean(weights)
        self.all_alike = bool(xp.all(weights == weights[0]))

    def matmat(self, block: Array) -> Array:
        return self.rows.matmat(block)

    def rmatmat(self, block: Array) -> Array:
        return self.rows.rmatmat(along_rows(self.weights, block) * block)

    def row_squares(self, center: Array | None = None) -> Array:
        return self.rows.row_squares(center)


class ScaledDesign(Design):
    """Columns divided by a number each, in every product: X itself is never copied.

    Parameters
    ----------
    features : ScalableDesign
        The columns.
    scale : Array of shape (p,)
        What they are divided by; positive.
    """

    def __init__(self, features: ScalableDesign, scale: Array):
        self.features, self.scale = features, scale
        self.shape, self.example, self.dear = features.shape, features.example, features.dear

    def matmat(self, block: Array) -> Array:
        return self.features.matmat(block / along_rows(self.scale, block))

    def rmatmat(self, block: Array) -> Array:
        product = self.features.rmatmat(block)
        return product / along_rows(self.scale, product)

    def row_squares(self, center: Array | None = None) -> Array:
        center = None if center is None else self.scale * center
        return self.features.row_squares(center, self.scale)

    def astype(self, dtype: Any) -> ScaledDesign:
        xp, limits = namespace(self.scale), namespace(self.scale).finfo(dtype)
        low, high = float(limits.smallest_normal), float(limits.max)
        if not xp.all((self.scale > low) & (self.scale < high)):
            return self
        return ScaledDesign(self.features.astype(dtype), cast(self.scale, dtype))

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> ScaledDesign | None:
        features = self.features.part(rows, columns)
        if features is None:
            return None
        return ScaledDesign(features, self.scale if columns is None else take(self.scale, columns))


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


class RemoteDesign(Design):
    """Rows that are not here, so that runs go where they are."""

    @abstractmethod
    def run(
        self,
        y: Any,
        loss: Any,
        penalty: Any,
        algorithm: Any,
        n_iter: int,
        fit_intercept: bool,
        stop: Any,
        sample_weight: Any,
    ) -> Any:
        """Do as `steinpath.run`; algorithm, penalty and ``n_iter`` were checked."""

    def matmat(self, block: Array) -> Array:
        raise self._not_here()

    def rmatmat(self, block: Array) -> Array:
        raise self._not_here()

    def row_squares(self, center: Array | None = None) -> Array:
        raise self._not_here()

    def _not_here(self) -> NotImplementedError:
        return NotImplementedError(
            f"the rows of {self!r} are not in this process: sp.run works on them, and "
            "sp.estimate_risk on its paths with method='compressed' and without an audit; "
            "for all else, give X as an array"
        )


#: Recognises what a user calls X, and makes a design of it; else returns None.
Reader = Callable[[Any], Design | None]

_readers: list[Reader] = []


def reads_designs(reader: Reader) -> Reader:
    """Register a function that makes designs of something which other modules know."""
    _readers.append(reader)
    return reader


def as_design(X: Any) -> Design:
    """Return a design from what a user calls X."""
    if isinstance(X, Design):
        return X
    if issparse(X):
        return SparseDesign(X)
    for reader in _readers:
        design = reader(X)
        if design is not None:
            return design
    return DenseDesign(X)


def check_response(y: Any, design: Design) -> Array:
    """Return ``y`` as an array like the design, one entry per row."""
    checked = check_array("y", y, ndim=1, reference=design.example)
    if checked.shape[0] != design.n_rows:
        raise ValueError(f"X has {design.n_rows} rows, but y has {checked.shape[0]} entries")
    check_magnitude("y", checked)
    return namespace(checked).asarray(checked, copy=True)
