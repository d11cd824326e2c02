"""Designs in blocks support what designs in memory do, with the same results for a seed."""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.model_selection import TimeSeriesSplit

import steinpath as sp
from blocks import CUTS, LocalDesign, assert_same, both_runs
from problems import draw, draw_for
from steinpath.design._transformed import ScaledDesign
from steinpath.engine import _batch

WEIGHTS = np.where(np.random.default_rng(6).random(60) < 0.5, 2.0, 0.4)
GROUPS = np.random.default_rng(5).permutation(np.arange(60) // 4)
EXACT = {"method": "compressed", "precision": "float64"}
LOSSES = {
    "lad": (sp.LAD(), sp.Lasso(0.3)),
    "square root": (sp.SquareRoot(), sp.Ridge(0.3)),
    "logistic": (sp.Logistic("balanced"), sp.Lasso(0.05)),
}


assert_close = partial(assert_same, atol=1e-8)


def assert_same_risk(found, expected, tol=1e-8):
    assert found.method == expected.method
    for name in ("values", "raw", "train", "stderr", "probe_stderr", "corrected"):
        assert_close(getattr(found, name), getattr(expected, name), atol=tol)
    assert_close(found.compare(1, 5), expected.compare(1, 5), atol=tol)
    assert (found.audit is None) == (expected.audit is None)
    if found.audit is not None:
        for name in ("difference", "stderr", "share", "error", "slope", "differences"):
            assert_close(getattr(found.audit, name), getattr(expected.audit, name), atol=1e-7)
    checks = [{each.name: each.value for each in risk.diagnostics} for risk in (found, expected)]
    assert checks[0].keys() == checks[1].keys()
    assert_close(list(checks[0].values()), list(checks[1].values()), atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "options",
    [
        {"method": "folds"},
        {"method": "folds", "centered": True, "groups": GROUPS},
        {"method": "loo"},
        {"method": "loo", "groups": GROUPS},
        {"method": "auto"},
        {"cv": 4, "groups": GROUPS},
        EXACT | {"audit": 8},
        EXACT | {"audit": "folds"},
        EXACT | {"audit": 6, "groups": GROUPS},
        EXACT | {"audit": "folds", "groups": GROUPS},
        EXACT | {"audit": "folds", "row_scale": "auto"},
        EXACT | {"row_scale": np.linspace(1, 2, 60)},
    ],
    ids=str,
)
def test_rows_are_left_out_as_in_memory(loss, options):
    loss, penalty = LOSSES[loss]
    X, y, _ = draw_for(loss, 60, 12)
    both = both_runs(X, y, loss, penalty, n_iter=15, fit_intercept=True)
    assert_same_risk(*(sp.estimate_risk(each, rng=3, **options) for each in both))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "options",
    [
        {"method": "folds"},
        {"method": "loo", "groups": GROUPS},
        EXACT | {"audit": 8},
        EXACT | {"audit": "folds", "row_scale": "norm"},
    ],
    ids=str,
)
def test_with_sample_weights(loss, options):
    loss, penalty = LOSSES[loss]
    X, y, _ = draw_for(loss, 60, 12)
    how = {"fit_intercept": True, "sample_weight": WEIGHTS}
    both = both_runs(X, y, loss, penalty, n_iter=15, **how)
    assert_same_risk(*(sp.estimate_risk(each, rng=3, **options) for each in both))
    if not loss.margin:
        found, expected = (sp.coefficient_intervals(each, rng=0) for each in both)
        assert_close(found.estimate, expected.estimate, atol=1e-5)
        assert_close(found.stderr, expected.stderr, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"cv": TimeSeriesSplit(4)},
        EXACT | {"cv": TimeSeriesSplit(4), "audit": "folds"},
        {"cv": [(np.arange(20, 60), np.arange(20)), (np.arange(10, 60), np.arange(10))]},
        {"method": "folds", "test_loss": lambda y, f: np.abs(y - f) ** 1.5},
        EXACT | {"audit": 8, "test_loss": lambda y, f: np.abs(y - f) ** 1.5},
    ],
    ids=["time", "time audited", "tested twice", "own loss", "own loss audited"],
)
def test_splits_and_test_losses_of_the_users_own(options):
    X, y, _ = draw(60, 12)
    both = both_runs(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=15)
    assert_same_risk(*(sp.estimate_risk(each, rng=3, **options) for each in both))


def test_errors_of_the_zero_one_loss_are_smoothed_alike():
    loss = sp.Logistic()
    X, y, _ = draw_for(loss, 60, 12)
    both = both_runs(X, y, loss, sp.Lasso(0.05), n_iter=15, fit_intercept=True)
    for audit in (8, "folds"):
        options = EXACT | {"test_loss": "zero_one", "audit": audit}
        assert_same_risk(*(sp.estimate_risk(each, rng=3, **options) for each in both))


def test_a_generator_moves_on_as_in_memory_with_an_audit():
    X, y, _ = draw(60, 12)
    both, rngs = (
        both_runs(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=10),
        [np.random.default_rng(0) for _ in "ab"],
    )
    for _ in range(2):
        found, expected = (
            sp.estimate_risk(each, audit=5, rng=rng, **EXACT)
            for each, rng in zip(both, rngs, strict=True)
        )
        assert np.array_equal(found.audit.rows, expected.audit.rows)
    assert rngs[0].bit_generator.state == rngs[1].bit_generator.state


# Tuning


def assert_same_tuning(found, expected, X, tol=1e-6):
    assert (found.best, found.stop) == (expected.best, expected.stop)
    assert [risk.method for risk in found.risks] == [risk.method for risk in expected.risks]
    for name in ("coef", "intercept", "lams", "settled"):
        assert_close(getattr(found, name), getattr(expected, name))
    for name in ("risk", "stderr", "train"):
        assert_close(getattr(found, name), getattr(expected, name), atol=tol)
    assert found.chosen.method == expected.chosen.method
    assert found.chosen.choices == expected.chosen.choices
    for name in ("value", "stderr", "rows", "predictions", "losses"):
        assert_close(getattr(found.chosen, name), getattr(expected.chosen, name), atol=tol)
    other = (0, 3)
    assert_close(found.compare(found.best, other), expected.compare(found.best, other), atol=tol)
    assert found.warnings == expected.warnings
    assert found.still_falls == expected.still_falls
    assert_close(found.predict(X[:4]), expected.predict(X[:4]))
    if not found.path.loss.margin:
        assert_close(found.predict_interval(X[:4]), expected.predict_interval(X[:4]), atol=tol)


def both_tunings(X, y, *args, cuts=CUTS, **options):
    designs = LocalDesign(X, cuts), X
    return [sp.tune(each, y, *args, lams=4, rng=0, **options) for each in designs]


TUNINGS = {
    "weights": {"fit_intercept": True, "sample_weight": WEIGHTS},
    "auto": {"fit_intercept": True},
    "groups": {"fit_intercept": True, "groups": GROUPS, "n_iter": 30},
    "time": {"cv": TimeSeriesSplit(4), "n_iter": 30, "fit_intercept": True},
    "one_se": {"rule": "one_se", "n_iter": 30},
    "compressed": {"method": "compressed", "n_iter": 30, "fit_intercept": True},
    "audit": {"method": "compressed", "audit": 8, "n_iter": 30},
    "last": {"iterate": -1, "n_iter": 30, "algorithm": sp.ChambollePock()},
}


@pytest.mark.parametrize("name", TUNINGS)
def test_penalties_are_chosen_as_in_memory(name):
    X, y, _ = draw(60, 12, seed=3)
    assert_same_tuning(*both_tunings(X, y, sp.LAD(), sp.Lasso, **TUNINGS[name]), X)


def free_columns(lam):
    return sp.Lasso(lam, weights=np.r_[0.0, 0.0, np.ones(10)])


@pytest.mark.parametrize(
    ("loss", "penalty"),
    [
        (sp.SquareRoot(), sp.Ridge),
        (sp.Logistic(), sp.Lasso),
        (sp.Hinge(), sp.Lasso),
        (sp.LAD(), free_columns),
    ],
    ids=["ridge", "logistic", "hinge", "free columns"],
)
def test_grids_of_penalties_are_those_of_all_rows(loss, penalty):
    X, y, _ = draw_for(loss, 60, 12, seed=3)
    assert_same_tuning(*both_tunings(X, y, loss, penalty, n_iter=20, fit_intercept=True), X)


def test_more_columns_than_rows():
    X, y, _ = draw(40, 60, seed=3)
    assert_same_tuning(*both_tunings(X, y, sp.LAD(), sp.Lasso, n_iter=25, fit_intercept=True), X)


def test_a_bootstrap_of_the_choice():
    X, y, _ = draw(5001, 4, seed=3)
    found = both_tunings(X, y, sp.LAD(), sp.Lasso, cuts=[2000, 3500], n_iter=20)
    assert found[0].chosen.method == "bootstrap"
    assert_same_tuning(*found, X)


def test_paths_that_are_not_kept(monkeypatch):
    monkeypatch.setattr(_batch, "KEPT", 50_000)
    X, y, _ = draw(120, 10, seed=3)
    found, whole = both_tunings(X, y, sp.LAD(), sp.Lasso, cuts=[50], n_iter=30, fit_intercept=True)
    assert isinstance(whole.path, _batch.DeferredPath)
    assert_same_tuning(found, whole, X)
    assert_close(found.path.dual, whole.path.dual)
    assert_close(found.path.objective, whole.path.objective)


def test_sessions_lost_in_a_tuning_and_after_it():
    X, y, _ = draw(60, 12, seed=3)
    args = y, sp.LAD(), sp.Lasso
    how = {"lams": 4, "n_iter": 20, "rng": 0}
    whole = sp.tune(X, *args, **how)
    design = LocalDesign(X, [20, 40], lose={1: (2, 40), 2: (1, 90)})
    tuning = sp.tune(design, *args, **how)
    carrier = design.carried
    assert carrier.restarts == 3
    for _ in range(2):
        carrier.lose = {0: (1, carrier.rounds + 30), 2: (1, carrier.rounds + 1)}
        assert_close(replace(tuning).chosen.value, whole.chosen.value)
    carrier.lose = {1: (1, 0)}
    assert_same_tuning(tuning, whole, X)
    assert carrier.restarts == 8


# Estimators

ESTIMATORS = {
    "lad": sp.LADLasso(n_alphas=4, n_iter=20, random_state=0),
    "no intercept": sp.LADLasso(n_alphas=4, n_iter=20, fit_intercept=False, random_state=0),
    "as it is": sp.LADLasso(n_alphas=4, n_iter=20, standardize=False, random_state=0),
    "ridge": sp.PathRegressor("squared", "ridge", n_alphas=4, n_iter=20, random_state=0),
    "last": sp.LADLasso(alpha=0.05, select="last", method=None, n_iter=40, random_state=0),
}


def fitted_both(estimator, X, y, cuts=CUTS, **options):
    from sklearn.base import clone

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [clone(estimator).fit(each, y, **options) for each in (LocalDesign(X, cuts), X)]


def assert_same_fit(found, expected, X):
    for name in ("coef_", "intercept_", "alphas_", "alpha_", "best_iter_", "n_features_in_"):
        assert_close(getattr(found, name), getattr(expected, name))
    for name in ("risk_path_", "risk_stderr_", "train_path_", "best_risk_", "best_risk_stderr_"):
        assert hasattr(found, name) == hasattr(expected, name)
        if hasattr(found, name):
            assert_close(getattr(found, name), getattr(expected, name), atol=1e-6)
    assert_close(found.predict(X[:5]), expected.predict(X[:5]))
    assert_close(found.predict(LocalDesign(X, CUTS)), expected.predict(X))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_find_what_they_find_in_memory(name):
    X, y, _ = draw(60, 12, seed=3)
    X = X * np.linspace(0.5, 20, 12) + np.linspace(-3, 3, 12)
    found, expected = fitted_both(ESTIMATORS[name], X, y)
    assert_same_fit(found, expected, X)
    if hasattr(expected, "intervals_"):
        pair = (each.predict_interval(X[:5]) for each in (found, expected))
        assert_close(*pair, atol=1e-6)


def test_estimators_of_groups_and_sparse_blocks():
    X, y, _ = draw(60, 12, seed=3)
    X = csr_array(X * (np.random.default_rng(0).random(X.shape) < 0.4))
    found, expected = fitted_both(ESTIMATORS["lad"], X, y, groups=GROUPS)
    assert_same_fit(found, expected, X)


@pytest.mark.parametrize("cuts", [[0.5], [0.3, 0.6]], ids=["two classes", "three"])
def test_classifiers(cuts):
    X, y, _ = draw(60, 12, seed=3)
    labels = np.array(["no", "yes", "maybe"])[np.digitize(y, np.quantile(y, cuts))]
    model = sp.LogisticLasso(n_alphas=4, n_iter=20, random_state=0)
    found, expected = fitted_both(model, X, labels)
    assert_close(found.coef_, expected.coef_)
    assert_close(found.error_rate_, expected.error_rate_)
    assert np.array_equal(found.predict(X), expected.predict(X))


@pytest.mark.parametrize("groups", [None, GROUPS], ids=["rows", "groups"])
def test_intervals_for_coefficients(groups):
    X, y, model = draw(60, 8, seed=3)
    path, whole = both_runs(X, y, sp.Huber(), sp.Lasso(0.1), n_iter=30, fit_intercept=True)
    for options in ({}, {"covariance": model.covariance}, {"scores": "node-wise lasso"}):
        options |= {"groups": groups, "row_scale": "norm", "rng": 0}
        found, expected = (sp.coefficient_intervals(each, **options) for each in (path, whole))
        assert (found.t, found.scores) == (expected.t, expected.scores)
        for name in ("estimate", "stderr", "probe_stderr"):
            assert_close(getattr(found, name), getattr(expected, name), atol=1e-5)
        assert found.warnings == expected.warnings


def test_predictions_of_other_columns_are_refused():
    X, y, _ = draw(60, 8, seed=3)
    found, _ = fitted_both(ESTIMATORS["last"], X, y)
    with pytest.raises(ValueError, match="X has 7 features, but LADLasso is expecting 8"):
        found.predict(LocalDesign(X[:, :7], CUTS))


def test_spectral_estimates():
    X, y, _ = draw(60, 12)
    path, whole = both_runs(X, y, sp.SquareRoot(), sp.Ridge(0.3), n_iter=15)
    for options in ({}, {"row_scale": "norm"}):
        options |= {"method": "spectral"}
        assert_same_risk(*(sp.estimate_risk(each, rng=1, **options) for each in (path, whole)))


# Products requested by the client


def test_baselines_and_matrices():
    X, y, _ = draw(60, 12)
    path, whole = both_runs(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=8, fit_intercept=True)
    for baseline in (
        lambda path: sp.cross_validate_path(path, cv=4, groups=GROUPS, burman=True, rng=0),
        sp.leave_one_out_path,
        lambda path: sp.hold_out_path(path, rng=0),
    ):
        found, expected = baseline(path), baseline(whole)
        assert_close(found.values, expected.values)
        assert_close(found.stderr, expected.stderr)
    pairs = zip(sp.correction_matrices(path)[1:], sp.correction_matrices(whole)[1:], strict=True)
    for found, expected in pairs:
        assert_close(found, expected)


def test_products_of_scaled_columns():
    X, _, _ = draw(60, 12)
    rng = np.random.default_rng(0)
    scale, b, u = rng.uniform(1, 5, 12), rng.standard_normal((12, 3)), rng.standard_normal((60, 3))
    design, whole = ScaledDesign(LocalDesign(X, CUTS), scale), X / scale
    assert_close(design.forward(b), whole @ b)
    assert_close(design.adjoint(u), whole.T @ u)
    assert_close(design.gram(), whole.T @ whole)
    center = whole.mean(axis=0)
    assert_close(design.row_squares(center), ((whole - center) ** 2).sum(axis=1))
    moments = design.inner.column_moments()
    for found, expected in zip(moments, (X.mean(axis=0), X.std(axis=0)), strict=True):
        assert_close(found, expected)


def test_several_quantiles():
    X, y, _ = draw(60, 8, seed=3)
    model = sp.QuantileLasso(q=(0.1, 0.9), n_alphas=3, n_iter=15, random_state=0)
    found, expected = fitted_both(model, X, y)
    assert_close(found.predict_interval(X[:5]), expected.predict_interval(X[:5]))


def test_where_nothing_moves_rounding_does_not_choose_the_ratio():
    X, y, _ = draw(60, 12)
    args = sp.LAD(), sp.Lasso(100.0), sp.HalpernPDHG(ratio="auto")
    path, whole = both_runs(X, y, *args, n_iter=3)
    assert not np.any(whole.coef)
    assert path.algorithm.ratio == whole.algorithm.ratio == pytest.approx(10**-0.5)
