"""Data-generating processes: moments, shared random numbers, and exact risks."""

import math

import numpy as np
import pytest
from scipy import linalg, stats

from steinpath.study._scenarios import SCENARIOS
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


def test_time_series_remember_rows_and_errors():
    X, y, *_ = drawn("time series", 20_000)
    error = y - X @ COEF
    for series in (X[:, 0], X[:, -1], error):
        for lag in (1, 3):
            assert np.corrcoef(series[lag:], series[:-lag])[0, 1] == pytest.approx(
                0.9**lag, abs=0.04
            )
    assert abs(np.corrcoef(X[:, 0], error)[0, 1]) < 0.1


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
