"""Runs of margin losses: against scikit-learn, cvxpy, another form of the problem, and refits."""

import math
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold

import steinpath as sp
from problems import PENALTY_EXAMPLES, draw
from steinpath.problem._losses import SeparableLoss

N, P = 60, 8
LOSSES = {loss.name: loss for loss in (sp.Hinge(), sp.SquaredHinge(), sp.Logistic())}
EVERY = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
INTERCEPT = pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
SKEWED = {-1: 0.5, 1: 2.0}
WEIGHTS = pytest.mark.parametrize(
    "class_weight", [None, SKEWED, "balanced"], ids=["alike", "weighted", "balanced"]
)


def problem(n=N, p=P, seed=0, share=0.3):
    """Columns with means, and labels of two unequal classes that cannot be told apart."""
    rng = np.random.default_rng(seed)
    X, _, _ = draw(n, p, seed)
    score = X[:, :3].sum(axis=1) + 1.5 * rng.logistic(size=n)
    y = np.where(score > np.quantile(score, 1 - share), 1.0, -1.0)
    return X + np.linspace(-1, 1, p), y


def labelled(loss, class_weight):
    return type(loss)(class_weight=class_weight)


def row_weights(y, class_weight):
    if class_weight is None:
        return np.ones(len(y))
    if class_weight == "balanced":
        class_weight = {k: len(y) / (2 * np.sum(y == k)) for k in (-1, 1)}
    return np.where(y > 0, class_weight[1], class_weight[-1])


# ------------------------------------------------------------------------------------------------
# Limits
# ------------------------------------------------------------------------------------------------


@INTERCEPT
@pytest.mark.parametrize(
    ("share", "class_weight"),
    [(0.0, None), (0.0, SKEWED), (0.4, "balanced"), (1.0, None), (1.0, SKEWED)],
    ids=["l2", "l2-weighted", "elastic-net-balanced", "l1", "l1-weighted"],
)
def test_limits_are_those_of_logistic_regression(share, class_weight, intercept):
    """``C`` is one over ``lam √n``."""
    X, y = problem()
    lam = 0.15
    theirs = LogisticRegression(
        C=1 / (lam * math.sqrt(N)),
        l1_ratio=share,
        solver="saga" if share else "newton-cholesky",
        fit_intercept=intercept,
        class_weight=class_weight,
        tol=1e-9,
        max_iter=100_000,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        if share:  # where versions differ in how they are told so
            theirs.set_params(penalty="elasticnet")
        theirs.fit(X, y)
    loss, penalty = sp.Logistic(class_weight), sp.ElasticNet(lam, share)
    for algorithm in (sp.ChambollePock(), sp.FISTA()):
        path = sp.run(X, y, loss, penalty, algorithm, n_iter=2000, fit_intercept=intercept)
        np.testing.assert_allclose(path.coef[-1], theirs.coef_[0], atol=2e-5)
        np.testing.assert_allclose(path.intercept[-1], np.ravel(theirs.intercept_)[0], atol=2e-5)
        predicted = path.fitted[-1]
        np.testing.assert_allclose(predicted, theirs.decision_function(X), atol=1e-4)


# ------------------------------------------------------------------------------------------------
# Rows multiplied by their labels, and responses of one
# ------------------------------------------------------------------------------------------------


class Plain(SeparableLoss):
    """A margin loss of residuals: it knows no labels, so that rows are multiplied by them."""

    name = "plain"
    test_loss = "absolute"

    def __init__(self, loss):
        self.loss = loss

    @property
    def smoothness(self):
        return self.loss.smoothness

    def rho(self, r):
        return self.loss.rho(r)

    def score(self, r, s):
        return self.loss.score(r, s)

    def slope(self, r, s):
        return self.loss.slope(r, s)

    def location(self, y, weights=None):
        raise NotImplementedError


ALGORITHMS = [
    sp.ChambollePock(0.2, 0.2),
    sp.ChambollePock(0.2, 0.2, theta=0.5),
    sp.LinearizedADMM(1.0, 0.05),
    sp.HalpernPDHG(0.2, 0.2, restart=5),
]


@EVERY
@pytest.mark.parametrize(
    ("algorithm", "name"),
    [*zip(ALGORITHMS, ("lasso", "ridge", "scad", "group_lasso"), strict=True)],
    ids=["lasso", "ridge", "scad", "group_lasso"],
)
def test_labels_are_signs_of_rows(loss, algorithm, name):
    """Paths and matrices are those of ``diag(y) X`` and responses of 1."""
    X, y = problem(20)
    penalty, covariance = PENALTY_EXAMPLES[name](P), sp.simulate.toeplitz(P, 0.5)
    path = sp.run(X, y, loss, penalty, algorithm, 8)
    other = sp.run(y[:, None] * X, np.ones(20), Plain(loss), penalty, algorithm, 8)
    np.testing.assert_allclose(path.coef, other.coef, atol=1e-12)
    np.testing.assert_allclose(path.dual, y * other.dual, atol=1e-12)
    np.testing.assert_allclose(path.fitted, y * other.fitted, atol=1e-12)
    np.testing.assert_allclose(path.objective, other.objective, rtol=1e-12)
    for mine, theirs in zip(
        sp.correction_matrices(path, covariance),
        sp.correction_matrices(other, covariance),
        strict=True,
    ):
        np.testing.assert_allclose(mine, theirs, atol=1e-11)
    found, expected = (sp.estimate_risk(each, method="exact").corrected for each in (path, other))
    np.testing.assert_allclose(found, y * expected, atol=1e-11)
    found, expected = (sp.estimate_risk(each, method="loo").corrected for each in (path, other))
    np.testing.assert_allclose(found, y * expected, atol=1e-11)


@EVERY
def test_the_intercepts_column_is_the_labels(loss):
    """Columns are centred before they are multiplied by labels; it starts at a constant fit."""
    X, y = problem(20)
    level = loss.start(y)
    assert level < 0
    algorithm = ALGORITHMS[0]
    path = sp.run(X, y, loss, sp.Lasso(0.1), algorithm, 12, fit_intercept=True)
    centred = X - X.mean(axis=0)
    size = np.sqrt(np.mean(centred**2))
    design = y[:, None] * np.column_stack([centred, np.full(20, size)])
    free = sp.Lasso(0.1, weights=np.append(np.ones(P), 0.0))
    other = sp.run(design, 1 - y * level, Plain(loss), free, algorithm, 12)
    np.testing.assert_allclose(path.coef, other.coef[:, :-1], atol=1e-12)
    np.testing.assert_allclose(path.fitted, level + y * other.fitted, atol=1e-12)
    intercept = level + size * other.coef[:, -1] - other.coef[:, :-1] @ X.mean(axis=0)
    np.testing.assert_allclose(path.intercept, intercept, atol=1e-12)
    # centred duals u - y (y'u) / n
    u = other.dual
    centred_duals = u - np.outer(u @ y, y) / 20
    _, K, A = sp.correction_matrices(other)
    W = np.linalg.solve(K, A)
    expected = level + y * (other.fitted - W[:, :-1] @ centred_duals)
    found = sp.estimate_risk(path, method="exact").corrected
    np.testing.assert_allclose(found, expected, atol=1e-10)
    raw = level + y * (other.fitted - W[:, :-1] @ u)
    assert np.abs(found - raw).max() > 1e-3


# ------------------------------------------------------------------------------------------------
# Leaving rows out
# ------------------------------------------------------------------------------------------------

STEPS = sp.ChambollePock(0.15, 0.15)


def refit(X, y, loss, penalty, train, algorithm, n_iter):
    """What a run on some rows alone predicts for all rows, and where its intercept starts."""
    run = sp.run(X[train], y[train], loss, penalty, algorithm, n_iter, fit_intercept=True)
    return run.coef @ X.T + run.intercept[:, None]


@EVERY
@WEIGHTS
@pytest.mark.parametrize("splitter", [KFold(5), StratifiedKFold(5)], ids=lambda s: type(s).__name__)
def test_folds_equal_refits_of_unequal_classes(loss, class_weight, splitter):
    X, y = problem(50, share=0.2)
    fitted_to = labelled(loss, class_weight)
    path = sp.run(X, y, fitted_to, sp.Lasso(0.1), STEPS, 15, fit_intercept=True)
    # balanced weights are those of all rows: folds do not weigh classes anew
    known = path.loss
    expected = np.full((16, 50), np.nan)
    for train, test in splitter.split(X, y):
        steps = path.algorithm.on_fewer_rows(len(train) / 50)
        fitted = refit(X, y, known, sp.Lasso(0.1), train, steps, 15)
        start = known.start(y[train])
        np.testing.assert_allclose(fitted[0], start, atol=1e-12)
        expected[:, test] = fitted[:, test]
    found = sp.cross_validate_path(path, splitter, "zero_one")
    weights = row_weights(y, class_weight)
    errors = (1 - np.sign(y * expected)) / 2
    values = np.average(errors, axis=1, weights=weights)
    np.testing.assert_allclose(found.values, values, atol=1e-12)
    found = sp.cross_validate_path(path, splitter, "absolute")
    np.testing.assert_allclose(found.values, np.abs(y - expected).mean(axis=1), atol=1e-9)


# ------------------------------------------------------------------------------------------------
# New data
# ------------------------------------------------------------------------------------------------


@EVERY
def test_corrected_margins_are_those_of_new_rows(loss):
    """With unequal classes and an intercept; training errors are far below."""
    rng = np.random.default_rng(0)
    n, p, new = 300, 150, 20_000
    coef = np.zeros(p)
    coef[:15] = 0.6

    def sample(count):
        X = rng.standard_normal((count, p)) + 0.5
        z = (X - 0.5) @ coef - 2.0
        return X, np.where(rng.random(count) < 1 / (1 + np.exp(-z)), 1.0, -1.0)

    (X, y), (X_new, y_new) = sample(n), sample(new)
    assert 0.1 < (y > 0).mean() < 0.35
    path = sp.run(X, y, loss, sp.Lasso(0.3), n_iter=60, fit_intercept=True)
    margins = y_new * (path.coef @ X_new.T + path.intercept[:, None])
    for test_loss in ("zero_one", "hinge"):
        losses = (
            (1 - np.sign(margins)) / 2 if test_loss == "zero_one" else np.maximum(1 - margins, 0)
        )
        truth = losses.mean(axis=1)
        risk = sp.estimate_risk(path, test_loss, method="compressed", n_probes=60, rng=0)
        gap = np.abs(risk.values - truth)
        assert gap[10:].mean() < 0.35 * (truth - risk.train)[10:].mean()
        assert np.all(gap < 3.5 * risk.stderr + 0.02)
