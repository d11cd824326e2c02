"""Designs of the user's own."""

import numpy as np
import pytest

import steinpath as sp
from problems import draw
from steinpath.design import Design


class Plain(Design):
    """The matrix itself."""

    def __init__(self, X):
        self.X = X
        self.shape, self.example = X.shape, X

    def matmat(self, block):
        return self.X @ block

    def rmatmat(self, block):
        return self.X.T @ block

    def row_squares(self, center=None):
        return np.sum((self.X - (0 if center is None else center)) ** 2, axis=1)


@pytest.mark.parametrize("fit_intercept", [False, True], ids=["no intercept", "intercept"])
def test_two_products_are_enough(fit_intercept):
    X, y, _ = draw(30, 6)
    found, expected = (
        sp.run(data, y, sp.Huber(), sp.Lasso(0.2), n_iter=9, fit_intercept=fit_intercept)
        for data in (Plain(X), X)
    )
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-12)
    for method in ("exact", "loo", "folds", "compressed"):
        risks = (sp.estimate_risk(path, method=method, rng=0) for path in (found, expected))
        np.testing.assert_allclose(*(risk.values for risk in risks), rtol=1e-7)
