r"""Dependence between the leave-one-out losses of two observations.

A mean of n independent losses has the variance of one of them divided by n. Leave-one-out losses
are not independent: the fits that predict observations i and j share all others, and each contains
the other. Let :math:`a_{ij}` be the change of the leave-one-out loss of i when j is left out as
well. The covariance of the two losses, beyond that of the risks of their fits, is :math:`E[a_{ij}
a_{ji}]`; the other terms vanish given the rest of the data. As an estimate of the risk of the
present fit, leave-one-out therefore has the variance

.. math:: \mathrm{Var}(\text{loss}) / n + E[a_{ij} a_{ji}] .

If p is proportional to n, each :math:`a_{ij}` is of order :math:`n^{-1/2}`, so the second term is
as large as the first, and much larger late on the path. It is estimated by the mean over a few
pairs of rows, each left out together in one more column of the reruns. Because a standard error
that is too small is the worse mistake, the standard error of that mean is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from steinpath._support.arrays import Array, namespace, take, units_of
from steinpath.engine._path import Path
from steinpath.problem._scoring import PerObservation, for_differences, losses_at

# Maximum number of pairs.
_PAIRS = 32


def disjoint_pairs(rows: np.ndarray, most: int = _PAIRS) -> np.ndarray:
    """Return disjoint pairs of the first rows, of shape (q, 2).

    Parameters
    ----------
    rows : ndarray of int of shape (m,)
        Rows.
    most : int
        Maximum number of pairs.
    """
    q = min(len(rows) // 2, most)
    return rows[: 2 * q].reshape(q, 2)


def n_columns(n_rows: int, most: int = _PAIRS) -> int:
    """Return the number of runs needed to leave rows out, one at a time and in pairs.

    Parameters
    ----------
    n_rows : int
        Number of rows that are left out.
    most : int
        Maximum number of pairs of them.
    """
    return n_rows + min(n_rows // 2, most)


@dataclass(frozen=True, eq=False)
class Interactions:
    """Effect of leaving out one observation of a pair on the other.

    Attributes
    ----------
    changes : Array of shape (n_iter + 1, q, 2)
        ``a_ij`` and ``a_ji`` of each pair, for each iteration: the leave-one-out loss of one
        observation minus its loss when the other is left out as well.
    pairs : ndarray of int of shape (q, 2), optional
        Indices of the observations.
    """

    changes: Array
    pairs: Any = None

    def held(self, n_iter: int) -> Interactions:
        """Extend to ``n_iter`` iterations by repeating the last known value."""
        return replace(self, changes=held(self.changes, n_iter))

    def stderr(self) -> Array:
        """Return the root of the covariance of two losses for each iteration, on the safe side."""
        return _root_covariance(self.changes)

    def stderr_between(self, t1: int, t2: int, other: Interactions | None = None) -> float:
        """Return the same for the difference of two iterations, the second of another path."""
        other = self if other is None else other
        first, second = self.changes[t1 : t1 + 1, ...], other.changes[t2 : t2 + 1, ...]
        if np.array_equal(self.pairs, other.pairs):
            return float(_root_covariance(first - second)[0])
        return math.hypot(float(_root_covariance(first)[0]), float(_root_covariance(second)[0]))


def held(values: Array, n_iter: int) -> Array:
    """Repeat the last of the values of iterations up to iteration ``n_iter``."""
    known = values.shape[0]
    if known == n_iter + 1:
        return values
    return take(values, np.minimum(np.arange(n_iter + 1), known - 1))


def _root_covariance(changes: Array) -> Array:
    xp = namespace(changes)
    q = changes.shape[1]
    # in units of the largest, since fourth powers of losses may overflow
    largest = xp.max(xp.abs(changes), axis=(1, 2)) if q else xp.sum(changes, axis=(1, 2))
    unit = units_of(largest)
    scaled = changes / unit[:, None, None]
    products = scaled[:, :, 0] * scaled[:, :, 1]
    if q < 2:  # the noise of a single pair is unknown
        bound = xp.sum(xp.abs(products), axis=1)
    else:
        bound = xp.mean(products, axis=1) + xp.std(products, axis=1, correction=1.0) / math.sqrt(q)
    return xp.sqrt(xp.where(bound > 0, bound, 0 * bound)) * unit


def interactions(
    path: Path, criterion: PerObservation, pairs: np.ndarray, alone: Array, together: Array
) -> Interactions:
    """Compare the losses of rows that are left out alone and in pairs.

    Parameters
    ----------
    path : Path
        Path.
    criterion : callable
        Scoring loss.
    pairs : ndarray of int of shape (q, 2)
        Rows.
    alone, together : Array of shape (n_iter + 1, q, 2)
        Predictions of each row by the run that leaves it out, and by the run that leaves out both.
    """
    xp, rows = namespace(alone), np.reshape(pairs, (-1,))
    blocks = [xp.reshape(x, (x.shape[0], len(rows))) for x in (alone, together)]
    criterion = for_differences(criterion, blocks[0])
    losses = [losses_of(path, criterion, rows, x) for x in blocks]
    return Interactions(xp.reshape(losses[0] - losses[1], alone.shape), pairs)


def losses_of(
    path: Path,
    criterion: PerObservation,
    rows: np.ndarray,
    predictions: Array,
    own: np.ndarray | None = None,
) -> Array:
    """Return the losses of some rows, for each row of predictions.

    Parameters
    ----------
    path : Path
        Path.
    criterion : callable
        Scoring loss.
    rows : ndarray of int of shape (m,)
        Global indices of the rows, without repetitions.
    predictions : Array of shape (T, m)
        Their predictions.
    own : ndarray of int, optional
        Indices of the local ones, if predictions and losses are those of local rows only.
    """
    y, design = path.response, path.design
    others = path.products_at(slice(0, predictions.shape[0]))
    if own is not None:
        return losses_at(criterion, y, own, predictions, others)
    if design.is_whole:
        return losses_at(criterion, y, rows, predictions, others)
    which, where = design.places(rows)
    found = np.zeros(predictions.shape, predictions.dtype)
    found[:, which] = losses_at(criterion, y, where, predictions[:, which], others)
    return design.over_rows(found)
