r"""Penalties: what large coefficients cost.

A penalty gives its value, its proximal map

.. math:: \mathrm{prox}(b) = \arg\min_x \; g(x) + \|x - b\|^2 / (2\,\mathrm{step}),

and the structured Jacobian of that map. The proximal map of every separable penalty here is odd
and piecewise linear: zero up to a first knot, then a straight piece of known slope from each
knot to the next. A separable penalty therefore states its knots and slopes, and both the map and
its Jacobian follow.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from steinpath._support.arrays import Array, along_rows, clip, like, namespace, to_numpy
from steinpath._support.validation import check_array, store_number
from steinpath.problem._jacobians import (
    Diagonal,
    FreeLast,
    Groups,
    GroupwiseRankOne,
    Jacobian,
    OfColumns,
)
from steinpath.problem._registry import ParameterSpec, Registered, Registry

#: All penalties by name.
PENALTIES: Registry[Penalty] = Registry("penalty")


class Penalty(Registered, ABC):
    """A function of the coefficients that is added to the loss."""

    registry: ClassVar[Registry[Penalty]] = PENALTIES

    @abstractmethod
    def value(self, b: Array) -> Array:
        """Penalty of the coefficients ``b``."""

    @abstractmethod
    def prox(self, b: Array, step: float) -> Array:
        """Proximal map with the given step."""

    @abstractmethod
    def jacobian(self, b: Array, step: float) -> Jacobian:
        """Jacobian of `prox` at ``b``."""

    @abstractmethod
    def null_lam(self, gradient: Array) -> float:
        """Smallest ``lam`` that keeps ``b = 0``, given the gradient of the loss there.

        Infinite where no ``lam`` does.
        """

    @property
    def max_step(self) -> float:
        """Steps below this keep the proximal map single-valued."""
        return math.inf

    @property
    def isotropic(self) -> bool:
        """Whether the proximal map is a multiple of the identity."""
        return False

    def check_size(self, p: int) -> None:
        """Refuse a design whose number of columns does not fit."""

    def free(self, p: int) -> np.ndarray:
        """Which of ``p`` coefficients are not penalised at all."""
        return np.zeros(p, dtype=bool)

    def beside(self, others: Sequence[Penalty]) -> Penalty:
        """Return a penalty for blocks of columns: this one for the first, then the others."""
        return SideBySide((self, *others))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self), self._key()))

    def _key(self) -> tuple[Any, ...]:
        """Parameters as something hashable, arrays included."""
        values = (value for name, value in vars(self).items() if not name.startswith("_"))
        return tuple(v.tobytes() if isinstance(v, np.ndarray) else v for v in values)


# ------------------------------------------------------------------------------------------------
# Penalties that are sums over coefficients
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SeparablePenalty(Penalty):
    """A sum over coefficients, each with its own weight.

    Parameters
    ----------
    lam : float
        Strength of the penalty, on the paper's scale: the mean-loss scale times ``√n``.
    weights : array-like of shape (p,), optional
        Nonnegative factors of ``lam``, one per coefficient; 0 leaves a coefficient unpenalised.
        All ones by default.
    """

    lam: float
    weights: Any = field(default=None, kw_only=True)

    #: One ``lam`` for each column of a block; see `beside`.
    _lams: ClassVar[np.ndarray | None] = None

    def __post_init__(self) -> None:
        store_number(self, "lam", low=0)
        if self.weights is not None:
            object.__setattr__(self, "weights", _check_weights(self.weights))

    @abstractmethod
    def cost(self, size: Array, lam: Array) -> Array:
        """Penalty of coefficients of absolute value ``size``, each with its own ``lam``."""

    @abstractmethod
    def pieces(self, lam: Array, step: float) -> Sequence[tuple[Array, Array]]:
        """``(knot, slope)`` of each linear piece of the proximal map, from the first knot on."""

    def value(self, b: Array) -> Array:
        xp = namespace(b)
        return xp.sum(self.cost(xp.abs(b), like(self._lam(b), b)), axis=0)

    def prox(self, b: Array, step: float) -> Array:
        # the sum over the knots of the change of slope times what lies beyond
        pieces = self.pieces(self._lam(b), step)
        before = [0.0, *(slope for _, slope in pieces)]
        bends = [
            (slope - old) * (b - clip(b, -knot, knot))
            for (knot, slope), old in zip(pieces, before, strict=False)
        ]
        return reduce(operator.add, bends)

    def jacobian(self, b: Array, step: float) -> Diagonal:
        if self.isotropic and self._lams is None:
            ((_, slope),) = self.pieces(np.asarray(self.lam * self._weights(1)[0]), step)
            return Diagonal(float(slope))
        # ">=" makes an unpenalised coefficient, whose knots are all 0, move freely from 0
        xp = namespace(b)
        size = xp.abs(b)
        result = xp.zeros_like(b)
        for knot, slope in self.pieces(self._lam(b), step):
            result = xp.where(size >= knot, xp.zeros_like(b) + slope, result)
        return Diagonal(result)

    @property
    def isotropic(self) -> bool:
        pieces = self.pieces(np.asarray(self.lam), 1.0)
        alike = self.weights is None or np.ptp(self.weights) == 0
        return bool(alike and len(pieces) == 1 and pieces[0][0] == 0)

    def null_lam(self, gradient: Array) -> float:
        # the proximal map is zero up to its first knot, which is proportional to lam
        weights = self._weights(gradient.shape[0])
        knot, _ = self.pieces(np.asarray(1.0), 1.0)[0]
        size = np.abs(to_numpy(gradient))[weights > 0] / weights[weights > 0]
        if not size.max(initial=0.0):
            return 0.0
        return float(size.max()) / float(knot) if knot > 0 else math.inf

    def check_size(self, p: int) -> None:
        if self.weights is not None and len(self.weights) != p:
            raise ValueError(f"{self!r} has {len(self.weights)} weights, but X has {p} columns")

    def free(self, p: int) -> np.ndarray:
        return np.asarray(self._weights(p) == 0)

    def __repr__(self) -> str:
        shown = ((k, v) for k, v in vars(self).items() if k != "weights" and k[0] != "_")
        rest = [f"{k}={v:g}" for k, v in shown]
        return (
            f"{type(self).__name__}({', '.join(rest)}{', weights=…' * (self.weights is not None)})"
        )

    def beside(self, others: Sequence[Penalty]) -> Penalty:
        same = [other for other in others if isinstance(other, type(self))]
        if len(same) < len(others) or any(replace(each, lam=self.lam) != self for each in same):
            return super().beside(others)
        columns = copy(self)
        object.__setattr__(columns, "_lams", np.array([each.lam for each in (self, *same)]))
        return columns

    def _lam(self, b: Array) -> Array:
        lam = self.lam if self._lams is None else like(self._lams, b)
        return lam if self.weights is None else along_rows(like(self.weights, b), b) * lam

    def _weights(self, p: int) -> np.ndarray:
        return np.ones(p) if self.weights is None else self.weights


@dataclass(frozen=True, eq=False, repr=False)
class Lasso(SeparablePenalty):
    """``lam * Σ w_j |b_j|``.

    Parameters
    ----------
    lam : float
        Strength of the penalty, beside a loss of size ``n^{-1/2} Σ rho(r_i)``: ``√n`` times the
        ``alpha`` of scikit-learn's mean-loss objectives.
    weights : array-like of shape (p,), optional
        Nonnegative factors of ``lam``, one per coefficient; 0 leaves a coefficient unpenalised.

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

    def pieces(self, lam: Array, step: float) -> Sequence[tuple[Array, Array]]:
        return [(step * lam, 1.0)]


@dataclass(frozen=True, eq=False, repr=False)
class Ridge(SeparablePenalty):
    """``(lam / 2) * Σ w_j b_j²``.

    Parameters
    ----------
    lam, weights
        As for `Lasso`. With the squared loss, ``√n`` times ``lam`` is scikit-learn's ``Ridge``
        parameter.
    """

    name = "ridge"
    label = "ridge"

    def cost(self, size: Array, lam: Array) -> Array:
        return lam * size**2 / 2

    def pieces(self, lam: Array, step: float) -> Sequence[tuple[Array, Array]]:
        return [(0 * lam, 1 / (1 + step * lam))]


@dataclass(frozen=True, eq=False, repr=False)
class ElasticNet(SeparablePenalty):
    """``lam * Σ w_j (l1_ratio |b_j| + (1 - l1_ratio) b_j² / 2)``.

    Parameters
    ----------
    lam, weights
        As for `Lasso`.
    l1_ratio : float, default=0.5
        Share of the lasso, between 0 (ridge) and 1 (lasso).
    """

    l1_ratio: float = 0.5

    name = "elastic_net"
    label = "elastic net"
    parameter_spec = ParameterSpec(
        "l1_ratio", default=l1_ratio, low=0, high=1, help="Share of the lasso in the elastic net."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        store_number(self, "l1_ratio", low=0, high=1)

    def cost(self, size: Array, lam: Array) -> Array:
        return lam * (self.l1_ratio * size + (1 - self.l1_ratio) * size**2 / 2)

    def pieces(self, lam: Array, step: float) -> Sequence[tuple[Array, Array]]:
        return [(step * lam * self.l1_ratio, 1 / (1 + step * lam * (1 - self.l1_ratio)))]


@dataclass(frozen=True, eq=False, repr=False)
class MCP(SeparablePenalty):
    """Minimax concave penalty (Zhang, 2010).

    ``lam |b| - b² / (2 gamma)`` up to ``|b| = gamma lam``, constant beyond; ``lam`` stands for
    ``lam * w_j``.

    Parameters
    ----------
    lam, weights
        As for `Lasso`.
    gamma : float, default=3.0
        Where the penalty becomes flat, in units of ``lam``; above 1. The larger, the closer to
        the lasso.
    """

    gamma: float = 3.0

    name = "mcp"
    label = "MCP"
    parameter_spec = ParameterSpec(
        "gamma", default=gamma, low=1, open_low=True, help="Shape of MCP."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        store_number(self, "gamma", low=1, open_low=True)

    @property
    def max_step(self) -> float:
        return self.gamma

    def cost(self, size: Array, lam: Array) -> Array:
        inner = namespace(size).minimum(size, self.gamma * lam)
        return lam * inner - inner**2 / (2 * self.gamma)

    def pieces(self, lam: Array, step: float) -> Sequence[tuple[Array, Array]]:
        return [(step * lam, self.gamma / (self.gamma - step)), (self.gamma * lam, 1.0)]


@dataclass(frozen=True, eq=False, repr=False)
class SCAD(SeparablePenalty):
    """Smoothly clipped absolute deviation (Fan and Li, 2001).

    ``lam |b|`` up to ``lam``, a parabola up to ``a lam``, constant beyond; ``lam`` stands for
    ``lam * w_j``.

    Parameters
    ----------
    lam, weights
        As for `Lasso`.
    a : float, default=3.7
        Where the penalty becomes flat, in units of ``lam``; above 2.
    """

    a: float = 3.7

    name = "scad"
    label = "SCAD"
    parameter_spec = ParameterSpec("a", default=a, low=2, open_low=True, help="Shape of SCAD.")

    def __post_init__(self) -> None:
        super().__post_init__()
        store_number(self, "a", low=2, open_low=True)

    @property
    def max_step(self) -> float:
        return self.a - 1

    def cost(self, size: Array, lam: Array) -> Array:
        xp = namespace(size)
        inner = xp.minimum(size, self.a * lam)
        beyond = xp.maximum(inner - lam, xp.zeros_like(inner))
        return lam * inner - beyond**2 / (2 * (self.a - 1))

    def pieces(self, lam: Array, step: float) -> Sequence[tuple[Array, Array]]:
        bend = (self.a - 1) / (self.a - 1 - step)
        return [(step * lam, 1.0), ((1 + step) * lam, bend), (self.a * lam, 1.0)]


# ------------------------------------------------------------------------------------------------
# Penalties that are not
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GroupLasso(Penalty):
    """``lam * Σ_g w_g ‖b_g‖₂``: groups of coefficients enter or stay out together.

    Parameters
    ----------
    lam : float
        Strength of the penalty.
    groups : array-like of shape (p,)
        Label of each coefficient's group: integers or strings.
    weights : array-like of shape (number of groups,), optional
        Nonnegative factors of ``lam``, one per group in the order of the sorted labels; 0 leaves
        a group unpenalised. All ones by default; the square roots of the group sizes are
        another common choice.
    """

    lam: float
    groups: Any
    weights: Any = None
    _groups: Groups = field(init=False, repr=False)

    name = "group_lasso"
    label = "group lasso"

    def __post_init__(self) -> None:
        store_number(self, "lam", low=0)
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
        object.__setattr__(self, "_groups", Groups(labels))
        weights = np.ones(len(self._groups.names))
        if self.weights is not None:
            weights = _check_weights(self.weights)
            if len(weights) != len(self._groups.names):
                raise ValueError(
                    f"GroupLasso has {len(weights)} weights for {len(self._groups.names)} groups"
                )
        object.__setattr__(self, "weights", weights)

    def value(self, b: Array) -> Array:
        norms = self._norms(b)
        return namespace(b).sum(along_rows(self._lam(b), norms) * norms, axis=0)

    def prox(self, b: Array, step: float) -> Array:
        keep, _ = self._shrinkage(b, step)
        return self._groups.spread(keep) * b

    def jacobian(self, b: Array, step: float) -> GroupwiseRankOne:
        xp = namespace(b)
        keep, norms = self._shrinkage(b, step)
        # d(keep · b) = keep · (I - ẑẑᵀ) + ẑẑᵀ outside the dead zone, 0 inside
        curved = xp.where(keep > 0, 1 - keep, xp.zeros_like(keep))
        return GroupwiseRankOne(self._groups, keep, curved, b / self._groups.spread(norms))

    def null_lam(self, gradient: Array) -> float:
        norms = to_numpy(self._norms(gradient))
        size = norms[self.weights > 0] / self.weights[self.weights > 0]
        return float(size.max(initial=0.0))

    def check_size(self, p: int) -> None:
        if len(self.groups) != p:
            raise ValueError(
                f"GroupLasso has group labels for {len(self.groups)} coefficients, "
                f"but X has {p} columns"
            )

    def free(self, p: int) -> np.ndarray:
        return np.asarray(self.weights == 0)[self._groups.codes]

    def __repr__(self) -> str:
        return f"GroupLasso(lam={self.lam:g}, groups={len(self._groups.names)})"

    def _lam(self, b: Array) -> Array:
        return like(self.lam * self.weights, b)

    def _norms(self, b: Array) -> Array:
        xp = namespace(b)
        return xp.sqrt(self._groups.sum(b * b))

    def _shrinkage(self, b: Array, step: float) -> tuple[Array, Array]:
        """Return the factor that each group keeps, and its norm (at least the tiniest number)."""
        xp = namespace(b)
        norms = xp.clip(self._norms(b), float(xp.finfo(b.dtype).smallest_normal))
        dead_zone = along_rows(step * self._lam(b), norms)
        return 1 - dead_zone / xp.maximum(norms, dead_zone), norms


@dataclass(frozen=True, eq=False)
class NoPenalty(Penalty):
    """No penalty: the coefficients move freely."""

    name = "none"
    label = "no penalty"

    def value(self, b: Array) -> Array:
        return 0 * namespace(b).sum(b, axis=0)

    def prox(self, b: Array, step: float) -> Array:
        return b

    def jacobian(self, b: Array, step: float) -> Diagonal:
        return Diagonal(1.0)

    @property
    def isotropic(self) -> bool:
        return True

    def null_lam(self, gradient: Array) -> float:
        return math.inf

    def free(self, p: int) -> np.ndarray:
        return np.ones(p, dtype=bool)


@dataclass(frozen=True, eq=False, repr=False)
class FreeIntercept(Penalty):
    """Another penalty, with one unpenalised coefficient appended: the intercept's."""

    features: Penalty

    name = "free_intercept"

    def value(self, b: Array) -> Array:
        return self.features.value(b[:-1, ...])

    def prox(self, b: Array, step: float) -> Array:
        xp = namespace(b)
        return xp.concat([self.features.prox(b[:-1, ...], step), b[-1:, ...]], axis=0)

    def jacobian(self, b: Array, step: float) -> FreeLast:
        return FreeLast(self.features.jacobian(b[:-1, ...], step))

    def null_lam(self, gradient: Array) -> float:
        return self.features.null_lam(gradient[:-1, ...])

    @property
    def max_step(self) -> float:
        return self.features.max_step

    def check_size(self, p: int) -> None:
        self.features.check_size(p - 1)

    def free(self, p: int) -> np.ndarray:
        return np.append(self.features.free(p - 1), True)

    def beside(self, others: Sequence[Penalty]) -> Penalty:
        features = [other.features for other in others if isinstance(other, FreeIntercept)]
        assert len(features) == len(others)
        return FreeIntercept(self.features.beside(features))

    def __repr__(self) -> str:
        return repr(self.features)  # in messages, the penalty that the user chose


@dataclass(frozen=True, eq=False)
class SideBySide(Penalty):
    """Several penalties, one for each column of a block."""

    columns: tuple[Penalty, ...]

    name = "side_by_side"

    def value(self, b: Array) -> Array:
        return namespace(b).stack([each.value(b[:, k]) for k, each in enumerate(self.columns)])

    def prox(self, b: Array, step: float) -> Array:
        columns = [each.prox(b[:, k], step) for k, each in enumerate(self.columns)]
        return namespace(b).stack(columns, axis=1)

    def jacobian(self, b: Array, step: float) -> Jacobian:
        found = [each.jacobian(b[:, k], step) for k, each in enumerate(self.columns)]
        if not all(isinstance(each, Diagonal) for each in found):
            return OfColumns(tuple(found))
        one = namespace(b).ones_like(b[:, 0])
        entries = [one * each.entries for each in found if isinstance(each, Diagonal)]
        return Diagonal(namespace(b).stack(entries, axis=1))

    def null_lam(self, gradient: Array) -> float:
        return max(each.null_lam(gradient) for each in self.columns)

    @property
    def max_step(self) -> float:
        return min(each.max_step for each in self.columns)


def _check_weights(weights: Any) -> np.ndarray:
    array = to_numpy(check_array("weights", weights, ndim=1))
    if (array < 0).any():
        raise ValueError(f"weights must be nonnegative, got {array.min():g}")
    return np.array(array, dtype=float)  # a copy: the caller's array may change
