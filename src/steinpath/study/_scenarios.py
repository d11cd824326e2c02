"""Data-generating processes: those of the paper, and some that violate its assumptions.

Each scenario draws data and computes the risk of any coefficients on new, independent rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from steinpath._support.arrays import Array, like
from steinpath._support.validation import spawned
from steinpath.problem._losses import Loss
from steinpath.problem._scoring import Criterion, resolve_test_loss
from steinpath.simulate import LinearModel, Noise, paper_model

Generator = np.random.Generator


class Drawn(NamedTuple):
    """Data, their covariance, and the risk of coefficients on new data.

    `model` is set if the risk is that of a linear model.
    """

    X: Array
    y: Array
    covariance: np.ndarray
    risk: Callable[[np.ndarray], np.ndarray]
    model: LinearModel | None = None


#: Draws n rows of p features; the loss defines the risk.
Scenario = Callable[..., Drawn]


@lru_cache(maxsize=8)
def model_of(p: int) -> LinearModel:
    """Return the paper's model; cached, to compute the root of its covariance once."""
    return paper_model(p)


def _of(model: LinearModel, X: Array, error: np.ndarray, loss: Loss) -> Drawn:
    y = X @ like(model.coef, X) + like(error, X)
    return Drawn(X, y, model.covariance, lambda coef: model.risk(coef, loss), model)


def of_design(
    n: int,
    p: int,
    loss: Loss,
    noise: str,
    rng: Generator,
    *,
    design: str,
    like_this: Array | None = None,
) -> Drawn:
    """Rows with the paper's covariance and a design of `LinearModel`.

    The noise has its own random stream. It is the same for all designs, as in the paper's
    universality theorem.
    """
    errors = spawned(rng)
    model = model_of(p).under(noise=noise, design=design)
    X = model.sample(n, rng, like_this).X
    return _of(model, X, Noise(noise).sample(n, errors), loss)


def heavy_features(
    n: int, p: int, loss: Loss, noise: str, rng: Generator, *, df: float = 3.0
) -> Drawn:
    """Independent Student t entries of variance 1 instead of the paper's normal ones."""
    model, law = model_of(p), Noise(noise)

    def rows(size: int) -> tuple[np.ndarray, np.ndarray]:
        z = rng.standard_t(df, (size, p)) * math.sqrt((df - 2) / df)
        return z @ model.root, law.sample(size, rng)

    drawn = _of(model.under(noise=noise, design="gaussian"), *rows(n), loss)
    criterion = resolve_test_loss(None, loss)
    if (
        isinstance(criterion, Criterion) and criterion.quadratic
    ):  # which depends on the covariance only
        return drawn
    fresh = _of(model, *rows(20_000), loss)  # no formula for the risk: use a large test set
    return drawn._replace(
        risk=lambda coef: np.array([np.mean(criterion(fresh.y, fresh.X @ b)) for b in coef]),
        model=None,
    )


def correlated_noise(
    n: int, p: int, loss: Loss, noise: str, rng: Generator, *, memory: float = 0.95
) -> Drawn:
    """Autoregressive normal errors and independent rows."""
    model = model_of(p).under(noise="normal", design="gaussian")
    error = _remembering(rng.standard_normal((n + 200, 1)), memory)[200:, 0]
    return _of(model, model.sample(n, rng).X, error, loss)


def time_series(
    n: int, p: int, loss: Loss, noise: str, rng: Generator, *, memory: float = 0.9
) -> Drawn:
    """Autoregressive rows and normal errors."""
    model = model_of(p).under(noise="normal", design="gaussian")
    X, y = model.sample(n + 100, rng)
    series = _remembering(np.column_stack([X, y - X @ model.coef]), memory)[100:]
    return _of(model, series[:, :-1], series[:, -1], loss)


def _remembering(innovations: np.ndarray, memory: float) -> np.ndarray:
    """Return a first-order autoregression along the rows, with the variance of its innovations."""
    from scipy.signal import lfilter  # slow to import

    scale = math.sqrt(1 - memory**2)
    return np.asarray(lfilter([scale], [1.0, -memory], innovations, axis=0))


def near_duplicates(
    n: int, p: int, loss: Loss, noise: str, rng: Generator, *, copies: int = 4
) -> Drawn:
    """Four near-duplicates of each row, with the same error."""
    errors = spawned(rng)
    model = model_of(p).under(noise=noise, design="gaussian")
    bare = model.under(noise="none", design="gaussian")
    own, common = bare.sample(n, rng).X, bare.sample(-(-n // copies), rng).X
    shared = np.arange(n) % len(common)
    # squared weights sum to 1: the marginal distribution of a row is unchanged
    X = math.sqrt(1 - 0.05**2) * common[shared] + 0.05 * own
    return _of(model, X, Noise(noise).sample(len(common), errors)[shared], loss)


#: Scenarios that a linear model can draw on a device, with the name of its design.
BY_DESIGN = {
    "gaussian": "gaussian",
    "few rows": "gaussian",
    "uniform": "uniform",
    "elliptical": "t4",
}

SCENARIOS: dict[str, Scenario] = {
    **{name: partial(of_design, design=design) for name, design in BY_DESIGN.items()},
    "heavy-tailed features": heavy_features,
    "correlated noise": correlated_noise,
    "time series": time_series,
    "near-duplicate rows": near_duplicates,
}
