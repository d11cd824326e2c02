"""How strong penalties may be: the range worth trying, and the penalties of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np

from steinpath._support.arrays import Array, like, namespace, to_numpy
from steinpath._support.validation import check_array, check_count, check_instance, check_number
from steinpath.design._designs import InterceptDesign
from steinpath.engine._path import Setting, prepare, run
from steinpath.problem._losses import Loss
from steinpath.problem._penalties import NoPenalty, Penalty

PenaltyOf = Callable[[float], Penalty]

#: How many penalties there may be: each has a path of its own.
MOST_STRENGTHS = 10**4
#: What a penalty may be multiplied by, and remain a number when other factors come to it.
STRONGEST = 1e300
# Iterations for a null model with several unpenalised columns; they are few, so it is quick.
_NULL_ITERATIONS = 5000
# The smallest penalty of a grid, relative to the largest: by whether there are fewer rows than
# columns, and where no penalty is large enough for zero coefficients.
_RATIO_WIDE, _RATIO_TALL, _RATIO_RIDGE = 1e-2, 1e-3, 1e-4
# Where none is, the largest shrinks the direction of the largest singular value so many times.
_RIDGE_SHRINKAGE = 10.0


def lam_max(X: Any, y: Any, loss: Loss, penalty: Penalty, fit_intercept: bool = False) -> float:
    """Return the smallest ``lam`` at which all penalised coefficients are zero.

    Parameters
    ----------
    X : array-like of shape (n, p)
        The design matrix.
    y : array-like of shape (n,)
        The responses.
    loss : Loss
        Such as ``sp.LAD()``.
    penalty : Penalty
        Its kind, weights and groups matter; its ``lam`` does not.
    fit_intercept : bool, default=False
        Whether the model has an intercept.

    Returns
    -------
    float
        Infinite if no ``lam`` gives zero coefficients, as for ridge. With MCP and SCAD, zero is
        a stationary point from there on. Where several residuals of the null model lie exactly
        at a kink of the loss (tied or integer responses under LAD, say), this is a ``lam`` that
        gives zero, but smaller ones may too.

    Examples
    --------
    >>> import numpy as np
    >>> import steinpath as sp
    >>> X = np.array([[1.0, 0.0], [1.0, 2.0], [1.0, -2.0], [1.0, 0.0]])
    >>> y = np.array([1.0, 3.0, -2.0, 1.0])
    >>> sp.lam_max(X, y, sp.LAD(), sp.Lasso(1.0))
    2.0
    """
    check_instance("penalty", penalty, Penalty, "sp.Lasso(1.0)")
    return _null_lam(prepare(X, y, loss, fit_intercept), penalty)


def _null_lam(setting: Setting, penalty: Penalty) -> float:
    p, penalty = setting.design.shape[1], setting.own(penalty)
    penalty.check_size(p)
    return penalty.null_lam(setting.design.rmatmat(_null_gradient(setting, penalty.free(p))))


def _null_gradient(setting: Setting, free: np.ndarray) -> Array:
    """Gradient of the loss at the best fit by the unpenalised columns alone."""
    y, loss, design, _ = setting
    if not free.any() or free.all():
        return loss.gradient(y)
    if isinstance(design, InterceptDesign) and free.sum() == 1:
        return _balanced(y, loss)
    columns = design.matmat(design.array(np.eye(design.shape[1])[:, free]))
    # Only their span matters, and orthogonal columns converge quickly whatever their units.
    columns = design.array(np.linalg.qr(to_numpy(columns))[0] * math.sqrt(design.shape[0]))
    # At convergence the dual is minus the gradient, and right also where the loss has kinks.
    return -run(columns, y, loss, NoPenalty(), n_iter=_NULL_ITERATIONS).dual[-1, :]


def _balanced(y: Array, loss: Loss) -> Array:
    """Gradient at the best constant; its sum is zero, shared out over residuals at a kink."""
    gradient = loss.gradient(y - loss.location(y))
    values = to_numpy(gradient)
    at_kink = values == 0
    if at_kink.any():
        values = np.where(at_kink, -values.sum() / at_kink.sum(), values)
    return like(values, y)


def lam_grid(
    setting: Setting, penalty: Penalty, count: int, ratio: float | None = None
) -> np.ndarray:
    """Return penalties worth trying, from the largest down in equal ratios."""
    n, p = setting.design.shape
    largest, usual = _null_lam(setting, penalty), _RATIO_WIDE if n < p else _RATIO_TALL
    if math.isinf(largest):
        # the loss is about as curved as a parabola of the same slope at the same residuals
        xp, target = namespace(setting.y), setting.target
        force, size = (float(xp.sum(xp.abs(x))) for x in (setting.loss.gradient(target), target))
        curvature = setting.design.norm() ** 2 * (force / size if size else 1.0)
        largest, usual = _RIDGE_SHRINKAGE * curvature, _RATIO_RIDGE
    largest = largest or 1.0  # then every penalty gives zero coefficients
    return np.geomspace(largest, largest * (usual if ratio is None else ratio), count)


def check_lams(setting: Setting, penalty: PenaltyOf, lams: Any, ratio: float | None) -> np.ndarray:
    """Return the penalties to try, from their values or their number."""
    if ratio is not None:
        ratio = check_number("lam_ratio", ratio, low=0, high=1, open_low=True, open_high=True)
    if isinstance(lams, Integral):
        count = check_count("lams", lams, high=MOST_STRENGTHS)
        return lam_grid(setting, make_penalty(penalty, 1.0), count, ratio)
    return check_strengths("lams", lams)


def check_strengths(name: str, values: Any) -> np.ndarray:
    """Return penalties that are not negative."""
    strengths = to_numpy(check_array(name, values, ndim=1)).astype(float)
    for extreme in (strengths.min(), strengths.max()):
        check_number(name, float(extreme), low=0, high=STRONGEST)
    return strengths


def make_penalty(penalty: PenaltyOf, lam: float) -> Penalty:
    """Return the penalty of one ``lam``; refuse what is not a function of it."""
    if isinstance(penalty, Penalty) or not callable(penalty):
        raise TypeError(
            "penalty must be a function of lam, such as sp.Lasso itself or "
            f"functools.partial(sp.MCP, gamma=2.5); got {penalty!r:.60}"
        )
    try:
        made = penalty(float(lam))
    except TypeError as error:
        raise TypeError(f"penalty must be a function of lam alone: {error}") from error
    if not isinstance(made, Penalty):
        raise TypeError(
            f"penalty(lam) must return a Penalty such as sp.Lasso(lam), got {made!r:.60}"
        )
    return made
