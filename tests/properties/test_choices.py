"""What holds of `tune` and of the estimators whatever the data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import steinpath as sp
from problems_drawn import problems

# few rows are warned of; what NumPy may have to say stays an error
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

ESTIMATORS = st.sampled_from(
    (sp.LADLasso, sp.LADRidge, sp.LADElasticNet, sp.SqrtLasso, sp.HuberLasso, sp.QuantileRidge)
)
PENALTIES = st.sampled_from((sp.Lasso, sp.Ridge, sp.MCP))
SMALL = {"n_alphas": 3, "n_iter": 12, "random_state": 0}


def assert_close(one, other, rtol=1e-6):
    np.testing.assert_allclose(one, other, rtol=0, atol=rtol * (np.abs(other).max() + 1e-300))


@given(problems(least=2), PENALTIES, st.sampled_from(("auto", "folds", "compressed")))
def test_choices_are_finite_and_the_best(problem, penalty, method):
    X, y = problem
    tuning = sp.tune(X, y, sp.LAD(), penalty, lams=3, n_iter=12, method=method, audit=0, rng=0)
    assert np.isfinite(tuning.risk).all()
    assert np.isfinite(tuning.coef).all()
    assert tuning.risk[tuning.best] == tuning.risk[tuning.settled].min()
    assert isinstance(tuning.warnings, tuple)


@given(problems(least=2), ESTIMATORS)
def test_estimators_predict_finite_numbers(problem, kind):
    X, y = problem
    model = kind(**SMALL).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.predict(X)).all()
    np.testing.assert_array_equal(kind(**SMALL).fit(X, y).coef_, model.coef_)


@given(
    problems(least=4, odd=False),
    ESTIMATORS,
    st.lists(st.sampled_from((1e-8, 0.1, 3.0, 1e8)), min_size=12, max_size=12),
)
def test_units_of_each_feature(problem, kind, factors):
    X, y = problem
    factors = np.array(factors[: X.shape[1]])
    model, other = (kind(**SMALL).fit(X * c, y) for c in (1.0, factors))
    assert_close(other.predict(X * factors), model.predict(X))
    assert_close(other.coef_ * factors, model.coef_)


@given(
    problems(least=4, odd=False),
    st.sampled_from((sp.LADLasso, sp.SqrtLasso, sp.QuantileRidge)),
    st.sampled_from((1e-8, 0.1, 3.0, 1e8)),
    st.sampled_from((0.0, -5.0, 1000.0)),
)
def test_units_of_the_target(problem, kind, factor, shift):
    X, y = problem
    model, other = (kind(**SMALL).fit(X, target) for target in (y, factor * (y + shift)))
    assert_close(other.predict(X) / factor - shift, model.predict(X), 1e-5)


@given(problems(least=4, odd=False), ESTIMATORS, st.randoms(use_true_random=False))
def test_the_order_of_columns_does_not_matter(problem, kind, random):
    X, y = problem
    order = random.sample(range(X.shape[1]), X.shape[1])
    model, other = (kind(**SMALL).fit(X[:, c], y) for c in (np.arange(X.shape[1]), order))
    assert_close(other.coef_, model.coef_[order])


@given(problems(least=4, odd=False), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter_to_leave_one_out(problem, random):
    X, y = problem
    order = random.sample(range(len(y)), len(y))
    options = SMALL | {"method": "loo", "audit": 0}
    model, other = (sp.LADLasso(**options).fit(X[r], y[r]) for r in (np.arange(len(y)), order))
    assert_close(other.coef_, model.coef_)
