"""What holds of `run` and `estimate_risk` whatever the data: shapes, layouts, units, orders.

Numbers are compared relative to the size of what they are made of. Chambolle–Pock's map is
nonexpansive for convex penalties, so that rounding does not grow along a path.
"""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse

import steinpath as sp
from problems_drawn import CONVEX, LOSSES, PENALTIES, STRENGTHS, posed, problems

ITERATIONS = st.integers(1, 25)
FACTORS = st.sampled_from((1e-8, 1e-3, 0.5, 7.0, 1e3, 1e8))
#: Methods without randomness.
METHODS = st.sampled_from(("exact", "loo"))


def assert_close(one, other, scale=None, rtol=1e-7):
    """Compare with what the numbers are made of, or with the largest of them."""
    scale = np.abs(other).max(initial=0.0) if scale is None else scale
    np.testing.assert_allclose(one, other, rtol=0, atol=rtol * scale + 1e-300)


def reach(X, path):
    """How large the parts are that fitted values are sums of."""
    return (np.abs(path.coef) @ np.abs(X).max(axis=0)).max() + np.abs(path.y).max()


@given(problems(), LOSSES, PENALTIES, ITERATIONS, st.booleans())
def test_paths_are_whole_and_finite(problem, loss, penalty, n_iter, fit_intercept):
    X, y = posed(problem, loss)
    n, p = X.shape
    before = X.copy(), y.copy()
    path = sp.run(X, y, loss, penalty, n_iter=n_iter, fit_intercept=fit_intercept)
    assert path.coef.shape == (n_iter + 1, p)
    assert path.duals.shape == (n_iter + 1, n)
    assert path.intercept.shape == (n_iter + 1,)
    for values in (path.coef, path.duals, path.intercept, path.fitted):
        assert np.isfinite(values).all()
    assert_close(path.fitted, path.coef @ X.T + path.intercept[:, None], reach(X, path), 1e-12)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])


@given(problems(), LOSSES, PENALTIES, ITERATIONS, st.booleans(), METHODS)
def test_risks_are_finite(problem, loss, penalty, n_iter, fit_intercept, method):
    X, y = posed(problem, loss)
    assume(method != "loo" or len(y) > 1)
    path = sp.run(X, y, loss, penalty, n_iter=n_iter, fit_intercept=fit_intercept)
    risk = sp.estimate_risk(path, method=method)
    assert risk.values.shape == (n_iter + 1,)
    assert np.isfinite(risk.values).all()
    assert risk.values.min() >= 0
    assert not np.isnan(risk.stderr).any()
    assert isinstance(risk.warnings, tuple)


LAYOUTS = {
    "columns first": np.asfortranarray,
    "every other row": lambda values: np.repeat(values, 2, axis=0)[::2],
    "backwards": lambda values: values[::-1].copy()[::-1],
    "another byte order": lambda values: values.astype(values.dtype.newbyteorder()),
    "read only": lambda values: np.frombuffer(values.tobytes()).reshape(values.shape),
    "a list": lambda values: values.tolist(),
    "sparse": lambda values: sparse.csr_array(values) if values.ndim == 2 else values,
    "integers": lambda values: values.astype(np.int16 if values.ndim == 2 else np.int64),
}


@given(problems(), LOSSES, CONVEX, ITERATIONS, st.sampled_from(sorted(LAYOUTS)), st.booleans())
def test_layouts_do_not_matter(problem, loss, penalty, n_iter, layout, fit_intercept):
    X, y = posed(problem, loss)
    if layout == "sparse":
        X = X * (np.abs(X) > 0.5)
    if layout == "integers":
        X, y = np.round(X), np.round(y)
    put = LAYOUTS[layout]
    path, other = (
        sp.run(*data, loss, penalty, n_iter=n_iter, fit_intercept=fit_intercept)
        for data in ((X, y), (put(X), put(y)))
    )
    assert_close(other.fitted, path.fitted, reach(X, path))
    if layout == "integers":
        np.testing.assert_array_equal(other.coef, path.coef)


@given(problems(), LOSSES, CONVEX, ITERATIONS)
def test_single_precision_is_close(problem, loss, penalty, n_iter):
    X, y = (values.astype(np.float32) for values in posed(problem, loss))
    path = sp.run(X, y, loss, penalty, n_iter=n_iter)
    double = sp.run(X.astype(float), y.astype(float), loss, penalty, n_iter=n_iter)
    assert path.coef.dtype == np.float32
    assert_close(path.fitted, double.fitted, reach(X, double), 1e-4)


@given(problems(), LOSSES, CONVEX, ITERATIONS, st.booleans(), st.randoms(use_true_random=False))
def test_orders_do_not_matter(problem, loss, penalty, n_iter, fit_intercept, random):
    X, y = posed(problem, loss)
    rows, columns = (random.sample(range(k), k) for k in X.shape)
    path, by_rows, by_columns = (
        sp.run(*data, loss, penalty, n_iter=n_iter, fit_intercept=fit_intercept)
        for data in ((X, y), (X[rows], y[rows]), (X[:, columns], y))
    )
    assert_close(by_rows.fitted, path.fitted[:, rows], reach(X, path))
    assert_close(by_columns.coef, path.coef[:, columns], np.abs(path.coef).max() or 1.0)


@given(problems(least=2, odd=False), LOSSES, CONVEX, METHODS, st.randoms(use_true_random=False))
def test_risks_do_not_depend_on_orders(problem, loss, penalty, method, random):
    # without ties: at a kink, the last bit decides which derivative is taken
    X, y = posed(problem, loss)
    rows, columns = (random.sample(range(k), k) for k in X.shape)
    values, others = (
        sp.estimate_risk(sp.run(*data, loss, penalty, n_iter=12), method=method).values
        for data in ((X, y), (X[np.ix_(rows, columns)], y[rows]))
    )
    assert_close(others, values, rtol=1e-6)


HOMOGENEOUS = {
    # how the strength of the penalty changes when y, or X, is multiplied by a factor
    "lad-lasso": (sp.LAD(), sp.Lasso, lambda c: 1, lambda c: c),
    "lad-ridge": (sp.LAD(), sp.Ridge, lambda c: 1 / c, lambda c: c * c),
    "sqrt-lasso": (sp.SquareRoot(), sp.Lasso, lambda c: 1, lambda c: c),
    "quantile-ridge": (sp.Quantile(0.3), sp.Ridge, lambda c: 1 / c, lambda c: c * c),
    "squared-lasso": (sp.Squared(), sp.Lasso, lambda c: c, lambda c: c),
    "squared-ridge": (sp.Squared(), sp.Ridge, lambda c: 1, lambda c: c * c),
}
# labels have no units
OF_LABELS = {
    f"{loss.name}-{penalty.name}": (loss, penalty, None, lambda c, k=k: c**k)
    for loss in (sp.Hinge(), sp.SquaredHinge(), sp.Logistic())
    for k, penalty in ((1, sp.Lasso), (2, sp.Ridge))
}


@given(problems(), st.sampled_from(sorted(HOMOGENEOUS)), STRENGTHS, FACTORS, st.booleans())
def test_units_of_the_target(problem, name, lam, factor, fit_intercept):
    X, y = problem
    loss, penalty, with_y, _ = HOMOGENEOUS[name]
    path = sp.run(X, y, loss, penalty(lam), n_iter=15, fit_intercept=fit_intercept)
    other = sp.run(
        X, factor * y, loss, penalty(lam * with_y(factor)), n_iter=15, fit_intercept=fit_intercept
    )
    assert_close(other.fitted / factor, path.fitted, reach(X, path))


@given(
    problems(), st.sampled_from(sorted(HOMOGENEOUS | OF_LABELS)), STRENGTHS, FACTORS, st.booleans()
)
def test_units_of_the_features(problem, name, lam, factor, fit_intercept):
    loss, penalty, _, with_X = (HOMOGENEOUS | OF_LABELS)[name]
    X, y = posed(problem, loss)
    path = sp.run(X, y, loss, penalty(lam), n_iter=15, fit_intercept=fit_intercept)
    other = sp.run(
        factor * X, y, loss, penalty(lam * with_X(factor)), n_iter=15, fit_intercept=fit_intercept
    )
    assert_close(other.fitted, path.fitted, reach(X, path))
    # where all of them are zero but for rounding, that is of what they are made of
    least = 1e-6 * (np.abs(y).max() or 1.0) / (np.abs(X).max() or 1.0)
    assert_close(other.coef * factor, path.coef, max(np.abs(path.coef).max(), least))


@given(problems(least=3, odd=False), st.sampled_from(sorted(HOMOGENEOUS)), STRENGTHS, FACTORS)
def test_units_of_the_risk(problem, name, lam, factor):
    X, y = problem
    loss, penalty, with_y, _ = HOMOGENEOUS[name]
    risks = [
        sp.estimate_risk(
            sp.run(X, c * y, loss, penalty(lam * with_y(c)), n_iter=10), method="exact"
        )
        for c in (1.0, factor)
    ]
    power = 2 if risks[0].test_loss == "squared" else 1
    assert_close(risks[1].values / factor**power, risks[0].values, rtol=1e-6)


SYMMETRIC = st.sampled_from((sp.LAD(), sp.SquareRoot(), sp.Huber(1.0), sp.Hinge(), sp.Logistic()))


@given(problems(), STRENGTHS, SYMMETRIC)
def test_signs(problem, lam, loss):
    X, y = posed(problem, loss)
    path = sp.run(X, y, loss, sp.Lasso(lam), n_iter=15)
    for data in ((X, -y), (-X, y)):
        other = sp.run(*data, loss, sp.Lasso(lam), n_iter=15)
        assert_close(other.coef, -path.coef, np.abs(path.coef).max() or 1.0)


@given(problems(), LOSSES, CONVEX, ITERATIONS)
def test_columns_of_zeros_change_nothing(problem, loss, penalty, n_iter):
    X, y = posed(problem, loss)
    wider = np.column_stack([X, np.zeros(len(y))])
    path = sp.run(X, y, loss, penalty, n_iter=n_iter)
    other = sp.run(wider, y, loss, penalty, n_iter=n_iter)
    assert_close(other.coef[:, :-1], path.coef, np.abs(path.coef).max() or 1.0)
    assert not other.coef[:, -1].any()


@given(problems(), LOSSES, PENALTIES, st.booleans())
def test_nothing_to_learn_from(problem, loss, penalty, fit_intercept):
    X, y = posed(problem, loss)
    blind = sp.run(0 * X, y, loss, penalty, n_iter=5, fit_intercept=fit_intercept)
    assert not blind.coef.any()
    if loss.margin:  # labels are never silent
        return
    silent = sp.run(X, 0 * y, loss, penalty, n_iter=5)
    if not isinstance(loss, sp.Quantile):  # whose gradient at 0 is not 0
        assert not silent.coef.any()
        assert sp.estimate_risk(silent, method="exact").values == pytest.approx(0)


@given(problems(), LOSSES, CONVEX, ITERATIONS, ITERATIONS)
def test_longer_paths_begin_like_shorter_ones(problem, loss, penalty, first, second):
    X, y = posed(problem, loss)
    short, long = (
        sp.run(X, y, loss, penalty, n_iter=n) for n in (min(first, second), max(first, second))
    )
    np.testing.assert_array_equal(long.coef[: short.n_iter + 1], short.coef)
