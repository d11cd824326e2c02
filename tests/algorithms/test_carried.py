"""An algorithm whose updates carry a state of their own: reflected Halpern iteration."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import steinpath as sp
from formal import formal_matrices
from problems import draw
from steinpath.algorithms import PrimalDual
from steinpath.engine._batch import Batch
from steinpath.engine._data import prepare
from steinpath.engine._tangents import Linearization
from steinpath.engine._traces import compute_matrices
from steinpath.risk._leave_out import leave_one_out


@dataclass(frozen=True)
class Halpern(PrimalDual):
    """Chambolle–Pock, each step reflected and drawn back to the start (Lu and Yang, 2024)."""

    sigma: Any = None
    tau: Any = None

    carries = True

    def dual(self, prox, t, u, v):
        # the anchored dual, the residual of the anchored coefficients, and that of the start
        z, r, start = u.carried or (0 * u[-1], v[-1], v[-1])
        new, weight = prox(z - self.sigma * (2 * v[-1] - r)), t / (t + 1)
        r = weight * (2 * v[-1] - r) + (1 - weight) * start
        u.carried = weight * (2 * new - z), r, start
        return new

    def primal(self, prox, t, b, eta):
        # the anchored coefficients, and the gradient of the anchored dual
        (z, g), weight = b.carried or (0 * b[-1], 0 * eta[-1]), t / (t + 1)
        z, g = b.carried = weight * (2 * b[-1] - z), weight * (2 * eta[-1] - g)
        return prox(z - self.tau * g)


# ------------------------------------------------------------------------------------------------
# The same in plain NumPy
# ------------------------------------------------------------------------------------------------

ROWS, COLUMNS, ITERATIONS, LAM, DELTA = 12, 7, 6, 0.05, 0.8
SIGMA, TAU = 0.4, 0.5
STEPS = Halpern(SIGMA, TAU)

LAD_LASSO = sp.LAD(), sp.Lasso(LAM)
SQRT_LASSO = sp.SquareRoot(), sp.Lasso(LAM)
HUBER_RIDGE = sp.Huber(DELTA), sp.Ridge(LAM)
PROBLEMS = pytest.mark.parametrize(
    ("loss", "penalty"),
    [LAD_LASSO, SQRT_LASSO, HUBER_RIDGE],
    ids=["lad-lasso", "sqrt-lasso", "huber-ridge"],
)
INTERCEPT = pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])


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


def halpern(Z, y, loss, penalty, intercept, n_iter=ITERATIONS):
    """Iterates b^0, b^1, … and u^1, u^2, …, and the Jacobians of the maps that gave them."""
    n, p = Z.shape
    anchored_b, anchored_u = np.zeros(p), np.zeros(n)
    results = [], [], [], []
    for t in range(n_iter + 1):
        # T: one step of Chambolle–Pock from the anchored pair
        point = anchored_b - TAU * Z.T @ anchored_u / np.sqrt(n)
        b, of_b = primal_prox(penalty, point, intercept)
        point = anchored_u - SIGMA * (y - Z @ (2 * b - anchored_b)) / np.sqrt(n)
        u, of_u = dual_prox(loss, point)
        anchored_b = (t + 1) / (t + 2) * (2 * b - anchored_b)
        anchored_u = (t + 1) / (t + 2) * (2 * u - anchored_u)
        for result, new in zip(results, (b, u, of_b, of_u), strict=True):
            result.append(new)
    b, u, of_b, of_u = map(np.array, results)
    return b, u[:-1], of_b, of_u


def blocks_by_hand(of_b, of_u):
    """Blocks of the Jacobians of the two maps, as functions of all that came before."""
    N = len(of_b) - 1
    # the anchored iterate after t steps is a sum of iterates with the weights c[t, 1], …, c[t, t]
    c = np.zeros((N + 1, N + 1))
    for t in range(1, N + 1):
        c[t] = t / (t + 1) * (2 * (np.arange(N + 1) == t) - c[t - 1])
    blocks = {name: {} for name in ("phi_u", "phi_v", "psi_b", "psi_eta")}
    for t in range(1, N + 1):
        residual = np.append(c[t - 1, 1:], 0.0)  # weights of v^0, v^1, … in the anchored residual
        residual[0] += 1 - c[t - 1].sum()
        for s in range(t):
            blocks["phi_u"][t, s] = c[t - 1, s] * of_u[t - 1]
            blocks["phi_v"][t, s] = -SIGMA * (2 * (s == t - 1) - residual[s]) * of_u[t - 1]
            blocks["psi_b"][t, s] = c[t, s + 1] * of_b[t]
        for s in range(t + 1):
            blocks["psi_eta"][t, s] = -TAU * c[t, s] * of_b[t]
    return blocks


# ------------------------------------------------------------------------------------------------
# Tests
# ------------------------------------------------------------------------------------------------


@PROBLEMS
@INTERCEPT
def test_iterates_are_those_of_plain_numpy(loss, penalty, intercept):
    X, y = problem()
    Z, target = as_the_recursion_sees_it(X, y, loss, intercept)
    path = sp.run(X, y, loss, penalty, STEPS, 40, intercept)
    b, u, _, _ = halpern(Z, target, loss, penalty, intercept, 40)
    assert np.abs(b[-1]).max() > 0.1
    np.testing.assert_allclose(path.coef, b[:, :COLUMNS], atol=1e-13)
    np.testing.assert_allclose(path.dual, u, atol=1e-13)
    np.testing.assert_allclose(path.fitted, b @ Z.T + y - target, atol=1e-13)


@PROBLEMS
@INTERCEPT
def test_matrices_are_those_of_the_formal_definition(loss, penalty, intercept):
    """Also where each pass of the engine begins at another time: tangents carry their own state."""
    X, y = problem()
    Z, target = as_the_recursion_sees_it(X, y, loss, intercept)
    path = sp.run(X, y, loss, penalty, STEPS, ITERATIONS, intercept)
    _, _, of_b, of_u = halpern(Z, target, loss, penalty, intercept)
    covariance = sp.simulate.toeplitz(COLUMNS, 0.6)
    moments = np.zeros((Z.shape[1], Z.shape[1]))
    moments[:COLUMNS, :COLUMNS] = covariance
    if intercept:
        moments[-1, -1] = Z[0, -1] ** 2
    formal = formal_matrices(blocks_by_hand(of_b, of_u), Z, moments, ITERATIONS + 1)
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


@PROBLEMS
def test_it_converges_to_the_minimum(loss, penalty):
    X, y, _ = draw(80, 12)
    found, other = (
        sp.run(X, y, loss, penalty, algorithm, n_iter=4000).objective[-1]
        for algorithm in (Halpern(), sp.ChambollePock())
    )
    assert found == pytest.approx(other, rel=1e-5)


@PROBLEMS
@INTERCEPT
def test_a_run_that_goes_on_is_the_whole_run(loss, penalty, intercept):
    X, y = problem()
    whole = sp.run(X, y, loss, penalty, STEPS, 20, intercept)
    batch = Batch.start(prepare(X, y, loss, intercept), penalty, STEPS)
    for n_iter in (1, 2, 9, 20):
        first, again = batch.extended(n_iter), batch.extended(n_iter)  # the past is left as it was
        np.testing.assert_array_equal(first.coef, again.coef)
        batch = first
    np.testing.assert_array_equal(batch[0].coef, whole.coef)
    np.testing.assert_array_equal(batch[0].dual, whole.dual)


@PROBLEMS
@INTERCEPT
def test_members_are_separate_runs(loss, penalty, intercept):
    """With penalties and step sizes of their own."""
    X, y = problem()
    penalties = [type(penalty)(lam) for lam in (LAM, 4 * LAM)]
    batch = sp.run_batch(X, y, loss, penalties, STEPS, 20, intercept)
    own = Halpern(np.array([[SIGMA], [0.2]]), TAU)
    stepped = Batch.start(prepare(X, y, loss, intercept), penalty, own, 2).extended(20)
    pairs = [(batch[k], penalties[k], STEPS) for k in range(2)]
    pairs += [(stepped[k], penalty, Halpern(sigma, TAU)) for k, sigma in enumerate((SIGMA, 0.2))]
    for found, its_penalty, algorithm in pairs:
        alone = sp.run(X, y, loss, its_penalty, algorithm, 20, intercept)
        np.testing.assert_allclose(found.coef, alone.coef, atol=1e-13)
        for mine, other in zip(
            sp.correction_matrices(found), sp.correction_matrices(alone), strict=True
        ):
            if mine is not None:
                np.testing.assert_allclose(mine, other, atol=1e-10)


@PROBLEMS
@INTERCEPT
def test_risks_of_all_methods(loss, penalty, intercept):
    X, y, _ = draw(60, 15)
    path = sp.run(X, y, loss, penalty, Halpern(), 20, intercept)
    exact = sp.estimate_risk(path, method="exact")
    for method in ("compressed", "hutchinson"):
        risk = sp.estimate_risk(path, method=method, n_probes=300, precision="float64", rng=0)
        assert (np.abs(risk.values - exact.values) <= 4 * risk.probe_stderr + 1e-4).all(), method
    left_out = sp.estimate_risk(path, method="loo")
    assert np.abs(exact.values - left_out.values).max() < left_out.stderr.min()


@INTERCEPT
def test_risks_where_jacobians_are_isotropic(intercept):
    X, y, _ = draw(60, 15)
    path = sp.run(X, y, sp.Squared(), sp.Ridge(0.5), Halpern(), 20, intercept)
    exact, spectral = (sp.estimate_risk(path, method=each) for each in ("exact", "spectral"))
    np.testing.assert_allclose(spectral.values, exact.values, rtol=1e-8)


@PROBLEMS
def test_runs_that_leave_a_row_out(loss, penalty):
    """Without an intercept, a row of zeros with a response of zero is as good as none."""
    X, y = problem()
    path = sp.run(X, y, loss, penalty, STEPS, 20)
    for i, predictions in enumerate(leave_one_out(path).T):
        kept = 1.0 * (np.arange(ROWS) != i)
        b, _, _, _ = halpern(kept[:, None] * X, kept * y, loss, penalty, False, 20)
        np.testing.assert_allclose(predictions, b @ X[i], atol=1e-12)
