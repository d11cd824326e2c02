"""Designs derived from others: with an intercept, with row weights, with scaled columns.

The changes are applied in every product; X itself is never copied.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from steinpath._support.arrays import (
    Array,
    along_rows,
    cast,
    in_own_precision,
    namespace,
    rows_product,
    take,
    to_numpy,
    unit_of,
)
from steinpath._support.caching import cached_property
from steinpath._support.validation import check_array
from steinpath.design._base import Design, ScalableDesign, TransformedDesign, of_inner
from steinpath.problem._rows import Rows


class InterceptDesign(TransformedDesign):
    """Centred columns, by a rank-one correction of each product, and a constant column at the end.

    The constant is the root mean square of the centred entries by default, which keeps the
    convergence of the intercept and the norm of the matrix in proportion. Means are (p,) or
    (p, members, 1), and constants a number or (members, 1).
    """

    def __init__(self, features: Design, means: Array | None = None, intercept_scale: Any = None):
        super().__init__(features)
        n, p = features.shape
        self.shape = (n, p + 1)
        if means is None:
            ones = self.zeros(n) + 1.0
            if features.members > 1:
                ones = ones[:, None, None] + self.zeros(1, features.members, 1)
            means = features.adjoint(ones) / self.n_rows
        self.means = cast(means, self.example.dtype)
        if intercept_scale is None:
            mean_square = self.total(self.row_squares()) / (self.n_rows * p)
            intercept_scale = _root_or_one(mean_square, self.means)
        own = not isinstance(intercept_scale, float)
        self.intercept_scale = cast(intercept_scale, self.example.dtype) if own else intercept_scale

    rows = of_inner("rows")
    has_gram = of_inner("has_gram")

    @cached_property
    def unweighted(self) -> InterceptDesign:
        if self.all_weights is None:
            return self
        return InterceptDesign(self.inner.unweighted, self.means, self.intercept_scale)

    @property
    def members(self) -> int:
        return max(self.inner.members, self.means.shape[1] if self.means.ndim == 3 else 1)

    def member(self, k: int) -> InterceptDesign:
        if self.means.ndim == 1:
            return self
        scale = float(self.intercept_scale[k, 0])
        return InterceptDesign(self.inner.member(k), self.means[:, k, 0], scale)

    def some(self, members: np.ndarray) -> InterceptDesign:
        if self.means.ndim == 1:
            return self
        means, scales = take(self.means, members, axis=1), take(self.intercept_scale, members)
        return InterceptDesign(self.inner.some(members), means, scales)

    def without(self, left_out: np.ndarray, count: Any = None, copies: int = 1) -> InterceptDesign:
        """Return the design of members that hold out rows, (n, K), centred by the rows they keep.

        ``count`` is the sample size in the loss; the members are repeated ``copies`` times.
        """
        features = WeightedDesign.without(self.inner, left_out, count, copies)
        removed = self.array(self.local(left_out))[:, :, None]
        kept = self.array(sums_of_weights(self, ~left_out))[:, None]
        # the centred rows sum to zero, so the kept rows sum to minus the others
        shift = -self.adjoint(removed)[:-1, ...] / kept
        xp = namespace(shift)
        squares = cast(self.row_squares(), xp.float64)[:, None, None]
        mean_square = self.total((1 - removed) * squares) / kept
        spread = mean_square - xp.sum(cast(shift, xp.float64) ** 2, axis=0)
        # if only rounding errors remain, use the scale of all rows, for which the steps are safe
        some = spread > 64 * float(xp.finfo(shift.dtype).eps) * mean_square
        own = xp.sqrt(xp.where(some, spread, xp.ones_like(spread)) / self.inner.shape[1])
        scales = xp.where(some, own, 0 * own + self.intercept_scale)
        means = _copied(self.means[:, None, None] + shift, copies, axis=1)
        return InterceptDesign(features, means, _copied(scales, copies, axis=0))

    def astype(self, dtype: Any) -> InterceptDesign:
        return InterceptDesign(self.inner.astype(dtype), self.means, self.intercept_scale)

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> InterceptDesign | None:
        # every part keeps the last column: the intercept's tangents never vanish
        inner = None if columns is None else columns[:-1]
        features = self.inner.part(rows, inner)
        if features is None:
            return None
        means = self.means if inner is None else take(self.means, inner)
        return InterceptDesign(features, means, self.intercept_scale)

    def gram(self, of_rows: bool = False, dtype: Any = None, center: Array | None = None) -> Array:
        inner = self.inner.gram(of_rows, dtype, self.means if center is None else center)
        if of_rows:
            return inner + self.intercept_scale**2
        # the constant column is orthogonal to the centred ones
        xp = namespace(inner)
        side = xp.zeros_like(inner[:, :1])
        corner = side[:1, :] + self.n_rows * self.intercept_scale**2
        top = xp.concat([inner, side], axis=1)
        return xp.concat([top, xp.concat([side.T, corner], axis=1)], axis=0)

    def forward(self, block: Array) -> Array:
        head, last = block[:-1, ...], block[-1, ...]
        own = self.intercept_scale * last - rows_product(self.means, head)
        product = self.inner.forward(head)
        product += own
        return product

    def adjoint(self, block: Array) -> Array:
        head, total = self.inner.adjoint_and_total(block)
        last = self.intercept_scale * total
        if type(head) is np.ndarray:  # blocks may be large: two passes without a copy
            product = np.empty((head.shape[0] + 1, *head.shape[1:]), head.dtype)
            np.multiply(along_rows(self.means, head), total, out=product[:-1, ...])
            np.subtract(head, product[:-1, ...], out=product[:-1, ...])
            product[-1, ...] = last
            return product
        head = head - along_rows(self.means, head) * total
        return namespace(block).concat([head, last[None, ...]], axis=0)

    def row_squares(self, center: Array | None = None) -> Array:
        return self.inner.row_squares(self.means if center is None else center)

    def intercepts(self, b: Array) -> Array:
        """Return the intercepts for uncentred features, given rows of iterates."""
        return self.intercept_scale * b[:, -1] - b[:, :-1] @ self.means

    def own_intercepts(self, b: Array) -> Array:
        """Return the same for one iterate per member, if members have their own means."""
        means = self.means[:, :, 0].T
        return self.intercept_scale[:, 0] * b[:, -1] - namespace(b).sum(b[:, :-1] * means, axis=1)


def _root_or_one(mean_square: Array, means: Array) -> Any:
    """Return the root mean square (members, 1) of centred entries; 1 for rounding errors only."""
    xp = namespace(means)
    rounding = (4 * float(xp.finfo(means.dtype).eps) * float(xp.max(xp.abs(means)))) ** 2
    if mean_square.ndim == 0:
        return math.sqrt(float(mean_square)) if float(mean_square) > rounding else 1.0
    some = mean_square > rounding
    return xp.sqrt(xp.where(some, mean_square, xp.ones_like(mean_square)))


class WeightedDesign(TransformedDesign):
    """Non-uniform row weights, (n,) or (n, members, 1), by which ``adjoint`` repeats rows.

    Fitted values and duals are those of single copies; ``count`` is the sample size, if given.
    """

    forward = of_inner("forward")
    row_squares = of_inner("row_squares")

    def __init__(self, unweighted: Design, weights: Array, count: Any = None):
        super().__init__(unweighted)
        self.weights: Array = weights
        self._count: Any = self.n_rows if count is None else count

    @classmethod
    def of_sample(cls, unweighted: Design, sample_weight: np.ndarray) -> WeightedDesign:
        """Return the design with these sample weights of all rows, which have mean 1."""
        own = cls(unweighted, unweighted.array(unweighted.local(sample_weight)))
        own.all_weights = sample_weight
        return own

    @classmethod
    def without(
        cls, features: Design, left_out: np.ndarray, count: Any = None, copies: int = 1
    ) -> WeightedDesign:
        """Return the design of members that hold out rows; see `InterceptDesign.without`."""
        kept = features.array(features.local(~left_out))[:, :, None]
        if isinstance(features, WeightedDesign):
            kept, features = kept * features.weights[:, None, None], features.inner
        weights = _copied(kept, copies, axis=1)
        if isinstance(count, np.ndarray):
            count = _copied(features.array(count)[:, None], copies, axis=0)
        return cls(features, weights, count)

    @property
    def unweighted(self) -> Design:
        return self.inner

    def astype(self, dtype: Any) -> WeightedDesign:
        return self._of(self.inner.astype(dtype))

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> WeightedDesign | None:
        inner = self.inner.part(rows, columns)
        if inner is None:
            return None
        return WeightedDesign(inner, self.weights if rows is None else take(self.weights, rows))

    @property
    def members(self) -> int:
        return max(self.inner.members, self.weights.shape[1] if self.weights.ndim == 3 else 1)

    @property
    def rows(self) -> Rows:
        return Rows(self._count, self.weights, None if self.is_whole else self.over_rows)

    def member(self, k: int) -> WeightedDesign:
        inner = self.inner.member(k)
        if self.weights.ndim == 1:
            return self if inner is self.inner else self._of(inner)
        count = self._count[k, 0] if hasattr(self._count, "ndim") else self._count
        return WeightedDesign(inner, self.weights[:, k, 0], float(count))

    def some(self, members: np.ndarray) -> WeightedDesign:
        inner = self.inner.some(members)
        return self if inner is self.inner else self._of(inner)

    def _of(self, inner: Design) -> WeightedDesign:
        own = WeightedDesign(inner, cast(self.weights, inner.example.dtype), self._count)
        own.all_weights = self.all_weights
        return own

    def adjoint(self, block: Array) -> Array:
        return self.inner.adjoint(self.rows.weighted(block))

    def adjoint_and_total(self, block: Array) -> tuple[Array, Array]:
        return self.inner.adjoint_and_total(self.rows.weighted(block))


def _copied(values: Array, copies: int, axis: int) -> Array:
    return values if copies == 1 else namespace(values).concat([values] * copies, axis=axis)


def sums_of_weights(design: Design, rows: np.ndarray) -> np.ndarray:
    """Return the sums of the sample weights of sets of all rows, (n, K): numbers of rows if 1."""
    if design.all_weights is None:
        return np.asarray(rows.sum(axis=0))
    sums = design.all_weights @ rows
    for k in np.flatnonzero(sums == 0):
        if rows[:, k].any():
            raise ValueError(
                f"sample_weight is zero for all rows of a set that is used together, such as rows "
                f"{np.flatnonzero(rows[:, k])[:3].tolist()}: the rows of a fold, or those that it "
                "trains on; use other splits, or remove rows with weight 0"
            )
    return np.asarray(sums)


def check_sample_weight(sample_weight: Any, design: Design) -> np.ndarray | None:
    """Return the sample weights of all rows of a design, with mean 1; None if all are equal."""
    example = in_own_precision(sample_weight, design.example)
    values = check_array("sample_weight", sample_weight, ndim=1, reference=example)
    weights = to_numpy(values).astype(float)
    if len(weights) != design.n_rows:
        raise ValueError(
            f"X has {design.n_rows} rows, but sample_weight has {len(weights)} entries"
        )
    if not np.all(weights >= 0):
        row = int(np.argmin(weights))
        raise ValueError(
            f"sample_weight must be nonnegative, but sample_weight[{row}] is {weights[row]:g}"
        )
    if not weights.any():
        raise ValueError("sample_weight is zero for all rows; at least one must be positive")
    if np.all(weights == weights[0]):
        return None
    # only proportions matter; the division by a power of two is exact and avoids overflow
    weights /= unit_of(weights.max())
    return np.asarray(weights / weights.mean())


class ScaledDesign(TransformedDesign):
    """Columns divided by one positive number each (p,) in every product."""

    has_gram = of_inner("has_gram")

    def __init__(self, features: Design, scale: Array):
        super().__init__(features)
        self.scale = scale

    def forward(self, block: Array) -> Array:
        return self.inner.forward(block / along_rows(self.scale, block))

    def adjoint(self, block: Array) -> Array:
        product = self.inner.adjoint(block)
        return product / along_rows(self.scale, product)

    def adjoint_and_total(self, block: Array) -> tuple[Array, Array]:
        product, total = self.inner.adjoint_and_total(block)
        return product / along_rows(self.scale, product), total

    def gram(self, of_rows: bool = False, dtype: Any = None, center: Array | None = None) -> Array:
        if of_rows:
            raise NotImplementedError("products between rows with scaled columns")
        center = None if center is None else self.scale * center
        scale = self.scale if dtype is None else cast(self.scale, dtype)
        return self.inner.gram(False, dtype, center) / scale / scale[:, None]

    def row_squares(self, center: Array | None = None) -> Array:
        if not isinstance(self.inner, ScalableDesign):
            return super().row_squares(center)
        center = None if center is None else self.scale * center
        return self.inner.row_squares(center, self.scale)

    def astype(self, dtype: Any) -> ScaledDesign:
        xp, limits = namespace(self.scale), namespace(self.scale).finfo(dtype)
        low, high = float(limits.smallest_normal), float(limits.max)
        if not xp.all((self.scale > low) & (self.scale < high)):
            return self
        return ScaledDesign(self.inner.astype(dtype), cast(self.scale, dtype))

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> ScaledDesign | None:
        features = self.inner.part(rows, columns)
        if features is None:
            return None
        return ScaledDesign(features, self.scale if columns is None else take(self.scale, columns))
