"""Tables from Parquet, Arrow and NumPy files."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from steinpath._support.cells import as_arrow, check_names
from steinpath._support.messages import DataError
from steinpath.app.tables.table import check_expansion, check_width, import_arrow

# Bytes of columns that a file may always expand to, however small it is.
_MOST_BYTES = 2**30


def read_parquet(path: Path) -> Any:
    """Return the columns of a Parquet file."""
    with open_parquet(path) as opened:
        return frame_of(opened.read())


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """Open a Parquet file of reasonable size as a `pyarrow.parquet.ParquetFile`."""
    arrow = import_arrow()
    # an open file: pyarrow may read partition columns from a path
    with open(path, "rb") as file:
        opened = arrow.parquet.ParquetFile(file, page_checksum_verification=True, pre_buffer=False)
        about = opened.metadata
        groups = [about.row_group(k) for k in range(about.num_row_groups)]
        rows = max(about.num_rows, sum(group.num_rows for group in groups))
        stored = sum(group.total_byte_size for group in groups)
        _check_size(max(stored, 8 * rows * about.num_columns), file)
        yield opened


def read_arrow(path: Path) -> Any:
    """Return the columns of an Arrow file, or of an Arrow stream in a file."""
    arrow = import_arrow()
    with open(path, "rb") as file:
        whole = file.read(6) == b"ARROW1"
        file.seek(0)
        found = (arrow.ipc.open_file if whole else arrow.ipc.open_stream)(file).read_all()
        # null and run-length encoded columns have any number of rows in a few bytes
        _check_size(8 * found.num_rows * found.num_columns, file)
        return frame_of(found)


def _check_size(size: int, file: IO[bytes]) -> None:
    check_expansion(size, os.fstat(file.fileno()).st_size, _MOST_BYTES)


def frame_of(found: Any) -> Any:
    """Return a sound table without pandas indices, its categorical columns as dictionaries."""
    check_width(found.num_columns)
    found.validate(full=True)  # damaged files may otherwise crash the interpreter
    return as_arrow(found)


def read_npz(path: Path) -> Any:
    """Return the columns of a file that numpy.savez wrote; see `read_table`."""
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise DataError("it is damaged, or was not written by numpy.savez")
        with zipfile.ZipFile(file) as archive:  # no entry unpacks to more than its file_size
            _check_size(sum(entry.file_size for entry in archive.infolist()), file)
        file.seek(0)
        loaded = np.load(file, allow_pickle=False)
        arrays = {name: _load_array(loaded, name) for name in loaded.files}
    given = _given_names(arrays)
    names, columns = list[str](), list[Any]()
    for name, array in arrays.items():
        if len(array) != len(first := next(iter(arrays.values()))):
            raise DataError(
                f"array {name!r} has {len(array)} rows, but {next(iter(arrays))!r} has "
                f"{len(first)}; arrays must have the same number of rows"
            )
        matrix = array if array.ndim == 2 else array[:, None]
        check_width(matrix.shape[1])
        several = given or [f"{name}{k}" for k in range(matrix.shape[1])]
        names += several if array.ndim == 2 else [name]
        try:
            columns += map(_column, matrix.T)
        except UnicodeError:
            raise DataError(f"array {name!r} has strings that are not Unicode") from None
    return import_arrow().table(columns, names=check_names(names))


def _column(array: np.ndarray) -> Any:
    """Return an array as an Arrow column, floats and dates in the usual precision."""
    native = array.dtype.newbyteorder("=")  # Arrow takes no other byte order
    usual = {"M": "datetime64[us]", "f": "float64"}.get(array.dtype.kind, native)
    with np.errstate(over="ignore"):  # infinite values are refused later
        return import_arrow().array(np.ascontiguousarray(array.astype(usual)))


def _load_array(loaded: Any, name: str) -> np.ndarray:
    try:
        array = loaded[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise DataError(
            f"array {name!r} holds Python objects, which are never loaded; save it as numbers or "
            "strings"
        ) from None
    if not isinstance(array, np.ndarray):
        raise DataError(f"{name!r} is not an array")
    kinds = {1: "biufUM", 2: "biuf"}.get(array.ndim, "")
    # a file of a few bytes may hold any number of values of size zero
    if array.dtype.kind not in kinds or not array.dtype.itemsize:
        raise DataError(
            f"array {name!r} is of type {array.dtype} and shape {array.shape}; arrays must hold "
            "numbers, or be one-dimensional and hold dates or strings"
        )
    return array


def _given_names(arrays: dict[str, np.ndarray]) -> list[str]:
    """Return the column names of the only matrix, if there are any, and remove their array."""
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    naming = next((name for name in ("feature_names", "columns") if name in arrays), None)
    if len(matrices) != 1 or naming is None or arrays[naming].dtype.kind != "U":
        return []
    names, count = arrays.pop(naming).tolist(), arrays[matrices[0]].shape[1]
    if len(names) != count:
        raise DataError(
            f"array {naming!r} has {len(names)} names, but {matrices[0]!r} has {count} columns; "
            "there must be one name for each column"
        )
    return [str(name) for name in names]
