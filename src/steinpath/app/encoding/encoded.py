"""Rows for a fit: which columns become features, and what is said about all of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from steinpath.app.encoding.column import AS_ASKED, Column, LeftOut, counts, fit_column
from steinpath.app.encoding.dependence import read_groups, read_order
from steinpath.app.encoding.encoding import Encoding
from steinpath.app.encoding.messages import (
    MOST_LISTED,
    Remark,
    as_notes,
    be,
    counted,
    gaps_of,
    refuse_missing,
    refuse_unknown,
    short,
)
from steinpath.app.encoding.target import read_target
from steinpath.app.tables import DataError, Table, is_number, missing, texts

# Columns that are summed up: more than anybody reads.
_MOST_SUMMARIES = 1000
# Dates as people write them, of which nobody knows what comes first.
_OTHER_DATE = re.compile(r"\d{1,2}([./-])\d{1,2}\1(\d{4}|\d{2})( .*)?")


@dataclass(frozen=True)
class ColumnSummary:
    """A column of the file, and what became of it.

    Attributes
    ----------
    name, kind : str
        Its name; "target", "number", "yes or no", "date", "category", "group", "time" or
        "left out".
    detail : str
        Its values in a few words.
    missing : int
        How many were missing.
    features : int
        How many features were made of it.
    """

    name: str
    kind: str
    detail: str
    missing: int
    features: int


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
        Target: a number, or the index of a class.
    summaries : tuple of ColumnSummary
        Every column of the table, and what became of it; of thousands, the first thousand and the
        target.
    n_columns : int
        How many columns the table has.
    notes : tuple of str
        What was done to the data: columns left out, values filled in.
    groups : ndarray of int of shape (n,), optional
        Number of the group of each row, where rows belong together.
    times : ndarray of shape (n,), optional
        Time of each row, increasing, where rows are in the order of time.
    classes : tuple of str
        Classes of the target, which `y` has the indices of; none for regression.
    """

    encoding: Encoding
    X: np.ndarray
    y: np.ndarray
    summaries: tuple[ColumnSummary, ...]
    n_columns: int
    notes: tuple[str, ...]
    groups: np.ndarray | None = None
    times: np.ndarray | None = None
    classes: tuple[str, ...] = ()


def encode(
    table: Table,
    target: str,
    *,
    impute: bool = False,
    drop: Collection[str] = (),
    categories: Collection[str] = (),
    group: str | None = None,
    time: str | None = None,
    task: str | None = None,
) -> Encoded:
    """Make features of all columns but the target, the group and the time.

    Parameters
    ----------
    table : Table
        The data.
    target : str
        Column to predict, of numbers or of classes.
    impute : bool
        Whether to fill in missing numbers and dates by medians, and missing levels by the most
        frequent one, here and in new rows, and to leave out rows without a target. Otherwise
        missing values are refused.
    drop : collection of str
        Columns to leave out.
    categories : collection of str
        Columns of numbers that are codes of levels.
    group : str, optional
        Column that says which rows belong together.
    time : str, optional
        Column of numbers or dates, in the order of which the rows are to be.
    task : {"regression", "classification"}, optional
        What to take the target for; see `read_target`.

    Raises
    ------
    DataError
        If there is nothing to fit, or values are missing without `impute`, or groups or times are.
    """
    roles = {name: role for name, role in ((group, "group"), (time, "time")) if name is not None}
    _check_request(table, target, drop, categories, roles)
    y, classes = read_target(table, target, task)
    target_summary = _describe(texts(table.columns[target]) if classes else y)
    table = replace(table, columns=table.columns | {target: y})
    notes = as_notes(_remarks(table, {target, *drop, *categories, *roles}))
    without_target = missing(table.columns[target])
    count = int(without_target.sum())
    if impute and count:
        table = _rows(table, ~without_target)
        notes.append(f"{counted(count, 'row')} without a target {be(count)} left out")
    groups, detail = (None, "") if group is None else read_groups(table, group)
    order = None if time is None else read_order(table, time)
    if group is not None:
        notes.append(f"rows with the same {group!r:.60} are left out together ({detail})")
    if time is not None:
        notes.append(f"rows are sorted by {time!r:.60}: later ones are predicted from earlier ones")
    columns, summaries, left_out = [], [], []
    for name, values in table.columns.items():
        if name == target:
            summaries.append(ColumnSummary(name, "target", target_summary, count, 0))
            continue
        if name in roles:
            text = detail if roles[name] == "group" else _describe(values)
            summaries.append(ColumnSummary(name, roles[name], text, 0, 0))
            continue
        if name in categories or values.dtype == object:
            values = texts(values)
        gaps = missing(values)
        found = AS_ASKED if name in drop else fit_column(name, values, gaps, impute)
        if isinstance(found, Column):
            columns.append(found)
        elif found.note:
            left_out.append(Remark(name, found.note, found.notes))
        if len(summaries) < _MOST_SUMMARIES:
            summaries.append(_summary(name, found, values, gaps))
    notes += as_notes(left_out)
    if not columns:
        raise DataError("; ".join([f"there is no column to predict {target!r} from", *notes]))
    if impute:
        notes += _note_filled(table, columns)
    else:
        refuse_missing(
            table,
            [target, *(column.name for column in columns)],
            "use --impute to fill them in by medians and most frequent levels (rows without a "
            "target are left out)",
        )
    encoding = Encoding(target, tuple(columns))
    X, _ = encoding.transform(table)
    y, n_columns = table.columns[target], len(table.columns)
    times = None
    if time is not None and order is not None:
        # not before: messages name the places that rows have in the file
        X, y, times = X[order], y[order], table.columns[time][order]
    return Encoded(
        encoding, X, y, tuple(summaries), n_columns, tuple(notes), groups, times, classes
    )


def _check_request(
    table: Table,
    target: str,
    drop: Collection[str],
    categories: Collection[str],
    roles: Mapping[str, str],
) -> None:
    refuse_unknown(table, (target, *drop, *categories, *roles))
    if target in roles:
        raise DataError(
            f"{target!r} is the target, which cannot be the {roles[target]}, too; name another "
            "column"
        )
    if target in drop or target in categories:
        raise DataError(
            f"{target!r} is the target, which can neither be dropped nor be a category; "
            "name other columns"
        )


def _rows(table: Table, kept: np.ndarray) -> Table:
    """Return a table of some of all rows."""
    lines = None if table.lines is None else table.lines[kept]
    columns = {name: values[kept] for name, values in table.columns.items()}
    return replace(table, columns=columns, lines=lines, numbers=np.flatnonzero(kept))


def _summary(
    name: str, found: Column | LeftOut, values: np.ndarray, gaps: np.ndarray
) -> ColumnSummary:
    count = int(gaps.sum())
    if isinstance(found, LeftOut):
        return ColumnSummary(name, "left out", found.detail, count, 0)
    return ColumnSummary(name, found.kind, _describe(values), count, len(found.features))


def _describe(values: np.ndarray) -> str:
    """Sum up a column that has values."""
    present = values[~missing(values)]
    if values.dtype == object:
        found = counts(present)
        listed = [f"{level:.30} ({count})" for level, count in list(found.items())[:MOST_LISTED]]
        more = [f"… {len(found)} levels"] if len(found) > len(listed) else []
        return ", ".join(listed + more)
    if values.dtype.kind == "M":
        first, last = np.datetime_as_string(np.array([present.min(), present.max()]), "D")
        return f"from {first} to {last}"
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = present.min(), present.max(), present.mean(), np.median(present)
    low, high, mean, median = map(short, numbers)
    return f"from {low} to {high}, mean {mean}, median {median}"


def _remarks(table: Table, but: Collection[str]) -> Iterator[Remark]:
    """Name columns that may have been taken for what they are not: for numbers, or for texts."""
    for name, (code, row) in table.codes.items():
        if name not in but:
            yield Remark(
                name,
                f"counts as a number, and is written like a code, first {code!r:.60} in "
                f"{table.place(row)}; if it is one, treat it as categorical by --category {name!r}",
                "count as numbers, and are written like codes (if they are, treat them as "
                "categorical by --category)",
            )
    for name, values in table.columns.items():
        if name in but or values.dtype != object:
            continue
        spoils = [value is not None and not is_number(value) for value in values]
        count = sum(spoils)
        present = [value for value in values if value is not None]
        if present and all(map(_OTHER_DATE.fullmatch, present)):
            yield Remark(
                name,
                "counts as text: if these are dates, write them as 2023-05-16, not as "
                f"{present[0]}",
                "count as text (if these are dates, write them as 2023-05-16)",
            )
        elif 0 < 2 * count < len(present):
            first = spoils.index(True)
            yield Remark(
                name,
                f"counts as text because of {counted(count, 'value')}, first "
                f"{values[first]!r:.60} in {table.place(first)}; all others are numbers (cells "
                "that are missing should be empty)",
                "count as text because of some values, and all others are numbers (cells that are "
                "missing should be empty)",
            )


def _note_filled(table: Table, columns: Iterable[Column]) -> list[str]:
    gaps, total = gaps_of(table, [column.name for column in columns])
    if not gaps:
        return []
    return [
        f"{counted(total, 'missing value')} in {counted(len(gaps), 'column')} {be(total)} "
        "filled in by medians and most frequent levels"
    ]
