"""Units and origin of y: results are the same to rounding, or refused; never wrong in silence."""

import itertools
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

import steinpath as sp
from problems import draw
from steinpath.problem._losses import LOSSES
from steinpath.problem._penalties import PENALTIES as PENALTY_CLASSES

N, P = 60, 8
#: Estimators for which a change of the units of y changes alpha at most.
HOMOGENEOUS = {
    "LADElasticNet": {"l1_ratio": 0.3},
    "LADLasso": {},
    "LADRidge": {},
    "SqrtLasso": {},
    "SqrtRidge": {},
    "QuantileLasso": {"q": 0.7},
    "QuantileRidge": {"q": 0.2},
    "HuberLasso": {"delta": 1.0},
}
#: Powers of the unit of y in which test losses are measured, as far as they have parameters in it.
DEGREES = {
    "absolute": 1,
    "quantile": 1,
    "epsilon_insensitive": 1,
    "squared": 2,
    "huber": 2,
    "pseudo_huber": 2,
}
OWN_TEST_LOSS = {"Sqrt": "squared", "Huber": "huber", "Quantile": "quantile", "LAD": "absolute"}


def data(dtype=np.float64):
    X, y, _ = draw(N, P)
    return (X + 1).astype(dtype), y / np.std(y)


def absolute_error(y, prediction):
    return np.abs(y - prediction)


def scoring_losses(unit):
    """All test losses, with parameters in units of y."""
    return {
        "absolute": "absolute",
        "squared": "squared",
        "quantile": "quantile",
        "huber": sp.Huber(1.35 * unit),
        "epsilon_insensitive": sp.EpsilonInsensitive(0.1 * unit),
        "own": absolute_error,
        None: None,
    }


def fitted(name, x, y, unit, test_loss=None, **options):
    options = {"n_iter": 30, "n_alphas": 3, "random_state": 0} | HOMOGENEOUS.get(name, {}) | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return getattr(sp, name)(test_loss=scoring_losses(unit)[test_loss], **options).fit(x, y)


def degree(name, test_loss):
    if test_loss == "own":
        return 1
    if test_loss is None:
        test_loss = next(own for start, own in OWN_TEST_LOSS.items() if name.startswith(start))
    return DEGREES[test_loss]


def assert_the_same(name, test_loss, dtype, exponent, shift, **options):
    """Compare the fits to y and to y in other units, with another origin."""
    x, y = data(dtype)
    unit = 10.0**exponent
    expected = fitted(name, x, y, 1.0, test_loss, **options)
    changed = y * unit + shift * unit
    if dtype == np.float32 and abs(exponent) > 15:
        with pytest.raises(ValueError, match="y has entries of magnitude up to"):
            fitted(name, x, changed, unit, test_loss, **options)
        return
    found = fitted(name, x, changed, unit, test_loss, **options)
    rtol = 2e-3 if dtype == np.float32 else 1e-5
    size = np.abs(expected.coef_).max()
    np.testing.assert_allclose(found.coef_ / unit, expected.coef_, rtol=rtol, atol=rtol * size)
    intercept = (found.intercept_ - shift * unit) / unit
    assert intercept == pytest.approx(expected.intercept_, rel=rtol, abs=rtol)
    scale = unit ** degree(name, test_loss)
    for values in ("risk_path_", "risk_stderr_"):
        mine = getattr(found, values).astype(float) / scale
        np.testing.assert_allclose(mine, getattr(expected, values), rtol=rtol, err_msg=values)
    assert (found.best_index_, found.best_iter_) == (expected.best_index_, expected.best_iter_)
    moved = (found.predict(x) - shift * unit) / unit
    np.testing.assert_allclose(moved, expected.predict(x), rtol=rtol, atol=10 * rtol)


CHANGES = [(0, 1e3), (0, 1e9), (10, 0), (-12, 0), (12, 1e9), (-30, 0), (30, 1e9)]
BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])


@BOTH
@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize("name", HOMOGENEOUS)
def test_estimators(name, change, dtype):
    assert_the_same(name, None, dtype, *change, method="compressed", rule="one_se")


@BOTH
@pytest.mark.parametrize("change", [(0, 1e9), (-12, 0), (10, 1e6)], ids=str)
@pytest.mark.parametrize("test_loss", [loss for loss in scoring_losses(1.0) if loss])
def test_test_losses(test_loss, change, dtype):
    assert_the_same("LADLasso", test_loss, dtype, *change)


@BOTH
@pytest.mark.parametrize("method", ["auto", "compressed", "loo", "folds", "hutchinson"])
def test_methods(method, dtype):
    assert_the_same("SqrtLasso", None, dtype, 9, 1e9, method=method, audit=8)


@pytest.mark.parametrize("exponent", [-140, -85, 80, 140])
def test_double_precision_reaches_far(exponent):
    for name in ("LADLasso", "SqrtLasso", "HuberLasso"):
        x, y = data()
        one, other = (fitted(name, x, y * unit, unit) for unit in (1.0, 10.0**exponent))
        assert (other.best_index_, other.best_iter_) == (one.best_index_, one.best_iter_)
        assert np.isfinite(other.risk_stderr_).all()
        assert (other.risk_stderr_ > 0).all()
        relative = [model.best_risk_stderr_ / model.best_risk_ for model in (one, other)]
        assert relative[0] == pytest.approx(relative[1], rel=1e-6)


@pytest.mark.slow
def test_every_estimator_and_test_loss_in_all_units():
    exponents, shifts = range(-30, 31, 6), (0, 1e3, 1e6, 1e9)
    tried = itertools.product(HOMOGENEOUS, scoring_losses(1.0), (np.float32, np.float64))
    for name, test_loss, dtype in tried:
        for exponent, shift in itertools.product(exponents, shifts):
            assert_the_same(name, test_loss, dtype, exponent, shift, n_iter=15, n_alphas=2)


# ----- All losses and penalties: units, the order of rows and columns, integer weights -----

PENALTIES = [name for name in PENALTY_CLASSES if name != "group_lasso"]
REGRESSIONS = [name for name, kind in LOSSES.items() if not kind.margin]
CLASSIFICATIONS = [name for name, kind in LOSSES.items() if kind.margin]
PAIRS = [*itertools.product(REGRESSIONS + CLASSIFICATIONS, PENALTIES)]
NAMED = [
    name
    for name in sp.__all__
    if isinstance(kind := getattr(sp, name), type)
    and issubclass(kind, BaseEstimator)
    and name not in ("PathRegressor", "PathClassifier", "TableEncoder")
]
every_model = pytest.mark.parametrize("model", [*PAIRS, *NAMED], ids=str)


def classifies(model):
    if isinstance(model, tuple):
        return model[0] in CLASSIFICATIONS
    return issubclass(getattr(sp, model), ClassifierMixin)


def tuned(model, X, y, own=None, **rows):
    """Fit a pair of a loss and a penalty, or a named estimator."""
    general = sp.PathClassifier if classifies(model) else sp.PathRegressor
    kind = partial(general, *model) if isinstance(model, tuple) else getattr(sp, model)
    model = kind(n_alphas=4, n_iter=40, random_state=0, **(own or {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y, **rows)


def assert_the_same_model(found, expected, columns=slice(None), unit=1.0, rtol=1e-5):
    """Compare models of the same rows with X in other units or orders and y in another unit."""
    assert (found.best_index_, found.best_iter_) == (expected.best_index_, expected.best_iter_)
    coef, reference = np.ravel(found.coef_) / unit, np.ravel(expected.coef_)[columns]
    np.testing.assert_allclose(coef, reference, rtol=rtol, atol=rtol * abs(reference).max())
    for name in ("best_risk_", "naive_risk_"):
        relative = [getattr(one, name) / one.constant_risk_ for one in (found, expected)]
        np.testing.assert_allclose(*relative, rtol=rtol, err_msg=name)


def sample(model, ties=False):
    """Rows with an ordinary response, or one with ties: labels, or counts for regressions."""
    X, y, _ = draw(N, P)
    if classifies(model):
        return X, np.sign(y - np.median(y)) + 2.0
    return X, np.round(y / np.std(y)) if ties else y / np.std(y)


@every_model
def test_tuned_models_do_not_depend_on_units(model):
    X, y = sample(model)
    expected = tuned(model, X, y)
    exponents = (0,) if classifies(model) else (-6, -3, 3, 6)
    factors = np.geomspace(1e-6, 1e6, P)
    for unit in (10.0**exponent for exponent in exponents):
        assert_the_same_model(tuned(model, X, unit * y), expected, unit=unit)
    scaled = tuned(model, X * factors, y)
    scaled.coef_ = scaled.coef_ * factors
    assert_the_same_model(scaled, expected)


@every_model
def test_tuned_models_do_not_depend_on_the_order_of_rows_and_columns(model):
    X, y = sample(model, ties=True)
    expected, rng = tuned(model, X, y), np.random.default_rng(1)
    rows, columns = rng.permutation(N), rng.permutation(P)
    found = tuned(model, X[np.ix_(rows, columns)], y[rows])
    assert_the_same_model(found, expected, columns)


@every_model
def test_integer_weights_are_repeated_rows(model):
    X, y = sample(model)
    counts = np.random.default_rng(2).integers(0, 3, N)
    expected = tuned(model, np.repeat(X, counts, axis=0), np.repeat(y, counts))
    found = tuned(model, X, y, sample_weight=counts)
    assert_the_same_model(found, expected)
    if classifies(model):
        assert_the_same_scores(found, expected)


OF_SCORES = "error_rate_", "error_rate_stderr_", "error_rate_interval_", "train_error_rate_"


def assert_the_same_scores(found, expected):
    assert found.scores_.keys() == expected.scores_.keys()
    for name, values in expected.scores_.items():
        np.testing.assert_allclose(found.scores_[name], values, rtol=1e-5, err_msg=name)
    for name in (*OF_SCORES, "confusion_"):
        values = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(*values, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("groups", [None, np.arange(N) // 4], ids=["rows", "groups"])
@pytest.mark.parametrize("weights", [None, "balanced", {0: 5.0, 1: 0.2}], ids=str)
@pytest.mark.parametrize("loss", CLASSIFICATIONS)
@pytest.mark.parametrize("k", [2, 3])
def test_integer_weights_are_repeated_rows_of_classes(k, loss, weights, groups):
    X, y, _ = draw(N, P)
    y = np.digitize(y, np.quantile(y, np.arange(1, k) / k))
    counts = np.random.default_rng(2).integers(0, 3, N)
    repeated = {} if groups is None else {"groups": np.repeat(groups, counts)}
    given = {} if groups is None else {"groups": groups}
    own = {"class_weight": weights}
    expected = tuned(
        (loss, "lasso"), np.repeat(X, counts, 0), np.repeat(y, counts), own, **repeated
    )
    found = tuned((loss, "lasso"), X, y, own, sample_weight=counts, **given)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found.best_risk_, expected.best_risk_, rtol=1e-5)
    assert_the_same_scores(found, expected)
    if k == 3:
        np.testing.assert_allclose(found.coupling_, expected.coupling_, rtol=1e-4, atol=1e-6)


# ----- Functions -----


@pytest.mark.parametrize("shift", [1e3, 1e9])
@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot(), sp.Quantile(0.8), sp.Huber()], ids=str)
def test_paths_in_single_precision_have_no_origin(loss, shift):
    x, y = data(np.float32)
    here, there = (
        sp.run(x, y + at, loss, sp.Lasso(0.2), n_iter=20, fit_intercept=True) for at in (0, shift)
    )
    close = {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(there.coef, here.coef, **close)
    np.testing.assert_allclose(there.fitted - shift, here.fitted, **close)
    np.testing.assert_allclose(there.intercept - shift, here.intercept, **close)
    np.testing.assert_allclose(there.objective, here.objective, rtol=1e-4)
    np.testing.assert_array_equal(there.y, y + shift)
    for options in ({"method": "loo"}, {"audit": 8}, {"test_loss": absolute_error}):
        one, other = (sp.estimate_risk(path, rng=0, **options) for path in (here, there))
        np.testing.assert_allclose(other.values, one.values, rtol=1e-4)
        np.testing.assert_allclose(other.stderr, one.stderr, rtol=1e-3)
        np.testing.assert_allclose(other.corrected - shift, one.corrected, **close)
    for validate in (sp.leave_one_out_path, lambda path: sp.cross_validate_path(path, rng=0)):
        one, other = (validate(path).values for path in (here, there))
        np.testing.assert_allclose(other, one, rtol=1e-4)


def test_a_batch_has_a_level_for_each_member():
    X, y, _ = draw(30, 5)
    levels = np.array([0.0, 1e6, -1e9])
    batch = sp.run_batch(
        X.astype(np.float32), y + levels[:, None], sp.LAD(), sp.Lasso(0.1), fit_intercept=True
    )
    for path, level in zip(batch, levels, strict=True):
        np.testing.assert_allclose(path.coef, batch[0].coef, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(path.fitted - level, batch[0].fitted, rtol=1e-4, atol=1e-4)
