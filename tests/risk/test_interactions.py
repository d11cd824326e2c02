"""Interactions: how much the losses of two rows have to do with each other."""

import itertools
import math
from functools import lru_cache

import numpy as np
import pytest

from backends import everywhere, on_backend, sp
from problems import draw
from small_paths import absolute, momentum, plain_losses, problem_of, ridge_path
from steinpath.problem import _scoring as scoring
from steinpath.problem._scoring import observation_losses, resolve_test_loss
from steinpath.risk import _held_out as pairing
from steinpath.risk import _leave_out as baselines
from steinpath.risk import _methods as methods
from steinpath.risk._held_out import disjoint_pairs, n_columns
from steinpath.risk._methods import METHODS

leave_one_out, leave_out = map(on_backend, (baselines.leave_one_out, baselines.leave_out))
Interactions, interactions = map(on_backend, (pairing.Interactions, pairing.Interactions.between))
leave_rows_out, losses_at = map(on_backend, (methods.leave_rows_out, scoring.losses_at))

INTERCEPT = pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
LOO_AND_AUDIT = pytest.mark.parametrize(
    "options", [{}, {"method": "exact", "audit": 14}], ids=["loo", "audit"]
)


def squared(y, prediction):
    return (y - prediction) ** 2


def estimate(path, method="loo", **options):
    """The estimated risk, all of it in double precision."""
    return sp.estimate_risk(path, method=method, rng=0, precision="float64", **options)


def without(X, path, *rows):
    """What a run to which some rows are zero predicts for all rows."""
    keep = np.ones(len(X))
    keep[list(rows)] = 0
    y, penalty, start = path.y, path.penalty, 0.0
    if path.fit_intercept:  # LAD and lasso, the intercept's column written out
        kept = keep > 0
        X = X - X[kept].mean(axis=0)
        X = np.column_stack([X, np.full(len(X), np.sqrt(np.mean(X[kept] ** 2)))])
        penalty = sp.Lasso(penalty.lam, weights=np.append(np.ones(X.shape[1] - 1), 0.0))
        start = np.median(y[kept])
    run = sp.run(
        X * keep[:, None], (y - start) * keep, path.loss, penalty, path.algorithm, path.n_iter
    )
    return start + run.coef @ X.T


def changes_by_hand(X, path, loss, pairs):
    """Losses of runs without the row, less those of runs without both rows."""
    changes = np.zeros((path.n_iter + 1, len(pairs), 2))
    for k, (i, j) in enumerate(pairs):
        both = without(X, path, i, j)
        for side, row in enumerate((i, j)):
            alone = without(X, path, row)
            y = path.y[row]
            changes[:, k, side] = loss(y, alone[:, row]) - loss(y, both[:, row])
    return changes


def variance_by_hand(changes):
    """Mean over the pairs of the product of both changes, plus its standard error; at least 0.

    A single product is taken for positive.
    """
    bounds = []
    for pairs in changes:
        products = [a * b for a, b in pairs]
        if len(products) == 1:
            bounds.append(abs(products[0]))
        else:
            error = np.std(products, ddof=1) / math.sqrt(len(products))
            bounds.append(max(0, np.mean(products) + error))
    return np.array(bounds)


# ----- Leaving out groups of rows -----

GROUPS = {
    1: [[4], [0], [8], [4], [2]],
    2: [[4, 1], [0, 8], [8, 2], [3, 7], [1, 4]],
    3: [[4, 1, 0], [2, 8, 5], [6, 7, 3], [8, 0, 4], [5, 1, 2]],
}


@everywhere(every=7)
@pytest.mark.parametrize("width", [1, 2, 256])  # columns that advance together
@pytest.mark.parametrize("size", GROUPS)
@pytest.mark.parametrize(
    ("loss", "penalty", "algorithm"),
    [
        (sp.Squared(), sp.Ridge(0.3), sp.FISTA()),
        (sp.LAD(), sp.Lasso(0.3), sp.ChambollePock()),
        (sp.SquareRoot(), sp.Ridge(0.1), sp.LinearizedADMM()),
        (sp.Huber(), sp.NoPenalty(), None),
    ],
    ids=["squared", "lad", "square_root", "recursion"],
)
def test_groups_are_left_out_together(loss, penalty, algorithm, size, width):
    X, y, _ = draw(9, 5)
    path = sp.run(X, y, loss, penalty, algorithm or momentum(), n_iter=8)
    groups = np.array(GROUPS[size])
    found = leave_out(path, groups, width=width)
    assert found.shape == (9, 5, size)
    for k, group in enumerate(groups):
        expected = without(X, path, *group)[:, group]
        np.testing.assert_allclose(found[:, k, :], expected, atol=1e-10)
    assert not np.allclose(found, path.fitted[:, groups], atol=1e-3)


@everywhere
@INTERCEPT
def test_without_all_rows_there_is_nothing_to_predict_from(fit_intercept):
    path = ridge_path(n=9, p=5, fit_intercept=fit_intercept)
    found = leave_out(path, np.arange(9)[None, :])
    np.testing.assert_array_equal(found, np.zeros((13, 1, 9)))


# ----- By refitting -----


@everywhere(every=5)
@pytest.mark.parametrize(
    ("test_loss", "loss"),
    [
        ("absolute", absolute),
        ("squared", squared),
        (sp.Quantile(0.3), lambda y, z: np.maximum(0.3 * (y - z), -0.7 * (y - z))),
        (plain_losses, plain_losses),
    ],
    ids=["absolute", "squared", "loss", "callable"],
)
@pytest.mark.parametrize(
    ("fitting", "penalty", "fit_intercept"),
    [
        (sp.Squared(), sp.Ridge(0.3), False),
        (sp.LAD(), sp.Lasso(0.3), False),
        (sp.LAD(), sp.Lasso(0.3), True),
        (sp.SquareRoot(), sp.Ridge(0.1), False),
    ],
    ids=["squared", "lad", "intercept", "square_root"],
)
def test_changes_by_refitting(fitting, penalty, fit_intercept, test_loss, loss):
    X, y, _ = draw(9, 5)
    X, y = X + fit_intercept, y + 3 * fit_intercept
    path = sp.run(X, y, fitting, penalty, n_iter=8, fit_intercept=fit_intercept)
    rows = np.array([7, 2, 8, 0, 5])  # in any order; the last one has no other
    predictions, found = leave_rows_out(problem_of(path, test_loss), rows, path.design)
    expected = changes_by_hand(X, path, loss, [(7, 2), (8, 0)])
    alone = np.stack([without(X, path, i)[:, i] for i in rows], axis=1)
    np.testing.assert_allclose(path.above_level(predictions), alone, atol=1e-11)
    np.testing.assert_allclose(found.changes, expected, atol=1e-11)
    np.testing.assert_allclose(found.stderr() ** 2, variance_by_hand(expected), atol=1e-11)
    assert np.abs(expected[3:]).mean() > 1e-2


def test_changes_of_least_squares_have_a_closed_form():
    """By the hat matrix, without any refit."""
    n, p, lam = 30, 10, 0.3
    X, y, _ = draw(n, p)
    path = sp.run(X, y, sp.Squared(), sp.Ridge(lam), n_iter=800)
    hat = X @ np.linalg.solve(X.T @ X + np.sqrt(n) * lam * np.eye(p), X.T)
    residuals, rest = y - hat @ y, np.eye(n) - hat
    _, found = leave_rows_out(problem_of(path, "squared"), np.arange(n), path.design)
    products = []
    for k, (i, j) in enumerate(np.arange(n).reshape(15, 2)):
        alone = residuals[[i, j]] / np.diag(rest)[[i, j]]
        both = np.linalg.solve(rest[i : j + 1, i : j + 1], residuals[[i, j]])
        np.testing.assert_allclose(found.changes[-1, k], alone**2 - both**2, atol=1e-6)
        products.append(np.prod(alone**2 - both**2))
    expected = np.mean(products) + np.std(products, ddof=1) / math.sqrt(15)
    assert found.stderr()[-1] ** 2 == pytest.approx(expected, rel=1e-6)


# ----- What follows from the changes -----


def some_changes(T=6, q=5):
    """Changes that are alike within a pair, but opposite at the last iterate."""
    rng = np.random.default_rng(0)
    shared, own = rng.standard_normal((T, q, 1)), rng.standard_normal((T, q, 2))
    changes = shared + own
    changes[-1, :, 1] = -changes[-1, :, 0]
    return changes


@everywhere
@pytest.mark.parametrize("q", [1, 2, 5, 32])
def test_variances_by_hand(q):
    changes = some_changes(q=q)
    found = Interactions(changes)
    expected = variance_by_hand(changes)
    np.testing.assert_allclose(found.stderr() ** 2, expected, rtol=1e-12, atol=1e-14)
    assert ((found.stderr() ** 2)[:-1] > 0).any()
    assert ((found.stderr() ** 2)[-1] > 0) == (q == 1)
    for t1, t2 in itertools.product(range(6), repeat=2):
        expected = variance_by_hand((changes[t1] - changes[t2])[None])[0]
        between = found.stderr_between(t1, t2) ** 2
        assert between == pytest.approx(expected, rel=1e-12)
        assert between == found.stderr_between(t2, t1) ** 2
        assert type(between) is float
        assert between >= 0
        assert t1 != t2 or between == 0


@pytest.mark.parametrize(
    ("m", "q"), [(0, 0), (1, 0), (2, 1), (3, 1), (9, 4), (63, 31), (64, 32), (65, 32), (500, 32)]
)
def test_no_row_is_in_two_pairs(m, q):
    rows = np.random.default_rng(0).permutation(1000)[:m]
    pairs = disjoint_pairs(rows)
    assert pairs.shape == (q, 2)
    np.testing.assert_array_equal(pairs.ravel(), rows[: 2 * q])
    assert n_columns(m) == m + q


# ----- In standard errors -----


@INTERCEPT
def test_standard_errors_of_leave_one_out_by_hand(fit_intercept):
    path = ridge_path(fit_intercept=fit_intercept)
    risk, rows = estimate(path, test_loss="absolute"), np.random.default_rng(0).permutation(40)
    _, pairs = leave_rows_out(problem_of(path, "absolute"), rows, path.design)
    assert pairs.changes.shape == (13, 20, 2)
    np.testing.assert_allclose(risk.interactions.changes, pairs.changes, atol=1e-12)
    losses = absolute(path.y, risk.corrected)
    variance = losses.var(axis=1, ddof=1) / 40 + variance_by_hand(pairs.changes)
    np.testing.assert_allclose(risk.stderr, np.sqrt(variance), rtol=1e-10)
    assert ((pairs.stderr() ** 2)[3:] > 0.05 * variance[3:]).all()
    for t1, t2 in ((3, 12), (12, 3), (0, 7)):
        paired = (losses[t1] - losses[t2]).var(ddof=1) / 40
        between = variance_by_hand((pairs.changes[t1] - pairs.changes[t2])[None])[0]
        difference, stderr = risk.compare(t1, t2)
        assert difference == pytest.approx(risk.values[t1] - risk.values[t2], rel=1e-12)
        assert stderr == pytest.approx(np.sqrt(paired + between), rel=1e-10)
        assert between > 0.05 * paired
    assert risk.compare(5, 5) == (0, 0)


@pytest.mark.parametrize("method", METHODS)
def test_they_are_known_where_rows_are_left_out_one_at_a_time(method):
    path = ridge_path()
    for audit in (0, 14, "folds"):
        if method != audit:
            known = estimate(path, method, audit=audit).interactions is not None
            assert known == (method == "loo" or audit == 14)


# ----- Which pairs -----


@everywhere
@LOO_AND_AUDIT
def test_the_pairs_change_nothing_else(options):
    path = ridge_path()
    risk = estimate(path, test_loss="absolute", **options)
    rows = np.ravel(risk.interactions.pairs)  # all that are left out
    alone = leave_one_out(path, rows)  # without any pairs
    found = risk.audited.predictions if "audit" in options else risk.predictions.at(rows)
    np.testing.assert_allclose(found, alone, rtol=1e-12, atol=1e-12)
    pairs = disjoint_pairs(rows)[:3]
    assert pairs.shape == (3, 2)
    alone = alone[:, :6].reshape(13, 3, 2)
    few = interactions(path, resolve_test_loss("absolute"), pairs, alone, leave_out(path, pairs))
    np.testing.assert_allclose(few.changes, risk.interactions.changes[:, :3], atol=1e-12)


@everywhere
def test_leave_one_out_has_no_randomness():
    path = ridge_path()
    first, other = (sp.estimate_risk(path, method="loo", rng=s) for s in (3, 4))
    np.testing.assert_array_equal(first.interactions.changes, other.interactions.changes)
    np.testing.assert_array_equal(first.stderr, other.stderr)


# ----- Other forms of the same data -----


@everywhere(every=3)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("audit", [0, 14, "folds"])
def test_callables_that_know_all_rows(method, audit):
    """A test loss sees all observations, whatever is asked of it."""
    if method == audit:
        return
    path, weights = ridge_path(), np.linspace(0, 2, 40)
    named, own = (
        estimate(path, method, audit=audit, test_loss=t)
        for t in ("absolute", lambda y, z: weights * np.abs(y - z))
    )
    if method != "folds":
        losses = weights * np.abs(path.y - own.corrected)
        np.testing.assert_allclose(own.raw, losses.mean(axis=1), rtol=1e-12)
    if own.interactions is not None:
        rows = np.random.default_rng(0).permutation(40) if method == "loo" else own.audit.rows
        pairs = disjoint_pairs(rows)
        expected = weights[pairs] * named.interactions.changes
        np.testing.assert_allclose(own.interactions.changes, expected, atol=1e-12)
    if audit == 14 and method not in ("loo", "folds"):
        expected = weights[own.audit.rows] * named.audit.differences
        np.testing.assert_allclose(own.audit.differences, expected, atol=1e-10)


DIVERGENT = pytest.mark.parametrize("test_loss", ["squared", squared], ids=["named", "callable"])


@DIVERGENT
def test_runs_that_diverge_without_a_row(test_loss):
    """Two opposite rows hold each other at zero; alone, each of them explodes."""
    unstable = sp.Recursion(
        dual=lambda t, u, v: -1e3 * v[-1],
        primal=lambda t, b, eta: b[-1] - 1e3 * eta[-1],
        dual_jvp=lambda *_: None,
        primal_jvp=lambda *_: None,
    )
    X, y = np.ones((3, 1)), np.array([1.0, -1.0, 0.0])
    path = sp.run(X, y, sp.Squared(), sp.NoPenalty(), unstable, n_iter=80)
    with pytest.raises(FloatingPointError, match="on a part of the rows"):
        estimate(path, test_loss=test_loss)


@everywhere
@DIVERGENT
@pytest.mark.parametrize("options", [{}, {"method": "exact", "audit": 2}], ids=["loo", "audit"])
def test_runs_that_diverge_without_a_pair(options, test_loss):
    """Descent that needs three rows out of four, and does not move with them."""
    fragile = sp.Recursion(
        dual=lambda t, u, v: v[-1],
        primal=lambda t, b, eta: np.where(eta[-1] < 0.7, np.inf, 0.0),
        dual_jvp=lambda t, u, v, du, dv: dv[-1],
        primal_jvp=lambda t, b, eta, db, deta: 0 * deta[-1],
    )
    path = sp.run(np.ones((4, 1)), np.ones(4), sp.Squared(), sp.NoPenalty(), fragile, n_iter=3)
    assert np.isfinite(leave_one_out(path)).all()
    with pytest.raises(FloatingPointError, match="on a part of the rows"):
        estimate(path, test_loss=test_loss, **options)


# ----- Hardly any data -----


@LOO_AND_AUDIT
@INTERCEPT
@pytest.mark.parametrize("test_loss", [None, squared], ids=["named", "callable"])
@pytest.mark.parametrize("loss", [sp.LAD(), sp.Squared()], ids=repr)
def test_a_single_row_has_no_pairs(options, fit_intercept, loss, test_loss):
    path = sp.run([[1.0, 2.0]], [3.0], loss, sp.Ridge(0.1), n_iter=3, fit_intercept=fit_intercept)
    risk = estimate(path, test_loss=test_loss, **options)
    assert risk.interactions.changes.shape == (4, 0, 2)
    np.testing.assert_array_equal(risk.interactions.stderr() ** 2, np.zeros(4))
    assert risk.interactions.stderr_between(3, 1) ** 2 == 0
    assert np.isposinf(risk.stderr).all()
    difference, stderr = risk.compare(3, 1)
    assert math.isfinite(difference)
    assert stderr == math.inf


@everywhere
@LOO_AND_AUDIT
@INTERCEPT
@pytest.mark.parametrize("n", [2, 3])
def test_two_or_three_rows_are_one_pair(options, fit_intercept, n):
    X, y = np.array([[1.0], [2.0], [-1.0]])[:n], np.array([1.0, 3.0, 0.5])[:n]
    path = sp.run(X, y, sp.Squared(), sp.Ridge(0.1), n_iter=3, fit_intercept=fit_intercept)
    risk = estimate(path, **options)
    changes = risk.interactions.changes
    assert changes.shape == (4, 1, 2)
    product = changes[:, 0, 0] * changes[:, 0, 1]
    np.testing.assert_allclose(risk.interactions.stderr() ** 2, np.abs(product), rtol=1e-12)
    assert np.isfinite(risk.stderr).all()
    assert np.isfinite(risk.compare(3, 1)).all()
    assert (changes[1:] != 0).all()
    if not fit_intercept:
        rows = np.random.default_rng(0).permutation(n) if not options else risk.audit.rows
        expected = changes_by_hand(X, path, squared, [rows[:2]])
        np.testing.assert_allclose(changes, expected, atol=1e-12)


# ----- What they are for -----


def normal_risk(model, coef, test_loss):
    """Mean square of the prediction errors, which are normal, or the mean of their sizes."""
    away = coef - model.coef
    square = 1 + np.sum(away @ model.covariance * away, axis=1)
    return {"squared": square, "absolute": np.sqrt(2 / np.pi * square)}[test_loss]


@lru_cache
def replications(loss, penalty, p, times):
    """Errors of leave-one-out and what is said of them, for some iterates and their differences.

    Each of shape (400, len(times), len(times)): of single iterates on the diagonal. First the
    errors, then their variances: claimed, if the losses were independent, and by the formula, with
    the mean product of the changes as it is.
    """
    model, n = sp.simulate.paper_model(p), 60
    found = np.zeros((4, 400, len(times), len(times)))
    for seed in range(400):
        X, y = model.sample(n, rng=seed)
        path = sp.run(X, y, loss, penalty, n_iter=max(times))
        risk = sp.estimate_risk(path, method="loo", rng=seed)
        errors = risk.values[[*times]] - normal_risk(model, path.coef[[*times]], risk.test_loss)
        losses = observation_losses(risk.criterion, y, risk.corrected)
        changes = risk.interactions.changes
        for (i, s), (j, t) in itertools.product(enumerate(times), repeat=2):
            if s == t:
                error, claimed, loss_of, change = errors[i], risk.stderr[s], losses[s], changes[s]
            else:
                error, claimed = errors[i] - errors[j], risk.compare(s, t)[1]
                loss_of, change = losses[s] - losses[t], changes[s] - changes[t]
            independent = loss_of.var(ddof=1) / n
            covariance = change.prod(axis=1).mean()
            found[:, seed, i, j] = error, claimed**2, independent, independent + covariance
    return found


def excess(errors, variance):
    """Mean squared error beyond the variance, in Monte Carlo standard errors."""
    beyond = errors**2 - variance
    return beyond.mean(axis=0) / (beyond.std(axis=0, ddof=1) / math.sqrt(len(beyond)))


def ratio(errors, variance):
    """Root mean square error over the root of the mean variance."""
    return np.sqrt(np.mean(errors**2, axis=0) / np.mean(variance, axis=0))


STUDIES = pytest.mark.parametrize(
    "study",
    [
        (sp.Squared(), sp.Ridge(0.1), 30, (4, 12)),
        (sp.LAD(), sp.Ridge(0.1), 30, (3, 10)),
        (sp.LAD(), sp.Lasso(0.3), 30, (3, 20)),
        (sp.Squared(), sp.Ridge(0.01), 45, (8, 25)),
    ],
    ids=["moderate", "robust", "sparse", "late"],
)


@pytest.mark.slow
@STUDIES
def test_standard_errors_are_the_sizes_of_the_errors(study):
    """By the formula, without a margin."""
    errors, _, _, formula = replications(*study)
    assert (np.abs(excess(errors, formula)) < 3).all()
    assert (np.abs(ratio(errors, formula) - 1) < 0.1).all()


@STUDIES
def test_standard_errors_are_on_the_safe_side(study):
    """Not too small, and not much too large.

    Of sixty skewed losses, bands of two standard errors cover a little less than normal ones.
    """
    errors, claimed, _, formula = replications(*study)
    assert (claimed >= formula).all()
    assert (excess(errors, claimed) < 1).all()
    assert (ratio(errors, claimed) > 0.75).all()
    covered = np.mean(errors**2 <= 4 * claimed, axis=0)
    assert (covered > 0.9).all()
    assert (covered < 0.99).all()


@STUDIES
def test_the_losses_are_not_independent(study):
    errors, claimed, independent, _ = replications(*study)
    beyond = excess(errors, independent)
    assert beyond[1, 1] > 4  # the risk of the later iterate
    assert beyond[0, 1] > 4  # its difference from that of the earlier one
    assert (claimed >= independent).all()
    assert (claimed > 1.05 * independent)[:, 1, 1].mean() > 0.95
