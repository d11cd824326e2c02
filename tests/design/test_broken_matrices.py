"""Sparse matrices with entries outside of them are refused before SciPy touches them."""

import json
import subprocess
import sys

import numpy as np
import pytest

import broken_matrices
import steinpath as sp
from broken_matrices import BREAKS, KINDS, USES, sound
from steinpath.design._sparse import SparseDesign, compressed

FORMATS = ("csr", "csc", "bsr", "coo", "dok", "lil", "dia")


@pytest.fixture(scope="module")
def outcomes():
    """What came of every use of every broken matrix, until the process ended."""
    done = subprocess.run(
        [sys.executable, broken_matrices.__file__], capture_output=True, text=True
    )
    lines = map(json.loads, done.stdout.splitlines())
    return {(name, kind, use): outcome for name, kind, use, outcome in lines}


@pytest.mark.parametrize("name", BREAKS)
def test_broken_matrices_are_refused(outcomes, name):
    _, _, message = BREAKS[name]
    for kind in KINDS:
        for use in USES:
            outcome = outcomes.get((name, kind, use), "the process ended")
            assert outcome.startswith("X "), (kind, use, outcome)
            assert message in outcome, (kind, use)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FORMATS)
def test_sound_matrices_are_not(name, kind):
    X = sound(name, kind)
    expected = X.toarray()
    np.testing.assert_array_equal(compressed(X).toarray(), expected)
    model = sp.LADLasso(alpha=0.1, n_iter=3, select="last", method=None, tol=10.0)
    y = np.arange(30.0)
    np.testing.assert_allclose(
        model.fit(X, y).predict(X), model.fit(expected, y).predict(expected), rtol=1e-10
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FORMATS)
def test_matrices_without_entries(name, kind):
    X = sound(name, kind) * 0.0
    if hasattr(X, "eliminate_zeros"):
        X.eliminate_zeros()
    assert compressed(X).shape == (30, 4)
    assert not SparseDesign(X).matmat(np.ones(4)).any()


def test_diagonals_outside_of_a_matrix_have_no_entries():
    X = sound("dia")
    X.offsets[0] = np.iinfo(X.offsets.dtype).min
    X.offsets[1] = 4
    expected = X.toarray()
    np.testing.assert_array_equal(compressed(X).toarray(), expected)


@pytest.mark.parametrize("name", ["csr", "csc", "bsr"])
def test_what_a_matrix_says_of_its_order_is_not_trusted(name):
    """Its entries are in order, and each there once: this was so when it was asked last."""
    X = sound(name)
    X.indices[1] = X.indices[0]
    expected = X.toarray()
    X.has_sorted_indices = X.has_canonical_format = True
    squares = SparseDesign(X).row_squares()
    np.testing.assert_allclose(squares, (expected**2).sum(axis=1))
