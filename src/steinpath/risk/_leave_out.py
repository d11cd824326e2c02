"""Leave-out reruns of a path, each a member of the same two products per step.

A run that leaves rows out gives them the weight zero, so exact leave-one-out, or K-fold
cross-validation, of a whole path takes n or K members instead of n or K separate runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import islice
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from steinpath._support.arrays import (
    Array,
    cast,
    clip,
    copied,
    first_minimum,
    indices,
    like,
    namespace,
    take,
    to_numpy,
)
from steinpath._support.printing import with_error
from steinpath._support.validation import check_flag, check_instance, check_rng, is_own, shown
from steinpath.design._base import Design
from steinpath.design._transformed import InterceptDesign, sums_of_weights
from steinpath.engine._batch import Batch, at_a_time
from steinpath.engine._loop import Histories, beginning, iterates
from steinpath.engine._path import Path
from steinpath.problem._scoring import (
    Criterion,
    PerObservation,
    TestLoss,
    about_level,
    at_least_zero,
    check_finite,
    observation_losses,
    resolve_test_loss,
)
from steinpath.risk._held_out import HeldOut, RowSample
from steinpath.risk._splits import Splits, check_groups, read_splits

#: Maximum number of runs that advance together.
WIDTH = 256
#: Number of states that a step of a run holds at a time.
BLOCKS = 12
# Number of predictions that are scored at a time.
_SCORED = 2**16


class LeftOutRuns(Iterator[Array]):
    """Runs of paths that differ only in their penalties, without the rows in columns (n, K).

    Each run equals one on the kept rows alone, with the step sizes of the batch, reduced where they
    would not be stable on a part of its rows. ``count`` are the sample sizes in the scaling of loss
    and steps, all rows by default; ``design`` may be that of the batch in another precision.
    Yields predictions (n, members * K) of all local rows, minus the level of y, from iteration 0,
    in the precision of the design.
    """

    def __init__(
        self,
        batch: Batch,
        left_out: np.ndarray,
        count: Any = None,
        design: Design | None = None,
        past: Histories | None = None,
        known: int = 0,
    ):
        # the states of the batch may take much memory, while these runs may take long
        self._batch, self._rows = batch.unmoved(), (left_out, count, design)
        # without any row there is nothing to fit or to centre by: everything stays as it was
        self._nothing = left_out.all(axis=0)
        data = batch.data if design is None else replace(batch.data, design=design)
        self._data = data.without(left_out & ~self._nothing, _common(count), len(batch))
        width = left_out.shape[1]
        self._past = beginning(self._data, len(batch) * width) if past is None else past
        self._known = known
        maps = batch.maps.for_rows(self._data.rows, width)
        self._steps = iterates(maps, self._data, self._past, known)

    def __next__(self) -> Array:
        _, fitted = next(self._steps)
        self._known += 1
        offset = self._data.offset
        predictions = fitted if offset is None else fitted + offset
        if not self._nothing.any():
            return predictions
        unmoved = like(np.tile(self._nothing, len(self._batch)), predictions) > 0
        return namespace(predictions).where(unmoved, 0 * predictions, predictions)

    def some(self, members: Sequence[int]) -> LeftOutRuns:
        """Return the runs of some members, which continue where these ended."""
        self._steps.close()
        width = self._rows[0].shape[1]
        columns = (width * np.array(members)[:, None] + np.arange(width)).ravel()
        past = self._past.some(columns)
        return LeftOutRuns(self._batch.part(members), *self._rows, past, self._known)


def _common(count: np.ndarray | None) -> Any:
    """Return sample sizes as one number if they are equal."""
    return count[0].item() if count is not None and np.all(count == count[0]) else count


class LeftOutModels(NamedTuple):
    """Models that were fitted without some of the rows."""

    coef: np.ndarray  # (K, p)
    intercept: np.ndarray  # (K,)
    predictions: np.ndarray  # (n, K), of all (local) rows


def models_without(batch: Batch, train: np.ndarray, at: Sequence[int]) -> LeftOutModels:
    """Fit each member k of the batch to the rows in column k of (n, K), up to iteration at[k]."""
    width = at_a_time(batch, BLOCKS)
    if len(at) > width:
        places = [slice(start, start + width) for start in range(0, len(at), width)]
        members = range(len(at))
        parts = [models_without(batch.part(list(members[k])), train[:, k], at[k]) for k in places]
        return LeftOutModels(
            np.concatenate([part.coef for part in parts]),
            np.concatenate([part.intercept for part in parts]),
            np.concatenate([part.predictions for part in parts], axis=1),
        )
    runs = batch.data.without(~train, _common(sums_of_weights(batch.data.design, train)))
    maps, xp = batch.maps.for_rows(runs.rows, 1), namespace(runs.y)
    K, intercept = len(at), np.zeros(len(at)) + batch.data.levels
    if runs.offset is not None:
        intercept += to_numpy(runs.offset)
    coef, products = [runs.y] * K, [runs.y] * K  # placeholders
    for t, (b, fitted) in enumerate(islice(iterates(maps, runs, beginning(runs, K)), max(at) + 1)):
        for k in (k for k in range(K) if at[k] == t):
            coef[k], products[k] = copied(b[:, k]), copied(fitted[:, k])
    # a copy to the host synchronises with the device: copy all models at once
    stacked = xp.stack(coef)
    predictions = to_numpy(xp.stack(products, axis=1)) + intercept
    if isinstance(runs.design, InterceptDesign):
        intercept += to_numpy(runs.design.own_intercepts(stacked))
    coefficients = to_numpy(stacked[:, : batch.n_features]).astype(float)
    return LeftOutModels(coefficients, intercept, predictions)


def leave_one_out(
    path: Path,
    rows: np.ndarray | None = None,
    design: Design | None = None,
    width: int = WIDTH,
) -> Array:
    """Return predictions (N + 1, m) minus the level of y, of each row by the path without it."""
    rows = np.arange(path.n_samples) if rows is None else rows
    return leave_out(path, rows[:, None], design, width)[:, :, 0]


def leave_out(
    path: Path, groups: np.ndarray, design: Design | None = None, width: int = WIDTH
) -> Array:
    """Return predictions (N + 1, m, g) of groups of rows (m, g), by paths without the whole group.

    A group may have rows repeatedly. ``width`` runs advance together.
    """
    n, xp, batch = path.n_samples, namespace(path.y), Batch.of(path)
    result = path.design.zeros(path.n_iter + 1, *groups.shape)
    width = min(width, at_a_time(batch, BLOCKS)) if path.maps.structured else 1
    for start in range(0, len(groups), width):
        some = groups[start : start + width]
        columns = np.arange(len(some))[:, None]
        left_out = np.zeros((n, len(some)), dtype=bool)
        left_out[some, columns] = True
        runs = islice(LeftOutRuns(batch, left_out, design=design), path.n_iter + 1)
        which, where = path.design.places(some.ravel())  # local rows
        wanted = indices(where * len(some) + which // some.shape[1], path.y)
        for t, fitted in enumerate(runs):
            values = xp.take(xp.reshape(fitted, (-1,)), wanted, axis=0)
            if len(which) == some.size:
                result[t, start : start + len(some), :] = xp.reshape(values, some.shape)
            else:
                result[t, start + which // some.shape[1], which % some.shape[1]] = values
    return path.design.over_rows(result)


# ----- Cross-validation of whole paths -----


#: Function of mean losses: the training error of the full fit, the mean over the splits of the
#: error of their fits on all rows, and that on the rows they hold out.
Correction = Callable[[Array, Array, Array], Array]


def burmans_correction(train: Array, everywhere: Array, held_out: Array) -> Array:
    """Return Burman's correction for training on fewer rows, to be added to the held-out error."""
    return train - everywhere


def shrunk_burman(train: Array, everywhere: Array, held_out: Array) -> Array:
    """Return Burman's correction times the root of the ratio of training to held-out error.

    Burman's correction assumes that the optimism of a fit is proportional to ``1 / n``. This fails
    where training rows are fitted nearly perfectly, as by ridge with more columns than rows: the
    error then depends little on the number of rows, but the correction is minus a K-th part of it.
    For squared losses the ratio's root is about one minus the degrees of freedom per row. At most
    half of the held-out error is taken away: it is less than that unless, by chance, the fits are
    worse on all rows than on those that they hold out.
    """
    xp = namespace(train)
    one = xp.ones_like(train)
    # for nonnegative losses; others have no natural zero
    usual = (held_out > 0) & (train >= 0)
    ratio = xp.where(usual, train / xp.where(usual, held_out, one), one)
    correction = xp.sqrt(clip(ratio, 0.0, 1.0)) * (train - everywhere)
    bounded = (correction < -held_out / 2) & (train >= 0) & (held_out >= 0)
    return xp.where(bounded, -held_out / 2, correction)


class FoldRuns:
    """Runs of all splits of paths that differ only in their penalties, extended with the paths.

    Each has its own criterion, the same for all paths of a problem. ``correction`` is what to add
    to the error for training on fewer rows. ``with_losses`` averages the losses of each row over
    its tests.
    """

    def __init__(
        self,
        batch: Batch,
        criteria: Sequence[PerObservation],
        splits: Splits,
        design: Design | None = None,
        correction: Correction | None = shrunk_burman,
        with_losses: bool = False,
        groups: np.ndarray | None = None,
    ):
        self.splits = splits
        self._criteria, self._correction, self._with_losses = criteria, correction, with_losses
        counts = sums_of_weights(batch.data.design, splits.train)
        self._runs = LeftOutRuns(batch, ~splits.train, counts, design)
        # predictions and sums of losses (paths, steps, n), and mean losses of the splits' runs on
        # all rows and on those that they hold out (paths, steps)
        self._known: tuple[Array, Array | None, Array, Array] | None = None
        #: Sums of the weights of the rows that each split tests.
        self._tested = sums_of_weights(batch.data.design, splits.test)
        self._rows, tests = np.flatnonzero(splits.tests), splits.tests[splits.tests > 0]
        self._sample = RowSample.over(batch.data, self._rows, tests, groups)
        #: Training errors of the paths, if the correction needed them.
        self.train: list[Array] | None = None

    def extended(self, batch: Batch) -> list[HeldOut]:
        """Extend the runs to the length of the same paths."""
        xp, known = namespace(batch.data.y), self._known
        missing = batch.n_iter + 1 - (0 if known is None else known[0].shape[1])
        if missing:
            new = self._next(batch, missing)
            if known is not None:
                pairs = zip(known, new, strict=True)
                new = tuple(None if x is None else xp.concat([x, y], axis=1) for x, y in pairs)
            known = self._known = new
        assert known is not None
        predictions, losses, everywhere, held_out = known
        optimism = 0 * everywhere
        if self._correction is not None:
            pairs = zip(batch, self._criteria, strict=True)
            self.train = [mean_losses(path, criterion) for path, criterion in pairs]
            optimism = self._correction(xp.stack(self.train), everywhere, held_out)
        if len(self._rows) < len(self.splits.tests):
            own = batch.data.design.places(self._rows)[1]
            predictions = take(predictions, own, axis=2)
            losses = None if losses is None else take(losses, own, axis=2)
        return [
            HeldOut(
                self._rows,
                predictions[k, ...],
                self._sample,
                None if losses is None else losses[k, ...],
                optimism[k, :],
            )
            for k in range(len(batch))
        ]

    def some(self, members: Sequence[int]) -> FoldRuns:
        """Return the runs of some paths, which continue where these ended."""
        part, known = copy(self), self._known
        part._runs, part.train = self._runs.some(members), None
        part._criteria = [self._criteria[k] for k in members]
        if known is not None:
            kept = np.asarray(members)
            predictions, losses, *means = known
            losses = None if losses is None else take(losses, kept)
            everywhere, held_out = (take(values, kept) for values in means)
            part._known = take(predictions, kept), losses, everywhere, held_out
        return part

    def _next(self, batch: Batch, steps: int) -> tuple[Any, ...]:
        """Run the given number of steps; the results are those of `_known`."""
        data, splits, L, K = batch.data, self.splits, len(batch), self.splits.n_splits
        xp, n, y = namespace(data.y), data.design.shape[0], data.response
        problems = data.members_of_problems(L)
        own = Splits(*map(data.design.local, splits))
        average = _averaging(own, y)
        shares = like(self._tested / self._tested.sum(), y)
        counts = like((own.test / np.maximum(own.tests, 1)[:, None]).T, y)[None, ...]
        everyone = RowSample.over(data)
        predictions = data.design.zeros(L, steps, n)
        losses = data.design.zeros(L, steps, n) if self._with_losses else None
        # losses on all rows, and on those that were held out once
        sums = data.design.zeros(2, L, steps)
        for t, fitted in enumerate(islice(self._runs, steps)):
            predictions[:, t, :] = average(xp.reshape(fitted, (n, L, K))).T
            if losses is None and self._correction is None:
                continue
            fitted = check_finite(fitted) if self._with_losses else fitted
            for k, members in enumerate(problems):
                some, first, m = fitted, members[0], len(members)
                if len(problems) > 1:  # their members are adjacent
                    some = fitted[:, first * K : (first + m) * K]
                of_runs = losses_of_runs(self._criteria[first], y[:, k], some)
                places = slice(first, first + m)
                if losses is not None:
                    averaged = xp.sum(counts * xp.reshape(of_runs, (m, K, n)), axis=1)
                    losses[places, t, :] = averaged
                if self._correction is not None:
                    of_splits = xp.reshape(xp.sum(everyone.counted(of_runs), axis=1), (m, K))
                    sums[0, places, t] = xp.sum(of_splits * shares, axis=1)
        if self._correction is not None:
            for k, members in enumerate(problems):
                for j in members:
                    args = self._criteria[j], y[:, k], predictions[int(j), ...]
                    held_out = observation_losses(*args)
                    sums[1, int(j), :] = xp.sum(everyone.counted(held_out), axis=1)
            sums = data.design.over_rows(sums)
        return predictions, losses, *(sums[k, ...] / batch.n_samples for k in range(2))


def cross_validate(batch: Batch, *arguments: Any, **options: Any) -> list[HeldOut]:
    """Cross-validate whole paths; the arguments are those of `FoldRuns`."""
    return FoldRuns(batch, *arguments, **options).extended(batch)


def losses_of_runs(criterion: PerObservation, y: Array, predictions: Array) -> Array:
    """Return losses (runs, n) of predictions (n, runs), in their precision if that is lower."""
    if isinstance(criterion, Criterion) and is_own(criterion):
        return observation_losses(criterion, cast(y, predictions.dtype), predictions.T)
    return observation_losses(criterion, y, cast(predictions, y.dtype).T)


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
    length, sample = max(1, _SCORED // n), RowSample.over(path.data)
    pieces = []
    for start in range(0, path.n_iter + 1, length):
        values = path.products_at(slice(start, min(start + length, path.n_iter + 1)))
        losses = observation_losses(criterion, y, values)
        pieces.append(xp.sum(sample.counted(losses), axis=1))
    return path.design.over_rows(xp.concat(pieces)) / n


@dataclass(frozen=True, eq=False)
class Validation:
    """Out-of-sample error of every iterate, estimated on held-out rows.

    Returned by `cross_validate_path`, `leave_one_out_path` and `hold_out_path`. ``np.asarray``
    returns its `values`.

    Attributes
    ----------
    values : Array of shape (n_iter + 1,)
        Mean scoring loss of each iterate.
    stderr : Array of shape (n_iter + 1,)
        Standard error of `values`, treating the losses of different rows as independent. It is too
        small, because the training sets overlap.
    best_iter : int
        Iteration with the smallest error.
    n_splits : int
        Number of runs.
    """

    values: Array
    stderr: Array
    n_splits: int

    @property
    def best_iter(self) -> int:
        """Iteration with the smallest error."""
        return first_minimum(self.values)

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
    """Cross-validate every iterate of a path, with all splits in one batch.

    Each split runs the path's algorithm on its training rows, which also centre the columns and
    determine the initial intercept. Step sizes are those of the path, reduced where they would not
    be stable on a part of the rows: for `ChambollePock` with less than three quarters of them, for
    `HalpernPDHG` always.

    Parameters
    ----------
    path : Path
        Path returned by `steinpath.run`.
    cv : int, splitter or iterable, default=5
        Number of random folds; a scikit-learn splitter, such as ``GroupKFold(5)``; or pairs of
        index arrays with the training and test rows. A split may train on each row at most once.
    test_loss : None, str, Loss or callable, default=None
        As for `steinpath.estimate_risk`.
    groups : array-like of shape (n,), optional
        Group labels of the rows. Random folds hold out whole groups; a splitter receives the
        labels. Standard errors treat groups, not rows, as independent.
    burman : bool, default=False
        Whether to correct for training on fewer rows (Burman, 1989): add the training error of the
        path minus the mean, over the splits, of their errors on all rows.
    rng : None, int or numpy.random.Generator
        Seed or generator of the folds, if ``cv`` is their number.

    Returns
    -------
    Validation
        The mean is over all test rows; a row in several test sets counts several times.

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
    if not path.maps.structured:
        raise ValueError("cross_validate_path does not support a Recursion; use leave_one_out_path")
    criterion = _criterion_of(path, test_loss)
    splits = read_splits(cv, to_numpy(path.y), groups, rng, stratify=path.loss.margin)
    codes = None if groups is None else check_groups(groups, path.n_samples)
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
        (held_out,) = cross_validate(
            Batch.of(path),
            [criterion],
            splits,
            correction=burmans_correction if burman else None,
            with_losses=True,
            groups=codes,
        )
        values, stderr = held_out.sample.mean_and_error(held_out.losses)
    values = at_least_zero(criterion, values + held_out.optimism)
    return Validation(values, stderr, splits.n_splits)


def _criterion_of(path: Path, test_loss: TestLoss) -> PerObservation:
    criterion = resolve_test_loss(test_loss, path.loss)
    return about_level(criterion, path.y, path.level, path.data.sample_weight)


def leave_one_out_path(path: Path, test_loss: TestLoss = None, *, groups: Any = None) -> Validation:
    """Leave out each row (or group of rows) in turn, for every iterate of a path.

    Parameters
    ----------
    path : Path
        Path returned by `steinpath.run`.
    test_loss : None, str, Loss or callable, default=None
        As for `steinpath.estimate_risk`, whose method "loo" has the same `values` and more accurate
        standard errors.
    groups : array-like of shape (n,), optional
        Labels of groups of rows that are left out together.

    Returns
    -------
    Validation
        Mean leave-one-out loss of every iterate.
    """
    check_instance("path", path, Path, "sp.run(X, y, loss, penalty)")
    if groups is not None:
        codes = check_groups(groups, path.n_samples)
        pairs = [(codes != k, codes == k) for k in range(int(codes.max()) + 1)]
        return cross_validate_path(path, pairs, test_loss, groups=codes)
    criterion = _criterion_of(path, test_loss)
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
        losses = observation_losses(criterion, path.response, check_finite(leave_one_out(path)))
        values, stderr = RowSample.over(path.data).mean_and_error(losses)
    return Validation(values, stderr, path.n_samples)


def hold_out_path(
    path: Path,
    test_size: Any = 0.25,
    test_loss: TestLoss = None,
    *,
    groups: Any = None,
    rng: Any = None,
) -> Validation:
    """Hold out some rows at random, and test every iterate of a path fitted without them.

    Parameters
    ----------
    path : Path
        Path returned by `steinpath.run`.
    test_size : float or int, default=0.25
        Proportion or number of the rows to hold out.
    test_loss : None, str, Loss or callable, default=None
        As for `steinpath.estimate_risk`.
    groups : array-like of shape (n,), optional
        Labels of groups of rows that are held out together; ``test_size`` then refers to groups.
    rng : None, int or numpy.random.Generator
        Seed or generator of the held-out rows.

    Returns
    -------
    Validation
        Mean loss on the held-out rows, for every iterate.
    """
    from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit

    if not isinstance(test_size, Real) or not test_size < math.inf:
        raise ValueError(
            "test_size must be a proportion of the rows, between 0 and 1, or a number of rows; got "
            f"{shown(test_size)}"
        )
    seed = int(check_rng(rng).integers(2**31))
    kind = ShuffleSplit if groups is None else GroupShuffleSplit
    split = kind(1, test_size=test_size, random_state=seed)
    return cross_validate_path(path, split, test_loss, groups=groups)
