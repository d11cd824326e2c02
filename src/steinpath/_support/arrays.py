"""Array helpers that the array API standard does not provide."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import array_api_compat
import numpy as np

# Arrays of any namespace that follows the array API standard; there is no common static type.
Array = Any

# Rounding errors of means over rows, in units of the precision.
_ROUNDING = 64


def namespace(*arrays: Array) -> Any:
    """Return the array namespace shared by ``arrays``; numbers and None are ignored."""
    if len(arrays) == 1 and type(arrays[0]) is np.ndarray:  # the common case, decided fast
        return _numpy_namespace()
    return array_api_compat.array_namespace(*arrays)


@functools.cache
def _numpy_namespace() -> Any:
    import array_api_compat.numpy  # slow: it imports all of NumPy, also what builds extensions

    return array_api_compat.numpy


def like(values: Any, reference: Array) -> Array:
    """Convert ``values`` to an array of the namespace, dtype and device of ``reference``."""
    if isinstance(values, np.ndarray):
        # other libraries warn about read-only arrays and support neither negative strides nor
        # extended precision
        if not values.flags.writeable or min(values.strides, default=0) < 0:
            values = values.copy()
        if values.dtype == np.longdouble:
            values = values.astype(float)
    return namespace(reference).asarray(
        values, dtype=reference.dtype, device=array_api_compat.device(reference)
    )


def constant(values: np.ndarray, reference: Array) -> Array:
    """Do as `like`, with a single copy to a device: a CUDA graph cannot record one."""
    if not on_cuda(reference):
        return like(values, reference)
    values = np.ascontiguousarray(values)
    place = reference.dtype, array_api_compat.device(reference)
    return _on_device(values.tobytes(), values.dtype.str, values.shape, *place)


@functools.lru_cache(maxsize=64)
def _on_device(data: bytes, kind: str, shape: tuple[int, ...], dtype: Any, device: Any) -> Array:
    import torch

    values = np.frombuffer(data, kind).reshape(shape).copy()
    return torch.asarray(values, dtype=dtype, device=device)


def in_own_precision(values: Any, example: Array) -> Array:
    """Return an array with the dtype of row values: that of X, or double unless given in single."""
    xp = namespace(example)
    if str(getattr(values, "dtype", "")).endswith("float32") or example.dtype == xp.float64:
        return example
    return xp.zeros(1, dtype=xp.float64, device=array_api_compat.device(example))


def cast(array: Array, dtype: Any) -> Array:
    """Convert an array to another precision, without a copy if it already has it."""
    return array if array.dtype == dtype else namespace(array).astype(array, dtype, copy=False)


def read_only(array: Array) -> Array:
    """Return a view that refuses to be modified, for users' functions; other than NumPy, as is."""
    if type(array) is not np.ndarray:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def copied(array: Array) -> Array:
    """Return a copy that callers may modify."""
    if type(array) is np.ndarray:  # the common case, several times faster
        return array.copy()
    return namespace(array).asarray(array, copy=True)


def to_numpy(array: Array) -> np.ndarray:
    """Return an array of any namespace, or an array-like, as a NumPy array on the host."""
    if array_api_compat.is_torch_array(array) or array_api_compat.is_cupy_array(array):
        array = array_api_compat.to_device(array, "cpu")
    try:
        return np.asarray(array)
    except RuntimeError:  # a device array of a library with its own transfer
        return np.from_dlpack(array, device="cpu")


def is_foreign(values: Any) -> bool:
    """Whether an object is an array of a library other than NumPy."""
    return array_api_compat.is_array_api_obj(values) and not isinstance(
        values, np.ndarray | np.generic
    )


def beside(values: Any, reference: Array) -> Array:
    """Move ``values`` to the namespace and device of ``reference``, keeping their own dtype."""
    xp, device = namespace(reference), array_api_compat.device(reference)
    if isinstance(reference, np.ndarray):
        return to_numpy(values)
    if is_foreign(values) and namespace(values) is xp:
        return array_api_compat.to_device(values, device)
    return xp.asarray(np.array(to_numpy(values)), device=device)  # through the host


def on_cuda(array: Array) -> bool:
    """Whether an array is a torch tensor on a CUDA device."""
    if type(array) is np.ndarray or not array_api_compat.is_torch_array(array):
        return False
    return bool(array.device.type == "cuda")


def coarse_products(array: Array) -> AbstractContextManager[None]:
    """Allow tensor cores (TF32) for single-precision products of arrays on a CUDA device.

    Their rounding is small beside the Monte Carlo error of random probes.
    """
    return _TensorCores() if on_cuda(array) else nullcontext()


class _TensorCores:
    """Torch's TF32 setting, which is on while any thread is within the context."""

    lock = threading.Lock()
    users = 0
    before = False

    def __enter__(self) -> None:
        self._change(1)

    def __exit__(self, *_: object) -> None:
        self._change(-1)

    @classmethod
    def _change(cls, users: int) -> None:
        import torch

        setting = torch.backends.cuda.matmul
        with cls.lock:
            if not cls.users:
                cls.before = setting.allow_tf32
            cls.users += users
            setting.allow_tf32 = cls.users > 0 or cls.before


def indices(values: Any, reference: Array) -> Array:
    """Return host integers as an index array on the device of ``reference``."""
    device = array_api_compat.device(reference)
    return namespace(reference).asarray(np.asarray(values, dtype=np.int64), device=device)


def take(block: Array, where: np.ndarray, axis: int = 0) -> Array:
    """Select rows (or columns) of an array by indices on the host."""
    return namespace(block).take(block, indices(where, block), axis=axis)


# Blocks of the engine have the shape (size, members, columns). Members are runs that advance
# together; iterates have one column, tangents many. Vectors and matrices are accepted where members
# do not matter.


def along_rows(values: Array, block: Array) -> Array:
    """Reshape ``values``, one per row, so that they broadcast over the rows of a block."""
    missing = block.ndim - getattr(values, "ndim", 0)
    return values[(..., *(None,) * missing)] if 0 < missing < block.ndim else values


def along_members(values: Array, block: Array) -> Array:
    """Reshape ``values``, one per member, so that they broadcast over a block."""
    missing = block.ndim - getattr(values, "ndim", 0)
    return values[(*(None,) * missing, ...)] if 0 < missing < block.ndim else values


def by_member(value: Any, block: Array) -> Any:
    """Return a number, or an array with one value per member, to multiply a block."""
    return constant(value, block)[:, None] if isinstance(value, np.ndarray) else value


def rows_product(first: Array, second: Array) -> Array:
    """Compute ``firstᵀ second`` over the first axis, of each column of a block."""
    if first.ndim == 1:
        if second.ndim <= 2:
            return first @ second
        return namespace(second).tensordot(first, second, axes=1)
    if first.ndim == 3 and first.shape[1:] == (1, 1) and second.shape[1] == 1:
        return first[:, :, 0].T @ second[:, 0, :]
    return namespace(second).sum(first * second, axis=0)


def members_product(matrices: Array, block: Array) -> Array:
    """Multiply the columns of each member of a block by its own of (members, rows, size)."""
    xp = namespace(block)
    if block.shape[1] == 1:
        return (matrices[0, ...] @ block[:, 0, :])[:, None, :]
    return xp.permute_dims(matrices @ xp.permute_dims(block, (1, 0, 2)), (1, 0, 2))


def folded(product: Callable[[Array], Array], block: Array) -> Array:
    """Apply a function of matrices to a block, treating all axes but the first as columns."""
    if block.ndim <= 2:
        return product(block)
    size, *columns = block.shape
    if type(block) is np.ndarray:  # the common case, several times faster
        result = product(block.reshape(size, math.prod(columns)))
        return result.reshape(result.shape[0], *columns)
    xp = namespace(block)
    result = product(xp.reshape(block, (size, math.prod(columns))))
    return xp.reshape(result, (result.shape[0], *columns))


def unit_of(size: float) -> float:
    """Return a power of two of about this size (1 for zero): an exact divisor before squaring."""
    return math.ldexp(1.0, math.frexp(size)[1] - 1) if size and math.isfinite(size) else 1.0


def largest(values: Array) -> float:
    """Return the largest absolute value."""
    xp = namespace(values)
    return float(xp.max(xp.abs(values)))


def first_minimum(values: Array) -> int:
    """Return the first index of the minimum; values that differ by rounding errors are equal."""
    xp = namespace(values)
    lowest = xp.min(values)
    margin = _ROUNDING * float(xp.finfo(values.dtype).eps) * xp.abs(lowest)
    return int(xp.argmax(xp.astype(values <= lowest + margin, xp.int8)))


def units_of(sizes: Array) -> Array:
    """Return divisors that make squaring safe: the sizes, with 1 in place of zeros."""
    xp = namespace(sizes)
    return xp.where(sizes > 0, sizes, xp.ones_like(sizes))


def largest_along(values: Array, axis: int) -> Array:
    """Return the largest absolute values along an axis, keeping that axis."""
    xp = namespace(values)
    return xp.max(xp.abs(values), axis=axis, keepdims=True)


def deviation(values: Array, axis: int = 0) -> Array:
    """Return sample standard deviations along an axis without overflow or underflow."""
    xp, unit = namespace(values), units_of(largest_along(values, axis))
    return xp.squeeze(unit, axis=axis) * xp.std(values / unit, axis=axis, correction=1.0)


def scattered_sums(values: Array, groups: np.ndarray, count: int) -> Array:
    """Sum each of ``count`` groups along the last axis; empty groups sum to 0."""
    sums = np.zeros((*values.shape[:-1], count), values.dtype)
    if len(groups):
        sums[..., np.unique(groups)] = group_sums(values, groups)
    return sums


def root_sum_of_squares(values: Array, axis: int) -> Array:
    """Return Euclidean norms along an axis without overflow or underflow."""
    xp, unit = namespace(values), units_of(largest_along(values, axis))
    return xp.squeeze(unit, axis=axis) * xp.sqrt(xp.sum((values / unit) ** 2, axis=axis))


def group_sums(values: Array, groups: np.ndarray) -> Array:
    """Sum the entries of each group along the last axis; groups are numbered from 0."""
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    starts = (np.cumsum(sizes) - sizes)[sizes > 0]
    return like(np.add.reduceat(to_numpy(values)[..., order], starts, axis=-1), values)


def root_mean_square(values: Array) -> float:
    """Return the root mean square without overflow or underflow."""
    unit = unit_of(largest(values))
    return unit * math.sqrt(float(namespace(values).mean((values / unit) ** 2)))


def clip(array: Array, low: Any, high: Any) -> Array:
    """Clip ``array`` to ``[low, high]``, without the standard function's overhead for NumPy."""
    if type(array) is not np.ndarray:
        return namespace(array).clip(array, low, high)
    if array.dtype == np.float64:
        return array.clip(low, high)
    with np.errstate(over="ignore"):  # bounds beyond the range of single precision are infinite
        return array.clip(low, high)
