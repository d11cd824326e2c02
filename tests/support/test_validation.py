"""Bad input to `run` gets an error that says what is wrong and what would be right."""

import numpy as np
import pytest
from scipy import sparse

import steinpath as sp

X, Y = np.arange(12.0).reshape(6, 2) / 7, np.arange(6.0)
HOLE = np.where(np.eye(6, 2) > 0, np.nan, X)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": HOLE}, "X has 2 values that are NaN or infinite"),
        ({"y": np.array([1, 2, 3, np.inf, 5, 6])}, "y has 1 value that is NaN or infinite"),
        ({"X": X[:, 0]}, r"X must have 2 dimensions, got shape \(6,\)"),
        ({"X": X[None]}, "X must have 2 dimensions"),
        ({"y": Y[:, None]}, r"y must have 1 dimension, got shape \(6, 1\); use y.ravel"),
        ({"y": Y[:-1]}, "X has 6 rows, but y has 5 entries"),
        ({"X": X[:, :0]}, r"X is empty: its shape is \(6, 0\)"),
        ({"X": X[:0], "y": Y[:0]}, "X is empty"),
        ({"y": sparse.csr_array(X)}, "must be dense, got a sparse matrix"),
        ({"loss": "lad"}, r"loss must be a Loss such as sp.LAD\(\)"),
        ({"loss": sp.LAD}, r"loss is the class LAD; pass an instance: sp.LAD\(\)"),
        ({"penalty": 0.5}, r"penalty must be a Penalty such as sp.Lasso\(0.5\)"),
        ({"penalty": sp.Lasso}, "penalty is the class Lasso"),
        ({"algorithm": "fista"}, "algorithm must be an Algorithm such as"),
        ({"n_iter": 0}, "n_iter must be at least 1, got 0"),
        ({"n_iter": -3}, "n_iter must be at least 1"),
        ({"n_iter": 2.5}, "n_iter must be an integer"),
        ({"n_iter": True}, "n_iter must be an integer"),
        ({"penalty": sp.Lasso(1, weights=[1, 2, 3])}, "3 weights, but X has 2 columns"),
        ({"penalty": sp.GroupLasso(1, [0, 1, 1])}, "labels for 3 coefficients, but X has 2"),
        ({"fit_intercept": "yes"}, "fit_intercept must be True or False"),
        ({"y": 1e300 * Y}, "y has entries of magnitude up to 5e.300"),
        ({"X": 1e160 * X}, "rescale X"),
        ({"X": 1e-170 * X}, "rescale X"),
        ({"X": (1e-25 * X).astype(np.float32)}, "rescale X, or use float64"),
        ({"X": X.astype(np.float32), "y": 1e300 * Y}, "y has entries of magnitude up to"),
    ],
)
def test_bad_input_is_refused(changes, message):
    arguments = {"X": X, "y": Y, "loss": sp.LAD(), "penalty": sp.Lasso(0.1), **changes}
    with pytest.raises((ValueError, TypeError), match=message):
        sp.run(**arguments)


def test_what_is_not_a_path_is_refused():
    for function in (sp.estimate_risk, sp.correction_matrices):
        with pytest.raises(TypeError, match="path must be a Path"):
            function(X)


def test_lam_max_checks_its_input_too():
    with pytest.raises(TypeError, match="loss is the class LAD"):
        sp.lam_max(X, Y, sp.LAD, sp.Lasso(1.0))
    with pytest.raises(TypeError, match="penalty must be a Penalty"):
        sp.lam_max(X, Y, sp.LAD(), "lasso")


def test_results_do_not_change_with_the_callers_y():
    y, weights = Y.copy(), np.ones(2)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.1, weights=weights), n_iter=3)
    before = sp.estimate_risk(path).values
    y += 1
    weights += 1
    np.testing.assert_array_equal(sp.estimate_risk(path).values, before)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.zeros((5, 3)), np.arange(5.0)),
        (np.ones((5, 3)), np.zeros(5)),
        (np.array([[2.0]]), np.array([1.0])),
        (np.ones((5, 1)), np.ones(5)),
        (np.eye(3), np.array([1e8, -1e8, 1e-8])),
        (1e-8 * np.eye(3), np.ones(3)),
    ],
    ids=["zero X", "zero y", "one by one", "perfect fit", "large y", "small X"],
)
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot(), sp.Huber()], ids=repr)
def test_extreme_but_possible_input_gives_finite_results(X, y, fit_intercept, loss):
    path = sp.run(X, y, loss, sp.Lasso(0.1), n_iter=20, fit_intercept=fit_intercept)
    for array in (path.coef, path.dual, path.fitted, path.intercept, path.objective):
        assert np.isfinite(array).all()
    risk = sp.estimate_risk(path)
    assert np.isfinite(risk.values).all()
