"""Splits of the rows: random folds, folds of whole groups, or user-defined splits."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath._support.validation import check_count, check_rng, read_array, shown
from steinpath.engine._batch import Batch

if TYPE_CHECKING:
    from steinpath.risk._options import RiskOptions

# Minimum share of the rows in the training set of each of several folds.
_FEWEST_TRAINED = 0.4


class Splits(NamedTuple):
    """Training rows of each run, and how often it is tested on each row; both of shape (n, K)."""

    train: np.ndarray
    test: np.ndarray

    @classmethod
    def of_folds(cls, fold: np.ndarray, n_folds: int) -> Splits:
        """Return the splits that leave out one fold each, given the fold of each row."""
        left_out = fold[:, None] == np.arange(n_folds)
        return cls(~left_out, left_out.astype(float))

    def at(self, which: Any) -> Self:
        """Return some of the splits."""
        return self._replace(train=self.train[:, which], test=self.test[:, which])

    def rows(self, which: Any) -> Self:
        """Return the splits of some rows, possibly repeated."""
        return self._replace(train=self.train[which], test=self.test[which])

    @property
    def n_splits(self) -> int:
        """Number of splits."""
        return int(self.train.shape[1])

    @property
    def tests(self) -> np.ndarray:
        """Number of tests of each row."""
        return np.asarray(self.test.sum(axis=1))

    @property
    def fold(self) -> np.ndarray | None:
        """Index of the split that tests each row, if each row is tested once; otherwise None."""
        once = bool(np.all(self.tests == 1) and np.all(self.test.max(axis=1) == 1))
        return self.test.argmax(axis=1) if once else None

    @property
    def complete(self) -> bool:
        """Whether these are folds: each row is tested once, by a run trained on all other rows.

        If one split leaves too few rows to train on, such as a group with most of the rows, the
        others are not representative of its run, and it does not count as a fold.
        """
        if self.fold is None or np.any(self.train == (self.test > 0)):
            return False
        return bool(self.train.mean(axis=0).min() >= _FEWEST_TRAINED)


class RandomFolds(Splits):
    """Random folds that were drawn before: rows are not known to depend on each other."""

    __slots__ = ()


def make_splits(
    batch: Batch, options: RiskOptions, n_folds: int, rng: np.random.Generator
) -> Splits:
    """Return user-defined splits, or random folds of rows or of whole groups."""
    if isinstance(options.cv, Splits):
        splits = options.cv
    elif options.groups is not None:
        splits = group_folds(options.groups, n_folds, rng)
    else:
        return random_folds(batch, n_folds, rng, options.strata)
    labels = batch.data.all_labels
    if labels is not None:
        check_classes(splits, labels)
    return splits


def random_folds(
    batch: Batch, n_folds: int, rng: np.random.Generator, strata: np.ndarray | None = None
) -> Splits:
    """Return random folds of equal size up to one row, stratified by class for labels.

    They do not depend on the order of the rows: the same rows are in the same fold. ``strata`` are
    the classes of the rows, if there are more than the two of the batch.
    """
    strata = batch.data.all_labels if strata is None else strata
    ranks = _ranks(batch, strata)
    if strata is not None:
        return _stratified(ranks, strata, n_folds, rng)
    return Splits.of_folds((rng.permutation(batch.n_samples) % n_folds)[ranks], n_folds)


def _stratified(ranks: np.ndarray, strata: np.ndarray, n_folds: int, rng: Any) -> Splits:
    """Return random folds, stratified by class; rows are ranked by class first."""
    order = np.random.default_rng(rng).permutation(len(ranks))
    order = order[np.argsort(np.sort(strata)[order], kind="stable")].argsort()
    return Splits.of_folds((order % n_folds)[ranks], n_folds)


def check_classes(splits: Splits, labels: np.ndarray) -> None:
    """Refuse splits that train on a single class."""
    positive = (splits.train & (labels > 0)[:, None]).sum(axis=0)
    for k in np.flatnonzero((positive == 0) | (positive == splits.train.sum(axis=0))):
        raise ValueError(
            f"the training rows of split {k} have a single class; use splits or groups that leave "
            "rows of both classes to train on"
        )


def _ranks(batch: Batch, strata: np.ndarray | None) -> np.ndarray:
    """Return the rank of each row in an order that depends neither on that of rows nor columns."""
    design, y = batch.data.design.member(0), to_numpy(batch.data.all_responses)
    y = y if strata is None else np.asarray(strata, dtype=y.dtype)
    # ties are broken along a direction that the columns determine together
    contrast = y - y.mean()
    contrast = design.array(contrast / (np.abs(contrast).max() or 1.0))
    direction = design.unweighted.adjoint(design.local(contrast))
    along = to_numpy(design.gathered(design.forward(direction)))
    # rows that differ only by rounding errors must be treated as equal
    along = np.round(along / (np.abs(along).max() or 1.0), 6)
    ranks = np.empty(len(y), dtype=int)
    ranks[np.lexsort((along, y))] = np.arange(len(y))
    return ranks


def group_folds(groups: np.ndarray, n_folds: int, rng: np.random.Generator) -> Splits:
    """Return random folds of whole groups, numbered from 0, with about equal numbers of rows."""
    sizes = np.bincount(groups)
    order = rng.permutation(len(sizes))
    rows, fold = np.zeros(n_folds, dtype=int), np.empty(len(sizes), dtype=int)
    for group in order[np.argsort(-sizes[order], kind="stable")]:  # the largest first
        fold[group] = rows.argmin()
        rows[fold[group]] += sizes[group]
    return Splits.of_folds(fold[groups], n_folds)


def check_groups(groups: Any, n_rows: int | None = None) -> np.ndarray:
    """Return the group of each row as a number from 0 on, given labels of any type."""
    labels = to_numpy(groups) if hasattr(groups, "__dlpack__") else np.asarray(groups)
    # texts are examined one by one: in a text array, a missing label would become "nan"
    values = groups if isinstance(groups, Sequence) else labels.tolist()
    if labels.ndim != 1:
        raise ValueError(
            f"groups must have one label for each row, got an array of shape {labels.shape}"
        )
    if labels.dtype.kind not in "iu":  # integers are never missing, and this is called often
        refuse_missing("groups", values)
    try:
        found, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        raise TypeError(
            "groups must have labels of one type, such as numbers or strings; got several types"
        ) from None
    if len(found) < 2:
        raise ValueError(
            "groups has a single group, and leaving it out leaves no rows to fit; pass at least "
            "two groups"
        )
    if n_rows is not None and len(labels) != n_rows:
        raise ValueError(f"groups has {len(labels)} labels, but there are {n_rows} rows")
    return np.asarray(codes, dtype=np.intp).reshape(-1)


def refuse_missing(name: str, labels: Iterable[Any]) -> None:
    """Refuse missing labels."""
    missing = np.array([_is_missing(label) for label in labels], dtype=bool)
    if missing.any():
        raise ValueError(f"{name} has no label for row {int(missing.argmax())}")


def _is_missing(label: Any) -> bool:
    try:
        return label is None or not bool(label == label)
    except TypeError:  # for pandas.NA
        return True


def check_cv(cv: Any) -> Any:
    """Refuse an invalid ``cv`` before the rows are known."""
    if isinstance(cv, Splits):
        return cv
    if isinstance(cv, Integral):
        return check_count("cv", cv, low=2)
    if isinstance(cv, type):
        raise TypeError(f"cv is the class {cv.__name__}; pass an instance")
    # strings have a method `split`, too
    if isinstance(cv, str | bytes | bytearray) or not (
        hasattr(cv, "split") or isinstance(cv, Iterable)
    ):
        raise TypeError(
            "cv must be a number of folds, a scikit-learn splitter or pairs of index arrays; "
            f"got {shown(cv)}"
        )
    # an iterator could be read only once
    return cv if hasattr(cv, "split") or isinstance(cv, Sequence) else list(cv)


def read_splits(
    cv: Any, y: np.ndarray, groups: Any = None, rng: Any = None, stratify: bool = False
) -> Splits:
    """Return checked splits of the rows of y.

    ``cv`` is a number of random folds (of whole groups, if there are groups), which may be
    stratified by the sign of y, a scikit-learn splitter, or pairs of index arrays.
    """
    from sklearn import model_selection

    cv, n = check_cv(cv), len(y)
    if isinstance(cv, int) and groups is not None:
        codes = check_groups(groups)
        check_count("cv", cv, low=2, high=int(codes.max()) + 1)
        return group_folds(codes, cv, check_rng(rng))
    if isinstance(cv, int):
        check_count("cv", cv, low=2, high=n)
        seed = int(check_rng(rng).integers(2**31))
        if stratify:
            ranks = np.argsort(np.argsort(y, kind="stable"))
            return _stratified(ranks, y, cv, seed)
        cv = model_selection.KFold(cv, shuffle=True, random_state=seed)
    if not hasattr(cv, "split"):
        pairs = list(cv)
    else:
        splitter = model_selection.check_cv(cv)
        with warnings.catch_warnings():  # groups still define the independent units
            warnings.filterwarnings("ignore", "The groups parameter is ignored")
            pairs = list(splitter.split(np.zeros((n, 1)), y, groups))
    train, test = np.zeros((n, len(pairs)), dtype=bool), np.zeros((n, len(pairs)))
    for k, pair in enumerate(pairs):
        if not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
            raise ValueError(
                f"cv must yield pairs of arrays (training rows, test rows); got {shown(pair)}"
            )
        trained = _counts(pair[0], n)
        if (trained > 1).any():
            raise ValueError(
                f"split {k} of cv trains on row {trained.argmax()} more than once; include each "
                "row once, since resampling with replacement (bootstrap) is not supported"
            )
        train[:, k], test[:, k] = trained > 0, _counts(pair[1], n)
    if not pairs or not train.any(axis=0).all() or not test.any(axis=0).all():
        raise ValueError(
            "cv must have splits, each with at least one training row and one test row"
        )
    if (train & (test > 0)).any():
        raise ValueError("cv has a split with common training and test rows")
    return Splits(train, test)


def _counts(rows: Any, n: int) -> np.ndarray:
    """Return how often each of n rows is selected, given indices or a mask."""
    masked = isinstance(rows, np.ma.MaskedArray)
    rows = read_array("cv", rows if isinstance(rows, Sequence) else to_numpy(rows))
    if rows.dtype == bool and rows.shape == (n,):
        rows = np.flatnonzero(rows)
    if rows.shape == (0,):
        return np.zeros(n)
    integers = rows.ndim == 1 and rows.dtype.kind in "iu" and not masked
    if not integers or np.any(rows < 0) or np.any(rows >= n):
        raise ValueError(
            f"cv must yield indices from 0 to {n - 1}, or masks of {n} rows; got {shown(rows)}"
        )
    return np.bincount(rows.astype(np.intp), minlength=n)
