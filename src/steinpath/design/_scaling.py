"""Standardisation: the location and the scale of the columns of any matrix or design."""

from __future__ import annotations

from typing import Any

import numpy as np

from steinpath._support.arrays import Array, beside, cast, like, namespace, units_of
from steinpath._support.validation import check_size
from steinpath.design._base import Design
from steinpath.design._dense import DenseDesign
from steinpath.design._memmap import BlockDesign
from steinpath.design._reading import lazy_design
from steinpath.design._remote import RemoteDesign
from steinpath.design._sparse import SparseDesign
from steinpath.design._transformed import ScaledDesign


def standardised(
    X: Any,
    weights: np.ndarray | None = None,
    standardize: bool = True,
    about_mean: bool = True,
    centre: bool = False,
    dtype: Any = None,
) -> tuple[Design, Array, Array | None]:
    """Return a design of standardised columns, their scales, and the means if these are subtracted.

    Columns are divided by their standard deviations, or by their root mean squares. An array is
    scaled once, which is faster, and may be centred before it is rounded to ``dtype``; other
    matrices are scaled in each product, which needs no copy.
    """
    lazy = lazy_design(X, any_size=standardize)
    example = X if lazy is None else lazy.example
    scale, means = like(np.ones(X.shape[1]), example), None
    if standardize:
        known = X if lazy is None else lazy
        scale, means = column_sizes(known, weights, about_mean, example.dtype)
    if lazy is None:
        means = means if centre else None
        columns = X if means is None else X - means
        columns = columns / scale if standardize else columns
        rounded = columns if dtype is None else cast(columns, getattr(namespace(X), dtype))
        return DenseDesign(rounded), scale, means
    if standardize and isinstance(lazy, RemoteDesign):
        return lazy.scaled(scale), scale, None
    return ScaledDesign(lazy, scale) if standardize else lazy, scale, None


def column_sizes(
    X: Any, weights: np.ndarray | None, about_mean: bool, dtype: Any
) -> tuple[Array, Array]:
    """Return the root mean square of each column, about its mean or about 0, and the means.

    A constant column has scale 1.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        means, deviations = _column_moments(X, weights)
        xp = namespace(means)
        sizes = deviations if about_mean else xp.hypot(deviations, means)
        # a constant column leaves rounding errors
        constant = sizes <= 10 * float(xp.finfo(dtype).eps) * xp.abs(means)
    sizes = xp.where(constant, xp.ones_like(sizes), sizes)
    # argmax finds a NaN, if there is one
    for j in (int(xp.argmin(sizes)), int(xp.argmax(sizes))):
        check_size(f"column {j} of X", float(sizes[j]), dtype, X.shape, xp)
    return cast(sizes, dtype), cast(means, dtype)


def _column_moments(X: Any, weights: np.ndarray | None) -> tuple[Array, Array]:
    """Return the mean and the standard deviation of each column."""
    if isinstance(X, RemoteDesign):
        return X.column_moments()
    if isinstance(X, BlockDesign):
        means, variances = X.column_moments(weights)
        return means, np.sqrt(variances)
    if isinstance(X, SparseDesign):
        from sklearn.utils.sparsefuncs import mean_variance_axis

        means, variances = mean_variance_axis(X.matrix, axis=0, weights=weights)
        largest = np.zeros(len(means))
        np.maximum.at(largest, X.matrix.tocoo(copy=False).col, np.abs(X.matrix.data))
        # their squares under- or overflow: the check of sizes reports them
        extreme = (largest > 0) & ~((largest > 1e-150) & (largest < 1e150))
        return means, np.where(extreme, largest, np.sqrt(variances))
    xp, counts = namespace(X), None if weights is None else beside(weights, X)
    means = _mean(X, counts)
    # otherwise the rounding error of the mean would be the scale of a constant column
    means = means + _mean(X - means, counts)
    gaps = X - means
    sizes = xp.max(xp.abs(gaps), axis=0)
    gaps /= units_of(sizes)  # so that no square under- or overflows
    return means, sizes * xp.sqrt(_mean(gaps**2, counts))


def _mean(values: Array, weights: Array | None) -> Array:
    xp = namespace(values)
    if weights is None:
        return xp.mean(values, axis=0)
    return xp.sum(values * weights[:, None], axis=0) / xp.sum(weights)
