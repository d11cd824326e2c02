"""Classifiers: what they minimise, labels of any kind, several classes, left-out error rates."""

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.signal import lfilter
from scipy.special import expit, log_expit, softmax
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import steinpath as sp

NAMES = (
    *("PathClassifier", "LogisticLasso", "LogisticRidge", "LogisticElasticNet"),
    *("HingeLasso", "HingeRidge"),
)
QUICK = {"n_alphas": 4, "n_iter": 30, "random_state": 0}


def draw(n=200, p=8, seed=0, intercept=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + np.linspace(-1, 1, p)
    y = rng.random(n) < expit(X @ np.linspace(1.5, -0.5, p) + intercept)
    return X, np.where(y, "yes", "no")


def three(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((180, 6))
    y = np.array(["c", "a", "b"])[
        np.digitize(X[:, 0] + 0.7 * rng.standard_normal(180), [-0.4, 0.6])
    ]
    return X, y


def failures(estimator):
    found = check_estimator(estimator, on_skip=None, on_fail=None)
    return [each["check_name"] for each in found if each["status"] not in ("passed", "skipped")]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("settings", [{}, {"n_iter": 60}], ids=["defaults", "60-iterations"])
@pytest.mark.parametrize("name", NAMES)
def test_check_estimator_with_default_settings(name, settings):
    assert failures(getattr(sp, name)(**settings)) == []


@pytest.mark.parametrize("name", NAMES)
def test_labels_of_any_kind_give_the_same_fit(name):
    X, y = draw()
    kind = getattr(sp, name)
    model = kind(**QUICK).fit(X, y)
    assert_array_equal(model.classes_, ["no", "yes"])
    assert model.coef_.shape == (1, 8)
    assert model.intercept_.shape == (1,)
    decision = model.decision_function(X)
    assert_array_equal(model.predict(X), np.where(decision > 0, "yes", "no"))
    assert model.score(X, y) == np.mean(model.predict(X) == y)
    positive = y == "yes"
    others = (positive, positive.astype(int), np.where(positive, 1.0, -1.0), list(y))
    others = (*others, pd.Series(y, dtype="category"), positive.astype(object))
    for labels in others if name == "HingeLasso" else others[:1]:
        again = kind(**QUICK).fit(X, labels)
        assert_array_equal(again.coef_, model.coef_)


@pytest.mark.parametrize("penalty", ["l1", "l2"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {"no": 3.0, "yes": 0.5}])
def test_converged_fits_are_those_of_scikit_learn(penalty, class_weight):
    X, y = draw()
    alpha, n = 0.02, len(y)
    name = {"l1": "lasso", "l2": "ridge"}[penalty]
    model = sp.PathClassifier(
        "logistic", name, alpha=alpha, select="last", method=None, standardize=False, tol=1e-8,
        n_iter=3000, class_weight=class_weight,
    ).fit(X, y)  # fmt: skip
    other = LogisticRegression(
        C=1 / (n * alpha), l1_ratio=float(penalty == "l1"), solver="saga", tol=1e-10,
        max_iter=100_000, class_weight=class_weight,
    ).fit(X, y)  # fmt: skip
    assert_allclose(model.coef_, other.coef_, atol=2e-5)
    assert_allclose(model.intercept_, other.intercept_, atol=2e-5)
    assert_allclose(model.predict_proba(X), other.predict_proba(X), atol=2e-5)


def test_several_classes_are_fitted_one_against_the_rest():
    X, y = three()
    model = sp.LogisticRidge(**QUICK).fit(X, y)
    assert_array_equal(model.classes_, ["a", "b", "c"])
    assert model.coef_.shape == (3, 6)
    # folds that are given are the same
    cv = [(np.flatnonzero(np.arange(len(y)) % 4 != k), np.arange(k, len(y), 4)) for k in range(4)]
    split = sp.LogisticRidge(cv=cv, **QUICK).fit(X, y)
    for k, label in enumerate(model.classes_):
        alone = sp.LogisticRidge(cv=cv, **QUICK).fit(X, y == label)
        assert_allclose(alone.coef_[0], split.coef_[k], rtol=1e-9)
        assert_allclose(alone.best_risk_, split.best_risk_[k])
    # otherwise they are stratified by all classes
    folds = [one.tuning_.chosen.splits.fold for one in model.estimators_]
    for fold in folds:
        assert_array_equal(fold, folds[0])
        counts = [np.bincount(fold[y == label]) for label in model.classes_]
        assert max(np.ptp(count) for count in counts) <= 1
    decision = model.decision_function(X)
    assert_array_equal(model.predict(X), model.classes_[decision.argmax(axis=1)])
    a, b = model.coupling_
    assert_allclose(model.predict_proba(X), softmax(a * decision + b * log_expit(decision), axis=1))
    assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    left_out = model.classes_[model.left_out_decision_.argmax(axis=1)]
    assert_allclose(model.error_rate_, np.mean(left_out != y))
    assert model.error_rate_stderr_ >= np.std(left_out != y, ddof=1) / np.sqrt(len(y)) * (1 - 1e-9)


def test_the_weight_of_the_rest_is_the_mean_of_its_rows():
    X, y = three()
    weights = {"a": 4.0, "b": 0.5}
    model = sp.LogisticRidge(class_weight=weights, **QUICK).fit(X, y)
    rest = np.mean([weights.get(label, 1.0) for label in y if label != "a"])
    alone = sp.LogisticRidge(class_weight={False: rest, True: 4.0}, **QUICK).fit(X, y == "a")
    assert_allclose(alone.coef_[0], model.coef_[0], rtol=0.2)
    assert model.estimators_[0].loss_.class_weight == alone.loss_.class_weight


@pytest.mark.parametrize("test_loss", ["absolute", sp.Quantile(0.3)], ids=str)
def test_scoring_losses_for_regression_are_refused(test_loss):
    with pytest.raises(ValueError, match="test_loss"):
        sp.HingeLasso(test_loss=test_loss).fit(*draw())


def test_probabilities_are_of_the_logistic_loss_alone():
    X, y = draw()
    model = sp.HingeRidge(**QUICK).fit(X, y)
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "predict_log_proba")
    with pytest.raises(AttributeError) as caught:
        model.predict_proba(X)
    assert "predicts probabilities only with the logistic loss" in str(caught.value.__cause__)
    assert sp.PathClassifier("logistic").predict_proba is not None


def test_log_probabilities_far_from_the_boundary_are_finite():
    X, y = draw()
    model = sp.LogisticRidge(**QUICK).fit(X, y)
    assert np.isfinite(model.predict_log_proba(5000 * X)).all()


def test_the_error_rate_is_that_of_rows_that_were_left_out():
    X, y = draw(600, 20)
    new_X, new_y = draw(20_000, 20, seed=1)
    model = sp.LogisticLasso(random_state=0).fit(X, y)
    wrong = (model.left_out_decision_ > 0) != (y == "yes")
    assert_allclose(model.error_rate_, wrong.mean())
    assert abs(1 - model.score(new_X, new_y) - model.error_rate_) < 3 * model.error_rate_stderr_
    assert not hasattr(model, "intervals_")
    assert not hasattr(model, "predict_interval")


@pytest.mark.filterwarnings("ignore:sample_weight is treated as frequencies")
def test_counts_are_copies_in_the_error_rate_too():
    X, y = draw(60, 3)
    counts = np.where(y == "yes", 1, 4)
    counts[:3] = 0
    model = sp.LogisticLasso(**QUICK).fit(X, y, sample_weight=counts)
    assert np.isnan(model.left_out_decision_[:3]).all()
    wrong = (model.left_out_decision_ > 0) != (y == "yes")
    # copies of a row are left out in different folds, so that a few of them are decided otherwise
    assert abs(model.error_rate_ - np.average(wrong, weights=counts)) < 0.03
    assert abs(model.error_rate_ - np.average(wrong, weights=counts > 0)) > 0.03


def test_scikit_learns_tools_take_them():
    X, y = draw()
    pipeline = make_pipeline(StandardScaler(), sp.HingeLasso(**QUICK))
    assert cross_val_score(pipeline, X, y, cv=3).min() > 0.5
    search = GridSearchCV(sp.LogisticElasticNet(**QUICK), {"l1_ratio": [0.2, 0.8]}, cv=2)
    assert search.fit(X, y).best_score_ > 0.5
    calibrated = CalibratedClassifierCV(sp.HingeRidge(**QUICK), cv=3).fit(X, y)
    assert calibrated.predict_proba(X).shape == (200, 2)
    model = sp.LogisticLasso(**QUICK).fit(X, y)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert_array_equal(clone(model).fit(X, y).coef_, model.coef_)


@pytest.mark.parametrize(
    ("change", "y", "message"),
    [
        ({}, ["a"] * 200, "needs at least two classes, but all labels in y are of one class: 'a'"),
        ({}, [np.nan, *[0.0, 1.0] * 99, 1.0], "y has no label for row 0"),
        ({}, [None, *["a", "b"] * 99, "a"], "y has no label for row 0"),
        ({}, ["rare", *["common"] * 199], "but class 'rare' has 1"),
        ({}, ["rare", *["a", "b"] * 99, "a"], "but class 'rare' has 1"),
        ({}, np.linspace(0, 1, 200), "Unknown label type"),
        ({"loss": "lad"}, None, "loss must be one of 'hinge', 'squared_hinge', 'logistic'"),
        ({"loss": sp.LAD()}, None, "use sp.PathRegressor"),
        ({"loss": sp.Logistic({1: 2.0})}, None, "pass class_weight to PathClassifier"),
        ({"test_loss": "huber"}, None, "test_loss must be one of 'zero_one', 'log', 'hinge'"),
        ({"test_loss": "nonsense"}, None, "test_loss must be one of 'zero_one', 'log', 'hinge'"),
        ({"class_weight": "heavy"}, None, "class_weight must be None, 'balanced' or a dict"),
        ({"class_weight": {"maybe": 2.0}}, None, "class_weight has an unknown class 'maybe'"),
        ({"class_weight": {"yes": -1.0}}, None, "finite number in"),
    ],
)
def test_what_cannot_be_fitted_is_refused(change, y, message):
    X, labels = draw()
    with pytest.raises(ValueError, match=re.escape(message)):
        sp.PathClassifier(**QUICK | change).fit(X, labels if y is None else y)


def test_regressors_refuse_losses_of_labels():
    X, _ = draw()
    for loss, message in (("hinge", "loss must be one of"), (sp.Hinge(), "use sp.PathClassifier")):
        with pytest.raises(ValueError, match=message):
            sp.PathRegressor(loss=loss).fit(X, X[:, 0])


def test_classes_that_can_be_told_apart_end_soon_and_without_warnings():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = sp.LogisticLasso(random_state=0).fit(X, X[:, 0] > 0)
    assert model.n_iter_ <= 400
    assert model.error_rate_ < 0.1


def test_what_is_said_of_all_classes_is_said_once():
    rng = np.random.default_rng(0)
    X = lfilter([0.4], [1.0, -0.9], rng.standard_normal((150, 20)), axis=0)
    y = np.digitize(X[:, 0] + rng.standard_normal(150), [-0.4, 0.4])
    with pytest.warns(UserWarning, match="consecutive rows") as caught:
        model = sp.LogisticLasso(**QUICK).fit(X, y)
    for said in ([str(each.message) for each in caught], model.warnings_):
        assert [text.startswith("consecutive") for text in said if "consecutive" in text] == [True]


@pytest.mark.parametrize("class_weight", [{"a": 5.0, "c": 0.2}, "balanced"], ids=["dict", "text"])
def test_integer_sample_weights_are_repeated_rows_also_with_class_weights(class_weight):
    X, y = three()
    counts = np.random.default_rng(1).integers(0, 5, len(y)) + 3 * (y == "a")
    again = np.repeat(np.arange(len(y)), counts)
    how = {"class_weight": class_weight, "alpha": 0.005, "select": "last", "method": None}
    weighted = sp.LogisticLasso(**how).fit(X, y, sample_weight=counts)
    repeated = sp.LogisticLasso(**how).fit(X[again], y[again])
    assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6, atol=1e-9)
