"""The paper's formal definition of W, K and A, word for word: a dense block matrix, inverted.

Slow and simple on purpose; nothing of the package's tangent engine is used. The Jacobian blocks
are those of the bound maps, taken column by column.
"""

import numpy as np

from steinpath.engine._loop import Iteration, beginning, iterate


def as_blocks(history):
    """Vectors of a single member as the engine's blocks, of shape (size, 1, 1); or its tangents."""
    return [x[:, None, None] if x.ndim == 1 else x[:, None, :] for x in history]


def vector_maps(maps):
    """The maps of a path and their derivatives, as those of a `Recursion`: of vectors."""

    def value(update):
        return lambda t, *histories: update(t, *map(as_blocks, histories))[:, 0, 0]

    def derivative(tangent):
        def jvp(t, first, second, d_first, d_second):
            at = tangent(t, as_blocks(first), as_blocks(second))
            return at(as_blocks(d_first), as_blocks(d_second))[:, 0, :]

        return jvp

    return (
        value(maps.dual),
        value(maps.primal),
        derivative(maps.dual_tangent),
        derivative(maps.primal_tangent),
    )


def jacobian_blocks(path):
    """Blocks Φᵘ[t,s], Φᵛ[t,s], Ψᵇ[t,s], Ψᵑ[t,s] of the paper, as dictionaries of dense arrays."""
    n, p = path.design.shape
    residuals = (path.y - path.level - path.products) / np.sqrt(n)
    u, v, b, eta = map(as_blocks, (path.duals, residuals, path.iterates, path.etas))
    blocks = {name: {} for name in ("phi_u", "phi_v", "psi_b", "psi_eta")}

    def unit(size, length, s):
        """A history of zero tangents with the identity at time ``s``."""
        history = [np.zeros((size, size)) for _ in range(length)]
        if s is not None:
            history[s] = np.eye(size)
        return as_blocks(history)

    for t in range(1, path.n_iter + 1):
        dual = path.maps.dual_tangent(t, u[:t], v[:t])
        primal = path.maps.primal_tangent(t, b[:t], eta[: t + 1])
        for s in range(t):
            blocks["phi_u"][t, s] = dual(unit(n, t, s), unit(n, t, None))[:, 0, :]
            blocks["phi_v"][t, s] = dual(unit(n, t, None), unit(n, t, s))[:, 0, :]
            blocks["psi_b"][t, s] = primal(unit(p, t, s), unit(p, t + 1, None))[:, 0, :]
        for s in range(t + 1):
            blocks["psi_eta"][t, s] = primal(unit(p, t, None), unit(p, t + 1, s))[:, 0, :]
    return blocks


def formal_matrices(blocks, X, covariance, T):
    """W, K, A of equation (WKA), with ``T = n_iter`` block rows of the stacked system.

    The paper's matrices are T × T with T one more than the number of iterations used; the block
    of the last dual never matters, so we stack T = n_iter + 1 block rows and leave it zero.
    """
    n, p = X.shape
    root_n = np.sqrt(n)
    size = T

    def stack(name, rows, shift):
        big = np.zeros((size * rows, size * rows))
        for (t, s), block in blocks[name].items():
            column = s + shift  # 1-based block column
            if 1 <= t <= size and 1 <= column <= size:
                i, j = (t - 1) * rows, (column - 1) * rows
                big[i : i + rows, j : j + rows] = block
        return big

    phi_u, psi_b = stack("phi_u", n, 0), stack("psi_b", p, 0)
    phi_v, psi_eta = stack("phi_v", n, 1), stack("psi_eta", p, 0)
    identity = np.eye(size)
    L = np.eye(size, k=-1)
    B1 = np.kron(identity, np.vstack([np.eye(n), np.zeros((p, n))]))
    B2 = np.kron(identity, np.vstack([np.zeros((n, p)), np.eye(p)]))
    middle = np.block(
        [
            [-phi_u, phi_v @ np.kron(L, X) / root_n],
            [-psi_eta @ np.kron(identity, X.T) / root_n, -psi_b],
        ]
    )
    both = np.hstack([B1, B2])
    M_inverse = np.linalg.inv(np.eye(size * (n + p)) + both @ middle @ both.T)
    J_v, J_eta = B1 @ phi_v / root_n, B2 @ psi_eta / root_n
    pick = np.kron(identity, np.hstack([np.zeros((p, n)), np.eye(p)]))
    M_H = -np.eye(n * size) + np.kron(L, X) @ pick @ M_inverse @ J_v
    M_F = np.kron(L, X) @ pick @ M_inverse @ J_eta

    def block_traces(left, matrix):
        """Σ_j (I ⊗ leftᵀe_j)ᵀ matrix (I ⊗ e_j): the trace of each block of left @ matrix."""
        rows = left.shape[0]
        blocks = (np.kron(identity, left) @ matrix).reshape(size, rows, size, rows)
        return np.einsum("ikjk->ij", blocks)

    W = block_traces(np.eye(p), np.kron(L, covariance) @ pick @ M_inverse @ J_eta)
    K = block_traces(np.eye(n), M_H) / root_n
    A = -block_traces(X.T, M_F) / root_n
    return W, K, A


def dual_jacobians(path, step=1e-6):
    """``∂u^t/∂v^s`` of all t and s, the recursion's own response included.

    By central differences of runs in which one entry of one ``v^s`` is moved; of shape
    (n_iter + 1, n_iter, n, n).
    """
    n = path.design.shape[0]

    class Moved(Iteration):
        def residual(self, now, b, reading):
            v = super().residual(now, b, reading)
            if now - 1 == s:
                v = v + shift
            return v

    def duals():
        steps = iterate(
            Moved(path.maps, path.data),
            beginning(path.data, 1),
            range(1, path.n_iter + 1),
            path.maps.memory,
        )
        return np.stack([newest.u[:, 0, 0] for newest in steps])

    jacobians = np.zeros((path.n_iter + 1, path.n_iter, n, n))
    for s in range(path.n_iter):
        for i in range(n):
            shift = np.zeros((n, 1, 1))
            shift[i] = step
            up = duals()
            shift = -shift
            jacobians[1:, s, :, i] = (up - duals()) / (2 * step)
    return jacobians
