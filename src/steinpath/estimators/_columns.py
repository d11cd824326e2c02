"""One column of a table, and the features it becomes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from heapq import nsmallest
from typing import Any, NamedTuple

import numpy as np

from steinpath._support import cells
from steinpath._support.cells import ReadColumn, usual
from steinpath._support.entries import checked, entries, require
from steinpath._support.messages import (
    MOST_LISTED,
    MOST_NAMES,
    Message,
    Remark,
    Remedy,
    counted,
    joined,
    short,
)
from steinpath.estimators._basis import Curve, curve_from_json, fit_curves

#: The levels that stand for all rare levels, and for missing values.
OTHER, MISSING = "(other)", "(missing)"
# Levels of a category with a feature of their own, at most; and the rows that each needs, since the
# coefficient of a level with one or two rows is mostly noise.
_MOST_LEVELS, _LEAST_COUNT = 50, 3
# A number with a unit, or with quotation marks around it.
_AROUND_NUMBER = re.compile(r"[^\w.,-]{0,3}[+-]?\d[\d.,]*\D{0,10}")
# Names of identifiers; and of a first column without a name, here and in pandas.
_IDENTIFIER = re.compile(r"(?i:id|.*[_ -]id|id[_ -].*|index|key|uuid|no\.)|.*[a-z]I[dD]")
_UNNAMED = ("column 1", "Unnamed: 0")
# Names of units that may have several rows each, and of times, which may be sorted.
_UNIT = re.compile(
    r"(?i:id|.*[_ -]id|id[_ -].*|uuid|(subject|patient|person|participant)s?[^a-z]*)|.*[a-z]I[dD]"
)
_TIME = re.compile(
    r"(?i:.*(year|mo?nth|week|day|hour|date|time|period|quarter|season).*|(.*[_ ])?ages?([_ ].*)?)"
)
# Distinct values that a unit has at least: by its name, as consecutive numbers, as text (there are
# more units than months), and as other numbers.
_UNITS, _UNITS_IN_ORDER, _UNITS_IN_BLOCKS, _UNITS_AS_CODES = 5, 10, 13, 20
#: Remarks about values that repeat.
ABOUT_UNITS = ("blocks of rows", "repeated identifier")
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
    "rare or unknown levels": (
        "has {count} that {were} rare in the fit or not in it, first {value!r:.60} in {place}; "
        "treated as {level}",
        "have values that were rare in the fit or not in it",
    ),
    "repeated identifier": (
        "looks like an identifier whose values repeat; if rows with the same value belong to one "
        "person or unit, the error on new ones is larger than estimated: use {one} to hold these "
        "rows out together",
        "look like identifiers whose values repeat; if rows with the same value belong to one "
        "person or unit, the error on new ones is larger than estimated: use {any} to hold these "
        "rows out together",
    ),
    "blocks of rows": (
        "has the same value in blocks of rows ({count} blocks of {size} rows on average); if a "
        "block is one person or unit, the error on new ones is larger than estimated: use {one} to "
        "hold out whole blocks",
        "have the same value in blocks of rows; if a block is one person or unit, the error on new "
        "ones is larger than estimated: use {any} to hold out whole blocks",
    ),
    "merged levels": (
        "has {count} levels: {kept} have a feature, and the rest, which are rarer, are merged as "
        "{level}",
        "have many levels, of which the rarer ones are merged as {level}",
    ),
}


class ColumnSummary(NamedTuple):
    """A column and how it is used.

    kind: "number", "date", "binary", "category" or "dropped"; detail: summary of its values, or why
    it is dropped; missing, features: number of its missing values and of its features.
    """

    name: str
    kind: str
    detail: str
    missing: int
    features: int


class ColumnFit(NamedTuple):
    """How a column becomes features, or why it is dropped, and what is said of it.

    rows, first_gap: number of rows, and the first without a value; doubt: a remark about values
    that may be misjudged; spoilt: a few texts that keep it from being a column of numbers; remarks:
    about rare levels of many, and values that repeat like those of an identifier.
    """

    column: Column | Remark
    summary: ColumnSummary
    rows: int
    first_gap: int
    negative: str = ""
    doubt: Remark | None = None
    spoilt: frozenset[str] = frozenset()
    remarks: tuple[Remark, ...] = ()


def comparable(sign: str, other: str) -> bool:
    """Whether numbers with these signs are comparable, as in one column."""
    return sign == other if sign and other else "%" not in (sign, other)


def describe(read: ReadColumn) -> str:
    """Summarise a column that has values."""
    if read.kind == "O":
        counts = read.levels
        listed = [f"{level:.30} ({count})" for level, count in list(counts.items())[:MOST_LISTED]]
        return ", ".join(listed + [f"… {len(counts)} levels"] * (len(counts) > len(listed)))
    present = read.present
    low, high = present.min(), present.max()
    if read.kind == "M":
        first, last = np.datetime_as_string(np.array([low, high]), "D")
        return f"from {first} to {last}"
    with np.errstate(over="ignore", invalid="ignore"):  # sums of large numbers
        low, high, mean, middle = map(short, (low, high, present.mean(), read.middle))
    return f"from {low} to {high}, mean {mean}, median {middle}"


class Column(NamedTuple):
    """How a column becomes features.

    kind: "number" or "date" (days since 1970): one feature; "binary": one feature, 1 for the second
    of two levels; "category": one feature for each level, the most frequent first, then "(missing)"
    if it is one, and "(other)" last if rare levels are merged. fill replaces missing values; sign
    is the currency or percent sign of the numbers in the fit, None if unknown; indicator: one more
    feature is 1 where a value is missing; curves: functions of a number or date that are features.
    """

    name: str
    kind: str
    levels: tuple[str, ...] = ()
    fill: float | str | None = None
    sign: str | None = ""
    indicator: bool = False
    curves: tuple[Curve, ...] = ()

    @property
    def holds_numbers(self) -> bool:
        """Whether it is a number or a date."""
        return self.kind in ("number", "date")

    @property
    def n_curves(self) -> int:
        """Number of features that are curves."""
        return sum(curve.size for curve in self.curves)

    @property
    def features(self) -> list[str]:
        """Names of its features."""
        if self.holds_numbers:
            names = [self.name if self.kind == "number" else f"{self.name} (days)"]
            names += [f"{self.name} (curve {k + 1})" for k in range(self.n_curves)]
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
            numbers = read.numbers if read.kind else np.full(len(gaps), np.nan)
            out[:, 0] = np.where(gaps, np.nan if self.fill is None else self.fill, numbers)
            if self.curves:
                known = np.where(np.isnan(out[:, 0]), self.curves[0].knots[0], out[:, 0])
                out[:, 1:] = np.concatenate([curve(known) for curve in self.curves], axis=1)
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
    # without the first two in version 0.1.0, where "binary" had another name
    given = {"sign": None, "indicator": False, "curves": []} | checked(dict, "columns", entry)
    given = entries("columns", given, Column._fields)
    name, kind, levels, fill, sign, indicator, curves = (given[field] for field in Column._fields)
    of, kind = f"of {name!r:.60}", "binary" if kind == "yes or no" else kind
    require(checked(str, "name", name).strip(), "name", name, "is blank")
    levels = checked((str, None), "levels", levels)
    require(all(map(str.strip, levels)), "levels", levels, f"{of} have a blank one")
    most = _MOST_LEVELS + 2
    several = 2 <= len(levels) == len(set(levels)) <= most and OTHER not in levels[:-1]
    pair = len(levels) == 2 and levels[0] < levels[1]
    right = {"number": not levels, "date": not levels, "binary": pair, "category": several}
    require(checked(str, "kind", kind) in right, "kind", kind, f"{of} is not valid")
    require(right[kind], "levels", levels, f"{of} are not those of the kind {kind!r}")
    if fill is not None and not levels:
        fill = checked(float, "fill", fill)
    require(fill is None or not levels or fill in levels, "fill", fill, f"{of} is not a level")
    require(cells.is_sign(sign), "sign", sign, f"{of} is not one such as '%' or '€'")
    boolean = isinstance(indicator, bool) and (fill is not None or not indicator)
    require(boolean, "indicator", indicator, f"{of} is not false, or true with a fill")
    curves = tuple(map(curve_from_json, checked(list, "curves", curves)))
    require(not (curves and levels), "curves", len(curves), f"of {of} are not of numbers")
    return Column(name, kind, tuple(levels), fill, sign, indicator, curves)


def fit_column(
    name: str,
    read: ReadColumn,
    impute: bool,
    category: bool = False,
    keep: bool = False,
    first: bool = False,
    rows: np.ndarray | None = None,
    curves: tuple[int, int] | None = None,
) -> ColumnFit:
    """Return how a column becomes features; refuse numbers in a format that has to be stated.

    category, keep: as requested of this column; first: whether it is the first column of the table;
    rows: numbers of the rows, if some are left out or they are in another order; curves: number of
    knots, and degree, of curves if there are any
    """
    if not category:
        read.refuse_doubtful(Remedy("categories", name))
    gaps = read.gaps
    missing, present = int(gaps.sum()), int((~gaps).sum())
    doubt, spoilt = (None, frozenset[str]()) if category else _doubt(name, read)
    column: Column | Remark
    if not present:
        column = remark(name, "no values")
    elif not (category or keep) and _is_identifier(name, read, first, rows):
        column = remark(name, "identifier", remedy=Remedy("keep", name))
    elif len(read.levels) == 1 if read.kind == "O" else read.present.min() == read.present.max():
        column = remark(name, "constant")
    elif read.kind == "O":
        column = _fit_levels(name, read, impute, missing, not category and doubt is None)
    else:
        kind, fill = "date" if read.kind == "M" else "number", read.middle if impute else None
        present_days = read.numbers[~gaps]
        functions = (
            () if curves is None else fit_curves(name, kind == "date", present_days, *curves)
        )
        indicator = impute and missing > 0
        column = Column(name, kind, (), fill, read.sign, indicator, functions)
    about = ("dropped", column.key) if isinstance(column, Remark) else (column.kind, describe(read))
    count = 0 if isinstance(column, Remark) else len(column.features)
    summary = ColumnSummary(name, *about, missing, count)
    remarks = []
    if isinstance(column, Column) and OTHER in column.levels and len(read.levels) > _MOST_LEVELS:
        about_levels: Any = {"count": len(read.levels), "kept": len(column.levels) - 1}
        remarks = [remark(name, "merged levels", **about_levels, level=repr(OTHER))]
    if not keep and about[1] not in ("no values", "constant", "identifier"):
        remarks += _units(name, read)
    about_values = read.negative, doubt, spoilt, tuple(remarks)
    return ColumnFit(column, summary, len(gaps), int(gaps.argmax()), *about_values)


def drop_column(name: str, gaps: np.ndarray) -> ColumnFit:
    """Return that a column is dropped as requested."""
    key = "as requested"
    summary = ColumnSummary(name, "dropped", key, int(gaps.sum()), 0)
    return ColumnFit(Remark(name, key, "", ""), summary, len(gaps), 0)


def _is_identifier(name: str, read: ReadColumn, first: bool, rows: np.ndarray | None) -> bool:
    """Whether a column has the name of an identifier and unique values, or numbers the rows."""
    named = name in _UNNAMED or _IDENTIFIER.fullmatch(name) is not None
    present = read.present
    if read.kind == "O":
        return named and max(read.levels.values()) == 1
    if read.kind == "M" or np.any(present % 1):
        return False
    if first if name in _UNNAMED else named and len(np.unique(present)) == len(present):
        return True
    rows = np.arange(len(read.data)) if rows is None else np.asarray(rows)
    return any(np.array_equal(read.data, rows + start) for start in (0, 1))


def _units(name: str, read: ReadColumn) -> list[Remark]:
    """Return a remark if values repeat like identifiers of persons or other units do."""
    values = read.present
    if read.kind == "M" or (read.kind == "f" and np.any(values % 1)):
        return []
    use = {"one": Remedy("groups", name), "any": Remedy("groups")}
    if _UNIT.fullmatch(name) and _UNITS <= len(np.unique(values)) < len(values):
        return [remark(name, "repeated identifier", **use)]
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    runs = np.diff(np.append(starts, len(values)))
    if read.gaps.any() or 2 * len(runs) > len(values) or _TIME.fullmatch(name):
        return []
    if read.kind == "O":
        in_blocks = _UNITS_IN_BLOCKS <= len(runs) == len(read.labels)
    else:
        in_blocks = _are_codes(values[starts], runs)
    about = {"count": len(runs), "size": short(float(f"{runs.mean():.2g}"))}
    return [remark(name, "blocks of rows", **about, **use)] if in_blocks else []


def _are_codes(values: np.ndarray, runs: np.ndarray) -> bool:
    """Whether these integers in blocks of rows are codes of units: not measurements in order."""
    with np.errstate(over="ignore"):  # of large numbers
        steps, mean = np.diff(values), runs.mean()
    if values[0] in (0, 1) and np.all(steps == 1):
        return bool(len(runs) >= _UNITS_IN_ORDER and runs.max() <= 2 * mean)
    if (
        len(runs) < _UNITS_AS_CODES
        or len(np.unique(values)) < len(runs)
        or np.all(steps == steps[0])
    ):
        return False
    # numbers of rows vary less than those of a sample, or they are similar and values are irregular
    in_order = np.all(steps > 0) or np.all(steps < 0)
    irregular = not in_order or np.mean(steps == np.median(steps)) < 0.5
    return bool(runs.var() <= mean / 4 or (irregular and runs.std() <= 0.3 * mean))


def _fit_levels(
    name: str, read: ReadColumn, impute: bool, missing: int, perhaps_numbers: bool
) -> Column | Remark:
    """Return how a column of labels becomes features, or why it is dropped."""
    levels = list(read.levels)
    most = levels[0] if impute else None
    # why a value is missing may matter
    own = [MISSING] * (impute and missing >= _LEAST_COUNT and MISSING not in levels)
    if len(levels) == 2 and not own:
        return Column(name, "binary", tuple(sorted(levels)), most)
    often = [k for k, n in read.levels.items() if n >= _LEAST_COUNT and k != OTHER][:_MOST_LEVELS]
    if often:
        rest = [OTHER] * (len(often) < len(levels))
        return Column(name, "category", (*often, *own, *rest), MISSING if own else most)
    with_units = perhaps_numbers and read.counts.sum() <= 2 * read.counts @ read.others
    with_units = with_units and all(map(_AROUND_NUMBER.fullmatch, levels))
    key = "nearly all values are distinct" + ", perhaps with units" * with_units
    return remark(name, key, count=int(read.counts.sum()), example=levels[0])


def remark(name: str, key: str, **fields: Any) -> Remark:
    """Return what `_SENTENCES` say of a column."""
    one, many = (Message(template, **fields) for template in _SENTENCES[key])
    return Remark(name, key, one, many)


def remark_signs(name: str, sign: str) -> Remark:
    """Return a remark about a sign that was removed."""
    signs = f"{'percent' if sign == '%' else 'currency'} signs ({sign})"
    return remark(name, "signs", signs=signs)._replace(key=signs)


def _doubt(name: str, read: ReadColumn) -> tuple[Remark | None, frozenset[str]]:
    """Return a remark about values that may be misjudged, and a few texts among numbers."""
    none = frozenset[str]()
    if read.sign:
        return remark_signs(name, read.sign), none
    if read.code is not None:
        code, row = read.code
        return remark(name, "code", code=code, row=row, remedy=Remedy("categories", name)), none
    if read.kind != "O":
        return None, none
    row, other = read.first_other("number"), read.others
    value, count = read.labels[read.data[row]], int(read.counts @ other)
    if formats := cells.date_formats(read.labels):
        use = cells.suggest_date_format(formats)
        return remark(name, "dates", value=value, formats=use)._replace(key=use), none
    if not 0 < 2 * count < read.counts.sum():
        return None, none
    # one more than a message lists
    spoilt = frozenset(nsmallest(MOST_NAMES + 1, np.array(read.labels, object)[other]))
    means = "it means" if len(spoilt) == 1 else "they mean"
    about: Any = {"value": value, "row": row, "count": counted(count, "value"), "means": means}
    return remark(name, "spoilt numbers", **about, na=_na(spoilt), all_na=""), spoilt


def doubts(fits: Iterable[ColumnFit]) -> list[Remark]:
    """Return remarks about signs that were removed, and columns whose type may be misjudged."""
    all_na = _na(frozenset[str]().union(*(fit.spoilt for fit in fits)))
    several = Message(_SENTENCES["spoilt numbers"][1], all_na=all_na)
    found = [fit.doubt for fit in fits if fit.doubt is not None]
    return [one._replace(many=several) if one.key == "spoilt numbers" else one for one in found]


def _na(texts: frozenset[str]) -> Message:
    """Return the parameters that make these texts missing values; the first if there are many."""
    few = [Remedy("na", text) for text in sorted(texts)[:MOST_NAMES]]
    return joined(" ", [*few, *["…"] * (len(few) < len(texts))])
