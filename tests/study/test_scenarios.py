"""Data-generating processes: moments, shared random numbers, and exact risks."""

import math

import numpy as np
import pytest
from scipy import linalg, stats

import steinpath as sp
from steinpath.study._scenarios import CHOICE_SCENARIOS, SCENARIOS, SKEWED
from steinpath.study._settings import LOSSES

P = 20
COVARIANCE = 0.5 ** np.abs(np.subtract.outer(np.arange(P), np.arange(P)))
ROOT = linalg.sqrtm(COVARIANCE).real
# the paper's signal: equal first tenth, of strength 2
COEF = np.zeros(P)
COEF[:2] = math.sqrt(2 / COVARIANCE[:2, :2].sum())

NORMAL = {"gaussian", "few rows", "correlated noise", "time series", "near-duplicate rows"}
DEPENDENT = {"correlated noise", "time series", "near-duplicate rows"}
# entries of variance 1 before multiplication by the root of the covariance
ENTRIES = dict.fromkeys(NORMAL, stats.norm()) | {
    "uniform": stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)),
    "elliptical": stats.t(4, scale=math.sqrt(1 / 2)),
    "heavy-tailed features": stats.t(3, scale=math.sqrt(1 / 3)),
}
ERRORS = {"normal": stats.norm(), "laplace": stats.laplace(), "t2": stats.t(2)}
ALWAYS_NORMAL = {"correlated noise", "time series"}
# iterates such as a path has: none, some and most of the signal, and some noise
ITERATES = np.vstack([0 * COEF, 0.6 * COEF, COEF + 0.1 * np.sin(np.arange(P)), COEF])

EVERY = pytest.mark.parametrize("rows", SCENARIOS)


def drawn(rows, n, seed=0, noise="normal"):
    return SCENARIOS[rows](n, P, noise, np.random.default_rng(seed))


def independent_rows(rows, size, noise="normal"):
    """Return independent rows and errors, and the errors."""
    if rows in DEPENDENT:
        sets = [drawn(rows, 9, seed, noise=noise) for seed in range(size)]
        X, y = np.array([d.X[-1] for d in sets]), np.array([d.y[-1] for d in sets])
    else:
        X, y, *_ = drawn(rows, size, noise=noise)
    return X, y - X @ COEF


def test_every_scenario_is_known_here():
    assert set(ENTRIES) == set(SCENARIOS)


@pytest.mark.parametrize("rows", sorted({*NORMAL, "uniform"}))
def test_rows_have_mean_zero_and_the_covariance(rows):
    X, _ = independent_rows(rows, 2000 if rows in DEPENDENT else 20_000)
    products = X[:, :, None] * X[:, None, :]
    for values, expected in ((X, 0.0), (products, COVARIANCE)):
        z = (values.mean(axis=0) - expected) / (values.std(axis=0) / math.sqrt(len(X)))
        assert np.abs(z).max() < 4.5


@pytest.mark.slow
@EVERY
def test_entries_and_errors_have_the_laws_they_should(rows):
    """Infinite fourth moments imply infinite standard errors of covariances."""
    for noise, law in ERRORS.items():
        X, error = independent_rows(rows, 1500, noise)
        expected = ERRORS["normal"] if rows in ALWAYS_NORMAL else law
        assert stats.kstest(error, expected.cdf).pvalue > 1e-3
    z = X @ np.linalg.inv(ROOT)
    for j in range(0, P, 5):
        assert stats.kstest(z[:, j], ENTRIES[rows].cdf).pvalue > 1e-3
    signs = np.sign(z)
    agreement = np.abs(signs.T @ signs / len(z) - np.eye(P))
    assert agreement.max() < 4.5 / math.sqrt(len(z))
    # absolute values within a row are correlated only for elliptical rows
    together = stats.spearmanr(np.abs(z[:, 0]), np.abs(z[:, 1])).statistic
    assert (together > 0.1) == (rows == "elliptical")


@pytest.mark.parametrize(
    ("loss", "noise"),
    [*(("lad", noise) for noise in ERRORS), ("square_root", "normal"), ("square_root", "laplace")],
)
@EVERY
def test_risks_are_those_of_new_rows(rows, loss, noise):
    name = "normal" if rows in ALWAYS_NORMAL else noise
    found = drawn(rows, 40, noise=noise).risk(ITERATES, LOSSES[loss])
    away = ITERATES - COEF
    if loss == "square_root":
        variance = {"normal": 1.0, "laplace": 2.0}[name]
        expected = np.einsum("ij,jk,ik->i", away, COVARIANCE, away) + variance
        np.testing.assert_allclose(found, expected, rtol=1e-10)
        return
    rng, size = np.random.default_rng(1), 40_000
    z = ENTRIES[rows].rvs((size, P), random_state=rng)
    if rows == "elliptical":
        z = rng.standard_normal((size, P)) * np.sqrt(2 / rng.chisquare(4, (size, 1)))
    # the absolute error, whose mean is known, is subtracted: t₂ has infinite variance
    error = ERRORS[name].rvs(size, random_state=rng)[:, None]
    losses = np.abs(error - z @ ROOT @ away.T) - np.abs(error)
    stderr = losses.std(axis=0) / math.sqrt(size)
    mean = {"normal": math.sqrt(2 / math.pi), "laplace": 1.0, "t2": math.sqrt(2)}[name]
    if rows == "heavy-tailed features":  # known from a test set of its own
        stderr, found, mean = np.hypot(stderr, stderr * math.sqrt(2)), found - found[-1], 0.0
    assert (np.abs(found - mean - losses.mean(axis=0)) <= 4.5 * stderr + 1e-7).all()


def test_designs_of_a_seed_share_their_noise():
    found = {rows: drawn(rows, 50, seed=3) for rows in ("gaussian", "uniform", "elliptical")}
    errors = {rows: d.y - d.X @ COEF for rows, d in found.items()}
    np.testing.assert_allclose(errors["uniform"], errors["gaussian"], atol=1e-12)
    np.testing.assert_allclose(errors["elliptical"], errors["gaussian"], atol=1e-12)
    assert abs(np.corrcoef(found["uniform"].X.ravel(), found["gaussian"].X.ravel())[0, 1]) < 0.15


@EVERY
def test_noise_does_not_change_the_rows(rows):
    first = drawn(rows, 30)
    np.testing.assert_array_equal(drawn(rows, 30, noise="laplace").X, first.X)
    assert not np.any(drawn(rows, 30, seed=1).X == first.X)


@pytest.mark.parametrize(("scenario", "memory"), [(SCENARIOS, 0.9), (CHOICE_SCENARIOS, 0.7)])
def test_time_series_remember_rows_and_errors(scenario, memory):
    X, y, *_ = scenario["time series"](20_000, P, "normal", np.random.default_rng(0))
    error = y - X @ COEF
    for series in (X[:, 0], X[:, -1], error):
        for lag in (1, 3):
            found = np.corrcoef(series[lag:], series[:-lag])[0, 1]
            assert found == pytest.approx(memory**lag, abs=0.04)
    assert abs(np.corrcoef(X[:, 0], error)[0, 1]) < (0.1 if memory == 0.9 else 0.06)


def test_correlated_noise_is_all_that_correlated_noise_has():
    X, y, *_ = drawn("correlated noise", 20_000)
    error = y - X @ COEF
    assert np.corrcoef(error[1:], error[:-1])[0, 1] == pytest.approx(0.95, abs=0.02)
    assert abs(np.corrcoef(X[1:, 0], X[:-1, 0])[0, 1]) < 4.5 / math.sqrt(20_000)


@pytest.mark.parametrize("n", [40, 42])
def test_near_duplicates_come_in_fours(n):
    X, y, *_ = drawn("near-duplicate rows", n)
    error, z = y - X @ COEF, X @ np.linalg.inv(ROOT)
    alike = np.abs(error[:, None] - error) < 1e-9
    assert set(alike.sum(axis=1)) <= {3, 4}
    assert len(np.unique(np.round(error, 9))) == math.ceil(n / 4)
    distance = np.linalg.norm(z[:, None] - z, axis=2) / math.sqrt(2 * P)
    np.fill_diagonal(alike, False)
    assert distance[alike].max() < 0.1
    assert distance[~alike & ~np.eye(n, dtype=bool)].min() > 0.4


# Data of the study ``choice``: single rows, dependent rows, and new rows

CLUSTERS = {"clusters of 3": 0.7, "clusters of 3 to 10": 0.8, "clusters of 10": 0.9}
CHOICE_NOISE = ERRORS | {SKEWED: stats.expon(-1)}
EVERY_CHOICE = pytest.mark.parametrize(
    ("rows", "noise"),
    [
        *(("independent", noise) for noise in CHOICE_NOISE),
        *((rows, "normal") for rows in list(CHOICE_SCENARIOS)[1:]),
    ],
)
# coefficients with most of the signal and some noise
NEARLY, INTERCEPT = COEF + 0.1 * np.sin(np.arange(P)), 0.3


def given(rows, n, noise="normal", seed=0):
    return CHOICE_SCENARIOS[rows](n, P, noise, np.random.default_rng(seed))


def assert_law(X, error, noise):
    """One row each of independent data sets: features and error follow the model."""
    assert stats.kstest(error, CHOICE_NOISE[noise].cdf).pvalue > 1e-3
    products = X[:, :, None] * X[:, None, :]
    for values, expected in ((X, 0.0), (products, COVARIANCE), (X * np.sign(error)[:, None], 0.0)):
        z = (values.mean(axis=0) - expected) / (values.std(axis=0) / math.sqrt(len(X)))
        assert np.abs(z).max() < 4.5


@EVERY_CHOICE
def test_a_row_has_the_law_of_the_model(rows, noise):
    sets = [given(rows, 12, noise, seed) for seed in range(2000)]
    for k in (0, -1):
        X, y = np.array([d.X[k] for d in sets]), np.array([d.y[k] for d in sets])
        assert_law(X, y - X @ COEF, noise)
    if rows != "time series":  # new rows depend on the last one
        X, y = sets[0].new(4000, np.random.default_rng(1))
        assert_law(X, y - X @ COEF, noise)


@EVERY_CHOICE
def test_risks_of_tuned_models_are_those_of_new_rows(rows, noise):
    data = given(rows, 60, noise)
    losses = {"lad": (sp.LAD(), np.abs), "square_root": (sp.SquareRoot(), np.square)}
    X, y = data.new(200_000, np.random.default_rng(1))
    for name, (loss, size) in losses.items():
        if (name, noise) == ("square_root", "t2"):
            assert data.risk(NEARLY, loss, INTERCEPT, np.random.default_rng(2)) == math.inf
            continue
        found = data.risk(NEARLY, loss, INTERCEPT, np.random.default_rng(2))
        # the absolute error is subtracted, whose mean is known: t₂ has infinite variance
        error = y - X @ COEF
        own = {
            ("lad", "normal"): math.sqrt(2 / math.pi),
            ("lad", "laplace"): 1.0,
            ("lad", "t2"): math.sqrt(2),
            ("lad", SKEWED): 2 / math.e,
            ("square_root", "laplace"): 2.0,
        }.get((name, noise), 1.0)
        added = size(y - X @ NEARLY - INTERCEPT) - size(error)
        if rows == "time series":  # the first errors to come are smaller than others, or larger
            added, own = added + size(error), 0.0
        # a thousand dependent rows are less informative than independent ones; without a formula,
        # the true risk is a mean over 20,000 rows
        tolerance = 4.5 * added.std() / math.sqrt(len(y) / (10 if data.model is None else 1))
        if data.model is None:
            tolerance += 4.5 * size(error).std() / math.sqrt(20_000)
        assert found == pytest.approx(own + added.mean(), abs=tolerance)


@pytest.mark.parametrize("rows", CLUSTERS)
def test_clusters_have_the_sizes_they_should_and_are_shuffled(rows):
    smallest, largest = {"3": (3, 3), "3 to 10": (3, 10), "10": (10, 10)}[rows[12:]]
    data = given(rows, 3001)
    assert data.X.shape == (3001, P)
    _, counts = np.unique(data.groups, return_counts=True)
    full = np.sort(counts)[1:]  # one is truncated
    assert set(full) == set(range(smallest, largest + 1))
    assert counts.min() <= largest
    if smallest < largest:
        assert stats.chisquare(np.bincount(full)[3:]).pvalue > 1e-3
    neighbours = np.mean(data.groups[1:] == data.groups[:-1])
    assert neighbours < 0.02
    assert data.groups.max() < len(counts)  # labels without gaps


@pytest.mark.parametrize(("rows", "correlation"), CLUSTERS.items())
def test_rows_of_a_cluster_share_errors_and_features(rows, correlation):
    data = given(rows, 20_000)
    error, groups = data.y - data.X @ COEF, data.groups
    order = np.argsort(groups, kind="stable")
    same = groups[order][1:] == groups[order][:-1]

    def alike(values):
        first, second = values[order][:-1], values[order][1:]
        return (
            np.corrcoef(first[same], second[same])[0, 1],
            np.corrcoef(first[~same], second[~same])[0, 1],
        )

    within, between = alike(error)
    # neighbours of large clusters are few independent pairs
    tolerance = 4.5 * math.sqrt(10 / 20_000)
    assert within == pytest.approx(correlation, abs=tolerance)
    assert between == pytest.approx(0, abs=tolerance)
    within, between = alike(data.X[:, 3])
    assert within == pytest.approx(0.5, abs=tolerance)
    assert between == pytest.approx(0, abs=tolerance)


def test_new_rows_follow_the_last_one():
    n = 60  # continuations of 10 rows
    data = given("time series", n)
    X, y = data.new(40_000, np.random.default_rng(1))
    for last, series in (
        (data.X[-1, 0], X[:, 0]),
        (data.y[-1] - data.X[-1] @ COEF, y - X @ COEF),
    ):
        blocks = series.reshape(-1, 10)
        for k in range(10):
            kept = 0.7 ** (k + 1)
            spread = math.sqrt(1 - kept**2)
            tolerance = 4.5 * spread / math.sqrt(len(blocks))
            assert blocks[:, k].mean() == pytest.approx(kept * last, abs=tolerance)
            assert blocks[:, k].std() == pytest.approx(spread, abs=tolerance)
        # one after the other within a block, anew in the next
        assert np.corrcoef(blocks[:, 8], blocks[:, 9])[0, 1] == pytest.approx(0.7, abs=0.06)
        assert abs(np.corrcoef(blocks[1:, 0], blocks[:-1, 9])[0, 1]) < 0.07
