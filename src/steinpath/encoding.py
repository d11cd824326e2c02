"""Features from columns: the same for the rows of a fit and for new ones, and kept as JSON."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from steinpath.report.content import ColumnSummary
from steinpath.tables import DataError, Table, is_date, is_number, missing, texts

#: The level that stands for all rare ones.
OTHER = "(other)"
# More levels than this are features that few rows have, and ...
_MOST_LEVELS = 50
# ... the coefficient of a level that occurs less often than this is the noise of a row or two.
_LEAST_COUNT = 3
_KINDS = ("number", "date", "yes or no", "category")
# How many names a message lists, and how many columns or levels with their counts.
_MOST_NAMES = 10
_MOST_LISTED = 3

_EPOCH = np.datetime64("1970-01-01", "us")
_DAY = np.timedelta64(1, "D")


@dataclass(frozen=True)
class Column:
    """How a column becomes features.

    Attributes
    ----------
    name : str
        Its name.
    kind : str
        "number" and "date", which are one feature (dates as days since 1970); "yes or no", of two
        levels, which is one feature (1 for the second); or "category", one feature for each level.
    levels : tuple of str
        Of "yes or no", in the order of the alphabet; of a category, the most frequent first, and
        "(other)" last if some are put together.
    fill : float or str, optional
        What missing values are taken for: a number (of days, for dates) or a level.
    """

    name: str
    kind: str
    levels: tuple[str, ...] = ()
    fill: float | str | None = None

    def __post_init__(self) -> None:
        _check_text("the name of a column", self.name)
        where = f"column {self.name!r}"
        if self.kind not in _KINDS:
            raise DataError(f"{where} must be one of {_quoted(_KINDS)}, got {self.kind!r:.60}")
        if not isinstance(self.levels, tuple):
            raise DataError(f"the levels of {where} must be a tuple, got {self.levels!r:.60}")
        for level in self.levels:
            _check_text(f"a level of {where}", level)
        self._check_levels(where)
        self._check_fill(where)

    def _check_levels(self, where: str) -> None:
        levels, count = self.levels, len(self.levels)
        if self.holds_numbers:
            wanted, right = "no levels", not levels
        elif self.kind == "yes or no":
            wanted = "two levels, in the order of the alphabet"
            right = count == 2 and levels[0] < levels[1]
        else:
            wanted = f"2 to {_MOST_LEVELS + 1} different levels, of which {OTHER!r} is the last"
            right = 2 <= count <= _MOST_LEVELS + 1 and len(set(levels)) == count
            right = right and OTHER not in levels[:-1]
        if not right:
            raise DataError(f"{where} is a {self.kind} and must have {wanted}, got {levels!r:.60}")

    def _check_fill(self, where: str) -> None:
        if self.fill is None:
            return
        if self.holds_numbers:
            wanted = "a finite number"
            right = isinstance(self.fill, float) and math.isfinite(self.fill)
        else:
            wanted, right = "one of its levels", self.fill in self.levels
        if not right:
            raise DataError(f"the fill of {where} must be {wanted}, got {self.fill!r:.60}")

    @property
    def holds_numbers(self) -> bool:
        """Whether it is a number or a date."""
        return self.kind in ("number", "date")

    @property
    def features(self) -> list[str]:
        """Names of its features."""
        if self.kind == "number":
            return [self.name]
        if self.kind == "date":
            return [f"{self.name} (days)"]
        levels = self.levels[1:] if self.kind == "yes or no" else self.levels
        return [f"{self.name}={level}" for level in levels]

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Return the features of some values.

        Parameters
        ----------
        values : ndarray of shape (n,)
            Of a column of a `Table`: numbers, dates or, for levels, anything.

        Returns
        -------
        features : ndarray of shape (n, k)
            Missing values are filled in, and are NaN if nothing is to be filled in for them. A
            level that is not known is "(other)" if that is one, and none otherwise.
        """
        if self.holds_numbers:
            numbers = _as_numbers(values)
            if self.fill is not None:
                numbers = np.where(np.isnan(numbers), self.fill, numbers)
            return numbers[:, None]
        codes = self._codes(values)
        wanted = [1] if self.kind == "yes or no" else range(len(self.levels))
        features: np.ndarray = np.equal(codes[:, None], np.array(wanted)).astype(float)
        if self.fill is None:
            features[missing(values)] = np.nan
        return features

    def unseen(self, values: np.ndarray) -> np.ndarray:
        """Return which values have no level of their own, as booleans."""
        if self.holds_numbers:
            return np.zeros(len(values), bool)
        known = {*self.levels, None}
        return np.fromiter((value not in known for value in texts(values)), bool, len(values))

    def _codes(self, values: np.ndarray) -> np.ndarray:
        """Index of the level of each value, or -1."""
        code: dict[Any, int] = {level: k for k, level in enumerate(self.levels)}
        code[None] = -1 if self.fill is None else code[self.fill]
        other = code.get(OTHER, -1)
        return np.fromiter((code.get(value, other) for value in texts(values)), int, len(values))


@dataclass(frozen=True)
class Encoding:
    """How the columns of a table become features.

    Attributes
    ----------
    target : str
        The column that is to be predicted.
    columns : tuple of Column
        Those that it is predicted from.
    """

    target: str
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        _check_text("the name of the target", self.target)
        if not self.columns:
            raise DataError("there must be a column other than the target")
        counts = Counter([self.target, *(column.name for column in self.columns)])
        name, count = counts.most_common(1)[0]
        if count > 1:
            raise DataError(f"several columns are called {name!r}; every name must be another")

    @property
    def feature_names(self) -> list[str]:
        """Names of all features, each of them different."""
        names: dict[str, None] = {}
        for column in self.columns:
            for feature in column.features:
                name, k = feature, 1
                while name in names:
                    k += 1
                    name = f"{feature} ({k})"
                names[name] = None
        return list(names)

    def transform(self, table: Table) -> tuple[np.ndarray, list[str]]:
        """Return the features of the rows of a table.

        Parameters
        ----------
        table : Table
            It may have more columns than are needed.

        Returns
        -------
        X : ndarray of shape (n, p)
            The features.
        notes : list of str
            What should be known about them.

        Raises
        ------
        DataError
            If columns are missing or of another kind, or values are missing and were not filled in
            at the fit.
        """
        self._check_columns(table)
        _refuse_missing(
            table,
            [column.name for column in self.columns if column.fill is None],
            "fill them in, or fit with --impute",
        )
        X = np.empty((table.n_rows, len(self.feature_names)))
        start, notes = 0, []
        for column in self.columns:
            values = table.columns[column.name]
            stop = start + len(column.features)
            X[:, start:stop] = column.encode(values)
            start = stop
            unseen = np.flatnonzero(column.unseen(values))
            if len(unseen):
                notes.append(_note_unseen(column, table, unseen))
        return X, notes

    def _check_columns(self, table: Table) -> None:
        lacking = [column.name for column in self.columns if column.name not in table.columns]
        if lacking:
            raise DataError(
                f"{_counted(len(lacking), 'column')} of the fit must be there, and "
                f"{_be(len(lacking))} not: {_with_closest(lacking, table)}"
            )
        for column in self.columns:
            kind = _kind(table.columns[column.name])
            if column.holds_numbers and kind not in (column.kind, "nothing"):
                raise DataError(
                    f"column {column.name!r} must hold {column.kind}s, as it did in the fit, and "
                    f"has {_first_other(column.name, column.kind, table)}"
                )

    def to_json(self) -> dict[str, Any]:
        """Return it in terms of what JSON has; see `from_json`."""
        columns = [
            {"name": c.name, "kind": c.kind, "levels": list(c.levels), "fill": c.fill}
            for c in self.columns
        ]
        return {"target": self.target, "columns": columns}

    @classmethod
    def from_json(cls, found: Any) -> Encoding:
        """Return what `to_json` was called of.

        Raises
        ------
        DataError
            If this is not something that `to_json` returns.
        """
        target, columns = _entries("an encoding", found, ("target", "columns"))
        if not isinstance(columns, list):
            raise DataError(f"the columns of an encoding must be a list, got {columns!r:.60}")
        return cls(target, tuple(_column_from_json(column) for column in columns))


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows ready for a fit.

    Attributes
    ----------
    encoding : Encoding
        How to do the same to new rows.
    X : ndarray of shape (n, p)
        Features.
    y : ndarray of shape (n,)
        Target.
    summaries : tuple of ColumnSummary
        Every column of the table, and what became of it.
    notes : tuple of str
        What was done to the data: columns left out, values filled in.
    """

    encoding: Encoding
    X: np.ndarray
    y: np.ndarray
    summaries: tuple[ColumnSummary, ...]
    notes: tuple[str, ...]


def encode(
    table: Table,
    target: str,
    *,
    impute: bool = False,
    drop: Collection[str] = (),
    categories: Collection[str] = (),
) -> Encoded:
    """Make features of all columns but the target.

    Parameters
    ----------
    table : Table
        The data.
    target : str
        Column to predict, of numbers.
    impute : bool
        Whether to fill in missing numbers and dates by medians, and missing levels by the most
        frequent one, here and in new rows, and to leave out rows without a target. Otherwise
        missing values are refused.
    drop : collection of str
        Columns to leave out.
    categories : collection of str
        Columns of numbers that are codes of levels.

    Raises
    ------
    DataError
        If there is nothing to fit, or values are missing without `impute`.
    """
    _check_request(table, target, drop, categories)
    without_target = missing(table.columns[target])
    _check_target(table, target, without_target)
    notes = _note_spoilt(table, {target, *drop, *categories})
    if impute and without_target.any():
        table = _rows(table, ~without_target)
        count = int(without_target.sum())
        notes.append(f"{_counted(count, 'row')} without a target {_be(count)} left out")
    columns, summaries = [], []
    for name, values in table.columns.items():
        if name == target:
            detail, gaps = _describe(values), int(without_target.sum())
            summaries.append(ColumnSummary(name, "target", detail, gaps, 0))
            continue
        if name in categories:
            values = texts(values)
        found = _AS_ASKED if name in drop else _fit_column(name, values, impute)
        gaps = int(missing(values).sum())
        if isinstance(found, Column):
            columns.append(found)
            detail = _describe(values)
            summaries.append(ColumnSummary(name, found.kind, detail, gaps, len(found.features)))
        else:
            summaries.append(ColumnSummary(name, "left out", found.detail, gaps, 0))
            if found.note:
                notes.append(f"column {name!r} {found.note}")
    if not columns:
        raise DataError("; ".join([f"there is no column to predict {target!r} from", *notes]))
    if impute:
        notes += _note_filled(table, columns)
    else:
        _refuse_missing(
            table,
            [target, *(column.name for column in columns)],
            "use --impute to fill them in by medians and most frequent levels (rows without a "
            "target are left out)",
        )
    encoding = Encoding(target, tuple(columns))
    X, _ = encoding.transform(table)
    return Encoded(encoding, X, table.columns[target], tuple(summaries), tuple(notes))


class _LeftOut(NamedTuple):
    """Why a column is left out: in a word, and after its name in a sentence."""

    detail: str
    note: str = ""


_AS_ASKED = _LeftOut("as asked for")
_EMPTY = _LeftOut("no values", "has no values, and is left out")
_CONSTANT = _LeftOut("constant", "is constant, and left out")


def _fit_column(name: str, values: np.ndarray, impute: bool) -> Column | _LeftOut:
    present = values[~missing(values)]
    if not len(present):
        return _EMPTY
    if values.dtype == object:
        return _fit_levels(name, present, impute)
    numbers = _as_numbers(present)
    if np.all(numbers == numbers[0]):
        return _CONSTANT
    # halves, since the sum of the largest numbers there are would be infinite
    fill = 2 * float(np.median(numbers / 2)) if impute else None
    return Column(name, "date" if values.dtype.kind == "M" else "number", fill=fill)


def _fit_levels(name: str, present: np.ndarray, impute: bool) -> Column | _LeftOut:
    counts = _counts(present)
    levels = list(counts)
    if len(levels) == 1:
        return _CONSTANT
    fill = levels[0] if impute else None
    if len(levels) == 2:
        return Column(name, "yes or no", tuple(sorted(levels)), fill)
    often = [level for level in levels if counts[level] >= _LEAST_COUNT and level != OTHER]
    often = often[:_MOST_LEVELS]
    if not often:
        reason = f"nearly all of its {len(present)} values are different"
        return _LeftOut("nearly all values are different", f"is left out: {reason}")
    rest = [OTHER] if len(often) < len(levels) else []
    return Column(name, "category", (*often, *rest), fill)


def _counts(present: np.ndarray) -> dict[str, int]:
    """How often each level occurs, the most frequent first and otherwise by the alphabet."""
    counts = Counter(present.tolist())
    return {level: counts[level] for level in sorted(counts, key=lambda one: (-counts[one], one))}


def _rows(table: Table, kept: np.ndarray) -> Table:
    """Return a table of some rows; unless it has lines, their places are no longer known."""
    lines = None if table.lines is None else table.lines[kept]
    return Table({name: values[kept] for name, values in table.columns.items()}, lines)


def _as_numbers(values: np.ndarray) -> np.ndarray:
    """Numbers as they are, dates as days since 1970, and None as NaN."""
    if values.dtype.kind == "M":
        return np.asarray((values - _EPOCH) / _DAY)
    return values.astype(float, copy=False)


def _kind(values: np.ndarray) -> str:
    if missing(values).all():
        return "nothing"
    return {"f": "number", "M": "date"}.get(values.dtype.kind, "text")


# ------------------------------------------------------------------------------------------------
# Checks
# ------------------------------------------------------------------------------------------------


def _check_request(
    table: Table, target: str, drop: Collection[str], categories: Collection[str]
) -> None:
    unknown = [name for name in (target, *drop, *categories) if name not in table.columns]
    if unknown:
        names = list(table.columns)
        more = f", … ({len(names)} in all)" if len(names) > _MOST_NAMES else ""
        none = "is no column" if len(unknown) == 1 else "are no columns"
        raise DataError(
            f"there {none} {_with_closest(unknown, table)}; the columns are "
            f"{_quoted(names[:_MOST_NAMES])}{more}"
        )
    if target in drop or target in categories:
        raise DataError(
            f"{target!r} is the target, which can neither be dropped nor be a category; "
            "name other columns"
        )


def _check_target(table: Table, target: str, without: np.ndarray) -> None:
    values = table.columns[target]
    if np.sum(~without) < 2:
        raise DataError(
            f"the target {target!r} has {_counted(int(np.sum(~without)), 'value')} in "
            f"{_counted(table.n_rows, 'row')}; at least two are needed"
        )
    if _kind(values) != "number":
        raise DataError(
            f"the target must be a number, and {target!r} has "
            f"{_first_other(target, 'number', table)}"
        )
    present = values[~without]
    if np.all(present == present[0]):
        raise DataError(
            f"the target {target!r} is {_short(present[0])} in every row; there is nothing to "
            "predict unless it varies"
        )


def _first_other(name: str, kind: str, table: Table) -> str:
    """Say what the first value is that is not of a kind, and where."""
    values = texts(table.columns[name])
    present = np.flatnonzero(~missing(values))
    fits = is_number if kind == "number" else is_date
    first = next((row for row in present if not fits(values[row])), present[0])
    return f"{values[first]!r:.60} in {table.place(int(first))}"


def _refuse_missing(table: Table, names: Iterable[str], remedy: str) -> None:
    gaps = _gaps(table, names)
    if not gaps:
        return
    total = sum(map(len, gaps.values()))
    listed = [
        f"{name!r} ({len(rows)}, first in {table.place(int(rows[0]))})"
        for name, rows in list(gaps.items())[:_MOST_LISTED]
    ]
    more = ", …" if len(gaps) > len(listed) else ""
    raise DataError(
        f"{_counted(total, 'value')} {_be(total)} missing, in {_counted(len(gaps), 'column')}: "
        f"{', '.join(listed)}{more}; {remedy}"
    )


def _gaps(table: Table, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Rows in which values are missing, of columns that have such rows."""
    rows = {name: np.flatnonzero(missing(table.columns[name])) for name in names}
    return {name: found for name, found in rows.items() if len(found)}


def _check_text(what: str, text: Any) -> None:
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{what} must be a text that is not blank, got {text!r:.60}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError(f"{what} must be Unicode, got {text!r:.60}") from None


def _entries(what: str, found: Any, keys: Sequence[str]) -> list[Any]:
    if not isinstance(found, dict) or set(found) != set(keys):
        raise DataError(f"{what} must have {_quoted(keys)} and nothing else, got {found!r:.60}")
    return [found[key] for key in keys]


def _column_from_json(found: Any) -> Column:
    name, kind, levels, fill = _entries("a column", found, ("name", "kind", "levels", "fill"))
    if not isinstance(levels, list):
        raise DataError(f"the levels of column {name!r:.60} must be a list, got {levels!r:.60}")
    if isinstance(fill, int) and not isinstance(fill, bool):
        with suppress(OverflowError):  # refused as it is
            fill = float(fill)
    return Column(name, kind, tuple(levels), fill)


# ------------------------------------------------------------------------------------------------
# Words
# ------------------------------------------------------------------------------------------------


def _describe(values: np.ndarray) -> str:
    """Sum up a column that has values."""
    present = values[~missing(values)]
    if values.dtype == object:
        counts = _counts(present)
        listed = [f"{level:.30} ({counts[level]})" for level in list(counts)[:_MOST_LISTED]]
        more = [f"… {len(counts)} levels"] if len(counts) > len(listed) else []
        return ", ".join(listed + more)
    if values.dtype.kind == "M":
        first, last = np.datetime_as_string(np.array([present.min(), present.max()]), "D")
        return f"from {first} to {last}"
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = present.min(), present.max(), present.mean(), np.median(present)
    low, high, mean, median = map(_short, numbers)
    return f"from {low} to {high}, mean {mean}, median {median}"


def _note_spoilt(table: Table, but: Collection[str]) -> list[str]:
    """Name columns that would hold numbers if it were not for a few of their values."""
    notes = []
    for name, values in table.columns.items():
        if name in but or values.dtype != object:
            continue
        spoils = [value is not None and not is_number(value) for value in values]
        count = sum(spoils)
        if 0 < 2 * count < np.sum(~missing(values)):
            first = spoils.index(True)
            notes.append(
                f"column {name!r} counts as text because of {_counted(count, 'value')}, first "
                f"{values[first]!r:.60} in {table.place(first)}; all others are numbers"
            )
    return notes


def _note_filled(table: Table, columns: Iterable[Column]) -> list[str]:
    gaps = _gaps(table, [column.name for column in columns])
    if not gaps:
        return []
    total = sum(map(len, gaps.values()))
    return [
        f"{_counted(total, 'missing value')} in {_counted(len(gaps), 'column')} {_be(total)} "
        "filled in by medians and most frequent levels"
    ]


def _note_unseen(column: Column, table: Table, rows: np.ndarray) -> str:
    value = texts(table.columns[column.name][rows[:1]])[0]
    taken = "none of its levels"
    if OTHER in column.levels:
        taken = repr(OTHER)
    elif column.kind == "yes or no":
        taken = repr(column.levels[0])
    return (
        f"column {column.name!r} has {_counted(len(rows), 'value')} without a level of "
        f"{'its' if len(rows) == 1 else 'their'} own in the fit, first {value!r:.60} in "
        f"{table.place(int(rows[0]))}; counted as {taken}"
    )


def _with_closest(names: Sequence[str], table: Table) -> str:
    """List names that are not in a table, some with ones that are and look alike."""
    known = {name.casefold(): name for name in table.columns}
    listed = []
    for k, name in enumerate(names):
        # looking takes long in a table of thousands of columns
        looked_up = name.casefold() if k < _MOST_NAMES else ""
        close = [known[found] for found in difflib.get_close_matches(looked_up, known)]
        asked = f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""
        listed.append(f"{name!r}{asked}")
    return ", ".join(listed)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def _short(number: float) -> str:
    return f"{number:.0f}" if 1e4 <= abs(number) < 1e9 else f"{number:.4g}"
