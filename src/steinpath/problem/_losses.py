r"""Loss functions of the residuals.

A loss is a convex function :math:`h(r)` of the residual :math:`r = y - Xb`. Separable losses are
:math:`h(r) = n^{-1/2} \sum_i \rho(r_i)`, so that all losses have the same order in the sample size.

Each loss provides its value and, for its smoothed version (the Moreau envelope)

.. math:: h_s(r) = \min_x \; h(x) + \|x - r\|^2 / (2 s),

the gradient and the Hessian. Every algorithm is built from this pair: the proximal map is :math:`r
- s \nabla h_s(r)`, the dual updates of Chambolle–Pock and of linearized ADMM are :math:`-\nabla
h_s` (without cancellation for large residuals), and :math:`\nabla h_0` is the gradient used by
proximal gradient methods.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from steinpath._support.arrays import (
    Array,
    along_members,
    by_member,
    cast,
    clip,
    like,
    namespace,
    to_numpy,
)
from steinpath._support.validation import LARGEST
from steinpath.problem._jacobians import Diagonal, Jacobian, RankOne
from steinpath.problem._registry import ParameterSpec, Registered
from steinpath.problem._rows import Rows

# If a minimiser is not unique, the selected one must not depend on rounding errors.
_ROUNDING = 16 * float(np.finfo(float).eps)

#: All losses by name.
LOSSES: dict[str, type[Loss]] = {}


class Loss(Registered, ABC):
    """Convex function of the residual ``y - X b``."""

    registry = LOSSES
    #: Default scoring loss: a key of `steinpath.problem._scoring.CRITERIA`.
    test_loss: ClassVar[str]
    #: Lipschitz constant of ``√n ∇h``; None for a nonsmooth loss.
    smoothness: ClassVar[float | None] = None
    #: Whether Hessians are multiples of the identity up to rank one.
    isotropic: ClassVar[bool] = False
    #: Whether the loss is quadratic, so that Hessians have no rank-one part either.
    quadratic: ClassVar[bool] = False
    #: Whether responses are labels -1 and 1, stored with the rows.
    margin: ClassVar[bool] = False

    @property
    def degree(self) -> int:
        """Power of the unit of y in which it is measured: quadratic near 0 if it is smooth."""
        return 1 if self.smoothness is None else 2

    def on(self, y: Array, weights: Array | None = None) -> Self:
        """Return the loss with parameters that depend on the responses; refuse invalid ones."""
        return self

    @abstractmethod
    def value(self, r: Array, rows: Rows | None = None) -> Array:
        """Evaluate the loss at the residual ``r``: a vector, or each column of a block.

        By default, all ``rows`` are in ``r``, with weight 1.
        """

    @abstractmethod
    def gradient(self, r: Array, step: Any = 0.0, rows: Rows | None = None) -> Array:
        """Return the gradient of the loss smoothed by ``step``; a subgradient without smoothing.

        With row weights, this is the gradient for a single copy of each row.
        """

    @abstractmethod
    def hessian(self, r: Array, step: Any = 0.0, rows: Rows | None = None) -> Jacobian:
        """Return the Jacobian of `gradient`."""

    @abstractmethod
    def location(self, y: Array, weights: Array | None = None) -> float:
        """Return the constant fit that minimises the loss; integer weights give exact results."""

    def start(self, y: Array, weights: Array | None = None) -> float:
        """Return the initial intercept: for most losses, the constant fit that minimises it."""
        return self.location(y, weights)

    def conjugate(self, w: Array, rows: Rows | None = None) -> Array:
        """Evaluate the convex conjugate, the maximum of ``⟨w, r⟩ - h(r)`` over ``r``.

        The result is meaningful only where the conjugate is finite. With row weights, ``w`` is
        given for a single copy of each row, like gradients. A loss that implements `conjugate` and
        `gauge` has a duality gap; for other losses `Path.gap` is infinite.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement conjugate")

    def gauge(self, w: Array, rows: Rows | None = None) -> Array:
        """Return the smallest divisor of ``w`` for which the conjugate is finite."""
        raise NotImplementedError(f"{type(self).__name__} does not implement gauge")

    def interior(self, rows: Rows) -> Array | None:
        """Return a vector of sum zero in the interior of the conjugate's domain; None for zero."""
        return None

    def inside(self, w: Array, interior: Array, rows: Rows) -> Array:
        """Return the feasible step, at most 1, from the interior point to each column of ``w``."""
        raise NotImplementedError(f"{type(self).__name__} has zero in its interior")

    def prox(self, r: Array, step: Any, rows: Rows | None = None) -> Array:
        """Evaluate the proximal map: the minimiser ``x`` of ``step * h(x) + ‖x - r‖² / 2``."""
        return r - step * self.gradient(r, step, rows)

    def prox_jacobian(self, r: Array, step: Any, rows: Rows | None = None) -> Jacobian:
        """Return the Jacobian of `prox`."""
        return self.hessian(r, step, rows).affine(1.0, -step)


class SeparableLoss(Loss):
    r"""Separable loss :math:`n^{-1/2} \sum_i \rho(r_i)`.

    A subclass implements ``rho`` and, for the Moreau envelope with parameter ``s``, the derivative
    ``score`` and the second derivative ``slope``. With ``rho_conjugate`` it also has a duality gap.
    """

    @abstractmethod
    def rho(self, r: Array) -> Array:
        """Evaluate the loss of each observation."""

    @abstractmethod
    def score(self, r: Array, s: Any) -> Array:
        """Return the first derivative of the smoothed ``rho``."""

    @abstractmethod
    def slope(self, r: Array, s: Any) -> Array:
        """Return the second derivative of the smoothed ``rho``."""

    def rho_conjugate(self, w: Array) -> Array:
        """Evaluate the convex conjugate of ``rho`` at values of its derivative."""
        raise NotImplementedError(f"{type(self).__name__} does not implement rho_conjugate")

    def value(self, r: Array, rows: Rows | None = None) -> Array:
        rows = rows or Rows.of(r)
        return rows.total(self.rho(r)) / rows.root

    def gradient(self, r: Array, step: Any = 0.0, rows: Rows | None = None) -> Array:
        scale = 1 / (rows or Rows.of(r)).root
        return scale * self.score(r, _smoothing(scale, step))

    def hessian(self, r: Array, step: Any = 0.0, rows: Rows | None = None) -> Diagonal:
        scale = 1 / (rows or Rows.of(r)).root
        return Diagonal(along_members(scale * self.slope(r, _smoothing(scale, step)), r))

    def conjugate(self, w: Array, rows: Rows | None = None) -> Array:
        rows = rows or Rows.of(w)
        return rows.total(self.rho_conjugate(rows.root * w)) / rows.root

    def gauge(self, w: Array, rows: Rows | None = None) -> Array:
        # the derivative of rho is bounded, and √n w must lie between its bounds
        xp, (low, high) = namespace(w), self.score(np.array([-math.inf, math.inf]), 0.0).tolist()
        return (rows or Rows.of(w)).root * xp.max(xp.maximum(w / low, w / high), axis=0)

    def location(self, y: Array, weights: Array | None = None) -> float:
        # the root of a decreasing function by bisection: sixty steps exhaust double precision
        values, weights = _on_host(y, weights)
        low, high = float(values.min()), float(values.max())
        for _ in range(60):
            middle = low / 2 + high / 2
            scores = weights * self.score(values - middle, 0.0)
            total = float(scores.sum())
            if abs(total) <= _ROUNDING * float(np.abs(scores).sum()):
                return middle
            low, high = (middle, high) if total > 0 else (low, middle)
        return low / 2 + high / 2


def _smoothing(scale: Any, step: Any) -> Any:
    """Return ``scale * step``, and exactly 0 without smoothing."""
    return 0.0 if isinstance(step, float) and step == 0 else scale * step


def _clipped_ratio(r: Array, s: Any, low: float, high: float) -> Array:
    """Return ``r / s`` clipped to ``[low, high]``, also in the limit ``s = 0``."""
    xp = namespace(r)
    if isinstance(s, float) and s == 0:
        zero = xp.zeros_like(r)
        return xp.where(r > 0, zero + high, xp.where(r < 0, zero + low, zero))
    return clip(r / s, low, high)


def _inverse(s: Any) -> Any:
    """Return ``1 / s``, and 0 in the limit ``s = 0``, where the slope is zero almost everywhere."""
    return 0.0 if isinstance(s, float) and s == 0 else 1 / s


def _inside(r: Array, low: Any, high: Any, value: Any) -> Array:
    """Return ``value`` where ``low < r < high``, and 0 elsewhere."""
    return value * cast((r > low) & (r < high), r.dtype)


class PiecewiseLinearLoss(SeparableLoss):
    """Loss with one slope for negative and one for positive residuals."""

    slopes: tuple[float, float]

    def rho(self, r: Array) -> Array:
        low, high = self._slopes(r)
        return namespace(r).maximum(high * r, low * r)

    def score(self, r: Array, s: Any) -> Array:
        return _clipped_ratio(r, s, *self._slopes(r))

    def slope(self, r: Array, s: Any) -> Array:
        low, high = self._slopes(r)
        return _inside(r, low * s, high * s, _inverse(s))

    def rho_conjugate(self, w: Array) -> Array:
        return namespace(w).zeros_like(w)

    def _slopes(self, r: Array) -> tuple[Any, Any]:
        low, high = self.slopes
        return by_member(low, r), by_member(high, r)

    def location(self, y: Array, weights: Array | None = None) -> float:
        low, high = self.slopes
        return _quantile(y, high / (high - low), weights)


@dataclass(frozen=True)
class LAD(PiecewiseLinearLoss):
    """Least absolute deviations loss, ``h(r) = n^{-1/2} Σ rho(r_i)`` with ``rho(r) = |r|``.

    Examples
    --------
    >>> import numpy as np
    >>> import steinpath as sp
    >>> float(sp.LAD().value(np.array([1.0, -2.0, 0.0, 3.0])))
    3.0
    """

    name = "lad"
    label = "LAD"
    test_loss = "absolute"
    slopes = -1.0, 1.0


@dataclass(frozen=True)
class Quantile(PiecewiseLinearLoss):
    """Quantile (pinball) loss, ``rho(r) = q max(r, 0) + (1 - q) max(-r, 0)``.

    As for every separable loss, ``h(r) = n^{-1/2} Σ rho(r_i)``.

    Parameters
    ----------
    q : float, default=0.5
        Quantile level, strictly between 0 and 1. At the median (``q=0.5``) the loss is half the LAD
        loss.
    """

    q: float = 0.5

    name = "quantile"
    label = "quantile"
    of_members = ("q",)
    parameter_spec = ParameterSpec(
        "q",
        default=q,
        low=0,
        high=1,
        open_low=True,
        open_high=True,
        option="quantile",
        help="Quantile level to estimate, such as 0.9; 0.5 (the median) by default.",
    )
    test_loss = "quantile"

    @property
    def slopes(self) -> tuple[float, float]:  # type: ignore[override]
        return self.q - 1, self.q


@dataclass(frozen=True)
class Huber(SeparableLoss):
    """Huber loss, ``rho(r) = r² / 2`` up to ``|r| = delta`` and linear beyond.

    As for every separable loss, ``h(r) = n^{-1/2} Σ rho(r_i)``.

    Parameters
    ----------
    delta : float, default=1.35
        Residual size at which the loss changes from quadratic to linear, in units of y. (Estimators
        and the command line take it in robust standard deviations of y.)
    """

    delta: float = 1.35

    name = "huber"
    label = "Huber"
    of_members = ("delta",)
    parameter_spec = ParameterSpec(
        "delta",
        default=delta,
        low=0,
        high=LARGEST,
        open_low=True,
        in_units_of_y=True,
        help="Residual size from which the Huber loss is linear, in robust standard deviations of "
        "the target (median absolute deviation / 0.6745); 1.35 by default.",
    )
    test_loss = "huber"
    smoothness = 1.0

    def rho(self, r: Array) -> Array:
        delta = by_member(self.delta, r)
        inner = clip(r, -delta, delta)
        return inner * (r - inner / 2)

    def score(self, r: Array, s: Any) -> Array:
        delta = by_member(self.delta, r)
        return clip(r / (1 + s), -delta, delta)

    def slope(self, r: Array, s: Any) -> Array:
        end = by_member(self.delta, r) * (1 + s)
        return _inside(r, -end, end, 1 / (1 + s))

    def rho_conjugate(self, w: Array) -> Array:
        return w * w / 2


@dataclass(frozen=True)
class EpsilonInsensitive(SeparableLoss):
    """Epsilon-insensitive (support vector regression) loss, ``rho(r) = max(|r| - eps, 0)``.

    Parameters
    ----------
    eps : float, default=0.1
        Residual size below which the loss is zero, in units of y. (Estimators and the command
        line take it in robust standard deviations of y.)
    """

    eps: float = 0.1

    name = "epsilon_insensitive"
    label = "ε-insensitive"
    of_members = ("eps",)
    parameter_spec = ParameterSpec(
        "eps",
        default=eps,
        low=0,
        high=LARGEST,
        option="epsilon",
        in_units_of_y=True,
        help="Residual size below which the loss is zero, in robust standard deviations of the "
        "target; 0.1 by default.",
    )
    test_loss = "epsilon_insensitive"

    def rho(self, r: Array) -> Array:
        return namespace(r).abs(self._beyond(r))

    def score(self, r: Array, s: Any) -> Array:
        return _clipped_ratio(self._beyond(r), s, -1.0, 1.0)

    def slope(self, r: Array, s: Any) -> Array:
        # with eps = 0 the zone is empty and the slope has no gap at r = 0
        low, eps = (by_member(x, r) for x in (self.eps - (self.eps <= 0), self.eps))
        return _inside(namespace(r).abs(r), low, eps + s, _inverse(s))

    def rho_conjugate(self, w: Array) -> Array:
        return by_member(self.eps, w) * namespace(w).abs(w)

    def _beyond(self, r: Array) -> Array:
        eps = by_member(self.eps, r)
        return r - clip(r, -eps, eps)


@dataclass(frozen=True)
class Squared(SeparableLoss):
    """Squared loss, ``rho(r) = r² / 2``. Its dual iterates under proximal gradient are ``-v``."""

    name = "squared"
    label = "squared"
    test_loss = "squared"
    smoothness = 1.0
    isotropic = True
    quadratic = True

    def rho(self, r: Array) -> Array:
        return r * r / 2

    def score(self, r: Array, s: Any) -> Array:
        return r / (1 + s)

    def slope(self, r: Array, s: Any) -> Array:
        return 1 / (1 + s)  # a scalar: the Hessian is a multiple of the identity

    def rho_conjugate(self, w: Array) -> Array:
        return w * w / 2

    def location(self, y: Array, weights: Array | None = None) -> float:
        return _mean(y, weights)


@dataclass(frozen=True)
class SquareRoot(Loss):
    """Square-root loss, ``h(r) = ‖r‖₂``: the best ``lam`` does not depend on the noise level."""

    name = "square_root"
    label = "square root"
    test_loss = "squared"
    isotropic = True

    def value(self, r: Array, rows: Rows | None = None) -> Array:
        return namespace(r).squeeze(_norm(r, rows), axis=0)

    def gradient(self, r: Array, step: Any = 0.0, rows: Rows | None = None) -> Array:
        return r / _at_least(_norm(r, rows), step)

    def hessian(self, r: Array, step: Any = 0.0, rows: Rows | None = None) -> RankOne:
        xp, norm = namespace(r), _norm(r, rows)
        scale = 1 / _at_least(norm, step)
        outside = xp.where(norm > step, scale, xp.zeros_like(scale))
        return RankOne(scale, -outside, r / _at_least(norm, 0.0), rows or Rows.of(r))

    def conjugate(self, w: Array, rows: Rows | None = None) -> Array:
        return namespace(w).zeros_like(self.value(w, rows))

    def gauge(self, w: Array, rows: Rows | None = None) -> Array:
        return self.value(w, rows)

    def location(self, y: Array, weights: Array | None = None) -> float:
        return _mean(y, weights)


def _norm(r: Array, rows: Rows | None) -> Array:
    """Euclidean norm over the rows of a vector or of each column of a block, keeping the axis."""
    xp = namespace(r)
    if rows is None or (rows.weights is None and rows.complete is None):
        if type(r) is np.ndarray:  # several times faster than the standard function
            return np.sqrt(np.add.reduce(r * r, axis=0, keepdims=True))
        return xp.linalg.vector_norm(r, axis=0, keepdims=True)
    return xp.sqrt(rows.total(r**2, keepdims=True))


def _at_least(norm: Array, step: Any) -> Array:
    if hasattr(step, "ndim"):
        return namespace(norm).maximum(norm, step)
    # a zero residual has the subgradient 0; the smallest normal number avoids 0 / 0
    tiny = float(namespace(norm).finfo(norm.dtype).smallest_normal)
    return clip(norm, max(step, tiny), None)


def _mean(y: Array, weights: Array | None) -> float:
    xp = namespace(y)
    if weights is None:
        return float(xp.mean(y))
    weights = like(weights, y)
    return float(xp.sum(weights * y) / xp.sum(weights))


def _on_host(y: Array, weights: Array | None) -> tuple[np.ndarray, np.ndarray]:
    """Return responses and weights on the host in double precision."""
    values = to_numpy(y).astype(float)
    return values, np.ones(len(values)) if weights is None else to_numpy(weights).astype(float)


def _quantile(y: Array, q: float, weights: Array | None) -> float:
    """Return a sample quantile: the midpoint of the interval that minimises the quantile loss."""
    values, weights = _on_host(y, weights)
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    aim, slack = q * reached[-1], _ROUNDING * reached[-1]
    below = np.searchsorted(reached, aim - slack, side="left")
    above = min(np.searchsorted(reached, aim + slack, side="right"), len(values) - 1)
    return float(values[order[below]]) / 2 + float(values[order[above]]) / 2
