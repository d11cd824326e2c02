"""Diagnostics: each check against values by hand, on cases that it should and should not mind."""

import dataclasses
import itertools
import math

import array_api_strict
import numpy as np
import pytest
from scipy import linalg
from scipy.signal import lfilter

import steinpath as sp
from benchmarks.common.challenges import CHALLENGES
from problems import ALGORITHM_EXAMPLES, Products, draw, handles
from small_paths import estimate, momentum
from steinpath.problem._scoring import CRITERIA
from steinpath.risk._audit import Audit
from steinpath.risk._diagnostics import CHECKS, diagnose
from steinpath.risk._evidence import Evidence, blocks_of_columns
from steinpath.risk._held_out import RowSample
from steinpath.risk._methods import METHODS

INTERCEPT = pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
with_values = dataclasses.replace
LAD, LASSO, CHAMBOLLE_POCK = sp.LAD(), sp.Lasso(0.5), sp.ChambollePock()


def paper_path(n=80, p=30, loss=LAD, penalty=LASSO, n_iter=12, **options):
    """A path of the paper's model, with which nothing is wrong."""
    X, y = sp.simulate.paper_model(p, "normal").sample(n, rng=0)
    return sp.run(X, y, loss, penalty, n_iter=n_iter, **options)


def risk_of(X, y=None, method="exact", **options):
    """The risk of a few steps on given rows."""
    y = np.random.default_rng(1).standard_normal(len(X)) if y is None else y
    return estimate(sp.run(X, y, sp.LAD(), sp.Lasso(0.5), n_iter=4, **options), method)


def gaussian(n, p, seed=0):
    return np.random.default_rng(seed).standard_normal((n, p))


def check(risk, name, at=None):
    """What a check found, if it did; near another iterate than the best one, if that is given."""
    diagnostics = risk.diagnostics if at is None else risk.diagnose(at)
    return {diagnostic.name: diagnostic for diagnostic in diagnostics}.get(name)


def flexible(X, y=None, **options):
    """The risk of a fit that a single row has much influence on."""
    if y is None:
        y = X @ np.ones(X.shape[1]) / math.sqrt(X.shape[1]) + gaussian(len(X), 1, 1)[:, 0]
    return estimate(sp.run(X, y, sp.Squared(), sp.Ridge(0.1), n_iter=30, **options), "loo")


def near(X, y=None, **options):
    """What is found of near-duplicates, if a row's own presence makes all the difference."""
    risk = flexible(X, y, **options)
    return check(with_values(risk, train=0 * risk.train), "near-duplicate rows")


def complaints(risk, at=None):
    """Names of the checks that warn."""
    return {each.name for each in risk.diagnose(at) if each.warns}


# ----- Sizes of the rows -----


@INTERCEPT
def test_the_spread_of_the_row_sizes_by_hand(fit_intercept):
    X = gaussian(40, 6) + 1.0
    risk = risk_of(X, fit_intercept=fit_intercept)
    squares = ((X - X.mean(axis=0) * fit_intercept) ** 2).sum(axis=1)
    found = check(risk, "row norms")
    assert found.value == pytest.approx(np.mean((squares / squares.mean() - 1) ** 2), rel=1e-10)
    assert f"{np.sqrt(squares.max() / squares.mean()):.1f} times" in found.message


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_a_students_law(seed):
    for design, heavy in (("gaussian", False), ("uniform", False), ("t30", False), ("t5", True)):
        X, y = sp.simulate.paper_model(100, "normal", design).sample(200, rng=seed)
        path = sp.run(X, y, sp.SquareRoot(), sp.Ridge(0.5), n_iter=10)
        assert ("row norms" in complaints(estimate(path, "spectral"))) == heavy
    for p in (1, 2, 5):  # in few dimensions, sizes differ more
        assert not check(risk_of(gaussian(100, p, seed)), "row norms").warns


@pytest.mark.parametrize(("factor", "scaled_too"), [(3, False), (30, True)])
def test_sizes_that_are_used_may_differ_more(factor, scaled_too):
    X = gaussian(80, 60)
    X[:5] *= factor
    path = sp.run(X, gaussian(80, 1)[:, 0], sp.LAD(), sp.Lasso(0.5), n_iter=4)
    plain = check(estimate(path), "row norms")
    assert plain.warns
    for row_scale in ("norm", np.linspace(1, 2, 80)):
        scaled = check(estimate(path, row_scale=row_scale), "row norms")
        assert scaled.value == plain.value
        assert scaled.threshold > plain.threshold
        assert scaled.warns == scaled_too
        assert scaled.message != plain.message


# ----- Directions of the rows -----


def cosines_by_hand(X):
    """All of them, around the mean; 0 with themselves and with the mean itself."""
    X = X - X.mean(axis=0)
    lengths = linalg.norm(X, axis=1, keepdims=True)
    units = np.divide(X, lengths, out=np.zeros_like(X), where=lengths > 1e-6 * lengths.max())
    return units @ units.T * (1 - np.eye(len(X)))


AROUND_ITS_MEAN = np.concatenate([gaussian(12, 4), np.zeros((1, 4)), -gaussian(12, 4)])
COSINES = {
    "a row of zeros": (np.where(np.arange(25)[:, None] == 3, 0.0, gaussian(25, 4) + 2), 3, True),
    "a row at the mean": (np.round(4 * AROUND_ITS_MEAN) / 4 + 2.0, 12, False),
    "a sample of many": (gaussian(200, 30), 0, True),
}


@INTERCEPT
@pytest.mark.parametrize(("X", "row", "has_direction"), COSINES.values(), ids=COSINES)
def test_cosines_by_hand(X, row, has_direction, fit_intercept):
    evidence = Evidence(risk_of(X, method="loo", fit_intercept=fit_intercept))
    assert len(set(evidence.rows)) == len(evidence.rows) == min(len(X), 128)
    expected = cosines_by_hand(X)[evidence.rows]
    np.testing.assert_allclose(evidence.cosines, expected, atol=1e-12)
    assert evidence.cosines[:, row].any() == has_direction


SPECTRA = {
    "flat": np.eye(300),
    "toeplitz": sp.simulate.toeplitz(300),
    "two levels": np.diag([4.0] * 60 + [0.5] * 240),
    "decaying": np.diag(1 / np.arange(10, 310)),
}


@pytest.mark.parametrize("covariance", SPECTRA.values(), ids=SPECTRA)
@INTERCEPT
def test_the_effective_dimension(covariance, fit_intercept):
    X = gaussian(300, 300) @ np.linalg.cholesky(covariance).T + 5.0 * fit_intercept
    truth = np.trace(covariance) ** 2 / np.trace(covariance @ covariance)
    assert truth == pytest.approx(300) or truth < 200
    dimension = Evidence(risk_of(X, method="loo", fit_intercept=fit_intercept)).dimension
    assert dimension == pytest.approx(truth, rel=0.1)
    X[:20] = X[20:40]  # a few copies do not matter
    with_copies = Evidence(risk_of(X, method="loo", fit_intercept=fit_intercept))
    assert with_copies.dimension == pytest.approx(dimension, rel=0.1)


def with_copies(n, p, copied, angle=0.0):
    """Independent rows, a number of which have one other in nearly the same direction."""
    X = gaussian(n, p)
    first, second = X[: copied // 2], X[copied // 2 : copied]
    second[:] = 1.7 * (np.cos(angle) * first + np.sin(angle) * second)
    return X


@INTERCEPT
@pytest.mark.parametrize(("copied", "angle"), [(30, 0.0), (30, 0.2), (6, 0.0)])
def test_the_share_of_near_duplicates_by_hand(copied, angle, fit_intercept):
    X = with_copies(100, 40, copied, angle)
    X[:, 0] += 3.0
    found = near(X, fit_intercept=fit_intercept)
    assert found.value == copied / 100
    assert found.warns == (copied == 30)
    assert found.message.startswith(f"{copied}% of the rows")
    assert near(X, fit_intercept=fit_intercept) == found


@INTERCEPT
@pytest.mark.parametrize(
    ("p", "cosine", "copies"),
    [(200, 0.3, 0.0), (200, 0.7, 0.6), (40, 0.62, None)],
)
def test_rows_that_are_alike_to_some_degree(p, cosine, copies, fit_intercept):
    """More than by chance in two hundred dimensions, and hardly more in forty."""
    X = with_copies(100, p, 60, math.acos(cosine))
    found = near(X, fit_intercept=fit_intercept)
    if copies is None:
        assert np.median(cosines_by_hand(X)[:60].max(axis=1)) > 0.5
        assert not found.warns
    else:
        assert cosines_by_hand(X)[60:].max() < 0.3
        assert found.value == copies


@pytest.mark.parametrize("own_effect", [0.05, 0.2, 0.4])
@pytest.mark.parametrize("common", [False, True])
def test_rows_that_are_alike_and_their_residuals(common, own_effect):
    """Pairs of cosine 0.8, which leave no gap to the other rows."""
    X, errors = with_copies(100, 200, 100, math.acos(0.8)), gaussian(100, 1, 1)[:, 0]
    if common:
        errors[50:] = errors[:50]
    risk = estimate(sp.run(X, errors, sp.Squared(), sp.Ridge(20.0), n_iter=9), "loo")
    risk = with_values(risk, train=(1 - own_effect) * risk.values)
    found = check(risk, "near-duplicate rows", at=9)
    assert ("residuals agree" in found.message) == common
    # leaving the other one out, too, would raise the estimate by 0.64 of the row's own effect
    assert found.warns == (own_effect == 0.4 or (common and own_effect == 0.2))
    assert "100% of the rows" in found.message


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [1, 2, 3, 5, 10])
def test_rows_in_few_dimensions_are_alike_by_chance(p, dtype):
    X = gaussian(128, p).astype(dtype)
    assert cosines_by_hand(X).max() > 0.85
    found = near(X, gaussian(128, 1, 1)[:, 0].astype(dtype))
    assert not found.warns
    assert p == 1 or found.value == 0


def test_rows_around_another_point_than_zero():
    """Cosines of rows with a common mean are large; of their differences from it they are not."""
    X = gaussian(100, 40) + 3.0
    again = np.repeat(gaussian(50, 40), 2, axis=0) + 3.0 + 0.05 * gaussian(100, 40, 1)
    for fit_intercept in (False, True):
        assert not near(X, fit_intercept=fit_intercept).warns
        assert near(again, fit_intercept=fit_intercept).warns
    constant = with_copies(100, 40, 30) + 3.0
    constant[:, 0] = 1.0  # which is no category of others
    assert near(constant, fit_intercept=True).warns
    assert near(*DEGENERATE["copies"]).value == 1


@pytest.mark.parametrize("common", [False, True])
def test_repeated_rows_are_no_claim_about_the_size_of_the_error(common):
    """The error on new units is that estimated, or several times as large: the rows do not tell."""
    X, beta = np.repeat(gaussian(40, 20), 5, axis=0) + 0.1 * gaussian(200, 20, 1), np.full(20, 0.3)
    errors = gaussian(200, 1, 2)[:, 0]
    if common:
        errors = np.repeat(gaussian(40, 1, 2)[:, 0], 5)
    risk = estimate(sp.run(X, X @ beta + errors, sp.Squared(), sp.Lasso(0.05), n_iter=200), "loo")
    new = float(np.sum((risk.path.coef[-1] - beta) ** 2)) + 1
    assert (new / float(risk.values[-1]) > 2) == common
    found = check(risk, "near-duplicate rows", at=200)
    assert found.warns
    assert "the error on new units can be larger than estimated; use groups" in found.message


# ----- Order of the rows -----


@pytest.mark.parametrize("n", [21, 50, 200])
@INTERCEPT
def test_the_likeness_of_neighbours_by_hand(n, fit_intercept):
    X = gaussian(n, 6) + 2.0
    X[1:] += 0.8 * X[:-1]
    risk = flexible(X, gaussian(n, 1, 1)[:, 0], fit_intercept=fit_intercept)
    evidence, found = Evidence(risk, 30), check(risk, "serial rows", at=30)
    cosines = cosines_by_hand(X)
    rows = [i for i in evidence.rows if i < n - 1]
    likeness = [cosines[i, i + 1] for i in rows]
    anyone = [cosines[i, j] for i in rows for j in range(n) if j != i]
    assert len(likeness) in (n - 1, 127, 128)
    value = np.mean(likeness) - np.mean(anyone)
    effect = (1 - risk.train[30] / risk.values[30]) * 2 * value / (1 - value)
    if effect < 0.1:  # which would do no harm
        value = min(value, found.threshold)
    assert found.value == pytest.approx(value, rel=1e-10)
    by_chance = 4 / math.sqrt(len(likeness) * evidence.dimension)
    assert found.threshold == pytest.approx(max(0.2, by_chance), rel=1e-12)
    assert (found.threshold > 0.2) == (n < 200)


def test_few_rows_say_nothing_of_their_order():
    for n, few in ((1, True), (20, True), (21, True), (22, False), (29, False), (30, False)):
        risk = risk_of(gaussian(n, 3), np.linspace(1, 2, n))
        assert (check(risk, "serial rows") is None) == (n < 21)  # twenty neighbours
        assert (check(risk, "serial residuals") is None) == few  # and pairs with a sign
        assert check(risk, "few rows").warns == (n < 30)
        assert f"{n} observations" in check(risk, "few rows").message


def test_rows_that_alternate_are_no_concern():
    signs = (-1.0) ** np.arange(60)
    rows = check(risk_of(gaussian(60, 3) + 3 * signs[:, None], method="loo"), "serial rows")
    residuals = check(risk_of(gaussian(60, 3), signs, "loo"), "serial residuals")
    assert rows.value < -0.5
    assert residuals.value < -residuals.threshold
    assert not any(found.warns for found in (rows, residuals))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", [(21, 2), (60, 1), (60, 20), (300, 5), (100, 150)], ids=str)
def test_independent_rows_are_not_serial(shape, seed):
    X, y = gaussian(*shape, seed), gaussian(shape[0], 1, seed + 20)[:, 0]
    for rows in (X, X + 5.0, X * gaussian(shape[0], 1, seed + 10), np.abs(X)):
        path = sp.run(rows, y, sp.Squared(), sp.Ridge(0.5), n_iter=2)
        assert not check(estimate(path, "folds"), "serial rows").warns


# Directions of rows around their mean do not have mean zero, if their law is skewed: those of
# independent rows are alike by the squared length of that mean.
SKEWED = {
    "rare category": lambda rng: np.eye(2)[(rng.random(200) < 0.1).astype(int)],
    "rare events": lambda rng: (rng.random((300, 50)) < 0.01).astype(float),
    "a few far away": lambda rng: (
        rng.normal(size=(200, 30)) + 100.0 * (np.arange(200) > 196)[:, None]
    ),
}


@pytest.mark.parametrize("draw_rows", SKEWED.values(), ids=SKEWED)
def test_skewed_rows_are_not_serial(draw_rows):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.permutation(draw_rows(rng))
        assert not check(risk_of(X, method="folds"), "serial rows").warns


def agreement_by_hand(residuals):
    """Signs that agree less those that do not, over the root of their number."""
    above = [r > np.median(residuals) if r != np.median(residuals) else None for r in residuals]
    agree = [a == b for a, b in itertools.pairwise(above) if a is not None and b is not None]
    return (2 * sum(agree) - len(agree)) / math.sqrt(len(agree))


@pytest.mark.parametrize("n", [60, 61])  # with an odd number, the median has no sign
@pytest.mark.parametrize("method", METHODS)
def test_the_agreement_of_neighbours_by_hand(method, n):
    path = paper_path(n=n, loss=sp.SquareRoot(), penalty=sp.Ridge(0.5))
    risk = estimate(path, method)
    residuals = path.y - risk.corrected[risk.best_iter]
    found = check(risk, "serial residuals")
    assert found.value == pytest.approx(agreement_by_hand(residuals), rel=1e-12)


# ----- The problem's shape and the algorithm -----


def test_many_columns():
    for p, many in ((120, False), (121, True)):
        found = check(risk_of(gaussian(12, p)), "columns per row")
        assert found.value == p / 12
        assert found.warns == many
    assert "10.1 times as many columns" in found.message
    assert check(risk_of(gaussian(12, 120), fit_intercept=True), "columns per row").value == 10


LIMITS = [
    ("chambolle-pock", "tau", lambda algorithm: algorithm.sigma * algorithm.tau),
    ("linearized-admm", "alpha", lambda algorithm: algorithm.rho * algorithm.alpha),
    ("proximal-gradient", "step", lambda algorithm: algorithm.step / 2),
    ("fista", "step", lambda algorithm: algorithm.step),
]


@INTERCEPT
@pytest.mark.filterwarnings("ignore:.* may diverge")
@pytest.mark.parametrize(("name", "field", "product"), LIMITS)
def test_steps_beyond_their_limit(name, field, product, fit_intercept):
    X, y, _ = draw(40, 10)
    options = {"n_iter": 3, "fit_intercept": fit_intercept}
    run = sp.run(X, y, sp.Huber(), sp.Ridge(0.1), ALGORITHM_EXAMPLES[name], **options)
    design = X
    if fit_intercept:
        centred = X - X.mean(axis=0)
        design = np.column_stack([centred, np.full(40, np.sqrt(np.mean(centred**2)))])
    curvature = np.linalg.norm(design, 2) ** 2 / 40
    default = check(estimate(run), "step sizes")
    assert not default.warns
    for relative in (0.999, 1.001):
        steps = {field: getattr(run.algorithm, field) * relative / default.value}
        algorithm = dataclasses.replace(run.algorithm, **steps)
        path = sp.run(X, y, sp.Huber(), sp.Ridge(0.1), algorithm, **options)
        found = check(estimate(path), "step sizes")
        assert found.value == pytest.approx(product(algorithm) * curvature, rel=1e-3)
        assert found.warns == (relative > 1)


@pytest.mark.parametrize("name", ALGORITHM_EXAMPLES)
@pytest.mark.parametrize("loss", [sp.LAD(), sp.Huber()], ids=repr)
def test_default_steps_are_safe(name, loss):
    X, y, _ = draw(40, 10)
    algorithm = ALGORITHM_EXAMPLES[name]
    if handles(algorithm, loss):
        path = sp.run(X, y, loss, sp.Ridge(0.1), algorithm, n_iter=3)
        assert not check(estimate(path), "step sizes").warns


def projected_by_hand(path, X, y, lam):
    """Norms of the arguments of the projection, by Chambolle–Pock for the square root and ridge."""
    sigma, tau, theta = path.algorithm.sigma, path.algorithm.tau, path.algorithm.theta
    rho, n = path.algorithm.relaxation, len(y)
    u, b, before, norms = np.zeros(n), np.zeros(X.shape[1]), np.zeros(X.shape[1]), []
    for _ in range(path.n_iter):
        # with over-relaxation, the extrapolation is from what was not relaxed
        ahead = b + theta * (b - before) if rho == 1 else before + 2 / rho * (b - before)
        point = u - sigma * (y - X @ ahead) / math.sqrt(n)
        norms.append(linalg.norm(point))
        u = u + rho * (point / max(1.0, norms[-1]) - u)
        step = tau / math.sqrt(n)
        shrunk = (b - tau * X.T @ u / math.sqrt(n)) / (1 + step * lam)
        b, before = b + rho * (shrunk - b), b
    np.testing.assert_allclose(path.coef[-1], b, atol=1e-8)
    return np.array(norms)


def nearly_perfect(excess, n_iter=60, algorithm=CHAMBOLLE_POCK, n=30, p=4):
    """Exact responses of orthogonal columns, and a penalty beyond which the fit is not perfect.

    With ridge up to ``1 / ‖X (XᵀX)⁻¹ b‖`` it is, and the dual is inside the ball.
    """
    X = np.sqrt(n) * linalg.qr(gaussian(n, p), mode="economic")[0]
    coef = np.arange(1.0, p + 1)
    lam = (1 + excess) / linalg.norm(X @ linalg.solve(X.T @ X, coef))
    path = sp.run(X, X @ coef, sp.SquareRoot(), sp.Ridge(lam), algorithm, n_iter=n_iter)
    return path, X, X @ coef, lam


@pytest.mark.parametrize("excess", [-0.5, 1e-4, 0.5])
@pytest.mark.parametrize(
    "algorithm",
    [sp.ChambollePock(), sp.ChambollePock(theta=0.5), sp.ChambollePock(relaxation=1.6)],
    ids=repr,
)
def test_arguments_of_the_projection_by_hand(algorithm, excess):
    path, *problem = nearly_perfect(excess, 40, algorithm)
    norms = projected_by_hand(path, *problem)
    risk = estimate(path)
    distance = np.abs(norms - 1)
    assert np.abs(distance - 1e-3).min() > 1e-9  # none of them is in doubt
    for at in (1, 3, 12, 20, 40):  # norms[t - 1] is what entered in iteration t
        found = check(risk, "projection boundary", at=at)
        assert found.value == np.mean(distance[max(at // 2, 1) - 1 : 2 * at] < 1e-3)


def test_a_nearly_perfect_fit_sits_at_the_boundary():
    for excess, at_the_boundary in ((-0.5, False), (1e-4, True), (0.5, False)):
        path, _, y, _ = nearly_perfect(excess, 200)
        found = check(estimate(path), "projection boundary")
        assert found.warns == at_the_boundary
        assert (linalg.norm(y - path.fitted[-1]) < 1e-2 * linalg.norm(y)) == (excess < 0.1)
        # linearised ADMM is Chambolle–Pock with larger duals
        other, *_ = nearly_perfect(excess, 200, sp.LinearizedADMM())
        assert check(estimate(other), "projection boundary").value == found.value


# ----- The estimate -----


def test_the_size_of_the_correction_by_hand():
    risk = estimate(paper_path())
    best = risk.best_iter
    found = check(risk, "correction size")
    assert found.value == pytest.approx(1 - risk.train[best] / risk.values[best], rel=1e-10)
    assert not found.warns
    for relative, large in ((0.999, False), (1.001, True)):
        train = (1 - relative * found.threshold) * risk.values
        assert check(with_values(risk, train=train), "correction size").warns == large
    for values in (0 * risk.values, risk.values - 100):  # which are not divided by
        assert check(with_values(risk, values=values), "correction size").value == 0


# all but those of labels, which are in problem/test_margins.py
NAMED = {
    name: kind({"quantile": 0.2}.get(name, 0.7) if kind.parameter_spec else 0.0)
    for name, kind in CRITERIA.items()
    if not kind.margin
}


def change_and_bound(criterion, y, first, second):
    """How much the mean losses of two predictions differ, and how much they may."""
    risks = np.array([criterion(y, z).mean() for z in (first, second)])
    distance = np.sqrt(np.mean((first - second) ** 2))
    return abs(risks[0] - risks[1]), criterion.lipschitz(risks)[0, 1] * distance


@pytest.mark.parametrize("criterion", NAMED.values(), ids=NAMED)
def test_risks_differ_by_no_more_than_the_bound(criterion):
    """Which is attained where the losses are steepest: far out, on the steeper side."""
    rng = np.random.default_rng(0)
    for _ in range(500):
        y = rng.standard_t(3, 20)
        first, second = rng.standard_normal((2, 20)) * rng.exponential(2.0, 2)[:, None]
        change, bound = change_and_bound(criterion, y, first, second)
        assert change <= bound * (1 + 1e-12)
    y, far = np.zeros(5), np.full(5, 1e5)
    pairs = [change_and_bound(criterion, y, sign * far, 2 * sign * far) for sign in (-1, 1)]
    assert max(change / bound for change, bound in pairs) == pytest.approx(1, rel=1e-4)


def test_the_bound_has_the_shape_of_all_pairs():
    risks = np.array([1.0, 4.0, 9.0])
    roots = [[2.0, 3.0, 4.0], [3.0, 4.0, 5.0], [4.0, 5.0, 6.0]]
    np.testing.assert_allclose(NAMED["squared"].lipschitz(risks), roots)
    below = NAMED["squared"].lipschitz(np.array([-1.0, 4.0]))  # estimates may be
    np.testing.assert_allclose(below, [[0.0, 2.0], [2.0, 4.0]])
    for name, slope in (("absolute", 1.0), ("huber", 0.7), ("quantile", 0.8)):
        np.testing.assert_array_equal(NAMED[name].lipschitz(risks), np.full((3, 3), slope))


def small_column():
    """The response has to do with a small column alone: its coefficient moves, others do not."""
    columns = np.sqrt(80) * linalg.qr(gaussian(80, 30), mode="economic")[0]
    return columns * np.append(0.1, np.ones(29)), 3 * columns[:, 0] + gaussian(80, 1, 1)[:, 0]


@INTERCEPT
@pytest.mark.parametrize("test_loss", ["absolute", "squared", sp.Quantile(0.2)], ids=str)
@pytest.mark.parametrize("outside", [False, True], ids=["fitted values", "coefficients"])
def test_movement_by_hand(outside, test_loss, fit_intercept):
    X, y = small_column() if outside else sp.simulate.paper_model(30, "normal").sample(80, rng=0)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.5), n_iter=5, fit_intercept=fit_intercept)
    X = X - X.mean(axis=0) * fit_intercept
    risk = estimate(path, test_loss=test_loss)
    values = risk.values + np.array([0, 0, 0.3, -0.9, 0, 0.2])
    t, excess = 3, []
    for s in (1, 2, 4, 5):
        moved = (
            np.sqrt(np.mean((path.fitted[s] - path.fitted[t]) ** 2)),
            linalg.norm(path.coef[s] - path.coef[t]) * np.sqrt(np.mean(X**2)),
        )
        slope = {"absolute": 1.0}.get(test_loss, 0.8)
        if test_loss == "squared":
            slope = np.sqrt(values[s]) + np.sqrt(values[t])
        beyond = abs(values[s] - values[t]) - slope * max(moved)
        excess.append((beyond, moved[1] > moved[0]))
    found = check(with_values(risk, values=values), "movement", at=t)
    assert found.value == pytest.approx(max(excess)[0] / risk.estimate.stderr[t], rel=1e-6)
    assert max(excess)[0] > 0.05
    assert max(excess)[1] == outside  # which of the two movements decided
    assert not check(risk, "movement").warns


def test_a_jump_of_the_estimate():
    risk = estimate(paper_path(n_iter=60))
    assert not check(risk, "movement").warns
    jumped = risk.values.copy()
    jumped[-1] += (
        3 * risk.estimate.stderr[-1]
    )  # at the end, where the iterates hardly move any more
    risk = with_values(risk, values=jumped)
    for at, jump in ((20, False), (50, True), (60, True)):  # up to twice the chosen one
        found = check(risk, "movement", at=at)
        assert found.warns == jump
        assert f"and the selected iteration {at}, the estimate changes by" in found.message
    # of a path that does not move at all, the largest jump that is no concern
    path = sp.run(np.zeros((40, 3)), gaussian(40, 1)[:, 0], sp.LAD(), sp.Lasso(0.1), n_iter=10)
    risk = estimate(path)
    for relative, jump in ((0.999, False), (1.001, True)):
        values = risk.values.copy()
        values[-1] += relative * check(risk, "movement").threshold * risk.estimate.stderr[8]
        assert check(with_values(risk, values=values), "movement", at=8).warns == jump


@pytest.mark.parametrize("method", ["compressed", "hutchinson"])
def test_the_noise_of_the_probes_by_hand(method):
    risk = estimate(paper_path(n_iter=30), method, n_probes=4, probe_tol=10.0)
    best = risk.best_iter
    assert best > 2
    near = [risk.probe_stderr[t] ** 2 for t in range(best // 2, 2 * best + 1) if t <= 30]
    found = check(risk, "Monte Carlo error")
    sampling = risk.estimate.stderr[best]
    assert found.value == pytest.approx(np.sqrt(np.mean(near)) / sampling, rel=1e-10)
    for relative, noisy in ((0.999, False), (1.001, True)):
        noise = relative * found.threshold * sampling * np.ones(31)
        assert check(with_values(risk, probe_stderr=noise), "Monte Carlo error").warns == noisy


def test_few_probes_are_noisy():
    """Eight are, where hundreds are not."""
    path = paper_path(n=60, p=60, n_iter=30, penalty=sp.Ridge(0.05))
    few, many = (estimate(path, "compressed", n_probes=m, probe_tol=100.0) for m in (8, 200))
    assert "Monte Carlo error" in complaints(few)
    assert "the Monte Carlo error of 8 random probes" in check(few, "Monte Carlo error").message
    assert "Monte Carlo error" not in complaints(many)
    single = estimate(paper_path(), "hutchinson", n_probes=1)
    message = check(single, "Monte Carlo error").message
    assert message.startswith("the Monte Carlo error of 1 random probes is unknown compared")
    assert all("inf" not in warning for warning in single.warnings)
    # if all losses are equal, there is nothing to sample either
    equal = sp.run(np.zeros((40, 3)), np.ones(40), sp.LAD(), sp.Lasso(0.1), n_iter=3)
    assert check(estimate(equal, "hutchinson"), "Monte Carlo error") is None


def test_only_a_tolerance_that_was_asked_for_is_missed_aloud():
    """Warnings are errors here: those of Python, not those of the estimate."""
    path = paper_path(n=60, p=60, n_iter=150, penalty=sp.Ridge(0.05))
    silent = estimate(path, "compressed", n_probes=8)
    assert "Monte Carlo error" in complaints(silent)
    with pytest.warns(UserWarning, match=r"random probes is .*, above probe_tol = 0\.001"):
        aloud = estimate(path, "compressed", n_probes=8, probe_tol=1e-3)
    assert aloud.n_probes == silent.n_probes  # the most there may be
    assert aloud.warnings == silent.warnings


# ----- Audits -----


def audited(difference, spread, stderr, m=16):
    """An estimate whose audit found such differences, at all iterates."""
    risk = estimate(paper_path(), audit=m)
    noise = np.random.default_rng(0).standard_normal(m)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    differences = np.tile(difference + spread * noise, (13, 1))
    ones = np.ones(13)
    audit = Audit(risk.audit.rows, differences, ones, ones, RowSample.of(m))
    return with_values(risk, audit=audit, stderr=stderr * ones)


@pytest.mark.parametrize(
    ("difference", "spread", "stderr", "value"),
    [
        (0.5, 0.2, 0.24, 10),  # beyond chance, and visible: more than two standard errors
        (-0.5, 0.2, 0.24, 10),
        (0.5, 0.2, 0.26, 0),  # beyond chance, and too small to matter
        (-0.5, 0.2, 0.26, 0),
        (0.5, 1.0, 0.24, 2),  # visible, and perhaps by chance
        (0.5, 2.0, 0.26, 0),
        (0.0, 0.2, 0.24, 0),
    ],
)
def test_differences_that_are_significant_and_visible(difference, spread, stderr, value):
    risk = audited(difference, spread, stderr)
    found = check(risk, "audit")
    assert found.value == pytest.approx(value, rel=1e-10, abs=1e-10)
    assert found.warns == (value == 10)
    if found.warns:
        assert f"differs from the estimate by {difference:+.2g}" in found.message
        assert "(10 standard errors)" in found.message
        assert f"corrected by {float(risk.audit.repair[0]):+.2g}" in found.message


def test_differences_far_from_the_choice_are_no_concern():
    """Iterates from half to twice the chosen one count."""
    risk = audited(0.0, 0.2, 0.3)
    differences = risk.audit.differences.copy()
    differences[9:] += 5.0
    risk = with_values(risk, audit=dataclasses.replace(risk.audit, differences=differences))
    for at, near in ((1, False), (4, False), (5, True), (9, True), (12, True)):
        found = check(risk, "audit", at=at)
        assert found.warns == near
        assert f"at the selected iteration {at} differs" in found.message


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_wrong_estimates_are_found_out(seed):
    """LAD–lasso at the vertices of a linear program, where the estimate alone is noise.

    Its minimum is then one, too. An audit finds out, and has another one.
    """
    model = sp.simulate.paper_model(100, "t2")
    X, y = model.sample(200, rng=seed)
    for n_iter, wrong in ((40, False), (800, True)):
        path = sp.run(X, y, sp.LAD(), sp.Lasso(0.5), n_iter=n_iter)
        truth = model.risk(path.coef, sp.LAD())
        for audit in (0, 32):
            risk = sp.estimate_risk(path, method="compressed", audit=audit, rng=1)
            best = risk.best_iter
            error = abs(risk.values[best] - truth[best])
            off = error > 2 * (risk if audit else risk.estimate).stderr[best]
            assert off == (wrong and not audit)
            assert error < 3 * risk.stderr[best]
            assert ("movement" in complaints(risk)) == off
            assert off or risk.warnings == ()
            if seed == 2 and audit:  # the others differ by less than shows
                assert ("audit" in complaints(risk, at=n_iter)) == wrong


# ----- What applies -----

ALWAYS = {
    *("near-duplicate rows", "serial rows", "serial residuals"),
    *("few rows", "dominant row", "zero coefficients"),
}
OF_THE_THEORY = {
    *("movement", "row norms", "columns per row"),
    *("step sizes", "projection boundary", "correction size"),
}


def names(risk):
    found = [each.name for each in risk.diagnostics]
    assert len(set(found)) == len(found)
    return set(found)


@pytest.mark.parametrize("audit", [0, 8, "folds"])
@pytest.mark.parametrize("method", METHODS)
def test_checks_of_each_method(method, audit):
    path = paper_path(loss=sp.SquareRoot(), penalty=sp.Ridge(0.5))
    if method == audit:
        return
    expected = ALWAYS | ({"audit"} if audit else set())
    if method not in ("loo", "folds"):
        expected |= OF_THE_THEORY
    if method in ("compressed", "hutchinson"):
        expected |= {"Monte Carlo error"} | (set() if audit else {"late iterates"})
    risk = estimate(path, method, audit=audit)
    assert names(risk) == expected
    assert all(diagnostic.meaning.endswith(".") for diagnostic in risk.diagnostics)


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({}, set()),
        ({"test_loss": lambda y, z: np.abs(y - z)}, {"movement"}),
        ({"centered": True}, {"correction size"}),
    ],
    ids=["lad", "callable", "centered"],
)
def test_checks_of_other_problems(options, missing):
    risk = estimate(paper_path(), **options)
    assert names(risk) == (ALWAYS | OF_THE_THEORY) - {"projection boundary"} - missing
    assert risk.warnings == ()
    X, y, _ = draw(40, 7)
    recursion = estimate(sp.run(X, y, sp.Huber(), sp.NoPenalty(), momentum(), n_iter=9), **options)
    assert names(recursion) == names(risk) - {"zero coefficients", "step sizes"}


@pytest.mark.parametrize("method", ["exact", "loo"])
def test_designs_that_are_just_products(method):
    X, y, _ = draw(40, 10)
    dense, products = (
        estimate(sp.run(design, y, sp.LAD(), sp.Lasso(0.3), n_iter=5), method)
        for design in (X, Products(X))
    )
    np.testing.assert_allclose(products.values, dense.values, rtol=1e-10)
    of_rows = {"near-duplicate rows", "serial rows", "row norms", "movement"}
    assert names(products) == names(dense) - of_rows
    assert "serial residuals" in names(products)


# ----- In words -----


def bad_paths():
    """Paths with all that can be wrong."""
    X, y, _ = draw(40, 10)
    copies = np.repeat(X[:10], 4, axis=0)
    yield sp.run(copies, np.repeat(y[:10], 4), sp.LAD(), sp.Lasso(0.3), n_iter=9)
    X, y = sp.simulate.paper_model(60, "normal", "t3").sample(120, rng=1)
    yield sp.run(X, y, sp.SquareRoot(), sp.Ridge(0.05), n_iter=40)
    yield sp.run(gaussian(12, 130), np.arange(12.0), sp.Squared(), sp.Ridge(0.01), n_iter=40)
    yield nearly_perfect(1e-4, 100)[0]
    yield paper_path(n=60, p=60, n_iter=30, penalty=sp.Ridge(0.05))
    yield sp.run(X, y, sp.LAD(), sp.Lasso(0.3), sp.ChambollePock(2.0, 2.0), n_iter=5)
    yield sp.run(X, y, sp.LAD(), sp.Lasso(30.0), n_iter=5)
    yield sp.run(X, y + 10 * np.sign(np.sin(np.arange(120) / 9)), sp.LAD(), sp.Lasso(1.0), n_iter=5)


@pytest.mark.filterwarnings("ignore:.* may diverge")
def test_messages():
    seen = set()
    methods = ("compressed", 0), ("hutchinson", 10), ("loo", 0), ("folds", 0)
    for path, (method, audit) in itertools.product(bad_paths(), methods):
        risk = estimate(path, method, audit=audit, n_probes=2, probe_tol=100.0)
        warning = [each for each in risk.diagnostics if each.value > each.threshold]
        assert risk.warnings == tuple(each.message for each in warning)
        seen |= {each.name for each in warning}
        for each in risk.diagnostics:
            assert type(each.value) is type(each.threshold) is float
            assert isinstance(each.message, str)
        for message in risk.warnings:
            assert any(letter.isdigit() for letter in message)
            for placeholder in ("nan", "inf", "{", "}", "None"):
                assert placeholder not in message.replace("at None", "")
    assert len(seen | {"audit"}) == len(CHECKS)  # each of them was seen to warn; audits below


def test_messages_of_audits_without_sampling_error():
    X, y = sp.simulate.paper_model(20, "normal", "t3").sample(30, rng=0)
    path = sp.run(X, y, sp.SquareRoot(), sp.Ridge(0.01), n_iter=30)
    every = estimate(path, audit=32)
    every = with_values(every, stderr=every.stderr / 10)  # so that the difference shows
    equal = audited(0.5, 0.0, 0.2)  # 16 of 80 rows, which differ by the same
    for risk in (every, equal):
        found = check(risk, "audit")
        assert found.value == math.inf
        assert "without sampling error" in found.message
        assert all("inf" not in message for message in risk.warnings)


@pytest.mark.parametrize("method", METHODS)
def test_diagnostics_change_nothing(method):
    path = paper_path(loss=sp.SquareRoot(), penalty=sp.Ridge(0.5), fit_intercept=True)
    rng = np.random.default_rng(0)
    risk = sp.estimate_risk(path, method=method, audit=8, rng=rng)
    fields = ("values", "raw", "stderr", "probe_stderr", "train", "corrected")
    before = {name: getattr(risk, name).copy() for name in fields}
    state, fitted = rng.bit_generator.state, path.fitted.copy()
    assert diagnose(risk) == diagnose(risk) == risk.diagnostics
    for name, values in before.items():
        np.testing.assert_array_equal(getattr(risk, name), values)
    np.testing.assert_array_equal(path.fitted, fitted)
    assert rng.bit_generator.state == state


# ----- Hardly any data -----

DEGENERATE = {
    "one number": ([[2.0]], [3.0]),
    "one row": (gaussian(1, 3), [1.0]),
    "two rows": ([[1.0], [2.0]], [1.0, 3.0]),
    "one column": (gaussian(40, 1), gaussian(40, 1, 1)[:, 0]),
    "zeros": (np.zeros((40, 5)), gaussian(40, 1)[:, 0]),
    "ones": (np.ones((40, 5)), gaussian(40, 1)[:, 0]),
    "constant columns": (np.c_[np.full((40, 2), 0.1), gaussian(40, 5)], gaussian(40, 1, 1)[:, 0]),
    "copies": (np.repeat(gaussian(10, 5), 4, axis=0), np.repeat(gaussian(10, 1, 1)[:, 0], 4)),
    "one row that is not zero": (np.eye(40)[:, :5] * np.eye(40)[:, :1], gaussian(40, 1)[:, 0]),
    "rows of zeros": (np.r_[np.zeros((20, 5)), gaussian(20, 5)], gaussian(40, 1, 1)[:, 0]),
    "no response": (gaussian(40, 5), np.zeros(40)),
    "wide": (gaussian(8, 30), gaussian(8, 1, 1)[:, 0]),
}


@INTERCEPT
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot()], ids=repr)
@pytest.mark.parametrize(("X", "y"), DEGENERATE.values(), ids=DEGENERATE)
def test_degenerate_data(X, y, loss, dtype, fit_intercept):
    X, y = (np.asarray(values, dtype) for values in (X, y))
    path = sp.run(X, y, loss, sp.Ridge(0.1), n_iter=6, fit_intercept=fit_intercept)
    for method, audit in (("exact", 2), ("compressed", 0), ("loo", 0)):
        risk = sp.estimate_risk(path, method=method, audit=audit, rng=0)
        assert ("few rows" in complaints(risk)) == (len(y) < 30)
        for each in risk.diagnostics:
            assert not math.isnan(each.value)
            assert math.isfinite(each.threshold)
            assert "nan" not in each.message
        assert len(y) == 1 or all("inf" not in message for message in risk.warnings)


@INTERCEPT
@pytest.mark.parametrize("method", ["exact", "compressed", "loo", "folds"])
@pytest.mark.parametrize(
    ("convert", "rel"),
    [(array_api_strict.asarray, 1e-6), (np.float32, 1e-3)],
    ids=["strict", "float32"],
)
def test_other_arrays_have_the_same_diagnostics(convert, rel, method, fit_intercept):
    X, y = sp.simulate.paper_model(20, "normal", "t4").sample(50, rng=0)
    options = {"n_iter": 8, "fit_intercept": fit_intercept}
    ours, theirs = (
        estimate(sp.run(*data, sp.SquareRoot(), sp.Ridge(0.1), **options), method, audit=10)
        for data in ((X, y), (convert(X), convert(y)))
    )
    for found, expected in zip(theirs.diagnostics, ours.diagnostics, strict=True):
        assert (found.name, found.warns) == (expected.name, expected.warns)
        assert found.threshold == pytest.approx(expected.threshold, rel=rel)
        assert found.value == pytest.approx(expected.value, rel=rel, abs=rel)


# ----- What they are for -----

PAIRS = pytest.mark.parametrize(
    ("loss", "penalty", "noise"),
    [(sp.LAD(), sp.Lasso(0.5), "t2"), (sp.SquareRoot(), sp.Ridge(0.5), "normal")],
    ids=["lad", "square_root"],
)


def papers_risk(X, y, loss, penalty, seed):
    """The risk of the paper's steps."""
    path = sp.run(X, y, loss, penalty, sp.ChambollePock(0.1, 0.1, 0.5), n_iter=100)
    return sp.estimate_risk(path, audit=32, rng=seed)


def time_series(memory):
    """Rows and errors with an autocorrelation."""
    model, rng = sp.simulate.paper_model(150, "normal"), np.random.default_rng(0)
    innovations = np.column_stack([model.sample(400, rng).X, rng.standard_normal(400)])
    scale = math.sqrt(1 - memory**2)
    series = lfilter([scale], [1.0, -memory], innovations, axis=0)[100:]
    return series[:, :-1], series[:, :-1] @ model.coef + series[:, -1]


# Checks that warn for certain, and those that may warn as well.
EXPECTED = {
    "Gaussian": (set(), set()),
    "near-duplicate rows": ({"near-duplicate rows"}, {"audit", "movement"}),
    "time series": (
        {"serial rows"},
        {"near-duplicate rows", "serial residuals", "audit", "movement"},
    ),
    "elliptical t₃": ({"row norms"}, {"audit"}),
    "one-hot": (set(), {"row norms", "audit"}),
}


@PAIRS
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", EXPECTED)
def test_what_is_wrong_is_seen_and_nothing_else(kind, loss, penalty, noise, seed):
    certain, possible = EXPECTED[kind]
    data = CHALLENGES[kind](300, 150, noise, np.random.default_rng(seed))
    warning = complaints(papers_risk(data.X, data.y, loss, penalty, seed))
    assert certain <= warning <= certain | possible


@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot()], ids=repr)
@pytest.mark.parametrize(("memory", "seen"), [(0, False), (0.1, False), (0.3, True), (0.5, True)])
def test_a_short_memory_is_seen(loss, memory, seen):
    penalty = LASSO if isinstance(loss, sp.LAD) else sp.Ridge(0.5)
    risk = papers_risk(*time_series(memory), loss, penalty, 0)
    found = check(risk, "serial rows", at=100)  # where rows have most influence
    assert found.value == pytest.approx(memory, abs=0.04)
    assert found.warns == seen
    assert seen or risk.warnings == ()


@INTERCEPT
@pytest.mark.parametrize("memory", [0.3, 0.5, 0.7, 0.9])
def test_a_series_in_random_order_is_not_serial(memory, fit_intercept):
    X, y = time_series(memory)
    order = np.random.default_rng(0).permutation(300)
    series, shuffled = (
        risk_of(X[rows], y[rows], "loo", fit_intercept=fit_intercept)
        for rows in (np.arange(300), order)
    )
    np.testing.assert_allclose(shuffled.values, series.values, rtol=1e-8)  # the same data
    assert check(series, "serial rows").warns
    assert check(series, "serial residuals").warns == (memory >= 0.5)
    for name in ("serial rows", "serial residuals"):
        assert not check(shuffled, name).warns
    shuffled = with_values(shuffled, train=0 * shuffled.train)  # a flexible fit
    assert check(shuffled, "near-duplicate rows").warns == (memory >= 0.5)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_columns_in_blocks_are_all_columns_and_no_category_is_cut(fit_intercept):
    rng = np.random.default_rng(0)
    noise, levels = rng.standard_normal((400, 100)), np.eye(300)[rng.permutation(400) % 300]
    X = np.hstack([noise, levels, noise])
    path = sp.run(X, X[:, 0], sp.LAD(), sp.Lasso(0.5), n_iter=2, fit_intercept=fit_intercept)
    blocks = list(blocks_of_columns(path.design))
    found = np.hstack([block for block, _ in blocks])
    np.testing.assert_allclose(found, X, atol=1e-12)
    sizes = [len(group) for _, groups in blocks for group in groups]
    assert sizes == [1] * 100 + [300] + [1] * 100


@pytest.mark.parametrize("shape", [(300, 260), (260, 300)], ids=str)
def test_columns_of_designs_that_are_just_products_are_read_in_one(shape, monkeypatch):
    X, calls = gaussian(*shape), []
    for name in ("matmat", "rmatmat"):
        product = getattr(Products, name)
        monkeypatch.setattr(
            Products, name, lambda *args, own=product: calls.append(1) or own(*args)
        )
    found = np.hstack([block for block, _ in blocks_of_columns(Products(X))])
    np.testing.assert_array_equal(found, X)
    assert len(calls) == 1
