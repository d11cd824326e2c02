"""Test error of every iterate by runs that leave rows out: what estimates are compared with."""

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
        Labels of groups of rows. Random folds leave out whole groups; a splitter is handed the
        labels. Standard errors take groups to be independent, not rows.
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
        raise ValueError(f"groups has {len(codes)} labels, and there are {path.n_samples} rows")
    return codes


def leave_one_out_path(path: Path, test_loss: TestLoss = None, *, groups: Any = None) -> Validation:
    """Leave out every row, or every group of rows, in turn, for every iterate of a path.

    Parameters
    ----------
    path : Path
        What `steinpath.run` returned.
    test_loss : None, str, Loss or callable, default=None
        As for `steinpath.estimate_risk`, whose method "loo" has the same `values` and better
        standard errors.
    groups : array-like of shape (n,), optional
        Labels of groups of rows that are left out together.

    Returns
    -------
    Validation
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
    """Hold out some rows at random, and test every iterate of a path without them.

    Parameters
    ----------
    path : Path
        What `steinpath.run` returned.
    test_size : float or int, default=0.25
        Share or number of the rows to hold out.
    test_loss : None, str, Loss or callable, default=None
        As for `steinpath.estimate_risk`.
    groups : array-like of shape (n,), optional
        Labels of groups of rows that are held out together; ``test_size`` is then of groups.
    rng : None, int or numpy.random.Generator
        Randomness of the rows.

    Returns
    -------
    Validation
    """
    from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit

    if not isinstance(test_size, Real) or math.isnan(test_size):
        raise ValueError(
            "test_size must be a share of the rows, between 0 and 1, or a number of them; got "
            f"{shown(test_size)}"
        )
    seed = int(check_rng(rng).integers(2**31))
    kind = ShuffleSplit if groups is None else GroupShuffleSplit
    split = kind(1, test_size=test_size, random_state=seed)
    return cross_validate_path(path, split, test_loss, groups=groups)
