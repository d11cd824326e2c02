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


class SpoilsItsArgument(Plain):
    def matmat(self, block):
        product = self.X @ block
        block[...] = 7.0
        return product

    def rmatmat(self, block):
        product = self.X.T @ block
        block[...] = 7.0
        return product


class SameArrayEachTime(Plain):
    """Returns arrays that it keeps, and changes at the next call."""

    def __init__(self, X):
        super().__init__(X)
        self.kept = {}

    def matmat(self, block):
        return np.matmul(self.X, block, out=self._kept(self.shape[0], block))

    def rmatmat(self, block):
        return np.matmul(self.X.T, block, out=self._kept(self.shape[1], block))

    def _kept(self, size, block):
        shape = size, *block.shape[1:]
        return self.kept.setdefault(shape, np.zeros(shape))


@pytest.mark.parametrize("careless", [SpoilsItsArgument, SameArrayEachTime])
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["no intercept", "intercept"])
@pytest.mark.parametrize("algorithm", [sp.ChambollePock(), sp.FISTA()], ids=repr)
def test_products_that_work_in_place_change_nothing_else(careless, fit_intercept, algorithm):
    X, y, _ = draw(30, 6)
    results = []
    for kind in (careless, Plain):
        problem = kind(X), y, sp.Huber(), sp.Lasso(0.2), algorithm
        path = sp.run(*problem, n_iter=9, fit_intercept=fit_intercept)
        risks = [
            sp.estimate_risk(path, method=method, rng=0).values
            for method in ("exact", "loo", "folds", "compressed")
        ]
        results.append((path.coef, path.dual, path.fitted, *risks))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(found, expected)
