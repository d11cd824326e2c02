"""Runs that are not kept are run again: whatever is asked of them is what kept ones say."""

import copy
import pickle

import numpy as np
import pytest

import steinpath as sp
from problems import draw
from steinpath._support.progress import listener
from steinpath.engine import _batch
from steinpath.engine._batch import (
    KEPT,
    DeferredBatch,
    DeferredPath,
    members_at_a_time,
    run_all,
)
from steinpath.engine._data import prepare
from steinpath.risk._methods import portions
from steinpath.risk._options import RiskOptions
from steinpath.tuning._tune import Search, start_all
from steinpath.tuning._tuning import Grid

LAMS = np.array([1.0, 0.5, 0.25, 0.12])


def unmoved(n, p, dtype=np.float64):
    X, y, _ = draw(n, p)
    data = prepare(X.astype(dtype), y + 3, sp.LAD(), True)
    return start_all(data, [*map(sp.Lasso, LAMS)], sp.ChambollePock())


def kept_and_deferred(n, p, n_iter=25):
    batch = unmoved(n, p)
    return batch.extended(n_iter), DeferredBatch(batch, n_iter)


def choose(batch, options, rule="min"):
    """The choice from runs as they are."""
    return Search(batch, [Grid(LAMS)], [None], options, 0, rule).run(batch.n_iter)[0]


TALL_AND_WIDE = pytest.mark.parametrize(("n", "p"), [(40, 12), (20, 50)], ids=["tall", "wide"])


@TALL_AND_WIDE
def test_paths_are_those_that_are_kept(n, p):
    kept, deferred = kept_and_deferred(n, p)
    assert len(deferred) == len(kept)
    assert deferred.n_iter == kept.n_iter == 25
    for mine, theirs in zip(deferred, kept, strict=True):
        assert mine.penalty == theirs.penalty
        assert mine.algorithm == theirs.algorithm
        for name in ("coef", "intercept", "fitted", "dual", "objective", "etas"):
            np.testing.assert_allclose(
                getattr(mine, name), getattr(theirs, name), rtol=1e-12, atol=1e-12, err_msg=name
            )
    np.testing.assert_allclose(deferred.coef, kept.coef, atol=1e-12)


@TALL_AND_WIDE
@pytest.mark.parametrize("rule", ["min", "one_se"])
@pytest.mark.parametrize("method", ["auto", "compressed", "loo", "folds"])
def test_choices_are_those_of_kept_paths(method, rule, n, p):
    kept, deferred = kept_and_deferred(n, p)
    mine, theirs = (
        choose(batch, RiskOptions(method=method, audit="folds"), rule) for batch in (deferred, kept)
    )
    assert mine.best == theirs.best
    np.testing.assert_allclose(mine.risk, theirs.risk, rtol=1e-6)
    np.testing.assert_allclose(mine.stderr, theirs.stderr, rtol=1e-6)
    np.testing.assert_allclose(mine.coef, theirs.coef, atol=1e-12)
    assert mine.intercept == pytest.approx(theirs.intercept)
    assert mine.warnings == theirs.warnings
    pairs = (0, 5), (3, 20)
    np.testing.assert_allclose(mine.compare(*pairs), theirs.compare(*pairs), rtol=1e-5, atol=1e-9)


def test_nothing_is_kept_but_the_latest_path():
    _, deferred = kept_and_deferred(20, 50)
    tuning = choose(deferred, RiskOptions(method="compressed"))
    for path in (risk.path for risk in tuning.risks):
        held = [x for x in vars(path).values() if isinstance(x, np.ndarray) and x.ndim == 2]
        assert sum(x.size for x in held) <= 26 * 20  # fitted values, in place of 50 coefficients
    assert deferred._latest is None or deferred._latest[1].b.shape == (1, 26, 51)
    assert copy.deepcopy(path) is path
    again = pickle.loads(pickle.dumps(path))
    np.testing.assert_array_equal(again.coef, path.coef)


def test_so_many_are_kept_as_there_is_room_for():
    batch = unmoved(20, 50)
    per_path = 2 * 1001 * (20 + 51) * 8
    assert members_at_a_time(batch, 1000) == KEPT // per_path
    assert members_at_a_time(unmoved(20, 50, dtype=np.float32), 1000) == KEPT // (per_path // 2)
    assert members_at_a_time(batch, 10**8) == 1
    assert not isinstance(run_all(batch, 25), DeferredBatch)
    room_for_three = KEPT // (2 * 71 * 8 * 3) - 1
    assert members_at_a_time(batch, room_for_three) == 3
    assert isinstance(run_all(batch, room_for_three), DeferredBatch)


def test_copies_have_all_of_their_states():
    _, deferred = kept_and_deferred(40, 12)
    path = deferred[2]
    for other in (path.copy(), path.but(risk=None), sp.StopOnRisk().evaluate(path)[0]):
        assert not isinstance(other, DeferredPath)
        np.testing.assert_array_equal(other.coef, path.coef)
        np.testing.assert_array_equal(other.fitted, path.fitted)


def test_folds_keep_no_more_than_there_is_room_for():
    X, y, _ = draw(20, 50)
    batch = start_all(prepare(X, y, sp.LAD(), True), [sp.Lasso(1.0)] * 40, sp.ChambollePock())
    many = KEPT // (2 * 71 * 8 * 3) - 1
    portions_of = portions(DeferredBatch(batch, many), RiskOptions(method="folds"))
    assert max(map(len, portions_of)) == members_at_a_time(batch, many) == 3


def test_an_interruption_does_not_undo_a_whole_look(monkeypatch):
    """Told to stop at the end of the first look, which says that the runs should go on."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 150)
    X, y = x[:, None] ** np.arange(1, 9), np.sin(5 * x) + 0.05 * rng.standard_t(3, 150)
    monkeypatch.setattr(_batch, "KEPT", 2 * 26 * 160 * 8 * 3)
    asked = []

    def listens(what, steps):
        asked.append(what)
        return lambda: "estimating" in what and asked.count(what) > 1

    token = listener.set(listens)
    try:
        tuning = sp.tune(X / X.std(axis=0), y, sp.LAD(), sp.Lasso, lams=8, rng=0)
    finally:
        listener.reset(token)
    assert asked.count("estimating their risks") == 2
    assert (len(tuning.lams), tuning.stop) == (8, "interrupted")
    assert tuning.path.n_iter == 25
