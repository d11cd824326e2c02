"""Step sizes, warnings and what an algorithm cannot handle."""

import re
import warnings

import numpy as np
import pytest

from backends import everywhere, on_backend, sp
from problems import draw
from steinpath import designs

DenseDesign = on_backend(designs.DenseDesign)


@everywhere
@pytest.mark.parametrize("shape", [(60, 40), (40, 60), (40, 3), (1, 5), (5, 1)])
def test_norm_is_the_largest_singular_value(shape):
    X = np.random.default_rng(0).standard_normal(shape)
    np.testing.assert_allclose(DenseDesign(X).norm(), np.linalg.norm(X, 2), rtol=1e-6)
    assert DenseDesign(0 * X).norm() == 0


@everywhere
def test_default_steps_are_safe():
    X, y, _ = draw(80, 50)
    square = np.linalg.norm(X, 2) ** 2 / 80
    for given in ({}, {"sigma": 0.7}, {"tau": 0.7}):
        used = sp.run(X, y, sp.LAD(), sp.Lasso(0.1), sp.ChambollePock(**given), n_iter=1).algorithm
        assert 0.9 < used.sigma * used.tau * square <= 1
        assert {k: getattr(used, k) for k in given} == given
    for given in ({}, {"rho": 0.7}, {"alpha": 0.7}):
        used = sp.run(X, y, sp.LAD(), sp.Lasso(0.1), sp.LinearizedADMM(**given), n_iter=1).algorithm
        assert 0.9 < used.rho * used.alpha * square <= 1
    used = sp.run(X, y, sp.Squared(), sp.Lasso(0.1), sp.FISTA(), n_iter=1).algorithm
    assert 0.9 < used.step * square <= 1


def test_unsafe_steps_warn_and_say_by_how_much():
    X, y, _ = draw(80, 50)
    square = np.linalg.norm(X, 2) ** 2 / 80
    cases = [
        (sp.LAD(), sp.ChambollePock(2.0, 2.5 / square), 5.0),
        (sp.LAD(), sp.LinearizedADMM(2.0, 2.5 / square), 5.0),
        (sp.Squared(), sp.ProximalGradient(3.0 / square), 1.5),
        (sp.Squared(), sp.FISTA(3.0 / square), 3.0),
    ]
    for loss, algorithm, factor in cases:
        with pytest.warns(UserWarning, match="may diverge") as caught:
            sp.run(X, y, loss, sp.Lasso(0.1), algorithm, n_iter=1)
        said = float(re.search(r"is ([\d.]+) times the limit", str(caught[0].message))[1])
        assert said == pytest.approx(factor, rel=1e-2)


def test_warnings_point_at_the_caller_and_not_into_the_package():
    X, y, _ = draw(80, 50)
    with pytest.warns(UserWarning, match="may diverge") as caught:
        sp.run(X, y, sp.LAD(), sp.Lasso(0.1), sp.ChambollePock(2.0, 2.0), n_iter=1)
    assert caught[0].filename == __file__


def test_safe_steps_do_not_warn():
    X, y, _ = draw(80, 50)
    square = np.linalg.norm(X, 2) ** 2 / 80
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sp.run(X, y, sp.LAD(), sp.Lasso(0.1), sp.ChambollePock(1.0, 1.0 / square), n_iter=1)


@pytest.mark.parametrize("algorithm", [sp.ProximalGradient(), sp.FISTA(0.1)], ids=repr)
@pytest.mark.parametrize(
    "loss",
    [sp.LAD(), sp.SquareRoot(), sp.Quantile(), sp.EpsilonInsensitive()],
    ids=lambda loss: loss.name,
)
def test_smooth_losses_are_asked_for(algorithm, loss):
    X, y, _ = draw(20, 5)
    with pytest.raises(ValueError, match="needs a loss with a Lipschitz gradient") as caught:
        sp.run(X, y, loss, sp.Lasso(0.1), algorithm)
    assert type(loss).__name__ in str(caught.value)
    assert "ChambollePock" in str(caught.value)


def test_multivalued_proximal_maps_are_refused():
    X, y, _ = draw(16, 5)
    for penalty, limit in ((sp.MCP(0.1, gamma=1.5), 1.5), (sp.SCAD(0.1, a=2.5), 1.5)):
        sp.run(X, y, sp.LAD(), penalty, sp.ChambollePock(1e-6, 3.9 * limit), n_iter=1)
        with pytest.raises(ValueError, match=r"single-valued only for steps below 1\.5"):
            sp.run(X, y, sp.LAD(), penalty, sp.ChambollePock(1e-6, 4 * limit), n_iter=1)
        # the default stays within the limit, however small X is
        tiny = sp.run(1e-6 * X, y, sp.LAD(), penalty, n_iter=3)
        assert tiny.algorithm.tau / 4 < limit
        gradient = sp.run(1e-6 * X, y, sp.Squared(), penalty, sp.ProximalGradient(), n_iter=3)
        assert gradient.algorithm.step / 4 < limit


def test_recursion_wants_no_penalty_and_no_intercept():
    X, y, _ = draw(16, 5)
    recursion = sp.Recursion(*[lambda t, *histories: 0] * 4)
    with pytest.raises(ValueError, match="NoPenalty"):
        sp.run(X, y, sp.Squared(), sp.Lasso(0.1), recursion)
    with pytest.raises(ValueError, match="fit_intercept=True; add a column of ones"):
        sp.run(X, y, sp.Squared(), sp.NoPenalty(), recursion, fit_intercept=True)
    with pytest.raises(ValueError, match=r"dual map must return an array like X of shape \(16,\)"):
        sp.run(X, y, sp.Squared(), sp.NoPenalty(), recursion)
    with pytest.raises(TypeError, match="primal_jvp must be callable"):
        sp.Recursion(min, min, min, None)


def test_jvps_of_the_wrong_shape_are_refused():
    X, y, _ = draw(16, 5)
    maps = {
        "dual": lambda t, u, v: -v[-1],
        "primal": lambda t, b, eta: b[-1] - 0.1 * eta[-1],
        "dual_jvp": lambda t, u, v, du, dv: -dv[-1],
        "primal_jvp": lambda t, b, eta, db, deta: db[-1] - 0.1 * deta[-1],
    }
    for name in ("dual_jvp", "primal_jvp"):
        broken = sp.Recursion(**{**maps, name: lambda *arguments: None})
        path = sp.run(X, y, sp.Squared(), sp.NoPenalty(), broken, n_iter=3)
        with pytest.raises(ValueError, match=f"{name} must return a block of tangents"):
            sp.estimate_risk(path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sp.ChambollePock(sigma=0), "sigma must be"),
        (lambda: sp.ChambollePock(tau=-1), "tau must be"),
        (lambda: sp.ChambollePock(theta=1.5), "theta must be"),
        (lambda: sp.ChambollePock(theta=-0.1), "theta must be"),
        (lambda: sp.ChambollePock(relaxation=2), "relaxation must be"),
        (lambda: sp.ChambollePock(relaxation=1.5, theta=0.5), "needs theta = 1"),
        (lambda: sp.LinearizedADMM(rho=float("inf")), "rho must be"),
        (lambda: sp.LinearizedADMM(alpha="1"), "alpha must be a real number"),
        (lambda: sp.ProximalGradient(step=0), "step must be"),
        (lambda: sp.FISTA(step=1j), "step must be a real number"),
    ],
)
def test_impossible_parameters_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
