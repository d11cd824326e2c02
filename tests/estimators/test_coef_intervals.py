"""Coefficient intervals of fitted estimators: units, names, groups and refusals."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse

import steinpath as sp

N, P = 300, 10
FAST = {"n_alphas": 4, "n_iter": 40, "random_state": 0}
NAMES = [f"x{j}" for j in range(P)]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, P)) * np.logspace(-2, 2, P) + rng.normal(0, 5, P)
    y = 4 + 0.5 * (X / np.logspace(-2, 2, P)) @ np.array([1, 0, 0, 0, 1, 0, 0, 0, 0, -1.0])
    return X, y + rng.standard_normal(N)


@pytest.fixture(scope="module")
def model(data):
    return sp.LADLasso(**FAST).fit(*data)


@pytest.fixture(scope="module")
def named(data):
    X, y = data
    return sp.LADLasso(**FAST).fit(pd.DataFrame(X, columns=NAMES), y)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("row_scale", ["norm", None])
def test_of_least_squares_they_are_those_of_statsmodels_in_units_of_x(data, standardize, row_scale):
    X, y = data
    if not standardize:
        X = X / np.logspace(-2, 2, P)
    model = sp.PathRegressor(
        loss="squared",
        penalty="ridge",
        alpha=[1e-6],
        standardize=standardize,
        row_scale=row_scale,
        n_iter=40,
        random_state=0,
    ).fit(X, y)
    found, fit = model.coef_intervals(), sm.OLS(y, sm.add_constant(X)).fit()
    assert np.all(np.abs(found.estimate - fit.params[1:]) < 0.3 * fit.bse[1:])
    np.testing.assert_allclose(found.stderr, fit.bse[1:], rtol=0.15)
    assert found.scores == "residuals"
    assert found.names is None


def test_they_are_those_of_the_path_of_the_chosen_penalty(data):
    X, y = data
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = sp.LADLasso(
        alpha=[0.02],
        n_iter=40,
        standardize=False,
        row_scale=None,
        algorithm=sp.ChambollePock(),
        random_state=0,
    ).fit(X, y)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.02 * np.sqrt(N)), n_iter=40, fit_intercept=True)
    found, truth = model.coef_intervals(), sp.coefficient_intervals(path, rng=0)
    assert found.t == truth.t
    noise = np.hypot(found.probe_stderr, truth.probe_stderr)
    assert np.all(np.abs(found.estimate - truth.estimate) < 5 * noise + 1e-6)
    np.testing.assert_allclose(found.stderr, truth.stderr, rtol=0.1)


def test_the_same_seed_gives_the_same_intervals(model):
    first, second = model.coef_intervals(), model.coef_intervals()
    np.testing.assert_array_equal(first.estimate, second.estimate)
    wide = model.coef_intervals(level=0.99)
    assert wide.level == 0.99
    assert np.all(wide.lower < first.lower)


@pytest.mark.parametrize(
    ("features", "columns"),
    [
        (["x3", "x0"], [3, 0]),
        ("x4", [4]),
        (np.array(["x1", "x9"]), [1, 9]),
        (pd.Index(["x1"]), [1]),
        ([2, -1], [2, 9]),
        (2, [2]),
        (np.arange(P) % 2 == 0, [0, 2, 4, 6, 8]),
        (None, range(P)),
    ],
    ids=str,
)
def test_features_by_names_and_numbers(named, features, columns):
    found = named.coef_intervals(features)
    np.testing.assert_array_equal(found.features, list(columns))
    assert found.names == tuple(NAMES[j] for j in columns)
    every = named.coef_intervals()
    np.testing.assert_allclose(found.stderr, every.stderr[list(columns)], rtol=0.05)
    assert found.to_frame()["feature"].tolist() == list(found.names)


def test_features_that_are_not_there(model, named):
    with pytest.raises(ValueError, match="X had no column 'z' in fit"):
        named.coef_intervals(["x1", "z"])
    with pytest.raises(ValueError, match="X had no column names in fit; use column indices"):
        model.coef_intervals(["x1"])
    with pytest.raises(ValueError, match="column indices of X, integers from 0 to 9"):
        named.coef_intervals([10])
    with pytest.raises(ValueError, match="X had no column 1 in fit"):
        named.coef_intervals(["x1", 1])
    with pytest.raises(ValueError, match="level must be"):
        named.coef_intervals(level=95)


def test_sparse_is_dense(data):
    X, y = data
    X = X * (np.random.default_rng(1).random(X.shape) < 0.4)
    dense, found = (
        sp.LADLasso(**FAST).fit(each, y).coef_intervals() for each in (X, sparse.csr_array(X))
    )
    assert dense.t == found.t
    np.testing.assert_allclose(found.estimate, dense.estimate, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.stderr, dense.stderr, rtol=1e-3)


def test_groups_of_the_fit_make_them_robust():
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.arange(N) % 60)
    X = rng.standard_normal((N, 4))
    X[:, 0] = rng.standard_normal(60)[groups]
    y = X.sum(axis=1) + rng.standard_normal(60)[groups] + 0.3 * rng.standard_normal(N)
    plain, grouped = (
        sp.PathRegressor(loss="squared", penalty="ridge", alpha=[1e-6], n_iter=40, random_state=0)
        .fit(X, y, groups=each)
        .coef_intervals()
        for each in (None, groups)
    )
    truth = sm.OLS(y, sm.add_constant(X)).fit(cov_type="cluster", cov_kwds={"groups": groups})
    np.testing.assert_allclose(grouped.stderr, truth.bse[1:], rtol=0.15)
    assert grouped.stderr[0] > 1.5 * plain.stderr[0]


@pytest.mark.parametrize("how", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy, copy.copy])
def test_saved_models_have_no_rows_and_say_so(model, data, how):
    saved = how(model)
    np.testing.assert_array_equal(saved.predict(data[0]), model.predict(data[0]))
    with pytest.raises(ValueError, match="need the rows of the fit"):
        saved.coef_intervals()
    assert model.coef_intervals([0]).features == [0]  # the model itself still has them
    assert len(pickle.dumps(model)) < data[0].nbytes / 2 + 20_000


def test_with_weights(data):
    X, y = data
    model = sp.LADLasso(alpha=0.02, n_iter=40, method=None, select="last", tol=1.0, random_state=0)
    plain = model.fit(X, y).coef_intervals()
    found = model.fit(X, y, np.full(N, 2.0)).coef_intervals()
    np.testing.assert_array_equal(found.stderr, plain.stderr)
    # rows of weight zero have no part in it
    weights = np.where(np.arange(N) % 3 == 0, 0.0, np.linspace(0.5, 1.5, N))
    kept = weights > 0
    found = model.fit(X, y, weights).coef_intervals(without=[3])
    expected = model.fit(X[kept], y[kept], weights[kept]).coef_intervals(without=[3])
    np.testing.assert_allclose(found.estimate, expected.estimate)
    assert np.all(np.isfinite(found.stderr))


def test_warnings_are_issued(data):
    X, y = data
    X = np.column_stack([X, X[:, 3]])
    model = sp.LADLasso(**FAST).fit(X, y)
    with pytest.warns(UserWarning, match="2 coefficients are not identified"):
        found = model.coef_intervals()
    assert np.isinf(found.stderr[[3, 10]]).all()
    assert np.isfinite(found.stderr).sum() == 9


def test_quantiles(data):
    X, y = data
    one = sp.QuantileLasso(q=0.3, **FAST).fit(X, y)
    found = one.coef_intervals([0, 4])
    assert len(found.estimate) == 2
    several = sp.QuantileLasso(q=(0.3, 0.7), **FAST).fit(pd.DataFrame(X, columns=NAMES), y)
    both = several.coef_intervals(["x0", "x4"], level=0.9)
    assert len(both) == 2
    for each in both:
        assert each.names == ("x0", "x4")
        assert each.level == 0.9
        truth = 0.5 / np.logspace(-2, 2, P)[[0, 4]]
        assert np.all(np.abs(each.estimate - truth) < 4 * each.stderr)
    np.testing.assert_allclose(both[0].stderr, found.stderr, rtol=0.3)
