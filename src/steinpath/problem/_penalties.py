r"""Penalties on the coefficients.

A penalty provides its value, its proximal map

.. math:: \mathrm{prox}(b) = \arg\min_x \; g(x) + \|x - b\|^2 / (2\,\mathrm{step}),

and the structured Jacobian of that map. The proximal map of a separable penalty is odd and
piecewise linear: zero up to a first knot, then linear with known slope from each knot to the next.
Such a penalty therefore specifies its knots and slopes, from which the map and its Jacobian follow.
"""

from __future__ import annotations

import functools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from steinpath._support.arrays import (
    Array,
    along_members,
    along_rows,
    by_member,
    clip,
    constant,
    like,
    namespace,
    to_numpy,
)
from steinpath._support.caching import cached_property
from steinpath._support.validation import (
    check_array,
    check_flag,
    check_returned,
    is_own,
    shown,
    store_number,
)
from steinpath.problem._jacobians import (
    Diagonal,
    FreeLast,
    Groups,
    GroupwiseRankOne,
    Jacobian,
    PerMember,
)
from steinpath.problem._registry import ParameterSpec, Registered, state_of

#: All penalties by name.
PENALTIES: dict[str, type[Penalty]] = {}


class Penalty(Registered, ABC):
    """Function of the coefficients that is added to the loss."""

    registry = PENALTIES
    #: Degrees of the losses for which its parts are in different units, so that it has a ``unit``.
    unit_for_degrees: ClassVar[tuple[int, ...]] = ()

    @abstractmethod
    def value(self, b: Array) -> Array:
        """Evaluate the penalty at the coefficients ``b``."""

    @abstractmethod
    def prox(self, b: Array, step: Any) -> Array:
        """Evaluate the proximal map with the given step."""

    @abstractmethod
    def jacobian(self, b: Array, step: Any) -> Jacobian:
        """Return the Jacobian of `prox` at ``b``."""

    @abstractmethod
    def null_lam(self, gradient: Array) -> float:
        """Return the smallest ``lam`` with optimum ``b = 0`` at this gradient, or infinity."""

    @property
    def max_step(self) -> float:
        """Upper bound of the steps for which the proximal map is single-valued."""
        return math.inf

    @property
    def largest_lam(self) -> float:
        """Largest ``lam`` of any coefficient, including weights; 0 if it is not known."""
        return 0.0

    @property
    def convex(self) -> bool:
        """Whether the penalty is convex."""
        return True

    def conjugate(self, z: Array) -> Array:
        """Evaluate the convex conjugate, the maximum of ``⟨z, b⟩ - value(b)``, where it is finite.

        A penalty that implements `conjugate` and `gauge` has a duality gap.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement conjugate")

    def gauge(self, z: Array) -> Array:
        """Return the smallest divisor of ``z`` for which the conjugate is finite."""
        raise NotImplementedError(f"{type(self).__name__} does not implement gauge")

    def to_domain(self, z: Array) -> Array:
        """Return a point near ``z`` where the conjugate is finite; ``z`` itself if possible."""
        xp, gauge = namespace(z), self.gauge(z)
        return z / xp.maximum(gauge, xp.ones_like(gauge))

    def derivative(self, size: Array) -> Array:
        """Return the derivative at coefficients of this absolute value; at 0, from the right."""
        raise NotImplementedError(f"{type(self).__name__} does not implement derivative")

    @property
    def isotropic(self) -> bool:
        """Whether the proximal map is a multiple of the identity."""
        return False

    def check_size(self, p: int) -> None:
        """Refuse a design with the wrong number of columns."""

    def free(self, p: int) -> np.ndarray:
        """Return which of ``p`` coefficients are unpenalised."""
        return np.zeros(p, dtype=bool)

    def beside(self, others: Sequence[Penalty]) -> Penalty:
        """Return the penalty of several members: this one for the first, then the others."""
        if all(same_penalty(self, other) for other in others):
            return self
        joint: Penalty | None = self.joined(others) if self.of_members else None
        return PerMemberPenalty((self, *others)) if joint is None else joint

    def __eq__(self, other: object) -> bool:
        return same_penalty(self, other)

    def __hash__(self) -> int:
        return hash((type(self), state_of(self)))


def prox_of(penalty: Penalty, b: Array, step: Any) -> Array:
    """Evaluate the proximal map; the result of user-defined penalties is checked."""
    if is_own(penalty):
        return penalty.prox(b, step)
    return check_returned(f"{type(penalty).__name__}.prox", penalty.prox(b, step), b)


def jacobian_of(penalty: Penalty, b: Array, step: Any) -> Jacobian:
    """Return the Jacobian of the proximal map; user-defined penalties are checked."""
    if is_own(penalty):
        return penalty.jacobian(b, step)
    jacobian: Any = penalty.jacobian(b, step)
    if not isinstance(jacobian, Jacobian):
        raise TypeError(
            f"{type(penalty).__name__}.jacobian must return a Jacobian such as "
            f"steinpath.problem.Diagonal(entries), got {shown(jacobian)}"
        )
    return jacobian


# ------------------------------------------------------------------------------------------------
# Separable penalties
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SeparablePenalty(Penalty):
    """Sum over coefficients, each with its own weight.

    Parameters
    ----------
    lam : float
        Regularisation strength, on the paper's scale: the mean-loss scale times ``√n``.
    weights : array-like of shape (p,), optional
        Nonnegative factors of ``lam``, one per coefficient; 0 leaves a coefficient unpenalised. All
        ones by default.
    positive : bool, default=False
        Whether negative coefficients are excluded.
    """

    lam: float
    weights: Any = field(default=None, kw_only=True)
    positive: bool = field(default=False, kw_only=True)

    of_members: ClassVar[tuple[str, ...]] = ("lam",)

    def __post_init__(self) -> None:
        _store_lam(self)
        if self.weights is not None:
            object.__setattr__(self, "weights", _nonnegative("weights", self.weights))
        check_flag("positive", self.positive)
        super().__post_init__()

    @abstractmethod
    def cost(self, size: Array, lam: Array) -> Array:
        """Penalty of coefficients of absolute value ``size``, each with its own ``lam``."""

    @abstractmethod
    def pieces(self, lam: Array, step: Any) -> Sequence[tuple[Array, Array]]:
        """Return ``(knot, slope)`` of each linear piece of the proximal map beyond zero."""

    def value(self, b: Array) -> Array:
        xp = namespace(b)
        value = xp.sum(self.cost(xp.abs(b), like(self._lam(b), b)), axis=0)
        return xp.where(xp.min(b, axis=0) < 0, math.inf, value) if self.positive else value

    def prox(self, b: Array, step: Any) -> Array:
        if self.positive:  # zero is the nearest to a negative one
            b = clip(b, 0.0, math.inf)
        # the sum over the knots of the change of slope times the distance beyond the knot
        bends, before = [], 0.0
        for knot, slope in self.pieces(self._lam(b), step):
            beyond, change, before = b - clip(b, -knot, knot), slope - before, slope
            one = isinstance(change, float) and change == 1  # as for the lasso
            bends.append(beyond if one else change * beyond)
        return functools.reduce(operator.add, bends)

    def jacobian(self, b: Array, step: Any) -> Diagonal:
        if self.isotropic:
            weight = float(self._weights(1)[0])
            ((_, slope),) = self.pieces(weight * by_member(self.lam, b), step)
            return Diagonal(along_members(slope, b))
        # ">=" lets an unpenalised coefficient, whose knots are all 0, move freely from 0
        xp = namespace(b)
        size = xp.abs(b)
        result = xp.zeros_like(b)
        for knot, slope in self.pieces(self._lam(b), step):
            result = xp.where(size >= knot, xp.zeros_like(b) + slope, result)
        return Diagonal(xp.where(b < 0, 0 * result, result) if self.positive else result)

    @property
    def isotropic(self) -> bool:
        pieces = self.pieces(np.asarray(self.lam), 1.0)
        alike = self.weights is None or np.ptp(self.weights) == 0
        linear = len(pieces) == 1 and np.all(pieces[0][0] == 0)
        return bool(alike and linear and not self.positive)

    def null_lam(self, gradient: Array) -> float:
        # the proximal map is zero up to its first knot, which is proportional to lam
        weights = self._weights(gradient.shape[0])
        knot, _ = self.pieces(np.asarray(1.0), 1.0)[0]
        size = to_numpy(self._size(gradient))[weights > 0] / weights[weights > 0]
        if not size.max(initial=0.0):
            return 0.0
        return float(size.max()) / float(knot) if knot > 0 else math.inf

    @property
    def convex(self) -> bool:
        # proximal maps of convex functions are nonexpansive
        pieces = self.pieces(np.asarray(self.lam), 1.0)
        return all(bool(np.all(np.asarray(slope) <= 1)) for _, slope in pieces)

    def derivative(self, size: Array) -> Array:
        xp, zero = namespace(size), namespace(size).zeros_like(size)
        pieces = self._derivative_pieces(size)
        result, before = zero + pieces[0][1], 0.0
        for knot, _, curvature in pieces:
            result = result + (curvature - before) * xp.maximum(size - knot, zero)
            before = curvature
        return xp.maximum(result, zero)  # rounding errors where it is flat

    def conjugate(self, z: Array) -> Array:
        # its derivative is the inverse of the penalty's derivative: integrate it piece by piece
        xp, zero = namespace(z), namespace(z).zeros_like(z)
        pieces = self._derivative_pieces(z)
        ends = [value for _, value, _ in pieces[1:]] + [math.inf]
        total = zero
        for (knot, value, curvature), end in zip(pieces, ends, strict=True):
            run = xp.minimum(xp.maximum(self._size(z) - value, zero), zero + (end - value))
            curved = curvature > 0  # elsewhere the piece has length zero
            divisor = xp.where(curved, 2 * curvature, xp.ones_like(curvature))
            total = total + knot * run + xp.where(curved, run, zero) ** 2 / divisor
        return xp.sum(total, axis=0)

    def gauge(self, z: Array) -> Array:
        return largest_ratio(self._size(z), self._bound(z))

    def to_domain(self, z: Array) -> Array:
        bound = self._bound(z)
        return clip(z, -math.inf if self.positive else -bound, bound)

    def _size(self, z: Array) -> Array:
        """Return how far slopes move coefficients from zero."""
        return clip(z, 0.0, math.inf) if self.positive else namespace(z).abs(z)

    @property
    def largest_lam(self) -> float:
        return float(np.max(self._weights(1))) * float(np.max(self.lam))

    def check_size(self, p: int) -> None:
        if self.weights is not None and len(self.weights) != p:
            raise ValueError(f"{self!r} has {len(self.weights)} weights, but X has {p} columns")

    def free(self, p: int) -> np.ndarray:
        return np.asarray(self._weights(p) == 0)

    def __repr__(self) -> str:
        hidden = {"weights", "unit"} if getattr(self, "unit", 1.0) == 1 else {"weights"}
        shown = {k: v for k, v in vars(self).items() if k not in hidden and k[0] != "_"}
        positive = shown.pop("positive")
        rest = [f"{k}={v:g}" if isinstance(v, float) else f"{k}=…" for k, v in shown.items()]
        rest += ["weights=…"] if self.weights is not None else []
        rest += ["positive=True"] if positive else []
        return f"{type(self).__name__}({', '.join(rest)})"

    def _bound(self, z: Array) -> Array:
        """Return the largest derivatives of the penalty, beyond which its conjugate is infinite."""
        xp = namespace(z)
        _, value, curvature = self._derivative_pieces(z)[-1]
        return xp.where(curvature > 0, xp.zeros_like(value) + math.inf, value)

    def _derivative_pieces(self, b: Array) -> list[tuple[Array, Array, Array]]:
        """Return the start, value and slope of each linear piece of the penalty's derivative."""
        # the inverse of the proximal map is the identity plus step times that derivative
        xp, zero = namespace(b), namespace(b).zeros_like(b[:1, ...])
        lam = zero + self._lam(b)
        # in units of lam, so that a small lam is not lost beside the identity
        tiny = float(xp.finfo(b.dtype).smallest_normal)
        step = xp.minimum(1 / xp.maximum(lam, zero + tiny), zero + self.max_step / 2)
        pieces, size, last, before = [], zero, zero, 0.0
        for knot, slope in self.pieces(lam, step):
            size, last, before = size + before * (knot - last), knot, slope
            with np.errstate(divide="ignore"):  # a slope of 0: no coefficient is larger
                curvature = (1 / (zero + slope) - 1) / step
            pieces.append((size, (knot - size) / step, curvature))
        return pieces

    def _lam(self, b: Array) -> Array:
        lam = by_member(self.lam, b)
        return lam if self.weights is None else along_rows(constant(self.weights, b), b) * lam

    def _weights(self, p: int) -> np.ndarray:
        return np.ones(p) if self.weights is None else self.weights


@dataclass(frozen=True, eq=False, repr=False)
class Lasso(SeparablePenalty):
    """``lam * Σ w_j |b_j|``.

    Parameters
    ----------
    lam : float
        Regularisation strength, for a loss of the form ``n^{-1/2} Σ rho(r_i)``: ``√n`` times the
        ``alpha`` of scikit-learn's mean-loss objectives.
    weights : array-like of shape (p,), optional
        Nonnegative factors of ``lam``, one per coefficient; 0 leaves a coefficient unpenalised.
    positive : bool, default=False
        Whether to exclude negative coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> import steinpath as sp
    >>> sp.Lasso(2.0).prox(np.array([-3.0, 0.5, 1.5]), step=0.5)
    array([-2. ,  0. ,  0.5])
    """

    name = "lasso"
    label = "lasso"

    def cost(self, size: Array, lam: Array) -> Array:
        return lam * size

    def pieces(self, lam: Array, step: Any) -> Sequence[tuple[Array, Array]]:
        return [(step * lam, 1.0)]


@dataclass(frozen=True, eq=False, repr=False)
class Ridge(SeparablePenalty):
    """``(lam / 2) * Σ w_j b_j²``.

    Parameters
    ----------
    lam, weights, positive
        As for `Lasso`. With the squared loss, ``√n`` times ``lam`` is the ``alpha`` of
        scikit-learn's ``Ridge``.
    """

    name = "ridge"
    label = "ridge"

    def cost(self, size: Array, lam: Array) -> Array:
        return lam * size**2 / 2

    def pieces(self, lam: Array, step: Any) -> Sequence[tuple[Array, Array]]:
        return [(0 * lam, 1 / (1 + step * lam))]


@dataclass(frozen=True, eq=False, repr=False)
class PenaltyWithUnit(SeparablePenalty):
    """A penalty of coefficients in a unit: ``unit`` times the penalty of ``b / unit``."""

    unit: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        store_number(self, "unit", low=0, open_low=True)
        super().__post_init__()


@dataclass(frozen=True, eq=False, repr=False)
class ElasticNet(PenaltyWithUnit):
    """``lam * Σ w_j (l1_ratio |b_j| + (1 - l1_ratio) b_j² / (2 unit))``.

    Parameters
    ----------
    lam, weights, positive
        As for `Lasso`.
    l1_ratio : float, default=0.5
        Mixing parameter, between 0 (ridge) and 1 (lasso).
    unit : float, default=1.0
        Unit of the coefficients. The estimators use the robust standard deviation of y, so that
        the mixture does not depend on the unit of y.
    """

    l1_ratio: float = 0.5

    name = "elastic_net"
    label = "elastic net"
    of_members = "lam", "l1_ratio"
    unit_for_degrees = (1, 2)
    parameter_spec = ParameterSpec(
        "l1_ratio",
        default=l1_ratio,
        low=0,
        high=1,
        help="Elastic net mixing parameter, between 0 (ridge) and 1 (lasso).",
    )

    def cost(self, size: Array, lam: Array) -> Array:
        ratio = _beside(self.l1_ratio, lam)
        return lam * (ratio * size + (1 - ratio) * size**2 / (2 * self.unit))

    def pieces(self, lam: Array, step: Any) -> Sequence[tuple[Array, Array]]:
        ratio = _beside(self.l1_ratio, lam)
        curvature = lam * ((1 - ratio) / self.unit)
        return [(step * lam * ratio, 1 / (1 + step * curvature))]


@dataclass(frozen=True, eq=False, repr=False)
class MCP(PenaltyWithUnit):
    """Minimax concave penalty (Zhang, 2010).

    ``lam |b| - b² / (2 gamma unit)`` up to ``|b| = gamma unit lam``, constant beyond, with ``lam *
    w_j`` in place of ``lam`` for coefficient j.

    Parameters
    ----------
    lam, weights, positive
        As for `Lasso`.
    gamma : float, default=3.0
        The penalty is constant beyond ``gamma * lam`` units; must exceed 1. Large values approach
        the lasso.
    unit : float, default=1.0
        Unit of the coefficients. The estimators use the robust standard deviation of y with
        losses that are proportional to y, such as LAD.
    """

    gamma: float = 3.0

    name = "mcp"
    label = "MCP"
    of_members = "lam", "gamma"
    unit_for_degrees = (1,)
    parameter_spec = ParameterSpec(
        "gamma", default=gamma, low=1, open_low=True, help="Concavity parameter of MCP."
    )

    @property
    def max_step(self) -> float:
        return float(np.min(self.gamma)) * self.unit

    def cost(self, size: Array, lam: Array) -> Array:
        width = _beside(self.gamma, lam) * self.unit
        inner = namespace(size).minimum(size, width * lam)
        return lam * inner - inner**2 / (2 * width)

    def pieces(self, lam: Array, step: Any) -> Sequence[tuple[Array, Array]]:
        width = _beside(self.gamma, lam) * self.unit
        return [(step * lam, width / (width - step)), (width * lam, 1.0)]


@dataclass(frozen=True, eq=False, repr=False)
class SCAD(PenaltyWithUnit):
    """Smoothly clipped absolute deviation (Fan and Li, 2001).

    ``lam |b|`` up to ``lam`` units, quadratic up to ``a lam`` units, constant beyond, with ``lam *
    w_j`` in place of ``lam`` for coefficient j.

    Parameters
    ----------
    lam, weights, positive, unit
        As for `MCP`.
    a : float, default=3.7
        The penalty is constant beyond ``a * lam`` units; must exceed 2.
    """

    a: float = 3.7

    name = "scad"
    label = "SCAD"
    of_members = "lam", "a"
    unit_for_degrees = (1,)
    parameter_spec = ParameterSpec(
        "a", default=a, low=2, open_low=True, help="Concavity parameter of SCAD."
    )

    @property
    def max_step(self) -> float:
        return (float(np.min(self.a)) - 1) * self.unit

    def cost(self, size: Array, lam: Array) -> Array:
        xp, a = namespace(size), _beside(self.a, lam)
        inner = xp.minimum(size, a * self.unit * lam)
        beyond = xp.maximum(inner - self.unit * lam, xp.zeros_like(inner))
        return lam * inner - beyond**2 / (2 * (a - 1) * self.unit)

    def pieces(self, lam: Array, step: Any) -> Sequence[tuple[Array, Array]]:
        a = _beside(self.a, lam)
        width = (a - 1) * self.unit
        bends = (self.unit + step) * lam, width / (width - step)
        return [(step * lam, 1.0), bends, (a * self.unit * lam, 1.0)]


# ------------------------------------------------------------------------------------------------
# Non-separable penalties
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GroupLasso(Penalty):
    """``lam * Σ_g w_g ‖b_g‖₂``: the coefficients of a group are selected together.

    Parameters
    ----------
    lam : float
        Regularisation strength.
    groups : array-like of shape (p,)
        Group label of each coefficient: integers or strings.
    weights : array-like of shape (number of groups,), optional
        Nonnegative factors of ``lam``, one per group in the order of the sorted labels; 0 leaves a
        group unpenalised. All ones by default; the square roots of the group sizes are another
        common choice.
    """

    lam: float
    groups: Any
    weights: Any = None

    name = "group_lasso"
    label = "group lasso"
    of_members: ClassVar[tuple[str, ...]] = ("lam",)

    def __post_init__(self) -> None:
        _store_lam(self)
        try:
            labels = np.array(self.groups)
            if labels.dtype == object and all(isinstance(name, str) for name in labels.flat):
                labels = labels.astype(str)
        except ValueError:  # ragged
            labels = np.empty(0)
        if labels.ndim != 1 or not labels.size or labels.dtype.kind not in "iuUS":
            raise ValueError(
                "groups must be one integer or string label per coefficient, "
                f"got {self.groups!r:.60}"
            )
        object.__setattr__(self, "groups", labels)
        count = len(self._groups.names)
        weights = np.ones(count) if self.weights is None else _nonnegative("weights", self.weights)
        if len(weights) != count:
            raise ValueError(f"GroupLasso has {len(weights)} weights for {count} groups")
        object.__setattr__(self, "weights", weights)

    @cached_property
    def _groups(self) -> Groups:
        return Groups(self.groups)

    def value(self, b: Array) -> Array:
        norms = self._norms(b)
        return namespace(b).sum(self._lam(norms) * norms, axis=0)

    def prox(self, b: Array, step: Any) -> Array:
        keep, _ = self._shrinkage(b, step)
        return self._groups.spread(keep) * b

    def jacobian(self, b: Array, step: Any) -> GroupwiseRankOne:
        xp = namespace(b)
        keep, norms = self._shrinkage(b, step)
        # d(keep · b) = keep · (I - ẑẑᵀ) + ẑẑᵀ for nonzero groups, 0 for zero groups
        curved = xp.where(keep > 0, 1 - keep, xp.zeros_like(keep))
        return GroupwiseRankOne(keep, curved, b / self._groups.spread(norms), self._groups)

    def null_lam(self, gradient: Array) -> float:
        norms = to_numpy(self._norms(gradient))
        size = norms[self.weights > 0] / self.weights[self.weights > 0]
        return float(size.max(initial=0.0))

    def conjugate(self, z: Array) -> Array:
        return namespace(z).zeros_like(z[0, ...])

    def gauge(self, z: Array) -> Array:
        norms = self._norms(z)
        return largest_ratio(norms, self._lam(norms))

    def to_domain(self, z: Array) -> Array:
        keep, _ = self._shrinkage(z, 1.0)
        # Moreau: the projection is what the proximal map removes
        return z - self._groups.spread(keep) * z

    @property
    def largest_lam(self) -> float:
        return float(np.max(self.weights)) * float(np.max(self.lam))

    def check_size(self, p: int) -> None:
        if len(self.groups) != p:
            given = f"GroupLasso has group labels for {len(self.groups)} coefficients"
            raise ValueError(f"{given}, but X has {p} columns")

    def free(self, p: int) -> np.ndarray:
        return np.asarray(self.weights == 0)[self._groups.codes]

    def __repr__(self) -> str:
        lam = f"{self.lam:g}" if isinstance(self.lam, float) else "…"
        return f"GroupLasso(lam={lam}, groups={len(self._groups.names)})"

    def _lam(self, norms: Array) -> Array:
        return along_rows(constant(self.weights, norms), norms) * by_member(self.lam, norms)

    def _norms(self, b: Array) -> Array:
        xp = namespace(b)
        return xp.sqrt(self._groups.sum(b * b))

    def _shrinkage(self, b: Array, step: Any) -> tuple[Array, Array]:
        """Return the shrinkage factor and the norm (bounded away from 0) of each group."""
        xp = namespace(b)
        norms = xp.clip(self._norms(b), float(xp.finfo(b.dtype).smallest_normal))
        dead_zone = step * self._lam(norms)
        return 1 - dead_zone / xp.maximum(norms, dead_zone), norms


@dataclass(frozen=True, eq=False)
class NoPenalty(Penalty):
    """No penalty."""

    name = "none"
    label = "no penalty"

    def value(self, b: Array) -> Array:
        return 0 * namespace(b).sum(b, axis=0)

    def prox(self, b: Array, step: Any) -> Array:
        return b

    def jacobian(self, b: Array, step: Any) -> Diagonal:
        return Diagonal(1.0)

    isotropic = True

    def null_lam(self, gradient: Array) -> float:
        return math.inf

    def conjugate(self, z: Array) -> Array:
        return namespace(z).zeros_like(z[0, ...])

    def gauge(self, z: Array) -> Array:
        xp = namespace(z)
        return largest_ratio(xp.abs(z), xp.zeros_like(z))

    def free(self, p: int) -> np.ndarray:
        return np.ones(p, dtype=bool)


@dataclass(frozen=True, eq=False, repr=False)
class FreeIntercept(Penalty):
    """Penalty on the features, with an unpenalised intercept as the last coefficient."""

    features: Penalty

    name = "free_intercept"

    def value(self, b: Array) -> Array:
        return self.features.value(b[:-1, ...])

    def prox(self, b: Array, step: Any) -> Array:
        xp = namespace(b)
        return xp.concat([prox_of(self.features, b[:-1, ...], step), b[-1:, ...]], axis=0)

    def jacobian(self, b: Array, step: Any) -> FreeLast:
        return FreeLast(jacobian_of(self.features, b[:-1, ...], step))

    def null_lam(self, gradient: Array) -> float:
        return self.features.null_lam(gradient[:-1, ...])

    @property
    def max_step(self) -> float:
        return self.features.max_step

    @property
    def convex(self) -> bool:
        return self.features.convex

    def conjugate(self, z: Array) -> Array:
        return self.features.conjugate(z[:-1, ...])

    def gauge(self, z: Array) -> Array:
        rest = NoPenalty().gauge(z[-1:, ...])
        return namespace(z).maximum(self.features.gauge(z[:-1, ...]), rest)

    def to_domain(self, z: Array) -> Array:
        parts = self.features.to_domain(z[:-1, ...]), NoPenalty().to_domain(z[-1:, ...])
        return namespace(z).concat(parts, axis=0)

    def derivative(self, size: Array) -> Array:
        xp, last = namespace(size), size[-1:, ...]
        return xp.concat([self.features.derivative(size[:-1, ...]), xp.zeros_like(last)], axis=0)

    def check_size(self, p: int) -> None:
        self.features.check_size(p - 1)

    def free(self, p: int) -> np.ndarray:
        return np.append(self.features.free(p - 1), True)

    def member(self, k: int) -> Penalty:
        return FreeIntercept(self.features.member(k))

    def repeated(self, members: int) -> Penalty:
        return FreeIntercept(self.features.repeated(members))

    def __repr__(self) -> str:
        return repr(self.features)  # messages show the penalty that the user passed


@dataclass(frozen=True, eq=False, repr=False)
class PerMemberPenalty(Penalty):
    """Penalties of different types, one per member."""

    each: tuple[Penalty, ...]

    def value(self, b: Array) -> Array:
        values = [own.value(b[:, k : k + 1, ...]) for k, own in enumerate(self.each)]
        return namespace(b).concat(values, axis=0)

    def prox(self, b: Array, step: Any) -> Array:
        values = [prox_of(*part) for part in self._parts(b, step)]
        return namespace(b).concat(values, axis=1)

    def jacobian(self, b: Array, step: Any) -> Jacobian:
        return PerMember(tuple(jacobian_of(*part) for part in self._parts(b, step)))

    def null_lam(self, gradient: Array) -> float:
        return max(own.null_lam(gradient) for own in self.each)

    @property
    def max_step(self) -> float:
        return min(own.max_step for own in self.each)

    @property
    def largest_lam(self) -> float:
        return max(own.largest_lam for own in self.each)

    def check_size(self, p: int) -> None:
        for own in self.each:
            own.check_size(p)

    def member(self, k: int) -> Penalty:
        return self.each[k]

    def repeated(self, members: int) -> Penalty:
        return PerMemberPenalty(tuple(own for own in self.each for _ in range(members)))

    def __repr__(self) -> str:
        return repr(min(self.each, key=lambda own: own.max_step))  # the one that limits the steps

    def _parts(self, b: Array, step: Any) -> list[tuple[Penalty, Array, Any]]:
        """Return the penalty, the coefficients and the step of each member."""
        own_steps = hasattr(step, "ndim")
        return [
            (own, b[:, k : k + 1, ...], step[k : k + 1, :] if own_steps else step)
            for k, own in enumerate(self.each)
        ]


def largest_ratio(size: Array, bound: Array) -> Array:
    """Return the largest ``size / bound`` of each column, with 0 / 0 taken as 0."""
    xp = namespace(size)
    zero = xp.zeros_like(size)
    bound = zero + bound
    ratio = size / xp.where(bound > 0, bound, zero + 1)
    unbounded = xp.where(size > 0, zero + math.inf, zero)
    return xp.max(xp.where(bound > 0, ratio, unbounded), axis=0)


def same_penalty(first: Any, second: Any) -> bool:
    """Whether two penalties have the same class and attributes, however the class compares them."""
    return type(first) is type(second) and state_of(first) == state_of(second)


def _store_lam(penalty: Any) -> None:
    """Check ``lam``: a number, or an array with one value per member."""
    if getattr(penalty.lam, "ndim", 0) == 0:
        store_number(penalty, "lam", low=0)
    else:
        object.__setattr__(penalty, "lam", _nonnegative("lam", penalty.lam))


def _beside(value: Any, lam: Any) -> Any:
    """Return a parameter to multiply ``lam``; both may have one value per member."""
    return by_member(value, lam) if getattr(lam, "ndim", 0) > 1 else value


def _nonnegative(name: str, values: Any) -> np.ndarray:
    array = to_numpy(check_array(name, values, ndim=1))
    if (array < 0).any():
        raise ValueError(f"{name} must be nonnegative, got {array.min():g}")
    return np.array(array, dtype=float)  # a copy: the caller may modify its array
