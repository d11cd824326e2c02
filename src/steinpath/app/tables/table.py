"""Tables in memory: what a column may hold, and what every table must be."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]{1,3})?")


# A table of more columns is none that could be fitted, and its header alone fills a memory.
_MOST_COLUMNS = 2**20
# How much larger than its file a table may be. Of what is not compressed, true and false become 64
# times as large, from a bit to a number each; of what is, a thousandth of the size is all that a
# file made to fill a memory needs.
_MOST_EXPANSION = 100


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
    codes : dict of str to (str, int)
        Columns that are read as numbers and are written like codes ("007"): their first such text,
        and its row.
    cells : dict of str to ndarray of shape (n,)
        What the file has in the columns that it was read to keep: texts (object), missing ones
        None where the file tells them from others.
    numbers : ndarray of int of shape (n,), optional
        Which rows of the file these are, counted from 0; None for all of them, in their order.
    files : tuple of (str, int)
        Names of the files that the rows are from, in their order, and the number of rows before
        each; none if there is only one, which messages need not name.
    """

    columns: dict[str, np.ndarray]
    lines: np.ndarray | None = None
    codes: dict[str, tuple[str, int]] = field(default_factory=dict)
    cells: dict[str, np.ndarray] = field(default_factory=dict)
    numbers: np.ndarray | None = None
    files: tuple[tuple[str, int], ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()), ()))

    def place(self, row: int) -> str:
        """Where a row, counted from 0, is in the file: such as "line 17" or "row 17"."""
        if self.lines is not None:
            return f"line {self.lines[row]}"
        number = row if self.numbers is None else int(self.numbers[row])
        if not self.files:
            return f"row {number + 1}"
        name, before = max((each for each in self.files if each[1] <= number), key=itemgetter(1))
        return f"row {number - before + 1} of {name}"


def missing(values: np.ndarray) -> np.ndarray:
    """Return which values of a column are missing, as booleans."""
    if values.dtype == object:
        return np.fromiter((value is None for value in values), bool, len(values))
    return np.asarray(np.isnat(values) if values.dtype.kind == "M" else np.isnan(values))


def texts(values: np.ndarray) -> np.ndarray:
    """Return a column as texts, the same for the same level however it was written.

    Whole numbers have no point, days no time, true and false no capitals.
    """
    if values.dtype == object:
        same = {value: value if value is None else _usual(value) for value in set(values)}
        return objects([same[value] for value in values])
    text = _date_text if values.dtype.kind == "M" else _number_text
    gaps = missing(values)
    return objects([None if gap else text(value) for value, gap in zip(values, gaps, strict=True)])


def _usual(text: str) -> str:
    if text.lower() in ("false", "true"):
        return text.lower()
    # what begins with zeros, or has more digits than a number can keep, is a name
    if not _NUMBER.fullmatch(text):
        return text
    digits = text.lstrip("-")
    if digits.isdigit() and (len(digits) > 16 or int(digits) >= 2**53):
        return text
    return _number_text(float(text))


def _number_text(number: float) -> str:
    whole = number.is_integer() and abs(number) < 2**53
    return f"{int(number)}" if whole else repr(float(number))


def _date_text(date: np.datetime64) -> str:
    return str(date).removesuffix("T00:00:00.000000")


def objects(values: Sequence[str | None]) -> np.ndarray:
    """Return texts as a column."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def stripped(values: Sequence[str | None]) -> np.ndarray:
    """Return texts without blanks around them as a column; what is blank is missing."""
    return objects([(value or "").strip() or None for value in values])


def check_expansion(size: int, of: int, least: int) -> None:
    """Refuse what becomes far larger than its file, before there is no memory left.

    Parameters
    ----------
    size : int
        Bytes that there will be, or are so far.
    of : int
        Bytes of the file.
    least : int
        Bytes that are always allowed.
    """
    if size > max(least, _MOST_EXPANSION * of):
        raise DataError(
            f"its {of} bytes expand to {size} or more, over {_MOST_EXPANSION} times as many, as "
            "those of files do that are made to fill a memory; if it is not one, write it as CSV "
            "or npz without compression"
        )


def check_width(count: int) -> None:
    """Refuse more columns than any table has."""
    if count > _MOST_COLUMNS:
        raise DataError(f"it has {count} columns; there can be {_MOST_COLUMNS} at most")


def check_names(names: Sequence[str]) -> list[str]:
    """Return the names of columns, none of them blank, and refuse names that occur twice."""
    check_width(len(names))
    found = [name.strip() or f"column {k}" for k, name in enumerate(names, start=1)]
    twice = [name for name, count in Counter(found).items() if count > 1]
    if twice:
        raise DataError(f"several columns are called {twice[0]!r}; every name must be another")
    return found


def check_values(table: Table) -> None:
    """Refuse a table without rows or columns, or with numbers that are infinite."""
    if not table.columns:
        raise DataError("it has no columns")
    if not table.n_rows:
        raise DataError("it has no rows")
    for name, values in table.columns.items():
        if values.dtype.kind == "f" and (infinite := np.isinf(values)).any():
            place = table.place(int(np.argmax(infinite)))
            raise DataError(
                f"column {name!r} has a number that is not finite, in {place}; all must be finite, "
                "or missing"
            )
