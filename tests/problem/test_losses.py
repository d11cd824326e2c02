"""Losses against brute force, finite differences and closed forms."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from backends import everywhere, on_backend, seen, sp
from problems import LOSS_EXAMPLES, REGRESSION_EXAMPLES
from steinpath.problem import _rows
from steinpath.problem._losses import LOSSES, SeparableLoss

Rows = on_backend(_rows.Rows)
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
def test_dual_of_lad_keeps_its_precision_at_huge_residuals():
    """Moreau's identity as a subtraction would lose eight digits here."""
    dual = sp.ChambollePock(0.1, 0.1).dual_map(sp.LAD(), Rows(4))
    np.testing.assert_allclose(dual(np.array([1e8, -1e8, 1e15, 0.1])), [0.5, -0.5, 0.5, 0.1])


@everywhere
@by_name(REGRESSION_EXAMPLES)  # constants for labels are in test_margins.py
@pytest.mark.parametrize("n", [1, 2, 7, 10])
def test_location_is_the_best_constant(loss, n):
    loss = seen(loss)
    y = np.random.default_rng(5).standard_t(2, size=n)
    constants = np.linspace(y.min(), y.max(), 20_001)
    best = loss.value(y[:, None] - constants).min()
    assert loss.value(y - loss.location(y)) <= best + 1e-12


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


# ------------------------------------------------------------------------------------------------
# Rows that count unequally, rows that are elsewhere, and rows that are left out
# ------------------------------------------------------------------------------------------------

COUNTS = np.array([2, 1, 4, 1, 3, 2, 1])
COPIED = np.repeat(np.arange(7), COUNTS)  # as many copies of each row


def weighted_rows():
    return Rows(7, COUNTS / COUNTS.mean())


@everywhere
@by_name(LOSS_EXAMPLES)
@pytest.mark.parametrize("step", STEPS)
def test_counts_are_copies(loss, step):
    """Of the sum over the copies, one is ``√mean`` of what the weighted sum is."""
    loss, rows = seen(loss), weighted_rows()
    root = math.sqrt(COUNTS.mean())
    small = 0.01 * np.arange(1.0, 8)  # a norm below 1
    block = np.random.default_rng(9).standard_normal((7, 3, 2))
    for r in (np.linspace(-2, 3, 7), small, block[:, 0, :], block):
        np.testing.assert_allclose(root * loss.value(r, rows), loss.value(r[COPIED]))
        found, copied = loss.gradient(r, step, rows), loss.gradient(r[COPIED], root * step)
        np.testing.assert_allclose(found[COPIED], root * copied)
        sharp = loss.gradient(r, rows=rows)
        np.testing.assert_allclose(sharp, loss.gradient(r, 0.0, rows))
        np.testing.assert_allclose(sharp[COPIED], root * loss.gradient(r[COPIED]))
        np.testing.assert_allclose(
            loss.prox(r, step, rows)[COPIED], loss.prox(r[COPIED], root * step), atol=1e-15
        )


@everywhere
@by_name(LOSS_EXAMPLES)
def test_weighted_hessians_are_those_of_one_copy(loss):
    loss, rows, r = seen(loss), weighted_rows(), np.linspace(-2, 3, 7)
    for step in (0.3, 0.0):
        for function, jacobian in (
            (lambda x, step=step: loss.gradient(x, step, rows), loss.hessian(r, step, rows)),
            (lambda x, step=step: loss.prox(x, step, rows), loss.prox_jacobian(r, step, rows)),
        ):
            dense = finite_differences(function, r)
            np.testing.assert_allclose(jacobian(np.eye(7)), dense, atol=1e-8)
    sharp = loss.hessian(r, rows=rows)(r)
    np.testing.assert_array_equal(sharp, loss.hessian(r, 0.0, rows)(r))


@by_name(LOSS_EXAMPLES)
@pytest.mark.parametrize("step", STEPS)
def test_blocks_of_rows_are_parts_of_the_whole(loss, step):
    """Those that are elsewhere are so many copies of the same."""
    n, copies = 5, 3
    rows = Rows(n * copies, complete=lambda partial: copies * partial)
    rng = np.random.default_rng(11)

    def everywhere_else(here):
        return np.concatenate([here] * copies)

    for r in (rng.standard_normal(n), rng.standard_normal(n) / 100, rng.standard_normal((n, 2))):
        whole = everywhere_else(r)
        assert np.shape(loss.value(r, rows)) == r.shape[1:]
        np.testing.assert_allclose(loss.value(r, rows), loss.value(whole))
        np.testing.assert_allclose(loss.gradient(r, step, rows), loss.gradient(whole, step)[:n])
        np.testing.assert_allclose(loss.gradient(r, rows=rows), loss.gradient(whole)[:n])
    residuals, block = rng.standard_normal((2, n, 2))
    for r, at in itertools.product((residuals[:, 0], residuals[:, 1] / 100), (step, 0.0)):
        hessian = loss.hessian(everywhere_else(r), at)
        expected = hessian(everywhere_else(block))[:n]
        np.testing.assert_allclose(loss.hessian(r, at, rows)(block), expected, atol=1e-15)
    several = loss.hessian(residuals[:, None, :], step, rows).columns(2)
    for k, own in enumerate(several):
        expected = loss.hessian(residuals[:, k], step, rows)(block)
        np.testing.assert_allclose(own(block[:, None, :])[:, 0, :], expected)


@everywhere
@by_name(LOSS_EXAMPLES)
@pytest.mark.parametrize("step", STEPS)
def test_members_with_rows_and_steps_of_their_own(loss, step):
    n, members, columns = 6, 3, 4
    loss, rng = seen(loss), np.random.default_rng(13)
    residual, block = (rng.standard_normal((n, members, k)) for k in (1, columns))
    kept = np.ones((n, members))
    kept[1, 0] = kept[2, 0] = kept[4, 1] = 0
    counts, steps = kept.sum(axis=0), step * np.array([1.0, 0.4, 3.0])
    rows = Rows(counts[:, None], kept[:, :, None])
    value = loss.value(residual, rows)
    gradient = loss.gradient(residual, steps[:, None], rows)
    tangents = loss.hessian(residual, steps[:, None], rows)(block)
    for k in range(members):
        own, here = Rows(int(counts[k])), kept[:, k] > 0
        alone, at = residual[here, k, 0], float(steps[k])
        np.testing.assert_allclose(value[k, 0], loss.value(alone, own))
        np.testing.assert_allclose(gradient[here, k, 0], loss.gradient(alone, at, own))
        expected = loss.hessian(alone, at, own)(block[here, k, :])
        np.testing.assert_allclose(tangents[here, k, :], expected, atol=1e-14)


# ------------------------------------------------------------------------------------------------
# Conjugates
# ------------------------------------------------------------------------------------------------


@everywhere
@by_name(LOSS_EXAMPLES)
@pytest.mark.parametrize("weighted", [False, True])
def test_fenchels_inequality_is_an_equality_at_gradients(loss, weighted):
    loss, rng = seen(loss), np.random.default_rng(0)
    r = rng.standard_normal((9, 4))
    rows = Rows(9, rng.uniform(0.1, 2, 9)) if weighted else Rows(9)
    w = loss.gradient(r, 0.0, rows)
    inner = rows.total(w * r)
    np.testing.assert_allclose(loss.value(r, rows) + loss.conjugate(w, rows), inner, rtol=1e-12)
    assert np.all(loss.gauge(w, rows) <= 1 + 1e-12)
    # and no more than an inequality elsewhere
    others = rng.standard_normal((9, 4))
    gauge = loss.gauge(others, rows)
    others = others / np.maximum(gauge, 1)
    assert np.all(loss.gauge(others, rows) <= 1 + 1e-12)
    assert np.all(
        loss.value(r, rows) + loss.conjugate(others, rows) >= rows.total(others * r) - 1e-12
    )


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


@everywhere(every=3)
@pytest.mark.parametrize(
    "losses",
    [
        [sp.Quantile(q) for q in (0.05, 0.5, 0.95)],
        [sp.Huber(delta) for delta in (0.5, 1.35, 3.0)],
        [sp.EpsilonInsensitive(eps) for eps in (0.0, 0.1, 1.0)],
        [sp.Logistic(weight) for weight in (None, {-1: 2.0}, {-1: 0.5, 1: 3.0})],
    ],
    ids=lambda losses: type(losses[0]).__name__,
)
def test_parameters_of_members(losses):
    joint = losses[0].joined(losses[1:])
    rng = np.random.default_rng(0)
    r, labels = rng.standard_normal((6, 3, 2)), np.sign(rng.standard_normal((6, 3, 1)))
    rows = Rows(6, labels=labels if joint.margin else None)
    hessian = joint.hessian(r, 0.3, rows)(r)
    for k, loss in enumerate(losses):
        own, block = Rows(6, labels=labels[:, k : k + 1] if joint.margin else None), r[:, k : k + 1]
        for name in ("value", "gradient"):
            step = {} if name == "value" else {"step": 0.3}
            found = getattr(joint, name)(r, rows=rows, **step)
            expected = getattr(loss, name)(block, rows=own, **step)
            found = found[k : k + 1] if name == "value" else found[:, k : k + 1]
            np.testing.assert_allclose(found, expected)
        np.testing.assert_allclose(hessian[:, k : k + 1], loss.hessian(block, 0.3, own)(block))
        if not joint.margin:
            assert joint.member(k) == loss
        assert joint.repeated(2).some(np.array([2 * k])).member(0) == joint.member(k)
    assert losses[0].joined([sp.LAD()]) is None
    assert sp.LAD().joined([sp.LAD()] * 2) == sp.LAD()
