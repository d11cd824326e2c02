"""All columns: the features of the rows of a table, for training and for new rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from steinpath.app.encoding.column import OTHER, Column, column_from_json, column_to_json
from steinpath.app.encoding.facts import refuse_doubtful
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
        The column to predict.
    columns : tuple of Column
        The columns to predict from.
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
            raise DataError(f"several columns are named {name!r}; column names must be unique")

    @property
    def feature_names(self) -> list[str]:
        """Names of all features, made unique."""
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
        """Columns whose values are levels."""
        return [column.name for column in self.columns if not column.holds_numbers]

    def transform(self, table: Table) -> tuple[np.ndarray, list[str]]:
        """Return the features of the rows of a table.

        Parameters
        ----------
        table : Table
            It may have other columns.

        Returns
        -------
        X : ndarray of shape (n, p)
            The features.
        notes : list of str
            Notes about them.

        Raises
        ------
        DataError
            If columns are missing or of another type, or values are missing and the fit did not
            impute any.
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
                "fill them in, or fit the model with --impute",
            )
        return X, as_notes(remarks)

    def _check_columns(self, table: Table) -> None:
        lacking = [column.name for column in self.columns if column.name not in table.columns]
        if lacking:
            raise DataError(
                f"{counted(len(lacking), 'column')} of the model {be(len(lacking))} missing: "
                f"{with_closest(lacking, table.columns)}"
            )

    def to_json(self) -> dict[str, Any]:
        """Return an object for a model file; see `from_json`."""
        return {"target": self.target, "columns": [*map(column_to_json, self.columns)]}

    @classmethod
    def from_json(cls, found: Any) -> Encoding:
        """Return the encoding from an object of a model file.

        Raises
        ------
        DataError
            If the object is not valid.
        """
        target, columns = entries("an encoding", found, ("target", "columns"))
        if not isinstance(columns, list):
            raise DataError(f"the columns of an encoding must be a list, got {columns!r:.60}")
        return cls(target, tuple(column_from_json(column) for column in columns))


def _values(column: Column, table: Table) -> np.ndarray:
    """Return the values of a column, of the type that it had in the fit."""
    values = table.columns[column.name]
    if not column.holds_numbers:
        return values
    if values.dtype == object:  # such as a categorical column whose levels are numbers
        cells = [cell or "" for cell in values]
        alike = replace(table, columns={}, codes={}, conversions={})
        values = parse_cells(column.name, cells, alike, as_text=False)
    usual = {"number": "f", "date": "M"}[column.kind]
    if values.dtype.kind != usual and kind_of(values) != "nothing":
        refuse_doubtful(table, column.name)
        raise DataError(
            f"column {column.name!r} must hold {column.kind}s, as in the fit, but has "
            f"{first_other(column.name, column.kind, table)}"
        )
    return values


def _note_unseen(column: Column, table: Table, rows: np.ndarray) -> Remark:
    """Return a remark about values without a level, and how they are treated."""
    value = texts(table.columns[column.name][rows[:1]])[0]
    treated = "none of its levels"
    if OTHER in column.levels:
        treated = repr(OTHER)
    elif column.kind == "binary":
        treated = repr(column.levels[0])
    return Remark(
        column.name,
        f"has {counted(len(rows), 'value')} that the model does not know, first {value!r:.60} in "
        f"{table.place(int(rows[0]))}; treated as {treated}",
        "have values that the model does not know",
    )
