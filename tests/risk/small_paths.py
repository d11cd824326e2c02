"""A small path that all methods can handle, and what audits and interactions need of it."""

import numpy as np

from backends import on_backend, sp
from problems import draw
from steinpath.engine._batch import Batch
from steinpath.risk._options import RiskOptions

batch_of, options_of = map(on_backend, (Batch.of, RiskOptions))


def absolute(y, prediction):
    return np.abs(y - prediction)


def plain_losses(y, prediction):
    return (y - prediction) ** 2 / (1 + np.abs(y))


def momentum():
    """Clipped descent that remembers an older state."""
    return sp.Recursion(
        dual=lambda t, u, v: -np.clip(v[-1], -0.1, 0.1),
        primal=lambda t, b, eta: b[-1] + 0.3 * (b[-1] - b[max(t - 2, 0)]) - 0.3 * eta[-1],
        dual_jvp=lambda t, u, v, du, dv: -dv[-1] * (np.abs(v[-1]) < 0.1)[:, None],
        primal_jvp=lambda t, b, eta, db, deta: (
            db[-1] + 0.3 * (db[-1] - db[max(t - 2, 0)]) - 0.3 * deta[-1]
        ),
    )


def ridge_path(n=40, p=15, **options):
    X, y, _ = draw(n, p)
    return sp.run(X, y, sp.SquareRoot(), sp.Ridge(0.1), n_iter=12, **options)


def problem_of(path, test_loss="absolute", rng=0):
    """What to estimate."""
    options = options_of(test_loss=test_loss, precision="float64")
    return options.resolved(batch_of(path), [np.random.default_rng(rng)])[0]


def estimate(path, method="exact", **options):
    """The estimated risk, all of it in double precision."""
    return sp.estimate_risk(path, method=method, rng=0, precision="float64", **options)
