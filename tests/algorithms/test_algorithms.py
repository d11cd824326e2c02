"""Step sizes, warnings and what an algorithm cannot handle; updates are in `differential`."""

import warnings

import numpy as np
import pytest

import steinpath
from backends import everywhere, on_backend, sp
from problems import draw, handles
from steinpath.algorithms._base import History
from steinpath.design import _dense
from steinpath.engine import _batch, _data
from steinpath.problem._rows import Rows

DenseDesign, prepare, start = map(
    on_backend, (_dense.DenseDesign, _data.prepare, _batch.Batch.start)
)


# ------------------------------------------------------------------------------------------------
# Members
# ------------------------------------------------------------------------------------------------

LAM, COLUMNS = 0.05, 7
FIXED = [
    sp.ChambollePock(0.3, 0.2),
    sp.ChambollePock(0.3, 0.2, relaxation=1.6),
    sp.HalpernPDHG(0.3, 0.2, restart=1),  # without a state at a single time
    sp.LinearizedADMM(0.3, 0.2),
    sp.ProximalGradient(0.2),
    sp.FISTA(0.2),
]


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, np.array([[0.2], [0.9]])], ids=str)
def test_steps_on_fewer_rows_are_safe(share):
    """A part of the rows may have the norm of all of them, while its n is smaller."""
    for algorithm, most in (
        (sp.ChambollePock(0.5, 1.9), 4 / 3),
        (sp.ChambollePock(0.5, 1.9, relaxation=1.5), 1.0),
        (sp.HalpernPDHG(0.5, 1.9), 1.0),
        (sp.LinearizedADMM(0.5, 1.9), 4 / 3),
    ):
        fewer = algorithm.on_fewer_rows(share)
        first, second = (getattr(fewer, name) for name in algorithm.steps)
        assert np.all(first * second / share <= most + 1e-12)
        assert np.all(first / second == pytest.approx(0.5 / 1.9))
    assert np.all(sp.ProximalGradient(1.0).on_fewer_rows(share).step / share <= 2)
    assert np.all(sp.FISTA(1.0).on_fewer_rows(share).step / share <= 1)


@pytest.mark.parametrize("cv", [2, 3, 10])
def test_folds_do_not_diverge(cv):
    """One row has nearly the whole norm of X, in whatever fold it is."""
    X, y, _ = draw(40, 5)
    X[7] *= 30
    for algorithm in (sp.HalpernPDHG(), sp.ChambollePock(), sp.LinearizedADMM()):
        path = sp.run(X, y, sp.SquareRoot(), sp.Lasso(0.01), algorithm, n_iter=200)
        values = sp.cross_validate_path(path, cv, "absolute", rng=0).values
        assert values[-1] < 3 * values[0]


@pytest.mark.parametrize("algorithm", FIXED, ids=repr)
def test_maps_of_members_that_leave_rows_out_are_those_of_the_rows_they_keep(algorithm):
    """Of two members with a penalty each, three runs that leave some rows out."""
    total, rng, lams = 8, np.random.default_rng(0), np.array([LAM, 3 * LAM])
    kept = np.arange(total)[:, None] % 4 != np.arange(3)
    kept[0] = False
    weights, counts = np.tile(kept, 2)[:, :, None] * 1.0, np.tile(kept.sum(axis=0), 2)[:, None]
    losses = (sp.LAD(), sp.SquareRoot(), sp.Huber(0.5))
    for loss in (each for each in losses if handles(algorithm, each)):
        both = algorithm.maps(loss, sp.Lasso(lams), Rows(total))
        part = both.for_rows(Rows(counts * 1.0, weights), 3)
        u, v = rng.standard_normal((2, 2, total, 6, 1)) / 4
        b, eta = rng.standard_normal((2, 2, COLUMNS, 6, 1))
        dual = part.dual(2, History(u), History(v))
        primal = part.primal(2, History(b), History(eta))
        for k in range(6):
            rows, own = kept[:, k % 3], slice(k, k + 1)
            safe = algorithm.on_fewer_rows(rows.sum() / total)
            alone = safe.maps(loss, sp.Lasso(lams[k // 3]), Rows(int(rows.sum())))
            expected = alone.dual(2, *(History(each[:, rows, own]) for each in (u, v)))
            np.testing.assert_allclose(dual[rows, own], expected)
            expected = alone.primal(2, *(History(each[:, :, own]) for each in (b, eta)))
            np.testing.assert_allclose(primal[:, own], expected)


@everywhere
def test_steps_that_members_did_not_give_are_chosen_for_each():
    X, y, _ = draw(80, 50)
    square, own = np.linalg.norm(X, 2) ** 2 / 80, np.array([[0.2], [0.7]])
    data = prepare(X, y, sp.LAD(), False)
    for given, other in (("sigma", "tau"), ("tau", "sigma")):
        used = start(data, sp.Lasso(0.1), sp.ChambollePock(**{given: own}), 2).algorithm
        np.testing.assert_array_equal(getattr(used, given), own)
        np.testing.assert_allclose(own * getattr(used, other) * square, 0.99, rtol=1e-5)
    limited = start(data, sp.MCP(0.1, gamma=1.5), sp.ChambollePock(sigma=1e-6 * own), 2)
    np.testing.assert_array_equal(limited.algorithm.tau, 0.5 * 1.5 * np.sqrt(80) * np.ones((2, 1)))


def test_unsafe_steps_of_one_member_are_named():
    X, y = 2 * np.eye(4), np.arange(4.0)  # ‖X‖² / n = 1
    sigma, tau, step = (np.array(own)[:, None] for own in ([1.0, 2.0], [0.5, 2.5], [0.5, 3.0]))
    for loss, algorithm, formula, value, limit in (
        (sp.LAD(), sp.ChambollePock(sigma, tau), "sigma * tau * ‖X‖² / n", 5, 1),
        (sp.LAD(), sp.HalpernPDHG(sigma, tau), "sigma * tau * ‖X‖² / n", 5, 1),
        (sp.LAD(), sp.LinearizedADMM(sigma, tau), "rho * alpha * ‖X‖² / n", 5, 1),
        (sp.Squared(), sp.ProximalGradient(step), "step * smoothness * ‖X‖² / n", 3, 2),
        (sp.Squared(), sp.FISTA(step), "step * smoothness * ‖X‖² / n", 3, 1),
    ):
        with pytest.warns(UserWarning, match="may diverge") as caught:
            start(prepare(X, y, loss, False), sp.Lasso(0.1), algorithm, 2)
        assert str(caught[0].message).startswith(f"{formula} = {value} is {value / limit:g} times")
        assert f"= {value}; the limit is {limit}" in algorithm.why_diverged(
            _dense.DenseDesign(X), loss
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            start(prepare(X, y, loss, False), sp.Lasso(0.1), algorithm.member(0))


def test_the_largest_step_of_all_members_is_checked():
    X, y, _ = draw(16, 5)
    tau = np.array([[1.0], [6.0]])
    with pytest.raises(ValueError, match=r"(?s)only for steps below 1\.5.* step 1\.5 at n = "):
        start(
            prepare(X, y, sp.LAD(), False), sp.MCP(0.1, gamma=1.5), sp.ChambollePock(1e-6, tau), 2
        )


# ------------------------------------------------------------------------------------------------
# Step sizes
# ------------------------------------------------------------------------------------------------


@everywhere
def test_default_steps_use_all_that_is_safe_but_a_hundredth():
    X, y, _ = draw(80, 50)
    square = np.linalg.norm(X, 2) ** 2 / 80
    for given in ({}, {"sigma": 0.7}, {"tau": 0.7}):
        used = sp.run(X, y, sp.LAD(), sp.Lasso(0.1), sp.ChambollePock(**given), n_iter=1).algorithm
        np.testing.assert_allclose(used.sigma * used.tau * square, 0.99, rtol=1e-5)
    for given in ({}, {"rho": 0.7}, {"alpha": 0.7}):
        used = sp.run(X, y, sp.LAD(), sp.Lasso(0.1), sp.LinearizedADMM(**given), n_iter=1).algorithm
        np.testing.assert_allclose(used.rho * used.alpha * square, 0.99, rtol=1e-5)
        assert {k: getattr(used, k) for k in given} == pytest.approx(given)

    for smoothness in (1.0, 4.0):
        loss = type("Steep", (steinpath.Squared,), {"smoothness": smoothness})()
        used = sp.run(X, y, loss, sp.Lasso(0.1), sp.ProximalGradient(), n_iter=1).algorithm
        np.testing.assert_allclose(used.step * smoothness * square, 0.99, rtol=1e-5)


@everywhere
def test_default_steps_take_the_first_dual_to_nine_tenths_of_its_bound():
    """Duals of LAD are bounded by the gradient's entries, those of the square root by a ball."""
    X, y, _ = draw(80, 50)
    for algorithm, scale in ((sp.ChambollePock(), 1.0), (sp.LinearizedADMM(), np.sqrt(80))):
        path = sp.run(X, y, sp.SquareRoot(), sp.Lasso(0.1), algorithm, n_iter=1)
        np.testing.assert_allclose(np.linalg.norm(path.dual[0]) / scale, 0.9)
        signs = np.where(np.arange(80) % 3, 5.0, -5.0)
        path = sp.run(X, signs, sp.LAD(), sp.Lasso(0.1), algorithm, n_iter=1)
        np.testing.assert_allclose(path.dual[0] / scale, -0.9 * np.sign(signs) / np.sqrt(80))


def test_default_steps_where_there_is_nothing_to_go_by():
    X, y, _ = draw(16, 5)
    used = sp.run(0 * X, y, sp.LAD(), sp.Lasso(0.1), n_iter=1).algorithm
    assert used.sigma * used.tau == pytest.approx(1.0)
    used = sp.run(0 * X, y, sp.Squared(), sp.Lasso(0.1), sp.ProximalGradient(), n_iter=1).algorithm
    assert used.step == 1.0
    for nothing in (sp.LAD(), sp.EpsilonInsensitive(1e9)):  # no response, or no force
        used = sp.run(X, 0 * y + (nothing != sp.LAD()), nothing, sp.Lasso(0.1), n_iter=1).algorithm
        assert used.sigma == 1.0
    # half of what a nonconvex penalty allows, where X would allow more
    for penalty, limit in ((sp.MCP(0.1, gamma=1.5), 1.5), (sp.SCAD(0.1, a=2.5), 1.5)):
        for algorithm in (sp.ChambollePock(), sp.ChambollePock(sigma=1e-3)):
            used = sp.run(1e-6 * X, y, sp.LAD(), penalty, algorithm, n_iter=1).algorithm
            assert used.tau == 0.5 * limit * 4
        used = sp.run(1e-6 * X, y, sp.LAD(), penalty, sp.LinearizedADMM(), n_iter=1).algorithm
        assert used.alpha == pytest.approx(0.5 * limit)
        used = sp.run(1e-6 * X, y, sp.Squared(), penalty, sp.FISTA(), n_iter=1).algorithm
        assert used.step == 0.5 * limit * 4


UNSAFE = [
    (sp.LAD(), sp.ChambollePock(2.0, 2.5), "sigma * tau * ‖X‖² / n", 5, 1),
    (sp.LAD(), sp.HalpernPDHG(2.0, 2.5), "sigma * tau * ‖X‖² / n", 5, 1),
    (sp.LAD(), sp.LinearizedADMM(2.0, 2.5), "rho * alpha * ‖X‖² / n", 5, 1),
    (sp.Squared(), sp.ProximalGradient(3.0), "step * smoothness * ‖X‖² / n", 3, 2),
    (sp.Squared(), sp.FISTA(3.0), "step * smoothness * ‖X‖² / n", 3, 1),
]


@pytest.mark.parametrize(("loss", "algorithm", "formula", "value", "limit"), UNSAFE)
def test_unsafe_steps_are_named(loss, algorithm, formula, value, limit):
    X, y = 2 * np.eye(4), np.arange(4.0)  # ‖X‖² / n = 1
    with pytest.warns(UserWarning, match="may diverge") as caught:
        sp.run(X, y, loss, sp.Lasso(0.1), algorithm, n_iter=1)
    assert str(caught[0].message) == (
        f"{formula} = {value} is {value / limit:g} times the limit {limit}: "
        f"{type(algorithm).__name__} may diverge; reduce the step sizes, or leave them at None for "
        "safe ones"
    )
    design = _dense.DenseDesign(X)
    assert algorithm.why_diverged(design, loss) == (
        f"the step sizes are too large ({formula} = {value}; the limit is {limit})"
    )
    innocent = "the entries of X or y are too large to square; rescale them"
    for tiny, said in ((1.0, True), (1 - 1e-9, True), (1 + 1e-5, False)):
        scaled = _dense.DenseDesign(X * np.sqrt(tiny * limit / value))
        assert (algorithm.why_diverged(scaled, loss) == innocent) == said


@pytest.mark.parametrize(("loss", "algorithm", "formula", "value", "limit"), UNSAFE)
def test_the_limit_itself_is_safe(loss, algorithm, formula, value, limit):
    root = np.sqrt(limit / value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sp.run(2 * root * np.eye(4), np.arange(4.0), loss, sp.Lasso(0.1), algorithm, n_iter=1)
    with pytest.warns(UserWarning, match="may diverge"):
        sp.run(2.01 * root * np.eye(4), np.arange(4.0), loss, sp.Lasso(0.1), algorithm, n_iter=1)


def test_smoothness_counts_in_the_limit():
    loss = type("Steep", (steinpath.Squared,), {"smoothness": 4.0})()
    with pytest.warns(UserWarning, match="= 4 is 2 times the limit 2"):
        sp.run(2 * np.eye(4), np.arange(4.0), loss, sp.Lasso(0.1), sp.ProximalGradient(1.0), 1)


def test_warnings_point_at_the_caller_and_not_into_the_package():
    X, y, _ = draw(80, 50)
    with pytest.warns(UserWarning, match="may diverge") as caught:
        sp.run(X, y, sp.LAD(), sp.Lasso(0.1), sp.ChambollePock(2.0, 2.0), n_iter=1)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("algorithm", [sp.ProximalGradient(), sp.FISTA(0.1)], ids=repr)
@pytest.mark.parametrize(
    "loss",
    [sp.LAD(), sp.SquareRoot(), sp.Quantile(), sp.EpsilonInsensitive()],
    ids=lambda loss: loss.name,
)
def test_smooth_losses_are_asked_for(algorithm, loss):
    X, y, _ = draw(20, 5)
    with pytest.raises(ValueError, match="requires a loss with a Lipschitz gradient") as caught:
        sp.run(X, y, loss, sp.Lasso(0.1), algorithm)
    assert str(caught.value) == (
        f"{type(algorithm).__name__} requires a loss with a Lipschitz gradient, which {loss!r} "
        "does not have (smoothness is None); use ChambollePock or HalpernPDHG, or the loss Huber "
        "or Squared"
    )


def test_multivalued_proximal_maps_are_refused():
    X, y, _ = draw(16, 5)
    for penalty, limit in ((sp.MCP(0.1, gamma=1.5), 1.5), (sp.SCAD(0.1, a=2.5), 1.5)):
        sp.run(X, y, sp.LAD(), penalty, sp.ChambollePock(1e-6, 3.9 * limit), n_iter=1)
        with pytest.raises(ValueError, match=r"single-valued only for steps below 1\.5") as caught:
            sp.run(X, y, sp.LAD(), penalty, sp.ChambollePock(1e-6, 4 * limit), n_iter=1)
        assert str(caught.value) == (
            f"the proximal map of {penalty!r} is single-valued only for steps below 1.5, but "
            f"{sp.ChambollePock(1e-6, 4 * limit)!r} takes the step 1.5 at n = 16; "
            "use a smaller step size, or leave it at None"
        )


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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sp.ChambollePock(sigma=0), "sigma must be"),
        (lambda: sp.ChambollePock(tau=-1), "tau must be"),
        (lambda: sp.ChambollePock(theta=1.5), "theta must be"),
        (lambda: sp.ChambollePock(theta=-0.1), "theta must be"),
        (lambda: sp.ChambollePock(relaxation=2), "relaxation must be"),
        (lambda: sp.ChambollePock(relaxation=0), "relaxation must be"),
        (
            lambda: sp.ChambollePock(relaxation=1.5, theta=0.5),
            "^relaxation other than 1 requires th",
        ),
        (lambda: sp.LinearizedADMM(rho=float("inf")), "rho must be"),
        (lambda: sp.LinearizedADMM(alpha="1"), "alpha must be a real number"),
        (lambda: sp.ProximalGradient(step=0), "step must be"),
        (lambda: sp.FISTA(step=1j), "step must be a real number"),
    ],
)
def test_impossible_parameters_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@pytest.mark.parametrize(
    ("algorithm", "names"),
    [
        (sp.ChambollePock, ["sigma", "tau", "theta", "relaxation", "ratio"]),
        (sp.HalpernPDHG, ["sigma", "tau", "ratio"]),
        (sp.LinearizedADMM, ["rho", "alpha", "ratio"]),
        (sp.ProximalGradient, ["step"]),
        (sp.FISTA, ["step"]),
    ],
)
@pytest.mark.parametrize("shape", [(), (1,), (2,), (1, 2), (1, 1, 1)])
def test_arrays_are_refused_as_parameters(algorithm, names, shape):
    for name in names:
        with pytest.raises(TypeError, match=f"^{name} must be a real number, got array"):
            algorithm(**{name: np.full(shape, 0.5)})
