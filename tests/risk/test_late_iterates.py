"""Iterates past the minimum: the standard error and a warning say where corrections are rough."""

import numpy as np
import pytest

import steinpath as sp
from steinpath.risk import _estimate as estimating

N_ITER = 600


@pytest.fixture(scope="module")
def resting():
    """A long run that ends near a vertex, where the duals of few rows still respond."""
    model = sp.simulate.paper_model(100, noise="laplace")
    X, y = model.sample(200, rng=0)
    algorithm = sp.ChambollePock(sigma=0.3, tau=0.3)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.5), algorithm, n_iter=N_ITER)
    return path, model.risk(path.coef, sp.LAD())


def off(risk, truth):
    """Errors in standard errors."""
    return np.abs(risk.values - truth) / np.hypot(risk.stderr, risk.probe_stderr)


def test_the_standard_error_covers_rough_corrections():
    model = sp.simulate.paper_model(200, noise="laplace")
    X, y = model.sample(100, rng=0)
    path = sp.run(X, y, sp.LAD(), sp.Ridge(0.3), n_iter=N_ITER)
    truth = model.risk(path.coef, sp.LAD())
    risk = sp.estimate_risk(path, method="compressed", rng=0)
    error, late = np.abs(risk.values - truth), slice(2 * risk.best_iter, None)
    assert np.mean((error > 3 * risk.estimate.stderr)[late]) > 0.5
    assert np.mean(error > 3 * risk.stderr) < 0.02
    early = slice(1, risk.best_iter + 1)  # where they are right, it changes little
    assert (risk.stderr[early] < 1.3 * risk.estimate.stderr[early]).all()


def test_a_warning_names_the_iteration_and_the_remedy(resting):
    path, _ = resting
    risk = sp.estimate_risk(path, method="compressed", rng=0)
    start = risk.unreliable_from
    assert risk.best_iter < start < N_ITER / 2
    (warning,) = [text for text in risk.warnings if f"from iteration {start} on" in text]
    assert "audit=32" in warning
    assert "method='folds'" in warning
    assert f"iteration {start}" in str(risk.summary())
    # what is selected before it is not affected
    assert not any("on, the estimate is rough" in c.message for c in risk.diagnose(5) if c.warns)
    assert any("on, the estimate is rough" in c.message for c in risk.diagnose(start) if c.warns)


def test_an_audit_is_right_to_the_end(resting):
    path, truth = resting
    risk = sp.estimate_risk(path, method="compressed", audit=32, rng=0)
    assert risk.unreliable_from is None
    assert (off(risk, truth) < 3).all()
    assert abs(risk.values[-1] - truth[-1]) < 0.25 * truth[-1]


def test_the_automatic_method_takes_folds_for_a_path_that_ends_unreliably(resting, monkeypatch):
    path, truth = resting
    monkeypatch.setattr(estimating, "cheapest", lambda options, audited: "compressed")
    assert sp.estimate_risk(path, rng=0).method == "folds"
    assert sp.estimate_risk(path.until(20), rng=0).method == "compressed"
    assert sp.estimate_risk(path, audit=32, rng=0).method == "compressed"
    assert abs(sp.estimate_risk(path, rng=0).values[-1] / truth[-1] - 1) < 0.2


@pytest.mark.parametrize("loss", [sp.Huber(), sp.SquareRoot(), sp.Squared()], ids=repr)
def test_the_dependence_between_rows_is_of_the_size_that_leave_one_out_measures(loss):
    X, y = sp.simulate.paper_model(75, noise="normal").sample(150, rng=0)
    path = sp.run(X, y, loss, sp.Ridge(0.3 if loss.name != "squared" else 3.0), n_iter=40)
    measured = sp.estimate_risk(path, method="loo").shared_error
    for method in ("compressed", "folds", "exact"):
        estimated = sp.estimate_risk(path, method=method, rng=0).shared_error
        ratio = estimated[1:] / measured[1:]
        # what is measured has the standard error of a few pairs added, to be on the safe side
        assert (ratio > 0.1).all()
        assert (ratio < 1.2).all()
