"""The target: numbers or classes."""

from __future__ import annotations

import numpy as np

from steinpath.app.defaults import TASKS
from steinpath.app.encoding.facts import facts_of
from steinpath.app.encoding.messages import counted, first_other, kind_of, short
from steinpath.app.tables import DataError, Table, is_number, like_numbers, missing, texts

# More classes than this are labels of single rows rather than classes.
_MOST_CLASSES = 20
# Rows that each class needs: a held-out row is predicted from the others.
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
        By default, texts, and numbers with exactly two distinct values, are classes.

    Returns
    -------
    y : ndarray of shape (n,)
        Numbers, or the index of the class; NaN where the target is missing.
    classes : tuple of str
        The classes, in numerical or alphabetical order; empty for regression.

    Raises
    ------
    DataError
        If the target is constant or nearly empty, or does not suit the task.
    """
    values = table.columns[name]
    present = values[~missing(values)]
    if len(present) < 2:
        raise DataError(
            f"the target {name!r} has {counted(len(present), 'nonmissing value')} in "
            f"{counted(table.n_rows, 'row')}; at least two are needed"
        )
    if (present == present[0]).all():
        value = short(present[0]) if values.dtype.kind == "f" else repr(str(present[0]))[:60]
        raise DataError(f"the target {name!r} is {value} in every row; a target must vary")
    if (task or _task(table, name)) == "classification":
        return _classes(table, name)
    if kind_of(values) != "number":
        raise DataError(
            f"the target {name!r} must hold numbers, but has {first_other(name, 'number', table)}; "
            "for classification, use --task classification and a loss such as logistic"
        )
    return values, ()


def _task(table: Table, name: str) -> str:
    """Return the task that a target suggests."""
    values = table.columns[name]
    present = values[~missing(values)]
    kind = kind_of(values)
    if kind == "text":
        # numbers with a few other cells are not classes
        others = sum(not fits for fits in like_numbers(present.tolist(), table.text_format))
        return TASKS[not 0 < 2 * others < len(present)]
    return TASKS[kind == "number" and len(np.unique(present)) == 2]


def _classes(table: Table, name: str) -> tuple[np.ndarray, tuple[str, ...]]:
    labels = texts(table.columns[name])
    found = facts_of(labels).sorted_levels
    if len(found) > _MOST_CLASSES:
        as_number = "use --task regression and a loss such as lad"
        if kind_of(table.columns[name]) != "number":
            as_number = f"correct {first_other(name, 'number', table)}"
        raise DataError(
            f"the target {name!r} has {len(found)} distinct values, but at most {_MOST_CLASSES} "
            f"classes are supported: merge rare classes or, for regression, {as_number}"
        )
    rare = [label for label, count in found.items() if count < _FEWEST]
    if rare:
        more = f" ({len(rare)} classes in all)" if len(rare) > 1 else ""
        raise DataError(
            f"the class {rare[0]!r:.60} of the target {name!r} has a single row{more}; every class "
            f"needs at least {_FEWEST} rows: merge rare classes, or remove these rows"
        )
    classes = sorted(found, key=float if all(map(is_number, found)) else None)
    index: dict[str | None, float] = {label: float(k) for k, label in enumerate(classes)}
    index[None] = np.nan
    return np.array([index[label] for label in labels]), tuple(classes)
