"""Tables in memory, how files are read, and checks of every table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from operator import itemgetter
from typing import Any

import numpy as np

from steinpath._support.cells import TextFormat, read_column, texts
from steinpath._support.files import import_pyarrow
from steinpath._support.messages import DataError, Message

# More columns could not be fitted, and such a header alone exhausts memory.
_MOST_COLUMNS = 2**20
# How much larger than its file a table may be. Uncompressed booleans expand 64 times, from a bit to
# a float each; a decompression bomb expands a thousand times or more.
_MOST_EXPANSION = 100


@dataclass(frozen=True)
class FileFormat(TextFormat):
    """How files are read: how their cells are written, and delimiter and encoding of text files."""

    delimiter: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise DataError(f"the delimiter must be one character, got {self.delimiter!r:.20}")
        try:
            "".encode(self.encoding or "utf-8")
        except (LookupError, ValueError):
            raise DataError(f"unknown encoding {self.encoding!r:.60}") from None

    @property
    def of_cells(self) -> dict[str, Any]:
        """The options of cells, which are parameters of `TableEncoder`."""
        return {each.name: getattr(self, each.name) for each in fields(TextFormat)}

    def to_json(self) -> dict[str, Any]:
        """Return the options that differ from their defaults."""
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def from_json(cls, entries: Any) -> FileFormat:
        """Return the options that `to_json` wrote; raise `DataError` if they are not valid."""
        names = [each.name for each in fields(cls)]
        if not isinstance(entries, dict) or not set(entries) <= set(names):
            raise DataError(f"its 'reading' can only have {', '.join(names)}, got {entries!r:.60}")
        na = entries.get("na", [])
        values = [value for name, value in entries.items() if name != "na"]
        if not isinstance(na, list) or not all(isinstance(each, str) for each in [*na, *values]):
            raise DataError("its 'reading' has a value that is not a string")
        return cls(**entries | {"na": tuple(na)})


#: The usual format: delimiter and encoding detected, a decimal point, ISO dates.
DEFAULT_FORMAT = FileFormat()


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a file, how they are read, notes about the file, and the places of rows.

    The frame is a `pyarrow.Table` of strings for text files, of the types of the file otherwise;
    categorical columns are dictionaries. A detected decimal comma is in the format.
    """

    frame: Any
    format: FileFormat = DEFAULT_FORMAT
    notes: tuple[str, ...] = ()
    #: The line in which each row starts; None for binary files.
    lines: np.ndarray | None = None
    #: Numbers of the rows in the file, from 0; None if the table has all rows in file order.
    numbers: np.ndarray | None = None
    #: Names of the files and the number of rows before each, if there are several.
    files: tuple[tuple[str, int], ...] = ()

    def place(self, row: int) -> str:
        """Return the place of a row, counted from 0, in the file, such as "line 17" or "row 17"."""
        if self.lines is not None:
            return f"line {self.lines[row]}"
        number = row if self.numbers is None else int(self.numbers[row])
        if not self.files:
            return f"row {number + 1}"
        name, before = max((each for each in self.files if each[1] <= number), key=itemgetter(1))
        return f"row {number - before + 1} of {name}"

    def take(self, rows: np.ndarray) -> Table:
        """Return some rows, by index or by a mask, with their places in the file."""
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        lines = None if self.lines is None else self.lines[rows]
        numbers = rows if self.numbers is None else self.numbers[rows]
        return replace(self, frame=self.frame.take(rows), lines=lines, numbers=numbers)

    filter = take

    def cells(self, name: str) -> list[str | None]:
        """Return a column as texts, verbatim where the file has texts; integers with all digits."""
        arrow, column = import_arrow(), plain(self.frame.column(name))
        types, kind = arrow.types, column.type
        if types.is_floating(kind) or types.is_date(kind) or types.is_timestamp(kind):
            return list(texts(read_column(name, column).values))
        return list(column.cast(arrow.string()).to_pylist())

    def json_cells(self, name: str) -> list[Any]:
        """Return a column for JSON: numbers, unless they are codes, or else verbatim texts."""
        cells, read = self.cells(name), read_column(name, self.frame.column(name), self.format)
        if read.kind != "f" or read.code is not None:
            return cells
        return [_number(*pair) for pair in zip(cells, read.data.tolist(), strict=True)]


def _number(cell: str | None, value: float) -> int | float | None:
    if cell is None or np.isnan(value):
        return None
    # an integer may have more digits than a float
    return int(cell) if cell.strip().lstrip("+-").isdecimal() else value


def import_arrow() -> Any:
    """Return pyarrow with its file modules."""
    return import_pyarrow("files of data", "files", DataError)


def plain(column: Any) -> Any:
    """Return a column, which may be dictionary-encoded, with the type of its values."""
    is_dictionary = import_arrow().types.is_dictionary(column.type)
    return column.cast(column.type.value_type) if is_dictionary else column


def check_expansion(size: int, of: int, least: int) -> None:
    """Refuse a table of more than `least` bytes that is far larger than its file of `of` bytes."""
    if size > max(least, _MOST_EXPANSION * of):
        raise DataError(
            f"its {of} bytes expand to {size} or more, over {_MOST_EXPANSION} times as many, which "
            "suggests a decompression bomb; if the file is trusted, save it as uncompressed CSV or "
            "npz"
        )


def check_width(count: int) -> None:
    """Refuse tables with too many columns."""
    if count > _MOST_COLUMNS:
        raise DataError(f"it has {count} columns; at most {_MOST_COLUMNS} are supported")


class PlacedError(DataError):
    """A `DataError` about rows whose places are known."""

    def __init__(self, message: str, place: Callable[[int], str]):
        super().__init__(message)
        self.place = place


@contextmanager
def placed(place: Callable[[int], str]) -> Iterator[None]:
    """Say where rows are, in errors about them; see `Table.place`."""
    try:
        yield
    except PlacedError:
        raise
    except DataError as error:
        raise PlacedError(error.message, place) from None


@contextmanager
def explained(prefix: str) -> Iterator[None]:
    """Turn every exception into a `DataError` with the reason after a prefix."""
    prefix = " ".join(prefix.splitlines())
    try:
        yield
    except DataError as error:
        reason = error.message
        reason = reason.after(prefix) if isinstance(reason, Message) else prefix + reason
        raise DataError(reason) from None
    except OSError as error:
        raise DataError(f"{prefix}{error.strerror or error}") from error
    except MemoryError as error:
        raise DataError(f"{prefix}there is not enough memory") from error
    except Exception as error:  # libraries do not document what they raise for damaged files
        reason = str(error) or type(error).__name__
        raise DataError(f"{prefix}it may be damaged ({reason:.200})") from error
