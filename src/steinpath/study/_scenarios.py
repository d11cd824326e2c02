"""Data-generating processes: those of the paper, and some that violate its assumptions.

A scenario draws n rows of p features with the given noise. `SCENARIOS` are those of whole paths,
`CHOICE_SCENARIOS` those of tuned models.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from steinpath._support.arrays import Array, like
from steinpath._support.validation import spawned
from steinpath.problem._losses import Loss
from steinpath.problem._scoring import Criterion, PerObservation, resolve_test_loss
from steinpath.simulate import Data, LinearModel, Noise, paper_model

Generator = np.random.Generator

#: Centred exponential noise, in addition to the names of `steinpath.simulate.Noise`.
SKEWED = "skewed"

# Number of new rows that estimate the risk where there is no formula.
_ROWS = 20_000


@lru_cache(maxsize=8)
def model_of(p: int) -> LinearModel:
    """Return the paper's model; cached, to compute the root of its covariance once."""
    return paper_model(p)


def _gaussian(p: int, noise: str) -> LinearModel:
    return model_of(p).under(noise=noise, design="gaussian")


def _features_and_errors(model: LinearModel, n: int, rng: Generator) -> np.ndarray:
    """Return n rows of the model: the features, and the error in the last column."""
    X, y = model.sample(n, rng)
    return np.column_stack([X, y - X @ model.coef])


class Sample(NamedTuple):
    """Data, and the distribution of ``new`` rows: independent, of new clusters, or next in time.

    `model` is set if it gives their risk (of squared losses alone, if `squares_only`).
    """

    X: Array
    y: Array
    new: Callable[[int, Generator], Data]
    model: LinearModel | None = None
    groups: np.ndarray | None = None
    squares_only: bool = False

    def model_for(self, criterion: PerObservation) -> LinearModel | None:
        """Return the model that gives the risk of new rows, if there is one."""
        quadratic = isinstance(criterion, Criterion) and criterion.quadratic
        return self.model if quadratic or not self.squares_only else None

    def risk(
        self, coef: np.ndarray, loss: Loss, intercept: float = 0.0, rng: Generator | None = None
    ) -> np.ndarray:
        """Return the mean loss on new rows: exact, or averaged over a large sample of them."""
        criterion = resolve_test_loss(None, loss)
        model = self.model_for(criterion)
        if model is not None:
            return model.risk(coef, loss, intercept)
        X, y = self.new(_ROWS, np.random.default_rng(rng))
        return np.apply_along_axis(lambda b: np.mean(criterion(y, X @ b + intercept)), -1, coef)


def _of(model: LinearModel, X: Array, error: np.ndarray, groups: Any = None) -> Sample:
    y = X @ like(model.coef, X) + like(error, X)
    return Sample(X, y, model.sample, model, groups)


# Data of paths


def of_design(
    design: str, n: int, p: int, noise: str, rng: Generator, like_this: Any = None
) -> Sample:
    """Rows with the paper's covariance and a design of `LinearModel`."""
    # the same noise for all designs, as in the paper's universality theorem
    errors = spawned(rng)
    model = model_of(p).under(noise=noise, design=design)
    return _of(model, model.sample(n, rng, like_this).X, Noise(noise).sample(n, errors))


def heavy_features(n: int, p: int, noise: str, rng: Generator) -> Sample:
    """Independent Student t entries of variance 1 instead of the paper's normal ones."""
    model, df = _gaussian(p, noise), 3.0

    def rows(size: int) -> Data:
        z = rng.standard_t(df, (size, p)) * math.sqrt((df - 2) / df)
        X = z @ model.root
        return Data(X, X @ model.coef + model.noise.sample(size, rng))

    test_set = lru_cache(rows)  # the same for all coefficients
    return Sample(*rows(n), lambda size, _: test_set(size), model, squares_only=True)


def correlated_noise(n: int, p: int, noise: str, rng: Generator) -> Sample:
    """Autoregressive normal errors and independent rows."""
    model = _gaussian(p, "normal")
    error = _autoregressive(rng.standard_normal((n + 200, 1)), 0.95)[200:, 0]
    return _of(model, model.sample(n, rng).X, error)


def time_series(n: int, p: int, noise: str, rng: Generator) -> Sample:
    """Autoregressive rows and normal errors."""
    model = _gaussian(p, "normal")
    series = _autoregressive(_features_and_errors(model, n + 100, rng), 0.9)[100:]
    return _of(model, series[:, :-1], series[:, -1])


def _autoregressive(innovations: np.ndarray, memory: float, start: Any = 0.0) -> np.ndarray:
    """Return first-order autoregressions along the rows, with the variance of innovations."""
    from scipy.signal import lfilter  # slow to import

    scale = math.sqrt(1 - memory**2)
    before = np.broadcast_to(memory * start, (*innovations.shape[:-2], 1, innovations.shape[-1]))
    values, _ = lfilter([scale], [1.0, -memory], innovations, axis=-2, zi=before)
    return np.asarray(values)


def near_duplicates(n: int, p: int, noise: str, rng: Generator) -> Sample:
    """Four near-duplicates of each row, with the same error."""
    errors = spawned(rng)
    bare = _gaussian(p, "none")
    own, common = bare.sample(n, rng).X, bare.sample(-(-n // 4), rng).X
    shared = np.arange(n) % len(common)
    # squared weights sum to 1: the marginal distribution of a row is unchanged
    X = math.sqrt(1 - 0.05**2) * common[shared] + 0.05 * own
    return _of(_gaussian(p, noise), X, Noise(noise).sample(len(common), errors)[shared])


#: Scenarios that a linear model can draw on a device, with the name of its design.
BY_DESIGN = {
    "gaussian": "gaussian",
    "few rows": "gaussian",
    "uniform": "uniform",
    "elliptical": "t4",
}

Scenario = Callable[..., Sample]
SCENARIOS: dict[str, Scenario] = {
    **{name: partial(of_design, design) for name, design in BY_DESIGN.items()},
    "heavy-tailed features": heavy_features,
    "correlated noise": correlated_noise,
    "time series": time_series,
    "near-duplicate rows": near_duplicates,
}


# Data of tuned models


def independent(n: int, p: int, noise: str, rng: Generator) -> Sample:
    """Independent rows of the paper's model."""
    if noise != SKEWED:
        model = _gaussian(p, noise)
        return Sample(*model.sample(n, rng), model.sample, model)
    bare = _gaussian(p, "none")

    def rows(size: int, rng: Generator) -> Data:
        X, signal = bare.sample(size, rng)
        return Data(X, signal + rng.exponential(size=size) - 1)

    return Sample(*rows(n, rng), rows)


def clusters(
    sizes: tuple[int, int], correlation: float, n: int, p: int, noise: str, rng: Generator
) -> Sample:
    """Shuffled rows of clusters with correlated errors and, by 0.5, correlated features."""
    model = _gaussian(p, noise)
    # more clusters than needed; the last one used is truncated
    drawn = rng.integers(*sizes, endpoint=True, size=-(-n // sizes[0]))
    groups = rng.permutation(np.repeat(np.arange(len(drawn)), drawn)[:n])
    share = np.append(np.full(p, 0.5), correlation)
    common = _features_and_errors(model, len(drawn), rng)[groups]
    own = _features_and_errors(model, n, rng)
    rows = np.sqrt(share) * common + np.sqrt(1 - share) * own
    return _of(model, rows[:, :-1], rows[:, -1], groups)


def continued_series(n: int, p: int, noise: str, rng: Generator) -> Sample:
    """First-order autoregressive features and errors; new rows continue the series."""
    model, memory = _gaussian(p, noise), 0.7

    def data(rows: np.ndarray) -> Data:
        return Data(rows[:, :-1], rows[:, :-1] @ model.coef + rows[:, -1])

    first = _features_and_errors(model, 1, rng)
    rows = _autoregressive(_features_and_errors(model, n, rng), memory, first)

    def following(size: int, rng: Generator) -> Data:
        length = max(1, n // 6)  # of each continuation, as of the blocks of TimeSeriesSplit(5)
        blocks = -(-size // length)
        innovations = _features_and_errors(model, blocks * length, rng)
        later = _autoregressive(innovations.reshape(blocks, length, p + 1), memory, rows[-1])
        return data(later.reshape(-1, p + 1)[:size])

    return Sample(*data(rows), following)


CHOICE_SCENARIOS: dict[str, Scenario] = {
    "independent": independent,
    "clusters of 3": partial(clusters, (3, 3), 0.7),
    "clusters of 3 to 10": partial(clusters, (3, 10), 0.8),
    "clusters of 10": partial(clusters, (10, 10), 0.9),
    "time series": continued_series,
}
