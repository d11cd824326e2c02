"""Tables from text: cells between commas, or whatever separates them, below a header."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from steinpath.tables.table import DataError, Table, check_names, missing, objects

# What stands for a missing value.
_MISSING = frozenset(
    ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "#N/A", "?", "-nan"),
)
_DELIMITERS = ",;\t|"
# Cells in quotes, and where such a cell begins; within other cells, quotes are only characters.
_OPENED = re.compile(rf'(^|[{_DELIMITERS}]) *"')
_QUOTED = re.compile(rf'{_OPENED.pattern}(?:[^"]|"")*"(?!")')
_DECIMAL_COMMA = re.compile(r"-?\d+,\d+")


def read_text(path: Path, as_text: Collection[str] = (), delimiter: str | None = None) -> Table:
    """Read text with a header; unless given, the delimiter is found in the header."""
    try:
        with _open_text(path) as file:
            if delimiter is None:
                if not file.seekable():  # a pipe
                    file = io.StringIO(file.read(), newline="")
                delimiter = _delimiter(file)
                file.seek(0)
            return _parse_text(file, delimiter, as_text)
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


def _delimiter(file: IO[str]) -> str:
    """Whichever occurs most in the header, outside of quotes, in which it may go on for lines."""
    header = ""
    # after so many lines it is no name, but a quotation mark that is never closed
    for line in islice(filter(str.strip, file), 100):
        header = _QUOTED.sub(r"\1", header + line)
        if not _OPENED.search(header):
            break
    return max(_DELIMITERS, key=header.count)


def _parse_text(file: IO[str], delimiter: str, as_text: Collection[str]) -> Table:
    records = _records(file, delimiter)
    _, header = next(records, (0, []))
    if not header:
        raise DataError("it is empty; the first line must name the columns")
    names = check_names(header)
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
        column = columns.pop(0)
        table.columns[name] = (
            _parse_names(column) if name in as_text else parse_cells(name, column, table)
        )
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
                "many, or a cell of more than a hundred thousand characters?"
            ) from None
        if len(row) > 1 or "".join(row).strip():
            yield line, row


def _lines(file: IO[str]) -> Iterator[str]:
    for number, line in enumerate(file, start=1):
        if "\0" in line:
            raise DataError(f"line {number} has a NUL byte; is this a text file, in UTF-8?")
        yield line


def parse_cells(name: str, cells: Sequence[str], table: Table) -> np.ndarray:
    """Numbers if all cells are, or else dates if all are, or else texts."""
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
