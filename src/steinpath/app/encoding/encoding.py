"""All columns: what features the rows of a table have, of a fit as well as new ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from steinpath.app.encoding.column import OTHER, Column, column_from_json
from steinpath.app.encoding.messages import (
    Remark,
    as_notes,
    be,
    check_text,
    counted,
    entries,
    first_other,
    kind_of,
    refuse_missing,
    with_closest,
)
from steinpath.app.tables import DataError, Table, parse_cells, texts


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
        check_text("the name of the target", self.target)
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

    @property
    def named(self) -> list[str]:
        """Columns whose values are names of levels."""
        return [column.name for column in self.columns if not column.holds_numbers]

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
        kept = {column.name: _values(column, table) for column in self.columns}
        table = replace(table, columns=kept)
        X = np.empty((table.n_rows, sum(len(column.features) for column in self.columns)))
        start, remarks = 0, []
        for column in self.columns:
            values = table.columns[column.name]
            stop = start + len(column.features)
            X[:, start:stop] = column.encode(values)
            start = stop
            if not column.holds_numbers and (unseen := column.unseen(values)).any():
                remarks.append(_note_unseen(column, table, np.flatnonzero(unseen)))
        if np.isnan(X).any():
            refuse_missing(
                table,
                [column.name for column in self.columns if column.fill is None],
                "fill them in, or fit with --impute",
            )
        return X, as_notes(remarks)

    def _check_columns(self, table: Table) -> None:
        lacking = [column.name for column in self.columns if column.name not in table.columns]
        if lacking:
            raise DataError(
                f"{counted(len(lacking), 'column')} of the fit must be there, and "
                f"{be(len(lacking))} not: {with_closest(lacking, table.columns)}"
            )

    def to_json(self) -> dict[str, Any]:
        """Return it in terms of what JSON has; see `from_json`."""
        columns = [{**vars(column), "levels": list(column.levels)} for column in self.columns]
        return {"target": self.target, "columns": columns}

    @classmethod
    def from_json(cls, found: Any) -> Encoding:
        """Return what `to_json` was called of.

        Raises
        ------
        DataError
            If this is not something that `to_json` returns.
        """
        target, columns = entries("an encoding", found, ("target", "columns"))
        if not isinstance(columns, list):
            raise DataError(f"the columns of an encoding must be a list, got {columns!r:.60}")
        return cls(target, tuple(column_from_json(column) for column in columns))


def _values(column: Column, table: Table) -> np.ndarray:
    """Return the values of a column, of the kind that it had in the fit."""
    values = table.columns[column.name]
    if not column.holds_numbers:
        return values
    if values.dtype == object:  # levels of a category, say, which are numbers all the same
        cells = [cell or "" for cell in values]
        values = parse_cells(column.name, cells, Table({}, table.lines), as_text=False)
    usual = {"number": "f", "date": "M"}[column.kind]
    if values.dtype.kind != usual and kind_of(values) != "nothing":
        raise DataError(
            f"column {column.name!r} must hold {column.kind}s, as it did in the fit, and has "
            f"{first_other(column.name, column.kind, table)}"
        )
    return values


def _note_unseen(column: Column, table: Table, rows: np.ndarray) -> Remark:
    """Say which values have no level, and what they count as."""
    value = texts(table.columns[column.name][rows[:1]])[0]
    taken = "none of its levels"
    if OTHER in column.levels:
        taken = repr(OTHER)
    elif column.kind == "yes or no":
        taken = repr(column.levels[0])
    return Remark(
        column.name,
        f"has {counted(len(rows), 'value')} without a level of "
        f"{'its' if len(rows) == 1 else 'their'} own in the fit, first {value!r:.60} in "
        f"{table.place(int(rows[0]))}; counted as {taken}",
        "have values without a level of their own in the fit",
    )
