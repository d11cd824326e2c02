"""Scoring losses: the loss of each prediction, one number per observation."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from steinpath._support.arrays import Array, cast, clip, namespace, read_only, take
from steinpath._support.printing import number
from steinpath._support.validation import check_array, check_choice, is_own
from steinpath.problem._losses import EpsilonInsensitive, Huber, Loss, Quantile
from steinpath.problem._margins import Hinge, Logistic, MarginLoss, SquaredHinge, check_labels
from steinpath.problem._registry import Registered

PerObservation = Callable[[Array, Array], Array]
TestLoss = None | str | Loss | PerObservation
#: Function from an array of shape (T, rows) to means over the rows.
RowMean = Callable[[Array], Array]

#: All scoring losses by name.
CRITERIA: dict[str, type[Criterion]] = {}


@dataclass(frozen=True)
class Criterion(Registered, ABC):
    """Named scoring loss: a function of ``y`` and predictions, with one value per observation.

    A subclass has a `name`, a `label` (which may format the parameter) and `rho`.

    Parameters
    ----------
    parameter : float, default=0.0
        Quantile level or width; 0 for a scoring loss without a parameter.
    """

    parameter: float = 0.0

    registry = CRITERIA
    #: Whether it is a loss for labels -1 and 1.
    margin: ClassVar[bool] = False
    #: Whether it is the squared error.
    quadratic: ClassVar[bool] = False
    #: Lipschitz constant of `rho`.
    slope: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if self.parameter_spec is not None:
            object.__setattr__(self, "parameter", self.parameter_spec.check(self.parameter))
        elif self.parameter != 0:
            raise ValueError(f"test_loss {self.name!r} takes no parameter, got {self.parameter}")

    @abstractmethod
    def rho(self, r: Array) -> Array:
        """Evaluate the loss of each prediction error ``y - prediction``."""

    def for_differences(self, predictions: Array, mean: RowMean | None = None) -> Criterion:
        """Return a scoring loss whose differences have about the same mean but lower variance.

        The predictions are (T, m); ``mean`` is over all rows, if these are some of them.
        """
        return self

    def __call__(self, y: Array, prediction: Array) -> Array:
        return self.rho(y - prediction)

    def of_best_constant(self, y: np.ndarray, weights: np.ndarray | None = None) -> float:
        """Return the mean loss of the constant prediction for which it is smallest."""
        from scipy.optimize import minimize_scalar  # takes long to import

        low, high = float(y.min()), float(y.max())

        def risk(constant: float) -> float:
            return float(np.average(self(y, np.full_like(y, constant)), weights=weights))

        # golden sections, which handle kinks of convex functions, over shares of the range
        best = minimize_scalar(
            lambda share: risk(low + share * (high - low)),
            bounds=(0.0, 1.0),
            options={"xatol": 1e-9},
        )
        return float(min(best.fun, risk(float(np.median(y)))))

    @property
    def words(self) -> str:
        """Description of the loss, such as "absolute error"."""
        # a label may also have a format of its own, such as "loss at {:.2f}"
        return self.label.replace("{}", number(self.parameter, 3)).format(self.parameter)

    def about(self, y: Array, level: float, weights: np.ndarray | None = None) -> Criterion:
        """Return the same loss for responses and predictions minus a level."""
        return self  # losses of regression depend only on their difference

    def lipschitz(self, risks: np.ndarray) -> np.ndarray:
        """Bound differences (T, T) of risks per root mean square difference of the predictions."""
        return np.full((len(risks), len(risks)), self.slope)


class AbsoluteError(Criterion):
    """``|r|``."""

    name = "absolute"
    label = "absolute error"

    def rho(self, r: Array) -> Array:
        return namespace(r).abs(r)


class SquaredError(Criterion):
    """``r²``."""

    name = "squared"
    label = "squared error"
    quadratic = True
    slope = math.inf

    def rho(self, r: Array) -> Array:
        return r * r

    def lipschitz(self, risks: np.ndarray) -> np.ndarray:
        # there is no constant, but the root is a norm: a² - b² is at most (a + b) |a - b|
        roots = np.sqrt(np.maximum(risks, 0))
        return np.asarray(roots[:, None] + roots)


class HuberError(Criterion):
    """``r² / 2`` up to ``|r| = delta`` and linear beyond; see `steinpath.Huber`."""

    name = "huber"
    label = "Huber loss (δ = {})"
    parameter_spec = Huber.parameter_spec

    def rho(self, r: Array) -> Array:
        return Huber(self.parameter).rho(r)

    @property
    def slope(self) -> float:  # type: ignore[override]
        return self.parameter


class PseudoHuberError(HuberError):
    """``delta² (√(1 + (r / delta)²) - 1)``, a smooth approximation of the Huber loss."""

    name = "pseudo_huber"
    label = "pseudo-Huber loss (δ = {})"
    parameter_spec = replace(Huber.parameter_spec, high=math.inf)

    def rho(self, r: Array) -> Array:
        # avoids cancellation at small r and overflow at large r / delta
        xp, delta = namespace(r), self.parameter
        return r * (delta * (r / (delta + xp.hypot(r, xp.full_like(r, delta)))))


class EpsilonInsensitiveError(Criterion):
    """``max(|r| - eps, 0)``; see `steinpath.EpsilonInsensitive`."""

    name = "epsilon_insensitive"
    label = "ε-insensitive loss (ε = {})"
    parameter_spec = EpsilonInsensitive.parameter_spec

    def rho(self, r: Array) -> Array:
        return EpsilonInsensitive(self.parameter).rho(r)


class PinballError(Criterion):
    """``q max(r, 0) + (1 - q) max(-r, 0)``; see `steinpath.Quantile`."""

    name = "quantile"
    label = "pinball loss at {}"
    parameter_spec = Quantile.parameter_spec

    def rho(self, r: Array) -> Array:
        return Quantile(self.parameter).rho(r)

    @property
    def slope(self) -> float:  # type: ignore[override]
        return max(self.parameter, 1 - self.parameter)


# Predictions are at most the largest response times the exponential of this number, so that sums
# of losses do not overflow.
_BEYOND = 20.0


@dataclass(frozen=True)
class OfLogarithms(Criterion):
    """Another loss of responses and predictions, given their logarithms minus a level."""

    of: Criterion = field(default_factory=AbsoluteError)
    level: float = 0.0
    most: float = math.inf

    slope = math.inf

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.of.name)  # in results

    @property
    def words(self) -> str:
        return self.of.words

    def rho(self, r: Array) -> Array:
        raise NotImplementedError("the loss depends on more than the difference of logarithms")

    def __call__(self, y: Array, prediction: Array) -> Array:
        xp = namespace(prediction)
        values = xp.exp(clip(prediction, -math.inf, self.most) + self.level)
        return self.of(xp.exp(y + self.level), values)

    def about(self, y: Array, level: float, weights: np.ndarray | None = None) -> OfLogarithms:
        return replace(self, level=level, most=float(namespace(y).max(y)) - level + _BEYOND)

    def of_best_constant(self, y: np.ndarray, weights: np.ndarray | None = None) -> float:
        return self.of.of_best_constant(np.exp(y), weights)


# ------------------------------------------------------------------------------------------------
# Classification
# ------------------------------------------------------------------------------------------------

# Width of the smoothed step, relative to the root mean square of the margins.
_WIDTH = 0.2


@dataclass(frozen=True)
class MarginCriterion(Criterion):
    """Scoring loss for labels -1 and 1, with `rho` a function of the margin ``y * prediction``."""

    class_weight: Any = None  # weights of the classes -1 and 1, or "balanced"
    level: float | None = None  # constant that was subtracted from labels and predictions

    margin = True

    def __call__(self, y: Array, prediction: Array) -> Array:
        xp = namespace(prediction)
        labels = xp.sign(y + self.level) if self.level else y
        margins = labels * (prediction + self.level if self.level else prediction)
        if self.class_weight is None:
            return self.rho(margins)
        low, high = self.class_weight
        return ((high + low) / 2 + (high - low) / 2 * labels) * self.rho(margins)

    @property
    def words(self) -> str:
        weighted = "" if self.class_weight is None else " with class weights"
        return self.label + weighted

    def of_best_constant(self, y: np.ndarray, weights: np.ndarray | None = None) -> float:
        low, high = self.class_weight or (1.0, 1.0)
        share = float(np.average(y > 0, weights=weights))
        share = high * share / (high * share + low * (1 - share))
        return _OF_CONSTANT[self.name](share, 1 - share)

    def about(self, y: Array, level: float, weights: np.ndarray | None = None) -> MarginCriterion:
        """Return the same loss for labels and predictions minus a level, with weights of mean 1."""
        # one that has a level keeps it, since the labels may be those of a block of the rows
        if self.level is not None:
            return self
        labels = check_labels(y, f"test_loss={self.name!r}", fewest=1)
        if self.class_weight is None:
            return replace(self, level=level)
        share = float(np.average(labels > 0, weights=weights))
        balanced = isinstance(self.class_weight, str)
        low, high = (share, 1 - share) if balanced else self.class_weight
        mean = low + (high - low) * share
        return replace(self, level=level, class_weight=(low / mean, high / mean))

    def lipschitz(self, risks: np.ndarray) -> np.ndarray:
        return max(self.class_weight or (1.0,)) * super().lipschitz(risks)


# Risk of the best constant decision, given the shares of both classes.
_OF_CONSTANT: dict[str, Callable[[float, float], float]] = {
    "zero_one": min,
    "log": lambda *shares: -sum(share * math.log(share) for share in shares if share > 0),
    "hinge": lambda *shares: 2 * min(shares),
    "squared_hinge": lambda one, other: 4 * one * other,
    "brier": lambda one, other: one * other,
}


class ZeroOneError(MarginCriterion):
    """1 for a prediction of the wrong sign, 1/2 for the prediction 0."""

    name = "zero_one"
    label = "error rate"
    slope = math.inf

    def rho(self, r: Array) -> Array:
        return (1 - namespace(r).sign(r)) / 2

    def for_differences(self, predictions: Array, mean: RowMean | None = None) -> Criterion:
        # small changes of the predictions change few errors, but each of these by 1
        xp = namespace(predictions)
        squares = (predictions + (self.level or 0.0)) ** 2
        squares = (xp.mean(squares, axis=1) if mean is None else mean(squares))[:, None]
        return SmoothZeroOneError(
            class_weight=self.class_weight, level=self.level, width=_WIDTH * xp.sqrt(squares)
        )


@dataclass(frozen=True, eq=False)
class SmoothZeroOneError(MarginCriterion):
    """Zero-one loss with a smoothed step, of about the same mean for smoothly spread margins."""

    width: Any = 1.0  # (T, 1): of the step, for each row of predictions

    def rho(self, r: Array) -> Array:
        tiny = float(namespace(r).finfo(r.dtype).smallest_normal)
        return Logistic().score(1 - r / (self.width + tiny), 0.0)


class LogError(MarginCriterion):
    """``log(1 + exp(-y z))``, where the prediction z is the log-odds of class 1."""

    name = "log"
    label = "log loss"

    def rho(self, r: Array) -> Array:
        return Logistic().rho(1 - r)


class HingeError(MarginCriterion):
    """``max(1 - y z, 0)``; see `steinpath.Hinge`."""

    name = "hinge"
    label = "hinge loss"

    def rho(self, r: Array) -> Array:
        return Hinge().rho(1 - r)


class SquaredHingeError(MarginCriterion):
    """``max(1 - y z, 0)²``; see `steinpath.SquaredHinge`."""

    name = "squared_hinge"
    label = "squared hinge loss"

    def rho(self, r: Array) -> Array:
        return 2 * SquaredHinge().rho(1 - r)

    def lipschitz(self, risks: np.ndarray) -> np.ndarray:
        return math.sqrt(max(self.class_weight or (1.0,))) * SquaredError().lipschitz(risks)


class BrierError(MarginCriterion):
    """``(1 - P(y))²``, where ``P(y) = 1 / (1 + exp(-y z))``."""

    name = "brier"
    label = "Brier score"
    slope = 8 / 27

    def rho(self, r: Array) -> Array:
        return Logistic().score(1 - r, 0.0) ** 2


def resolve_test_loss(test_loss: TestLoss, loss: Loss | None = None) -> PerObservation:
    """Return the scoring loss as a callable of ``(y, prediction)``.

    None selects the one matched to the minimised ``loss``. A name is a key of `CRITERIA`, with the
    parameter of ``loss`` if that has the same one. A `Loss` uses its own parameter.
    """
    if test_loss is None and loss is not None:
        test_loss = loss
    if isinstance(test_loss, Loss):
        loss, test_loss = test_loss, test_loss.test_loss
    if isinstance(test_loss, str):
        check_choice("test_loss", test_loss, CRITERIA)
        return _with_parameter(CRITERIA[test_loss], loss)
    if isinstance(test_loss, type):
        raise TypeError(f"test_loss is the class {test_loss.__name__}; pass an instance")
    if callable(test_loss):
        return test_loss
    raise TypeError(
        f"test_loss must be a name, a loss, or a callable of (y, prediction); got {test_loss!r:.60}"
    )


def _with_parameter(kind: type[Criterion], loss: Loss | None) -> Criterion:
    """Return a scoring loss with the parameter of the minimised loss, if it has the same one."""
    if issubclass(kind, MarginCriterion) and isinstance(loss, MarginLoss):
        balanced = isinstance(loss.class_weight, str)
        return kind(class_weight=loss.class_weight if balanced else loss.weights)
    spec = kind.parameter_spec
    if spec is None:
        return kind()
    own = None if loss is None else loss.parameter_spec
    return kind(getattr(loss, spec.name) if own and own.name == spec.name else spec.default)


@dataclass(frozen=True, eq=False)
class OnScaleOfY:
    """User-defined scoring loss, called with y and predictions on their original scale."""

    function: PerObservation
    y: Array = field(repr=False)
    level: float  # subtracted from the responses, and missing in the predictions

    @property
    def __name__(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def __call__(self, response: Array, prediction: Array) -> Array:
        prediction = cast(prediction, self.y.dtype) + self.level
        return self.function(read_only(self.y), read_only(prediction))


def about_level(
    criterion: PerObservation, y: Array, level: float, weights: np.ndarray | None = None
) -> PerObservation:
    """Return a scoring loss to be called with responses and predictions minus a level."""
    if isinstance(criterion, Criterion):
        return criterion.about(y, level, weights)
    return OnScaleOfY(criterion, y, level)


def for_differences(
    criterion: PerObservation, predictions: Array, mean: RowMean | None = None
) -> PerObservation:
    """Return a scoring loss for differences; see `Criterion.for_differences`."""
    if isinstance(criterion, Criterion):
        return criterion.for_differences(predictions, *([] if mean is None else [mean]))
    return criterion


def observation_losses(criterion: PerObservation, y: Array, predictions: Array) -> Array:
    """Return the loss of each observation, for each row of predictions."""
    # user-defined scoring losses receive one row at a time, and their results are checked
    if isinstance(criterion, Criterion) and is_own(criterion):  # works on blocks
        return criterion(y, predictions)
    losses = namespace(y).empty_like(predictions, dtype=y.dtype)
    given = read_only(y)
    for t in range(predictions.shape[0]):
        losses[t, ...] = _checked(criterion(given, read_only(predictions[t, ...])), y)
    return losses


def at_least_zero(criterion: PerObservation, risks: Array) -> Array:
    """Return estimated mean losses, raised to zero unless they may be negative."""
    return clip(risks, 0.0, math.inf) if isinstance(criterion, Criterion) else risks


def losses_at(
    criterion: PerObservation, y: Array, rows: np.ndarray, predictions: Array, others: Array
) -> Array:
    """Return the losses of some rows for predictions (T, m), with ``others`` (T, n) of all rows."""
    # user-defined scoring losses expect all rows; rows are not repeated
    if isinstance(criterion, Criterion):
        return observation_losses(criterion, take(y, rows), predictions)
    place = np.arange(y.shape[0])
    place[rows] = len(place) + np.arange(len(rows))
    everything = namespace(y).concat([others, predictions], axis=1)
    return take(observation_losses(criterion, y, take(everything, place, axis=1)), rows, axis=1)


def check_finite(predictions: Array) -> Array:
    """Return the predictions; raise an error unless all are finite."""
    xp = namespace(predictions)
    if not xp.all(xp.isfinite(predictions)):
        raise FloatingPointError(
            "predictions are not finite although the iterates are: the algorithm diverges on a "
            "part of the rows, or its derivative does; use smaller step sizes, or safe ones (None)"
        )
    return predictions


def _checked(values: Any, y: Array) -> Array:
    """Return the result of a scoring loss if it is one real number per observation."""
    shape = getattr(values, "shape", None)
    if not isinstance(shape, tuple) or shape != tuple(y.shape):
        raise ValueError(
            f"test_loss must return one number per observation, an array of shape "
            f"{tuple(y.shape)}; it returned {type(values).__name__} of shape {shape}"
        )
    if type(values) is np.ndarray and values.dtype == y.dtype and np.isfinite(values).all():
        return values  # the common case, decided fast
    remedy = "a scoring loss must be finite for finite predictions"
    return check_array("the result of test_loss", values, ndim=1, reference=y, remedy=remedy)
