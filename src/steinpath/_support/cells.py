"""Columns of tables: numbers, dates or labels, also where they are written as texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np

from steinpath._support.files import import_pyarrow
from steinpath._support.messages import DataError, Message, Remedy, joined
from steinpath._support.validation import check_choice

#: Libraries of data frames, neither of which is needed otherwise.
LIBRARIES = ("pandas", "polars")
#: Thousands separators, and the characters that each stands for.
THOUSANDS = {",": ",", ".": ".", "'": "'\N{RIGHT SINGLE QUOTATION MARK}", " ": " \u00a0\u202f"}
# Texts that stand for a missing value.
_GAPS = ["", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "null", "NULL", "None", "#N/A", "?", "-nan"]
# Parts of codes that a number does not keep: leading zeros, the plus of a telephone number, more
# digits than a float has.
_CODE = r"^(0[0-9]+|\+[0-9]{7,}|[0-9]{17,})$"
# Signs around amounts. Other letters may be part of a code.
_SIGN = (
    r"[$€£¥₹₽₩₺₪₫฿%]|US\$|Fr\.|kr|zł|Kč|AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|ILS|INR|JPY"
    r"|KRW|MXN|NOK|NZD|PLN|RUB|SEK|SGD|THB|TRY|USD|ZAR"
)
_SIGNED = re.compile(
    rf"(?P<minus>[+-]?)(?P<before>{_SIGN})?\s*(?P<number>[+-]?[\d.,][^%$€£]*?)(?P<after>{_SIGN})?"
)
# Negative amounts of accounting: in parentheses, or with the minus at the end. A pattern around the
# digit would be tried at each digit of a long text.
_NEGATIVE = re.compile(
    r"(?P<sign>[^\w().,-]{0,3})\((?=[^()]*\d)(?P<inner>[^()]+)\)|(?P<before>.*\d)-"
)
_NUMERIC_START = re.compile(r"[+-]?[.,]?\d")
# A number in its usual writing; leading zeros mean a label.
_USUAL = re.compile(r"-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]{1,3})?")
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
# Formats of dates that are suggested: dates, and times after them.
_DATES = [
    *(f"%d{s}%m{s}{y}" for s, y in product("./-", ("%Y", "%y"))),
    *(f"%m{s}%d{s}{y}" for s, y in product("/-", ("%Y", "%y"))),
    *("%Y/%m/%d", "%Y.%m.%d", "%d %b %Y", "%d %B %Y", "%d. %B %Y", "%d-%b-%Y", "%d-%b-%y"),
    *("%b %d, %Y", "%B %d, %Y"),
]
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
# What all of these formats have: two numbers, among few characters.
_LIKE_DATE = re.compile(r"(?=\D*\d{1,4}\D+\d)[\w./,: -]{6,40}")
_EPOCH, _DAY = np.datetime64("1970-01-01", "us"), np.timedelta64(1, "D")


@dataclass(frozen=True)
class TextFormat:
    """How numbers, dates and missing values are written in texts; see `TableEncoder`."""

    decimal: str | None = None
    thousands: str | None = None
    na: tuple[str, ...] = ()
    date_format: str | None = None

    def __post_init__(self) -> None:
        if self.decimal not in (None, ".", ","):
            raise DataError(f"the decimal separator must be . or , and not {self.decimal!r:.20}")
        if self.thousands not in (None, *THOUSANDS):
            said = "the thousands separator must be a comma, a point, an apostrophe or a space, got"
            raise DataError(f"{said} {self.thousands!r:.20}")
        if self.thousands is not None and self.thousands == (self.decimal or "."):
            said = "{both!r} cannot be both the decimal and the thousands separator; for numbers"
            remedy = Remedy("decimal", ","), Remedy("thousands", ".")
            said += " such as 1.234,50 use {remedy}"
            raise DataError(Message(said, both=self.thousands, remedy=remedy))
        if self.date_format is not None and not _is_date_format(self.date_format):
            said = "the date format must have directives of strptime, such as %d.%m.%Y, each only"
            raise DataError(f"{said} once, got {self.date_format!r:.60}")


def _is_date_format(text: Any) -> bool:
    # it may be from an untrusted model file
    if not isinstance(text, str) or "%" not in text or len(text) > 100:
        return False
    try:
        datetime.strptime("", text)
    except (ValueError, re.error) as error:  # unknown or repeated directives, or no match
        return str(error).startswith("time data")
    return True


DEFAULT_FORMAT = TextFormat()


@dataclass(frozen=True, eq=False)
class ReadColumn:
    """A column as numbers, dates or labels, and how it was written."""

    kind: str  # "f" numbers, "M" dates, "O" labels, "" nothing but missing values
    data: np.ndarray  # float64, datetime64[us], or indices of labels, -1 for missing values
    labels: tuple[str, ...] = ()  # distinct texts, without surrounding blanks
    how: TextFormat = DEFAULT_FORMAT
    sign: str = ""  # currency or percent sign that was removed from numbers
    code: tuple[str, int] | None = None  # the first number written like a code ("007"), its row
    doubtful: Message | None = None  # error if the labels are used as they are: numbers, perhaps
    negative: str = ""  # a negative number that is not written with a minus in front

    @cached_property
    def gaps(self) -> np.ndarray:
        """Mask of the missing values."""
        return missing(self.data) if self.kind in ("f", "M") else self.data < 0

    @property
    def values(self) -> np.ndarray:
        """Numbers (float64), dates (datetime64[us]) or texts (object, None for missing values)."""
        numeric = self.kind in ("f", "M")
        return self.data if numeric else np.array([*self.labels, None], object)[self.data]

    @property
    def present(self) -> np.ndarray:
        """The data without missing values."""
        return np.asarray(self.data[~self.gaps]) if self.gaps.any() else self.data

    @property
    def numbers(self) -> np.ndarray:
        """Numbers, and dates as days since 1970."""
        return np.asarray((self.data - _EPOCH) / _DAY) if self.kind == "M" else self.data

    @cached_property
    def middle(self) -> float:
        """The median of numbers or dates, some of which are not missing."""
        present = self.numbers[~self.gaps]
        ranks = [(len(present) - 1) // 2, len(present) // 2]
        low, high = np.partition(present, ranks)[ranks]
        return float(low / 2 + high / 2)  # the sum of the largest floats would be infinite

    @cached_property
    def counts(self) -> np.ndarray:
        """Number of values with each label."""
        return np.bincount(self.present, minlength=len(self.labels))

    @cached_property
    def levels(self) -> dict[str, int]:
        """Counts of labels in their usual writing, most frequent first, ties by alphabet."""
        counts = Counter[str]()
        for label, count in zip(self.labels, self.counts.tolist(), strict=True):
            counts[usual(label)] += count
        return dict(sorted(counts.items(), key=lambda one: (-one[1], one[0])))

    @cached_property
    def others(self) -> np.ndarray:
        """Mask of the labels that are not numbers, with or without a sign."""
        return np.array([not is_number(cell, self.how) for cell in _without_signs(self.labels)[0]])

    def first_other(self, kind: str) -> int:
        """Return the row of the first value that is not of the kind "number" or "date"."""
        present = ~self.gaps
        if self.kind != "O":
            return int(present.argmax())
        dates = kind == "date"
        others = [not is_date(cell, self.how) for cell in self.labels] if dates else self.others
        rows = np.append(others, False)[self.data]
        return int((rows if rows.any() else present).argmax())

    def placed(self, row: int) -> Message:
        """Return the text of one value and its place."""
        return Message("{value!r:.60} in {place}", value=self.text(row), row=row)

    def text(self, row: int) -> str:
        """Return the text of one value."""
        return str(texts(self.values[row : row + 1])[0])

    def refuse_doubtful(self, labels: Remedy | None = None) -> None:
        """Refuse numbers in a format that has to be stated; `labels` if these are labels."""
        if self.doubtful is not None:
            also = "" if labels is None else " (or {labels} if these are labels)"
            raise DataError(Message("{doubtful}" + also, doubtful=self.doubtful, labels=labels))


arrow = partial(import_pyarrow, "data frames", "files")


def as_arrow(data: Any) -> Any:
    """Return a data frame, an Arrow table or a mapping of columns as a `pyarrow.Table`."""
    pa = arrow()
    # look at the type, since columns of a pandas frame are attributes of the instance
    if hasattr(type(data), "collect") and hasattr(type(data), "collect_schema"):
        data = data.collect()  # a polars LazyFrame
    kind, coded = type(data), set[str]()
    if kind.__module__.partition(".")[0] == "pandas" and hasattr(kind, "iterrows"):
        columns = [(name, data.iloc[:, k]) for k, name in enumerate(data.columns)]
    elif isinstance(data, Mapping):
        columns = list(data.items())
    else:
        try:
            # names of tables that are passed on end at a null character
            table = data if isinstance(data, pa.Table) else pa.table(data)
        except (TypeError, ValueError):
            said = "X must be a data frame, a pyarrow.Table, or a mapping of names to columns"
            raise TypeError(f"{said}, got {kind.__name__}") from None
        # categories of numbers of pandas, which Parquet does not mark
        written = (table.schema.pandas_metadata or {}).get("columns", ())
        coded = {one["field_name"] for one in written if one["pandas_type"] == "categorical"}
        pairs = zip(table.column_names, table.columns, strict=True)
        columns = [pair for pair in pairs if not _PANDAS_INDEX.fullmatch(pair[0])]
    names = check_names([str(name) for name, _ in columns])
    arrays = [_as_array(name, each) for name, (_, each) in zip(names, columns, strict=True)]
    if len({len(each) for each in arrays}) > 1:
        raise DataError("the columns must have the same length")
    for k, (name, _) in enumerate(columns):
        if name in coded and not pa.types.is_dictionary(arrays[k].type):
            arrays[k] = arrays[k].dictionary_encode()
    return pa.table(arrays, names)


def _as_array(name: str, values: Any) -> Any:
    pa = arrow()
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if getattr(values, "ndim", 1) != 1:
        raise DataError(f"column {name!r:.60} has shape {values.shape}; it must be a vector")
    try:
        return pa.array(values, from_pandas=True)
    except (ValueError, TypeError, NotImplementedError, OverflowError):  # of Arrow, too
        said = "must hold only numbers, only dates, only strings or only booleans"
        raise DataError(f"column {name!r:.60} {said}") from None


def check_names(names: Sequence[str]) -> list[str]:
    """Return the names of columns, with blank names replaced; refuse duplicate names."""
    names = [name.strip() or f"column {k}" for k, name in enumerate(names, start=1)]
    [(name, count)] = Counter(names).most_common(1) or [("", 0)]
    if count > 1:
        said = f"several columns are named {name!r}; column names must be unique"
        raise DataError(f"{said}: rename or remove all but one")
    return names


def read_column(
    name: str,
    column: Any,
    how: TextFormat = DEFAULT_FORMAT,
    as_labels: bool | None = None,
) -> ReadColumn:
    """Read one column of a `pyarrow.Table`; texts that are all numbers or all dates become these.

    as_labels: whether texts, integers and so on are labels; by default only those of categories
    (dictionaries).
    """
    pa = arrow()
    if is_dictionary(column.type):
        text = is_text(column.type.value_type)  # Arrow takes no string views
        kind = pa.large_string() if text else column.type.value_type
        parts = [each.dictionary.cast(kind).take(each.indices) for each in column.chunks]
        return read_column(name, pa.chunked_array(parts, kind), how, as_labels is not False)
    kind, types = column.type, pa.types
    if types.is_null(kind):
        return ReadColumn("", np.full(len(column), -1))
    if types.is_boolean(kind) or (as_labels and types.is_integer(kind)):
        return _labels(column.cast(pa.string()), how)
    if is_text(kind):
        read = _read_texts(name, column.cast(pa.large_string()), how, bool(as_labels))
    elif types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        read = ReadColumn("f", column.cast(pa.float64(), safe=False).to_numpy())
    elif types.is_date(kind) or types.is_timestamp(kind):
        finer = types.is_timestamp(kind) and kind.unit == "ns"
        try:
            read = ReadColumn("M", column.cast(pa.timestamp("us"), safe=not finer).to_numpy())
        except pa.ArrowInvalid as error:
            raise DataError(f"column {name!r}: {error}") from None
    else:
        said = "columns must hold numbers, dates, strings or booleans"
        raise DataError(f"column {name!r} is of type {kind}; {said}")
    if read.kind == "f" and (infinite := np.isinf(read.data)).any():
        said = "column {name!r} has a number that is not finite, in {place}; numbers must be finite"
        raise DataError(Message(said + " or missing", name=name, row=infinite.argmax()))
    numeric = as_labels and read.kind in ("f", "M")
    return _labels(pa.array(texts(read.data), pa.string()), how) if numeric else read


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of texts."""
    types = arrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_dictionary(kind: Any) -> bool:
    """Whether an Arrow type is one of categories."""
    return bool(arrow().types.is_dictionary(kind))


def _labels(column: Any, how: TextFormat = DEFAULT_FORMAT) -> ReadColumn:
    """Return texts as labels."""
    whole = column.combine_chunks() if hasattr(column, "chunks") else column
    encoded = whole.dictionary_encode()
    labels = tuple(encoded.dictionary.to_pylist())
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return ReadColumn("O" if labels else "", codes, labels, how)


def _read_texts(name: str, column: Any, how: TextFormat, as_labels: bool) -> ReadColumn:
    pa = arrow()
    pc = pa.compute
    column = pc.utf8_trim_whitespace(column)
    gaps = pc.is_in(column, value_set=pa.array([*_GAPS, *how.na], column.type))
    column = pc.if_else(gaps, pa.scalar(None, column.type), column)
    if as_labels or column.null_count == len(column):
        return _labels(column, how)
    numbers = None
    if how.decimal in (None, ".") and how.thousands is how.date_format is None:
        with suppress(pa.ArrowInvalid):  # the fast path, for most columns of numbers
            numbers = column.cast(pa.float64()).to_numpy()
    if numbers is None:
        read = _labels(column, how)
        dates = _dates(read.labels, how.date_format, None)
        if dates is not None:
            return ReadColumn("M", np.append(dates, np.datetime64("NaT"))[read.data])
        values = _numbers(read.labels, how)
        numbers = None if values is None else np.append(values, np.nan)[read.data]
    if numbers is not None:
        row = pc.index(pc.match_substring_regex(column, _CODE), True).as_py()
        code = None if row < 0 else (column[row].as_py(), row)
        return ReadColumn("f", numbers, code=code)
    weights = read.counts
    if 2 * weights @ [any(map(str.isdigit, label)) for label in read.labels] <= weights.sum():
        return read
    unsigned, sign = _without_signs(read.labels)
    if unsigned != list(read.labels) and (values := _numbers(unsigned, how)) is not None:
        negative = next(filter(_NEGATIVE.fullmatch, read.labels), "")
        return ReadColumn("f", np.append(values, np.nan)[read.data], sign=sign, negative=negative)
    if not (remedies := _remedies(unsigned, weights, how)):
        return read
    other = np.array([not is_number(label, how) for label in unsigned] + [False])
    row = int(other[read.data].argmax())
    doubtful = Message(
        "column {name!r} holds numbers in another format, first {first!r:.60} in {place}; use "
        "{remedies}",
        name=name,
        first=read.text(row),
        row=row,
        remedies=joined(" or ", remedies),
    )
    return replace(read, doubtful=doubtful)


def uses_decimal_comma(labels: Iterable[str | None]) -> bool:
    """Whether texts are numbers with a decimal comma; before three digits, it is in doubt."""
    present = _without_signs([label for label in labels if label is not None])[0]
    if not present or _numbers(present, TextFormat(decimal=",")) is None:
        return False
    return any("," in cell and not re.search(r",\d{3}$", cell) for cell in present)


def is_number(text: str, how: TextFormat = DEFAULT_FORMAT) -> bool:
    """Whether a text is a number."""
    return _numbers([text], how) is not None


def is_date(text: str, how: TextFormat = DEFAULT_FORMAT) -> bool:
    """Whether a text is a date, with or without a time, in ISO 8601 or in the given format."""
    return _dates([text], how.date_format, None) is not None


def _numbers(cells: Sequence[str], how: TextFormat) -> np.ndarray | None:
    """Return all cells as numbers, or None."""
    decimal, thousands = how.decimal or ".", how.thousands
    if decimal != "." or thousands is not None:
        if not all(map(_pattern(decimal, thousands).fullmatch, cells)):
            return None
        separators = THOUSANDS.get(thousands or "", "")
        table = str.maketrans({**dict.fromkeys(separators), decimal: "."})
        cells = [cell.translate(table) for cell in cells]
    try:
        numbers = np.array([float(cell) for cell in cells])
    except ValueError:
        return None
    return None if "_" in "".join(cells) else numbers  # Python allows underscores in numbers


@cache
def _pattern(decimal: str, thousands: str | None) -> re.Pattern[str]:
    """Return a pattern of numbers. Thousands are in groups of three, or not separated."""
    whole = r"\d*"
    if thousands is not None:
        whole = rf"(\d{{1,3}}([{re.escape(THOUSANDS[thousands])}]\d{{3}})+|\d*)"
    return re.compile(rf"(?=.*\d)[+-]?{whole}({re.escape(decimal)}\d*)?([eE][+-]?\d+)?")


def _without_signs(cells: Sequence[str]) -> tuple[list[str], str]:
    """Return cells without currency or percent signs, and the sign that was removed.

    Nothing is removed if signs differ, or if only some numbers are percentages: such numbers are
    not comparable. Negative numbers get a minus in front.
    """
    cells = [_with_minus(cell.replace("\N{MINUS SIGN}", "-")) for cell in cells]
    matches = [_SIGNED.fullmatch(cell) for cell in cells]
    signs = {(match["before"] or "") + (match["after"] or "") for match in matches if match}
    different = signs - {""}
    if len(different) != 1 or ("%" in different and "" in signs):
        return cells, ""
    unsigned = [
        match["minus"] + match["number"].rstrip() if match else cell
        for match, cell in zip(matches, cells, strict=True)
    ]
    return unsigned, different.pop()


def is_sign(text: Any) -> bool:
    """Whether this is a sign that is removed from numbers, "" for none, or None if unknown."""
    signs = rf"({_SIGN}){{0,2}}"  # one in front, one after the number
    return text is None or (isinstance(text, str) and re.fullmatch(signs, text) is not None)


def _with_minus(cell: str) -> str:
    """Return a negative number with a minus in front."""
    match = _NEGATIVE.fullmatch(cell)
    return f"-{match['sign'] or ''}{match['inner'] or match['before']}" if match else cell


def _remedies(cells: Sequence[str], weights: np.ndarray, how: TextFormat) -> list[Message]:
    """Return the parameters with which most cells, and more than now, would be numbers."""
    if 2 * weights @ [bool(_NUMERIC_START.match(cell)) for cell in cells] <= weights.sum():
        return []  # quickly, for most text columns
    now = weights @ [is_number(cell, how) for cell in cells]
    possible = []
    for decimal, thousands in product(",.", (None, *THOUSANDS)):
        given = (how.decimal, decimal), (how.thousands, thousands)
        if decimal == thousands or any(mine not in (None, other) for mine, other in given):
            continue
        match = _pattern(decimal, thousands).fullmatch
        count = int(weights @ [bool(match(cell)) for cell in cells])
        if 2 * count > weights.sum() and count > now:
            parts = [Remedy("decimal", ",")] if decimal == "," else []
            parts += [] if thousands is None else [Remedy("thousands", thousands)]
            possible.append(((-count, len(parts)), Message("{remedy}", remedy=tuple(parts))))
    # several, if they explain equally many cells with equally few parameters
    best = min((rank for rank, _ in possible), default=None)
    return [remedy for rank, remedy in possible if rank == best]


def _dates(cells: Sequence[str], *formats: str | None) -> np.ndarray | None:
    """Return all cells as dates in the first possible format (None: ISO 8601), or None."""
    for date_format in formats:
        with suppress(ValueError, OverflowError):
            return np.array([_date(cell, date_format) for cell in cells], "datetime64[us]")
    return None


def _date(cell: str, date_format: str | None) -> datetime:
    """Return a date, in UTC where it has a time zone; plain digits could be any number."""
    if date_format is None:
        date = datetime.fromisoformat(cell if "-" in cell else "")
    else:
        date = datetime.strptime(cell, date_format)
        if cell.isdigit() and date.strftime(date_format) != cell:
            raise ValueError
    return date if date.tzinfo is None else date.astimezone(UTC).replace(tzinfo=None)


def date_formats(cells: Iterable[str]) -> frozenset[str]:
    """Return the common formats that all of the texts have as dates."""
    formats: list[str] | None = None
    for cell in cells:
        if not _LIKE_DATE.fullmatch(cell):
            return frozenset()
        if formats is None:  # those with the same separators
            marks = re.sub(r"\w", "", cell)
            formats = [date + time for date, time in product(_DATES, _TIMES)]
            formats = [form for form in formats if re.sub(r"%\w", "", form) == marks]
        formats = [form for form in formats if _dates([cell], form) is not None]
    return frozenset(formats or ())


def suggest_date_format(formats: Iterable[str]) -> Message:
    """Return the parameter `date_format` with the formats that are possible."""
    formats = set(formats)
    # "%b" and "%B" both read names such as May
    full = {form for form in formats if "%B" in form and form.replace("%B", "%b") in formats}
    return joined(" or ", [Remedy("date_format", name) for name in sorted(formats - full)])


def missing(values: np.ndarray) -> np.ndarray:
    """Return a boolean mask of the missing values of a column."""
    if values.dtype == object:
        return np.fromiter((value is None for value in values), bool, len(values))
    return np.asarray(np.isnat(values) if values.dtype.kind == "M" else np.isnan(values))


def texts(values: np.ndarray) -> np.ndarray:
    """Return a column as texts in a canonical form.

    Whole numbers have no decimal point, dates at midnight no time, booleans are lower case.
    """
    if values.dtype.kind in "bUO":
        same = {value: None if value is None else usual(str(value)) for value in set(values)}
        return np.array([same[value] for value in values], object)
    distinct, codes = np.unique(values, return_inverse=True)
    if values.dtype.kind == "M":
        written = [str(value).removesuffix("T00:00:00.000000") for value in distinct]
    else:
        written = [_number_text(value) for value in distinct]
    return np.array([None if text in ("NaT", "nan") else text for text in written], object)[codes]


def usual(text: str) -> str:
    """Return a text as a level: numbers and booleans in their usual writing."""
    if text.lower() in ("false", "true"):
        return text.lower()
    if not _USUAL.fullmatch(text):
        return text
    number = float(text)
    # more digits than a float can hold mean a label
    inexact = text.lstrip("-").isdigit() and abs(number) >= 2**53
    return text if inexact else _number_text(number)


def _number_text(number: float) -> str:
    whole = number.is_integer() and abs(number) < 2**53
    return f"{int(number)}" if whole else repr(float(number))


def library_of(values: Any) -> str | None:
    """Return the library of a data frame; None for anything else."""
    kind, library = type(values), type(values).__module__.partition(".")[0]
    # the columns of a lazy frame are expensive
    frame = hasattr(kind, "columns") and not hasattr(kind, "collect")
    return library if library in LIBRARIES and frame else None


def to_frame(columns: dict[str, Any], library: str | None, like: str | None = None) -> Any:
    """Return columns as a data frame of a library: by default that of the data, if installed."""
    if library is not None:
        check_choice("library", library, LIBRARIES)
    for name in (library,) if library else dict.fromkeys((like or "pandas", *LIBRARIES)):
        with suppress(ImportError):
            return import_module(name).DataFrame(columns)
    raise ImportError(
        f"to_frame needs {library or 'pandas or polars'}; install it, or use to_dict()"
    )
