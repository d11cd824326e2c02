"""One column of a table: facts that add up over blocks of rows, and the features it becomes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import nsmallest
from typing import Any, NamedTuple

import numpy as np

from steinpath._support import cells
from steinpath._support.cells import ReadColumn, TextFormat, usual
from steinpath._support.messages import (
    MOST_LISTED,
    MOST_NAMES,
    DataError,
    Message,
    Remark,
    Remedy,
    counted,
    joined,
    short,
)

#: The level that stands for all rare levels.
OTHER = "(other)"
#: Kind of facts about blocks of several types, whose texts have to be kept as they are.
MIXED = "?"
# Levels of a category with a feature of their own, at most; and the rows that each needs, since the
# coefficient of a level with one or two rows is mostly noise.
_MOST_LEVELS, _LEAST_COUNT = 50, 3
# Distinct levels that are counted over several blocks, and numbers whose uniqueness is checked.
_MOST_COUNTED = _MOST_CHECKED = 1_000_000
# A number with a unit, or with quotation marks around it.
_AROUND_NUMBER = re.compile(r"[^\w.,-]{0,3}[+-]?\d[\d.,]*\D{0,10}")
# Names of identifiers; and of a first column without a name, here and in pandas.
_IDENTIFIER = re.compile(r"(?i:id|.*[_ -]id|id[_ -].*|index|key|uuid|no\.)|.*[a-z]I[dD]")
_UNNAMED = ("column 1", "Unnamed: 0")
_KINDS = ("number", "date", "binary", "category")
# What is said of one column, after its name, and of several. Keys say in short why one is dropped.
_SENTENCES = {
    "no values": ("has no values and was dropped", "have no values and were dropped"),
    "constant": ("is constant and was dropped", "are constant and were dropped"),
    "identifier": (
        "looks like an identifier and was excluded ({remedy} keeps it)",
        "look like identifiers and were excluded ({remedy}, … keeps them)",
    ),
    "nearly all values are distinct": (
        "was dropped: nearly all of its {count} values are distinct",
        "were dropped: nearly all of their values are distinct",
    ),
    "nearly all values are distinct, perhaps with units": (
        "was dropped: nearly all of its {count} values are distinct, such as {example!r}; if they "
        "are numbers, remove units and other characters",
        "were dropped: nearly all of their values are distinct; if they are numbers, remove units "
        "and other characters",
    ),
    "signs": ("was read without its {signs}", "were read without their {signs}"),
    "code": (
        "is treated as numeric but is written like a code, first {code!r:.60} in {place}; if it is "
        "a code, use {remedy}",
        "are treated as numeric but are written like codes (if they are codes, use {remedy}, …)",
    ),
    "dates": (
        "is treated as text; if {value!r:.60} is a date, use {formats}",
        "are treated as text; if they hold dates, use {formats}",
    ),
    "spoilt numbers": (
        "is treated as text because of {count}, first {value!r:.60} in {place}; all others are "
        "numbers (if {means} missing, use {na})",
        "are treated as text although most of their values are numbers (if the others mean "
        "missing, use {all_na})",
    ),
    "unknown levels": (
        "has {count} that the model does not know, first {value!r:.60} in {place}; treated as "
        "{level}",
        "have values that the model does not know",
    ),
}
_EPOCH, _DAY = np.datetime64("1970-01-01", "us"), np.timedelta64(1, "D")


@dataclass(frozen=True, eq=False)
class Facts:
    """Facts about a column. The facts of consecutive blocks of rows add up."""

    kind: str = ""  # as in `ReadColumn`, or MIXED
    count: int = 0
    gaps: int = 0
    first_gap: int | None = None  # row of the first missing value
    low: Any = None
    high: Any = None
    total: float = 0.0
    middle: float | None = None  # the median, which does not add up: the caller computes it
    sign: str = ""
    negative: str = ""
    code: tuple[str, int] | None = None
    levels: Counter[str] = field(default_factory=Counter)
    others: int = 0  # texts that are no numbers; below, the first one and a few distinct ones
    first_other: tuple[str, int] | None = None
    other_texts: frozenset[str] = frozenset()
    formats: frozenset[str] = frozenset()  # common formats of dates that all texts have
    # whether all numbers are whole; if so, their difference from the number of the row, if it is
    # always the same, and the first million if the column has the name of an identifier
    whole: bool = False
    offset: float | None = None
    numbers: np.ndarray | None = None

    @property
    def present(self) -> int:
        """Number of values that are not missing."""
        return self.count - self.gaps

    @property
    def nearly_numbers(self) -> bool:
        """Whether most texts are numbers, and a few are not."""
        return not self.formats and 0 < 2 * self.others < self.present

    def __add__(self, later: Facts) -> Facts:
        if not (self.count and later.count):
            return self if self.count else later
        merged = dict[str, Any]()
        for name in ("count", "gaps", "total", "levels", "others"):
            merged[name] = getattr(self, name) + getattr(later, name)
        for name in ("kind", "first_gap", "sign", "negative", "code", "first_other"):
            value = getattr(self, name)
            merged[name] = getattr(later, name) if value in (None, "") else value
        if not (self.present and later.present):
            some = {name: merged[name] for name in ("count", "gaps", "first_gap")}
            return replace(self if self.present else later, **some, offset=None)
        if self.kind != later.kind or not comparable(self.sign, later.sign):
            return Facts(MIXED, merged["count"])
        if self.low is not None:
            merged["low"], merged["high"] = min(self.low, later.low), max(self.high, later.high)
        merged["whole"] = self.whole and later.whole
        merged["offset"] = self.offset if self.offset == later.offset else None
        if self.numbers is not None and later.numbers is not None:
            merged["numbers"] = np.concatenate([self.numbers, later.numbers])[:_MOST_CHECKED]
        merged["other_texts"] = _few(self.other_texts | later.other_texts)
        return Facts(**merged, formats=self.formats & later.formats)


def _few(texts: Collection[str]) -> frozenset[str]:
    """Return the first texts in alphabetical order, one more than a message lists."""
    return frozenset(nsmallest(MOST_NAMES + 1, texts))


def facts_of(
    name: str,
    read: ReadColumn,
    how: TextFormat,
    category: bool = False,
    start: int = 0,
    rows: np.ndarray | None = None,
) -> Facts:
    """Return the facts about a column; refuse numbers in a format that has to be stated.

    rows: numbers of the rows, if some are left out or they are in another order
    """
    if not category:
        read.refuse_doubtful(Remedy("categories", name))
    gaps, missing = read.gaps, int(read.gaps.sum())
    first_gap = start + int(gaps.argmax()) if missing else None
    facts = partial(Facts, read.kind, len(gaps), missing, first_gap)
    if missing == len(gaps):
        return Facts("", len(gaps), missing, first_gap)
    present = read.data[~gaps] if missing else read.data
    if read.kind == "O":
        counts, levels = np.bincount(present, minlength=len(read.labels)), Counter[str]()
        for label, count in zip(read.labels, counts.tolist(), strict=True):
            levels[usual(label)] += count
        if category:
            return facts(levels=levels)
        other = ~np.array(cells.like_numbers(read.labels, how))
        row = int(np.append(other, False)[read.data].argmax())
        return facts(
            levels=levels,
            others=int(counts @ other),
            first_other=(read.labels[read.data[row]], start + row) if other.any() else None,
            other_texts=_few({read.labels[k] for k in np.flatnonzero(other)}),
            formats=cells.date_formats(read.labels),
        )
    low, high, middle = present.min(), present.max(), middle_of(present)
    if read.kind == "M":
        return facts(low=low, high=high, middle=middle)
    whole = not np.any(present % 1)
    rows = start + np.arange(len(gaps)) if rows is None else rows
    with np.errstate(over="ignore", invalid="ignore"):  # sums of large numbers
        total = float(present.sum())
    is_constant = whole and not missing and np.all(present - rows == present[0] - rows[0])
    named = whole and _named_identifier(name)
    return facts(
        *(low, high, total, middle, read.sign, read.negative, read.code),
        whole=whole,
        offset=float(present[0] - rows[0]) if is_constant else None,
        numbers=present[:_MOST_CHECKED] if named else None,
    )


def add_facts(known: dict[str, Facts], later: Mapping[str, Facts]) -> None:
    """Add the facts about later rows to those of each column; refuse too many levels."""
    for name, facts in later.items():
        known[name] = known[name] + facts if name in known else facts
        if len(known[name].levels) > _MOST_COUNTED:
            said = (
                "column {name!r} has more than {most:,} distinct strings; use {remedy} to drop it"
            )
            remedy = Remedy("drop", name)
            raise DataError(Message(said, name=name, most=_MOST_COUNTED, remedy=remedy))


def comparable(sign: str, other: str) -> bool:
    """Whether numbers with these signs are comparable, as in one column."""
    return sign == other if sign and other else "%" not in (sign, other)


def as_numbers(values: np.ndarray) -> np.ndarray:
    """Return numbers unchanged, and dates as days since 1970."""
    return np.asarray((values - _EPOCH) / _DAY) if values.dtype.kind == "M" else values


def middle_of(present: np.ndarray) -> float:
    """Return the median of numbers or dates without missing values."""
    ranks = [(len(present) - 1) // 2, len(present) // 2]
    low, high = np.partition(as_numbers(present), ranks)[ranks]
    return float(low / 2 + high / 2)  # the sum of the largest floats would be infinite


def _sorted_levels(facts: Facts) -> dict[str, int]:
    """Return the counts of levels, most frequent first, ties in alphabetical order."""
    return dict(sorted(facts.levels.items(), key=lambda one: (-one[1], one[0])))


def describe(facts: Facts) -> str:
    """Summarise a column that has values."""
    if facts.kind == "O":
        counts = _sorted_levels(facts)
        listed = [f"{level:.30} ({count})" for level, count in list(counts.items())[:MOST_LISTED]]
        return ", ".join(listed + [f"… {len(counts)} levels"] * (len(counts) > len(listed)))
    if facts.kind == "M":
        first, last = np.datetime_as_string(np.array([facts.low, facts.high]), "D")
        return f"from {first} to {last}"
    low, high, mean = map(short, (facts.low, facts.high, facts.total / facts.present))
    middle = "" if facts.middle is None else f", median {short(facts.middle)}"
    return f"from {low} to {high}, mean {mean}{middle}"


class Column(NamedTuple):
    """How a column becomes features.

    kind: "number" or "date" (days since 1970): one feature; "binary": one feature, 1 for the second
    of two levels; "category": one feature for each level, the most frequent first, and "(other)"
    last if rare levels are merged. fill replaces missing values; sign is the currency or percent
    sign of the numbers in the fit, None if unknown; indicator: one more feature is 1 where a value
    is missing.
    """

    name: str
    kind: str
    levels: tuple[str, ...] = ()
    fill: float | str | None = None
    sign: str | None = ""
    indicator: bool = False

    @property
    def holds_numbers(self) -> bool:
        """Whether it is a number or a date."""
        return self.kind in ("number", "date")

    @property
    def features(self) -> list[str]:
        """Names of its features."""
        if self.holds_numbers:
            names = [self.name if self.kind == "number" else f"{self.name} (days)"]
        else:
            levels = self.levels[1:] if self.kind == "binary" else self.levels
            names = [f"{self.name}={level}" for level in levels]
        return names + [f"{self.name} (missing)"] * self.indicator

    def encode(self, read: ReadColumn, out: np.ndarray) -> np.ndarray:
        """Write the features of all rows to `out`; return which labels have no level of their own.

        Missing values without a fill are NaN. An unknown level is encoded as "(other)" if that is a
        level, and as zeros otherwise.
        """
        gaps = read.gaps
        if self.indicator:
            out[:, -1] = gaps
            out = out[:, :-1]
        if self.holds_numbers:
            numbers = as_numbers(read.data) if read.kind else np.full(len(gaps), np.nan)
            out[:, 0] = np.where(gaps, np.nan if self.fill is None else self.fill, numbers)
            return np.zeros(0, bool)
        code: dict[Any, int] = {level: k for k, level in enumerate(self.levels)}
        levels = [*map(usual, read.labels)]
        codes = np.array([code.get(level, code.get(OTHER, -1)) for level in levels] + [-1])
        codes[-1] = code.get(self.fill, -1)
        first = int(self.kind == "binary")
        np.equal(codes[read.data][:, None], np.arange(first, len(self.levels)), out=out)
        if self.fill is None:
            out[gaps] = np.nan
        return np.array([level not in code for level in levels], bool)


def column_from_json(entry: Any) -> Column:
    """Return a column from the data of a model file; refuse what is not valid."""
    old = {"name", "kind", "levels", "fill"}  # of version 0.1.0
    known = isinstance(entry, dict) and set(entry) in (old, {*Column._fields})
    require(known, "a column", f"have {str(Column._fields)[1:-1]} and nothing else", entry)
    given = {"sign": None, "indicator": False} | entry
    name, kind, levels, fill, sign, indicator = (given[field] for field in Column._fields)
    require_text("the name of a column", name)
    where, kind = f"column {name!r}", "binary" if kind == "yes or no" else kind
    require(kind in _KINDS, where, f"be one of {str(_KINDS)[1:-1]}", kind)
    require(isinstance(levels, list), f"the levels of {where}", "be a list", levels)
    for level in levels:
        require_text(f"a level of {where}", level)
    most = _MOST_LEVELS + 1
    wanted, right = {
        "binary": ("two levels in alphabetical order", len(levels) == 2 and levels[0] < levels[1]),
        "category": (
            f"2 to {most} distinct levels, with {OTHER!r} last",
            2 <= len(levels) == len(set(levels)) <= most and OTHER not in levels[:-1],
        ),
    }.get(kind, ("no levels", not levels))
    require(right, f"{where} is of kind {kind!r} and", f"have {wanted}", tuple(levels))
    wanted, right = "one of its levels", fill in levels
    if not levels:
        wanted = "a finite number"
        right = type(fill) in (int, float) and abs(fill) <= 1e300
        fill = float(fill) if right else fill
    require(fill is None or right, f"the fill of {where}", f"be {wanted}", fill)
    require(cells.is_sign(sign), f"the sign of {where}", "be a string such as '%' or '€'", sign)
    right = isinstance(indicator, bool) and (fill is not None or not indicator)
    require(right, f"the indicator of {where}", "be false, or true with a fill", indicator)
    return Column(name, kind, tuple(levels), fill, sign, indicator)


def require(right: Any, what: str, wanted: str, value: Any) -> None:
    """Refuse a value that is not right."""
    if not right:
        raise DataError(f"{what} must {wanted}, got {value!r:.60}")


def require_text(what: str, text: Any) -> None:
    """Refuse a value that is not a text, or that cannot be written to a file."""
    require(isinstance(text, str) and text.strip(), what, "be a nonblank string", text)
    require(text.encode(errors="ignore").decode() == text, what, "be Unicode", text)


def _named_identifier(name: str) -> bool:
    return name in _UNNAMED or _IDENTIFIER.fullmatch(name) is not None


def identifier(name: str, position: int, facts: Facts) -> Remark | None:
    """Return why a column is dropped if it is an identifier, and None otherwise."""
    values, is_identifier = facts.numbers, False
    if facts.kind == "O":
        is_identifier = _named_identifier(name) and max(facts.levels.values()) == 1
    elif facts.whole:
        unique = values is not None and len(np.unique(values)) == len(values)
        is_identifier = position == 0 if name in _UNNAMED else unique
        is_identifier = is_identifier or facts.offset in (0, 1)
    return remark(name, "identifier", remedy=Remedy("keep", name)) if is_identifier else None


def fit_column(name: str, facts: Facts, impute: bool) -> Column | Remark:
    """Return how a column becomes features, or why it is dropped."""
    if not facts.present:
        return remark(name, "no values")
    if len(facts.levels) == 1 if facts.kind == "O" else facts.low == facts.high:
        return remark(name, "constant")
    indicator = impute and facts.gaps > 0
    if facts.kind != "O":
        kind = "date" if facts.kind == "M" else "number"
        fill = facts.middle if impute else None
        return Column(name, kind, fill=fill, sign=facts.sign, indicator=indicator)
    counts = _sorted_levels(facts)
    levels = list(counts)
    most = levels[0] if impute else None
    if len(levels) == 2:
        return Column(name, "binary", tuple(sorted(levels)), most, indicator=indicator)
    often = [level for level in levels if counts[level] >= _LEAST_COUNT and level != OTHER]
    if often := often[:_MOST_LEVELS]:
        rest = [OTHER] * (len(often) < len(levels))
        return Column(name, "category", (*often, *rest), most, indicator=indicator)
    with_units = not facts.formats and facts.present <= 2 * facts.others
    with_units = with_units and all(map(_AROUND_NUMBER.fullmatch, levels))
    key = "nearly all values are distinct" + ", perhaps with units" * with_units
    return remark(name, key, count=facts.present, example=levels[0])


def remark(name: str, key: str, **fields: Any) -> Remark:
    """Return what `_SENTENCES` say of a column."""
    one, many = (Message(template, **fields) for template in _SENTENCES[key])
    return Remark(name, key, one, many)


def remarks_about(facts: Mapping[str, Facts]) -> Iterator[Remark]:
    """Yield remarks about signs that were removed, and columns whose type may be misjudged."""
    for name, known in facts.items():
        if sign := known.sign:
            signs = f"{'percent' if sign == '%' else 'currency'} signs ({sign})"
            yield remark(name, "signs", signs=signs)._replace(key=signs)
    for name, known in facts.items():
        if known.code is not None:
            code, row = known.code
            yield remark(name, "code", code=code, row=row, remedy=Remedy("categories", name))
    spoilt = [known.other_texts for known in facts.values() if known.nearly_numbers]
    all_na = _na(frozenset[str]().union(*spoilt))
    for name, known in facts.items():
        value, row = known.first_other or ("", 0)
        if known.formats:
            formats = cells.suggest_date_format(known.formats)
            yield remark(name, "dates", value=value, formats=formats)._replace(key=formats)
        elif known.nearly_numbers:
            about = {"value": value, "row": row, "count": counted(known.others, "value")}
            means = "it means" if len(known.other_texts) == 1 else "they mean"
            na = {"na": _na(known.other_texts), "all_na": all_na}
            yield remark(name, "spoilt numbers", **about, **na, means=means)


def _na(texts: frozenset[str]) -> Message:
    """Return the parameters that make these texts missing values; the first if there are many."""
    few = [Remedy("na", text) for text in sorted(texts)[:MOST_NAMES]]
    return joined(" ", [*few, *["…"] * (len(few) < len(texts))])
