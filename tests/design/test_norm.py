"""Bounds for the norm of matrices, from few products with them."""

import numpy as np
import pytest

from steinpath.design._base import EXACT, STEPS, WIDTH
from steinpath.design._dense import DenseDesign, StackedDesign


def normal(n, p):
    return np.random.default_rng(1).standard_normal((n, p))


def decaying(p):
    """Return correlations that decay with the distance of the columns."""
    return 0.5 ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))


MATRICES = {
    "tall": normal(900, 200),
    "wide": normal(200, 900),
    "correlated": normal(400, 300) @ np.linalg.cholesky(decaying(300)).T,
    "narrow": normal(400, 33),
    "single precision": normal(200, 100).astype(np.float32),
    "rank three": normal(100, 3) @ normal(3, 80),
    "identity": np.eye(100, 80),
    "zero": np.zeros((100, 80)),
    "one-hot": np.eye(100)[np.random.default_rng(0).integers(0, 100, 1000)],
    "close values": np.linalg.qr(normal(200, 100))[0]
    * np.append([1, 1, 1 - 1e-9], np.linspace(0.999, 0.5, 97)),
    "hardly larger than many": np.linalg.qr(normal(400, 300))[0] * np.append([1.02], np.ones(299)),
    "tiny": 1e-80 * normal(100, 80),
    "huge": 1e75 * normal(100, 80),
}


class Counted(DenseDesign):
    passes = 0

    def matmat(self, block):
        self.passes += 1
        return super().matmat(block)

    def rmatmat(self, block):
        self.passes += 1
        return super().rmatmat(block)


@pytest.mark.parametrize("X", MATRICES.values(), ids=MATRICES)
def test_the_norm_is_between_its_bounds(X):
    norm = np.linalg.norm(X.astype(float), 2)
    rounding = np.sqrt(X.size) * np.finfo(X.dtype).eps
    for matrix in (X, X.T):
        design = Counted(matrix)
        low, high = design.norm_bounds()
        assert low <= norm * (1 + rounding)
        assert norm * (1 - rounding) <= high <= 1.04 * norm
        assert low >= 0.96 * norm
        assert design.passes <= 2 * STEPS == 10
        assert design.norm_bounds() is design.norm_bounds()


@pytest.mark.parametrize("p", [1, 2, WIDTH, EXACT])
def test_norms_of_narrow_matrices_are_exact(p):
    X = normal(300, p)
    design = Counted(X)
    np.testing.assert_allclose(design.norm_bounds(), np.linalg.norm(X, 2), rtol=1e-10)
    assert design.passes == 2


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", [(2000, 1000), (300, 1200), (500, 500)])
def test_the_upper_bound_holds_for_random_matrices(seed, shape):
    """Their singular values lie densely at the upper end, which is the hard case."""
    X = np.random.default_rng(seed).standard_normal(shape)
    low, high = DenseDesign(X).norm_bounds()
    gram = X @ X.T if shape[0] < shape[1] else X.T @ X
    assert low <= np.sqrt(np.linalg.eigvalsh(gram)[-1]) <= high


def test_of_members_it_is_the_largest():
    X = np.stack([normal(60, 100), 3 * normal(60, 100) + 1, np.zeros((60, 100))])
    alone = [DenseDesign(each).norm_bounds() for each in X]
    np.testing.assert_allclose(StackedDesign(X).norm_bounds(), np.max(alone, axis=0), rtol=1e-9)
