"""Columns that are selected by their correlation with y, again without each set of held-out rows.

A model whose columns were selected with all rows has an error on held-out rows that is too small,
since these took part in the selection. Here every run that leaves rows out has its own columns,
selected without those rows, so that all estimates of the error take the selection into account.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from steinpath._support.arrays import Array, along_rows, namespace, take, to_numpy, units_of
from steinpath.design._base import Design
from steinpath.design._conversion import column_moments
from steinpath.design._transformed import InterceptDesign

# Responses and residuals are clipped at these numbers of robust standard deviations; penalty of
# ridge regressions on standardised columns, per row, in addition to the number of columns; steps.
_CLIP_Y, _CLIP, _RIDGE, _STEPS = 5.0, 3.0, 0.02, 20
# Squared size of gradients relative to the first at which steps end.
_CONVERGED = 1e-16


def standardised(X: np.ndarray) -> np.ndarray:
    """Return columns with mean 0 and variance 1; constant ones are 0."""
    means, sizes = column_moments(X)
    constant = sizes <= 10 * np.finfo(float).eps * np.abs(means)
    return np.asarray((X - means) / np.where(constant, np.inf, sizes))


def residuals(X: np.ndarray, y: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return residuals (n, K) of ridge regressions on the rows kept (n, K); 0 in the other rows.

    The columns of X are standardised. A few steps of conjugate gradients are enough to select
    columns. Outliers are clipped, so that they do not select columns. The unit is the largest
    distance of y from its median.
    """
    y = y - np.median(y)
    y /= units_of(np.abs(y).max())  # so that no square overflows
    rest = _clipped(np.broadcast_to(y[:, None], kept.shape), kept, _CLIP_Y)
    penalty = _RIDGE * kept.sum(axis=0) + X.shape[1]
    coef = np.zeros((X.shape[1], kept.shape[1]))
    gradient = X.T @ rest
    direction, square = gradient, np.sum(gradient**2, axis=0)
    least = _CONVERGED * square
    for _ in range(_STEPS):
        fitted = np.where(kept, X @ direction, 0.0)
        curvature = np.sum(fitted**2, axis=0) + penalty * np.sum(direction**2, axis=0)
        step = square / np.where(curvature > 0, curvature, 1.0)
        coef, rest = coef + step * direction, rest - step * fitted
        gradient, before = X.T @ rest - penalty * coef, square
        square = np.sum(gradient**2, axis=0)
        direction = gradient + square / np.where(before > 0, before, 1.0) * direction
        direction = np.where(square > least, direction, 0.0)
    return _clipped(rest, kept, _CLIP)


def _clipped(values: np.ndarray, kept: np.ndarray, width: float) -> np.ndarray:
    """Clip the kept values in each column, and subtract their mean; the others are 0."""
    known = np.where(kept, values, np.nan)
    middle = np.nanmedian(known, axis=0)
    limit = width * 1.4826 * np.nanmedian(np.abs(known - middle), axis=0)
    limit = np.where(limit > 0, limit, np.inf)
    known = np.clip(known, middle - limit, middle + limit)
    return np.where(kept, known - np.nanmean(known, axis=0), 0.0)


def largest(scores: np.ndarray, count: int) -> np.ndarray:
    """Return which entries are among the ``count`` largest of their column."""
    if len(scores) <= count:
        return np.ones(scores.shape, bool)
    return np.asarray(scores >= np.partition(scores, -count, axis=0)[-count])


class Screen:
    """Selection of ``count`` of the columns from ``first`` on.

    They have the largest correlations with residuals of a regression on the columns ``additive``.
    """

    def __init__(self, design: Design, y: Any, additive: np.ndarray, first: int, count: int):
        values = to_numpy(design.example)
        self._additive = standardised(values[:, additive].astype(float))
        self._columns, self._y = values[:, first:], to_numpy(y).astype(float)
        sizes = column_moments(self._columns)[1]
        self._sizes = np.where(sizes > 0, sizes, np.inf)[:, None]
        self._first, self._count = first, count
        self._known: dict[bytes, np.ndarray] = {}

    def __call__(self, left_out: np.ndarray) -> np.ndarray:
        """Return the columns (p + 1, K) that runs without rows (n, K) use: 1, the others 0."""
        names = [column.tobytes() for column in left_out.T]
        new = [k for k, name in enumerate(names) if name not in self._known]
        if new:
            rest = residuals(self._additive, self._y, ~left_out[:, new])
            scores = np.abs(self._columns.T @ rest.astype(self._columns.dtype)) / self._sizes
            chosen = largest(scores, self._count)
            self._known |= {names[k]: mask for k, mask in zip(new, chosen.T, strict=True)}
        masks = np.stack([self._known[name] for name in names], axis=1)
        # with all others, and the intercept
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
