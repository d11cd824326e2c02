"""Losses, penalties and scoring losses by name, with widths in units of the spread of y."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from steinpath.problem._grid import PenaltyOf
from steinpath.problem._losses import LOSSES, Loss
from steinpath.problem._penalties import PENALTIES, NoPenalty
from steinpath.problem._registry import ParameterSpec, Registered
from steinpath.problem._scoring import CRITERIA, Criterion
from steinpath.problem._spread import robust_spread


def loss_names() -> list[str]:
    """Return the losses that need only numbers as arguments."""
    return [name for name, kind in LOSSES.items() if _is_made_of(kind, ())]


def is_for_classes(loss: str) -> bool:
    """Whether a loss is for classification."""
    return LOSSES[loss].margin


def penalty_names() -> list[str]:
    """Return the penalties that need only numbers as arguments, and no groups."""
    return [name for name, kind in PENALTIES.items() if _is_made_of(kind, ("lam",))]


def _is_made_of(kind: type, given: Iterable[str]) -> bool:
    """Whether all arguments except the given ones have defaults."""
    arguments = inspect.signature(kind).parameters.values()
    return all(each.default is not each.empty or each.name in given for each in arguments)


def parameter_specs() -> dict[str, ParameterSpec]:
    """Return the parameters of all losses, penalties and scoring losses by name.

    If classes share a parameter, its limits are the widest of theirs; each class checks its own
    arguments.
    """
    kinds: list[type[Registered]] = [LOSSES[name] for name in loss_names()]
    kinds += [*(PENALTIES[name] for name in penalty_names()), *CRITERIA.values()]
    found: dict[str, ParameterSpec] = {}
    for spec in (kind.parameter_spec for kind in kinds):
        if spec is not None:
            found[spec.name] = _widest(found.get(spec.name, spec), spec)
    return found


def _widest(one: ParameterSpec, other: ParameterSpec) -> ParameterSpec:
    low, high = min(one.low, other.low), max(one.high, other.high)
    return replace(
        one,
        low=low,
        high=high,
        open_low=all(each.open_low for each in (one, other) if each.low == low),
        open_high=all(each.open_high for each in (one, other) if each.high == high),
    )


@dataclass(frozen=True, eq=False)
class ModelSpec:
    """A loss and a penalty.

    Attributes
    ----------
    loss : Loss
        The training loss.
    penalty : str
        Name of the penalty.
    penalty_of : callable
        Returns the penalty for ``lam``.
    """

    loss: Loss
    penalty: str
    penalty_of: PenaltyOf = field(repr=False)

    @classmethod
    def from_names(
        cls,
        loss: str,
        penalty: str,
        y: np.ndarray,
        class_weight: str | None = None,
        **parameters: float | None,
    ) -> ModelSpec:
        """Return a loss and a penalty by their names.

        Parameters
        ----------
        loss, penalty : str
            Names from `loss_names` and `penalty_names`.
        y : ndarray of shape (n,)
            The target; its robust standard deviation is the unit of some parameters.
        class_weight : str, optional
            For classification losses.
        **parameters : float, optional
            Values of `parameter_specs` by name; None for the default.
        """
        loss_class: Any = LOSSES[loss]
        weights = {} if class_weight is None else {"class_weight": class_weight}
        made: Loss = loss_class(**_arguments(loss_class, y, parameters), **weights)
        if penalty == NoPenalty.name:
            return cls(made, penalty, lambda lam: NoPenalty())
        of: Any = PENALTIES[penalty]
        return cls(made, penalty, partial(of, **_arguments(of, y, parameters)))

    @property
    def words(self) -> str:
        """Name of both, such as "LAD + lasso"."""
        return f"{self.loss.label} + {PENALTIES[self.penalty].label}"


def make_criterion(test_loss: str, y: np.ndarray, **parameters: float | None) -> Criterion:
    """Return a scoring loss by name, with the parameter of the training loss of that name."""
    kind = CRITERIA[test_loss]
    return kind(*_arguments(kind, y, parameters).values())


def _arguments(
    kind: type[Registered], y: np.ndarray, parameters: dict[str, float | None]
) -> dict[str, float]:
    """Return the parameter of a class by name, if it has one, in units of the class."""
    spec = kind.parameter_spec
    if spec is None:
        return {}
    given = parameters.get(spec.name)
    value = spec.default if given is None else given
    return {spec.name: spec.in_units(value, robust_spread(y))}
