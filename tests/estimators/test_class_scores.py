"""Scores of out-of-fold decisions, compared with scikit-learn, statsmodels and definitions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import accuracy_score, balanced_accuracy_score, roc_auc_score
from statsmodels.stats.proportion import proportion_confint

import steinpath as sp
from steinpath.estimators._scores import Decisions, proportion
from steinpath.problem._margins import log_class_probabilities


def decisions(several, seed=0, m=120):
    rng = np.random.default_rng(seed)
    actual = rng.integers(3 if several else 2, size=m)
    centres = np.eye(3)[actual] if several else 2.0 * actual[:, None] - 1
    values = centres + rng.standard_normal(centres.shape)
    return Decisions(values.round(1), actual)


@pytest.mark.parametrize("wrong", [0, 1, 17, 59, 60])
def test_intervals_of_a_proportion_are_those_of_wilson(wrong):
    rate = wrong / 60
    found = proportion(rate, np.sqrt(rate * (1 - rate) / 60), 60)
    assert_allclose(found[1:], proportion_confint(wrong, 60, method="wilson"), atol=1e-12)
    assert found.stderr >= np.sqrt(rate * (1 - rate) / 60)
    assert found.stderr > 0.01


def test_intervals_of_a_proportion_cover_it():
    rng = np.random.default_rng(0)
    for rate in (0.01, 0.05, 0.3):
        counts = rng.binomial(60, rate, 2000)
        own = [proportion(k / 60, np.sqrt(k / 60 * (1 - k / 60) / 60), 60) for k in counts]
        assert np.mean([one.lower <= rate <= one.upper for one in own]) > 0.93


def test_a_single_unit_has_an_interval_and_no_standard_error():
    found = proportion(0.5, np.inf, 1)
    assert found.stderr == np.inf
    assert_allclose(found[1:], proportion_confint(0.5, 1, method="wilson"))


def test_dependent_rows_widen_an_interval():
    narrow, wide = (proportion(0.1, 0.03, 100, dependence) for dependence in (1.0, 2.0))
    assert_allclose(0.1 - wide.lower, 2 * (0.1 - narrow.lower))
    assert wide.stderr == 2 * narrow.stderr


@pytest.mark.parametrize("several", [False, True])
def test_the_mean_loss_is_the_score_of_scikit_learn(several):
    of = decisions(several)
    shares = of.values if several else of.values[:, 0]
    # with several classes, the mean of the areas of each class against the rest
    labels = np.eye(3)[of.actual] if several else of.actual
    assert_allclose(1 - of.losses("auc").mean(), roc_auc_score(labels, shares, average="macro"))
    balanced = balanced_accuracy_score(of.actual, of.predicted)
    assert_allclose(1 - of.losses("balanced_error").mean(), balanced)


@pytest.mark.parametrize("name", ["auc", "balanced_error"])
def test_the_variance_of_the_losses_is_that_of_the_score(name):
    drawn = [decisions(False, seed, 200).losses(name) for seed in range(400)]
    errors = [losses.std(ddof=1) / np.sqrt(200) for losses in drawn]
    spread = np.std([losses.mean() for losses in drawn])
    assert_allclose(np.mean(errors), spread, rtol=0.1)  # 3.5% is one standard error


def test_the_coupling_maximises_its_posterior():
    of = decisions(True)

    def objective(x):
        logs = log_class_probabilities(of.values, x)[np.arange(120), of.actual]
        return -logs.mean() + 4 / 240 * ((x[0] + x[1] - 1) ** 2 + x[1] ** 2)

    found = minimize(objective, [0.5, 0.5], method="Nelder-Mead", bounds=[(0, None)] * 2)
    assert_allclose(of.coupling(), found.x, atol=1e-3)


def test_coupled_probabilities_agree_with_the_decisions():
    z = np.random.default_rng(0).standard_normal((50, 4)) * 5
    for coupling in ((1.0, 0.0), (0.0, 1.0), (0.4, 0.7)):
        logs = log_class_probabilities(z, coupling)
        assert_allclose(np.exp(logs).sum(axis=1), 1)
        assert np.array_equal(logs.argmax(axis=1), z.argmax(axis=1))
    odds = np.exp(z)
    assert_allclose(np.exp(log_class_probabilities(z, (1, 0))), odds / odds.sum(1, keepdims=True))
    own = odds / (1 + odds)
    assert_allclose(np.exp(log_class_probabilities(z, (0, 1))), own / own.sum(1, keepdims=True))


@pytest.mark.filterwarnings("ignore:class")
def test_probabilities_of_several_classes_are_better_than_one_vs_rest():
    X, y = (part[:600] for part in load_digits(n_class=5, return_X_y=True))
    model = sp.LogisticLasso(n_alphas=8, random_state=0).fit(X[::2], y[::2])
    rows = np.arange(len(y[1::2])), y[1::2]
    coupled = -model.predict_log_proba(X[1::2])[rows].mean()
    separate = -log_class_probabilities(model.decision_function(X[1::2]))[rows].mean()
    assert coupled < 0.8 * separate
    value, stderr, constant = model.scores_["log"]
    assert abs(value - coupled) < 3 * stderr
    assert constant == pytest.approx(np.log(5), abs=0.01)


def test_no_error_among_few_rows_is_no_proof_of_none():
    X, y = load_iris(return_X_y=True)
    model = sp.LogisticLasso(n_alphas=5, random_state=0).fit(X[:100], y[:100])
    assert model.error_rate_ == 0
    low, high = model.error_rate_interval_
    assert low == 0
    assert_allclose(high, proportion_confint(0, 100, method="wilson")[1])
    assert model.error_rate_stderr_ > 0.005
    assert min(score.stderr for score in model.scores_.values()) > 0


@pytest.mark.parametrize("classes", [2, 4])
def test_weighted_scores_are_those_of_scikit_learn(classes):
    rng = np.random.default_rng(0)
    actual = np.arange(300) % classes
    values = rng.standard_normal((300, classes if classes > 2 else 1)).round(1)
    values[np.arange(300), actual % values.shape[1]] += 1.0 if classes > 2 else 2.0 * actual - 1
    weights = rng.choice([0.4, 2.2], 300)
    found = Decisions(values, actual, weights)

    def mean(name):
        return np.average(found.losses(name), weights=weights)

    how = {"sample_weight": weights}
    wrong = 1 - accuracy_score(actual, found.predicted, **how)
    assert mean("zero_one") == pytest.approx(wrong)
    balanced = 1 - balanced_accuracy_score(actual, found.predicted, **how)
    assert mean("balanced_error") == pytest.approx(balanced)
    areas = [
        roc_auc_score(actual == k, values[:, k if classes > 2 else 0], **how)
        for k in (range(classes) if classes > 2 else [1])
    ]
    assert 1 - mean("auc") == pytest.approx(np.mean(areas))
    shares = np.bincount(actual, weights) / weights.sum()
    assert found.constant("zero_one") == pytest.approx(1 - shares.max())
    # rows of weight zero do not count
    kept = weights > 1
    some, none = Decisions(values[kept], actual[kept]), Decisions(values, actual, kept * 1.0)
    for name in ("zero_one", "balanced_error", "auc", "log"):
        expected = some.losses(name).mean()
        tol = 0.02 if name == "log" and classes > 2 else 1e-9  # fitted without random tenths
        assert np.average(none.losses(name), weights=kept) == pytest.approx(expected, abs=tol)
    if classes > 2:
        np.testing.assert_allclose(none.coupling(), some.coupling(), atol=1e-4)
