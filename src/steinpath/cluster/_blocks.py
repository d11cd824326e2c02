"""Blocks of rows on the workers: validated, in memory or in files."""

from __future__ import annotations

import errno
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import PurePath
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from scipy.sparse import issparse, load_npz

from steinpath._support.files import import_pyarrow
from steinpath._support.validation import check_array, map_of
from steinpath.design._conversion import as_design
from steinpath.design._memmap import BlockDesign, BlockSizes
from steinpath.design._sparse import SparseDesign, compressed

# Bytes per step of a checksum, because they may have to be copied.
_CHUNK = 2**22
# Size of a piece of a file that does not fit into memory, in bytes; with many columns, a minimum
# number of rows up to the larger size, because each column of a piece has an overhead.
_PIECE, _FEW_ROWS, _LARGEST_PIECE = 2**22, 1000, 2**26

#: Names of columns, or their positions in files without names.
ColumnNames = Sequence[str] | Sequence[int]


class BlockInfo(NamedTuple):
    """Properties of a block that the client needs."""

    rows: int
    columns: int
    dtype: str
    sparse: bool
    checksum: int


def info_of(block: Any) -> BlockInfo:
    """Return the properties of a validated block."""
    if isinstance(block, StoredBlock):  # not read again
        return block.info
    rows, columns = block.shape
    sparse = bool(issparse(block))
    arrays = (block.data, block.indices, block.indptr) if sparse else (block,)
    return BlockInfo(rows, columns, str(block.dtype), sparse, checksum(arrays))


def checksum(arrays: Sequence[np.ndarray], total: int = 0) -> int:
    """Return a checksum of values, independent of memory layout, continuing from a previous one."""
    for array in arrays:
        step = max(1, _CHUNK // max(1, array[:1].nbytes))
        for start in range(0, len(array), step):
            total = crc32(np.ascontiguousarray(array[start : start + step]).data, total)
    return total


def loaded(source: Any, name: str) -> Any:
    """Return a validated block, given a function that loads it or the block itself."""
    return checked(_loaded(source, name) if callable(source) else source, name)


def _loaded(loader: Callable[[], Any], name: str) -> Any:
    """Return what a loader returns; its errors name the block."""
    try:
        return loader()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise RuntimeError(f"{name} could not be loaded: {reason}") from error


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


def common(infos: Sequence[BlockInfo], names: Sequence[str]) -> tuple[int, str]:
    """Return the common number of columns and dtype of all blocks; raise if they differ."""
    first = infos[0]
    for info, name in zip(infos, names, strict=True):
        if info.columns != first.columns:
            raise ValueError(
                f"{name} has {info.columns} columns, but {names[0]} has {first.columns}"
            )
        if info.sparse != first.sparse:
            kind, other = ("sparse", "dense") if info.sparse else ("dense", "sparse")
            raise ValueError(
                f"{name} is {kind}, but {names[0]} is {other}; all blocks must be of the same type"
            )
    return first.columns, str(np.result_type(*(info.dtype for info in infos)))


# Files

_PARQUET = (".parquet", ".pq")
_NEEDED = "Parquet files", "study"  # what requires pyarrow, and the extra that installs it
_KINDS = ".npy, .npz (of scipy.sparse.save_npz), .parquet or .pq"


class Header(NamedTuple):
    """Columns of a file (names or positions), those of its index, and its size."""

    columns: list[Any]
    index_columns: list[Any]
    rows: int
    itemsize: int  # bytes of an entry in memory; 0 if sparse


def header_of(path: str, name: str) -> Header:
    """Read the columns and the size of a file."""
    suffix = PurePath(path).suffix
    if suffix not in (*_PARQUET, ".npz", ".npy"):
        raise ValueError(f"{path} has an unsupported extension; use {_KINDS}")
    if not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if not os.path.isfile(path):  # opening a pipe would block
        raise ValueError(f"{path} is not a file")
    if suffix in _PARQUET:
        about = _loaded(partial(_parquet().read_metadata, path), name)
        schema = about.schema.to_arrow_schema()
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        index = [column for column in index if isinstance(column, str)]
        return Header(list(schema.names), index, about.num_rows, 8)
    values = _loaded(partial(load_npz if suffix == ".npz" else _mapped, path), name)
    if values.ndim != 2:
        raise ValueError(f"{path} must hold a 2-dimensional array; got shape {values.shape}")
    rows, columns = values.shape
    itemsize = 0 if suffix == ".npz" else 4 if values.dtype == np.float32 else 8
    return Header(list(range(columns)), [], rows, itemsize)


def read_columns(path: str, columns: ColumnNames) -> Any:
    """Read selected columns of a file."""
    values = read_pieces(path, columns)
    if not isinstance(values, Iterator):
        return np.array(values) if isinstance(values, np.ndarray) else values
    whole, stop = np.empty((0, len(columns))), 0
    for piece in values:
        if not stop:
            whole = np.empty((header_of(path, path).rows, len(columns)), piece.dtype)
        start, stop = stop, stop + len(piece)
        whole[start:stop] = piece
    return whole


def read_pieces(path: str, columns: ColumnNames) -> Any:
    """Return columns of a file: a memory map, a sparse matrix, or an iterator over its rows."""
    suffix = PurePath(path).suffix
    if suffix == ".npz":
        return compressed(load_npz(path)).tocsr()[:, list(columns)]
    if suffix in _PARQUET:
        return _pieces_of_parquet(path, columns)
    values = _mapped(path)
    if list(columns) == list(range(values.shape[1])):
        return values
    step = _rows_of_piece(values.shape[1], values.itemsize)
    pieces = (values[start : start + step] for start in range(0, len(values), step))
    return (piece[:, np.asarray(columns)] for piece in pieces)


def _rows_of_piece(columns: int, itemsize: int = 8) -> int:
    row = max(1, columns * itemsize)
    return max(1, _PIECE // row, min(_FEW_ROWS, _LARGEST_PIECE // row))


def _mapped(path: str) -> Any:
    return np.load(path, mmap_mode="r", allow_pickle=False)


def read_response(path: str, name: str, column: Any) -> np.ndarray:
    """Read one column of a file."""
    values = _loaded(partial(read_columns, path, [column]), name)
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)[:, 0]


def _pieces_of_parquet(path: str, columns: ColumnNames) -> Iterator[np.ndarray]:
    """Read numeric columns in successive pieces of rows; missing values are NaN."""
    arrow, width = import_pyarrow(*_NEEDED), len(columns)
    with _parquet().ParquetFile(path, pre_buffer=False) as file:
        single = True
        for name in columns:
            kind: Any = file.schema_arrow.field(name).type
            types = arrow.types
            numbers = types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)
            if not numbers and file.metadata.num_rows:
                raise TypeError(f"column {name!r} must be numeric; got type {kind}")
            single = single and types.is_float32(kind)
        kind, dtype = (arrow.float32(), np.float32) if single else (arrow.float64(), np.float64)
        for batch in file.iter_batches(_rows_of_piece(width), columns=list(columns)):
            piece = np.empty((batch.num_rows, width), dtype)
            for j, own in enumerate(columns):
                column = batch.column(own).cast(kind, safe=False)
                piece[:, j] = column.to_numpy(zero_copy_only=False)
            yield piece


def _parquet() -> Any:
    return import_pyarrow(*_NEEDED).parquet


# Blocks in files, which the workers read in pieces


class StoredBlock:
    """A dense, validated block of rows in a file; on another worker ``again`` recreates it."""

    def __init__(
        self, rows: np.ndarray, name: str, largest_part: int, again: tuple[Any, ...] | None
    ):
        try:
            self.design = BlockDesign(rows, sizes=BlockSizes(largest_part=largest_part))
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None
        total = 0
        for _, piece in self.design.blocks():
            total = checksum([piece], total)
        self.info = BlockInfo(*self.design.shape, str(self.design.example.dtype), False, total)
        self.rows, self._again, self._args = rows, again, (name, largest_part)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._again or (stored, (np.array(self.rows), *self._args))


def stored(source: Any, name: str, largest_part: int) -> Any:
    """Put a block, or what a function loads, into a file of this worker, and validate it.

    A function may return an iterator over arrays of successive rows. Sparse blocks stay in memory.
    """
    if not callable(source):
        return _written(source, name, largest_part, None)
    block, again = _loaded(source, name), (stored, (source, name, largest_part))
    if map_of(block) is not None and block.size:
        return StoredBlock(block, name, largest_part, again)
    return _written(block, name, largest_part, again)


def _written(block: Any, name: str, largest_part: int, again: tuple[Any, ...] | None) -> Any:
    """Write a block in memory, or its pieces, to a file of this worker, and validate it."""
    if not isinstance(block, Iterator):
        block = checked(block, name)
        if issparse(block) or not block.size:
            return block
        block = iter([block])
    number, path = tempfile.mkstemp(prefix="steinpath-", suffix=".rows", dir=_folder())
    try:
        rows, columns, dtype = 0, 0, np.dtype(float)
        with open(number, "wb") as file:
            for piece in _arrays(block, name):
                try:
                    file.write(piece.data)
                except OSError as error:
                    message = (
                        f"{name} could not be written to the scratch folder of its worker "
                        f"({error.strerror}); start workers with a local_directory with enough "
                        "free space"
                    )
                    raise OSError(error.errno, message, path) from error
                rows, columns, dtype = rows + len(piece), piece.shape[1], piece.dtype
        if not rows:
            _remove(path)
            return np.zeros((0, columns))
        written = np.memmap(path, dtype, "r", shape=(rows, columns))
        result = StoredBlock(written, name, largest_part, again)
    except BaseException:
        _remove(path)
        raise
    weakref.finalize(result, _remove, path)
    return result


def _arrays(pieces: Iterator[Any], name: str) -> Iterator[np.ndarray]:
    """Yield pieces as arrays of real numbers; errors name the block."""
    while (piece := _loaded(partial(next, pieces, None), name)) is not None:
        dtype = check_array("X", np.zeros((1, 1), piece.dtype), ndim=2).dtype
        yield np.ascontiguousarray(piece, dtype)


def _folder() -> str | None:
    """Return the scratch folder of this worker, which is removed when it ends."""
    from distributed import get_worker

    try:
        return str(get_worker().local_directory)
    except ValueError:  # not on a worker
        return None


def _remove(path: str) -> None:
    with suppress(OSError):  # the worker may have removed its folder
        os.unlink(path)
