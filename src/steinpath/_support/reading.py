"""Conversion of user input (lists, arrays, data frames, tensors) to numeric arrays.

Plain conversions ignore masks and turn dates and texts into numbers. All functions and estimators
therefore convert their numeric input with `read_array`.
"""

from __future__ import annotations

import mmap
from typing import Any

import array_api_compat
import numpy as np

from steinpath._support.arrays import Array, is_foreign

# Type names of date, time and duration columns in data frames.
_TIMES = ("date", "time", "duration", "period")
# Types that `float` accepts but that are not real numbers.
_NOT_REAL = (str, bytes, np.datetime64, np.timedelta64, np.complexfloating)
# Arrays have at most this many axes, and lists are nested at most this deeply.
_MOST_AXES = 3


def read_array(name: str, values: Any) -> Array:
    """Return numbers as an array of their own library, or of NumPy if they have none.

    The result may be complex, of any precision and non-finite; `check_array` checks the rest.
    """
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
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(f"{name} cannot be read as an array: {error}") from error
    check_map(name, array)
    if array.dtype == object:
        labels = "column_names" if hasattr(values, "column_names") else "columns"
        array = _real(name, array, getattr(values, labels, None))
    if array.dtype.kind not in "biufc":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if not array.dtype.isnative:  # byte order of another machine
        array = array.astype(array.dtype.newbyteorder("="))
    return array


def _has_mask(values: Any, depth: int) -> bool:
    """Whether an object is a masked array or a list of masked arrays."""
    if isinstance(values, list | tuple) and depth:
        return any(_has_mask(each, depth - 1) for each in values)
    return isinstance(values, np.ma.MaskedArray) or type(values).__name__ == "MaskedTensor"


def _masked(name: str) -> TypeError:
    return TypeError(f"{name} is a masked array; fill or drop the masked entries first")


def _checked_tensor(name: str, tensor: Any) -> Any:
    """Return a PyTorch tensor if it stores its values as a plain array."""
    layout = str(tensor.layout)
    if tensor.is_nested:
        raise TypeError(f"{name} is a nested tensor; pass one whose rows all have the same length")
    if "sparse" in layout:
        or_sparse = ", or X as a scipy.sparse matrix" if name == "X" else ""
        raise TypeError(
            f"{name} is a torch sparse tensor ({layout}); pass {name}.to_dense(){or_sparse}"
        )
    if layout != "torch.strided":
        raise TypeError(f"{name} is a torch tensor of layout {layout}; pass {name}.to_dense()")
    if tensor.is_meta:
        raise TypeError(f"{name} is a tensor on the meta device, which has no values")
    if tensor.is_quantized:
        raise TypeError(f"{name} is a quantized tensor; pass {name}.dequantize()")
    if tensor.requires_grad:
        raise TypeError(f"{name} requires gradients, which are not supported; pass {name}.detach()")
    if tensor.is_floating_point() and tensor.itemsize == 1:  # few operations support these
        raise TypeError(f"{name} has dtype {tensor.dtype}; use float32 or float64")
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
    """Convert an object array of Python numbers; missing values become NaN.

    Columns of texts are named by their labels, if there are any.
    """
    kinds = {type(value) for value in objects.flat}
    if any(issubclass(kind, np.ma.MaskedArray) for kind in kinds):
        raise _masked(name)
    for kind in kinds:
        if issubclass(kind, _NOT_REAL):
            where = ""
            if labels is not None and objects.ndim == 2 and objects.shape[1] == len(labels):
                found = (any(type(x) is kind for x in column) for column in objects.T)
                label = next(each for each, has in zip(labels, found, strict=True) if has)
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


# ------------------------------------------------------------------------------------------------
# Memory-mapped files
# ------------------------------------------------------------------------------------------------


def map_of(array: Any) -> np.memmap[Any, Any] | None:
    """Return the `numpy.memmap` that an array is or is a view of; None otherwise."""
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap) and isinstance(pages_of(array), mmap.mmap):
            return array
        array = array.base
    return None


def pages_of(root: np.memmap[Any, Any]) -> Any:
    """Return the `mmap.mmap` of a memory-mapped array."""
    return root.base


def check_map(name: str, array: np.ndarray) -> None:
    """Refuse a memory map that extends beyond its file: accessing it would crash the process."""
    root = map_of(array)
    if root is not None and pages_of(root).size() < root.offset + root.nbytes:
        raise truncated_error(name, root.filename)


def in_memory(array: Array) -> Array:
    """Return an array that no other process can change: a memory map is copied."""
    return array if map_of(array) is None else np.array(array)


def truncated_error(name: str, file: Any) -> EOFError:
    """Return the error for a file that was truncated after it was mapped."""
    return EOFError(
        f"the file of {name} was truncated after it was mapped: "
        f"{file or 'unnamed file'}; write it again, map it again, and do not modify it meanwhile"
    )
