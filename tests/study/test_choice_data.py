"""Data of the study ``choice``: single rows, dependent rows, and new rows."""

import math

import numpy as np
import pytest
from scipy import stats

import steinpath as sp
from steinpath.study._scenarios import CHOICE_SCENARIOS, SKEWED

P = 20
COVARIANCE = 0.5 ** np.abs(np.subtract.outer(np.arange(P), np.arange(P)))
# the paper's signal: equal first tenth, of strength 2
COEF = np.zeros(P)
COEF[:2] = math.sqrt(2 / COVARIANCE[:2, :2].sum())
CLUSTERS = {"clusters of 3": 0.7, "clusters of 3 to 10": 0.8, "clusters of 10": 0.9}
NOISE = {
    "normal": stats.norm(),
    "laplace": stats.laplace(),
    "t2": stats.t(2),
    SKEWED: stats.expon(-1),
}
EVERY = pytest.mark.parametrize(
    ("rows", "noise"),
    [
        *(("independent", noise) for noise in NOISE),
        *((rows, "normal") for rows in list(CHOICE_SCENARIOS)[1:]),
    ],
)
# coefficients with most of the signal and some noise
NEARLY, INTERCEPT = COEF + 0.1 * np.sin(np.arange(P)), 0.3


def given(rows, n, noise="normal", seed=0):
    return CHOICE_SCENARIOS[rows](n, P, noise, np.random.default_rng(seed))


def assert_law(X, error, noise):
    """One row each of independent data sets: features and error follow the model."""
    assert stats.kstest(error, NOISE[noise].cdf).pvalue > 1e-3
    products = X[:, :, None] * X[:, None, :]
    for values, expected in ((X, 0.0), (products, COVARIANCE), (X * np.sign(error)[:, None], 0.0)):
        z = (values.mean(axis=0) - expected) / (values.std(axis=0) / math.sqrt(len(X)))
        assert np.abs(z).max() < 4.5


@EVERY
def test_a_row_has_the_law_of_the_model(rows, noise):
    sets = [given(rows, 12, noise, seed) for seed in range(2000)]
    for k in (0, -1):
        X, y = np.array([d.X[k] for d in sets]), np.array([d.y[k] for d in sets])
        assert_law(X, y - X @ COEF, noise)
    if rows != "time series":  # new rows depend on the last one
        X, y = sets[0].new(4000, np.random.default_rng(1))
        assert_law(X, y - X @ COEF, noise)


@EVERY
def test_risks_are_those_of_new_rows(rows, noise):
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


# Clusters


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


# Time


def test_a_series_remembers_rows_and_errors():
    X, y, *_ = given("time series", 20_000)
    error = y - X @ COEF
    for series in (X[:, 0], X[:, -1], error):
        for lag in (1, 3):
            found = np.corrcoef(series[lag:], series[:-lag])[0, 1]
            assert found == pytest.approx(0.7**lag, abs=0.04)
    assert abs(np.corrcoef(X[:, 0], error)[0, 1]) < 0.06


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
