"""Columns selected by y, again without each set of held-out rows."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import steinpath as sp
from steinpath.design._dense import DenseDesign
from steinpath.design._screened import Screen, ScreenedDesign
from steinpath.design._transformed import InterceptDesign
from steinpath.engine._data import prepare
from steinpath.estimators._basis import largest, residuals


def standardised(rng, n=60, p=8):
    X = rng.standard_normal((n, p))
    return (X - X.mean(axis=0)) / X.std(axis=0)


class Selection(dict):
    """The columns with the largest correlations with residuals, for any rows that are kept."""

    def __init__(self, X, y, first, count):
        super().__init__()
        self.data = X, y, first, count

    def __missing__(self, key):
        X, y, first, count = self.data
        kept = np.frombuffer(key, bool)[:, None]
        rest = residuals(X[:, :first], y, kept)
        return largest(np.abs(X[:, first:].T @ rest), count)[:, 0]


def screened(X, y, count=2, first=3):
    design = DenseDesign(X)
    design.screen = Screen(Selection(X, y, first, count), first)
    return design


def test_residuals_are_those_of_ridge_regressions_on_the_kept_rows():
    rng = np.random.default_rng(0)
    X = standardised(rng, n=200)
    y = X[:, 0] - 2 * X[:, 1] + 5 * rng.uniform(-1, 1, 200)
    kept = rng.uniform(size=(200, 3)) < [1.0, 0.8, 0.5]
    found = residuals(X, y, kept) * np.abs(y - np.median(y)).max()
    assert not found[~kept].any()
    for k, rows in enumerate(kept.T):
        ridge = Ridge(alpha=0.02 * rows.sum() + 8, fit_intercept=False)
        expected = (
            y[rows] - y[rows].mean() - ridge.fit(X[rows], y[rows] - y[rows].mean()).predict(X[rows])
        )
        np.testing.assert_allclose(found[rows, k], expected - expected.mean(), atol=1e-6)


def test_an_outlier_does_not_select_columns():
    rng = np.random.default_rng(1)
    X = standardised(rng, n=100, p=30)
    y = X[:, 5] + 0.1 * rng.standard_normal(100)
    y[7] = 1e6 * np.sign(X[7, 9])
    X[7, 9] = 5.0
    rest = residuals(X[:, :3], y, np.ones((100, 1), bool))
    assert largest(np.abs(X[:, 3:].T @ rest), 1).ravel().argmax() == 2


def test_largest_entries_of_each_column():
    scores = np.array([[1.0, 5.0], [3.0, 2.0], [2.0, 9.0]])
    assert largest(scores, 2).tolist() == [[False, True], [True, False], [True, True]]
    assert largest(scores, 5).all()


def test_products_are_those_with_the_selected_columns():
    rng = np.random.default_rng(2)
    X, y = standardised(rng), rng.standard_normal(60)
    data = prepare(screened(X, y), y, sp.LAD(), True)
    mask = data.design._screen(np.zeros((60, 1), bool))[:, 0]
    assert mask.tolist()[:3] == [1, 1, 1]
    assert mask.sum() == 2 + 3 + 1
    plain = InterceptDesign(DenseDesign(X * mask[:-1]), intercept_scale=data.design.intercept_scale)
    block, back = rng.standard_normal((9, 4)), rng.standard_normal((60, 4))
    np.testing.assert_allclose(data.design.forward(block), plain.forward(block), atol=1e-12)
    np.testing.assert_allclose(data.design.adjoint(back), plain.adjoint(back), atol=1e-12)
    half = data.design.astype(np.float32)
    np.testing.assert_allclose(
        half.forward(block.astype(np.float32)), plain.forward(block), atol=1e-4
    )


def test_every_run_without_rows_selects_columns_without_them():
    """The estimate by folds equals a loop that selects, standardises and fits in each fold."""
    rng = np.random.default_rng(3)
    X, y = standardised(rng), rng.standard_normal(60)
    y += X[:, 0]
    algorithm = sp.ChambollePock(sigma=0.05, tau=0.05)
    splits = [(np.flatnonzero(np.arange(60) % 4 != k), np.arange(k, 60, 4)) for k in range(4)]
    design = screened(X, y)
    path = sp.run(design, y, sp.LAD(), sp.Lasso(0.3), algorithm, n_iter=30, fit_intercept=True)
    found = sp.cross_validate_path(path, cv=splits)
    losses, selected = np.zeros((31, 60)), set()
    for train, test in splits:
        left_out = np.zeros((60, 1), bool)
        left_out[test] = True
        own = np.flatnonzero(design.screen(left_out)[:-1, 0])
        selected.add(tuple(own))
        rest = residuals(X[:, :3], y, ~left_out)[:, 0]
        best = 3 + np.argsort(-np.abs(X[:, 3:].T @ rest))[:2]
        assert set(own) == {0, 1, 2, *best}
        part = sp.run(X[np.ix_(train, own)], y[train], sp.LAD(), sp.Lasso(0.3), algorithm, 30, True)
        scale = part.design.intercept_scale
        assert scale > 0
        fitted = part.coef @ X[np.ix_(test, own)].T + part.intercept[:, None]
        losses[:, test] = np.abs(y[test] - fitted)
    assert len(selected) > 1
    # the intercept has another scale, so that only converged iterates are the same
    assert found.values[-1] == pytest.approx(losses[-1].mean(), rel=0.05)


def test_members_have_their_own_columns():
    rng = np.random.default_rng(4)
    X, y = standardised(rng), rng.standard_normal(60)
    data = prepare(screened(X, y), y, sp.LAD(), True)
    left_out = rng.uniform(size=(60, 3)) < 0.3
    runs = data.design.without(left_out, copies=2)
    assert isinstance(runs, ScreenedDesign)
    assert runs.members == 6
    block = rng.standard_normal((9, 6, 1))
    together = runs.forward(block)
    for k in range(6):
        np.testing.assert_allclose(runs.member(k).forward(block[:, k]), together[:, k], atol=1e-12)
    some = runs.some(np.array([4, 1]))
    np.testing.assert_allclose(some.forward(block[:, [4, 1]]), together[:, [4, 1]], atol=1e-12)
