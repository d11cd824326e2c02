"""Designs made of others, and of members: every product is that of the matrix itself."""

import numpy as np
import pytest

from backends import everywhere, on_backend
from steinpath.design import _dense, _transformed

DenseDesign, StackedDesign = map(on_backend, (_dense.DenseDesign, _dense.StackedDesign))
InterceptDesign, WeightedDesign = map(
    on_backend, (_transformed.InterceptDesign, _transformed.WeightedDesign)
)

ROWS, COLUMNS = 9, 4


def matrices(*shape):
    return np.random.default_rng(0).standard_normal(shape) + np.linspace(0, 2, shape[-1])


def with_intercept(X):
    """Centred columns, and one that holds the root mean square of their entries."""
    centred = X - X.mean(axis=0)
    return np.column_stack([centred, np.full(len(X), np.sqrt(np.mean(centred**2)))])


def assert_products(design, members):
    """The products of blocks with several members are those with the matrix of each."""
    n, p = members[0].shape
    rng = np.random.default_rng(1)
    b, u = (rng.standard_normal((size, len(members), 3)) for size in (p, n))
    forward, adjoint = design.forward(b), design.adjoint(u)
    for k, X in enumerate(members):
        np.testing.assert_allclose(forward[:, k], X @ b[:, k], atol=1e-12)
        np.testing.assert_allclose(adjoint[:, k], X.T @ u[:, k], atol=1e-12)


@everywhere
@pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
def test_blocks_of_any_number_of_axes(intercept):
    X = matrices(ROWS, COLUMNS)
    design, matrix = DenseDesign(X), X
    if intercept:
        design, matrix = InterceptDesign(design), with_intercept(X)
    assert design.members == 1
    assert_products(design, [matrix] * 3)
    rng = np.random.default_rng(2)
    for axes in ((), (3,), (2, 3), (2, 3, 2)):
        b, u = (rng.standard_normal((size, *axes)) for size in matrix.shape[::-1])
        np.testing.assert_allclose(design.forward(b), np.tensordot(matrix, b, 1), atol=1e-12)
        np.testing.assert_allclose(design.adjoint(u), np.tensordot(matrix.T, u, 1), atol=1e-12)


@everywhere
@pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
def test_members_with_matrices_of_their_own(intercept):
    X = matrices(3, ROWS, COLUMNS)
    design, own = StackedDesign(X), list(X)
    if intercept:
        design, own = InterceptDesign(design), [with_intercept(each) for each in X]
    assert design.members == 3
    assert_products(design, own)
    squares = design.row_squares()
    for k, each in enumerate(own):
        alone, features = design.member(k), each[:, :COLUMNS]
        np.testing.assert_allclose(alone.forward(np.eye(each.shape[1])), each, atol=1e-12)
        np.testing.assert_allclose(squares[:, k, 0], np.sum(features**2, axis=1))
    some = design.some(np.array([2, 0]))
    assert_products(some, [own[2], own[0]])
    norm = max(np.linalg.norm(each, 2) for each in own)
    np.testing.assert_allclose(design.norm_bounds(), norm, rtol=1e-6)


@everywhere
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
def test_members_that_leave_rows_out(intercept, copies):
    """Each is centred by the rows it keeps; the others do not count, but have predictions."""
    X = matrices(ROWS, COLUMNS)
    left_out = np.arange(ROWS)[:, None] % 3 == np.arange(3)
    left_out[4, 0] = True
    kept = ROWS - left_out.sum(axis=0)
    design = DenseDesign(X)
    if intercept:
        members = InterceptDesign(design).without(left_out, kept, copies)
    else:
        members = on_backend(_transformed.WeightedDesign.without)(design, left_out, kept, copies)
    assert members.members == 3 * copies
    rng = np.random.default_rng(1)
    width = COLUMNS + intercept
    b, u = (rng.standard_normal((size, 3 * copies, 2)) for size in (width, ROWS))
    forward, adjoint, total = members.forward(b), members.adjoint(u), members.total(u)
    for k in range(3 * copies):
        here = ~left_out[:, k % 3]
        matrix = X
        if intercept:
            centred = X - X[here].mean(axis=0)
            scale = np.sqrt(np.mean(centred[here] ** 2))
            matrix = np.column_stack([centred, np.full(ROWS, scale)])
        np.testing.assert_allclose(forward[:, k], matrix @ b[:, k], atol=1e-12)
        np.testing.assert_allclose(adjoint[:, k], matrix[here].T @ u[here, k], atol=1e-12)
        np.testing.assert_allclose(total[k], u[here, k].sum(axis=0), atol=1e-12)
        assert members.rows.count[k, 0] == here.sum()
        assert members.rows.root[k, 0] == pytest.approx(np.sqrt(here.sum()))
    everything = on_backend(_transformed.WeightedDesign.without)(design, left_out)
    assert everything.rows.count == ROWS


@everywhere
@pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
def test_weights_are_copies_of_rows(intercept):
    X, counts = matrices(ROWS, COLUMNS), 1 + np.arange(ROWS) % 3
    copied = np.repeat(np.arange(ROWS), counts)
    design, whole = WeightedDesign(DenseDesign(X), counts / counts.mean()), X[copied]
    if intercept:
        design, whole = InterceptDesign(design), with_intercept(whole)
    rng = np.random.default_rng(1)
    b, u = (rng.standard_normal((size, 2, 3)) for size in (whole.shape[1], ROWS))
    first = np.searchsorted(copied, np.arange(ROWS))  # one copy of each
    np.testing.assert_allclose(design.forward(b), np.tensordot(whole[first], b, 1), atol=1e-12)
    expected = np.tensordot(whole.T, u[copied], 1) / counts.mean()
    np.testing.assert_allclose(design.adjoint(u), expected, atol=1e-12)
    np.testing.assert_allclose(design.total(u), u[copied].sum(axis=0) / counts.mean())
    norm = np.linalg.norm(whole, 2) / np.sqrt(counts.mean())
    np.testing.assert_allclose(design.norm_bounds(), norm, rtol=1e-6)
