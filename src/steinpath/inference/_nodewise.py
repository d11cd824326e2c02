"""Node-wise lasso: regressions of columns of X on all others, as members of one batch."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from steinpath._support.arrays import Array, cast, namespace, take, to_numpy
from steinpath.algorithms._family import FISTA
from steinpath.design._base import Design, NormBounds, TransformedDesign
from steinpath.design._transformed import InterceptDesign, ScaledDesign
from steinpath.engine._batch import Batch
from steinpath.engine._data import RunData
from steinpath.problem._losses import Squared
from steinpath.problem._penalties import Lasso

#: The penalty ``alpha = FACTOR * √(log p / n)`` on the scale of standardised columns.
FACTOR = 0.5
# Iterations per round and in total; and the relative tolerance of the optimality conditions.
_STRIDE, _MOST_ITERATIONS, _TOLERANCE = 50, 500, 0.05
# Bytes for the states of regressions that are run together.
_ROOM = 2**28
# Columns that are read together.
_BLOCK = 256


class Nodewise(NamedTuple):
    """Residuals of some columns of X, each regressed on all others by the lasso."""

    residuals: Array  # (n, k)
    products: np.ndarray  # (k,): of each residual with its own column
    correlation: np.ndarray  # (k,): the largest one of each residual with another column
    scales: np.ndarray  # (k,): root mean squares of the columns, zero if they are constant


def nodewise_residuals(design: Design, features: np.ndarray) -> Nodewise:
    """Regress some columns on all others.

    Parameters
    ----------
    design : Design
        X. The column of an intercept is excluded; the others are then centred.
    features : ndarray of int of shape (k,)
        The columns. Constant ones have residuals of zero.
    """
    p = design.shape[1] - isinstance(design, InterceptDesign)
    scales = column_scales(design, p)
    # constant columns and that of an intercept are excluded from all regressions
    divisors = np.append(np.where(scales > 0, scales, np.inf), np.full(design.shape[1] - p, np.inf))
    scaled = ScaledDesign(design, design.array(divisors))
    lam = FACTOR * math.sqrt(math.log(max(p, 2)))
    size = 8 * 2 * sum(design.shape) * _MOST_ITERATIONS
    width = max(1, min(64, _ROOM // size))
    blocks = [
        _regress(scaled, features[k : k + width], scales, lam)
        for k in range(0, len(features), width)
    ]
    residuals, products, correlation = zip(*blocks, strict=True)
    xp = namespace(residuals[0])
    return Nodewise(
        xp.concat(residuals, axis=1),
        np.concatenate(products),
        np.concatenate(correlation),
        scales[features],
    )


def _regress(
    scaled: ScaledDesign, features: np.ndarray, scales: np.ndarray, lam: float
) -> tuple[Array, np.ndarray, np.ndarray]:
    """Return residuals, products and correlations of a block of columns."""
    n, members, own = scaled.n_rows, len(features), scales[features]
    # of the unscaled columns, for which `columns_of` handles the intercept
    columns = columns_of(scaled.features, features) / scaled.array(np.where(own > 0, own, np.inf))
    others = OtherColumns(scaled, features)
    data = RunData(columns, Squared(), others, np.zeros(members))
    batch = Batch.start(data, Lasso(lam).repeated(members), FISTA(), members)
    while batch.n_iter < _MOST_ITERATIONS:
        batch = batch.extended(batch.n_iter + _STRIDE)
        residuals = columns - take(batch.states.product, np.array([batch.n_iter]), axis=1)[:, 0].T
        gradient = to_numpy(others.adjoint(residuals[:, :, None]))[..., 0] / n  # at most alpha
        if np.max(np.abs(gradient)) <= (1 + _TOLERANCE) * lam / math.sqrt(n):
            break
    xp = namespace(residuals)
    sums = xp.sum(cast(residuals, xp.float64) ** 2, axis=0), xp.sum(residuals * columns, axis=0)
    squares, inner = scaled.over_rows(np.stack([to_numpy(each).astype(float) for each in sums]))
    norms = np.sqrt(squares)
    shown = np.where(norms > 0, norms, 1.0) / math.sqrt(n)
    products = own**2 * inner
    correlation = np.abs(gradient).max(axis=0) / shown
    return residuals * scaled.array(own), products, correlation


class OtherColumns(TransformedDesign):
    """Columns of a design, one of which is hidden from each member.

    Parameters
    ----------
    scaled : ScaledDesign
        The columns.
    own : ndarray of int of shape (members,)
        The column hidden from each member.
    """

    def __init__(self, scaled: ScaledDesign, own: np.ndarray):
        self._scaled, self._own = scaled, own
        self.shape, self.example = scaled.shape, scaled.example
        self.out_of_core = scaled.out_of_core
        seen = np.ones((scaled.shape[1], len(own)))
        seen[own, np.arange(len(own))] = 0
        self._seen = scaled.array(seen)[:, :, None]

    @property
    def inner(self) -> Design:
        return self._scaled

    @property
    def members(self) -> int:
        return len(self._own)

    def member(self, k: int) -> OtherColumns:
        return self.some(np.array([k]))

    def some(self, members: np.ndarray) -> OtherColumns:
        return OtherColumns(self._scaled, self._own[members])

    def forward(self, block: Array) -> Array:
        return self._scaled.forward(self._seen * block)

    def adjoint(self, block: Array) -> Array:
        return self._seen * self._scaled.adjoint(block)

    def norm_bounds(self) -> NormBounds:
        """Bounds for the norm of all columns, which bound that of each member."""
        return self._scaled.norm_bounds()


def columns_of(design: Design, which: np.ndarray) -> Array:
    """Return some columns of X as an array, centred if there is an intercept."""
    wanted = which
    if isinstance(design, InterceptDesign):  # every part of it has the last column
        wanted = np.append(which, design.shape[1] - 1)
    part = design.part(None, wanted)
    if part is not None:
        return part.forward(part.array(np.eye(len(wanted))))[:, : len(which)]
    identity = np.zeros((design.shape[1], len(which)))
    identity[which, np.arange(len(which))] = 1
    return design.forward(design.array(identity))


def column_scales(design: Design, p: int) -> np.ndarray:
    """Return root mean squares of the first columns; zero where they are rounding errors."""
    squares, sizes = np.zeros(p), np.zeros(p)
    for k in range(0, p, _BLOCK):
        which = np.arange(k, min(k + _BLOCK, p))
        columns = to_numpy(columns_of(design, which)).astype(float)
        squares[which] = np.sum(columns**2, axis=0)
        sizes[which] = np.max(np.abs(columns), axis=0)
    scales, sizes = np.sqrt(design.over_rows(squares) / design.n_rows), design.largest(sizes)
    means = getattr(design, "means", None)
    offsets = sizes if means is None else np.abs(to_numpy(means).astype(float)).reshape(-1)[:p]
    rounding = 64 * float(namespace(design.example).finfo(design.example.dtype).eps)
    return np.where(scales > rounding * offsets, scales, 0.0)
