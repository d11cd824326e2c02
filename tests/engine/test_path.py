"""The recursion: its definition, its limits against other solvers, its intercept, its errors."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import ElasticNet, Lasso, Ridge

from backends import everywhere, sp
from problems import (
    ALGORITHM_EXAMPLES,
    draw,
)

# ------------------------------------------------------------------------------------------------
# What a path is
# ------------------------------------------------------------------------------------------------


@everywhere
def test_path_is_the_papers_recursion_written_out():
    """LAD–lasso by equation (CP-update), in plain NumPy."""
    X, y, _ = draw(30, 20)
    n, sigma, tau, theta, lam = 30, 0.2, 0.15, 0.5, 0.4
    path = sp.run(X, y, sp.LAD(), sp.Lasso(lam), sp.ChambollePock(sigma, tau, theta), n_iter=12)
    u, b, root_n = np.zeros(30), np.zeros(20), np.sqrt(n)
    v = before = y / root_n
    for t in range(1, 13):
        extrapolated = v if t == 1 else (1 + theta) * v - theta * before
        u = np.clip(u - sigma * extrapolated, -1 / root_n, 1 / root_n)
        z = b - tau * X.T @ u / root_n
        b = np.sign(z) * np.maximum(np.abs(z) - tau / root_n * lam, 0)
        before, v = v, (y - X @ b) / root_n
        np.testing.assert_allclose(path.dual[t - 1], u, atol=1e-14)
        np.testing.assert_allclose(path.coef[t], b, atol=1e-14)
        np.testing.assert_allclose(path.fitted[t], X @ b, atol=1e-14)
    assert (path.coef[0] == 0).all()
    assert (path.fitted[0] == 0).all()
    assert (path.intercept == 0).all()


def test_paths_say_what_they_are():
    X, y, _ = draw(20, 5)
    kinds = {
        "p=5>": X,
        "p=5, float32>": X.astype(np.float32),
        "p=5, torch.float64 on cpu>": torch.asarray(X),
        "p=5, torch.float32 on cpu>": torch.asarray(X, dtype=torch.float32),
    }
    for ending, design in kinds.items():
        path = sp.run(design, y, sp.LAD(), sp.Ridge(0.1), n_iter=2)
        assert repr(path).endswith(ending)
        assert path.coef.dtype == path.dual.dtype == design.dtype
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.4), n_iter=7, fit_intercept=True)
    assert "LAD() + Lasso(lam=0.4) by ChambollePock" in repr(path)
    assert "n=20, p=5, intercept" in repr(path)


def test_lists_and_integers_are_arrays():
    X, y, _ = draw(12, 3)
    labels = np.tile([1, -1, 1], 4)
    for loss, response in ((sp.LAD(), y), (sp.Logistic(), labels.astype(np.int8))):
        expected = sp.run(X, response.astype(float), loss, sp.Lasso(0.1), n_iter=3).coef
        found = sp.run(X.tolist(), response.tolist(), loss, sp.Lasso(0.1), n_iter=3).coef
        np.testing.assert_array_equal(found, expected)
        found = sp.run(X, response, loss, sp.Lasso(0.1), n_iter=3).coef
        np.testing.assert_array_equal(found, expected)
    integers = sp.run([[1, 2], [3, 4], [5, 7]], [1, 2, 3], sp.LAD(), sp.Lasso(0.1), n_iter=3)
    assert integers.coef.dtype == np.float64


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("precision_of_y", [np.float32, np.float64])
def test_float32_stays_float32(precision_of_y, fit_intercept):
    """What is on the scale of y has its precision."""
    X, y, _ = draw(30, 20)
    path = sp.run(
        X.astype(np.float32),
        y.astype(precision_of_y),
        sp.LAD(),
        sp.Lasso(0.4),
        n_iter=5,
        fit_intercept=fit_intercept,
    )
    risk = sp.estimate_risk(path)
    for array in (path.coef, path.dual, path.objective, risk.values, risk.stderr):
        assert array.dtype == np.float32
    for array in (path.y, path.fitted, path.intercept, risk.corrected):
        assert array.dtype == precision_of_y


# ------------------------------------------------------------------------------------------------
# Limits
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["chambolle-pock", "linearized-admm", "fista"])
def test_limit_is_that_of_scikit_learn_for_squared_loss(algorithm):
    X, y, _ = draw(60, 10)
    n, alpha = 60, 0.1
    pairs = [
        (sp.Lasso(alpha * np.sqrt(n)), Lasso(alpha, tol=1e-12)),
        (sp.Ridge(alpha * np.sqrt(n)), Ridge(alpha * n)),
        (sp.ElasticNet(alpha * np.sqrt(n), 0.3), ElasticNet(alpha, l1_ratio=0.3, tol=1e-12)),
    ]
    for penalty, theirs in pairs:
        theirs.fit(X, y)
        path = sp.run(
            X, y, sp.Squared(), penalty, ALGORITHM_EXAMPLES[algorithm], 5000, fit_intercept=True
        )
        np.testing.assert_allclose(path.coef[-1], theirs.coef_, atol=1e-7)
        np.testing.assert_allclose(path.intercept[-1], theirs.intercept_, atol=1e-7)


@pytest.mark.parametrize("penalty", [sp.MCP(0.3, gamma=2.5), sp.SCAD(0.3)], ids=repr)
@pytest.mark.parametrize("algorithm", ["chambolle-pock", "proximal-gradient"])
def test_limit_of_a_nonconvex_penalty_is_stationary(penalty, algorithm):
    """The gradient of the loss plus the derivative of the paper's formula is zero."""
    X, y, _ = draw(60, 10)
    path = sp.run(X, y, sp.Squared(), penalty, ALGORITHM_EXAMPLES[algorithm], n_iter=5000)
    b = path.coef[-1]
    gradient = -X.T @ (y - X @ b) / np.sqrt(60)
    size, lam = np.abs(b), penalty.lam
    if penalty.name == "mcp":
        slope = np.maximum(lam - size / penalty.gamma, 0)
    else:
        slope = np.clip((penalty.a * lam - size) / (penalty.a - 1), 0, lam)
    active = b != 0
    assert active.any()
    assert not active.all()
    np.testing.assert_allclose(gradient[active], -slope[active] * np.sign(b[active]), atol=1e-8)
    assert (np.abs(gradient[~active]) <= lam).all()


# ------------------------------------------------------------------------------------------------
# Intercepts and units
# ------------------------------------------------------------------------------------------------


@everywhere
def test_shifting_features_only_moves_the_intercept():
    X, y, _ = draw(40, 8)
    shift = np.linspace(-20, 30, 8)
    here = sp.run(X, y, sp.LAD(), sp.Lasso(0.2), n_iter=30, fit_intercept=True)
    there = sp.run(X + shift, y + 7, sp.LAD(), sp.Lasso(0.2), n_iter=30, fit_intercept=True)
    np.testing.assert_allclose(there.coef, here.coef, atol=1e-9)
    np.testing.assert_allclose(there.intercept, here.intercept + 7 - here.coef @ shift, atol=1e-8)
    np.testing.assert_allclose(there.fitted, here.fitted + 7, atol=1e-8)


# ------------------------------------------------------------------------------------------------
# Divergence
# ------------------------------------------------------------------------------------------------


def test_divergence_names_the_iterate_and_the_cause():
    X, y, _ = draw(40, 8)
    algorithm = sp.ChambollePock(1e100, 1e100)
    with (
        pytest.warns(UserWarning, match="sigma"),
        pytest.raises(
            sp.DivergenceError, match=r"iterate \d+ is not finite: the step sizes"
        ) as caught,
    ):
        sp.run(X, y, sp.Squared(), sp.NoPenalty(), algorithm)
    assert caught.value.iterate >= 1
    with pytest.warns(UserWarning, match="step"), pytest.raises(sp.DivergenceError) as caught:
        sp.run(X, y, sp.Squared(), sp.NoPenalty(), sp.ProximalGradient(100.0), n_iter=2000)
    last = caught.value.iterate - 1
    with pytest.warns(UserWarning, match="step"):
        path = sp.run(X, y, sp.Squared(), sp.NoPenalty(), sp.ProximalGradient(100.0), n_iter=last)
    assert np.isfinite(path.coef).all()


@everywhere
def test_divergence_of_a_recursion():
    X, y, _ = draw(20, 5)
    explode = sp.Recursion(
        dual=lambda t, u, v: -v[-1],
        primal=lambda t, b, eta: b[-1] - 1e60 * eta[-1],
        dual_jvp=lambda t, u, v, du, dv: -dv[-1],
        primal_jvp=lambda t, b, eta, db, deta: db[-1] - 1e60 * deta[-1],
    )
    with pytest.raises(sp.DivergenceError, match="maps passed to Recursion"):
        sp.run(X, y, sp.Squared(), sp.NoPenalty(), explode)


def test_step_sizes_and_parameters_are_plain_numbers():
    """A NumPy scalar would raise single precision to double wherever it multiplies."""
    X, y, _ = draw(20, 9)
    X, y = X.astype(np.float32), y.astype(np.float32)
    step = np.float64(0.1)
    for loss, penalty, algorithm in (
        (sp.Quantile(np.float64(0.3)), sp.Lasso(step), sp.ChambollePock(step, step, step)),
        (sp.Huber(np.float64(1.0)), sp.MCP(step, np.float64(2.5)), sp.FISTA(step)),
        (sp.EpsilonInsensitive(step), sp.ElasticNet(step, step), sp.LinearizedADMM(step, step)),
    ):
        path = sp.run(X, y, loss, penalty, algorithm, n_iter=3)
        for array in (path.coef, path.dual, path.fitted, path.objective):
            assert array.dtype == np.float32


@everywhere
@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot(), sp.Quantile(0.2)], ids=repr)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    "algorithm", [sp.ChambollePock(), sp.HalpernPDHG(), sp.LinearizedADMM()], ids=repr
)
def test_default_steps_do_not_depend_on_units(loss, intercept, algorithm):
    """X in other units gives the same fits; y in other units scales them."""
    X, y, _ = draw(40, 8)
    base = sp.run(X, y, loss, sp.Lasso(0.2), algorithm, 30, intercept)
    finer = sp.run(1e3 * X, y, loss, sp.Lasso(0.2 * 1e3), algorithm, 30, intercept)
    np.testing.assert_allclose(1e3 * finer.coef, base.coef, rtol=1e-4, atol=1e-6)
    larger = sp.run(X, 1e3 * y, loss, sp.Lasso(0.2), algorithm, 30, intercept)
    np.testing.assert_allclose(larger.coef / 1e3, base.coef, rtol=1e-4, atol=1e-6)
