"""Tables from text: cells between commas, or whatever separates them, below a header."""

from __future__ import annotations

import csv
import gzip
import io
import re
from array import array
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from steinpath.app.tables.table import (
    DataError,
    Table,
    check_expansion,
    check_names,
    missing,
    objects,
)

# What stands for a missing value.
_MISSING = frozenset(
    ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "#N/A", "?", "-nan"),
)
_DELIMITERS = ",;\t|"
# Characters of a line, all of which are in memory at once: of a hundred thousand numbers, there are
# two million.
_MOST_LINE = 2**24
# Text that a file may always hold, however small it is. Its cells take up to fifty times as much.
_MOST_TEXT = 2**26
_ROWS_AT_ONCE = 4096
# Text that a pipe may hold: whoever writes to it may never end.
_MOST_PIPED = 2**30
# Cells in quotes, and where such a cell begins; within other cells, quotes are only characters.
_OPENED = re.compile(rf'(^|[{_DELIMITERS}]) *"')
_QUOTED = re.compile(rf'{_OPENED.pattern}(?:[^"]|"")*"(?!")')
_DECIMAL_COMMA = re.compile(r"-?\d+,\d+")
# Numbers that nobody writes like this, and parts of codes that a number does not keep: zeros in
# front, the plus of a telephone number, more digits than there are in a float.
_CODE = re.compile(r"0[0-9]+|\+[0-9]{7,}|[0-9]{17,}")
_A_CODE_IN_LINES = re.compile(rf"^[ \t]*({_CODE.pattern})[ \t]*$", re.MULTILINE)


def read_text(
    path: Path,
    as_text: Collection[str] = (),
    keep: Collection[str] = (),
    delimiter: str | None = None,
) -> Table:
    """Read text with a header; unless given, the delimiter is found in the header."""
    try:
        with _open_text(path) as file:
            size = path.stat().st_size
            if not file.seekable():  # a pipe
                file, size = _piped(file), _MOST_PIPED
            if delimiter is None:
                delimiter = _delimiter(_lines(file, size))
                file.seek(0)
            return _parse_text(_lines(file, size), delimiter, as_text, keep)
    except UnicodeDecodeError:
        if path.is_file():  # a pipe is over
            _refuse_encoding(path)
        raise


def _open_text(path: Path) -> IO[str]:
    # line ends are left to the csv module, which tells those within quotes from others
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return open(path, encoding="utf-8-sig", newline="")


def _piped(file: IO[str]) -> IO[str]:
    """Take what comes out of a pipe, which can be read only once."""
    text = file.read(_MOST_PIPED + 1)
    if len(text) > _MOST_PIPED:
        raise DataError(f"it is a pipe, and has more than {_MOST_PIPED} characters; make it a file")
    return io.StringIO(text, newline="")


def _refuse_encoding(path: Path) -> None:
    """Say where a file is not UTF-8; the decoder, which reads ahead, does not know."""
    opened: Any = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rb") as file:
        number = 0
        while line := file.readline(_MOST_LINE):
            number += 1
            if len(line) == _MOST_LINE:
                raise _too_long(number)
            try:
                line.decode()
            except UnicodeDecodeError as error:
                raise DataError(
                    f"line {number} is not UTF-8: its byte {error.start + 1} is "
                    f"0x{line[error.start]:02x}; save the file as UTF-8"
                ) from None


def _delimiter(lines: Iterator[str]) -> str:
    """Whichever occurs most in the header, outside of quotes, in which it may go on for lines."""
    header = ""
    # after so many lines it is no name, but a quotation mark that is never closed
    for line in islice(filter(str.strip, lines), 100):
        header = _QUOTED.sub(r"\1", header + line)
        if not _OPENED.search(header):
            break
    return max(_DELIMITERS, key=header.count)


def _parse_text(
    text: Iterator[str], delimiter: str, as_text: Collection[str], keep: Collection[str]
) -> Table:
    records = _records(text, delimiter)
    _, header = next(records, (0, []))
    if not header:
        raise DataError("it is empty; the first line must name the columns")
    names = check_names(header)
    if all(is_number(name) for name in header if name.strip()):
        raise DataError(f"the first line must name the columns, and has numbers: {header[-1]!r}")
    lines = array("q")
    columns: list[list[str]] = [[] for _ in names]
    # rows as lists of their own take several times the memory: some at a time
    while some := list(islice(records, _ROWS_AT_ONCE)):
        for line, row in some:
            if len(row) != len(names):
                cells = f"{len(row)} cell{'s' * (len(row) > 1)}"
                raise DataError(
                    f"line {line} has {cells}, and the header names {len(names)} columns"
                )
            lines.append(line)
        added = zip(*(row for _, row in some), strict=True)
        for column, cells_of in zip(columns, added, strict=True):
            column.extend(cells_of)
    table = Table({}, np.array(lines, int))
    columns.reverse()
    for name in names:
        # each column of cells goes as soon as it is converted
        column = columns.pop()
        table.columns[name] = parse_cells(name, column, table, name in as_text)
        if name in keep:
            table.cells[name] = objects(column)
    return table


def _records(text: Iterator[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Cells of each row, and the line in which it starts; blank lines are skipped."""
    reader = csv.reader(text, delimiter=delimiter, skipinitialspace=True, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                f"line {line}: {error}; is there a quotation mark that is not closed, or one too "
                "many, or a cell of more than a hundred thousand characters?"
            ) from None
        if len(row) > 1 or "".join(row).strip():
            yield line, row


def _lines(file: IO[str], size: int) -> Iterator[str]:
    """Lines of a file of so many bytes: each of bounded length, and all of them together."""
    number = total = 0
    while line := file.readline(_MOST_LINE):
        number += 1
        total += len(line)
        if "\0" in line:
            raise DataError(f"line {number} has a NUL byte; is this a text file, in UTF-8?")
        if len(line) == _MOST_LINE:
            raise _too_long(number)
        if total > _MOST_TEXT:
            check_expansion(total, size, _MOST_TEXT)
        yield line


def _too_long(number: int) -> DataError:
    return DataError(f"line {number} has {_MOST_LINE} characters or more")


def parse_cells(name: str, cells: Sequence[str], table: Table, as_text: bool) -> np.ndarray:
    """Return what the texts of a column of the table say: the same from every kind of file.

    Numbers if all of them are, or else dates if all are, or else texts; or texts at once.
    """
    if as_text:
        return _parse_names(cells)
    numbers = _numbers(cells)  # of most columns, at once
    if numbers is None:
        values = _parse_names(cells)
        gaps = missing(values)
        numbers = _numbers(np.where(gaps, "nan", values))
    else:
        gaps = np.isnan(numbers)
    if gaps.all():
        return objects([None] * len(cells))
    if numbers is not None:
        if _A_CODE_IN_LINES.search("\n".join(cells)):
            codes = ((cell.strip(), row) for row, cell in enumerate(cells))
            table.codes[name] = next(code for code in codes if _CODE.fullmatch(code[0]))
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
    return values


def _parse_names(cells: Sequence[str]) -> np.ndarray:
    """Texts without blanks around them, and without those that stand for a missing value."""
    stripped = (cell.strip() for cell in cells)
    return objects([None if cell in _MISSING else cell for cell in stripped])


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    return _numbers([text]) is not None


def is_date(text: str) -> bool:
    """Whether a text is a date, or a date with a time, in ISO format."""
    return _dates([text]) is not None


def _numbers(cells: Sequence[str] | np.ndarray) -> np.ndarray | None:
    """Return all cells as numbers, or None."""
    try:
        numbers = np.fromiter(map(float, cells), float, len(cells))
    except ValueError:
        return None
    return None if "_" in "".join(cells) else numbers  # which Python takes for a number, too


def in_utc(time: datetime) -> datetime:
    """Return a time without a zone: in UTC where it has one."""
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)


def _dates(cells: Sequence[str] | np.ndarray) -> np.ndarray | None:
    """Return all cells as dates in UTC, or None."""
    dates = []
    for cell in cells:
        if "-" not in cell:
            return None
        try:
            dates.append(in_utc(datetime.fromisoformat(cell)))
        except (ValueError, OverflowError):
            return None
    return np.array(dates, "datetime64[us]")
