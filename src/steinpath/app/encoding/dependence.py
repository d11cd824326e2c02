"""Dependent rows: groups, and time order."""

from __future__ import annotations

import numpy as np

from steinpath.app.encoding.messages import counted, first_other, kind_of, refuse_missing
from steinpath.app.tables import (
    DataError,
    Table,
    date_formats,
    missing,
    suggest_date_format,
    texts,
)


def read_groups(table: Table, name: str) -> tuple[np.ndarray, str]:
    """Return the group of each row, and a description of the groups.

    Parameters
    ----------
    table : Table
        The rows of the fit.
    name : str
        Column of labels: texts, numbers or dates. Rows with the same label form a group.

    Returns
    -------
    groups : ndarray of int of shape (n,)
        Numbers of the groups, from 0.
    detail : str
        Description such as "40 groups of 3 to 10 rows".

    Raises
    ------
    DataError
        If labels are missing, or all are the same.
    """
    refuse_missing(table, [name], "every row needs a group; give each ungrouped row its own label")
    labels, groups, sizes = np.unique(
        texts(table.columns[name]), return_inverse=True, return_counts=True
    )
    if len(labels) < 2:
        raise DataError(
            f"the group {name!r} is {labels[0]!r:.60} in every row; at least two groups are needed"
        )
    low, high = int(sizes.min()), int(sizes.max())
    size = counted(low, "row") if low == high else f"{low} to {counted(high, 'row')}"
    return groups, f"{len(labels)} groups of {size}"


def read_times(table: Table, name: str) -> np.ndarray:
    """Return the time of each row.

    Parameters
    ----------
    table : Table
        The rows of the fit.
    name : str
        Column of numbers or dates.

    Returns
    -------
    ndarray of shape (n,)
        Numbers or dates.

    Raises
    ------
    DataError
        If times are missing, or are texts.
    """
    values = table.columns[name]
    if kind_of(values) == "text":
        raise DataError(
            f"the time {name!r} must hold numbers or dates such as 2023-05-16, but has "
            f"{first_other(name, 'date', table)}{_remedy(values)}"
        )
    refuse_missing(table, [name], "every row needs a time: fill it in, or remove these rows")
    return values


def _remedy(values: np.ndarray) -> str:
    """Name the option that reads texts as dates, if there is one."""
    formats = date_formats(set(values[~missing(values)].tolist()))
    return f"; use {suggest_date_format(formats)}" if formats else ""
