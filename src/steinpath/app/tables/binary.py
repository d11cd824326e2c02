"""Tables from Parquet, Arrow and NumPy files, and from folders of Parquet files."""

from __future__ import annotations

import mmap
import os
import re
import zipfile
from bisect import bisect
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from steinpath._support.cells import as_arrow, check_names
from steinpath._support.messages import DataError, Message, Remedy
from steinpath.app.tables.table import (
    FileFormat,
    FileTable,
    check_expansion,
    check_width,
    explained,
    import_arrow,
    plain,
)

# Kinds of arrays, by their number of dimensions.
_KINDS = {1: "biufUM", 2: "biuf"}
# Numbers read at a time from a file that is processed in batches, and the fewest rows: each column
# of a batch has a fixed cost.
_NUMBERS_AT_ONCE, _FEW_ROWS = 2**20, 1000
# Memory of a table while it is encoded, relative to that of its numbers.
_COPIES = 3


def _read_parquet(path: Path) -> Any:
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
        check_expansion(max(stored, 8 * rows * about.num_columns), file)
        yield opened


def _read_arrow(path: Path) -> Any:
    """Return the columns of an Arrow file, or of an Arrow stream in a file."""
    arrow = import_arrow()
    with open(path, "rb") as file:
        whole = file.read(6) == b"ARROW1"
        file.seek(0)
        frame = (arrow.ipc.open_file if whole else arrow.ipc.open_stream)(file).read_all()
        # null and run-length encoded columns have any number of rows in a few bytes
        check_expansion(8 * frame.num_rows * frame.num_columns, file)
        return frame_of(frame)


def frame_of(frame: Any) -> Any:
    """Return a sound table without pandas indices, its categorical columns as dictionaries."""
    check_width(frame.num_columns)
    frame.validate(full=True)  # damaged files may otherwise crash the interpreter
    return as_arrow(frame)


@dataclass(frozen=True, eq=False)
class ParquetFolder:
    """The Parquet files of a folder, with rows, in natural order: part-2 comes before part-10.

    The schema has the names and common types of their columns; some are categorical in some file.
    """

    files: tuple[Path, ...]
    rows: tuple[int, ...]
    schema: Any
    categorical: frozenset[str]
    format: FileFormat

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.schema.names)

    @property
    def starts(self) -> tuple[int, ...]:
        """Number of rows before each file."""
        return tuple(int(start) for start in np.cumsum([0, *self.rows[:-1]]))

    def place(self, row: int) -> str:
        """Return the file of a row, counted from 0, and its number there."""
        k = bisect(self.starts, row) - 1
        return f"row {row - self.starts[k] + 1} of {self.files[k].name}"

    def read(self) -> FileTable:
        """Return all rows as one table."""
        needed = _COPIES * 8 * sum(self.rows) * len(self.schema) / 2**30
        pages = os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else np.inf
        memory = pages * mmap.PAGESIZE / 2**30
        if needed > memory:
            said = f"it needs {needed:.0f} GiB of memory, but this machine has {memory:.0f}; use "
            said += "`fit` or `tune` with {remedy} to read it file by file"
            raise DataError(Message(said, remedy=Remedy("workers", os.cpu_count() or 1)))
        parts = (part for k in range(len(self.files)) for part in self.batches(k, self.names))
        whole = import_arrow().concat_tables(parts).unify_dictionaries()
        return FileTable(whole, self.format, where=self.place)

    def batches(self, k: int, columns: Collection[str]) -> Iterator[Any]:
        """Yield batches of some columns of file `k`, in the common types."""
        arrow, file = import_arrow(), self.files[k]
        step = max(_NUMBERS_AT_ONCE // max(1, len(columns)), _FEW_ROWS)
        with explained(f"{file.name}: "), open_parquet(file) as opened:
            # columns without a name are named by their position
            stored = [name for name in opened.schema_arrow.names if name in columns]
            wanted = stored if len(stored) == len(columns) else None
            for batch in opened.iter_batches(step, columns=wanted, use_threads=False):
                found, arrays = frame_of(arrow.Table.from_batches([batch])), dict[str, Any]()
                for name in filter(columns.__contains__, self.names):
                    kind = self.schema.field(name).type
                    # integers with more digits than a float are rounded, as in other files
                    own = plain(found[name]).cast(kind, safe=not arrow.types.is_floating(kind))
                    arrays[name] = own.dictionary_encode() if name in self.categorical else own
                yield arrow.table(arrays)


def find_files(path: Path, how: FileFormat) -> ParquetFolder:
    """Find the Parquet files of a folder, and check that they have the same columns.

    Subfolders, and files whose names begin with a dot or an underscore (metadata), are ignored.
    """
    names = [name for name in os.listdir(path) if name.lower().endswith((".parquet", ".pq"))]
    names = [name for name in names if name[0] not in "._" and (path / name).is_file()]
    if not names:
        deeper = next(path.glob("*/**/*.parquet"), None)
        hint = "" if deeper is None else f" (there is one in {deeper.parent})"
        raise DataError(f"it is a folder without a file that ends with .parquet or .pq{hint}")
    # 2 before 10
    names.sort(key=lambda name: (re.sub(r"\d+", lambda digits: digits[0].zfill(20), name), name))
    arrow, rows, schema, categorical = import_arrow(), dict[Path, int](), None, set[str]()
    for file in (path / name for name in names):
        with explained(f"{file.name}: "), open_parquet(file) as opened:
            if not opened.metadata.num_rows:  # columns without rows may have any type
                continue
            rows[file] = opened.metadata.num_rows
            found = frame_of(opened.schema_arrow.empty_table())
            types = {name: plain(found[name]).type for name in found.column_names}
            categorical |= {name for name in types if types[name] != found[name].type}
            own = arrow.schema(types.items())
            schema = schema or own
            for name in sorted({*own.names} ^ {*schema.names}):
                has, first = "a" if name in types else "no", next(iter(rows)).name
                said = f"it has {has} column {name!r}, unlike {first}; all files must have the same"
                raise DataError(said)
            try:
                schema = arrow.unify_schemas([schema, own], promote_options="permissive")
            except (arrow.ArrowInvalid, arrow.ArrowTypeError) as error:
                said = f"its columns differ in type from earlier files ({error})"
                raise DataError(said) from None
    if schema is None:
        raise DataError("its files have no rows")
    counts = tuple(rows.values())
    return ParquetFolder(tuple(rows), counts, schema, frozenset(categorical), how)


def _read_npz(path: Path) -> Any:
    """Return the columns of a file that numpy.savez wrote; see `read_table`."""
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise DataError("it is damaged, or was not written by numpy.savez")
        with zipfile.ZipFile(file) as archive:  # no entry unpacks to more than its file_size
            check_expansion(sum(entry.file_size for entry in archive.infolist()), file)
        file.seek(0)
        loaded = np.load(file, allow_pickle=False)
        arrays = {name: _load_array(loaded, name) for name in loaded.files}
    given, names, columns = _given_names(arrays), list[str](), list[Any]()
    for name, array in arrays.items():
        check_width(array.shape[-1] if array.ndim == 2 else 1)
        # floats and dates in the usual precision, and the byte order that Arrow takes
        native = array.dtype.newbyteorder("=")
        usual = {"M": "datetime64[us]", "f": "float64"}.get(array.dtype.kind, native)
        with np.errstate(over="ignore"):  # infinite values are refused later
            array = array.astype(usual, copy=False)
        columns += [*array.T] if array.ndim == 2 else [array]
        several = given or [f"{name}{k}" for k in range(array.shape[-1])]
        names += several if array.ndim == 2 else [name]
    if len({len(array) for array in arrays.values()}) > 1:
        rows = ", ".join(f"{name!r} has {len(array)}" for name, array in arrays.items())
        raise DataError(f"arrays must have the same number of rows, but {rows}")
    arrow, names = import_arrow(), check_names(names)
    try:
        return arrow.table([arrow.array(np.ascontiguousarray(x)) for x in columns], names=names)
    except UnicodeDecodeError:
        raise DataError("an array holds texts that are not valid Unicode") from None


def _load_array(loaded: Any, name: str) -> np.ndarray:
    """Return an array of numbers, dates or strings; others are refused, and never unpickled."""
    try:
        array = np.asarray(loaded[name])
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        said = f"array {name!r} holds Python objects, which are never loaded"
        raise DataError(f"{said}; save it as numbers or strings") from None
    # a file of a few bytes may hold any number of values of size zero
    if array.dtype.kind not in _KINDS.get(array.ndim, "") or not array.dtype.itemsize:
        said = "arrays must hold numbers, or be one-dimensional and hold dates or strings"
        raise DataError(f"array {name!r} is of type {array.dtype} and shape {array.shape}; {said}")
    return array


def _given_names(arrays: dict[str, np.ndarray]) -> list[str]:
    """Return the column names of the only matrix, if there are any, and remove their array."""
    widths = [array.shape[1] for array in arrays.values() if array.ndim == 2]
    for name in ("feature_names", "columns"):
        names = arrays.get(name)
        if names is not None and names.dtype.kind == "U" and [len(names)] == widths:
            return [str(text) for text in arrays.pop(name)]
    return []


#: Readers of binary files by extension.
READERS: dict[str, Callable[[Path], Any]] = dict.fromkeys((".parquet", ".pq"), _read_parquet)
READERS |= dict.fromkeys((".feather", ".arrow"), _read_arrow) | {".npz": _read_npz}
