"""How long runs go on: while the estimated risk falls, up to a limit in work."""

import itertools
import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import steinpath as sp
from problems import draw
from steinpath._support import timings
from steinpath.engine._data import prepare
from steinpath.risk import _stopping
from steinpath.risk._leave_out import FoldRuns, cross_validate, shrunk_burman
from steinpath.risk._methods import n_folds
from steinpath.risk._options import RiskOptions
from steinpath.risk._splits import random_folds
from steinpath.risk._stopping import (
    contenders,
    growing_horizons,
    may_reach,
    may_still_improve,
)
from steinpath.tuning._tune import start_all


def unmoved(n, p, lams=(1.0, 0.5)):
    X, y, _ = draw(n, p)
    return start_all(prepare(X, y, sp.LAD(), True), [*map(sp.Lasso, lams)], sp.HalpernPDHG())


def curves(*values, stderr=0.0):
    risks = [SimpleNamespace(values=np.asarray(each, float), criterion=None) for each in values]
    for risk in risks:
        risk.stderr = np.full(len(risk.values), stderr)
    return risks


# ----- When to stop -----


def test_horizons_double_up_to_a_limit_in_work(monkeypatch):
    horizons = growing_horizons(unmoved(30, 5))
    assert horizons[0] == 25
    assert all(later == 2 * earlier for earlier, later in itertools.pairwise(horizons))
    wide, tall = unmoved(20, 400), unmoved(400, 20)
    for batch in (wide, tall):
        n, p = batch.data.design.shape
        # of two penalties, and their folds
        runs = 2 * (1 + n_folds(batch, RiskOptions(rough=True)))
        monkeypatch.setattr(timings, "HALF_A_MINUTE", 250 * runs * (n * p + 200 * (n + p)))
        assert growing_horizons(batch) == [25, 50, 100, 200, 250]
    monkeypatch.setattr(timings, "HALF_A_MINUTE", 1.0)
    assert growing_horizons(tall) == [25, 50]


def test_a_risk_that_falls_promises_less():
    t = np.arange(101)
    assert may_still_improve(curves(1 + np.exp(-t / 100)))
    assert not may_still_improve(curves(1 + np.exp(-t / 5)))  # it has converged
    assert not may_still_improve(curves(1 + (t - 30) ** 2 / 1000))  # the minimum is behind
    assert not may_still_improve(curves(np.ones(101)))
    # the best has converged; another one, still behind, may overtake it, or not
    flat = 1 + 0 * t
    assert may_still_improve(curves(flat, 1.1 - t / 1000))
    assert not may_still_improve(curves(flat, 1.5 - t / 1000))


def test_a_fall_that_cannot_be_seen_ends_the_runs():
    t = np.arange(101)
    falling = 1 + np.exp(-t / 100)  # the next doubling promises a sixteenth
    assert may_still_improve(curves(falling, stderr=0.5))
    assert not may_still_improve(curves(falling, stderr=0.7))
    # nor does another one count that overtakes the best by little
    assert may_still_improve(curves(1 + 0 * t, 1.1 - t / 1000, stderr=0.1))
    assert not may_still_improve(curves(1 + 0 * t, 1.1 - t / 1000, stderr=0.2))


def test_only_the_change_of_an_iterate_counts_that_will_be_taken():
    t = np.arange(101)
    falling, rising = 1 + np.exp(-t / 100), 1 + t / 100
    assert may_still_improve(curves(falling), at=100)
    assert may_still_improve(curves(rising), at=100)
    assert not may_still_improve(curves(1 + (t < 40)), at=100)


def test_a_risk_above_a_limit_is_given_up_later_than_early():
    early, late = np.arange(26), np.arange(101)
    above = 1.3 - 0.01 * early  # falls by 0.13 in the last doubling, to 1.05
    assert may_reach(curves(above), 0.8)
    assert not may_reach(curves(above), 0.75)
    assert may_reach(curves(above), math.inf)
    slow = 1.3 - 0.0025 * late
    assert not may_reach(curves(slow), 1.0)
    assert may_reach(curves(slow), 1.06)


def test_only_paths_that_are_clearly_behind_are_dropped():
    X, y, _ = draw(80, 10)
    tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, lams=10, n_iter=50, rng=0, method="folds")
    kept = contenders(tuning.risks)
    lowest = tuning.risk.min(axis=1)
    half = tuning.risk[:, :26].min(axis=1)
    for k, risk in enumerate(tuning.risks):
        stderr = tuning.compare((k, risk.best_iter), tuning.best)[1]
        behind = lowest[k] - max(half[k] - tuning.risk[k, 26:].min(), 0) - lowest.min()
        assert (k in kept) == (behind <= 2 * stderr)
    assert 1 <= len(kept) < 10
    assert tuning.best[0] in kept


# ----- Folds that go on -----


@pytest.mark.parametrize("correction", [shrunk_burman, None])
@pytest.mark.parametrize("with_losses", [True, False])
def test_folds_that_go_on_are_whole_ones(correction, with_losses):
    batch = unmoved(30, 8)
    splits = random_folds(batch, 4, np.random.default_rng(0))

    def criterion(y, prediction):
        return np.abs(y - prediction)

    runs = FoldRuns(batch, [criterion] * len(batch), splits, None, correction, with_losses)
    for n_iter in (3, 3, 20):
        batch = batch.extended(n_iter)
        expected = cross_validate(
            batch, [criterion] * len(batch), splits, None, correction, with_losses
        )
        for mine, theirs in zip(runs.extended(batch), expected, strict=True):
            for name in ("predictions", "losses", "optimism"):
                one, other = getattr(mine, name), getattr(theirs, name)
                assert (one is None) == (other is None)
                if one is not None:
                    np.testing.assert_allclose(one, other, atol=1e-13, err_msg=name)


# ----- What a user sees -----


def powers(n=150, degree=8):
    """Powers of one variable, nearly collinear: many iterations pay."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, n)
    X = x[:, None] ** np.arange(1, degree + 1)
    return X / X.std(axis=0), np.sin(5 * x) + 0.05 * rng.standard_t(3, n)


def test_runs_go_on_while_it_pays():
    X, y = powers()
    tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, lams=5, rng=0)
    assert tuning.path.n_iter > 100
    assert tuning.risk.shape == (5, tuning.path.n_iter + 1)
    short = sp.tune(X, y, sp.LAD(), sp.Lasso, lams=5, n_iter=100, rng=0)
    assert (short.path.n_iter, short.stop) == (100, "n_iter")
    assert tuning.risk[tuning.best] < 0.6 * short.risk[short.best]


def test_runs_end_where_the_risk_no_longer_falls():
    X, y, _ = draw(80, 10)
    tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, lams=5, rng=0)
    assert (tuning.path.n_iter, tuning.stop, tuning.still_falls) == (25, "risk", False)


@pytest.mark.filterwarnings("ignore:the smallest alpha:UserWarning")
def test_a_limit_that_is_reached_is_a_warning(monkeypatch):
    X, y = powers()
    monkeypatch.setattr(_stopping, "_MOST", 120)
    with pytest.warns(ConvergenceWarning, match=r"after 120 iterations, the limit.* n_iter=240"):
        model = sp.LADLasso(n_alphas=4, random_state=0).fit(X, y)
    assert model.n_iter_ == 120
    tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, lams=4, rng=0)
    assert (tuning.stop, tuning.still_falls) == ("limit", True)


def test_an_iterate_that_is_given_is_as_far_as_runs_go():
    X, y, _ = draw(80, 10)
    tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, lams=3, iterate=37, rng=0)
    assert (tuning.path.n_iter, tuning.best_iter) == (37, 37)
    assert sp.LADLasso(select=23, n_alphas=3).fit(X, y).n_iter_ == 23


def test_the_last_iterate_is_one_that_has_converged():
    X, y, _ = draw(60, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = sp.LADLasso(alpha=0.05, select="last", method=None).fit(X, y)
    assert model.n_iter_ == model.best_iter_ >= 100


@pytest.mark.parametrize("n_iter", ["all", 0, -3, 2.5, None])
def test_impossible_numbers_of_iterations_are_refused(n_iter):
    X, y, _ = draw(30, 4)
    with pytest.raises((ValueError, TypeError), match="n_iter"):
        sp.tune(X, y, sp.LAD(), sp.Lasso, lams=2, n_iter=n_iter)
    with pytest.raises((ValueError, TypeError), match="n_iter"):
        sp.LADLasso(n_iter=n_iter).fit(X, y)
    for iterate in ("last", 2.5, 80, -90):
        with pytest.raises((ValueError, TypeError), match="iterate must be"):
            sp.tune(X, y, sp.LAD(), sp.Lasso, lams=2, n_iter=50, iterate=iterate)


@pytest.mark.filterwarnings("ignore:the smallest alpha:UserWarning")
def test_a_warm_start_goes_on_from_where_it_stopped():
    X, y = powers()
    model = sp.LADLasso(n_alphas=3, n_iter=30, warm_start=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y).set_params(n_iter="auto").fit(X, y)
        fresh = sp.LADLasso(n_alphas=3, random_state=0).fit(X, y)
    assert model.n_iter_ == fresh.n_iter_
    # which of many nearly equal iterates is selected depends on rounding
    assert model.best_risk_ == pytest.approx(fresh.best_risk_, rel=1e-6)


@pytest.mark.filterwarnings("ignore:the smallest alpha:UserWarning")
def test_a_refit_with_a_warm_start_changes_nothing():
    X, y, _ = draw(80, 10)
    model = sp.LADLasso(n_alphas=4, warm_start=True, random_state=0).fit(X, y)
    first, n_iter = model.coef_.copy(), model.n_iter_
    model.fit(X, y)
    assert model.n_iter_ == n_iter
    np.testing.assert_array_equal(model.coef_, first)


def test_an_earlier_iterate_of_a_warm_start():
    X, y, _ = draw(60, 6)
    fixed = {"alpha": 0.05, "method": None}
    model = sp.LADLasso(select=50, warm_start=True, **fixed).fit(X, y)
    model.set_params(select=20).fit(X, y)
    expected = sp.LADLasso(select=20, **fixed).fit(X, y).coef_
    np.testing.assert_allclose(model.coef_, expected, atol=1e-12)
