"""Cross-validation of whole paths; the runs of all splits are members of the same products."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from steinpath._support.arrays import (
    Array,
    group_sums,
    like,
    namespace,
    root_sum_of_squares,
    scattered_sums,
    to_numpy,
    units_of,
)
from steinpath.design._base import Design
from steinpath.engine._batch import Batch
from steinpath.engine._path import Path
from steinpath.problem._scoring import PerObservation, check_finite, observation_losses
from steinpath.risk._leave_out import predictions_without
from steinpath.risk._splits import Splits

# Number of predictions that are scored at a time.
_SCORED = 2**16


@dataclass(frozen=True, eq=False)
class CrossValidated:
    """Cross-validation of a whole path.

    Attributes
    ----------
    predictions : Array of shape (N + 1, n) or None
        Prediction of each row by the path of the split that tests it; the mean if several splits
        test it, and 0 if none does.
    losses : Array of shape (N + 1, n) or None
        Loss of each row, summed over its tests, if requested.
    optimism : Array of shape (N + 1,)
        Burman's correction for training on fewer rows, to be added to the cross-validated error:
        the training error of the full path minus the mean, over splits, of the error of the split's
        path on all rows. Zero if it was not requested.
    """

    predictions: Any
    losses: Any
    optimism: Array
    #: Training error of the full path, if the correction needed it.
    train: Any = None


def cross_validate(batch: Batch, *arguments: Any, **options: Any) -> list[CrossValidated]:
    """Cross-validate whole paths; the arguments are those of `FoldRuns`."""
    return FoldRuns(batch, *arguments, **options).extended(batch)


class FoldRuns:
    """Runs of all splits of some paths, which can be extended with the paths.

    Parameters
    ----------
    batch : Batch
        Paths that differ only in their penalties. All run together.
    criterion : callable
        Scoring loss, for Burman's correction and the losses.
    splits : Splits
        Training and test rows.
    design : Design, optional
        The paths' design in another precision.
    burman : bool, default=True
        Whether to compute the correction, which requires scoring all rows in all splits.
    with_losses : bool, default=False
        Whether to sum the losses of each row over its tests, in addition to the predictions.
    """

    def __init__(
        self,
        batch: Batch,
        criterion: PerObservation,
        splits: Splits,
        design: Design | None = None,
        burman: bool = True,
        with_losses: bool = False,
    ):
        self.splits = splits
        self._criterion, self._burman, self._with_losses = criterion, burman, with_losses
        self._runs = predictions_without(batch, ~splits.train, splits.train.sum(axis=0), design)
        self._known: _Steps | None = None

    def extended(self, batch: Batch) -> list[CrossValidated]:
        """Extend the runs to the length of the paths.

        Parameters
        ----------
        batch : Batch
            The same paths, possibly longer than before.
        """
        xp, known = namespace(batch.data.y), self._known
        missing = batch.n_iter + 1 - (0 if known is None else known.predictions.shape[1])
        if missing:
            new = self._next(batch, missing)
            if known is not None:
                new = known.and_then(new)
            known = self._known = new
        assert known is not None
        optimism, train = known.errors, None
        if self._burman:
            train = [mean_losses(path, self._criterion) for path in batch]
            optimism = xp.stack(train) - optimism
        return [
            CrossValidated(
                known.predictions[k, ...],
                None if known.losses is None else known.losses[k, ...],
                optimism[k, :],
                None if train is None else train[k],
            )
            for k in range(len(batch))
        ]

    def _next(self, batch: Batch, steps: int) -> _Steps:
        """Run the given number of steps; see `_Steps`."""
        data, splits, L, K = batch.data, self.splits, len(batch), self.splits.n_splits
        y, xp, n = data.response[:, 0], namespace(data.y), data.design.shape[0]
        own = splits.of_rows(data.design.local)
        average = _averaging(own, y)
        shares = like(splits.test.sum(axis=0) / splits.test.sum(), y)
        counts = like(own.test.T, y)[None, ...]
        predictions, sums = data.design.zeros(L, steps, n), data.design.zeros(L, steps, K)
        losses = data.design.zeros(L, steps, n) if self._with_losses else None
        for t, fitted in enumerate(islice(self._runs, steps)):
            predictions[:, t, :] = average(xp.reshape(fitted, (n, L, K))).T
            if losses is None and not self._burman:
                continue
            tested = check_finite(fitted) if self._with_losses else fitted
            each = observation_losses(self._criterion, y, tested.T)
            if losses is not None:
                losses[:, t, :] = xp.sum(counts * xp.reshape(each, (L, K, n)), axis=1)
            if self._burman:
                sums[:, t, :] = xp.reshape(xp.sum(each, axis=1), (L, K))
        if self._burman:
            sums = data.design.over_rows(sums)
        errors = xp.sum(shares * (sums / batch.n_samples), axis=2)
        return _Steps(predictions, errors, losses)


class _Steps(NamedTuple):
    """Results of several steps of all runs.

    Attributes
    ----------
    predictions : Array of shape (paths, steps, n)
        Predictions by the splits that test the rows.
    errors : Array of shape (paths, steps)
        Errors of the runs on all rows, averaged over the splits; zero if they are not needed.
    losses : Array of shape (paths, steps, n) or None
        Sums over the tests of each row.
    """

    predictions: Array
    errors: Array
    losses: Array | None

    def and_then(self, later: _Steps) -> _Steps:
        """Append later steps."""
        xp, pairs = namespace(self.errors), zip(self, later, strict=True)
        return _Steps(*(None if x is None else xp.concat([x, y], axis=1) for x, y in pairs))


def _averaging(splits: Splits, y: Array) -> Callable[[Array], Array]:
    """Return a function that averages predictions (n, paths, K) over the splits that test them."""
    fold, xp = splits.fold, namespace(y)
    if fold is not None and isinstance(y, np.ndarray):  # selecting is much faster than averaging
        places = np.broadcast_to(fold[:, None, None], (len(fold), 1, 1))
        return lambda fitted: np.take_along_axis(fitted, places, axis=2)[:, :, 0]
    tests = splits.test.sum(axis=1)
    mask = like(splits.test / np.maximum(tests, 1)[:, None], y)[:, None, :]
    return lambda fitted: xp.sum(mask * fitted, axis=2)


def mean_losses(path: Path, criterion: PerObservation) -> Array:
    """Return the training error of each iterate."""
    y, xp, n = path.response, namespace(path.y), path.n_samples
    length = max(1, _SCORED // n)
    pieces = []
    for start in range(0, path.n_iter + 1, length):
        values = path.products_at(slice(start, min(start + length, path.n_iter + 1)))
        losses = observation_losses(criterion, y, values)
        pieces.append(xp.sum(losses, axis=1))
    return path.design.over_rows(xp.concat(pieces)) / n


def mean_and_error(
    losses: Array,
    counts: Array,
    groups: np.ndarray | None = None,
    design: Design | None = None,
) -> tuple[Array, Array]:
    """Return the mean loss and its standard error, from sums over the tests of each row.

    Parameters
    ----------
    losses : Array of shape (T, n)
        Sums of losses.
    counts : Array of shape (n,)
        Number of tests of each row.
    groups : ndarray of int of shape (n,), optional
        Group of each row, over all rows. Losses within a group are dependent; without groups all
        are treated as independent.
    design : Design, optional
        Design that holds the rows, if some are not local.
    """
    xp = namespace(losses)
    if design is not None and not design.is_whole:
        return _mean_and_error_of_all(losses, counts, groups, design)
    total = xp.sum(counts)
    means = xp.sum(losses, axis=1) / total
    gaps, tested = losses - means[:, None] * counts, to_numpy(counts) > 0
    if groups is not None:
        gaps, tested = group_sums(gaps, groups), np.bincount(groups, tested) > 0
    spread, units = root_sum_of_squares(gaps, axis=1), int(tested.sum())
    return means, _relative_to(spread, units) / total


def _mean_and_error_of_all(
    losses: Array, counts: Array, groups: np.ndarray | None, design: Design
) -> tuple[Array, Array]:
    """Do the same as `mean_and_error` if some rows are not local."""
    sums = np.concatenate([losses.sum(axis=1), [counts.sum(), np.count_nonzero(counts)]])
    *sums, total, units = design.over_rows(sums.astype(float))
    means = np.asarray(sums) / total
    gaps = losses - means[:, None] * counts
    if groups is None:
        unit = units_of(np.abs(means) + np.asarray(design.over_rows(np.abs(gaps).sum(axis=1))))
        spread = unit * np.sqrt(design.over_rows(((gaps / unit[:, None]) ** 2).sum(axis=1)))
        return means, _relative_to(spread, int(units)) / total
    tested = np.concatenate([gaps, (counts > 0)[None, :]])
    sums = design.over_rows(scattered_sums(tested, design.local(groups), int(groups.max()) + 1))
    spread = root_sum_of_squares(sums[:-1], axis=1)
    return means, _relative_to(spread, int(np.count_nonzero(sums[-1]))) / total


def _relative_to(spread: Array, units: int) -> Array:
    """Rescale a spread about the mean of ``units`` units to that about the true mean."""
    return spread * math.sqrt(units / (units - 1)) if units > 1 else 0 * spread + math.inf
