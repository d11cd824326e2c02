"""Conversion of user input to designs and responses, and standardisation of columns."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np
from array_api_compat import device
from scipy.sparse import issparse

from steinpath._support.arrays import (
    Array,
    beside,
    cast,
    copied,
    in_own_precision,
    is_foreign,
    like,
    namespace,
    to_numpy,
    units_of,
)
from steinpath._support.validation import check_array, check_size, read_array
from steinpath.design._base import Design
from steinpath.design._dense import DenseDesign
from steinpath.design._memmap import BlockDesign, needs_blocks
from steinpath.design._sparse import SparseDesign, compressed
from steinpath.design._transformed import ScaledDesign

# Modules of Dask's arrays and data frames.
_DASK = ("dask.array", "dask.dataframe", "dask_expr")


def lazy_design(X: Any, any_size: bool = False) -> Design | None:
    """Return the design of what is no array in memory: a design, a sparse matrix, a file."""
    if isinstance(X, Design):
        return X
    if issparse(X):
        return SparseDesign(X, any_size=any_size)
    return BlockDesign(X, any_size=any_size) if needs_blocks(X) else None


def as_design(X: Any) -> Design:
    """Return a design from the X passed by the user."""
    if (lazy := lazy_design(X)) is not None:
        return lazy
    if type(X).__module__.startswith(_DASK):
        # by name: the cluster's folder is above this one, and imports Dask
        design: Design = import_module("steinpath.distributed").from_dask_array(X)
        return design
    return DenseDesign(X)


def check_response(y: Any, design: Design) -> Array:
    """Return ``y`` as an array like the design, one entry per row, in its own precision."""
    if hasattr(type(y), "compute"):  # of Dask
        y = y.compute()
    checked = check_array("y", y, ndim=1, reference=in_own_precision(y, design.example))
    if checked.shape[0] != design.n_rows:
        raise ValueError(f"X has {design.n_rows} rows, but y has {checked.shape[0]} entries")
    return copied(checked)


def remote_rows(X: Any) -> Design | None:
    """Return the design of rows on a cluster, as of Dask if there is a client; None if local."""
    if isinstance(X, Design):
        return X if X.is_remote else None
    distributed = sys.modules.get("distributed")
    if distributed is None or not hasattr(type(X), "compute"):
        return None
    try:
        distributed.get_client()
    except ValueError:
        return None
    design = as_design(X)
    return design if design.is_remote else None


def readable(name: str, values: Any) -> Any:
    """Return data in a form that scikit-learn reads correctly; reject what `run` rejects."""
    if needs_blocks(values):  # read and checked in blocks
        return values
    if hasattr(type(values), "compute"):  # of Dask
        values = values.compute()
    if name == "X" and issparse(values):
        return compressed(values)
    array = read_array(name, values)
    if hasattr(values, "columns") or array.ndim == 0:
        return values
    if not isinstance(array, np.ndarray):
        xp = namespace(array)
        if xp.isdtype(array.dtype, "real floating") and array.dtype != xp.float32:
            array = xp.astype(array, xp.float64)  # NumPy does not have all other types
        import sklearn  # which not everything that imports this module needs

        if not sklearn.get_config()["array_api_dispatch"]:
            try:
                return np.asarray(array)
            except (TypeError, RuntimeError):  # raised by libraries for arrays on other devices
                raise TypeError(
                    f"{name} is on the device {device(array)}: to compute there, enable "
                    "scikit-learn's array API dispatch, "
                    "sklearn.set_config(array_api_dispatch=True); or move it to the CPU"
                ) from None
        if xp.isdtype(array.dtype, "complex floating"):  # scikit-learn would keep the real part
            raise TypeError(f"{name} must be real, got {array.dtype}; pass .real if intended")
    return array


def following(values: Any, X: Any) -> Any:
    """Return values of the rows in the library and on the device of X; NumPy's if it has none."""
    if is_foreign(X):
        return beside(values, X)
    return to_numpy(values) if is_foreign(values) else values


def check_same_library(X: Any, coef: Array, method: str) -> None:
    """Raise an error if X is in another array library than in the fit, or on another device."""

    def library_and_device(array: Any) -> str:
        if not is_foreign(array):
            return "NumPy arrays"
        library = namespace(array).__name__.removeprefix("array_api_compat.")
        return f"arrays of {library} on {device(array)}"

    known, given = library_and_device(coef), library_and_device(X)
    if known != given:
        raise ValueError(
            f"Inputs passed to {method} must use the same namespace and the same device as those "
            f"passed to fit(): fit() was passed {known}, and {method} {given}; convert X, and use "
            "sklearn.set_config(array_api_dispatch=True) for arrays of libraries other than NumPy"
        )


def standardised(
    X: Any,
    weights: np.ndarray | None = None,
    standardize: bool = True,
    about_mean: bool = True,
    centre: bool = False,
    dtype: Any = None,
) -> tuple[Design, Array, Array | None]:
    """Return a design of standardised columns, their scales, and the means if these are subtracted.

    Only an array is copied, and may be centred before it is rounded to ``dtype``.
    """
    lazy = lazy_design(X, any_size=standardize)
    columns = X if lazy is None else lazy
    example = X if lazy is None else lazy.example
    scale, means = like(np.ones(X.shape[1]), example), None
    if standardize:
        scale, means = _column_sizes(columns, weights, about_mean, example.dtype)
    if lazy is not None:
        return ScaledDesign(lazy, scale) if standardize else lazy, scale, None
    means = means if centre else None
    columns = columns if means is None else columns - means
    columns = columns / scale if standardize else columns
    rounded = columns if dtype is None else cast(columns, getattr(namespace(X), dtype))
    return DenseDesign(rounded), scale, means


def _column_sizes(
    X: Any, weights: np.ndarray | None, about_mean: bool, dtype: Any
) -> tuple[Array, Array]:
    """Return the root mean square (1 if constant) of each column about its mean or 0, and means."""
    with np.errstate(over="ignore", invalid="ignore"):
        means, deviations = column_moments(X, weights)
        xp = namespace(means)
        sizes = deviations if about_mean else xp.hypot(deviations, means)
        # a constant column leaves rounding errors
        constant = sizes <= 10 * float(xp.finfo(dtype).eps) * xp.abs(means)
    sizes = xp.where(constant, xp.ones_like(sizes), sizes)
    # argmax finds a NaN, if there is one
    for j in (int(xp.argmin(sizes)), int(xp.argmax(sizes))):
        check_size(f"column {j} of X", float(sizes[j]), dtype, X.shape, xp)
    return cast(sizes, dtype), cast(means, dtype)


def column_moments(X: Any, weights: np.ndarray | None = None) -> tuple[Array, Array]:
    """Return the mean and the standard deviation of each column."""
    if hasattr(X, "column_moments"):
        moments: tuple[Array, Array] = X.column_moments(weights)
        return moments
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
