r"""Margin losses for classification.

Responses are labels :math:`y_i = \pm 1`, fitted values are :math:`z_i = x_i^\top b`, and the loss
of a row is :math:`\rho(1 - y_i z_i)`. Since :math:`y_i^2 = 1`, the argument is :math:`y_i (y_i -
z_i)`: the residual times the label. A margin loss is therefore a loss of residuals like all others.
The labels are stored with the rows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from steinpath._support.arrays import (
    Array,
    along_members,
    along_rows,
    by_member,
    cast,
    clip,
    namespace,
    to_numpy,
)
from steinpath._support.validation import check_number, shown
from steinpath.problem._jacobians import Diagonal
from steinpath.problem._losses import SeparableLoss, _clipped_ratio, _inside, _inverse, _smoothing
from steinpath.problem._rows import Rows

# Halley steps for the proximal map of the logistic loss, in double precision and in single: from
# within 0.75 of the solution, two reduce the error to 2e-6, and the third is exact to rounding.
_HALLEY_STEPS, _IN_SINGLE = 3, 2


@dataclass(frozen=True)
class MarginLoss(SeparableLoss):
    """Margin loss ``n^{-1/2} Σ rho(1 - y_i z_i)``; rows without a label ``y_i`` are of class 1."""

    class_weight: Any = None

    margin = True
    of_members = ("class_weight",)
    #: Lipschitz constant of the derivative of ``rho``; None for a nonsmooth loss.
    curvature: ClassVar[float | None] = None
    #: Largest derivative of ``rho``; the smallest is 0.
    steepest: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.class_weight, np.ndarray):  # of members, (members, 2)
            return
        check_class_weight(self.class_weight, (-1, 1))
        if isinstance(self.class_weight, Mapping):  # which the caller may modify
            object.__setattr__(self, "class_weight", dict(self.class_weight))

    @abstractmethod
    def constant(self, share: float) -> float:
        """Return the constant fit that minimises the loss if the given share of the labels is 1."""

    def on(self, y: Array, weights: Array | None = None) -> Self:
        labels = check_labels(y, type(self).__name__)
        if isinstance(self.class_weight, str):
            counts = None if weights is None else to_numpy(weights).astype(float)
            totals = [float(np.average(labels == k, weights=counts)) for k in (-1, 1)]
            balanced = {k: 0.5 / total for k, total in zip((-1, 1), totals, strict=True)}
            return replace(self, class_weight=balanced)
        return self

    @property
    def weights(self) -> tuple[Any, Any] | None:
        """Weights of the classes -1 and 1, or of each member; None if they are equal."""
        if self.class_weight is None:
            return None
        if isinstance(self.class_weight, np.ndarray):
            return self.class_weight[:, 0], self.class_weight[:, 1]
        if isinstance(self.class_weight, str):
            raise ValueError(
                "class_weight='balanced' requires labels: run the loss on data, or pass a dict "
                "such as {-1: 1.0, 1: 5.0}"
            )
        low, high = (float(self.class_weight.get(k, 1.0)) for k in (-1, 1))
        return None if low == high == 1 else (low, high)

    @property
    def smoothness(self) -> float | None:  # type: ignore[override]
        """Lipschitz constant of ``√n ∇h``; None for a nonsmooth loss."""
        largest = float(np.max(self.weights or 1.0))
        return None if self.curvature is None else self.curvature * largest

    def _of_one(self, name: str, value: Any) -> Any:
        return dict(zip((-1, 1), value.tolist(), strict=True))

    def _of_several(self, name: str, values: Sequence[Any]) -> np.ndarray | None:
        if not all(isinstance(value, Mapping | None) for value in values):
            return None
        none: dict[int, float] = {}
        return np.array([[(one or none).get(k, 1.0) for k in (-1, 1)] for one in values])

    def value(self, r: Array, rows: Rows | None = None) -> Array:
        rows = rows or Rows.of(r)
        labels, weights = self._rows(r, rows)
        return rows.total(weights * self.rho(labels * r)) / rows.root

    def gradient(self, r: Array, step: Any = 0.0, rows: Rows | None = None) -> Array:
        labels, weights, scale, smoothing = self._smoothed(r, step, rows)
        return scale * (labels * (weights * self.score(labels * r, smoothing)))

    def hessian(self, r: Array, step: Any = 0.0, rows: Rows | None = None) -> Diagonal:
        labels, weights, scale, smoothing = self._smoothed(r, step, rows)
        return Diagonal(along_members(scale * weights * self.slope(labels * r, smoothing), r))

    def _smoothed(self, r: Array, step: Any, rows: Rows | None) -> tuple[Any, Any, Any, Any]:
        """Return the labels, weights and scale of the losses of the rows, and their smoothing."""
        rows = rows or Rows.of(r)
        (labels, weights), scale = self._rows(r, rows), 1 / rows.root
        return labels, weights, scale, _smoothing(weights, _smoothing(scale, step))

    def conjugate(self, w: Array, rows: Rows | None = None) -> Array:
        rows = rows or Rows.of(w)
        labels, weights = self._rows(w, rows)
        values = self.rho_conjugate(rows.root * labels * w / weights)
        return rows.total(weights * values) / rows.root

    def gauge(self, w: Array, rows: Rows | None = None) -> Array:
        xp, rows = namespace(w), rows or Rows.of(w)
        labels, weights = self._rows(w, rows)
        slopes = rows.root * labels * w / weights
        largest = xp.max(slopes, axis=0) / self.steepest
        return xp.where(xp.min(slopes, axis=0) < 0, xp.full_like(largest, math.inf), largest)

    def interior(self, rows: Rows) -> Array | None:
        if rows.labels is None:
            return None
        xp, labels = namespace(rows.labels), rows.labels
        # rows of each class in proportion to the size of the other class, so that the sums cancel
        balance = labels - rows.total(labels) / rows.total(xp.abs(labels))
        least = min(self.weights or (1.0,))
        return 0.9 * min(least, 1.0) / 2 / rows.root * balance

    def inside(self, w: Array, interior: Array, rows: Rows) -> Array:
        xp, (labels, _) = namespace(w), self._rows(w, rows)
        inner, slopes = labels * interior, labels * w
        return xp.min(xp.where(slopes < 0, inner / (inner - slopes), xp.ones_like(w)), axis=0)

    def location(self, y: Array, weights: Array | None = None) -> float:
        return self.constant(self._share(y, weights))

    def _share(self, y: Array, weights: Array | None) -> float:
        """Return the share of the label 1, weighted by class."""
        positive = to_numpy(y).astype(float) > 0
        counts = np.ones(len(positive)) if weights is None else to_numpy(weights).astype(float)
        low, high = self.weights or (1.0, 1.0)
        total, others = high * float(counts[positive].sum()), low * float(counts[~positive].sum())
        # half a row keeps the odds finite in runs without any row of one class
        least = float(np.finfo(float).eps) if total and others else 0.5 / len(positive)
        return min(max(total / (total + others), least), 1 - least)

    def _rows(self, r: Array, rows: Rows) -> tuple[Any, Any]:
        """Return the labels and weights of the rows of a block; scalars if they are constant."""
        if rows.labels is None:
            return 1.0, 1.0 if self.weights is None else self.weights[1]
        labels = along_rows(rows.labels, r)
        if self.weights is None:
            return labels, 1.0
        low, high = (by_member(weight, r) for weight in self.weights)
        return labels, (high + low) / 2 + (high - low) / 2 * labels


@dataclass(frozen=True)
class Hinge(MarginLoss):
    """Hinge loss of support vector machines, ``rho = max(1 - y z, 0)``.

    As for every separable loss, ``h = n^{-1/2} Σ rho``.

    Parameters
    ----------
    class_weight : dict or "balanced", optional
        Weights of the classes -1 and 1; see `Logistic`.

    Examples
    --------
    >>> import numpy as np
    >>> import steinpath as sp
    >>> float(sp.Hinge().value(np.array([2.0, 0.5, -3.0, 0.0])))  # of 1 - y z
    1.25
    """

    name = "hinge"
    label = "hinge"
    test_loss = "hinge"

    def rho(self, r: Array) -> Array:
        return clip(r, 0.0, math.inf)

    def score(self, r: Array, s: Any) -> Array:
        return _clipped_ratio(r, s, 0.0, 1.0)

    def slope(self, r: Array, s: Any) -> Array:
        return _inside(r, 0.0, s, _inverse(s))

    def rho_conjugate(self, w: Array) -> Array:
        return namespace(w).zeros_like(w)

    def constant(self, share: float) -> float:
        # the majority class; for equal classes, the midpoint of the optimal constants
        return 0.0 if math.isclose(share, 0.5, rel_tol=1e-12) else math.copysign(1.0, share - 0.5)

    def start(self, y: Array, weights: Array | None = None) -> float:
        # the optimal constant jumps where classes are equal and puts one of them at the kink; from
        # that of the squared hinge, paths depend continuously on class shares
        return 2 * self._share(y, weights) - 1


@dataclass(frozen=True)
class SquaredHinge(MarginLoss):
    """Squared hinge loss, ``rho = max(1 - y z, 0)² / 2``.

    As for every separable loss, ``h = n^{-1/2} Σ rho``.

    Parameters
    ----------
    class_weight : dict or "balanced", optional
        Weights of the classes -1 and 1; see `Logistic`.
    """

    name = "squared_hinge"
    label = "squared hinge"
    test_loss = "squared_hinge"
    curvature = 1.0
    steepest = math.inf

    def rho(self, r: Array) -> Array:
        return clip(r, 0.0, math.inf) ** 2 / 2

    def score(self, r: Array, s: Any) -> Array:
        return clip(r, 0.0, math.inf) / (1 + s)

    def slope(self, r: Array, s: Any) -> Array:
        return cast(r > 0, r.dtype) / (1 + s)

    def rho_conjugate(self, w: Array) -> Array:
        return w * w / 2

    def constant(self, share: float) -> float:
        return 2 * share - 1


@dataclass(frozen=True)
class Logistic(MarginLoss):
    """Logistic loss, ``rho = log(1 + exp(-y z))``, the negative log-likelihood of labels y.

    As for every separable loss, ``h = n^{-1/2} Σ rho``. Fitted values are the log-odds of class 1.

    Parameters
    ----------
    class_weight : dict or "balanced", optional
        Weights of the classes -1 and 1, such as ``{-1: 1.0, 1: 5.0}``. "balanced" uses weights
        inversely proportional to class frequencies. The estimated risk uses the same weights.

    Examples
    --------
    >>> import numpy as np
    >>> import steinpath as sp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 50))
    >>> y = np.where(X[:, 0] + rng.logistic(size=200) > 0, 1.0, -1.0)
    >>> path = sp.run(X, y, sp.Logistic(), sp.Lasso(0.5), n_iter=50, fit_intercept=True)
    >>> risk = sp.estimate_risk(path, test_loss="zero_one", rng=0)
    >>> bool(risk.train[-1] < risk.values[-1] < 0.5)
    True
    """

    name = "logistic"
    label = "logistic"
    test_loss = "log"
    curvature = 0.25

    def rho(self, r: Array) -> Array:
        return _softplus(r - 1)

    def score(self, r: Array, s: Any) -> Array:
        return _expit(self._at_prox(r, s))

    def slope(self, r: Array, s: Any) -> Array:
        x = self._at_prox(r, s)
        variance = _expit(x) * _expit(-x)
        return variance / (1 + s * variance)

    def rho_conjugate(self, w: Array) -> Array:
        return w + _entropy(w) + _entropy(1 - w)

    def constant(self, share: float) -> float:
        return math.log(share) - math.log1p(-share)

    def _at_prox(self, r: Array, s: Any) -> Array:
        """Return minus the margin ``y z`` at the proximal point of ``r = 1 - y z``."""
        return r - 1 if isinstance(s, float) and s == 0 else _solve_logistic(r - 1, s)


# ------------------------------------------------------------------------------------------------
# Functions of the logistic loss without overflow or cancellation
# ------------------------------------------------------------------------------------------------


def _solve_logistic(m: Array, s: Any) -> Array:
    r"""Return the solution x of ``x + s / (1 + exp(-x)) = m``.

    If x solves it for m, -x solves it for s - m, so only solutions below 0 are computed. There the
    left-hand side is convex. Halley steps start from the solution of :math:`x + s e^x = m`, which
    is :math:`m - \omega(m + \log s)` with Wright's omega function, approximated as in Iacono and
    Boyd (2017). The two left-hand sides differ by a factor of at most two, so the starting point is
    off by at most :math:`\log 2` plus the approximation error.
    """
    xp = namespace(m)
    # a step may underflow for tiny weights; it is often the same for all rows
    s = xp.zeros_like(m[:1, ...]) + s + float(xp.finfo(m.dtype).smallest_normal)
    log_s = xp.log(s)
    above = m > s / 2
    a = xp.where(above, s - m, m)
    # a start need not be accurate, and log1p takes several times as long as log
    start = a + log_s
    soft = clip(start, 0.0, math.inf) + xp.log(1 + xp.exp(-xp.abs(start)))
    omega = soft * (1 - xp.log(1 + soft) / (2 + soft))
    # use whichever of two equal expressions does not cancel
    x = xp.where(omega < 1, a - omega, xp.log(clip(omega, 1.0, math.inf)) - log_s)
    for _ in range(_IN_SINGLE if xp.finfo(m.dtype).bits == 32 else _HALLEY_STEPS):
        odds = xp.exp(x)  # at most about two
        share = odds / (1 + odds)
        bend = s * share * (1 - share)
        slope, error = 1 + bend, x + s * share - a
        # half of the second derivative is bend * (1 / 2 - share)
        x = x - error / (slope - error * bend * (0.5 - share) / slope)
    return xp.where(above, -x, x)


def _expit(x: Array) -> Array:
    """``1 / (1 + exp(-x))``."""
    xp = namespace(x)
    small = xp.exp(-xp.abs(x))
    return xp.where(x < 0, small, xp.ones_like(x)) / (1 + small)


def _softplus(x: Array) -> Array:
    """``log(1 + exp(x))``."""
    xp = namespace(x)
    return clip(x, 0.0, math.inf) + xp.log1p(xp.exp(-xp.abs(x)))


def _entropy(w: Array) -> Array:
    """``w log w``, also in the limit 0."""
    xp = namespace(w)
    return w * xp.log(xp.where(w > 0, w, xp.ones_like(w)))


# ------------------------------------------------------------------------------------------------
# Labels and class weights
# ------------------------------------------------------------------------------------------------


def check_labels(y: Array, name: str, fewest: int = 2) -> np.ndarray:
    """Return labels; ``name`` requires them to be -1 and 1, with ``fewest`` rows of each class."""
    # with one row of a class, leaving it out leaves a single class
    labels = to_numpy(y)
    values, counts = np.unique(labels, return_counts=True)
    if not np.isin(values, (-1, 1)).all():
        given = ", ".join(f"{value:g}" for value in values[:4]) + ", …" * (len(values) > 4)
        remedy = "use sp.PathClassifier, which accepts any labels and several classes"
        if len(values) <= 2:
            remedy = (
                "use numpy.where(y == positive, 1.0, -1.0), or sp.PathClassifier for any labels"
            )
        raise ValueError(f"{name} requires labels y of -1 and 1, got {given}: {remedy}")
    if len(values) < 2:
        raise ValueError(f"{name} requires two classes, but all labels y are {values[0]:g}")
    if counts.min() < fewest:
        rare = f"class {values[counts.argmin()]:g} has {counts.min()}"
        raise ValueError(
            f"{name} requires at least {fewest} rows of each class, but {rare}; holding it out "
            "would leave a single class"
        )
    return labels


def check_class_weight(class_weight: Any, classes: Any) -> None:
    """Refuse invalid class weights."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            "class_weight must be None, 'balanced' or a dict with the weight of each class; got "
            f"{shown(class_weight)}"
        )
    known = list(classes)
    for label, weight in class_weight.items():
        if label not in known:
            raise ValueError(
                f"class_weight has an unknown class {label!r}; the classes are {known}"
            )
        check_number(f"class_weight[{label!r}]", weight, low=0, open_low=True)


def class_probabilities(decision: Array, coupling: Any = (0.0, 1.0)) -> Array:
    """Return class probabilities (n, n_classes) from log-odds.

    These are of the second of two classes, (n,) or (n, 1), or of each class against the rest. With
    several classes, log-probabilities are combinations of log-odds and of one-vs-rest
    log-probabilities with the coefficients ``coupling``, up to a constant in each row.
    """
    xp = namespace(decision)
    if decision.ndim == 1 or decision.shape[1] == 1:
        decision = xp.reshape(decision, (-1,))
        return xp.stack([_expit(-decision), _expit(decision)], axis=1)
    return xp.exp(log_class_probabilities(decision, coupling))


def log_class_probabilities(decision: Array, coupling: Any = (0.0, 1.0)) -> Array:
    """Return the logarithms of `class_probabilities`, accurate for very small probabilities."""
    xp = namespace(decision)
    if decision.ndim == 1 or decision.shape[1] == 1:
        decision = xp.reshape(decision, (-1,))
        return xp.stack([-_softplus(decision), -_softplus(-decision)], axis=1)
    of_odds, of_shares = map(float, coupling)
    logs = of_odds * decision - of_shares * _softplus(-decision)
    logs = logs - xp.max(logs, axis=1, keepdims=True)
    return logs - xp.log(xp.sum(xp.exp(logs), axis=1, keepdims=True))
