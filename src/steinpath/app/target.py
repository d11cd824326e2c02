"""Columns that are not features: the target, groups of rows, and times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import TimeSeriesSplit

from steinpath._support import cells
from steinpath._support.cells import ReadColumn, texts
from steinpath._support.messages import (
    DataError,
    Message,
    Remedy,
    as_notes,
    counted,
    refuse_gaps,
    refuse_unknown,
)
from steinpath.app import TASKS
from steinpath.app.tables import FileTable
from steinpath.estimators._columns import ColumnSummary, describe, remark_signs

_NUMBERS, _CLASSES = TASKS
# Rows that each class needs, also on average, since a held-out row is predicted from the others;
# distinct whole numbers that may be classes.
_FEWEST, _FEW_NUMBERS = 2, 20
# Blocks of later rows that are predicted from earlier rows; fewest blocks, and fewest earlier rows.
_TIME_BLOCKS, _FEWEST_BLOCKS, _FEWEST_EARLIER = 5, 2, 2


@dataclass(frozen=True, eq=False)
class Roles:
    """The target, groups and times of the rows of a fit, and which rows of the table these are.

    y: numbers, or for classification numbers or texts as in the table; rows: by time if there is
    one, None for all in order; groups: numbers from 0; times: increasing; weights: nonnegative;
    summaries by column
    """

    y: np.ndarray
    task: str
    rows: np.ndarray | None
    groups: np.ndarray | None
    times: np.ndarray | None
    weights: np.ndarray | None
    summaries: dict[str, ColumnSummary]
    notes: tuple[str, ...]


def check_roles(
    columns: Collection[str], target: str, group: str | None, time: str | None, *others: str
) -> None:
    """Refuse unknown columns, and a target that has another role."""
    named = (*others, *filter(None, (group, time)))
    refuse_unknown(columns, (target, *named))
    if target in named:
        roles = "the group, the time, the weight or a category, nor be dropped or kept"
        raise DataError(f"{target!r} is the target, which cannot be {roles}; name another column")


def read_roles(
    table: FileTable,
    target: str,
    group: str | None = None,
    time: str | None = None,
    task: str | None = None,
    impute: bool = False,
    weight: str | None = None,
) -> Roles:
    """Return the target, the groups and the times of the rows; rows in messages are the table's.

    By default, texts, and numbers with exactly two distinct values, are classes. With `impute`,
    rows without a target are dropped; otherwise they are refused.
    """
    read = table.read(target, as_labels=False)
    chosen = _task(table, target, read, task)
    y, notes, signs = read.data, list[str](), {target: read.sign}
    if chosen == _CLASSES:
        y = _classes(target, read)
        read = table.read(target, as_labels=True)
    elif task is None:
        distinct = np.unique(y[~read.gaps])
        few = len(distinct) <= min(_FEW_NUMBERS, (~read.gaps).sum() / 10)
        if few and not np.any(distinct % 1):
            said = "the target {name!r:.60} has {count} distinct values and is treated as numeric; "
            said += "if they are classes, use {remedy}"
            remedy, count = Remedy("task", _CLASSES), len(distinct)
            notes.append(Message(said, name=target, count=count, remedy=remedy))
    missing, kept, last = int(read.gaps.sum()), np.flatnonzero(~read.gaps), len(read.data) - 1
    summaries = {target: ColumnSummary(target, "target", describe(read), missing, 0)}
    if missing and not impute:
        gap, remedy = int(read.gaps.argmax()), Remedy("missing", "impute")
        use = Message("use {remedy} to drop rows without a target", remedy=remedy)
        refuse_gaps({target: (missing, gap)}, use, last if gap == last else None)
    elif missing:
        were = "was" if missing == 1 else "were"
        notes.append(f"{counted(missing, 'row')} without a target {were} dropped")
    groups = times = weights = None
    if group is not None:
        groups, detail = _groups(table, group, kept)
        summaries[group] = ColumnSummary(group, "group", detail, 0, 0)
        notes.append(f"rows with the same {group!r:.60} are held out together ({detail})")
    if weight is not None:
        weights = _weights(weight, table.read(weight, as_labels=False), kept)
        detail = f"from {weights.min():.3g} to {weights.max():.3g}"
        summaries[weight] = ColumnSummary(weight, "weight", detail, 0, 0)
        notes.append(f"rows count by their weight {weight!r:.60} in the fit and in all errors")
    rows = kept if missing else None
    if time is not None:
        read = table.read(time, as_labels=False)
        times = _times(time, read, kept)
        order = np.argsort(times, kind="stable")
        times, rows = times[order], kept[order]
        groups, weights = (None if x is None else x[order] for x in (groups, weights))
        detail = describe(ReadColumn(read.kind, times))
        summaries[time] = ColumnSummary(time, "time", detail, 0, 0)
        notes.append(f"rows are sorted by {time!r:.60}; later rows are predicted from earlier rows")
        signs[time] = read.sign
    y = y if rows is None else y[rows]
    removed = as_notes(remark_signs(name, sign) for name, sign in signs.items() if sign)
    return Roles(y, chosen, rows, groups, times, weights, summaries, (*removed, *notes))


def _task(table: FileTable, name: str, read: ReadColumn, task: str | None) -> str:
    """Return the task, by default the one that the target suggests; refuse an unsuitable target."""
    present = read.data[~read.gaps]
    distinct = len(np.unique(present))
    if distinct < 2:
        has = f"{counted(distinct, 'distinct value')} in {counted(len(read.data), 'row')}"
        raise DataError(f"the target {name!r} has {has}; a target must vary")
    if task is None and cells.is_dictionary(table.frame.column(name).type):
        return _CLASSES
    if task != _CLASSES:
        read.refuse_doubtful(Remedy("task", _CLASSES))
    if task is None and read.kind == "O":
        # numbers with a few other cells are not classes
        others = read.counts @ read.others
        task = TASKS[not 0 < 2 * others < len(present)]
    elif task is None:
        task = TASKS[read.kind == "f" and distinct == 2]
    if task == _NUMBERS and read.kind != "f":
        said = "the target {name!r} must hold numbers, but has {other}; for classes, use {remedy}"
        other, remedy = read.placed(read.first_other("number")), Remedy("task", _CLASSES)
        raise DataError(Message(said, name=name, other=other, remedy=remedy))
    return task


def _classes(name: str, read: ReadColumn) -> np.ndarray:
    """Return the class of each row, as numbers if all are; refuse labels of single rows."""
    numeric, values = read.kind == "f", texts(read.values)
    counts = Counter(values[~read.gaps].tolist())
    if _FEW_NUMBERS < len(counts) > counts.total() / _FEWEST:
        said = f"the target {{name!r}} has {len(counts)} distinct values in {counts.total()} rows, "
        said += f"but every class needs at least {_FEWEST} rows: merge rare classes or, for "
        said += "regression, use {remedy}" if numeric else "regression, correct {other}"
        other, remedy = read.placed(read.first_other("number")), Remedy("task", _NUMBERS)
        raise DataError(Message(said, name=name, other=other, remedy=remedy))
    if rare := [label for label, count in counts.items() if count < _FEWEST]:
        more = f" ({len(rare)} classes in all)" if len(rare) > 1 else ""
        single = f"the class {min(rare)!r:.60} of the target {name!r} has a single row{more}"
        advice = "merge rare classes, or remove these rows"
        raise DataError(f"{single}; every class needs at least {_FEWEST} rows: {advice}")
    if not numeric:
        return values
    whole = not np.any(read.data[~read.gaps] % 1)
    return np.where(read.gaps, 0, read.data).astype(int) if whole else read.data


def _complete(name: str, read: ReadColumn, kept: np.ndarray, advice: str) -> np.ndarray:
    """Return the values of the rows that are kept; refuse missing ones."""
    gaps = kept[read.gaps[kept]]
    refuse_gaps({name: (len(gaps), int(gaps[0]))} if len(gaps) else {}, advice)
    return np.asarray(read.values[kept])


def _groups(table: FileTable, name: str, kept: np.ndarray) -> tuple[np.ndarray, str]:
    """Return the number of the group of each row, and a description such as "40 groups of 3"."""
    read = table.read(name, as_labels=True)
    advice = "every row needs a group; give each ungrouped row its own label"
    values = texts(_complete(name, read, kept, advice))
    labels, groups, sizes = np.unique(values, return_inverse=True, return_counts=True)
    if len(labels) < 2:
        only = f"the group {name!r} is {labels[0]!r:.60} in every row"
        raise DataError(f"{only}; at least two groups are needed")
    low, high = int(sizes.min()), int(sizes.max())
    size = counted(low, "row") if low == high else f"{low} to {counted(high, 'row')}"
    return groups, f"{len(labels)} groups of {size}"


def _weights(name: str, read: ReadColumn, kept: np.ndarray) -> np.ndarray:
    """Return the weights of the rows that are kept; refuse texts, missing and negative ones."""
    read.refuse_doubtful()
    if read.kind == "O":
        said, other = "the weight {name!r} must hold numbers, but has {other}", read.first_other
        raise DataError(Message(said, name=name, other=read.placed(other("number"))))
    advice = "every row needs a weight: fill it in, or remove these rows"
    weights = _complete(name, read, kept, advice).astype(float)
    if weights.min() < 0 or not weights.any():
        found = f"has {weights.min():g}" if weights.any() else "is 0 in every row"
        raise DataError(f"the weight {name!r} must be nonnegative, but {found}")
    return weights


def _times(name: str, read: ReadColumn, kept: np.ndarray) -> np.ndarray:
    """Return the time of each row that is kept; refuse texts and missing times."""
    read.refuse_doubtful()
    if read.kind == "O":
        formats = cells.date_formats(read.labels)
        said = "the time {name!r} must hold numbers or dates such as 2023-05-16, but has {other}"
        said += "; use {formats}" * bool(formats)
        other, use = read.placed(read.first_other("date")), cells.suggest_date_format(formats)
        raise DataError(Message(said, name=name, other=other, formats=use))
    advice = "every row needs a time: fill it in, or remove these rows"
    return _complete(name, read, kept, advice)


def time_splits(times: np.ndarray, gap: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return blocks of later rows, each after the earlier rows that predict it.

    Rows with the same time are in the same block; `gap` rows before each block are skipped.
    """
    n = len(times)
    starts = [test[0] for _, test in TimeSeriesSplit(_TIME_BLOCKS).split(times)]
    # a block starts with the first row of its first time
    starts = sorted(set(np.searchsorted(times, times[starts]).tolist()) - {0})
    if len(starts) < _FEWEST_BLOCKS:
        few = f"there are too few distinct times for {_FEWEST_BLOCKS} blocks of later rows; use "
        raise DataError(Message(few + "{remedy} for dependent rows", remedy=Remedy("groups")))
    most = starts[0] - _FEWEST_EARLIER
    if gap > most:
        said = f"a gap of {counted(gap, 'row')} leaves fewer than {_FEWEST_EARLIER} of {n} rows "
        said += f"before the first of {len(starts)} blocks; use at most {{remedy}}"
        raise DataError(Message(said, remedy=Remedy("gap", most)))
    spans = zip(starts, [*starts[1:], n], strict=True)
    return [(np.arange(start - gap), np.arange(start, end)) for start, end in spans]
