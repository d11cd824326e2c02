"""Fitted models as they are reported, and several of them compared."""

import math
import warnings

import numpy as np
import pytest
from sklearn.model_selection import TimeSeriesSplit
from sklearn.pipeline import make_pipeline

import steinpath as sp
from steinpath._support.printing import number, to_digits_of, with_error
from steinpath.app.cli.fit import _remarks, _test_loss
from steinpath.app.fitted import Fitted, contender, fit_intervals, rank
from steinpath.app.report.build import Result, build_content
from steinpath.plots import held_out
from steinpath.problem._grid import robust_spread
from steinpath.problem._scoring import CRITERIA
from steinpath.risk._after_choice import on_the_same_rows

# of short runs
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

CLASSES = np.repeat(["low", "mid", "high"], 50)


def rows(n=150, p=6, seed=0):
    return sp.simulate.paper_model(p, noise="t2").sample(n, rng=seed)


def regressor(**parameters):
    return sp.PathRegressor(**{"n_iter": 50, "n_alphas": 5, "random_state": 0} | parameters)


def fit(X=None, y=None, groups=None, **parameters):
    X, y = rows() if X is None else (X, y)
    return Fitted(regressor(**parameters).fit(X, y, groups=groups))


def classify(y=CLASSES, seed=0, **parameters):
    codes = np.unique(y, return_inverse=True)[1]
    X = np.random.default_rng(seed).standard_normal((len(y), 4)) + codes[:, None] * [1, 0, 0, 0]
    settings = {"n_iter": 20, "n_alphas": 3, "random_state": 0} | parameters
    return Fitted(sp.PathClassifier(**settings).fit(X, y))


def of_table(columns, y, **parameters):
    return Fitted(make_pipeline(sp.TableEncoder(), regressor(**parameters)).fit(columns, y))


def test_many_rows_leave_room_for_fewer_values_of_alpha():
    columns = {n: np.arange(float(n)).reshape(-1, 1) % 7 for n in (100, 100_000)}
    small, large = (
        fit(X, X[:, 0] + np.arange(n) % 5, n_iter=2, n_alphas="auto", audit=0)
        for n, X in columns.items()
    )
    assert (len(small.main.alphas_), _remarks(small, [])) == (20, [])
    assert len(large.main.alphas_) == 9
    assert _remarks(large, [])[0] == (
        "because of the number of rows, the grid has 9 values of alpha instead of 20; use "
        "--n-alphas 20 for all"
    )
    X = columns[100]
    assert len(fit(X, X[:, 0] + np.arange(100) % 5, n_iter=2, n_alphas=3).main.alphas_) == 3


def test_a_model_without_coefficients_is_noted():
    X, y = rows()
    found = fit(X, y, alpha=1e6)
    assert found.nonzeros == 0
    assert _remarks(found, [])[-1].startswith("all coefficients are zero")


def test_the_fit_says_how_long_it_ran_and_why():
    given = fit(n_iter=60)
    assert given.main.stop_ == "n_iter"
    assert given.ended("--n-iter") == "Iterations ended at 60: as set by --n-iter."
    auto = fit(n_iter="auto")
    said = "more are not expected to lower the estimated risk"
    assert auto.ended("--n-iter") == f"Iterations ended at {auto.main.n_iter_}: {said}."
    for each in (given, auto):
        assert each.estimator is each.main
        assert each.is_whole


def test_scoring_losses_have_their_parameters_in_units_of_the_target():
    y, options = rows()[1], {"delta": 2.0, "eps": 0.0, "q": 0.9}
    widths = {"pseudo_huber": 2.0 * robust_spread(y), "epsilon_insensitive": 0.0, "quantile": 0.9}
    for name, parameter in widths.items():
        assert _test_loss(name, "lad", y, options) == CRITERIA[name](parameter)
    assert _test_loss("absolute", "lad", y, options) == "absolute"


def test_the_spread_is_that_of_a_gaussian():
    y = np.random.default_rng(0).normal(3.0, 2.0, 100_000)
    assert robust_spread(y) == pytest.approx(2.0, rel=0.02)
    assert robust_spread(np.array([0.0] * 9 + [1.0])) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("value", "stderr", "said"),
    [
        (44.0321, 1.613, "44.0 ± 1.6"),
        (0.0123456, 0.00031, "0.01235 ± 0.00031"),
        (123456.7, 2345.6, "123,500 ± 2,300"),
        (1.5, 0.0, "1.5 ± 0"),
        (1.5, math.inf, "1.5"),
        (3e-12, 2e-13, "3e-12 ± 2e-13"),
    ],
)
def test_numbers_have_the_digits_of_their_error(value, stderr, said):
    assert with_error(value, stderr) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.00251, "0.00251"),
        (55.4, "55.4"),
        (1644.4, "1,644"),
        (16440.0, "16,440"),
        (-17600.2, "-17,600"),
        (9999999.0, "9,999,999"),
        (2.5e7, "2.5e+07"),
        (3.4e-11, "3.4e-11"),
        (0.0, "0"),
        (math.nan, "nan"),
    ],
)
def test_numbers_of_ordinary_size_have_separators_and_no_exponent(value, said):
    assert number(value) == said
    with_own_digits = to_digits_of(value, math.nan)
    assert with_own_digits == said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "± is one standard error, adjusted for the selection of alpha and iteration"),
        (
            {"penalty": "none"},
            "± is one standard error, adjusted for the selection of the iteration",
        ),
        ({"alpha": 0.1, "select": "last"}, "± is one standard error"),
    ],
)
def test_only_what_was_selected_is_said_to_be_counted(changes, said):
    assert fit(**changes).meaning_of_error == said


def test_the_constant_is_the_best_on_the_rows_that_were_held_out():
    X, y = rows()
    y = y + 5 * (np.arange(150) < 25)  # which are never held out
    found = fit(X, y, cv=TimeSeriesSplit(5), n_iter=30, n_alphas=3)
    chosen = found.tuning.chosen
    assert chosen.rows.min() >= 25

    np.testing.assert_allclose(held_out(found.tuning)[0], y[chosen.rows])
    never = np.setdiff1d(np.arange(150), chosen.rows)
    assert np.isnan(found.main.left_out_prediction_[never]).all()
    constant = found.main.constant_risk_
    assert constant == pytest.approx(
        np.abs(y[chosen.rows] - np.median(y[chosen.rows])).mean(), rel=1e-6
    )
    assert found.improvement == pytest.approx(100 * (1 - found.estimate[0] / constant))


def test_a_loss_of_the_user_has_no_constant():
    found = fit(test_loss=lambda y, predicted: np.abs(y - predicted))
    assert not hasattr(found.main, "constant_risk_")
    assert math.isnan(found.improvement)
    assert found.scored_by.startswith("scoring loss ")


@pytest.mark.parametrize("name", ["zero_one", "log", "balanced_error", "auc"])
def test_several_classes_are_compared_by_their_scores(name):
    found = classify()
    assert found.labels == found.classes == ["high", "low", "mid"]
    assert found.main is found.models[found.classes.index(found.main_label)]
    chosen, score = found.scored(name), found.estimator.scores_[name]
    assert chosen.value == (1 - score.value if name == "auc" else score.value)
    assert chosen.stderr == score.stderr
    assert chosen.losses.mean() == pytest.approx(chosen.value)
    score = found.estimator.scores_["log"]
    assert found.estimate == (score.value, score.stderr)


@pytest.mark.parametrize("k", [2, 3])
def test_a_score_that_is_not_kept_is_that_of_a_fit_that_keeps_it(k):
    names = np.unique(CLASSES)[:k]
    found, kept = (
        classify(CLASSES[np.isin(CLASSES, names)], test_loss=n) for n in ("log", "brier")
    )
    assert "brier" not in found.estimator.scores_
    chosen, score = found.scored("brier"), kept.estimator.scores_["brier"]
    assert chosen.value == chosen.losses.mean() == pytest.approx(score.value, rel=0.1)
    assert chosen.stderr == pytest.approx(score.stderr, rel=0.5)


@pytest.mark.parametrize("labels", [CLASSES, np.repeat([1, 2, 10], 50)], ids=["texts", "numbers"])
def test_warnings_about_classes_are_not_worded_in_two_ways(labels):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = classify(labels, n_iter=2)
    said = found.estimator.warnings_
    assert any("still decreasing" in text for text in said)
    assert {*said} <= {str(each.message) for each in caught}


def test_labels_are_texts_of_any_kind():
    for labels, texts in (
        (np.repeat([1.0, 2.0, 10.0], 50), ["1", "2", "10"]),
        (np.repeat([False, True], 75), ["false", "true"]),
        (CLASSES.astype(object), ["high", "low", "mid"]),
    ):
        assert classify(labels, n_iter=2).classes == texts


def test_the_best_is_first_and_differences_are_known_better_than_risks():
    pairs = [("squared", "lasso"), ("lad", "lasso"), ("lad", "ridge")]
    fits = [fit(loss=loss, penalty=penalty, test_loss="absolute") for loss, penalty in pairs]
    ranking = rank([contender(each, None) for each in fits])
    assert [row.risk for row in ranking] == sorted(each.estimate[0] for each in fits)
    assert (ranking[0].behind, ranking[0].behind_stderr) == (0.0, 0.0)
    best = min(fits, key=lambda each: each.estimate[0])
    assert ranking[0].alpha == best.main.alpha_
    assert ranking[0].iterate == best.main.best_iter_
    assert f"{ranking[0].loss} + {ranking[0].penalty}" == best.words
    for row in ranking[1:]:
        assert row.behind == pytest.approx(row.risk - ranking[0].risk)
        assert 0 < row.behind_stderr < math.hypot(row.stderr, ranking[0].stderr)


def test_time_series_are_compared_on_the_rows_that_all_held_out():
    """Splits whose choice is not made again hold out the first block, too."""
    how = {"cv": TimeSeriesSplit(5, gap=2), "n_iter": 30, "n_alphas": 3, "test_loss": "absolute"}
    first, second = (fit(loss=loss, **how).tuning.chosen for loss in ("lad", "squared"))
    some = np.arange(20, len(first.rows))
    parts = first.rows, first.predictions, first.losses
    fewer = first.with_losses(*(part[some] for part in parts))
    one, other = on_the_same_rows([fewer, second])
    np.testing.assert_array_equal(one.rows, other.rows)
    np.testing.assert_array_equal(other.losses, second.losses[some])
    assert one.compare(other)[1] > 0
    same = on_the_same_rows([first, second])
    assert same[0] is first
    assert same[1] is second


def table(n=80):
    rng = np.random.default_rng(0)
    columns = {
        "x": rng.standard_normal(n),
        "town": rng.permutation(np.array(list("AAABBC"))[np.arange(n) % 6]),
        "garden": rng.permutation(np.array(["no", "yes", "no"])[np.arange(n) % 3]),
        "kind": rng.permutation(np.array(list("uuuvvw"))[np.arange(n) % 6]),
    }
    y = columns["x"] + 3.0 * (columns["town"] == "B") + 0.1 * rng.standard_normal(n)
    return columns, y


def test_coefficients_are_differences_from_the_most_frequent_level():
    found = of_table(*table())
    main = found.main
    main.coef_ = np.array([2.0, 5.0, 7.0, 0.0, 3.0, -1.0, 4.0, 1.0])
    main.scale_, main.intercept_ = np.arange(1.0, 9.0), 10.0
    reported = found.coefficients()
    assert reported.names == ["x", "town=B", "town=C", "garden=yes", "kind=v", "kind=w"]
    assert reported.coef.tolist() == [2.0, 2.0, -5.0, 3.0, 5.0, 2.0]
    assert reported.effects.tolist() == [2.0, 6.0, -20.0, 15.0, 35.0, 16.0]
    assert reported.intercept == 14.0
    assert found.caption == (
        "coefficients of a category are differences from its most frequent level ('town=A', "
        "'kind=u')"
    )
    assert main.coef_[1] == 5.0  # of the model, unchanged


@pytest.mark.parametrize("penalty", ["lasso", "none"])
def test_reported_coefficients_predict_as_the_model_does(penalty):
    columns, y = table()
    found = of_table(columns, y, penalty=penalty, n_iter=60, n_alphas=3)
    reported, X = found.coefficients(), found.encoder.transform(columns)
    assert [found.feature_names[j] for j in found.references] == ["town=A", "kind=u"]
    kept = np.delete(np.arange(X.shape[1]), found.references)
    np.testing.assert_allclose(
        X[:, kept] @ reported.coef + reported.intercept, found.model.predict(columns), atol=1e-10
    )
    content = build_content(Result(found))
    pairs = zip(reported.names, reported.coef, strict=True)
    wanted = {name: value for name, value in pairs if value}
    assert {name: value for name, value, _ in content.coefficients} == wanted
    assert content.intercept == reported.intercept


def test_intervals_leave_out_the_reference_levels():
    found = of_table(*table())
    intervals = fit_intervals(found)
    assert [row.name for row in intervals.rows] == found.coefficients().names
    assert all(row.identified for row in intervals.rows)
    assert intervals.notes == (found.caption,)
    town = next(row for row in intervals.rows if row.name == "town=B")
    assert town.lower < 3.0 < town.upper
    assert town.significant
