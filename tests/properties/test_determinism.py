"""The same numbers each time: in one process, in others, on other threads."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import steinpath as sp

PROGRAM = """
import hashlib, json, sys
import numpy as np
import steinpath as sp

rng = np.random.default_rng(1)
X = rng.standard_normal((150, 90))
y = X[:, :4].sum(axis=1) + rng.standard_t(2, 150)
path = sp.run(X, y, sp.LAD(), sp.Lasso(0.5), n_iter=60, fit_intercept=True)
risks = [
    sp.estimate_risk(path, method=method, audit=audit, rng=3).values
    for method, audit in (("compressed", 0), ("hutchinson", 0), ("folds", 0), ("compressed", 8))
]
tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, lams=4, n_iter=40, rng=3)
model = sp.HuberLasso(n_alphas=3, n_iter=30, random_state=5).fit(X, y)
results = [path.coef, *risks, tuning.risk, model.coef_, model.predict(X)]
# sums in which neither signs nor places can be exchanged
sizes = [float(np.cos(np.arange(v.size)) @ v.ravel() / np.abs(v).sum()) for v in results]
print(json.dumps([hashlib.sha256(b"".join(v.tobytes() for v in results)).hexdigest(), sizes]))
"""


def spoken(**environment):
    """What the program prints under an environment."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"} | environment,
    )
    return json.loads(ended.stdout)


def test_other_processes_find_the_same_bits_and_other_threads_the_same_numbers():
    bits, sizes = spoken(PYTHONHASHSEED="1")
    assert spoken(PYTHONHASHSEED="2")[0] == bits
    # more threads add up in another order
    threads = spoken(OPENBLAS_NUM_THREADS="3", OMP_NUM_THREADS="3")[1]
    np.testing.assert_allclose(threads, sizes, rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", ["compressed", "hutchinson", "folds", "auto"])
def test_seeds_decide(method):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 200))
    y = X[:, 0] + rng.standard_t(2, 300)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.5), n_iter=20)
    one, again, other = (
        sp.estimate_risk(path, method=method, rng=seed).values for seed in (4, 4, 5)
    )
    np.testing.assert_array_equal(again, one)
    assert not np.array_equal(other, one)
    np.random.seed(0)  # noqa: NPY002 (which is not to matter)
    np.testing.assert_array_equal(sp.estimate_risk(path, method=method, rng=4).values, one)
