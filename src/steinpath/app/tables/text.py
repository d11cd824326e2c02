"""Tables from text files: delimited cells below a header."""

from __future__ import annotations

import csv
import gzip
import io
import re
from array import array
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import IO, NoReturn, cast

import numpy as np

from steinpath.app.tables.cells import is_number, parse_cells, uses_decimal_comma
from steinpath.app.tables.table import (
    DEFAULT_FORMAT,
    DataError,
    Table,
    TextFormat,
    check_expansion,
    check_names,
    objects,
)

_DELIMITERS = ",;\t|"
# Characters of a line, which is in memory as a whole: a hundred thousand numbers take two million.
_MOST_LINE = 2**24
# Characters that a file may always expand to, however small it is. Cells take up to fifty times as
# much memory.
_MOST_TEXT = 2**26
_ROWS_AT_ONCE = 4096
# Bytes that are read from a pipe: its writer may never stop.
_MOST_PIPED = 2**30
# Bytes from which the encoding is detected.
_START = 4096
# Encodings to try for files that are not Unicode. Any file can be read in the last one.
_FALLBACKS = ("Windows-1252", "Latin-1")
# Cells in quotes, and where such a cell begins; within other cells, quotes are only characters.
_OPENED = re.compile(rf'(^|[{_DELIMITERS}]) *"')
_QUOTED = re.compile(rf'{_OPENED.pattern}(?:[^"]|"")*"(?!")')

# A first line that states the delimiter, for Excel.
_STATED = re.compile(rf'"?sep=([{_DELIMITERS}])"?\s*', re.IGNORECASE)


def read_text(
    path: Path,
    as_text: Collection[str] = (),
    keep: Collection[str] = (),
    text_format: TextFormat = DEFAULT_FORMAT,
    delimiter: str | None = None,
) -> Table:
    """Read text with a header; by default, the delimiter is detected from the header.

    A first line such as ``sep=;``, which Excel uses for the delimiter, is not the header.
    """
    how = replace(text_format, delimiter=text_format.delimiter or delimiter)
    with _open_bytes(path) as file:
        size = _MOST_PIPED if isinstance(file, io.BytesIO) else path.stat().st_size
        encodings = [how.encoding] if how.encoding else _encodings(file.read(_START))
        for encoding in encodings:
            file.seek(0)
            text = io.TextIOWrapper(file, encoding, newline="")  # csv handles line ends in quotes
            try:
                table = _read(text, size, how, as_text, keep)
            except UnicodeError:
                continue
            finally:
                text.detach()
            if encoding in _FALLBACKS:
                table.notes.append(
                    f"the file is not UTF-8 and was read as {encoding}; if names look wrong, use "
                    "--encoding"
                )
            # do not store a detected delimiter: other files may have another one
            how = replace(table.text_format, delimiter=text_format.delimiter)
            return replace(table, text_format=how)
    raise DataError(
        f"it is not encoded as {encodings[0]}; use another --encoding, or omit it to detect it"
    )


def _encodings(start: bytes) -> list[str]:
    """Return the encodings that a file with these first bytes may have, the likely one first."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ["UTF-16"]
    # in ASCII text, every second byte of UTF-16 is zero
    high, low = start[::2].count(0), start[1::2].count(0)
    if max(high, low) > len(start) // 4 and min(high, low) == 0:
        return ["UTF-16-LE" if low else "UTF-16-BE"]
    return ["utf-8-sig", *_FALLBACKS]


def _open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading from the start, more than once; the contents of a pipe are copied."""
    if path.suffix.lower() == ".gz":
        return cast("IO[bytes]", gzip.open(path))
    file = open(path, "rb")  # noqa: SIM115 (the caller closes it)
    if file.seekable():
        return file
    with file:
        content = file.read(_MOST_PIPED + 1)
    if len(content) > _MOST_PIPED:
        raise DataError(f"it is a pipe with more than {_MOST_PIPED} bytes; save it to a file")
    return io.BytesIO(content)


def _read(
    file: IO[str], size: int, how: TextFormat, as_text: Collection[str], keep: Collection[str]
) -> Table:
    if how.delimiter is None:
        how = replace(how, delimiter=_delimiter(_lines(file, size)))
        file.seek(0)
    table = _parse_text(_lines(file, size), how, as_text, keep)
    if (
        how.delimiter not in (";", "\t")
        or how.decimal is not None
        or not _has_decimal_commas(table, as_text)
    ):
        return table
    file.seek(0)
    again = _parse_text(_lines(file, size), replace(how, decimal=","), as_text, keep)
    if any(again.columns[name].dtype.kind != "f" for name in _of_kind(table, "f")):
        return table  # other columns have a decimal point
    again.notes.append("numbers were read with a decimal comma (--decimal ,)")
    return again


def _has_decimal_commas(table: Table, as_text: Collection[str]) -> bool:
    texts = (name for name in _of_kind(table, "O") if name not in as_text)
    return any(uses_decimal_comma(table.columns[name]) for name in texts)


def _of_kind(table: Table, kind: str) -> list[str]:
    return [name for name, values in table.columns.items() if values.dtype.kind == kind]


def _delimiter(lines: Iterator[str]) -> str:
    """Return the most frequent delimiter of the header, outside of quotes, which may span lines."""
    header = ""
    first = next(lines, "")
    if stated := _STATED.fullmatch(first):
        return stated[1]
    lines = chain([first], lines)
    # after 100 lines, the quotation mark is never closed
    for line in islice(filter(str.strip, lines), 100):
        header = _QUOTED.sub(r"\1", header + line)
        if not _OPENED.search(header):
            break
    return max(_DELIMITERS, key=header.count)


def _parse_text(
    text: Iterator[str], how: TextFormat, as_text: Collection[str], keep: Collection[str]
) -> Table:
    records = _records(text, how.delimiter or ",")
    top, header = next(records, (0, []))
    if top == 1 and _STATED.fullmatch((how.delimiter or ",").join(header)):
        top, header = next(records, (0, []))
    if not header:
        raise DataError("it is empty; the first line must name the columns")
    names = check_names(header)
    if all(is_number(name) for name in header if name.strip()):
        raise DataError(
            f"the first line must name the columns, but holds numbers such as {header[-1]!r}"
        )
    lines = array("q")
    columns: list[list[str]] = [[] for _ in names]
    # in blocks: all rows as lists would take several times the memory
    while some := list(islice(records, _ROWS_AT_ONCE)):
        for line, row in some:
            if len(row) > len(names) and not "".join(row[len(names) :]).strip():
                del row[len(names) :]
            if len(row) != len(names):
                _refuse_row(line, row, top, names, first=not lines)
            lines.append(line)
        added = zip(*(row for _, row in some), strict=True)
        for column, cells_of in zip(columns, added, strict=True):
            column.extend(cells_of)
    kept = len(lines) - _empty_at_end(columns)
    table = Table({}, np.array(lines[:kept], int), text_format=how)
    if kept < len(lines):
        table.notes.append(f"empty rows at the end of the file were skipped: {len(lines) - kept}")
    columns.reverse()
    for name in names:
        # release the cells of each column as soon as they are converted
        column = columns.pop()
        del column[kept:]
        table.columns[name] = parse_cells(name, column, table, name in as_text)
        if name in keep:
            table.cells[name] = objects(column)
    return table


def _refuse_row(line: int, row: list[str], top: int, names: list[str], first: bool) -> NoReturn:
    """Refuse a row with another number of cells than the header; the message names a remedy."""
    cells, columns = (
        f"{count} {what}{'s' * (count > 1)}"
        for count, what in ((len(row), "cell"), (len(names), "column"))
    )
    remedy = "remove it if it is not a row of data, or put cells with a delimiter in quotes"
    if first:
        remedy = "use --delimiter if the file has another one"
        if len(names) < len(row):
            remedy = f"remove line {top} if it is a title above the header, or {remedy}"
    raise DataError(f"line {line} has {cells}, but the header names {columns}; {remedy}")


def _empty_at_end(columns: list[list[str]]) -> int:
    """Return the number of last rows without any text, as Excel writes them for cleared cells."""
    count = 0
    for row in zip(*map(reversed, columns), strict=True):
        if "".join(row).strip():
            break
        count += 1
    return count


def _records(text: Iterator[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row and the line in which it starts; skip blank lines."""
    reader = csv.reader(text, delimiter=delimiter, skipinitialspace=True, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                f"line {line}: {error}; check for unbalanced quotation marks and for cells of more "
                "than 100,000 characters"
            ) from None
        if len(row) > 1 or "".join(row).strip():
            yield line, row


def _lines(file: IO[str], size: int) -> Iterator[str]:
    """Yield the lines of a file of `size` bytes; limit their lengths and their total."""
    number = total = 0
    while line := file.readline(_MOST_LINE):
        number += 1
        total += len(line)
        if "\0" in line:
            raise DataError(f"line {number} has a NUL byte; check that this is a text file")
        if len(line) == _MOST_LINE:
            raise DataError(f"line {number} has {_MOST_LINE} characters or more")
        if total > _MOST_TEXT:
            check_expansion(total, size, _MOST_TEXT)
        yield line
