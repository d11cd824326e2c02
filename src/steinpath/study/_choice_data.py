"""Data for the study ``choice``: independent rows, clusters and time series, and new rows."""

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

#: Centred exponential noise, in addition to the names of `steinpath.simulate.Noise`.
SKEWED = "skewed"

# Number of new rows that estimate the risk where there is no formula.
_ROWS = 20_000


class ChoiceData(NamedTuple):
    """Data, and the distribution of new rows.

    Attributes
    ----------
    X, y : ndarray
        The data.
    new : callable
        Draws a number of new rows with a random generator: independent rows, rows of new clusters,
        or the rows that follow in time.
    model : LinearModel or None
        Model of a new row, if its risk has a formula.
    groups : ndarray of int or None
        Group labels of the rows, if any.
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
    """Shuffled rows of clusters with correlated errors and correlated features.

    Marginally, each row follows the paper's model with normal noise, as do rows of new clusters.

    Parameters
    ----------
    n, p : int
        Numbers of observations and of features.
    noise : str
        Must be "normal".
    rng : Generator
        Random generator.
    sizes : tuple of int
        Smallest and largest cluster size; sizes are uniformly distributed.
    correlation, shared : float
        Within-cluster correlation of errors, and of values of a feature.
    """
    model = model_of(p).under(noise=noise, design="gaussian")
    # more clusters than needed; the last one used is truncated
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
    """First-order autoregressive features and errors; new rows continue the series.

    New rows come from many continuations, each a sixth as long as the series, as are the blocks of
    ``TimeSeriesSplit(5)``.
    """
    from scipy.signal import lfilter  # slow to import

    model = model_of(p).under(noise=noise, design="gaussian")
    scale = math.sqrt(1 - memory**2)  # of innovations; each row marginally follows the model

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


#: Data-generating processes by name.
LAWS: dict[str, Callable[[int, int, str, Generator], ChoiceData]] = {
    "independent": independent,
    "clusters of 3": partial(clusters, sizes=(3, 3), correlation=0.7),
    "clusters of 3 to 10": partial(clusters, sizes=(3, 10), correlation=0.8),
    "clusters of 10": partial(clusters, sizes=(10, 10), correlation=0.9),
    "time series": time_series,
}
