"""Estimators, each with its own parameters: fitted, refused, fitted again."""

import functools
import inspect
from dataclasses import replace

import numpy as np
from sklearn.base import ClassifierMixin, clone, is_classifier
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, ShuffleSplit, TimeSeriesSplit

import inputs
import steinpath as sp
from inputs import chance, count, mostly, number, one_of
from outcomes import Refusal, check, check_finite, evaluate
from steinpath._support.arrays import to_numpy
from steinpath.estimators._base import PathEstimator

ESTIMATORS = tuple(
    value
    for name in sp.__all__
    if inspect.isclass(value := getattr(sp, name)) and issubclass(value, PathEstimator)
)

ITERATIONS = (1, 2, 3, 7, 20, 20, 70)

#: Values of parameters, some of them refused.
VALUES = {
    "alpha": (0.1, 1.0, "auto", 0.0, [0.5, 0.1], np.float32([0.3, 0.0]), [1.0, -1.0], 1e-30),
    "n_alphas": (1, 2, 3, np.int64(2), "auto"),
    "alpha_ratio": (None, 1e-3, 0.1, 0.5, 1e-300, 1.0, "x"),
    "n_iter": ITERATIONS,
    "select": ("risk", "last", 0, 1, 5, np.int64(1), 10**6),
    "fit_intercept": (False, True),
    "standardize": (False, True),
    "method": ("auto", "folds", "loo", "compressed", "hutchinson", "exact", "spectral", None),
    "row_scale": ("norm", "auto", None),
    "audit": (0, 2, "folds"),
    "cv": (
        *(None, None, 2, 3, 5, KFold(3), TimeSeriesSplit(2), ShuffleSplit(2, random_state=0)),
        *(LeaveOneOut(), GroupKFold(2), [(range(4), [4, 5])], [], "x", 1, KFold, [(1, 2, 3)]),
    ),
    "rule": ("min", "one_se"),
    "verbose": (False, False, False, True),
    "warm_start": (False, True),
    "random_state": (None, 0, np.random.RandomState(0)),
    "transform_target": (None, None, None, "auto", "log", "sqrt"),
    "positive": (False, False, False, True),
    "loss_params": (None, None, {}, {"delta": 2}, {"q": 0.9}, {"delta": -1}, {"x": 1}),
}
LOSSES = "lad", "huber", "square_root", "quantile", "squared", "logistic", "hinge", "squared_hinge"
PENALTIES = "lasso", "ridge", "elastic_net", "mcp", "scad", "none", "group_lasso", "bad", sp.MCP

#: What each parameter may be, as a function of the generator and the number of columns.
PARAMETERS = {
    name: lambda rng, p, values=values: one_of(rng, values) for name, values in VALUES.items()
} | {
    "algorithm": lambda rng, p: one_of(rng, (None, inputs.algorithm(rng))),
    "test_loss": lambda rng, p: inputs.test_loss(rng),
    "tol": lambda rng, p: number(rng, 0.0, 1.0, bad=0.0),
    "loss": lambda rng, p: one_of(rng, (*LOSSES, inputs.loss(rng))),
    "penalty": lambda rng, p: one_of(
        rng,
        (
            *PENALTIES,
            functools.partial(sp.GroupLasso, groups=np.arange(p) % 2),
            functools.partial(sp.Lasso, weights=rng.random(p)),
            functools.partial(sp.ElasticNet, l1_ratio=number(rng, 0.0, 1.0)),
        ),
    ),
    "penalty_params": lambda rng, p: one_of(
        rng, (None, None, {}, {"gamma": 2.5}, {"a": 3}, {"weights": np.ones(p)}, {"lam": 1}, "x")
    ),
    "class_weight": lambda rng, p: inputs.class_weight(rng),
    "q": lambda rng, p: number(rng, 0.0, 1.0, bad=0.0),
    "delta": lambda rng, p: number(rng, 0.0, 3.0, bad=0.0),
    "l1_ratio": lambda rng, p: number(rng, 0.0, 1.0, bad=0.0),
}


def estimators(case):
    """An estimator with random parameters predicts what its coefficients say, or is refused."""
    rng = case.rng
    kind = one_of(rng, ESTIMATORS)
    data = _data(rng, kind, wild=0.3)
    few = {"n_iter": one_of(rng, ITERATIONS), "n_alphas": 2}
    model = kind(**few, random_state=one_of(rng, (0, 0, None)))
    case.note(estimator=kind.__name__, **few)
    refused = _change(case, model, data)
    if refused:
        return refused
    if chance(rng, 0.05):
        return evaluate(lambda: model.predict(data.X))
    outcome = _fit(case, model, data)
    if chance(rng, 0.5):
        case.note(first=outcome)
        refused = _change(case, model, data)
        if refused:
            return refused
        if chance(rng, 0.5):
            data = _data(rng, kind, wild=0.5)
        outcome = _fit(case, model, data)
    if isinstance(outcome, Refusal):
        return outcome
    other = inputs.problem(rng, wild=0.5)
    case.note(new_X=other.X)
    predicted = evaluate(lambda: model.predict(other.X))
    if not isinstance(predicted, Refusal):
        check(inputs.is_numeric(other.X), "predicts from what is no array of numbers")
        if not is_classifier(model):
            check_finite("predictions of other data", to_numpy(predicted))
    return outcome


def _data(rng, kind, wild):
    """Features and a target; for classifiers mostly labels of some kind."""
    data = inputs.problem(rng, wild=wild)
    if data.plain_y is None or not issubclass(kind, ClassifierMixin) or chance(rng, 0.1):
        return data
    names = np.array(
        one_of(rng, ((-1, 1), (0, 1), (False, True), ("no", "yes"), ("a", "b", "c"), (2.0, 5.0)))
    )
    codes = np.argsort(np.argsort(data.plain_y)) * len(names) // len(data.plain_y)
    return replace(data, y=names[codes])


def _change(case, model, data):
    """Change a few parameters, some of them to something wrong; or only go on for longer."""
    rng = case.rng
    names, p = [*inspect.signature(type(model)).parameters], inputs.columns(data.X)

    def draw():
        if hasattr(model, "coef_") and chance(rng, 0.3):
            return {"n_iter": model.n_iter_ + 5, "warm_start": True}
        drawn = (str(name) for name in rng.permutation(names)[: rng.integers(6)])
        return {name: count(rng, [PARAMETERS[name](rng, p)], bad=0.05) for name in drawn}

    changed = evaluate(draw)  # a loss or an algorithm may be refused before any estimator sees it
    if isinstance(changed, Refusal):
        return changed
    case.note(changed=changed)
    model.set_params(**changed)
    return None


def _fit(case, model, data):
    """Fit, and look at the result; what is refused changes nothing."""
    weights = inputs.sample_weight(case.rng, data.y) if chance(case.rng, 0.25) else None
    groups = _groups(case.rng, data.y) if chance(case.rng, 0.25) else None
    case.note(X=data.X, y=data.y, sample_weight=weights, groups=groups)
    handed = [(x, x.copy()) for x in (data.X, data.y, weights) if isinstance(x, np.ndarray)]
    before = _state(model)
    outcome = evaluate(lambda: model.fit(data.X, data.y, sample_weight=weights, groups=groups))
    for now, then in handed:
        check(repr(now) == repr(then), "fit changed the caller's arrays")
    if isinstance(outcome, Refusal):
        after = _state(model)
        names = sorted(name for name in before | after if not _same(name, before, after))
        check(not names, f"refused ({outcome.message:.80}), but {names} changed")
        return outcome
    numbers = {"X": data.X, "y": data.y, "sample_weight": weights}
    if is_classifier(model):
        del numbers["y"]
    for name, values in numbers.items():
        check(inputs.is_numeric(values), f"{name} is no array of numbers, and was not refused")
    (_check_classifier if is_classifier(model) else _check_fitted)(model, data)
    if isinstance(model.random_state, int) and chance(case.rng, 0.3):
        _check_repeated(model, data, weights, groups)
    return outcome


def _groups(rng, y):
    """Labels of rows, some of them none."""
    n = len(y) if hasattr(y, "__len__") else 3
    names = np.array(["a", "b", "c"])[np.arange(n) % 3]
    good = np.arange(n) % 4, names, (np.arange(n) > n // 2).tolist(), np.zeros(n), None
    return mostly(rng, good, (np.arange(n + 1), np.full(n, np.nan), "ab"), wrong=0.3)


def _state(model):
    return {
        name: np.array(value) if isinstance(value, np.ndarray) else value
        for name, value in vars(model).items()
    }


def _same(name, first, second):
    if (name in first) != (name in second):
        return False
    if isinstance(first[name], np.ndarray):
        floats = first[name].dtype.kind == "f"  # NaN stands for rows that were never left out
        return np.array_equal(first[name], second[name], equal_nan=floats)
    return first[name] is second[name] or first[name] == second[name]


def _check_fitted(model, data):
    p, shape = model.n_features_in_, (len(model.alphas_), model.n_iter_ + 1)
    check(model.coef_.shape == (p,), f"coef_ has shape {model.coef_.shape} for {p} columns")
    check_finite("coef_", model.coef_)
    check_finite("intercept_", model.intercept_)
    check(model.fit_intercept or model.intercept_ == 0, f"intercept_ is {model.intercept_}")
    check(model.alpha_ == model.alphas_[model.best_index_], "alpha_ is not that of best_index_")
    check(np.all(model.alphas_ >= 0), f"alphas_ are {model.alphas_}")
    check(0 <= model.best_iter_ <= model.n_iter_ <= model.n_iter, f"best_iter_: {model.best_iter_}")
    if hasattr(model, "risk_path_"):
        for name in ("risk_path_", "risk_stderr_", "train_path_"):
            found = getattr(model, name)
            check(found.shape == shape, f"{name} has shape {found.shape}, not {shape}")
            check(not np.isnan(found).any(), f"{name} is not a number")
        check_finite("risk_path_", model.risk_path_)
        check_finite("best_risk_", model.best_risk_)
        check(not np.isnan(model.best_risk_stderr_), "best_risk_stderr_ is not a number")
        bounds = evaluate(lambda: model.predict_interval(data.X, 0.5))
        if not isinstance(bounds, Refusal):  # of too few rows
            check_finite("bounds", bounds)
            check(np.all(bounds[:, 0] <= bounds[:, 1]), "bounds cross")
    predicted = evaluate(lambda: model.predict(data.X))
    check(not isinstance(predicted, Refusal), f"what was fitted is refused: {predicted}")
    check_finite("predictions", to_numpy(predicted))
    _check_linear(to_numpy(predicted), model, data)
    if data.plain_y is not None and max(np.abs(data.plain_y).max(), np.abs(predicted).max()) < 1e6:
        score = evaluate(lambda: model.score(data.X, data.y))
        check(not isinstance(score, Refusal), f"what was fitted cannot be scored: {score}")
        check_finite("score", score)


def _check_linear(found, model, data):
    """Predictions or decisions are X @ coef_ + intercept_, where X is known."""
    if data.plain_X is None:
        return
    with np.errstate(all="ignore"):
        found = np.log(found) if getattr(model, "transform_target_", None) else found
        coef, intercept = model.coef_.astype(float).T, np.asarray(model.intercept_, float)
        gap = np.abs(found.reshape(len(found), *coef.shape[1:]) - (data.plain_X @ coef + intercept))
        scale = np.abs(data.plain_X) @ np.abs(coef) + np.abs(intercept)
        off = np.nanmax(gap / np.maximum(scale, 1e-300))
    precision = 1e-5 if model.coef_.dtype == np.float32 else 1e-12
    check(off < precision, f"it is not X @ coef_ + intercept_: off by {off:.2g}")


def _check_classifier(model, data):
    """Decisions are those of the coefficients, and classes those of the decisions."""
    p, n_classes = model.n_features_in_, len(model.classes_)
    rows = 1 if n_classes == 2 else n_classes
    check(model.coef_.shape == (rows, p), f"coef_ has shape {model.coef_.shape} for {p} columns")
    check(model.intercept_.shape == (rows,), f"intercept_ has shape {model.intercept_.shape}")
    check_finite("coef_", model.coef_)
    check_finite("intercept_", model.intercept_)
    predicted = evaluate(lambda: model.predict(data.X))
    check(not isinstance(predicted, Refusal), f"what was fitted is refused: {predicted}")
    check(np.isin(predicted, model.classes_).all(), "predictions are no classes")
    decisions = to_numpy(evaluate(lambda: model.decision_function(data.X)))
    check_finite("decisions", decisions)
    best = decisions.argmax(axis=1) if n_classes > 2 else (decisions > 0).astype(int)
    check(np.array_equal(predicted, model.classes_[best]), "predictions are not the decisions")
    if hasattr(model, "predict_proba"):
        shares = evaluate(lambda: model.predict_proba(data.X))
        check(np.allclose(shares.sum(axis=1), 1), "probabilities do not add up to one")
        check(shares.min() >= 0, "probabilities are negative")
    score = evaluate(lambda: model.score(data.X, data.y))
    check(not isinstance(score, Refusal) and 0 <= score <= 1, f"the score is {score}")
    _check_linear(decisions, model, data)


def _check_repeated(model, data, weights, groups):
    """A fresh estimator with the same parameters finds the same, whatever was fitted before."""
    again = clone(model)
    other = evaluate(lambda: again.fit(data.X, data.y, sample_weight=weights, groups=groups))
    check(not isinstance(other, Refusal), f"fitted, but a clone is refused: {other}")
    several = is_classifier(model) and len(model.classes_) > 2
    for name in ("coef_", "intercept_", *(() if several else ("alpha_", "best_iter_"))):
        found, expected = np.asarray(getattr(model, name)), np.asarray(getattr(other, name))
        check(np.array_equal(found, expected), f"a clone finds another {name}")
