"""Margin losses and test losses of labels: against many digits, brute force and scikit-learn."""

import math

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit
from sklearn.metrics import brier_score_loss, hinge_loss, log_loss, zero_one_loss

from backends import everywhere, on_backend, seen, sp
from problems import draw, responses
from steinpath.problem import _rows
from steinpath.problem._scoring import CRITERIA, about_level, resolve_test_loss

Rows = on_backend(_rows.Rows)

HINGE, SQUARED_HINGE, LOGISTIC = sp.Hinge(), sp.SquaredHinge(), sp.Logistic()
LOSSES = {loss.name: loss for loss in (HINGE, SQUARED_HINGE, LOGISTIC)}
WEIGHTED = {
    f"{name}-weighted": type(loss)(class_weight={-1: 0.5, 1: 3.0}) for name, loss in LOSSES.items()
}
EVERY = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
BOTH = pytest.mark.parametrize("loss", (LOSSES | WEIGHTED).values(), ids=LOSSES | WEIGHTED)
LABELS = np.array([1.0, -1.0, -1.0, 1.0, -1.0, -1.0, -1.0])

#: Losses of one row by its margin, written out.
RHO = {
    "hinge": lambda m: np.maximum(1 - m, 0),
    "squared_hinge": lambda m: np.maximum(1 - m, 0) ** 2 / 2,
    "logistic": lambda m: np.logaddexp(0, -m),
}


def by_hand(loss, y, z):
    """Loss of each row, with its class weight."""
    low, high = loss.weights or (1.0, 1.0)
    return np.where(y > 0, high, low) * RHO[loss.name](y * z)


# ------------------------------------------------------------------------------------------------
# Proximal maps
# ------------------------------------------------------------------------------------------------

SIZES = (1e8, 1e5, 800.0, 30.0, 3.0, 1.0, 0.5, 1e-3, 1e-8)
RESIDUALS = np.array([0.0, *SIZES, *(-size for size in SIZES)])
STEPS = (1e-8, 1e-4, 0.1, 1.0, 10.0, 1e4, 1e8)
BOTH_TYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["double", "single"])


def solved(r, s):
    """Derivative and second derivative of the smoothed logistic loss, to many digits."""
    low, high = r - s, r
    for _ in range(100):
        x = (low + high) / 2
        low, high = (low, x) if x + s * expit(x - 1) > r else (x, high)
    with mpmath.workdps(60):
        r, s, x = map(mpmath.mpf, (float(r), float(s), x))

        def share(x):
            return 1 / (1 + mpmath.exp(1 - x))

        for _ in range(5):  # of Newton's steps
            variance = share(x) * (1 - share(x))
            x -= (x + s * share(x) - r) / (1 + s * variance)
        assert abs(x + s * share(x) - r) < mpmath.mpf(10) ** -35
        variance = share(x) * (1 - share(x))
        return float(share(x)), float(variance / (1 + s * variance))


@BOTH_TYPES
@pytest.mark.parametrize("step", STEPS)
def test_logistic_proximal_maps_to_many_digits(step, dtype):
    """Derivatives have all of their digits, but for what rounding of their argument costs."""
    r, step = RESIDUALS.astype(dtype), float(dtype(step))
    eps, tiny = float(np.finfo(dtype).eps), float(np.finfo(dtype).tiny)
    rows = Rows(1)
    scores, slopes = LOGISTIC.gradient(r, step, rows), LOGISTIC.hessian(r, step, rows)
    assert scores.dtype == slopes.entries.dtype == dtype
    prox = LOGISTIC.prox(r, step, rows)
    for i, r_i in enumerate(r):
        r_i = float(r_i)
        exact, *near = (solved(r_i + k * eps * (abs(r_i) + 1), step) for k in (0, -2, 2))
        for k, found in enumerate((scores[i], np.ravel(slopes.entries)[i])):
            rounding = max(abs(each[k] - exact[k]) for each in near)
            assert float(found) == pytest.approx(
                exact[k], abs=rounding + 20 * eps * exact[k] + tiny
            )
        assert float(prox[i]) == pytest.approx(
            r_i - step * exact[0], abs=10 * eps * (abs(r_i) + step)
        )


# ------------------------------------------------------------------------------------------------
# Values, gradients and Hessians
# ------------------------------------------------------------------------------------------------


def differences(function, point, h=1e-6):
    return np.stack(
        [(function(point + h * e) - function(point - h * e)) / (2 * h) for e in np.eye(len(point))],
        axis=-1,
    )


@everywhere
@BOTH
@pytest.mark.parametrize("step", [0.05, 1.0, 20.0])
def test_smoothed_gradients_and_hessians_are_finite_differences(loss, step):
    loss, rows = seen(loss), Rows(7, labels=LABELS)
    r = np.random.default_rng(0).standard_normal(7) * 2 + 0.013

    def envelope(r):
        x = loss.prox(r, step, rows)
        return loss.value(x, rows) + np.sum((x - r) ** 2) / (2 * step)

    np.testing.assert_allclose(loss.gradient(r, step, rows), differences(envelope, r), atol=1e-8)
    dense = differences(lambda x: loss.gradient(x, step, rows), r)
    np.testing.assert_allclose(loss.hessian(r, step, rows)(np.eye(7)), dense, atol=1e-8)
    dense = differences(lambda x: loss.prox(x, step, rows), r)
    np.testing.assert_allclose(loss.prox_jacobian(r, step, rows)(np.eye(7)), dense, atol=1e-7)


@everywhere
@BOTH
def test_values_are_sums_over_rows(loss):
    z = np.linspace(-3, 3.1, 7)
    expected = by_hand(loss, LABELS, z).sum() / math.sqrt(7)
    loss, rows = seen(loss), Rows(7, labels=LABELS)
    np.testing.assert_allclose(loss.value(LABELS - z, rows), expected, rtol=1e-14)
    if loss.smoothness is not None:
        slope = differences(lambda r: loss.value(r, rows), LABELS - z)
        np.testing.assert_allclose(loss.gradient(LABELS - z, 0.0, rows), slope, atol=1e-8)
        curvature = loss.hessian(LABELS - z, 0.0, rows)(np.ones(7))
        assert np.all(curvature <= loss.smoothness / math.sqrt(7) + 1e-15)


@BOTH
@pytest.mark.parametrize("step", [0.0, 0.7])
def test_labels_and_weights_of_members_and_counts(loss, step):
    """Labels of each member, rows that count unequally, and rows that are left out."""
    rng = np.random.default_rng(1)
    r, block = rng.standard_normal((7, 2, 1)), rng.standard_normal((7, 2, 3))
    labels = np.stack([LABELS, -LABELS], axis=1)[:, :, None]
    kept = np.array([[1, 1], [1, 0], [0, 1], [1, 1], [1, 1], [2, 1], [1, 3]], dtype=float)
    rows = Rows(7, kept[:, :, None], labels=labels)
    value, gradient = loss.value(r, rows), loss.gradient(r, step, rows)
    tangents = loss.hessian(r, step, rows)(block)
    for k in range(2):
        own = Rows(7, kept[:, k], labels=labels[:, k, 0])
        alone = r[:, k, 0]
        y = labels[:, k, 0]
        expected = kept[:, k] @ by_hand(loss, y, y - alone) / math.sqrt(7)
        np.testing.assert_allclose(value[k, 0], expected)
        np.testing.assert_allclose(gradient[:, k, 0], loss.gradient(alone, step, own))
        np.testing.assert_allclose(tangents[:, k, :], loss.hessian(alone, step, own)(block[:, k]))


# ------------------------------------------------------------------------------------------------
# Constants
# ------------------------------------------------------------------------------------------------


@everywhere
@BOTH
@pytest.mark.parametrize("positive", [2, 5, 11])
@pytest.mark.parametrize("counted", [False, True], ids=["alike", "weighted"])
def test_location_is_the_best_constant(loss, positive, counted):
    y = np.where(np.arange(13) < positive, 1.0, -1.0)
    weights = np.random.default_rng(0).uniform(0.2, 3, 13) if counted else np.ones(13)
    found = seen(loss).location(y, weights if counted else None)

    def total(c):
        return weights @ by_hand(loss, y, c)

    best = minimize_scalar(total, bounds=(-10, 10), method="bounded", options={"xatol": 1e-10})
    assert total(found) <= min(best.fun, total(1.0), total(-1.0)) * (1 + 1e-12)
    if loss.name != "hinge":
        assert found == pytest.approx(best.x, abs=1e-6)


@EVERY
def test_location_of_equal_classes_is_zero(loss):
    y = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    assert loss.location(y) == 0
    assert loss.location(y, np.array([0.1, 0.1, 0.2, 0.2, 0.4, 0.4])) == pytest.approx(0, abs=1e-15)
    assert type(loss)("balanced").on(y[:5]).location(y[:5]) == pytest.approx(0, abs=1e-15)


# ------------------------------------------------------------------------------------------------
# Conjugates
# ------------------------------------------------------------------------------------------------


@everywhere
@BOTH
def test_conjugates_are_largest_differences(loss):
    low, high = loss.weights or (1.0, 1.0)
    limit = LABELS * np.where(LABELS > 0, high, low) / math.sqrt(7)
    shares = np.array([0.01, 0.3, 0.5, 0.77, 0.99, 0.2, 0.6])
    w, expected = shares * limit, 0.0
    for w_i, y in zip(w, LABELS, strict=True):

        def loss_of(r, w_i=w_i, y=y):
            return by_hand(loss, y, y - r) / math.sqrt(7) - w_i * r

        best = minimize_scalar(
            loss_of, bounds=(-60, 60), method="bounded", options={"xatol": 1e-10}
        )
        expected -= min(best.fun, loss_of(0.0))
    loss, rows = seen(loss), Rows(7, labels=LABELS)
    np.testing.assert_allclose(loss.conjugate(w, rows), expected, atol=1e-8)
    if loss.name != "squared_hinge":
        np.testing.assert_allclose(loss.gauge(w, rows), 0.99)
        np.testing.assert_allclose(loss.gauge(1.5 * w, rows), 1.485)
    w[2] = -w[2]
    assert loss.gauge(w, rows) == math.inf  # of the wrong sign, whatever its size


# ------------------------------------------------------------------------------------------------
# Class weights
# ------------------------------------------------------------------------------------------------


@EVERY
def test_balanced_weights_are_inversely_proportional_to_classes(loss):
    X, y, _ = draw(40, 6)
    y = responses(loss, y)
    shares = {k: 40 / (2 * (y == k).sum()) for k in (-1, 1)}
    how = {"penalty": sp.Lasso(0.2), "n_iter": 20, "fit_intercept": True}
    balanced = sp.run(X, y, type(loss)("balanced"), **how)
    assert balanced.loss.weights == pytest.approx((shares[-1], shares[1]))
    by_hand = sp.run(X, y, type(loss)(shares), **how)
    np.testing.assert_allclose(balanced.coef, by_hand.coef, atol=1e-12)
    # rows that count twice are two
    counts = 1 + np.arange(40) % 2
    weighted = type(loss)("balanced").on(y, counts)
    assert weighted.weights == pytest.approx(
        type(loss)("balanced").on(np.repeat(y, counts)).weights
    )


@EVERY
def test_risks_count_classes_as_the_loss_does(loss):
    X, y, _ = draw(60, 6)
    y = responses(loss, y)
    weighted = type(loss)(class_weight={-1: 1.0, 1: 4.0})
    path = sp.run(X, y, weighted, sp.Lasso(0.2), n_iter=15, fit_intercept=True)
    weights = np.where(y > 0, 4.0, 1.0)
    for test_loss in (None, "zero_one"):
        risk = sp.estimate_risk(path, test_loss, method="loo")
        margins = y * risk.corrected
        losses = RHO[loss.name](margins) * (2 if loss == SQUARED_HINGE else 1)
        losses = losses if test_loss is None else (1 - np.sign(margins)) / 2
        np.testing.assert_allclose(risk.values, np.average(losses, axis=1, weights=weights))


# ------------------------------------------------------------------------------------------------
# What is refused
# ------------------------------------------------------------------------------------------------

N = 12
GOOD = np.where(np.arange(N) % 3, -1.0, 1.0)


def changed(**entries):
    y = GOOD.copy()
    for name, value in entries.items():
        y[int(name[1:])] = value
    return y


BAD_LABELS = {
    "0 and 1": ((GOOD + 1) / 2, r"labels y of -1 and 1, got 0, 1: use numpy.where\(y == positive"),
    "three": (np.arange(N) % 3 - 1.0, "labels y of -1 and 1, got -1, 0, 1: use sp.PathClassifier"),
    "many": (
        np.arange(N) - 0.5,
        "labels y of -1 and 1, got -0.5, 0.5, 1.5, 2.5, …: use sp.PathClass",
    ),
    "NaN": (changed(_3=np.nan), "y has 1 value that is NaN or infinite"),
    "infinite": (changed(_3=np.inf), "y has 1 value that is NaN or infinite"),
    "one class": (np.ones(N), "requires two classes, but all labels y are 1"),
    "other class": (-np.ones(N), "two classes, but all labels y are -1"),
    "one member": (
        np.where(np.arange(N) == 4, 1.0, -1.0),
        "requires at least 2 rows of each class, but class 1 has 1; holding it out",
    ),
}


@EVERY
@pytest.mark.parametrize(("y", "message"), BAD_LABELS.values(), ids=BAD_LABELS)
def test_bad_labels_are_refused(loss, y, message):
    X = np.random.default_rng(0).standard_normal((N, 3))
    for refuses in (
        lambda: sp.run(X, y, loss, sp.Lasso(0.1)),
        lambda: sp.run(X, y.tolist(), loss, sp.Lasso(0.1), fit_intercept=True),
        lambda: sp.run_batch(X, np.stack([GOOD, y]), loss, sp.Lasso(0.1)),
        lambda: sp.tune(X, y, loss, sp.Lasso, 2, 5),
        lambda: sp.lam_max(X, y, loss, sp.Lasso(1.0)),
    ):
        with pytest.raises(ValueError, match=message):
            refuses()


@EVERY
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("heavy", "class_weight must be None, 'balanced' or a dict with the weight of each class"),
        ([1.0, 2.0], "class_weight must be None, 'balanced' or a dict"),
        ({0: 1.0, 1: 2.0}, r"class_weight has an unknown class 0; the classes are \[-1, 1\]"),
        ({1: 0.0}, r"class_weight\[1\] must be"),
        ({-1: -2.0}, r"class_weight\[-1\] must be"),
        ({1: math.nan}, r"class_weight\[1\] must be"),
        ({1: math.inf}, r"class_weight\[1\] must be"),
        ({1: "2"}, r"class_weight\[1\] must be a real number"),
    ],
    ids=repr,
)
def test_bad_class_weights_are_refused(loss, weights, message):
    with pytest.raises((ValueError, TypeError), match=message):
        type(loss)(class_weight=weights)


def test_balanced_weights_need_labels():
    with pytest.raises(ValueError, match="class_weight='balanced' requires labels"):
        sp.Logistic("balanced").value(np.zeros(3))


@pytest.mark.parametrize("name", ["zero_one", "log", "hinge", "squared_hinge", "brier"])
def test_test_losses_of_labels_need_labels(name):
    X, y, _ = draw(20, 3)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.1), n_iter=3)
    for refuses in (sp.estimate_risk, sp.leave_one_out_path):
        with pytest.raises(ValueError, match=f"test_loss='{name}' requires labels y of -1 and 1"):
            refuses(path, test_loss=name)
    # a regression of labels has an error rate
    y = np.where(y > 0, 1.0, -1.0)
    risk = sp.estimate_risk(sp.run(X, y, sp.LAD(), sp.Lasso(0.1), n_iter=3), "zero_one")
    assert risk.values[0] == 0.5


# ------------------------------------------------------------------------------------------------
# Test losses
# ------------------------------------------------------------------------------------------------

SCIKIT_LEARN = {
    "zero_one": lambda y, z, w: zero_one_loss(y, np.sign(z), sample_weight=w),
    "log": lambda y, z, w: log_loss(y, expit(z), sample_weight=w),
    "hinge": lambda y, z, w: hinge_loss(y, z, sample_weight=w),
    "brier": lambda y, z, w: brier_score_loss(y, expit(z), sample_weight=w),
    "squared_hinge": lambda y, z, w: np.average(np.maximum(1 - y * z, 0) ** 2, weights=w),
}


def test_every_test_loss_of_labels_is_here():
    assert set(SCIKIT_LEARN) == {name for name, kind in CRITERIA.items() if kind.margin}


@everywhere
@pytest.mark.parametrize("name", SCIKIT_LEARN)
@pytest.mark.parametrize("level", [0.0, 0.7, -1.0, 1.0, 3.0])
@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
def test_test_losses_are_those_of_scikit_learn(name, level, weighted):
    """Also of labels and predictions less a level, as runs with an intercept have them."""
    rng = np.random.default_rng(0)
    y, z = np.where(rng.random(50) < 0.3, 1.0, -1.0), 3 * rng.standard_normal(50)
    loss = sp.Logistic({-1: 0.5, 1: 4.0}) if weighted else sp.Logistic()
    weights = np.where(y > 0, 4.0, 0.5) if weighted else None
    criterion = on_backend(resolve_test_loss)(name, loss)
    about = on_backend(about_level)(criterion, y, level)
    found = about(y - level, np.stack([z - level, -level + 0 * z]))
    assert found[0].mean() == pytest.approx(SCIKIT_LEARN[name](y, z, weights), rel=1e-12)
    ties = found[1].mean()
    constant = {"zero_one": 0.5, "log": math.log(2), "brier": 0.25}.get(name, 1.0)
    assert ties == pytest.approx(constant, abs=1e-12)
    if not weighted and level == 0:
        np.testing.assert_array_equal(criterion(y, z), found[0])


def test_log_loss_is_finite_for_sure_predictions():
    y = np.array([1.0, -1.0, 1.0, -1.0])
    z = np.array([1e4, 1e4, -1e4, -1e4])
    np.testing.assert_allclose(CRITERIA["log"]()(y, z), [0.0, 1e4, 1e4, 0.0], atol=1e-300)
    np.testing.assert_allclose(CRITERIA["brier"]()(y, z), [0.0, 1.0, 1.0, 0.0], atol=1e-300)


def test_test_losses_go_with_losses():
    for loss, name in ((HINGE, "hinge"), (SQUARED_HINGE, "squared_hinge"), (LOGISTIC, "log")):
        assert resolve_test_loss(None, loss) == CRITERIA[name]()
        weighted = type(loss)({-1: 1.0, 1: 2.0})
        assert resolve_test_loss(None, weighted) == CRITERIA[name](class_weight=(1.0, 2.0))
        assert resolve_test_loss("zero_one", weighted).class_weight == (1.0, 2.0)
        assert "class weights" in resolve_test_loss(None, weighted).words
    assert CRITERIA["zero_one"]().words == "error rate"


@pytest.mark.parametrize("name", [name for name in SCIKIT_LEARN if name != "zero_one"])
@pytest.mark.parametrize("weights", [None, (0.5, 3.0)], ids=["alike", "weighted"])
def test_risks_differ_by_no_more_than_the_bound(name, weights):
    rng = np.random.default_rng(0)
    criterion, largest = CRITERIA[name](class_weight=weights), 0.0
    for k in range(500):
        y = np.where(rng.random(20) < (1.1 if k % 2 else 0.3), 1.0, -1.0)
        first = rng.standard_normal(20) * rng.exponential(2.0)
        second = first + (0.01 if k % 3 else 1.0) * rng.standard_normal(20)
        if k % 5 == 0:  # where the losses are steepest
            first = np.full(20, -math.log(2) if name == "brier" else -20.0)
            second = first - 1e-3 * y
        risks = np.array([criterion(y, z).mean() for z in (first, second)])
        bound = criterion.lipschitz(risks)[0, 1] * np.sqrt(np.mean((first - second) ** 2))
        assert abs(risks[0] - risks[1]) <= bound * (1 + 1e-9)
        largest = max(largest, abs(risks[0] - risks[1]) / bound)
    assert largest > 0.95
