r"""Interface between algorithms and the engine, and the base class of proximal algorithms.

With :math:`v^t = (y - X b^t)/\sqrt n` and :math:`\eta^t = X^\top u^t/\sqrt n`, an algorithm is a
pair of maps that never see X:

.. math:: u^t = \phi^t(u^0, …, u^{t-1}, v^0, …, v^{t-1}), \qquad
          b^t = \psi^t(b^0, …, b^{t-1}, \eta^0, …, \eta^t).

A proximal algorithm implements each map as a few lines that are linear in the histories, apart from
one call of a proximal map. Called with its Jacobian instead, the same lines advance tangents.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, ClassVar, NamedTuple

import numpy as np

from steinpath._support.arrays import Array, clip, namespace, take
from steinpath._support.caching import cached_property
from steinpath._support.validation import check_returned, is_own, shown, store_number, warn
from steinpath.design._base import Design
from steinpath.problem._jacobians import Jacobian
from steinpath.problem._losses import Loss
from steinpath.problem._penalties import Penalty, jacobian_of, prox_of
from steinpath.problem._rows import Rows


class History(list[Array]):
    """Past blocks of shape (size, members, columns), the newest last."""

    #: Linear state of an update, such as an anchor or an average: a block or a tuple of blocks. It
    #: is None before the first update; an algorithm that sets it has ``carries = True``.
    carried: Any = None


@dataclass(frozen=True, eq=False)
class Moment:
    """An iteration of a recorded graph: its `Maps.numbers`, as an array on the device."""

    numbers: Array
    t: int  # an iteration with the same step sizes


class Progress(NamedTuple):
    """Distance from a fixed point, after the last restart and in the last iteration."""

    first: float
    latest: float


class Tangent(ABC):
    """Derivative of a map at one iteration, as a map of the histories of tangents."""

    @abstractmethod
    def __call__(self, first: History, second: History) -> Array:
        """Return the tangents of the map's value, given those of its arguments."""

    def support(self) -> Array | None:
        """Return a mask of the coordinates that can be nonzero; None for all."""
        return None

    def columns(self, times: Sequence[int]) -> list[Tangent]:
        """Return the derivatives at several iterations, which are the columns of a block."""
        raise NotImplementedError(f"{type(self).__name__} is defined at one iteration only")

    def part(self, coordinates: Any, dtype: Any) -> Tangent:
        """Return the derivative at some coordinates, in another precision; see `Jacobian.part`."""
        raise NotImplementedError(f"{type(self).__name__} does not implement part")

    def during(self, moment: Moment) -> Tangent:
        """Return the derivative with the numbers of its iteration on a device."""
        raise NotImplementedError(f"{type(self).__name__} does not implement during")


class Maps(ABC):
    """The two maps of a run and their derivatives: the engine's view of an algorithm."""

    #: Number of past states that the maps use; None for all.
    memory: ClassVar[int | None]
    #: Whether tangents have parts and supports, and members are possible. The maps then use past
    #: ``u``, ``v``, ``b`` and the newest ``eta``, row by row apart from one structured Jacobian.
    structured: ClassVar[bool]
    #: Whether updates carry a linear state, which requires a pass from the start.
    carries: bool = False
    #: Whether updates are the same in most iterations up to `numbers`, and use only the last ``u``
    #: and ``b``, the last two ``v``, the newest ``eta`` and the carried states.
    steady: bool = False

    def numbers(self, t: int) -> tuple[float, ...] | None:
        """Return the numbers by which the updates of an iteration differ from those of others.

        None if they differ in other ways. Updates accept a `Moment` with these numbers as ``t``.
        """
        return None

    def weight(self, t: int) -> float:
        """Return the factor of the step sizes at an iteration."""
        return 1.0

    @abstractmethod
    def dual(self, t: Any, u: History, v: History) -> Array:
        """Return ``u^t`` given ``u^0 … u^{t-1}`` and ``v^0 … v^{t-1}``."""

    @abstractmethod
    def primal(self, t: Any, b: History, eta: History) -> Array:
        """Return ``b^t`` given ``b^0 … b^{t-1}`` and ``eta^0 … eta^t``."""

    @abstractmethod
    def for_rows(self, rows: Rows, members: int) -> Maps:
        """Return the maps for other rows, with ``members`` copies of each, the first's first."""

    @abstractmethod
    def dual_tangent(self, t: int, u: History, v: History) -> Tangent:
        """Return the derivative of `dual` at these histories."""

    @abstractmethod
    def primal_tangent(self, t: int, b: History, eta: History) -> Tangent:
        """Return the derivative of `primal` at these histories."""


class Algorithm(ABC):
    """Algorithm that is bound to a problem to obtain a pair of maps."""

    @property
    def adapts(self) -> bool:
        """Whether it changes during the run of a path; see `ProximalAlgorithm.adapted`."""
        return False

    @abstractmethod
    def bind(
        self, design: Design, y: Array, loss: Loss, penalty: Penalty
    ) -> tuple[Algorithm, Maps]:
        """Return the algorithm with its final step sizes, and its maps, if it fits the problem."""

    @abstractmethod
    def why_diverged(self, design: Design, loss: Loss) -> str:
        """Return why an iterate may have become infinite, once the step sizes are fixed."""


# ------------------------------------------------------------------------------------------------
# Proximal algorithms
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DualMap:
    """``w ↦ -scale · ∇h_step(-factor · w)`` for the loss ``h`` smoothed by ``step``."""

    loss: Loss
    rows: Rows
    step: Any
    factor: Any
    scale: Any = 1.0

    def __call__(self, point: Array) -> Array:
        gradient = self.loss.gradient(-self.factor * point, self.step, self.rows)
        if not is_own(self.loss):
            gradient = check_returned(f"{type(self.loss).__name__}.gradient", gradient, point)
        return -self.scale * gradient

    def jacobian(self, point: Array) -> Jacobian:
        hessian = self.loss.hessian(-self.factor * point, self.step, self.rows)
        return hessian.affine(0.0, self.scale * self.factor)


@dataclass(frozen=True)
class PrimalMap:
    """Proximal map of ``step * penalty``."""

    penalty: Penalty
    step: Any

    def __call__(self, point: Array) -> Array:
        return prox_of(self.penalty, point, self.step)

    def jacobian(self, point: Array) -> Jacobian:
        return jacobian_of(self.penalty, point, self.step)


Prox = Callable[[Array], Array]


@dataclass(frozen=True)
class ProximalMaps(Maps):
    """Maps of a proximal algorithm bound to a problem."""

    algorithm: ProximalAlgorithm
    dual_map: DualMap
    primal_map: PrimalMap
    _weighted: dict[float, ProximalMaps] = field(default_factory=dict, repr=False, compare=False)

    memory = 2
    structured = True

    @property
    def carries(self) -> bool:  # type: ignore[override]
        return self.algorithm.carries

    @property
    def steady(self) -> bool:  # type: ignore[override]
        own = (self.algorithm, self.dual_map.loss, self.primal_map.penalty)
        return self.algorithm.steady and all(map(is_own, own))

    def numbers(self, t: int) -> tuple[float, ...] | None:
        return self.algorithm.numbers(t)

    def weight(self, t: int) -> float:
        return self.algorithm.weight(t)

    def dual(self, t: Any, u: History, v: History) -> Array:
        own = self._during(t, 1)
        return self._checked("dual", own.algorithm.dual(own.dual_map, t, u, v), u)

    def primal(self, t: Any, b: History, eta: History) -> Array:
        own = self._during(t)
        return self._checked("primal", own.algorithm.primal(own.primal_map, t, b, eta), b)

    def _during(self, t: Any, lag: int = 0) -> ProximalMaps:
        """Return the maps with the step sizes of an iteration, less a lag."""
        if not self.algorithm.adapts:
            return self
        return self._with(self.algorithm.weight((t.t if isinstance(t, Moment) else t) - lag))

    def _with(self, weight: float) -> ProximalMaps:
        if weight == 1:
            return self
        if weight not in self._weighted:
            names, (dual, primal) = self.algorithm.steps, (weight, 1 / weight)
            sizes = zip(names, (dual, primal), strict=True)
            own = {name: getattr(self.algorithm, name) * factor for name, factor in sizes}
            loss, penalty = self.dual_map.loss, self.primal_map.penalty
            algorithm = replace(self.algorithm, **own)  # type: ignore[type-var]
            self._weighted[weight] = algorithm.maps(loss, penalty, self.dual_map.rows)
        return self._weighted[weight]

    def _checked(self, name: str, value: Array, history: History) -> Array:
        """Check the result of a user-defined update."""
        if is_own(self.algorithm):
            return value
        return check_returned(f"{type(self.algorithm).__name__}.{name}", value, history[-1])

    def for_rows(self, rows: Rows, members: int) -> ProximalMaps:
        penalty, algorithm = self.primal_map.penalty, self.algorithm.repeated(members)
        share = rows.count / self.dual_map.rows.count
        if not isinstance(share, float) or share != 1:
            algorithm = algorithm.on_fewer_rows(share)
        loss = self.dual_map.loss.repeated(members)
        return algorithm.maps(loss, penalty.repeated(members), rows)

    def dual_tangent(self, t: int, u: History, v: History) -> Tangent:
        return self._tangent(self.algorithm.dual, self.dual_map, t, u, v)

    def primal_tangent(self, t: int, b: History, eta: History) -> Tangent:
        return self._tangent(self.algorithm.primal, self.primal_map, t, b, eta)

    def dual_point(self, t: int, u: History, v: History, value: Array) -> Array:
        """Return the point at which `dual` calls its map, given its value; states advance."""
        own = self._during(t, 1)
        return own._point(own.algorithm.dual, own.dual_map, t, u, v, value)

    def primal_point(self, t: int, b: History, eta: History, value: Array) -> Array:
        """Return the point at which `primal` calls its map, given its value; states advance."""
        own = self._during(t)
        return own._point(own.algorithm.primal, own.primal_map, t, b, eta, value)

    def tangents_at(self, dual: Array, primal: Array, dtype: Any) -> list[tuple[Tangent, Tangent]]:
        """Return the derivatives at each iteration, given all points where maps are called."""
        weights = [self.algorithm.weight(t) for t in range(dual.shape[2] + 1)]
        columns = list[list[Tangent]](([], []))
        for which, (lag, points) in enumerate(((1, dual), (0, primal))):
            of_times = enumerate(weights[1 - lag : len(weights) - lag])
            for weight, some in groupby(of_times, lambda pair: pair[1]):
                own, places = self._with(weight), [place for place, _ in some]
                block = points[:, :, places[0] : places[-1] + 1]
                update = own.algorithm.primal if which else own.algorithm.dual
                map_: DualMap | PrimalMap = own.primal_map if which else own.dual_map
                tangent = own._at(update, map_, 0, block).part(None, dtype)
                columns[which] += tangent.columns([place + 1 for place in places])
        return list(zip(*columns, strict=True))

    def _tangent(
        self, update: Update, prox: DualMap | PrimalMap, t: int, first: History, second: History
    ) -> Tangent:
        """Differentiate an update, by the Jacobian at the point where it calls the map."""
        return self._at(update, prox, t, self._point(update, prox, t, first, second))

    def _point(
        self,
        update: Update,
        prox: DualMap | PrimalMap,
        t: int,
        first: History,
        second: History,
        value: Array | None = None,
    ) -> Array:
        points = []
        # own updates that carry a state, which depends on the value of the map, return that value
        known = value is not None and is_own(self.algorithm)

        def record(point: Array) -> Array:
            points.append(point)
            if not self.carries:
                return point
            return value if known else prox(point)

        update(record, t, first, second)
        (point,) = points
        return point

    def _at(self, update: Update, prox: DualMap | PrimalMap, t: int, point: Array) -> Tangent:
        vanishes = self._vanish[update.__name__]
        return ProximalTangent(update, prox.jacobian(point), t, vanishes, self.carries)

    @cached_property
    def _vanish(self) -> dict[str, bool]:
        """Whether each update is zero where its map is; over-relaxation adds another term."""
        alone, ones = self.algorithm.member(0), [np.ones((1, 1, 1))] * 2
        return {
            update.__name__: not self.carries
            and not np.any(update(np.zeros_like, 2, History(ones), History(ones)))
            for update in (alone.dual, alone.primal)
        }


Update = Callable[[Prox, int, History, History], Array]


@dataclass(frozen=True, eq=False)
class ProximalTangent(Tangent):
    """An algorithm's update, called with a Jacobian in place of the proximal map."""

    update: Update
    jacobian: Jacobian
    t: Any  # an iteration, or a `Moment`
    vanishes: bool  # whether it is zero where the Jacobian is
    carries: bool  # whether the update carries a linear state

    def __call__(self, first: History, second: History) -> Array:
        if self.carries and first.carried is None and self.t > 1:
            # tangents that start here were zero before: the first update sets their state
            rest = History([0 * first[-1]])
            self.update(self.jacobian, 1, rest, History([0 * second[-1]]))
            first.carried = rest.carried
        return self.update(self.jacobian, self.t, first, second)

    def support(self) -> Array | None:
        return self.jacobian.support() if self.vanishes else None

    def columns(self, times: Sequence[int]) -> list[Tangent]:
        jacobians = self.jacobian.columns(len(times))
        return [replace(self, jacobian=own, t=t) for own, t in zip(jacobians, times, strict=True)]

    def part(self, coordinates: Any, dtype: Any) -> ProximalTangent:
        return self.by(self.jacobian.part(coordinates, dtype))

    def during(self, moment: Moment) -> ProximalTangent:
        return replace(self, t=moment)

    def by(self, jacobian: Jacobian) -> ProximalTangent:
        """Return the same update with another Jacobian."""
        return replace(self, jacobian=jacobian)


class ProximalAlgorithm(Algorithm):
    """Algorithm whose two updates each call one proximal map."""

    #: Names of its step sizes: numbers, arrays (members, 1), or None until they are determined.
    steps: ClassVar[tuple[str, ...]]
    #: Whether its updates carry a linear state; see `History`.
    carries: ClassVar[bool] = False
    #: Whether its updates are the same in most iterations up to `numbers`; see `Maps`.
    steady: ClassVar[bool] = False

    def numbers(self, t: int) -> tuple[float, ...] | None:
        """Return the numbers by which its updates at an iteration differ; see `Maps`."""
        return () if self.steady else None

    def weight(self, t: int) -> float:
        """Return the factor of the dual step, and divisor of the primal step, at an iteration."""
        return 1.0

    def adapted(
        self,
        t: int,
        u: History,
        b: History,
        rows: Rows,
        largest_tau: float,
        known: Progress | None,
    ) -> tuple[ProximalAlgorithm, Progress | None]:
        """Return the algorithm after an iteration, and its progress since it last changed."""
        return self, None

    def __post_init__(self) -> None:
        for name in self.steps:
            value = getattr(self, name)
            of_members = getattr(value, "ndim", 0) == 2 and value.shape[1] == 1
            if value is not None and not of_members:
                store_number(self, name, low=sys.float_info.min)  # its inverse is finite, too

    @abstractmethod
    def dual(self, prox: Prox, t: int, u: History, v: History) -> Array:
        """Advance the dual iterate, or its tangents if ``prox`` is a Jacobian."""

    @abstractmethod
    def primal(self, prox: Prox, t: int, b: History, eta: History) -> Array:
        """Advance the primal iterate, or its tangents if ``prox`` is a Jacobian."""

    @abstractmethod
    def resolve(self, design: Design, y: Array, loss: Loss, penalty: Penalty) -> ProximalAlgorithm:
        """Return the same algorithm with step sizes determined wherever they were None."""

    @abstractmethod
    def dual_map(self, loss: Loss, rows: Rows) -> DualMap:
        """Return the map that `dual` calls."""

    @abstractmethod
    def prox_step(self, rows: Rows) -> Any:
        """Return the step of the penalty's proximal map that `primal` calls."""

    @abstractmethod
    def stability(self, design: Design, loss: Loss) -> tuple[str, float, float]:
        """Return a formula of the step sizes, its value, and its upper limit."""

    def bind(
        self, design: Design, y: Array, loss: Loss, penalty: Penalty
    ) -> tuple[Algorithm, Maps]:
        bound = self.resolve(design, y, loss, penalty)
        # user-defined step sizes are not safe by construction
        if bound is self and (excess := self.excess(design, loss)):
            formula, value, limit = excess
            warn(
                f"{formula} = {value:.4g} is {value / limit:.4g} times the limit {limit:g}: "
                f"{type(self).__name__} may diverge; reduce the step sizes, or leave them at None "
                "for safe ones"
            )
        return bound, bound.maps(loss, penalty, design.rows)

    def maps(self, loss: Loss, penalty: Penalty, rows: Rows) -> ProximalMaps:
        """Return the maps of a problem, for fixed step sizes."""
        step = self.prox_step(rows)
        largest = largest_of(step)
        if largest >= penalty.max_step:
            raise ValueError(
                f"the proximal map of {penalty!r} is single-valued only for steps below "
                f"{penalty.max_step:g}, but {self!r} takes the step {largest:.4g} at "
                f"n = {rows.count}; use a smaller step size, or leave it at None"
            )
        return ProximalMaps(self, self.dual_map(loss, rows), PrimalMap(penalty, step))

    def excess(self, design: Design, loss: Loss) -> tuple[str, float, float] | None:
        """Return `stability` if the step sizes are too large; None if they are safe."""
        formula, value, limit = self.stability(design, loss)
        return (formula, value, limit) if value > limit * (1 + 1e-6) else None

    def why_diverged(self, design: Design, loss: Loss) -> str:
        if excess := self.excess(design, loss):
            formula, value, limit = excess
            return f"the step sizes are too large ({formula} = {value:.4g}; the limit is {limit:g})"
        return "the entries of X or y are too large to square; rescale them"

    def on_fewer_rows(self, share: Any) -> ProximalAlgorithm:
        """Return the algorithm with steps that are safe on any subset with this share of rows."""
        # which may have the norm of all rows: steps are then too large by the factor 1 / share
        return self

    def member(self, k: int) -> ProximalAlgorithm:
        """Return the algorithm of one member, if members have their own step sizes."""
        return self._with_steps(lambda steps: float(steps[k, 0]))

    def some(self, members: np.ndarray) -> ProximalAlgorithm:
        """Return the algorithm of some members."""
        return self._with_steps(lambda steps: take(steps, members))

    def repeated(self, members: int) -> ProximalAlgorithm:
        """Return the algorithm with each member repeated ``members`` times."""
        return self._with_steps(lambda steps: namespace(steps).repeat(steps, members, axis=0))

    def _with_steps(self, change: Callable[[Array], Any]) -> ProximalAlgorithm:
        """Change the step sizes that members have of their own."""
        sizes = {name: getattr(self, name) for name in self.steps}
        own = {name: change(size) for name, size in sizes.items() if getattr(size, "ndim", 0)}
        return replace(self, **own) if own else self  # type: ignore[type-var]


class PrimalDual(ProximalAlgorithm):
    """Algorithm with two fields, a dual and a primal step size whose product is bounded."""

    steps = ("sigma", "tau")
    #: Factor of the dual step and divisor of the primal step, if both are determined from the data;
    #: "auto" selects the best of a few values, see `steinpath.engine._run`.
    ratio: Any = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.ratio, str):
            store_number(self, "ratio", low=1e-6, high=1e6)
        elif self.ratio != "auto":
            raise ValueError(f"ratio must be a number or 'auto', got {shown(self.ratio)}")

    @property
    def searches(self) -> bool:
        """Whether the ratio of its steps is still to be determined."""
        given = (getattr(self, name) is not None for name in self.steps)
        return isinstance(self.ratio, str) and not any(given)

    def dual_unit(self, rows: Rows) -> Any:
        """Scale of its duals relative to those of Chambolle–Pock."""
        return 1.0

    def resolve(self, design: Design, y: Array, loss: Loss, penalty: Penalty) -> ProximalAlgorithm:
        given = [getattr(self, name) for name in self.steps]
        if all(step is not None for step in given):
            return self
        if self.searches:
            raise ValueError(
                "ratio='auto' requires the rows of X in this process; use a number such as 1.0"
            )
        ratio = 1.0 if isinstance(self.ratio, str) else self.ratio
        unit = self.dual_unit(design.rows)
        sigma, tau = (
            None if step is None else step * factor
            for step, factor in zip(given, (1 / unit, unit), strict=True)
        )
        sigma, tau = _balanced_steps(design, y, loss, penalty, sigma, tau, ratio)
        sizes = zip(self.steps, (sigma * unit, tau / unit), strict=True)
        return replace(self, **dict(sizes))  # type: ignore[type-var]

    #: Factor by which `stability` may exceed its limit before the algorithm diverges.
    slack: float = 1.0

    def on_fewer_rows(self, share: Any) -> ProximalAlgorithm:
        factor = at_most(self.slack * share, 1.0) ** 0.5
        sizes = {name: getattr(self, name) * factor for name in self.steps}
        return replace(self, **sizes)  # type: ignore[type-var]

    def dual_map(self, loss: Loss, rows: Rows) -> DualMap:
        step, unit = getattr(self, self.steps[0]), self.dual_unit(rows)
        inverse = rows.root * unit / step
        return DualMap(loss, rows, step=inverse, factor=inverse / unit, scale=unit)

    def prox_step(self, rows: Rows) -> Any:
        return getattr(self, self.steps[1]) * self.dual_unit(rows) / rows.root

    def stability(self, design: Design, loss: Loss) -> tuple[str, float, float]:
        product = getattr(self, self.steps[0]) * getattr(self, self.steps[1])
        value = largest_of(product) * curvature(design)
        return f"{' * '.join(self.steps)} * ‖X‖² / n", value, 1.0


def at_most(value: Any, limit: float) -> Any:
    """Return a nonnegative number, or each entry of an array, capped at a limit."""
    return clip(value, 0.0, limit) if hasattr(value, "ndim") else min(value, limit)


def largest_of(step: Any) -> float:
    """Return a step size, or the largest of those of the members."""
    return float(namespace(step).max(step)) if hasattr(step, "ndim") else step


def curvature(design: Design) -> float:
    """Lower bound of ``‖X‖² / n``: step sizes too large for it are certainly too large."""
    return design.norm_bounds().low ** 2 / design.n_rows


def _balanced_steps(
    design: Design, y: Array, loss: Loss, penalty: Penalty, sigma: Any, tau: Any, ratio: float
) -> tuple[Any, Any]:
    """Fill in missing step sizes so that ``sigma tau ‖X‖² / n`` is just below its limit."""
    # the duals have the size of the loss gradient and the residuals that of y: steps that move each
    # by its own size, apart from the ratio, make the path invariant to the units of X and y
    n, norm = design.n_rows, design.norm_bounds().high
    product = 0.99 * n / norm**2 if norm else 1.0
    largest_tau = 0.5 * penalty.max_step * math.sqrt(n)
    if sigma is None and tau is None:
        xp, rows = namespace(y), design.rows
        size = float(rows.total(xp.abs(y)))
        force = math.sqrt(n) * float(rows.total(xp.abs(loss.gradient(y, 0.0, rows))))
        # not quite 1: the first dual of the square-root loss would lie on the boundary of its ball
        sigma = ratio * (0.9 * force / size if force and size else 1.0)
        sigma = min(max(sigma, 1e-200), 1e200)  # a quantile level of 1e-320 has no gradient
    if sigma is None:
        return product / tau, tau
    if tau is None:
        tau = at_most(product / sigma, largest_tau)
    return sigma, tau


def before(history: History) -> Array:
    """Return the second-to-last entry; at the start, when there is none, the last one."""
    return history[-2:][0]
