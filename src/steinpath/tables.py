"""Tables from files: named columns of numbers, dates or texts, and where in the file each row is.

Nothing in a file is ever run: arrays that would have to be unpickled are refused.
"""

from __future__ import annotations

import csv
import gzip
import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

# What stands for a missing value in a text file.
_MISSING = frozenset(
    ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "#N/A", "?", "-nan"),
)
_DELIMITERS = ",;\t|"
_DECIMAL_COMMA = re.compile(r"-?\d+,\d+")
# Where pandas keeps row labels that have no name.
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
# What may name the columns of a matrix in an .npz file.
_NAMES_OF_COLUMNS = ("feature_names", "columns")


class DataError(ValueError):
    """Data that cannot be used; the message, of one line, says why and what would be right."""

    def __init__(self, message: str):
        super().__init__(" ".join(message.splitlines()))


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length, each of one kind.

    Attributes
    ----------
    columns : dict of str to ndarray of shape (n,)
        In the order of the file: numbers (float64, missing ones NaN), dates and times
        (datetime64[us], missing ones NaT), or texts (object, missing ones None). Of a column of a
        text file without any value, all are None.
    lines : ndarray of int of shape (n,), optional
        The line of the file in which each row starts; None if the file has no lines.
    """

    columns: dict[str, np.ndarray]
    lines: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()), ()))

    def place(self, row: int) -> str:
        """Where a row, counted from 0, is in the file: such as "line 17" or "row 17"."""
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"


def read_table(file: str | os.PathLike[str]) -> Table:
    """Read a table from a file.

    Parameters
    ----------
    file : str or path
        Its ending, in small or capital letters, says what it is: text with a header (.csv, .txt,
        .tsv, .tab, .csv.gz, .tsv.gz), Parquet (.parquet, .pq), Arrow (.feather, .arrow) or arrays
        of NumPy (.npz).

    Raises
    ------
    DataError
        If it cannot be read, or has no rows.

    Notes
    -----
    A column of text files holds numbers, or dates in ISO format, if all of its cells do that are
    not missing; times are converted to UTC where their zone is given. Columns without a name are
    called "column 1", and so on, after their position.

    In .npz files, arrays of one dimension are columns, and those of two are several: X gives X0,
    X1, and so on, unless it is the only one and its columns are named by an array `feature_names`
    or `columns`.
    """
    path = Path(file)
    read = next((_READERS[end] for end in _READERS if path.name.lower().endswith(end)), None)
    if read is None:
        known = ", ".join(_READERS)
        raise DataError(f"cannot read {path}: the endings of files that can be read are {known}")
    try:
        table = read(path)
        _check_values(table)
    except DataError as error:
        raise DataError(f"cannot read {path}: {error}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except MemoryError as error:
        raise DataError(f"cannot read {path}: it needs more memory than there is") from error
    # whatever the libraries may raise: for damaged files, that is not documented
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise DataError(f"cannot read {path}: it may be damaged ({reason:.200})") from error
    return table


def as_table(data: Any) -> Table:
    """Return the columns of a data frame, or of a mapping, as a table.

    Parameters
    ----------
    data : DataFrame, mapping of columns by name, or Table
        Columns of numbers, dates, texts, or true and false.

    Raises
    ------
    DataError
        If a column holds anything else.
    """
    if isinstance(data, Table):
        return data
    if not isinstance(data, Mapping) and not hasattr(data, "columns"):
        raise TypeError(
            "data must be a data frame, or a mapping of columns by their names, got "
            f"{type(data).__name__}"
        )
    names = list(data.keys() if isinstance(data, Mapping) else data.columns)
    columns = {}
    for name in names:
        array = np.asarray(data[name])
        if array.ndim != 1:
            raise DataError(f"column {name!r:.60} has shape {array.shape}; it must be a vector")
        try:
            columns[str(name)] = _from_array(array) if array.dtype != object else _mixed(array)
        except (TypeError, ValueError, OverflowError):
            raise DataError(
                f"column {name!r:.60} must hold numbers, dates, texts, or true and false, and no "
                "mixture of them"
            ) from None
    if len({len(values) for values in columns.values()}) > 1:
        raise DataError("the columns must be of the same length")
    table = Table(columns)
    _check_values(table)
    return table


def missing(values: np.ndarray) -> np.ndarray:
    """Return which values of a column are missing, as booleans."""
    if values.dtype == object:
        return np.fromiter((value is None for value in values), bool, len(values))
    return np.asarray(np.isnat(values) if values.dtype.kind == "M" else np.isnan(values))


def texts(values: np.ndarray) -> np.ndarray:
    """Return a column as texts: whole numbers without a point, days without a time."""
    if values.dtype == object:
        return values
    text = _date_text if values.dtype.kind == "M" else _number_text
    gaps = missing(values)
    return _objects([None if gap else text(value) for value, gap in zip(values, gaps, strict=True)])


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    return _numbers([text]) is not None


def is_date(text: str) -> bool:
    """Whether a text is a date, or a date with a time, in ISO format."""
    return _dates([text]) is not None


def _number_text(number: float) -> str:
    whole = number.is_integer() and abs(number) < 2**53
    return f"{int(number)}" if whole else repr(float(number))


def _date_text(date: np.datetime64) -> str:
    return str(date).removesuffix("T00:00:00.000000")


def _objects(values: Sequence[str | None]) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _check_names(names: Sequence[str]) -> list[str]:
    """Return the names of columns, none of them blank, and refuse names that occur twice."""
    stripped = [name.strip() or f"column {k}" for k, name in enumerate(names, start=1)]
    twice = [name for name, count in Counter(stripped).items() if count > 1]
    if twice:
        raise DataError(f"several columns are called {twice[0]!r}; every name must be another")
    return stripped


def _check_values(table: Table) -> None:
    if not table.columns:
        raise DataError("it has no columns")
    if not table.n_rows:
        raise DataError("it has no rows")
    for name, values in table.columns.items():
        if values.dtype.kind == "f" and np.any(infinite := np.isinf(values)):
            place = table.place(int(np.argmax(infinite)))
            raise DataError(
                f"column {name!r} has a number that is not finite, in {place}; all must be finite, "
                "or missing"
            )


# ------------------------------------------------------------------------------------------------
# Text
# ------------------------------------------------------------------------------------------------


def _read_text(path: Path, delimiter: str | None = None) -> Table:
    try:
        with _open_text(path) as file:
            if delimiter is None:
                delimiter = _delimiter(next(filter(str.strip, file), ""))
                file.seek(0)
            return _parse_text(file, delimiter)
    except UnicodeDecodeError:
        _refuse_encoding(path)
        raise


def _open_text(path: Path) -> IO[str]:
    # line ends are left to the csv module, which tells those within quotes from others
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return open(path, encoding="utf-8-sig", newline="")


def _refuse_encoding(path: Path) -> None:
    """Say where a file is not UTF-8; the decoder, which reads ahead, does not know."""
    opened: Any = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                raise DataError(
                    f"line {number} is not UTF-8: its byte {error.start + 1} is "
                    f"0x{line[error.start]:02x}; save the file as UTF-8"
                ) from None


def _delimiter(header: str) -> str:
    """Whichever occurs most in the header, outside of quotes."""
    unquoted = re.sub('"[^"]*("|$)', "", header)
    return max(_DELIMITERS, key=unquoted.count)


def _parse_text(file: IO[str], delimiter: str) -> Table:
    records = _records(file, delimiter)
    _, header = next(records, (0, []))
    if not header:
        raise DataError("it is empty; the first line must name the columns")
    names = _check_names(header)
    if all(is_number(name) for name in header if name.strip()):
        raise DataError(f"the first line must name the columns, and has numbers: {header[-1]!r}")
    lines, rows = [], []
    for line, row in records:
        if len(row) != len(names):
            cells = f"{len(row)} cell{'s' * (len(row) > 1)}"
            raise DataError(f"line {line} has {cells}, and the header names {len(names)} columns")
        lines.append(line)
        rows.append(row)
    table = Table({}, np.array(lines, int))
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    del rows
    for name in names:
        # each column of cells goes as soon as it is converted
        table.columns[name] = _parse_cells(name, columns.pop(0), table)
    return table


def _records(file: IO[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Cells of each row, and the line in which it starts; blank lines are skipped."""
    reader = csv.reader(_lines(file), delimiter=delimiter, skipinitialspace=True, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                f"line {line}: {error}; is there a quotation mark that is not closed, or one too "
                "many?"
            ) from None
        if len(row) > 1 or "".join(row).strip():
            yield line, row


def _lines(file: IO[str]) -> Iterator[str]:
    for number, line in enumerate(file, start=1):
        if "\0" in line:
            raise DataError(f"line {number} has a NUL byte; is this a text file, in UTF-8?")
        yield line


def _parse_cells(name: str, cells: Sequence[str], table: Table) -> np.ndarray:
    """Numbers if all cells are, or else dates if all are, or else texts."""
    numbers = _numbers(cells)  # of most columns, at once
    if numbers is None:
        stripped = (cell.strip() for cell in cells)
        values = _objects([None if cell in _MISSING else cell for cell in stripped])
        gaps = missing(values)
        numbers = _numbers(np.where(gaps, "nan", values))
    else:
        gaps = np.isnan(numbers)
    if gaps.all():
        return _objects([None] * len(cells))
    if numbers is not None:
        return numbers
    present = values[~gaps]
    dates = _dates(present)
    if dates is not None:
        found = np.full(len(values), "NaT", "datetime64[us]")
        found[~gaps] = dates
        return found
    commas = [_DECIMAL_COMMA.fullmatch(cell) is not None for cell in present]
    if 2 * sum(commas) > len(commas):
        first = int(np.flatnonzero(~gaps)[commas.index(True)])
        raise DataError(
            f"column {name!r} has numbers with a decimal comma (first in {table.place(first)}: "
            f"{values[first]!r}); write them with a point, and thousands without a separator"
        )
    if {cell.lower() for cell in present} <= {"false", "true"}:  # as they are called elsewhere
        values[~gaps] = [cell.lower() for cell in present]
    return values


def _numbers(cells: Sequence[str] | np.ndarray) -> np.ndarray | None:
    """Return all cells as numbers, or None."""
    try:
        numbers = np.fromiter(map(float, cells), float, len(cells))
    except ValueError:
        return None
    return None if "_" in "".join(cells) else numbers  # which Python takes for a number, too


def _dates(cells: Sequence[str] | np.ndarray) -> np.ndarray | None:
    """Return all cells as dates in UTC, or None."""
    dates = []
    for cell in cells:
        if "-" not in cell:
            return None
        try:
            date = datetime.fromisoformat(cell)
            dates.append(date if date.tzinfo is None else date.astimezone(UTC).replace(tzinfo=None))
        except (ValueError, OverflowError):
            return None
    return np.array(dates, "datetime64[us]")


# ------------------------------------------------------------------------------------------------
# Parquet and Arrow
# ------------------------------------------------------------------------------------------------


def _read_parquet(path: Path) -> Table:
    arrow = _pyarrow()
    # as a file and not by its name, which may be taken for that of a part of a larger table
    with open(path, "rb") as file:
        opened = arrow.parquet.ParquetFile(file, page_checksum_verification=True)
        return _from_arrow(opened.read())


def _read_arrow(path: Path) -> Table:
    arrow = _pyarrow()
    with open(path, "rb") as file:
        whole = file.read(6) == b"ARROW1"
        file.seek(0)
        opened = arrow.ipc.open_file if whole else arrow.ipc.open_stream
        return _from_arrow(opened(file).read_all())


def _pyarrow() -> Any:
    try:
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise DataError("such files need pyarrow: pip install 'steinpath[files]'") from None
    return pyarrow


def _from_arrow(found: Any) -> Table:
    found.validate(full=True)  # damaged files may otherwise end the interpreter
    kept = [k for k, name in enumerate(found.column_names) if not _PANDAS_INDEX.fullmatch(name)]
    names = _check_names([found.column_names[k] for k in kept])
    categorical = _categorical(found.schema)
    table = Table({})
    for name, k in zip(names, kept, strict=True):
        values = _from_arrow_column(name, found.column(k))
        table.columns[name] = texts(values) if found.column_names[k] in categorical else values
    return table


def _categorical(schema: Any) -> set[str]:
    """Columns that pandas wrote as categories, also of numbers, which Parquet does not keep."""
    columns = (schema.pandas_metadata or {}).get("columns", ())
    return {one["field_name"] for one in columns if one["pandas_type"] == "categorical"}


def _from_arrow_column(name: str, column: Any) -> np.ndarray:
    arrow = _pyarrow()
    kind, types = column.type, arrow.types
    if types.is_dictionary(kind):
        return texts(_from_arrow_column(name, column.cast(kind.value_type)))
    if types.is_null(kind):
        return _objects([None] * len(column))
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
    return _stripped(column.to_pylist())


def _stripped(values: Sequence[str | None]) -> np.ndarray:
    return _objects([(value or "").strip() or None for value in values])


# ------------------------------------------------------------------------------------------------
# Arrays of NumPy
# ------------------------------------------------------------------------------------------------


def _read_npz(path: Path) -> Table:
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise DataError("it is damaged, or not written by numpy.savez")
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
            columns.append(_from_array(array))
        else:
            names += given or [f"{name}{k}" for k in range(array.shape[1])]
            columns += [_from_array(column) for column in array.T]
    return Table(dict(zip(_check_names(names), columns, strict=True)))


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
    if array.dtype.kind not in kinds or array.ndim not in (1, 2):
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


def _mixed(array: np.ndarray) -> np.ndarray:
    """Return a column of Python objects: of one kind, or missing."""
    # pandas has missing values of its own, which are neither equal nor unequal to themselves
    gaps = np.array([value is None or str(value) in ("nan", "<NA>", "NaT") for value in array])
    kinds = np.array(array[~gaps].tolist() or [None])
    if kinds.dtype.kind == "O" and gaps.all():
        return _objects([None] * len(array))
    if kinds.dtype.kind == "U" and not all(isinstance(value, str) for value in array[~gaps]):
        raise TypeError
    found = _from_array(kinds.astype("datetime64[us]") if kinds.dtype == object else kinds)
    empty = {"f": np.nan, "M": np.datetime64("NaT", "us")}.get(found.dtype.kind)
    column = np.full(len(array), empty, found.dtype)
    column[~gaps] = found
    return column


def _from_array(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind == "M":
        return array.astype("datetime64[us]")
    if array.dtype.kind == "U":
        return _stripped(array.tolist())
    if array.dtype.kind == "b":
        return _objects(["true" if value else "false" for value in array])
    if array.dtype.kind not in "iuf":
        raise TypeError(f"no column is of {array.dtype}")
    return array.astype(float)


_READERS: dict[str, Callable[[Path], Table]] = {
    ".csv": _read_text,
    ".txt": _read_text,
    ".csv.gz": _read_text,
    ".tsv": partial(_read_text, delimiter="\t"),
    ".tab": partial(_read_text, delimiter="\t"),
    ".tsv.gz": partial(_read_text, delimiter="\t"),
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
    ".feather": _read_arrow,
    ".arrow": _read_arrow,
    ".npz": _read_npz,
}
