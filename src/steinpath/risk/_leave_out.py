"""Leave-out reruns of a path, each a member of the same two products per step.

A run that leaves rows out gives them the weight zero, so exact leave-one-out, or K-fold
cross-validation, of a whole path takes n or K members instead of n or K separate runs.
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
from steinpath.engine._batch import Batch, at_a_time
from steinpath.engine._data import RunData
from steinpath.engine._loop import iterates
from steinpath.engine._path import Path

#: Maximum number of runs that advance together.
WIDTH = 256
#: Number of states that a step of a run holds at a time.
BLOCKS = 12


def predictions_without(
    batch: Batch, left_out: np.ndarray, count: Any = None, design: Design | None = None
) -> Iterator[Array]:
    """Rerun the algorithm of a batch without some of the rows, for as long as requested.

    Each run equals one on the kept rows alone: columns are centred by them, and they determine the
    initial intercept. The step sizes are those of the batch, reduced where they would not be stable
    on a part of its rows.

    Parameters
    ----------
    batch : Batch
        Paths that differ only in their penalties.
    left_out : ndarray of bool of shape (n, K)
        Rows that the runs leave out, among all rows.
    count : int or ndarray of int of shape (K,), optional
        Sample sizes in the scaling of loss and steps; all rows by default.
    design : Design, optional
        The batch's design in another precision.

    Yields
    ------
    Array of shape (n, members * K)
        Predictions minus the level of y, for all (local) rows including those left out, at each
        iteration from 0 on; those of the first path come first.
    """
    members, dtype = len(batch), batch.data.response.dtype
    # without any row there is nothing to fit or to centre by: everything stays at its initial value
    nothing = left_out.all(axis=0)
    maps, runs = _runs_without(batch, left_out & ~nothing, count, design)
    width, xp = left_out.shape[1], namespace(runs.y)
    unmoved = like(np.tile(nothing, members), batch.data.response) > 0
    del batch  # its states may take much memory, while these runs may take long
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
    """Return the maps and the data of reruns: all of them for each path, or one each."""
    data, members = batch.data, 1 if one_each else len(batch)
    if design is not None:
        data = replace(data, design=design)
    if isinstance(count, np.ndarray) and np.all(count == count[0]):
        count = int(count[0])
    runs = data.without(left_out, count, members)
    return batch.maps.for_rows(runs.rows, 1 if one_each else left_out.shape[1]), runs


class LeftOutModels(NamedTuple):
    """Models that were fitted without some of the rows.

    Attributes
    ----------
    coef : ndarray of shape (K, p)
    intercept : ndarray of shape (K,)
    predictions : ndarray of shape (n, K)
        Predictions of all (local) rows by each model.
    """

    coef: np.ndarray
    intercept: np.ndarray
    predictions: np.ndarray


def models_without(batch: Batch, train: np.ndarray, at: Sequence[int]) -> LeftOutModels:
    """Fit each member k of the batch to the rows in column k.

    Parameters
    ----------
    batch : Batch
        K paths that differ only in their penalties.
    train : ndarray of bool of shape (n, K)
        Training rows of each member.
    at : sequence of int of length K
        Iteration of each model.
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
    """Fit some of the models and store the results."""
    maps, runs = _runs_without(batch, ~train, train.sum(axis=0), one_each=True)
    p, level, K = batch.n_features, float(batch.data.level[0]), len(at)
    offsets = np.zeros(K) if runs.offset is None else to_numpy(runs.offset)
    coef, products = [runs.y] * K, [runs.y] * K  # placeholders
    for t, (b, fitted) in enumerate(islice(iterates(maps, runs, K), max(at) + 1)):
        for k in (k for k in range(K) if at[k] == t):
            coef[k], products[k] = copied(b[:, k]), copied(fitted[:, k])
    # a copy to the host synchronises with the device: copy all models at once
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
    """Return predictions of some rows, each by the path that leaves it out.

    Parameters
    ----------
    path : Path
        Path.
    rows : ndarray of int of shape (m,), optional
        Rows; all n by default.
    design : Design, optional
        The path's design in another precision.
    width : int, optional
        Number of runs that advance together.

    Returns
    -------
    Array of shape (N + 1, m)
        Predictions minus the level of y.
    """
    rows = np.arange(path.n_samples) if rows is None else rows
    return leave_out(path, rows[:, None], design, width)[:, :, 0]


def leave_out(
    path: Path, groups: np.ndarray, design: Design | None = None, width: int = WIDTH
) -> Array:
    """Return predictions of groups of rows, each by the path that leaves the whole group out.

    Parameters
    ----------
    path : Path
        Path.
    groups : ndarray of int of shape (m, g)
        Rows of each group, possibly with repetitions.
    design : Design, optional
        The path's design in another precision.
    width : int, optional
        Number of runs that advance together.

    Returns
    -------
    Array of shape (N + 1, m, g)
        Predictions minus the level of y.
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
        # local rows
        which, where = path.design.places(some.ravel())
        wanted = indices(where * len(some) + which // some.shape[1], path.y)
        for t, fitted in enumerate(runs):
            values = xp.take(xp.reshape(fitted, (-1,)), wanted, axis=0)
            if len(which) == some.size:
                result[t, start : start + len(some), :] = xp.reshape(values, some.shape)
            else:
                result[t, start + which // some.shape[1], which % some.shape[1]] = values
    return path.design.over_rows(result)
