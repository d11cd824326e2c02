"""Leaving rows out: the same path again, each run a member of the same two products per step.

A run that leaves rows out is one whose rows have the weight zero, so that exact leave-one-out, or
K-fold cross-validation, of a whole path is n or K members, not n or K runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from steinpath._support.arrays import (
    Array,
    cast,
    indices,
    like,
    namespace,
    root_sum_of_squares,
    to_numpy,
)
from steinpath._support.printing import with_error
from steinpath._support.reading import read_array
from steinpath._support.validation import (
    check_count,
    check_flag,
    check_instance,
    check_rng,
    shown,
)
from steinpath.design._base import Design
from steinpath.engine._batch import Batch
from steinpath.engine._deferred import at_a_time
from steinpath.engine._loop import fitted_values
from steinpath.engine._path import Path
from steinpath.problem._scoring import (
    PerObservation,
    TestLoss,
    about_level,
    check_finite,
    observation_losses,
    resolve_test_loss,
)

#: Runs that advance together, at most.
WIDTH = 256
#: States that a step of a run has at a time.
BLOCKS = 12
# Predictions that are scored at a time.
_SCORED = 2**16


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
        Rows that the runs leave out.
    count : int or ndarray of int of shape (K,), optional
        Sample sizes that the loss and the steps are scaled by; that of all rows by default.
    design : Design, optional
        The batch's design in another precision.

    Yields
    ------
    Array of shape (n, members * K)
        Predictions, less the level of y, of all rows, also those left out, by each iterate from 0
        on: those of the first path first.
    """
    data, members, dtype = batch.data, len(batch), batch.data.response.dtype
    if design is not None:
        data = replace(data, design=design)
    if isinstance(count, np.ndarray) and np.all(count == count[0]):
        count = int(count[0])
    # without any row there is nothing to learn from, nor to centre by: all stays as at the start
    nothing = left_out.all(axis=0)
    runs = data.without(left_out & ~nothing, count, members)
    width, xp = left_out.shape[1], namespace(data.y)
    maps = batch.maps.on(runs.rows, width)
    unmoved = like(np.tile(nothing, members), batch.data.response) > 0
    del batch  # whose states may take much memory, while these runs may go on for long
    for fitted in fitted_values(maps, runs, members * width):
        predictions = fitted if runs.offset is None else fitted + runs.offset
        predictions = cast(predictions, dtype)
        yield xp.where(unmoved, 0 * predictions, predictions) if nothing.any() else predictions


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
        wanted = indices((some * len(some) + columns).ravel(), path.y)
        runs = predictions_without(batch, left_out, design=design)
        for t, fitted in enumerate(islice(runs, path.n_iter + 1)):
            values = xp.take(xp.reshape(fitted, (-1,)), wanted, axis=0)
            result[t, start : start + len(some), :] = xp.reshape(values, some.shape)
    return result


class Splits(NamedTuple):
    """Which rows each run trains on, and how often it is tested on each.

    Attributes
    ----------
    train : ndarray of bool of shape (n, K)
    test : ndarray of shape (n, K)
    """

    train: np.ndarray
    test: np.ndarray

    @property
    def fold(self) -> np.ndarray | None:
        """Which run tests each row, if each is tested once; otherwise None."""
        once = bool(np.all(self.test.sum(axis=1) == 1) and np.all(self.test.max(axis=1) == 1))
        return self.test.argmax(axis=1) if once else None


def random_folds(batch: Batch, n_folds: int, rng: np.random.Generator) -> Splits:
    """Return random folds of equal size, give or take a row.

    They do not depend on the order of the rows: the same rows are together, wherever they are.
    """
    fold = (rng.permutation(batch.n_samples) % n_folds)[_ranks(batch)]
    left_out = fold[:, None] == np.arange(n_folds)
    return Splits(~left_out, left_out.astype(float))


def _ranks(batch: Batch) -> np.ndarray:
    """Return the place of each row in an order that depends on the rows alone."""
    design, y = batch.data.design, to_numpy(batch.data.response[:, 0])
    direction = design.array(np.random.default_rng(0).standard_normal(design.shape[1]))
    along = to_numpy(design.member(0).forward(direction))
    # rounding is not to tell rows apart: those that differ by no more are as good as the same
    along = np.round(along / (np.abs(along).max() or 1.0), 6)
    ranks = np.empty(len(y), dtype=int)
    ranks[np.lexsort((along, y))] = np.arange(len(y))
    return ranks


@dataclass(frozen=True, eq=False)
class CrossValidated:
    """Cross-validation of a whole path.

    Attributes
    ----------
    predictions : Array of shape (N + 1, n) or None
        Of each row, by the path of the split that tests it; the mean, if there are several.
    losses : Array of shape (N + 1, n) or None
        Of each row, summed over its tests, if they were asked for in place of the predictions.
    optimism : Array of shape (N + 1,)
        Burman's correction of the bias from training on fewer rows, to be added to the
        cross-validated error: the training error of the full path less the mean, over splits, of
        the error of the split's path on all rows. Zero if it was not asked for.
    """

    predictions: Any
    losses: Any
    optimism: Array
    #: Training error of the full path, where the correction needed it.
    train: Any = None


def cross_validate(batch: Batch, *arguments: Any, **options: Any) -> list[CrossValidated]:
    """Cross-validate whole paths; the arguments are those of `FoldRuns`."""
    return FoldRuns(batch, *arguments, **options).extended(batch)


class FoldRuns:
    """The runs of all splits of some paths, which go on when the paths do.

    Parameters
    ----------
    batch : Batch
        The paths, which differ in their penalties alone. All run together.
    criterion : callable
        Test loss, for Burman's correction and the losses.
    splits : Splits
        What to train and to test on.
    design : Design, optional
        The paths' design in another precision.
    burman : bool, default=True
        Whether to compute the correction, for which all rows are scored by all splits.
    with_losses : bool, default=False
        Whether to sum the losses of each row over its tests, in place of keeping the predictions.
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
        self._criterion, self._splits = criterion, splits
        self._burman, self._with_losses = burman, with_losses
        self._runs = predictions_without(batch, ~splits.train, splits.train.sum(axis=0), design)
        zeros = batch.data.design.zeros
        self._wanted, self._errors = zeros(len(batch), 0, batch.n_samples), zeros(len(batch), 0)

    def extended(self, batch: Batch) -> list[CrossValidated]:
        """Go on until the runs are as long as the paths.

        Parameters
        ----------
        batch : Batch
            The same paths, which may be longer than before.
        """
        xp = namespace(batch.data.y)
        if batch.n_iter + 1 > self._wanted.shape[1]:
            wanted, errors = self._next(batch, batch.n_iter + 1 - self._wanted.shape[1])
            if self._wanted.shape[1]:
                wanted = xp.concat([self._wanted, wanted], axis=1)
                errors = xp.concat([self._errors, errors], axis=1)
            self._wanted, self._errors = wanted, errors
        optimism, train = self._errors, None
        if self._burman:
            train = [mean_losses(path, self._criterion) for path in batch]
            optimism = xp.stack(train) - optimism
        predictions, losses = self._wanted, None
        if self._with_losses:
            predictions, losses = None, self._wanted
        return [
            CrossValidated(
                None if predictions is None else predictions[k, ...],
                None if losses is None else losses[k, ...],
                optimism[k, :],
                None if train is None else train[k],
            )
            for k in range(len(batch))
        ]

    def _next(self, batch: Batch, steps: int) -> tuple[Array, Array]:
        """Run so many steps; return predictions (or losses) by test folds, and errors on all rows.

        The errors are means over the splits, and zero if they are of no use.
        """
        data, splits, L, K = batch.data, self._splits, len(batch), self._splits.train.shape[1]
        y, xp, n = data.response[:, 0], namespace(data.y), batch.n_samples
        average = _averaging(splits, y)
        shares = like(splits.test.sum(axis=0) / splits.test.sum(), y)
        counts = like(splits.test.T, y)[None, ...]
        wanted, errors = data.design.zeros(L, steps, n), data.design.zeros(L, steps)
        for t, fitted in enumerate(islice(self._runs, steps)):
            each = None
            if self._with_losses or self._burman:
                tested = check_finite(fitted) if self._with_losses else fitted
                each = observation_losses(self._criterion, y, tested.T)
            if self._with_losses:
                wanted[:, t, :] = xp.sum(counts * xp.reshape(each, (L, K, n)), axis=1)
            else:
                wanted[:, t, :] = average(xp.reshape(fitted, (n, L, K))).T
            if self._burman:
                means = xp.reshape(xp.mean(each, axis=1), (L, K))
                errors[:, t] = xp.sum(shares * means, axis=1)
        return wanted, errors


def _averaging(splits: Splits, y: Array) -> Callable[[Array], Array]:
    """Return a function of predictions (n, paths, K) by all splits: the mean of those that test."""
    fold, xp = splits.fold, namespace(y)
    if fold is not None and isinstance(y, np.ndarray):  # picking is much faster than a mean
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
        pieces.append(path.design.over_rows(xp.sum(losses, axis=1)) / n)
    return xp.concat(pieces)


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
            f"{with_error(float(self.values[best]), float(self.stderr[best]))}>"
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

    Each split runs the path's algorithm on the rows it trains on: they alone centre the columns,
    and say where the intercept starts. Step sizes are the path's, made smaller where they would not
    be safe for a part of the rows: `ChambollePock`'s with less than three quarters of them,
    `HalpernPDHG`'s always.

    Parameters
    ----------
    path : Path
        What `steinpath.run` returned.
    cv : int, splitter or iterable, default=5
        A number of random folds; a splitter of scikit-learn, such as ``GroupKFold(5)``; or pairs
        of arrays of indices, of the rows to train and to test on. A split trains on each row at
        most once.
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
    criterion = about_level(resolve_test_loss(test_loss, path.loss), path.y, path.level)
    splits = _splits(path, cv, groups, rng)
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
        (found,) = cross_validate(
            Batch.of(path), criterion, splits, burman=burman, with_losses=True
        )
        values, stderr = _mean_and_error(found.losses, path.design.array(splits.test.sum(axis=1)))
    return Validation(values + found.optimism, stderr, splits.train.shape[1])


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
    criterion = about_level(resolve_test_loss(test_loss, path.loss), path.y, path.level)
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
        losses = observation_losses(criterion, path.response, check_finite(leave_one_out(path)))
        values, stderr = _mean_and_error(losses, namespace(losses).ones_like(path.response))
    return Validation(values, stderr, path.n_samples)


def hold_out_path(
    path: Path, test_size: Any = 0.25, test_loss: TestLoss = None, *, rng: Any = None
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

    if not isinstance(test_size, Real) or math.isnan(test_size):
        raise ValueError(
            "test_size must be a share of the rows, between 0 and 1, or a number of them; got "
            f"{shown(test_size)}"
        )
    seed = int(check_rng(rng).integers(2**31))
    split = ShuffleSplit(1, test_size=test_size, random_state=seed)
    return cross_validate_path(path, split, test_loss)


def _splits(path: Path, cv: Any, groups: Any, rng: Any) -> Splits:
    """Return the splits that a user asked for, checked."""
    from sklearn.model_selection import KFold, check_cv

    if isinstance(cv, Integral):
        cv = check_count("cv", cv, low=2, high=path.n_samples)
        cv = KFold(cv, shuffle=True, random_state=int(check_rng(rng).integers(2**31)))
    if isinstance(cv, type):
        raise TypeError(f"cv is the class {cv.__name__}; pass an instance")
    if isinstance(cv, str | bytes | bytearray):  # which have a method `split`, too
        raise TypeError(f"cv must be a number of folds, a splitter or pairs; got {shown(cv)}")
    y, n = to_numpy(path.y), path.n_samples
    if isinstance(cv, Iterable) and not hasattr(cv, "split"):
        pairs = list(cv)
    else:  # y is copied: a splitter of the user's own may change it
        pairs = list(check_cv(cv).split(np.zeros((n, 1)), y.copy(), groups))
    train, test = np.zeros((n, len(pairs)), dtype=bool), np.zeros((n, len(pairs)))
    for k, pair in enumerate(pairs):
        if not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
            raise ValueError(
                "cv must give pairs of arrays, of the rows to train and to test on; got "
                f"{shown(pair)}"
            )
        trained = _counts(pair[0], n)
        if (trained > 1).any():
            raise ValueError(
                f"split {k} of cv trains on row {trained.argmax()} more than once; give each row "
                "once: resampling with replacement (a bootstrap) is not supported"
            )
        train[:, k], test[:, k] = trained > 0, _counts(pair[1], n)
    if not pairs or not train.any(axis=0).all() or not test.any(axis=0).all():
        raise ValueError("cv must have splits, each with a row to train on, and one to test on")
    if (train & (test > 0)).any():
        raise ValueError("cv has a split that tests rows which it trains on")
    return Splits(train, test)


def _counts(rows: Any, n: int) -> np.ndarray:
    """How often each of n rows is among some, given by their indices or a mask."""
    masked = isinstance(rows, np.ma.MaskedArray)
    rows = read_array("cv", rows if isinstance(rows, Sequence) else to_numpy(rows))
    if rows.dtype == bool and rows.shape == (n,):
        rows = np.flatnonzero(rows)
    if rows.shape == (0,):
        return np.zeros(n)
    integers = rows.ndim == 1 and rows.dtype.kind in "iu" and not masked
    if not integers or np.any(rows < 0) or np.any(rows >= n):
        raise ValueError(
            f"cv must give indices from 0 to {n - 1}, or masks of {n} rows; got {shown(rows)}"
        )
    return np.bincount(rows.astype(np.intp), minlength=n)


def _mean_and_error(losses: Array, counts: Array) -> tuple[Array, Array]:
    """Mean loss and its standard error, from sums over the tests of each row."""
    xp = namespace(losses)
    total = xp.sum(counts)
    means = xp.sum(losses, axis=1) / total
    spread = root_sum_of_squares(losses - means[:, None] * counts, axis=1)
    rows = float(xp.sum(cast(counts > 0, losses.dtype)))
    spread = spread * math.sqrt(rows / (rows - 1)) if rows > 1 else 0 * spread + math.inf
    return means, spread / total
