"""A fit replaces an earlier one as a whole, or leaves it as it was."""

import pickle
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest

import steinpath as sp
from problems import draw

NAMES = ["a", "b", "c", "d"]


def model(**parameters):
    defaults = {"alpha": 0.1, "select": "last", "method": None, "n_iter": 20, "tol": 1e6}
    return sp.LADLasso(**defaults | parameters)


def frame(names):
    X, y, _ = draw(30, len(names))
    return pd.DataFrame(X, columns=names), y


def interrupted(y, prediction):
    raise KeyboardInterrupt


FAILURES = {
    "alpha": {"alpha": -1.0},
    "alphas": {"alpha": [0.1, -1.0], "method": "auto"},
    "select": {"select": "best"},
    "rule": {"rule": "largest"},
    "n_iter": {"n_iter": 0},
    "algorithm": {"algorithm": "newton"},
    "audit": {"audit": -3, "method": "auto", "select": "risk"},
    "test loss": {"test_loss": lambda y, z: np.nan * y, "method": "loo", "select": "risk"},
    "Ctrl-C": {"test_loss": interrupted, "method": "loo", "select": "risk"},
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_fit_that_fails_changes_nothing(failure):
    X, y = frame(NAMES)
    fitted = model().fit(X, y)
    predictions = fitted.predict(X)
    fitted.set_params(**FAILURES[failure])
    before = vars(fitted).copy()
    other, y_other = frame(["d", "c", "b", "a", "e"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((Exception, KeyboardInterrupt)):
            fitted.fit(other, y_other)
    assert vars(fitted).keys() == before.keys()
    assert all(vars(fitted)[name] is before[name] for name in before)
    np.testing.assert_array_equal(fitted.predict(X), predictions)


def test_nothing_of_an_earlier_fit_stays():
    X, y = frame(NAMES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = model(method="loo", select="risk").fit(X, y)
    assert hasattr(fitted, "risk_path_")
    fitted.set_params(method=None, select="last").fit(X.to_numpy(), y)
    assert not hasattr(fitted, "risk_path_")
    assert not hasattr(fitted, "feature_names_in_")


def test_a_warning_that_is_an_error_leaves_an_estimator_unfitted():
    X, y = frame(NAMES)
    unfitted = model(tol=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Warning, match="converge"):
            unfitted.fit(X, y)
    assert not [name for name in vars(unfitted) if name.endswith("_")]


# ----- Weights count by their proportions -----


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("unit", [1e-300, 1e-10, 1e10, 1e300, 1e307])
def test_weights_of_any_size(unit, dtype, fit_intercept):
    X, y, _ = draw(30, 4)
    X = X.astype(dtype)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, other = (
            model(fit_intercept=fit_intercept).fit(X, y, sample_weight=w)
            for w in (weights, unit * weights)
        )
        paths = [
            sp.run(X, y, sp.LAD(), sp.Lasso(0.1), fit_intercept=fit_intercept, sample_weight=w)
            for w in (weights, unit * weights)
        ]
    close = {"rtol": 1e-4, "atol": 1e-6} if dtype == np.float32 else {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(other.coef_, one.coef_, **close)
    assert other.intercept_ == pytest.approx(one.intercept_, rel=1e-3)
    np.testing.assert_allclose(paths[1].coef, paths[0].coef, **close)


# ----- Penalties beyond the precision of X -----


@pytest.mark.parametrize("lam", [1e32, 1e39, 1e200])
@pytest.mark.parametrize(
    "penalty",
    [
        *(sp.Lasso, sp.Ridge, sp.ElasticNet, sp.MCP, sp.SCAD),
        lambda lam: sp.GroupLasso(lam, [0, 0, 1, 1]),
        lambda lam: sp.Lasso(lam / 1e10, weights=[1e10, 1, 1, 1]),
    ],
)
def test_a_penalty_too_large_for_single_precision_is_named(penalty, lam):
    X, y, _ = draw(30, 4)
    with pytest.raises(ValueError, match="lam is too large for float32"):
        sp.run(X.astype(np.float32), y, sp.LAD(), penalty(lam), n_iter=3)
    path = sp.run(X, y, sp.LAD(), penalty(lam), n_iter=3)
    assert np.isfinite(path.objective).all()


# ----- The search of a fit -----


@pytest.mark.parametrize("name", ["LADLasso", "SqrtRidge", "LogisticLasso"])
def test_the_search_that_is_run_again_is_that_of_the_fit(name):
    X, y, _ = draw(60, 8)
    y = y > 0 if name == "LogisticLasso" else y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = getattr(sp, name)(n_alphas=4, n_iter=30).fit(X, y)  # without a seed
        fitted.set_params(n_iter=10)  # for the next fit
        found = fitted.tuning_
    assert fitted.tuning_ is found
    assert found.best == (fitted.best_index_, fitted.best_iter_)
    np.testing.assert_array_equal(found.risk, fitted.risk_path_)
    np.testing.assert_array_equal(found.coef / fitted.scale_, np.ravel(fitted.coef_))
    assert (found.best_risk, found.best_risk_stderr) == (
        fitted.best_risk_,
        fitted.best_risk_stderr_,
    )


def test_fits_do_not_keep_their_paths():
    X, y, _ = draw(400, 10)
    fitted = sp.LADLasso(n_alphas=10, n_iter=50, random_state=0)
    tracemalloc.start()
    try:
        fitted.fit(X, y)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    states = 2 * 10 * 50 * (400 + 10) * 8
    assert held < states / 10 < peak


def test_a_copied_model_says_that_it_has_no_search():
    X, y, _ = draw(60, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = pickle.loads(pickle.dumps(sp.LADLasso(n_alphas=2, n_iter=10).fit(X, y)))
    with pytest.raises(AttributeError, match="pickled, copied or loaded model does not contain"):
        fitted.tuning_  # noqa: B018
    assert not hasattr(sp.LADLasso(), "tuning_")
