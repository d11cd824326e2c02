"""Tables in memory, how files are read, and checks of every table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from typing import IO, Any

import numpy as np

from steinpath._support.cells import ReadColumn, TextFormat, is_dictionary, read_column, texts
from steinpath._support.files import import_pyarrow
from steinpath._support.messages import DataError, prefixed

# More columns could not be fitted, and such a header alone exhausts memory.
_MOST_COLUMNS = 2**20
# How much larger than its file a table may be. Uncompressed booleans expand 64 times, from a bit to
# a float each; a decompression bomb expands a thousand times or more.
_MOST_EXPANSION = 100
# Bytes of columns that a file may always expand to, however small it is.
_MOST_BYTES = 2**30


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
        known = isinstance(entries, dict) and set(entries) <= {*names}
        na: Any = entries.get("na", []) if known else None
        given = [*na, *(entries | {"na": ""}).values()] if isinstance(na, list) else [None]
        if not all(isinstance(text, str) for text in given):
            said = f"its 'reading' can only have strings for {', '.join(names)}"
            raise DataError(f"{said}, got {entries!r:.60}")
        return cls(**entries | {"na": tuple(na)})


#: The usual format: delimiter and encoding detected, a decimal point, ISO dates.
DEFAULT_FORMAT = FileFormat()


@dataclass(frozen=True, eq=False)
class FileTable:
    """The columns of a file, how they are read, notes about the file, and the places of rows.

    The frame is a `pyarrow.Table` of strings for text files, of the types of the file otherwise;
    categorical columns are dictionaries. A detected decimal comma is in the format.
    """

    frame: Any
    format: FileFormat = DEFAULT_FORMAT
    notes: tuple[str, ...] = ()
    #: The place of each row of the file, counted from 0; None if these are "row 1" and so on.
    where: Callable[[int], str] | None = None
    #: Numbers of the rows in the file, from 0; None if the table has all rows in file order.
    rows: np.ndarray | None = None

    def place(self, row: int) -> str:
        """Return the place of a row, counted from 0, in the file, such as "line 17" or "row 17"."""
        number = row if self.rows is None else int(self.rows[row])
        return f"row {number + 1}" if self.where is None else self.where(number)

    def take(self, rows: np.ndarray) -> FileTable:
        """Return some rows, by index, with their places in the file."""
        own = rows if self.rows is None else self.rows[rows]
        return replace(self, frame=self.frame.take(rows), rows=own)

    def read(self, name: str, as_labels: bool | None = None) -> ReadColumn:
        """Return a column as numbers, dates or labels; see `read_column`."""
        return read_column(name, self.frame.column(name), self.format, as_labels)

    def cells(self, name: str) -> list[str | None]:
        """Return a column as texts, verbatim where the file has texts; integers with all digits."""
        arrow, column = import_arrow(), plain(self.frame.column(name))
        types, kind = arrow.types, column.type
        if types.is_floating(kind) or types.is_date(kind) or types.is_timestamp(kind):
            return list(texts(read_column(name, column).values))
        return list(column.cast(arrow.string()).to_pylist())

    def json_cells(self, name: str) -> list[Any]:
        """Return a column for JSON: numbers, unless they are codes, or else verbatim texts."""
        cells, read = self.cells(name), self.read(name)
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
    return column.cast(column.type.value_type) if is_dictionary(column.type) else column


def check_expansion(size: int, file: IO[bytes], least: int = _MOST_BYTES) -> None:
    """Refuse a table of more than `least` bytes that is far larger than its file."""
    stored = os.fstat(file.fileno()).st_size
    if size > max(least, _MOST_EXPANSION * stored):
        said = f"its {stored} bytes expand to {size} or more, over {_MOST_EXPANSION} times as many"
        advice = "if the file is trusted, save it as uncompressed CSV or npz"
        raise DataError(f"{said}, which suggests a decompression bomb; {advice}")


def check_width(count: int) -> None:
    """Refuse tables with too many columns."""
    if count > _MOST_COLUMNS:
        raise DataError(f"it has {count} columns; at most {_MOST_COLUMNS} are supported")


@contextmanager
def placed(place: Callable[[int], str]) -> Iterator[None]:
    """Let errors say where rows are, by an attribute `place`; see `FileTable.place`."""
    try:
        yield
    except DataError as error:
        vars(error).setdefault("place", place)
        raise


@contextmanager
def explained(prefix: str) -> Iterator[None]:
    """Turn every exception into a `DataError` with the reason after a prefix."""
    prefix = " ".join(prefix.splitlines())
    try:
        yield
    except DataError as error:
        raise DataError(prefixed(prefix, error.message)) from None
    except OSError as error:
        raise DataError(f"{prefix}{error.strerror or error}") from error
    except MemoryError as error:
        raise DataError(f"{prefix}there is not enough memory") from error
    except Exception as error:  # libraries do not document what they raise for damaged files
        reason = str(error) or type(error).__name__
        raise DataError(f"{prefix}it may be damaged ({reason:.200})") from error
