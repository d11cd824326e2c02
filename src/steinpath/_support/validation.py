"""Argument checks; each error states what was wrong and what would be right.

Plain conversions ignore masks and turn dates and texts into numbers. All functions and estimators
therefore convert their numeric input (lists, arrays, data frames, tensors) with `read_array`.
"""

from __future__ import annotations

import math
import mmap
import operator
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Real
from typing import Any

import array_api_compat
import numpy as np

from steinpath._support.arrays import Array, cast, copied, is_foreign, like, namespace

#: Upper bound of parameters in units of y, so that their squares do not overflow.
LARGEST = 1e150
# Type names of date, time and duration columns in data frames.
_TIMES = ("date", "time", "duration", "period")
# Types that `float` accepts but that are not real numbers.
_NOT_REAL = (str, bytes, np.datetime64, np.timedelta64, np.complexfloating)
# Arrays have at most this many axes, and lists are nested at most this deeply.
_MOST_AXES = 3


def shown(value: Any) -> str:
    """Return a short representation of a value for error messages; it never fails."""
    try:
        return f"{' '.join(repr(value).split()):.60}"
    except Exception:  # integers of thousands of digits, objects without a working repr
        return f"an object of type {type(value).__name__}"


def check_number(
    name: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """Return ``value`` as a finite float between ``low`` and ``high``."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a real number, got {shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    outside = number < low or number > high or (open_low and number == low)
    if outside or (open_high and number == high) or not math.isfinite(number):
        left = ("(" if open_low or low == -math.inf else "[") + f"{low:g}"
        right = f"{high:g}" + (")" if open_high or high == math.inf else "]")
        raise ValueError(f"{name} must be a finite number in {left}, {right}, got {shown(value)}")
    return number


def store_number(instance: Any, name: str, **bounds: Any) -> None:
    """Store a checked number in a frozen dataclass as a float: NumPy's raise precisions."""
    object.__setattr__(instance, name, check_number(name, getattr(instance, name), **bounds))


def check_count(name: str, value: Any, *, low: int = 1, high: int = 10**9) -> int:
    """Return ``value`` as an integer between ``low`` and ``high``."""
    integral: Any = None if isinstance(value, bool | np.bool_) else value
    try:
        count = operator.index(integral)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {shown(value)}") from None
    if not low <= count <= high:
        bound = f"at least {low}" if count < low else f"at most {high}"
        raise ValueError(f"{name} must be {bound}, got {shown(count)}")
    return count


def check_choice(name: str, value: Any, choices: Any) -> Any:
    """Return ``value`` if it is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {known}; got {shown(value)}")
    return value


def read_array(name: str, values: Any) -> Array:
    """Return numbers as an array of their own library or NumPy; `check_array` checks the rest."""
    if values is None:
        raise TypeError(f"{name} must hold real numbers, got None")
    if hasattr(type(values), "toarray"):
        raise TypeError(f"{name} must be dense, got a sparse matrix; pass {name}.toarray()")
    if type(values).__name__ == "LazyFrame":  # of polars
        raise TypeError(f"{name} is a lazy frame; pass {name}.collect()")
    if _has_mask(values, _MOST_AXES):
        raise _masked(name)
    if array_api_compat.is_torch_array(values):
        return _checked_tensor(name, values)
    if is_foreign(values):
        return values
    _refuse_times(name, values)
    check_map(name, values)
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(f"{name} cannot be read as an array: {error}") from error
    if array.dtype == object:
        labels = "column_names" if hasattr(values, "column_names") else "columns"
        array = _real(name, array, getattr(values, labels, None))
    if array.dtype.kind not in "biufc":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if not array.dtype.isnative:  # byte order of another machine
        array = array.astype(array.dtype.newbyteorder("="))
    return array


def map_of(array: Any) -> Any:
    """Return the `numpy.memmap` that an array is or is a view of; None otherwise."""
    while isinstance(array, np.ndarray):
        base: Any = array.base
        if isinstance(array, np.memmap) and isinstance(base, mmap.mmap):
            return array
        array = base
    return None


def check_map(name: str, array: Any) -> None:
    """Refuse a memory map that extends beyond its file: reading it would end the process."""
    root = map_of(array)
    if root is not None and root.base.size() < root.offset + root.nbytes:
        raise EOFError(
            f"the file of {name} was truncated after it was mapped: "
            f"{root.filename or 'unnamed file'}; write it again, map it again"
        )


def _has_mask(values: Any, depth: int) -> bool:
    """Whether an object is a masked array or a list of masked arrays."""
    if isinstance(values, list | tuple) and depth:
        return any(_has_mask(each, depth - 1) for each in values)
    return isinstance(values, np.ma.MaskedArray) or type(values).__name__ == "MaskedTensor"


def _masked(name: str) -> TypeError:
    return TypeError(f"{name} is a masked array; fill or drop the masked entries first")


def _checked_tensor(name: str, tensor: Any) -> Any:
    """Return a PyTorch tensor if it stores its values as a plain array."""
    if tensor.requires_grad:
        raise TypeError(f"{name} requires gradients, which are not supported; pass {name}.detach()")
    eight_bits = tensor.is_floating_point() and tensor.itemsize == 1
    unusual = eight_bits or tensor.is_nested or tensor.is_quantized or tensor.is_meta
    if unusual or str(tensor.layout) != "torch.strided":
        or_sparse = ", or X as a scipy.sparse matrix" if name == "X" else ""
        raise TypeError(
            f"{name} is a torch tensor of layout {tensor.layout} and dtype {tensor.dtype}; pass a "
            f"dense tensor, such as {name}.to_dense(){or_sparse}"
        )
    return tensor.resolve_neg()


def _refuse_times(name: str, values: Any) -> None:
    """Refuse data frames with date or time columns, which some libraries convert to numbers."""
    if isinstance(values, list | tuple):
        for each in values:
            if hasattr(each, "__array__"):
                _refuse_times(name, each)
        return
    if hasattr(values, "columns") and hasattr(values, "dtypes"):  # pandas, polars
        columns = zip(values.columns, values.dtypes, strict=True)
    elif hasattr(values, "column_names") and hasattr(values, "schema"):  # pyarrow
        columns = zip(values.column_names, values.schema.types, strict=True)
    else:
        return
    for label, dtype in columns:
        if str(dtype).lower().startswith(_TIMES):
            raise TypeError(
                f"column {label!r:.60} of {name} must hold real numbers, got dtype {dtype}"
            )


def _real(name: str, objects: np.ndarray, labels: Any = None) -> np.ndarray:
    """Convert Python's numbers; missing values become NaN, and columns of texts are named."""
    kinds = {type(value) for value in objects.flat}
    if any(issubclass(kind, np.ma.MaskedArray) for kind in kinds):
        raise _masked(name)
    for kind in kinds:
        if issubclass(kind, _NOT_REAL):
            where = ""
            if labels is not None and objects.ndim == 2 and objects.shape[1] == len(labels):
                columns = zip(labels, objects.T, strict=True)
                label = next(label for label, column in columns if kind in map(type, column))
                where = f" in column {label!r:.60}"
            if issubclass(kind, str) and name == "X":
                where += "; encode texts as numbers, such as with sklearn's OneHotEncoder"
            raise TypeError(
                f"{name} must hold real numbers only, got values of type {kind.__name__}{where}"
            )
    if "NAType" in {kind.__name__ for kind in kinds}:  # of pandas
        values = [np.nan if type(x).__name__ == "NAType" else x for x in objects.flat]
        objects = np.array(values, dtype=object).reshape(objects.shape)
    try:
        return objects.astype(float)
    except (ValueError, TypeError, OverflowError) as error:
        raise TypeError(f"{name} must hold real numbers only: {error}") from None


def check_array(
    name: str,
    values: Any,
    *,
    ndim: int,
    reference: Array | None = None,
    remedy: str = "remove or impute them first",
) -> Array:
    """Return a finite, real, floating array of ``ndim`` dimensions, of its library or else NumPy.

    With ``reference`` it has its namespace, dtype and device. ``remedy`` is for non-finite values.
    """
    values = read_array(name, values)
    xp = namespace(values)
    if xp.isdtype(values.dtype, "complex floating"):
        raise TypeError(f"{name} must be real, got {values.dtype}; pass {name}.real if intended")
    if not xp.isdtype(values.dtype, ("real floating", "integral", "bool")):
        raise TypeError(f"{name} must hold real numbers, got dtype {values.dtype}")
    if xp.isdtype(values.dtype, "real floating") and not xp.all(finite := xp.isfinite(values)):
        refuse_nonfinite(name, int(xp.sum(xp.astype(~finite, xp.int64))), remedy)
    if reference is not None:
        if isinstance(values, np.ndarray):
            with np.errstate(over="ignore"):
                values = like(values, reference)
        elif xp is not namespace(reference):
            kinds = [f"{type(x).__module__}.{type(x).__qualname__}" for x in (values, reference)]
            raise TypeError(
                f"{name} is {kinds[0]} but X is {kinds[1]}: "
                "pass both in the same array library, or in NumPy"
            )
        xp = namespace(reference)
        values = xp.asarray(
            xp.astype(values, reference.dtype, copy=False),
            device=array_api_compat.device(reference),
        )
        if not xp.all(xp.isfinite(values)):
            raise ValueError(f"{name} has entries too large for {values.dtype}; use float64")
    elif not xp.isdtype(values.dtype, "real floating"):
        values = xp.astype(values, xp.float64)
    if values.dtype not in (xp.float32, xp.float64):
        raise TypeError(f"{name} has dtype {values.dtype}; use float32 or float64")
    check_shape(name, tuple(values.shape), ndim)
    return values


def check_shape(name: str, shape: tuple[int, ...], ndim: int) -> None:
    """Refuse arrays with a number of dimensions other than ``ndim``, and empty arrays."""
    if len(shape) != ndim:
        hint = f"; use {name}.ravel()" if name == "y" and len(shape) == 2 else ""
        raise ValueError(
            f"{name} must have {ndim} dimension{'s' * (ndim > 1)}, got shape {shape}{hint}"
        )
    if 0 in shape:
        raise ValueError(f"{name} is empty: its shape is {shape}")


def refuse_nonfinite(name: str, bad: int, remedy: str = "remove or impute them first") -> None:
    """Refuse an array with ``bad`` non-finite values, unless that number is 0."""
    if bad:
        raise ValueError(
            f"{name} has {bad} value{'s' * (bad > 1)} that "
            f"{'are' if bad > 1 else 'is'} NaN or infinite; {remedy}"
        )


def check_magnitude(name: str, values: Array) -> None:
    """Refuse numbers so large or so small that their squares overflow or underflow."""
    xp = namespace(values)
    check_size(name, float(xp.max(xp.abs(values))), values.dtype, values.shape, xp)


def check_size(name: str, size: float, dtype: Any, shape: tuple[int, ...], xp: Any = np) -> None:
    """Refuse an array by the ``size`` of its largest entry; see `check_magnitude`."""
    info = xp.finfo(dtype)
    low = 1e3 * math.sqrt(float(info.smallest_normal))
    high = 1e-3 * math.sqrt(float(info.max) / math.prod(shape))
    if size and not low <= size <= high:
        raise ValueError(
            f"{name} has entries of magnitude up to {size:.3g}, and squares in {dtype} require "
            f"magnitudes between {low:.1g} and {high:.1g}; rescale {name}, or use float64"
        )


def check_instance(name: str, value: Any, kind: type, example: str) -> None:
    """Refuse anything but an instance of ``kind``."""
    if not isinstance(value, kind):
        if isinstance(value, type) and issubclass(value, kind):
            raise TypeError(f"{name} is the class {value.__name__}; pass an instance: {example}")
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise TypeError(
            f"{name} must be {article} {kind.__name__} such as {example}, got {shown(value)}"
        )


def is_own(instance: Any) -> bool:
    """Whether an object's class is this package's, whose methods never modify their arguments."""
    return type(instance).__module__.startswith("steinpath.")


def check_returned(name: str, value: Any, like: Array, what: str = "an array") -> Array:
    """Check and copy the array returned by a user's function: it may be one of its arguments."""
    fits = (
        array_api_compat.is_array_api_obj(value)
        and not isinstance(value, np.ma.MaskedArray)
        and not getattr(value, "requires_grad", False)
        and namespace(value) is namespace(like)
        and tuple(value.shape) == tuple(like.shape)
        and array_api_compat.device(value) == array_api_compat.device(like)
        and namespace(like).isdtype(value.dtype, ("real floating", "integral", "bool"))
    )
    if not fits:
        names = [n for n in ("shape", "dtype", "device", "requires_grad") if hasattr(value, n)]
        about = ", ".join(f"{n} {getattr(value, n)}" for n in names)
        raise ValueError(
            f"{name} must return {what} of shape {tuple(like.shape)} and dtype {like.dtype}; it "
            f"returned {type(value).__name__}" + f" ({about})" * bool(about)
        )
    return copied(cast(value, like.dtype))


def check_flag(name: str, value: Any) -> bool:
    """Return ``value`` as a bool if it is one."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


#: Messages of warnings with their categories.
Captured = list[tuple[str, type[Warning]]]
_captured: ContextVar[Captured | None] = ContextVar("captured", default=None)


@contextmanager
def capturing_warnings() -> Iterator[Captured]:
    """Collect warnings of this package in a list instead of showing them."""
    captured: Captured = []
    token = _captured.set(captured)
    try:
        yield captured
    finally:
        _captured.reset(token)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning attributed to the line outside this package that called into it."""
    captured = _captured.get()
    if captured is not None:
        captured.append((message, category))
        return
    frame, level = sys._getframe(1), 2
    # scikit-learn wraps `fit` and `transform`, and its pipelines call them
    inside = "steinpath.", "sklearn."
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(inside):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def check_rng(rng: Any) -> np.random.Generator:
    """Return a generator from None, a seed, or a generator."""
    try:
        if isinstance(rng, bool):
            raise TypeError
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise TypeError(
            f"rng must be None, a nonnegative integer or a numpy Generator, got {shown(rng)}"
        ) from None


def spawned(rng: np.random.Generator) -> np.random.Generator:
    """Return a new generator, without drawing from the given one where possible."""
    try:
        return rng.spawn(1)[0]
    except TypeError:  # its seeding does not support spawning
        return np.random.default_rng(rng.integers(2**63))


def check_covariance(covariance: Any, p: int, reference: Array, name: str = "covariance") -> Array:
    """Return a symmetric positive semidefinite ``(p, p)`` matrix like ``reference``."""
    covariance = check_array(name, covariance, ndim=2, reference=reference)
    xp = namespace(covariance)
    if tuple(covariance.shape) != (p, p):
        raise ValueError(
            f"{name} has shape {tuple(covariance.shape)}, but X has {p} columns: "
            f"it must have shape ({p}, {p})"
        )
    size = float(xp.max(xp.abs(covariance)))
    # allow for rounding errors of the caller, in the caller's precision
    slack = 1e3 * float(xp.finfo(covariance.dtype).eps) * max(p, 10) * size
    gap = float(xp.max(xp.abs(covariance - covariance.T)))
    if gap > slack:
        raise ValueError(
            f"{name} is not symmetric: entries differ from their transposes by up to {gap:.3g}"
        )
    try:  # several times cheaper than eigenvalues, which only the error message needs
        xp.linalg.cholesky(covariance + slack * like(np.eye(p), covariance))
    except (np.linalg.LinAlgError, RuntimeError):  # torch's is a RuntimeError
        smallest = float(xp.linalg.eigvalsh(covariance)[0])
        if smallest < -slack:
            raise ValueError(
                f"{name} is not positive semidefinite: its smallest eigenvalue is {smallest:.3g}"
            ) from None
    return covariance
