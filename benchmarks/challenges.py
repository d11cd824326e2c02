"""Data sets with very different rows: the paper's model, and four that break its assumptions.

Each draws data and knows the risk of any coefficients on new, independent rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

import steinpath as sp
from steinpath.scoring import resolve_test_loss

Risk = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Drawn:
    """Data, and the risk of rows of coefficients on new ones."""

    X: np.ndarray
    y: np.ndarray
    risk: Risk


def _of_model(model: sp.simulate.LinearModel, X: np.ndarray, y: np.ndarray, loss: sp.LAD) -> Drawn:
    return Drawn(X, y, lambda coef: model.risk(coef, loss))


def gaussian(n: int, p: int, loss: sp.LAD, noise: str, rng: np.random.Generator) -> Drawn:
    """Draw from the paper's model."""
    model = sp.simulate.paper_model(p, noise)
    return _of_model(model, *model.sample(n, rng), loss)


def elliptical(
    n: int, p: int, loss: sp.LAD, noise: str, rng: np.random.Generator, df: int = 3
) -> Drawn:
    """Rows of a multivariate Student t: a random length for each."""
    model = sp.simulate.paper_model(p, noise, f"t{df}")
    return _of_model(model, *model.sample(n, rng), loss)


def one_hot(n: int, p: int, loss: sp.LAD, noise: str, rng: np.random.Generator) -> Drawn:
    """Categories of very unequal frequency, twenty to a factor, each with its own effect."""
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
    X_new, y_new = draw(20_000)
    criterion = resolve_test_loss(None, loss)
    return Drawn(
        X, y, lambda b: np.array([criterion(y_new, X_new @ row).mean() for row in np.atleast_2d(b)])
    )


def near_copies(
    n: int, p: int, loss: sp.LAD, noise: str, rng: np.random.Generator, copies: int = 4
) -> Drawn:
    """Each row measured four times, nearly alike, with the same error."""
    model = sp.simulate.paper_model(p, noise)
    own = model.sample(n, rng).X
    X, y = model.sample(-(-n // copies), rng)
    shared = np.arange(n) % len(y)
    error = (y - X @ model.coef)[shared]
    # weights whose squares sum to 1: the law of a single row stays what it was
    X = math.sqrt(1 - 0.05**2) * X[shared] + 0.05 * own
    return _of_model(model, X, X @ model.coef + error, loss)


def time_series(
    n: int, p: int, loss: sp.LAD, noise: str, rng: np.random.Generator, memory: float = 0.9
) -> Drawn:
    """Rows and errors that remember the ones before (normal errors, whatever was asked for)."""
    model = sp.simulate.paper_model(p, "normal")
    X, y = model.sample(n + 100, rng)
    innovations = np.column_stack([X, y - X @ model.coef]) * math.sqrt(1 - memory**2)
    series = lfilter([1.0], [1.0, -memory], innovations, axis=0)[100:]
    X, error = series[:, :-1], series[:, -1]
    return _of_model(model, X, X @ model.coef + error, loss)


CHALLENGES: dict[str, Callable[..., Drawn]] = {
    "Gaussian": gaussian,
    "elliptical t₃": elliptical,
    "one-hot": one_hot,
    "near copies": near_copies,
    "time series": time_series,
}
