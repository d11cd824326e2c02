"""Statistics over rows, some of which may not be local."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steinpath._support.arrays import Array, deviation, largest_along, namespace, units_of
from steinpath.design._base import Design


@dataclass(frozen=True)
class RowStatistics:
    """Statistics over the rows of arrays of shape (T, rows).

    Attributes
    ----------
    count : int
        Number of all rows.
    shared : Design or None
        Design that holds the rows, if arrays have only the local ones; None if they have all.
    """

    count: int
    shared: Design | None = None

    def sum(self, values: Array) -> Array:
        """Return sums, of shape (T,)."""
        sums = namespace(values).sum(values, axis=1)
        return sums if self.shared is None else self.shared.over_rows(sums)

    def mean(self, values: Array) -> Array:
        """Return means, of shape (T,)."""
        if self.shared is None:
            return namespace(values).mean(values, axis=1)
        return self.sum(values) / self.count

    def largest(self, values: Array) -> Array:
        """Return the largest absolute values, of shape (T, 1)."""
        if self.shared is None:
            return largest_along(values, axis=1)
        return np.asarray(self.shared.largest(np.max(np.abs(values), axis=1, initial=0.0)))[:, None]

    def deviation(self, values: Array) -> Array:
        """Return sample standard deviations, of shape (T,); 0 for a single row."""
        if self.count == 1:
            return 0 * self.mean(values)
        if self.shared is None:
            return deviation(values, axis=1)
        unit = units_of(self.largest(values))
        gaps = (values - self.mean(values)[:, None]) / unit
        return unit[:, 0] * np.sqrt(self.sum(gaps**2) / (self.count - 1))
