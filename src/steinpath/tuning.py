"""The range of penalties worth trying."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from steinpath._arrays import Array, like, to_numpy
from steinpath._validation import check_flag, check_instance
from steinpath.designs import Design, InterceptDesign, as_design, check_response
from steinpath.losses import Loss
from steinpath.path import run
from steinpath.penalties import FreeIntercept, NoPenalty, Penalty

# Iterations for a null model with several unpenalised columns; they are few, so it is quick.
_NULL_ITERATIONS = 5000


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
    check_instance("loss", loss, Loss, "sp.LAD()")
    check_instance("penalty", penalty, Penalty, "sp.Lasso(1.0)")
    check_flag("fit_intercept", fit_intercept)
    design = as_design(X)
    y = check_response(y, design)
    penalty.check_size(design.shape[1])
    if fit_intercept:
        design, penalty = InterceptDesign(design), FreeIntercept(penalty)
    gradient = design.rmatmat(_null_gradient(design, y, loss, penalty.free(design.shape[1])))
    return penalty.null_lam(gradient)


def _null_gradient(design: Design, y: Array, loss: Loss, free: np.ndarray) -> Array:
    """Gradient of the loss at the best fit by the unpenalised columns alone."""
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
