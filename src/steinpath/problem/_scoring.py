"""Test losses: what a prediction costs, one number per observation."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from steinpath._support.arrays import Array, cast, copied, namespace, take
from steinpath._support.validation import check_array, check_choice, is_own
from steinpath.problem._losses import LAD, EpsilonInsensitive, Huber, Loss, Quantile
from steinpath.problem._margins import Hinge, Logistic, MarginLoss, SquaredHinge, check_labels
from steinpath.problem._registry import Registered, Registry

PerObservation = Callable[[Array, Array], Array]
TestLoss = None | str | Loss | PerObservation
#: From an array of shape (T, rows) to means over the rows.
RowMean = Callable[[Array], Array]

#: All test losses by name.
CRITERIA: Registry[Criterion] = Registry("test loss")


@dataclass(frozen=True)
class Criterion(Registered, ABC):
    """A named test loss. Calling it with ``y`` and predictions gives the loss of each observation.

    A subclass has a `name`, a `label`, which may have a place for the parameter, and `rho`.

    Parameters
    ----------
    parameter : float, default=0.0
        A quantile or a width; 0 for a test loss that has no parameter.
    """

    parameter: float = 0.0

    registry: ClassVar[Registry[Criterion]] = CRITERIA
    #: Whether it is one of labels -1 and 1.
    margin: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.parameter_spec is not None:
            object.__setattr__(self, "parameter", self.parameter_spec.check(self.parameter))
        elif self.parameter != 0:
            raise ValueError(f"the test loss {self.name!r} has no parameter, got {self.parameter}")

    @abstractmethod
    def rho(self, r: Array) -> Array:
        """Loss of each prediction error ``y - prediction``."""

    @property
    def slope(self) -> float:
        """Lipschitz constant of `rho`."""
        return 1.0

    def for_differences(self, predictions: Array, mean: RowMean | None = None) -> Criterion:
        """Return a test loss whose differences have about the same mean, and vary less.

        Parameters
        ----------
        predictions : Array of shape (T, m)
            What it is to compare with others: for each of several iterates, of some rows.
        mean : callable, optional
            How to take the mean over all rows, if these are not all of them.
        """
        return self

    def __call__(self, y: Array, prediction: Array) -> Array:
        return self.rho(y - prediction)

    @property
    def words(self) -> str:
        """What a risk is the mean of, such as "absolute error"."""
        return self.label.format(self.parameter)

    def lipschitz(self, risks: np.ndarray) -> np.ndarray:
        """How much two risks can differ, per root mean square difference of the predictions.

        Parameters
        ----------
        risks : ndarray of shape (T,)
            The risks.

        Returns
        -------
        ndarray of shape (T, T)
        """
        return np.full((len(risks), len(risks)), self.slope)


class AbsoluteError(Criterion):
    """``|r|``."""

    name = "absolute"
    label = "absolute error"

    def rho(self, r: Array) -> Array:
        return LAD().rho(r)


class SquaredError(Criterion):
    """``r²``."""

    name = "squared"
    label = "squared error"

    def rho(self, r: Array) -> Array:
        return r * r

    @property
    def slope(self) -> float:
        return math.inf

    def lipschitz(self, risks: np.ndarray) -> np.ndarray:
        # there is no constant, but the root is a norm: a² - b² is at most (a + b) |a - b|
        roots = np.sqrt(np.maximum(risks, 0))
        return np.asarray(roots[:, None] + roots)


class HuberError(Criterion):
    """``r² / 2`` up to ``|r| = delta``, and linear beyond; see `steinpath.Huber`."""

    name = "huber"
    label = "Huber loss (δ = {:.3g})"
    parameter_spec = Huber.parameter_spec

    def rho(self, r: Array) -> Array:
        return Huber(self.parameter).rho(r)

    @property
    def slope(self) -> float:
        return self.parameter


class PseudoHuberError(Criterion):
    """``delta² (√(1 + (r / delta)²) - 1)``, a smooth relative of the Huber loss."""

    name = "pseudo_huber"
    label = "pseudo-Huber loss (δ = {:.3g})"
    parameter_spec = replace(Huber.parameter_spec, high=math.inf)

    def rho(self, r: Array) -> Array:
        # without cancellation at small r, or overflow at large r / delta
        xp, delta = namespace(r), self.parameter
        return r * (delta * (r / (delta + xp.hypot(r, xp.full_like(r, delta)))))

    @property
    def slope(self) -> float:
        return self.parameter


class EpsilonInsensitiveError(Criterion):
    """``max(|r| - eps, 0)``; see `steinpath.EpsilonInsensitive`."""

    name = "epsilon_insensitive"
    label = "error beyond {:.3g}"
    parameter_spec = EpsilonInsensitive.parameter_spec

    def rho(self, r: Array) -> Array:
        return EpsilonInsensitive(self.parameter).rho(r)


class PinballError(Criterion):
    """``q max(r, 0) + (1 - q) max(-r, 0)``; see `steinpath.Quantile`."""

    name = "quantile"
    label = "pinball loss at {:.3g}"
    parameter_spec = Quantile.parameter_spec

    def rho(self, r: Array) -> Array:
        return Quantile(self.parameter).rho(r)

    @property
    def slope(self) -> float:
        return max(self.parameter, 1 - self.parameter)


# ------------------------------------------------------------------------------------------------
# Classification
# ------------------------------------------------------------------------------------------------

# Width of a smoothed step, relative to the root mean square of the margins.
_WIDTH = 0.2


@dataclass(frozen=True)
class MarginCriterion(Criterion):
    """A named test loss of labels -1 and 1, and predictions on the scale of the margin losses.

    A subclass gives `rho` as a function of the margin ``y * prediction``.

    Parameters
    ----------
    class_weight : pair of float or "balanced", optional
        How much rows of the classes -1 and 1 count.
    level : float, optional
        What was subtracted from labels and predictions alike; nothing by default.
    """

    class_weight: Any = None
    level: float | None = None

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

    def about(self, y: Array, level: float) -> MarginCriterion:
        """Return the same for labels and predictions less a level, with weights of mean 1.

        Once that is done it stays: the labels may be those of a block of the rows.
        """
        if self.level is not None:
            return self
        labels = check_labels(y, f"test_loss={self.name!r}", fewest=1)
        if self.class_weight is None:
            return replace(self, level=level)
        share = float((labels > 0).mean())
        balanced = isinstance(self.class_weight, str)
        low, high = (share, 1 - share) if balanced else self.class_weight
        mean = low + (high - low) * share
        return replace(self, level=level, class_weight=(low / mean, high / mean))

    def lipschitz(self, risks: np.ndarray) -> np.ndarray:
        return max(self.class_weight or (1.0,)) * super().lipschitz(risks)


class ZeroOneError(MarginCriterion):
    """1 for a prediction of the wrong sign, 1/2 for the prediction 0."""

    name = "zero_one"
    label = "error rate"

    def rho(self, r: Array) -> Array:
        return (1 - namespace(r).sign(r)) / 2

    @property
    def slope(self) -> float:
        return math.inf

    def for_differences(self, predictions: Array, mean: RowMean | None = None) -> Criterion:
        # where predictions change a little, few errors do: one of many rows, by a whole
        xp = namespace(predictions)
        squares = (predictions + (self.level or 0.0)) ** 2
        squares = (xp.mean(squares, axis=1) if mean is None else mean(squares))[:, None]
        return SmoothZeroOneError(
            class_weight=self.class_weight, level=self.level, width=_WIDTH * xp.sqrt(squares)
        )


@dataclass(frozen=True, eq=False)
class SmoothZeroOneError(MarginCriterion):
    """The zero-one loss with a step of a width.

    If the density of margins is smooth near zero, it is on average what the zero-one loss is.

    Parameters
    ----------
    width : Array of shape (T, 1), default=1.0
        Width of the step, for each row of predictions.
    """

    width: Any = 1.0

    def rho(self, r: Array) -> Array:
        tiny = float(namespace(r).finfo(r.dtype).smallest_normal)
        return Logistic().score(1 - r / (self.width + tiny), 0.0)


class LogError(MarginCriterion):
    """``log(1 + exp(-y z))``, where the prediction z is the log-odds of the class 1."""

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

    def rho(self, r: Array) -> Array:
        return Logistic().score(1 - r, 0.0) ** 2

    @property
    def slope(self) -> float:
        return 8 / 27


def resolve_test_loss(test_loss: TestLoss, loss: Loss | None = None) -> PerObservation:
    """Return the test loss as a callable of ``(y, prediction)``.

    Parameters
    ----------
    test_loss : None, str, Loss or callable
        None is the one matched to ``loss``; a string a key of `CRITERIA`, with the parameters of
        ``loss`` where it has them and the defaults of the loss classes otherwise; a `Loss` brings
        its own parameter.
    loss : Loss, optional
        Loss that was minimised.
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
    """Return a test loss with the parameter of the loss that was minimised, if that has it."""
    if issubclass(kind, MarginCriterion):
        if not isinstance(loss, MarginLoss):
            return kind()
        known = isinstance(loss.class_weight, str)
        return kind(class_weight=loss.class_weight if known else loss.weights)
    spec = kind.parameter_spec
    if spec is None:
        return kind()
    own = None if loss is None else loss.parameter_spec
    return kind(getattr(loss, spec.name) if own and own.name == spec.name else spec.default)


@dataclass(frozen=True, eq=False)
class OnScaleOfY:
    """A test loss of a user's own, which is told y and predictions of y: nothing is taken off them.

    Parameters
    ----------
    function : callable
        The test loss.
    y : Array of shape (n,)
        The responses.
    level : float
        What was subtracted from the responses and is missing in predictions.
    """

    function: PerObservation
    y: Array = field(repr=False)
    level: float

    @property
    def __name__(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def __call__(self, response: Array, prediction: Array) -> Array:
        return self.function(copied(self.y), cast(prediction, self.y.dtype) + self.level)


def about_level(criterion: PerObservation, y: Array, level: float) -> PerObservation:
    """Return a test loss to be called with responses and predictions less a level.

    Those of regression depend on their difference alone.
    """
    if isinstance(criterion, MarginCriterion):
        return criterion.about(y, level)
    return criterion if isinstance(criterion, Criterion) else OnScaleOfY(criterion, y, level)


def for_differences(
    criterion: PerObservation, predictions: Array, mean: RowMean | None = None
) -> PerObservation:
    """Return a test loss for differences; see `Criterion.for_differences`."""
    if isinstance(criterion, Criterion):
        return criterion.for_differences(predictions, *([] if mean is None else [mean]))
    return criterion


def observation_losses(criterion: PerObservation, y: Array, predictions: Array) -> Array:
    """Loss of each observation, for each row of predictions.

    A user's own test loss is handed copies, so that it may work in place, and what it returns is
    checked and copied: it may be one of its arguments, or the same array each time.
    """
    if isinstance(criterion, Criterion) and is_own(criterion):  # which works on blocks
        return criterion(y, predictions)
    losses = namespace(y).empty_like(predictions, dtype=y.dtype)
    for t in range(predictions.shape[0]):
        losses[t, ...] = _checked(criterion(copied(y), copied(predictions[t, ...])), y)
    return losses


def losses_at(
    criterion: PerObservation, y: Array, rows: np.ndarray, predictions: Array, others: Array
) -> Array:
    """Loss of some observations, for each row of predictions.

    Parameters
    ----------
    criterion : callable
        Test loss.
    y : Array of shape (n,)
        All responses.
    rows : ndarray of int of shape (m,)
        The observations, each once.
    predictions : Array of shape (T, m)
        Theirs.
    others : Array of shape (T, n)
        What a user's own test loss, which expects all observations, sees of the others.
    """
    if isinstance(criterion, Criterion):
        return observation_losses(criterion, take(y, rows), predictions)
    place = np.arange(y.shape[0])
    place[rows] = len(place) + np.arange(len(rows))
    everything = namespace(y).concat([others, predictions], axis=1)
    return take(observation_losses(criterion, y, take(everything, place, axis=1)), rows, axis=1)


def check_finite(predictions: Array) -> Array:
    """Return the predictions; refuse them unless all are finite."""
    xp = namespace(predictions)
    if not xp.all(xp.isfinite(predictions)):
        raise FloatingPointError(
            "the predictions are not finite, though the iterates are: the algorithm diverges when "
            "linearised, or with fewer rows; use smaller step sizes, or None for safe ones"
        )
    return predictions


def _checked(values: Any, y: Array) -> Array:
    """Return what a test loss returned, if it is one real number per observation."""
    shape = getattr(values, "shape", None)
    if not isinstance(shape, tuple) or shape != tuple(y.shape):
        raise ValueError(
            f"test_loss must return one number per observation, an array of shape "
            f"{tuple(y.shape)}; it returned {type(values).__name__} of shape {shape}"
        )
    if type(values) is np.ndarray and values.dtype == y.dtype and np.isfinite(values).all():
        return values  # often, and worth not looking further
    remedy = "a test loss must be finite for finite predictions"
    return check_array("the result of test_loss", values, ndim=1, reference=y, remedy=remedy)
