"""Scores against projections and inverses of dense matrices."""

import numpy as np
import pytest
import torch
from scipy import sparse

import steinpath as sp
from problems import Products
from steinpath.design._transformed import ScaledDesign
from steinpath.inference._scores import known_scores, nodewise_scores, residual_scores

N, P = 50, 8
FEATURES = np.array([5, 0, 3])
KINDS = ("covariance", "residuals", "node-wise lasso")


def data(seed=0, n=N, p=P):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) @ np.linalg.cholesky(sp.simulate.toeplitz(p, 0.5)).T
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


def assert_same_scores(found, truth, rtol=1e-8):
    for name in ("factor", "unit"):
        np.testing.assert_allclose(getattr(found, name), getattr(truth, name), rtol=rtol)
    every = np.arange(len(found.features))
    scale = np.abs(truth.columns(every)).max()
    np.testing.assert_allclose(found.columns(every), truth.columns(every), atol=rtol * scale)
    np.testing.assert_allclose(found.norms(), truth.norms(), rtol=10 * rtol, atol=rtol)
    scale = max(np.abs(truth.products(t)).max() for t in range(7))
    for t in range(7):
        np.testing.assert_allclose(found.products(t), truth.products(t), atol=10 * rtol * scale)


@pytest.mark.parametrize("intercept", [False, True])
def test_of_a_known_covariance_they_are_columns_times_the_precision(intercept):
    X, y = data()
    path = path_of(X + 3 * intercept, y, fit_intercept=intercept)
    found = scores_of("covariance", path)
    omega = np.linalg.inv(sp.simulate.toeplitz(P, 0.5))
    truth = centred(X, intercept) @ omega[:, FEATURES] / np.diag(omega)[FEATURES]
    np.testing.assert_allclose(found.columns(np.arange(3)), truth, atol=1e-12)
    np.testing.assert_allclose(found.columns(np.array([2])), truth[:, 2:], atol=1e-12)
    np.testing.assert_allclose(found.factor, np.diag(omega)[FEATURES])
    np.testing.assert_allclose(found.unit**2, np.diag(omega)[FEATURES])
    for t in range(7):
        expected = found.factor * (truth.T @ path.duals[t])
        np.testing.assert_allclose(found.products(t), expected, atol=1e-12)
    norms = np.linalg.norm(centred(path.duals.T, intercept), axis=0)
    np.testing.assert_allclose(found.norms(), norms, atol=1e-12)


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
    block = np.random.default_rng(1).choice([-1.0, 1.0], (N, 4))
    np.testing.assert_allclose(found.read(block), Q @ (squares[:, None] * block), atol=1e-10)
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
def test_equal_rows_are_no_rows_of_unequal_size(kind):
    X, y = data()
    path = path_of(X, y, fit_intercept=True)
    found, plain = scores_of(kind, path, row_squares=np.ones(N)), scores_of(kind, path)
    # the dimension of the complement is then estimated
    tolerance = 0.03 if kind == "residuals" else 1e-10
    np.testing.assert_allclose(found.factor, plain.factor, rtol=tolerance)
    np.testing.assert_allclose(found.norms(), plain.norms(), atol=1e-10)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("container", ["sparse", "torch", "products", "scaled"])
def test_scores_do_not_depend_on_the_container(kind, container, intercept):
    rng = np.random.default_rng(0)
    X, y = data()
    X = X * (rng.random(X.shape) < 0.5)
    given, responses = X, y
    truth = scores_of(kind, path_of(X, y, fit_intercept=intercept))
    if container == "sparse":
        given = sparse.csr_array(X)
    elif container == "torch":
        given, responses = torch.asarray(X), torch.asarray(y)
    elif container == "products":
        if intercept:
            pytest.skip("it does not know its means")
        given = Products(X)
    else:
        scale = np.arange(1.0, P + 1)
        given = ScaledDesign(path_of(X * scale, y).design, scale)
    found = scores_of(kind, path_of(given, responses, fit_intercept=intercept))
    assert_same_scores(found, truth)


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


def test_a_precision_matrix_replaces_the_covariance():
    X, y = data()
    path, covariance = path_of(X, y), sp.simulate.toeplitz(P, 0.5)
    found = known_scores(path, None, np.linalg.inv(covariance), FEATURES, None)
    assert_same_scores(found, scores_of("covariance", path), rtol=1e-10)


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


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_gives_nearly_the_same(kind):
    X, y = data()
    X, y = X.astype(np.float32), y.astype(np.float32)
    truth = scores_of(kind, path_of(X.astype(float), y.astype(float), fit_intercept=True))
    assert_same_scores(scores_of(kind, path_of(X, y, fit_intercept=True)), truth, rtol=1e-4)


@pytest.mark.parametrize(
    ("n", "intercept", "kind"),
    [(24, False, "residuals"), (24, True, "node-wise lasso"), (23, False, "node-wise lasso")],
)
def test_least_squares_needs_three_rows_for_each_column(n, intercept, kind):
    """One row goes to the constant."""
    path = path_of(*data(n=n), fit_intercept=intercept)
    assert sp.coefficient_intervals(path, 2, rng=0).scores == kind


def test_scores_are_read_as_numpy_arrays():
    X, y = (torch.asarray(array) for array in data())
    for kind in KINDS:
        scores = scores_of(kind, path_of(X, y))
        columns = scores.columns(np.array([1]))
        for array in (scores.factor, scores.unit, scores.norms(), scores.products(2), columns):
            assert type(array) is np.ndarray
