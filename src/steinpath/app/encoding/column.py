"""One column: what features it becomes, and how that is found from its values."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from steinpath.app.encoding.facts import Facts, as_numbers, median
from steinpath.app.encoding.messages import check_text, entries, quoted
from steinpath.app.tables import DataError, missing, texts

#: The level that stands for all rare ones.
OTHER = "(other)"
# More levels than this are features that few rows have, and ...
_MOST_LEVELS = 50
# ... the coefficient of a level that occurs less often than this is the noise of a row or two.
_LEAST_COUNT = 3
_KINDS = ("number", "date", "yes or no", "category")


@dataclass(frozen=True)
class Column:
    """How a column becomes features.

    Attributes
    ----------
    name : str
        Its name.
    kind : str
        "number" and "date", which are one feature (dates as days since 1970); "yes or no", of two
        levels, which is one feature (1 for the second); or "category", one feature for each level.
    levels : tuple of str
        Of "yes or no", in the order of the alphabet; of a category, the most frequent first, and
        "(other)" last if some are put together.
    fill : float or str, optional
        What missing values are taken for: a number (of days, for dates) or a level.
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
        elif self.kind == "yes or no":
            wanted = "two levels, in the order of the alphabet"
            right = count == 2 and levels[0] < levels[1]
        else:
            wanted = f"2 to {_MOST_LEVELS + 1} different levels, of which {OTHER!r} is the last"
            right = 2 <= count <= _MOST_LEVELS + 1 and len(set(levels)) == count
            right = right and OTHER not in levels[:-1]
        if not right:
            raise DataError(f"{where} is a {self.kind} and must have {wanted}, got {levels!r:.60}")

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
        levels = self.levels[1:] if self.kind == "yes or no" else self.levels
        return [f"{self.name}={level}" for level in levels]

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Return the features of some values.

        Parameters
        ----------
        values : ndarray of shape (n,)
            Of a column of a `Table`: numbers, dates or, for levels, anything.

        Returns
        -------
        features : ndarray of shape (n, k)
            Missing values are filled in, and are NaN if nothing is to be filled in for them. A
            level that is not known is "(other)" if that is one, and none otherwise.
        """
        if self.holds_numbers:
            numbers = as_numbers(values)
            if self.fill is not None:
                numbers = np.where(np.isnan(numbers), self.fill, numbers)
            return numbers[:, None]
        codes = self._codes(values)
        wanted = [1] if self.kind == "yes or no" else range(len(self.levels))
        features: np.ndarray = np.equal(codes[:, None], np.array(wanted)).astype(float)
        if self.fill is None:
            features[missing(values)] = np.nan
        return features

    def unseen(self, values: np.ndarray) -> np.ndarray:
        """Return which values have no level of their own, as booleans."""
        if self.holds_numbers:
            return np.zeros(len(values), bool)
        known = {*self.levels, None}
        return np.fromiter((value not in known for value in texts(values)), bool, len(values))

    def _codes(self, values: np.ndarray) -> np.ndarray:
        """Index of the level of each value, or -1."""
        code: dict[Any, int] = {level: k for k, level in enumerate(self.levels)}
        code[None] = -1 if self.fill is None else code[self.fill]
        other = code.get(OTHER, -1)
        return np.fromiter((code.get(value, other) for value in texts(values)), int, len(values))


def column_from_json(found: Any) -> Column:
    """Return a column from what JSON has of it."""
    name, kind, levels, fill = entries("a column", found, ("name", "kind", "levels", "fill"))
    if not isinstance(levels, list):
        raise DataError(f"the levels of column {name!r:.60} must be a list, got {levels!r:.60}")
    if isinstance(fill, int) and not isinstance(fill, bool):
        with suppress(OverflowError):  # refused as it is
            fill = float(fill)
    return Column(name, kind, tuple(levels), fill)


class LeftOut(NamedTuple):
    """Why a column is left out: in a word, and in sentences about it and about many."""

    detail: str
    note: str = ""
    notes: str = ""


AS_ASKED = LeftOut("as asked for")
_EMPTY = LeftOut("no values", "has no values, and is left out", "have no values, and are left out")
_CONSTANT = LeftOut("constant", "is constant, and left out", "are constant, and left out")


def fit_column(name: str, facts: Facts, impute: bool) -> Column | LeftOut:
    """Return how a column becomes features, or why it does not.

    Parameters
    ----------
    name : str
        Its name.
    facts : Facts
        What is known of its values.
    impute : bool
        Whether to fill in those that are missing.
    """
    if not facts.present:
        return _EMPTY
    if facts.kind == "O":
        return _fit_levels(name, facts, impute)
    if facts.low == facts.high:
        return _CONSTANT
    fill = median(facts.middle) if impute else None
    return Column(name, "date" if facts.kind == "M" else "number", fill=fill)


def _fit_levels(name: str, facts: Facts, impute: bool) -> Column | LeftOut:
    found = facts.sorted_levels
    levels = list(found)
    if len(levels) == 1:
        return _CONSTANT
    fill = levels[0] if impute else None
    if len(levels) == 2:
        return Column(name, "yes or no", tuple(sorted(levels)), fill)
    often = [level for level in levels if found[level] >= _LEAST_COUNT and level != OTHER]
    often = often[:_MOST_LEVELS]
    if not often:
        return LeftOut(
            "nearly all values are different",
            f"is left out: nearly all of its {facts.present} values are different",
            "are left out: nearly all of their values are different",
        )
    rest = [OTHER] if len(often) < len(levels) else []
    return Column(name, "category", (*often, *rest), fill)
