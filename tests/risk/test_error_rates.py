"""Estimates of error rates: folds with equal shares, differences by a smooth step, other losses."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

import steinpath as sp
from steinpath.engine._batch import Batch
from steinpath.problem._scoring import CRITERIA
from steinpath.risk._splits import random_folds


def draw(n, p, seed=0, intercept=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    shares = expit(X[:, :5].sum(axis=1) + intercept)
    return X, np.where(rng.random(n) < shares, 1.0, -1.0)


@pytest.mark.parametrize("n_folds", [2, 5, 10])
def test_folds_have_equal_shares_of_both_classes(n_folds):
    X, y = draw(103, 4)
    batch = Batch.of(sp.run(X, y, sp.Hinge(), sp.Lasso(0.3), n_iter=3))
    fold = random_folds(batch, n_folds, np.random.default_rng(0)).fold
    for rows in (y > 0, y < 0, y != 0):
        counts = np.bincount(fold[rows], minlength=n_folds)
        assert counts.max() - counts.min() <= 1
    path = batch[0]
    left_out = sp.cross_validate_path(path, cv=n_folds, rng=0)
    assert np.isfinite(left_out.values).all()


def test_a_smooth_step_has_the_mean_difference_of_the_sharp_one():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(200_000) < 0.6, 1.0, -1.0)
    before = 0.5 * y + rng.standard_normal(len(y))
    after = before - 0.1 * y + 0.1 * rng.standard_normal(len(y))
    sharp = CRITERIA["zero_one"]()
    smooth = sharp.for_differences(before[None, :])
    differences = [
        (loss(y, after[None, :]) - loss(y, before[None, :]))[0] for loss in (sharp, smooth)
    ]
    means, errors = zip(*((d.mean(), d.std() / np.sqrt(len(d))) for d in differences), strict=True)
    assert means[0] > 20 * errors[0]
    assert_allclose(means[1], means[0], rtol=0.1)
    assert errors[1] < errors[0] / 3


def test_an_audit_of_the_error_rate_is_less_noisy_than_its_rows():
    X, y = draw(300, 200)
    path = sp.run(X, y, sp.Logistic(), sp.Ridge(0.3), n_iter=40, fit_intercept=True)
    risk = sp.estimate_risk(path, "zero_one", method="compressed", audit=64, rng=0)
    wrong = np.abs(np.diff(np.sign(risk.corrected), axis=0)).any()
    assert wrong
    # a mean of 64 differences of whole errors would have steps of 1 / 64
    assert np.all(np.abs(64 * risk.audit.difference[10:] % 1) > 1e-9)


def test_hinge_paths_with_the_lasso_have_folds_by_default():
    X, y = draw(500, 300)
    kinds = {sp.Lasso: "folds", sp.Ridge: "compressed"}
    for penalty, method in kinds.items():
        path = sp.run(X, y, sp.Hinge(), penalty(0.3), n_iter=20, fit_intercept=True)
        assert sp.estimate_risk(path, rng=0).method == method
    path = sp.run(X, y, sp.Logistic(), sp.Lasso(0.3), n_iter=20, fit_intercept=True)
    assert sp.estimate_risk(path, rng=0).method == "compressed"


def test_other_losses_of_left_out_rows_depend_on_each_other_as_much():
    X, y = draw(150, 100)
    tuning = sp.tune(X, y, sp.Logistic(), sp.Lasso, lams=4, n_iter=30, fit_intercept=True, rng=0)
    chosen = tuning.chosen
    mean, stderr = chosen.mean_of(chosen.losses)
    assert_allclose(stderr, max(chosen.stderr, np.std(chosen.losses, ddof=1) / np.sqrt(150)))
    assert_allclose(mean, chosen.losses.mean())
    wrong = (np.sign(chosen.predictions) != y).astype(float)
    rate, error = chosen.mean_of(wrong)
    assert_allclose(rate, wrong.mean())
    assert_allclose(error, chosen.dependence * np.std(wrong, ddof=1) / np.sqrt(150))
    with pytest.raises(ValueError, match="intervals are not available for classification"):
        tuning.predict_interval(X)


def test_groups_that_hold_a_whole_class_are_refused():
    X, y = draw(60, 3)
    groups = np.where(y > 0, 0, np.arange(60) % 3 + 1)
    path = sp.run(X, y, sp.Hinge(), sp.Lasso(0.3), n_iter=5)
    for method in ("folds", "loo"):
        with pytest.raises(ValueError, match="rows of a single class"):
            sp.estimate_risk(path, method=method, groups=groups)


@pytest.mark.parametrize("loss", [sp.Hinge(), sp.SquaredHinge(), sp.Logistic()], ids=repr)
@pytest.mark.parametrize("penalty", [sp.Lasso(0.5), sp.Ridge(0.5)], ids=repr)
@pytest.mark.parametrize("intercept", [False, True])
def test_duality_gaps_of_margin_losses_are_bounds_and_vanish(loss, penalty, intercept):
    X, y = draw(80, 12)
    path = sp.run(X, y, loss, penalty, sp.HalpernPDHG(), 1500, fit_intercept=intercept)
    best = path.objective.min()
    assert np.all(path.objective - path.gap <= best + 1e-9)
    assert path.gap[-1] < 1e-5 * best


def test_gaps_that_are_not_known_are_infinite():
    X, y = draw(80, 12)
    for penalty in (sp.NoPenalty(), sp.MCP(0.3)):
        path = sp.run(X, y, sp.SquaredHinge(), penalty, n_iter=20, fit_intercept=True)
        assert_array_equal(path.gap, np.inf)
