"""Leaving rows out: the same path again, each run a member of the same two products per step.

A run that leaves rows out is one whose rows have the weight zero, so that exact leave-one-out, or
K-fold cross-validation, of a whole path is n or K members, not n or K runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from steinpath._support.arrays import (
    Array,
    cast,
    copied,
    indices,
    like,
    namespace,
    to_numpy,
)
from steinpath.algorithms._base import Maps
from steinpath.design._base import Design
from steinpath.design._transformed import InterceptDesign
from steinpath.engine._batch import Batch
from steinpath.engine._data import RunData
from steinpath.engine._deferred import at_a_time
from steinpath.engine._loop import iterates
from steinpath.engine._path import Path

#: Runs that advance together, at most.
WIDTH = 256
#: States that a step of a run has at a time.
BLOCKS = 12


def predictions_without(
    batch: Batch, left_out: np.ndarray, count: Any = None, design: Design | None = None
) -> Iterator[Array]:
    """Run the algorithm of a batch again without some of the rows, as long as it is asked to.

    Each run is that of a user who never had the rows: columns are centred by those that are kept,
    and so is the start of the intercept. The step sizes are those of the batch, made smaller where
    they would not be safe for a part of its rows.

    Parameters
    ----------
    batch : Batch
        The paths, which differ in their penalties alone.
    left_out : ndarray of bool of shape (n, K)
        Rows that the runs leave out, of all rows.
    count : int or ndarray of int of shape (K,), optional
        Sample sizes that the loss and the steps are scaled by; that of all rows by default.
    design : Design, optional
        The batch's design in another precision.

    Yields
    ------
    Array of shape (n, members * K)
        Predictions, less the level of y, of all rows (that are here), also those left out, by each
        iterate from 0 on: those of the first path first.
    """
    members, dtype = len(batch), batch.data.response.dtype
    # without any row there is nothing to learn from, nor to centre by: all stays as at the start
    nothing = left_out.all(axis=0)
    maps, runs = _runs_without(batch, left_out & ~nothing, count, design)
    width, xp = left_out.shape[1], namespace(runs.y)
    unmoved = like(np.tile(nothing, members), batch.data.response) > 0
    del batch  # whose states may take much memory, while these runs may go on for long
    for _, fitted in iterates(maps, runs, members * width):
        predictions = fitted if runs.offset is None else fitted + runs.offset
        predictions = cast(predictions, dtype)
        yield xp.where(unmoved, 0 * predictions, predictions) if nothing.any() else predictions


def _runs_without(
    batch: Batch,
    left_out: np.ndarray,
    count: Any = None,
    design: Design | None = None,
    one_each: bool = False,
) -> tuple[Maps, RunData]:
    """Return the maps and the data of runs without rows: all of them for each path, or one each."""
    data, members = batch.data, 1 if one_each else len(batch)
    if design is not None:
        data = replace(data, design=design)
    if isinstance(count, np.ndarray) and np.all(count == count[0]):
        count = int(count[0])
    runs = data.without(left_out, count, members)
    return batch.maps.on(runs.rows, 1 if one_each else left_out.shape[1]), runs


class LeftOutModels(NamedTuple):
    """Models that were fitted without some of the rows.

    Attributes
    ----------
    coef : ndarray of shape (K, p)
    intercept : ndarray of shape (K,)
    predictions : ndarray of shape (n, K)
        Of all rows (that are here), by each model.
    """

    coef: np.ndarray
    intercept: np.ndarray
    predictions: np.ndarray


def models_without(batch: Batch, train: np.ndarray, at: Sequence[int]) -> LeftOutModels:
    """Fit models to some of the rows each: member k of the batch to those in column k.

    Parameters
    ----------
    batch : Batch
        K paths, which differ in their penalties alone.
    train : ndarray of bool of shape (n, K)
        The rows that each is fitted to.
    at : sequence of int of length K
        Which of its iterates each model is.
    """
    n, p = batch.data.design.shape[0], batch.n_features
    found = LeftOutModels(np.zeros((len(at), p)), np.zeros(len(at)), np.zeros((n, len(at))))
    width = at_a_time(batch, BLOCKS)
    for start in range(0, len(at), width):
        some = slice(start, start + width)
        members = range(len(at))[some]
        part = LeftOutModels(found.coef[some], found.intercept[some], found.predictions[:, some])
        _fit_models(batch.part(list(members)), train[:, some], at[some], part)
    return found


def _fit_models(batch: Batch, train: np.ndarray, at: Sequence[int], found: LeftOutModels) -> None:
    """Fit some of the models, and fill them in."""
    maps, runs = _runs_without(batch, ~train, train.sum(axis=0), one_each=True)
    p, level, K = batch.n_features, float(batch.data.level[0]), len(at)
    offsets = np.zeros(K) if runs.offset is None else to_numpy(runs.offset)
    coef, products = [runs.y] * K, [runs.y] * K  # to be filled in
    for t, (b, fitted) in enumerate(islice(iterates(maps, runs, K), max(at) + 1)):
        for k in (k for k in range(K) if at[k] == t):
            coef[k], products[k] = copied(b[:, k]), copied(fitted[:, k])
    # a copy to the host waits for the device: one of all models, in place of one of each
    xp = namespace(runs.y)
    every = xp.stack(coef)
    found.coef[...] = to_numpy(every[:, :p])
    found.intercept[...] = level + offsets
    found.predictions[...] = to_numpy(xp.stack(products, axis=1)) + (level + offsets)
    if isinstance(runs.design, InterceptDesign):
        found.intercept[...] += to_numpy(runs.design.own_intercepts(every))


def leave_one_out(
    path: Path,
    rows: np.ndarray | None = None,
    design: Design | None = None,
    width: int = WIDTH,
) -> Array:
    """Predictions of some rows, each by the path that leaves it out.

    Parameters
    ----------
    path : Path
        The path.
    rows : ndarray of int of shape (m,), optional
        The rows; all n of them by default.
    design : Design, optional
        The path's design in another precision.
    width : int, optional
        How many runs advance together.

    Returns
    -------
    Array of shape (N + 1, m)
        Less the level of y.
    """
    rows = np.arange(path.n_samples) if rows is None else rows
    return leave_out(path, rows[:, None], design, width)[:, :, 0]


def leave_out(
    path: Path, groups: np.ndarray, design: Design | None = None, width: int = WIDTH
) -> Array:
    """Predictions of groups of rows, each by the path that leaves the whole group out.

    Parameters
    ----------
    path : Path
        The path.
    groups : ndarray of int of shape (m, g)
        The rows of each group; some may be the same.
    design : Design, optional
        The path's design in another precision.
    width : int, optional
        How many runs advance together.

    Returns
    -------
    Array of shape (N + 1, m, g)
        Less the level of y.
    """
    n, xp, batch = path.n_samples, namespace(path.y), Batch.of(path)
    result = path.design.zeros(path.n_iter + 1, *groups.shape)
    width = min(width, at_a_time(batch, BLOCKS)) if path.maps.structured else 1
    for start in range(0, len(groups), width):
        some = groups[start : start + width]
        columns = np.arange(len(some))[:, None]
        left_out = np.zeros((n, len(some)), dtype=bool)
        left_out[some, columns] = True
        runs = islice(predictions_without(batch, left_out, design=design), path.n_iter + 1)
        # of the rows that are here
        which, where = path.design.places(some.ravel())
        wanted = indices(where * len(some) + which // some.shape[1], path.y)
        for t, fitted in enumerate(runs):
            values = xp.take(xp.reshape(fitted, (-1,)), wanted, axis=0)
            if len(which) == some.size:
                result[t, start : start + len(some), :] = xp.reshape(values, some.shape)
            else:
                result[t, start + which // some.shape[1], which % some.shape[1]] = values
    return path.design.over_rows(result)
