"""Predictions of every iterate for every row, and their mean scoring losses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from steinpath._support.arrays import (
    Array,
    group_sums,
    like,
    namespace,
    root_sum_of_squares,
    scattered_sums,
    take,
    units_of,
)
from steinpath.design._base import Design
from steinpath.engine._compression import CompressedCorrections
from steinpath.engine._path import Path
from steinpath.problem._scoring import PerObservation, check_finite, observation_losses
from steinpath.risk._problem import Problem

# Number of predictions scored at a time: to fit into caches, or to fill a device.
_SCORED, _SCORED_ON_DEVICE = 2**15, 2**24


@dataclass(frozen=True, eq=False)
class Fitted:
    """Uncorrected fitted values, whose score is the training error.

    All predictions are for ``path.response``, from which the level of y has been subtracted.
    """

    path: Path

    def of(self, t: slice) -> Array:
        """Return predictions of some iterations, of shape (iterations, n), for the local rows."""
        return self.path.products_at(t)

    def at(self, rows: np.ndarray) -> Array:
        """Return predictions of some rows at all iterations, of shape (n_iter + 1, rows)."""
        return self.path.design.picked(self.own(slice(None)), rows)

    def own(self, rows: Any) -> Array:
        """Return the same for local rows, by their local indices."""
        return _columns(self.path.products, rows)


@dataclass(frozen=True, eq=False)
class StoredPredictions(Fitted):
    """Predictions that were computed before."""

    predictions: Array

    def of(self, t: slice) -> Array:
        return self.predictions[t, :]

    def own(self, rows: Any) -> Array:
        return _columns(self.predictions, rows)


@dataclass(frozen=True, eq=False)
class Compressed(Fitted):
    """Fitted values with corrections in a low-rank basis."""

    corrections: CompressedCorrections

    def of(self, t: slice) -> Array:
        return self.path.products_at(t) - self.corrections.shift(t)

    def at(self, rows: np.ndarray) -> Array:
        if self.path.design.is_whole:
            return self.own(rows)
        which, where = self.path.design.places(rows)
        found = np.zeros((self.path.n_iter + 1, len(rows)), self.path.response.dtype)
        found[:, which] = self.own(where)
        return self.path.design.over_rows(found)

    def own(self, rows: Any) -> Array:
        if isinstance(rows, slice):
            return super().own(rows) - self.corrections.shift(slice(None))
        return super().own(rows) - self.corrections.part(rows).shift(slice(None))


class Score(NamedTuple):
    """Mean scoring loss of each iterate, its sampling error and its Monte Carlo error."""

    values: Array
    stderr: Array
    probe_stderr: Array


def score(problem: Problem, predictions: Fitted, tested: np.ndarray | None = None) -> Score:
    """Score the predictions of every iterate, for all rows or for those that were tested."""
    path, criterion, groups = problem.path, problem.criterion, problem.options.groups
    y, n, xp, design = path.response, path.n_samples, namespace(path.y), path.design
    codes = None if groups is None else design.local(groups)
    own = None  # local tested rows
    if tested is not None:
        own, n = design.places(tested)[1], len(tested)
        groups, codes = (
            None if each is None else each[rows] for each, rows in ((groups, tested), (codes, own))
        )
    baseline = baseline_losses(problem)
    T = path.n_iter + 1
    pieces = []
    most = _SCORED if isinstance(y, np.ndarray) else _SCORED_ON_DEVICE
    length = max(16, most // n)
    for start in range(0, T, length):
        block = slice(start, min(start + length, T))
        values = check_finite(predictions.of(block))
        losses = observation_losses(criterion, y, values) - baseline
        if own is not None:
            losses = take(losses, own, axis=1)
        slopes = 0 * losses[:, :0]
        if isinstance(predictions, Compressed):
            slopes = _slopes(criterion, y, values, predictions.corrections, block)
        pieces.append((*_moments(losses, codes, groups, design), slopes))
    moments = _Moments(*(xp.concat(parts) for parts in list(zip(*pieces, strict=True))[:-1]))
    slopes = xp.concat([piece[-1] for piece in pieces])
    # over all rows: first the sums, then what depends on them
    both = design.over_rows(xp.stack([moments.sums, moments.sizes])) / n
    means, unit = both[0, :], units_of(both[1, :])
    count = y.shape[0] if own is None else len(own)
    shift = moments.sums / max(count, 1) - means
    if groups is None:
        spread = ((moments.spread * (moments.unit / unit)[:, None]) ** 2)[:, 0]
        deviations = (spread + count * (shift / unit) ** 2)[:, None]
        units = n
    else:  # rows of a group are dependent, their sums are independent
        counts = like(_group_counts(codes, groups, design), shift)
        deviations = moments.spread * moments.unit[:, None] + shift[:, None] * counts
        deviations, units = deviations / unit[:, None], len(np.unique(groups))
    completed = design.over_rows(xp.concat([deviations, slopes], axis=1))
    width = deviations.shape[1]
    squares, slopes = completed[:, :width], completed[:, width:] / n
    squares = xp.sum(squares if groups is None else squares**2, axis=1) * (units / n)
    spread = unit * xp.sqrt(squares / (units - 1)) if units > 1 else 0 * means + math.inf
    noise = 0 * means
    if isinstance(predictions, Compressed):
        noise = root_sum_of_squares(slopes * xp.sqrt(predictions.corrections.variances), axis=1)
    return Score(means, spread / math.sqrt(n), noise)


class _Moments(NamedTuple):
    """Moments of the losses of the local rows, for each iteration."""

    sums: Array  # (T,): of the losses
    sizes: Array  # (T,): of their sizes
    unit: Array  # (T,): of their deviations from their mean
    spread: Array  # (T, 1): root of the sum of squared deviations; or (T, G): sums of each group


def _moments(
    losses: Array, codes: np.ndarray | None, groups: np.ndarray | None, design: Design
) -> _Moments:
    xp, count = namespace(losses), max(losses.shape[1], 1)
    sums, sizes = xp.sum(losses, axis=1), xp.sum(xp.abs(losses), axis=1)
    unit = units_of(sizes / count)
    scaled = (losses - (sums / count)[:, None]) / unit[:, None]
    if codes is None or groups is None:
        spread = xp.sqrt(xp.sum(scaled**2, axis=1, keepdims=True))
    elif design.is_whole:
        spread = group_sums(scaled, codes)
    else:
        spread = scattered_sums(scaled, codes, int(groups.max()) + 1)
    return _Moments(sums, sizes, unit, spread)


def _group_counts(codes: np.ndarray | None, groups: np.ndarray, design: Design) -> np.ndarray:
    """Return the number of local rows of each group."""
    assert codes is not None
    counts = np.bincount(codes, minlength=int(groups.max()) + 1)
    return counts[counts > 0] if design.is_whole else counts


def _columns(values: Array, which: Any) -> Array:
    return values[:, which] if isinstance(which, slice) else take(values, which, axis=1)


def baseline_losses(problem: Problem) -> Array:
    """Return the losses of the prediction 0 if they are to be subtracted, otherwise 0."""
    if not problem.options.centered:
        return 0.0
    path, y = problem.path, problem.path.response
    zero = namespace(y).zeros_like(y[None, :]) - path.level
    return observation_losses(problem.criterion, y, zero)


def _slopes(
    criterion: PerObservation,
    y: Array,
    predictions: Array,
    corrections: CompressedCorrections,
    block: slice,
) -> Array:
    """Return the change of total losses along each direction; their errors are independent."""
    xp = namespace(y)
    error = corrections.noise(block)
    # finite differences over the size of the errors, to account for kinks and jumps of the loss
    change = observation_losses(criterion, y, predictions + error)
    change = change - observation_losses(criterion, y, predictions - error)
    slopes = xp.where(error > 0, change / xp.where(error > 0, 2 * error, 1 + error), 0 * error)
    return slopes @ corrections.directions
