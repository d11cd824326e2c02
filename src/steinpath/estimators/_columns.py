"""One column of a table: facts that add up over blocks of rows, and the features it becomes."""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from steinpath._support import cells
from steinpath._support.cells import ReadColumn, TextFormat, usual
from steinpath._support.messages import DataError, Message, Remedy, joined
from steinpath._support.validation import shown
from steinpath._support.wording import MOST_LISTED, MOST_NAMES, Remark, counted, short

#: The level that stands for all rare levels.
OTHER = "(other)"
#: Kind of facts about blocks of several types, whose texts have to be kept as they are.
MIXED = "?"
# Levels of a category with a feature of their own, at most; and the rows that each needs, since the
# coefficient of a level with one or two rows is mostly noise.
_MOST_LEVELS, _LEAST_COUNT = 50, 3
# Distinct levels that are counted over several blocks, and numbers whose uniqueness is checked.
_MOST_COUNTED = _MOST_CHECKED = 1_000_000
# Names of identifiers, and of a first column without a name, here and in pandas.
_IDENTIFIER = re.compile(
    r"(?i:id|.*[_ -]id|id[_ -].*|index|key|uuid|no\.)|.*[a-z]I[dD]|column 1|Unnamed: 0"
)
# What is said after the name of a column: [of one|of several]. Keys say why a column is dropped.
_SENTENCES = {
    "no values": "[has|have] no values and [was|were] dropped",
    "constant": "[is|are] constant and [was|were] dropped",
    "identifier": "[looks like an identifier|look like identifiers] and [was|were] excluded "
    "({remedy}[|, …] keeps [it|them])",
    "nearly all values are distinct": "[was|were] dropped: nearly all of [its {count}|their] "
    "values are distinct texts",
    "negative": "[has|have values such as] {value!r:.60}, which is a negative number",
    "signs": "[was|were] read without [its|their] {signs}",
    "code": "[is|are] treated as numeric but [is|are] written like [a code, first {code!r:.60} in "
    "{place}; if it is a code, use {remedy}|codes (if they are codes, use {remedy}, …)]",
    "dates": "[is|are] treated as text; if [{value!r:.60} is a date|they hold dates], use "
    "{formats}",
    "spoilt numbers": "[is|are] treated as text [because of {count}, first {value!r:.60} in "
    "{place}; all others are numbers (if {means} missing, use {na})|although most of their values "
    "are numbers (if the others mean missing, use {all_na})]",
    "unknown levels": "[has {count}|have values] that the model does not know[, first "
    "{value!r:.60} in {place}; treated as {level}|]",
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
    middle: float | None = None  # the median, which does not add up
    sign: str = ""
    negative: str = ""
    code: tuple[str, int] | None = None
    levels: Counter[str] = field(default_factory=Counter)
    first_other: tuple[str, int] | None = None  # the first text that is no number
    # the difference of numbers from those of their rows, if it is always the same; and the first
    # million if the column has the name of an identifier
    offset: float = math.nan
    numbers: np.ndarray | None = None

    @property
    def present(self) -> int:
        """Number of values that are not missing."""
        return self.count - self.gaps

    def __add__(self, later: Facts) -> Facts:
        if not (self.count and later.count):
            return self if self.count else later
        both = self.present > 0 and later.present > 0
        if both and (self.kind != later.kind or not comparable(self.sign, later.sign)):
            return Facts(MIXED, self.count + later.count)
        found = dict[str, Any]()
        for name in (each.name for each in fields(self)):
            one, two = getattr(self, name), getattr(later, name)
            if one is not None and two is not None:
                one = _SUMS.get(name, lambda one, two: one or two)(one, two)
            found[name] = two if one is None else one
        return Facts(**found | {"middle": None} if both else found)


# How the facts of consecutive blocks add up where both are known; otherwise, the first counts.
_SUMS: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("count", "gaps", "total", "levels"), operator.add),
    **dict.fromkeys(("first_gap", "low"), min),
    "high": max,
    "offset": lambda one, two: one if one == two else math.nan,
    "numbers": lambda one, two: np.concatenate([one, two])[:_MOST_CHECKED],
}


def rows_with(read: ReadColumn, which: Any) -> np.ndarray:
    """Return the rows whose label is one of those."""
    return np.flatnonzero(np.array([*which, False])[read.data])


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
    if missing == len(gaps):
        return Facts("", missing, missing, first_gap)
    facts = partial(Facts, read.kind, len(gaps), missing, first_gap)
    present = read.data[~gaps] if missing else read.data
    if read.kind == "O":
        counts, levels = np.bincount(present, minlength=len(read.labels)), Counter[str]()
        for label, count in zip(read.labels, counts.tolist(), strict=True):
            levels[usual(label)] += count
        if category:
            return facts(levels=levels)
        others = rows_with(read, np.logical_not(cells.like_numbers(read.labels, how)))
        first = [(read.labels[read.data[row]], start + int(row)) for row in others[:1]]
        return facts(levels=levels, first_other=first[0] if first else None)
    low, high, middle = present.min(), present.max(), middle_of(present)
    if read.kind == "M":
        return facts(low=low, high=high, middle=middle)
    with np.errstate(over="ignore", invalid="ignore"):  # sums of large numbers
        total = float(present.sum())
    rows = start + np.arange(len(gaps)) if rows is None else rows
    offsets = np.array(math.nan) if missing else present - rows
    return facts(
        *(low, high, total, middle, read.sign, read.negative, read.code),
        offset=float(offsets.min()) if offsets.min() == offsets.max() else math.nan,
        numbers=present[:_MOST_CHECKED] if _IDENTIFIER.fullmatch(name) else None,
    )


def add_facts(found: dict[str, Facts], later: Mapping[str, Facts]) -> None:
    """Add the facts about later rows to those of each column; refuse too many levels."""
    for name, facts in later.items():
        found[name] = found[name] + facts if name in found else facts
        if len(found[name].levels) > _MOST_COUNTED:
            said = "column {name!r} has more than {most:,} distinct strings; use {remedy}"
            remedy = Remedy("drop", name)
            raise DataError(Message(said, name=name, most=_MOST_COUNTED, remedy=remedy))


def comparable(sign: str, other: str) -> bool:
    """Whether numbers with these signs are comparable, as in one column."""
    return sign == other if sign and other else "%" not in (sign, other)


def as_numbers(values: np.ndarray) -> np.ndarray:
    """Return numbers unchanged, and dates as days since 1970."""
    return np.asarray((values - _EPOCH) / _DAY) if values.dtype.kind == "M" else values


def middle_of(present: np.ndarray) -> float:
    """Return the median of numbers or dates (days) without missing values."""
    ranks = [(len(present) - 1) // 2, len(present) // 2]
    low, high = np.partition(as_numbers(present), ranks)[ranks]
    return float(low / 2 + high / 2)  # halves, since the sum of the largest floats is infinite


def _sorted_levels(facts: Facts) -> dict[str, int]:
    """Return the counts of levels, most frequent first, ties in alphabetical order."""
    return dict(sorted(facts.levels.items(), key=lambda one: (-one[1], one[0])))


def describe(facts: Facts) -> str:
    """Summarise a column that has values."""
    if facts.kind == "O":
        found = _sorted_levels(facts)
        listed = [f"{level:.30} ({count})" for level, count in list(found.items())[:MOST_LISTED]]
        return ", ".join(listed + [f"… {len(found)} levels"] * (len(found) > len(listed)))
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
    def features(self) -> list[str]:
        """Names of its features."""
        levels = self.levels[1:] if self.kind == "binary" else self.levels
        found = [f"{self.name}={level}" for level in levels]
        found = found or [self.name + " (days)" * (self.kind == "date")]
        return found + [f"{self.name} (missing)"] * self.indicator

    def encode(self, read: ReadColumn, out: np.ndarray) -> np.ndarray:
        """Write the features of all rows to `out`; return the rows without a level of their own.

        Missing values without a fill are NaN. An unknown level is encoded as "(other)" if that is a
        level, and as zeros otherwise.
        """
        gaps = read.gaps
        if self.indicator:
            out[:, -1] = gaps
            out = out[:, :-1]
        if not self.levels:
            numbers = as_numbers(read.data) if read.kind else np.full(len(gaps), np.nan)
            out[:, 0] = np.where(gaps, np.nan if self.fill is None else self.fill, numbers)
            return np.zeros(0, int)
        code: dict[Any, int] = {level: k for k, level in enumerate(self.levels)}
        levels = [*map(usual, read.labels)]
        codes = np.array([code.get(level, code.get(OTHER, -1)) for level in levels] + [-1])
        codes[-1] = code.get(self.fill, -1)
        first = int(self.kind == "binary")
        np.equal(codes[read.data][:, None], np.arange(first, len(self.levels)), out=out)
        if self.fill is None:
            out[gaps] = np.nan
        return rows_with(read, [level not in code for level in levels])


# Whether levels are right, by the kind of the column.
_LEVELS: dict[str, Callable[[list[str]], bool]] = {
    "number": operator.not_,
    "date": operator.not_,
    "binary": lambda levels: len(levels) == 2 and levels[0] < levels[1],
    "category": lambda levels: (
        2 <= len(levels) == len(set(levels)) <= _MOST_LEVELS + 1 and OTHER not in levels[:-1]
    ),
}


def column_from_json(found: Any) -> Column:
    """Return a column from the data of a model file; refuse what is not valid."""
    old = {"name", "kind", "levels", "fill"}  # of version 0.1.0
    known = isinstance(found, dict) and set(found) in (old, {*Column._fields})
    require(known, "a column", found)
    given = {"sign": None, "indicator": False} | found
    name, kind, levels, fill, sign, indicator = (given[each] for each in Column._fields)
    kind = "binary" if kind == "yes or no" else str(kind)
    right = isinstance(levels, list) and all(map(is_text, (name, *levels)))
    right = right and kind in _LEVELS and _LEVELS[kind](levels)
    if right and not levels and type(fill) in (int, float) and abs(fill) <= 1e300:
        fill = float(fill)
    else:
        right = right and (fill is None or fill in levels)
    right = right and cells.is_sign(sign) and isinstance(indicator, bool)
    require(right and not (indicator and fill is None), f"column {shown(name)}", found)
    return Column(name, kind, tuple(levels), fill, sign, indicator)


def require(right: Any, what: str, found: Any) -> None:
    """Refuse a part of a model file that is not right."""
    if not right:
        raise DataError(f"{what} of the model is not valid: {shown(found)}")


def is_text(found: Any) -> bool:
    """Whether this is a text that is not blank and can be written to a file."""
    text = isinstance(found, str) and found.strip()
    return bool(text) and found.encode(errors="ignore").decode() == found


def _is_identifier(name: str, facts: Facts) -> bool:
    """Whether a column counts rows, or has distinct values and the name of an identifier."""
    if facts.kind == "O":
        return _IDENTIFIER.fullmatch(name) is not None and max(facts.levels.values()) == 1
    numbers = facts.numbers
    unique = numbers is not None and len(np.unique(numbers)) == len(numbers)
    return facts.offset in (0, 1) or (unique and not np.any(numbers % 1))


def fit_column(name: str, facts: Facts, impute: bool, keep: bool) -> Column | Remark:
    """Return how a column becomes features, or why it is dropped; `keep` also identifiers."""
    if not keep and _is_identifier(name, facts):
        return remark(name, "identifier", remedy=Remedy("keep", name))
    if not facts.present:
        return remark(name, "no values")
    counts = _sorted_levels(facts)
    if len(counts) == 1 if counts else facts.low == facts.high:
        return remark(name, "constant")
    column = partial(Column, name, indicator=impute and facts.gaps > 0)
    if not counts:
        kind = "date" if facts.kind == "M" else "number"
        assert not impute or facts.middle is not None  # of several blocks, by the caller
        return column(kind, fill=facts.middle if impute else None, sign=facts.sign)
    levels = list(counts)
    fill = levels[0] if impute else None
    if len(levels) == 2:
        return column("binary", tuple(sorted(levels)), fill)
    often = [level for level in levels if counts[level] >= _LEAST_COUNT and level != OTHER]
    if often := often[:_MOST_LEVELS]:
        rest = [OTHER] * (len(often) < len(levels))
        return column("category", (*often, *rest), fill)
    return remark(name, "nearly all values are distinct", count=facts.present)


def remark(name: str, key: str, **about: Any) -> Remark:
    """Return what `_SENTENCES` say of a column."""
    one, many = (re.sub(r"\[(.*?)\|(.*?)\]", form, _SENTENCES[key]) for form in (r"\1", r"\2"))
    return Remark(name, key, Message(one, **about), Message(many, **about))


def remarks_about(
    facts: Mapping[str, Facts], how: TextFormat = cells.DEFAULT_FORMAT
) -> Iterator[Remark]:
    """Yield remarks about signs that were removed, and columns whose type may be misjudged."""
    spoilt = dict[str, list[str]]()  # texts among numbers
    for name, known in facts.items():
        if known.negative:
            yield remark(name, "negative", value=known.negative)
        if sign := known.sign:
            signs = f"{'percent' if sign == '%' else 'currency'} signs ({sign})"
            yield remark(name, "signs", signs=signs)._replace(key=signs)
        if known.code:
            code, row = known.code
            yield remark(name, "code", code=code, row=row, remedy=Remedy("categories", name))
        if known.first_other and (found := cells.date_formats(known.levels)):
            formats = cells.suggest_date_format(found)
            value = known.first_other[0]
            yield remark(name, "dates", value=value, formats=formats)._replace(key=formats)
        elif known.first_other:
            like = cells.like_numbers([*known.levels], how)
            others = [text for text, number in zip(known.levels, like, strict=True) if not number]
            if 2 * sum(map(known.levels.get, others)) < known.present:
                spoilt[name] = others
    all_na = _na({text for others in spoilt.values() for text in others})
    for name, others in spoilt.items():
        value, row = facts[name].first_other or ("", 0)
        count = counted(sum(map(facts[name].levels.get, others)), "value")
        about = {"value": value, "row": row, "count": count, "na": _na(others), "all_na": all_na}
        means = "it means" if len(others) == 1 else "they mean"
        yield remark(name, "spoilt numbers", means=means, **about)


def _na(found: Collection[str]) -> Message:
    """Return the parameters that make these texts missing values; the first if there are many."""
    few = [Remedy("na", text) for text in sorted(found)[:MOST_NAMES]]
    return joined(" ", [*few, *["…"] * (len(few) < len(found))])
