"""Diagnostics on everyday data: what looks suspicious and is not, and plain mistakes."""

import math

import numpy as np
import pytest
from scipy.signal import lfilter
from sklearn.model_selection import TimeSeriesSplit

import steinpath as sp
from steinpath._support.printing import number
from steinpath.problem._scoring import HuberError

SEEDS = pytest.mark.parametrize("seed", range(3))


def gaussian(n, p, seed=0):
    return np.random.default_rng(seed).standard_normal((n, p))


def doubts(X, y, loss=None, lam=0.1, n_iter=60, at=None, **options):
    """Names of the checks that warn, and their messages, of a fit by leave-one-out."""
    path = sp.run(X, y, loss or sp.LAD(), sp.Lasso(lam), n_iter=n_iter, fit_intercept=True)
    risk = sp.estimate_risk(path, **{"method": "loo", "rng": 0} | options)
    return {each.name: each.message for each in risk.diagnose(at) if each.warns}


def straight_line(X, seed, noise=1.0):
    """Responses of a linear model with independent errors."""
    coef = np.zeros(X.shape[1])
    coef[:3] = 1.0
    errors = noise * gaussian(len(X), 1, seed + 99)[:, 0]
    return (X - X.mean(axis=0)) / X.std(axis=0) @ coef + errors


def small_integers(rng):
    age = rng.integers(18, 70, 200)
    return np.column_stack([age, rng.poisson(age / 30), rng.integers(1, 6, (200, 4))]).astype(float)


def nested_categories(rng):
    """A region determines its country, and nearly the distance."""
    region = rng.integers(0, 30, 200)
    distance = np.arange(30.0)[region] ** 2 + rng.integers(0, 3, 200)
    others = np.column_stack([np.eye(4)[rng.integers(0, 4, 200)], rng.standard_normal((200, 4))])
    return np.column_stack([others, np.eye(30)[region], np.eye(6)[region // 5], distance])


def products(rng):
    X = rng.standard_normal((200, 6))
    i, j = np.triu_indices(6)
    return np.column_stack([X, X[:, i] * X[:, j], X**3])


ALIKE = {"integers": small_integers, "nested": nested_categories, "products": products}


@SEEDS
@pytest.mark.parametrize("rows", ALIKE.values(), ids=ALIKE)
def test_columns_that_make_rows_alike(rows, seed):
    X = rows(np.random.default_rng(seed))
    X = X[:, X.std(axis=0) > 0] / X.std(axis=0)[X.std(axis=0) > 0]
    y = straight_line(X, seed) + 0.5 * np.sin(3 * X[:, 0])  # which is not quite a line
    assert doubts(X, y) == {}


@SEEDS
@pytest.mark.parametrize("rows", [small_integers, products], ids=["integers", "products"])
def test_units_that_were_measured_again(rows, seed):
    """With the same error each time, and some noise in one column."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rows(rng)[:50], rng.standard_normal((50, 30))])
    X = np.repeat(X / X.std(axis=0), 4, axis=0)
    y = np.repeat(straight_line(X[::4], seed), 4)
    X[:, -1] += 0.1 * rng.standard_normal(200)
    order = rng.permutation(200)
    found = doubts(X[order], y[order])
    assert "near-duplicate rows" in found
    assert "groups=labels" in found["near-duplicate rows"]


# ----- Files in some order -----


@SEEDS
@pytest.mark.parametrize("p", [2, 10])
@pytest.mark.parametrize("by", ["column", "target", "category", "zeros first", "two pieces"])
def test_sorted_files_are_no_time_series(by, p, seed):
    X = gaussian(300, p, seed)
    X[:, 1] = X[:, 1] > 0.5
    y = straight_line(np.column_stack([X, X[:, 0]]), seed)
    y += 0.4 * X[:, 0] ** 2  # a trend is left in the residuals
    keys = {
        "column": X[:, 0],
        "target": y,
        "category": X[:, 1],
        "zeros first": y > 0,
        "two pieces": y + 100 * (np.arange(300) < 150),
    }
    if by == "zeros first":
        y = np.maximum(y, 0)
    order = np.argsort(keys[by], kind="stable")
    assert doubts(X[order], y[order]) == {}


@SEEDS
@pytest.mark.parametrize("memory", [0.7, 0.9, 0.99])
def test_errors_that_remember_beside_a_column_that_is_sorted(memory, seed):
    """The time itself."""
    innovations = gaussian(700, 1, seed)[:, 0]
    errors = math.sqrt(1 - memory**2) * lfilter([1.0], [1.0, -memory], innovations)[400:]
    X = np.column_stack([np.arange(300) / 100, gaussian(300, 4, seed + 1)])
    found = doubts(X, X.sum(axis=1) + errors)
    assert "serial residuals" in found
    assert "TimeSeriesSplit" in found["serial residuals"]


@SEEDS
def test_a_series_that_grows(seed):
    """Target and columns with a trend, and a random walk about it."""
    walks = np.cumsum(gaussian(300, 4, seed), axis=0)
    X = np.column_stack([walks[:, :3], gaussian(300, 3, seed + 1)])
    y = 0.3 * np.arange(300) + walks.sum(axis=1)
    assert {"serial rows", "serial residuals"} & set(doubts(X, y))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:the smallest alpha:UserWarning")
def test_counts_of_observations_are_no_duplicates():
    X = gaussian(120, 30)
    y, counts = straight_line(X, 0), np.random.default_rng(1).integers(1, 5, 120)
    model = sp.LADLasso(n_alphas=4, n_iter=60, random_state=0)
    with pytest.warns(UserWarning, match="treated as frequencies"):
        weighted = model.fit(X, y, sample_weight=counts).warnings_
    assert weighted == ()
    # whereas rows that somebody repeated may be anything
    repeated = np.random.default_rng(2).permutation(np.repeat(np.arange(120), counts))
    with pytest.warns(UserWarning, match="near-duplicate"):
        model.fit(X[repeated], y[repeated])


# ----- Plain mistakes -----


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot(), sp.Huber()], ids=repr)
def test_a_penalty_above_the_largest(loss, fit_intercept):
    X = gaussian(60, 5)
    y = straight_line(X, 0) + 5
    largest = sp.lam_max(X, y, loss, sp.Lasso(1.0), fit_intercept)
    for factor, zero in ((0.5, False), (1 + 1e-12, False), (1.1, True), (50.0, True)):
        path = sp.run(
            X, y, loss, sp.Lasso(factor * largest), n_iter=20, fit_intercept=fit_intercept
        )
        warnings = sp.estimate_risk(path, method="loo", rng=0).warnings
        assert any("all coefficients are zero" in message for message in warnings) == zero
        if zero:
            given, most = number(factor * largest, 3), number(largest, 3)
            assert f"lam = {given} exceeds lam_max = {most}" in warnings[0]
            given, most = (number(x * largest / math.sqrt(60), 3) for x in (factor, 1))
            assert f"(for estimators, alpha = {given} exceeds {most};" in warnings[0]
    path = sp.run(X, np.zeros(60), loss, sp.Ridge(5.0), n_iter=5)  # which never gives zero
    assert sp.estimate_risk(path, method="loo", rng=0).warnings == ()


def test_numbers_are_written_alike_in_large_units():
    X = gaussian(60, 5)
    y = 1e5 * straight_line(X, 0)
    path = sp.run(X, y, sp.Squared(), sp.Lasso(2e6), n_iter=5)
    risk = sp.estimate_risk(path, method="loo", rng=0)
    assert "lam = 2,000,000 exceeds lam_max = " in risk.warnings[0]
    units = {each.name: each.unit for each in risk.diagnose()}
    assert units["zero coefficients"] == "times the smallest lam with all coefficients zero"
    assert units["serial rows"] == "difference in mean cosine similarity"
    assert HuberError(20_000.0).words == "Huber loss (δ = 20,000)"
    tuning = sp.tune(X, y, sp.Squared(), sp.Lasso, lams=[2e4], n_iter=5, rng=0)
    for text in (repr(tuning), str(tuning.summary()), tuning._repr_html_()):
        assert "20,000" in text
        assert "e+04" not in text


@pytest.mark.parametrize(("loss", "power"), [(sp.LAD(), 1), (sp.SquareRoot(), 2), (sp.Huber(), 1)])
def test_a_target_that_one_row_dominates(loss, power):
    X = gaussian(100, 5)
    y = straight_line(X, 0)
    assert "dominant row" not in doubts(X, y, loss)
    others = np.sum(np.abs(y - np.median(y)) ** power)
    for share, dominates in ((0.4, False), (0.6, True)):
        outlier = y.copy()
        outlier[17] += (others * share / (1 - share)) ** (1 / power)
        found = doubts(X, outlier, loss)
        assert ("dominant row" in found) == dominates
    assert found["dominant row"].startswith("row 17 has ")
    assert ("sp.LAD()" in found["dominant row"]) == (power == 2)


def test_the_splits_that_are_advised():
    """What the messages say can be done."""
    X = np.repeat(gaussian(20, 5), 4, axis=0)
    path = sp.run(X, straight_line(X, 0), sp.LAD(), sp.Lasso(0.1), n_iter=9)
    labels = np.repeat(np.arange(20), 4)
    found = {each.name: each for each in sp.estimate_risk(path, rng=0).diagnostics}
    assert "use groups=labels" in found["near-duplicate rows"].message
    assert "use cv=TimeSeriesSplit(5)" in found["serial rows"].message
    assert found["near-duplicate rows"].warns
    for advised in ({"groups": labels}, {"cv": TimeSeriesSplit(5)}):
        names = {each.name for each in sp.estimate_risk(path, **advised).diagnostics if each.warns}
        assert not names & {"near-duplicate rows", "serial rows", "serial residuals"}
