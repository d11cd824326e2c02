"""Tables in memory: types of columns, how texts are read, and checks of every table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from operator import itemgetter
from typing import Any

import numpy as np

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]{1,3})?")


# More columns could not be fitted, and such a header alone exhausts memory.
_MOST_COLUMNS = 2**20
# How much larger than its file a table may be. Uncompressed booleans expand 64 times, from a bit to
# a float each; a decompression bomb expands a thousand times or more.
_MOST_EXPANSION = 100
# Characters of a date format, which may be from an untrusted model file.
_LONGEST_FORMAT = 100
#: Thousands separators, and the characters that each stands for.
THOUSANDS = {",": ",", ".": ".", "'": "'\N{RIGHT SINGLE QUOTATION MARK}", " ": " \u00a0\u202f"}


class DataError(ValueError):
    """Unusable data. The message is one line: what is wrong, where, and what would be right."""

    def __init__(self, message: str):
        super().__init__(" ".join(message.splitlines()))


@dataclass(frozen=True)
class TextFormat:
    """How texts are read: the options that `steinpath fit` and `predict` share.

    Attributes
    ----------
    delimiter : str, optional
        Character between the cells of a text file; by default the most frequent of comma,
        semicolon, tab and bar in the header.
    decimal : {".", ","}, optional
        Decimal separator; by default a point, or a comma where a semicolon-delimited file leaves no
        doubt.
    thousands : str, optional
        Thousands separator: comma, point, apostrophe or space; none by default.
    encoding : str, optional
        Encoding of a text file; detected by default.
    na : tuple of str
        Texts that mean a missing value, in addition to the usual ones.
    date_format : str, optional
        Format of dates for `datetime.strptime`, in addition to ISO 8601.
    """

    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    na: tuple[str, ...] = ()
    date_format: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise DataError(f"the delimiter must be one character, got {self.delimiter!r:.20}")
        if self.decimal not in (None, ".", ","):
            raise DataError(f"the decimal separator must be . or , and not {self.decimal!r:.20}")
        if self.thousands not in (None, *THOUSANDS):
            raise DataError(
                "the thousands separator must be a comma, a point, an apostrophe or a space, got "
                f"{self.thousands!r:.20}"
            )
        if self.thousands is not None and self.thousands == (self.decimal or "."):
            raise DataError(
                f"{self.thousands!r} cannot be both the decimal and the thousands separator; for "
                "numbers such as 1.234,50 use --decimal , --thousands ."
            )
        if self.encoding is not None:
            try:
                "".encode(self.encoding)
            except (LookupError, ValueError):
                raise DataError(f"unknown encoding {self.encoding!r:.60}") from None
        if self.date_format is not None:
            _check_date_format(self.date_format)

    def to_json(self) -> dict[str, Any]:
        """Return the options that differ from their defaults."""
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def from_json(cls, found: Any) -> TextFormat:
        """Return the options that `to_json` wrote.

        Raises
        ------
        DataError
            If they are not valid options.
        """
        names = [each.name for each in fields(cls)]
        if not isinstance(found, dict) or not set(found) <= set(names):
            raise DataError(f"its 'reading' can only have {', '.join(names)}, got {found!r:.60}")
        na = found.get("na", [])
        texts = [value for name, value in found.items() if name != "na"]
        if not isinstance(na, list) or not all(isinstance(each, str) for each in [*na, *texts]):
            raise DataError("its 'reading' has a value that is not a string")
        return cls(**found | {"na": tuple(na)})


def _check_date_format(date_format: str) -> None:
    wrong = "%" not in date_format or len(date_format) > _LONGEST_FORMAT
    if not wrong:
        try:
            datetime.strptime("", date_format)
        except re.error:  # a directive that is repeated
            wrong = True
        except ValueError as error:  # an unknown directive, unless the text does not match
            wrong = not str(error).startswith("time data")
    if wrong:
        raise DataError(
            "the date format must have directives of strptime, such as %d.%m.%Y, each only once, "
            f"got {date_format!r:.60}"
        )


#: The usual format: a decimal point, ISO dates, delimiter and encoding detected.
DEFAULT_FORMAT = TextFormat()


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length, each of one type.

    Attributes
    ----------
    columns : dict of str to ndarray of shape (n,)
        In file order: numbers (float64, missing values NaN), dates and times (datetime64[us],
        missing values NaT), or texts (object, missing values None). A column of a text file without
        any value is all None.
    lines : ndarray of int of shape (n,), optional
        The line of the file in which each row starts; None for binary files.
    codes : dict of str to (str, int)
        Columns that are read as numbers but written like codes ("007"): the first such text, and
        its row.
    cells : dict of str to ndarray of shape (n,)
        Verbatim cells of the columns requested with `keep`: texts (object), None for missing values
        where the file format distinguishes them.
    numbers : ndarray of int of shape (n,), optional
        Row numbers in the file, from 0; None if the table has all rows in file order.
    files : tuple of (str, int)
        Names of the files that the rows come from, and the number of rows before each; empty if
        there is only one file.
    text_format : TextFormat
        How texts were read.
    conversions : dict of str to str
        Columns of numbers from which signs were removed, and which signs.
    doubtful : dict of str to str
        Text columns that look like numbers in another format: an error that names the option to
        use, for the case that the column is used.
    notes : list of str
        Notes about the file as a whole.
    """

    columns: dict[str, np.ndarray]
    lines: np.ndarray | None = None
    codes: dict[str, tuple[str, int]] = field(default_factory=dict)
    cells: dict[str, np.ndarray] = field(default_factory=dict)
    numbers: np.ndarray | None = None
    files: tuple[tuple[str, int], ...] = ()
    text_format: TextFormat = DEFAULT_FORMAT
    conversions: dict[str, str] = field(default_factory=dict)
    doubtful: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()), ()))

    def place(self, row: int) -> str:
        """Return the place of a row, counted from 0, in the file, such as "line 17" or "row 17"."""
        if self.lines is not None:
            return f"line {self.lines[row]}"
        number = row if self.numbers is None else int(self.numbers[row])
        if not self.files:
            return f"row {number + 1}"
        name, before = max((each for each in self.files if each[1] <= number), key=itemgetter(1))
        return f"row {number - before + 1} of {name}"


def missing(values: np.ndarray) -> np.ndarray:
    """Return a boolean mask of the missing values of a column."""
    if values.dtype == object:
        return np.fromiter((value is None for value in values), bool, len(values))
    return np.asarray(np.isnat(values) if values.dtype.kind == "M" else np.isnan(values))


def texts(values: np.ndarray) -> np.ndarray:
    """Return a column as texts in a canonical form.

    Whole numbers have no decimal point, dates at midnight no time, booleans are lower case.
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
    # leading zeros, or more digits than a float can hold, mean a label
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
    """Return texts as a column without surrounding blanks; blank texts are missing."""
    return objects([(value or "").strip() or None for value in values])


def check_expansion(size: int, of: int, least: int) -> None:
    """Refuse a table that is far larger than its file, before memory runs out.

    Parameters
    ----------
    size : int
        Size of the table in bytes, expected or so far.
    of : int
        Size of the file in bytes.
    least : int
        Size of a table that is always allowed.
    """
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


def check_names(names: Sequence[str]) -> list[str]:
    """Return the names of columns, with blank names replaced; refuse duplicate names."""
    check_width(len(names))
    found = [name.strip() or f"column {k}" for k, name in enumerate(names, start=1)]
    twice = [name for name, count in Counter(found).items() if count > 1]
    if twice:
        raise DataError(
            f"several columns are named {twice[0]!r}; column names must be unique: rename or "
            "remove all but one"
        )
    return found


def check_values(table: Table) -> None:
    """Refuse a table without rows or columns, or with infinite numbers."""
    if not table.columns:
        raise DataError("it has no columns")
    if not table.n_rows:
        raise DataError("it has no rows")
    for name, values in table.columns.items():
        if values.dtype.kind == "f" and (infinite := np.isinf(values)).any():
            place = table.place(int(np.argmax(infinite)))
            raise DataError(
                f"column {name!r} has a number that is not finite, in {place}; numbers must be "
                "finite or missing"
            )
