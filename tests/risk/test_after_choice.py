"""The risk of a chosen model, the choice counted: against nested cross-validation in loops."""

import functools
import math

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import steinpath as sp
from backends import everywhere
from backends import sp as on_any
from refits import TEST_LOSSES, Nested, algorithm, drawn, group_error, masks, refit
from steinpath.engine import _batch
from steinpath.risk._after_choice import bootstrap_selection, risk_after_choice
from steinpath.risk._nested import SelectionRule

N, P, N_ITER = 36, 6, 12
LAMS = np.array([0.4, 0.2, 0.05])
SITES = np.arange(N) * 5 % 12  # twelve groups of three rows
LOSSES = pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot()], ids=repr)
INTERCEPT = pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
# A longer run, or a longer grid, would be better: no matter here.
FEW_ITERATIONS = pytest.mark.filterwarnings("ignore:.*still decreasing|.*on the grid")
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
    elif chosen.splits.n_splits > 1:  # or that of blocks, if it is larger
        blocks = chosen.splits.test.argmax(axis=1)[rows]
        spread = max(spread, group_error(losses[None, :], blocks)[0])
    assert chosen.stderr == pytest.approx(max(spread, tuning.naive_risk_stderr), rel=1e-6)
    assert tuning.best_risk_stderr == chosen.stderr
    for place, k in enumerate(expected.splits):
        coef, intercept = expected.model(k)
        np.testing.assert_allclose(chosen.models.coef[place], coef, atol=1e-8)
        assert chosen.models.intercept[place] == pytest.approx(intercept, abs=1e-8)
        np.testing.assert_allclose(
            chosen.models.predictions[:, place], expected.predictions(k), atol=1e-8
        )


# ----- Nested folds -----


@LOSSES
@INTERCEPT
@RULE
@pytest.mark.parametrize("iterate", [None, 5], ids=["best", "fifth"])
def test_nested_folds_are_those_of_loops(loss, fit_intercept, rule, iterate):
    X, y, tuning = tuned(loss, fit_intercept, cv=KFold(5), rule=rule, iterate=iterate)
    expected = reference(X, y, tuning, masks(list(KFold(5).split(X)), N))
    assert_nested(X, y, tuning, expected)
    if iterate is None and rule == "min":  # or there would be nothing to test
        assert len(set(expected.choices)) > 1


@LOSSES
@RULE
def test_nested_folds_leave_out_whole_groups(loss, rule):
    X, y, tuning = tuned(loss, groups=SITES, rule=rule, cv=5)
    splits = tuning.chosen.splits
    for site in range(12):
        assert len(np.unique(splits.fold[site == SITES])) == 1
    assert_nested(X, y, tuning, reference(X, y, tuning), SITES)


@LOSSES
@INTERCEPT
@pytest.mark.parametrize("gap", [0, 2])
def test_time_series_choose_by_earlier_splits_alone(loss, fit_intercept, gap):
    cv = TimeSeriesSplit(5, gap=gap)
    X, y, tuning = tuned(loss, fit_intercept, cv=cv)
    pairs = list(cv.split(X))
    expected = reference(X, y, tuning, masks(pairs, N))
    assert expected.choices[0] is None
    assert_nested(X, y, tuning, expected)
    # the choice of a split does not change with what comes later
    end = pairs[3][1][-1] + 1
    others = y.copy()
    others[end:] = np.random.default_rng(1).standard_normal(N - end) * 50
    early = Nested(
        *(X, others, loss, LAMS, N_ITER, *masks(pairs, N), "min", None, expected.length),
        fit_intercept=fit_intercept,
    )
    known = [k for k in expected.splits if k < 4]
    assert tuple(early.choices[k] for k in known) == tuning.chosen.choices[: len(known)]


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
    assert_nested(X, y, tuning, reference(X, y, tuning, masks(list(cv.split(X)), N)))


def test_with_many_penalties_the_best_are_chosen_from():
    lams = np.geomspace(1.0, 0.02, 16)
    X, y, tuning = tuned(lams=lams)
    chosen = tuning.chosen
    assert (chosen.method, chosen.splits.n_splits) == ("nested", 10)
    lowest = np.array([float(risk.values.min()) for risk in tuning.risks])
    lowest[tuning.best[0]] = -np.inf
    order = np.argsort(lowest)
    gaps = [tuning.compare((k, tuning.risks[k].best_iter), tuning.best) for k in order]
    close = [place < 3 or gap <= 2 * stderr for place, (gap, stderr) in enumerate(gaps)]
    members = np.sort(order[close][:12])
    assert tuning.best[0] in members
    assert 3 < len(members) < 16
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


def test_a_test_loss_of_the_users_own_is_counted_with():
    def absolute(y, prediction):
        return np.abs(y - prediction)

    ours, theirs = (tuned(sp.SquareRoot(), test_loss=loss)[2] for loss in ("absolute", absolute))
    assert ours.chosen.choices == theirs.chosen.choices
    assert_same_choice(theirs, ours, drawn(5, P, seed=9)[0])


def test_single_precision_of_larger_tables_is_close():
    X, y = drawn(300, 240, level=1.0)  # of more entries than are run in double precision
    lams = np.array([0.3, 0.15])
    found = []
    for dtype in (np.float64, np.float32):
        tuning = sp.tune(
            *(X.astype(dtype), y.astype(dtype), sp.LAD(), sp.Lasso, lams, 15, algorithm(), True),
            cv=KFold(4),
            rng=0,
        )
        found.append(tuning.chosen)
    train, test = masks(list(KFold(4).split(X)), 300)
    length = min(2 * max(risk.best_iter for risk in tuning.risks), 15) + 1
    expected = Nested(
        *(X, y, sp.LAD(), lams, 15, train, test, "min", None, length), fit_intercept=True
    )
    for chosen in found:
        assert chosen.method == "nested"
        assert chosen.choices == tuple(expected.choices)
        assert chosen.value == pytest.approx(expected.value(), rel=1e-5)


# ----- What it does not depend on -----


def assert_same_choice(found, expected, new, rtol=1e-9):
    """That two tunings have the same risk, and predict the same."""
    assert found.best == expected.best
    assert found.best_risk == pytest.approx(expected.best_risk, rel=rtol)
    assert found.best_risk_stderr == pytest.approx(expected.best_risk_stderr, rel=rtol)
    np.testing.assert_allclose(found.predict(new), expected.predict(new), atol=1e-8)
    intervals = [tuning.predict_interval(new, 0.8) for tuning in (found, expected)]
    np.testing.assert_allclose(*intervals, atol=1e-8)


@pytest.mark.parametrize("groups", [None, SITES], ids=["rows", "groups"])
def test_the_order_of_rows_does_not_matter(groups):
    X, y = drawn(N, P, level=3.0)
    order = np.random.default_rng(1).permutation(N)
    results = [
        sp.tune(
            *(X[rows], y[rows], sp.LAD(), sp.Lasso, LAMS, N_ITER, algorithm(), True),
            method="folds",
            groups=None if groups is None else groups[rows],
            rng=0,
        )
        for rows in (np.arange(N), order)
    ]
    assert_same_choice(*results, drawn(5, P, seed=9)[0])
    first, second = (tuning.chosen for tuning in results)
    assert sorted(second.choices) == sorted(first.choices)
    np.testing.assert_allclose(second.predictions, first.predictions[order], atol=1e-8)


def test_threads_do_not_matter(monkeypatch):
    X, _, tuning = tuned()
    monkeypatch.setattr(_batch, "_WIDE", 1e-9)
    monkeypatch.setattr(_batch, "threads_allowed", lambda: 3)
    assert tuning.context.batch.threads(15) == 3
    _, _, again = tuned()
    assert again.chosen.choices == tuning.chosen.choices
    assert_same_choice(again, tuning, X, rtol=1e-12)


@INTERCEPT
@pytest.mark.parametrize("room", [12, 60], ids=["for one", "for two"])
def test_runs_that_are_not_kept_give_the_same(monkeypatch, room, fit_intercept):
    _, _, kept = tuned(fit_intercept=fit_intercept)
    monkeypatch.setattr(_batch, "KEPT", room * (N + P + 1) * 8)
    X, _, deferred = tuned(fit_intercept=fit_intercept)
    assert isinstance(deferred.context.batch, _batch.DeferredBatch)
    assert deferred.chosen.method == kept.chosen.method == "nested"
    assert deferred.chosen.choices == kept.chosen.choices
    assert_same_choice(deferred, kept, X)


@everywhere
@pytest.mark.parametrize(
    "options", [{}, {"groups": SITES}, {"cv": TimeSeriesSplit(4)}], ids=["plain", "groups", "time"]
)
def test_the_library_of_the_arrays_does_not_matter(options):
    X, y, expected = tuned(fit_intercept=True, method="folds", **options)
    found = on_any.tune(
        *(X, y, sp.LAD(), sp.Lasso, LAMS, N_ITER, algorithm(), True),
        method="folds",
        rng=0,
        **options,
    )
    assert_same_choice(found, expected, X, rtol=1e-8)


# ----- Without nested folds -----


@LOSSES
@pytest.mark.parametrize(
    "options", [{}, {"groups": SITES}, {"cv": TimeSeriesSplit(4)}], ids=["rows", "groups", "time"]
)
def test_without_a_choice_there_is_nothing_to_count(loss, options):
    X, y, tuning = tuned(loss, lams=[0.2], iterate=5, **options)
    chosen = tuning.chosen
    assert chosen.method == "fixed"
    assert tuning.best_risk == tuning.naive_risk == float(tuning.risk[0, 5])
    assert tuning.best_risk_stderr == tuning.naive_risk_stderr == float(tuning.stderr[0, 5])
    assert set(chosen.choices) == {(0, 5)}
    for k, train in enumerate(chosen.splits.train.T):
        run = refit(X, y, loss, sp.Lasso(0.2), N_ITER, train)
        np.testing.assert_allclose(chosen.models.coef[k], run.coef[5], atol=1e-9)
    rows = np.flatnonzero(chosen.splits.tests)
    np.testing.assert_array_equal(chosen.rows, rows)
    expected = chosen.models.predictions[rows, chosen.splits.test[rows].argmax(axis=1)]
    np.testing.assert_allclose(chosen.predictions, expected)
    np.testing.assert_allclose(chosen.losses, TEST_LOSSES[loss.name](y[rows], expected))


@pytest.mark.parametrize("groups", [None, SITES], ids=["rows", "groups"])
@RULE
@pytest.mark.parametrize("iterate", [None, 5], ids=["best", "fifth"])
def test_the_bootstrap_of_a_choice_is_that_of_a_loop(groups, rule, iterate):
    _, y, tuning = tuned(groups=groups, rule=rule, iterate=iterate, method="folds", cv=5)
    choosing = SelectionRule(LAMS, rule, iterate)
    found = bootstrap_selection(tuning.risks, choosing, N_ITER + 1, np.random.default_rng(3))
    # losses of rows that each have the mean that the risk has
    losses = np.stack([np.abs(y - risk.corrected) for risk in tuning.risks])
    losses += (np.stack([risk.values for risk in tuning.risks]) - losses.mean(axis=2))[..., None]
    units = np.arange(N) if groups is None else groups
    rows = [np.flatnonzero(units == unit) for unit in np.unique(units)]
    rng, tested = np.random.default_rng(3), []
    parts = [
        np.concatenate([rows[u] for u in part])
        for part in np.array_split(rng.permutation(len(rows)), 10)
    ]
    for _ in range(200):
        counts = np.bincount(
            rng.integers(len(rows), size=len(rows), dtype=np.int32), minlength=len(rows)
        )
        drawn_rows = np.concatenate([np.tile(rows[u], counts[u]) for u in range(len(rows))])
        others = np.concatenate([rows[u] for u in np.flatnonzero(counts == 0)])
        risks = losses[:, :, drawn_rows].mean(axis=2)
        at = [int(risk.argmin()) if iterate is None else iterate for risk in risks]
        lowest = np.array([risks[k, at[k]] for k in range(3)])
        best = int(lowest.argmin())
        if rule == "one_se":
            for k in range(3):  # the largest penalty is the first
                gaps = losses[k, at[k]] - losses[best, at[best]]
                noise = np.std([gaps[part].mean() for part in parts], ddof=1) / np.sqrt(10)
                if lowest[k] - lowest[best] <= noise:
                    best = k
                    break
        tested.append(losses[best, at[best], others])
    assert found == pytest.approx(np.concatenate(tested).mean(), rel=1e-9)


def test_where_nested_folds_may_not_be_run_the_choice_is_drawn_again():
    X, y, tuning = tuned(cv=KFold(5))
    context = tuning.context
    chosen = risk_after_choice(
        *(context.batch, tuning.risks, tuning.best, SelectionRule(LAMS, "min", None)),
        *(context.options, context.seed),
        nested=False,
    )
    assert chosen.method == "bootstrap"
    assert chosen.value > tuning.naive_risk
    assert chosen.stderr == tuning.naive_risk_stderr
    assert set(chosen.choices) == {tuning.best}
    lam, t = LAMS[tuning.best[0]], tuning.best_iter
    for train, test in KFold(5).split(X):
        kept = np.isin(np.arange(N), train)
        run = refit(X, y, sp.LAD(), sp.Lasso(lam), N_ITER, kept)
        np.testing.assert_allclose(chosen.predictions[test], X[test] @ run.coef[t], atol=1e-9)


@pytest.mark.parametrize(
    "cv", [LeaveOneOut(), [(np.arange(20), np.arange(20, N))]], ids=["many", "one"]
)
def test_too_many_splits_or_too_few_for_nested_ones(cv):
    _, _, tuning = tuned(cv=cv)
    assert tuning.chosen.method == "bootstrap"
    assert np.isfinite(tuning.best_risk)
    assert len(tuning.chosen.rows) == (16 if isinstance(cv, list) else N)


@pytest.mark.parametrize("groups", [None, np.arange(N) // 12], ids=["a row", "a group"])
def test_a_single_row_or_group_to_test_on(groups):
    tested = [N - 1] if groups is None else np.arange(24, N)
    _, _, tuning = tuned(cv=[(np.arange(24), tested)], groups=groups)
    assert np.isfinite(tuning.best_risk)
    assert np.isinf(tuning.best_risk_stderr)


# ----- Comparisons -----


@pytest.mark.parametrize("groups", [None, SITES], ids=["rows", "groups"])
def test_comparisons_of_two_choices(groups):
    _, _, first = tuned(groups=groups)
    _, _, second = tuned(sp.SquareRoot(), test_loss="absolute", groups=groups)
    np.testing.assert_array_equal(first.chosen.splits.train, second.chosen.splits.train)
    difference, error = first.chosen.compare(second.chosen)
    assert difference == pytest.approx(first.best_risk - second.best_risk, abs=1e-12)
    assert second.chosen.compare(first.chosen) == (-difference, error)
    assert first.chosen.compare(first.chosen) == (0.0, 0.0)
    gaps = (first.chosen.losses - second.chosen.losses)[None, :]
    spread = group_error(gaps, np.arange(N) if groups is None else groups)[0]
    changes = (
        first.chosen.held_out.interactions.changes[0]
        - second.chosen.held_out.interactions.changes[0]
    )
    products = changes.prod(axis=1)
    term = max(0.0, products.mean() + products.std(ddof=1) / np.sqrt(len(products)))
    assert error == pytest.approx(math.hypot(spread, math.sqrt(term)), rel=1e-9)


def test_choices_on_other_rows_are_not_compared():
    (_, _, first), (_, _, second) = tuned(), tuned(cv=TimeSeriesSplit(4))
    with pytest.raises(ValueError, match="tested on different rows"):
        first.chosen.compare(second.chosen)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"cv": KFold(4)}, {"cv": KFold(6), "loss": sp.SquareRoot()}),
        ({"rng": 0}, {"rng": 1, "loss": sp.SquareRoot()}),
        ({}, {"lams": [0.2], "iterate": 5}),
    ],
    ids=["fewer", "at random", "a fixed model"],
)
def test_choices_by_other_folds_are_compared(one, other):
    """What the pairs of folds say of the two is then independent; a fixed model has no pairs."""
    first, second = (tuned(**options)[2].chosen for options in (one, other))
    nested = [chosen for chosen in (first, second) if chosen.method == "nested"]
    assert len(nested) == 2 - ("lams" in other)
    difference, error = first.compare(second)
    assert difference == first.value - second.value
    own = (float(chosen.held_out.interactions.stderr()[0]) for chosen in nested)
    spread = group_error((first.losses - second.losses)[None, :], np.arange(N))[0]
    assert error == pytest.approx(math.hypot(spread, *own))


# ----- Models, predictions and intervals -----


PENALTIES = {
    "mcp": functools.partial(sp.MCP, gamma=2.5),
    "scad": sp.SCAD,
    "group_lasso": functools.partial(sp.GroupLasso, groups=[0, 0, 1, 1, 2, 2]),
    "weighted lasso": functools.partial(sp.Lasso, weights=[1.0, 2.0, 1.0, 1.0, 0.5, 0.0]),
    "ridge": sp.Ridge,
    "elastic_net": functools.partial(sp.ElasticNet, l1_ratio=0.5),
}


# The same step sizes on fewer rows may be a little beyond the limit: no matter here.
@pytest.mark.filterwarnings("ignore:.*may diverge")
@pytest.mark.parametrize(
    ("loss", "penalty", "steps"),
    [
        *(pytest.param(sp.LAD(), penalty, algorithm(), id=k) for k, penalty in PENALTIES.items()),
        *(
            pytest.param(sp.Huber(0.8), sp.Lasso, steps, id=type(steps).__name__)
            for steps in (
                sp.FISTA(),
                sp.ProximalGradient(),
                sp.LinearizedADMM(),
                sp.HalpernPDHG(warmup=2),
            )
        ),
    ],
)
def test_whatever_the_penalty_and_the_algorithm(loss, penalty, steps):
    X, y = drawn(N, P, level=3.0)
    tuning = sp.tune(X, y, loss, penalty, LAMS, N_ITER, steps, True, cv=KFold(4), rng=0)
    chosen = tuning.chosen
    assert chosen.method == "nested"
    for k, (train, _) in enumerate(KFold(4).split(X)):
        m, t = chosen.choices[k]
        same = tuning.risks[m].path.algorithm.on_fewer_rows(len(train) / N)
        run = sp.run(
            *(X[train], y[train], loss, penalty(LAMS[m]), same, N_ITER), fit_intercept=True
        )
        np.testing.assert_allclose(chosen.models.coef[k], run.coef[t], atol=1e-9)
        assert chosen.models.intercept[k] == pytest.approx(run.intercept[t], abs=1e-9)


@INTERCEPT
def test_predictions_are_those_of_the_coefficients(fit_intercept):
    X, _, tuning = tuned(fit_intercept=fit_intercept)
    new = drawn(7, P, seed=5)[0]
    expected = new @ tuning.coef + tuning.intercept
    for stored in (new, scipy.sparse.csr_array(new), pd.DataFrame(new)):
        np.testing.assert_allclose(tuning.predict(stored), expected, atol=1e-12)
    np.testing.assert_allclose(tuning.predict(X), tuning.path.fitted[tuning.best_iter], atol=1e-9)
    with pytest.raises(ValueError, match=r"columns|features"):
        tuning.predict(new[:, :-1])


def plus_minus(centres, sizes, level):
    """Ends of CV+ intervals: order statistics over rows of centres -+ sizes."""
    n = len(sizes)
    rank = math.floor((1 - level) * (n + 1) + 1e-9)
    lower = np.sort(centres - sizes, axis=1)[:, rank - 1]
    upper = np.sort(centres + sizes, axis=1)[:, n - rank]
    return np.stack([lower, upper], axis=1)


@INTERCEPT
@pytest.mark.parametrize(
    "options", [{"cv": KFold(5)}, {"groups": SITES, "cv": 4}], ids=["rows", "groups"]
)
@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_intervals_are_of_models_that_left_rows_out_with_their_choice(
    options, fit_intercept, level
):
    X, y, tuning = tuned(fit_intercept=fit_intercept, method="folds", audit=0, **options)
    expected, chosen = reference(X, y, tuning), tuning.chosen
    new = drawn(7, P, seed=5)[0]
    fold = chosen.splits.fold
    models = [expected.model(k) for k in range(chosen.splits.n_splits)]
    centres = np.stack([new @ coef + intercept for coef, intercept in models], axis=1)[:, fold]
    sizes = np.abs(y - np.array([expected.predictions(fold[i])[i] for i in range(N)]))
    np.testing.assert_allclose(
        tuning.predict_interval(new, level), plus_minus(centres, sizes, level), atol=1e-8
    )


@INTERCEPT
def test_intervals_by_leave_one_out_are_those_of_the_jackknife_plus(fit_intercept):
    X, y, tuning = tuned(fit_intercept=fit_intercept, method="loo")
    assert tuning.risks[tuning.best[0]].method == "loo"
    chosen = tuning.chosen
    new = drawn(7, P, seed=5)[0]
    centres, sizes = np.zeros((7, N)), np.zeros(N)
    for i in range(N):
        k, t = chosen.choices[chosen.splits.fold[i]]
        kept = np.arange(N) != i
        run = refit(X, y, sp.LAD(), sp.Lasso(LAMS[k]), N_ITER, kept, fit_intercept)
        centres[:, i] = new @ run.coef[t] + run.intercept[t]
        sizes[i] = abs(y[i] - X[i] @ run.coef[t] - run.intercept[t])
    np.testing.assert_allclose(
        tuning.predict_interval(new, 0.8), plus_minus(centres, sizes, 0.8), atol=1e-8
    )


def test_intervals_of_time_series_are_about_the_last_model():
    cv = TimeSeriesSplit(5, gap=1)
    X, y, tuning = tuned(cv=cv)
    expected = reference(X, y, tuning, masks(list(cv.split(X)), N))
    new = drawn(7, P, seed=5)[0]
    rows, left_out = expected.mean_over_tests(expected.predictions)
    sizes = np.abs(y[rows] - left_out)
    centres = np.repeat(tuning.predict(new)[:, None], len(rows), axis=1)
    np.testing.assert_allclose(
        tuning.predict_interval(new, 0.8), plus_minus(centres, sizes, 0.8), atol=1e-8
    )


def test_intervals_of_a_quantile_are_not_symmetric():
    _, y, tuning = tuned(sp.Quantile(0.9), True, cv=KFold(5), method="folds", audit=0)
    new = drawn(7, P, seed=5)[0]
    chosen = tuning.chosen
    fold, models = chosen.splits.fold, chosen.models
    centres = (new @ models.coef.T + models.intercept)[:, fold]
    residuals = y - chosen.predictions
    rank = math.floor(0.1 * (N + 1))
    values = np.sort(centres + residuals, axis=1)
    expected = np.stack([values[:, rank - 1], values[:, N - rank]], axis=1)
    np.testing.assert_allclose(tuning.predict_interval(new, 0.8), expected, atol=1e-8)


# ----- Estimators -----


def estimator(**options):
    known = {"alpha": LAMS / np.sqrt(N), "n_iter": N_ITER, "algorithm": algorithm()}
    return sp.LADLasso(random_state=0, **(known | options))


@FEW_ITERATIONS
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize(
    ("groups", "cv"),
    [(None, None), (SITES, None), (SITES, 4), (None, TimeSeriesSplit(4))],
    ids=["plain", "groups", "groups and number", "time"],
)
def test_estimators_have_what_the_tuning_has(standardize, groups, cv):
    X, y = drawn(N, P, level=3.0)
    X = X * np.geomspace(0.5, 2, P)
    model = estimator(standardize=standardize, cv=cv).fit(X, y, groups=groups)
    scale = X.std(axis=0) if standardize else np.ones(P)
    seed = np.random.RandomState(0).randint(np.iinfo(np.int32).max)
    tuning = sp.tune(
        *(X / scale, y, sp.LAD(), sp.Lasso, LAMS, N_ITER, algorithm(), True),
        groups=groups,
        cv=cv,
        rng=seed,
    )
    for name in ("best_risk", "best_risk_stderr", "naive_risk"):
        assert getattr(model, f"{name}_") == pytest.approx(getattr(tuning, name), rel=1e-6)
    np.testing.assert_allclose(model.predict(X), tuning.predict(X / scale), atol=1e-6)
    np.testing.assert_allclose(
        model.predict_interval(X, 0.8), tuning.predict_interval(X / scale, 0.8), atol=1e-6
    )


WEIGHTS = np.random.default_rng(4).integers(0, 3, N)


@FEW_ITERATIONS
@pytest.mark.filterwarnings("ignore:sample_weight is treated as frequencies")
@pytest.mark.parametrize("cv", [None, 4, "pairs"])
def test_counts_repeat_rows_with_their_groups_and_splits(cv):
    X, y = drawn(N, P, level=3.0)
    repeated = np.repeat(np.arange(N), WEIGHTS)
    given = again = cv
    if cv == "pairs":
        given = list(GroupKFold(4).split(X, y, SITES))
        again = [tuple(np.flatnonzero(np.isin(repeated, rows)) for rows in pair) for pair in given]
    counted = estimator(cv=given).fit(X, y, sample_weight=WEIGHTS, groups=SITES)
    expected = estimator(cv=again).fit(X[repeated], y[repeated], groups=SITES[repeated])
    for name in ("best_risk_", "best_risk_stderr_", "naive_risk_"):
        assert getattr(counted, name) == pytest.approx(getattr(expected, name), rel=1e-9)
    np.testing.assert_allclose(counted.coef_, expected.coef_, atol=1e-9)
    np.testing.assert_allclose(counted.predict_interval(X), expected.predict_interval(X), atol=1e-9)


@FEW_ITERATIONS
@pytest.mark.filterwarnings("ignore:with 27 observations")
def test_splits_of_rows_that_do_not_count_are_not_there():
    X, y = drawn(N, P, level=3.0)
    weights = np.ones(N)
    weights[:9] = 0.0  # the first fold of four
    found = estimator(cv=KFold(4)).fit(X, y, sample_weight=weights)
    expected = estimator(cv=KFold(3)).fit(X[9:], y[9:])
    assert found.best_risk_ == pytest.approx(expected.best_risk_, rel=1e-9)
    np.testing.assert_allclose(found.predict_interval(X), expected.predict_interval(X), atol=1e-9)
    with pytest.raises(ValueError, match="both training and test rows with positive weight"):
        estimator(cv=[(np.arange(9, N), np.arange(9))]).fit(X, y, sample_weight=weights)
    with pytest.raises(ValueError, match="a single group"):
        estimator().fit(X, y, sample_weight=weights, groups=np.arange(N) < 9)


@FEW_ITERATIONS
def test_groups_are_routed():
    X, y = drawn(N, P, level=3.0)
    plain = estimator().fit(X, y, groups=SITES)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make_pipeline(FunctionTransformer(), estimator().set_fit_request(groups=True)).fit(
            X, y, groups=SITES
        )
    assert routed[-1].best_risk_ == plain.best_risk_
    assert plain.best_risk_ != estimator().fit(X, y).best_risk_


# ----- Many data sets -----


def beside_the_truth(seed, n=60, p=30):
    """The risk of a choice of LAD and lasso, beside the error of the chosen model on new rows.

    Bias, bias if the choice is not counted, whether the truth is within two standard errors, and
    the share of new responses that are in their intervals.
    """
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(0.5 ** np.abs(np.subtract.outer(np.arange(p), np.arange(p))))

    def sample(m):
        X = rng.standard_normal((m, p)) @ root.T
        return X, X[:, :5].sum(axis=1) + rng.laplace(size=m)

    tuning = sp.tune(*sample(n), sp.LAD(), sp.Lasso, 15, 100, fit_intercept=True, rng=seed)
    X, y = sample(20_000)
    truth = np.abs(y - tuning.predict(X)).mean()
    lower, upper = tuning.predict_interval(X, 0.9).T
    return (
        tuning.best_risk / truth - 1,
        tuning.naive_risk / truth - 1,
        abs(tuning.best_risk - truth) <= 2 * tuning.best_risk_stderr,
        np.mean((lower <= y) & (y <= upper)),
    )


@pytest.mark.slow
def test_the_risk_of_a_choice_is_that_on_new_rows():
    found = [beside_the_truth(seed) for seed in range(200)]
    bias, naive_bias, covered, share = np.array(found).T
    noise = bias.std() / np.sqrt(200)
    assert noise < 0.015
    assert abs(bias.mean()) < 0.03 + 2 * noise
    assert naive_bias.mean() < -0.05
    assert covered.mean() >= 0.92
    assert 0.88 <= share.mean() <= 0.95


def test_how_rows_are_stored_does_not_matter():
    X, y = drawn(N, P, level=3.0)
    first, *others = [
        sp.tune(stored, y, sp.LAD(), sp.Lasso, LAMS, N_ITER, algorithm(), True, rng=0)
        for stored in (X, scipy.sparse.csr_array(X), pd.DataFrame(X))
    ]
    for tuning in others:
        assert tuning.chosen.choices == first.chosen.choices
        assert_same_choice(tuning, first, X)


def test_without_a_risk_there_are_no_intervals():
    X, y = drawn(N, P, level=3.0)
    model = estimator(alpha=0.1, method=None, select=5).fit(X, y)
    assert not hasattr(model, "best_risk_")
    with pytest.raises(ValueError, match="not available: no risk was estimated"):
        model.predict_interval(X)
    with pytest.raises(ValueError, match="cv has no effect with method=None"):
        estimator(alpha=0.1, method=None, select=5, cv=3).fit(X, y)
