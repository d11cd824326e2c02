"""Preparation of rows for the engine: counts are expanded, columns are standardised."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import _check_sample_weight

from steinpath._support.arrays import (
    Array,
    beside,
    cast,
    copied,
    in_own_precision,
    is_foreign,
    largest,
    like,
    namespace,
    take,
    to_numpy,
    unit_of,
    units_of,
)
from steinpath._support.validation import check_array, check_size, warn
from steinpath.design._base import Design, ScalableDesign
from steinpath.design._dense import DenseDesign
from steinpath.design._memmap import BlockDesign, needs_blocks
from steinpath.design._remote import RemoteDesign
from steinpath.design._sparse import SparseDesign
from steinpath.design._transformed import ScaledDesign

# Size of runs from which on single precision is enough, for responses within a moderate range.
_LARGE, _MODERATE = 3e7, 1e7
#: Iterations that are assumed when the precision is selected.
USUAL_ITERATIONS = 100
# Counts are expanded to rows up to this many entries of X, or four times the entries of X.
_MOST_ENTRIES = 2**26


class PreparedRows(NamedTuple):
    """The data of a fit.

    Attributes
    ----------
    X : Array or sparse matrix of shape (n, p)
        The columns, not standardised.
    y : Array of shape (n,)
        The responses.
    weights : ndarray of shape (n,), or None
        Positive weights; None if they are uniform.
    scale : Array of shape (p,)
        The scale of each column.
    centre : Array of shape (p,), or None
        The centre of each column, subtracted before scaling; None for zero.
    sources : ndarray of int of shape (n,), or None
        Index of each row in the data passed by the user; None if rows are unchanged.
    """

    X: Any
    y: Array
    weights: np.ndarray | None
    scale: Array
    centre: Array | None = None
    sources: np.ndarray | None = None

    def own_units(self, coef: Array, intercept: float) -> tuple[Array, Any]:
        """Return the model of the original columns from that of the standardised ones.

        The intercept is a float, or an array of shape () if X is an array of another library.
        """
        coef = coef / self.scale
        if self.centre is not None:
            intercept -= float(self.centre @ coef)
        return coef, like(intercept, self.y) if is_foreign(self.X) else intercept

    def copy(self) -> PreparedRows:
        """Return a copy that is independent of later changes of the data."""
        weights = None if self.weights is None else self.weights.copy()
        X = self.X if needs_blocks(self.X) else _copy(self.X)
        return self._replace(X=X, y=copied(self.y), weights=weights)

    def equal(self, other: PreparedRows) -> bool:
        """Whether the data are the same; files are always regarded as changed."""
        kinds = [(_kind(rows.X), rows.X.shape, rows.X.dtype) for rows in (self, other)]
        if kinds[0] != kinds[1] or needs_blocks(self.X) or needs_blocks(other.X):
            return False
        same_X = (self.X != other.X).nnz == 0 if _is_sparse(self.X) else _equal(self.X, other.X)
        mine, theirs = (np.zeros(0) if w is None else w for w in (self.weights, other.weights))
        same_rows = _equal(self.y, other.y) and _equal(mine, theirs)
        return bool(same_X and same_rows and _equal(self.scale, other.scale))


def _kind(X: Any) -> tuple[Any, str]:
    """Return the library and the device of a matrix."""
    return type(X) if is_foreign(X) else _is_sparse(X), str(getattr(X, "device", "cpu"))


def _copy(X: Any) -> Any:
    return X.copy() if _is_sparse(X) else copied(X)


def _equal(first: Array, second: Array) -> bool:
    return first.shape == second.shape and bool(namespace(first).all(first == second))


def prepare_rows(
    X: Any,
    y: Any,
    sample_weight: Any,
    needs_risk: bool,
    standardize: bool,
    about_mean: bool,
    centre: bool = False,
    dtype: Any = None,
) -> tuple[PreparedRows, Design]:
    """Return the rows, and a design of their standardised columns.

    An array is scaled once, which is faster. Other matrices are scaled in each product, which needs
    no copy.

    Parameters
    ----------
    X, y
        Data validated by scikit-learn.
    sample_weight : array-like of shape (n,), optional
        Sample weights.
    needs_risk : bool
        Whether the risk is needed: then counts are expanded, and other weights raise an error.
    standardize, about_mean : bool
        Whether to scale the columns; by their standard deviations, or by their root mean squares.
    centre : bool, default=False
        Whether to subtract the means from the columns of a standardised array. A fit with an
        intercept is the same without, except for rounding errors.
    dtype : str, optional
        Precision to which a standardised array is rounded; that of X by default.
    """
    if isinstance(X, RemoteDesign):
        return _prepare_remote(X, y, standardize, about_mean)
    X, y, weights, sources = _weighted(X, y, sample_weight, needs_risk)
    lazy: ScalableDesign | None = None
    if _is_sparse(X):
        lazy = SparseDesign(X, any_size=standardize)
    elif needs_blocks(X):
        lazy = BlockDesign(X, any_size=standardize)
    elif isinstance(X, np.ndarray) and X.dtype.kind != "f":  # rows taken from a file
        X = X.astype(float)
    example = X if lazy is None else lazy.example
    xp, own_dtype = namespace(example), example.dtype
    scale, means = like(np.ones(X.shape[1]), example), None
    if standardize:
        known = X if lazy is None else lazy
        scale, means = _column_sizes(known, weights, about_mean, own_dtype, xp)
    if not centre or lazy is not None:
        means = None
    design: Design
    if lazy is None:
        columns = X if means is None else X - means
        columns = columns / scale if standardize else columns
        design = DenseDesign(columns if dtype is None else cast(columns, getattr(xp, dtype)))
    else:
        design = ScaledDesign(lazy, scale) if standardize else lazy
    if weights is None and sources is not None and len(np.unique(sources)) < len(sources):
        design.source_rows = sources
    y = check_array("y", y, ndim=1, reference=in_own_precision(y, design.example))
    return PreparedRows(X, y, weights, scale, means, sources), design


def _prepare_remote(
    X: RemoteDesign, y: np.ndarray, standardize: bool, about_mean: bool
) -> tuple[PreparedRows, Design]:
    """Do as `prepare_rows`, for rows on a cluster."""
    if not standardize:
        return PreparedRows(X, y, None, np.ones(X.shape[1], X.example.dtype)), X
    scale, _ = _column_sizes(X, None, about_mean, X.example.dtype, namespace(X.example))
    return PreparedRows(X, y, None, scale), X.scaled(scale)


def enough_precision(y: np.ndarray, numbers: float) -> str:
    """Return the precision of runs of a given size: single, if they are large.

    Columns must then be standardised and centred before they are rounded.

    Parameters
    ----------
    y : ndarray of shape (n,)
        The responses.
    numbers : float
        Number of iterations times the size of each iterate.
    """
    spread = float(np.abs(y - np.median(y)).max())
    small = numbers > _LARGE and 1 / _MODERATE < spread < _MODERATE
    return "float32" if small else "float64"


def _weighted(
    X: Any, y: Array, sample_weight: Any, needs_risk: bool
) -> tuple[Any, Array, np.ndarray | None, np.ndarray | None]:
    """Return X, y, weights that are not counts, and the original index of each row."""
    if sample_weight is None:
        return X, y, None, None
    if is_foreign(sample_weight):  # read on the host
        sample_weight = to_numpy(sample_weight)
    if np.iscomplexobj(sample_weight):
        raise TypeError("sample_weight must be real, got complex numbers")
    rows = np.empty(X.shape[0])
    weights = _check_sample_weight(sample_weight, rows, dtype=float, ensure_non_negative=True)
    kept, sources = np.flatnonzero(weights), None
    if len(kept) < len(weights):
        X, y, weights, sources = _rows(X, kept), take(y, kept), weights[kept], kept
    if len(weights) < 2:
        count = len(weights)
        raise ValueError(
            f"sample_weight is positive for n_samples = {count}; at least 2 are required"
        )
    if np.all(weights == weights[0]):
        return X, y, None, sources
    if not needs_risk:  # only proportions matter
        return X, y, weights / unit_of(largest(weights)), sources
    if np.any(weights % 1):
        raise ValueError(
            "the risk cannot be estimated with non-uniform sample weights, but selection requires "
            "it; use integers if sample_weight are frequencies, or a number for alpha and "
            "select='last' or an iteration"
        )
    with np.errstate(over="ignore"):
        count = weights.sum()
    if count * X.shape[1] > max(_MOST_ENTRIES, 4 * X.shape[0] * X.shape[1]):
        raise ValueError(
            f"sample_weight adds up to {count:.3g} rows, too many to expand for the risk estimate; "
            "use a number for alpha and select='last' or an iteration"
        )
    warn(
        "sample_weight is treated as frequencies: each row stands for that many independent "
        "observations; if the weights mean something else, the estimated risk is too small: use "
        "select='last' and a number for alpha"
    )
    repeated = np.repeat(np.arange(len(weights)), weights.astype(int))
    return _rows(X, repeated), take(y, repeated), None, kept[repeated]


def _rows(X: Any, where: np.ndarray) -> Any:
    return take(X, where) if is_foreign(X) else X[where]


def _is_sparse(X: Any) -> bool:
    return bool(sparse.issparse(X))


def _mean(values: Array, weights: Array | None) -> Array:
    """Return the mean of each column."""
    xp = namespace(values)
    if weights is None:
        return xp.mean(values, axis=0)
    return xp.sum(values * weights[:, None], axis=0) / xp.sum(weights)


def _column_moments(X: Any, weights: np.ndarray | None) -> tuple[Array, Array]:
    """Mean and standard deviation of each column."""
    if isinstance(X, RemoteDesign):
        return X.column_moments()
    if isinstance(X, BlockDesign):
        means, variances = X.column_moments(weights)
    elif isinstance(X, SparseDesign):
        means, variances = mean_variance_axis(X.matrix, axis=0, weights=weights)
        largest = np.zeros(len(means))
        np.maximum.at(largest, X.matrix.tocoo(copy=False).col, np.abs(X.matrix.data))
        # their squares under- or overflow: the check of sizes reports them
        extreme = (largest > 0) & ~((largest > 1e-150) & (largest < 1e150))
        return means, np.where(extreme, largest, np.sqrt(variances))
    else:
        xp, counts = namespace(X), None if weights is None else beside(weights, X)
        means = _mean(X, counts)
        # otherwise the rounding error of the mean would be the scale of a constant column
        means = means + _mean(X - means, counts)
        gaps = X - means
        sizes = xp.max(xp.abs(gaps), axis=0)
        gaps /= units_of(sizes)  # so that no square under- or overflows
        return means, sizes * xp.sqrt(_mean(gaps**2, counts))
    return means, np.sqrt(variances)


def _column_sizes(
    X: Any, weights: np.ndarray | None, about_mean: bool, dtype: Any, xp: Any
) -> tuple[Array, Array]:
    """Return the root mean square of each column, about its mean or about 0, and the means.

    A constant column has scale 1.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        means, deviations = _column_moments(X, weights)
    return sizes_from_moments(means, deviations, about_mean, dtype, X.shape, xp)


def sizes_from_moments(
    means: Array,
    deviations: Array,
    about_mean: bool,
    dtype: Any,
    shape: tuple[int, int],
    xp: Any = np,
) -> tuple[Array, Array]:
    """Do as `_column_sizes`, from means and standard deviations of the columns."""
    with np.errstate(over="ignore", invalid="ignore"):
        sizes = deviations if about_mean else xp.hypot(deviations, means)
        # a constant column leaves rounding errors
        constant = sizes <= 10 * float(xp.finfo(dtype).eps) * xp.abs(means)
    sizes = xp.where(constant, xp.ones_like(sizes), sizes)
    # argmax finds a NaN, if there is one
    for j in (int(xp.argmin(sizes)), int(xp.argmax(sizes))):
        check_size(f"column {j} of X", float(sizes[j]), dtype, shape, xp)
    return cast(sizes, dtype), cast(means, dtype)
