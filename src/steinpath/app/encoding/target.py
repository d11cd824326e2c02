"""The target: numbers, or classes, and which of them it is."""

from __future__ import annotations

import numpy as np

from steinpath.app.encoding.facts import facts_of
from steinpath.app.encoding.messages import counted, first_other, kind_of, short
from steinpath.app.tables import DataError, Table, is_number, missing, texts

#: What a target can be predicted as.
TASKS = ("regression", "classification")
# More classes than this are names rather than classes.
_MOST_CLASSES = 20
# Rows that each class has at least: of one row, no other can be predicted.
_FEWEST = 2


def read_target(
    table: Table, name: str, task: str | None = None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the target of each row as a number, and its classes.

    Parameters
    ----------
    table : Table
        The data.
    name : str
        The column.
    task : {"regression", "classification"}, optional
        What to take it for. By default, texts and numbers of which there are exactly two are
        classes, and other numbers are not.

    Returns
    -------
    y : ndarray of shape (n,)
        Numbers as they are, or the index of the class; NaN where it is missing.
    classes : tuple of str
        The classes, in the order of numbers or of the alphabet; none for regression.

    Raises
    ------
    DataError
        If there is nothing to predict, or the target is not of the kind that was asked for.
    """
    values = table.columns[name]
    present = values[~missing(values)]
    if len(present) < 2:
        raise DataError(
            f"the target {name!r} has {counted(len(present), 'value')} in "
            f"{counted(table.n_rows, 'row')}; at least two are needed"
        )
    if (present == present[0]).all():
        value = short(present[0]) if values.dtype.kind == "f" else repr(str(present[0]))[:60]
        raise DataError(
            f"the target {name!r} is {value} in every row; there is nothing to predict unless it "
            "varies"
        )
    if (task or _task(table, name)) == "classification":
        return _classes(table, name)
    if kind_of(values) != "number":
        raise DataError(
            f"the target must be a number, and {name!r} has {first_other(name, 'number', table)}; "
            "to predict classes, use --task classification and a loss for them, such as logistic"
        )
    return values, ()


def _task(table: Table, name: str) -> str:
    """Return what a target is taken for: classes, if it has two values or is of texts."""
    values = table.columns[name]
    present = values[~missing(values)]
    kind = kind_of(values)
    if kind == "text":
        # a column of numbers in which some cells are something else is none of classes
        others = sum(not is_number(value) for value in present)
        return TASKS[not 0 < 2 * others < len(present)]
    return TASKS[kind == "number" and len(np.unique(present)) == 2]


def _classes(table: Table, name: str) -> tuple[np.ndarray, tuple[str, ...]]:
    labels = texts(table.columns[name])
    found = facts_of(labels).sorted_levels
    if len(found) > _MOST_CLASSES:
        as_number = "use --task regression and a loss for it, such as lad"
        if kind_of(table.columns[name]) != "number":
            as_number = f"write numbers only, and not {first_other(name, 'number', table)}"
        raise DataError(
            f"the target {name!r} has {len(found)} different values, and there can be "
            f"{_MOST_CLASSES} classes at most: put rare ones together, or, to predict a number, "
            f"{as_number}"
        )
    rare = [label for label, count in found.items() if count < _FEWEST]
    if rare:
        more = f", and so do {len(rare) - 1} others" if len(rare) > 1 else ""
        raise DataError(
            f"the class {rare[0]!r:.60} of the target {name!r} has a single row{more}; every class "
            f"needs {_FEWEST} rows at least: put rare classes together, or remove these rows"
        )
    classes = sorted(found, key=float if all(map(is_number, found)) else None)
    index: dict[str | None, float] = {label: float(k) for k, label in enumerate(classes)}
    index[None] = np.nan
    return np.array([index[label] for label in labels]), tuple(classes)
