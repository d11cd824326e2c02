"""Blocks of rows: how they are read and checked, where they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from scipy.sparse import issparse, load_npz

from steinpath._support.files import import_pyarrow
from steinpath.design._reading import as_design
from steinpath.design._sparse import SparseDesign, compressed

# Bytes whose checksum is taken at a time, since they may have to be copied for it.
_CHUNK = 2**22

#: Names of columns, or their numbers in files that have no names.
ColumnNames = Sequence[str] | Sequence[int]


class Facts(NamedTuple):
    """What has to be known of a block from afar."""

    rows: int
    columns: int
    dtype: str
    sparse: bool
    checksum: int


def facts_of(block: Any) -> Facts:
    """Describe a block that was checked."""
    rows, columns = block.shape
    sparse = bool(issparse(block))
    arrays = (block.data, block.indices, block.indptr) if sparse else (block,)
    return Facts(rows, columns, str(block.dtype), sparse, _checksum(arrays))


def _checksum(arrays: Sequence[np.ndarray]) -> int:
    """Return a checksum of values, however they lie in memory."""
    total = 0
    for array in arrays:
        step = max(1, _CHUNK // max(1, array[:1].nbytes))
        for start in range(0, len(array), step):
            total = crc32(np.ascontiguousarray(array[start : start + step]).data, total)
    return total


def loaded(loader: Callable[[], Any], name: str) -> Any:
    """Load a block, and check it."""
    try:
        block = loader()
    except Exception as error:
        raise _unreadable(name, error) from error
    return checked(block, name)


def _unreadable(name: str, error: Exception) -> RuntimeError:
    return RuntimeError(f"{name} could not be loaded: {type(error).__name__}: {error}")


def checked(block: Any, name: str) -> Any:
    """Return a block as a NumPy array, or a SciPy matrix of compressed rows, of finite numbers."""
    shape: tuple[int, ...] = getattr(block, "shape", ())
    if len(shape) == 2 and shape[0] == 0:  # there is nothing to check
        return np.zeros(shape)
    if isinstance(block, np.memmap):
        block = np.array(block)  # what Dask moves about should be all there
    try:
        design = as_design(block)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None
    if isinstance(design, SparseDesign):
        return design.matrix
    if not isinstance(design.example, np.ndarray):
        kind = type(design.example).__name__
        raise TypeError(f"{name} is {kind}; blocks must be NumPy arrays or SciPy sparse matrices")
    return design.example


def common(facts: Sequence[Facts], names: Sequence[str]) -> tuple[int, str]:
    """Return the number of columns and the precision of all blocks; refuse what does not fit."""
    first = facts[0]
    for each, name in zip(facts, names, strict=True):
        if each.columns != first.columns:
            raise ValueError(
                f"{name} has {each.columns} columns, but {names[0]} has {first.columns}"
            )
        if each.sparse != first.sparse:
            kinds = "sparse" if each.sparse else "dense", "sparse" if first.sparse else "dense"
            raise ValueError(
                f"{name} is {kinds[0]}, but {names[0]} is {kinds[1]}: make all blocks alike"
            )
    return first.columns, str(np.result_type(*(each.dtype for each in facts)))


# ------------------------------------------------------------------------------------------------
# Files
# ------------------------------------------------------------------------------------------------

_PARQUET = (".parquet", ".pq")
_KINDS = ".npy, .npz (of scipy.sparse.save_npz), .parquet or .pq"


class Header(NamedTuple):
    """The columns of a file, by name or number, and those that only label its rows."""

    columns: list[Any]
    labels: list[Any]


def header_of(path: str, name: str) -> Header:
    """Read which columns a file has."""
    suffix = PurePath(path).suffix
    if suffix not in (*_PARQUET, ".npz", ".npy"):
        raise ValueError(f"{path} is not a file that can be read here: {_KINDS}")
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe would be waited for
        raise ValueError(f"{path} is not a file")
    if suffix in _PARQUET:
        _parquet()  # if it is missing, that is not for want of the file
    try:
        if suffix in _PARQUET:
            schema = _parquet().read_schema(path)
            labels = (schema.pandas_metadata or {}).get("index_columns", [])
            return Header(list(schema.names), [each for each in labels if isinstance(each, str)])
        shape = (load_npz(path) if suffix == ".npz" else _mapped(path)).shape
    except OSError:  # which names the file, and is what callers look for
        raise
    except Exception as error:
        raise _unreadable(name, error) from error
    if len(shape) != 2:
        raise ValueError(f"{path} must hold an array of 2 dimensions; its shape is {shape}")
    return Header(list(range(shape[1])), [])


def read_columns(path: str, columns: ColumnNames) -> Any:
    """Read some columns of a file."""
    suffix = PurePath(path).suffix
    if suffix in _PARQUET:
        return _read_parquet(path, columns)
    if suffix == ".npz":
        return compressed(load_npz(path)).tocsr()[:, list(columns)]
    values = _mapped(path)
    return np.array(values) if list(columns) == list(range(values.shape[1])) else values[:, columns]


def _mapped(path: str) -> Any:
    """Return an array in a file, of which no more is read than is wanted."""
    return np.load(path, mmap_mode="r", allow_pickle=False)


def read_response(path: str, name: str, column: Any) -> np.ndarray:
    """Read one column of a file."""
    try:
        values = read_columns(path, [column])
    except Exception as error:
        raise _unreadable(name, error) from error
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)[:, 0]


def _read_parquet(path: str, columns: ColumnNames) -> np.ndarray:
    table = _parquet().read_table(path, columns=list(columns))
    arrays = {name: table.column(name) for name in columns}
    kinds = {name: np.asarray(array.slice(0, 1)).dtype for name, array in arrays.items()}
    bad = [name for name, kind in kinds.items() if kind.kind not in "biuf"]
    if bad and table.num_rows:
        raise TypeError(f"column {bad[0]!r} does not hold numbers (dtype {kinds[bad[0]]})")
    single = all(kind == np.float32 for kind in kinds.values())
    values = np.empty((table.num_rows, len(arrays)), dtype=np.float32 if single else np.float64)
    for j, array in enumerate(arrays.values()):
        values[:, j] = array.to_numpy()
    return values


def _parquet() -> Any:
    return import_pyarrow("Parquet files", "study").parquet
