"""Traces of the duals' responses against finite differences of the recursion."""

import numpy as np
import pytest
from scipy.linalg import hadamard

import steinpath
from backends import everywhere, on_backend, sp
from formal import dual_jacobians
from problems import ALGORITHM_EXAMPLES, LOSS_EXAMPLES, PENALTY_EXAMPLES, draw, handles
from steinpath.engine import _tangents, _traces
from steinpath.engine._batch import Batch

steps_of, recent_curves = map(on_backend, (_traces.dual_traces, _traces.recent_curves))
Linearization, Feed = map(on_backend, (_tangents.Linearization, _tangents.Feed))
responses, batch_of = map(on_backend, (_tangents.responses, Batch.of))

N, P, ITERATIONS, CURVES = 8, 5, 5, 3
LOSSES = ("lad", "square_root", "huber", "squared")
PENALTIES = ("lasso", "ridge", "mcp", "group_lasso")
ALGORITHMS = ("chambolle-pock", "halpern", "linearized-admm", "fista")
CASES = [
    pytest.param(LOSS_EXAMPLES[a], PENALTY_EXAMPLES[b], ALGORITHM_EXAMPLES[c], id=f"{a}-{b}-{c}")
    for a in LOSSES
    for b in PENALTIES
    for c in ALGORITHMS
    if handles(ALGORITHM_EXAMPLES[c], LOSS_EXAMPLES[a])
]


def dual_traces(*args):
    """Stack what is read at all iterations, after nothing at iteration 0."""
    parts = zip(*((each.traces, each.products) for each in steps_of(*args)), strict=True)
    return _traces.DualTraces(*(np.stack([0 * each[0], *each]) for each in parts))


def followed(jacobians, curves):
    """Responses of the duals to the curves, of shape (n_iter + 1, r, n, n)."""
    return np.einsum("tsij,sr->trij", jacobians, curves)


def assert_traces(found, moved, probes, readers):
    """Each probe has read what the Jacobians say it reads."""
    n = len(probes)
    images = np.einsum("trij,jm->tmri", moved, probes) / np.sqrt(n)
    expected = np.einsum("im,tmri->tmr", readers, images)
    size = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found.traces[:, 0], expected, atol=2e-7 * size)
    expected = np.einsum("tmri,tmqi->tmrq", images, images)
    size = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found.products[:, 0], expected, atol=2e-7 * size)


@everywhere(every=5)
@pytest.mark.parametrize(("loss", "make_penalty", "algorithm"), CASES)
@pytest.mark.parametrize("intercept", [False, True])
def test_readings_are_those_of_finite_differences(loss, make_penalty, algorithm, intercept):
    X, y, _ = draw(N, P)
    how = {"n_iter": ITERATIONS, "fit_intercept": intercept}
    path = sp.run(X, y, loss, make_penalty(P), algorithm, **how)
    rng = np.random.default_rng(1)
    curves, R = rng.standard_normal((ITERATIONS, CURVES)), rng.standard_normal((N, N))
    signs = hadamard(N).astype(float)
    found = dual_traces(
        Linearization(batch_of(path)),
        signs[:, None, :],
        (R.T @ signs)[:, None, :],
        curves[:, None, :],
    )
    # finite differences are NumPy's
    own = steinpath.run(X, y, loss, make_penalty(P), algorithm, **how)
    moved = followed(dual_jacobians(own), curves)
    assert_traces(found, moved, signs, R.T @ signs)
    # the signs are orthogonal: means over them are exact
    traces = np.einsum("ij,trji->tr", R, moved) / np.sqrt(N)
    np.testing.assert_allclose(found.traces[:, 0].mean(axis=1), traces, atol=1e-6)
    products = np.einsum("trij,tqij->trq", moved, moved) / N
    np.testing.assert_allclose(found.products[:, 0].mean(axis=1), products, atol=1e-6)
    assert np.abs(traces[1:]).max() > 1e-2  # the comparison is of something
    assert not found.traces[0].any()
    assert not found.products[0].any()


def active_path():
    X, y, _ = draw(60, 40)
    return sp.run(X, y, sp.LAD(), sp.Lasso(0.4), n_iter=45)


@everywhere
@pytest.mark.parametrize(("window", "worth_copying"), [(1, 1.1), (7, 1.1), (20, 0.8)])
def test_windows_of_active_rows_change_nothing(window, worth_copying):
    path, rng = active_path(), np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], (60, 1, 4))
    readers, curves = rng.standard_normal((60, 1, 4)), rng.standard_normal((45, 1, 2))
    how = {"window": window, "worth_copying": worth_copying}
    parts = Linearization(batch_of(path), **how).windows()
    assert any(part.rows is not None and len(part.rows) < 60 for part in parts)
    whole = dual_traces(Linearization(batch_of(path), worth_copying=0.0), signs, readers, curves)
    found = dual_traces(Linearization(batch_of(path), **how), signs, readers, curves)
    for mine, truth in zip(found[:2], whole[:2], strict=True):
        np.testing.assert_allclose(mine, truth, atol=1e-12 * np.abs(truth).max())


def test_members_of_a_batch_have_traces_of_their_own():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3, 20, 12)), rng.standard_normal((3, 20))
    batch = sp.run_batch(X, y, sp.LAD(), sp.Lasso(0.2), n_iter=10)
    signs, readers = rng.choice([-1.0, 1.0], (20, 3, 4)), rng.standard_normal((20, 3, 4))
    curves = rng.standard_normal((10, 3, 2))
    together = dual_traces(Linearization(batch), signs, readers, curves)
    for k, path in enumerate(batch):
        alone = dual_traces(
            Linearization(batch_of(path)),
            *(block[:, k : k + 1] for block in (signs, readers, curves)),
        )
        for all_of_them, own in zip(together[:2], alone[:2], strict=True):
            np.testing.assert_allclose(all_of_them[:, k], own[:, 0], atol=1e-12)


@pytest.mark.parametrize("unit", [1e-150, 1e-30, 1e30])
def test_units_of_curves_are_those_of_the_traces(unit):
    """Also where the tangents are in single precision, which such units would overflow."""
    path, rng = active_path(), np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], (60, 1, 2))
    curves = np.column_stack([np.ones(45), rng.standard_normal(45)])[:, None, :]
    part = Linearization(batch_of(path), path.design.astype(np.float32))
    plain = dual_traces(part, signs, signs, curves)
    found = dual_traces(part, signs, signs, curves * [1, unit])
    np.testing.assert_allclose(found.traces / [1, unit], plain.traces, rtol=1e-5, atol=1e-7)
    units = np.array([[1, unit], [unit, unit**2]])
    if unit**2 > 0:
        np.testing.assert_allclose(found.products / units, plain.products, rtol=1e-5, atol=1e-7)


def test_a_curve_of_zeros_reads_nothing():
    path = active_path()
    signs = np.ones((60, 1, 1))
    found = dual_traces(Linearization(batch_of(path)), signs, signs, np.zeros((45, 1, 1)))
    assert not found.traces.any()
    assert not found.products.any()


def test_dual_readings_come_after_those_of_the_coefficients_and_are_watched():
    X, y, _ = draw(N, P)
    path = sp.run(X, y, sp.SquareRoot(), sp.Ridge(0.5), n_iter=4)
    rng = np.random.default_rng(0)
    into, reader = rng.standard_normal((N, 1, 2)), rng.standard_normal((P, 1, 2))
    dual_reader, watched = rng.standard_normal((N, 1, 2)), {}
    feed = Feed(
        None,
        into,
        [reader],
        lambda t: None,
        lambda t: np.ones((1, 2)) if t == 0 else None,
        [dual_reader],
        lambda t, du, rows: watched.update({t: du.copy()}),
    )
    assert feed.width == (1, 2)
    read = dict(responses(Linearization(batch_of(path)), feed))
    assert list(read) == list(watched) == [1, 2, 3, 4]
    jacobians = dual_jacobians(path)
    for t, (primal, dual) in read.items():
        du = jacobians[t, 0] @ into[:, 0] / np.sqrt(N)
        np.testing.assert_allclose(watched[t][:, 0], du, atol=1e-7)
        np.testing.assert_allclose(dual[0], np.sum(dual_reader[:, 0] * du, axis=0), atol=1e-7)
        assert primal.shape == dual.shape
        assert np.abs(primal - dual).max() > 1e-3


@everywhere
def test_recent_curves_reproduce_the_iterates():
    path = active_path()
    iterates = path.coef[:30]
    curves, directions = recent_curves(iterates, 0.0)
    found = iterates[-1] + np.asarray(curves) @ np.asarray(directions).T
    np.testing.assert_allclose(found, iterates, atol=1e-5 * np.abs(iterates).max())
    assert curves.shape[1] < 30  # that the last of them is zero is used


def test_recent_curves_leave_out_what_is_below_the_tolerance_by_age():
    iterates = active_path().coef[:30]
    weights = 1 / np.sqrt(np.arange(30, 0, -1))[:, None]
    values = np.linalg.svd(weights * (iterates - iterates[-1]), compute_uv=False)
    for tol in (values[2] * 1.01, values[5] * 0.99):
        curves, directions = recent_curves(iterates, tol)
        assert curves.shape[1] == np.sum(values > tol)
        left = weights * (iterates - iterates[-1] - curves @ directions.T)
        np.testing.assert_allclose(np.linalg.norm(left, 2), max(values[values <= tol]))
    curves, directions = recent_curves(iterates, np.inf)
    assert curves.shape == (30, 0)
    assert directions.shape == (40, 0)


def test_iterates_that_do_not_move_have_no_curves():
    for iterates in (np.zeros((4, 3)), np.ones((1, 3)), np.ones((4, 3))):
        curves, _ = recent_curves(iterates, 0.0)
        assert curves.shape == (len(iterates), 0)
