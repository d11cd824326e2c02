"""The norm of matrices, in few passes over them."""

import numpy as np
import pytest

from steinpath.design._dense import DenseDesign
from steinpath.design._norm import norm_in_few_passes


def normal(n, p):
    return np.random.default_rng(1).standard_normal((n, p))


MATRICES = {
    "tall": normal(900, 200),
    "square": normal(600, 600),
    "small": normal(40, 33),
    "single precision": normal(200, 100).astype(np.float32),
    "one large": normal(300, 100) + 3,
    "heavy tails": np.random.default_rng(0).standard_t(2, (200, 200)),
    "rank one": np.outer(normal(100, 1), normal(1, 50)),
    "rank three": normal(100, 3) @ normal(3, 50),
    "identity": np.eye(100, 60),
    "zero": np.zeros((100, 60)),
    "close values": np.linalg.qr(normal(200, 100))[0]
    * np.append([1, 1, 1 - 1e-9], np.linspace(0.999, 0.5, 97)),
    "tiny": 1e-80 * normal(100, 60),
}


def counted(X):
    passes = []

    def product(matrix, block):
        passes.append(block.shape[1])
        return matrix @ block

    return passes, lambda block: product(X, block), lambda block: product(X.T, block)


@pytest.mark.parametrize("X", MATRICES.values(), ids=MATRICES)
def test_norms(X):
    passes, forth, back = counted(X)
    for tol in (1e-3, 1e-6):
        found = norm_in_few_passes(forth, back, X.shape[1], tol)
        assert found == pytest.approx(np.linalg.norm(X.astype(float), 2), rel=tol, abs=0)
    assert len(passes) < 80
    assert set(passes) == {16}


def test_where_it_does_not_converge_it_is_not_too_low():
    X = MATRICES["square"]
    _, forth, back = counted(X)
    found = norm_in_few_passes(forth, back, 600, 1e-12, most_steps=2, most_restarts=1)
    assert 1 <= found / np.linalg.norm(X, 2) < 1.5


@pytest.mark.parametrize("X", MATRICES.values(), ids=MATRICES)
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_norms_of_matrices_in_memory(X, tol):
    for matrix in (X, X.T):
        found = DenseDesign(matrix)._largest_singular_value(tol)
        assert found == pytest.approx(np.linalg.norm(X.astype(float), 2), rel=tol, abs=0)


def test_a_single_vector_looks_seldom(monkeypatch):
    passes, forth, back = counted(MATRICES["tall"])
    looks = []
    eigh = np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: looks.append(len(matrix)) or eigh(matrix))
    found = norm_in_few_passes(forth, back, 200, 1e-6, width=1, most_steps=40, every=5)
    assert found == pytest.approx(np.linalg.norm(MATRICES["tall"], 2), rel=1e-6)
    assert set(passes) == {1}
    assert looks == list(range(5, len(passes) // 2 + 1, 5))
