"""Tables from NumPy .npz files, data frames and mappings."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Collection, Mapping
from datetime import date, datetime
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from steinpath.app.tables.arrow import from_arrow
from steinpath.app.tables.cells import in_utc, parse_cells
from steinpath.app.tables.table import (
    DEFAULT_FORMAT,
    DataError,
    Table,
    TextFormat,
    check_expansion,
    check_names,
    check_values,
    check_width,
    objects,
    stripped,
    texts,
)

# Arrays of an .npz file that may hold the column names of its matrix.
_NAMES_OF_COLUMNS = ("feature_names", "columns")
# Bytes of arrays that a file may always expand to, however small it is.
_MOST_BYTES = 2**30


def as_table(
    data: Any, as_text: Collection[str] = (), text_format: TextFormat = DEFAULT_FORMAT
) -> Table:
    """Convert a data frame or a mapping of columns to a table.

    Parameters
    ----------
    data : DataFrame, LazyFrame, pyarrow.Table, mapping of columns by name, or Table
        Columns of numbers, dates, texts or booleans; texts that are all numbers or dates are
        parsed, as in a file. Lazy frames are collected.
    as_text : collection of str
        Columns whose texts and integers are labels, kept as they are.
    text_format : TextFormat
        How texts are parsed.

    Raises
    ------
    DataError
        If a column holds anything else, or names are not unique.
    """
    if isinstance(data, Table):
        return data
    # look at the type, since columns of a pandas frame are attributes of the instance
    if hasattr(type(data), "collect") and hasattr(type(data), "collect_schema"):
        data = data.collect()  # a polars LazyFrame
    if hasattr(type(data), "column_names"):  # Arrow
        try:
            table = from_arrow(data, as_text, text_format=text_format)
        except (ValueError, NotImplementedError) as error:  # from Arrow, such as about times
            raise error if isinstance(error, DataError) else DataError(str(error)) from None
        check_values(table)
        return table
    if not isinstance(data, Mapping) and not hasattr(data, "columns"):
        raise TypeError(
            "data must be a data frame, a pyarrow.Table, or a mapping of names to columns, "
            f"got {type(data).__name__}"
        )
    keys = list(data.keys() if isinstance(data, Mapping) else data.columns)
    table = Table({}, text_format=text_format)
    for key, name in zip(keys, check_names([str(key) for key in keys]), strict=True):
        try:
            column = _from_values(data[key], name in as_text)
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, DataError):
                raise DataError(f"column {name!r:.60} {error}") from None
            raise DataError(
                f"column {name!r:.60} must hold only numbers, only dates, only strings or only "
                "booleans"
            ) from None
        table.columns[name] = _parsed(name, column, table, name in as_text)
    if len({len(values) for values in table.columns.values()}) > 1:
        raise DataError("the columns must have the same length")
    check_values(table)
    return table


def _from_values(values: Any, as_text: bool) -> np.ndarray:
    """Convert a column of a data frame, a mapping, or anything that NumPy accepts."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.array(values.tolist(), object)  # masked values become None
    array = np.asarray(values)
    if array.ndim != 1:
        raise DataError(f"has shape {array.shape}; it must be a vector")
    return _from_array(_named(array) if as_text else array)


def _parsed(name: str, column: np.ndarray, table: Table, as_text: bool) -> np.ndarray:
    """Parse a column of texts; return other columns unchanged."""
    if column.dtype != object:
        return column
    return parse_cells(name, [cell or "" for cell in column], table, as_text)


def _named(array: np.ndarray) -> np.ndarray:
    """Return integers as texts with all their digits, and other arrays unchanged."""
    return array.astype(str) if array.dtype.kind in "iu" else array


def _from_objects(array: np.ndarray) -> np.ndarray:
    """Convert a column of Python objects of one type, or missing."""
    # missing values of pandas cannot be compared, not even with themselves
    gaps = np.array([x is None or str(x) in ("nan", "NaN", "<NA>", "NaT") for x in array], bool)
    present = array[~gaps].tolist()
    for kinds, dtype in _KINDS_OF_OBJECTS:
        # Python booleans are numbers, too
        if all(isinstance(x, kinds) and (dtype == "?" or not isinstance(x, bool)) for x in present):
            break
    else:
        raise TypeError
    if dtype == "M8[us]":
        present = [in_utc(x) if isinstance(x, datetime) else x for x in present]
    found = _from_array(np.array(present, dtype))
    empty = {"f": np.nan, "M": np.datetime64("NaT", "us")}.get(found.dtype.kind)
    column = np.full(len(array), empty, found.dtype)
    column[~gaps] = found
    return column


# Types of Python objects that a column may hold, one of them alone, and the array type of each.
_KINDS_OF_OBJECTS: tuple[tuple[Any, str], ...] = (
    (str, "U"),
    ((bool, np.bool_), "?"),
    ((Real, Decimal), "f8"),
    ((date, np.datetime64), "M8[us]"),
)


def read_npz(
    path: Path,
    as_text: Collection[str] = (),
    keep: Collection[str] = (),
    text_format: TextFormat = DEFAULT_FORMAT,
) -> Table:
    """Read a file that numpy.savez wrote."""
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise DataError("it is damaged, or was not written by numpy.savez")
        with zipfile.ZipFile(file) as archive:  # no entry unpacks to more than its file_size
            unpacked = sum(entry.file_size for entry in archive.infolist())
        check_expansion(unpacked, os.fstat(file.fileno()).st_size, _MOST_BYTES)
        file.seek(0)
        loaded = np.load(file, allow_pickle=False)
        arrays = {name: _load_array(loaded, name) for name in loaded.files}
    given = _given_names(arrays)
    rows = {name: len(array) for name, array in arrays.items()}
    first = next(iter(rows), "")
    for name, count in rows.items():
        if count != rows[first]:
            raise DataError(
                f"array {name!r} has {count} rows, but {first!r} has {rows[first]}; arrays must "
                "have the same number of rows"
            )
    names, columns = [], []
    for name, array in arrays.items():
        if array.ndim == 1:
            names.append(name)
            columns.append(array)
        else:
            check_width(array.shape[1])
            names += given or [f"{name}{k}" for k in range(array.shape[1])]
            columns += list(array.T)
    table = Table({}, text_format=text_format)
    for name, array in zip(check_names(names), columns, strict=True):
        column = _from_array(_named(array) if name in as_text else array)
        table.columns[name] = _parsed(name, column, table, name in as_text)
        if name in keep:
            table.cells[name] = _cells(array)
    return table


def _cells(array: np.ndarray) -> np.ndarray:
    """Return a column as texts, integers with all their digits."""
    if array.dtype.kind in "iuU":
        return objects(array.astype(str).tolist())
    return texts(_from_array(array))


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
    kinds = "biufUM" if array.ndim == 1 else "biuf"
    # a file of a few bytes may hold any number of values of size zero
    sound = array.dtype.kind in kinds and array.dtype.itemsize > 0
    if not sound or array.ndim not in (1, 2):
        raise DataError(
            f"array {name!r} is of type {array.dtype} and shape {array.shape}; arrays must hold "
            "numbers, or be one-dimensional and hold dates or strings"
        )
    return array


def _given_names(arrays: dict[str, np.ndarray]) -> list[str]:
    """Return the column names of the only matrix, if there are any, and remove their array."""
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    naming = next((name for name in _NAMES_OF_COLUMNS if name in arrays), None)
    if len(matrices) != 1 or naming is None or arrays[naming].dtype.kind != "U":
        return []
    names, count = arrays.pop(naming).tolist(), arrays[matrices[0]].shape[1]
    if len(names) != count:
        raise DataError(
            f"array {naming!r} has {len(names)} names, but {matrices[0]!r} has {count} columns; "
            "there must be one name for each column"
        )
    return [str(name) for name in names]


def _from_array(array: np.ndarray) -> np.ndarray:
    if array.dtype == object:
        return _from_objects(array)
    if array.dtype.kind == "M":
        return array.astype("datetime64[us]")
    if array.dtype.kind == "U":
        return stripped(array.tolist())
    if array.dtype.kind == "b":
        return objects(["true" if value else "false" for value in array])
    if array.dtype.kind not in "iuf":
        raise TypeError(f"a column cannot be of type {array.dtype}")
    with np.errstate(over="ignore"):  # extended precision; infinite values are refused later
        return array.astype(float)
