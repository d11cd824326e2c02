"""Data-generating processes: those of the paper, and some that violate its assumptions.

A scenario draws data and computes the risk of any coefficients on new rows. `SCENARIOS` are those
of whole paths, `CHOICE_SCENARIOS` those of tuned models, which are also asked for new rows.
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
from steinpath.problem._scoring import Criterion, resolve_test_loss
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


def _features_and_errors(
    model: LinearModel, n: int, rng: Generator
) -> tuple[np.ndarray, np.ndarray]:
    X, y = model.sample(n, rng)
    return X, y - X @ model.coef


# Data of paths


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


def _of(model: LinearModel, X: Array, error: np.ndarray, loss: Loss) -> Drawn:
    y = X @ like(model.coef, X) + like(error, X)
    return Drawn(X, y, model.covariance, lambda coef: model.risk(coef, loss), model)


def of_design(
    design: str, n: int, p: int, loss: Loss, noise: str, rng: Generator, like_this: Any = None
) -> Drawn:
    """Rows with the paper's covariance and a design of `LinearModel`.

    The noise has its own random stream. It is the same for all designs, as in the paper's
    universality theorem.
    """
    errors = spawned(rng)
    model = model_of(p).under(noise=noise, design=design)
    X = model.sample(n, rng, like_this).X
    return _of(model, X, Noise(noise).sample(n, errors), loss)


def heavy_features(n: int, p: int, loss: Loss, noise: str, rng: Generator) -> Drawn:
    """Independent Student t entries of variance 1 instead of the paper's normal ones."""
    model, law, df = model_of(p), Noise(noise), 3.0

    def rows(size: int) -> tuple[np.ndarray, np.ndarray]:
        z = rng.standard_t(df, (size, p)) * math.sqrt((df - 2) / df)
        return z @ model.root, law.sample(size, rng)

    drawn = _of(_gaussian(p, noise), *rows(n), loss)
    criterion = resolve_test_loss(None, loss)
    if (
        isinstance(criterion, Criterion) and criterion.quadratic
    ):  # which depends on the covariance only
        return drawn
    fresh = _of(model, *rows(_ROWS), loss)  # no formula for the risk: use a large test set
    return drawn._replace(
        risk=lambda coef: np.array([np.mean(criterion(fresh.y, fresh.X @ b)) for b in coef]),
        model=None,
    )


def correlated_noise(n: int, p: int, loss: Loss, noise: str, rng: Generator) -> Drawn:
    """Autoregressive normal errors and independent rows."""
    model = _gaussian(p, "normal")
    error = _autoregressive(rng.standard_normal((n + 200, 1)), 0.95)[200:, 0]
    return _of(model, model.sample(n, rng).X, error, loss)


def time_series(n: int, p: int, loss: Loss, noise: str, rng: Generator) -> Drawn:
    """Autoregressive rows and normal errors."""
    model = _gaussian(p, "normal")
    innovations = np.column_stack(_features_and_errors(model, n + 100, rng))
    series = _autoregressive(innovations, 0.9)[100:]
    return _of(model, series[:, :-1], series[:, -1], loss)


def _autoregressive(innovations: np.ndarray, memory: float) -> np.ndarray:
    """Return a first-order autoregression along the rows, with the variance of its innovations."""
    from scipy.signal import lfilter  # slow to import

    scale = math.sqrt(1 - memory**2)
    return np.asarray(lfilter([scale], [1.0, -memory], innovations, axis=0))


def near_duplicates(n: int, p: int, loss: Loss, noise: str, rng: Generator) -> Drawn:
    """Four near-duplicates of each row, with the same error."""
    errors = spawned(rng)
    bare = _gaussian(p, "none")
    own, common = bare.sample(n, rng).X, bare.sample(-(-n // 4), rng).X
    shared = np.arange(n) % len(common)
    # squared weights sum to 1: the marginal distribution of a row is unchanged
    X = math.sqrt(1 - 0.05**2) * common[shared] + 0.05 * own
    return _of(_gaussian(p, noise), X, Noise(noise).sample(len(common), errors)[shared], loss)


#: Scenarios that a linear model can draw on a device, with the name of its design.
BY_DESIGN = {
    "gaussian": "gaussian",
    "few rows": "gaussian",
    "uniform": "uniform",
    "elliptical": "t4",
}

SCENARIOS: dict[str, Scenario] = {
    **{name: partial(of_design, design) for name, design in BY_DESIGN.items()},
    "heavy-tailed features": heavy_features,
    "correlated noise": correlated_noise,
    "time series": time_series,
    "near-duplicate rows": near_duplicates,
}


# Data of tuned models


class ChoiceData(NamedTuple):
    """Data, and the distribution of new rows.

    `new` draws new rows: independent rows, rows of new clusters, or the rows that follow in time.
    `model` is set if the risk on new rows has a formula, `groups` if rows belong to groups.
    """

    X: np.ndarray
    y: np.ndarray
    new: Callable[[int, Generator], Data]
    model: LinearModel | None = None
    groups: np.ndarray | None = None

    def risk(self, coef: np.ndarray, intercept: float, loss: Loss, rng: Generator) -> float:
        """Return the mean loss on new rows: exact, or averaged over a large sample of them."""
        if self.model is not None:
            return float(self.model.risk(coef, loss, intercept))
        X, y = self.new(_ROWS, rng)
        return float(np.mean(resolve_test_loss(None, loss)(y, X @ coef + intercept)))


def independent(n: int, p: int, noise: str, rng: Generator) -> ChoiceData:
    """Independent rows of the paper's model."""
    if noise != SKEWED:
        model = _gaussian(p, noise)
        return ChoiceData(*model.sample(n, rng), model.sample, model)
    bare = _gaussian(p, "none")

    def rows(size: int, rng: Generator) -> Data:
        X, signal = bare.sample(size, rng)
        return Data(X, signal + rng.exponential(size=size) - 1)

    return ChoiceData(*rows(n, rng), rows)


def clusters(
    sizes: tuple[int, int], correlation: float, n: int, p: int, noise: str, rng: Generator
) -> ChoiceData:
    """Shuffled rows of clusters with correlated errors and, by 0.5, correlated features.

    Cluster sizes are uniform between the two `sizes`. Marginally, each row follows the paper's
    model with normal noise, as do rows of new clusters.
    """
    model = _gaussian(p, noise)
    # more clusters than needed; the last one used is truncated
    drawn = rng.integers(*sizes, endpoint=True, size=-(-n // sizes[0]))
    groups = rng.permutation(np.repeat(np.arange(len(drawn)), drawn)[:n])
    X, error = (
        math.sqrt(share) * common[groups] + math.sqrt(1 - share) * own
        for share, common, own in zip(
            (0.5, correlation),
            _features_and_errors(model, len(drawn), rng),
            _features_and_errors(model, n, rng),
            strict=True,
        )
    )
    return ChoiceData(X, X @ model.coef + error, model.sample, model, groups)


def continued_series(n: int, p: int, noise: str, rng: Generator) -> ChoiceData:
    """First-order autoregressive features and errors; new rows continue the series.

    New rows come from many continuations, each a sixth as long as the series, as are the blocks of
    ``TimeSeriesSplit(5)``.
    """
    from scipy.signal import lfilter  # slow to import

    model, memory = _gaussian(p, noise), 0.7
    scale = math.sqrt(1 - memory**2)  # of innovations; each row marginally follows the model

    def series(start: np.ndarray, blocks: int, length: int, rng: Generator) -> np.ndarray:
        innovations = np.column_stack(_features_and_errors(model, blocks * length, rng))
        innovations = innovations.reshape(blocks, length, p + 1)
        before = np.broadcast_to(memory * start, (blocks, 1, p + 1))
        values, _ = lfilter([scale], [1.0, -memory], innovations, axis=1, zi=before)
        return np.asarray(values)

    def data(rows: np.ndarray) -> Data:
        return Data(rows[:, :-1], rows[:, :-1] @ model.coef + rows[:, -1])

    (first,) = np.column_stack(_features_and_errors(model, 1, rng))
    (rows,) = series(first, 1, n, rng)

    def following(size: int, rng: Generator) -> Data:
        length = max(1, n // 6)
        later = series(rows[-1], -(-size // length), length, rng)
        return data(later.reshape(-1, p + 1)[:size])

    return ChoiceData(*data(rows), following)


CHOICE_SCENARIOS: dict[str, Callable[[int, int, str, Generator], ChoiceData]] = {
    "independent": independent,
    "clusters of 3": partial(clusters, (3, 3), 0.7),
    "clusters of 3 to 10": partial(clusters, (3, 10), 0.8),
    "clusters of 10": partial(clusters, (10, 10), 0.9),
    "time series": continued_series,
}
