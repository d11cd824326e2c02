"""Members of a batch are what they would be alone: paths, folds and risks."""

import pickle

import numpy as np
import pytest

from backends import everywhere, on_backend, sp
from problems import ALGORITHM_EXAMPLES, SOME_LOSSES, draw, handles, responses
from steinpath.engine import _data
from steinpath.engine._batch import Batch
from steinpath.problem._scoring import resolve_test_loss
from steinpath.risk import _estimate, _leave_out, _options, _splits

cross_validate, random_folds = map(on_backend, (_leave_out.cross_validate, _splits.random_folds))
prepare, start, batch_of = map(on_backend, (_data.prepare, Batch.start, Batch.of))
estimate_together, RiskOptions = map(
    on_backend, (_estimate.estimate_together, _options.RiskOptions)
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
LOSSES = pytest.mark.parametrize("loss", SOME_LOSSES.values(), ids=SOME_LOSSES)


LAD = sp.LAD()


def problem(n=14, loss=LAD):
    X, y, _ = draw(n, P)
    return X + np.linspace(-1, 1, P), responses(loss, y + 2.0)


def started(penalties, loss, algorithm=CHAMBOLLE_POCK, data=None, **how):
    """A batch of one member for each penalty, on the same data."""
    X, y = problem(loss=loss) if data is None else data
    data = prepare(X, y, loss, how.get("fit_intercept", False), how.get("sample_weight"))
    first, *others = penalties
    return start(data, first.beside(others), algorithm, len(penalties))


def together(penalties, loss, algorithm=CHAMBOLLE_POCK, n_iter=15, data=None, **how):
    return started(penalties, loss, algorithm, data, **how).extended(n_iter)


def assert_identical(path, expected):
    for name in ("iterates", "duals", "products", "etas"):
        np.testing.assert_array_equal(getattr(path, name), getattr(expected, name), err_msg=name)
    assert path.penalty == expected.penalty
    assert path.algorithm == expected.algorithm


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
    paths = list(together(penalties, loss, **how))
    assert len(paths) == len(penalties)
    for path, penalty in zip(paths, penalties, strict=True):
        algorithm = sp.ChambollePock() if name in ALIKE else path.algorithm
        assert_same(path, sp.run(*problem(loss=loss), loss, penalty, algorithm, 15, **how))
    coefs = [path.coef[-1].tobytes() for path in paths]
    assert len(set(coefs)) == (1 if name == "none" else len(paths))


@everywhere(every=11)
@pytest.mark.parametrize("algorithm", ALGORITHM_EXAMPLES.values(), ids=ALGORITHM_EXAMPLES)
@pytest.mark.parametrize("name", ["lasso", "mcp", "group_lasso", "elastic_net-shares"])
def test_with_every_algorithm(algorithm, name):
    for loss in filter(lambda loss: handles(algorithm, loss), SOME_LOSSES.values()):
        for weights in (None, np.linspace(0.5, 3, 14))[name != "lasso" :]:
            how = {"fit_intercept": True, "sample_weight": weights}
            paths = together(GRIDS[name], loss, algorithm, 10, **how)
            for path, penalty in zip(paths, GRIDS[name], strict=True):
                assert_same(path, sp.run(*problem(loss=loss), loss, penalty, algorithm, 10, **how))


@everywhere(every=7)
@pytest.mark.parametrize("algorithm", ALGORITHM_EXAMPLES.values(), ids=ALGORITHM_EXAMPLES)
@pytest.mark.parametrize("cut", [0, 1, 2, 9, 15])
def test_two_steps_are_one_go(algorithm, cut):
    begun = started(GRIDS["mixture"], sp.Huber(0.8), algorithm, fit_intercept=True)
    assert [path.n_iter for path in begun] == [0] * len(GRIDS["mixture"])
    first = begun.extended(cut)
    before = [np.array(path.iterates) for path in first]
    once, twice = begun.extended(15), first.extended(15)
    for path, expected in zip(twice, once, strict=True):
        assert_identical(path, expected)
    for path, iterates in zip(first, before, strict=True):  # they are what they were
        assert path.n_iter == cut
        np.testing.assert_array_equal(path.iterates, iterates)


@everywhere
def test_a_watch_sees_every_iteration_and_may_stop():
    begun = started(GRIDS["lasso"], sp.LAD(), fit_intercept=True)
    seen = []

    def until(last):
        def watch(t, block):
            seen.append((t, np.array(block)))
            return t == last

        return watch

    paths = list(begun.extended(10, until(6)).extended(13, until(None)))
    assert [t for t, _ in seen] == list(range(1, 14))
    for path, expected in zip(paths, begun.extended(13), strict=True):
        assert_identical(path, expected)
    for t, block in seen:
        assert block.shape == (P + 1, len(paths))
        np.testing.assert_array_equal(block, np.stack([path.iterates[t] for path in paths], axis=1))
    stopped = begun.extended(10, lambda t, block: t == 6)
    assert [path.n_iter for path in stopped] == [6, 6, 6]
    for path, penalty in zip(stopped, GRIDS["lasso"], strict=True):
        assert_same(path, sp.run(*problem(), sp.LAD(), penalty, n_iter=6, fit_intercept=True))


@everywhere
@pytest.mark.parametrize(
    "algorithm", [sp.ChambollePock(), sp.HalpernPDHG(), sp.LinearizedADMM(), sp.FISTA()]
)
@pytest.mark.parametrize("kind", ["mcp", "scad"])
def test_steps_are_those_of_the_strictest_penalty(algorithm, kind):
    make = {"mcp": lambda c: sp.MCP(0.1, gamma=c), "scad": lambda c: sp.SCAD(0.1, a=1 + c)}[kind]
    X, y = problem()
    data = X / 20, y  # small enough for long steps
    alone = {c: sp.run(*data, sp.Huber(), make(c), algorithm, 1).algorithm for c in (1.1, 4.0)}
    assert alone[1.1] != alone[4.0]
    penalties = [sp.Lasso(0.1), make(4.0), make(1.1), sp.NoPenalty()]
    for path, penalty in zip(
        together(penalties, sp.Huber(), algorithm, data=data), penalties, strict=True
    ):
        assert path.algorithm == alone[1.1]
        assert_same(path, sp.run(*data, sp.Huber(), penalty, alone[1.1], 15))


@pytest.mark.filterwarnings("ignore:.*may diverge")
def test_divergence_is_seen_where_it_happens():
    steps = sp.ChambollePock(1e60, 1e60)
    with pytest.raises(sp.DivergenceError) as alone:
        sp.run(*problem(), sp.Squared(), sp.NoPenalty(), steps, 50)
    with pytest.raises(sp.DivergenceError) as joint:
        together([sp.Lasso(1e200), sp.NoPenalty()], sp.Squared(), steps, 50)
    assert 1 < joint.value.iterate == alone.value.iterate < 50


# ------------------------------------------------------------------------------------------------
# Folds
# ------------------------------------------------------------------------------------------------


def in_folds(batch, criterion, **options):
    """Cross-validate in four random folds, the same each time."""
    splits = random_folds(batch, 4, np.random.default_rng(3))
    return cross_validate(batch, [criterion] * len(list(batch)), splits, **options)


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
        (sp.SquaredHinge(), sp.ChambollePock(), resolve_test_loss("log")),
        (sp.Logistic(), sp.FISTA(), resolve_test_loss("log")),
    ):
        paths = together(GRIDS[name], loss, algorithm, 8, fit_intercept=intercept)
        found = in_folds(paths, criterion)
        assert len(found) == len(GRIDS[name])
        for path, each in zip(paths, found, strict=True):
            alone = sp.run(*problem(loss=loss), loss, path.penalty, path.algorithm, 8, intercept)
            (one,) = in_folds(batch_of(alone), criterion)
            np.testing.assert_allclose(each.predictions, one.predictions, atol=1e-11)
            np.testing.assert_allclose(each.optimism, one.optimism, atol=1e-11)
            assert np.abs(one.optimism[5:]).min() > 0


@pytest.mark.parametrize("second", [2.5, 2.6], ids=["same gamma", "another"])
@INTERCEPT
def test_folds_refuse_steps_too_long_for_fewer_rows(second, intercept):
    """As they do for one path alone."""
    steps = sp.ChambollePock(0.001, 2.45 * np.sqrt(14))
    penalties = [sp.MCP(0.3, gamma=2.5), sp.MCP(0.2, gamma=second)]
    paths = together(penalties, sp.LAD(), steps, fit_intercept=intercept)
    for several in (batch_of(paths[0]), paths.part([0]), paths):
        with pytest.raises(ValueError, match=r"single-valued only for steps below 2\.5"):
            in_folds(several, resolve_test_loss("absolute"))


# ------------------------------------------------------------------------------------------------
# Risks
# ------------------------------------------------------------------------------------------------

SEEDS = [5, 6, 7, 8]


def assert_same_risk(found, expected, rtol=1e-8):
    assert (found.method, found.n_probes) == (expected.method, expected.n_probes)
    for name in ("values", "train", "stderr", "probe_stderr", "corrected"):
        one, other = getattr(found, name), getattr(expected, name)
        size = np.abs(other).max()
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * size, err_msg=name)


@everywhere
@INTERCEPT
@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot(), sp.Logistic()], ids=repr)
@pytest.mark.parametrize("shape", [(60, 12), (20, 30)], ids=["tall", "wide"])
def test_risks_of_many_lam_are_those_of_each_path(loss, intercept, shape):
    """With the probes that each would have alone, however these are found."""
    X, y, _ = draw(*shape)
    X, y, lams = X + 0.5, responses(loss, y + 2), np.array([0.8, 0.05, 0.3, 0.0])
    batch = sp.run_batch(X, y, loss, sp.Lasso(lams), n_iter=40, fit_intercept=intercept)
    alone = [sp.run(X, y, loss, sp.Lasso(lam), batch[0].algorithm, 40, intercept) for lam in lams]
    for path, expected in zip(batch, alone, strict=True):
        assert_same(path, expected, atol=1e-11)
    how = {"precision": "float64", "row_scale": "norm"}
    found = sp.estimate_risk_batch(batch, rng=SEEDS, **how)
    options = RiskOptions(method="compressed", **how)
    rngs = [np.random.default_rng(seed) for seed in SEEDS]
    also = estimate_together(batch, options, rngs)
    for one, other, path, seed in zip(found, also, alone, SEEDS, strict=True):
        expected = sp.estimate_risk(path, method="compressed", rng=seed, **how)
        assert_same_risk(one, expected)
        assert_same_risk(other, expected)


@everywhere
@INTERCEPT
@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot(), sp.Hinge()], ids=repr)
def test_risks_of_many_responses_are_those_of_each_path(loss, intercept):
    X, y, _ = draw(60, 12)
    Y, lams = y + np.arange(4)[:, None] * X[:, :4].T, np.array([0.3, 0.05, 0.8, 0.3])
    Y = responses(loss, Y)
    batch = sp.run_batch(X, Y, loss, sp.Lasso(lams), n_iter=40, fit_intercept=intercept)
    found = sp.estimate_risk_batch(batch, rng=SEEDS, precision="float64")
    for k, (risk, path) in enumerate(zip(found, batch, strict=True)):
        alone = sp.run(X, Y[k], loss, sp.Lasso(lams[k]), path.algorithm, 40, intercept)
        assert_same(path, alone, atol=1e-11)
        how = {"method": "compressed", "precision": "float64", "rng": SEEDS[k]}
        assert_same_risk(risk, sp.estimate_risk(alone, **how))


@everywhere
@INTERCEPT
def test_a_batch_of_one_is_estimated_as_a_member_of_a_larger_one(intercept):
    """Studies would else depend on how many replications fit into memory."""
    X, y, _ = draw(60, 12)
    X, y = np.stack([X, 2 * X - 1, X**2]), np.stack([y, y + 1, -y])
    several, one = (
        sp.run_batch(
            X[:members],
            y[:members],
            sp.SquareRoot(),
            sp.Lasso(0.3),
            sp.ChambollePock(0.1, 0.1),
            40,
            intercept,
        )
        for members in (3, 1)
    )
    assert_same(one[0], several[0])
    how = {"precision": "float64", "row_scale": "norm"}
    first, *_ = sp.estimate_risk_batch(several, rng=[1, 2, 3], **how)
    (only,) = sp.estimate_risk_batch(one, rng=[1], **how)
    assert_same_risk(only, first)


@everywhere
@INTERCEPT
def test_risks_by_the_cheapest_methods_are_those_of_each_path(intercept):
    """Each by its own: some are estimated together, and others one by one."""
    X, y, _ = draw(60, 12)
    penalties = [sp.Ridge(0.5), sp.Lasso(0.3), sp.NoPenalty(), sp.MCP(0.2)]
    how = {"fit_intercept": intercept, "data": (X, y + 2)}
    batch = together(penalties, sp.SquareRoot(), n_iter=40, **how)
    rngs = [np.random.default_rng(seed) for seed in SEEDS]
    found = estimate_together(batch, RiskOptions(precision="float64"), rngs)
    for risk, path, seed in zip(found, batch, SEEDS, strict=True):
        assert_same_risk(risk, sp.estimate_risk(path, rng=seed, precision="float64"))


@INTERCEPT
@pytest.mark.parametrize("chosen", [[2], [0, 1], [0, 3], [3, 1, 0]], ids=str)
def test_a_part_of_a_batch_has_the_paths_of_its_members(chosen, intercept):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4, 14, P)) + 0.5
    y = X[:, :, 0] + rng.standard_t(2, (4, 14)) + 2
    for penalties in (GRIDS["mixture"][:4], sp.Lasso(np.array([0.1, 0.2, 0.3, 0.4]))):
        for data in ((X, y), (X[0], y), (X[0], y[0])):
            batch = sp.run_batch(*data, sp.LAD(), penalties, n_iter=9, fit_intercept=intercept)
            part = batch.part(chosen)
            assert len(part) == len(chosen)
            for path, k in zip(part, chosen, strict=True):
                assert_same(path, batch[k], atol=0)
                found, expected = (
                    sp.estimate_risk(each, method="exact").values for each in (path, batch[k])
                )
                np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_runs_that_go_on_are_not_copied():
    X, y, _ = draw(40, P)
    begun = start(prepare(X, y, sp.LAD(), False), sp.Lasso(0.1), CHAMBOLLE_POCK)
    whole = begun.extended(30)
    first = begun.extended(10, room=30)
    second = first.extended(20)
    assert np.shares_memory(first.states.u, second.states.u)
    for part in (first, second, second.extended(30), first.extended(30)):
        for found, expected in zip(part.states, whole.states, strict=True):
            np.testing.assert_array_equal(found, expected[:, : part.n_iter + 1])
    # what another run has filled in is not written over
    stopped = first.extended(30, watch=lambda t, b: t == 15)
    assert stopped.n_iter == 15
    assert not np.shares_memory(first.states.u, stopped.states.u)
    assert len(pickle.dumps(stopped)) < len(pickle.dumps(second))
