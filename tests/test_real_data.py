"""Real data: fits beside other solvers', estimated risk beside leave-one-out and held-out error."""

import math

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.datasets import load_diabetes
from sklearn.linear_model import QuantileRegressor
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import steinpath as sp

# A penalty too small to matter, the minimiser itself, and the cheapest estimate of its risk, which
# is not looked at. With larger dual steps than the default LAD needs fewer iterations to the end.
TO_THE_END = {"alpha": 1e-9, "select": "last", "n_iter": 3000, "method": "folds", "audit": 0}
LARGE_STEPS = sp.ChambollePock(sigma=0.25)


@pytest.fixture(scope="module")
def engel():
    """Income and food expenditure of 235 households."""
    data = sm.datasets.engel.load_pandas().data
    return data[["income"]], data["foodexp"]


@pytest.fixture(scope="module")
def stackloss():
    """Twenty-one days of a plant."""
    data = sm.datasets.stackloss.load_pandas()
    return data.exog.astype(float), data.endog.astype(float)


@pytest.fixture(scope="module")
def diabetes():
    """442 patients, with all squares and products of their ten features; y has unit variance."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    expand = PolynomialFeatures(2, include_bias=False).set_output(transform="pandas")
    return expand.fit_transform(X), y / y.std(ddof=0)


# ----- Other solvers -----


def pinball(residuals, q):
    return float(np.mean(np.where(residuals > 0, q * residuals, (q - 1) * residuals)))


# the households are in an order, and neighbours' errors are alike: the warning is right
@pytest.mark.filterwarnings("ignore:residuals of neighbouring rows:UserWarning")
@pytest.mark.parametrize("q", [0.25, 0.75, 0.9])
def test_quantiles_are_those_of_statsmodels(engel, q):
    X, y = engel
    model = sp.QuantileLasso(q=q, algorithm=LARGE_STEPS, random_state=0, **TO_THE_END).fit(X, y)
    theirs = sm.QuantReg(y, sm.add_constant(X)).fit(q=q)
    assert model.coef_[0] == pytest.approx(theirs.params["income"], rel=5e-5)
    assert model.intercept_ == pytest.approx(theirs.params["const"], rel=5e-4)
    assert pinball(y - model.predict(X), q) == pytest.approx(pinball(theirs.resid, q), rel=1e-6)


# 21 rows are few, and it says so
@pytest.mark.filterwarnings("ignore:with 21 observations:UserWarning")
def test_stack_loss_has_its_known_solution(stackloss):
    X, y = stackloss
    model = sp.LADLasso(random_state=0, **TO_THE_END).fit(X, y)
    # as in Koenker and Bassett, and every textbook since
    known = {"AIRFLOW": 0.8319, "WATERTEMP": 0.5739, "ACIDCONC": -0.0609}
    assert list(model.feature_names_in_) == list(known)
    assert model.coef_ == pytest.approx(list(known.values()), abs=1e-4)
    assert model.intercept_ == pytest.approx(-39.69, abs=0.005)
    assert np.abs(y - model.predict(X)).sum() == pytest.approx(42.08116, abs=2e-4)


@pytest.mark.filterwarnings("ignore:with 21 observations:UserWarning")
@pytest.mark.parametrize("q", [0.5, 0.75])
def test_penalised_quantiles_are_those_of_scikit_learn(stackloss, q):
    X, y = stackloss
    alpha = 0.3
    how = TO_THE_END | {"alpha": alpha, "n_iter": 1000}
    model = sp.QuantileLasso(q=q, random_state=0, **how).fit(X, y)
    theirs = make_pipeline(StandardScaler(), QuantileRegressor(quantile=q, alpha=alpha)).fit(X, y)
    # the penalty is on the coefficients of standardised columns, for both
    objectives = [
        pinball(y - predicted, q) + alpha * np.abs(coef).sum()
        for predicted, coef in (
            (model.predict(X), model.coef_ * X.std(ddof=0)),
            (theirs.predict(X), theirs[-1].coef_),
        )
    ]
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-4)


# ----- Estimated risk -----


ESTIMATORS = {
    "lad": (sp.LADLasso, sp.LAD(), np.abs),
    "square root": (sp.SqrtLasso, sp.SquareRoot(), np.square),
}
# than the defaults, and with steps that do not depend on the penalties
FASTER = {"n_alphas": 6, "n_iter": 100, "random_state": 0, "algorithm": sp.HalpernPDHG()}


@pytest.mark.filterwarnings("ignore:the estimated risk was still decreasing")
@pytest.mark.parametrize(("kind", "loss", "cost"), ESTIMATORS.values(), ids=ESTIMATORS)
def test_the_estimate_is_near_exact_leave_one_out(diabetes, kind, loss, cost):
    X, y = (data.to_numpy() for data in diabetes)
    model = kind(**FASTER).fit(X, y)
    at = model.best_index_, model.best_iter_
    # the path of the choice, once more
    penalty = sp.Lasso(model.alpha_ * math.sqrt(len(y)))
    standard, steps = X / X.std(axis=0), model.algorithm
    path = sp.run(standard, y, loss, penalty, steps, model.n_iter, fit_intercept=True)
    coef = path.coef[model.best_iter_] / X.std(axis=0)
    assert coef == pytest.approx(model.coef_, abs=1e-9 * np.abs(coef).max())
    exact = sp.leave_one_out_path(path).values
    # the folds of the audit are random: among draws, the estimate has a standard deviation of up to
    # half of its standard error
    alone, gaps = FASTER | {"alpha": model.alpha_}, []
    for seed in range(6):
        again = kind(**alone | {"random_state": seed}).fit(X, y)
        gaps.append(again.risk_path_[0, again.best_iter_] - exact[again.best_iter_])
    # both are of the same rows: what the standard error says of new rows is more than enough
    assert abs(np.mean(gaps)) < model.risk_stderr_[at]


@pytest.mark.parametrize(("kind", "loss", "cost"), ESTIMATORS.values(), ids=ESTIMATORS)
def test_the_estimate_is_near_the_held_out_error(diabetes, kind, loss, cost):
    X, y = (data.to_numpy() for data in diabetes)
    differences = []
    for train, test in ShuffleSplit(5, test_size=1 / 3, random_state=0).split(X):
        model = kind(**FASTER).fit(X[train], y[train])
        held_out = np.mean(cost(y[test] - model.predict(X[test])))
        differences.append(model.risk_path_[model.best_index_, model.best_iter_] - held_out)
    stderr = np.std(differences, ddof=1) / math.sqrt(len(differences))
    assert abs(np.mean(differences)) < 3 * stderr
