"""Tables from arrays: those of an .npz file, and the columns of a data frame or a mapping."""

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
from steinpath.app.tables.table import (
    DataError,
    Table,
    check_expansion,
    check_names,
    check_values,
    check_width,
    objects,
    stripped,
    texts,
)
from steinpath.app.tables.text import in_utc, parse_cells

# What may name the columns of a matrix in an .npz file.
_NAMES_OF_COLUMNS = ("feature_names", "columns")
# Bytes of arrays that a file may always hold, however small it is.
_MOST_BYTES = 2**30


def as_table(data: Any, as_text: Collection[str] = ()) -> Table:
    """Return the columns of a data frame, or of a mapping, as a table.

    Parameters
    ----------
    data : DataFrame, LazyFrame, pyarrow.Table, mapping of columns by name, or Table
        Columns of numbers, dates, texts, or true and false; texts that are all numbers or dates are
        read as such, as in a file. What is lazy is collected.
    as_text : collection of str
        Columns whose texts and whole numbers are kept as they are, since they are names.

    Raises
    ------
    DataError
        If a column holds anything else, or several have the same name.
    """
    if isinstance(data, Table):
        return data
    # of the type, since the columns of pandas are attributes, too
    if hasattr(type(data), "collect") and hasattr(type(data), "collect_schema"):
        data = data.collect()  # polars, lazily
    if hasattr(type(data), "column_names"):  # Arrow
        try:
            table = from_arrow(data, as_text)
        except (ValueError, NotImplementedError) as error:  # of Arrow, about times, say
            raise error if isinstance(error, DataError) else DataError(str(error)) from None
        check_values(table)
        return table
    if not isinstance(data, Mapping) and not hasattr(data, "columns"):
        raise TypeError(
            "data must be a data frame, a pyarrow.Table, or a mapping of columns by their names, "
            f"got {type(data).__name__}"
        )
    keys = list(data.keys() if isinstance(data, Mapping) else data.columns)
    table = Table({})
    for key, name in zip(keys, check_names([str(key) for key in keys]), strict=True):
        try:
            column = _from_values(data[key], name in as_text)
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, DataError):
                raise DataError(f"column {name!r:.60} {error}") from None
            raise DataError(
                f"column {name!r:.60} must hold numbers, dates, texts, or true and false, and no "
                "mixture of them"
            ) from None
        table.columns[name] = _parsed(name, column, table, name in as_text)
    if len({len(values) for values in table.columns.values()}) > 1:
        raise DataError("the columns must be of the same length")
    check_values(table)
    return table


def _from_values(values: Any, as_text: bool) -> np.ndarray:
    """Return a column of a data frame, of a mapping, or of anything that NumPy takes."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.array(values.tolist(), object)  # None where it is masked
    array = np.asarray(values)
    if array.ndim != 1:
        raise DataError(f"has shape {array.shape}; it must be a vector")
    return _from_array(_named(array) if as_text else array)


def _parsed(name: str, column: np.ndarray, table: Table, as_text: bool) -> np.ndarray:
    """Return what the texts of a column say, and anything else as it is."""
    if column.dtype != object:
        return column
    return parse_cells(name, [cell or "" for cell in column], table, as_text)


def _named(array: np.ndarray) -> np.ndarray:
    """Return whole numbers as texts, which have all digits, and anything else as it is."""
    return array.astype(str) if array.dtype.kind in "iu" else array


def _from_objects(array: np.ndarray) -> np.ndarray:
    """Return a column of Python objects: of one kind, or missing."""
    # pandas has missing values of its own, which are neither equal nor unequal to themselves
    gaps = np.array([x is None or str(x) in ("nan", "NaN", "<NA>", "NaT") for x in array], bool)
    present = array[~gaps].tolist()
    for kinds, dtype in _KINDS_OF_OBJECTS:
        # true and false are numbers to Python
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


# What may be in a column of Python objects, one of these alone, and the array that it becomes.
_KINDS_OF_OBJECTS: tuple[tuple[Any, str], ...] = (
    (str, "U"),
    ((bool, np.bool_), "?"),
    ((Real, Decimal), "f8"),
    ((date, np.datetime64), "M8[us]"),
)


def read_npz(path: Path, as_text: Collection[str] = (), keep: Collection[str] = ()) -> Table:
    """Read what numpy.savez wrote."""
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise DataError("it is damaged, or not written by numpy.savez")
        with zipfile.ZipFile(file) as archive:  # no more than this is ever unpacked of each
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
                f"array {name!r} has {count} rows, and {first!r} has {rows[first]}; all must have "
                "the same number"
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
    table = Table({})
    for name, array in zip(check_names(names), columns, strict=True):
        column = _from_array(_named(array) if name in as_text else array)
        table.columns[name] = _parsed(name, column, table, name in as_text)
        if name in keep:
            table.cells[name] = _cells(array)
    return table


def _cells(array: np.ndarray) -> np.ndarray:
    """Return a column as texts, with all digits of numbers that a float may not have."""
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
            f"array {name!r} holds Python objects, which are never loaded; make it one of numbers "
            "or texts"
        ) from None
    if not isinstance(array, np.ndarray):
        raise DataError(f"{name!r} is no array")
    kinds = "biufUM" if array.ndim == 1 else "biuf"
    # of values without a size there may be any number in a file of a few bytes
    sound = array.dtype.kind in kinds and array.dtype.itemsize > 0
    if not sound or array.ndim not in (1, 2):
        raise DataError(
            f"array {name!r} is of type {array.dtype} and shape {array.shape}; arrays must hold "
            "numbers, or have one dimension and hold dates or texts"
        )
    return array


def _given_names(arrays: dict[str, np.ndarray]) -> list[str]:
    """Take out names for the columns of the only matrix, if there are both."""
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    naming = next((name for name in _NAMES_OF_COLUMNS if name in arrays), None)
    if len(matrices) != 1 or naming is None or arrays[naming].dtype.kind != "U":
        return []
    names, count = arrays.pop(naming).tolist(), arrays[matrices[0]].shape[1]
    if len(names) != count:
        raise DataError(
            f"array {naming!r} has {len(names)} names, and {matrices[0]!r} has {count} columns; "
            "there must be one for each"
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
        raise TypeError(f"no column is of {array.dtype}")
    with np.errstate(over="ignore"):  # of extended precision; what is then infinite is refused
        return array.astype(float)
