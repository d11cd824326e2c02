"""One replication of ``choice``, compared with direct calls of the public functions."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import TimeSeriesSplit

import steinpath as sp
from steinpath.study import Configuration
from steinpath.study import _kinds as module
from steinpath.study._replicate import replicate
from steinpath.study._scenarios import CHOICE_SCENARIOS

INDEPENDENT = Configuration("lad", "lasso", 60, 12, 8, ("rows",), "independent", "laplace")
CLUSTERS = Configuration(
    "square_root", "lasso", 60, 12, 8, ("rows", "groups"), "clusters of 3", "normal"
)
SERIES = Configuration("lad", "lasso", 60, 12, 8, ("rows", "time"), "time series", "normal")
EVERY = pytest.mark.parametrize("config", [INDEPENDENT, CLUSTERS, SERIES], ids=lambda s: s.rows)


def streams(config, seed):
    """Return random generators of the data, of new rows, and of each type of cross-validation."""
    sequence = np.random.SeedSequence([seed, config.n, config.p])
    data, new, *others = sequence.spawn(5)
    return data, new, dict(zip(("rows", "groups", "time"), others, strict=True))


@EVERY
def test_a_replication_is_what_a_user_would_do(config):
    found = replicate(config, 3)
    data, new, others = streams(config, 3)
    given = CHOICE_SCENARIOS[config.rows](
        config.n, config.p, config.noise, np.random.default_rng(data)
    )
    loss = {"lad": sp.LAD(), "square_root": sp.SquareRoot()}[config.loss]
    options = {"rows": {}, "groups": {"groups": given.groups}, "time": {"cv": TimeSeriesSplit(5)}}
    for way in config.ways:
        rng = np.random.default_rng(others[way])
        tuning = sp.tune(
            given.X, given.y, loss, sp.Lasso, n_iter=8, fit_intercept=True, rng=rng, **options[way]
        )
        expected = {
            "naive": tuning.naive_risk,
            "naive_stderr": tuning.naive_risk_stderr,
            "honest": tuning.best_risk,
            "honest_stderr": tuning.best_risk_stderr,
        }
        later = np.random.default_rng(new)
        X, y = given.new(2000, later)
        interval = tuning.predict_interval(X, 0.9)
        expected["covered"] = np.mean([a <= v <= b for v, (a, b) in zip(y, interval, strict=True)])
        expected["width"] = np.mean(np.ptp(interval, axis=1))
        if config.rows == "independent":
            model = sp.simulate.paper_model(12, noise="laplace")
            expected["truth"] = model.risk(tuning.coef, "absolute", tuning.intercept)
        elif config.rows == "time series":
            X, y = given.new(20_000, later)
            expected["truth"] = np.mean(np.abs(y - X @ tuning.coef - tuning.intercept))
        else:
            away = tuning.coef - sp.simulate.paper_model(12).coef
            covariance = sp.simulate.toeplitz(12)
            expected["truth"] = 1 + away @ covariance @ away + tuning.intercept**2
        for name, value in expected.items():
            np.testing.assert_allclose(found[f"{way}_{name}"], [value], rtol=1e-9, err_msg=name)


def test_as_many_iterations_as_pay_unless_some_are_asked_for(monkeypatch):
    asked = []

    def tune(*arguments, n_iter, **options):
        asked.append(n_iter)
        return sp.tune(*arguments, n_iter=10, **options)

    monkeypatch.setattr(module, "tune", tune)
    replicate(INDEPENDENT, 0)
    replicate(replace(INDEPENDENT, iters=0), 0)
    assert asked == [8, "auto"]
