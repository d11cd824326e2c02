"""Tables from Parquet and Arrow files."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from steinpath._support.files import import_pyarrow
from steinpath.app.tables.cells import parse_cells
from steinpath.app.tables.table import (
    DEFAULT_FORMAT,
    DataError,
    Table,
    TextFormat,
    check_expansion,
    check_names,
    objects,
    stripped,
    texts,
)

_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
# Bytes of columns that a file may always expand to, however small it is.
_MOST_BYTES = 2**30


def read_parquet(
    path: Path,
    as_text: Collection[str] = (),
    keep: Collection[str] = (),
    text_format: TextFormat = DEFAULT_FORMAT,
) -> Table:
    """Read a Parquet file."""
    with open_parquet(path) as opened:
        return from_arrow(opened.read(), as_text, keep, text_format=text_format)


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


def read_arrow(
    path: Path,
    as_text: Collection[str] = (),
    keep: Collection[str] = (),
    text_format: TextFormat = DEFAULT_FORMAT,
) -> Table:
    """Read an Arrow file, or an Arrow stream in a file."""
    arrow = import_arrow()
    with open(path, "rb") as file:
        whole = file.read(6) == b"ARROW1"
        file.seek(0)
        opened = arrow.ipc.open_file if whole else arrow.ipc.open_stream
        found = opened(file).read_all()
        # null and run-length encoded columns have any number of rows in a few bytes
        _check_size(8 * found.num_rows * found.num_columns, file)
        return from_arrow(found, as_text, keep, text_format=text_format)


def _check_size(size: int, file: IO[bytes]) -> None:
    """Refuse a table that is far larger than its file."""
    check_expansion(size, os.fstat(file.fileno()).st_size, _MOST_BYTES)


def import_arrow() -> Any:
    """Return pyarrow with its file modules."""
    return import_pyarrow("Parquet and Arrow files", "files", DataError)


def from_arrow(
    found: Any,
    as_text: Collection[str] = (),
    keep: Collection[str] = (),
    categorical: Collection[str] | None = None,
    text_format: TextFormat = DEFAULT_FORMAT,
) -> Table:
    """Convert an Arrow table or record batch.

    Parameters
    ----------
    found : pyarrow.Table or pyarrow.RecordBatch
        The columns.
    as_text, keep, text_format
        As for `read_table`.
    categorical : collection of str, optional
        Columns that are categories, whatever they hold; by default those of the schema.
    """
    if isinstance(found, import_arrow().RecordBatch):
        found = import_arrow().Table.from_batches([found])
    found.validate(full=True)  # damaged files may otherwise crash the interpreter
    kept = [k for k, name in enumerate(found.column_names) if not is_index(name)]
    names = check_names([found.column_names[k] for k in kept])
    if categorical is None:
        categorical = categorical_columns(found.schema)
    table = Table({}, text_format=text_format)
    for name, k in zip(names, kept, strict=True):
        column = found.column(k)
        kind, types = column.type, import_arrow().types
        if name in as_text and types.is_integer(kind):
            column = column.cast(import_arrow().string())
        values = _from_arrow_column(name, column)
        if found.column_names[k] in categorical:
            values = texts(values)
        elif values.dtype == object:
            values = parse_cells(name, [cell or "" for cell in values], table, name in as_text)
        table.columns[name] = values
        if name in keep:
            table.cells[name] = _cells(found.column(k), values)
    return table


def _cells(column: Any, values: np.ndarray) -> np.ndarray:
    """Return a column as texts, integers with all their digits."""
    kind, types = column.type, import_arrow().types
    if types.is_dictionary(kind):
        return _cells(column.cast(kind.value_type), values)
    if types.is_floating(kind) or types.is_date(kind) or types.is_timestamp(kind):
        return texts(values)
    return objects(column.cast(import_arrow().string()).to_pylist())


def is_index(name: str) -> bool:
    """Whether a column is an unnamed pandas index."""
    return _PANDAS_INDEX.fullmatch(name) is not None


def categorical_columns(schema: Any) -> set[str]:
    """Return the categorical columns, also numeric ones of pandas, which Parquet does not mark."""
    columns = (schema.pandas_metadata or {}).get("columns", ())
    written = {one["field_name"] for one in columns if one["pandas_type"] == "categorical"}
    is_dictionary = import_arrow().types.is_dictionary
    return written | {field.name for field in schema if is_dictionary(field.type)}


def _from_arrow_column(name: str, column: Any) -> np.ndarray:
    arrow = import_arrow()
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
            f"column {name!r} is of type {kind}; columns must hold numbers, dates, strings or "
            "booleans"
        )
    return stripped(column.to_pylist())
