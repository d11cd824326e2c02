r"""Proximal algorithms, each update written once.

A proximal algorithm writes its dual and its primal update (see `steinpath.algorithms`) each as a
few lines that are linear in the histories, apart from one call of the proximal map they are
handed. Handed the map, the lines advance the iterate; handed the map's Jacobian, the same lines
advance a block of tangents.
"""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np

from steinpath._support.arrays import Array, namespace
from steinpath._support.validation import store_number, warn
from steinpath.algorithms._recursion import Algorithm, History, Maps, Tangent
from steinpath.design._designs import Design
from steinpath.problem._jacobians import Jacobian
from steinpath.problem._losses import Loss
from steinpath.problem._penalties import Penalty


class ProximalMap(Protocol):
    """A map with a structured Jacobian."""

    def __call__(self, point: Array) -> Array:
        """Value at ``point``."""

    def jacobian(self, point: Array) -> Jacobian:
        """Jacobian at ``point``."""


@dataclass(frozen=True)
class DualMap:
    """``w ↦ -scale · ∇h_step(-factor · w)`` for the loss ``h`` smoothed by ``step``."""

    loss: Loss
    step: float
    factor: float
    scale: float = 1.0

    def __call__(self, point: Array) -> Array:
        return -self.scale * self.loss.gradient(-self.factor * point, self.step)

    def jacobian(self, point: Array) -> Jacobian:
        hessian = self.loss.hessian(-self.factor * point, self.step)
        return hessian.affine(0.0, self.scale * self.factor)


@dataclass(frozen=True)
class PrimalMap:
    """The proximal map of ``step * penalty``."""

    penalty: Penalty
    step: float

    def __call__(self, point: Array) -> Array:
        return self.penalty.prox(point, self.step)

    def jacobian(self, point: Array) -> Jacobian:
        return self.penalty.jacobian(point, self.step)


Prox = Callable[[Array], Array]


@dataclass(frozen=True)
class ProximalMaps(Maps):
    """The maps of a proximal algorithm bound to a problem."""

    algorithm: ProximalAlgorithm
    dual_map: DualMap
    primal_map: PrimalMap

    memory = 2
    structured = True

    def dual(self, t: int, u: History, v: History) -> Array:
        return self.algorithm.dual(self.dual_map, t, u, v)

    def primal(self, t: int, b: History, eta: History) -> Array:
        return self.algorithm.primal(self.primal_map, t, b, eta)

    def on_part(self, kept: int, total: int) -> ProximalMaps:
        loss, penalty = self.dual_map.loss.on_part(kept, total), self.primal_map.penalty
        return self.algorithm.maps(loss, penalty, kept)

    def dual_tangent(self, t: int, u: History, v: History) -> Tangent:
        jacobian = _jacobian_within(self.algorithm.dual, self.dual_map, t, u, v)
        return ProximalTangent(self.algorithm.dual, jacobian, t)

    def primal_tangent(self, t: int, b: History, eta: History) -> Tangent:
        jacobian = _jacobian_within(self.algorithm.primal, self.primal_map, t, b, eta)
        return ProximalTangent(self.algorithm.primal, jacobian, t)


Update = Callable[[Prox, int, History, History], Array]


@dataclass(frozen=True, eq=False)
class ProximalTangent(Tangent):
    """An algorithm's update, handed a Jacobian in place of the proximal map."""

    update: Update
    jacobian: Jacobian
    t: int

    def __call__(self, first: History, second: History) -> Array:
        return self.update(self.jacobian, self.t, first, second)

    def support(self) -> Array | None:
        return self.jacobian.support() if _vanishes_with_its_prox(self.update) else None

    def columns(self, times: Sequence[int]) -> list[Tangent]:
        found = self.jacobian.columns(len(times))
        return [ProximalTangent(self.update, *each) for each in zip(found, times, strict=True)]

    def part(self, coordinates: Any, dtype: Any) -> ProximalTangent:
        return replace(self, jacobian=self.jacobian.part(coordinates, dtype))


@lru_cache
def _vanishes_with_its_prox(update: Update) -> bool:
    """Whether an update is zero where its proximal map is; over-relaxation adds its own."""
    ones = [np.ones(1), np.ones(1)]
    return not np.any(update(np.zeros_like, 2, ones, ones))


def _jacobian_within(
    update: Update,
    prox: ProximalMap,
    t: int,
    first: History,
    second: History,
) -> Jacobian:
    """Jacobian of ``prox`` at the argument that ``update`` hands it."""
    found = []

    def look(point: Array) -> Array:
        found.append(prox.jacobian(point))
        return point

    update(look, t, first, second)
    (jacobian,) = found
    return jacobian


class ProximalAlgorithm(Algorithm):
    """An algorithm whose two updates each call one proximal map."""

    @abstractmethod
    def dual(self, prox: Prox, t: int, u: History, v: History) -> Array:
        """Advance the dual iterate, or its tangents if ``prox`` is a Jacobian."""

    @abstractmethod
    def primal(self, prox: Prox, t: int, b: History, eta: History) -> Array:
        """Advance the primal iterate, or its tangents if ``prox`` is a Jacobian."""

    @abstractmethod
    def resolve(self, design: Design, y: Array, loss: Loss, penalty: Penalty) -> ProximalAlgorithm:
        """Return the same algorithm with a number for each step size that was None."""

    @abstractmethod
    def dual_map(self, loss: Loss, n: int) -> DualMap:
        """Map that `dual` calls."""

    @abstractmethod
    def prox_step(self, n: int) -> float:
        """Step of the penalty's proximal map that `primal` calls."""

    @abstractmethod
    def stability(self, design: Design, loss: Loss) -> tuple[str, float, float]:
        """Return a formula of the step sizes, its value, and the most that it may be."""

    def bind(
        self, design: Design, y: Array, loss: Loss, penalty: Penalty
    ) -> tuple[Algorithm, Maps]:
        bound = self.resolve(design, y, loss, penalty)
        if bound == self:  # the user's own step sizes: not safe by construction
            formula, value, limit = bound.stability(design, loss)
            if value > limit * (1 + 1e-6):
                warn(
                    f"{formula} = {value:.4g} is {value / limit:.4g} times the limit {limit:g}: "
                    f"{type(self).__name__} may diverge; leave the step sizes at None for safe "
                    "ones"
                )
        return bound, bound.maps(loss, penalty, design.n_rows)

    def maps(self, loss: Loss, penalty: Penalty, n: int) -> ProximalMaps:
        """Return the maps for ``n`` observations, all step sizes being fixed."""
        step = self.prox_step(n)
        if step >= penalty.max_step:
            raise ValueError(
                f"the proximal map of {penalty!r} is single-valued only for steps below "
                f"{penalty.max_step:g}, and {self!r} at n = {n} takes the step {step:.4g}; "
                "choose a smaller step size, or leave it at None"
            )
        return ProximalMaps(self, self.dual_map(loss, n), PrimalMap(penalty, step))

    def why_diverged(self, design: Design, loss: Loss) -> str:
        formula, value, limit = self.stability(design, loss)
        if value > limit * (1 + 1e-6):
            return f"the step sizes are too large ({formula} = {value:.4g}, at most {limit:g})"
        return "X or y have entries too large to square; rescale them"


def _before(history: History) -> Array:
    """Return the last but one entry; at the start, when there is none, the past repeats."""
    return history[-2:][0]


def _relaxed(new: Array, old: Array, relaxation: float) -> Array:
    """``old + relaxation * (new - old)``, exactly ``new`` without over-relaxation."""
    return new if relaxation == 1 else old + relaxation * (new - old)


def _balanced_steps(
    design: Design,
    y: Array,
    loss: Loss,
    penalty: Penalty,
    sigma: float | None,
    tau: float | None,
) -> tuple[float, float]:
    """Fill in the missing one of two steps, or both, so that ``sigma tau ‖X‖² / n`` is just safe.

    The duals are as large as the loss's gradient and the residuals as large as y; moving the one
    by the other's size in a step makes the path indifferent to the units of X and y.
    """
    n = design.n_rows
    product = 0.99 * n / design.norm() ** 2 if design.norm() else 1.0
    largest_tau = 0.5 * penalty.max_step * math.sqrt(n)
    if sigma is None and tau is None:
        xp = namespace(y)
        size = float(design.total(xp.abs(y)))
        force = math.sqrt(n) * float(design.total(xp.abs(loss.gradient(y))))
        # not quite 1: the square root's first dual would lie on the very edge of its ball
        sigma = 0.9 * force / size if force and size else 1.0
        sigma = min(max(sigma, 1e-200), 1e200)  # a quantile of 1e-320 has no force to speak of
    if sigma is None:
        assert tau is not None
        return product / tau, tau
    if tau is None:
        tau = min(product / sigma, largest_tau)
    return sigma, tau


@dataclass(frozen=True)
class ChambollePock(ProximalAlgorithm):
    r"""Chambolle–Pock, with Condat's over-relaxation.

    .. math:: u^t = \phi(u^{t-1} - \sigma ((1 + \theta) v^{t-1} - \theta v^{t-2})), \qquad
              b^t = \psi(b^{t-1} - \tau \eta^t),

    where :math:`\phi` is the proximal map of the loss's conjugate with step
    :math:`\sigma/\sqrt n` and :math:`\psi` the penalty's with step :math:`\tau/\sqrt n`.

    Parameters
    ----------
    sigma, tau : float, optional
        Step sizes; safe while ``sigma * tau * ‖X‖² / n <= 1``. None chooses safe ones from the
        norm of X and the sizes of y and of the loss.
    theta : float, default=1.0
        Extrapolation, between 0 and 1.
    relaxation : float, default=1.0
        Over-relaxation, between 0 and 2 (exclusive); values other than 1 need ``theta=1``.
    """

    sigma: float | None = None
    tau: float | None = None
    theta: float = 1.0
    relaxation: float = 1.0

    def __post_init__(self) -> None:
        _store_steps(self, "sigma", "tau")
        store_number(self, "theta", low=0, high=1)
        store_number(self, "relaxation", low=0, high=2, open_low=True, open_high=True)
        if self.relaxation != 1 and self.theta != 1:
            raise ValueError("relaxation other than 1 needs theta = 1")

    def dual(self, prox: Prox, t: int, u: History, v: History) -> Array:
        # with over-relaxation, the unrelaxed b̂ was at v̂ = v⁻ + (v - v⁻) / relaxation
        sigma, ahead = _fixed(self.sigma), (1 + self.theta) / self.relaxation
        point = u[-1] - (sigma * ahead) * v[-1] - (sigma * (1 - ahead)) * _before(v)
        return _relaxed(prox(point), u[-1], self.relaxation)

    def primal(self, prox: Prox, t: int, b: History, eta: History) -> Array:
        return _relaxed(prox(b[-1] - self.tau * eta[-1]), b[-1], self.relaxation)

    def resolve(self, design: Design, y: Array, loss: Loss, penalty: Penalty) -> ChambollePock:
        if self.sigma is not None and self.tau is not None:
            return self
        sigma, tau = _balanced_steps(design, y, loss, penalty, self.sigma, self.tau)
        return replace(self, sigma=sigma, tau=tau)

    def dual_map(self, loss: Loss, n: int) -> DualMap:
        delta = _fixed(self.sigma) / math.sqrt(n)
        return DualMap(loss, step=1 / delta, factor=1 / delta)

    def prox_step(self, n: int) -> float:
        return _fixed(self.tau) / math.sqrt(n)

    def stability(self, design: Design, loss: Loss) -> tuple[str, float, float]:
        value = _fixed(self.sigma) * _fixed(self.tau) * _curvature(design)
        return "sigma * tau * ‖X‖² / n", value, 1.0


@dataclass(frozen=True)
class LinearizedADMM(ProximalAlgorithm):
    r"""Linearized ADMM on the split ``r = (y - X b) / √n``, its multiplier eliminated.

    .. math:: u^t = w + \rho\, \mathrm{prox}_{H/\rho}(-w/\rho), \quad
              w = u^{t-1} - \rho (2 v^{t-1} - v^{t-2}), \qquad
              b^t = \mathrm{prox}_{\alpha g}(b^{t-1} - \alpha \eta^t),

    with :math:`H(r) = h(\sqrt n\, r)`: Chambolle–Pock at ``theta = 1`` with duals ``√n`` times as
    large.

    Parameters
    ----------
    rho, alpha : float, optional
        Penalty parameter and step size; safe while ``rho * alpha * ‖X‖² / n <= 1``. None chooses
        safe ones.
    """

    rho: float | None = None
    alpha: float | None = None

    def __post_init__(self) -> None:
        _store_steps(self, "rho", "alpha")

    def dual(self, prox: Prox, t: int, u: History, v: History) -> Array:
        return prox(u[-1] - self.rho * (2 * v[-1] - _before(v)))

    def primal(self, prox: Prox, t: int, b: History, eta: History) -> Array:
        return prox(b[-1] - self.alpha * eta[-1])

    def resolve(self, design: Design, y: Array, loss: Loss, penalty: Penalty) -> LinearizedADMM:
        if self.rho is not None and self.alpha is not None:
            return self
        root_n = math.sqrt(design.n_rows)
        sigma = None if self.rho is None else self.rho / root_n
        tau = None if self.alpha is None else self.alpha * root_n
        sigma, tau = _balanced_steps(design, y, loss, penalty, sigma, tau)
        return replace(self, rho=sigma * root_n, alpha=tau / root_n)

    def dual_map(self, loss: Loss, n: int) -> DualMap:
        root_n = math.sqrt(n)
        return DualMap(
            loss, step=n / _fixed(self.rho), factor=root_n / _fixed(self.rho), scale=root_n
        )

    def prox_step(self, n: int) -> float:
        return _fixed(self.alpha)

    def stability(self, design: Design, loss: Loss) -> tuple[str, float, float]:
        value = _fixed(self.rho) * _fixed(self.alpha) * _curvature(design)
        return "rho * alpha * ‖X‖² / n", value, 1.0


@dataclass(frozen=True)
class ProximalGradient(ProximalAlgorithm):
    r"""Proximal gradient (ISTA), for losses with a Lipschitz gradient.

    .. math:: u^t = -\nabla h(\sqrt n\, v^{t-1}), \qquad
              b^t = \psi(b^{t-1} - \mathrm{step}\, \eta^t),

    where :math:`\psi` is the penalty's proximal map with step :math:`\mathrm{step}/\sqrt n`.

    Parameters
    ----------
    step : float, optional
        Step size, in the units of Chambolle–Pock's ``tau``. None chooses ``n / ‖X‖²`` over the
        smoothness of the loss.
    """

    step: float | None = None

    #: Largest safe ``step * smoothness * ‖X‖² / n``.
    limit: ClassVar[float] = 2.0

    def __post_init__(self) -> None:
        _store_steps(self, "step")

    def dual(self, prox: Prox, t: int, u: History, v: History) -> Array:
        return prox(-self._ahead(t, v))

    def primal(self, prox: Prox, t: int, b: History, eta: History) -> Array:
        return prox(self._ahead(t, b) - self.step * eta[-1])

    def _ahead(self, t: int, history: History) -> Array:
        """Where the gradient is taken: at the last iterate, or with momentum beyond it."""
        return history[-1]

    def resolve(self, design: Design, y: Array, loss: Loss, penalty: Penalty) -> ProximalGradient:
        smoothness = self._smoothness(loss)
        if self.step is not None:
            return self
        norm = design.norm()
        step = 0.99 * design.n_rows / (smoothness * norm**2) if norm else 1.0
        return replace(self, step=min(step, 0.5 * penalty.max_step * math.sqrt(design.n_rows)))

    def dual_map(self, loss: Loss, n: int) -> DualMap:
        return DualMap(loss, step=0.0, factor=math.sqrt(n))

    def prox_step(self, n: int) -> float:
        return _fixed(self.step) / math.sqrt(n)

    def stability(self, design: Design, loss: Loss) -> tuple[str, float, float]:
        value = _fixed(self.step) * self._smoothness(loss) * _curvature(design)
        return "step * smoothness * ‖X‖² / n", value, self.limit

    def _smoothness(self, loss: Loss) -> float:
        if loss.smoothness is None:
            raise ValueError(
                f"{type(self).__name__} needs a loss with a Lipschitz gradient, and {loss!r} has "
                "none (smoothness is None); use ChambollePock or LinearizedADMM, or the loss "
                "Huber or Squared"
            )
        return loss.smoothness


@dataclass(frozen=True)
class FISTA(ProximalGradient):
    """Proximal gradient with Nesterov's momentum ``(t - 1) / (t + 2)``.

    Parameters
    ----------
    step : float, optional
        As for `ProximalGradient`, but only half as large a step is safe.
    """

    limit: ClassVar[float] = 1.0

    def _ahead(self, t: int, history: History) -> Array:
        momentum = (t - 1) / (t + 2)
        return (1 + momentum) * history[-1] - momentum * _before(history)


def _curvature(design: Design) -> float:
    """``‖X‖² / n``, as closely as a warning needs it."""
    return design.norm(tol=1e-3) ** 2 / design.n_rows


def _fixed(step: float | None) -> float:
    """Return a step size that `resolve` has fixed."""
    assert step is not None
    return step


def _store_steps(algorithm: ProximalAlgorithm, *names: str) -> None:
    for name in names:
        if getattr(algorithm, name) is not None:
            # one over it is a number, too
            store_number(algorithm, name, low=sys.float_info.min)
