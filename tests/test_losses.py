"""Losses against brute force, finite differences and closed forms."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from backends import everywhere, seen, sp
from problems import LOSS_EXAMPLES
from steinpath.losses import LOSSES, SeparableLoss

SEPARABLE = {name: loss for name, loss in LOSS_EXAMPLES.items() if isinstance(loss, SeparableLoss)}
STEPS = (0.05, 1.0, 20.0)


def test_every_loss_is_in_the_examples():
    assert set(LOSSES) == set(LOSS_EXAMPLES)


def by_name(losses):
    return pytest.mark.parametrize("loss", losses.values(), ids=losses.keys())


def finite_differences(function, point, h=1e-6):
    columns = [
        (function(point + h * e) - function(point - h * e)) / (2 * h) for e in np.eye(len(point))
    ]
    return np.stack(columns, axis=1)


@everywhere
@by_name(SEPARABLE)
@pytest.mark.parametrize("step", STEPS)
def test_prox_minimises_on_a_grid(loss, step):
    loss = seen(loss)
    r = np.array([-3.0, -0.9, -0.21, 0.0, 0.1, 0.37, 1.1, 6.0])
    found = loss.prox(r, step)
    scale = step / math.sqrt(len(r))
    grid = np.linspace(-8, 8, 320_001)
    for r_i, x_i in zip(r, found, strict=True):
        costs = scale * loss.rho(grid) + (grid - r_i) ** 2 / 2
        assert scale * loss.rho(x_i) + (x_i - r_i) ** 2 / 2 <= costs.min() + 1e-12
        assert abs(x_i - grid[costs.argmin()]) < 1e-4


@everywhere
@pytest.mark.parametrize("step", STEPS)
def test_square_root_prox_minimises_along_the_ray_and_nowhere_else(step):
    rng = np.random.default_rng(0)
    r = rng.standard_normal(6)
    x = sp.SquareRoot().prox(r, step)

    def cost(z):
        return step * np.linalg.norm(z) + np.sum((z - r) ** 2) / 2

    ray = minimize_scalar(lambda c: cost(c * r), bounds=(0, 1), method="bounded")
    assert cost(x) <= ray.fun + 1e-12
    for _ in range(200):  # convex, so no better point nearby means no better point
        assert cost(x) <= cost(x + 1e-3 * rng.standard_normal(6))


@everywhere
@by_name(LOSS_EXAMPLES)
@pytest.mark.parametrize("step", STEPS)
def test_jacobians_are_the_finite_differences(loss, step):
    loss = seen(loss)
    rng = np.random.default_rng(1)
    r = rng.standard_normal(7) * 2 + 0.013  # away from kinks for these steps
    block = rng.standard_normal((7, 3))
    for function, jacobian in (
        (lambda x: loss.gradient(x, step), loss.hessian(r, step)),
        (lambda x: loss.prox(x, step), loss.prox_jacobian(r, step)),
    ):
        dense = finite_differences(function, r)
        np.testing.assert_allclose(jacobian(np.eye(7)), dense, atol=1e-8)
        np.testing.assert_allclose(jacobian(block), dense @ block, atol=1e-7)
        np.testing.assert_allclose(jacobian(block[:, 0]), dense @ block[:, 0], atol=1e-7)


@everywhere
@by_name({k: v for k, v in LOSS_EXAMPLES.items() if v.smoothness is not None})
def test_gradient_of_a_smooth_loss_is_that_of_its_value(loss):
    loss = seen(loss)
    r = np.random.default_rng(2).standard_normal(6) * 2
    slope = finite_differences(lambda x: np.atleast_1d(loss.value(x)), r)[0]
    np.testing.assert_allclose(loss.gradient(r), slope, atol=1e-8)
    ratio = np.linalg.norm(loss.gradient(r) - loss.gradient(-r)) / np.linalg.norm(2 * r)
    assert ratio <= loss.smoothness / math.sqrt(6) + 1e-12


@everywhere
@by_name(LOSS_EXAMPLES)
def test_unsmoothed_gradient_is_a_subgradient(loss):
    loss = seen(loss)
    rng = np.random.default_rng(3)
    r = rng.standard_normal(6)
    r[0] = 0.0
    for _ in range(100):
        other = r + rng.standard_normal(6)
        assert loss.value(other) >= loss.value(r) + loss.gradient(r) @ (other - r) - 1e-12


@everywhere
def test_lad_dual_map_is_the_clip_and_square_root_dual_map_the_projection():
    """The paper's Table 1, which the code does not contain."""
    w = np.random.default_rng(4).standard_normal(9) * 0.5
    n, sigma = 9, 0.3
    algorithm = sp.ChambollePock(sigma, 1.0)
    clip = algorithm.dual_map(sp.LAD(), n)
    np.testing.assert_allclose(clip(w), np.clip(w, -1 / 3, 1 / 3), atol=1e-15)
    ball = algorithm.dual_map(sp.SquareRoot(), n)
    np.testing.assert_allclose(ball(w), w / max(1, np.linalg.norm(w)), atol=1e-15)
    np.testing.assert_allclose(ball(w / 10), w / 10, atol=1e-15)


@everywhere
def test_dual_of_lad_keeps_its_precision_at_huge_residuals():
    """Moreau's identity as a subtraction would lose eight digits here."""
    dual = sp.ChambollePock(0.1, 0.1).dual_map(sp.LAD(), 4)
    np.testing.assert_allclose(dual(np.array([1e8, -1e8, 1e15, 0.1])), [0.5, -0.5, 0.5, 0.1])


@everywhere
@by_name(LOSS_EXAMPLES)
@pytest.mark.parametrize("n", [1, 2, 7, 10])
def test_location_is_the_best_constant(loss, n):
    loss = seen(loss)
    y = np.random.default_rng(5).standard_t(2, size=n)
    constants = np.linspace(y.min(), y.max(), 20_001)
    best = loss.value(y[:, None] - constants).min()
    assert loss.value(y - loss.location(y)) <= best + 1e-12


@everywhere
def test_location_of_lad_is_the_median():
    y = np.random.default_rng(6).standard_normal(8)
    assert sp.LAD().location(y) == pytest.approx(np.median(y))
    assert sp.LAD().location(y[:7]) == np.median(y[:7])


@everywhere
def test_limits_agree():
    """Losses that are each other's special cases."""
    r = np.random.default_rng(7).standard_normal(8)
    for step in STEPS:
        lad = sp.LAD().gradient(r, step)
        np.testing.assert_allclose(2 * sp.Quantile(0.5).gradient(r, 2 * step), lad, atol=1e-15)
        np.testing.assert_allclose(sp.EpsilonInsensitive(0.0).gradient(r, step), lad, atol=1e-15)
        wide = sp.Huber(1e3).gradient(r, step)
        np.testing.assert_allclose(wide, sp.Squared().gradient(r, step), atol=1e-15)
    np.testing.assert_allclose(sp.Huber(1e-9).value(r) * 1e9, sp.LAD().value(r), rtol=1e-8)
    near = sp.EpsilonInsensitive(0.0).hessian(np.zeros(3), 1.0).entries
    np.testing.assert_allclose(near, sp.LAD().hessian(np.zeros(3), 1.0).entries)


@everywhere
@by_name(LOSS_EXAMPLES)
def test_columns_are_independent(loss):
    loss = seen(loss)
    r = np.random.default_rng(8).standard_normal((6, 3))
    for j in range(3):
        np.testing.assert_allclose(loss.value(r)[j], loss.value(r[:, j]))
        np.testing.assert_allclose(loss.gradient(r, 0.7)[:, j], loss.gradient(r[:, j], 0.7))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sp.Quantile(0), "q must be"),
        (lambda: sp.Quantile(1.0), "q must be"),
        (lambda: sp.Quantile("half"), "q must be a real number"),
        (lambda: sp.Huber(0), "delta must be"),
        (lambda: sp.Huber(float("nan")), "delta must be"),
        (lambda: sp.EpsilonInsensitive(-0.1), "eps must be"),
        (lambda: sp.EpsilonInsensitive(True), "eps must be a real number"),
    ],
)
def test_impossible_parameters_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
