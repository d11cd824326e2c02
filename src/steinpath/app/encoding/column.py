"""One column: the features it becomes, and how they are learned from its values."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from steinpath.app.encoding.facts import Facts, as_numbers, median
from steinpath.app.encoding.identifiers import may_be_identifier
from steinpath.app.encoding.messages import check_text, entries, quoted
from steinpath.app.tables import DataError, missing, texts

#: The level that stands for all rare levels.
OTHER = "(other)"
# Levels of a category with a feature of their own, at most; and the rows that each needs, since the
# coefficient of a level with one or two rows is mostly noise.
_MOST_LEVELS, _LEAST_COUNT = 50, 3
# A number with a unit, or with quotation marks around it.
_AROUND_NUMBER = re.compile(r"[^\w.,-]{0,3}[+-]?\d[\d.,]*\D{0,10}")
_KINDS = ("number", "date", "binary", "category")
# Names of kinds in model files, where they differ.
_STORED = {"binary": "yes or no"}


@dataclass(frozen=True)
class Column:
    """How a column becomes features.

    Attributes
    ----------
    name : str
        Its name.
    kind : str
        "number" or "date": one feature (dates as days since 1970); "binary": two levels, one
        feature (1 for the second level); "category": one feature for each level.
    levels : tuple of str
        Levels of a binary column in alphabetical order; of a category, the most frequent first, and
        "(other)" last if rare levels are merged.
    fill : float or str, optional
        Value that replaces missing values: a number (days, for dates) or a level.
    """

    name: str
    kind: str
    levels: tuple[str, ...] = ()
    fill: float | str | None = None

    def __post_init__(self) -> None:
        check_text("the name of a column", self.name)
        where = f"column {self.name!r}"
        if self.kind not in _KINDS:
            raise DataError(f"{where} must be one of {quoted(_KINDS)}, got {self.kind!r:.60}")
        if not isinstance(self.levels, tuple):
            raise DataError(f"the levels of {where} must be a tuple, got {self.levels!r:.60}")
        for level in self.levels:
            check_text(f"a level of {where}", level)
        self._check_levels(where)
        self._check_fill(where)

    def _check_levels(self, where: str) -> None:
        levels, count = self.levels, len(self.levels)
        if self.holds_numbers:
            wanted, right = "no levels", not levels
        elif self.kind == "binary":
            wanted = "two levels in alphabetical order"
            right = count == 2 and levels[0] < levels[1]
        else:
            wanted = f"2 to {_MOST_LEVELS + 1} distinct levels, with {OTHER!r} last"
            right = 2 <= count <= _MOST_LEVELS + 1 and len(set(levels)) == count
            right = right and OTHER not in levels[:-1]
        if not right:
            raise DataError(
                f"{where} is of kind {self.kind!r} and must have {wanted}, got {levels!r:.60}"
            )

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
        levels = self.levels[1:] if self.kind == "binary" else self.levels
        return [f"{self.name}={level}" for level in levels]

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Return the features of some values.

        Parameters
        ----------
        values : ndarray of shape (n,)
            A column of a `Table`: numbers, dates or, for levels, anything.

        Returns
        -------
        features : ndarray of shape (n, k)
            Missing values are imputed, or NaN without a fill value. An unknown level is encoded as
            "(other)" if that is a level, and as zeros otherwise.
        """
        if self.holds_numbers:
            numbers = as_numbers(values)
            if self.fill is not None:
                numbers = np.where(np.isnan(numbers), self.fill, numbers)
            return numbers[:, None]
        codes = self._codes(values)
        wanted = [1] if self.kind == "binary" else range(len(self.levels))
        features: np.ndarray = np.equal(codes[:, None], np.array(wanted)).astype(float)
        if self.fill is None:
            features[missing(values)] = np.nan
        return features

    def unseen(self, values: np.ndarray) -> np.ndarray:
        """Return a boolean mask of the values without a level of their own."""
        if self.holds_numbers:
            return np.zeros(len(values), bool)
        known = {*self.levels, None}
        return np.fromiter((value not in known for value in texts(values)), bool, len(values))

    def _codes(self, values: np.ndarray) -> np.ndarray:
        """Return the index of the level of each value, or -1."""
        code: dict[Any, int] = {level: k for k, level in enumerate(self.levels)}
        code[None] = -1 if self.fill is None else code[self.fill]
        other = code.get(OTHER, -1)
        return np.fromiter((code.get(value, other) for value in texts(values)), int, len(values))


def column_to_json(column: Column) -> dict[str, Any]:
    """Return a column as an object of a model file."""
    kind = _STORED.get(column.kind, column.kind)
    return {**vars(column), "kind": kind, "levels": list(column.levels)}


def column_from_json(found: Any) -> Column:
    """Return a column from an object of a model file."""
    name, kind, levels, fill = entries("a column", found, ("name", "kind", "levels", "fill"))
    if not isinstance(levels, list):
        raise DataError(f"the levels of column {name!r:.60} must be a list, got {levels!r:.60}")
    if isinstance(fill, int) and not isinstance(fill, bool):
        with suppress(OverflowError):  # refused by the check of the column
            fill = float(fill)
    kind = {stored: each for each, stored in _STORED.items()}.get(str(kind), kind)
    return Column(name, kind, tuple(levels), fill)


class Dropped(NamedTuple):
    """Why a column is dropped: in a word, and in sentences about one and about several columns."""

    detail: str
    note: str = ""
    notes: str = ""


AS_REQUESTED = Dropped("as requested")
_EMPTY = Dropped("no values", "has no values and was dropped", "have no values and were dropped")
_CONSTANT = Dropped("constant", "is constant and was dropped", "are constant and were dropped")


def fit_column(name: str, facts: Facts, impute: bool) -> Column | Dropped:
    """Return how a column becomes features, or why it is dropped.

    Parameters
    ----------
    name : str
        Its name.
    facts : Facts
        Facts about its values.
    impute : bool
        Whether to impute missing values.
    """
    if not facts.present:
        return _EMPTY
    if facts.kind == "O":
        return _fit_levels(name, facts, impute)
    if facts.low == facts.high:
        return _CONSTANT
    fill = median(facts.middle) if impute else None
    return Column(name, "date" if facts.kind == "M" else "number", fill=fill)


def identifier(name: str, position: int, facts: Facts) -> Dropped | None:
    """Return why a column is dropped if it is an identifier, and None otherwise.

    Parameters
    ----------
    name : str
        Its name.
    position : int
        Its position in the table, from 0.
    facts : Facts
        Facts about its values.
    """
    if facts.kind == "f":
        found = facts.numbers.identifies(name, position)
    else:
        found = facts.kind == "O" and may_be_identifier(name) and max(facts.levels.values()) == 1
    if not found:
        return None
    return Dropped(
        "identifier",
        f"looks like an identifier and was excluded (--keep-column {name!r} keeps it)",
        "look like identifiers and were excluded (--keep-column keeps them)",
    )


def _fit_levels(name: str, facts: Facts, impute: bool) -> Column | Dropped:
    found = facts.sorted_levels
    levels = list(found)
    if len(levels) == 1:
        return _CONSTANT
    fill = levels[0] if impute else None
    if len(levels) == 2:
        return Column(name, "binary", tuple(sorted(levels)), fill)
    often = [level for level in levels if found[level] >= _LEAST_COUNT and level != OTHER]
    often = often[:_MOST_LEVELS]
    if not often:
        example = hint = ""
        seen = facts.texts
        with_units = not seen.date_formats and 0 < seen.present <= 2 * seen.others
        if with_units and all(map(_AROUND_NUMBER.fullmatch, levels)):
            example = f", such as {levels[0]!r}"
            hint = "; if they are numbers, remove units and other characters"
        return Dropped(
            "nearly all values are distinct",
            f"was dropped: nearly all of its {facts.present} values are distinct{example}{hint}",
            f"were dropped: nearly all of their values are distinct{hint}",
        )
    rest = [OTHER] if len(often) < len(levels) else []
    return Column(name, "category", (*often, *rest), fill)
