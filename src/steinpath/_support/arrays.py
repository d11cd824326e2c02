"""The few array helpers that the standard array API leaves to its users."""

from __future__ import annotations

from typing import Any

import array_api_compat
import array_api_compat.numpy
import numpy as np

# Arrays of any namespace that follows the array API standard; there is no common static type.
Array = Any


def namespace(*arrays: Array) -> Any:
    """Array namespace shared by ``arrays`` (numbers and None do not count)."""
    if len(arrays) == 1 and type(arrays[0]) is np.ndarray:  # often, and worth not looking further
        return array_api_compat.numpy
    return array_api_compat.array_namespace(*arrays)


def like(values: Any, reference: Array) -> Array:
    """``values`` as an array of the namespace, dtype and device of ``reference``."""
    if isinstance(values, np.ndarray):
        # other libraries warn of what they cannot write to, and take neither steps backwards nor
        # more than double precision
        if not values.flags.writeable or min(values.strides, default=0) < 0:
            values = values.copy()
        if values.dtype == np.longdouble:
            values = values.astype(float)
    return namespace(reference).asarray(
        values, dtype=reference.dtype, device=array_api_compat.device(reference)
    )


def cast(array: Array, dtype: Any) -> Array:
    """Return an array in another precision; the array itself if it has it already."""
    return namespace(array).astype(array, dtype, copy=False)


def to_numpy(array: Array) -> np.ndarray:
    """Return an array of any namespace, or an array-like, as a NumPy array on the host."""
    if array_api_compat.is_torch_array(array) or array_api_compat.is_cupy_array(array):
        array = array_api_compat.to_device(array, "cpu")
    return np.asarray(array)


def indices(values: Any, reference: Array) -> Array:
    """Integers on the host as an array of the namespace and device of ``reference``."""
    device = array_api_compat.device(reference)
    return namespace(reference).asarray(np.asarray(values, dtype=np.int64), device=device)


def take(block: Array, where: np.ndarray, axis: int = 0) -> Array:
    """Rows (or columns) of an array, by indices on the host."""
    return namespace(block).take(block, indices(where, block), axis=axis)


def along_rows(values: Array, block: Array) -> Array:
    """Shape ``values`` so that they multiply a block, whose first axes are theirs.

    They may be one per row, one per row and member of a batch, or a scalar.
    """
    missing = block.ndim - getattr(values, "ndim", 0)
    return values[(..., *(None,) * missing)] if 0 < missing < block.ndim else values


def rows_product(first: Array, second: Array) -> Array:
    """``firstᵀ second`` over their first axis: of a vector with each column of a block.

    Where the vector is a batch, of shape (rows, members), the block has the members' columns, of
    shape (rows, members, columns), and each member meets its own.
    """
    if first.ndim == 1:
        if second.ndim <= 2:
            return first @ second
        return namespace(second).tensordot(first, second, axes=1)
    return namespace(second).sum(along_rows(first, second) * second, axis=0)


def norm_of_columns(block: Array) -> Array:
    """Euclidean norm of a vector, or of each column of a block (kept as a row)."""
    return namespace(block).linalg.vector_norm(block, axis=0, keepdims=block.ndim == 2)


def clip(array: Array, low: Any, high: Any) -> Array:
    """``array`` clipped to ``[low, high]``: the standard's function, without its cost for NumPy."""
    if type(array) is not np.ndarray:
        return namespace(array).clip(array, low, high)
    if array.dtype == np.float64:
        return np.clip(array, low, high)
    with np.errstate(over="ignore"):  # bounds that single precision does not reach are none
        return np.clip(array, low, high)
