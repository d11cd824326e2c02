"""Losses, penalties and scoring losses by name, widths in units of y, and grids of ``lam``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from steinpath._support.arrays import Array, to_numpy
from steinpath._support.validation import check_array, check_choice, check_number
from steinpath.problem._losses import LAD, Loss, Quantile
from steinpath.problem._penalties import PENALTIES, NoPenalty, Penalty
from steinpath.problem._scoring import CRITERIA, TestLoss

#: Function from ``lam`` to a penalty.
PenaltyOf = Callable[[float], Penalty]

#: Maximum number of penalties on a grid; each has its own path.
MOST_LAMS = 10**4
#: Upper bound of ``lam`` that leaves room for other factors before overflow.
LARGEST_LAM = 1e300
# Median absolute deviation of the standard Gaussian.
_GAUSSIAN_MAD = 0.6744897501960817


def check_lam_values(name: str, values: Any) -> np.ndarray:
    """Return an array of nonnegative values of ``lam``."""
    lams = to_numpy(check_array(name, values, ndim=1)).astype(float)
    for extreme in (lams.min(), lams.max()):
        check_number(name, float(extreme), low=0, high=LARGEST_LAM)
    return lams


def make_penalty(penalty: PenaltyOf, lam: float) -> Penalty:
    """Return the penalty for one ``lam``; refuse arguments that are not functions of it."""
    if isinstance(penalty, Penalty) or not callable(penalty):
        raise TypeError(
            "penalty must be a function of lam, such as sp.Lasso itself or "
            f"functools.partial(sp.MCP, gamma=2.5); got {penalty!r:.60}"
        )
    try:
        made = penalty(float(lam))
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise  # of a parameter with a wrong value
        raise TypeError(f"penalty must be a function of lam alone: {error}") from error
    if not isinstance(made, Penalty):
        raise TypeError(
            f"penalty(lam) must return a Penalty such as sp.Lasso(lam), got {made!r:.60}"
        )
    return made


def named_loss(kind: Any, parameters: Mapping[str, Any], spread: float) -> Loss:
    """Return a loss with these parameters or its defaults; widths are in units of ``spread``.

    If its parameter has several values, it is the first of them.
    """
    spec, own = kind.parameter_spec, {}
    _check("loss_params", parameters, kind, {spec.name} if spec else set())
    if spec is not None:
        value = values_of(kind, parameters.get(spec.name, spec.default))[0]
        own[spec.name] = spec.in_units(value, spread)
    loss: Loss = kind(**own)
    return loss


def named_penalty(
    kind: Any,
    parameters: Mapping[str, Any],
    loss: Loss | None = None,
    spread: float = 1.0,
    positive: bool = False,
) -> PenaltyOf:
    """Return a penalty with these parameters as a function of ``lam``; see `in_units`.

    If its parameter has several values, it is the first of them.
    """
    known = {field.name for field in fields(kind)} - {"lam", "unit"}
    _check("penalty_params", parameters, kind, known)
    if positive and "positive" not in known:
        raise ValueError(f"positive is not available for penalty={kind.name!r}")
    if kind is NoPenalty:
        return lambda lam: NoPenalty()
    if "groups" in known and "groups" not in parameters:
        raise ValueError(f"penalty={kind.name!r} needs penalty_params={{'groups': labels}}")
    spec, own = kind.parameter_spec, dict(parameters) | ({"positive": True} if positive else {})
    if spec is not None and spec.name in own:
        own[spec.name] = values_of(kind, own[spec.name])[0]
    return in_units(partial(kind, **own), loss, spread)


def is_sequence(value: Any) -> bool:
    """Whether a parameter has several values."""
    several = hasattr(value, "__iter__") and not isinstance(value, str | bytes)
    return several and getattr(value, "ndim", 1) > 0


def values_of(kind: Any, given: Any) -> list[float]:
    """Return the values of the parameter of a loss or a penalty, a number or several."""
    spec = kind.parameter_spec
    if not is_sequence(given):
        return [spec.check(given)]
    values = to_numpy(check_array(spec.name, given, ndim=1)).tolist()
    if kind is Quantile or spec.name not in kind.of_members:
        use = f"use sp.QuantileLasso(q={tuple(values)})" if kind is Quantile else "use one"
        raise ValueError(f"several values of {spec.name} cannot be selected from; {use}")
    return [spec.check(value) for value in values]


def in_units(penalty: Any, loss: Loss | None, spread: float) -> PenaltyOf:
    """Return a penalty of coefficients in units of ``spread`` if this loss requires one.

    This applies to classes of penalties, and partials of them without a unit, whose parts are in
    different units with the loss.
    """
    kind = getattr(penalty, "func", penalty)
    known = kind in PENALTIES.values() and "unit" not in getattr(penalty, "keywords", ())
    if not known or loss is None or loss.margin or loss.degree not in kind.unit_for_degrees:
        return penalty  # type: ignore[no-any-return]
    return partial(penalty, unit=spread)


def _check(argument: str, parameters: Any, kind: Any, known: set[str]) -> None:
    if not isinstance(parameters, Mapping):
        raise TypeError(f"{argument} must be None or a dict, got {parameters!r:.60}")
    for name in parameters:
        if name not in known:
            spec = kind.parameter_spec
            has = "no parameters" if spec is None else f"the parameter {spec.name!r}"
            raise ValueError(f"{argument} has {name!r}, but {kind.name!r} has {has}")


def robust_spread(y: Array, weights: Array | None = None) -> float:
    """Return the robust standard deviation of y, or if 0 the usual one, or its size, or 1."""
    y = to_numpy(y)
    precision = np.finfo(y.dtype if y.dtype.kind == "f" else float).eps
    median = LAD().location(y, weights)
    gaps = y.astype(float) - median
    deviation = LAD().location(np.abs(gaps), weights) / _GAUSSIAN_MAD
    if deviation > 10 * precision * abs(median):  # larger than rounding errors
        return deviation
    largest = float(np.abs(gaps).max())
    if largest > 10 * precision * abs(median):
        gaps = gaps / largest  # squares then neither overflow nor underflow
        mean = np.average(gaps, weights=weights)
        return largest * float(np.sqrt(np.average((gaps - mean) ** 2, weights=weights)))
    return abs(median) or 1.0


def scaled_test_loss(test_loss: TestLoss, loss: Loss, spread: float) -> TestLoss:
    """Return a scoring loss given by name, with its own width in robust standard deviations."""
    if not isinstance(test_loss, str):
        return test_loss
    kind = CRITERIA[check_choice("test_loss", test_loss, CRITERIA)]
    spec, own = kind.parameter_spec, loss.parameter_spec
    if spec is None or not spec.in_units_of_y or (own is not None and own.name == spec.name):
        return test_loss
    return kind(spec.in_units(spec.default, spread))
