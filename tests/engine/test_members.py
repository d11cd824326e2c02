"""Paths of several penalties that advance together are those of separate runs."""

import numpy as np
import pytest

from backends import everywhere, on_backend, sp
from problems import ALGORITHM_EXAMPLES, LOSS_EXAMPLES, draw, handles
from steinpath.engine import _path as paths
from steinpath.engine import _side_by_side as side_by_side
from steinpath.problem._scoring import resolve_test_loss
from steinpath.risk import _leave_out as baselines

cross_validate = on_backend(baselines.cross_validate)
prepare, start_side_by_side, extend_side_by_side = map(
    on_backend, (paths.prepare, side_by_side.start_side_by_side, side_by_side.extend_side_by_side)
)

CHAMBOLLE_POCK = sp.ChambollePock()
P = 9
WEIGHTS = np.arange(P) % 3  # some are 0
GROUPS = np.arange(P) // 3
# A grid of lam for each penalty; in the second half, other parameters change with it.
GRIDS = {
    "lasso": [sp.Lasso(lam) for lam in (1.0, 0.3, 0.0)],
    "lasso-weighted": [sp.Lasso(lam, weights=WEIGHTS) for lam in (0.6, 0.2)],
    "ridge": [sp.Ridge(lam) for lam in (0.1, 2.0, 0.7)],
    "ridge-weighted": [sp.Ridge(lam, weights=WEIGHTS) for lam in (0.1, 2.0)],
    "elastic_net": [sp.ElasticNet(lam, 0.7) for lam in (0.2, 0.8)],
    "mcp": [sp.MCP(lam, gamma=2.5) for lam in (0.5, 0.25, 0.1)],
    "mcp-weighted": [sp.MCP(lam, gamma=2.5, weights=WEIGHTS) for lam in (0.5, 0.25)],
    "scad": [sp.SCAD(lam) for lam in (0.1, 0.3)],
    "group_lasso": [sp.GroupLasso(lam, GROUPS, weights=[1, 0, 2]) for lam in (0.5, 0.1, 1.0)],
    "none": [sp.NoPenalty(), sp.NoPenalty()],
    "single": [sp.Lasso(0.3)],
    "elastic_net-shares": [sp.ElasticNet(lam, lam) for lam in (0.2, 0.8)],
    "mcp-gammas": [sp.MCP(lam, gamma=2 + lam) for lam in (0.5, 0.1, 0.3)],
    "scad-as": [sp.SCAD(lam, a=2.5 + lam) for lam in (0.3, 0.1)],
    "lasso-weights-differ": [sp.Lasso(0.3), *(sp.Lasso(0.3, weights=WEIGHTS + k) for k in (0, 1))],
    "group_lasso-groups-differ": [sp.GroupLasso(0.4, np.arange(P) % k) for k in (2, 3)],
    "mixture": [
        sp.NoPenalty(),
        sp.Lasso(0.3),
        sp.SCAD(0.2),
        sp.GroupLasso(0.4, GROUPS),
        sp.Ridge(0.4),
        sp.MCP(0.3, gamma=1.5),
        sp.Lasso(0.1, weights=WEIGHTS),
    ],
}
ALIKE = list(GRIDS)[:11]  # the penalties of these allow steps of the same length
INTERCEPT = pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
LOSSES = pytest.mark.parametrize("loss", LOSS_EXAMPLES.values(), ids=LOSS_EXAMPLES)


def problem(n=14):
    X, y, _ = draw(n, P)
    return X + np.linspace(-1, 1, P), y + 2.0


def side_by_side(penalties, loss, algorithm=CHAMBOLLE_POCK, n_iter=15, data=None, **how):
    X, y = problem() if data is None else data
    setting = prepare(X, y, loss, how.get("fit_intercept", False), how.get("sample_weight"))
    return extend_side_by_side(start_side_by_side(setting, penalties, algorithm), n_iter)


def assert_same(path, expected, atol=1e-12):
    for name in ("coef", "dual", "fitted", "intercept", "objective", "etas"):
        found, wanted = getattr(path, name), getattr(expected, name)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, atol=atol, rtol=1e-11, err_msg=name)
    assert path.penalty == expected.penalty
    assert path.algorithm == expected.algorithm


@everywhere(every=13)
@LOSSES
@pytest.mark.parametrize("name", GRIDS)
@INTERCEPT
def test_paths_are_those_of_separate_runs(loss, name, intercept):
    how = {"fit_intercept": intercept}
    penalties = GRIDS[name]
    paths = side_by_side(penalties, loss, **how)
    assert len(paths) == len(penalties)
    for path, penalty in zip(paths, penalties, strict=True):
        algorithm = sp.ChambollePock() if name in ALIKE else path.algorithm
        assert_same(path, sp.run(*problem(), loss, penalty, algorithm, 15, **how))
    coefs = [path.coef[-1].tobytes() for path in paths]
    assert len(set(coefs)) == (1 if name == "none" else len(paths))


@everywhere(every=11)
@pytest.mark.parametrize("algorithm", ALGORITHM_EXAMPLES.values(), ids=ALGORITHM_EXAMPLES)
@pytest.mark.parametrize("name", ["lasso", "mcp", "group_lasso", "elastic_net-shares"])
def test_with_every_algorithm(algorithm, name):
    for loss in filter(lambda loss: handles(algorithm, loss), LOSS_EXAMPLES.values()):
        for weights in (None, np.linspace(0.5, 3, 14))[name != "lasso" :]:
            how = {"fit_intercept": True, "sample_weight": weights}
            paths = side_by_side(GRIDS[name], loss, algorithm, 10, **how)
            for path, penalty in zip(paths, GRIDS[name], strict=True):
                assert_same(path, sp.run(*problem(), loss, penalty, algorithm, 10, **how))


@everywhere(every=7)
@pytest.mark.parametrize("algorithm", ALGORITHM_EXAMPLES.values(), ids=ALGORITHM_EXAMPLES)
@pytest.mark.parametrize("cut", [0, 1, 2, 9, 15])
def test_two_steps_are_one_go(algorithm, cut):
    setting = prepare(*problem(), sp.Huber(0.8), True)
    start = start_side_by_side(setting, GRIDS["mixture"], algorithm)
    assert [path.n_iter for path in start] == [0] * len(start)
    first = extend_side_by_side(start, cut)
    before = [np.array(path.iterates) for path in first]
    once, twice = extend_side_by_side(start, 15), extend_side_by_side(first, 15)
    for path, expected in zip(twice, once, strict=True):
        assert_same(path, expected, atol=1e-13)
    for path, iterates in zip(first, before, strict=True):  # they are what they were
        assert path.n_iter == cut
        np.testing.assert_array_equal(path.iterates, iterates)


@everywhere
def test_a_watch_sees_every_iteration_and_may_stop():
    setting = prepare(*problem(), sp.LAD(), True)
    start = start_side_by_side(setting, GRIDS["lasso"], sp.ChambollePock())
    seen = []

    def until(last):
        def watch(t, block):
            seen.append((t, np.array(block)))
            return t == last

        return watch

    paths = extend_side_by_side(extend_side_by_side(start, 10, until(6)), 13, until(None))
    assert [t for t, _ in seen] == list(range(1, 14))
    for path, expected in zip(paths, extend_side_by_side(start, 13), strict=True):
        assert_same(path, expected, atol=1e-13)
    for t, block in seen:
        assert block.shape == (P + 1, len(paths))
        np.testing.assert_array_equal(block, np.stack([path.iterates[t] for path in paths], axis=1))
    stopped = extend_side_by_side(start, 10, lambda t, block: t == 6)
    assert [path.n_iter for path in stopped] == [6, 6, 6]
    for path, penalty in zip(stopped, GRIDS["lasso"], strict=True):
        assert_same(path, sp.run(*problem(), sp.LAD(), penalty, n_iter=6, fit_intercept=True))


@everywhere
@pytest.mark.parametrize("algorithm", [sp.ChambollePock(), sp.LinearizedADMM(), sp.FISTA()])
@pytest.mark.parametrize("kind", ["mcp", "scad"])
def test_steps_are_those_of_the_strictest_penalty(algorithm, kind):
    make = {"mcp": lambda c: sp.MCP(0.1, gamma=c), "scad": lambda c: sp.SCAD(0.1, a=1 + c)}[kind]
    X, y = problem()
    data = X / 20, y  # small enough for long steps
    alone = {c: sp.run(*data, sp.Huber(), make(c), algorithm, 1).algorithm for c in (1.1, 4.0)}
    assert alone[1.1] != alone[4.0]
    penalties = [sp.Lasso(0.1), make(4.0), make(1.1), sp.NoPenalty()]
    for path, penalty in zip(
        side_by_side(penalties, sp.Huber(), algorithm, data=data), penalties, strict=True
    ):
        assert path.algorithm == alone[1.1]
        assert_same(path, sp.run(*data, sp.Huber(), penalty, alone[1.1], 15))


def test_steps_too_long_for_one_of_them_are_refused():
    steps = sp.ChambollePock(0.01, 2.0 * np.sqrt(14))
    with pytest.raises(ValueError, match=r"MCP\(lam=0\.2, gamma=1\.5\) is single-valued only"):
        side_by_side([sp.MCP(0.3, gamma=5), sp.MCP(0.2, gamma=1.5)], sp.LAD(), steps)


@pytest.mark.filterwarnings("ignore:.*may diverge")
def test_divergence_is_seen_where_it_happens():
    steps = sp.ChambollePock(1e60, 1e60)
    with pytest.raises(sp.DivergenceError) as alone:
        sp.run(*problem(), sp.Squared(), sp.NoPenalty(), steps, 50)
    with pytest.raises(sp.DivergenceError) as together:
        side_by_side([sp.Lasso(1e200), sp.NoPenalty()], sp.Squared(), steps, 50)
    assert 1 < together.value.iterate == alone.value.iterate < 50


@everywhere
@pytest.mark.parametrize("method", ["exact", "compressed", "loo", "folds"])
@pytest.mark.parametrize("name", ["elastic_net", "mixture"])
def test_risks_are_those_of_separate_runs(method, name):
    paths = side_by_side(GRIDS[name], sp.Huber(), n_iter=6, fit_intercept=True)
    for path in paths:
        alone = sp.run(*problem(), sp.Huber(), path.penalty, path.algorithm, 6, fit_intercept=True)
        found, wanted = (sp.estimate_risk(each, method=method, rng=0) for each in (path, alone))
        np.testing.assert_allclose(found.values, wanted.values, rtol=1e-5)


# ------------------------------------------------------------------------------------------------
# Folds
# ------------------------------------------------------------------------------------------------


@everywhere(every=13)
@pytest.mark.filterwarnings("ignore:.*may diverge")
@pytest.mark.parametrize("name", GRIDS)
@INTERCEPT
def test_folds_of_all_are_folds_of_each(name, intercept):
    """Fourteen rows in four folds: there are folds of two sizes."""
    for loss, algorithm, criterion in (
        (sp.LAD(), sp.ChambollePock(), resolve_test_loss("absolute")),
        (sp.SquareRoot(), sp.LinearizedADMM(), lambda y, z: (y - z) ** 2),
        (sp.Squared(), sp.FISTA(), resolve_test_loss("huber")),
    ):
        paths = side_by_side(GRIDS[name], loss, algorithm, 8, fit_intercept=intercept)
        found = cross_validate(paths, criterion, 4, np.random.default_rng(3))
        assert len(found) == len(paths)
        for path, together in zip(paths, found, strict=True):
            alone = sp.run(*problem(), loss, path.penalty, path.algorithm, 8, intercept)
            (one,) = cross_validate([alone], criterion, 4, np.random.default_rng(3))
            np.testing.assert_allclose(together.predictions, one.predictions, atol=1e-11)
            np.testing.assert_allclose(together.optimism, one.optimism, atol=1e-11)
            assert np.abs(one.optimism[5:]).min() > 0


def test_folds_without_the_correction():
    paths = side_by_side(GRIDS["lasso"], sp.LAD())
    criterion = resolve_test_loss("absolute")
    with_it, without = (
        cross_validate(paths, criterion, 4, np.random.default_rng(3), burman=flag)
        for flag in (True, False)
    )
    for one, other in zip(with_it, without, strict=True):
        np.testing.assert_array_equal(one.predictions, other.predictions)
        assert (other.optimism == 0).all()


@pytest.mark.parametrize("second", [2.5, 2.6], ids=["same gamma", "another"])
@INTERCEPT
def test_folds_refuse_steps_too_long_for_fewer_rows(second, intercept):
    """As they do for one path alone."""
    steps = sp.ChambollePock(0.001, 2.45 * np.sqrt(14))
    penalties = [sp.MCP(0.3, gamma=2.5), sp.MCP(0.2, gamma=second)]
    paths = side_by_side(penalties, sp.LAD(), steps, fit_intercept=intercept)
    for several in (paths[:1], paths):
        with pytest.raises(ValueError, match=r"single-valued only for steps below 2\.5"):
            cross_validate(several, resolve_test_loss("absolute"), 4, np.random.default_rng(0))
