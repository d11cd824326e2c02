"""Designs in blocks, local or on a cluster: the same results as in memory."""

import gc
import os
import signal
import threading
import time
import warnings
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array, random

import steinpath as sp
from blocks import CUTS, LocalDesign, assert_same, both_runs
from problems import PENALTY_EXAMPLES, SOME_LOSSES, draw, draw_for
from steinpath._support.validation import warn
from steinpath.cluster import OutOfStep, WorkerLost, _calls, _messages
from steinpath.cluster._blocks import info_of
from steinpath.cluster._messages import CallPickler, OverRows
from steinpath.cluster._session import Call, Lost, Partial, Session
from steinpath.design._transformed import ScaledDesign
from steinpath.problem._scoring import OnScaleOfY
from steinpath.risk._held_out import HeldOut
from steinpath.risk._leave_out import LeftOutModels

EXACT = {"method": "compressed", "precision": "float64"}


@pytest.fixture(autouse=True)
def _no_test_waits_for_ever():
    def give_up(*_):
        raise TimeoutError("a test of distributed rows took longer than a minute")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def assert_same_path(found, expected):
    assert found.design.is_remote
    for name in ("coef", "intercept", "objective", "fitted", "dual", "etas"):
        assert_same(getattr(found, name), getattr(expected, name))
    assert (found.n_samples, found.n_features) == (expected.n_samples, expected.n_features)


def assert_same_risk(found, expected):
    for name in ("values", "raw", "train", "stderr", "probe_stderr", "corrected"):
        assert_same(getattr(found, name), getattr(expected, name))
    for name in ("best_iter", "n_probes", "test_loss", "method", "row_scale", "covariance_known"):
        assert getattr(found, name) == getattr(expected, name), name
    assert found.compare(1, 5) == pytest.approx(expected.compare(1, 5), abs=1e-9)


def session_threads():
    return [each for each in threading.enumerate() if each.name.startswith("steinpath-block")]


def assert_threads_end(count=session_threads, seconds=10):
    gc.collect()
    deadline = time.monotonic() + seconds
    while count() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not count()


# The engine, without a cluster


def assert_same_results(X, y, *args, cuts=CUTS, **options):
    path, whole = both_runs(X, y, *args, cuts=cuts, **options)
    assert_same_path(path, whole)
    assert_same_risk(*(sp.estimate_risk(each, rng=1, **EXACT) for each in (path, whole)))
    return path, whole


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(("n", "p"), [(60, 12), (36, 50)])
@pytest.mark.parametrize("loss", SOME_LOSSES)
def test_blocks_find_what_the_whole_finds(loss, n, p, fit_intercept):
    X, y, model = draw_for(SOME_LOSSES[loss], n, p)
    args = SOME_LOSSES[loss], sp.Lasso(0.3)
    both = assert_same_results(X, y, *args, n_iter=40, fit_intercept=fit_intercept)
    for options in ({"row_scale": "norm"}, {"covariance": model.covariance}):
        assert_same_risk(*(sp.estimate_risk(each, rng=1, **EXACT, **options) for each in both))


@pytest.mark.parametrize("class_weight", [{-1: 1.0, 1: 5.0}, "balanced"], ids=str)
def test_class_weights_are_those_of_all_blocks(class_weight):
    loss = sp.Logistic(class_weight)
    X, y, _ = draw_for(loss, 60, 12)
    both = assert_same_results(X, y, loss, sp.Lasso(0.3), n_iter=20, fit_intercept=True)
    assert_same_risk(*(sp.estimate_risk(each, "zero_one", rng=1, **EXACT) for each in both))


@pytest.mark.parametrize("penalty", PENALTY_EXAMPLES)
@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot()])
def test_blocks_with_other_penalties(loss, penalty):
    X, y, _ = draw(60, 12, seed=1)
    assert_same_results(X, y, loss, PENALTY_EXAMPLES[penalty](12), n_iter=30)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", [sp.LAD(), sp.Squared(), sp.SquareRoot()])
def test_long_paths_are_sketched_alike(loss, fit_intercept):
    X, y, _ = draw(70, 12, seed=3)
    both = both_runs(X, y, loss, sp.Lasso(0.2), n_iter=100, fit_intercept=fit_intercept)
    assert_same_path(*both)
    found, expected = (sp.estimate_risk(each, rng=1, **EXACT) for each in both)
    # a sketched basis of the square-root loss amplifies rounding errors, as does reordering the
    # rows in memory
    assert_same(found.values, expected.values, 1e-7 if isinstance(loss, sp.SquareRoot) else 1e-10)
    assert found.n_probes == expected.n_probes


@pytest.mark.parametrize(
    "algorithm",
    [
        sp.LinearizedADMM(),
        sp.FISTA(),
        sp.ProximalGradient(),
        sp.ChambollePock(relaxation=1.5),
        sp.HalpernPDHG(restart=7, warmup=3),
        sp.HalpernPDHG(ratio="auto"),
        sp.HalpernPDHG(ratio=0.1),
    ],
)
def test_blocks_with_other_algorithms(algorithm):
    X, y, _ = draw(60, 40, seed=2)
    assert_same_results(X, y, sp.Huber(), sp.Lasso(0.2), algorithm, n_iter=30)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot()])
def test_sparse_blocks(loss, fit_intercept):
    X = csr_array(random(80, 30, density=0.2, random_state=0))
    y = X @ np.ones(30) + np.random.default_rng(1).standard_normal(80)
    assert_same_results(X, y, loss, sp.Lasso(0.1), n_iter=40, fit_intercept=fit_intercept)


def test_one_block_is_the_whole():
    X, y, _ = draw(60, 12)
    assert_same_results(X, y, sp.SquareRoot(), sp.Lasso(0.3), n_iter=20, cuts=[])


def test_single_precision_stays_single():
    X, y, _ = draw(60, 12)
    path, whole = both_runs(X.astype(np.float32), y, sp.LAD(), sp.Lasso(0.3), n_iter=20)
    assert path.coef.dtype == path.dual.dtype == np.float32
    assert path.fitted.dtype == y.dtype
    assert_same(path.coef, whole.coef, 1e-5)


def test_two_runs_give_the_same_bits():
    X, y, _ = draw(60, 40)
    paths = [sp.run(LocalDesign(X, CUTS), y, sp.LAD(), sp.Lasso(0.3), n_iter=20) for _ in "ab"]
    assert np.array_equal(*(path.coef for path in paths))
    assert np.array_equal(*(sp.estimate_risk(path, rng=0).values for path in paths))


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("shape", [(50, 200), (300, 40)])
def test_bounds_of_the_norm_are_those_of_all_rows_and_computed_once(shape, fit_intercept):
    X = np.random.default_rng(0).standard_normal(shape) + 3
    args = np.arange(len(X)) % 7.0, sp.LAD(), sp.Lasso(0.3)
    options = {"n_iter": 3, "fit_intercept": fit_intercept}
    design, rounds = LocalDesign(X, [3, 8]), []
    for _ in range(2):
        before = design.carried.rounds
        path = sp.run(design, *args, **options)
        rounds.append(design.carried.rounds - before)
    expected = sp.run(X, *args, **options)
    assert_same(path.coef, expected.coef)
    bounds = path.design.norm_bounds()
    np.testing.assert_allclose(bounds, expected.design.norm_bounds(), rtol=1e-10)
    assert rounds[1] < rounds[0]
    scaled = ScaledDesign(design, np.full(shape[1], 2.0))
    np.testing.assert_allclose(
        sp.run(scaled, *args, **options).design.norm_bounds(), np.array(bounds) / 2, rtol=1e-10
    )


def test_results_fetch_no_rows_unless_asked(monkeypatch):
    X, y, _ = draw(60, 12)
    design = LocalDesign(X, CUTS)
    path = sp.run(design, y, sp.LAD(), sp.Lasso(0.3), n_iter=20, fit_intercept=True)
    assert "<svg" in path._repr_html_()
    risk = sp.estimate_risk(path, method="compressed", rng=0)
    tuning = sp.tune(design, y, sp.LAD(), sp.Lasso, lams=3, n_iter=10, rng=0)
    assert "<svg" in risk._repr_html_()
    assert "<svg" in tuning._repr_html_()
    assert len(tuning.to_dict()["lam"]) == 3
    assert path.products._values is path.duals._values is path.etas._values is None
    assert all(one.path.iterates._values is None for one in tuning.risks)
    assert risk.residuals(3).shape == (60,)
    assert risk.predictions.stored._values is None


def test_what_it_says_of_itself():
    X, y, _ = draw(60, 12)
    path = sp.run(LocalDesign(X, CUTS), y, sp.LAD(), sp.Lasso(0.3), n_iter=20, fit_intercept=True)
    assert repr(path).startswith("<Path of 20 iterations: LAD() + Lasso(lam=0.3) by ")
    assert repr(path).endswith("n=60, p=12, intercept>")
    assert repr(path.design.inner) == "<DistributedDesign of 60 × 12 in 5 blocks of rows>"
    risk = sp.estimate_risk(path, method="compressed")
    names = {each.name for each in risk.diagnostics}
    assert names >= {"step sizes", "Monte Carlo error", "row norms", "near-duplicate rows"}
    # of the path, and of the products for the diagnostics
    assert_threads_end(lambda: len(session_threads()) > 10)
    del path, risk
    assert_threads_end()


def test_warnings_arrive_here():
    X, y, _ = draw(60, 12)
    large = sp.ChambollePock(1.0, 1.0)
    with pytest.warns(UserWarning, match="ChambollePock may diverge") as caught:
        path = sp.run(LocalDesign(X, CUTS), y, sp.LAD(), sp.Lasso(0.3), large, n_iter=3)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="above probe_tol"):
        sp.estimate_risk(path, method="compressed", probe_tol=1e-9, rng=0)


@pytest.mark.filterwarnings("ignore:.*may diverge")
def test_errors_arrive_here_and_all_sessions_end():
    X, y, _ = draw(60, 12)
    design = LocalDesign(X, CUTS)
    args = design, y, sp.Squared(), sp.NoPenalty()
    with pytest.raises(sp.DivergenceError, match="step sizes are too large") as caught:
        sp.run(*args, sp.ProximalGradient(1e6), n_iter=200)
    assert caught.value.iterate > 1
    with pytest.raises(ValueError, match="has 5 weights, but X has 12 columns"):
        sp.run(*args[:3], sp.Lasso(0.3, weights=np.ones(5)))
    del design, args, caught
    assert_threads_end()


def three_blocks():
    return LocalDesign(np.ones((6, 2)), [2, 4])


def test_an_error_at_one_block_ends_the_others():
    def fail_at(design, where):
        design.over_rows(np.ones(2))
        if design.communicator.index == where:
            raise ValueError("no good")
        design.over_rows(np.ones(2))

    design = three_blocks()
    with pytest.raises(ValueError, match="no good") as caught:
        design.on_blocks(fail_at, design, 1)
    assert caught.value.__notes__ == ["(at block 1)"]
    assert_threads_end()
    assert design.on_blocks(lambda design: design.shape, design) == (2, 2)


def test_an_error_that_cannot_travel_is_told_in_words():
    class Strange(Exception):
        def __reduce__(self):
            raise TypeError("not me")

    def fail():
        raise Strange("odd")

    with pytest.raises(RuntimeError, match="Strange: odd"):
        three_blocks().on_blocks(fail)


def test_a_warning_of_any_block_arrives_and_one_of_all_of_them_once():
    def warn_at(design, where):
        warn("of all")
        if design.communicator.index == where:
            warn("of one")

    design = three_blocks()
    for where in range(3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            design.on_blocks(warn_at, design, where)
        assert [str(each.message) for each in caught] == ["of all", "of one"]


def test_blocks_out_of_step_are_noticed():
    def differ(design):
        design.over_rows(np.ones(2 + design.communicator.index))

    design = three_blocks()
    with pytest.raises(OutOfStep, match="the blocks returned different results"):
        design.on_blocks(differ, design)
    assert_threads_end()


@pytest.mark.parametrize("cuts", [CUTS, [20, 40]], ids=["uneven", "even"])
@pytest.mark.parametrize("forgotten", [HeldOut, LeftOutModels, OnScaleOfY])
def test_an_array_over_rows_that_is_not_declared_is_noticed(monkeypatch, forgotten, cuts):
    X, y, _ = draw(60, 12)
    how = {"lams": 3, "n_iter": 5, "test_loss": lambda y, fitted: abs(y - fitted), "rng": 0}

    def intervals():
        tuning = sp.tune(LocalDesign(X, cuts), y, sp.LAD(), sp.Lasso, **how)
        return tuning.predict_interval(X)

    intervals()
    monkeypatch.delitem(_messages._OVER_ROWS, forgotten)
    with pytest.raises(OutOfStep, match="the blocks returned different results"):
        intervals()


def test_totals_over_blocks():
    def totals(design):
        k = float(design.communicator.index)
        total = design.over_rows(np.array([k, 1.0]))
        total += 1  # it is the session's own
        first = design.once(lambda: np.arange(3.0) + k)
        return total.tolist(), float(design.largest(-k)), float(design.largest(k)), first.tolist()

    design = three_blocks()
    assert design.on_blocks(totals, design) == ([4.0, 4.0], 0.0, 2.0, [0.0, 1.0, 2.0])


def test_arrays_over_rows_are_cut_and_put_together():
    def double(values):
        assert values.shape == (2, 3)
        return {"twice": OverRows(2 * values), "across": OverRows(values.T, 1)}

    values = np.arange(18.0).reshape(6, 3)
    found = three_blocks().on_blocks(double, OverRows(values))
    np.testing.assert_array_equal(found["twice"], 2 * values)
    np.testing.assert_array_equal(found["across"], values.T)


def test_results_that_are_no_longer_used_are_released():
    X, y, _ = draw(60, 12)
    design = LocalDesign(X, CUTS)
    path = sp.run(design, y, sp.LAD(), sp.Lasso(0.3), n_iter=5)
    risk = sp.estimate_risk(path, method="compressed", rng=0)
    assert len(design._calls._made) == 2
    risk.corrected  # noqa: B018
    del path  # which the risk still has
    design.matmat(np.ones(12))
    assert len(design._calls._made) == 2
    del risk
    gc.collect()
    design.matmat(np.ones(12))
    assert not design._calls._made


def test_copies_of_a_path_are_computed_by_the_client():
    X, y, _ = draw(60, 12)
    path, whole = both_runs(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=20)
    found, expected = (sp.estimate_risk(each.until(9), rng=1, **EXACT) for each in (path, whole))
    assert_same_risk(found, expected)


# Lost sessions


def test_calls_are_repeated_if_a_session_is_lost():
    X, y, _ = draw(60, 12)
    args = y, sp.SquareRoot(), sp.Lasso(0.3)
    whole = sp.run(X, *args, n_iter=30)
    undisturbed = sp.run(LocalDesign(X, CUTS), *args, n_iter=30)
    design = LocalDesign(X, CUTS, lose={1: (2, 40), 3: (1, 90)})
    path = sp.run(design, *args, n_iter=30)
    carrier = design.carried
    assert carrier.restarts == 3
    assert np.array_equal(path.coef, undisturbed.coef)
    carrier.lose = {0: (1, carrier.rounds + 40), 4: (1, carrier.rounds + 1)}
    found, expected = (sp.estimate_risk(each, rng=1, **EXACT) for each in (path, whole))
    assert carrier.restarts == 5
    carrier.lose = {2: (1, 0)}
    assert_same(path.fitted, whole.fitted)
    assert_same_risk(found, expected)  # repeated with the same random numbers


def test_a_session_that_is_lost_time_and_again():
    X, y, _ = draw(60, 12)
    design = LocalDesign(X, CUTS, lose={2: (99, 20)})
    with pytest.raises(
        WorkerLost, match=r"holds block 2 was lost 4 times in a row, possibly because"
    ):
        sp.run(design, y, sp.LAD(), sp.Lasso(0.3), n_iter=30)
    assert_threads_end()


def test_after_an_interruption_the_path_is_still_there(monkeypatch):
    X, y, _ = draw(60, 12)
    path = sp.run(LocalDesign(X, CUTS), y, sp.LAD(), sp.Lasso(0.3), n_iter=30)
    calls = []

    def interrupted(answers):
        calls.append(1)
        if len(calls) == 20:
            raise KeyboardInterrupt
        return really(answers)

    really = _calls._total
    monkeypatch.setattr(_calls, "_total", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sp.estimate_risk(path)
    assert_threads_end()
    whole = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=30)
    found, expected = (sp.estimate_risk(each, rng=1, **EXACT) for each in (path, whole))
    assert_same_risk(found, expected)


def test_a_session_answers_the_same_message_twice():
    design = LocalDesign(np.ones((3, 2)), [])
    function = lambda design: design.over_rows(np.ones(1))  # noqa: E731
    call = Call(0, CallPickler(function, (design,), design, {}, {}).packed, [], [], [])
    session = Session(np.ones((3, 2)), 0, [0, 3], "float64")
    first = session.exchange(1, call)
    assert isinstance(first, Partial)
    assert session.exchange(1, call) is first
    assert session.exchange(3, call) == Lost()
    done = session.exchange(2, np.full(1, 5.0))
    assert session.exchange(2, np.full(1, 5.0)) is done
    make, args = session.__reduce__()  # a copy, on another worker
    assert make(*args).exchange(3, call) == Lost()
    del session
    assert_threads_end()


def test_workers_with_many_threads_share_the_cores():
    from threadpoolctl import threadpool_info, threadpool_limits

    from steinpath.cluster._dask import _few_threads

    def threads():
        return {library["num_threads"] for library in threadpool_info()}

    with threadpool_limits(2):
        with _few_threads(os.cpu_count()):
            assert threads() == {1}
            with _few_threads(os.cpu_count()):
                assert threads() == {1}
            assert threads() == {1}
        assert threads() == {2}


# Invalid input


def test_what_is_not_available_is_refused():
    X, y, _ = draw(60, 12)
    design, args = LocalDesign(X, CUTS), (y, sp.LAD(), sp.Lasso(0.3))
    with pytest.raises(ValueError, match="stop is not supported for a distributed design"):
        sp.run(design, *args, stop=sp.StopOnRisk())
    maps = [lambda *_: None] * 4
    with pytest.raises(ValueError, match="Recursion is not supported for a distributed design"):
        sp.run(design, y, sp.LAD(), sp.NoPenalty(), sp.Recursion(*maps))
    with pytest.raises(ValueError, match="y has entries of magnitude up to"):
        sp.run(design, 1e200 * y, *args[1:])
    path = sp.run(design, *args, n_iter=5)
    with pytest.raises(ValueError, match="duality gap is not supported for a distributed design"):
        _ = path.gap
    for options, message in (
        ({"method": "exact"}, "method 'exact' is not supported"),
        ({"method": "hutchinson"}, "method 'hutchinson' is not supported"),
        ({"method": "compressed", "row_scale": "length"}, "row_scale must be None, 'norm'"),
        ({"method": "compressed", "row_scale": np.ones(5)}, "one nonnegative entry for each of"),
        ({"groups": np.arange(5)}, "groups has 5 labels, but there are 60 rows"),
    ):
        with pytest.raises(ValueError, match=message):
            sp.estimate_risk(path, **options)
    with pytest.raises(ValueError, match="X has 60 rows, but y has 5 entries"):
        sp.run(design, y[:5], *args[1:])
    with pytest.raises(ValueError, match="warm_start is not available for rows on a cluster"):
        sp.LADLasso(warm_start=True).fit(design, y)
    with pytest.raises(TypeError, match=r"penalty\(lam\) must return a Penalty"):
        sp.tune(design, y, sp.LAD(), lambda lam: None, lams=3)


# A cluster

N, P = 90, 20
X_ALL, Y_ALL, _ = draw(N, P, seed=7)
BLOCKS = [X_ALL[:40], X_ALL[40:55], X_ALL[55:]]
PROBLEM = {"loss": sp.LAD(), "penalty": sp.Lasso(0.2), "n_iter": 15, "fit_intercept": True}


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    from dask import config

    options = {"dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    # a killed worker is restarted, which may take long on a busy machine
    with (
        config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as workers,
    ):
        yield workers


@pytest.fixture
def client(cluster):
    from distributed import Client

    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=30)
        yield client
        assert_threads_end(lambda: worker_threads(client))


def worker_threads(client):
    def count():
        return sum(each.name.startswith("steinpath-block") for each in threading.enumerate())

    return sum(client.run(count).values())


@pytest.fixture(scope="module")
def whole():
    path = sp.run(X_ALL, Y_ALL, **PROBLEM)
    return path, sp.estimate_risk(path, rng=1, **EXACT)


def loaders():
    return [partial(np.copy, block) for block in BLOCKS]


def test_delayed_objects_and_futures(client, whole):
    import dask

    delayed = [dask.delayed(np.copy)(block) for block in BLOCKS]
    for tasks in (delayed, client.map(np.copy, BLOCKS)):
        path = sp.run(sp.distributed.from_delayed(tasks, client), Y_ALL, **PROBLEM)
        assert_same(path.coef, whole[0].coef)


def test_dask_arrays(client, whole):
    da = pytest.importorskip("dask.array")
    X = da.from_array(X_ALL, chunks=((40, 15, 35), (11, 9)))
    y = da.from_array(Y_ALL, chunks=20)
    path = sp.run(X, y, **PROBLEM)
    assert_same_path(path, whole[0])
    assert len(path.design.inner.blocks) == 3
    # existing chunks of unknown sizes, some of them empty
    X = da.concatenate([X[:0], X])
    X = X[da.from_array(np.ones(N, bool), chunks=20)].persist()
    path = sp.run(X, Y_ALL, **PROBLEM)
    assert_same(path.coef, whole[0].coef)


def test_dask_data_frames(client, whole):
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    X = dd.from_pandas(pd.DataFrame(X_ALL), npartitions=3)
    assert_same(sp.run(X, Y_ALL, **PROBLEM).coef, whole[0].coef)


def test_more_blocks_than_threads(client, whole):
    parts = [partial(np.copy, part) for part in np.split(X_ALL, [1, 20, 33, 50, 51, 70])]
    path = sp.run(sp.distributed.from_delayed(parts), Y_ALL, **PROBLEM)
    assert_same(path.coef, whole[0].coef)
    where = path.design.inner._calls._carrier.addresses
    assert len(set(where)) == 2
    assert sorted(where) in (where, where[::-1])  # neighbours are together


class AtRound:
    """Runs a function in the middle of a conversation."""

    def __init__(self, monkeypatch, at, action):
        self.count, self.at, self.action = 0, at, action
        self._really = _calls._total
        monkeypatch.setattr(_calls, "_total", self)

    def __call__(self, answers):
        self.count += 1
        if self.count == self.at:
            self.action()
        return self._really(answers)


def kill_worker_of(client, path_or_design, k):
    [address] = client.who_has(path_or_design.blocks)[path_or_design.blocks[k].key][:1]
    os.kill(client.run(os.getpid, workers=[address])[address], signal.SIGKILL)


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_worker_that_is_killed_in_a_run(client, whole, monkeypatch, tmp_path, in_memory):
    files = [tmp_path / f"{k}.npy" for k in range(len(BLOCKS))]
    for file, block in zip(files, BLOCKS, strict=True):
        np.save(file, np.column_stack([block, block]))  # with some columns copied
    design = sp.distributed.from_files(files, columns=range(P), in_memory=in_memory)
    kill = AtRound(monkeypatch, 12, partial(kill_worker_of, client, design, 0))
    path = sp.run(design, Y_ALL, **PROBLEM)
    assert kill.count > kill.at
    assert len(set(design._calls._carrier.addresses)) == 2  # the new worker helps
    assert_same_path(path, whole[0])
    keys = [block.key for block in design.blocks]
    del path, design, kill
    monkeypatch.undo()
    left = lambda: [key for key in client.futures if key in keys or "message" in key]  # noqa: E731
    assert_threads_end(left)


def test_a_worker_that_is_killed_in_an_estimate_and_after_it(client, whole, monkeypatch):
    design = sp.distributed.from_delayed(loaders())
    path = sp.run(design, Y_ALL, **PROBLEM)
    kill = AtRound(monkeypatch, 20, partial(kill_worker_of, client, design, 2))
    risk = sp.estimate_risk(path, rng=1, **EXACT)
    assert kill.count > kill.at
    kill_worker_of(client, design, 0)
    assert_same_risk(risk, whole[1])
    assert_same_path(path, whole[0])


def test_a_worker_that_is_killed_while_a_penalty_is_chosen(client, monkeypatch):
    design = sp.distributed.from_delayed(loaders())
    args, how = (Y_ALL, sp.LAD(), sp.Lasso), {"lams": 3, "n_iter": 10, "rng": 0}
    expected = sp.tune(X_ALL, *args, **how)
    kill = AtRound(monkeypatch, 40, lambda: kill_worker_of(client, design, 0))
    tuning = sp.tune(design, *args, **how)
    assert kill.count > kill.at
    assert tuning.best == expected.best
    assert_same(tuning.risk, expected.risk)
    kill_worker_of(client, design, 2)
    assert tuning.best_risk == pytest.approx(expected.best_risk, rel=1e-8)


@pytest.mark.slow
def test_dask_arrays_in_an_estimator(client):
    array = pytest.importorskip("dask.array")
    X, y = array.from_array(X_ALL, chunks=(40, 10)), array.from_array(Y_ALL, chunks=30)
    model = sp.LADLasso(n_alphas=3, n_iter=10, random_state=0)
    expected = model.fit(X_ALL, Y_ALL).coef_
    assert_same(model.fit(X, y).coef_, expected)
    assert_same(model.predict(X), model.predict(X_ALL))
    assert model.tuning_.path.design.is_remote
    del model


@pytest.mark.usefixtures("ctrl_c")
def test_an_interruption(client, whole):
    design = sp.distributed.from_delayed(loaders())
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        sp.run(design, Y_ALL, **PROBLEM | {"n_iter": 10**5})
    timer.join()
    assert_threads_end(lambda: worker_threads(client))
    assert_same(sp.run(design, Y_ALL, **PROBLEM).coef, whole[0].coef)


def test_sessions_end_with_their_design(client):
    path = sp.run(sp.distributed.from_delayed(loaders()), Y_ALL, **PROBLEM)
    assert worker_threads(client) == 3
    del path
    assert_threads_end(lambda: worker_threads(client))


def fail():
    raise FileNotFoundError("no such disk")


@pytest.mark.parametrize(
    ("loader", "error", "message"),
    [
        (fail, RuntimeError, "block 3 could not be loaded: FileNotFoundError: no such disk"),
        (partial(np.full, (3, P), np.nan), ValueError, "block 3: X has 60 values that are NaN"),
        (partial(np.ones, (3, P + 1)), ValueError, "block 3 has 21 columns, but block 0 has 20"),
        (partial(np.ones, 3), ValueError, "block 3: X must have 2 dimensions"),
        (partial(str, "x"), TypeError, "block 3: X must hold real numbers"),
        (partial(np.ones, (3, P), "m8[D]"), TypeError, "block 3: X must hold real numbers"),
        (partial(np.ma.ones, (3, P)), TypeError, "block 3: X is a masked array"),
        (
            partial(csr_array, np.ones((3, P))),
            ValueError,
            "block 3 is sparse, but block 0 is dense",
        ),
    ],
)
def test_blocks_that_are_no_good(client, loader, error, message):
    with pytest.raises(error, match=message):
        sp.distributed.from_delayed([*loaders(), loader])


@pytest.mark.parametrize("change", ["a value", "rows", "order", "gone"])
def test_a_block_that_is_another_when_it_is_loaded_again(client, monkeypatch, tmp_path, change):
    file = tmp_path / "block.npy"
    np.save(file, BLOCKS[0])
    design = sp.distributed.from_files([file])
    other, message = BLOCKS[0].copy(), "was loaded again and its values have changed"
    if change == "a value":
        other[3, 4] += 1e-9
    elif change == "gone":
        other, message = None, "could not be loaded"
    else:
        other = other[:-1] if change == "rows" else other[::-1]
    edit = file.unlink if other is None else partial(np.save, file, other)
    AtRound(monkeypatch, 12, lambda: (edit(), kill_worker_of(client, design, 0)))
    with pytest.raises(RuntimeError, match=rf"block 0 \(block.npy\) {message}"):
        sp.run(design, Y_ALL[:40], **PROBLEM)


def test_the_info_of_a_block_do_not_depend_on_its_place_in_memory():
    for block in (X_ALL, np.ones((300_000, 3), np.float32), np.ones((2, 10**6)), X_ALL[:, :0]):
        wide = np.zeros((2 * len(block), block.shape[1]), block.dtype)
        wide[::2] = block
        forms = [block, np.asfortranarray(block), wide[::2], block[::-1].copy()[::-1]]
        assert len({info_of(each) for each in forms}) == 1
    for change in (X_ALL[::-1], X_ALL[:, ::-1], np.nextafter(X_ALL, 1), X_ALL.astype(np.float32)):
        assert info_of(change) != info_of(X_ALL)
        assert info_of(csr_array(change)) != info_of(csr_array(X_ALL))
    assert info_of(csr_array(X_ALL)) == info_of(csr_array(X_ALL.copy())) != info_of(X_ALL)


def test_a_worker_with_other_code_is_refused(client):
    def pretend(code=None):
        from steinpath.cluster import _dask as carrier

        really = getattr(carrier, "_really", carrier._code)
        carrier._really, carrier._code = really, (lambda: code) if code else really

    design = sp.distributed.from_delayed(loaders())
    [address, *_] = client.nthreads()
    client.run(pretend, "0" * 16, workers=[address])
    try:
        with pytest.raises(OutOfStep, match=f"the worker {address} uses a different version"):
            sp.run(design, Y_ALL, **PROBLEM)
    finally:
        client.run(pretend, workers=[address])
    sp.run(design, Y_ALL, **PROBLEM)


def test_what_makes_no_design(client, tmp_path):
    with pytest.raises(ValueError, match="loaders is empty"):
        sp.distributed.from_delayed([])
    with pytest.raises(TypeError, match="loader 1 is 5"):
        sp.distributed.from_delayed([fail, 5])
    with pytest.raises(ValueError, match="X is empty: no block has any rows"):
        sp.distributed.from_delayed([partial(np.ones, (0, 3))])
    with pytest.raises(TypeError, match="a list of files"):
        sp.distributed.from_files(tmp_path / "a.npy")
    with pytest.raises(ValueError, match="paths is empty"):
        sp.distributed.from_files([])
    with pytest.raises(ValueError, match=r"a.csv has an unsupported extension; use .npy"):
        sp.distributed.from_files([tmp_path / "a.csv"])
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(ValueError, match=r"folder.parquet is not a file"):
        sp.distributed.from_files([tmp_path / "folder.parquet"])


def test_an_index_of_pandas_is_no_feature(client, tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(X_ALL[:, :3], columns=list("abc")).assign(price=Y_ALL)
    files = [tmp_path / "filtered.parquet", tmp_path / "plain.parquet"]
    frame[frame.a > 0].to_parquet(files[0])  # with an index, written as a column
    frame.to_parquet(files[1])
    design, y = sp.distributed.from_files(files, response="price")
    assert design.shape == (len(y), 3)
    named = sp.distributed.from_files(files[:1], columns=["a", "__index_level_0__"])
    assert named.shape[1] == 2


def test_files_that_are_no_good_are_named(client, tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    from_files = sp.distributed.from_files
    for name in ("bad.npy", "bad.parquet"):
        (tmp_path / name).write_text("hello")
        with pytest.raises(RuntimeError, match=rf"block 0 \({name}\) could not be loaded: "):
            from_files([tmp_path / name])
    with pytest.raises(FileNotFoundError, match=r"none\.npy"):
        from_files([tmp_path / "none.npy"])
    file = tmp_path / "words.parquet"
    pd.DataFrame({"a": [1.0, 2.0], "y": ["u", "v"]}).to_parquet(file)
    with pytest.raises(RuntimeError, match=r"block 0 \(words.parquet\).*'y' must be numeric"):
        from_files([file], response="y")
    with pytest.raises(ValueError, match="'a' is the response; it cannot be in columns"):
        from_files([file], columns=["a"], response="a")
    with pytest.raises(TypeError, match=r"columns must be a list, such as \['a'\]"):
        from_files([file], columns="a")
    for k in (3, 2):
        np.save(tmp_path / f"{k}.npy", np.ones((5, k)))
    with pytest.raises(ValueError, match=r"block 1 \(2.npy\) has 2 columns, but block 0 .* has 3"):
        from_files([tmp_path / "3.npy", tmp_path / "2.npy"])


def test_a_client_that_is_closed():
    distributed = pytest.importorskip("distributed")
    with distributed.Client(processes=False, n_workers=1, dashboard_address=":0") as client:
        design = sp.distributed.from_delayed(loaders(), client=client)
        path = sp.run(design, Y_ALL, **PROBLEM)
    for late in (lambda: path.fitted, lambda: sp.run(design, Y_ALL, **PROBLEM)):
        with pytest.raises(RuntimeError, match="client or its cluster is closed"):
            late()


def test_without_a_client():
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match=r"there is no Dask client; create one first"):
        sp.run(da.ones((10, 2)), np.ones(10), sp.LAD(), sp.Lasso(0.3))


def test_a_missing_library_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'steinpath\[cluster\]'"):
        sp.distributed.from_delayed([fail])


def test_own_test_losses_are_called_with_y_itself():
    X, y, _ = draw(60, 8)

    def relative(y, prediction):
        return np.abs(y - prediction) / np.abs(y)

    path, whole = both_runs(X, y + 50, sp.LAD(), sp.Lasso(0.3), n_iter=20, fit_intercept=True)
    assert_same_risk(*(sp.estimate_risk(each, relative, rng=0, **EXACT) for each in (path, whole)))
