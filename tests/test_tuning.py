"""The smallest penalty with zero coefficients."""

import math

import numpy as np
import pytest

import steinpath as sp
from problems import LOSS_EXAMPLES, draw

P = 8
PENALTIES = {
    "lasso": sp.Lasso,
    "weighted": lambda lam: sp.Lasso(lam, weights=[1, 2, 0.5, 1, 1, 3, 1, 1]),
    "elastic-net": lambda lam: sp.ElasticNet(lam, 0.4),
    "group": lambda lam: sp.GroupLasso(lam, [0, 0, 1, 1, 2, 2, 3, 3]),
    "mcp": sp.MCP,
    "scad": sp.SCAD,
}


@pytest.mark.parametrize("loss", LOSS_EXAMPLES.values(), ids=LOSS_EXAMPLES)
@pytest.mark.parametrize("make", PENALTIES.values(), ids=PENALTIES)
@pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
def test_zero_above_and_not_below(loss, make, intercept):
    X, y, _ = draw(41, P)
    y = y + 0.5
    lam = sp.lam_max(X, y, loss, make(1.0), intercept)
    above = sp.run(X, y, loss, make(1.02 * lam), n_iter=1500, fit_intercept=intercept)
    below = sp.run(X, y, loss, make(0.98 * lam), n_iter=1500, fit_intercept=intercept)
    assert (above.coef[-1] == 0).all()
    assert (below.coef[-500:] != 0).any()  # nonconvex runs may go round in circles


@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot(), sp.Huber()], ids=repr)
def test_unpenalised_columns_are_fitted_first(loss):
    X, y, _ = draw(41, P)
    weights = np.ones(P)
    weights[:2] = 0
    lam = sp.lam_max(X, y, loss, sp.Lasso(1.0, weights=weights))
    assert lam < sp.lam_max(X, y, loss, sp.Lasso(1.0))
    above = sp.run(X, y, loss, sp.Lasso(1.02 * lam, weights=weights), n_iter=3000)
    below = sp.run(X, y, loss, sp.Lasso(0.98 * lam, weights=weights), n_iter=3000)
    assert (above.coef[-1][2:] == 0).all()
    assert (above.coef[-1][:2] != 0).all()
    assert (below.coef[-1][2:] != 0).any()


def test_no_finite_penalty():
    X, y, _ = draw(20, P)
    for penalty in (sp.Ridge(1.0), sp.NoPenalty(), sp.ElasticNet(1.0, 0.0)):
        assert sp.lam_max(X, y, sp.LAD(), penalty) == math.inf
    assert sp.lam_max(X, 0 * y, sp.Squared(), sp.Lasso(1.0)) == 0


def test_sizes_are_checked():
    X, y, _ = draw(20, P)
    with pytest.raises(ValueError, match="3 weights, but X has 8 columns"):
        sp.lam_max(X, y, sp.LAD(), sp.Lasso(1.0, weights=[1, 1, 1]))
    with pytest.raises(ValueError, match="X has 20 rows, but y has 19"):
        sp.lam_max(X, y[1:], sp.LAD(), sp.Lasso(1.0))
