"""Data-generating processes: the paper's model, and four that violate its assumptions.

Each draws data and computes the risk of any coefficients on new, independent rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import steinpath as sp
from steinpath.problem._scoring import resolve_test_loss
from steinpath.study._scenarios import Drawn, near_duplicates, time_series


def _of_model(model: sp.simulate.LinearModel, X: np.ndarray, y: np.ndarray, loss: sp.LAD) -> Drawn:
    return Drawn(X, y, model.covariance, lambda coef: model.risk(coef, loss))


def gaussian(n: int, p: int, loss: sp.LAD, noise: str, rng: np.random.Generator) -> Drawn:
    """Draw from the paper's model."""
    model = sp.simulate.paper_model(p, noise)
    return _of_model(model, *model.sample(n, rng), loss)


def elliptical(
    n: int, p: int, loss: sp.LAD, noise: str, rng: np.random.Generator, df: int = 3
) -> Drawn:
    """Draw multivariate Student t rows, whose norms vary widely."""
    model = sp.simulate.paper_model(p, noise, f"t{df}")
    return _of_model(model, *model.sample(n, rng), loss)


def one_hot(n: int, p: int, loss: sp.LAD, noise: str, rng: np.random.Generator) -> Drawn:
    """Draw factors of twenty categories of very unequal frequency, each with its own effect."""
    levels = 20
    factors = p // levels
    frequency = 1 / np.arange(1, levels + 1) ** 1.2
    frequency /= frequency.sum()
    coef = rng.standard_normal(factors * levels) * 2 / math.sqrt(factors)
    errors = sp.simulate.LinearModel(np.zeros(1), noise=noise)

    def draw(size: int) -> tuple[np.ndarray, np.ndarray]:
        X = np.zeros((size, factors * levels))
        for factor in range(factors):
            level = rng.choice(levels, size, p=frequency)
            X[np.arange(size), factor * levels + level] = 1.0
        return X, X @ coef + errors.sample(size, rng).y

    X, y = draw(n)
    one = np.diag(frequency) - np.outer(frequency, frequency)
    covariance = np.kron(np.eye(factors), one)
    X_new, y_new = draw(20_000)
    criterion = resolve_test_loss(None, loss)
    return Drawn(
        X,
        y,
        covariance,
        lambda b: np.array([criterion(y_new, X_new @ row).mean() for row in np.atleast_2d(b)]),
    )


CHALLENGES: dict[str, Callable[..., Drawn]] = {
    "Gaussian": gaussian,
    "elliptical t₃": elliptical,
    "one-hot": one_hot,
    "near-duplicate rows": near_duplicates,
    "time series": time_series,
}
