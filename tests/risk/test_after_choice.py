"""The risk of a chosen model, the choice counted: against nested cross-validation in loops."""

import math

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, ShuffleSplit, TimeSeriesSplit

import steinpath as sp
from refits import TEST_LOSSES, Nested, algorithm, drawn, group_error
from steinpath.risk._after_choice import compare_chosen, risk_after_choice

N, P, N_ITER = 36, 6, 12
LAMS = np.array([0.4, 0.2, 0.05])
SITES = np.arange(N) * 5 % 12  # twelve groups of three rows
LOSSES = pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot()], ids=repr)
INTERCEPT = pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
RULE = pytest.mark.parametrize("rule", ["min", "one_se"])


def tuned(loss=None, fit_intercept=False, lams=LAMS, seed=0, **options):
    X, y = drawn(N, P, seed, level=3.0 if fit_intercept else 0.0)
    options = {"rng": 0} | options
    tuning = sp.tune(
        *(X, y, loss or sp.LAD(), sp.Lasso, lams, N_ITER, algorithm(), fit_intercept), **options
    )
    return X, y, tuning


def reference(X, y, tuning, splits=None):
    """The same by loops, among the penalties that look best and as many iterates as matter."""
    context, chosen = tuning.context, tuning.chosen
    train, test = (chosen.splits.train, chosen.splits.test) if splits is None else splits
    iterate, path = context.iterate, tuning.path
    ends = [risk.best_iter if iterate is None else iterate for risk in tuning.risks]
    length = min(2 * max(ends), N_ITER) + 1
    return Nested(
        *(X, y, path.loss, tuning.lams, N_ITER, train, test, tuning.rule, iterate, length),
        fit_intercept=path.fit_intercept,
    )


def of_pairs(pairs):
    train, test = np.zeros((N, len(pairs)), dtype=bool), np.zeros((N, len(pairs)))
    for k, (some, others) in enumerate(pairs):
        train[some, k], test[others, k] = True, 1
    return train, test


def assert_nested(X, y, tuning, expected, groups=None):
    """That all there is to know of a choice is what loops say."""
    chosen = tuning.chosen
    assert chosen.method == "nested"
    assert chosen.choices == tuple(expected.choices[k] for k in expected.splits)
    rows, losses = expected.left_out_losses()
    np.testing.assert_array_equal(chosen.rows, rows)
    np.testing.assert_allclose(chosen.losses, losses, rtol=1e-8)
    _, predictions = expected.mean_over_tests(expected.predictions)
    np.testing.assert_allclose(chosen.predictions, predictions, atol=1e-8)
    assert chosen.value == pytest.approx(expected.value(), rel=1e-8)
    assert tuning.best_risk == chosen.value
    units = np.arange(N) if groups is None else groups
    spread = group_error(losses[None, :], units[rows])[0]
    if expected.folds:
        spread = math.hypot(spread, math.sqrt(expected.pair_term()))
    assert chosen.stderr == pytest.approx(max(spread, tuning.naive_risk_stderr), rel=1e-6)
    assert tuning.best_risk_stderr == chosen.stderr
    for place, k in enumerate(expected.splits):
        coef, intercept = expected.model(k)
        np.testing.assert_allclose(chosen.models.coef[place], coef, atol=1e-8)
        assert chosen.models.intercept[place] == pytest.approx(intercept, abs=1e-8)
        np.testing.assert_allclose(
            chosen.models.predictions[:, place], expected.predictions(k), atol=1e-8
        )


# ------------------------------------------------------------------------------------------------
# Nested folds
# ------------------------------------------------------------------------------------------------


@LOSSES
@INTERCEPT
@RULE
@pytest.mark.parametrize("iterate", [None, 5], ids=["best", "fifth"])
def test_nested_folds_are_those_of_loops(loss, fit_intercept, rule, iterate):
    X, y, tuning = tuned(loss, fit_intercept, cv=KFold(5), rule=rule, iterate=iterate)
    expected = reference(X, y, tuning, of_pairs(list(KFold(5).split(X))))
    assert_nested(X, y, tuning, expected)
    if iterate is None and rule == "min":  # or there would be nothing to test
        assert len(set(expected.choices)) > 1


@LOSSES
@RULE
def test_nested_folds_leave_out_whole_groups(loss, rule):
    X, y, tuning = tuned(loss, groups=SITES, rule=rule, cv=5)
    splits = tuning.chosen.splits
    for site in range(12):
        assert len(np.unique(splits.fold[SITES == site])) == 1
    assert_nested(X, y, tuning, reference(X, y, tuning), SITES)


def test_group_splitters_choose_without_the_groups_they_test():
    X, y, tuning = tuned(groups=SITES, cv=GroupKFold(4))
    expected = reference(X, y, tuning, of_pairs(list(GroupKFold(4).split(X, y, SITES))))
    assert_nested(X, y, tuning, expected, SITES)


@LOSSES
@INTERCEPT
@pytest.mark.parametrize("gap", [0, 2])
def test_time_series_choose_by_earlier_splits_alone(loss, fit_intercept, gap):
    cv = TimeSeriesSplit(5, gap=gap)
    X, y, tuning = tuned(loss, fit_intercept, cv=cv)
    pairs = list(cv.split(X))
    expected = reference(X, y, tuning, of_pairs(pairs))
    assert expected.choices[0] is None
    assert_nested(X, y, tuning, expected)
    # the choice of a split does not change with what comes later
    end = pairs[3][1][-1] + 1
    others = y.copy()
    others[end:] = np.random.default_rng(1).standard_normal(N - end) * 50
    early = Nested(
        *(X, others, loss, LAMS, N_ITER, *of_pairs(pairs), "min", None, expected.length),
        fit_intercept=fit_intercept,
    )
    assert tuple(early.choices[1:4]) == tuning.chosen.choices[:3]


@pytest.mark.parametrize(
    "cv",
    [
        ShuffleSplit(5, test_size=0.3, random_state=0),
        RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    ],
    ids=["ShuffleSplit", "RepeatedKFold"],
)
def test_splits_that_overlap(cv):
    X, y, tuning = tuned(cv=cv)
    assert_nested(X, y, tuning, reference(X, y, tuning, of_pairs(list(cv.split(X)))))


def test_with_many_penalties_the_best_are_chosen_from():
    lams = np.geomspace(1.0, 0.02, 12)
    X, y, tuning = tuned(lams=lams)
    chosen = tuning.chosen
    assert (chosen.method, chosen.splits.n_splits) == ("nested", 10)
    lowest = np.array([float(risk.values.min()) for risk in tuning.risks])
    # 12 paths in five folds, and 40 columns: twice that is enough for four in 10 and 45 folds
    members = np.sort(np.argsort(lowest)[:4])
    assert tuning.best[0] in members
    length = min(2 * max(tuning.risks[k].best_iter for k in members), N_ITER) + 1
    expected = Nested(
        *(X, y, sp.LAD(), lams[members], N_ITER, chosen.splits.train, chosen.splits.test),
        *("min", None, length),
    )
    assert chosen.choices == tuple((int(members[m]), t) for m, t in expected.choices)
    assert chosen.value == pytest.approx(expected.value(), rel=1e-8)


def test_folds_are_random_and_of_all_rows_by_default():
    X, y, tuning = tuned()
    fold = tuning.chosen.splits.fold
    assert tuning.chosen.splits.complete
    assert np.ptp(np.bincount(fold)) <= 1
    assert_nested(X, y, tuning, reference(X, y, tuning))
    _, _, other = tuned(rng=1)
    assert not np.array_equal(other.chosen.splits.fold, fold)
    assert other.best_risk != tuning.best_risk


@pytest.mark.parametrize("loss", [sp.Quantile(0.3), sp.Squared()], ids=repr)
def test_other_losses_have_their_own_test_loss(loss):
    X, y, tuning = tuned(loss, True, cv=KFold(4))
    expected = reference(X, y, tuning, of_pairs(list(KFold(4).split(X))))
    assert_nested(X, y, tuning, expected)
    assert loss.name in TEST_LOSSES
