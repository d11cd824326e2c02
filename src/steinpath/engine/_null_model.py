"""The range of the penalty grid, from the smallest ``lam`` with zero coefficients downwards."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from steinpath._support.arrays import Array, cast, like, namespace, to_numpy
from steinpath._support.validation import check_count, check_instance, check_number
from steinpath.design._transformed import InterceptDesign
from steinpath.engine._data import RunData, prepare
from steinpath.engine._run import run
from steinpath.problem._grid import MOST_LAMS, PenaltyOf, check_lam_values, make_penalty
from steinpath.problem._losses import Loss
from steinpath.problem._penalties import NoPenalty, Penalty
from steinpath.problem._rows import Rows

# Iterations for a null model with several unpenalised columns; they are few, so it is fast.
_NULL_ITERATIONS = 5000
# Smallest penalty of a grid relative to the largest: for n < p, n ≥ p, and without zeros.
_RATIO_WIDE, _RATIO_TALL, _RATIO_RIDGE = 1e-2, 1e-3, 1e-4
# Relative margin, in units of rounding, of the largest penalty above that with zero coefficients.
_ROUNDING = 1e3
# For other penalties, the largest one shrinks the leading singular direction by this factor.
_RIDGE_SHRINKAGE = 10.0


def lam_max(X: Any, y: Any, loss: Loss, penalty: Penalty, fit_intercept: bool = False) -> float:
    """Return the smallest ``lam`` at which all penalised coefficients are zero.

    Parameters
    ----------
    X : array-like of shape (n, p)
        Design matrix.
    y : array-like of shape (n,)
        Responses.
    loss : Loss
        Loss, such as ``sp.LAD()``.
    penalty : Penalty
        Penalty; its type, weights and groups matter, its ``lam`` does not.
    fit_intercept : bool, default=False
        Whether the model has an intercept.

    Returns
    -------
    float
        Infinite if no ``lam`` gives zero coefficients, as for ridge. With MCP and SCAD, zero is a
        stationary point for all larger ``lam``. If several residuals of the null model lie exactly
        at a kink of the loss (tied or integer responses under LAD, the larger class under the hinge
        loss with an intercept), the result gives zero coefficients, but smaller values may, too.

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


def _null_lam(data: RunData, penalty: Penalty) -> float:
    p, penalty = data.design.shape[1], data.own(penalty)
    penalty.check_size(p)
    gradient = cast(_null_gradient(data, penalty.free(p)), data.design.example.dtype)
    return penalty.null_lam(data.design.adjoint(gradient))


def _null_gradient(data: RunData, free: np.ndarray) -> Array:
    """Return the gradient of the loss at the best fit by the unpenalised columns alone."""
    loss, design = data.loss, data.design
    y = (data.y if loss.margin else data.response)[:, 0]
    if not free.any() or free.all():
        return loss.gradient(y, 0.0, _rows(data))
    if isinstance(design, InterceptDesign) and free.sum() == 1:
        return _balanced(y, data)
    # all rows of the free columns, which are few, fit into this process
    columns = design.gathered(design.forward(design.array(np.eye(design.shape[1])[:, free])))
    # only their span matters, and orthogonal columns converge fast in any units
    columns = design.array(np.linalg.qr(to_numpy(columns))[0] * math.sqrt(design.n_rows))
    # at convergence the dual is minus the gradient, a subgradient where the loss is nonsmooth
    how: dict[str, Any] = {"n_iter": _NULL_ITERATIONS, "sample_weight": data.sample_weight}
    path = run(columns, data.all_targets, loss, NoPenalty(), **how)
    return -design.local(path.dual[-1, :])


def _balanced(y: Array, data: RunData) -> Array:
    """Return the gradient at the best constant, balanced to sum zero by residuals at a kink."""
    best = data.loss.location(data.all_targets, data.sample_weight)
    values = to_numpy(data.loss.gradient(y - best, 0.0, _rows(data)))
    at_kink, weights = values == 0, data.design.rows.weights
    own = np.ones(1) if weights is None else to_numpy(weights)
    sums = np.array([(own * values).sum(), (own * at_kink).sum()], dtype=float)
    total, count = data.design.over_rows(sums)
    if count:
        values = np.where(at_kink, -total / count, values)
    return like(values, y)


def _rows(data: RunData) -> Rows:
    """Return the rows of the first member."""
    return replace(data.design.rows, labels=data.labels)


def lam_grid(data: RunData, penalty: Penalty, count: int, ratio: float | None = None) -> np.ndarray:
    """Return a geometric grid of penalties, from the largest downwards."""
    n, p = data.design.whole_shape
    largest, usual = _null_lam(data, penalty), _RATIO_WIDE if n < p else _RATIO_TALL
    # at exactly the smallest lam with zero coefficients, rounding would decide which ones enter
    largest *= 1 + _ROUNDING * float(namespace(data.y).finfo(data.response.dtype).eps)
    if math.isinf(largest):
        # approximate the loss by a parabola with the same slope at the same residuals
        xp, target = namespace(data.y), data.target[:, 0, 0]
        force, size = (
            float(data.design.total(xp.abs(x)))
            for x in (data.loss.gradient(target, 0.0, _rows(data)), target)
        )
        curvature = data.design.norm_bounds().high ** 2 * (force / size if size else 1.0)
        largest, usual = _RIDGE_SHRINKAGE * curvature, _RATIO_RIDGE
    if largest < np.finfo(float).tiny / _RATIO_RIDGE:  # every penalty gives zero coefficients
        largest = 1.0
    smallest = largest * (usual if ratio is None else ratio)
    return np.geomspace(largest, max(smallest, float(np.finfo(float).tiny)), count)


def check_lams(data: RunData, penalty: PenaltyOf, lams: Any, ratio: float | None) -> np.ndarray:
    """Return the grid of penalties, given its values or their number."""
    if ratio is not None:
        ratio = check_number("lam_ratio", ratio, low=0, high=1, open_low=True, open_high=True)
    if isinstance(lams, Integral):
        count = check_count("lams", lams, high=MOST_LAMS)
        return lam_grid(data, make_penalty(penalty, 1.0), count, ratio)
    return check_lam_values("lams", lams)
