"""Rows for a fit: the columns that become features, and notes about all columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from steinpath.app.encoding.column import AS_REQUESTED, Column, Dropped, fit_column, identifier
from steinpath.app.encoding.dependence import read_groups, read_times
from steinpath.app.encoding.encoding import Encoding
from steinpath.app.encoding.facts import (
    Facts,
    TextFacts,
    describe,
    facts_of,
    facts_of_rows,
    refuse_doubtful,
)
from steinpath.app.encoding.messages import (
    MOST_NAMES,
    Remark,
    as_notes,
    counted,
    refuse_gaps,
    refuse_unknown,
)
from steinpath.app.encoding.target import read_target
from steinpath.app.tables import (
    DEFAULT_FORMAT,
    DataError,
    Table,
    TextFormat,
    missing,
    suggest_date_format,
    texts,
)
from steinpath.design._base import Design

#: Columns that are summarised.
MOST_SUMMARIES = 1000
# Distinct whole numbers of a target that may be classes.
_FEW_NUMBERS = 5


@dataclass(frozen=True)
class ColumnSummary:
    """A column of the file, and how it is used.

    Attributes
    ----------
    name, kind : str
        Its name; "target", "number", "binary", "date", "category", "group", "time" or "dropped".
    detail : str
        Summary of its values, or the reason why it is dropped.
    missing : int
        Number of missing values.
    features : int
        Number of its features.
    """

    name: str
    kind: str
    detail: str
    missing: int
    features: int


class RemoteFeatures(ABC):
    """Features of rows that are held by other processes.

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
        """Return a subset of the features, by index."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows ready for a fit.

    Attributes
    ----------
    encoding : Encoding
        How columns become features, for new rows.
    X : ndarray of shape (n, p) or RemoteFeatures
        Features.
    y : ndarray of shape (n,)
        Target: a number, or the index of a class.
    summaries : tuple of ColumnSummary
        How each column is used; at most the first thousand columns and the target.
    n_columns : int
        Number of columns of the table.
    notes : tuple of str
        What was done to the data, such as columns dropped and values imputed.
    groups : ndarray of int of shape (n,), optional
        Group of each row.
    times : ndarray of shape (n,), optional
        Time of each row, increasing.
    classes : tuple of str
        Classes of the target, which `y` indexes; empty for regression.
    text_format : TextFormat
        How texts were read.
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
    text_format: TextFormat = DEFAULT_FORMAT


@dataclass(frozen=True)
class EncodingOptions:
    """How to use the columns of a table; see `encode`."""

    target: str
    impute: bool = False
    drop: Collection[str] = ()
    categories: Collection[str] = ()
    group: str | None = None
    time: str | None = None
    task: str | None = None
    keep_columns: Collection[str] = ()

    @property
    def roles(self) -> dict[str, str]:
        """Columns that are neither the target nor features, and their roles."""
        named = ((self.group, "group"), (self.time, "time"))
        return {name: role for name, role in named if name is not None}

    def check(self, columns: Collection[str]) -> None:
        """Refuse unknown names, and columns with two roles."""
        target, roles = self.target, self.roles
        refuse_unknown(columns, (target, *self.drop, *self.categories, *self.keep_columns, *roles))
        if target in roles:
            raise DataError(
                f"{target!r} is the target and cannot be the {roles[target]} as well; name another "
                "column"
            )
        if target in self.drop or target in self.categories:
            raise DataError(
                f"{target!r} is the target, which can neither be dropped nor be a category; name "
                "other columns"
            )
        if both := set(self.drop) & set(self.keep_columns):
            raise DataError(f"{min(both)!r} cannot be both in --drop and in --keep-column")


@dataclass(frozen=True, eq=False)
class Roles:
    """The target, group and time of each row.

    Attributes
    ----------
    y, classes, groups, times
        As in `Encoded`; times are in row order.
    kept : ndarray of bool, optional
        Mask of the rows that are used; None for all.
    first_gap : int or None
        Row of the first missing target.
    summaries : dict of str to ColumnSummary
        Summaries of these columns.
    notes : tuple of str
        What was done to rows.
    conversions : dict of str to str
        As in `Table`, for these columns.
    """

    y: np.ndarray
    classes: tuple[str, ...]
    kept: np.ndarray | None
    first_gap: int | None
    groups: np.ndarray | None
    times: np.ndarray | None
    summaries: dict[str, ColumnSummary]
    notes: tuple[str, ...]
    conversions: dict[str, str]


@dataclass(frozen=True)
class Learned:
    """How columns become features; attributes as in `Encoded`."""

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
    keep_columns: Collection[str] = (),
) -> Encoded:
    """Encode all columns except the target, the group and the time as features.

    Parameters
    ----------
    table : Table
        The data.
    target : str
        Column to predict: numbers or classes.
    impute : bool
        Whether to impute missing numbers and dates with medians, and missing levels with the most
        frequent level, here and in new rows, and to drop rows without a target. Otherwise missing
        values are refused.
    drop : collection of str
        Columns to drop.
    categories : collection of str
        Columns to treat as categorical.
    group : str, optional
        Column of group labels.
    time : str, optional
        Column of numbers or dates by which to sort the rows.
    task : {"regression", "classification"}, optional
        By default inferred from the target; see `read_target`.
    keep_columns : collection of str
        Columns to use even if they look like identifiers.

    Raises
    ------
    DataError
        If there is no usable column, or values are missing without `impute`, or groups or times
        are missing.
    """
    options = EncodingOptions(target, impute, drop, categories, group, time, task, keep_columns)
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
        # not before: messages name the places of rows in the file
        order = np.argsort(times, kind="stable")
        X, y, times = X[order], y[order], times[order]
    return Encoded(
        learned.encoding,
        X,
        y,
        learned.summaries,
        len(table.columns),
        (*table.notes, *learned.notes),
        roles.groups,
        times,
        roles.classes,
        table.text_format,
    )


def read_roles(table: Table, options: EncodingOptions) -> Roles:
    """Return the target, the groups and the times of rows.

    Parameters
    ----------
    table : Table
        These columns; it may have others.
    options : EncodingOptions
        Their names.
    """
    target, group, time = options.target, options.group, options.time
    as_levels = options.task == "classification"
    refuse_doubtful(table, target, as_levels, "--task classification")
    if time is not None:
        refuse_doubtful(table, time)
    y, classes = read_target(table, target, options.task)
    of_target = facts_of(texts(table.columns[target]) if classes else y)
    summaries = {target: ColumnSummary(target, "target", describe(of_target), of_target.gaps, 0)}
    notes, kept, groups, times = list[str](), None, None, None
    if options.task is None and not classes:
        notes += _note_few_numbers(target, y)
    if options.impute and (count := of_target.gaps):
        kept = ~missing(y)
        table, y = rows_of(table, kept), y[kept]
        were = "was" if count == 1 else "were"
        notes.append(f"{counted(count, 'row')} without a target {were} dropped")
    if group is not None:
        groups, detail = read_groups(table, group)
        summaries[group] = ColumnSummary(group, "group", detail, 0, 0)
        notes.append(f"rows with the same {group!r:.60} are held out together ({detail})")
    if time is not None:
        times = read_times(table, time)
        summaries[time] = ColumnSummary(time, "time", describe(facts_of(times)), 0, 0)
        notes.append(f"rows are sorted by {time!r:.60}; later rows are predicted from earlier rows")
    signs = {name: sign for name, sign in table.conversions.items() if name in summaries}
    gap = of_target.first_gap
    return Roles(y, classes, kept, gap, groups, times, summaries, tuple(notes), signs)


def _note_few_numbers(target: str, y: np.ndarray) -> list[str]:
    """Return a note if a target of numbers may be one of classes."""
    found = np.unique(y[~missing(y)])
    if len(found) > _FEW_NUMBERS or len(y) < 10 * len(found) or np.any(found % 1):
        return []
    return [
        f"the target {target!r:.60} has {len(found)} distinct values and is treated as numeric; if "
        "they are classes, use --task classification"
    ]


def learn(
    names: Sequence[str],
    facts: Mapping[str, Facts],
    roles: Roles,
    options: EncodingOptions,
    place: Callable[[int], str],
) -> Learned:
    """Return how columns become features, from the facts about them.

    Parameters
    ----------
    names : sequence of str
        All columns, in order.
    facts : mapping of str to Facts
        Facts about all columns except those of the roles.
    roles : Roles
        Target, group and time.
    options : EncodingOptions
        How to use the columns.
    place : callable
        Returns the place of a row; see `Table.place`.
    """
    target, impute = options.target, options.impute
    but = {*options.drop, *options.categories}
    seen = {name: each for name, each in facts.items() if name not in but}
    signs = roles.conversions | {name: each.conversion for name, each in seen.items()}
    notes = [*as_notes([*_conversions(signs), *_remarks(seen, place)]), *roles.notes]
    columns, summaries, dropped = list[Column](), list[ColumnSummary](), list[Remark]()
    for position, name in enumerate(names):
        if name in roles.summaries:
            summaries.append(roles.summaries[name])
            continue
        known = facts[name]
        found: Column | Dropped | None = AS_REQUESTED if name in options.drop else None
        if found is None and name not in (*options.keep_columns, *options.categories):
            found = identifier(name, position, known)
        found = found or fit_column(name, known, impute)
        if isinstance(found, Column):
            columns.append(found)
        elif found.note:
            dropped.append(Remark(name, found.note, found.notes))
        if len(summaries) < MOST_SUMMARIES:
            summaries.append(_summary(name, found, known))
    notes += as_notes(dropped)
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
            f"{_footer(gaps, len(roles.y), place)}use --impute to replace them with medians and "
            "most frequent levels (rows without a target are dropped)",
        )
    return Learned(Encoding(target, tuple(columns)), tuple(summaries), tuple(notes))


def _footer(gaps: Mapping[str, tuple[int, int]], n_rows: int, place: Callable[[int], str]) -> str:
    """Return the advice to remove the last row if all missing values are in it."""
    if len(gaps) > 1 and set(gaps.values()) == {(1, n_rows - 1)}:
        return f"remove {place(n_rows - 1)} if it is a footer, such as totals, or "
    return ""


def rows_of(table: Table, kept: np.ndarray | None) -> Table:
    """Return the rows of a table that a mask selects; None for all."""
    if kept is None:
        return table
    lines = None if table.lines is None else table.lines[kept]
    columns = {name: values[kept] for name, values in table.columns.items()}
    numbers = np.flatnonzero(kept) if table.numbers is None else table.numbers[kept]
    return replace(table, columns=columns, lines=lines, numbers=numbers)


def _summary(name: str, found: Column | Dropped, facts: Facts) -> ColumnSummary:
    if isinstance(found, Dropped):
        return ColumnSummary(name, "dropped", found.detail, facts.gaps, 0)
    return ColumnSummary(name, found.kind, describe(facts), facts.gaps, len(found.features))


def _conversions(signs: Mapping[str, str]) -> Iterator[Remark]:
    """Return remarks about signs that were removed from numbers."""
    for name, sign in signs.items():
        if sign:
            yield Remark(name, f"was read without its {sign}", f"were read without their {sign}")


def _remarks(facts: Mapping[str, Facts], place: Callable[[int], str]) -> Iterator[Remark]:
    """Return remarks about columns whose type may have been misjudged."""
    for name, known in facts.items():
        if known.code is not None:
            code, row = known.code
            yield Remark(
                name,
                f"is treated as numeric but is written like a code, first {code!r:.60} in "
                f"{place(row)}; if it is a code, use --category {name!r}",
                "are treated as numeric but are written like codes (if they are codes, use "
                "--category)",
            )
    spoilt = [each.texts for each in facts.values() if _nearly_numbers(each.texts)]
    markers = frozenset[str]().union(*(each.other_texts for each in spoilt))
    for name, known in facts.items():
        seen = known.texts
        if seen.first is not None and seen.date_formats:
            remedy = suggest_date_format(seen.date_formats)
            yield Remark(
                name,
                f"is treated as text; if {seen.first.value!r:.60} is a date, use {remedy}",
                f"are treated as text; if they hold dates, use {remedy}",
            )
        elif seen.first_other is not None and _nearly_numbers(seen):
            value, row = seen.first_other
            means = "it means" if len(seen.other_texts) == 1 else "they mean"
            yield Remark(
                name,
                f"is treated as text because of {counted(seen.others, 'value')}, first "
                f"{value!r:.60} in {place(row)}; all others are numbers (if {means} missing, use "
                f"{_na_options(seen.other_texts)})",
                "are treated as text although most of their values are numbers (if the others mean "
                f"missing, use {_na_options(markers)})",
            )


def _nearly_numbers(seen: TextFacts) -> bool:
    """Whether most texts of a column are numbers, and a few are not."""
    return not seen.date_formats and 0 < 2 * seen.others < seen.present


def _na_options(found: Collection[str]) -> str:
    """Return the options that make these texts missing values, unless there are many."""
    if len(found) > MOST_NAMES:
        return "--na for each of them"
    return " ".join(f"--na {text!r:.60}" for text in sorted(found))


def _note_filled(gaps: Sequence[int]) -> list[str]:
    total = sum(gaps)
    if not total:
        return []
    return [
        f"{counted(total, 'missing value')} in {counted(len(gaps), 'column')} "
        f"{'was' if total == 1 else 'were'} replaced with medians and most frequent levels"
    ]
