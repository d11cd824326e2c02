"""Losses against brute force, finite differences and closed forms."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from backends import everywhere, seen, sp
from problems import LOSS_EXAMPLES
from steinpath.problem._losses import LOSSES, Loss, SeparableLoss

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
def test_location_of_a_high_quantile_is_the_largest():
    y = np.random.default_rng(6).standard_normal(8)
    for q in (0.9, 0.99, math.nextafter(1.0, 0.0)):
        assert sp.Quantile(q).location(y) == y.max()
        assert sp.Quantile(1 - q).location(y) == y.min()


@everywhere
@pytest.mark.parametrize("unit", [1.0, 1e9 / 3, 1e-9 / 3])
def test_location_is_the_middle_where_many_are_best(unit):
    """Half of the weight is on either side of (2, 3), though the sums of weights are rounded."""
    y = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 10.0])
    for weights in ([0.1, 0.2, 0.4, 0.4, 0.2, 0.1], [0.1, 0.7, 0.1, 0.3, 0.3, 0.3]):
        for loss in (sp.LAD(), sp.Quantile(0.5)):
            for order in (slice(None), slice(None, None, -1)):
                assert loss.location(y, unit * np.array(weights[order])) == 2.5
    # all responses are within the band of any constant near the middle, which costs nothing
    assert sp.EpsilonInsensitive(6.0).location(y, unit * np.ones(6)) == 5.0


@everywhere
def test_location_at_a_kink():
    """The band around the heaviest response is left towards the others, and no further."""
    y, weights = np.array([0.0, 5.0, 10.0]), np.array([3.0, 1.0, 1.0])
    assert sp.EpsilonInsensitive(0.2).location(y, weights) == pytest.approx(0.2, abs=1e-15)
    assert sp.EpsilonInsensitive(0.2).location(-y, weights) == pytest.approx(-0.2, abs=1e-15)


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
    for loss in (sp.LAD(), sp.Quantile(0.3), sp.EpsilonInsensitive(0.2)):
        kinks = np.array([-0.2, 0.0, 0.2, 1.0])  # piecewise linear: flat wherever it is smooth
        np.testing.assert_array_equal(loss.hessian(kinks).entries, 0)
    near = sp.EpsilonInsensitive(0.0).hessian(np.zeros(3), 1.0).entries
    np.testing.assert_allclose(near, sp.LAD().hessian(np.zeros(3), 1.0).entries)


@everywhere
@by_name(LOSS_EXAMPLES)
def test_columns_are_independent(loss):
    loss = seen(loss)
    r = np.random.default_rng(8).standard_normal((6, 3))
    for j in range(3):
        np.testing.assert_allclose(loss.value(r)[j], loss.value(r[:, j]))
        np.testing.assert_allclose(
            loss.gradient(r, 0.7)[:, j], loss.gradient(r[:, j], 0.7), atol=1e-15
        )


# ------------------------------------------------------------------------------------------------
# Rows that count unequally, rows that are elsewhere, and rows that are left out
# ------------------------------------------------------------------------------------------------

COUNTS = np.array([2, 1, 4, 1, 3, 2, 1])
ROWS = np.repeat(np.arange(7), COUNTS)  # as many copies of each


@everywhere
@by_name(LOSS_EXAMPLES)
@pytest.mark.parametrize("step", STEPS)
def test_counts_are_copies(loss, step):
    """Of the sum over the copies, one is ``√mean`` of what the weighted sum is."""
    loss = seen(loss)
    root = math.sqrt(COUNTS.mean())
    weighted = loss.weighted(COUNTS / COUNTS.mean())
    small = 0.01 * np.arange(1.0, 8)  # a norm below 1
    for r in (np.linspace(-2, 3, 7), small, np.random.default_rng(9).standard_normal((7, 3))):
        np.testing.assert_allclose(root * weighted.value(r), loss.value(r[ROWS]), atol=1e-14)
        found, copied = weighted.gradient(r, step), loss.gradient(r[ROWS], root * step)
        np.testing.assert_allclose(found[ROWS], root * copied, atol=1e-15)
        sharp = weighted.gradient(r)
        np.testing.assert_allclose(sharp, weighted.gradient(r, 0.0), atol=1e-15)
        np.testing.assert_allclose(sharp[ROWS], root * loss.gradient(r[ROWS]), atol=1e-15)


@by_name(SEPARABLE)
def test_hessian_of_a_weighted_sum_is_that_of_one_copy(loss):
    weighted = loss.weighted(COUNTS / COUNTS.mean())
    r = np.linspace(-2, 3, 7)
    for step in (0.3, 0.0):
        dense = finite_differences(lambda x, step=step: weighted.gradient(x, step), r)
        np.testing.assert_allclose(weighted.hessian(r, step)(np.eye(7)), dense, atol=1e-8)
    np.testing.assert_array_equal(weighted.hessian(r)(r), weighted.hessian(r, 0.0)(r))


def test_a_weighted_norm_has_no_hessian():
    weighted = sp.SquareRoot().weighted(np.ones(7))
    with pytest.raises(NotImplementedError, match=r"^there are no tangents for rows that count un"):
        weighted.hessian(np.ones(7))


@everywhere
@by_name(LOSS_EXAMPLES)
def test_locations_of_counts_are_those_of_copies(loss):
    loss = seen(loss)
    y = np.random.default_rng(10).standard_t(2, size=7)
    counts = COUNTS.astype(float)
    for same in (loss, loss.weighted(COUNTS / COUNTS.mean())):
        np.testing.assert_allclose(same.location(y, counts), loss.location(y[ROWS]), atol=1e-12)
        np.testing.assert_allclose(same.location(y), loss.location(y), atol=1e-15)
    for same in (loss.on_part(3, 7), loss.shared(Share(7, 3))):
        assert same.location(y, counts) == loss.location(y, counts)
    # one row outweighs all others, from either end: no quantile looks away
    for heavy in (y.argmin(), y.argmax()):
        counts = 1 + 99 * (np.arange(7) == heavy)
        copied = loss.location(np.repeat(y, counts))
        np.testing.assert_allclose(loss.location(y, counts * 1.0), copied, atol=1e-12)


class Share:
    """Rows of a design, where those that are elsewhere are so many copies of the same."""

    def __init__(self, n, copies):
        self.shape, self.n_rows, self.copies = (n, 4), n * copies, copies

    def over_rows(self, partial):
        return self.copies * partial


@by_name(LOSS_EXAMPLES)
@pytest.mark.parametrize("step", STEPS)
def test_shares_are_parts_of_the_whole(loss, step):
    n, copies = 5, 3
    shared = loss.shared(Share(n, copies))
    rng = np.random.default_rng(11)

    def everywhere_else(here):
        return np.concatenate([here] * copies)

    for r in (rng.standard_normal(n), rng.standard_normal(n) / 100, rng.standard_normal((n, 2))):
        whole = everywhere_else(r)
        assert np.shape(shared.value(r)) == r.shape[1:]
        np.testing.assert_allclose(shared.value(r), loss.value(whole), atol=1e-14)
        for steps in ((step,), ()):
            expected = loss.gradient(whole, *steps)[:n]
            np.testing.assert_allclose(shared.gradient(r, *steps), expected, atol=1e-15)
    residuals, block = rng.standard_normal((2, n, 2))
    for r, steps in itertools.product((residuals[:, 0], residuals[:, 1] / 100), ((step,), ())):
        hessian = loss.hessian(everywhere_else(r), *steps)
        expected = hessian(everywhere_else(block))[:n]
        np.testing.assert_allclose(shared.hessian(r, *steps)(block), expected, atol=1e-13)
    for k, own in enumerate(shared.hessian(residuals, step).columns(2)):
        expected = shared.hessian(residuals[:, k], step)(block)
        np.testing.assert_allclose(own(block), expected, atol=1e-13)


@by_name(LOSS_EXAMPLES)
@pytest.mark.parametrize("step", STEPS)
def test_rows_left_out_are_zeros(loss, step):
    kept, total = 4, 9
    r = np.random.default_rng(12).standard_normal(kept)
    padded, block = np.append(r, np.zeros(total - kept)), np.eye(total)[:, :kept]
    part = loss.on_part(kept, total)
    np.testing.assert_allclose(part.value(padded), loss.value(r))
    for steps in ((step,), ()):
        gradient, hessian = loss.gradient(r, *steps), loss.hessian(r, *steps)
        np.testing.assert_allclose(part.gradient(padded, *steps)[:kept], gradient, atol=1e-15)
        found = part.hessian(padded, *steps)(block)[:kept]
        np.testing.assert_allclose(found, hessian(np.eye(kept)), atol=1e-13)


@by_name(LOSS_EXAMPLES)
def test_stand_ins_speak_of_the_loss_that_was_chosen(loss):
    for other in (loss.weighted(np.ones(3)), loss.shared(Share(3, 2))):
        assert repr(other) == repr(loss)
        assert other.smoothness == loss.smoothness


def test_other_losses_say_what_they_cannot_do():
    class Zero(Loss):
        value = gradient = hessian = location = None

        def __repr__(self):
            return "Zero()"

    with pytest.raises(NotImplementedError, match=r"^Zero\(\) has no weights$"):
        Zero().weighted(np.ones(3))
    with pytest.raises(NotImplementedError, match=r"^Zero\(\) cannot be shared out$"):
        Zero().shared(Share(3, 2))
    assert isinstance(Zero().on_part(1, 2), Zero)


# ------------------------------------------------------------------------------------------------
# What is refused
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sp.Quantile(0), "q must be"),
        (lambda: sp.Quantile(1.0), "q must be"),
        (lambda: sp.Quantile("half"), "q must be a real number"),
        (lambda: sp.Huber(0), "delta must be"),
        (lambda: sp.Huber(float("nan")), "delta must be"),
        (lambda: sp.Huber(1e200), "delta must be"),  # it could not be squared
        (lambda: sp.EpsilonInsensitive(1e200), "eps must be"),
        (lambda: sp.EpsilonInsensitive(-0.1), "eps must be"),
        (lambda: sp.EpsilonInsensitive(True), "eps must be a real number"),
    ],
)
def test_impossible_parameters_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
