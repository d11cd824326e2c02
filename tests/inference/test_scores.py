"""Scores against projections and inverses of dense matrices."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_array

import steinpath as sp
from steinpath.inference._scores import (
    column_scales,
    known_scores,
    nodewise_scores,
    residual_scores,
)

N, P = 50, 8
FEATURES = np.array([5, 0, 3])
KINDS = ("covariance", "residuals", "node-wise lasso")


def data(n=N, p=P, rho=0.5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) @ np.linalg.cholesky(sp.simulate.toeplitz(p, rho)).T
    return X, X[:, 0] + rng.standard_normal(n)


def path_of(X, y, **options):
    return sp.run(X, y, sp.LAD(), sp.Lasso(0.1), n_iter=6, **options)


def scores_of(kind, path, features=FEATURES, row_squares=None, covariance=None):
    if kind == "covariance":
        if covariance is None:
            covariance = sp.simulate.toeplitz(path.n_features, 0.5)
        return known_scores(path, covariance, None, features, row_squares)
    make = residual_scores if kind == "residuals" else nodewise_scores
    return make(path, features, row_squares)


def centred(X, intercept):
    return X - X.mean(axis=0) if intercept else X


def complement(X, intercept):
    """Projection on what no column, nor the constant, explains."""
    whole = np.column_stack([X, np.ones(len(X))]) if intercept else X
    return np.eye(len(X)) - whole @ np.linalg.pinv(whole)


@pytest.mark.parametrize("intercept", [False, True])
def test_residuals_are_those_of_least_squares_on_all_other_columns(intercept):
    X, y = data()
    path = path_of(X + 3 * intercept, y, fit_intercept=intercept)
    found = scores_of("residuals", path)
    free = N - P - intercept
    truth = np.column_stack(
        [complement(np.delete(X, j, axis=1), intercept) @ X[:, j] for j in FEATURES]
    )
    squares = np.sum(truth**2, axis=0)
    np.testing.assert_allclose(found.columns(np.arange(3)), truth, atol=1e-10)
    assert found.dimension == free
    np.testing.assert_allclose(found.factor, free / squares)
    np.testing.assert_allclose(found.unit**2, free / squares)
    for t in range(7):
        expected = free / squares * (truth.T @ path.duals[t])
        np.testing.assert_allclose(found.products(t), expected, atol=1e-10)
    Q = complement(X, intercept)
    np.testing.assert_allclose(found.norms(), np.linalg.norm(path.duals @ Q, axis=1), atol=1e-10)
    block = np.random.default_rng(1).standard_normal((N, 4))
    np.testing.assert_allclose(found.varying(block), Q @ block, atol=1e-10)
    np.testing.assert_allclose(found.read(block), Q @ block, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("intercept", [False, True])
def test_rows_count_in_readings_and_norms_by_their_squared_sizes(kind, intercept):
    """Stein's formula has the variance of a row where it differentiates by an entry of it."""
    X, y = data()
    path = path_of(X, y, fit_intercept=intercept)
    squares = np.random.default_rng(2).uniform(0, 2, N)
    squares /= squares.mean()
    found = scores_of(kind, path, row_squares=squares)
    Q = complement(X, intercept) if kind == "residuals" else np.eye(N) - intercept / N
    np.testing.assert_allclose(found.row_sizes**2, squares)  # of the probes and of their readings
    expected = np.sqrt(np.sum(squares * (path.duals @ Q) ** 2, axis=1))
    np.testing.assert_allclose(found.norms(), expected, atol=1e-10)
    if kind == "residuals":
        matrix = Q * squares
        matrix = (matrix + matrix.T) / 2
        spread = np.sqrt(2 * (np.sum(matrix**2) - np.sum(np.diag(matrix) ** 2)) / 64)
        assert abs(found.dimension - np.trace(matrix)) < 4 * spread
        plain = scores_of(kind, path)
        np.testing.assert_allclose(
            found.factor / plain.factor, found.dimension / plain.dimension, rtol=1e-10
        )


@pytest.mark.parametrize("kind", KINDS)
def test_units_of_columns_are_those_of_the_scores(kind):
    X, y = data()
    scale = 10.0 ** np.arange(-P // 2, P - P // 2)
    covariance = sp.simulate.toeplitz(P, 0.5)
    plain = scores_of(kind, path_of(X, y), covariance=covariance)
    found = scores_of(kind, path_of(X * scale, y), covariance=covariance * np.outer(scale, scale))
    own = scale[FEATURES]
    np.testing.assert_allclose(found.columns(np.arange(3)) / own, plain.columns(np.arange(3)))
    np.testing.assert_allclose(found.factor * own**2, plain.factor, rtol=1e-8)
    np.testing.assert_allclose(found.unit * own, plain.unit, rtol=1e-8)
    np.testing.assert_array_equal(found.identified, True)


@pytest.mark.parametrize("intercept", [False, True])
def test_columns_that_others_explain_are_not_identified_and_others_are_as_without(intercept):
    X, y = data(p=6)
    wide = np.column_stack([X, X[:, 1] - 2 * X[:, 2], np.full(N, 3.0 * intercept)])
    path = path_of(wide, y, fit_intercept=intercept)
    found = scores_of("residuals", path, np.arange(8))
    expected = np.array([True, False, False, True, True, True, False, False])
    np.testing.assert_array_equal(found.identified, expected)
    plain = scores_of("residuals", path_of(X, y, fit_intercept=intercept), np.arange(6))
    others = [0, 3, 4, 5]
    assert found.dimension == plain.dimension
    np.testing.assert_allclose(found.factor[others], plain.factor[others])
    np.testing.assert_allclose(
        found.columns(np.array(others)), plain.columns(np.array(others)), atol=1e-9
    )


@pytest.mark.parametrize(
    ("n", "intercept", "kind"),
    [(24, False, "residuals"), (24, True, "node-wise lasso"), (23, False, "node-wise lasso")],
)
def test_least_squares_needs_three_rows_for_each_column(n, intercept, kind):
    """One row goes to the constant."""
    path = path_of(*data(n=n), fit_intercept=intercept)
    assert sp.coefficient_intervals(path, 2, rng=0).scores == kind


# ----- Node-wise regressions -----


def of_many_sizes(n, p):
    """Correlated columns of many sizes, and responses."""
    X, y = data(n, p, rho=0.7)
    return X * np.random.default_rng(1).uniform(0.2, 5, p), y


@pytest.mark.parametrize("shape", [(60, 25), (40, 90)])
@pytest.mark.parametrize("intercept", [False, True])
def test_residuals_are_those_of_least_squares_on_selected_columns(shape, intercept):
    X, y = of_many_sizes(*shape)
    found = nodewise_scores(path_of(X, y, fit_intercept=intercept), np.arange(shape[1]), None)
    X, n = centred(X, intercept), shape[0]
    scales = np.sqrt(np.mean(X**2, axis=0))
    for k, score in enumerate(found.columns(np.arange(shape[1])).T):
        columns = found.selected[k]
        assert k not in columns
        assert len(columns) <= n / 2
        truth = X[:, k] - X[:, columns] @ np.linalg.lstsq(X[:, columns], X[:, k])[0]
        np.testing.assert_allclose(score, truth, atol=1e-8 * scales[k])
        assert found.factor[k] == pytest.approx(n / np.sum(truth**2))
        assert found.unit[k] ** 2 == pytest.approx(found.factor[k])
        others = np.delete(X / scales, k, axis=1)
        correlations = others.T @ truth / math.sqrt(n) / np.linalg.norm(truth)
        assert found.correlation[k] == pytest.approx(np.abs(correlations).max(), rel=1e-6)
        assert found.degrees_of_freedom[k] == n - intercept - len(columns)


@pytest.mark.parametrize("copy", [1.0, -3.0])
@pytest.mark.parametrize("container", [np.asarray, np.float32, lambda X: csr_array(np.float32(X))])
def test_copies_of_a_column_are_not_identified(copy, container):
    X, y = of_many_sizes(40, 60)
    X[:, 7] = copy * X[:, 3]
    scores = scores_of("node-wise lasso", path_of(container(X), y), np.arange(60))
    np.testing.assert_array_equal(np.flatnonzero(~scores.identified), [3, 7])


def test_scales_are_root_mean_squares_and_zero_where_there_is_rounding_alone():
    X, y = of_many_sizes(30, 6)
    X[:, 2] = 0.1  # whose mean is not exact
    X[:, 5] = 0.0
    plain = column_scales(path_of(X, y).design, 6)
    np.testing.assert_allclose(plain, np.sqrt(np.mean(X**2, axis=0)))
    truth = X.std(axis=0)
    truth[2] = 0.0
    scales = column_scales(path_of(X, y, fit_intercept=True).design, 6)
    np.testing.assert_allclose(scales, truth)
