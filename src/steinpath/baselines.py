"""Leaving rows out: the same path again, once per column, in the same two products per step.

Leaving row ``i`` out of the recursion is one more column in which ``u_i`` is held at 0, so that
exact leave-one-out, or K-fold cross-validation, of a whole path costs n or K columns, not n or K
runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from steinpath._arrays import Array, cast, indices, namespace
from steinpath.designs import Design
from steinpath.path import Path
from steinpath.recursion import History
from steinpath.scoring import PerObservation, observation_losses

# Columns that advance together.
_WIDTH = 256


def replay(
    path: Path, left_out: np.ndarray, kept: int | None = None, design: Design | None = None
) -> Iterator[tuple[int, Array]]:
    """Run a path's algorithm again without some of the rows.

    Parameters
    ----------
    path : Path
        The path: its step sizes, its centring and the start of its intercept are kept.
    left_out : ndarray of bool of shape (n, K)
        Rows that each column leaves out.
    kept : int, optional
        Number of rows that the loss and the steps are scaled by; all rows by default.
    design : Design, optional
        The path's design in another precision.

    Yields
    ------
    t : int
        Iteration, from 0.
    fitted : Array of shape (n, K)
        Fitted values of all rows, also those left out, less the path's ``offset``.
    """
    maps = path.maps if kept is None else path.maps.on_part(kept, path.n_samples)
    dual, primal = (_for_columns(update, maps.structured) for update in (maps.dual, maps.primal))
    design = path.design if design is None else design
    n, p = design.shape
    scale = 1 / math.sqrt(n if kept is None else kept)
    keep = design.array(~left_out)
    target = keep * design.array(scale * (path.y - path.offset))[:, None]
    mask = scale * keep
    fitted = design.zeros(*left_out.shape)
    u, v, b = [fitted], [target], [design.zeros(p, left_out.shape[1])]
    eta = [b[0]]
    yield 0, fitted
    for t in range(1, path.n_iter + 1):
        u.append(keep * dual(t, u, v))
        eta.append(design.rmatmat(u[-1]) * scale)
        b.append(primal(t, b, eta))
        fitted = design.matmat(b[-1])
        yield t, fitted
        v.append(target - mask * fitted)
        if maps.memory is not None:
            for history in (u, v, b, eta):
                del history[: -maps.memory]


Update = Callable[[int, History, History], Array]


def _for_columns(update: Update, structured: bool) -> Update:
    """Return a map of blocks of columns; a user's own is for vectors, that is, for one column."""
    if structured:
        return update

    def of_one_column(t: int, first: History, second: History) -> Array:
        value = update(t, [x[:, 0] for x in first], [x[:, 0] for x in second])
        return value[:, None]

    return of_one_column


def leave_one_out(
    path: Path, rows: np.ndarray | None = None, design: Design | None = None
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

    Returns
    -------
    Array of shape (N + 1, m)
    """
    rows = np.arange(path.n_samples) if rows is None else rows
    return leave_out(path, rows[:, None], design)[:, :, 0]


def leave_out(path: Path, groups: np.ndarray, design: Design | None = None) -> Array:
    """Predictions of groups of rows, each by the path that leaves the whole group out.

    Parameters
    ----------
    path : Path
        The path.
    groups : ndarray of int of shape (m, g)
        The rows of each group; some may be the same.
    design : Design, optional
        The path's design in another precision.

    Returns
    -------
    Array of shape (N + 1, m, g)
    """
    n, xp = path.n_samples, namespace(path.y)
    result = path.design.zeros(path.n_iter + 1, *groups.shape)
    width = _WIDTH if path.maps.structured else 1
    for start in range(0, len(groups), width):
        some = groups[start : start + width]
        columns = np.arange(len(some))[:, None]
        left_out = np.zeros((n, len(some)), dtype=bool)
        left_out[some, columns] = True
        wanted = indices((some * len(some) + columns).ravel(), path.y)
        for t, fitted in replay(path, left_out, design=design):
            values = xp.take(xp.reshape(fitted, (-1,)), wanted, axis=0)
            values = path.offset + cast(xp.reshape(values, some.shape), result.dtype)
            result[t, start : start + len(some), :] = values
    return result


@dataclass(frozen=True, eq=False)
class CrossValidated:
    """K-fold cross-validation of a whole path.

    Attributes
    ----------
    predictions : Array of shape (N + 1, n)
        Of each row, by the path of the fold that leaves it out.
    optimism : Array of shape (N + 1,)
        Burman's correction of the bias from training on fewer rows, to be added to the
        cross-validated error: the training error of the full path less the mean, over folds, of
        the error of the fold's path on all rows. Zero if it was not asked for.
    """

    predictions: Array
    optimism: Array


def cross_validate(
    path: Path,
    criterion: PerObservation,
    n_folds: int,
    rng: np.random.Generator,
    design: Design | None = None,
    burman: bool = True,
) -> CrossValidated:
    """Cross-validate a whole path in random folds of equal size, give or take a row.

    Parameters
    ----------
    path : Path
        The path.
    criterion : callable
        Test loss, for Burman's correction.
    n_folds : int
        Number of folds.
    rng : numpy.random.Generator
        Randomness of the folds.
    design : Design, optional
        The path's design in another precision.
    burman : bool, default=True
        Whether to compute the correction, for which all rows are scored by all folds.
    """
    n, N = path.n_samples, path.n_iter
    fold = rng.permutation(n) % n_folds
    sizes = np.bincount(fold, minlength=n_folds)
    design = path.design if design is None else design
    y, xp = path.y, namespace(path.y)
    predictions, optimism = path.design.zeros(N + 1, n), path.design.zeros(N + 1)
    for size in np.unique(sizes):  # the scale of a fold's loss depends on its number of rows
        left_out = fold[:, None] == np.flatnonzero(sizes == size)
        mask = path.design.array(left_out)
        for t, fitted in replay(path, left_out, n - int(size), design):
            fitted = path.offset + cast(fitted, y.dtype)
            predictions[t, :] += xp.sum(mask * fitted, axis=1)
            if burman:
                losses = observation_losses(criterion, y, fitted.T)
                optimism[t] -= xp.sum(xp.mean(losses, axis=1)) * (int(size) / n)
    for t in range(N + 1 if burman else 0):
        losses = observation_losses(criterion, path.y, path.fitted[t : t + 1, :])
        optimism[t] += xp.mean(losses)
    return CrossValidated(predictions, optimism)
