r"""Losses: how far the fitted values are from the responses.

A loss is a convex function :math:`h(r)` of the residual :math:`r = y - Xb`. Separable losses are
:math:`h(r) = n^{-1/2} \sum_i \rho(r_i)`, so that all losses grow alike with the sample size.

Each loss gives its value and, for its smoothed version (the Moreau envelope)

.. math:: h_s(r) = \min_x \; h(x) + \|x - r\|^2 / (2 s),

the gradient and the Hessian. That one pair is all that any algorithm needs: the proximal map is
:math:`r - s \nabla h_s(r)`, the dual updates of Chambolle–Pock and of linearized ADMM are
:math:`-\nabla h_s` (no cancellation, however large the residuals), and :math:`\nabla h_0` is the
gradient itself, which proximal gradient methods use.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from steinpath._support.arrays import Array, along_rows, clip, namespace, norm_of_columns, to_numpy
from steinpath._support.validation import LARGEST, store_number
from steinpath.problem._jacobians import Diagonal, Jacobian, RankOne
from steinpath.problem._registry import ParameterSpec, Registered, Registry

# Where a minimum is not unique, rounding must not decide which one is taken.
_ROUNDING = 16 * float(np.finfo(float).eps)


class Share(Protocol):
    """Some of the rows of a design; see `steinpath.design.Design`."""

    shape: tuple[int, int]

    @property
    def n_rows(self) -> int:
        """Number of all rows."""

    def over_rows(self, partial: Array) -> Array:
        """Return a sum over all rows, from the sum over those that are here."""


#: All losses by name.
LOSSES: Registry[Loss] = Registry("loss")


class Loss(Registered, ABC):
    """A convex function of the residual ``y - X b``."""

    registry: ClassVar[Registry[Loss]] = LOSSES
    #: Test loss that goes with it: a key of `steinpath.problem._scoring.CRITERIA`.
    test_loss: ClassVar[str]
    #: Lipschitz constant of ``√n ∇h``; None for a loss with kinks.
    smoothness: ClassVar[float | None] = None
    #: Whether Hessians are multiples of the identity, up to rank one.
    isotropic: ClassVar[bool] = False

    @abstractmethod
    def value(self, r: Array) -> Array:
        """Loss of the residual ``r``: a vector, or each column of a block."""

    @abstractmethod
    def gradient(self, r: Array, step: float = 0.0) -> Array:
        """Gradient of the loss smoothed by ``step``; a subgradient where there is no smoothing."""

    @abstractmethod
    def hessian(self, r: Array, step: float = 0.0) -> Jacobian:
        """Jacobian of `gradient`."""

    @abstractmethod
    def location(self, y: Array, weights: Array | None = None) -> float:
        """Constant fit with the smallest loss: where an intercept starts.

        The weights are best as they were given: integers are exact.
        """

    def weighted(self, weights: Array) -> Loss:
        """Return the loss of rows that count unequally, ``weights`` having the mean 1.

        It is as if each row were there ``weights[i]`` times; gradients are those of one copy.
        """
        raise NotImplementedError(f"{self!r} has no weights")

    def on_part(self, kept: int, total: int) -> Loss:
        """Return the loss of ``kept`` of ``total`` rows, given zeros for the other residuals."""
        return self

    def shared(self, share: Share) -> Loss:
        """Return the loss of all rows, for residuals of those in a share of them."""
        raise NotImplementedError(f"{self!r} cannot be shared out")

    def prox(self, r: Array, step: float) -> Array:
        """Proximal map: the minimiser ``x`` of ``step * h(x) + ‖x - r‖² / 2``."""
        return r - step * self.gradient(r, step)

    def prox_jacobian(self, r: Array, step: float) -> Jacobian:
        """Jacobian of `prox`."""
        return self.hessian(r, step).affine(1.0, -step)


class SeparableLoss(Loss):
    r"""A loss :math:`n^{-1/2} \sum_i \rho(r_i)`.

    A subclass gives ``rho`` and, for its Moreau envelope with parameter ``s``, the derivative
    ``score`` and the second derivative ``slope``.
    """

    @abstractmethod
    def rho(self, r: Array) -> Array:
        """Loss of each observation."""

    @abstractmethod
    def score(self, r: Array, s: float) -> Array:
        """First derivative of the smoothed ``rho``."""

    @abstractmethod
    def slope(self, r: Array, s: float) -> Array:
        """Second derivative of the smoothed ``rho``."""

    def value(self, r: Array) -> Array:
        return namespace(r).sum(self.rho(r), axis=0) / math.sqrt(r.shape[0])

    def gradient(self, r: Array, step: float = 0.0) -> Array:
        scale = 1 / math.sqrt(r.shape[0])
        return scale * self.score(r, scale * step)

    def hessian(self, r: Array, step: float = 0.0) -> Diagonal:
        scale = 1 / math.sqrt(r.shape[0])
        return Diagonal(scale * self.slope(r, scale * step))

    def on_part(self, kept: int, total: int) -> Loss:
        return ScaledLoss(self, math.sqrt(total / kept))

    def weighted(self, weights: Array) -> Loss:
        return WeightedSum(self, weights)

    def shared(self, share: Share) -> Loss:
        return SharedSum(self, math.sqrt(share.shape[0] / share.n_rows), share)

    def location(self, y: Array, weights: Array | None = None) -> float:
        # the root of a decreasing function, by bisection: sixty halvings exhaust double precision
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


@dataclass(frozen=True)
class ScaledLoss(Loss):
    """Another loss times a factor."""

    loss: Loss
    factor: float

    def value(self, r: Array) -> Array:
        return self.factor * self.loss.value(r)

    def gradient(self, r: Array, step: float = 0.0) -> Array:
        return self.factor * self.loss.gradient(r, self.factor * step)

    def hessian(self, r: Array, step: float = 0.0) -> Jacobian:
        return self.loss.hessian(r, self.factor * step).affine(0.0, self.factor)

    def location(self, y: Array, weights: Array | None = None) -> float:
        return self.loss.location(y, weights)


class StandIn(Loss):
    """A loss in place of the one that the user chose, which step sizes and messages speak of."""

    loss: Loss

    @property
    def smoothness(self) -> float | None:  # type: ignore[override]
        """Of the loss that was chosen."""
        return self.loss.smoothness

    def __repr__(self) -> str:
        return repr(self.loss)


@dataclass(frozen=True, eq=False, repr=False)
class SharedSum(StandIn, ScaledLoss):
    """A separable loss of which some rows are here; the factor makes up for their number."""

    share: Share

    def value(self, r: Array) -> Array:
        return self.share.over_rows(super().value(r))


@dataclass(frozen=True, eq=False, repr=False)
class WeightedSum(StandIn):
    """A separable loss whose rows count unequally; its smoothness is that of one copy of a row."""

    loss: SeparableLoss
    weights: Array

    def value(self, r: Array) -> Array:
        total = namespace(r).sum(along_rows(self.weights, r) * self.loss.rho(r), axis=0)
        return total / math.sqrt(r.shape[0])

    def gradient(self, r: Array, step: float = 0.0) -> Array:
        return self.loss.gradient(r, step)

    def hessian(self, r: Array, step: float = 0.0) -> Jacobian:
        return self.loss.hessian(r, step)

    def location(self, y: Array, weights: Array | None = None) -> float:
        return self.loss.location(y, weights)


def _clipped_ratio(r: Array, s: float, low: float, high: float) -> Array:
    """``r / s`` clipped to ``[low, high]``, also in the limit ``s = 0``."""
    xp = namespace(r)
    if s == 0:
        zero = xp.zeros_like(r)
        return xp.where(r > 0, zero + high, xp.where(r < 0, zero + low, zero))
    return clip(r / s, low, high)


def _inside(r: Array, low: float, high: float, value: float) -> Array:
    """``value`` where ``low < r < high``, else 0."""
    xp = namespace(r)
    zero = xp.zeros_like(r)
    return xp.where((r > low) & (r < high), zero + value, zero)


@dataclass(frozen=True)
class LAD(SeparableLoss):
    """Least absolute deviations, ``h(r) = n^{-1/2} Σ rho(r_i)`` with ``rho(r) = |r|``.

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

    def rho(self, r: Array) -> Array:
        return namespace(r).abs(r)

    def score(self, r: Array, s: float) -> Array:
        return _clipped_ratio(r, s, -1.0, 1.0)

    def slope(self, r: Array, s: float) -> Array:
        return _inside(r, -s, s, 1 / s if s else 0.0)

    def location(self, y: Array, weights: Array | None = None) -> float:
        return _quantile(y, 0.5, weights)


@dataclass(frozen=True)
class Quantile(SeparableLoss):
    """Quantile (pinball) loss, ``rho(r) = q max(r, 0) + (1 - q) max(-r, 0)``.

    As for every separable loss, ``h(r) = n^{-1/2} Σ rho(r_i)``.

    Parameters
    ----------
    q : float, default=0.5
        The quantile aimed at, strictly between 0 and 1. The median's ``q=0.5`` is half the
        LAD loss.
    """

    q: float = 0.5

    name = "quantile"
    label = "quantile"
    parameter_spec = ParameterSpec(
        "q",
        default=q,
        low=0,
        high=1,
        open_low=True,
        open_high=True,
        option="quantile",
        help="Aim at this quantile (0.9, say) instead of the middle.",
    )
    test_loss = "quantile"

    def __post_init__(self) -> None:
        store_number(self, "q", low=0, high=1, open_low=True, open_high=True)

    def rho(self, r: Array) -> Array:
        return namespace(r).maximum(self.q * r, (self.q - 1) * r)

    def score(self, r: Array, s: float) -> Array:
        return _clipped_ratio(r, s, self.q - 1, self.q)

    def slope(self, r: Array, s: float) -> Array:
        return _inside(r, (self.q - 1) * s, self.q * s, 1 / s if s else 0.0)

    def location(self, y: Array, weights: Array | None = None) -> float:
        return _quantile(y, self.q, weights)


@dataclass(frozen=True)
class Huber(SeparableLoss):
    """Huber loss, ``rho(r) = r² / 2`` up to ``|r| = delta`` and linear beyond.

    As for every separable loss, ``h(r) = n^{-1/2} Σ rho(r_i)``.

    Parameters
    ----------
    delta : float, default=1.35
        Where the loss turns from quadratic to linear, on the scale of the residuals.
    """

    delta: float = 1.35

    name = "huber"
    label = "Huber"
    parameter_spec = ParameterSpec(
        "delta",
        default=delta,
        low=0,
        high=LARGEST,
        open_low=True,
        in_units_of_y=True,
        help="Where Huber's loss becomes linear, in units of the target; 1.35 robust standard "
        "deviations of it by default.",
    )
    test_loss = "huber"
    smoothness = 1.0

    def __post_init__(self) -> None:
        store_number(self, "delta", low=0, high=LARGEST, open_low=True)

    def rho(self, r: Array) -> Array:
        inner = clip(r, -self.delta, self.delta)
        return inner * (r - inner / 2)

    def score(self, r: Array, s: float) -> Array:
        return clip(r / (1 + s), -self.delta, self.delta)

    def slope(self, r: Array, s: float) -> Array:
        end = self.delta * (1 + s)
        return _inside(r, -end, end, 1 / (1 + s))


@dataclass(frozen=True)
class EpsilonInsensitive(SeparableLoss):
    """Support-vector loss, ``rho(r) = max(|r| - eps, 0)``.

    Parameters
    ----------
    eps : float, default=0.1
        Half-width of the band within which errors cost nothing.
    """

    eps: float = 0.1

    name = "epsilon_insensitive"
    label = "ε-insensitive"
    parameter_spec = ParameterSpec(
        "eps",
        default=eps,
        low=0,
        high=LARGEST,
        option="epsilon",
        in_units_of_y=True,
        help="Errors that cost nothing, in units of the target; a tenth of a robust standard "
        "deviation of it by default.",
    )
    test_loss = "epsilon_insensitive"

    def __post_init__(self) -> None:
        store_number(self, "eps", low=0, high=LARGEST)

    def rho(self, r: Array) -> Array:
        return namespace(r).abs(self._beyond(r))

    def score(self, r: Array, s: float) -> Array:
        return _clipped_ratio(self._beyond(r), s, -1.0, 1.0)

    def slope(self, r: Array, s: float) -> Array:
        size = namespace(r).abs(r)
        # with eps = 0 the band is empty and the slope has no hole at r = 0
        low = self.eps if self.eps > 0 else -math.inf
        return _inside(size, low, self.eps + s, 1 / s if s else 0.0)

    def _beyond(self, r: Array) -> Array:
        return r - clip(r, -self.eps, self.eps)


@dataclass(frozen=True)
class Squared(SeparableLoss):
    """Squared loss, ``rho(r) = r² / 2``. Its dual iterates under proximal gradient are ``-v``."""

    name = "squared"
    label = "squared"
    test_loss = "squared"
    smoothness = 1.0
    isotropic = True

    def rho(self, r: Array) -> Array:
        return r * r / 2

    def score(self, r: Array, s: float) -> Array:
        return r / (1 + s)

    def slope(self, r: Array, s: float) -> Array:
        return 1 / (1 + s)  # one number: the Hessian is a multiple of the identity

    def location(self, y: Array, weights: Array | None = None) -> float:
        return _mean(y, weights)


@dataclass(frozen=True)
class SquareRoot(Loss):
    """Square-root loss, ``h(r) = ‖r‖₂``: least squares whose penalty needs no noise level."""

    name = "square_root"
    label = "square root"
    test_loss = "squared"
    isotropic = True

    def value(self, r: Array) -> Array:
        return namespace(r).linalg.vector_norm(r, axis=0)

    def gradient(self, r: Array, step: float = 0.0) -> Array:
        return r / _at_least(self._norm(r), step)

    def hessian(self, r: Array, step: float = 0.0) -> RankOne:
        xp, norm = namespace(r), self._norm(r)
        scale = 1 / _at_least(norm, step)
        outside = xp.where(norm > step, scale, xp.zeros_like(scale))
        return RankOne(scale, -outside, r / _at_least(norm, 0.0))

    def weighted(self, weights: Array) -> Loss:
        return WeightedNorm(namespace(weights).sqrt(weights))

    def shared(self, share: Share) -> Loss:
        return SharedNorm(share)

    def location(self, y: Array, weights: Array | None = None) -> float:
        return _mean(y, weights)

    def _norm(self, r: Array) -> Array:
        return norm_of_columns(r)


def _at_least(norm: Array, step: float) -> Array:
    # a zero residual has the subgradient 0; the smallest normal number keeps it from 0 / 0
    xp = namespace(norm)
    return xp.clip(norm, max(step, float(xp.finfo(norm.dtype).smallest_normal)))


@dataclass(frozen=True, eq=False)
class SharedNorm(SquareRoot):
    """The square-root loss of which some rows are here."""

    share: Share

    def __repr__(self) -> str:
        return repr(SquareRoot())

    def value(self, r: Array) -> Array:
        xp, norm = namespace(r), self._norm(r)
        return xp.reshape(norm, tuple(r.shape[1:]))

    def hessian(self, r: Array, step: float = 0.0) -> RankOne:
        return replace(super().hessian(r, step), over_rows=self.share.over_rows)

    def _norm(self, r: Array) -> Array:
        xp = namespace(r)
        squares = xp.sum(r**2, axis=0, keepdims=r.ndim == 2)
        return xp.sqrt(self.share.over_rows(squares))


@dataclass(frozen=True, eq=False)
class WeightedNorm(Loss):
    """The square-root loss of rows that count unequally, from the roots of their weights."""

    roots: Array

    def __repr__(self) -> str:
        return repr(SquareRoot())

    def value(self, r: Array) -> Array:
        return SquareRoot().value(along_rows(self.roots, r) * r)

    def gradient(self, r: Array, step: float = 0.0) -> Array:
        roots = along_rows(self.roots, r)
        return SquareRoot().gradient(roots * r, step) / roots

    def hessian(self, r: Array, step: float = 0.0) -> Jacobian:
        raise NotImplementedError("there are no tangents for rows that count unequally")

    def location(self, y: Array, weights: Array | None = None) -> float:
        return _mean(y, weights)


def _mean(y: Array, weights: Array | None) -> float:
    xp = namespace(y)
    return float(xp.mean(y) if weights is None else xp.sum(weights * y) / xp.sum(weights))


def _on_host(y: Array, weights: Array | None) -> tuple[np.ndarray, np.ndarray]:
    """Return responses and weights in double precision."""
    values = to_numpy(y).astype(float)
    return values, np.ones(len(values)) if weights is None else to_numpy(weights).astype(float)


def _quantile(y: Array, q: float, weights: Array | None) -> float:
    """Sample quantile: the middle of the interval of minimisers of the quantile loss."""
    values, weights = _on_host(y, weights)
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    aim, slack = q * reached[-1], _ROUNDING * reached[-1]
    below = np.searchsorted(reached, aim - slack, side="left")
    above = min(np.searchsorted(reached, aim + slack, side="right"), len(values) - 1)
    return float(values[order[below]]) / 2 + float(values[order[above]]) / 2
