"""Cross-validation, leave-one-out and hold-out error of every iterate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from steinpath._support.arrays import Array, namespace, to_numpy
from steinpath._support.printing import with_error
from steinpath._support.validation import check_flag, check_instance, check_rng, shown
from steinpath.engine._batch import Batch
from steinpath.engine._path import Path
from steinpath.problem._scoring import (
    TestLoss,
    about_level,
    check_finite,
    observation_losses,
    resolve_test_loss,
)
from steinpath.risk._fold_runs import cross_validate, mean_and_error
from steinpath.risk._leave_out import leave_one_out
from steinpath.risk._splits import check_groups, read_splits


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
    path.refuse_weights()
    if not path.maps.structured:
        raise ValueError("cross_validate_path does not support a Recursion; use leave_one_out_path")
    criterion = about_level(resolve_test_loss(test_loss, path.loss), path.y, path.level)
    splits = read_splits(cv, to_numpy(path.y), groups, rng, stratify=path.loss.margin)
    codes = _codes(path, groups)
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
        (found,) = cross_validate(
            Batch.of(path), criterion, splits, burman=burman, with_losses=True
        )
        counts = path.design.array(splits.tests)
        values, stderr = mean_and_error(found.losses, counts, codes)
    return Validation(values + found.optimism, stderr, splits.train.shape[1])


def _codes(path: Path, groups: Any) -> np.ndarray | None:
    """Return the group of each row as a number, checked."""
    if groups is None:
        return None
    codes = check_groups(groups)
    if len(codes) != path.n_samples:
        raise ValueError(f"groups has {len(codes)} labels, but there are {path.n_samples} rows")
    return codes


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
    path.refuse_weights()
    if (codes := _codes(path, groups)) is not None:
        n_groups = int(codes.max()) + 1
        pairs = [(codes != k, codes == k) for k in range(n_groups)]
        return cross_validate_path(path, pairs, test_loss, groups=codes)
    criterion = about_level(resolve_test_loss(test_loss, path.loss), path.y, path.level)
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
        losses = observation_losses(criterion, path.response, check_finite(leave_one_out(path)))
        values, stderr = mean_and_error(losses, namespace(losses).ones_like(path.response))
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

    if not isinstance(test_size, Real) or math.isnan(test_size):
        raise ValueError(
            "test_size must be a proportion of the rows, between 0 and 1, or a number of rows; got "
            f"{shown(test_size)}"
        )
    seed = int(check_rng(rng).integers(2**31))
    kind = ShuffleSplit if groups is None else GroupShuffleSplit
    split = kind(1, test_size=test_size, random_state=seed)
    return cross_validate_path(path, split, test_loss, groups=groups)
