"""Batches: what their members would be alone."""

import array_api_strict
import numpy as np
import pytest
import torch

import steinpath as sp
from problems import PENALTY_EXAMPLES, SOME_LOSSES, responses
from steinpath.risk._estimate import estimate_together
from steinpath.risk._options import RiskOptions

MEMBERS, N, P = 4, 30, 12
ALGORITHM = sp.ChambollePock(sigma=0.1, tau=0.1, theta=0.5)
LAD = sp.LAD()
INTERCEPT = pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
BACKENDS = {"numpy": np.asarray, "torch": torch.asarray, "strict": array_api_strict.asarray}
BACKEND = pytest.mark.parametrize("asarray", BACKENDS.values(), ids=BACKENDS)


@pytest.fixture(autouse=True)
def _no_gram(monkeypatch):
    """Alone, members would draw more probes where the Gram matrix makes them cheap."""
    gram_pays = "steinpath.engine._compression.gram_pays"
    monkeypatch.setattr(gram_pays, lambda batch, n_probes: False)


def data(n=N, p=P, members=MEMBERS, seed=0, loss=LAD):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((members, n, p)) + 0.3 * rng.standard_normal((members, 1, p))
    y = X[:, :, 0] + rng.standard_t(2, (members, n)) + 3
    return X, responses(loss, y)


def both(first, second):
    return zip(first, second, strict=True)


def host(array):
    return np.asarray(array)


def assert_members(batch, risks, alone, seeds, **options):
    """Paths and risks are those of the members alone, with the same randomness."""
    assert len(batch) == len(risks) == len(alone)
    for path, risk, other, seed in zip(batch, risks, alone, seeds, strict=True):
        for name in ("coef", "dual", "fitted", "intercept", "objective"):
            found = host(getattr(path, name))
            np.testing.assert_allclose(found, host(getattr(other, name)), atol=1e-11, err_msg=name)
        expected = sp.estimate_risk(other, method="compressed", rng=seed, **options)
        assert risk.n_probes == expected.n_probes
        for name in ("values", "train", "stderr", "probe_stderr", "corrected"):
            found = host(getattr(risk, name))
            np.testing.assert_allclose(
                found, host(getattr(expected, name)), rtol=1e-8, atol=1e-8, err_msg=name
            )


@pytest.mark.parametrize("loss", SOME_LOSSES.values(), ids=SOME_LOSSES)
@pytest.mark.parametrize("name", PENALTY_EXAMPLES)
@INTERCEPT
def test_replications(loss, name, intercept):
    X, y = data(loss=loss)
    penalty, seeds = PENALTY_EXAMPLES[name](P), range(MEMBERS)
    batch = sp.run_batch(X, y, loss, penalty, ALGORITHM, 15, intercept)
    alone = [sp.run(*each, loss, penalty, ALGORITHM, 15, intercept) for each in both(X, y)]
    options = {"precision": "float64", "n_probes": 20}
    risks = sp.estimate_risk_batch(batch, rng=list(seeds), **options)
    assert_members(batch, risks, alone, seeds, **options)


@BACKEND
@INTERCEPT
@pytest.mark.parametrize("shape", [(60, 12), (20, 30)], ids=["tall", "wide"])
def test_with_a_covariance_in_every_namespace(asarray, intercept, shape):
    n, p = shape
    X, y = data(n, p)
    batch = sp.run_batch(
        asarray(X), asarray(y), sp.LAD(), sp.MCP(0.3), ALGORITHM, 60, fit_intercept=intercept
    )
    alone = [sp.run(*each, sp.LAD(), sp.MCP(0.3), ALGORITHM, 60, intercept) for each in both(X, y)]
    for covariance in (None, sp.simulate.toeplitz(p)):
        options = {"precision": "float64", "covariance": covariance}
        risks = sp.estimate_risk_batch(batch, rng=[5, 6, 7, 8], **options)
        assert_members(batch, risks, alone, [5, 6, 7, 8], **options)
        assert isinstance(risks[0].values, type(asarray(X)))
    assert batch.coef.shape == (MEMBERS, 61, p)
    assert batch.dual.shape == (MEMBERS, 60, n)
    assert batch.fitted.shape == (MEMBERS, 61, n)
    assert batch.intercept.shape == (MEMBERS, 61)
    assert isinstance(batch.coef, type(asarray(X)))


def test_members_draw_as_many_probes_as_they_need():
    """Some ask for more, and only these get them."""
    X, y = data(60, 30, members=6)
    y[3] = X[3] @ np.ones(30)  # without noise: the probes' own matters
    batch = sp.run_batch(X, y, sp.LAD(), sp.Lasso(0.05), ALGORITHM, 80)
    alone = [sp.run(*each, sp.LAD(), sp.Lasso(0.05), ALGORITHM, 80) for each in both(X, y)]
    risks = sp.estimate_risk_batch(batch, rng=list(range(6)), precision="float64")
    assert len({risk.n_probes for risk in risks}) > 1
    assert_members(batch, risks, alone, range(6), precision="float64")


@INTERCEPT
def test_step_sizes_are_safe_for_all(intercept):
    X, y = data()
    X[2] *= 5
    batch = sp.run_batch(X, y, sp.LAD(), sp.Ridge(0.5), n_iter=200, fit_intercept=intercept)
    algorithm = batch[0].algorithm
    norms = [path.design.norm_bounds().high for path in batch]
    assert algorithm.sigma * algorithm.tau * max(norms) ** 2 / N == pytest.approx(0.99)


def test_refusals():
    X, y = data()
    lasso = sp.Lasso(0.3)
    with pytest.raises(ValueError, match=r"so y must have shape \(4, 30\); got \(4, 29\)"):
        sp.run_batch(X, y[:, 1:], sp.LAD(), lasso)
    with pytest.raises(ValueError, match="4 of X, 3 of penalty"):
        sp.run_batch(X, y, sp.LAD(), [lasso] * 3)
    with pytest.raises(ValueError, match="1 of y, 0 of penalty"):
        sp.run_batch(X[0], y[0], sp.LAD(), [])
    with pytest.raises(TypeError, match=r"pass an instance: sp\.Lasso"):
        sp.run_batch(X, y, sp.LAD(), [sp.Lasso] * 4)
    with pytest.raises(TypeError, match="ProximalAlgorithm"):
        sp.run_batch(X, y, sp.LAD(), lasso, sp.Recursion(*[lambda *a: None] * 4))
    batch = sp.run_batch(X, y, sp.LAD(), lasso, n_iter=3)
    with pytest.raises(ValueError, match="2 entries for a batch of 4"):
        sp.estimate_risk_batch(batch, rng=[1, 2])
    with pytest.raises(TypeError, match="Batch"):
        sp.estimate_risk_batch(batch[0])
    with pytest.raises(ValueError, match="row_scale"):
        sp.estimate_risk_batch(batch, row_scale="auto")
    assert repr(batch).startswith("<Batch of 4 paths like <Path of 3 iterations")
    assert batch[1:3] == [batch[1], batch[2]]
    with pytest.raises(ValueError, match=r"pass X\[0\]"):
        sp.run_batch(X[:1], y[:1], sp.LAD(), [lasso] * 3)
    with pytest.raises(TypeError, match=r"pass an instance: sp\.Lasso"):
        sp.run_batch(X, y, sp.LAD(), sp.Lasso)
    with pytest.raises(TypeError, match="must be a Penalty"):
        sp.run_batch(X, y, sp.LAD(), 0.3)
    with pytest.raises(ValueError, match="sample_weight has 2 entries"):
        sp.run_batch(X[0], y, sp.LAD(), lasso, sample_weight=[1.0, 2.0])


STEPS = {
    "chambolle-pock": (sp.ChambollePock, ("sigma", "tau"), {"theta": 0.5}),
    "relaxed": (sp.ChambollePock, ("sigma", "tau"), {"relaxation": 1.5}),
    "halpern": (sp.HalpernPDHG, ("sigma", "tau"), {"restart": 5, "warmup": 2}),
    "linearized-admm": (sp.LinearizedADMM, ("rho", "alpha"), {}),
    "proximal-gradient": (sp.ProximalGradient, ("step",), {}),
    "fista": (sp.FISTA, ("step",), {}),
}


@BACKEND
@INTERCEPT
@pytest.mark.parametrize(
    ("loss", "steps"),
    [
        (sp.LAD(), "chambolle-pock"),
        (sp.SquareRoot(), "chambolle-pock"),
        (sp.Quantile(0.3), "relaxed"),
        (sp.LAD(), "halpern"),
        (sp.SquareRoot(), "linearized-admm"),
        (sp.Huber(), "proximal-gradient"),
        (sp.Squared(), "fista"),
    ],
)
def test_members_that_differ_in_everything(asarray, loss, steps, intercept):
    """In X, y, penalty and step sizes: each is the run of its own."""
    X, y = data()
    kind, names, fixed = STEPS[steps]
    sizes = {name: np.linspace(0.05, 0.2, MEMBERS)[:: 1 - 2 * k] for k, name in enumerate(names)}
    algorithm = kind(**{name: asarray(x[:, None].copy()) for name, x in sizes.items()}, **fixed)
    mixture = [sp.GroupLasso(0.3, np.arange(P) // 3), sp.Ridge(0.3), sp.MCP(0.2), sp.Lasso(0.1)]
    for penalties in (mixture, sp.Lasso(np.array([0.5, 0.0, 0.1, 0.3]))):
        batch = sp.run_batch(asarray(X), asarray(y), loss, penalties, algorithm, 20, intercept)
        alone = [
            sp.run(
                X[k],
                y[k],
                loss,
                mixture[k] if penalties is mixture else sp.Lasso(penalties.lam[k]),
                kind(**{name: float(x[k]) for name, x in sizes.items()}, **fixed),
                20,
                intercept,
            )
            for k in range(MEMBERS)
        ]
        options = {"precision": "float64", "row_scale": "norm"}
        risks = sp.estimate_risk_batch(batch, rng=[3, 4, 5, 6], **options)
        assert_members(batch, risks, alone, [3, 4, 5, 6], **options)
        rngs = [np.random.default_rng(seed) for seed in (3, 4, 5, 6)]
        together = estimate_together(batch, RiskOptions(method="compressed", **options), rngs)
        assert_members(batch, together, alone, [3, 4, 5, 6], **options)
        for path, other in both(batch, alone):
            assert (path.penalty, path.algorithm) == (other.penalty, other.algorithm)


def test_single_precision_is_faithful_to_every_member():
    """Centring leaves nothing of the first one in float32; the second one is large."""
    X, y = data(100, 50, 2)
    X[0] += 3e6
    X[1] *= 300
    slow = sp.ChambollePock(sigma=1e-3, tau=1e-3, theta=0.5)
    batch = sp.run_batch(X, y, sp.LAD(), sp.Lasso(1e-3), slow, 100, fit_intercept=True)
    found = sp.estimate_risk_batch(batch, rng=[0, 1])[0]
    expected = sp.estimate_risk(batch[0], method="compressed", rng=0, precision="float64")
    np.testing.assert_allclose(
        found.values - found.train, expected.values - expected.train, rtol=1e-4, atol=1e-9
    )


def test_seeds_in_any_sequence_and_generators_that_cannot_spawn():
    X, y = data()
    batch = sp.run_batch(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=10)
    expected = sp.estimate_risk_batch(batch, rng=[0, 1, 2, 3])
    for seeds in (range(4), np.arange(4)):
        for one, other in both(sp.estimate_risk_batch(batch, rng=seeds), expected):
            np.testing.assert_array_equal(one.values, other.values)
    shared = (sp.estimate_risk_batch(batch, rng=3) for _ in range(2))
    for one, other in both(*shared):
        np.testing.assert_array_equal(one.values, other.values)
    old = np.random.Generator(np.random.RandomState(0)._bit_generator)
    assert len(sp.estimate_risk_batch(batch, rng=old)) == 4
