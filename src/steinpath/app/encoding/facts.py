"""What has to be known of a column before it is encoded, from some of its rows after the others."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from steinpath.app.encoding.messages import MOST_LISTED, short
from steinpath.app.tables import DataError, Table, is_number, missing, texts

_EPOCH = np.datetime64("1970-01-01", "us")
_DAY = np.timedelta64(1, "D")
# Dates as people write them, of which nobody knows what comes first.
_OTHER_DATE = re.compile(r"\d{1,2}([./-])\d{1,2}\1(\d{4}|\d{2})( .*)?")
#: The kind of a column whose parts are of several kinds.
MIXED = "?"
#: Different levels that are counted of the rows of several files.
MOST_COUNTED = 1_000_000


class Place(NamedTuple):
    """A value, and the number of its row."""

    value: str
    row: int


@dataclass(frozen=True)
class TextFacts:
    """How texts look that are neither all numbers nor all dates.

    Attributes
    ----------
    present, others : int
        How many there are, and how many of them are not numbers.
    first, first_other : Place or None
        The first text, and the first that is not a number.
    like_dates : bool
        Whether all look like dates that are not in ISO format.
    """

    present: int = 0
    others: int = 0
    first: Place | None = None
    first_other: Place | None = None
    like_dates: bool = True

    def __add__(self, later: TextFacts) -> TextFacts:
        return TextFacts(
            self.present + later.present,
            self.others + later.others,
            self.first or later.first,
            self.first_other or later.first_other,
            self.like_dates and later.like_dates,
        )


@dataclass(frozen=True)
class Facts:
    """What is known of a column. The facts of some rows and of later ones add up to those of both.

    Attributes
    ----------
    kind : str
        The kind of its NumPy array: "f" for numbers, "M" for dates, "O" for texts; "" if there are
        no values, and "?" if they are of several kinds, so that all have to be read as texts.
    count, gaps : int
        Number of rows, and of missing values among them.
    first_gap : int or None
        Row of the first missing value.
    low, high : Any
        The smallest and the largest number or date.
    total : float
        Sum of numbers.
    middle : tuple of float, optional
        The two values in the middle, which are the same of an odd number; dates as days since
        1970. They do not add up.
    levels : Counter
        How often each text occurs.
    texts : TextFacts
        How texts look, also those in rows that are left out.
    code : Place or None
        The first number that is written like a code, also in rows that are left out.
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

    @property
    def present(self) -> int:
        """Number of values that are not missing."""
        return self.count - self.gaps

    @property
    def sorted_levels(self) -> dict[str, int]:
        """How often each level occurs, the most frequent first and otherwise by the alphabet."""
        return dict(sorted(self.levels.items(), key=lambda one: (-one[1], one[0])))

    def __add__(self, later: Facts) -> Facts:
        if self.kind and later.kind and self.kind != later.kind:
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
        )


def facts_of(values: np.ndarray, as_levels: bool = False) -> Facts:
    """Return the facts of a column in memory.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Of a `Table`.
    as_levels : bool
        Whether numbers and dates are names of levels, too.
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
    """Return the facts of a column of a table, of which some rows are left out.

    Parameters
    ----------
    table : Table
        The rows.
    name : str
        The column.
    kept : ndarray of bool of shape (n,), optional
        Which rows are not left out.
    as_levels : bool
        As for `facts_of`.
    dropped : bool
        Whether the column is not used, so that only its missing values are counted.
    """
    values = table.columns[name]
    if dropped:
        gaps = missing(values if kept is None else values[kept])
        return Facts("", len(gaps), int(gaps.sum()))
    code = Place(*table.codes[name]) if name in table.codes else None
    seen = TextFacts() if as_levels or values.dtype != object else _text_facts(values)
    found = facts_of(values if kept is None else values[kept], as_levels)
    if kept is not None and found.first_gap is not None:
        found = replace(found, first_gap=int(np.flatnonzero(kept)[found.first_gap]))
    return replace(found, texts=seen, code=code)


def moved(facts: Facts, rows: int) -> Facts:
    """Return facts of rows that come after so many others."""

    def at(place: Place | None) -> Place | None:
        return None if place is None else Place(place.value, place.row + rows)

    seen = replace(
        facts.texts, first=at(facts.texts.first), first_other=at(facts.texts.first_other)
    )
    gap = None if facts.first_gap is None else facts.first_gap + rows
    return replace(facts, first_gap=gap, texts=seen, code=at(facts.code))


def _text_facts(values: np.ndarray) -> TextFacts:
    found = Counter(values.tolist())
    found.pop(None, None)
    others = {value for value in found if not is_number(value)}
    if not found:
        return TextFacts()

    def first(wanted: set[str]) -> Place | None:
        row = next((k for k, value in enumerate(values) if value in wanted), None)
        return None if row is None else Place(values[row], row)

    return TextFacts(
        sum(found.values()),
        sum(found[value] for value in others),
        first(set(found)),
        first(others),
        all(map(_OTHER_DATE.fullmatch, found)),
    )


def as_numbers(values: np.ndarray) -> np.ndarray:
    """Numbers as they are, dates as days since 1970, and None as NaN."""
    if values.dtype.kind == "M":
        return np.asarray((values - _EPOCH) / _DAY)
    return values.astype(float, copy=False)


def middle_ranks(count: int) -> tuple[int, int]:
    """Return the ranks, from 0, of the two values in the middle."""
    return (count - 1) // 2, count // 2


def middle_of(present: np.ndarray) -> tuple[float, float]:
    """Return the two values in the middle of numbers or dates, none of them missing."""
    ranks = middle_ranks(len(present))
    low, high = np.partition(as_numbers(present), ranks)[list(ranks)]
    return float(low), float(high)


def median(middle: tuple[float, float] | None) -> float:
    """Return the median, from the two values in the middle."""
    assert middle is not None
    # halves, since the sum of the largest numbers there are would be infinite
    return middle[0] / 2 + middle[1] / 2


def describe(facts: Facts) -> str:
    """Sum up a column that has values."""
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
    """Refuse more levels than can be counted over several files."""
    if len(levels) > MOST_COUNTED:
        raise DataError(
            f"column {name!r} has more than {MOST_COUNTED:,} different texts, too many to count "
            f"over all files; leave it out by --drop {name!r}"
        )
