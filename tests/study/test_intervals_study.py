"""One replication of ``intervals``, compared with direct calls of the public functions."""

import numpy as np
import pytest

import steinpath as sp
from steinpath.study import Configuration
from steinpath.study._replicate import replicate
from steinpath.study._settings import ALGORITHM, interval_times

KNOWN = Configuration("lad", "lasso", 80, 40, 12, ("known",), "gaussian", "t2")
NODEWISE = Configuration("square_root", "ridge", 80, 40, 12, ("nodewise",), "gaussian", "normal")
EVERY = pytest.mark.parametrize("config", [KNOWN, NODEWISE], ids=lambda s: s.ways[0])


def data_of(config, seed):
    data, errors, risk, *_ = np.random.SeedSequence([seed, config.n, config.p]).spawn(5)
    model = sp.simulate.paper_model(config.p, config.noise)
    X = model.sample(config.n, np.random.default_rng(data)).X
    noise = sp.simulate.Noise(config.noise).sample(config.n, np.random.default_rng(errors))
    return model, X, X @ model.coef + noise, risk


@EVERY
def test_a_replication_is_what_a_user_would_do(config):
    found = replicate(config, 3)
    (way,) = config.ways
    found = {name.removeprefix(f"{way}_"): values for name, values in found.items()}
    model, X, y, risk = data_of(config, 3)
    loss, penalty = {
        "lad": (sp.LAD(), sp.Lasso(0.5)),
        "square_root": (sp.SquareRoot(), sp.Ridge(0.5)),
    }[config.loss]
    path = sp.run(X, y, loss, penalty, ALGORITHM, config.iters)
    best = sp.estimate_risk(path, method="compressed", rng=np.random.default_rng(risk)).best_iter
    times = found["iterate"].astype(int).tolist()
    assert times[:-2] == interval_times(config.iters)
    assert times[-1] == max(1, best)
    for place, t in enumerate(times):
        if way == "known":
            ci = sp.coefficient_intervals(path, t, covariance=model.covariance, rng=0)
        else:
            which = np.array([*range(4), *np.linspace(4, 39, 25).astype(int)])
            ci = sp.coefficient_intervals(path, t, which, rng=0, scores="node-wise lasso")
        coef = model.coef[ci.features]
        covered, zero = (ci.lower <= coef) & (coef <= ci.upper), coef == 0
        # other probes: a coefficient near an end of an interval may be on its other side
        near = np.minimum(abs(ci.lower - coef), abs(coef - ci.upper)) < 0.5 * ci.stderr
        for name, some in (("covers", coef == coef), ("zero", zero), ("nonzero", ~zero)):
            doubt = np.mean(near[some])
            assert found[name][place] == pytest.approx(covered[some].mean(), abs=doubt + 1e-12)
        width = np.mean(ci.upper - ci.lower)
        assert found["width"][place] == pytest.approx(width, rel=0.25)
        assert 0 <= found["false"][place] <= 1
        assert 0 <= found["power"][place] <= 1
        assert found["any_false"][place] in (0, 1)


def test_discoveries_are_counted():
    from steinpath.study import _kinds

    class Made:
        t, features = 4, np.arange(4)
        lower, upper = np.array([0.5, -1, 0.1, -2]), np.array([1.5, 1, 0.9, -0.5])
        pvalue, stderr = np.array([1e-9, 0.9, 0.01, 1e-9]), np.full(4, 0.5)
        diagnostics = ()

        def significant(self, fdr):
            assert fdr == 0.1
            return np.array([True, False, True, True])

    found = _kinds._counts(Made(), np.array([1.0, 1.0, 0.0, 0.0]))
    assert found == {
        "iterate": 4.0,
        "covers": 0.5,
        "zero": 0.0,
        "nonzero": 1.0,
        "width": pytest.approx(2 * 1.959964 * 0.5),
        "warned": 0.0,
        "false": pytest.approx(2 / 3),
        "power": 0.5,
        "any_false": 1.0,
    }
