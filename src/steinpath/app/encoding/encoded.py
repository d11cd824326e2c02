"""Rows for a fit: which columns become features, and what is said about all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from steinpath.app.encoding.column import AS_ASKED, Column, LeftOut, fit_column
from steinpath.app.encoding.dependence import read_groups, read_times
from steinpath.app.encoding.encoding import Encoding
from steinpath.app.encoding.facts import Facts, describe, facts_of, facts_of_rows
from steinpath.app.encoding.messages import (
    Remark,
    as_notes,
    be,
    counted,
    refuse_gaps,
    refuse_unknown,
)
from steinpath.app.encoding.target import read_target
from steinpath.app.tables import DataError, Table, missing, texts
from steinpath.design._base import Design

#: Columns that are summed up: more than anybody reads.
MOST_SUMMARIES = 1000


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


class RemoteFeatures(ABC):
    """Features of rows that are not in this process.

    Attributes
    ----------
    shape : tuple of int
        ``(n, p)``.
    sizes : ndarray of shape (p,)
        The largest absolute value of each feature.
    """

    shape: tuple[int, int]
    sizes: np.ndarray

    @abstractmethod
    def standardised(self, dtype: Any) -> tuple[np.ndarray, np.ndarray, Design]:
        """Return means, standard deviations, and the design of standardised features."""

    @abstractmethod
    def columns(self, which: np.ndarray) -> RemoteFeatures:
        """Return some of the features, by their numbers."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows ready for a fit.

    Attributes
    ----------
    encoding : Encoding
        How to do the same to new rows.
    X : ndarray of shape (n, p) or RemoteFeatures
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
    X: np.ndarray | RemoteFeatures
    y: np.ndarray
    summaries: tuple[ColumnSummary, ...]
    n_columns: int
    notes: tuple[str, ...]
    groups: np.ndarray | None = None
    times: np.ndarray | None = None
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class EncodingOptions:
    """What to make of the columns of a table; see `encode`."""

    target: str
    impute: bool = False
    drop: Collection[str] = ()
    categories: Collection[str] = ()
    group: str | None = None
    time: str | None = None
    task: str | None = None

    @property
    def roles(self) -> dict[str, str]:
        """Columns that are neither the target nor features, and what they are."""
        named = ((self.group, "group"), (self.time, "time"))
        return {name: role for name, role in named if name is not None}

    def check(self, columns: Collection[str]) -> None:
        """Refuse names that no column has, and columns that would be two things."""
        target, roles = self.target, self.roles
        refuse_unknown(columns, (target, *self.drop, *self.categories, *roles))
        if target in roles:
            raise DataError(
                f"{target!r} is the target, which cannot be the {roles[target]}, too; name another "
                "column"
            )
        if target in self.drop or target in self.categories:
            raise DataError(
                f"{target!r} is the target, which can neither be dropped nor be a category; "
                "name other columns"
            )


@dataclass(frozen=True, eq=False)
class Roles:
    """The target of each row, and how rows depend on each other.

    Attributes
    ----------
    y, classes, groups, times
        As of `Encoded`; times are in the order of the rows.
    kept : ndarray of bool, optional
        Which rows of the table are used; None for all.
    first_gap : int or None
        Row of the first missing target.
    summaries : dict of str to ColumnSummary
        Of the columns that this is about.
    notes : tuple of str
        What was done to rows.
    """

    y: np.ndarray
    classes: tuple[str, ...]
    kept: np.ndarray | None
    first_gap: int | None
    groups: np.ndarray | None
    times: np.ndarray | None
    summaries: dict[str, ColumnSummary]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Learned:
    """How columns become features, and what became of each; as of `Encoded`."""

    encoding: Encoding
    summaries: tuple[ColumnSummary, ...]
    notes: tuple[str, ...]


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
    options = EncodingOptions(target, impute, drop, categories, group, time, task)
    options.check(table.columns)
    roles = read_roles(table, options)
    facts = {
        name: facts_of_rows(table, name, roles.kept, name in categories, name in drop)
        for name in table.columns
        if name not in (target, *options.roles)
    }
    learned = learn(list(table.columns), facts, roles, options, table.place)
    X, _ = learned.encoding.transform(rows_of(table, roles.kept))
    y, times = roles.y, roles.times
    if times is not None:
        # not before: messages name the places that rows have in the file
        order = np.argsort(times, kind="stable")
        X, y, times = X[order], y[order], times[order]
    return Encoded(
        learned.encoding,
        X,
        y,
        learned.summaries,
        len(table.columns),
        learned.notes,
        roles.groups,
        times,
        roles.classes,
    )


def read_roles(table: Table, options: EncodingOptions) -> Roles:
    """Return the target, the groups and the times of rows.

    Parameters
    ----------
    table : Table
        These columns; it may have others.
    options : EncodingOptions
        What they are called.
    """
    target, group, time = options.target, options.group, options.time
    y, classes = read_target(table, target, options.task)
    of_target = facts_of(texts(table.columns[target]) if classes else y)
    summaries = {target: ColumnSummary(target, "target", describe(of_target), of_target.gaps, 0)}
    notes, kept, groups, times = list[str](), None, None, None
    if options.impute and (count := of_target.gaps):
        kept = ~missing(y)
        table, y = rows_of(table, kept), y[kept]
        notes.append(f"{counted(count, 'row')} without a target {be(count)} left out")
    if group is not None:
        groups, detail = read_groups(table, group)
        summaries[group] = ColumnSummary(group, "group", detail, 0, 0)
        notes.append(f"rows with the same {group!r:.60} are left out together ({detail})")
    if time is not None:
        times = read_times(table, time)
        summaries[time] = ColumnSummary(time, "time", describe(facts_of(times)), 0, 0)
        notes.append(f"rows are sorted by {time!r:.60}: later ones are predicted from earlier ones")
    return Roles(y, classes, kept, of_target.first_gap, groups, times, summaries, tuple(notes))


def learn(
    names: Sequence[str],
    facts: Mapping[str, Facts],
    roles: Roles,
    options: EncodingOptions,
    place: Callable[[int], str],
) -> Learned:
    """Return how columns become features, from what is known of them.

    Parameters
    ----------
    names : sequence of str
        All columns, in their order.
    facts : mapping of str to Facts
        Of all columns but those of the roles.
    roles : Roles
        Of the rows.
    options : EncodingOptions
        What to make of the columns.
    place : callable
        Where a row is; see `Table.place`.
    """
    target, impute = options.target, options.impute
    but = {*options.drop, *options.categories}
    seen = {name: each for name, each in facts.items() if name not in but}
    notes = [*as_notes(_remarks(seen, place)), *roles.notes]
    columns, summaries, left_out = list[Column](), list[ColumnSummary](), list[Remark]()
    for name in names:
        if name in roles.summaries:
            summaries.append(roles.summaries[name])
            continue
        known = facts[name]
        found = AS_ASKED if name in options.drop else fit_column(name, known, impute)
        if isinstance(found, Column):
            columns.append(found)
        elif found.note:
            left_out.append(Remark(name, found.note, found.notes))
        if len(summaries) < MOST_SUMMARIES:
            summaries.append(_summary(name, found, known))
    notes += as_notes(left_out)
    if not columns:
        raise DataError("; ".join([f"there is no column to predict {target!r} from", *notes]))
    gaps = {
        name: (facts[name].gaps, facts[name].first_gap or 0)
        for name in (column.name for column in columns)
        if facts[name].gaps
    }
    if impute:
        notes += _note_filled([count for count, _ in gaps.values()])
    else:
        if roles.first_gap is not None:
            gaps = {target: (roles.summaries[target].missing, roles.first_gap)} | gaps
        refuse_gaps(
            gaps,
            place,
            "use --impute to fill them in by medians and most frequent levels (rows without a "
            "target are left out)",
        )
    return Learned(Encoding(target, tuple(columns)), tuple(summaries), tuple(notes))


def rows_of(table: Table, kept: np.ndarray | None) -> Table:
    """Return a table of some rows of another; None for all."""
    if kept is None:
        return table
    lines = None if table.lines is None else table.lines[kept]
    columns = {name: values[kept] for name, values in table.columns.items()}
    numbers = np.flatnonzero(kept) if table.numbers is None else table.numbers[kept]
    return replace(table, columns=columns, lines=lines, numbers=numbers)


def _summary(name: str, found: Column | LeftOut, facts: Facts) -> ColumnSummary:
    if isinstance(found, LeftOut):
        return ColumnSummary(name, "left out", found.detail, facts.gaps, 0)
    return ColumnSummary(name, found.kind, describe(facts), facts.gaps, len(found.features))


def _remarks(facts: Mapping[str, Facts], place: Callable[[int], str]) -> Iterator[Remark]:
    """Name columns that may have been taken for what they are not: for numbers, or for texts."""
    for name, known in facts.items():
        if known.code is not None:
            code, row = known.code
            yield Remark(
                name,
                f"counts as a number, and is written like a code, first {code!r:.60} in "
                f"{place(row)}; if it is one, treat it as categorical by --category {name!r}",
                "count as numbers, and are written like codes (if they are, treat them as "
                "categorical by --category)",
            )
    for name, known in facts.items():
        seen = known.texts
        if seen.first is not None and seen.like_dates:
            yield Remark(
                name,
                "counts as text: if these are dates, write them as 2023-05-16, not as "
                f"{seen.first.value}",
                "count as text (if these are dates, write them as 2023-05-16)",
            )
        elif seen.first_other is not None and 2 * seen.others < seen.present:
            value, row = seen.first_other
            yield Remark(
                name,
                f"counts as text because of {counted(seen.others, 'value')}, first "
                f"{value!r:.60} in {place(row)}; all others are numbers (cells "
                "that are missing should be empty)",
                "count as text because of some values, and all others are numbers (cells that are "
                "missing should be empty)",
            )


def _note_filled(gaps: Sequence[int]) -> list[str]:
    total = sum(gaps)
    if not total:
        return []
    return [
        f"{counted(total, 'missing value')} in {counted(len(gaps), 'column')} {be(total)} "
        "filled in by medians and most frequent levels"
    ]
