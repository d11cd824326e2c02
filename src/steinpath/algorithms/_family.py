"""The algorithms, each defined by its two updates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from steinpath._support.arrays import Array, namespace
from steinpath._support.validation import check_count, store_number
from steinpath.algorithms._base import (
    DualMap,
    History,
    Moment,
    PrimalDual,
    Progress,
    Prox,
    ProximalAlgorithm,
    at_most,
    before,
    curvature,
    largest_of,
)
from steinpath.design._base import Design
from steinpath.problem._losses import Loss
from steinpath.problem._penalties import Penalty
from steinpath.problem._rows import Rows


def _relaxed(new: Array, old: Array, relaxation: float) -> Array:
    """``old + relaxation * (new - old)``, and exactly ``new`` without over-relaxation."""
    return new if relaxation == 1 else old + relaxation * (new - old)


@dataclass(frozen=True)
class ChambollePock(PrimalDual):
    r"""Chambolle–Pock algorithm with Condat's over-relaxation.

    .. math:: u^t = \phi(u^{t-1} - \sigma ((1 + \theta) v^{t-1} - \theta v^{t-2})), \qquad
              b^t = \psi(b^{t-1} - \tau \eta^t),

    where :math:`\phi` is the proximal map of the loss's conjugate with step
    :math:`\sigma/\sqrt n` and :math:`\psi` the penalty's with step :math:`\tau/\sqrt n`.

    Parameters
    ----------
    sigma, tau : float, optional
        Step sizes, stable while ``sigma * tau * ‖X‖² / n <= 1``. None determines stable values from
        the norm of X and the sizes of y and of the loss gradient.
    theta : float, default=1.0
        Extrapolation parameter, between 0 and 1.
    relaxation : float, default=1.0
        Over-relaxation, between 0 and 2 (exclusive); values other than 1 require ``theta=1``.
    ratio : float or "auto", default=1.0
        If both step sizes are None, ``sigma`` is multiplied and ``tau`` divided by this ratio.
        "auto" tries a few ratios side by side for some dozen iterations and uses the one with the
        lowest objective. With collinear or one-hot columns this saves most of the iterations.
    """

    sigma: Any = None
    tau: Any = None
    theta: float = 1.0
    relaxation: float = 1.0
    ratio: Any = 1.0

    steady = True

    def __post_init__(self) -> None:
        super().__post_init__()
        store_number(self, "theta", low=0, high=1)
        store_number(self, "relaxation", low=0, high=2, open_low=True, open_high=True)
        if self.relaxation != 1 and self.theta != 1:
            raise ValueError("relaxation other than 1 requires theta=1")

    @property
    def slack(self) -> float:  # type: ignore[override]
        """Factor by which `stability` may exceed 1: 4/3 unless over-relaxed (Li and Yan, 2021)."""
        return 4 / 3 if self.relaxation == 1 else 1.0

    def dual(self, prox: Prox, t: int, u: History, v: History) -> Array:
        # with over-relaxation, the unrelaxed b̂ was at v̂ = v⁻ + (v - v⁻) / relaxation
        sigma, ahead = self.sigma, (1 + self.theta) / self.relaxation
        point = u[-1] - (sigma * ahead) * v[-1] - (sigma * (1 - ahead)) * before(v)
        return _relaxed(prox(point), u[-1], self.relaxation)

    def primal(self, prox: Prox, t: int, b: History, eta: History) -> Array:
        return _relaxed(prox(b[-1] - self.tau * eta[-1]), b[-1], self.relaxation)


@dataclass(frozen=True)
class HalpernPDHG(PrimalDual):
    r"""Chambolle–Pock with steps reflected and averaged with an anchor (reflected Halpern PDHG).

    With ``T(z)`` one step of Chambolle–Pock (at ``theta = 1``, the coefficients first) from
    ``z = (b, u)``,

    .. math:: z^t = \tfrac{t}{t+1} (2 T(z^{t-1}) - z^{t-1}) + \tfrac{1}{t+1} z^0,
              \qquad (b^t, u^{t+1}) = T(z^t) .

    The iterates of the path are the ``T(z^t)``, whose coefficients are sparse under a lasso
    penalty. Current first-order solvers of linear programs (HPR-LP, cuPDLPx) use this iteration.

    Parameters
    ----------
    sigma, tau : float, optional
        Step sizes, as for `ChambollePock`.
    restart : int, None or "auto", default=100
        Number of iterations after which the last ``T(z)`` becomes the new anchor ``z^0``,
        repeatedly; None keeps the first anchor. With 1 this is Chambolle–Pock. "auto" restarts when
        ``z`` has come closer to ``T(z)``, and then changes the ratio of the step sizes to that of
        the last movements of duals and coefficients. This halves the number of iterations to a
        precise minimum. It is for a single path, whose `schedule` is used by the runs without some
        rows and by the risk estimate.
    ratio : float or "auto", default=1.0
        As for `ChambollePock`.
    warmup : int, default=0
        Number of initial Chambolle–Pock iterations. Their result is the first anchor, a better one
        than zero, and early iterates predict better without reflections.
    schedule : tuple of (int, float), default=()
        Restarts of "auto" so far: iterations, and factors of the dual step from there on, by which
        the primal step is divided. The algorithm of a path has those of its run.

    References
    ----------
    H. Lu and J. Yang (2024), "Restarted Halpern PDHG for linear programming".
    H. Lu, Z. Peng and J. Yang (2025), "cuPDLPx: a further enhanced GPU-based first-order solver for
    linear programming".
    """

    sigma: Any = None
    tau: Any = None
    restart: int | str | None = 100
    ratio: Any = 1.0
    warmup: int = 0
    schedule: tuple[tuple[int, float], ...] = ()

    carries = True
    steady = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.restart, str):
            if self.restart != "auto":
                raise ValueError(
                    f"restart must be a number, None or 'auto', got {self.restart!r:.60}"
                )
        elif self.restart is not None:
            object.__setattr__(self, "restart", check_count("restart", self.restart))
        object.__setattr__(self, "warmup", check_count("warmup", self.warmup, low=0))

    def numbers(self, t: int) -> tuple[float, ...] | None:
        dual, primal = 1 + self._since(t - 1), self._since(t)
        return None if dual == 1 or primal == 0 else (_share(dual), _share(primal))

    def _since(self, t: int) -> int:
        """Return the number of iterations since the last restart, for the coefficients."""
        since = max(t - self._latest(t)[0], 0)
        return since % self.restart if isinstance(self.restart, int) else since

    def _latest(self, t: int) -> tuple[int, float]:
        """Return the last restart of the schedule up to an iteration, and its weight."""
        latest = (restart for restart in reversed(self.schedule) if restart[0] <= t)
        return next(latest, (self.warmup, 1.0))

    @property
    def adapts(self) -> bool:
        return isinstance(self.restart, str)

    def weight(self, t: int) -> float:
        return self._latest(t)[1]

    def adapted(
        self,
        t: int,
        u: History,
        b: History,
        rows: Rows,
        largest_tau: float,
        known: Progress | None,
    ) -> tuple[HalpernPDHG, Progress | None]:
        since, weight = self._since(t), self.weight(t)
        planned = bool(self.schedule) and self.schedule[-1][0] > t
        if since == 0 or u.carried is None or planned:
            return self, None
        # the dual has moved on to the mean that the next iteration starts from
        share = _share(1 + self._since(t - 1))
        (mean, _, anchor_u, _), (z, _, anchor_b, _) = u.carried, b.carried
        moved = (mean - (1 - share) * anchor_u) / share - u[-1]
        sizes = _sizes(rows, moved, b[-1] - z)
        sigma, tau = self.sigma * weight, self.tau / weight
        residual = math.hypot(sizes[0] / math.sqrt(sigma), sizes[1] / math.sqrt(tau))
        first, previous = known or (residual, residual)
        enough = residual <= _FAR * first or (residual <= _NEAR * first and residual > previous)
        if not enough and since < max(_LONGEST * t, 10):
            return self, Progress(first, residual)
        dual, primal = _sizes(rows, u[-1] - anchor_u, b[-1] - anchor_b)
        if dual > 0 and primal > 0:
            balanced = dual / primal * math.sqrt(self.tau / self.sigma)
            weight = min(max(math.sqrt(weight * balanced), 1 / _MOST_WEIGHT), _MOST_WEIGHT)
            weight = max(weight, self.tau / largest_tau)
        return replace(self, schedule=(*self.schedule, (t + 1, weight))), None

    def dual(self, prox: Prox, t: Any, u: History, v: History) -> Array:
        # z is the averaged dual, r the residual of the averaged coefficients; the anchor has z0, r0
        if isinstance(t, Moment):
            share = t.numbers[0]
        else:
            step = 1 + self._since(t - 1)
            share = _share(step)
            if step == 1:
                u.carried = u[-1], before(v), u[-1], before(v)
        z, r, z0, r0 = u.carried
        ahead = _reflected(v[-1], r)
        point = -self.sigma * ahead
        point += z
        new = prox(point)
        u.carried = _averaged(_reflected(new, z), z0, share), _averaged(ahead, r0, share), z0, r0
        return new

    def primal(self, prox: Prox, t: Any, b: History, eta: History) -> Array:
        # z are the averaged coefficients, g the gradient of the averaged dual; coefficients of a
        # step precede its dual, so a new anchor takes effect here first
        step = None if isinstance(t, Moment) else self._since(t)
        if step == 0:
            z, g, z0, g0 = b[-1], eta[-1], b[-1], eta[-1]
        else:
            share = t.numbers[1] if step is None else _share(step)
            z, g, z0, g0 = b.carried or (b[-1], 0 * eta[-1], b[-1], 0 * eta[-1])
            z = _averaged(_reflected(b[-1], z), z0, share)
            g = _averaged(_reflected(eta[-1], g), g0, share)
        b.carried = z, g, z0, g0
        return prox(z - self.tau * g)


def _reflected(new: Array, old: Array) -> Array:
    """Return ``2 * new - old``, a new array."""
    result = 2 * new
    result -= old
    return result


# Restart if the distance of z from T(z) is this share of that at the last restart, or the second
# share and rising, or after this share of all iterations; and the largest factor of the dual step.
_FAR, _NEAR, _LONGEST, _MOST_WEIGHT = 0.2, 0.5, 0.36, 1e3


def _sizes(rows: Rows, dual: Array, primal: Array) -> tuple[float, float]:
    """Return the norms of a change of the dual and of the coefficients."""
    xp = namespace(dual)
    squares = xp.sum(rows.total(dual * dual)), xp.sum(primal * primal)
    return math.sqrt(float(squares[0])), math.sqrt(float(squares[1]))


def _share(step: int) -> float:
    """Return the weight of a step in its mean with the anchor."""
    return step / (step + 1)


def _averaged(reflected: Array, anchor: Array, share: Any) -> Array:
    """Return a weighted mean, in place of the reflected array."""
    reflected *= share
    reflected += (1 - share) * anchor
    return reflected


@dataclass(frozen=True)
class LinearizedADMM(PrimalDual):
    r"""Linearized ADMM for the splitting ``r = (y - X b) / √n``, with the multiplier eliminated.

    .. math:: u^t = w + \rho\, \mathrm{prox}_{H/\rho}(-w/\rho), \quad
              w = u^{t-1} - \rho (2 v^{t-1} - v^{t-2}), \qquad
              b^t = \mathrm{prox}_{\alpha g}(b^{t-1} - \alpha \eta^t),

    with :math:`H(r) = h(\sqrt n\, r)`. This is Chambolle–Pock at ``theta = 1`` with duals ``√n``
    times as large.

    Parameters
    ----------
    rho, alpha : float, optional
        Penalty parameter and step size, stable while ``rho * alpha * ‖X‖² / n <= 1``. None
        determines stable values.
    ratio : float or "auto", default=1.0
        As for `ChambollePock`.
    """

    rho: Any = None
    alpha: Any = None
    ratio: Any = 1.0

    steps = ("rho", "alpha")
    slack = 4 / 3
    steady = True

    def dual(self, prox: Prox, t: int, u: History, v: History) -> Array:
        return prox(u[-1] - self.rho * (2 * v[-1] - before(v)))

    def primal(self, prox: Prox, t: int, b: History, eta: History) -> Array:
        return prox(b[-1] - self.alpha * eta[-1])

    def dual_unit(self, rows: Rows) -> Any:
        return rows.root


@dataclass(frozen=True)
class ProximalGradient(ProximalAlgorithm):
    r"""Proximal gradient algorithm (ISTA), for losses with a Lipschitz gradient.

    .. math:: u^t = -\nabla h(\sqrt n\, v^{t-1}), \qquad
              b^t = \psi(b^{t-1} - \mathrm{step}\, \eta^t),

    where :math:`\psi` is the penalty's proximal map with step :math:`\mathrm{step}/\sqrt n`.

    Parameters
    ----------
    step : float, optional
        Step size, in the units of ``tau`` of `ChambollePock`. None uses ``n / ‖X‖²`` divided by the
        smoothness constant of the loss.
    """

    step: Any = None

    steps = ("step",)
    steady = True

    #: Largest stable ``step * smoothness * ‖X‖² / n``.
    limit: ClassVar[float] = 2.0

    def dual(self, prox: Prox, t: int, u: History, v: History) -> Array:
        return prox(-self._ahead(t, v))

    def primal(self, prox: Prox, t: int, b: History, eta: History) -> Array:
        return prox(self._ahead(t, b) - self.step * eta[-1])

    def _ahead(self, t: int, history: History) -> Array:
        """Return the point at which the gradient is taken: the last iterate, plus any momentum."""
        return history[-1]

    def resolve(self, design: Design, y: Array, loss: Loss, penalty: Penalty) -> ProximalGradient:
        smoothness = self._smoothness(loss)
        if self.step is not None:
            return self
        norm = design.norm_bounds().high
        step = 0.99 * design.n_rows / (smoothness * norm**2) if norm else 1.0
        return replace(self, step=min(step, 0.5 * penalty.max_step * math.sqrt(design.n_rows)))

    def on_fewer_rows(self, share: Any) -> ProximalGradient:
        return replace(self, step=self.step * at_most(self.limit * share, 1.0))

    def dual_map(self, loss: Loss, rows: Rows) -> DualMap:
        return DualMap(loss, rows, step=0.0, factor=rows.root)

    def prox_step(self, rows: Rows) -> Any:
        return self.step / rows.root

    def stability(self, design: Design, loss: Loss) -> tuple[str, float, float]:
        value = largest_of(self.step) * self._smoothness(loss) * curvature(design)
        return "step * smoothness * ‖X‖² / n", value, self.limit

    def _smoothness(self, loss: Loss) -> float:
        if loss.smoothness is None:
            raise ValueError(
                f"{type(self).__name__} requires a loss with a Lipschitz gradient, which {loss!r} "
                "does not have (smoothness is None); use ChambollePock or HalpernPDHG, or the "
                "loss Huber or Squared"
            )
        return loss.smoothness


@dataclass(frozen=True)
class FISTA(ProximalGradient):
    """Proximal gradient algorithm with Nesterov momentum ``(t - 1) / (t + 2)``.

    Parameters
    ----------
    step : float, optional
        As for `ProximalGradient`, but the largest stable step is half as large.
    """

    limit: ClassVar[float] = 1.0

    def numbers(self, t: int) -> tuple[float]:
        return ((t - 1) / (t + 2),)

    def _ahead(self, t: Any, history: History) -> Array:
        momentum = t.numbers[0] if isinstance(t, Moment) else self.numbers(t)[0]
        return (1 + momentum) * history[-1] - momentum * before(history)
