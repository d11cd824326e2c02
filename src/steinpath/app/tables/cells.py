"""Cells of text: numbers, dates or texts, in the format that the user states."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import product

import numpy as np

from steinpath.app.tables.table import (
    DEFAULT_FORMAT,
    THOUSANDS,
    Table,
    TextFormat,
    missing,
    objects,
)

# Texts that stand for a missing value.
_MISSING = frozenset(
    ("", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "null", "NULL", "None", "#N/A", "?", "-nan"),
)
# Parts of codes that a number does not keep: leading zeros, the plus of a telephone number, more
# digits than a float has.
_CODE = re.compile(r"0[0-9]+|\+[0-9]{7,}|[0-9]{17,}")
_A_CODE_IN_LINES = re.compile(rf"^[ \t]*({_CODE.pattern})[ \t]*$", re.MULTILINE)
# Signs around amounts. Other letters may be part of a code.
_SIGN = (
    r"[$€£¥₹₽₩₺₪₫฿%]|US\$|Fr\.|kr|zł|Kč|AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|ILS|INR|JPY"
    r"|KRW|MXN|NOK|NZD|PLN|RUB|SEK|SGD|THB|TRY|USD|ZAR"
)
_SIGNED = re.compile(
    rf"(?P<minus>[+-]?)(?P<before>{_SIGN})?\s*(?P<number>[+-]?[\d.,][^%$€£]*?)(?P<after>{_SIGN})?"
)
# Negative amounts of accounting: in parentheses, or with the minus at the end.
_NEGATIVE = re.compile(r"(?P<sign>[^\w().,-]{0,3})\((?P<inner>[^()]*\d[^()]*)\)|(?P<before>.*\d)-")
_DIGIT = re.compile(r"\d")
_NUMERIC_START = re.compile(r"[+-]?[.,]?\d")
# How separators are written on a command line.
_SHELL = {"'": '"\'"', " ": '" "'}
# Formats of dates that are suggested: dates, and times after them.
_DATES = [
    *(f"%d{s}%m{s}{y}" for s, y in product("./-", ("%Y", "%y"))),
    *(f"%m{s}%d{s}{y}" for s, y in product("/-", ("%Y", "%y"))),
    *("%Y/%m/%d", "%Y.%m.%d", "%d %b %Y", "%d %B %Y", "%d. %B %Y", "%d-%b-%Y", "%d-%b-%y"),
    *("%b %d, %Y", "%B %d, %Y"),
]
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")


def parse_cells(name: str, cells: Sequence[str], table: Table, as_text: bool) -> np.ndarray:
    """Return the texts of a column as numbers, dates or texts, by ``table.text_format``.

    Parameters
    ----------
    name : str
        The column.
    cells : sequence of str
        Its texts.
    table : Table
        The table that it belongs to. Its `codes`, `conversions` and `doubtful` are filled in.
    as_text : bool
        Whether the texts are labels, to be kept as they are.

    Returns
    -------
    ndarray
        Numbers if all cells that are not missing are numbers, else dates if all are dates, else
        texts.
    """
    how = table.text_format
    if as_text:
        return _parse_labels(cells, how.na)
    plain = (how.decimal or ".") == "." and how.thousands is None
    numbers = None
    if plain and not how.na and how.date_format is None:
        numbers = _plain_numbers(cells)  # the fast path, for most columns
    if numbers is None:
        values = _parse_labels(cells, how.na)
        gaps = missing(values)
        present = values[~gaps]
        dates = _dates(present, how.date_format)
        if dates is not None and len(dates):
            return _filled(dates, gaps)
        found = _numbers(present, how)
        numbers = None if found is None else _filled(found, gaps)
    else:
        gaps = np.isnan(numbers)
    if gaps.all():
        return objects([None] * len(cells))
    if numbers is not None:
        if _A_CODE_IN_LINES.search("\n".join(cells)):
            codes = ((cell.strip(), row) for row, cell in enumerate(cells))
            table.codes[name] = next(code for code in codes if _CODE.fullmatch(code[0]))
        return numbers
    if not _has_digits(present):
        return values
    unsigned, removed = _without_signs(present)
    if unsigned != list(present) and (found := _numbers(unsigned, how)) is not None:
        if removed:
            table.conversions[name] = removed
        if negative := next(filter(_NEGATIVE.fullmatch, present), ""):
            table.notes.append(f"in column {name!r}, {negative!r:.60} is a negative number")
        return _filled(found, gaps)
    if remedies := _remedies(unsigned, how):
        other = next(k for k, cell in enumerate(unsigned) if not is_number(cell, how))
        row = int(np.flatnonzero(~gaps)[other])
        table.doubtful[name] = (
            f"column {name!r} holds numbers in another format, first {values[row]!r:.60} in "
            f"{table.place(row)}; use {' or '.join(remedies)}"
        )
    return values


def uses_decimal_comma(values: np.ndarray) -> bool:
    """Whether a text column holds numbers with a decimal comma, beyond doubt.

    Commas before three digits might separate thousands, so another one is needed.
    """
    present = values[~missing(values)]
    if not _has_digits(present):
        return False
    present = _without_signs(present)[0]
    if _numbers(present, TextFormat(decimal=",")) is None:
        return False
    return any("," in cell and not re.search(r",\d{3}$", cell) for cell in present)


def _has_digits(cells: np.ndarray) -> bool:
    """Whether most of about a thousand cells have a digit, so that they may be numbers."""
    some = cells[:: len(cells) // 1000 + 1]
    return 2 * sum(bool(_DIGIT.search(cell)) for cell in some) > len(some)


def _filled(present: np.ndarray, gaps: np.ndarray) -> np.ndarray:
    """Return a column with missing values where there are gaps."""
    found = np.full(len(gaps), "NaT" if present.dtype.kind == "M" else np.nan, present.dtype)
    found[~gaps] = present
    return found


def _parse_labels(cells: Sequence[str], na: Iterable[str] = ()) -> np.ndarray:
    """Return texts without surrounding blanks, and None where they mean a missing value."""
    gaps = _MISSING.union(na)
    stripped = (cell.strip() for cell in cells)
    return objects([None if cell in gaps else cell for cell in stripped])


def is_number(text: str, text_format: TextFormat = DEFAULT_FORMAT) -> bool:
    """Whether a text is a number."""
    return _numbers([text], text_format) is not None


def is_date(text: str, text_format: TextFormat = DEFAULT_FORMAT) -> bool:
    """Whether a text is a date, with or without a time, in ISO 8601 or in the given format."""
    return _dates([text], text_format.date_format) is not None


def _numbers(cells: Sequence[str] | np.ndarray, how: TextFormat) -> np.ndarray | None:
    """Return all cells as numbers, or None."""
    decimal, thousands = how.decimal or ".", how.thousands
    if decimal == "." and thousands is None:
        return _plain_numbers(cells)
    pattern, separators = _pattern(decimal, thousands), THOUSANDS.get(thousands or "", "")
    if not all(map(pattern.fullmatch, cells)):
        return None
    table = {ord(each): None for each in separators} | {ord(decimal): "."}
    return _plain_numbers([cell.translate(table) for cell in cells])


@cache
def _pattern(decimal: str, thousands: str | None) -> re.Pattern[str]:
    """Return a pattern of numbers. Thousands are in groups of three, or not separated."""
    whole = r"\d*"
    if thousands is not None:
        whole = rf"(\d{{1,3}}([{re.escape(THOUSANDS[thousands])}]\d{{3}})+|\d*)"
    return re.compile(rf"(?=.*\d)[+-]?{whole}({re.escape(decimal)}\d*)?([eE][+-]?\d+)?")


def _plain_numbers(cells: Sequence[str] | np.ndarray) -> np.ndarray | None:
    try:
        numbers = np.fromiter(map(float, cells), float, len(cells))
    except ValueError:
        return None
    return None if "_" in "".join(cells) else numbers  # Python allows underscores in numbers


def like_numbers(cells: Sequence[str], text_format: TextFormat) -> list[bool]:
    """Return which texts are numbers, with or without a currency or percent sign."""
    return [is_number(cell, text_format) for cell in _without_signs(cells)[0]]


def _without_signs(cells: Sequence[str] | np.ndarray) -> tuple[list[str], str]:
    """Return cells without currency or percent signs, and what was removed.

    Nothing is removed if signs differ, or if only some numbers are percentages: such numbers are
    not comparable. Negative numbers get a minus in front.
    """
    cells = [_usual_minus(cell) for cell in cells]
    found = [_SIGNED.fullmatch(cell) for cell in cells]
    signs = [(each["before"] or "") + (each["after"] or "") for each in found if each]
    different = set(signs) - {""}
    if len(different) != 1 or ("%" in different and "" in signs):
        return cells, ""
    sign = different.pop()
    kind = "percent signs" if sign == "%" else "currency signs"
    unsigned = [
        each["minus"] + each["number"].rstrip() if each else cell
        for each, cell in zip(found, cells, strict=True)
    ]
    return unsigned, f"{kind} ({sign})"


def _usual_minus(cell: str) -> str:
    """Return a negative number with a minus in front."""
    cell = cell.replace("\N{MINUS SIGN}", "-")
    if found := _NEGATIVE.fullmatch(cell):
        return f"-{found['sign'] or ''}{found['inner'] or found['before']}"
    return cell


def _remedies(cells: Sequence[str], how: TextFormat) -> list[str]:
    """Return the options with which most cells, and more than now, would be numbers."""
    if 2 * sum(map(bool, map(_NUMERIC_START.match, cells))) <= len(cells):
        return []  # quickly, for most text columns
    now = sum(is_number(cell, how) for cell in cells)
    found = []
    for decimal, thousands in product(",.", (None, *THOUSANDS)):
        given = (how.decimal, decimal), (how.thousands, thousands)
        if decimal == thousands or any(mine not in (None, other) for mine, other in given):
            continue
        count = sum(map(bool, map(_pattern(decimal, thousands).fullmatch, cells)))
        if 2 * count > len(cells) and count > now:
            parts = [f"--decimal {decimal}"] if decimal == "," else []
            if thousands is not None:
                parts.append(f"--thousands {_SHELL.get(thousands, thousands)}")
            found.append((-count, len(parts), " ".join(parts)))
    # several, if they explain equally many cells with equally few options
    best = min(found, default=(0, 0, ""))
    return [text for *rank, text in found if rank == [*best[:2]]]


def in_utc(time: datetime) -> datetime:
    """Return a time without a zone: in UTC where it has one."""
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)


def _dates(cells: Sequence[str] | np.ndarray, date_format: str | None = None) -> np.ndarray | None:
    """Return all cells as dates in UTC, or None."""
    if date_format is not None and (found := _dates_in(cells, date_format)) is not None:
        return found
    dates = []
    for cell in cells:
        if "-" not in cell:
            return None
        try:
            dates.append(in_utc(datetime.fromisoformat(cell)))
        except (ValueError, OverflowError):
            return None
    return np.array(dates, "datetime64[us]")


def _dates_in(cells: Sequence[str] | np.ndarray, date_format: str) -> np.ndarray | None:
    dates = []
    for cell in cells:
        try:
            date = datetime.strptime(cell, date_format)
            # plain digits could be any number
            if cell.isdigit() and date.strftime(date_format) != cell:
                return None
            dates.append(in_utc(date))
        except (ValueError, OverflowError):
            return None
    return np.array(dates, "datetime64[us]")


def date_formats(cells: Iterable[str]) -> frozenset[str]:
    """Return the common formats that all of the texts have as dates."""
    found: Iterator[str] | list[str] = (date + time for date, time in product(_DATES, _TIMES))
    for cell in cells:
        if not any(each.isdigit() for each in cell[:30]):
            return frozenset()
        found = [each for each in found if _dates_in([cell], each) is not None]
        if not found:
            break
    return frozenset(found)


def suggest_date_format(formats: Collection[str]) -> str:
    """Return the option ``--date-format`` with the formats that are possible."""
    abbreviated = {each for each in formats if each.replace("%B", "%b") not in formats}
    names = sorted(abbreviated | {each for each in formats if "%B" not in each})
    return "--date-format " + " or ".join(f'"{each}"' if " " in each else each for each in names)
