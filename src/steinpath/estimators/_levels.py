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
from steinpath.design._base import Design
from steinpath.design._screened import Screen, standardised
from steinpath.estimators._basis import (
    Basis,
    Terms,
    additive,
    basis_of,
    most_products,
    strongest_pairs,
)
from steinpath.risk._after_choice import ChosenRisk, on_the_same_rows, select_model
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

    additive: features of the additive model whose residuals select products; limit: smallest risk
    of other levels, above which this one is not adjusted for selection as carefully; alphas: the
    grid of alpha or its size, if they are not the usual ones
    """

    terms: Terms
    additive: np.ndarray
    limit: float = math.inf
    alphas: Any = None

    def screen(self, design: Design, y: Any) -> Screen | None:
        """Return the selection of products, repeated in each fold; None if there are none."""
        kept = self.terms.kept
        if not self.terms.pairs.size:
            return None
        main = np.flatnonzero(np.isin(kept, self.additive))
        return Screen(design, y, main, len(kept), most_products(design.shape[0]))


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
    # with few rows, or more features than rows, others are rarely better, and chance selects them
    features = 0 if basis is None else np.count_nonzero(basis.kinds != "curve")
    few = len(np.asarray(y)) < max(_FEWEST, features + 1)
    names = names[:1] if few else names
    if not estimator.fit_intercept:  # products are selected in centred designs
        names = tuple(name for name in names if not name.endswith("products"))
    automatic = getattr(estimator, "transform_target", None) == "auto"
    targets: list[str | None] = [None]
    for k, name in enumerate(names):
        if automatic and k == min(1, len(names) - 1) and not few and _is_skewed(y):
            targets = [None, "log"]
        some = list[_Fit]()
        for target in targets:
            how = {"random_state": seed} | ({"transform_target": target} if automatic else {})
            one = copy(estimator).set_params(**how)
            one._keep({"keeps_search": True})
            if basis is not None:
                one._level = _level(name, one, basis, y, groups)
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
    if estimator.n_alphas != "auto" or not isinstance(estimator.alpha, str):
        return limits
    target = getattr(estimator, "transform_target", None)
    same = [fit for fit in fits if getattr(fit.estimator, "transform_target", None) == target]
    near = np.atleast_1d(same[-1].estimator.alpha_ if same else 0.0)
    if not estimator._level.terms.pairs.size or near.min() <= 0:
        return limits | {"alphas": _ALPHAS}
    return limits | {"alphas": np.geomspace(near.max() * _UP, near.min() / _DOWN, _ALPHAS)}


def _level(name: str, estimator: Any, X: Basis, y: Any, groups: Any) -> Level:
    """Return the terms of a level; set how the estimator holds rows out if y selects products."""
    used = np.flatnonzero(X.kinds != "curve") if name.startswith("linear") else None
    terms = Terms.of(X.shape[1], used)
    if name.endswith("products"):
        splits = _splits(estimator, X, y, groups)
        estimator.set_params(method="folds", cv=splits, audit=0)
        if isinstance(estimator.row_scale, str):  # "auto" needs an audit
            estimator.row_scale = "norm"
        train = np.pad(InnerRuns.of(splits).train, ((0, 0), (0, 1)), constant_values=True)
        pairs = [strongest_pairs(X, terms.kept, part, train) for part in _targets(estimator, y)]
        found = np.unique(np.concatenate(pairs), axis=0)
        terms = Terms.of(X.shape[1], used, found, np.asarray(X).mean(axis=0))
    return Level(terms, additive(X))


def _is_skewed(y: Any) -> bool:
    """Whether y is positive and skewed to the right, and its logarithm less so."""
    y = np.asarray(to_numpy(y), float)
    if not (np.all(y > 0) and np.all(np.isfinite(y)) and np.ptp(y) > 0):
        return False
    before, after = (np.mean(standardised(values[:, None]) ** 3) for values in (y, np.log(y)))
    return bool(before > _SKEWED and abs(after) < before)


def _targets(estimator: Any, y: Any) -> list[np.ndarray]:
    """Return the responses of each of several fits, or of one: numbers."""
    y = np.asarray(y)
    if not is_classifier(estimator):
        return [np.log(y) if estimator.transform_target == "log" else y.astype(float)]
    classes = np.unique(y)
    return [np.where(y == one, 1.0, -1.0) for one in classes[int(len(classes) == 2) :]]


def _splits(estimator: Any, X: Basis, y: Any, groups: Any) -> Splits:
    """Return the folds of the level with products: the selection of products needs all of them."""
    codes, cv = np.unique(np.asarray(y), return_inverse=True)[1].astype(float), estimator.cv
    if cv is not None and not isinstance(cv, Integral):
        return read_splits(cv, codes, groups)
    n, rng = len(codes), np.random.default_rng(estimator.random_state)
    folds = int(cv or (_FOLDS if n < _MANY else _FOLDS_OF_MANY))
    if groups is not None:
        labels = check_groups(groups)
        return group_folds(labels, min(folds, int(labels.max()) + 1), rng)
    folds = min(folds, n)
    # neither the order of the rows nor that of the columns matters
    values = standardised(np.asarray(X, float))
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
