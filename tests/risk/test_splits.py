"""Which rows are left out together: folds of groups, and splits of the user's own."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    LeavePGroupsOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)

from backends import everywhere, sp
from refits import Validated, algorithm, are_folds, dependent, drawn, group_error, masks
from steinpath.risk._splits import group_folds, read_splits

N, P, N_ITER = 24, 5, 8
PENALTY = sp.Lasso(0.15)
SITES = np.arange(N) * 7 % 6  # six groups of four rows, none of them together
TESTED = np.where(np.arange(N) < 8, -1, np.arange(N) % 3)  # the first eight never
SPLITTERS = {
    "KFold": KFold(4),
    "shuffled KFold": KFold(5, shuffle=True, random_state=0),
    "LeaveOneOut": LeaveOneOut(),
    "GroupKFold": GroupKFold(3),
    "LeaveOneGroupOut": LeaveOneGroupOut(),
    "LeavePGroupsOut": LeavePGroupsOut(2),
    "GroupShuffleSplit": GroupShuffleSplit(4, test_size=2, random_state=0),
    "TimeSeriesSplit": TimeSeriesSplit(4),
    "TimeSeriesSplit with a gap": TimeSeriesSplit(3, gap=2, max_train_size=9),
    "PredefinedSplit": PredefinedSplit(TESTED),
    "PredefinedSplit of all": PredefinedSplit(np.arange(N) % 4),
    "ShuffleSplit": ShuffleSplit(5, test_size=7, random_state=0),
    "RepeatedKFold": RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    "pairs": [
        (np.arange(6, 20), [4, 5]),
        (np.arange(15), np.array([23, 23, 16])),
        (range(8, 23), (0,)),
    ],
}
FOLDS = {"KFold", "shuffled KFold", "LeaveOneOut", "GroupKFold", "LeaveOneGroupOut"}
FOLDS.add("PredefinedSplit of all")


def problem(fit_intercept=False, loss=None):
    X, y = drawn(N, P, level=3.0 if fit_intercept else 0.0)
    loss = loss or sp.LAD()
    path = sp.run(X, y, loss, PENALTY, algorithm(), N_ITER, fit_intercept=fit_intercept)
    return X, y, loss, PENALTY, path


def pairs_of(name, X, y):
    groups, cv = SITES if "Group" in name else None, SPLITTERS[name]
    return cv if isinstance(cv, list) else list(cv.split(X, y, groups)), groups


# ----- Folds of whole groups -----


@pytest.mark.parametrize("n_folds", [2, 3, 7, 10])
@pytest.mark.parametrize("seed", range(3))
def test_group_folds_keep_groups_whole_and_are_balanced(n_folds, seed):
    rng = np.random.default_rng(seed)
    groups = np.unique(rng.integers(0, 12, 100), return_inverse=True)[1]
    splits = group_folds(groups, n_folds, rng)
    assert splits.complete
    assert splits.n_splits == n_folds
    for label in range(12):
        assert len(np.unique(splits.fold[groups == label])) == 1
    sizes = np.bincount(splits.fold, minlength=n_folds)
    assert sizes.min() > 0
    assert np.ptp(sizes) <= np.bincount(groups).max()


def test_group_folds_are_random():
    groups = np.repeat(np.arange(12), 2)
    folds = [group_folds(groups, 4, np.random.default_rng(seed)).fold for seed in (0, 0, 1)]
    np.testing.assert_array_equal(folds[0], folds[1])
    assert not np.array_equal(folds[0], folds[2])


@pytest.mark.parametrize("cv", [None, 3])
def test_group_folds_do_not_depend_on_the_order_of_rows(cv):
    X, y, _, _, path = problem()
    groups = np.array(list("abcdefghijkl"))[np.arange(N) // 2]
    order = np.random.default_rng(0).permutation(N)
    again = sp.run(X[order], y[order], sp.LAD(), sp.Lasso(0.15), algorithm(), N_ITER)
    first = sp.estimate_risk(path, method="folds", groups=groups, cv=cv, rng=0)
    second = sp.estimate_risk(again, method="folds", groups=groups[order], cv=cv, rng=0)
    np.testing.assert_allclose(second.values, first.values, rtol=1e-9)
    np.testing.assert_allclose(second.corrected, first.corrected[:, order], atol=1e-9)
    np.testing.assert_allclose(second.stderr, first.stderr, rtol=1e-9)


# ----- Splits of the user's own -----


@everywhere(every=11)
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot()], ids=repr)
@pytest.mark.parametrize("name", SPLITTERS)
def test_risks_by_a_splitter_are_those_of_refits(name, loss, fit_intercept):
    """Rows, or groups of them, are independent; a row that is tested more often weighs more."""
    X, y, _, penalty, path = problem(fit_intercept, loss)
    pairs, groups = pairs_of(name, X, y)
    expected = Validated(X, y, loss, penalty, N_ITER, pairs, fit_intercept)
    assert are_folds(*masks(pairs, N)) == (name in FOLDS)
    units = expected.rows if groups is None else groups[expected.rows]
    error = group_error(expected.tested, units)
    risk = sp.estimate_risk(path, groups=groups, cv=SPLITTERS[name])
    assert risk.method == "folds"
    np.testing.assert_allclose(risk.values, expected.values, rtol=1e-8)
    n_units = N if groups is None else len(np.unique(groups))
    np.testing.assert_allclose(risk.stderr, dependent(error, risk, n_units), rtol=1e-8)
    np.testing.assert_allclose(risk.train, expected.train, rtol=1e-8)
    tested = expected.counts > 0
    means = (expected.sums / np.maximum(expected.counts, 1))[:, tested]
    np.testing.assert_allclose(risk.corrected[:, tested], means, atol=1e-8)
    for burman in (False, True):
        found = sp.cross_validate_path(path, SPLITTERS[name], groups=groups, burman=burman)
        values = expected.tested.mean(axis=1) + burman * expected.correction
        np.testing.assert_allclose(found.values, values, rtol=1e-8)
        np.testing.assert_allclose(found.stderr, error, rtol=1e-8)
        assert (found.n_splits, found.best_iter) == (len(pairs), np.argmin(values))


def test_splits_are_drawn_once_for_an_estimate():
    """A splitter without a seed splits anew each time; all iterates have the same splits."""
    X, y, *_ = problem()
    calls = []

    class Counted(KFold):
        def split(self, X, y=None, groups=None):
            calls.append(len(X))
            return super().split(X, y, groups)

    tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, lams=3, n_iter=8, cv=Counted(4), rng=0)
    assert tuning.best_risk > 0
    assert calls == [N]


def test_splitters_see_the_groups():
    _, _, _, _, path = problem()
    seen = []

    class Sees(KFold):
        def split(self, X, y, groups):
            seen.append(groups)
            return super().split(X, y)

    labels = np.arange(N) // 6  # those of the four folds
    risk = sp.estimate_risk(path, cv=Sees(4), groups=labels)
    np.testing.assert_array_equal(seen[0], labels)
    expected = sp.estimate_risk(path, cv=KFold(4))
    np.testing.assert_allclose(risk.values, expected.values, rtol=1e-12)


def test_an_audit_by_splits_compares_what_they_test():
    """Mean over the tested rows of the loss when left out, less the estimated loss."""
    X, y, loss, penalty, path = problem()
    for name in ("TimeSeriesSplit", "PredefinedSplit", "KFold"):
        pairs, _ = pairs_of(name, X, y)
        expected = Validated(X, y, loss, penalty, N_ITER, pairs)
        risk = sp.estimate_risk(
            path, method="exact", audit="folds", cv=SPLITTERS[name], precision="float64"
        )
        tested = np.flatnonzero(expected.counts)
        np.testing.assert_array_equal(risk.audit.rows, tested)
        estimated = np.abs(y - risk.corrected)[:, tested].mean(axis=1)
        np.testing.assert_allclose(risk.audit.difference, expected.values - estimated, atol=1e-9)
        error = risk.audit.differences.std(axis=1, ddof=1) / np.sqrt(len(tested))
        np.testing.assert_allclose(risk.audit.stderr, error, rtol=1e-8, atol=1e-14)


def test_an_audit_by_splits_that_test_rows_again_is_refused():
    path = problem()[-1]
    with pytest.raises(ValueError, match="cv has splits that test rows repeatedly"):
        sp.estimate_risk(path, method="exact", audit="folds", cv=SPLITTERS["RepeatedKFold"])


@pytest.mark.parametrize("name", ["KFold", "TimeSeriesSplit", "RepeatedKFold"])
def test_centering_subtracts_the_loss_of_the_prediction_zero(name):
    X, y, _, _, path = problem()
    cv = SPLITTERS[name]
    plain, centered = (sp.estimate_risk(path, cv=cv, centered=flag) for flag in (False, True))
    rows = np.concatenate([test for _, test in cv.split(X)])
    np.testing.assert_allclose(centered.values, plain.values - np.abs(y[rows]).mean(), atol=1e-10)


# ----- What is refused -----

OBJECTS = np.array(["a", 1] * (N // 2), dtype=object)
BAD_GROUPS = {
    "another length": (SITES[:-1], ValueError, "groups has 23 labels, but there are 24 rows"),
    "one group": (np.zeros(N), ValueError, "a single group, and leaving it out leaves no rows"),
    "NaN": (np.where(np.arange(N) == 5, np.nan, SITES), ValueError, "no label for row 5"),
    "None": ([*["a", "b"] * 11, "a", None], ValueError, "no label for row 23"),
    "NA": (pd.Series([*["a", "b"] * 11, pd.NA, "a"]), ValueError, "no label for row 22"),
    "missing integers": (pd.array([1, 2, None] * 8, "Int64"), ValueError, "no label for row 2"),
    "missing times": (pd.to_datetime(["2020-01-01", None] * 12), ValueError, "no label for row 1"),
    "NaN among texts": ([*["a", "b"] * 11, np.nan, "a"], ValueError, "no label for row 22"),
    "several kinds": (OBJECTS, TypeError, "labels of one type, such as numbers or strings"),
    "two columns": (np.zeros((N, 2)), ValueError, r"one label for each row, .* shape \(24, 2\)"),
    "a text": ("site", ValueError, "one label for each row"),
}


@pytest.mark.parametrize("name", BAD_GROUPS)
def test_groups_that_are_refused(name):
    X, y, _, _, path = problem()
    groups, error, message = BAD_GROUPS[name]
    with pytest.raises(error, match=message):
        sp.estimate_risk(path, groups=groups)
    with pytest.raises(error, match=message):
        sp.tune(X, y, sp.LAD(), sp.Lasso, lams=2, n_iter=4, groups=groups)
    with pytest.raises(error, match=message):
        sp.LADLasso(n_alphas=2, n_iter=4).fit(X, y, groups=groups)


BAD_CV = {
    "more folds than rows": (25, {}, ValueError, "cv=25 folds, but there are only 24 rows"),
    "more folds than groups": (
        7,
        {"groups": SITES},
        ValueError,
        "cv=7 folds, but there are only 6 groups",
    ),
    "separates groups": (
        [(np.arange(12), np.arange(12, 24))],
        {"groups": SITES},
        ValueError,
        "split 0 of cv trains and tests on rows of the same group",
    ),
    "with loo": (KFold(3), {"method": "loo"}, ValueError, "'loo' does not use cv: use method="),
    "compressed": (
        KFold(3),
        {"method": "compressed"},
        ValueError,
        "'compressed' assumes independent rows .* ignore cv; use method='folds', or check",
    ),
    "audited rows": (
        *(KFold(3), {"method": "compressed", "audit": 8}),
        *(ValueError, "leaves out single rows, not the test rows of cv"),
    ),
    "folds by folds": (
        *(KFold(3), {"method": "folds", "audit": "folds"}),
        *(ValueError, "audit='folds' cannot check method='folds'"),
    ),
    "folds of groups without groups": (GroupKFold(3), {}, ValueError, "groups"),
    "classes of a number": (StratifiedKFold(3), {}, ValueError, "continuous"),
}


@pytest.mark.parametrize("name", BAD_CV)
def test_splits_that_are_refused(name):
    cv, options, error, message = BAD_CV[name]
    with pytest.raises(error, match=message):
        sp.estimate_risk(problem()[-1], cv=cv, **options)


@pytest.mark.parametrize("method", ["compressed", "exact", "hutchinson"])
def test_methods_that_leave_nothing_out_need_an_audit_for_groups(method):
    path = problem()[-1]
    risk = sp.estimate_risk(path, method=method, audit=8, groups=SITES, rng=0)
    assert risk.method == method
    with pytest.raises(ValueError, match=f"'{method}' .* would ignore groups"):
        sp.estimate_risk(path, method=method, groups=SITES)


def test_splits_of_other_rows_are_refused():
    _, y, _, _, path = problem()
    splits = read_splits(KFold(3), y[:20])
    with pytest.raises(ValueError, match="cv splits 20 rows, but there are 24"):
        sp.estimate_risk(path, cv=splits)
