r"""Duality gap: an upper bound of the suboptimality of each iterate.

Every vector w gives a lower bound of the objective :math:`P(b) = h(y - Xb) + g(b)`,

.. math:: P(b) \ge D(w) = \langle w, y \rangle - h^*(w) - g^*(X^\top w),

by Fenchel's inequality for the loss h and for the penalty g. The dual iterates are such vectors, up
to sign and scale: :math:`w^t = -u^t` in the units of Chambolle–Pock. So are their averages, which
converge where the iterates still oscillate. A path also stores :math:`X^\top u^t`, so bounds need
no further products. Most vectors give the bound :math:`-\infty` and are first modified:

- their products with some columns of X are corrected. Products with unpenalised columns,
  including the intercept's, must be zero; those of nonzero coefficients are often a little
  too large.
- they are then divided by the smallest number that makes both conjugates finite.

The gap of iterate t is :math:`P(b^t)` minus the largest bound up to iteration t.

A nonconvex penalty has no such bounds, but its local linear approximation at :math:`b^t`, the lasso
with weights :math:`g'(|b^t_j|)`, does. :math:`b^t` minimises the loss plus that lasso if and only
if it is a stationary point. Its gap has the bounds of iteration t alone.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steinpath._support.arrays import Array, cast, clip, like, namespace, take, to_numpy
from steinpath.algorithms._base import ProximalMaps
from steinpath.problem._losses import Loss
from steinpath.problem._penalties import Penalty, largest_ratio
from steinpath.problem._rows import Rows

if TYPE_CHECKING:
    from steinpath.engine._path import Path

# Maximum number of iterates, and of their entries, that are processed together.
_ITERATES, _NUMBERS = 64, 2**20
# Number of alternating projections in the search for feasible products.
_ALTERNATIONS = 30
# Relative distance to the boundary of a domain that protects against rounding errors.
_ROUNDING = 1e-9
# Maximum number of entries of copied columns of X, unless the path itself has more.
_LARGEST_COPY = 2**24


def duality_gap(path: Path) -> Array:
    """Return the duality gap of each iterate, or infinity if it is not available.

    That is so for a `Recursion`, without conjugates, with too many unpenalised columns to copy, and
    for margin losses with any besides the intercept or with a nonconvex penalty.
    """
    if not path.design.is_whole:
        raise ValueError(
            "the duality gap is not supported for a distributed design; compare the objective of "
            "runs with more iterations, or use a design in local memory"
        )
    gaps = np.full(path.n_iter + 1, math.inf)
    unknown = contextlib.suppress(_NoBoundError, NotImplementedError)
    if isinstance(path.maps, ProximalMaps):
        # an overflowing bound is discarded
        with unknown, np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            gaps = _gaps(path, path.maps)
    return like(gaps, path.iterates)


class _NoBoundError(Exception):
    """Too many columns to copy, or no feasible vector is known."""


def _gaps(path: Path, maps: ProximalMaps) -> np.ndarray:
    loss, rows, penalty = maps.dual_map.loss, maps.dual_map.rows, maps.primal_map.penalty
    xp, unit = namespace(path.iterates), maps.dual_map.scale
    target = cast(path.data.target[:, 0, :], xp.float64)
    spans = _spans(path, penalty)
    interior = _interior(path, loss, rows, penalty, spans[0])
    mean_w, mean_z = _RunningMean(), _RunningMean()
    pieces = []
    together = min(max(_NUMBERS // sum(path.design.shape), 1), _ITERATES)
    for start in range(0, path.n_iter + 1, together):
        end = min(start + together, path.n_iter + 1)
        b, products, u, eta = (
            cast(history[start:end, :], xp.float64).T
            for history in (path.iterates, path.products, path.duals, path.etas)
        )
        local = penalty if penalty.convex else _LocalLasso(penalty.derivative(xp.abs(b)))
        primal = loss.value(target - products, rows) + local.value(b)
        w, z = -u / unit, -rows.root * eta / unit
        bounds = [
            _bound(*vectors, target, loss, rows, local, span, interior)
            for vectors in ((w, z), (mean_w(w), mean_z(z)))
            for span in spans
        ]
        pieces.append(np.stack([to_numpy(values) for values in (primal, *bounds)]))
    primal, *bounds = np.concatenate(pieces, axis=1)
    dual = np.max(np.where(np.isfinite(bounds), bounds, -math.inf), axis=0)
    # zero, the initial dual, is feasible for every penalty
    dual = np.maximum.accumulate(dual) if penalty.convex else np.maximum(dual, dual[0])
    gaps = np.maximum(primal - dual, 0.0)  # negative values are rounding errors
    return np.where(np.isnan(gaps), math.inf, gaps)


def _bound(
    w: Array,
    z: Array,
    target: Array,
    loss: Loss,
    rows: Rows,
    penalty: Penalty | _LocalLasso,
    span: _Span | None,
    interior: tuple[Array, Array] | None,
) -> Array:
    """Return the bounds of vectors w with products ``z = Xᵀ w``, after making them feasible."""
    xp = namespace(w)
    if span is not None:
        w, z = span.corrected(w, z, span.attainable(penalty.to_domain, z))
    if interior is not None:
        inner_w, inner_z = interior
        share = (1 - _ROUNDING) * loss.inside(w, inner_w, rows)
        w, z = inner_w + share * (w - inner_w), inner_z + share * (z - inner_z)
    gauge = xp.maximum(loss.gauge(w, rows), penalty.gauge(z))
    factor = 1 / xp.maximum(gauge, xp.ones_like(gauge))
    w, z = factor * w, factor * z
    conjugates = loss.conjugate(w, rows) + penalty.conjugate(z)
    return rows.total(w * target) - conjugates


def _interior(
    path: Path, loss: Loss, rows: Rows, penalty: Penalty, free: _Span | None
) -> tuple[Array, Array] | None:
    """Return a vector in the interior of the domain of the loss's conjugate, and ``Xᵀ w``."""
    # None if zero is in the interior, as for most losses: dividing by a number is then enough
    interior = loss.interior(rows)
    if interior is None:
        return None
    if not penalty.convex:
        raise _NoBoundError
    xp = namespace(interior)
    w = cast(interior, xp.float64)[:, None]
    z = cast(path.design.adjoint(interior[:, None]), xp.float64)
    if free is not None:
        w, z = free.corrected(w, z, xp.zeros_like(z))
    if float(loss.inside(w, w, rows)[0]) < 1:
        raise _NoBoundError
    return w, z


@dataclass(frozen=True, eq=False)
class _LocalLasso:
    """Local linear approximation of a penalty: a lasso with weights for each iterate."""

    weights: Array  # (p, iterates)

    def value(self, b: Array) -> Array:
        xp = namespace(b)
        return xp.sum(self.weights * xp.abs(b), axis=0)

    def conjugate(self, z: Array) -> Array:
        return namespace(z).zeros_like(z[0, :])

    def gauge(self, z: Array) -> Array:
        return largest_ratio(namespace(z).abs(z), self.weights)

    def to_domain(self, z: Array) -> Array:
        return clip(z, -self.weights, self.weights)


class _RunningMean:
    """Running mean of the vectors, with weight s² for iteration s."""

    def __init__(self) -> None:
        self._next = 0
        self._total: Array = 0.0

    def __call__(self, block: Array) -> Array:
        xp = namespace(block)
        times = like(np.arange(self._next, self._next + block.shape[1]), block)
        sums = self._total + xp.cumulative_sum(times**2 * block, axis=1)
        self._next, self._total = self._next + block.shape[1], sums[:, -1:]
        counts = times * (times + 1) * (2 * times + 1) / 6
        return sums / xp.maximum(counts, xp.ones_like(counts))


# ------------------------------------------------------------------------------------------------
# Columns whose products with the duals are corrected
# ------------------------------------------------------------------------------------------------


def _spans(path: Path, penalty: Penalty) -> list[_Span | None]:
    """Return the span of the unpenalised columns, and that including nonzero coefficients."""
    # with the first, a factor makes vectors feasible; the second leaves a factor closer to 1
    xp, p = namespace(path.iterates), path.design.shape[1]
    free, active = penalty.free(p), to_numpy(path.iterates[-1, :] != 0)
    if penalty.convex:
        penalised = cast(path.design.array(~free), xp.float64)
        gauge = float(penalty.gauge(penalised))
        free = free | math.isinf(gauge)  # as for lam = 0
        active = active & (gauge > 0)  # otherwise all products are feasible
    if not _may_copy(path, free):
        raise _NoBoundError
    spans = [_Span.of(path, free) if free.any() else None]
    if (active & ~free).any() and _may_copy(path, active | free):
        spans.append(_Span.of(path, active | free))
    return spans


def _may_copy(path: Path, columns: np.ndarray) -> bool:
    size = sum(path.design.shape)
    return int(columns.sum()) * size <= max(_LARGEST_COPY, 2 * (path.n_iter + 1) * size)


@dataclass(frozen=True, eq=False)
class _Span:
    """Span of some columns of X."""

    columns: np.ndarray  # indices of the columns
    #: Rounding error of products with vectors of norm 1, of shape (p, 1); -1 for other columns.
    rounding: Array
    basis: Array  # orthonormal
    weighted: Array  # the basis times the row weights
    images: Array  # Xᵀ times that
    inverse: Array  # maps products with the columns to products with the basis
    #: For dependent columns, unless there are more columns than rows: the projection onto products
    #: that some vector attains.
    projection: Array | None

    @classmethod
    def of(cls, path: Path, mask: np.ndarray) -> _Span:
        """Return the span of some columns of a path's design."""
        design, xp = path.design, namespace(path.iterates)
        columns = np.flatnonzero(mask)
        (n, p), k = design.shape, len(columns)
        unit = np.zeros((p, k))
        unit[columns, np.arange(k)] = 1.0
        block = cast(design.forward(design.array(unit)), xp.float64)
        weights = xp.ones_like(block[:, :1])
        if design.rows.weights is not None:
            weights = cast(design.rows.weights, xp.float64)[:, None]
        roots = xp.sqrt(weights)  # weighted sums are sums over rows times these roots
        norms = xp.linalg.vector_norm(roots * block, axis=0)
        norms = xp.where(norms > 0, norms, xp.ones_like(norms))
        basis, triangle = xp.linalg.qr(roots * block / norms)
        rounding = 8 * math.sqrt(max(n, k)) * float(xp.finfo(path.iterates.dtype).eps)
        if k <= n and xp.all(xp.abs(xp.linalg.diagonal(triangle)) > rounding):
            inverse, projection = xp.linalg.inv(triangle).T, None
        else:  # dependent columns add no direction
            left, values, right = xp.linalg.svd(triangle, full_matrices=False)
            rank = int(xp.sum(cast(values > rounding * values[0], xp.int64)))
            right = right[:rank, :]
            basis, inverse = basis @ left[:, :rank], right / values[:rank, None]
            projection = norms[:, None] * (right.T @ right) / norms if k <= n else None
        basis = basis / roots
        images = cast(design.adjoint(design.array(basis)), xp.float64)
        off = np.full((p, 1), -1.0)
        off[columns, 0] = rounding * to_numpy(norms)
        arrays = basis, weights * basis, images, inverse / norms, projection
        return cls(columns, like(off, block), *arrays)

    def attainable(self, to_domain: Callable[[Array], Array], z: Array) -> Array:
        """Return feasible products that some vector attains at the columns."""
        xp, wanted = namespace(z), to_domain(z)
        if self.projection is None or not xp.any(take(wanted, self.columns) != 0):
            return wanted
        place = np.zeros(z.shape[0], dtype=int)
        place[self.columns] = np.arange(len(self.columns))
        for _ in range(_ALTERNATIONS):  # alternating projections onto both sets
            some = take(self.projection @ take(wanted, self.columns), place)
            wanted = to_domain(xp.where(self.rounding >= 0, some, wanted))
        return wanted

    def corrected(self, w: Array, z: Array, wanted: Array) -> tuple[Array, Array]:
        """Change w, and ``z = Xᵀ w``, so that z has (nearly) the wanted values at the columns."""
        xp = namespace(w)
        rounding = self.rounding * xp.linalg.vector_norm(w, axis=0)
        change = self.weighted.T @ w - self.inverse @ take(wanted, self.columns)
        w, z = w - self.basis @ change, z - self.images @ change
        return w, xp.where(xp.abs(z - wanted) <= rounding, wanted, z)


def not_converged(path: Path, tol: float) -> str | None:
    """Return a message if the objective of the last iterate may be too far from its minimum."""
    try:
        gap = float(path.gap[-1])
    except ValueError:  # rows on a cluster
        gap = math.inf
    if math.isinf(gap):  # not known
        moved = _movement(path)
        if moved <= tol:
            return None
        return (
            f"the fitted values changed by {moved:.2g} standard deviations of y in the last tenth "
            f"of {path.n_iter} iterations"
        )
    last, first, tol = float(path.objective[-1]), float(path.objective[0]), float(tol)
    # the objective of a nearly perfect fit does not measure the scale
    scale = max(last, tol * first)
    response = path.response
    # a gap is a difference of rounded sums over all rows
    rounding = 16 * float(namespace(response).finfo(response.dtype).eps) * first
    if gap <= max(tol * scale, rounding):
        return None
    return (
        f"the algorithm did not converge in {path.n_iter} iterations: the duality gap of the last "
        f"iterate is {gap / scale:.2g} of its objective"
    )


def _movement(path: Path) -> float:
    """Return the change of the fitted values in the last tenth of the iterations, relative to y."""
    times = path.n_iter, 9 * path.n_iter // 10
    last, before = (path.products_at(slice(t, t + 1))[0, :] for t in times)
    xp, moved = namespace(last), last - before
    spread = float(xp.std(path.response))
    return math.sqrt(float(xp.mean(moved**2))) / spread if spread else 0.0
