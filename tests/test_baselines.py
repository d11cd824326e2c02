"""Leaving rows out: the replayed paths are those of runs on the other rows alone."""

import array_api_strict
import numpy as np
import pytest

import steinpath as sp
from problems import (
    ALGORITHM_EXAMPLES,
    LOSS_EXAMPLES,
    PENALTY_EXAMPLES,
    draw,
    handles,
    ridge_hat,
)
from steinpath import baselines
from steinpath.baselines import cross_validate, leave_one_out
from steinpath.scoring import resolve_test_loss

PROBLEMS = pytest.mark.parametrize(
    ("loss", "penalty", "algorithm"),
    [
        pytest.param(loss, penalty, sp.ChambollePock(), id=f"{a}-{b}")
        for a, loss in LOSS_EXAMPLES.items()
        for b, penalty in PENALTY_EXAMPLES.items()
    ]
    + [
        pytest.param(loss, PENALTY_EXAMPLES["lasso"], algorithm, id=f"{a}-{b}")
        for a, loss in LOSS_EXAMPLES.items()
        for b, algorithm in ALGORITHM_EXAMPLES.items()
        if handles(algorithm, loss) and algorithm != sp.ChambollePock()
    ],
)
# The same step sizes on fewer rows may be a little beyond the limit: no matter here.
SAME_STEPS = pytest.mark.filterwarnings("ignore:.*may diverge")


def fits(X, path, rows, total):
    """What a run on some rows alone, with a path's step sizes, predicts for all rows.

    The loss is scaled by the number ``total`` of rows: beyond those given, they are zero.
    """
    missing = total - len(rows)
    X_rows = np.concatenate([X[rows], np.zeros((missing, X.shape[1]))])
    y_rows = np.concatenate([path.y[rows], np.zeros(missing)])
    run = sp.run(X_rows, y_rows, path.loss, path.penalty, path.algorithm, path.n_iter)
    return run.coef @ X.T


def by_leaving_one_out(X, path):
    n = len(X)
    return np.stack([fits(X, path, np.delete(np.arange(n), i), n)[:, i] for i in range(n)], axis=1)


def by_folds(X, path, n_folds, seed):
    """Rows of each fold, and the fits of the run that leaves them out."""
    fold = np.random.default_rng(seed).permutation(len(X)) % n_folds
    for k in range(n_folds):
        rows = np.flatnonzero(fold != k)
        yield fold == k, fits(X, path, rows, len(rows))


def with_intercept_column(X, y, penalty):
    """The problem that an intercept leads to, without one: LAD, penalty of lasso type."""
    centred = X - X.mean(axis=0)
    height = np.sqrt(np.mean(centred**2))
    weights = np.append(np.ones(X.shape[1]), 0.0)
    Z = np.column_stack([centred, np.full(len(X), height)])
    return Z, y - np.median(y), sp.Lasso(penalty.lam, weights=weights)


def with_and_without_the_column(n, p):
    """The same run with an intercept and with its column written out, that column, and y."""
    X, y, _ = draw(n, p)
    X, y = X + 1.0, y + 3.0
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=8, fit_intercept=True)
    Z, target, penalty = with_intercept_column(X, y, path.penalty)
    plain = sp.run(Z, target, sp.LAD(), penalty, path.algorithm, n_iter=8)
    return path, plain, Z, y


def averaging(xp=np):
    """Clipped descent that remembers all residuals and two past states."""
    return sp.Recursion(
        dual=lambda t, u, v: -xp.clip(sum(v) / t, -0.15, 0.15) + 0.2 * u[max(t - 3, 0)],
        primal=lambda t, b, eta: b[-1] + 0.3 * (b[-1] - b[max(t - 2, 0)]) - 0.5 * eta[-1],
        dual_jvp=lambda *_: None,
        primal_jvp=lambda *_: None,
    )


# ------------------------------------------------------------------------------------------------
# Leave-one-out
# ------------------------------------------------------------------------------------------------


@PROBLEMS
@pytest.mark.parametrize("shape", [(12, 7), (7, 12)], ids=["tall", "wide"])
def test_leaving_a_row_out_is_a_run_whose_row_is_zero(loss, penalty, algorithm, shape, monkeypatch):
    monkeypatch.setattr(baselines, "_WIDTH", 5)  # several batches, the last one incomplete
    X, y, _ = draw(*shape)
    path = sp.run(X, y, loss, penalty(shape[1]), algorithm, n_iter=8)
    found = leave_one_out(path)
    np.testing.assert_allclose(found, by_leaving_one_out(X, path), atol=1e-10)
    assert not np.allclose(found, path.fitted, atol=1e-3)


def test_recursions_too():
    X, y, _ = draw(12, 7)
    path = sp.run(X, y, sp.Huber(), sp.NoPenalty(), averaging(), n_iter=12)
    found = leave_one_out(path)
    np.testing.assert_allclose(found, by_leaving_one_out(X, path), atol=1e-12)
    assert not np.allclose(found, path.fitted, atol=1e-2)


def test_recursions_that_move_a_zero_residual():
    """Descent on a tilted loss, written out without the row in plain NumPy."""
    X, y, _ = draw(12, 7)
    tilted = sp.Recursion(
        dual=lambda t, u, v: -np.clip(v[-1], -0.1, 0.1) - 0.05,
        primal=lambda t, b, eta: b[-1] - 0.5 * eta[-1],
        dual_jvp=lambda *_: None,
        primal_jvp=lambda *_: None,
    )
    found = leave_one_out(sp.run(X, y, sp.Huber(), sp.NoPenalty(), tilted, n_iter=6))
    for i in range(12):
        X_rest, y_rest, b = np.delete(X, i, axis=0), np.delete(y, i), np.zeros(7)
        for t in range(7):
            assert found[t, i] == pytest.approx(X[i] @ b, abs=1e-12)
            u = -np.clip((y_rest - X_rest @ b) / np.sqrt(12), -0.1, 0.1) - 0.05
            b = b - 0.5 * X_rest.T @ u / np.sqrt(12)


@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
def test_ridge_has_a_closed_form(fit_intercept):
    """Leave-one-out residuals are ``r_i / (1 - h_i)`` with the leverages of the hat matrix."""
    n, p, lam = 40, 10, 0.8
    X, y, _ = draw(n, p)
    X, y = X + 1.0, y + 3.0
    path = sp.run(X, y, sp.Squared(), sp.Ridge(lam), n_iter=800, fit_intercept=fit_intercept)
    hat = ridge_hat(X, lam, fit_intercept)
    expected = (y - hat @ y) / (1 - np.diag(hat))
    np.testing.assert_allclose(y - leave_one_out(path)[-1], expected, atol=1e-8)


def test_an_intercept_is_one_more_column():
    path, plain, Z, y = with_and_without_the_column(12, 7)
    expected = np.median(y) + by_leaving_one_out(Z, plain)
    np.testing.assert_allclose(leave_one_out(path), expected, atol=1e-10)


@pytest.mark.parametrize("loss", [sp.LAD(), sp.Huber(), sp.SquareRoot()], ids=repr)
def test_corrected_values_are_close_to_leave_one_out(loss):
    X, y = sp.simulate.paper_model(30, "t2", mean=2.0, intercept=3.0).sample(150, rng=0)
    path = sp.run(X, y, loss, sp.Lasso(0.2), n_iter=15, fit_intercept=True)
    exact, loo = (sp.estimate_risk(path, "absolute", method=m) for m in ("exact", "loo"))
    np.testing.assert_allclose(exact.values, loo.values, atol=0.03)
    assert (loo.values - loo.train)[5:].min() > 0.1
    distance = np.abs(exact.corrected - loo.corrected).mean()
    assert distance < np.abs(path.fitted - loo.corrected).mean() / 3


# ------------------------------------------------------------------------------------------------
# Cross-validation
# ------------------------------------------------------------------------------------------------


def plain_losses(y, prediction):
    return (y - prediction) ** 2 / (1 + np.abs(y))


@SAME_STEPS
@PROBLEMS
def test_folds_are_runs_on_their_training_rows(loss, penalty, algorithm):
    X, y, _ = draw(17, 9)
    path = sp.run(X, y, loss, penalty(9), algorithm, n_iter=8)
    for criterion in (resolve_test_loss(None, loss), plain_losses):
        (found,) = cross_validate([path], criterion, 5, np.random.default_rng(1))
        predictions, error = np.full((9, 17), np.nan), np.zeros(9)
        for left_out, fitted in by_folds(X, path, 5, seed=1):
            assert left_out.sum() in (3, 4)
            predictions[:, left_out] = fitted[:, left_out]
            error += left_out.mean() * criterion(y, fitted).mean(axis=1)
        optimism = criterion(y, path.fitted).mean(axis=1) - error
        np.testing.assert_allclose(found.predictions, predictions, atol=1e-10)
        np.testing.assert_allclose(found.optimism, optimism, atol=1e-10)
        assert (np.abs(optimism[3:]) > 1e-4).all()


@SAME_STEPS
def test_folds_keep_the_intercepts_column():
    path, plain, Z, y = with_and_without_the_column(17, 9)
    (found,) = cross_validate([path], plain_losses, 5, np.random.default_rng(1))
    for left_out, fitted in by_folds(Z, plain, 5, seed=1):
        expected = np.median(y) + fitted[:, left_out]
        np.testing.assert_allclose(found.predictions[:, left_out], expected, atol=1e-10)


@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
def test_single_precision_is_close(fit_intercept):
    X, y, _ = draw(40, 20)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=20, fit_intercept=fit_intercept)
    criterion = resolve_test_loss("absolute")
    results = []
    for design in (None, path.design.astype(np.float32)):
        (folds,) = cross_validate([path], criterion, 6, np.random.default_rng(0), design)
        left_out = leave_one_out(path, design=design)
        results.append((left_out, folds.predictions, folds.optimism))
    for expected, found in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-4)
        assert np.abs(found - expected).max() > 0
        assert found.dtype == np.float64


# ------------------------------------------------------------------------------------------------
# As risk estimates
# ------------------------------------------------------------------------------------------------


@SAME_STEPS
@pytest.mark.parametrize("n", [7, 23], ids=["fewer rows than folds", "more"])
@pytest.mark.parametrize("method", ["loo", "folds"])
def test_risks_are_mean_losses(method, n):
    X, y, _ = draw(n, 9)
    path = sp.run(X, y, sp.Quantile(0.3), sp.Lasso(0.3), n_iter=8)
    risk = sp.estimate_risk(path, method=method, rng=2)
    criterion = resolve_test_loss(sp.Quantile(0.3))
    train = criterion(y, path.fitted).mean(axis=1)
    if method == "loo":
        predictions, optimism = by_leaving_one_out(X, path), 0.0
    else:
        predictions, optimism = np.full((9, n), np.nan), train
        for left_out, fitted in by_folds(X, path, min(n, 10), seed=2):
            predictions[:, left_out] = fitted[:, left_out]
            optimism = optimism - left_out.mean() * criterion(y, fitted).mean(axis=1)
    losses = criterion(y, predictions)
    np.testing.assert_allclose(risk.corrected, predictions, atol=1e-10)
    np.testing.assert_allclose(risk.values, losses.mean(axis=1) + optimism, atol=1e-10)
    variance = losses.var(axis=1, ddof=1) / n
    if method == "loo":
        variance += risk.interactions.variance()
    np.testing.assert_allclose(risk.stderr, np.sqrt(variance), atol=1e-10)
    np.testing.assert_allclose(risk.train, train, atol=1e-12)
    assert (risk.probe_stderr == 0).all()
    assert (risk.method, risk.n_probes, risk.covariance_known) == (method, 0, False)


@SAME_STEPS
def test_as_many_folds_as_rows_whatever_the_seed():
    X, y, _ = draw(7, 9)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=8)
    first, second = (sp.estimate_risk(path, method="folds", rng=seed) for seed in (0, 1))
    np.testing.assert_allclose(first.values, second.values, atol=1e-12)
    for i in range(7):
        expected = fits(X, path, np.delete(np.arange(7), i), 6)[:, i]
        np.testing.assert_allclose(first.corrected[:, i], expected, atol=1e-10)


@pytest.mark.parametrize("method", ["loo", "folds"])
def test_centering_shifts_them(method):
    X, y, _ = draw(23, 9)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=8)
    plain, centered = (
        sp.estimate_risk(path, method=method, rng=0, centered=flag) for flag in (False, True)
    )
    np.testing.assert_allclose(centered.values, plain.values - np.abs(y).mean(), atol=1e-12)


def test_folds_are_drawn_by_the_rng():
    X, y, _ = draw(23, 9)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=8)
    first, again, other = (
        sp.estimate_risk(path, method="folds", rng=seed).values for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


def test_a_single_observation_is_predicted_from_nothing():
    path = sp.run([[1.0, 2.0]], [3.0], sp.LAD(), sp.Lasso(0.1), n_iter=3)
    risk = sp.estimate_risk(path, method="loo")
    np.testing.assert_array_equal(risk.values, 3.0)
    assert np.isinf(risk.stderr).all()
    with pytest.raises(ValueError, match="folds need two observations"):
        sp.estimate_risk(path, method="folds")


def test_recursions_have_no_folds():
    X, y, _ = draw(12, 7)
    path = sp.run(X, y, sp.Huber(), sp.NoPenalty(), averaging(), n_iter=5)
    with pytest.raises(ValueError, match="not available for a Recursion; leave one out"):
        sp.estimate_risk(path, method="folds")
    expected = resolve_test_loss(sp.Huber())(y, by_leaving_one_out(X, path)).mean(axis=1)
    np.testing.assert_allclose(sp.estimate_risk(path, method="loo").values, expected, atol=1e-12)


@pytest.mark.parametrize("loss", LOSS_EXAMPLES.values(), ids=LOSS_EXAMPLES)
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
@pytest.mark.parametrize("method", ["loo", "folds"])
def test_array_api_strict(loss, fit_intercept, method):
    X, y, _ = draw(23, 9)
    strict = [array_api_strict.asarray(a) for a in (X, y)]
    for penalty in (sp.Lasso(0.3), PENALTY_EXAMPLES["group_lasso"](9)):
        ours, theirs = (
            sp.estimate_risk(
                sp.run(*data, loss, penalty, n_iter=6, fit_intercept=fit_intercept),
                method=method,
                rng=0,
            )
            for data in ((X, y), strict)
        )
        for name in ("values", "stderr", "corrected"):
            found = getattr(theirs, name)
            assert isinstance(found, type(strict[0]))
            np.testing.assert_allclose(np.asarray(found), getattr(ours, name), atol=1e-10)


def test_array_api_strict_recursion():
    X, y, _ = draw(12, 7)
    ours, theirs = (
        leave_one_out(
            sp.run(xp.asarray(X), xp.asarray(y), sp.Huber(), sp.NoPenalty(), averaging(xp), 5)
        )
        for xp in (np, array_api_strict)
    )
    np.testing.assert_allclose(np.asarray(theirs), ours, atol=1e-12)


def test_folds_refuse_steps_too_long_for_fewer_rows():
    X, y = sp.simulate.paper_model(10, "normal").sample(50, rng=0)
    tau = 2.45 * np.sqrt(50)
    sigma = 50 / (tau * np.linalg.norm(X, 2) ** 2)
    path = sp.run(X, y, sp.LAD(), sp.MCP(0.3, gamma=2.5), sp.ChambollePock(sigma, tau), n_iter=3)
    with pytest.raises(ValueError, match="single-valued only for steps below"):
        sp.estimate_risk(path, method="folds")
