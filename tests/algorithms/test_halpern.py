"""Reflected Halpern iteration, with and without restarts."""

import cvxpy as cp
import numpy as np
import pytest

import steinpath as sp
from formal import formal_matrices
from problems import draw
from steinpath.engine._batch import Batch
from steinpath.engine._data import prepare
from steinpath.engine._tangents import Linearization
from steinpath.engine._traces import compute_matrices

ROWS, COLUMNS, ITERATIONS, LAM, DELTA = 12, 7, 8, 0.05, 0.8
SIGMA, TAU = 0.4, 0.5

LAD_LASSO = sp.LAD(), sp.Lasso(LAM)
SQRT_LASSO = sp.SquareRoot(), sp.Lasso(LAM)
HUBER_RIDGE = sp.Huber(DELTA), sp.Ridge(LAM)
PROBLEMS = pytest.mark.parametrize(
    ("loss", "penalty"),
    [LAD_LASSO, SQRT_LASSO, HUBER_RIDGE],
    ids=["lad-lasso", "sqrt-lasso", "huber-ridge"],
)
INTERCEPT = pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
#: Restarts and warm-ups that are over within a few iterations.
SCHEDULES = pytest.mark.parametrize(
    "schedule",
    [
        {"restart": None, "warmup": 0},
        {"restart": 3, "warmup": 0},
        {"restart": 1, "warmup": 0},
        {"restart": None, "warmup": 2},
        {"restart": 3, "warmup": 1},
    ],
    ids=lambda each: f"restart {each['restart']} warmup {each['warmup']}",
)


# ------------------------------------------------------------------------------------------------
# The same in plain NumPy
# ------------------------------------------------------------------------------------------------


def problem():
    X, y, _ = draw(ROWS, COLUMNS)
    return X + np.linspace(0, 0.5, COLUMNS), y + 0.7


def as_the_recursion_sees_it(X, y, loss, intercept):
    """X and y, or X centred with the intercept's column and y from where the intercept starts."""
    if not intercept:
        return X, y
    centred = X - X.mean(axis=0)
    scale = np.sqrt(np.mean(centred**2))
    return np.column_stack([centred, np.full(len(X), scale)]), y - loss.location(y)


def dual_prox(loss, w):
    """The proximal map of the loss's conjugate with step sigma / √n, and its Jacobian."""
    bound, inside = 1 / np.sqrt(len(w)), 1.0 * (np.linalg.norm(w) < 1)
    if isinstance(loss, sp.LAD):
        return np.clip(w, -bound, bound), np.diag(1.0 * (np.abs(w) < bound))
    if isinstance(loss, sp.Huber):
        w, bound = w / (1 + SIGMA), loss.delta * bound
        return np.clip(w, -bound, bound), np.diag((np.abs(w) < bound) / (1 + SIGMA))
    norm = max(1, np.linalg.norm(w))
    return w / norm, np.eye(len(w)) / norm - (1 - inside) * np.outer(w, w) / norm**3


def primal_prox(penalty, z, intercept):
    """The proximal map of the penalty with step tau / √n, and its Jacobian."""
    lam = np.full(len(z), TAU / np.sqrt(ROWS) * LAM)
    if intercept:
        lam[-1] = 0
    if isinstance(penalty, sp.Ridge):
        return z / (1 + lam), np.diag(1 / (1 + lam))
    return np.sign(z) * np.maximum(np.abs(z) - lam, 0), np.diag(1.0 * (np.abs(z) > lam))


def points(start, steps, restart, warmup):
    """The points z^0, z^1, …, given those that a step of Chambolle–Pock finds from each of them."""
    z = anchor = start
    since = -warmup
    yield z
    for found in steps:
        since += 1
        if since <= 0 or since == restart:
            z, anchor, since = found, found, min(since, 0)
        else:
            z = since / (since + 1) * (2 * found - z) + 1 / (since + 1) * anchor
        yield z


def halpern(Z, y, loss, penalty, intercept, schedule, n_iter=ITERATIONS):
    """Iterates b^0, b^1, … and u^1, u^2, …, and the Jacobians of the maps that gave them."""
    n, p = Z.shape
    results, found = ([], [], [], []), []
    for t, z in enumerate(points(np.zeros(p + n), found, **schedule)):
        # one step of Chambolle–Pock from there, the coefficients first
        z_b, z_u = z[:p], z[p:]
        b, of_b = primal_prox(penalty, z_b - TAU * Z.T @ z_u / np.sqrt(n), intercept)
        u, of_u = dual_prox(loss, z_u - SIGMA * (y - Z @ (2 * b - z_b)) / np.sqrt(n))
        found.append(np.concatenate([b, u]))
        for result, new in zip(results, (b, u, of_b, of_u), strict=True):
            result.append(new)
        if t == n_iter:
            break
    b, u, of_b, of_u = map(np.array, results)
    return b, u[:-1], of_b, of_u


def blocks_by_hand(of_b, of_u, schedule):
    """Blocks of the Jacobians of the two maps, as functions of all that came before."""
    N = len(of_b) - 1
    unit = np.eye(N + 2)
    # point t is a sum of b^0, …, b^{t-1} and of u^0, …, u^t: these are the weights
    in_b = [*points(unit[0], [unit[t - 1] for t in range(1, N + 1)], **schedule)]
    in_u = [*points(unit[0], [unit[t] for t in range(1, N + 1)], **schedule)]
    blocks = {name: {} for name in ("phi_u", "phi_v", "psi_b", "psi_eta")}
    for t in range(1, N + 1):
        for s in range(t):
            ahead = 2 * unit[t - 1] - in_b[t - 1]
            blocks["phi_u"][t, s] = in_u[t - 1][s] * of_u[t - 1]
            blocks["phi_v"][t, s] = -SIGMA * ahead[s] * of_u[t - 1]
            blocks["psi_b"][t, s] = in_b[t][s] * of_b[t]
        for s in range(t + 1):
            blocks["psi_eta"][t, s] = -TAU * in_u[t][s] * of_b[t]
    return blocks


# ------------------------------------------------------------------------------------------------
# Iterates and matrices
# ------------------------------------------------------------------------------------------------


@PROBLEMS
@INTERCEPT
@SCHEDULES
def test_iterates_are_those_of_plain_numpy(loss, penalty, intercept, schedule):
    X, y = problem()
    Z, target = as_the_recursion_sees_it(X, y, loss, intercept)
    path = sp.run(X, y, loss, penalty, sp.HalpernPDHG(SIGMA, TAU, **schedule), 40, intercept)
    b, u, _, _ = halpern(Z, target, loss, penalty, intercept, schedule, 40)
    assert np.abs(b[-1]).max() > 0.1
    np.testing.assert_allclose(path.coef, b[:, :COLUMNS], atol=1e-13)
    np.testing.assert_allclose(path.dual, u, atol=1e-13)
    np.testing.assert_allclose(path.fitted, b @ Z.T + y - target, atol=1e-13)


@PROBLEMS
@INTERCEPT
@SCHEDULES
def test_matrices_are_those_of_the_formal_definition(loss, penalty, intercept, schedule):
    """Also where each pass of the engine begins at another time: tangents carry their own state."""
    X, y = problem()
    Z, target = as_the_recursion_sees_it(X, y, loss, intercept)
    algorithm = sp.HalpernPDHG(SIGMA, TAU, **schedule)
    path = sp.run(X, y, loss, penalty, algorithm, ITERATIONS, intercept)
    _, _, of_b, of_u = halpern(Z, target, loss, penalty, intercept, schedule)
    covariance = sp.simulate.toeplitz(COLUMNS, 0.6)
    moments = np.zeros((Z.shape[1], Z.shape[1]))
    moments[:COLUMNS, :COLUMNS] = covariance
    if intercept:
        moments[-1, -1] = Z[0, -1] ** 2
    formal = formal_matrices(blocks_by_hand(of_b, of_u, schedule), Z, moments, ITERATIONS + 1)
    assert all(np.abs(np.tril(matrix, -1)).max() > 1e-2 for matrix in formal)
    found = [sp.correction_matrices(path, covariance)]
    for width, window in ((1, 20), (30, 1), (30, 4)):
        linearization = Linearization(Batch.of(path), keep=True, window=window)
        rng = np.random.default_rng(0)
        layers = compute_matrices(path, moments, "exact", 1, None, rng, True, width, linearization)
        found.append([layers.W[0], layers.K[0], layers.A[0]])
    for matrices in found:
        for name, mine, truth in zip("WKA", matrices, formal, strict=True):
            np.testing.assert_allclose(mine, truth, atol=1e-10, err_msg=name)


def minimum(X, y, loss, penalty):
    """The lowest objective, by an interior-point solver."""
    b = cp.Variable(X.shape[1])
    r = y - X @ b
    losses = {"lad": cp.norm1(r), "huber": cp.sum(cp.huber(r, DELTA)) / 2}
    cost = cp.norm(r) if loss.name == "square_root" else losses[loss.name] / np.sqrt(len(y))
    lasso = isinstance(penalty, sp.Lasso)
    cost += penalty.lam * (cp.norm1(b) if lasso else cp.sum_squares(b) / 2)
    return cp.Problem(cp.Minimize(cost)).solve(cp.CLARABEL)


@PROBLEMS
@pytest.mark.parametrize(("restart", "precision"), [(None, 1e-3), (100, 1e-5), (20, 1e-5)])
def test_it_converges_to_the_minimum(loss, penalty, restart, precision):
    X, y, _ = draw(80, 12)
    path = sp.run(X, y, loss, penalty, sp.HalpernPDHG(restart=restart), n_iter=4000)
    assert path.objective[-1] == pytest.approx(minimum(X, y, loss, penalty), rel=precision)


def test_it_needs_fewer_iterations_than_chambolle_pock():
    X, y, _ = draw(200, 60)
    best = minimum(X, y, *LAD_LASSO)
    halpern, other = (
        sp.run(X, y, *LAD_LASSO, algorithm, n_iter=200).objective[-1] - best
        for algorithm in (sp.HalpernPDHG(), sp.ChambollePock())
    )
    assert halpern < other / 1.5


@PROBLEMS
@INTERCEPT
@SCHEDULES
def test_a_run_that_goes_on_is_the_whole_run(loss, penalty, intercept, schedule):
    X, y = problem()
    algorithm = sp.HalpernPDHG(SIGMA, TAU, **schedule)
    whole = sp.run(X, y, loss, penalty, algorithm, 20, intercept)
    batch = Batch.start(prepare(X, y, loss, intercept), penalty, algorithm)
    for n_iter in (1, 2, 3, 4, 9, 20):  # also just before, at and after a restart
        first, again = batch.extended(n_iter), batch.extended(n_iter)  # the past is left as it was
        np.testing.assert_array_equal(first.coef, again.coef)
        batch = first
    np.testing.assert_array_equal(batch[0].coef, whole.coef)
    np.testing.assert_array_equal(batch[0].dual, whole.dual)


# ------------------------------------------------------------------------------------------------
# Risk
# ------------------------------------------------------------------------------------------------


@PROBLEMS
@INTERCEPT
@SCHEDULES
def test_risks_of_all_methods(loss, penalty, intercept, schedule):
    X, y, _ = draw(60, 15)
    path = sp.run(X, y, loss, penalty, sp.HalpernPDHG(**schedule), 20, intercept)
    exact = sp.estimate_risk(path, method="exact")
    for method in ("compressed", "hutchinson"):
        risk = sp.estimate_risk(path, method=method, n_probes=300, precision="float64", rng=0)
        assert (np.abs(risk.values - exact.values) <= 4 * risk.probe_stderr + 1e-4).all(), method
    left_out = sp.estimate_risk(path, method="loo")
    assert np.abs(exact.values - left_out.values).max() < left_out.stderr.min()


def errors_of_estimates(algorithm, loss, noise, seeds, n, p, times):
    """Estimates less true risks on the paper's model, both on the scale of the true risk at 0."""
    found = []
    for seed in seeds:
        model = sp.simulate.paper_model(p, noise=noise)
        X, y = model.sample(n, rng=seed)
        path = sp.run(X, y, loss, sp.Lasso(0.3), algorithm, n_iter=times[-1])
        risk = sp.estimate_risk(path, "huber", rng=seed, n_probes=60)
        truth = model.risk(path.coef, "huber")
        found.append((risk.values[times] - truth[times]) / truth[0])
    return np.array(found)


def assert_as_right_as_chambolle_pock(algorithm, loss, noise, seeds, n, p, times, margin):
    """At the same step sizes."""
    halpern, other = (
        errors_of_estimates(each, loss, noise, seeds, n, p, times)
        for each in (algorithm, sp.ChambollePock(ratio=algorithm.ratio))
    )
    stderr = halpern.std(axis=0, ddof=1) / np.sqrt(len(seeds))
    assert (np.abs(halpern.mean(axis=0)) <= np.maximum(4 * stderr, 0.03)).all()
    assert np.abs(halpern).mean() <= margin * np.abs(other).mean()


LAWS = pytest.mark.parametrize(
    ("loss", "noise"), [(sp.LAD(), "laplace"), (sp.SquareRoot(), "normal")], ids=["lad", "sqrt"]
)


@LAWS
def test_estimates_are_near_the_true_risk(loss, noise):
    times = np.array([2, 5, 10, 20, 40])
    algorithm = sp.HalpernPDHG(restart=15)
    assert_as_right_as_chambolle_pock(algorithm, loss, noise, range(8), 200, 100, times, 1.1)


# ------------------------------------------------------------------------------------------------
# Parameters
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "values"), [("warmup", [-1, 2.5, None]), ("restart", [0, -3, 2.5, "often", True])]
)
def test_impossible_parameters_are_refused(name, values):
    for value in values:
        with pytest.raises((ValueError, TypeError), match=f"{name} must be"):
            sp.HalpernPDHG(**{name: value})
