"""Facts about a column that its encoding depends on; facts of blocks of rows add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from typing import Any, NamedTuple

import numpy as np

from steinpath.app.encoding.identifiers import WholeNumbers
from steinpath.app.encoding.messages import MOST_LISTED, MOST_NAMES, short
from steinpath.app.tables import DataError, Table, date_formats, like_numbers, missing, texts

_EPOCH = np.datetime64("1970-01-01", "us")
_DAY = np.timedelta64(1, "D")
#: The type of a column whose blocks of rows are of several types.
MIXED = "?"
#: Distinct levels that are counted over several files.
MOST_COUNTED = 1_000_000


class Place(NamedTuple):
    """A value, and the number of its row."""

    value: str
    row: int


@dataclass(frozen=True)
class TextFacts:
    """Facts about texts that are neither all numbers nor all dates.

    Attributes
    ----------
    present, others : int
        Number of texts, and of those that are not numbers.
    first, first_other : Place or None
        The first text, and the first that is not a number.
    other_texts : frozenset of str
        Distinct texts that are not numbers; a few of them if there are many.
    date_formats : frozenset of str
        Formats in which all texts are dates; see `steinpath.app.tables.date_formats`.
    """

    present: int = 0
    others: int = 0
    first: Place | None = None
    first_other: Place | None = None
    other_texts: frozenset[str] = frozenset()
    date_formats: frozenset[str] = frozenset()

    def __add__(self, later: TextFacts) -> TextFacts:
        if not (self.present and later.present):
            return self if self.present else later
        return TextFacts(
            self.present + later.present,
            self.others + later.others,
            self.first or later.first,
            self.first_other or later.first_other,
            _few(self.other_texts | later.other_texts),
            self.date_formats & later.date_formats,
        )


@dataclass(frozen=True)
class Facts:
    """Facts about a column. The facts of consecutive blocks of rows add up.

    Attributes
    ----------
    kind : str
        Kind of its NumPy array: "f" for numbers, "M" for dates, "O" for texts; "" if all values are
        missing, and "?" if blocks are of several types, so that all have to be read as texts.
    count, gaps : int
        Number of rows, and of missing values.
    first_gap : int or None
        Row of the first missing value.
    low, high : Any
        Smallest and largest number or date.
    total : float
        Sum of numbers.
    middle : tuple of float, optional
        The two middle values, equal for an odd count; dates as days since 1970. They do not add up.
    levels : Counter
        Counts of the texts.
    texts : TextFacts
        Facts about texts, including those of dropped rows.
    code : Place or None
        The first number that is written like a code, including dropped rows.
    numbers : WholeNumbers
        Facts that distinguish identifiers from other numbers, including dropped rows.
    conversion : str
        Signs that were removed from numbers; see `Table.conversions`.
    """

    kind: str = ""
    count: int = 0
    gaps: int = 0
    first_gap: int | None = None
    low: Any = None
    high: Any = None
    total: float = 0.0
    middle: tuple[float, float] | None = None
    levels: Counter[str] = field(default_factory=Counter)
    texts: TextFacts = TextFacts()
    code: Place | None = None
    numbers: WholeNumbers = field(default_factory=WholeNumbers, compare=False)
    conversion: str = ""

    @property
    def present(self) -> int:
        """Number of values that are not missing."""
        return self.count - self.gaps

    @property
    def sorted_levels(self) -> dict[str, int]:
        """Counts of the levels, most frequent first, ties in alphabetical order."""
        return dict(sorted(self.levels.items(), key=lambda one: (-one[1], one[0])))

    def __add__(self, later: Facts) -> Facts:
        if self.kind and later.kind and self.kind != later.kind:
            return Facts(MIXED)
        if self.present and later.present and not _comparable(self.conversion, later.conversion):
            return Facts(MIXED)
        known = [each for each in (self, later) if each.present]
        lows = [each.low for each in known if each.low is not None]
        highs = [each.high for each in known if each.high is not None]
        levels = later.levels
        if self.levels:
            self.levels.update(later.levels)  # in place: there may be many
            levels = self.levels
        return Facts(
            kind=self.kind or later.kind,
            count=self.count + later.count,
            gaps=self.gaps + later.gaps,
            first_gap=later.first_gap if self.first_gap is None else self.first_gap,
            low=min(lows, default=None),
            high=max(highs, default=None),
            total=self.total + later.total,
            middle=known[0].middle if len(known) == 1 else None,
            levels=levels,
            texts=self.texts + later.texts,
            code=self.code or later.code,
            numbers=self.numbers + later.numbers,
            conversion=self.conversion or later.conversion,
        )


def _comparable(sign: str, other: str) -> bool:
    """Whether numbers with these signs are comparable, as in one file; see `Table.conversions`."""
    if sign and other:
        return sign == other
    return "percent" not in sign + other


def facts_of(values: np.ndarray, as_levels: bool = False) -> Facts:
    """Return the facts about a column in memory.

    Parameters
    ----------
    values : ndarray of shape (n,)
        A column of a `Table`.
    as_levels : bool
        Whether to treat numbers and dates as levels of a category.
    """
    if as_levels or values.dtype == object:
        values = texts(values)
    gaps = missing(values)
    count, first = int(gaps.sum()), int(np.argmax(gaps)) if gaps.any() else None
    found = Facts("", len(values), count, first)
    if not found.present:
        return found
    present = values[~gaps] if count else values
    kind = values.dtype.kind
    if kind == "O":
        return replace(found, kind=kind, levels=Counter(present.tolist()))
    low, high = present.min(), present.max()
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(present.sum()) if kind == "f" else 0.0
    return replace(found, kind=kind, low=low, high=high, total=total, middle=middle_of(present))


def facts_of_rows(
    table: Table, name: str, kept: np.ndarray | None, as_levels: bool = False, dropped: bool = False
) -> Facts:
    """Return the facts about a column of a table, some rows of which are dropped.

    Parameters
    ----------
    table : Table
        The rows.
    name : str
        The column.
    kept : ndarray of bool of shape (n,), optional
        Mask of the rows that are not dropped.
    as_levels : bool
        As for `facts_of`.
    dropped : bool
        Whether the column is not used, so that only its missing values are counted.

    Raises
    ------
    DataError
        If the column holds numbers in a format that has to be stated.
    """
    values = table.columns[name]
    if dropped:
        gaps = missing(values if kept is None else values[kept])
        return Facts("", len(gaps), int(gaps.sum()))
    refuse_doubtful(table, name, as_levels, f"--category {name!r}")
    code = Place(*table.codes[name]) if name in table.codes else None
    seen, numbers = TextFacts(), WholeNumbers()
    if not as_levels and values.dtype == object:
        seen = _text_facts(values, table)
    elif not as_levels and values.dtype.kind == "f":
        numbers = WholeNumbers.of(name, values)
    found = facts_of(values if kept is None else values[kept], as_levels)
    if kept is not None and found.first_gap is not None:
        found = replace(found, first_gap=int(np.flatnonzero(kept)[found.first_gap]))
    sign = table.conversions.get(name, "")
    return replace(found, texts=seen, code=code, numbers=numbers, conversion=sign)


def refuse_doubtful(
    table: Table, name: str, as_levels: bool = False, alternative: str = ""
) -> None:
    """Refuse a column of numbers in a format that has to be stated, unless they are labels.

    Parameters
    ----------
    table : Table
        The rows.
    name : str
        The column.
    as_levels : bool
        Whether the texts are labels.
    alternative : str
        The option for labels, which the message names.
    """
    if name in table.doubtful and not as_levels:
        labels = f" (or {alternative} if these are labels)" if alternative else ""
        raise DataError(table.doubtful[name] + labels)


def moved(facts: Facts, rows: int) -> Facts:
    """Return facts with row numbers increased by `rows`."""

    def at(place: Place | None) -> Place | None:
        return None if place is None else Place(place.value, place.row + rows)

    seen = replace(
        facts.texts, first=at(facts.texts.first), first_other=at(facts.texts.first_other)
    )
    gap = None if facts.first_gap is None else facts.first_gap + rows
    return replace(facts, first_gap=gap, texts=seen, code=at(facts.code))


def _text_facts(values: np.ndarray, table: Table) -> TextFacts:
    found = Counter(values.tolist())
    found.pop(None, None)
    if not found:
        return TextFacts()
    numeric = like_numbers(list(found), table.text_format)
    others = {value for value, fits in zip(found, numeric, strict=True) if not fits}

    def first(wanted: set[str]) -> Place | None:
        row = next((k for k, value in enumerate(values) if value in wanted), None)
        return None if row is None else Place(values[row], row)

    return TextFacts(
        sum(found.values()),
        sum(found[value] for value in others),
        first(set(found)),
        first(others),
        _few(others),
        date_formats(found),
    )


def _few(found: Collection[str]) -> frozenset[str]:
    """Return the first texts in alphabetical order, one more than a message lists."""
    return frozenset(nsmallest(MOST_NAMES + 1, found))


def as_numbers(values: np.ndarray) -> np.ndarray:
    """Return numbers unchanged, dates as days since 1970, and None as NaN."""
    if values.dtype.kind == "M":
        return np.asarray((values - _EPOCH) / _DAY)
    return values.astype(float, copy=False)


def middle_ranks(count: int) -> tuple[int, int]:
    """Return the ranks, from 0, of the two middle values."""
    return (count - 1) // 2, count // 2


def middle_of(present: np.ndarray) -> tuple[float, float]:
    """Return the two middle values of numbers or dates without missing values."""
    ranks = middle_ranks(len(present))
    low, high = np.partition(as_numbers(present), ranks)[list(ranks)]
    return float(low), float(high)


def median(middle: tuple[float, float] | None) -> float:
    """Return the median, from the two middle values."""
    assert middle is not None
    # halves, since the sum of the largest floats would be infinite
    return middle[0] / 2 + middle[1] / 2


def describe(facts: Facts) -> str:
    """Summarise a column that has values."""
    if facts.kind == "O":
        found = facts.sorted_levels
        listed = [f"{level:.30} ({count})" for level, count in list(found.items())[:MOST_LISTED]]
        more = [f"… {len(found)} levels"] if len(found) > len(listed) else []
        return ", ".join(listed + more)
    if facts.kind == "M":
        first, last = np.datetime_as_string(np.array([facts.low, facts.high]), "D")
        return f"from {first} to {last}"
    numbers = facts.low, facts.high, facts.total / facts.present, median(facts.middle)
    low, high, mean, middle = map(short, numbers)
    return f"from {low} to {high}, mean {mean}, median {middle}"


def check_levels(name: str, levels: Counter[str]) -> None:
    """Refuse columns with too many levels to count over several files."""
    if len(levels) > MOST_COUNTED:
        raise DataError(
            f"column {name!r} has more than {MOST_COUNTED:,} distinct strings, too many to count "
            f"over all files; use --drop {name!r} to drop it"
        )
