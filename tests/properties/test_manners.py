"""What a library leaves alone: the caller's data, and everything that a process shares."""

import locale
import os
import random
import signal
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import steinpath as sp


def shared():
    """What one part of a process can change under the feet of another."""
    return {
        "random numbers": (random.getstate(), repr(np.random.get_state())),  # noqa: NPY002
        "warnings": list(warnings.filters),
        "floating point": np.geterr(),
        "printing": repr(np.get_printoptions()),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "locale": locale.setlocale(locale.LC_ALL),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
    }


def everything(X, y):
    path = sp.run(X, y, sp.Huber(), sp.SCAD(0.3), n_iter=12, fit_intercept=True)
    for method in ("auto", "compressed", "hutchinson", "folds"):
        risk = sp.estimate_risk(path, method=method, audit=4, rng=0)
        assert risk.warnings is not None
    sp.tune(X, y, sp.LAD(), sp.Lasso, lams=2, n_iter=40, rng=0)
    sp.cross_validate_path(path, 3, rng=0)
    model = sp.LADLasso(n_alphas=2, n_iter=40, random_state=0).fit(X, y)
    clone(model).set_params(n_iter=5).fit(X, y).predict(X)
    with pytest.raises(ValueError, match="NaN"):
        sp.run(np.nan * X, y, sp.LAD(), sp.Lasso(0.1))
    with pytest.raises(sp.DivergenceError), pytest.warns(UserWarning, match="may diverge"):
        sp.run(X, y, sp.Squared(), sp.Lasso(0.1), sp.ProximalGradient(1e200), n_iter=9)


def test_nothing_shared_is_changed():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 8))
    y = X[:, 0] + rng.standard_t(2, 60)
    X.flags.writeable = y.flags.writeable = False
    everything(X, y)  # what is imported on first use is no change
    before = shared()
    everything(X, y)
    assert shared() == before
