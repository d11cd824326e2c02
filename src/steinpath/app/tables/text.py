"""Tables from text files: delimited cells below a header."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import IO, Any, NoReturn, cast

import numpy as np

from steinpath._support.cells import check_names, is_number, read_column, uses_decimal_comma
from steinpath._support.messages import DataError, Message, Remedy, counted
from steinpath.app.tables.table import (
    FileFormat,
    FileTable,
    check_expansion,
    check_width,
    import_arrow,
)

_DELIMITERS = ",;\t|"
# A first line that states the delimiter, for Excel.
_STATED = re.compile(rf'"?sep=([{_DELIMITERS}])"?\s*', re.IGNORECASE)
# Bytes that a file may always expand to, and bytes that are read from a pipe, whose writer may
# never stop.
_MOST_TEXT, _MOST_PIPED = 2**26, 2**30
# Bytes read at once, bytes parsed at once, which must hold a row, and rows of the csv module.
_CHUNK, _BLOCK, _ROWS = 2**20, 2**24, 4096
# Encodings to try for files that are not Unicode. Any file can be read in the last one.
_FALLBACKS = ("Windows-1252", "Latin-1")


def read_text(
    path: Path, labels: Collection[str], how: FileFormat, delimiter: str | None = None
) -> FileTable:
    """Read text with a header; a first line such as ``sep=;`` for Excel is not the header."""
    content, notes = _decoded(_content(path, how.encoding), how.encoding)
    content = content.rstrip(b"\r\n")
    delimiter = how.delimiter or delimiter or _delimiter(content)
    records = _records(content, delimiter)
    top, end, header = next(records, (0, 0, []))
    if top == 1 and _STATED.fullmatch(delimiter.join(header)):
        top, end, header = next(records, (0, 0, []))
    if not header:
        raise DataError("it is empty; the first line must name the columns")
    check_width(len(header))
    names = check_names(header)
    if all(is_number(name) for name in header if name.strip()):
        said = "the first line must name the columns, but holds numbers such as"
        raise DataError(f"{said} {header[-1]!r:.60}")
    frame, lines = _parsed(content, delimiter, names, end), None
    if frame is None:
        frame, lines = _read_rows(records, top, names)
    rows = _last_text(frame)
    if empty := frame.num_rows - rows:
        notes.append(f"empty rows at the end of the file were skipped: {empty}")
        frame = frame.slice(0, rows)
    lines = np.arange(end + 1, end + 1 + rows) if lines is None else lines[:rows]
    if delimiter in ";\t" and how.decimal is None and _has_decimal_commas(frame, labels, how):
        how, remedy = replace(how, decimal=","), Remedy("decimal", ",")
        notes.append(Message("numbers were read with a decimal comma ({remedy})", remedy=remedy))
    return FileTable(frame, how, tuple(notes), lambda row: f"line {lines[row]}")


def _content(path: Path, encoding: str | None) -> bytes:
    """Return the bytes of a file, unpacked; refuse what does not end, or is not text, in time."""
    parts, total, packed = list[bytes](), 0, path.suffix.lower() == ".gz"
    with cast("IO[bytes]", gzip.open(path) if packed else open(path, "rb")) as file:
        piped = not packed and not file.seekable()
        while part := file.read(_CHUNK):
            parts.append(part)
            total += len(part)
            if encoding is None and b"\0" in part and _encodings(parts[0])[0] == "UTF-8":
                _refuse_nul(b"".join(parts))
            if not piped:
                check_expansion(total, file, _MOST_TEXT)
            elif total > _MOST_PIPED:
                said = f"it is a pipe with more than {_MOST_PIPED} bytes"
                raise DataError(f"{said}; save it to a file")
    return b"".join(parts)


def _refuse_nul(content: bytes) -> None:
    if (at := content.find(b"\0")) >= 0:
        line = len(content[: at + 1].splitlines())
        said = f"line {line} has a NUL byte; check that this is a text file, or use {{remedy}}"
        raise DataError(Message(said, remedy=Remedy("encoding")))


def _decoded(content: bytes, encoding: str | None) -> tuple[bytes, list[str]]:
    """Return text as UTF-8, and a note if the encoding is a guess."""
    tried = [encoding] if encoding else _encodings(content)
    for each in tried:
        try:
            text = content.decode(each)
        except UnicodeError:
            continue
        content = content if each == "UTF-8" else text.encode("utf-8", "replace")
        _refuse_nul(content)
        guess = f"the file is not UTF-8 and was read as {each}; if names look wrong, use {{remedy}}"
        notes: list[str] = [Message(guess, remedy=Remedy("encoding"))] if each in _FALLBACKS else []
        return content.removeprefix(codecs.BOM_UTF8), notes
    wrong = "it is not encoded as {encoding}; use another {remedy}"
    raise DataError(Message(wrong, encoding=tried[0], remedy=Remedy("encoding")))


def _encodings(content: bytes) -> list[str]:
    """Return the encodings that a text may have, the likely one first."""
    start = content[:4096]
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ["UTF-16"]
    # in ASCII text, every second byte of UTF-16 is zero
    high, low = start[::2].count(0), start[1::2].count(0)
    if max(high, low) > len(start) // 4 and min(high, low) == 0:
        return ["UTF-16-LE" if low else "UTF-16-BE"]
    return ["UTF-8", *_FALLBACKS]


def _delimiter(content: bytes) -> str:
    """Return the delimiter that is stated, or that gives the most cells in the header."""
    if stated := _STATED.match(content[:10].decode(errors="replace")):
        return stated[1]

    def cells(delimiter: str) -> tuple[bool, int]:
        try:
            found = next(_records(content, delimiter))[-1]
        except (StopIteration, DataError):
            return False, 0
        # a delimiter in quotes tears them apart
        whole = len(found) > 1 and not any(cell.count('"') % 2 for cell in found)
        return whole, len(found)

    return max(_DELIMITERS, key=cells)


def _records(content: bytes, delimiter: str) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the first and last line and the cells of each row; skip blank lines."""
    text = io.TextIOWrapper(io.BytesIO(content), "utf-8", newline="")
    reader = csv.reader(text, delimiter=delimiter, skipinitialspace=True, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            check = "unbalanced quotation marks and for cells of more than 100,000 characters"
            raise DataError(f"line {line}: {error}; check for {check}") from None
        if len(row) > 1 or "".join(row).strip():
            yield line, reader.line_num, row


def _parsed(content: bytes, delimiter: str, names: list[str], skipped: int) -> Any:
    """Return the rows as strings if every line is a row, without odd quotation marks; else None.

    The csv module reads all other files, more slowly, and says what is wrong with them.
    """
    ends = rb"%b\r\n" % re.escape(delimiter).encode()
    within = rb'"(?=[^%b"])(?<=[^%b"]")' % (ends, ends)
    if content.count(b'"') % 2 or b' "' in content or re.search(within, content):
        return None
    arrow = import_arrow()
    import pyarrow.csv as reader

    try:
        where: Any = {"skip_rows": skipped, "column_names": names, "block_size": _BLOCK}
        frame = reader.read_csv(
            arrow.BufferReader(content),
            reader.ReadOptions(use_threads=False, **where),
            reader.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            reader.ConvertOptions(column_types=dict.fromkeys(names, arrow.string())),
        )
    except arrow.ArrowInvalid:
        return None
    lines = content.count(b"\n") + content.count(b"\r") - content.count(b"\r\n") + 1
    lengths = (arrow.compute.max(arrow.compute.binary_length(each)) for each in frame.columns)
    longest = max(length.as_py() or 0 for length in lengths)
    certain = frame.num_rows == lines - skipped and longest <= csv.field_size_limit()
    return frame if certain else None


def _read_rows(
    records: Iterator[tuple[int, int, list[str]]], top: int, names: list[str]
) -> tuple[Any, np.ndarray]:
    """Return the rows as strings, and their lines; refuse rows of another length."""
    arrow, lines, parts = import_arrow(), list[int](), list[Any]()
    schema = arrow.schema([(name, arrow.string()) for name in names])
    while some := list(islice(records, _ROWS)):
        for line, _, row in some:
            if not "".join(row[len(names) :]).strip():
                del row[len(names) :]
            if len(row) != len(names):
                _refuse_row(line, row, top, names, first=not lines)
            lines.append(line)
        columns = zip(*(row for *_, row in some), strict=True)
        parts.append(arrow.table([arrow.array(column) for column in columns], schema=schema))
    return arrow.concat_tables([schema.empty_table(), *parts]), np.array(lines, int)


def _refuse_row(line: int, row: list[str], top: int, names: list[str], first: bool) -> NoReturn:
    """Refuse a row with another number of cells than the header; the message names a remedy."""
    cells, columns = counted(len(row), "cell"), counted(len(names), "column")
    advice = "remove it if it is not a row of data, or put cells with a delimiter in quotes"
    if first:
        advice = "use {remedy} if the file has another one"
        if len(names) < len(row):
            advice = f"remove line {top} if it is a title above the header, or {advice}"
    template = f"line {line} has {cells}, but the header names {columns}; {advice}"
    raise DataError(Message(template, remedy=Remedy("delimiter")))


def _last_text(frame: Any) -> int:
    """Return the number of rows up to the last with any text: Excel writes empty ones after it."""
    if not frame.num_rows or any(column[-1].as_py().strip() for column in frame.columns):
        return int(frame.num_rows)
    compute, last = import_arrow().compute, 0
    for column in frame.columns:
        filled = compute.not_equal(compute.utf8_trim_whitespace(column), "")
        last = max([last, *(np.flatnonzero(filled)[-1:] + 1)])
    return int(last)


def _has_decimal_commas(frame: Any, labels: Collection[str], how: FileFormat) -> bool:
    """Whether some numbers have a decimal comma, beyond doubt, and none has a decimal point."""
    compute, commas = import_arrow().compute, False
    for name in set(frame.column_names).difference(labels):
        column = frame.column(name)
        if compute.any(compute.match_substring(column, ".")).as_py():
            if read_column(name, column, how).kind == "f":
                return False
        elif compute.any(compute.match_substring(column, ",")).as_py():
            commas = commas or uses_decimal_comma(read_column(name, column, how).labels)
    return commas
