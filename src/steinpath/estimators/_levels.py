"""Fits of linear terms, curves, and products, and the selection between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import check_random_state

from steinpath._support.arrays import to_numpy
from steinpath._support.validation import Captured, capturing_warnings, warn
from steinpath.design._screened import Screen
from steinpath.estimators._basis import (
    Terms,
    basis_of,
    most_products,
    standardised,
    strongest_pairs,
)
from steinpath.estimators._fit import PreparedRows, expands
from steinpath.risk._after_choice import MOST_SPLITS, ChosenRisk, on_the_same_rows, select_model
from steinpath.risk._nested import InnerRuns
from steinpath.risk._splits import RandomFolds, Splits, check_groups, group_folds, read_splits

# Rows with which anything but linear terms is tried, at least.
_FEWEST = 40
# Number of folds, and that with many rows; skewness of a target whose logarithm is tried.
_FOLDS, _MANY, _FOLDS_OF_MANY = 10, 1000, 5
_SKEWED = 0.5
# Values of alpha, and the largest and smallest for products, times that without products.
_ALPHAS, _UP, _DOWN = 10, 24.0, 6.0


class Level(NamedTuple):
    """Terms of one level, and how they are fitted.

    chosen: which products each set of rows selects, as for `Screen`, by the rows of the first
    class if there are several; limit: smallest risk of other levels, above which this one is not
    adjusted for selection as carefully; alphas: the grid of alpha or its size, if they are not the
    usual ones
    """

    terms: Terms
    chosen: dict[bytes, dict[bytes, np.ndarray]] | None = None
    limit: float = math.inf
    alphas: Any = None

    def screen(self, rows: PreparedRows) -> Screen | None:
        """Return the selection of products, repeated in each fold; None if there are none."""
        if self.chosen is None:
            return None
        own = None if rows.sources is None else np.unique(rows.sources, return_index=True)[1]
        y = to_numpy(rows.y) if own is None else to_numpy(rows.y)[own]
        chosen = self.chosen.get((y > 0).tobytes()) or self.chosen[b""]
        return Screen(chosen, len(self.terms.kept), own)


class LevelRisk(NamedTuple):
    """A level of a basis, with its estimated risk and the difference from the smallest one."""

    name: str
    transform_target: str | None
    n_features: int
    risk: float
    stderr: float
    difference: float
    difference_stderr: float
    selected: bool

    @property
    def words(self) -> str:
        """Its terms, and the transformation of the target."""
        return self.name + ("" if self.transform_target is None else ", log target")


class _Fit(NamedTuple):
    name: str
    estimator: Any
    risk: ChosenRisk
    messages: Captured


class _Data(NamedTuple):
    """Rows of positive weight of a basis, which of all rows they are, and how often each counts."""

    X: Any
    y: np.ndarray
    rows: np.ndarray
    copies: np.ndarray
    n_rows: int
    all_y: np.ndarray
    all_groups: Any

    @classmethod
    def of(cls, X: Any, y: Any, sample_weight: Any, groups: Any) -> _Data:
        y = np.ravel(to_numpy(y) if hasattr(y, "__dlpack__") else np.asarray(y))
        weights, given = np.ones(len(y), int), np.asarray(sample_weight)
        # what is not valid is refused by the first fit
        usual = given.shape == y.shape and given.size > 0 and given.dtype.kind in "iuf"
        if usual and np.ptp(given) > 0 and np.all(given >= 0):
            counts = expands(given, y.shape if X is None else X.shape)
            weights = given.astype(int) if counts else (given > 0).astype(int)
        rows = np.flatnonzero(weights)
        copies = np.repeat(np.arange(len(rows)), weights[rows])
        X = X if X is None or len(rows) == len(y) else X[rows]
        return cls(X, y[rows], rows, copies, len(y), y, groups)


def fit_levels(estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> Any:
    """Return the fit of the best level of a basis, with its risk adjusted for that selection.

    The logarithm of the target is tried with curves if there are any, and products are then tried
    for the better of the two targets.
    """
    if estimator.method is None:  # then nothing can be compared
        raise ValueError(
            "curves='auto', products='auto' and transform_target='auto' select by the estimated "
            "risk, which method=None does not estimate; use method='auto', or no 'auto'"
        )
    seed, basis, fits = estimator.random_state, basis_of(X), list[_Fit]()
    if not isinstance(seed, Integral):
        seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
    names = ("given features",) if basis is None else basis.levels
    data = _Data.of(basis, y, sample_weight, groups)
    # with few rows, or more features than rows, others are rarely better, and chance selects them
    features = 0 if basis is None else np.count_nonzero(basis.kinds != "curve")
    few = len(data.y) < max(_FEWEST, features + 1)
    names = names[:1] if few else names
    if not estimator.fit_intercept:  # products are selected in centred designs
        names = tuple(name for name in names if not name.endswith("products"))
    automatic = getattr(estimator, "transform_target", None) == "auto"
    targets: list[str | None] = [None]
    for k, name in enumerate(names):
        if automatic and k == min(1, len(names) - 1) and not few and _is_skewed(data.y):
            targets = [None, "log"]
        some = list[_Fit]()
        for target in targets:
            how = {"random_state": seed} | ({"transform_target": target} if automatic else {})
            one = copy(estimator).set_params(**how)
            one._keep({"keeps_search": True})
            if basis is not None:
                one._level = _level(name, one, data)
                if fits:
                    one._level = one._level._replace(**_limits(one, fits))
            with capturing_warnings() as captured:
                one.fit(X if basis is None else np.asarray(X), y, sample_weight, groups)
            some.append(_Fit(name, one, _risk_of(one), captured))
            if any(each.stop_ == "interrupted" for each in _models(one)):
                break
        fits += some
        if any(each.stop_ == "interrupted" for each in _models(some[-1].estimator)):
            break
        if len(some) > 1:
            targets = [min(some, key=lambda fit: fit.risk.value).estimator.transform_target]
    risks = on_the_same_rows([fit.risk for fit in fits])
    best, adjusted = select_model(risks, estimator.rule)
    lowest, chosen = min(risks, key=lambda risk: risk.value), fits[best].estimator
    for text, category in fits[best].messages:
        warn(text, category)
    chosen.levels_ = tuple(
        LevelRisk(
            fit.name,
            getattr(fit.estimator, "transform_target", None),
            _size(fit.estimator),
            risk.value,
            risk.stderr,
            *(risk.compare(lowest) if risk is not lowest else (0.0, 0.0)),
            k == best,
        )
        for k, (fit, risk) in enumerate(zip(fits, risks, strict=True))
    )
    for one in (chosen, *_models(chosen)):
        if not estimator.keeps_search:
            one.__dict__.pop("_tuning", None)
    chosen._raise_risk(adjusted.value - risks[best].value, adjusted.stderr)
    return chosen


def _models(estimator: Any) -> list[Any]:
    """Return the fits of several classes or quantiles, or the only one."""
    return getattr(estimator, "estimators_", None) or [estimator]


def _size(estimator: Any) -> int:
    """Return the number of features of each run, which has its own products."""
    count = int(np.shape(estimator.coef_)[-1])
    if "_level" not in vars(estimator):
        return count
    terms = estimator._level.terms
    return min(count, len(terms.kept) + most_products(estimator.n_samples_))


def _limits(estimator: Any, fits: Sequence[_Fit]) -> dict[str, Any]:
    """Return the limit of the risk, and values of alpha near that of a simpler level."""
    several = len(_models(fits[0].estimator)) > 1
    limits: dict[str, Any] = {"limit": min(fit.risk.value for fit in fits)} if not several else {}
    usual = estimator.n_alphas == "auto" and isinstance(estimator.alpha, str)
    if not usual or estimator.alpha_ratio is not None:
        return limits
    target = getattr(estimator, "transform_target", None)
    same = [fit for fit in fits if getattr(fit.estimator, "transform_target", None) == target]
    near = np.atleast_1d(same[-1].estimator.alpha_ if same else 0.0)
    if not estimator._level.terms.pairs.size or near.min() <= 0:
        return limits | {"alphas": _ALPHAS}
    return limits | {"alphas": np.geomspace(near.max() * _UP, near.min() / _DOWN, _ALPHAS)}


def _level(name: str, estimator: Any, data: _Data) -> Level:
    """Return the terms of a level; set how the estimator holds rows out if y selects products."""
    X = data.X
    used = np.arange(X.shape[1])
    used = used[X.kinds != "curve"] if name.startswith("linear") else used
    if not name.endswith("products"):
        return Level(Terms.of(X.shape[1], used))
    splits = _splits(estimator, data)
    of_all = Splits(*(np.zeros((data.n_rows, splits.n_splits), part.dtype) for part in splits))
    for whole, part in zip(of_all, splits, strict=True):
        whole[data.rows] = part
    estimator.set_params(method="folds", cv=type(splits)(*of_all), audit=0)
    if isinstance(estimator.row_scale, str):  # "auto" needs an audit
        estimator.row_scale = "norm"
    nested = splits.n_splits <= MOST_SPLITS
    train = InnerRuns.of(splits).train if nested else splits.train
    train = np.pad(train, ((0, 0), (0, 1)), constant_values=True)
    found, each = list[np.ndarray](), dict[bytes, tuple[np.ndarray, np.ndarray]]()
    copies = data.copies
    for key, y in _targets(estimator, data.y).items():
        each[key] = strongest_pairs(X[copies], used, y[copies], train[copies])
        found.append(each[key][0])
    union = np.unique(np.concatenate(found), axis=0)
    place = {tuple(pair): k for k, pair in enumerate(union.tolist())}
    chosen = dict[bytes, dict[bytes, np.ndarray]]()
    for key, (pairs, selected) in each.items():
        masks = np.zeros((len(union), train.shape[1]), bool)
        masks[[place[tuple(pair)] for pair in pairs.tolist()]] = selected
        columns = zip(train.T, masks.T, strict=True)
        chosen[key] = {rows.tobytes(): mask for rows, mask in columns}
    centre = np.asarray(X)[copies].mean(axis=0)
    return Level(Terms.of(X.shape[1], used, union, centre), chosen)


def _is_skewed(y: np.ndarray) -> bool:
    """Whether y is positive and skewed to the right, and its logarithm less so."""
    numeric = y.dtype.kind in "iuf" and np.all(np.isfinite(y))
    if not (numeric and np.all(y > 0) and np.ptp(y) > 0):
        return False
    y = y.astype(float)
    before, after = (np.mean(standardised(values[:, None]) ** 3) for values in (y, np.log(y)))
    return bool(before > _SKEWED and abs(after) < before)


def _targets(estimator: Any, y: np.ndarray) -> dict[bytes, np.ndarray]:
    """Return the responses of each of several classes, by their rows, or of one fit."""
    if not is_classifier(estimator):
        return {b"": np.log(y) if estimator.transform_target == "log" else y.astype(float)}
    classes = np.unique(y)
    if len(classes) == 2:
        return {b"": np.where(y == classes[1], 1.0, -1.0)}
    return {(y == one).tobytes(): np.where(y == one, 1.0, -1.0) for one in classes}


def _splits(estimator: Any, data: _Data) -> Splits:
    """Return the folds of the level with products: the selection of products needs all of them."""
    codes, cv = np.unique(data.y, return_inverse=True)[1].astype(float), estimator.cv
    if cv is not None and not isinstance(cv, Integral):
        return read_splits(cv, data.all_y, data.all_groups).rows(data.rows)
    n, rng = len(codes), np.random.default_rng(estimator.random_state)
    folds = int(cv or (_FOLDS if n < _MANY else _FOLDS_OF_MANY))
    if data.all_groups is not None:
        labels = check_groups(np.asarray(data.all_groups)[data.rows])
        return group_folds(labels, min(folds, int(labels.max()) + 1), rng)
    folds = min(folds, n)
    # neither the order of the rows nor that of the columns matters
    values = standardised(np.asarray(data.X, float))
    along = values @ (values.T @ (codes - codes.mean()))
    order = np.lexsort((np.round(along / (np.abs(along).max() or 1.0), 6), codes))
    numbers = rng.permutation(n) % folds
    if is_classifier(estimator):  # stratified
        blocks = [rng.permutation(folds) for _ in range(n // folds + 1)]
        numbers = np.concatenate(blocks)[:n]
    return RandomFolds.of_folds(numbers[order.argsort()], folds)


def _risk_of(estimator: Any) -> ChosenRisk:
    """Return the risk of a fit; of several fits, the mean."""
    risks: list[ChosenRisk] = [one._tuning.chosen for one in _models(estimator)]
    if len(risks) == 1:
        return risks[0]
    losses = np.mean([risk.losses for risk in risks], axis=0)
    mean = risks[0].with_losses(risks[0].rows, risks[0].predictions, losses)
    value = float(np.mean([risk.value for risk in risks]))
    return replace(mean, value=value, stderr=mean.mean_of(losses)[1])
