"""The estimators: what they minimise, scikit-learn's conventions, weights, warm starts."""

import copy
import functools
import inspect
import io
import pickle
import warnings

import cvxpy as cp
import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import median_abs_deviation, norm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr
from sklearn.utils.estimator_checks import (
    check_estimator,
)

import steinpath as sp
from callbacks import Counter

# Name: the loss ρ as cvxpy knows it, and the penalty.
NAMES = {
    "PathRegressor": ("lad", "lasso"),
    "LADLasso": ("lad", "lasso"),
    "LADRidge": ("lad", "ridge"),
    "LADElasticNet": ("lad", "elastic_net"),
    "SqrtLasso": ("square_root", "lasso"),
    "SqrtRidge": ("square_root", "ridge"),
    "QuantileLasso": ("quantile", "lasso"),
    "QuantileRidge": ("quantile", "ridge"),
    "HuberLasso": ("huber", "lasso"),
    "HuberRidge": ("huber", "ridge"),
}
every_estimator = pytest.mark.parametrize("name", NAMES)
# Every loss and every penalty once.
SOME = ["LADElasticNet", "SqrtLasso", "QuantileRidge", "HuberLasso"]
some_estimators = pytest.mark.parametrize("name", SOME)
N, P = 100, 8
mad = functools.partial(median_abs_deviation, scale="normal")
# Few iterations are not meant to converge: ConvergenceWarning is tested on its own.
unconverged = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
# Integer weights are treated as counts, with a warning.
copies = pytest.mark.filterwarnings("ignore::UserWarning")


def make(name, **parameters):
    """An estimator with few iterations and penalties."""
    return getattr(sp, name)(**{"n_iter": 40, "n_alphas": 4, "random_state": 0} | parameters)


def fixed(name, **parameters):
    """An estimator that needs no risk, and does not say whether it has converged."""
    return make(name, **{"alpha": 0.05, "select": "last", "tol": 1e6} | parameters)


def draw(n=N, p=P, seed=0):
    """Columns of different means and sizes, an intercept, heavy-tailed noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * np.linspace(0.5, 2, p) + np.linspace(-1, 1, p)
    return X, X[:, :3] @ [2.0, -1.0, 1.0] + rng.standard_t(3, size=n) + 3


@pytest.fixture(scope="module")
def data():
    return draw()


def assert_same(one, other, rtol=1e-9):
    """Same model, chosen alike; and the same risks, if any."""
    scale = 1 + np.abs(other.coef_).max()
    assert_allclose(one.coef_, other.coef_, rtol=rtol, atol=rtol * scale)
    assert_allclose(one.intercept_, other.intercept_, rtol=rtol, atol=rtol * scale)
    assert_allclose(one.alphas_, other.alphas_, rtol=rtol)
    assert_allclose(one.alpha_, other.alpha_, rtol=rtol)
    assert (one.best_iter_, one.n_iter_) == (other.best_iter_, other.n_iter_)
    if hasattr(one, "risk_path_") and hasattr(other, "risk_path_"):
        for attribute in ("risk_path_", "risk_stderr_", "train_path_"):
            assert_allclose(getattr(one, attribute), getattr(other, attribute), rtol=1e-5)


# ----- scikit-learn's own checks -----


def run_checks(estimator):
    results = check_estimator(estimator, on_skip=None)  # raises at the first failure
    others = {each["check_name"] for each in results if each["status"] != "passed"}
    # not run unless SCIPY_ARRAY_API is set before SciPy is imported
    assert all(name.startswith("check_array_api_") for name in others)


# The checks fit handfuls of rows, and rows that are repeated: the estimators say so.
@pytest.mark.parametrize("name", ["PathRegressor", "QuantileRidge"])  # all of them below
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_check_estimator(name):
    run_checks(getattr(sp, name)(n_iter=40, n_alphas=4))


@every_estimator
@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"n_iter": 60}], ids=["defaults", "60-iterations"])
@pytest.mark.filterwarnings("ignore::UserWarning")  # as above
def test_check_estimator_with_default_settings(name, settings):
    run_checks(getattr(sp, name)(**settings))


# ----- What is minimised -----


def objective(name, X, y, w, alpha, b, c, atoms, q=0.5, delta=1.35, l1_ratio=0.5):
    """The docstring's objective; ``atoms`` is cvxpy, or `Numbers` for values."""
    loss, penalty = NAMES[name]
    r, w = y - X @ b - c, w / w.sum()
    if loss == "square_root":
        value = atoms.norm(atoms.multiply(np.sqrt(w), r), 2)
    else:
        rho = {
            "lad": lambda: atoms.abs(r),
            "quantile": lambda: atoms.maximum(q * r, (q - 1) * r),
            "huber": lambda: atoms.huber(r, delta) / 2,  # r² / 2 near 0
        }[loss]()
        value = atoms.sum(atoms.multiply(w, rho))
    l1, l2 = atoms.norm(b, 1), atoms.sum(atoms.square(b)) / 2
    ratio = {"lasso": 1.0, "ridge": 0.0, "elastic_net": l1_ratio}[penalty]
    unit = spread(y, w) if penalty == "elastic_net" else 1.0
    return value + alpha * (ratio * l1 + (1 - ratio) * l2 / unit)


class Numbers:
    """cvxpy's atoms, on arrays."""

    abs, maximum, multiply, sum, square = np.abs, np.maximum, np.multiply, np.sum, np.square
    norm = staticmethod(np.linalg.norm)

    @staticmethod
    def huber(r, delta):
        return np.where(np.abs(r) < delta, r**2, delta * (2 * np.abs(r) - delta))


PARAMETERS = {"Quantile": {"q": 0.3}, "Huber": {"delta": 0.7}, "LADElastic": {"l1_ratio": 0.3}}


def spread(y, w=None):
    """Median absolute deviation over that of a Gaussian, each row counted ``w`` times."""
    w = np.ones(len(y)) if w is None else w

    def median(x):
        order = np.argsort(x)
        return x[order][np.searchsorted(np.cumsum(w[order]), w.sum() / 2)]

    return median(np.abs(y - median(y))) / norm.ppf(0.75)


def own_parameters(name):
    return next((own for start, own in PARAMETERS.items() if name.startswith(start)), {})


@every_estimator
@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "plain"])
def test_minimum_of_the_objective(name, intercept, data):
    X, y = data
    w = np.random.default_rng(1).uniform(0.2, 2, N)  # fractional: no risk, and so quick
    given, alpha = own_parameters(name), 0.1
    own = {key: value * spread(y, w) if key == "delta" else value for key, value in given.items()}
    b, c = cp.Variable(P), cp.Variable() if intercept else 0.0
    best = cp.Problem(cp.Minimize(objective(name, X, y, w, alpha, b, c, cp, **own)))
    best.solve(solver=cp.CLARABEL)
    model = fixed(
        name, alpha=alpha, fit_intercept=intercept, standardize=False, n_iter=2000, **given
    ).fit(X, y, sample_weight=w)
    reached = objective(name, X, y, w, alpha, model.coef_, model.intercept_, Numbers, **own)
    assert best.value * (1 - 1e-6) <= reached <= best.value * (1 + 3e-4)


@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "plain"])
@pytest.mark.parametrize(
    ("penalty", "truth"),
    [
        ("lasso", Lasso(alpha=0.1, tol=1e-10, max_iter=100_000)),
        ("elastic_net", ElasticNet(alpha=0.1, l1_ratio=0.5, tol=1e-10, max_iter=100_000)),
        ("ridge", Ridge(alpha=0.1 * N)),  # which minimises a sum
    ],
)
def test_same_alpha_as_least_squares(penalty, truth, intercept, data):
    truth, alpha, own = clone(truth).set_params(fit_intercept=intercept).fit(*data), 0.1, {}
    if penalty == "elastic_net":  # here, the ridge part is in units of the spread of y
        y = data[1]
        width = np.median(np.abs(y - np.median(y))) / norm.ppf(0.75)
        lasso_part, ridge_part = alpha * 0.5, alpha * 0.5 * width
        alpha = lasso_part + ridge_part
        own = {"l1_ratio": lasso_part / alpha}
    model = fixed(
        "PathRegressor",
        loss="squared",
        penalty=penalty,
        penalty_params=own,
        alpha=alpha,
        fit_intercept=intercept,
        standardize=False,
        algorithm=sp.FISTA(),
        n_iter=500,
    ).fit(*data)
    assert_allclose(model.coef_, truth.coef_, atol=1e-5)
    assert_allclose(model.intercept_, truth.intercept_, atol=1e-5)


# The estimate's own standard error is what it is allowed to be off by.
@unconverged
@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("LADLasso", lambda r, y: np.abs(r)),
        ("SqrtRidge", lambda r, y: np.square(r)),
        ("HuberRidge", lambda r, y: Numbers.huber(r, 1.35 * mad(y)) / 2),
        ("HuberLasso", lambda r, y: np.abs(r)),  # as its width is selected
    ],
    ids=["LADLasso", "SqrtRidge", "HuberRidge", "HuberLasso"],
)
def test_risk_at_the_choice_is_the_error_on_new_rows(name, loss):
    z = []
    for seed in range(4):
        X, y = draw(150, 60, seed)
        X_new, y_new = draw(50_000, 60, seed + 1000)
        model = make(name, n_iter=80, n_alphas=6).fit(X, y)
        error = loss(y_new - model.predict(X_new), y).mean()
        z.append((model.best_risk_ - error) / model.best_risk_stderr_)
        train = model.train_path_[model.best_index_, model.best_iter_]
        assert_allclose(train, loss(y - model.predict(X), y).mean(), rtol=1e-6)
    assert np.abs(z).max() < 3.5
    assert np.sqrt(np.mean(np.square(z))) < 2


# ----- Attributes, parameters -----


@every_estimator
@unconverged
def test_attributes(name, data):
    X, y = data
    model = make(name, algorithm=sp.HalpernPDHG())  # whose steps do not depend on the penalties
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert model.fit(X, y) is model
    assert model.coef_.shape == (P,)
    assert model.alphas_.shape == (4,)
    assert (np.diff(model.alphas_) < 0).all()
    assert model.risk_path_.shape == model.risk_stderr_.shape == model.train_path_.shape == (4, 41)
    assert isinstance(model.intercept_, float)
    assert isinstance(model.alpha_, float)
    assert isinstance(model.best_iter_, int)
    assert (model.n_iter_, model.n_features_in_) == (40, P)
    assert not hasattr(model, "feature_names_in_")
    k, t = model.best_index_, model.best_iter_
    assert t == np.argmin(model.risk_path_[k])
    assert model.alpha_ == model.alphas_[k]
    assert model.naive_risk_ == model.risk_path_[k, t]
    assert model.naive_risk_ == model.risk_path_.min()
    assert model.best_risk_stderr_ >= model.risk_stderr_[k, t]
    assert np.isfinite(model.best_risk_)
    assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_)
    assert_allclose(model.score(X, y), r2_score(y, X @ model.coef_ + model.intercept_))
    # the chosen model is that of its penalty alone, stopped where it says
    own = {"delta": model.delta_} if hasattr(model, "delta_") else {}
    alone = clone(model).set_params(alpha=model.alpha_, select=model.best_iter_, **own).fit(X, y)
    assert_allclose(alone.coef_, model.coef_, atol=1e-9)


def test_penalties_are_functions_of_lam(data):
    free = functools.partial(sp.Lasso, weights=[0, *[1] * (P - 1)])
    model = fixed("PathRegressor", penalty=free, alpha=1e3).fit(*data)
    assert_array_equal(model.coef_ != 0, [True] + [False] * (P - 1))


def test_positional_parameters_and_repr():
    assert (
        repr(sp.PathRegressor("huber", "ridge")) == "PathRegressor(loss='huber', penalty='ridge')"
    )
    assert repr(sp.QuantileRidge(q=0.9, n_iter=7)) == "QuantileRidge(n_iter=7, q=0.9)"
    assert "LADLasso" in estimator_html_repr(sp.LADLasso())


def test_alpha_grid(data):
    grid = [0.02, 0.5, 0.1]  # in any order
    steps = sp.HalpernPDHG()
    model = make("LADLasso", alpha=grid, select="last", tol=1e6, algorithm=steps).fit(*data)
    assert_allclose(model.alphas_, grid)
    k = int(np.argmin(model.risk_path_[:, -1]))
    assert (model.alpha_, model.best_iter_) == (pytest.approx(grid[k]), 40)
    alone = fixed("LADLasso", alpha=grid[k], algorithm=steps).fit(*data)
    assert_allclose(model.coef_, alone.coef_, atol=1e-9)
    for other in (np.array(grid), tuple(grid), pd.Series(grid)):
        assert_same(clone(model).set_params(alpha=other).fit(*data), model)


@pytest.mark.filterwarnings("ignore:all coefficients are zero:UserWarning")
@pytest.mark.parametrize("name", ["LADLasso", "SqrtLasso", "QuantileLasso", "HuberLasso"])
@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "plain"])
def test_auto_starts_where_coefficients_vanish(name, intercept, data):
    settings = {"select": 0, "n_iter": 1, "n_alphas": 2, "fit_intercept": intercept}
    settings |= {"delta": 1.35} if name == "HuberLasso" else {}
    largest = make(name, **settings).fit(*data).alphas_[0]
    for factor, zero in ((1.01, True), (0.97, False)):
        last = {"alpha": factor * largest, "n_iter": 500, "fit_intercept": intercept}
        assert (fixed(name, **last).fit(*data).coef_ == 0).all() == zero


@unconverged
def test_select(data):
    model = make("LADLasso", alpha=0.05)
    risks = model.fit(*data).risk_path_[0]
    assert model.best_iter_ == np.argmin(risks)
    null = clone(model).set_params(select=0).fit(*data)
    assert (null.coef_ == 0).all()
    assert null.intercept_ == np.median(data[1])
    for iterate in (1, np.int64(17), 40):
        stopped = clone(model).set_params(select=iterate).fit(*data)
        # what comes after the iterate does not matter
        shorter = fixed("LADLasso", n_iter=int(iterate)).fit(*data)
        assert_allclose(stopped.coef_, shorter.coef_, atol=1e-12)
        assert (stopped.best_iter_, stopped.n_iter_) == (iterate, 40)
        assert_allclose(stopped.risk_path_[0], risks)
    several = make("LADLasso", select=5).fit(*data)
    assert several.alpha_ == several.alphas_[np.argmin(several.risk_path_[:, 5])]


@unconverged
def test_rule_and_test_loss(data):
    least = make("LADLasso", n_alphas=30).fit(*data)
    careful = make("LADLasso", n_alphas=30, rule="one_se").fit(*data)
    assert careful.alpha_ > least.alpha_
    X, y = data
    for test_loss in ("squared", lambda y, prediction: (y - prediction) ** 2):
        model = make("LADLasso", test_loss=test_loss).fit(X, y)
        assert model.train_path_[0, 0] == pytest.approx(np.mean((y - np.median(y)) ** 2))


@unconverged
def test_random_state(data):
    X, y = draw(400, 40)  # large enough for folds and probes to be drawn
    fits = [make("LADLasso", random_state=seed).fit(X, y).risk_path_ for seed in (0, 0, 1)]
    assert_array_equal(fits[0], fits[1])
    assert not np.array_equal(fits[0], fits[2])


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"test_loss": "nonsense"}, ValueError, "test_loss must be one of 'absolute', 'squared'"),
        ({"alpha": -1.0}, ValueError, "alpha must be a finite number in"),
        ({"alpha": "best"}, ValueError, "alpha must be 'auto', a number or an array of numbers, g"),
        ({"alpha": None}, ValueError, "alpha must be 'auto', a number or an array of numbers, got"),
        ({"alpha": [[0.1, 0.2]]}, ValueError, "alpha must have 1 dimension"),
        ({"row_scale": "no"}, ValueError, "row_scale must be .*'auto'"),
        ({"alpha": []}, ValueError, "alpha is empty"),
        ({"alpha": [0.1, -0.1]}, ValueError, "alpha must be a finite number in .* got -0.1"),
        ({"alpha": True}, TypeError, "alpha must be a real number"),
        ({"n_alphas": 0}, ValueError, "n_alphas must be at least 1"),
        ({"n_iter": 0}, ValueError, "n_iter must be at least 1"),
        ({"n_iter": 1.5}, TypeError, "n_iter must be an integer"),
        ({"select": "best"}, ValueError, "select must be 'risk', 'last' or an iteration"),
        ({"select": 41}, ValueError, "select must be at most 40"),
        ({"select": -1}, ValueError, "select must be at least 0"),
        ({"fit_intercept": "no"}, TypeError, "fit_intercept must be True or False"),
        ({"standardize": None}, TypeError, "standardize must be True or False"),
        ({"tol": -1}, ValueError, "tol must be"),
        ({"rule": "1se"}, ValueError, "rule must be one of 'min', 'one_se'"),
        ({"method": "cv"}, ValueError, "method must be one of 'auto'"),
        ({"algorithm": sp.FISTA}, TypeError, "pass an instance"),
        ({"algorithm": sp.FISTA()}, ValueError, "FISTA requires a loss with a Lipschitz gradient"),
        ({"loss": "l1"}, ValueError, "loss must be one of 'lad'"),
        ({"loss": sp.LAD}, TypeError, "pass an instance"),
        ({"penalty": "l1"}, ValueError, "penalty must be one of 'lasso'"),
        ({"penalty": sp.Lasso(0.1)}, TypeError, "a function of lam, such as sp.Lasso itself"),
        ({"penalty": "group_lasso"}, ValueError, "needs penalty_params={'groups'"),
    ],
    ids=str,
)
def test_wrong_parameters(parameters, error, message, data):
    with pytest.raises(error, match=message):
        make("PathRegressor", **parameters).fit(*data)


@pytest.mark.parametrize("name", ["LADLasso", "QuantileLasso", "HuberRidge", "LogisticRidge"])
def test_errors_of_arguments_name_the_class(name):
    with pytest.raises(TypeError, match=rf"^{name}\.__init__\(\) takes 1 positional argument"):
        getattr(sp, name)(1, 2, 3)


def test_penalties_by_class_are_those_by_name():
    """Also in the unit of y, unless they are given one of their own."""
    X, y = np.random.default_rng(0).standard_normal((2, 60, 5))
    y = 1000 * (X[:, 0] + y[:, 0])
    quick = {"n_alphas": 4, "n_iter": 40, "random_state": 0}
    for name, kind, own in (
        ("mcp", sp.MCP, {"gamma": 2.5}),
        ("scad", sp.SCAD, {"a": 3.0}),
        ("elastic_net", sp.ElasticNet, {"l1_ratio": 0.3}),
    ):
        expected = sp.PathRegressor("lad", name, **quick).fit(X, y)
        found = sp.PathRegressor("lad", kind, **quick).fit(X, y)
        np.testing.assert_array_equal(found.coef_, expected.coef_)
        assert found.penalty_.unit == found.y_scale_
        expected = sp.PathRegressor("lad", name, penalty_params=own, **quick).fit(X, y)
        found = sp.PathRegressor("lad", functools.partial(kind, **own), **quick).fit(X, y)
        np.testing.assert_array_equal(found.coef_, expected.coef_)
        found = sp.PathRegressor("lad", functools.partial(kind, unit=2.0), **quick).fit(X, y)
        assert found.penalty_.unit == 2
    expected = sp.PathRegressor("lad", "none", **quick).fit(X, y)
    found = sp.PathRegressor("lad", sp.NoPenalty, **quick).fit(X, y)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    with pytest.raises(ValueError, match="'group_lasso' needs penalty_params"):
        sp.PathRegressor("lad", sp.GroupLasso, **quick).fit(X, y)


@pytest.mark.parametrize("name", ["LADLasso", "LogisticElasticNet", "PathRegressor"])
def test_unknown_parameters_are_refused_by_the_name_of_the_estimator(name):
    kind = getattr(sp, name)
    said = rf"^{name} has no parameter 'alphas' \(did you mean .*; its parameters are algorithm, "
    with pytest.raises(TypeError, match=said):
        kind(alphas=[0.1])
    assert {*inspect.signature(kind).parameters} == {*kind().get_params()}

    class Other(kind):
        def __init__(self, *, more=0, **others):
            self.more = more
            super().__init__(**others)

    assert Other(more=1, alpha=2.0).alpha == 2.0


def test_a_wrong_value_of_a_parameter_of_the_penalty_is_named(data):
    for values in ("half", [0.1, "half"], [0.1, 2.0], []):
        for model in (
            sp.LADElasticNet(l1_ratio=values),
            sp.PathRegressor(penalty="elastic_net", penalty_params={"l1_ratio": values}),
        ):
            with pytest.raises((TypeError, ValueError), match=r"^l1_ratio (must|is empty)"):
                model.fit(*data)


# ----- Data -----


@some_estimators
@unconverged
def test_units_and_origins_of_columns_do_not_matter(name, data):
    X, y = data
    plain = make(name).fit(X, y)
    units, shift = np.geomspace(1e-3, 1e3, P), np.linspace(-50, 100, P)
    moved = make(name).fit(X * units + shift, y)
    assert moved.best_iter_ == plain.best_iter_
    assert_allclose(moved.alphas_, plain.alphas_)
    assert_allclose(moved.coef_ * units, plain.coef_, atol=1e-7)
    assert_allclose(moved.predict(X * units + shift), plain.predict(X), atol=1e-6)
    assert_allclose(moved.risk_path_, plain.risk_path_, rtol=1e-5)


WIDTHS = {"huber": ("delta", 1.35), "epsilon_insensitive": ("eps", 0.1)}


@pytest.mark.parametrize("loss", WIDTHS)
def test_losses_by_name_have_widths_in_robust_standard_deviations(loss, data):
    X, y = data
    name, default = WIDTHS[loss]
    model = fixed("PathRegressor", loss=loss).fit(X, y)
    assert model.y_scale_ == pytest.approx(mad(y))
    assert getattr(model.loss_, name) == pytest.approx(default * mad(y))
    same = fixed("PathRegressor", loss=type(model.loss_)(default * mad(y))).fit(X, y)
    assert_same(model, same)
    # classes keep the units of y
    raw = fixed("PathRegressor", loss=type(model.loss_)(2.0)).fit(X, y)
    assert getattr(raw.loss_, name) == 2.0


@unconverged
@pytest.mark.parametrize(
    ("loss", "test_loss", "delta"),
    [("huber", None, 1.35), ("huber", "huber", 1.35), ("lad", "huber", 1.35)],
    ids=["its own", "by name", "of another loss"],
)
def test_test_losses_by_name_are_in_the_same_units(loss, test_loss, delta, data):
    X, y = data
    y = 50 * y
    model = make("PathRegressor", loss=loss, test_loss=test_loss).fit(X, y)
    fitted = X @ model.coef_ + model.intercept_
    expected = np.mean(Numbers.huber(y - fitted, delta * mad(y)) / 2)
    train = model.train_path_[model.best_index_, model.best_iter_]
    assert train == pytest.approx(expected, rel=1e-6)
    # in a class, they are in units of y
    raw = make("PathRegressor", loss=loss, test_loss=sp.Huber(3.0)).fit(X, y)
    fitted = X @ raw.coef_ + raw.intercept_
    train = raw.train_path_[raw.best_index_, raw.best_iter_]
    assert train == pytest.approx(np.mean(Numbers.huber(y - fitted, 3.0) / 2), rel=1e-6)


def test_the_spread_counts_weights_as_repetitions(data):
    X, y = data
    counts = np.random.default_rng(0).integers(0, 4, N)
    weighted = fixed("HuberLasso", method=None).fit(X, y, sample_weight=counts)
    assert weighted.y_scale_ == pytest.approx(mad(np.repeat(y, counts)))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("y", "scale"),
    [
        (np.full(40, 7.0), 7.0),  # without an intercept, the size that there is
        (np.zeros(40), 1.0),
        (np.r_[np.zeros(30), np.ones(10)], np.sqrt(3) / 4),  # no median absolute deviation
        (np.r_[np.full(30, 0.1) + 1e-17 * np.arange(30), np.ones(10)], 0.9 * np.sqrt(3) / 4),
    ],
    ids=["constant", "zero", "mostly zero", "mostly constant"],
)
@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "plain"])
def test_responses_without_a_median_absolute_deviation(y, scale, intercept):
    X = np.random.default_rng(0).standard_normal((40, 3))
    model = fixed("HuberRidge", fit_intercept=intercept).fit(X, y)
    assert model.y_scale_ == pytest.approx(scale)
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("select", ["risk", "last"])
def test_an_end_of_the_grid_that_matters_is_said(select, data):
    model = make("LADLasso", select=select, n_iter=200, tol=1e6)
    largest = clone(model).fit(*data).alphas_[0]
    message = "the smallest alpha on the grid was selected.*consider extending the grid: alpha=np"
    with pytest.warns(UserWarning, match=message):
        clone(model).set_params(alpha=[largest, largest / 2]).fit(*data)
    # nothing to predict, and estimates of the same kind, whose difference is known best
    X, y = draw(N, 60)[0], np.random.default_rng(0).standard_normal(N)
    message = message.replace("smallest", "largest")
    with pytest.warns(UserWarning, match=message):
        clone(model).set_params(alpha=[0.05, 0.001], select="last", method="folds").fit(X, y)


def test_an_end_of_the_grid_that_does_not_matter_is_not_said(data):
    """With many rows for the columns, no penalty is the best one, and a small one is as good."""
    model = make("LADLasso", n_iter=200, n_alphas=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(*draw(1000, 3))
        clone(model).set_params(alpha=model.alphas_[-1]).fit(*draw(1000, 3))  # a grid of one
    assert model.alpha_ < model.alphas_[0] / 20


def test_one_default_of_the_estimate_for_each_meaning():
    """As the table in docs/choosing.md has them."""
    found = {
        name: tuple(inspect.signature(getattr(sp, name)).parameters[key].default
                    for key in ("row_scale", "audit"))
        for name in ("estimate_risk", "StopOnRisk", "tune", *NAMES)
    }  # fmt: skip
    paper = {"estimate_risk": (None, 0), "StopOnRisk": (None, 32)}
    assert found == paper | dict.fromkeys(("tune", *NAMES), ("norm", "folds"))


@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "plain"])
def test_standardize(intercept, data):
    X, y = data
    sizes = X.std(axis=0) if intercept else np.sqrt(np.mean(X**2, axis=0))
    model = fixed("LADElasticNet", fit_intercept=intercept).fit(X, y)
    by_hand = fixed("LADElasticNet", fit_intercept=intercept, standardize=False).fit(X / sizes, y)
    assert_allclose(model.coef_, by_hand.coef_ / sizes, atol=1e-12)
    assert_allclose(model.intercept_, by_hand.intercept_, atol=1e-12)
    assert intercept or model.intercept_ == 0


@unconverged
@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_data_frames(library, data):
    X, y = data
    names = [f"feature {j}" for j in range(P)]
    frame = library.DataFrame(dict(zip(names, X.T, strict=True)))
    model = make("LADLasso").fit(frame, library.Series(y))
    if not hasattr(LinearRegression().fit(frame, y), "feature_names_in_"):
        pytest.skip("this scikit-learn does not know the names of such columns")
    assert list(model.feature_names_in_) == names
    assert_same(model, make("LADLasso").fit(X, y))
    assert_allclose(model.predict(frame), X @ model.coef_ + model.intercept_)
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        model.predict(frame[names[::-1]])
    other = library.DataFrame(dict(zip([*names[1:], "other"], X.T, strict=True)))
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time.*other"):
        model.predict(other)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(X)
    assert not hasattr(model.fit(X, y), "feature_names_in_")


@some_estimators
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("p", [P, 50])
def test_sparse_is_dense(name, p):
    X, y = draw(60, p)
    X[np.random.default_rng(2).random(X.shape) < 0.7] = 0
    X[:, 0] = 0
    for model in (make(name), fixed(name)):
        dense = clone(model).fit(X, y)
        assert_same(clone(model).fit(sparse.csr_array(X), y), dense, rtol=1e-7)
    w = np.random.default_rng(3).uniform(0, 2, 60)
    dense = fixed(name).fit(X, y, sample_weight=w)
    assert_same(fixed(name).fit(sparse.csc_matrix(X), y, sample_weight=w), dense, rtol=1e-7)
    assert_allclose(dense.predict(sparse.csr_matrix(X)), dense.predict(X))


@some_estimators
@unconverged
def test_single_precision(name, data):
    X, y = data
    single = make(name).fit(X.astype(np.float32), y)
    assert single.coef_.dtype == np.float32
    assert single.predict(X.astype(np.float32)).dtype == np.float64  # as y, which may be far from 0
    assert_allclose(single.predict(X), make(name).fit(X, y).predict(X), atol=2e-3)


# So few rows are said to be too few.
@some_estimators
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("n", [2, 3, 9])
def test_few_rows(name, n):
    model = make(name).fit(*draw(n))
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.risk_path_).all()


@some_estimators
@unconverged
def test_constant_response(name, data):
    model = make(name).fit(data[0], np.full(N, 7.0))
    assert_allclose(model.predict(data[0]), 7, atol=1e-6)


@some_estimators
@unconverged
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_constant_columns_count_for_nothing(name, kind, data):
    X, y = data
    model = make(name).fit(kind(np.column_stack([X, np.full(N, 0.1), np.zeros(N)])), y)
    assert_allclose(model.coef_[-2:], 0, atol=1e-12)
    assert (model.coef_[:3] != 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["single", "double"])
def test_long_constant_columns_are_seen_to_be_constant(dtype):
    """The rounding of the sum of many numbers is not a standard deviation."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(50_001, 0.1), np.full(50_001, 10 / 3), rng.random(50_001)])
    y = X[:, 2] + rng.standard_normal(50_001)
    model = sp.LADLasso(alpha=0.001, n_iter=5, select=5, method=None).fit(X.astype(dtype), y)
    assert_allclose(model.coef_[:2], 0, atol=1e-7)
    assert model.coef_[2] > 0.1


# A fold of a cross-validation may have nothing but constant columns, and scikit-learn's own
# regressions then predict a constant.
@unconverged
@pytest.mark.parametrize("name", ["LADLasso", "SqrtRidge"])
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_nothing_but_constant_columns(name, value, data):
    X, y = np.full((N, 2), value), data[1]
    model = make(name).fit(X, y)
    assert_allclose(model.predict(X), model.intercept_, rtol=1e-9)
    assert np.quantile(y, 0.3) < model.intercept_ < np.quantile(y, 0.7)


# ----- Weights -----


@copies
@every_estimator
def test_integer_weights_are_repeated_rows(name, data):
    X, y = data
    w = np.random.default_rng(1).integers(0, 4, N)
    rows = np.repeat(np.arange(N), w)
    for model in (make(name), fixed(name), make(name, alpha=[0.1, 0.02], select=7)):
        repeated = clone(model).fit(X[rows], y[rows])
        assert_same(clone(model).fit(X, y, sample_weight=w), repeated)


@every_estimator
def test_fractional_weights(name, data):
    X, y = data
    w = np.random.default_rng(1).uniform(0.1, 3, N)
    for how in ({"method": None}, {}, {"alpha": "auto"}, {"select": "risk"}):
        model = fixed(name, **how).fit(X, y, sample_weight=w)
        assert_same(fixed(name, **how).fit(X, y, sample_weight=7.3 * w), model)
        assert np.abs(model.coef_ - fixed(name, **how).fit(X, y).coef_).max() > 1e-3
        assert hasattr(model, "risk_path_") == ("method" not in how)
    w[:20] = 0
    model = fixed(name, select=11).fit(X, y, sample_weight=w)
    found = fixed(name, select=11).fit(X[20:], y[20:], sample_weight=w[20:])
    assert_same(found, model)
    assert found.best_risk_ == model.best_risk_


@unconverged
@some_estimators
def test_weights_that_say_nothing(name, data):
    X, y = data
    plain = make(name).fit(X, y)
    for w in (np.ones(N), np.full(N, 0.3), 2.0):
        assert_same(make(name).fit(X, y, sample_weight=w), plain)
    w = np.where(np.arange(N) < 30, 0, 0.7)
    assert_same(make(name).fit(X, y, sample_weight=w), make(name).fit(X[30:], y[30:]))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.full(N, -1.0), "Negative values"),
        (np.zeros(N), "at least one non-zero|at least 2 are required"),  # scikit-learn's, or ours
        (np.eye(N)[0], "at least 2 are required"),
        (np.ones(N - 1), r"sample_weight.shape == \(99,\)"),
        (np.full(N, np.nan), "NaN"),
    ],
    ids=["negative", "zero", "one row", "too few", "nan"],
)
def test_wrong_weights(weights, message, data):
    with pytest.raises(ValueError, match=message):
        make("LADLasso").fit(*data, sample_weight=weights)


def test_counts_that_are_too_large_to_repeat_rows_are_weights(data):
    X, y = data
    counts = np.where(np.arange(N) % 2, 10**7, 3 * 10**7)
    found = make("LADLasso").fit(X, y, sample_weight=counts)
    assert_same(make("LADLasso").fit(X, y, sample_weight=counts / 1.7e7), found)


# ----- Warm starts -----


@unconverged
@pytest.mark.parametrize("name", ["LADLasso", "LADElasticNet", "SqrtRidge", "HuberLasso"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_warm_start_goes_on(name, kind, data):
    X, y = kind(data[0]), data[1]
    counter = Counter()
    model = make(name, n_iter=25, warm_start=True).set_callbacks(counter).fit(X, y)
    for n_iter, new in ((40, 15), (41, 1), (41, 0)):
        counter.hooks.clear()
        model.set_params(n_iter=n_iter).fit(X.copy(), y.copy())
        assert counter.iterations == new
        assert_same(model, make(name, n_iter=n_iter).fit(X, y))
    # what does not touch the run may change
    counter.hooks.clear()
    model.set_params(select="last", tol=1e6, test_loss="squared").fit(X, y)
    assert counter.iterations == 0
    fresh = make(name, n_iter=41, select="last", tol=1e6, test_loss="squared").fit(X, y)
    assert_same(model, fresh)


def test_warm_start_with_weights_and_algorithms(data):
    w = np.random.default_rng(1).uniform(0.5, 2, N)
    for algorithm in (sp.FISTA(), sp.LinearizedADMM(), sp.ProximalGradient()):  # with memory
        counter = Counter()
        model = fixed("HuberRidge", n_iter=25, algorithm=algorithm, warm_start=True)
        model.set_callbacks(counter).fit(*data, sample_weight=w)
        model.set_params(n_iter=40).fit(*data, sample_weight=w)
        assert counter.iterations == 40
        fresh = fixed("HuberRidge", algorithm=algorithm).fit(*data, sample_weight=w)
        assert_same(model, fresh)


@unconverged
@copies
@pytest.mark.parametrize(
    "change",
    [
        {"alpha": 0.04},
        {"n_alphas": 3},
        {"l1_ratio": 0.4},
        {"fit_intercept": False},
        {"standardize": False},
        {"algorithm": sp.LinearizedADMM()},
        {"n_iter": 20},
        {"warm_start": False},
        {"X": lambda X: X[:, ::-1]},
        {"X": sparse.csr_array},
        {"X": lambda X: np.column_stack([X, X[:, 0] ** 2])},
        {"y": lambda y: -y},
        {"sample_weight": lambda w: np.arange(N) % 2 + 1},
    ],
)
def test_anything_else_starts_afresh(change, data):
    arrays = dict(zip("Xy", data, strict=True))
    counter = Counter()
    model = make("LADElasticNet", n_iter=25, warm_start=True).set_callbacks(counter).fit(**arrays)
    changes = {"n_iter": 30} | change
    for part in set(change) & {"X", "y", "sample_weight"}:
        arrays[part] = changes.pop(part)(arrays.get(part))
    counter.hooks.clear()
    model.set_params(**changes).fit(**arrays)
    assert counter.iterations == changes["n_iter"]
    assert_same(model, make("LADElasticNet", **changes).fit(**arrays))


@unconverged
@pytest.mark.parametrize("what", ["X", "y", "sample_weight"])
@pytest.mark.parametrize("kind", [np.array, sparse.csr_array], ids=["dense", "sparse"])
def test_data_that_changed_in_place_start_afresh(what, kind, data):
    arrays = {"X": kind(data[0]), "y": data[1].copy(), "sample_weight": np.linspace(1, 2, N)}
    model = fixed("LADLasso", n_iter=25, warm_start=True, standardize=False).fit(**arrays)
    values = arrays[what].data if sparse.issparse(arrays[what]) else arrays[what]
    values[: len(values) // 2] *= 3
    model.set_params(n_iter=30).fit(**arrays)
    assert_same(model, fixed("LADLasso", n_iter=30, standardize=False).fit(**arrays))


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("standardize", [True, False])
def test_warm_starts_use_the_data_of_this_fit(kind, standardize, data):
    """An equal copy continues the runs, also if the array of the last fit was modified."""
    X, y, counter = kind(data[0]), data[1], Counter()
    model = fixed("LADLasso", n_iter=25, warm_start=True, standardize=standardize)
    model.set_callbacks(counter).fit(X, y)
    copied = X.copy()
    X *= 0.0
    model.set_params(n_iter=40).fit(copied, y)
    assert counter.iterations == 40
    assert_same(model, fixed("LADLasso", standardize=standardize).fit(copied, y))


# ----- Warnings -----


def test_convergence_warnings(data):
    advice = r"\(tol=0.001\); increase n_iter, or use select='risk'"
    gap = rf"not converge in 10 iterations: the duality gap .* is 0\.\d+ of its objective {advice}"
    with pytest.warns(ConvergenceWarning, match=gap):
        make("LADLasso", alpha=0.01, select="last", n_iter=10).fit(*data)
    with pytest.warns(
        ConvergenceWarning,
        match="risk was still decreasing .* use a larger number, such as n_iter=6",
    ):
        make("LADLasso", alpha=0.01, n_iter=3).fit(*data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make("LADLasso", alpha=0.3, select="last", n_iter=1000).fit(*data)
        make("LADLasso", alpha=0.3, select="last", n_iter=10, tol=10).fit(*data)
        make("LADLasso", alpha=0.01, select=3, n_iter=3).fit(*data)  # what was asked for


@pytest.mark.parametrize("name", ["LADLasso", "LADRidge", "SqrtLasso", "HuberLasso"])
@pytest.mark.parametrize("alpha", [0.0, 1e-5])
def test_nearly_equal_columns_have_not_converged(name, alpha):
    # each step moves the fit too little to be seen, and there are thousands of them to go
    rng = np.random.default_rng(0)
    x = rng.standard_normal(200)
    X = np.column_stack([x, x + 1e-3 * rng.standard_normal(200)])
    y = 1e3 * (X[:, 0] - X[:, 1]) + 0.05 * rng.standard_normal(200)
    model = make(name, alpha=alpha, select="last", n_iter=300, method=None)
    with pytest.warns(ConvergenceWarning, match="duality gap"):
        model.fit(X, y)
    assert np.mean(np.abs(y - model.predict(X))) > 0.4  # ten times the optimum


@pytest.mark.parametrize(
    "loss",
    [
        *("lad", "squared"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("square_root", "quantile", "huber")
        ),
    ],
)
@pytest.mark.parametrize(
    ("penalty", "alpha"),
    [("lasso", 0.1), pytest.param("ridge", 0.1, marks=pytest.mark.slow), ("none", 0.0)],
)
def test_what_has_converged_gives_no_warning(loss, penalty, alpha):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    model = sp.PathRegressor(
        loss=loss, penalty=penalty, alpha=alpha, select="last", n_iter=2000, method=None
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for y in (X[:, 0] + rng.standard_normal(60), X @ np.ones(4) + 3):
            model.fit(X, y)
            model.fit(X, y, sample_weight=rng.uniform(1, 2, 60))
            model.fit(X.astype(np.float32), y.astype(np.float32))
        for constant in (0.0, 0.1, 1e10 / 3):  # no more than rounding is left to be fitted
            model.fit(X, np.full(60, constant))


def test_without_a_duality_gap_movement_decides(data):
    model = sp.PathRegressor(penalty=NoConjugate, alpha=0.01, select="last", method=None)
    with pytest.warns(
        ConvergenceWarning, match="fitted values changed .* increase n_iter, or use select='risk'"
    ):
        model.set_params(n_iter=10).fit(*data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(n_iter=1000).fit(*data)


class NoConjugate(sp.Lasso):
    """A penalty of which not all is known."""

    name = "no_conjugate"

    def gauge(self, z):
        raise NotImplementedError


def test_doubts_are_kept_and_issued(data):
    X, y = (np.repeat(each, 2, axis=0) for each in data)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = make("LADLasso", n_iter=150).fit(X, y)
    assert [str(each.message) for each in caught] == list(model.warnings_)
    assert any("near-duplicate" in message for message in model.warnings_)
    assert make("LADLasso", n_iter=150).fit(*data).warnings_ == ()


# ----- scikit-learn's tools -----


@every_estimator
@unconverged
def test_clone_and_persistence(name, data):
    X, y = data
    model = make(name, warm_start=True, **own_parameters(name)).fit(X, y)
    unfitted = clone(model)
    assert unfitted.get_params() == model.get_params()
    assert not hasattr(unfitted, "coef_")
    stream = io.BytesIO()
    joblib.dump(model, stream)
    stream.seek(0)
    copies_ = (
        pickle.loads(pickle.dumps(model)),
        joblib.load(stream),
        copy.copy(model),
        copy.deepcopy(model),
    )
    fresh = clone(model).set_params(n_iter=50).fit(X, y)
    for other in copies_:
        assert_array_equal(other.predict(X), model.predict(X))
        assert_same(other.set_params(n_iter=50).fit(X, y), fresh)
    assert model.n_iter_ == 40


@pytest.mark.filterwarnings("ignore:all coefficients are zero:UserWarning")
@unconverged
@pytest.mark.filterwarnings("ignore:the smallest alpha on the grid")  # of the two that are given
@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (
            make("PathRegressor", n_alphas=2, n_iter=15),
            {
                "loss": ["lad", sp.Quantile(0.4), sp.Huber(2.0)],
                "penalty": ["ridge", sp.Lasso, functools.partial(sp.MCP, gamma=2.5)],
            },
        ),
        (make("QuantileLasso", n_iter=15), {"q": [0.1, 0.5], "alpha": [0.1, [0.2, 0.4], "auto"]}),
        (make("HuberRidge", alpha=0.1), {"delta": [0.5, 2.0], "select": ["last", 3], "tol": [1e6]}),
        (make("LADElasticNet"), {"l1_ratio": np.array([0.2, 0.9]), "alpha": np.array([0.1, 0.3])}),
    ],
    ids=["objects", "quantiles", "select", "numpy"],
)
def test_grid_search(model, grid, data):
    search = GridSearchCV(model, grid, cv=3, error_score="raise").fit(*data)
    best = clone(model).set_params(**search.best_params_)
    assert_same(search.best_estimator_, best.fit(*data))
    assert search.best_score_ == pytest.approx(cross_val_score(best, *data, cv=3).mean())


@copies
def test_metadata_routing(data):
    X, y = data
    w = np.random.default_rng(1).integers(0, 3, N)
    with sklearn.config_context(enable_metadata_routing=True):
        model = make("LADLasso").set_fit_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        pipeline.fit(X, y, sample_weight=w)
        scaled = pipeline[0].transform(X)
        assert_same(pipeline[-1], make("LADLasso").fit(scaled, y, sample_weight=w))
        model.set_score_request(sample_weight=False)
        scores = cross_validate(
            model, X, y, params={"sample_weight": w}, cv=[(range(70), range(70, N))]
        )
        expected = make("LADLasso").fit(X[:70], y[:70], sample_weight=w[:70]).score(X[70:], y[70:])
        assert_allclose(scores["test_score"], expected)


# ----- Callbacks -----


@unconverged
@pytest.mark.parametrize("alpha", [0.1, "auto"])
def test_callback_sees_every_iteration(alpha, data):
    counter = Counter()
    model = make("LADLasso", alpha=alpha).set_callbacks(counter).fit(*data)
    iterations = ["begin iteration", "end iteration"] * 40
    assert counter.hooks == ["setup", "begin fit", *iterations, "end fit", "teardown"]
    assert_same(model, make("LADLasso", alpha=alpha).fit(*data))
    final, X, y, _ = counter.models[-1]
    assert_array_equal(final.predict(X), model.predict(data[0]))
    assert_array_equal(y, data[1])


@pytest.mark.parametrize("settings", [{}, {"standardize": False}, {"fit_intercept": False}])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_callback_is_shown_the_model_of_the_iterate(settings, weighted, data):
    w = np.linspace(0.5, 2, N) if weighted else None
    counter = Counter()
    fixed("LADRidge", n_iter=6, **settings).set_callbacks(counter).fit(*data, sample_weight=w)
    for t, (shown, X, y, metadata) in enumerate(counter.models[:-1], start=1):
        stopped = fixed("LADRidge", n_iter=t, **settings).fit(*data, sample_weight=w)
        assert_allclose(shown.predict(X), stopped.predict(data[0]), atol=1e-10)
        assert len(y) == N
        assert metadata is None if w is None else (metadata["sample_weight"] == w).all()


@unconverged
@pytest.mark.parametrize("alpha", [0.1, "auto"])
def test_callback_stops_the_run(alpha, data):
    counter = Counter(stop_after=7)
    model = make("LADLasso", alpha=alpha, warm_start=True).set_callbacks(counter).fit(*data)
    assert counter.iterations == model.n_iter_ == 7
    assert counter.hooks[-2:] == ["end fit", "teardown"]
    assert_same(model, make("LADLasso", alpha=alpha, n_iter=7).fit(*data))
    # and goes on, once nobody stops it
    model.set_callbacks().fit(*data)
    assert_same(model, make("LADLasso", alpha=alpha).fit(*data))


def test_callback_may_stop_before_the_selected_iterate(data):
    counter = Counter(stop_after=7)
    model = make("LADLasso", select=20).set_callbacks(counter).fit(*data)
    assert model.best_iter_ == model.n_iter_ == 7


def test_callbacks_are_torn_down_after_an_error(data):
    counter = Counter()
    model = make("LADLasso", alpha="wrong").set_callbacks(counter)
    with pytest.raises(ValueError, match="alpha must be"):
        model.fit(*data)
    assert counter.open == 0
    with pytest.raises(TypeError, match="FitCallback protocol"):
        model.set_callbacks("progress")


# ----- Targets that are computed from the features -----


@pytest.mark.parametrize("loss", ["lad", "squared", "huber", "quantile"])
@pytest.mark.parametrize(("noise", "noted"), [(0.0, True), (0.03, False)])
def test_a_target_computed_from_the_features_is_noted_with_their_names(loss, noise, noted):
    rng = np.random.default_rng(0)
    counts = rng.poisson((50, 200, 9), (300, 3)).astype(float)
    X = pd.DataFrame(counts, columns=["casual", "registered", "wind"])
    y = X["casual"] + X["registered"]
    y += noise * y.std() * rng.standard_normal(300)
    model = sp.PathRegressor(loss=loss, n_alphas=8, random_state=0).fit(X, y)
    assert not model.warnings_
    text = " ".join(str(model.summary()).split())
    assert ("check whether columns such as 'registered', 'casual'" in text) == noted
    assert ("predict the target almost exactly" in text) == noted
