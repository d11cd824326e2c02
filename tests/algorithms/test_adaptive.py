"""`HalpernPDHG(restart="auto")`: restarts and steps adapt to one path, and then are fixed."""

from dataclasses import replace

import numpy as np
import pytest

import steinpath as sp
from problems import draw
from steinpath.algorithms._base import History
from steinpath.engine._batch import Batch
from steinpath.problem._scoring import resolve_test_loss

ADAPTIVE = sp.HalpernPDHG(restart="auto", warmup=5)
PAIRS = {
    "lad-lasso": (sp.LAD(), sp.Lasso(0.2)),
    "square_root-lasso": (sp.SquareRoot(), sp.Lasso(0.2)),
    "huber-mcp": (sp.Huber(1.0), sp.MCP(0.2)),
    "quantile-group_lasso": (sp.Quantile(0.3), sp.GroupLasso(0.1, groups=np.arange(12) // 3)),
}
pairs = pytest.mark.parametrize("pair", PAIRS)


def path_of(pair, n_iter=120, **options):
    X, y, _ = draw(40, 12)
    return sp.run(X, y, *PAIRS[pair], ADAPTIVE, n_iter, **options)


@pairs
def test_a_run_with_the_schedule_of_another_is_the_same(pair):
    path = path_of(pair)
    restarts = [t for t, _ in path.algorithm.schedule]
    assert len(restarts) > 2
    assert restarts == sorted(set(restarts))
    weights = [weight for _, weight in path.algorithm.schedule]
    assert np.ptp(weights) > 0
    again = sp.run(*draw(40, 12)[:2], *PAIRS[pair], path.algorithm, path.n_iter)
    assert again.algorithm == path.algorithm
    np.testing.assert_array_equal(again.coef, path.coef)


def test_a_run_in_parts_is_the_same():
    whole = path_of("lad-lasso")
    X, y, _ = draw(40, 12)
    batch = sp.run_batch(X, y, *PAIRS["lad-lasso"], ADAPTIVE, n_iter=7)
    for n_iter in (8, 30, 31, 90, 120):
        batch = batch.extended(n_iter)
    assert batch.algorithm.schedule == whole.algorithm.schedule
    np.testing.assert_allclose(batch[0].coef, whole.coef, atol=1e-12)
    stopped = batch.extended(200, watch=lambda t, b: t == 150)
    assert stopped.n_iter == 150


def trajectory(path, X, y, n_iter, injected=None):
    """Run the maps of a path step by step, with an injection (s, vector) into ``eta^s``."""
    n, p = X.shape
    u, v = History([np.zeros((n, 1, 1))]), History()
    b, eta = History([np.zeros((p, 1, 1))]), History([np.zeros((p, 1, 1))])
    for t in range(1, n_iter + 1):
        v.append((y[:, None] - X @ b[-1][:, :, 0])[:, :, None] / np.sqrt(n))
        u.append(path.maps.dual(t, u, v))
        step = X.T @ u[-1][:, :, 0] / np.sqrt(n)
        if injected is not None and injected[0] == t:
            step = step + injected[1][:, None]
        eta.append(step[:, :, None])
        b.append(path.maps.primal(t, b, eta))
    return np.stack([block[:, 0, 0] for block in b])


def test_derivatives_are_those_of_the_schedule():
    path = path_of("huber-mcp", 80)
    X, y, _ = draw(40, 12)
    np.testing.assert_allclose(trajectory(path, X, y, 80), path.coef, atol=1e-12)
    W, _, _ = sp.correction_matrices(path, covariance=np.eye(12), method="exact")
    h = 1e-6
    for s in (3, 30, 60):
        traces = np.zeros(81)
        for j, e in enumerate(np.eye(12)):
            moved = [trajectory(path, X, y, 80, (s, sign * h * e)) for sign in (1, -1)]
            traces += (moved[0] - moved[1])[:, j] / (2 * h)
        np.testing.assert_allclose(W[:, s - 1] * np.sqrt(40), traces, atol=1e-6)


@pairs
def test_runs_without_some_rows_have_the_same_schedule(pair):
    X, y, _ = draw(40, 12)
    path = path_of(pair)
    n_iter = path.algorithm.schedule[-1][0] - 1  # no restart is added to this schedule
    test = np.arange(40) < 10
    path = path.until(n_iter)
    found = sp.cross_validate_path(path, [(~test, test)])
    algorithm = path.algorithm.on_fewer_rows(30 / 40)
    alone = sp.run(X[~test], y[~test], *PAIRS[pair], algorithm, n_iter)
    assert alone.algorithm.schedule == path.algorithm.schedule
    criterion = resolve_test_loss(None, path.loss)
    losses = criterion(y[test], alone.coef @ X[test].T)
    np.testing.assert_allclose(found.values, np.mean(losses, axis=1), atol=1e-10)


def test_it_comes_closer_to_the_minimum():
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((200, 3))
    X = factors @ rng.standard_normal((3, 30)) + 0.3 * rng.standard_normal((200, 30))
    y = X[:, :3].sum(axis=1) + rng.standard_normal(200)
    fixed = replace(ADAPTIVE, restart=100)
    gaps = [
        float(sp.run(X, y, sp.SquareRoot(), sp.Lasso(0.05), algorithm, 300).gap[-1])
        for algorithm in (ADAPTIVE, fixed)
    ]
    assert gaps[0] < gaps[1] / 10


def test_integer_weights_are_repeated_rows():
    X, y, _ = draw(40, 12)
    counts = np.random.default_rng(0).integers(1, 4, 40)
    rows, scale = np.repeat(np.arange(40), counts), np.sqrt(counts.mean())
    weighted = sp.run(X, y, sp.LAD(), sp.Lasso(0.2), ADAPTIVE, 80, True, sample_weight=counts)
    repeated = sp.run(X[rows], y[rows], sp.LAD(), sp.Lasso(0.2 * scale), ADAPTIVE, 80, True)
    np.testing.assert_allclose(weighted.coef, repeated.coef, atol=1e-9)


def test_it_is_for_a_single_path():
    X, y, _ = draw(40, 12)
    with pytest.raises(ValueError, match="restart='auto' is for a single path"):
        sp.run_batch(X, y, sp.LAD(), sp.Lasso(np.array([0.1, 0.2])), ADAPTIVE)
    with pytest.raises(ValueError, match="restart must be a number, None or 'auto', got 'often'"):
        sp.HalpernPDHG(restart="often")
    assert len(Batch.of(path_of("lad-lasso"))) == 1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fits_of_a_single_alpha_to_convergence_use_it():
    X, y, _ = draw(80, 10)
    for method in (None, "auto"):
        precise = sp.LADLasso(alpha=0.02, select="last", method=method, random_state=0).fit(X, y)
        assert precise._path().algorithm.schedule
    for other in ({"n_iter": 200}, {"select": "risk"}, {"alpha": [0.02, 0.03]}):
        given = {"alpha": 0.02, "select": "last", "random_state": 0} | other
        assert not sp.LADLasso(**given).fit(X, y)._path().algorithm.adapts
