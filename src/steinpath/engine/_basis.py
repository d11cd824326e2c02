"""Low-rank basis of the dual trajectory, computed by a randomised range finder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steinpath._support.arrays import Array, cast, like, namespace, take, to_numpy
from steinpath.engine._batch import Batch

# Directions with a singular value below this share of the largest are dropped.
RANK_TOL = 5e-2
# Columns of the first sketch; doubled until the basis is complete.
_SKETCH = 24


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Dual trajectory in a low-rank basis."""

    directions: Array  # (n, r): orthonormal columns
    coordinates: Array  # (n_iter, r): coordinates[s - 1] belongs to u^s
    sizes: np.ndarray  # (r,): singular values of the trajectory in logarithmic time

    @property
    def rank(self) -> int:
        """Number of directions."""
        return len(self.sizes)

    def leading(self, tol: float) -> Trajectory:
        """Return the directions with singular values above ``tol`` times the largest."""
        rank = max(1, int(np.sum(self.sizes > tol * self.sizes[0])))
        return Trajectory(self.directions[:, :rank], self.coordinates[:, :rank], self.sizes[:rank])

    def scaled(self, row_squares: Array | None) -> Array:
        """Return the directions of the corrections: those of the duals times squared row scales."""
        return self.directions if row_squares is None else row_squares[:, None] * self.directions


def compress(
    batch: Batch, rngs: Sequence[np.random.Generator], tol: float = RANK_TOL
) -> list[Trajectory]:
    """Compute a basis of the (centred) duals of each member by a randomised range finder.

    Each ``u^s`` has the weight ``1/s``, as in an integral over logarithmic time. Otherwise the few
    early iterates, at which the risk has its minimum and the duals change most, would count too
    little. Singular values below ``tol`` times the largest are dropped; 0 keeps a full basis.
    """
    duals, means = batch.states.u[:, 1:, :], batch.dual_means()
    trajectories: dict[int, Trajectory] = {}
    width = _SKETCH
    while left := [k for k in range(len(rngs)) if k not in trajectories]:
        parts = (duals, means)
        if len(left) < len(rngs):
            parts = tuple(take(part, np.asarray(left)) for part in parts)
        sketched = _Sketched(*parts, batch)
        if tol == 0 or 2 * width >= min(batch.n_iter, batch.n_samples):
            whole, bases = True, sketched.decompose()
        else:
            whole = width >= batch.n_iter
            draws = np.stack([rngs[k].standard_normal((batch.n_iter, width)) for k in left])
            bases = sketched.approximate(like(draws, duals))
        for place, k in enumerate(left):
            directions, coordinates, sizes = (array[place, ...] for array in bases)
            if whole or sizes[width // 2] <= tol * sizes[0]:
                trajectories[k] = Trajectory(directions, coordinates, sizes).leading(tol)
        width *= 2
    return [trajectories[k] for k in range(len(rngs))]


class _Sketched:
    """Weighted, centred duals of shape (members, N, n), without a copy."""

    def __init__(self, duals: Array, means: Array, batch: Batch):
        self._xp = namespace(duals)
        self._design, self._duals = batch.data.design, duals
        self._weights = like(1 / np.sqrt(np.arange(1, batch.n_iter + 1)), duals)[:, None]
        self._means = means

    def onto_times(self, block: Array) -> Array:
        sums = self._design.over_rows(self._xp.sum(block, axis=1, keepdims=True))
        product = self._design.over_rows(self._duals @ block)
        return self._weights * (product - self._means * sums)

    def onto_rows(self, block: Array) -> Array:
        xp, block = self._xp, self._weights * block
        shift = xp.sum(self._means * block, axis=1, keepdims=True)
        return xp.matrix_transpose(self._duals) @ block - shift

    def approximate(self, sketch: Array) -> tuple[Array, Array, np.ndarray]:
        """Return directions, coordinates and singular values of the range found by a sketch."""
        basis = self._orthonormal(self.onto_rows(sketch))
        basis = self._orthonormal(self.onto_rows(self.onto_times(basis)))
        coordinates = self.onto_times(basis)
        # singular vectors of few columns from their Gram matrix, on the host, where small matrices
        # are decomposed fastest
        squares, vectors = np.linalg.eigh(_gram(to_numpy(coordinates).astype(float)))
        turn = like(vectors[..., ::-1].copy(), basis)
        sizes = np.sqrt(np.maximum(squares[..., ::-1], 0.0))
        return basis @ turn, coordinates @ turn / self._weights, sizes

    def decompose(self) -> tuple[Array, Array, np.ndarray]:
        """Return the same for the full range."""
        xp = self._xp
        if not self._design.is_whole:
            return self._decompose_shared()
        left, sizes, right = xp.linalg.svd(
            self._weights * (self._duals - self._means), full_matrices=False
        )
        coordinates = left * sizes[:, None, :] / self._weights
        return xp.matrix_transpose(right), coordinates, to_numpy(sizes)

    def _decompose_shared(self) -> tuple[Array, Array, np.ndarray]:
        """Return the same from inner products of the duals, if no process holds all rows."""
        xp = self._xp
        weighted = cast(self._weights * (self._duals - self._means), xp.float64)
        products = self._design.over_rows(weighted @ xp.matrix_transpose(weighted))
        squares, left = np.linalg.eigh(to_numpy(products))
        rank = min(left.shape[-1], self._design.n_rows)
        left = left[..., ::-1][..., :rank].copy()
        sizes = np.sqrt(np.maximum(squares[..., ::-1][..., :rank], 0.0))
        # squares resolve no smaller ones
        shown = np.where(sizes > 1e-7 * sizes[..., :1], sizes, np.inf)
        right = xp.matrix_transpose(weighted) @ like(left / shown[..., None, :], weighted)
        coordinates = like(left * sizes[..., None, :], self._duals) / self._weights
        return cast(right, self._duals.dtype), coordinates, sizes

    def _orthonormal(self, block: Array) -> Array:
        """Return an orthonormal basis of columns, with zeros for dependent columns."""
        xp = self._xp
        for _ in range(2):  # the second pass removes rounding errors of the first
            gram = self._design.over_rows(_gram(cast(block, xp.float64)))
            squares, vectors = np.linalg.eigh(to_numpy(gram))
            least = float(xp.finfo(block.dtype).eps) * block.shape[2] * squares[..., -1:]
            factors = 1 / np.sqrt(np.where(squares > least, squares, np.inf))
            block = block @ like(vectors * factors[..., None, :], block)
        return block


def _gram(block: Array) -> Array:
    return namespace(block).matrix_transpose(block) @ block
