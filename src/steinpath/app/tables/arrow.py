"""Tables from Parquet and Arrow files."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any

import numpy as np

from steinpath._support.files import import_pyarrow
from steinpath.app.tables.table import (
    DataError,
    Table,
    check_expansion,
    check_names,
    objects,
    stripped,
    texts,
)
from steinpath.app.tables.text import parse_cells

# Where pandas keeps row labels that have no name.
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
# Bytes of columns that a file may always hold, however small it is.
_MOST_BYTES = 2**30


def read_parquet(path: Path, as_text: Collection[str] = (), keep: Collection[str] = ()) -> Table:
    """Read a Parquet file."""
    arrow = _pyarrow()
    # as a file and not by its name, which may be taken for that of a part of a larger table
    with open(path, "rb") as file:
        opened = arrow.parquet.ParquetFile(file, page_checksum_verification=True)
        about = opened.metadata
        groups = [about.row_group(k) for k in range(about.num_row_groups)]
        rows = max(about.num_rows, sum(group.num_rows for group in groups))
        stored = sum(group.total_byte_size for group in groups)
        _check_size(max(stored, 8 * rows * about.num_columns), file)
        return from_arrow(opened.read(), as_text, keep)


def read_arrow(path: Path, as_text: Collection[str] = (), keep: Collection[str] = ()) -> Table:
    """Read an Arrow file, or a stream of Arrow kept in a file."""
    arrow = _pyarrow()
    with open(path, "rb") as file:
        whole = file.read(6) == b"ARROW1"
        file.seek(0)
        opened = arrow.ipc.open_file if whole else arrow.ipc.open_stream
        found = opened(file).read_all()
        # columns of nothing, or of runs, have any number of rows in a few bytes
        _check_size(8 * found.num_rows * found.num_columns, file)
        return from_arrow(found, as_text, keep)


def _check_size(size: int, file: IO[bytes]) -> None:
    """Refuse columns that are far larger than their file."""
    check_expansion(size, os.fstat(file.fileno()).st_size, _MOST_BYTES)


def _pyarrow() -> Any:
    return import_pyarrow("such files", "files", DataError)


def from_arrow(found: Any, as_text: Collection[str] = (), keep: Collection[str] = ()) -> Table:
    """Return a table of Arrow's, or one of its batches, as a table."""
    if isinstance(found, _pyarrow().RecordBatch):
        found = _pyarrow().Table.from_batches([found])
    found.validate(full=True)  # damaged files may otherwise end the interpreter
    kept = [k for k, name in enumerate(found.column_names) if not _PANDAS_INDEX.fullmatch(name)]
    names = check_names([found.column_names[k] for k in kept])
    categorical = _categorical(found.schema)
    table = Table({})
    for name, k in zip(names, kept, strict=True):
        column = found.column(k)
        kind, types = column.type, _pyarrow().types
        if name in as_text and types.is_integer(kind):
            column = column.cast(_pyarrow().string())
        values = _from_arrow_column(name, column)
        if found.column_names[k] in categorical or types.is_dictionary(kind):
            values = texts(values)
        elif values.dtype == object:
            values = parse_cells(name, [cell or "" for cell in values], table, name in as_text)
        table.columns[name] = values
        if name in keep:
            table.cells[name] = _cells(found.column(k), values)
    return table


def _cells(column: Any, values: np.ndarray) -> np.ndarray:
    """Return the texts of a column, with all digits of numbers that a float may not have."""
    kind, types = column.type, _pyarrow().types
    if types.is_dictionary(kind):
        return _cells(column.cast(kind.value_type), values)
    if types.is_floating(kind) or types.is_date(kind) or types.is_timestamp(kind):
        return texts(values)
    return objects(column.cast(_pyarrow().string()).to_pylist())


def _categorical(schema: Any) -> set[str]:
    """Columns that pandas wrote as categories, also of numbers, which Parquet does not keep."""
    columns = (schema.pandas_metadata or {}).get("columns", ())
    return {one["field_name"] for one in columns if one["pandas_type"] == "categorical"}


def _from_arrow_column(name: str, column: Any) -> np.ndarray:
    arrow = _pyarrow()
    kind, types = column.type, arrow.types
    if types.is_dictionary(kind):
        return _from_arrow_column(name, column.cast(kind.value_type))
    if types.is_null(kind):
        return objects([None] * len(column))
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return np.array(column.cast(arrow.float64(), safe=False).to_numpy())
    if types.is_date(kind) or types.is_timestamp(kind):
        finer = types.is_timestamp(kind) and kind.unit == "ns"
        return np.array(column.cast(arrow.timestamp("us"), safe=not finer).to_numpy())
    if types.is_boolean(kind):
        column = column.cast(arrow.string())
    elif not (types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)):
        raise DataError(
            f"column {name!r} is of type {kind}; columns must hold numbers, dates, texts or "
            "true and false"
        )
    return stripped(column.to_pylist())
