"""W, K and A against the paper's formal definition and several independent truths."""

import numpy as np
import pytest

from backends import everywhere, on_backend, sp
from formal import formal_matrices, jacobian_blocks, vector_maps
from problems import ALGORITHM_EXAMPLES, LOSS_EXAMPLES, PENALTY_EXAMPLES, draw, draw_for, handles
from steinpath.engine import _tangents as tangents
from steinpath.engine import _traces as corrections
from steinpath.engine._batch import Batch

Linearization, batch_of = map(on_backend, (tangents.Linearization, Batch.of))
compute_matrices = on_backend(corrections.compute_matrices)

N, P, ITERATIONS = 11, 7, 5
CASES = [
    pytest.param(loss, make, algorithm, id=f"{a}-{b}-{c}")
    for a, loss in LOSS_EXAMPLES.items()
    for b, make in PENALTY_EXAMPLES.items()
    for c, algorithm in ALGORITHM_EXAMPLES.items()
    # maps with a state have no blocks at a single time; theirs are in algorithms/test_halpern.py
    if handles(algorithm, loss) and not algorithm.carries
]


def covariance_of(p):
    return sp.simulate.toeplitz(p, 0.6)


def history_dependent_recursion(n, p, seed=0):
    """A recursion in which every block of every Jacobian is dense, non-symmetric and non-zero."""
    rng = np.random.default_rng(seed)
    steps = range(1, ITERATIONS + 1)
    C = {(t, s): rng.standard_normal((n, n)) / n for t in steps for s in range(t)}
    D = {(t, s): rng.standard_normal((n, n)) / n for t in steps for s in range(t)}
    E = {(t, s): rng.standard_normal((p, p)) / p for t in steps for s in range(t)}
    F = {(t, s): rng.standard_normal((p, p)) / p for t in steps for s in range(t + 1)}

    def mix(t, first, second, M1, M2):
        total = sum(M1[t, s] @ first[s] for s in range(len(first)))
        return total + sum(M2[t, s] @ second[s] for s in range(len(second)))

    def slope(t, first, second, M1, M2):
        return 1 / np.cosh(mix(t, first, second, M1, M2)) ** 2

    def columns(values, block):
        return values[:, None] * block if block.ndim == 2 else values * block

    return sp.Recursion(
        dual=lambda t, u, v: np.tanh(mix(t, u, v, C, D)),
        primal=lambda t, b, eta: np.tanh(mix(t, b, eta, E, F)),
        dual_jvp=lambda t, u, v, du, dv: columns(slope(t, u, v, C, D), mix(t, du, dv, C, D)),
        primal_jvp=lambda t, b, eta, db, deta: columns(
            slope(t, b, eta, E, F), mix(t, db, deta, E, F)
        ),
    )


def assert_formal(path, X, covariance, width=corrections.WIDTH, **windows):
    """The matrices, by so many tangent columns at a time in such windows, are the formal ones."""
    ours = sp.correction_matrices(path, covariance)
    if windows:
        linearization = Linearization(batch_of(path), keep=True, **windows)
        rng = np.random.default_rng(0)
        found = compute_matrices(
            path, covariance, "exact", 1, None, rng, True, width, linearization
        )
        ours = [layers[0] for layers in (found.W, found.K, found.A)]
    formal = formal_matrices(jacobian_blocks(path), X, covariance, path.n_iter + 1)
    for name, mine, truth in zip("WKA", ours, formal, strict=True):
        np.testing.assert_allclose(mine, truth, atol=1e-10 * max(1, abs(truth).max()), err_msg=name)
    return ours


@everywhere(every=7)
@pytest.mark.parametrize(("loss", "make_penalty", "algorithm"), CASES)
def test_formal_definition(loss, make_penalty, algorithm):
    X, y, _ = draw_for(loss, N, P)
    path = sp.run(X, y, loss, make_penalty(P), algorithm, n_iter=ITERATIONS)
    W, K, A = assert_formal(path, X, covariance_of(P))
    assert not np.triu(W).any()
    assert not np.triu(A).any()
    assert not np.triu(K, 1).any()
    np.testing.assert_allclose(np.diag(K), -np.sqrt(N))
    assert np.abs(W).max() > 1e-3  # the comparison is of something


@everywhere
@pytest.mark.parametrize("shape", [(11, 7), (6, 10)])
def test_formal_definition_of_a_recursion_with_every_history_block(shape):
    n, p = shape
    X, y, _ = draw(n, p)
    recursion = history_dependent_recursion(n, p)
    path = sp.run(X, y, sp.Squared(), sp.NoPenalty(), recursion, n_iter=ITERATIONS)
    blocks = jacobian_blocks(path)
    assert all(np.abs(block).max() > 1e-3 for kind in blocks.values() for block in kind.values())
    assert_formal(path, X, covariance_of(p))


@everywhere
@pytest.mark.parametrize("window", [1, 3, 20])
def test_formal_definition_with_more_columns_than_rows_and_many_chunks(window):
    """The other way of taking the trace in K, and several passes of the engine.

    Passes begin at each time: within a window, at its first iteration, and after many windows.
    """
    X, y, _ = draw(6, 9)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=6)
    assert_formal(path, X, covariance_of(9), width=4, window=window)


@everywhere
@pytest.mark.parametrize(
    ("loss", "lam", "share", "expected"),
    [
        pytest.param(sp.SquareRoot(), 0.5, 0.8, [False, True, False], id="columns"),
        pytest.param(sp.LAD(), 0.3, 0.53, [False, False, True], id="rows and columns"),
    ],
)
def test_formal_definition_where_windows_become_the_whole(loss, lam, share, expected):
    """After windows that copy some columns of X, or rows and columns, comes one that uses all."""
    X, y, _ = draw(N, P)
    path = sp.run(X, y, loss, sp.Lasso(lam), n_iter=6)
    how = {"window": 2, "worth_copying": share}
    windows = Linearization(batch_of(path), **how).windows()
    assert [window.whole for window in windows] == expected
    assert_formal(path, X, covariance_of(P), **how)


def test_derivatives_are_taken_once_for_all_passes(monkeypatch):
    """Each pass begins at another time; what an earlier one has found is not computed again."""
    differentiate, taken = tangents.Linearization._differentiate, []

    def counted(self, first, last):
        taken.extend(range(first, last))
        return differentiate(self, first, last)

    monkeypatch.setattr(tangents.Linearization, "_differentiate", counted)
    X, y, _ = draw(N, P)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=40)
    for method in corrections.METHODS:
        sp.correction_matrices(path, covariance_of(P), method, n_probes=9)
        assert taken == list(range(1, 41))
        taken.clear()


@everywhere(every=11)
@pytest.mark.parametrize("loss", LOSS_EXAMPLES.values(), ids=LOSS_EXAMPLES)
@pytest.mark.parametrize("penalty", ["lasso", "scad", "group_lasso"])
def test_two_copy_identity(loss, penalty):
    """Derivatives of whole runs by finite differences, X in v and X in eta told apart."""
    X, y, model = draw_for(loss, 8, 5, seed=1)
    penalty = PENALTY_EXAMPLES[penalty](5)
    algorithm = sp.ChambollePock(0.5, 0.4, 0.5)
    path = sp.run(X, y, loss, penalty, algorithm, n_iter=4)
    dual, primal, _, _ = vector_maps(path.maps)
    noise = y - X @ model.coef
    covariance = covariance_of(5)
    n, p = X.shape

    def trajectory(in_v, in_eta):
        """H = [b^0 - b*, …] of the recursion with separate copies of X."""
        u, b, eta = [np.zeros(n)], [np.zeros(p)], [np.zeros(p)]
        v = [(noise + in_v @ model.coef) / np.sqrt(n)]
        for t in range(1, path.n_iter + 1):
            u.append(dual(t, u, v))
            eta.append(in_eta.T @ u[-1] / np.sqrt(n))
            b.append(primal(t, b, eta))
            v.append((noise - in_v @ (b[-1] - model.coef)) / np.sqrt(n))
        return np.stack(b, axis=1) - model.coef[:, None]

    h, T = 1e-6, path.n_iter + 1
    H = trajectory(X, X)
    np.testing.assert_allclose(H.T + model.coef, path.coef, atol=1e-12)
    first, second, third = np.zeros((n, T)), np.zeros((p, T)), np.zeros((n, T))
    for i in range(n):
        for j in range(p):
            bump = np.zeros((n, p))
            bump[i, j] = h
            in_eta = (trajectory(X, X + bump) - trajectory(X, X - bump)) / (2 * h)
            first[i] += covariance[j] @ in_eta
            third[i] += (X[:, j] @ (X @ in_eta)) / np.sqrt(n)
            plus, minus = trajectory(X + bump, X), trajectory(X - bump, X)
            in_v = ((X + bump) @ plus - (X - bump) @ minus) / (2 * h)
            second[j] += in_v[i] / np.sqrt(n)
    W, K, A = sp.correction_matrices(path, covariance)
    F = np.column_stack([*path.dual, np.zeros(n)])
    np.testing.assert_allclose(first, F @ W.T, atol=2e-8)
    np.testing.assert_allclose(second, -H @ K.T, atol=2e-8)
    np.testing.assert_allclose(third, -F @ A.T, atol=2e-7)


@everywhere
def test_closed_forms_for_three_iterates():
    """The paper's worked example T = 3, from the Jacobian blocks alone."""
    X, y, _ = draw(N, P)
    S = covariance_of(P)
    recursion = history_dependent_recursion(N, P)
    path = sp.run(X, y, sp.Squared(), sp.NoPenalty(), recursion, n_iter=2)
    blocks, root_n = jacobian_blocks(path), np.sqrt(N)
    psi, phi_v = blocks["psi_eta"], blocks["phi_v"]
    Q11, Q22 = psi[1, 1] / root_n, psi[2, 2] / root_n
    Q21 = blocks["psi_b"][2, 1] @ Q11 + psi[2, 1] / root_n
    Q21 = Q21 - psi[2, 2] @ X.T @ phi_v[2, 1] @ X @ Q11 / N
    P22 = psi[2, 2] @ X.T @ phi_v[2, 1] / N
    W, K, A = sp.correction_matrices(path, S)
    np.testing.assert_allclose(W[1, 0], np.trace(S @ Q11))
    np.testing.assert_allclose(W[2, :2], [np.trace(S @ Q21), np.trace(S @ Q22)])
    gram, What = X.T @ X, np.linalg.solve(K, A)
    w21, w32 = np.trace(gram @ Q11) / N, np.trace(gram @ Q22) / N
    np.testing.assert_allclose([What[1, 0], What[2, 1]], [w21, w32])
    # the paper prints a minus before the second term; K Ŵ = A with K = tr(X P) / √n and diagonal
    # -√n gives a plus
    w31 = (np.trace(gram @ Q21) + np.trace(X @ P22) * w21) / N
    np.testing.assert_allclose(What[2, 0], w31)


@everywhere
@pytest.mark.parametrize("penalty", PENALTY_EXAMPLES)
def test_squared_loss_ties_K_to_A(penalty):
    X, y, _ = draw(N, P)
    step = sp.ProximalGradient()
    path = sp.run(X, y, sp.Squared(), PENALTY_EXAMPLES[penalty](P), step, n_iter=8)
    _, K, A = sp.correction_matrices(path)
    residuals = (path.y - path.fitted) / np.sqrt(N)
    np.testing.assert_allclose(path.dual, -residuals[:-1], atol=1e-14)
    np.testing.assert_allclose(K, -np.sqrt(N) * (np.eye(9) - A / N), atol=1e-12)


@everywhere
def test_hutchinson_with_probes_of_full_rank_is_exact():
    """Scaled Hadamard columns are random signs whose outer products sum to the identity."""
    from scipy.linalg import hadamard

    n = p = 8
    X, y, _ = draw(n, p)
    path = sp.run(X, y, sp.SquareRoot(), sp.Lasso(0.3), n_iter=5)

    class Fixed(np.random.Generator):
        def integers(self, low, high, size):
            return (hadamard(8) + 1) // 2

    rng = Fixed(np.random.PCG64(0))
    found = sp.correction_matrices(path, np.eye(p), "hutchinson", 8, rng=rng)
    for mine, truth in zip(found, sp.correction_matrices(path, np.eye(p)), strict=True):
        np.testing.assert_allclose(mine, truth, atol=1e-12)


@everywhere
def test_row_scale_weights_the_trace_of_K():
    """K with row sizes is the trace of diag(ρ²) X P, here from the formal definition."""
    for shape in ((11, 7), (6, 9)):
        X, y, _ = draw(*shape)
        n = shape[0]
        path = sp.run(X, y, sp.LAD(), sp.Ridge(0.3), n_iter=4)
        rho = np.arange(1.0, n + 1)
        squares = rho**2 / np.mean(rho**2)
        _, into_v = impulse_responses(jacobian_blocks(path), X)
        weighted = np.zeros((5, 5))
        for (t, s), response in into_v.items():
            weighted[t, s - 1] = squares @ np.diag(X @ response) / np.sqrt(n)
        _, K, A = sp.correction_matrices(path, row_scale=rho)
        np.testing.assert_allclose(K, weighted - np.sqrt(n) * np.eye(5), atol=1e-11)
        _, K_one, A_one = sp.correction_matrices(path, row_scale=np.full(n, 3.0))
        _, K_none, A_none = sp.correction_matrices(path)
        np.testing.assert_allclose(K_one, K_none, atol=1e-12)
        np.testing.assert_array_equal(A, A_none)
        np.testing.assert_array_equal(A_one, A_none)
        found = [
            sp.correction_matrices(path, None, "hutchinson", 4000, rho, seed)[1]
            for seed in range(2)
        ]
        np.testing.assert_allclose(np.mean(found, axis=0), K, atol=0.05 * abs(np.tril(K, -1)).max())


def test_row_scales_are_squared_and_have_mean_one():
    X, y, _ = draw(N, P)
    path = sp.run(X, y, sp.LAD(), sp.Ridge(0.3), n_iter=2)
    rho = np.arange(float(N))
    expected = rho**2 / np.mean(rho**2)
    for scale in (rho, 1e200 * rho, list(rho)):
        np.testing.assert_allclose(corrections.row_squares_of(path, scale), expected)
    norms = np.sum(X**2, axis=1)
    np.testing.assert_allclose(corrections.row_squares_of(path, "norm"), norms / norms.mean())
    small = sp.run(1e-6 * X, y, sp.LAD(), sp.Ridge(0.3), n_iter=2)
    np.testing.assert_allclose(corrections.row_squares_of(small, "norm"), norms / norms.mean())
    assert corrections.row_squares_of(path, None) is None
    constant = sp.run(0 * X + 3.0, y, sp.LAD(), sp.Ridge(0.3), n_iter=2, fit_intercept=True)
    assert corrections.row_squares_of(constant, "norm") is None
    for scale, message in (
        ("size", "row_scale must be None, 'norm', 'auto' or an array; got 'size'"),
        (rho[:3], f"row_scale must have one nonnegative entry for each of the {N} rows"),
        (-rho, f"row_scale must have one nonnegative entry for each of the {N} rows"),
        (0 * rho, "row_scale must not be zero for all rows"),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            corrections.row_squares_of(path, scale)
    with pytest.raises(ValueError, match=r"^row_scale must"):
        corrections.row_squares_of(path, rho[:, None])


def test_matrices_of_something_else_are_refused():
    X, y, _ = draw(N, P)
    path = sp.run(X, y, sp.LAD(), sp.Ridge(0.3), n_iter=2)
    message = r"^path must be a Path such as sp\.run\(X, y, loss, penalty\), got 3$"
    with pytest.raises(TypeError, match=message):
        sp.correction_matrices(3)
    with pytest.raises(ValueError, match=r"^method must be one of 'exact', 'hutchinson'; got 'a'$"):
        sp.correction_matrices(path, method="a")
    with pytest.raises(ValueError, match=r"^n_probes must be at least 1, got 0$"):
        sp.correction_matrices(path, n_probes=0)


@pytest.mark.parametrize("known", [False, True], ids=["K and A", "W"])
def test_weights_are_those_of_the_mean_of_all_probes_but_one(known):
    rng = np.random.default_rng(0)
    X, y, _ = draw(N, P)
    path = sp.run(X, y, sp.LAD(), sp.Ridge(0.3), n_iter=4, fit_intercept=True)
    W, A = np.tril(rng.standard_normal((2, 3, 5, 5)), -1)
    K = np.tril(rng.standard_normal((3, 5, 5))) - 3 * np.eye(5)
    for squares in (None, np.linspace(0.5, 1.5, N)):
        matrices = corrections.CorrectionMatrices(W if known else None, K, A, squares)
        for skip in (None, 0, 2):
            kept = [k for k in range(3) if k != skip]
            w, k, a = (np.mean(layers[kept], axis=0) for layers in (W, K, A))
            weights = w if known else np.linalg.solve(k, a)
            np.testing.assert_allclose(matrices.weights(skip), weights, atol=1e-13)
            duals = path.dual - path.dual.mean(axis=1, keepdims=True)
            shift = weights[:, :4] @ duals * (1.0 if squares is None else squares)
            np.testing.assert_allclose(matrices.corrected(path, skip), path.products - shift)
        np.testing.assert_array_equal(matrices.weights(), matrices.weights(None))


def impulse_responses(blocks, X):
    """Dense responses of ``b^t`` to impulses ``n^{-1/2}`` in ``eta^s`` and in ``v^{s-1}``."""
    n, p = X.shape
    N, root_n = max(t for t, _ in blocks["phi_u"]), np.sqrt(n)
    found = {}, {}
    for responses, size in zip(found, (p, n), strict=True):
        for source in range(1, N + 1):
            du, db = {0: np.zeros((n, size))}, {0: np.zeros((p, size))}
            deta, dv = {0: np.zeros((p, size))}, {}
            for t in range(1, N + 1):
                dv[t - 1] = -X @ db[t - 1] / root_n
                if responses is found[1] and t == source:
                    dv[t - 1] = dv[t - 1] + np.eye(n) / root_n
                du[t] = sum(
                    blocks["phi_u"][t, s] @ du[s] + blocks["phi_v"][t, s] @ dv[s] for s in range(t)
                )
                deta[t] = X.T @ du[t] / root_n
                if responses is found[0] and t == source:
                    deta[t] = deta[t] + np.eye(p) / root_n
                db[t] = sum(blocks["psi_b"][t, s] @ db[s] for s in range(t)) + sum(
                    blocks["psi_eta"][t, s] @ deta[s] for s in range(t + 1)
                )
                responses[t, source] = db[t]
    return found


def test_intercept_is_a_design_with_one_more_column():
    """The lazily centred design is the explicit one; the new column's second moment is known."""
    X, y, _ = draw(N, P)
    X = X + np.arange(P)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=5, fit_intercept=True)
    centred = X - X.mean(axis=0)
    scale = np.sqrt(np.mean(centred**2))
    explicit = np.column_stack([centred, np.full(N, scale)])
    moments = np.zeros((P + 1, P + 1))
    moments[:P, :P] = covariance_of(P)
    moments[P, P] = scale**2
    truth = formal_matrices(jacobian_blocks(path), explicit, moments, 6)
    exact = sp.correction_matrices(path, covariance_of(P))
    random = sp.correction_matrices(path, covariance_of(P), "hutchinson", 20_000, rng=0)
    for formal, ours, estimate in zip(truth, exact, random, strict=True):
        np.testing.assert_allclose(ours, formal, atol=1e-10)
        np.testing.assert_allclose(estimate, formal, atol=0.05 * abs(np.tril(formal, -1)).max())
