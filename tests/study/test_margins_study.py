"""One replication of ``margins``, compared with direct calls of the public functions."""

import numpy as np
import pytest

import steinpath as sp
from steinpath.study import Configuration
from steinpath.study._replicate import replicate

WAYS = ("hat", "mended", "burman")
HINGE = Configuration("hinge", "lasso", 60, 12, 8, WAYS, "unequal classes", "logistic")
LOGISTIC = Configuration("logistic", "ridge", 60, 12, 8, WAYS, "equal classes", "logistic")
EVERY = pytest.mark.parametrize("config", [HINGE, LOGISTIC], ids=lambda s: s.loss)


@EVERY
def test_a_replication_is_what_a_user_would_do(config):
    found = replicate(config, 3)
    data, *streams = np.random.SeedSequence([3, 60, 12]).spawn(4)
    intercept = {"equal classes": 0.0, "unequal classes": 1.5}[config.rows]
    model = sp.simulate.label_model(12, intercept=intercept)
    X, y = model.sample(60, np.random.default_rng(data))
    loss = {"hinge": sp.Hinge(), "logistic": sp.Logistic()}[config.loss]
    penalty = sp.Ridge(0.02 * np.sqrt(60))
    if config.penalty == "lasso":
        penalty = sp.Lasso(0.15 * sp.lam_max(X, y, loss, sp.Lasso(1.0), fit_intercept=True))
    path = sp.run(X, y, loss, penalty, n_iter=8, fit_intercept=True)
    options = {"hat": {}, "mended": {"method": "auto", "audit": 64}, "burman": {"method": "folds"}}
    for name, test_loss in (("zero_one", "zero_one"), ("matched", None)):
        truth = model.risk(path.coef, test_loss or loss, path.intercept)
        np.testing.assert_allclose(found[f"{name}_truth"], truth, rtol=1e-9)
        for way, stream in zip(WAYS, streams, strict=True):
            rng = np.random.default_rng(stream)
            chosen = {"method": "compressed", **options[way]}
            risk = sp.estimate_risk(path, test_loss, rng=rng, **chosen)
            np.testing.assert_allclose(found[f"{name}_{way}"], risk.values, rtol=1e-9)
            np.testing.assert_allclose(found[f"{name}_{way}_stderr"], risk.stderr, rtol=1e-9)
            np.testing.assert_allclose(found[f"{name}_train"], risk.train, rtol=1e-9)
