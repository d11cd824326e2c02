"""Node-wise regressions against scikit-learn and the lasso's conditions of optimality."""

import math

import numpy as np
import pytest
from sklearn.linear_model import Lasso

import steinpath as sp
from steinpath.design._transformed import ScaledDesign
from steinpath.inference import _scores
from steinpath.inference._scores import (
    OtherColumns,
    column_scales,
    nodewise_residuals,
    nodewise_scores,
)

SHAPES = [(60, 25), (40, 90)]


def drawn(n, p, seed=0, rho=0.7):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) @ np.linalg.cholesky(sp.simulate.toeplitz(p, rho)).T
    return X * rng.uniform(0.2, 5, p), rng.standard_normal(n)


def design_of(X, y=None, **options):
    y = np.ones(len(X)) if y is None else y
    return sp.run(X, y, sp.LAD(), sp.Lasso(0.1), n_iter=1, **options).design


def regressed(X, features=None, **options):
    """Residuals, products and correlations of node-wise regressions."""
    design, p = design_of(X, **options), X.shape[1]
    features = np.arange(p) if features is None else features
    return nodewise_residuals(design, features, column_scales(design, p))


def standardised(X, intercept):
    X = X - X.mean(axis=0) if intercept else X
    return X / np.sqrt(np.mean(X**2, axis=0))


def penalty(n, p):
    return 0.5 * math.sqrt(math.log(p) / n)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("intercept", [False, True])
def test_conditions_of_optimality_hold_to_the_tolerance(shape, intercept):
    X, _ = drawn(*shape)
    n, p = shape
    residuals, products, correlation = regressed(X, fit_intercept=intercept)
    Z, alpha = standardised(X, intercept), penalty(n, p)
    scales = np.sqrt(np.mean((X - intercept * X.mean(axis=0)) ** 2, axis=0))
    residuals = residuals / scales
    slopes = Z.T @ residuals / n
    own = np.diag(slopes)
    np.testing.assert_allclose(products, n * own * scales**2)
    np.fill_diagonal(slopes, 0.0)
    assert np.abs(slopes).max() <= 1.05 * alpha
    assert np.abs(slopes).max() > 0.9 * alpha  # no stricter penalty than was meant
    norms = np.sqrt(np.mean(residuals**2, axis=0))
    np.testing.assert_allclose(correlation, np.abs(slopes).max(axis=0) / norms)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("intercept", [False, True])
def test_residuals_are_those_of_scikit_learn(shape, intercept, monkeypatch):
    X, _ = drawn(*shape)
    n, p = shape
    Z, alpha = standardised(X, intercept), penalty(n, p)
    features = np.array([7, 0, p - 1])
    quick, *_ = regressed(X, features, fit_intercept=intercept)
    monkeypatch.setattr(_scores, "_TOLERANCE", 1e-9)
    monkeypatch.setattr(_scores, "_MOST_ITERATIONS", 4000)
    exact, *_ = regressed(X, features, fit_intercept=intercept)
    for k, j in enumerate(features):
        others = np.delete(Z, j, axis=1)
        model = Lasso(alpha=alpha, fit_intercept=False, tol=1e-12, max_iter=100_000)
        model.fit(others, Z[:, j])
        scale = np.sqrt(np.mean((X[:, j] - intercept * X[:, j].mean()) ** 2))
        truth = scale * (Z[:, j] - others @ model.coef_)
        size = np.linalg.norm(truth)
        assert np.linalg.norm(exact[:, k] - truth) < 1e-6 * size
        # the tolerance that users get is about scores, and 5% of the penalty
        assert np.linalg.norm(quick[:, k] - truth) < 0.05 * size


def test_blocks_of_regressions_are_those_of_all_together(monkeypatch):
    X, _ = drawn(30, 20)
    monkeypatch.setattr(_scores, "_TOLERANCE", 1e-9)  # each block stops when it has converged
    monkeypatch.setattr(_scores, "_MOST_ITERATIONS", 4000)
    together = regressed(X)
    monkeypatch.setattr(_scores, "_ROOM", 1)
    for mine, truth in zip(regressed(X), together, strict=True):
        np.testing.assert_allclose(mine, truth, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("intercept", [False, True])
def test_constant_columns_have_no_residuals_and_do_not_disturb_others(intercept):
    X, y = drawn(40, 20)
    constant = 1e6 if intercept else 0.0
    wide = np.insert(X, 4, constant, axis=1)
    path = sp.run(wide, y, sp.LAD(), sp.Lasso(0.1), n_iter=3, fit_intercept=intercept)
    found = nodewise_scores(path, np.arange(21), None)
    expected = np.arange(21) != 4
    np.testing.assert_array_equal(found.identified, expected)
    assert not found.columns(np.array([4])).any()
    # one column more makes the penalty a little larger
    plain, *_ = regressed(X, fit_intercept=intercept)
    others = found.columns(np.flatnonzero(expected))
    ratios = np.linalg.norm(others, axis=0) / np.linalg.norm(plain, axis=0)
    np.testing.assert_allclose(ratios, 1, atol=0.03)


def test_each_member_lacks_its_own_column():
    X, _ = drawn(12, 5)
    design = design_of(X)
    own = np.array([3, 0])
    others = OtherColumns(ScaledDesign(design, np.ones(5)), own)
    block = np.random.default_rng(0).standard_normal((5, 2, 1))
    for k, j in enumerate(own):
        truth = np.delete(X, j, axis=1) @ np.delete(block[:, k], j, axis=0)
        np.testing.assert_allclose(others.forward(block)[:, k], truth)
        alone = others.member(k)
        np.testing.assert_allclose(alone.forward(block[:, k : k + 1])[:, 0], truth)
        assert alone.members == 1
    rows = np.random.default_rng(1).standard_normal((12, 2, 1))
    for k, j in enumerate(own):
        truth = X.T @ rows[:, k]
        truth[j] = 0
        np.testing.assert_allclose(others.adjoint(rows)[:, k], truth)
    assert others.members == 2
    assert others.norm_bounds().high >= np.linalg.norm(X, 2) * (1 - 1e-5)


def test_scales_are_root_mean_squares_and_zero_where_there_is_rounding_alone():
    X, _ = drawn(30, 6)
    X[:, 2] = 0.1  # whose mean is not exact
    X[:, 5] = 0.0
    plain = column_scales(design_of(X), 6)
    np.testing.assert_allclose(plain, np.sqrt(np.mean(X**2, axis=0)))
    found = column_scales(design_of(X, fit_intercept=True), 6)
    truth = X.std(axis=0)
    truth[2] = 0.0
    np.testing.assert_allclose(found, truth)


@pytest.mark.parametrize("copy", [1.0, -3.0])
def test_copies_of_a_column_are_not_identified(copy):
    X, y = drawn(40, 60)
    X[:, 7] = copy * X[:, 3]
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.1), n_iter=3)
    found = nodewise_scores(path, np.arange(60), None)
    np.testing.assert_array_equal(np.flatnonzero(~found.identified), [3, 7])
