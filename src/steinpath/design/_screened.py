"""Columns that are selected by their correlation with y, again without each set of held-out rows.

A model whose columns were selected with all rows has an error on held-out rows that is too small,
since these took part in the selection. Here every run that leaves rows out has its own columns,
selected without those rows, so that all estimates of the error take the selection into account.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from steinpath._support.arrays import Array, along_rows, namespace, take
from steinpath.design._transformed import InterceptDesign


class Screen:
    """Columns that runs use: all of the first ones, and those selected without their held-out rows.

    ``chosen`` has a mask of the other columns for each set of rows that are kept, as bytes of a
    mask of ``rows``: one of each set of repeated rows.
    """

    def __init__(self, chosen: dict[bytes, np.ndarray], first: int, rows: np.ndarray | None = None):
        self._chosen, self._first, self._rows = chosen, first, rows

    def __call__(self, left_out: np.ndarray) -> np.ndarray:
        """Return the columns (p + 1, K) that runs without rows (n, K) use: 1, the others 0."""
        kept = ~left_out if self._rows is None else ~left_out[self._rows]
        masks = np.stack([self._chosen[column.tobytes()] for column in kept.T], axis=1)
        # with the first columns, and the intercept
        return np.pad(masks.astype(float), ((self._first, 1), (0, 0)), constant_values=1.0)


class ScreenedDesign(InterceptDesign):
    """Centred columns with an intercept, of which each member uses its own."""

    has_gram = False

    def __init__(self, features: InterceptDesign, screen: Screen, mask: Array | None = None):
        self.__dict__ |= features.__dict__
        self._features, self._screen = features, screen
        if mask is None:
            mask = features.array(screen(np.zeros((features.shape[0], 1), bool))[:, 0])
        self._mask = mask

    def _with(self, features: InterceptDesign, mask: Array) -> ScreenedDesign:
        return ScreenedDesign(features, self._screen, mask)

    @property
    def unweighted(self) -> ScreenedDesign:
        return self._with(self._features.unweighted, self._mask)

    def forward(self, block: Array) -> Array:
        return super().forward(block * along_rows(self._mask, block))

    def adjoint(self, block: Array) -> Array:
        product = super().adjoint(block)
        product *= along_rows(self._mask, product)
        return product

    def member(self, k: int) -> ScreenedDesign:
        mask = self._mask if self._mask.ndim == 1 else self._mask[:, k, 0]
        return self._with(self._features.member(k), mask)

    def some(self, members: np.ndarray) -> ScreenedDesign:
        mask = self._mask if self._mask.ndim == 1 else take(self._mask, members, axis=1)
        return self._with(self._features.some(members), mask)

    def without(self, left_out: np.ndarray, count: Any = None, copies: int = 1) -> ScreenedDesign:
        mask = self.array(np.tile(self._screen(left_out), copies))[:, :, None]
        return self._with(self._features.without(left_out, count, copies), mask)

    def astype(self, dtype: Any) -> ScreenedDesign:
        mask = namespace(self._mask).astype(self._mask, dtype)
        return self._with(self._features.astype(dtype), mask)

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> None:
        return None
