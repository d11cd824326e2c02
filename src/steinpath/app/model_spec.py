"""Losses, penalties and test losses by their names, and in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from steinpath.engine._grid import PenaltyOf
from steinpath.problem._losses import LOSSES, EpsilonInsensitive, Huber, Loss
from steinpath.problem._penalties import PENALTIES, NoPenalty
from steinpath.problem._scoring import Criterion

# What people say in words of losses, penalties and errors.
LOSS_WORDS = {
    "lad": "LAD",
    "square_root": "square root",
    "quantile": "quantile",
    "huber": "Huber",
    "epsilon_insensitive": "ε-insensitive",
    "squared": "squared",
}
PENALTY_WORDS = {
    "lasso": "lasso",
    "ridge": "ridge",
    "elastic_net": "elastic net",
    "mcp": "MCP",
    "scad": "SCAD",
    "none": "no penalty",
}
# Names of the parameters of losses and penalties that have one.
_PARAMETERS = {
    "quantile": "q",
    "huber": "delta",
    "pseudo_huber": "delta",
    "epsilon_insensitive": "eps",
    "elastic_net": "l1_ratio",
    "mcp": "gamma",
    "scad": "a",
}


@dataclass(frozen=True, eq=False)
class Kind:
    """A loss and a penalty.

    Attributes
    ----------
    loss : Loss
        With its parameter.
    penalty : str
        Name of the penalty.
    penalty_of : callable
        The penalty of each ``lam``.
    """

    loss: Loss
    penalty: str
    penalty_of: PenaltyOf = field(repr=False)

    @property
    def words(self) -> str:
        """Name of both, such as "LAD + lasso"."""
        return f"{LOSS_WORDS[self.loss.name]} + {PENALTY_WORDS[self.penalty]}"


def make_kind(loss: str, penalty: str, y: np.ndarray, **parameters: float | None) -> Kind:
    """Return a loss and a penalty by their names.

    Parameters
    ----------
    loss, penalty : str
        Keys of `LOSS_WORDS` and `PENALTY_WORDS`.
    y : ndarray of shape (n,)
        The responses, which have a say in what a large residual is.
    **parameters : float, optional
        ``q``, ``delta``, ``eps``, ``l1_ratio``, ``gamma`` and ``a``; None for their defaults, which
        for ``delta`` and ``eps`` are so many robust standard deviations of y.
    """
    given = _with_defaults(y, parameters)
    kind: Any = LOSSES[loss]
    chosen: Loss = kind(given[_PARAMETERS[loss]]) if loss in _PARAMETERS else kind()
    if penalty == NoPenalty.name:
        return Kind(chosen, penalty, lambda lam: NoPenalty())
    shape = _PARAMETERS.get(penalty)
    of: Any = PENALTIES[penalty]
    return Kind(chosen, penalty, partial(of, **({shape: given[shape]} if shape in given else {})))


def make_criterion(test_loss: str, y: np.ndarray, **parameters: float | None) -> Criterion:
    """Return a test loss by its name, with the parameter that the loss of that name has."""
    given = _with_defaults(y, parameters)
    own = _PARAMETERS.get(test_loss)
    return Criterion(test_loss, 0.0 if own is None else given[own])


def _with_defaults(y: np.ndarray, parameters: dict[str, float | None]) -> dict[str, float]:
    """Return the parameters that were given, and defaults in units of y for those that need it."""
    spread = robust_spread(y)
    defaults = {"q": 0.5, "delta": Huber.delta * spread, "eps": EpsilonInsensitive.eps * spread}
    return defaults | {name: value for name, value in parameters.items() if value is not None}


def robust_spread(y: np.ndarray) -> float:
    """Return the standard deviation of a Gaussian of the same median absolute deviation.

    Where that is zero, the plain one of y.
    """
    deviation = float(np.median(np.abs(y - np.median(y)))) / 0.6744897501960817
    return deviation or float(np.std(y))


def error_words(criterion: Criterion) -> str:
    """Name what a risk is the mean of, such as "absolute error"."""
    words = {
        "absolute": "absolute error",
        "squared": "squared error",
        "huber": f"Huber loss (δ = {criterion.parameter:.3g})",
        "pseudo_huber": f"pseudo-Huber loss (δ = {criterion.parameter:.3g})",
        "epsilon_insensitive": f"error beyond {criterion.parameter:.3g}",
        "quantile": f"pinball loss at {criterion.parameter:.3g}",
    }
    return words[criterion.name]
