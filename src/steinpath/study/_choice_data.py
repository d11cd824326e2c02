"""Data for the study of choices: independent rows, clusters and time series, and rows to come."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from steinpath.problem._losses import Loss
from steinpath.problem._scoring import resolve_test_loss
from steinpath.simulate import Data, LinearModel
from steinpath.study._scenarios import Generator, model_of

#: Exponential noise less its mean, beside the names of `steinpath.simulate.Noise`.
SKEWED = "skewed"

# Rows whose mean loss is taken for the risk where there is no formula.
_ROWS = 20_000


class ChoiceData(NamedTuple):
    """Data, and what a model of them will be used for.

    Attributes
    ----------
    X, y : ndarray
        The data.
    new : callable
        Number of rows and randomness in, rows out such as a model of these data will meet:
        independent of them, from new clusters, or those that follow in time.
    model : LinearModel or None
        The law of a new row, if its risks have a formula.
    groups : ndarray of int or None
        Which rows belong together, if some do.
    """

    X: np.ndarray
    y: np.ndarray
    new: Callable[[int, Generator], Data]
    model: LinearModel | None = None
    groups: np.ndarray | None = None

    def risk(self, coef: np.ndarray, intercept: float, loss: Loss, rng: Generator) -> float:
        """Return the mean loss of predictions of new rows: exactly, or over very many of them."""
        if self.model is not None:
            return float(self.model.risk(coef, loss, intercept))
        X, y = self.new(_ROWS, rng)
        return float(np.mean(resolve_test_loss(None, loss)(y, X @ coef + intercept)))


def independent(n: int, p: int, noise: str, rng: Generator) -> ChoiceData:
    """Independent rows of the paper's model."""
    if noise != SKEWED:
        model = model_of(p).under(noise=noise, design="gaussian")
        return ChoiceData(*model.sample(n, rng), model.sample, model)
    bare = model_of(p).under(noise="none", design="gaussian")

    def rows(size: int, rng: Generator) -> Data:
        X, signal = bare.sample(size, rng)
        return Data(X, signal + rng.exponential(size=size) - 1)

    return ChoiceData(*rows(n, rng), rows)


def clusters(
    n: int,
    p: int,
    noise: str,
    rng: Generator,
    *,
    sizes: tuple[int, int],
    correlation: float,
    shared: float = 0.5,
) -> ChoiceData:
    """Shuffled rows of clusters that have a part of their errors and of their features in common.

    A single row has the law of the paper's model with normal noise: so do rows of new clusters.

    Parameters
    ----------
    n, p : int
        Observations, features.
    noise : str
        "normal".
    rng : Generator
        Randomness.
    sizes : tuple of int
        Numbers of rows that clusters have, from the smallest to the largest, all equally likely.
    correlation, shared : float
        Correlation of two errors of a cluster, and of two values of a feature.
    """
    model = model_of(p).under(noise=noise, design="gaussian")
    # more clusters than there can be; the last one is cut off
    drawn = rng.integers(*sizes, endpoint=True, size=-(-n // sizes[0]))
    groups = rng.permutation(np.repeat(np.arange(len(drawn)), drawn)[:n])
    X, error = (
        math.sqrt(share) * common[groups] + math.sqrt(1 - share) * own
        for share, common, own in zip(
            (shared, correlation),
            _features_and_errors(model, len(drawn), rng),
            _features_and_errors(model, n, rng),
            strict=True,
        )
    )
    return ChoiceData(X, X @ model.coef + error, model.sample, model, groups)


def _features_and_errors(
    model: LinearModel, n: int, rng: Generator
) -> tuple[np.ndarray, np.ndarray]:
    X, y = model.sample(n, rng)
    return X, y - X @ model.coef


def time_series(n: int, p: int, noise: str, rng: Generator, *, memory: float = 0.7) -> ChoiceData:
    """First-order autoregressions of features and errors; new rows are those that follow.

    Many continuations, each as long as a sixth of the series, follow the last row: that is what the
    blocks of ``TimeSeriesSplit(5)`` have, too.
    """
    from scipy.signal import lfilter  # which takes time to import

    model = model_of(p).under(noise=noise, design="gaussian")
    scale = math.sqrt(1 - memory**2)  # of innovations; the law of a row is that of the model

    def series(start: np.ndarray, blocks: int, length: int, rng: Generator) -> np.ndarray:
        innovations = np.column_stack(_features_and_errors(model, blocks * length, rng))
        innovations = innovations.reshape(blocks, length, p + 1)
        before = np.broadcast_to(memory * start, (blocks, 1, p + 1))
        found, _ = lfilter([scale], [1.0, -memory], innovations, axis=1, zi=before)
        return np.asarray(found)

    def data(rows: np.ndarray) -> Data:
        return Data(rows[:, :-1], rows[:, :-1] @ model.coef + rows[:, -1])

    (first,) = np.column_stack(_features_and_errors(model, 1, rng))
    (rows,) = series(first, 1, n, rng)

    def following(size: int, rng: Generator) -> Data:
        length = max(1, n // 6)
        later = series(rows[-1], -(-size // length), length, rng)
        return data(later.reshape(-1, p + 1)[:size])

    return ChoiceData(*data(rows), following)


#: Laws of data by their names.
LAWS: dict[str, Callable[[int, int, str, Generator], ChoiceData]] = {
    "independent": independent,
    "clusters of 3": partial(clusters, sizes=(3, 3), correlation=0.7),
    "clusters of 3 to 10": partial(clusters, sizes=(3, 10), correlation=0.8),
    "clusters of 10": partial(clusters, sizes=(10, 10), correlation=0.9),
    "time series": time_series,
}
