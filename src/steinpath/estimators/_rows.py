"""Rows as the engine wants them: counts written out, columns of unit size."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import _check_sample_weight

from steinpath._support.arrays import in_own_precision, largest, unit_of
from steinpath._support.validation import check_array, check_size, warn
from steinpath.design._base import Design, ScalableDesign
from steinpath.design._dense import DenseDesign
from steinpath.design._memmap import BlockDesign, needs_blocks
from steinpath.design._sparse import SparseDesign
from steinpath.design._transformed import ScaledDesign

# Numbers of runs from which on single precision will do, if responses have sizes within these.
_LARGE, _MODERATE = 3e7, 1e7
#: Iterations that are taken for granted when a precision is chosen.
USUAL_ITERATIONS = 100
# Counts are written out as rows up to this many entries of X, or four times those it has.
_MOST_ENTRIES = 2**26


class PreparedRows(NamedTuple):
    """The data of a fit.

    Attributes
    ----------
    X : ndarray or sparse matrix of shape (n, p)
        The columns as they are.
    y : ndarray of shape (n,)
    weights : ndarray of shape (n,), or None
        Positive and unequal.
    scale : ndarray of shape (p,)
        What to divide the columns by.
    centre : ndarray of shape (p,), or None
        What to subtract from the columns first; None for nothing.
    sources : ndarray of int of shape (n,), or None
        Which of the rows that were given each is, unless it is all of them in their order.
    """

    X: Any
    y: np.ndarray
    weights: np.ndarray | None
    scale: np.ndarray
    centre: np.ndarray | None = None
    sources: np.ndarray | None = None

    def shift(self, coef: np.ndarray) -> float:
        """Return what to subtract from the intercept of centred columns."""
        return 0.0 if self.centre is None else float(self.centre @ coef)

    def copy(self) -> PreparedRows:
        """Return a copy, which later changes of the data do not reach."""
        weights = None if self.weights is None else self.weights.copy()
        X = self.X if needs_blocks(self.X) else self.X.copy()
        return self._replace(X=X, y=self.y.copy(), weights=weights)

    def equal(self, other: PreparedRows) -> bool:
        """Whether the data are the same; of files one does not know whether they have changed."""
        kinds = [(_is_sparse(rows.X), rows.X.shape, rows.X.dtype) for rows in (self, other)]
        if kinds[0] != kinds[1] or needs_blocks(self.X) or needs_blocks(other.X):
            return False
        if _is_sparse(self.X):
            same_X = (self.X != other.X).nnz == 0
        else:
            same_X = np.array_equal(self.X, other.X)
        mine, theirs = (np.zeros(0) if w is None else w for w in (self.weights, other.weights))
        same_rows = np.array_equal(self.y, other.y) and np.array_equal(mine, theirs)
        return bool(same_X and same_rows and np.array_equal(self.scale, other.scale))


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

    An array is divided once and for all, which is faster, and everything else in each product,
    which needs no copy.

    Parameters
    ----------
    X, y
        Checked by scikit-learn.
    sample_weight : array-like of shape (n,), optional
        How often each row counts.
    needs_risk : bool
        Whether the risk has to be known: then counts are written out, and other weights refused.
    standardize, about_mean : bool
        Whether to divide columns by their standard deviations, or by their root mean squares.
    centre : bool, default=False
        Whether to subtract the means from the columns of an array that is standardised. A fit with
        an intercept is the same without, but for rounding: a date has many digits, and a date less
        the mean has few.
    dtype : dtype, optional
        Precision of the design, to which an array is rounded when it has been standardised; that
        of X by default.
    """
    X, y, weights, sources = _weighted(X, y, sample_weight, needs_risk)
    lazy: ScalableDesign | None = None
    if _is_sparse(X):
        lazy = SparseDesign(X, any_size=standardize)
    elif needs_blocks(X):
        lazy = BlockDesign(X, any_size=standardize)
    elif X.dtype.kind != "f":  # rows taken from a file
        X = X.astype(float)
    own_dtype = X.dtype if lazy is None else lazy.example.dtype
    scale, means = np.ones(X.shape[1], own_dtype), None
    if standardize:
        known = X if lazy is None else lazy
        scale, means = _column_sizes(known, weights, about_mean, own_dtype)
    if not centre or lazy is not None:
        means = None
    design: Design
    if lazy is None:
        columns = X if means is None else X - means
        columns = columns / scale if standardize else columns
        design = DenseDesign(columns if dtype is None else columns.astype(dtype))
    else:
        design = ScaledDesign(lazy, scale) if standardize else lazy
    if weights is None and sources is not None and len(np.unique(sources)) < len(sources):
        design.source_rows = sources
    example = np.empty(0, dtype or own_dtype)
    y = check_array("y", y, ndim=1, reference=in_own_precision(y, example))
    return PreparedRows(X, y, weights, scale, means, sources), design


def enough_precision(y: np.ndarray, numbers: float) -> Any:
    """Return the precision that is enough for runs of so many numbers: single, if they are many.

    Columns are then to be standardised and centred before they are rounded.

    Parameters
    ----------
    y : ndarray of shape (n,)
        The responses.
    numbers : float
        Iterates times the numbers of each.
    """
    spread = float(np.abs(y - np.median(y)).max())
    small = numbers > _LARGE and 1 / _MODERATE < spread < _MODERATE
    return np.float32 if small else np.float64


def _weighted(
    X: Any, y: np.ndarray, sample_weight: Any, needs_risk: bool
) -> tuple[Any, np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Return X, y, weights that are no counts, and which of the given rows each is."""
    if sample_weight is None:
        return X, y, None, None
    if np.iscomplexobj(sample_weight):
        raise TypeError("sample_weight must be real, got complex numbers")
    weights = _check_sample_weight(sample_weight, X, dtype=float, ensure_non_negative=True)
    kept, sources = np.flatnonzero(weights), None
    if len(kept) < len(weights):
        X, y, weights, sources = X[kept], y[kept], weights[kept], kept
    if len(y) < 2:
        raise ValueError(f"sample_weight leaves n_samples = {len(y)}; two at least must count")
    if np.all(weights == weights[0]):
        return X, y, None, sources
    if not needs_risk:  # only proportions matter
        return X, y, weights / unit_of(largest(weights)), sources
    if np.any(weights % 1):
        raise ValueError(
            "the risk of a fit to rows that count unequally is not known, so that nothing can be "
            "chosen by it: use integers for sample_weight if they are counts of observations, or "
            "a number for alpha and select='last' or an iterate"
        )
    with np.errstate(over="ignore"):
        count = weights.sum()
    if count * X.shape[1] > max(_MOST_ENTRIES, 4 * X.shape[0] * X.shape[1]):
        raise ValueError(
            f"sample_weight counts {count:.3g} rows, too many to be written out for the "
            "risk estimate; use a number for alpha and select='last' or an iterate"
        )
    warn(
        "sample_weight is taken for counts of separate observations; if it weighs single ones, the "
        "estimated risk is too small, since copies of a row predict each other: use select='last' "
        "and a number for alpha"
    )
    repeated = np.repeat(np.arange(len(y)), weights.astype(int))
    return X[repeated], y[repeated], None, kept[repeated]


def _is_sparse(X: Any) -> bool:
    return bool(sparse.issparse(X))


def _column_moments(X: Any, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column."""
    if isinstance(X, BlockDesign):
        means, variances = X.column_moments(weights)
    elif isinstance(X, SparseDesign):
        means, variances = mean_variance_axis(X.matrix, axis=0, weights=weights)
        largest = np.zeros(len(means))
        np.maximum.at(largest, X.matrix.tocoo(copy=False).col, np.abs(X.matrix.data))
        # the squares of these are no numbers: they are refused for their size
        extreme = (largest > 0) & ~((largest > 1e-150) & (largest < 1e150))
        return means, np.where(extreme, largest, np.sqrt(variances))
    else:
        means = np.average(X, axis=0, weights=weights)
        # the rounding of a long sum would be taken for the size of a constant column
        means = means + np.average(X - means, axis=0, weights=weights)
        gaps = X - means
        largest = np.abs(gaps).max(axis=0)
        gaps /= np.where(largest > 0, largest, 1)  # so that no square is too small or too large
        return means, largest * np.sqrt(np.average(gaps**2, axis=0, weights=weights))
    return means, np.sqrt(variances)


def _column_sizes(
    X: Any, weights: np.ndarray | None, about_mean: bool, dtype: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Root mean square of each column, about its mean or about 0, and the means.

    The size of a constant column is 1.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        means, deviations = _column_moments(X, weights)
        sizes = deviations if about_mean else np.hypot(deviations, means)
        # what is left of a constant column is rounding
        constant = sizes <= 10 * np.finfo(dtype).eps * np.abs(means)
    sizes = np.where(constant, 1.0, sizes)
    for j in (int(sizes.argmin()), int(sizes.argmax())):  # the latter is of a NaN, if there is one
        check_size(f"column {j} of X", float(sizes[j]), dtype, X.shape)
    return sizes.astype(dtype), means.astype(dtype)
