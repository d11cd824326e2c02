"""Estimated risks of losses that cannot be negative are not negative, whatever corrects them."""

import numpy as np
import pytest

import steinpath as sp
from steinpath.risk._leave_out import shrunk_burman


def separable(seed, n, p):
    """Labels that the first column separates by far, and a response without noise."""
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    X = rng.standard_normal((n, p))
    X[:, 0] = 0.3 * X[:, 0] + 5 * labels
    return X, labels, X[:, 1] - X[:, 2]


CASES = [
    *((sp.Hinge(), name) for name in (None, "zero_one", "brier")),
    *((sp.SquaredHinge(), None), (sp.Logistic(), None), (sp.Logistic(), "hinge")),
    *((loss, "epsilon_insensitive") for loss in (sp.LAD(), sp.Squared(), sp.SquareRoot())),
    *((loss, None) for loss in (sp.LAD(), sp.Quantile(0.1), sp.Huber(), sp.Squared())),
]


@pytest.mark.parametrize(("loss", "test_loss"), CASES)
@pytest.mark.parametrize("penalty", [sp.Lasso, sp.Ridge])
def test_risks_of_fits_without_errors(loss, test_loss, penalty):
    for seed, (n, p) in enumerate([(60, 3), (40, 80), (200, 5)]):
        X, labels, response = separable(seed, n, p)
        y = labels if loss.margin else response
        how = {"fit_intercept": True, "test_loss": test_loss, "rng": 0}
        tuning = sp.tune(X, y, loss, penalty, lams=5, n_iter=100, **how)
        assert tuning.risk.min() >= 0
        assert tuning.naive_risk >= 0
        assert tuning.best_risk >= 0
        assert f"{tuning!r}{tuning.summary()}"
        for burman in (False, True):
            errors = sp.cross_validate_path(tuning.path, 5, test_loss, burman=burman, rng=0)
            assert errors.values.min() >= 0


@pytest.mark.parametrize("method", ["compressed", "hutchinson", "loo", "folds"])
@pytest.mark.parametrize("audit", [0, 8, "folds"])
@pytest.mark.parametrize(("loss", "test_loss"), CASES[::2])
@pytest.mark.filterwarnings("ignore:the Monte Carlo error")
def test_risks_of_every_method(method, audit, loss, test_loss):
    if method == audit:
        return
    X, labels, response = separable(0, 40, 5)
    path = sp.run(X, labels if loss.margin else response, loss, sp.Lasso(0.05), n_iter=60)
    risk = sp.estimate_risk(path, test_loss, method=method, audit=audit, rng=0)
    assert risk.values.min() >= 0
    assert all(np.isfinite(check.threshold) for check in risk.diagnostics)


def test_the_correction_of_folds_takes_away_half_of_their_error_at_most():
    train, everywhere, held_out = np.random.default_rng(0).exponential(size=(3, 1000)) ** 3
    held_out[:10] = 0.0
    correction = shrunk_burman(train, everywhere, held_out)
    assert (correction >= -held_out / 2).all()
    # as it was where fits are better on all rows than on those that they hold out
    usual = everywhere < held_out
    ratio = np.sqrt(np.minimum(train / np.where(usual, held_out, 1), 1))
    np.testing.assert_allclose(correction[usual], (ratio * (train - everywhere))[usual])


def test_a_loss_of_the_user_may_be_negative():
    X, _, response = separable(0, 60, 3)

    def below_one(y, prediction):
        return (y - prediction) ** 2 - 1

    tuning = sp.tune(X, response, sp.Squared(), sp.Lasso, lams=3, test_loss=below_one, rng=0)
    assert tuning.best_risk == pytest.approx(-1, abs=0.01)
