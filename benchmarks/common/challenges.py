"""Data-generating processes: the paper's model, and four that violate its assumptions.

Each draws data with the distribution of new, independent rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

import steinpath as sp
from steinpath.study._scenarios import Sample, near_duplicates, time_series


def gaussian(n: int, p: int, noise: str, rng: np.random.Generator) -> Sample:
    """Draw from the paper's model."""
    model = sp.simulate.paper_model(p, noise)
    return Sample(*model.sample(n, rng), model.sample, model)


def elliptical(n: int, p: int, noise: str, rng: np.random.Generator, df: int = 3) -> Sample:
    """Draw multivariate Student t rows, whose norms vary widely."""
    model = sp.simulate.paper_model(p, noise, f"t{df}")
    return Sample(*model.sample(n, rng), model.sample, model)


def one_hot(n: int, p: int, noise: str, rng: np.random.Generator) -> Sample:
    """Draw factors of twenty categories of very unequal frequency, each with its own effect."""
    levels = 20
    factors = p // levels
    frequency = 1 / np.arange(1, levels + 1) ** 1.2
    frequency /= frequency.sum()
    coef = rng.standard_normal(factors * levels) * 2 / math.sqrt(factors)
    errors = sp.simulate.LinearModel(np.zeros(1), noise=noise)

    def draw(size: int) -> sp.simulate.Data:
        X = np.zeros((size, factors * levels))
        for factor in range(factors):
            level = rng.choice(levels, size, p=frequency)
            X[np.arange(size), factor * levels + level] = 1.0
        return sp.simulate.Data(X, X @ coef + errors.sample(size, rng).y)

    test_set = lru_cache(draw)  # the same for all coefficients
    return Sample(*draw(n), lambda size, _: test_set(size))


CHALLENGES: dict[str, Callable[..., Sample]] = {
    "Gaussian": gaussian,
    "elliptical t₃": elliptical,
    "one-hot": one_hot,
    "near-duplicate rows": near_duplicates,
    "time series": time_series,
}
