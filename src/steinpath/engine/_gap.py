r"""The duality gap: how far the objective of each iterate can be from the smallest one.

Of the objective :math:`P(b) = h(y - Xb) + g(b)`, every vector w gives a lower bound,

.. math:: P(b) \ge D(w) = \langle w, y \rangle - h^*(w) - g^*(X^\top w),

by Fenchel's inequality for the loss and for the penalty. The dual iterates are such vectors, up to
sign and scale: :math:`w^t = -u^t`, in the units of Chambolle–Pock. The histories of a path hold
:math:`X^\top u^t`, too, so that no iterate needs another product with X. Each :math:`w^t` is

- made orthogonal to the columns that are not penalised, the intercept's among them, and then
- divided by the smallest number that makes both conjugates finite.

The gap of iterate t is :math:`P(b^t)` less the largest bound of the dual iterates up to t.

A penalty g that is not convex has no such bounds. Its local linear approximation at :math:`b^t`,
the lasso with weights :math:`g'(|b^t_j|)`, has; :math:`b^t` minimises the loss plus that lasso
if and only if it is a stationary point of the objective. Its gap is computed at :math:`b^t`, from
:math:`w^t` alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steinpath._support.arrays import Array, cast, clip, like, namespace, take, to_numpy
from steinpath.algorithms._base import ProximalMaps
from steinpath.problem._penalties import Penalty, largest_ratio

if TYPE_CHECKING:
    from steinpath.engine._path import Path

# Iterates that are looked at together.
_ITERATES = 64

# Columns that duals are made orthogonal to are copied: at most so many numbers, or as many as the
# path itself has.
_LARGEST_COPY = 2**24


def duality_gap(path: Path) -> Array:
    """Return the duality gap of each iterate; infinite where it is not known.

    It is not known for a user's own recursion, nor for a loss or a penalty without a conjugate,
    nor where the unpenalised columns are too many to be copied.
    """
    gaps = np.full(path.n_iter + 1, math.inf)
    if isinstance(path.maps, ProximalMaps):
        # a bound that overflows is none
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            try:
                gaps = _gaps(path, path.maps)
            except (_UnknownGapError, NotImplementedError):
                pass
    return like(gaps, path.iterates)


class _UnknownGapError(Exception):
    """The gap is not known."""


def _gaps(path: Path, maps: ProximalMaps) -> np.ndarray:
    loss, rows, penalty = maps.dual_map.loss, maps.dual_map.rows, maps.primal_map.penalty
    xp = namespace(path.iterates)
    target = cast(path.data.target[:, 0, :], xp.float64)
    span = _Span.of(path, _columns_to_fix(path, penalty))
    found = []
    for start in range(0, path.n_iter + 1, _ITERATES):
        b, products, u, eta = (
            cast(history[start : start + _ITERATES, :], xp.float64).T
            for history in (path.iterates, path.products, path.duals, path.etas)
        )
        w, z = -u / maps.dual_map.scale, -rows.root * eta / maps.dual_map.scale
        if penalty.convex:
            cost = xp.stack([penalty.value(b[:, k]) for k in range(b.shape[1])])
            slopes = xp.zeros_like(z)
        else:
            slopes = penalty.derivative(xp.abs(b))
            cost = xp.sum(slopes * xp.abs(b), axis=0)
        if span is not None:
            w, z = span.fixed(w, z, clip(z, -slopes, slopes))
        gauge = penalty.gauge(z) if penalty.convex else largest_ratio(xp.abs(z), slopes)
        gauge = xp.maximum(gauge, loss.gauge(w, rows))
        factor = 1 / xp.maximum(gauge, xp.ones_like(gauge))
        w, z = factor * w, factor * z
        primal = loss.value(target - products, rows) + cost
        dual = rows.total(w * target) - loss.conjugate(w, rows)
        if penalty.convex:
            dual = dual - penalty.conjugate(z)
        found.append(to_numpy(xp.stack([primal, dual])))
    primal, dual = np.concatenate(found, axis=1)
    dual = np.where(np.isnan(dual), -math.inf, dual)
    dual = np.maximum.accumulate(dual) if penalty.convex else np.maximum(dual, dual[0])
    gaps = np.maximum(primal - dual, 0.0)  # less than 0 is rounding
    return np.where(np.isnan(gaps), math.inf, gaps)


def _columns_to_fix(path: Path, penalty: Penalty) -> np.ndarray:
    """Return the columns whose products with duals are to be right, not only small enough.

    These are the unpenalised ones, to which feasible duals are orthogonal. Where the penalty is
    not convex, they are also those of large coefficients, which are hardly penalised.
    """
    xp, p = namespace(path.iterates), path.design.shape[1]
    if penalty.convex:
        free = penalty.free(p)
        penalised = cast(path.design.array(~free), xp.float64)
        none = math.isinf(float(penalty.gauge(penalised)))  # as with lam = 0
        return np.flatnonzero(free | none)
    last = xp.abs(cast(path.iterates[-1, :], xp.float64))
    slope, steepest = penalty.derivative(last), penalty.derivative(xp.zeros_like(last))
    return np.flatnonzero(to_numpy(slope <= steepest / 2))


@dataclass(frozen=True, eq=False)
class _Span:
    """The span of some columns of X."""

    #: Which columns, of shape (p, 1), and their norms.
    chosen: Array
    columns: np.ndarray
    norms: Array
    #: An orthonormal basis, the same times the weights of the rows, and Xᵀ times that.
    basis: Array
    weighted: Array
    images: Array
    #: Coordinates in the basis of the columns, divided by their norms.
    coordinates: Array

    @classmethod
    def of(cls, path: Path, columns: np.ndarray) -> _Span | None:
        """Return the span of some columns of a path's design; None if there are none."""
        design, xp, k = path.design, namespace(path.iterates), len(columns)
        n, p = design.shape
        if not k:
            return None
        if k * (n + p) > max(_LARGEST_COPY, 2 * (path.n_iter + 1) * (n + p)):
            raise _UnknownGapError
        unit = np.zeros((p, k))
        unit[columns, np.arange(k)] = 1.0
        block = cast(design.forward(design.array(unit)), xp.float64)
        # a sum with weights is one of the rows times their roots
        weights, roots = 1.0, 1.0
        if design.rows.weights is not None:
            weights = cast(design.rows.weights, xp.float64)[:, None]
            roots = xp.sqrt(weights)
        norms = xp.linalg.vector_norm(roots * block, axis=0, keepdims=True)
        norms = xp.where(norms > 0, norms, xp.ones_like(norms))
        basis, coordinates = xp.linalg.qr(roots * block / norms)
        # columns that depend on others add no direction
        rounding = max(n, k) * float(xp.finfo(path.iterates.dtype).eps)
        if k > n or float(xp.min(xp.abs(xp.linalg.diagonal(coordinates)))) <= rounding:
            left, values, right = xp.linalg.svd(coordinates, full_matrices=False)
            rank = int(xp.sum(cast(values > rounding * values[0], xp.int64)))
            basis = basis @ left[:, :rank]
            coordinates = values[:rank, None] * right[:rank, :]
        basis = basis / roots
        images = cast(design.adjoint(design.array(basis)), xp.float64)
        chosen = design.array(unit.any(axis=1))[:, None] > 0
        return cls(chosen, columns, norms.T, basis, weights * basis, images, coordinates)

    def fixed(self, w: Array, z: Array, wanted: Array) -> tuple[Array, Array]:
        """Change duals w, and ``z = Xᵀ w``, so that z is as wanted at the chosen columns.

        If the columns depend on each other, z is as near to that as it can be.
        """
        xp = namespace(w)
        change, exact = self.weighted.T @ w, True
        if xp.any(wanted != 0):
            exact = self.coordinates.shape[0] == len(self.columns)
            some = take(wanted, self.columns) / self.norms
            change = change - xp.linalg.pinv(self.coordinates).T @ some
        w, z = w - self.basis @ change, z - self.images @ change
        return w, xp.where(self.chosen, wanted, z) if exact else z
