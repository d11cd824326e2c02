"""Test losses: what a prediction costs, one number per observation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from steinpath._support.arrays import Array, cast, namespace, take
from steinpath._support.validation import check_choice
from steinpath.problem._losses import LAD, EpsilonInsensitive, Huber, Loss, Quantile

PerObservation = Callable[[Array, Array], Array]
TestLoss = None | str | Loss | PerObservation


@dataclass(frozen=True)
class Criterion:
    """A named test loss with its parameter: a quantile, a width, or nothing.

    Calling it with ``y`` and predictions gives the loss of each observation.
    """

    name: str
    parameter: float = 0.0

    def __call__(self, y: Array, prediction: Array) -> Array:
        return CRITERIA[self.name](y - prediction, self.parameter)


def _pseudo_huber(r: Array, delta: float) -> Array:
    # delta² (√(1 + (r/delta)²) - 1), without cancellation at small r or overflow at large r/delta
    xp = namespace(r)
    return r * (delta * (r / (delta + xp.hypot(r, xp.full_like(r, delta)))))


#: Test losses by name, as functions of the prediction error and the parameter.
CRITERIA: dict[str, Callable[[Array, float], Array]] = {
    "absolute": lambda r, _: LAD().rho(r),
    "squared": lambda r, _: r * r,
    "huber": lambda r, delta: Huber(delta).rho(r),
    "pseudo_huber": _pseudo_huber,
    "epsilon_insensitive": lambda r, eps: EpsilonInsensitive(eps).rho(r),
    "quantile": lambda r, q: Quantile(q).rho(r),
}


def lipschitz(criterion: Criterion, risks: np.ndarray) -> np.ndarray:
    """How much two risks can differ, per root mean square difference of the predictions.

    Of shape (T, T). Squared error has no such constant, but its root is a norm: ``a² - b²`` is
    at most ``(a + b)`` times the distance.
    """
    if criterion.name == "squared":
        roots = np.sqrt(np.maximum(risks, 0))
        return np.asarray(roots[:, None] + roots)
    slopes = {"quantile": max(criterion.parameter, 1 - criterion.parameter)}
    slopes |= dict.fromkeys(("huber", "pseudo_huber"), criterion.parameter)
    return np.full((len(risks), len(risks)), slopes.get(criterion.name, 1.0))


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
        return Criterion(test_loss, _parameter(test_loss, loss))
    if isinstance(test_loss, type):
        raise TypeError(f"test_loss is the class {test_loss.__name__}; pass an instance")
    if callable(test_loss):
        return test_loss
    raise TypeError(
        f"test_loss must be a name, a loss, or a callable of (y, prediction); got {test_loss!r:.60}"
    )


def _parameter(name: str, loss: Loss | None) -> float:
    if name == "quantile":
        return (loss if isinstance(loss, Quantile) else Quantile()).q
    if name in ("huber", "pseudo_huber"):
        return (loss if isinstance(loss, Huber) else Huber()).delta
    if name == "epsilon_insensitive":
        return (loss if isinstance(loss, EpsilonInsensitive) else EpsilonInsensitive()).eps
    return 0.0


def observation_losses(criterion: PerObservation, y: Array, predictions: Array) -> Array:
    """Loss of each observation, for each row of predictions.

    Refuses callables that return anything else.
    """
    if isinstance(criterion, Criterion):
        return criterion(y, predictions)
    xp = namespace(y)
    rows = range(predictions.shape[0])
    return xp.stack([_checked(criterion(y, predictions[t, ...]), y) for t in rows])


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
        return criterion(take(y, rows), predictions)
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
    xp = namespace(y)
    shape = getattr(values, "shape", None)
    if shape != y.shape:
        raise ValueError(
            f"test_loss must return one number per observation, an array of shape {y.shape}; it "
            f"returned {type(values).__name__} of shape {shape}"
        )
    values = cast(xp.asarray(values), y.dtype)
    if not xp.all(xp.isfinite(values)):
        raise ValueError("test_loss returned NaN or infinite values for finite predictions")
    return values
