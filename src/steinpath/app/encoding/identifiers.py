"""Identifier columns: row numbers, indices and keys, which cannot predict new rows."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

#: Values whose uniqueness is checked, from the first row on.
MOST_CHECKED = 1_000_000
_NAME = re.compile(r"(?i:id|.*[_ -]id|id[_ -].*|index|key|uuid|no\.)|.*[a-z]I[dD]")
# Names of a first column without a name: of `check_names`, and of pandas.
_UNNAMED = ("column 1", "Unnamed: 0")


def may_be_identifier(name: str) -> bool:
    """Whether a column has the name of an identifier, or is an unnamed first column."""
    return name in _UNNAMED or _NAME.fullmatch(name) is not None


@dataclass(frozen=True, eq=False)
class WholeNumbers:
    """Facts that distinguish identifiers from other numbers; facts of consecutive rows add up.

    Attributes
    ----------
    whole : bool
        Whether all numbers are integers.
    counter : bool
        Whether each row has the number of the row before plus one, and none is missing.
    first, last : float, optional
        The numbers of the first and of the last row.
    values : ndarray, optional
        The first `MOST_CHECKED` numbers, if the column has the name of an identifier.
    """

    whole: bool = True
    counter: bool = True
    first: float | None = None
    last: float | None = None
    values: np.ndarray | None = None

    @classmethod
    def of(cls, name: str, numbers: np.ndarray) -> WholeNumbers:
        """Return the facts of a column of numbers."""
        present = numbers[~np.isnan(numbers)]
        if not len(present) or np.any(present % 1):
            return cls(whole=not len(present), counter=False)
        values = present[:MOST_CHECKED] if may_be_identifier(name) else None
        with np.errstate(over="ignore"):  # differences of very large numbers
            steps = bool(np.all(np.diff(present) == 1))
        counter = steps and len(present) == len(numbers)
        return cls(True, counter, float(present[0]), float(present[-1]), values)

    def __add__(self, later: WholeNumbers) -> WholeNumbers:
        if self.values is None or later.values is None:
            values = later.values if self.values is None else self.values
        else:
            values = np.concatenate([self.values, later.values])[:MOST_CHECKED]
        follows = self.last is None or later.first == self.last + 1
        return WholeNumbers(
            self.whole and later.whole,
            self.counter and later.counter and follows,
            later.first if self.first is None else self.first,
            self.last if later.last is None else later.last,
            values,
        )

    def identifies(self, name: str, position: int) -> bool:
        """Whether a column with this name and position in the table is an identifier."""
        if not self.whole:
            return False
        if self.counter and self.first in (0, 1):
            return True
        if name in _UNNAMED:
            return position == 0
        return self.values is not None and len(np.unique(self.values)) == len(self.values)
