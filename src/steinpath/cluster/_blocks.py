"""Blocks of rows: reading and validation on the workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from scipy.sparse import issparse, load_npz

from steinpath._support.files import import_pyarrow
from steinpath.design._conversion import as_design
from steinpath.design._sparse import SparseDesign, compressed

# Bytes per step of a checksum, because they may have to be copied.
_CHUNK = 2**22
# Size of a piece of a file that does not fit into memory, in bytes; with many columns, a minimum
# number of rows up to the larger size, because each column of a piece has an overhead.
_PIECE, _FEW_ROWS, _LARGEST_PIECE = 2**22, 1000, 2**26

#: Names of columns, or their positions in files without names.
ColumnNames = Sequence[str] | Sequence[int]


class Facts(NamedTuple):
    """Properties of a block that the client needs."""

    rows: int
    columns: int
    dtype: str
    sparse: bool
    checksum: int


def facts_of(block: Any) -> Facts:
    """Return the properties of a validated block."""
    if (known := getattr(block, "facts", None)) is not None:  # stored in a file: not read again
        return Facts(*known)
    rows, columns = block.shape
    sparse = bool(issparse(block))
    arrays = (block.data, block.indices, block.indptr) if sparse else (block,)
    return Facts(rows, columns, str(block.dtype), sparse, checksum(arrays))


def checksum(arrays: Sequence[np.ndarray], total: int = 0) -> int:
    """Return a checksum of values, independent of memory layout, continuing from a previous one."""
    for array in arrays:
        step = max(1, _CHUNK // max(1, array[:1].nbytes))
        for start in range(0, len(array), step):
            total = crc32(np.ascontiguousarray(array[start : start + step]).data, total)
    return total


def loaded(loader: Callable[[], Any], name: str) -> Any:
    """Load and validate a block."""
    try:
        block = loader()
    except Exception as error:
        raise unreadable(name, error) from error
    return checked(block, name)


def unreadable(name: str, error: Exception) -> RuntimeError:
    """Return the error for a block that cannot be loaded."""
    return RuntimeError(f"{name} could not be loaded: {type(error).__name__}: {error}")


def checked(block: Any, name: str) -> Any:
    """Return a block as a NumPy array or SciPy CSR matrix, validated to be finite."""
    shape: tuple[int, ...] = getattr(block, "shape", ())
    if len(shape) == 2 and shape[0] == 0:  # nothing to validate
        return np.zeros(shape)
    if isinstance(block, np.memmap):
        block = np.array(block)  # load it: Dask may move the block
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
    """Return the common number of columns and dtype of all blocks; raise if they differ."""
    first = facts[0]
    for each, name in zip(facts, names, strict=True):
        if each.columns != first.columns:
            raise ValueError(
                f"{name} has {each.columns} columns, but {names[0]} has {first.columns}"
            )
        if each.sparse != first.sparse:
            kinds = "sparse" if each.sparse else "dense", "sparse" if first.sparse else "dense"
            raise ValueError(
                f"{name} is {kinds[0]}, but {names[0]} is {kinds[1]}; all blocks must be of the "
                "same type"
            )
    return first.columns, str(np.result_type(*(each.dtype for each in facts)))


# ------------------------------------------------------------------------------------------------
# Files
# ------------------------------------------------------------------------------------------------

_PARQUET = (".parquet", ".pq")
_NEEDED = "Parquet files", "study"  # what requires pyarrow, and the extra that installs it
_KINDS = ".npy, .npz (of scipy.sparse.save_npz), .parquet or .pq"


class Header(NamedTuple):
    """Metadata of a file.

    Attributes
    ----------
    columns : list
        Names or positions of its columns.
    labels : list
        Columns of the index.
    rows : int
        Number of rows.
    itemsize : int
        Size of an entry in memory, in bytes; 0 if sparse.
    """

    columns: list[Any]
    labels: list[Any]
    rows: int
    itemsize: int


def header_of(path: str, name: str) -> Header:
    """Read the columns and the size of a file."""
    suffix = PurePath(path).suffix
    if suffix not in (*_PARQUET, ".npz", ".npy"):
        raise ValueError(f"{path} has an unsupported extension; use {_KINDS}")
    if os.path.exists(path) and not os.path.isfile(path):  # opening a pipe would block
        raise ValueError(f"{path} is not a file")
    if suffix in _PARQUET:
        _parquet()  # report a missing pyarrow as such
    try:
        if suffix in _PARQUET:
            about = _parquet().read_metadata(path)
            schema = about.schema.to_arrow_schema()
            labels = (schema.pandas_metadata or {}).get("index_columns", [])
            labels = [each for each in labels if isinstance(each, str)]
            return Header(list(schema.names), labels, about.num_rows, 8)
        found = load_npz(path) if suffix == ".npz" else _mapped(path)
    except OSError:  # names the file, and is handled by callers
        raise
    except Exception as error:
        raise unreadable(name, error) from error
    if found.ndim != 2:
        raise ValueError(f"{path} must hold a 2-dimensional array; got shape {found.shape}")
    rows, columns = found.shape
    itemsize = 0 if suffix == ".npz" else 4 if found.dtype == np.float32 else 8
    return Header(list(range(columns)), [], rows, itemsize)


def read_columns(path: str, columns: ColumnNames) -> Any:
    """Read selected columns of a file."""
    suffix = PurePath(path).suffix
    if suffix in _PARQUET:
        with _opened(path, columns) as file:
            values = np.empty((file.rows, len(columns)), file.dtype)
            stop = 0
            for piece in file.pieces():
                start, stop = stop, stop + len(piece)
                values[start:stop] = piece
        return values
    if suffix == ".npz":
        return compressed(load_npz(path)).tocsr()[:, list(columns)]
    values = _mapped(path)
    return np.array(values) if _are_all(columns, values) else values[:, columns]


def read_pieces(path: str, columns: ColumnNames) -> Any:
    """Return selected columns of a file without reading all of it at once.

    Returns
    -------
    memmap, sparse matrix or iterator of ndarray
        A memory map of the whole array, a sparse matrix, or successive pieces of rows.
    """
    suffix = PurePath(path).suffix
    if suffix == ".npz":
        return read_columns(path, columns)
    if suffix in _PARQUET:
        return _pieces_of_parquet(path, columns)
    values = _mapped(path)
    return values if _are_all(columns, values) else _pieces_of_array(values, columns)


def _are_all(columns: ColumnNames, values: np.ndarray) -> bool:
    return list(columns) == list(range(values.shape[1]))


def _pieces_of_array(values: np.ndarray, columns: ColumnNames) -> Iterator[np.ndarray]:
    step = rows_of_piece(values.shape[1], values.itemsize)
    for start in range(0, len(values), step):
        yield values[start : start + step][:, np.asarray(columns)]


def rows_of_piece(columns: int, itemsize: int = 8) -> int:
    """Return the number of rows of a piece."""
    row = max(1, columns * itemsize)
    return max(1, _PIECE // row, min(_FEW_ROWS, _LARGEST_PIECE // row))


def _mapped(path: str) -> Any:
    """Return a memory map of an array in a file."""
    return np.load(path, mmap_mode="r", allow_pickle=False)


def read_response(path: str, name: str, column: Any) -> np.ndarray:
    """Read one column of a file."""
    try:
        values = read_columns(path, [column])
    except Exception as error:
        raise unreadable(name, error) from error
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)[:, 0]


class _ParquetNumbers:
    """Numeric columns of an open Parquet file."""

    def __init__(self, file: Any, columns: ColumnNames):
        self._file, self._columns = file, list(columns)
        self.rows = file.metadata.num_rows
        arrow, schema = import_pyarrow(*_NEEDED), file.schema_arrow
        types = arrow.types
        single = True
        for name in self._columns:
            kind = schema.field(name).type
            numbers = types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)
            if not numbers and self.rows:
                raise TypeError(f"column {name!r} must be numeric; got type {kind}")
            single = single and types.is_float32(kind)
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self._kind = arrow.float32() if single else arrow.float64()

    def pieces(self) -> Iterator[np.ndarray]:
        """Read successive pieces of rows."""
        width = len(self._columns)
        step = rows_of_piece(width)
        for batch in self._file.iter_batches(step, columns=self._columns):
            piece = np.empty((batch.num_rows, width), self.dtype)
            for j, name in enumerate(self._columns):
                column = batch.column(name).cast(self._kind, safe=False)
                piece[:, j] = column.to_numpy(zero_copy_only=False)  # missing values are NaN
            yield piece


@contextmanager
def _opened(path: str, columns: ColumnNames) -> Iterator[_ParquetNumbers]:
    with _parquet().ParquetFile(path, pre_buffer=False) as file:
        yield _ParquetNumbers(file, columns)


def _pieces_of_parquet(path: str, columns: ColumnNames) -> Iterator[np.ndarray]:
    with _opened(path, columns) as file:
        yield from file.pieces()


def _parquet() -> Any:
    return import_pyarrow(*_NEEDED).parquet
