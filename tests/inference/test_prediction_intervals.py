"""CV+ intervals are those of the paper's definition, and cover as it says."""

import math
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis.extra.numpy import arrays
from scipy import sparse

from steinpath.design._dense import DenseDesign
from steinpath.design._memmap import BlockDesign
from steinpath.inference import _prediction_intervals
from steinpath.inference._prediction_intervals import (
    PredictionIntervals,
    conformalised_quantiles,
    cross_conformal,
)

K, P = 5, 3


def drawn(rng, n=60, n_folds=K, p=P, symmetric=True, spread=1.0):
    """Models that have nothing to do with any data."""
    return PredictionIntervals(
        spread * rng.normal(size=(n_folds, p)),
        rng.normal(size=n_folds),
        rng.integers(n_folds, size=n),
        rng.standard_t(3, size=n) + 0.3,
        symmetric,
    )


def by_definition(lower, upper, lower_scores, upper_scores, fold, alpha):
    """Bounds as in Barber et al. (2021), equation (1.2) and section 3; crossed ones widened."""
    n, bounds = len(fold), []
    for m in range(len(lower)):
        down = sorted(lower[m, fold[i]] - lower_scores[i] for i in range(n))
        up = sorted(upper[m, fold[i]] + upper_scores[i] for i in range(n))
        middles = sorted(
            (lower[m, fold[i]] + upper[m, fold[i]] + upper_scores[i] - lower_scores[i]) / 2
            for i in range(n)
        )
        median = (middles[(n - 1) // 2] + middles[n // 2]) / 2
        low = down[math.floor(alpha * (n + 1)) - 1]
        high = up[math.ceil((1 - alpha) * (n + 1)) - 1]
        bounds.append((min(low, median), max(high, median)))
    return np.array(bounds)


def least_squares(X, y, n_folds, **options):
    """Fold models by least squares."""
    n = len(X)
    fold, design = np.arange(n) % n_folds, np.column_stack([X, np.ones(n)])
    coefs = []
    for k in range(n_folds):
        train = fold != k
        coefs.append(np.linalg.lstsq(design[train], y[train], rcond=None)[0])
    coefs = np.array(coefs)
    residuals = y - np.einsum("ij,ij->i", design, coefs[fold])
    return PredictionIntervals(coefs[:, :-1], coefs[:, -1], fold, residuals, **options)


# ----- Definition -----


@pytest.mark.parametrize("n", [9, 40, 41])
@pytest.mark.parametrize("alpha", [0.11, 0.31, 0.82])
@pytest.mark.parametrize("spread", [0.0, 0.1, 3.0])
def test_bounds_are_those_of_the_definition(n, alpha, spread):
    rng = np.random.default_rng(n)
    fold = rng.integers(K, size=n)
    lower = rng.normal(size=(7, 1)) + spread * rng.normal(size=(7, K))
    upper = lower + rng.exponential(size=(7, K))
    for scores in (rng.exponential(size=(2, n)), rng.normal(size=(2, n))):
        for high in (upper, lower):
            args = lower, high, *scores, fold, alpha
            np.testing.assert_allclose(cross_conformal(*args), by_definition(*args), rtol=1e-12)


@pytest.mark.parametrize("level", [0.05, 0.5, 0.83, 0.9, 0.95])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("model", [None, (np.linspace(-1, 1, P), 0.5)])
def test_interval_uses_the_centres_and_scores_that_belong_to_it(level, symmetric, model):
    rng = np.random.default_rng(0)
    intervals, X = drawn(rng, symmetric=symmetric), rng.normal(size=(11, P))
    r, centres = intervals.residuals, X @ intervals.coef.T + intervals.intercept
    np.testing.assert_allclose(intervals.predict(X), centres)
    if model is not None:
        intervals = replace(intervals, model=model)
        centres = np.repeat((X @ model[0] + model[1])[:, None], K, axis=1)
    scores = (np.abs(r), np.abs(r)) if symmetric else (-r, r)
    alpha = 1 - level if symmetric else (1 - level) / 2
    expected = by_definition(centres, centres, *scores, intervals.fold, alpha)
    np.testing.assert_allclose(intervals.interval(X, level), expected)


@pytest.mark.parametrize(("n", "level", "rank"), [(99, 0.9, 10), (9, 0.9, 1), (9, 0.8, 2)])
def test_ranks_are_not_lost_to_rounding(n, level, rank):
    assert (1 - level) * (n + 1) < rank  # as numbers of the machine
    residuals = np.arange(1.0, n + 1)
    intervals = PredictionIntervals(np.zeros((1, 1)), [0.0], np.zeros(n, int), residuals)
    bound = n + 1 - rank
    np.testing.assert_array_equal(intervals.interval([[0.0]], level), [[-bound, bound]])


def test_conformalised_quantiles_are_those_of_the_definition():
    """Romano et al. (2019), equations (6) to (8), with the fold models of each row."""
    rng = np.random.default_rng(9)
    lower, upper, X = drawn(rng, n=39), drawn(rng, n=39, n_folds=3), rng.normal(size=(8, P))
    for high in (upper, replace(upper, fold=lower.fold % 3)):
        left, right = lower.predict(X)[:, lower.fold], high.predict(X)[:, high.fold]
        scores = np.maximum(-lower.residuals, high.residuals)
        middle = np.median((left + right) / 2, axis=1)
        down, up = np.sort(left - scores)[:, 4 - 1], np.sort(right + scores)[:, -4]
        expected = np.column_stack([np.minimum(down, middle), np.maximum(up, middle)])
        np.testing.assert_allclose(conformalised_quantiles(lower, high, X, 0.9), expected)


@given(st.data())
def test_intervals_are_nested(data):
    n, n_folds = data.draw(st.integers(2, 30)), data.draw(st.integers(1, 4))
    numbers = st.floats(-1e3, 1e3)
    symmetric = data.draw(st.booleans())
    intervals = PredictionIntervals(
        data.draw(arrays(float, (n_folds, 2), elements=numbers)),
        data.draw(arrays(float, n_folds, elements=numbers)),
        data.draw(arrays(int, n, elements=st.integers(0, n_folds - 1))),
        data.draw(arrays(float, n, elements=numbers)),
        symmetric,
        data.draw(st.sampled_from([None, (np.ones(2), 1.0)])),
    )
    X = data.draw(arrays(float, (3, 2), elements=st.floats(-10, 10)))
    highest = n / (n + 1) if symmetric else (n - 1) / (n + 1)
    levels = np.linspace(0, highest, 25)[1:]
    bounds = np.array([intervals.interval(X, level) for level in levels])
    assert np.all(bounds[..., 0] <= bounds[..., 1])
    assert np.all(np.diff(bounds[..., 0], axis=0) <= 0)
    assert np.all(np.diff(bounds[..., 1], axis=0) >= 0)


@given(st.integers(0, 2**32 - 1))
def test_conformalised_quantiles_are_nested(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 40))
    lower = rng.normal(size=(6, K))
    upper = lower + rng.normal(size=(6, K))  # some cross
    scores, fold = rng.normal(size=n), rng.integers(K, size=n)
    bounds = np.array(
        [
            cross_conformal(lower, upper, scores, scores, fold, alpha)
            for alpha in np.linspace(1 / (n + 1), 1, 25)
        ]
    )
    assert np.all(bounds[..., 0] <= bounds[..., 1])
    assert np.all(np.diff(bounds[..., 0], axis=0) >= 0)
    assert np.all(np.diff(bounds[..., 1], axis=0) <= 0)


@pytest.mark.parametrize("level", [0.2, 0.9])
@pytest.mark.parametrize("spread", [0.01, 1.0])
def test_results_do_not_depend_on_the_blocks(level, spread, monkeypatch):
    rng = np.random.default_rng(2)
    intervals = drawn(rng, n=200, spread=spread)
    r, centres = intervals.residuals, intervals.predict(rng.normal(size=(50, P)))
    args = centres, centres, -r, r, intervals.fold, 1 - level
    truth = cross_conformal(*args)
    for most in (1, 200, 1000):
        monkeypatch.setattr(_prediction_intervals, "_MOST_ENTRIES", most)
        np.testing.assert_array_equal(cross_conformal(*args), truth)


# ----- Coverage -----


def coverage(noise, n, p, n_folds, level, repeats=150, n_new=50, **options):
    """Return the mean coverage of new rows over data sets, and its standard error."""
    rng = np.random.default_rng(3)
    covered = []
    for _ in range(repeats):
        X, beta = rng.normal(size=(n + n_new, p)), rng.normal(size=p)
        y = X @ beta + noise(rng, n + n_new)
        intervals = least_squares(X[:n], y[:n], n_folds, **options)
        low, high = intervals.interval(X[n:], level).T
        covered.append(np.mean((low <= y[n:]) & (y[n:] <= high)))
    return np.mean(covered), np.std(covered) / math.sqrt(repeats)


NOISES = {
    "skewed": lambda rng, n: rng.exponential(size=n) ** 1.5,
    "heavy": lambda rng, n: rng.standard_t(1.5, size=n),
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("symmetric", [True, False])
def test_coverage_is_close_to_the_level(noise, level, symmetric):
    share, stderr = coverage(NOISES[noise], 100, 4, 10, level, symmetric=symmetric)
    assert 0 < stderr < 0.01
    assert level - 3 * stderr < share < level + 0.02 + 3 * stderr


def test_coverage_of_unstable_models_is_within_the_guarantee():
    # 32 rows for 31 coefficients; Theorem 4 of the paper
    n, n_folds, level = 40, 5, 0.8
    share, stderr = coverage(NOISES["heavy"], n, 30, n_folds, level)
    slack = min(2 * (1 - 1 / n_folds) / (n / n_folds + 1), (1 - n_folds / n) / (n_folds + 1))
    assert share > 1 - 2 * (1 - level) - slack - 3 * stderr


# ----- X in any container, other units, fewer residuals -----


def test_containers_of_X_make_no_difference(tmp_path):
    rng = np.random.default_rng(4)
    intervals, X = drawn(rng), rng.normal(size=(20, P)) * (rng.random((20, P)) < 0.5)
    expected = intervals.interval(X, 0.8)
    mapped = np.memmap(tmp_path / "X", dtype=float, mode="w+", shape=X.shape)
    mapped[:] = X
    mapped.flush()
    names = [f"x{j}" for j in range(P)]
    frames = pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)
    designs = DenseDesign(X), DenseDesign(torch.asarray(X)), BlockDesign(mapped)
    for other in (sparse.csr_array(X), sparse.coo_matrix(X), X.tolist(), *frames, *designs):
        np.testing.assert_allclose(intervals.interval(other, 0.8), expected, rtol=1e-12)
    single = intervals.interval(sparse.csr_array(X.astype(np.float32)), 0.8)
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, expected, atol=1e-5)


def test_rescaled_is_of_the_columns_as_they_were():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(20, P))
    scale, centre = rng.uniform(0.5, 2, P), rng.normal(size=P)
    for model in (None, (rng.normal(size=P), 0.3)):
        intervals = replace(drawn(rng), model=model)
        np.testing.assert_allclose(
            intervals.rescaled(scale, centre, 7.0).interval(X),
            intervals.interval((X - centre) / scale) + 7.0,
        )
        np.testing.assert_allclose(
            intervals.rescaled(scale).interval(X), intervals.interval(X / scale)
        )


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("n", [1999, 5000, 7403])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99])
def test_thinned_is_a_little_wider(symmetric, n, level):
    rng = np.random.default_rng(n)
    intervals = drawn(rng, n=n, spread=0.1, symmetric=symmetric)
    X = rng.normal(size=(30, P))
    low, high = intervals.interval(X, level).T
    thinned = intervals.thinned(1000)
    assert 900 < len(thinned.residuals) <= 1000
    assert thinned.coef is intervals.coef
    thin_low, thin_high = thinned.interval(X, level).T
    assert np.all(thin_low <= low)
    assert np.all(thin_high >= high)
    # the ranks of each fold are rounded: at most this much of each tail is lost
    sides = 1 if symmetric else 2
    lost = (K * (2 - level) + 1) / len(thinned.residuals)
    tails = 1 - level - sides * lost
    if tails > 0:
        wide_low, wide_high = intervals.interval(X, 1 - tails).T
        assert np.all(thin_low >= wide_low)
        assert np.all(thin_high <= wide_high)


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_thinned_is_never_narrower_where_models_agree(seed, symmetric):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(100, 1000))
    intervals = drawn(rng, n=n, spread=0.05, symmetric=symmetric)
    intervals = replace(intervals, intercept=np.zeros(K))
    thinned, X = intervals.thinned(int(rng.integers(60, 200))), rng.normal(size=(5, P))
    for level in (0.4, 0.6, 0.8, 0.9):
        low, high = intervals.interval(X, level).T
        thin_low, thin_high = thinned.interval(X, level).T
        assert np.all(thin_low <= low)
        assert np.all(thin_high >= high)


@pytest.mark.parametrize(("n_folds", "most"), [(K, 60), (K, 2000), (60, 10)])
def test_few_residuals_are_not_thinned(n_folds, most):
    """Nor those of models that left out a row each."""
    intervals = drawn(np.random.default_rng(6), n=60, n_folds=n_folds)
    assert intervals.thinned(most) is intervals


# ----- Refusals -----


@pytest.mark.parametrize("level", [0, 1, -0.5, 90, np.nan, np.inf, "high", None, True, [0.9]])
def test_levels_that_are_none_are_refused(level):
    with pytest.raises(ValueError, match=r"level must be a (finite number in \(0, 1\)|real)"):
        drawn(np.random.default_rng(0)).interval(np.zeros((1, P)), level)


@pytest.mark.parametrize("n", [1, 2, 7, 60, 400, 3001])
@pytest.mark.parametrize("symmetric", [True, False])
def test_highest_level_is_said_and_works(n, symmetric):
    intervals, X = drawn(np.random.default_rng(0), n=n, symmetric=symmetric), np.zeros((1, P))
    rows = "1 residual:" if n == 1 else f"{n} residuals:"
    with pytest.raises(ValueError, match=f"level=0.9999 is too high for {rows}") as caught:
        intervals.interval(X, 0.9999)
    if n == 1 and not symmetric:
        assert str(caught.value).endswith("use more rows")
        return
    highest = float(str(caught.value).rsplit(" ", 1)[1])
    assert intervals.interval(X, highest).shape == (1, 2)
    with pytest.raises(ValueError, match="too high"):
        intervals.interval(X, highest + 1e-5)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((2, P + 1)), f"X has {P + 1} columns, but the models have {P} features"),
        (sparse.csr_array(np.eye(2)), f"X has 2 columns, but the models have {P} features"),
        (np.zeros(P), "X must have 2 dimensions"),
        (np.zeros((0, P)), "X is empty"),
        (np.full((1, P), np.nan), "X has 3 values that are NaN or infinite"),
        (np.full((1, P), 1e308), "X has entries too large: predictions are not finite"),
        ([["a"] * P], "X must hold real numbers"),
    ],
)
def test_bad_X_is_refused(X, message):
    rng = np.random.default_rng(0)
    intervals = PredictionIntervals(np.full((K, P), 2.0), np.zeros(K), np.arange(K), rng.random(K))
    with pytest.raises((ValueError, TypeError), match=message):
        intervals.interval(X, 0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"coef": np.zeros(P)}, r"coef must have shape \(K, p\)"),
        ({"coef": np.zeros((0, P)), "intercept": []}, r"coef must have shape \(K, p\)"),
        ({"intercept": np.zeros(K + 1)}, "one intercept for each row of coef"),
        ({"intercept": np.full(K, np.nan)}, "coefficients and intercepts must be finite"),
        ({"fold": np.zeros(9, int)}, "fold and residuals must have one entry for each row"),
        ({"fold": np.full(10, K)}, "fold must hold integers from 0 to 4"),
        ({"fold": np.full(10, 0.5)}, "fold must hold integers from 0 to 4"),
        ({"residuals": np.full(10, np.inf)}, "residuals must be finite"),
        ({"model": (np.zeros(P + 1), 0.0)}, r"model must have 3 coefficients, got shape \(4,\)"),
        ({"model": (np.zeros(P), np.nan)}, "coefficients and intercepts must be finite"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes, message):
    parts = {
        "coef": np.zeros((K, P)),
        "intercept": np.zeros(K),
        "fold": np.arange(10) % K,
        "residuals": np.arange(10.0),
    }
    PredictionIntervals(**parts)
    with pytest.raises(ValueError, match=message):
        PredictionIntervals(**parts | changes)


def test_other_arguments_are_refused():
    rng = np.random.default_rng(0)
    first, second = drawn(rng, n=50), drawn(rng, n=60)
    with pytest.raises(ValueError, match="residuals of the same rows, got 50 and 60"):
        conformalised_quantiles(first, second, np.zeros((1, P)))
    with pytest.raises(ValueError, match="most must be at least 1, got 0"):
        first.thinned(0)
