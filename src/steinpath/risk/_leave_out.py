"""Leaving rows out: the same path again, once per column, in the same two products per step.

Leaving row ``i`` out of the recursion is one more column in which ``u_i`` is held at 0, so that
exact leave-one-out, or K-fold cross-validation, of a whole path costs n or K columns, not n or K
runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from steinpath._support.arrays import Array, cast, indices, namespace, take, to_numpy
from steinpath._support.validation import check_count, check_flag, check_instance, check_rng
from steinpath.algorithms._recursion import History
from steinpath.design._designs import Design
from steinpath.engine._path import Path
from steinpath.engine._side_by_side import maps_side_by_side
from steinpath.problem._scoring import (
    PerObservation,
    TestLoss,
    check_finite,
    observation_losses,
    resolve_test_loss,
)

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
    paths: Sequence[Path],
    criterion: PerObservation,
    n_folds: int,
    rng: np.random.Generator,
    design: Design | None = None,
    burman: bool = True,
) -> list[CrossValidated]:
    """Cross-validate whole paths in random folds of equal size, give or take a row.

    Parameters
    ----------
    paths : sequence of Path
        The paths, which differ in their penalties alone. All run together.
    criterion : callable
        Test loss, for Burman's correction.
    n_folds : int
        Number of folds.
    rng : numpy.random.Generator
        Randomness of the folds.
    design : Design, optional
        The paths' design in another precision.
    burman : bool, default=True
        Whether to compute the correction, for which all rows are scored by all folds.
    """
    y, xp, design_of = paths[0].y, namespace(paths[0].y), paths[0].design
    n, T, L = paths[0].n_samples, paths[0].n_iter + 1, len(paths)
    fold = rng.permutation(n) % n_folds
    left_out = fold[:, None] == np.arange(n_folds)
    mask, shares = (design_of.array(x) for x in (left_out, left_out.mean(axis=0)))
    predictions, optimism = design_of.zeros(L, T, n), design_of.zeros(L, T)
    for columns, t, fitted in _replay_all(paths, left_out, design):
        blocks = xp.reshape(fitted, (n, L, len(columns)))
        tested = take(mask, columns, axis=1)[:, None, :]
        predictions[:, t, :] += xp.sum(tested * blocks, axis=2).T
        if burman:
            errors = xp.mean(observation_losses(criterion, y, fitted.T), axis=1)
            errors = xp.reshape(errors, (L, len(columns)))
            optimism[:, t] -= xp.sum(take(shares, columns) * errors, axis=1)
    if burman:
        optimism += xp.stack([_training_error(path, criterion) for path in paths])
    return [CrossValidated(predictions[k, ...], optimism[k, :]) for k in range(L)]


def _replay_all(
    paths: Sequence[Path], left_out: np.ndarray, design: Design | None = None
) -> Iterator[tuple[np.ndarray, int, Array]]:
    """Run paths again without some rows, the loss of each run being scaled by those it keeps.

    Yields
    ------
    columns : ndarray of int
        Which of the columns of ``left_out`` these are.
    t : int
        Iteration.
    fitted : Array of shape (n, len(paths) * len(columns))
        Fitted values of all rows, those of the first path first.
    """
    sizes = np.sum(left_out, axis=0)
    for size in np.unique(sizes):
        columns, path = np.flatnonzero(sizes == size), paths[0]
        if len(paths) > 1:
            path = replace(path, maps=maps_side_by_side(paths, len(columns)))
        without = np.tile(left_out[:, columns], len(paths))
        for t, fitted in replay(path, without, path.n_samples - int(size), design):
            yield columns, t, path.offset + cast(fitted, path.y.dtype)


def _training_error(path: Path, criterion: PerObservation) -> Array:
    xp = namespace(path.y)
    rows = range(path.n_iter + 1)
    return xp.stack(
        [xp.mean(observation_losses(criterion, path.y, path.fitted[t : t + 1, :])) for t in rows]
    )


# ------------------------------------------------------------------------------------------------
# What a user calls
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Validation:
    """Test error of every iterate, by runs that left out the rows they are tested on.

    Made by `cross_validate_path`, `leave_one_out_path` and `hold_out_path`. As an array it is its
    `values`.

    Attributes
    ----------
    values : Array of shape (n_iter + 1,)
        Mean test loss of each iterate.
    stderr : Array of shape (n_iter + 1,)
        Standard error of `values`, as if the losses of different rows were independent: too
        small, as they share most of their data.
    best_iter : int
        Iterate with the smallest test error.
    n_splits : int
        Number of runs.
    """

    values: Array
    stderr: Array
    n_splits: int

    @property
    def best_iter(self) -> int:
        """Iterate with the smallest test error."""
        return int(namespace(self.values).argmin(self.values))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of `values`."""
        return tuple(self.values.shape)

    def __repr__(self) -> str:
        best = self.best_iter
        return (
            f"<Validation of {self.shape[0]} iterates by {self.n_splits} runs: best is {best} with "
            f"{float(self.values[best]):.4g} ± {float(self.stderr[best]):.2g}>"
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(to_numpy(self.values), dtype=dtype, copy=copy)


def cross_validate_path(
    path: Path,
    cv: Any = 5,
    test_loss: TestLoss = None,
    *,
    groups: Any = None,
    burman: bool = False,
    rng: Any = None,
) -> Validation:
    """Cross-validate every iterate of a path, all splits being columns of the same products.

    Each split runs the path's algorithm, with its step sizes, centring and start of the
    intercept, on the rows it trains on.

    Parameters
    ----------
    path : Path
        What `steinpath.run` returned.
    cv : int, splitter or iterable, default=5
        A number of random folds; a splitter of scikit-learn, such as ``GroupKFold(5)``; or pairs
        of arrays of indices, of the rows to train and to test on.
    test_loss : None, str, Loss or callable, default=None
        As for `steinpath.estimate_risk`.
    groups : array-like of shape (n,), optional
        Handed to the splitter.
    burman : bool, default=False
        Correct for training on fewer rows (Burman, 1989): add the training error of the path less
        the mean, over the splits, of their errors on all rows.
    rng : None, int or numpy.random.Generator
        Randomness of the folds, if ``cv`` is their number.

    Returns
    -------
    Validation
        The mean is over all tested rows, each as often as it is tested.

    Examples
    --------
    >>> import steinpath as sp
    >>> X, y = sp.simulate.paper_model(20, noise="t2").sample(100, rng=0)
    >>> path = sp.run(X, y, sp.LAD(), sp.Lasso(0.5), n_iter=50)
    >>> sp.cross_validate_path(path, cv=10, burman=True, rng=0).values.shape
    (51,)
    """
    check_instance("path", path, Path, "sp.run(X, y, loss, penalty)")
    check_flag("burman", burman)
    path.refuse_weights()
    if not path.maps.structured:
        raise ValueError("a Recursion cannot be cross-validated; leave_one_out_path can do it")
    criterion = resolve_test_loss(test_loss, path.loss)
    splits = _splits(path, cv, groups, rng)
    n, xp = path.n_samples, namespace(path.y)
    train, test = np.zeros((n, len(splits)), dtype=bool), np.zeros((n, len(splits)))
    for k, (trained, tested) in enumerate(splits):
        train[:, k] = _counts(trained, n) > 0
        test[:, k] = _counts(tested, n)
    if not splits or not train.any(axis=0).all() or not test.any(axis=0).all():
        raise ValueError("cv must have splits, each with a row to train on, and one to test on")
    if (train & (test > 0)).any():
        raise ValueError("cv has a split that tests rows which it trains on")
    counts, total = path.design.array(test), float(test.sum())
    shares = path.design.array(test.sum(axis=0) / total)
    losses = path.design.zeros(path.n_iter + 1, n)  # of each row, summed over its tests
    optimism = path.design.zeros(path.n_iter + 1)
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
        for columns, t, fitted in _replay_all([path], ~train):
            each = observation_losses(criterion, path.y, check_finite(fitted).T)
            losses[t, :] += xp.sum(take(counts, columns, axis=1).T * each, axis=0)
            if burman:
                optimism[t] -= xp.sum(take(shares, columns) * xp.mean(each, axis=1))
        values, stderr = _mean_and_error(losses, path.design.array(test.sum(axis=1)))
        if burman:
            values = values + optimism + _training_error(path, criterion)
    return Validation(values, stderr, len(splits))


def leave_one_out_path(path: Path, test_loss: TestLoss = None) -> Validation:
    """Leave out every row in turn, exactly, for every iterate of a path.

    Parameters
    ----------
    path : Path
        What `steinpath.run` returned.
    test_loss : None, str, Loss or callable, default=None
        As for `steinpath.estimate_risk`, whose method "loo" has the same `values` and better
        standard errors.

    Returns
    -------
    Validation
    """
    check_instance("path", path, Path, "sp.run(X, y, loss, penalty)")
    path.refuse_weights()
    criterion = resolve_test_loss(test_loss, path.loss)
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
        losses = observation_losses(criterion, path.y, check_finite(leave_one_out(path)))
        values, stderr = _mean_and_error(losses, namespace(losses).ones_like(path.y))
    return Validation(values, stderr, path.n_samples)


def hold_out_path(
    path: Path, test_size: float | int = 0.25, test_loss: TestLoss = None, *, rng: Any = None
) -> Validation:
    """Hold out some rows at random, and test every iterate of a path without them.

    Parameters
    ----------
    path : Path
        What `steinpath.run` returned.
    test_size : float or int, default=0.25
        Share or number of the rows to hold out.
    test_loss : None, str, Loss or callable, default=None
        As for `steinpath.estimate_risk`.
    rng : None, int or numpy.random.Generator
        Randomness of the rows.

    Returns
    -------
    Validation
    """
    from sklearn.model_selection import ShuffleSplit

    seed = int(check_rng(rng).integers(2**31))
    split = ShuffleSplit(1, test_size=test_size, random_state=seed)
    return cross_validate_path(path, split, test_loss)


def _splits(path: Path, cv: Any, groups: Any, rng: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    from sklearn.model_selection import KFold, check_cv

    if isinstance(cv, Integral):
        cv = check_count("cv", cv, low=2, high=path.n_samples)
        cv = KFold(cv, shuffle=True, random_state=int(check_rng(rng).integers(2**31)))
    y = to_numpy(path.y)
    return list(check_cv(cv).split(np.zeros((len(y), 1)), y, groups))


def _counts(rows: Any, n: int) -> np.ndarray:
    """How often each of n rows is among some, given by their indices or a mask."""
    rows = np.asarray(rows)
    if rows.dtype == bool and rows.shape == (n,):
        rows = np.flatnonzero(rows)
    if not rows.size:
        return np.zeros(n)
    integers = rows.ndim == 1 and rows.dtype.kind in "iu"
    if not integers or np.any(rows < 0) or np.any(rows >= n):
        raise ValueError(
            f"cv must give indices from 0 to {n - 1}, or masks of {n} rows; got {rows!r:.60}"
        )
    return np.bincount(rows, minlength=n)


def _mean_and_error(losses: Array, counts: Array) -> tuple[Array, Array]:
    """Mean loss and its standard error, from sums over the tests of each row."""
    xp = namespace(losses)
    total = xp.sum(counts)
    means = xp.sum(losses, axis=1) / total
    scatter = xp.sum((losses - means[:, None] * counts) ** 2, axis=1)
    rows = float(xp.sum(cast(counts > 0, losses.dtype)))
    spread = scatter * (rows / (rows - 1)) if rows > 1 else 0 * scatter + math.inf
    return means, xp.sqrt(spread) / total
