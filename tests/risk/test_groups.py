"""Rows that belong together are left out together, and counted as one."""

import datetime

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.model_selection import (
    KFold,
    LeaveOneOut,
    PredefinedSplit,
    TimeSeriesSplit,
)

import steinpath
from backends import everywhere, sp
from refits import (
    TEST_LOSSES,
    Validated,
    algorithm,
    dependent,
    drawn,
    group_error,
    predictions,
    refit,
)
from steinpath.risk._splits import group_folds

N, P, N_ITER = 24, 5, 8
# groups of four, three, five, seven, one and four rows, none of them together
SITES = np.random.default_rng(0).permutation(np.repeat(np.arange(6), [4, 3, 5, 7, 1, 4]))
LOSSES = pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot()], ids=repr)
INTERCEPT = pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
PENALTY = sp.Lasso(0.15)


def problem(loss=None, fit_intercept=False):
    X, y = drawn(N, P, level=3.0 if fit_intercept else 0.0)
    options = {"fit_intercept": fit_intercept}
    return X, y, sp.run(X, y, loss or sp.LAD(), PENALTY, algorithm(), N_ITER, **options)


def without_groups(X, y, loss, fit_intercept=False):
    """Predictions of each row by the refit that never saw its group."""
    found = np.full((N_ITER + 1, N), np.nan)
    for site in np.unique(SITES):
        own = site == SITES
        run = refit(X, y, loss, PENALTY, N_ITER, ~own, fit_intercept)
        found[:, own] = predictions(run, X)[:, own]
    return found


# ----- Methods -----


@everywhere
@LOSSES
@INTERCEPT
def test_leaving_one_out_leaves_out_one_group(loss, fit_intercept):
    X, y, path = problem(loss, fit_intercept)
    expected = without_groups(X, y, loss, fit_intercept)
    losses = TEST_LOSSES[loss.name](y, expected)
    risk = sp.estimate_risk(path, method="loo", groups=SITES)
    np.testing.assert_allclose(risk.corrected, expected, atol=1e-8)
    np.testing.assert_allclose(risk.values, losses.mean(axis=1), rtol=1e-8)
    error = dependent(group_error(losses, SITES), risk, 6)
    np.testing.assert_allclose(risk.stderr, error, rtol=1e-7)


@everywhere
@LOSSES
@INTERCEPT
def test_folds_leave_out_whole_groups(loss, fit_intercept):
    X, y, path = problem(loss, fit_intercept)
    risk = sp.estimate_risk(path, method="folds", groups=SITES, cv=4, rng=1)
    fold = group_folds(SITES, 4, np.random.default_rng(1)).fold
    pairs = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(4)]
    expected = Validated(X, y, loss, PENALTY, N_ITER, pairs, fit_intercept)
    np.testing.assert_allclose(risk.values, expected.values, rtol=1e-8)
    np.testing.assert_allclose(risk.corrected, expected.sums, atol=1e-8)
    error = dependent(group_error(TEST_LOSSES[loss.name](y, expected.sums), SITES), risk, 6)
    np.testing.assert_allclose(risk.stderr, error, rtol=1e-7)


def test_there_are_no_more_folds_than_groups():
    path = problem()[-1]
    six, loo = (sp.estimate_risk(path, method=m, groups=SITES, rng=0) for m in ("folds", "loo"))
    np.testing.assert_allclose(six.corrected, loo.corrected, atol=1e-9)


def test_few_groups_are_left_out_one_by_one_and_many_in_folds():
    X, y = drawn(62, P)
    path = sp.run(X, y, sp.LAD(), PENALTY, algorithm(), N_ITER)
    for count, method in ((2, "loo"), (30, "loo"), (31, "folds")):
        groups = np.arange(62) % count
        assert sp.estimate_risk(path, groups=groups, rng=0).method == method
    # which no audit by folds can check
    risk = sp.estimate_risk(path, groups=groups, audit="folds", rng=0)
    assert (risk.method, risk.audit) == ("folds", None)


@INTERCEPT
def test_copies_of_a_row_are_worth_no_more_than_it(fit_intercept):
    """Groups of three equal rows each: risk and standard error are those of single rows."""
    X, y, path = problem(fit_intercept=fit_intercept)
    rows = np.tile(np.arange(N), 3)
    penalty = sp.Lasso(0.15 * np.sqrt(3))  # the loss is a sum over the root of the number of rows
    options = {"fit_intercept": fit_intercept}
    copies = sp.run(X[rows], y[rows], sp.LAD(), penalty, algorithm(), N_ITER, **options)
    expected = sp.estimate_risk(path, method="folds", cv=LeaveOneOut())
    found = sp.estimate_risk(copies, method="folds", groups=rows, cv=N, rng=0)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-7)
    np.testing.assert_allclose(found.stderr, expected.stderr, rtol=1e-7)
    ungrouped = sp.estimate_risk(copies, method="folds", rng=0)
    # three times as many rows, that know each other: less, and too sure of it
    assert ungrouped.values[-1] < expected.values[-1]
    assert ungrouped.stderr[-1] < 0.8 * expected.stderr[-1]


def test_comparisons_take_groups_to_be_independent():
    _, y, path = problem()
    risk = sp.estimate_risk(path, method="loo", groups=SITES)
    difference, error = risk.compare(2, 7)
    losses = np.abs(y - risk.corrected)
    assert difference == pytest.approx(losses[2].mean() - losses[7].mean())
    sampling = group_error((losses[2] - losses[7])[None, :], SITES)[0]
    shared = 2 / 6 * np.maximum(risk.values - risk.train, 0)[[2, 7]] ** 2
    assert error == pytest.approx(np.sqrt(sampling**2 + abs(shared[0] - shared[1])))


def test_comparisons_by_splits_are_of_the_rows_they_test():
    _, y, path = problem()
    risk = sp.estimate_risk(path, cv=TimeSeriesSplit(3))
    difference, error = risk.compare(2, 7)
    gaps = (np.abs(y - risk.corrected[2]) - np.abs(y - risk.corrected[7]))[6:]
    assert difference == pytest.approx(gaps.mean())
    assert error == pytest.approx(gaps.std(ddof=1) / np.sqrt(18))


def test_splitters_that_do_not_know_groups_may_keep_them_together():
    """As folds that were made for them: groups then say what is independent, and no more."""
    X, y, path = problem()
    cv = PredefinedSplit(SITES % 3)
    risk = sp.estimate_risk(path, groups=SITES, cv=cv)
    expected = Validated(X, y, sp.LAD(), PENALTY, N_ITER, list(cv.split(X)))
    np.testing.assert_allclose(risk.values, expected.values, rtol=1e-8)


# ----- Audits -----


def audited(path, audit, method="exact", **options):
    options = {"precision": "float64", "rng": 0, "groups": SITES} | options
    return sp.estimate_risk(path, method=method, audit=audit, **options)


@INTERCEPT
@pytest.mark.parametrize("audit", [2, 4, 6, 32])
def test_an_audit_leaves_out_whole_groups_and_adds_all_it_finds(audit, fit_intercept):
    X, y, path = problem(fit_intercept=fit_intercept)
    risk = audited(path, audit)
    rows, m = risk.audit.rows, min(audit, 6)
    some = np.unique(SITES[rows])
    assert len(some) == m
    np.testing.assert_array_equal(rows, np.flatnonzero(np.isin(SITES, some)))
    left_out = np.abs(y - without_groups(X, y, sp.LAD(), fit_intercept))
    estimated = np.abs(y - risk.corrected)
    gaps = (left_out - estimated)[:, rows]
    np.testing.assert_allclose(risk.audit.difference, gaps.mean(axis=1), atol=1e-8)
    np.testing.assert_array_equal(risk.audit.share, np.ones(N_ITER + 1))
    np.testing.assert_allclose(risk.values, estimated.mean(axis=1) + gaps.mean(axis=1), atol=1e-8)
    # groups are drawn without replacement, and their sums are independent: a ratio of two sums
    gaps = gaps - gaps.mean(axis=1, keepdims=True)
    sums = np.stack([gaps[:, SITES[rows] == g].sum(axis=1) for g in some], axis=1)
    scaled = sums * m / len(rows)
    error = np.sqrt((1 - m / 6) / m) * scaled.std(axis=1, ddof=1)
    np.testing.assert_allclose(risk.audit.stderr, error, atol=1e-8)
    expected = dependent(np.hypot(group_error(estimated, SITES), error), risk, 6)
    np.testing.assert_allclose(risk.stderr, expected, atol=1e-8)
    if m == 6:  # all of them: there is nothing left of the estimate
        np.testing.assert_allclose(risk.values, left_out.mean(axis=1), atol=1e-8)


@pytest.mark.parametrize("method", ["exact", "compressed"])
def test_an_audit_by_folds_of_groups_leaves_nothing_of_the_estimate(method):
    """Its mean loss, less itself, plus what folds say of all rows."""
    _, y, path = problem()
    risk = audited(path, "folds", method, cv=3)
    left_out = np.full((N_ITER + 1, N), np.nan)
    left_out[:, risk.audited.rows] = risk.audited.predictions
    expected = np.abs(y - left_out).mean(axis=1) + risk.audited.optimism
    np.testing.assert_allclose(risk.values, expected, atol=1e-6)
    np.testing.assert_array_equal(risk.audit.share, np.ones(N_ITER + 1))
    estimated = np.abs(y - risk.corrected)
    gaps = np.abs(y - left_out) - estimated + np.asarray(risk.audited.optimism)[:, None]
    gaps -= gaps.mean(axis=1, keepdims=True)
    sums = np.stack([gaps[:, site == SITES].sum(axis=1) for site in range(6)], axis=1)
    error = (sums * 6 / N).std(axis=1, ddof=1) / np.sqrt(6)
    np.testing.assert_allclose(risk.audit.stderr, error, atol=1e-6)


# ----- Labels -----

NAMES = np.array(["Aachen", "Bonn", "Celle", "Düren", "Essen", "Fürth"])
DAYS = [datetime.date(2020, 1, 1 + k) for k in range(6)]
LABELS = {
    "texts": NAMES[SITES],
    "list of texts": NAMES[SITES].tolist(),
    "objects": NAMES[SITES].astype(object),
    "bytes": NAMES[SITES].astype("U1").astype("S1"),
    "series": pd.Series(NAMES[SITES], index=np.arange(N)[::-1] * 3),
    "string series": pd.Series(NAMES[SITES], dtype="string"),
    "categorical": pd.Categorical(NAMES[SITES], categories=NAMES[::-1]),
    "codes": SITES * 1000 - 7,
    "list of codes": SITES.tolist(),
    "integers of pandas": pd.Series(SITES, dtype="Int64"),
    "numbers": SITES / 7,
    "small integers": SITES.astype(np.uint8),
    "dates": [DAYS[site] for site in SITES],
    "times": np.datetime64("2020-01-01") + SITES,
    "index": pd.Index(NAMES[SITES]),
    "tensor": torch.as_tensor(SITES),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_of_any_kind(name):
    X, y, path = problem()
    labels = LABELS[name]
    expected = steinpath.estimate_risk(path, method="loo", groups=SITES)
    risk = steinpath.estimate_risk(path, method="loo", groups=labels)
    np.testing.assert_allclose(risk.values, expected.values, rtol=1e-12)
    np.testing.assert_allclose(risk.stderr, expected.stderr, rtol=1e-12)
    tuning = steinpath.tune(X, y, sp.LAD(), sp.Lasso, [0.2], N_ITER, algorithm(), groups=labels)
    assert tuning.best_risk > 0


# ----- Stopping -----


@pytest.mark.parametrize(
    "options",
    [
        {"groups": SITES},
        {"groups": NAMES[SITES], "method": "compressed", "audit": 6},
        {"groups": SITES, "cv": 3, "method": "folds", "audit": 0},
        {"cv": TimeSeriesSplit(3), "audit": 0},
    ],
    ids=["groups", "names and an audit", "folds of groups", "time"],
)
def test_runs_stop_by_risks_of_groups(options):
    X, y, _ = problem()
    stop = sp.StopOnRisk(patience=5, rng=0, **options)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.01), algorithm(), 300, stop=stop)
    expected = sp.estimate_risk(path, rng=0, **({"audit": 32} | options))
    np.testing.assert_allclose(path.risk.values, expected.values, rtol=1e-9)
    best, last = path.risk.best_iter, path.n_iter
    rise, error = path.risk.compare(last, best)
    assert (last - best >= 5 and rise > error) == (last < 300)


def test_stopping_refuses_groups_of_other_rows():
    X, y, _ = problem()
    with pytest.raises(ValueError, match="groups has 23 labels, but there are 24 rows"):
        sp.run(X, y, sp.LAD(), PENALTY, n_iter=20, stop=sp.StopOnRisk(groups=SITES[:-1]))
    with pytest.raises(ValueError, match="a single group"):
        sp.StopOnRisk(groups=np.ones(N))
    with pytest.raises(TypeError, match="cv is the class KFold"):
        sp.StopOnRisk(cv=KFold)


def test_stopping_by_splits_that_can_be_read_once():
    X, y, _ = problem()
    paths = [
        sp.run(X, y, sp.LAD(), sp.Lasso(0.01), algorithm(), 500, stop=sp.StopOnRisk(5, cv=cv))
        for cv in (KFold(4), KFold(4).split(X))
    ]
    assert paths[0].n_iter == paths[1].n_iter > 10


# ----- Clusters -----


def clusters(count, size, p, rng, correlation=0.8):
    """Rows of shuffled clusters, whose features and errors are alike."""
    centres, shared = rng.standard_normal((count, p)), rng.standard_normal(count)
    labels = rng.permutation(np.repeat(np.arange(count), size))
    rows = len(labels)
    own = np.sqrt(1 - correlation)
    X = np.sqrt(correlation) * centres[labels] + own * rng.standard_normal((rows, p))
    errors = np.sqrt(correlation) * shared[labels] + own * rng.standard_normal(rows)
    return X, X[:, :2].sum(axis=1) + errors, labels


@pytest.mark.slow
def test_the_risk_of_clusters_is_that_of_new_ones():
    """Of a late iterate: without groups it is much too small, with them it is not."""
    biases = {"rows": [], "loo": [], "folds": [], "audit": []}
    for seed in range(50):
        rng = np.random.default_rng(seed)
        X, y, labels = clusters(30, 5, 20, rng)
        path = sp.run(X, y, sp.LAD(), sp.Lasso(0.02), n_iter=60)
        new, responses, _ = clusters(400, 2, 20, rng)
        truth = np.abs(responses - new @ path.coef[-1]).mean()
        for name, options in {
            "rows": {"method": "loo"},
            "loo": {"method": "loo", "groups": labels},
            "folds": {"method": "folds", "groups": labels},
            "audit": {"method": "compressed", "audit": 16, "groups": labels},
        }.items():
            risk = sp.estimate_risk(path, rng=seed, **options)
            biases[name].append(float(risk.values[-1]) / truth - 1)
    means = {name: np.mean(each) for name, each in biases.items()}
    assert means["rows"] < -0.1
    for name in ("loo", "folds", "audit"):
        noise = np.std(biases[name], ddof=1) / np.sqrt(50)
        assert noise < 0.03
        assert abs(means[name]) < 0.03 + 2 * noise, means


def test_the_standard_error_of_clusters_is_that_of_their_risks():
    """At the start, where nothing was fitted: the spread of mean losses over data sets."""
    values, errors, naive = [], [], []
    for seed in range(150):
        X, y, labels = clusters(20, 5, 3, np.random.default_rng(seed))
        path = sp.run(X, y, sp.LAD(), sp.Lasso(1.0), n_iter=1)
        for groups, found in ((labels, errors), (None, naive)):
            risk = sp.estimate_risk(path, method="folds", groups=groups, rng=0)
            found.append(float(risk.stderr[0]))
        values.append(float(risk.values[0]))
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.15)
    assert np.mean(naive) < 0.7 * np.std(values)


@pytest.mark.slow
def test_a_choice_by_clusters_is_as_good_as_it_says():
    """Bias of the risk of the chosen model, and coverage of its intervals, on new clusters."""
    biases, shares = {True: [], False: []}, {True: [], False: []}
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X, y, labels = clusters(24, 5, 20, rng)
        new, responses, _ = clusters(2000, 3, 20, rng)
        for known in (True, False):
            groups = labels if known else None
            tuning = steinpath.tune(
                *(X, y, sp.LAD(), sp.Lasso, 10, 60), fit_intercept=True, rng=seed, groups=groups
            )
            truth = np.abs(responses - tuning.predict(new)).mean()
            biases[known].append(tuning.best_risk / truth - 1)
            lower, upper = tuning.predict_interval(new, 0.9).T
            shares[known].append(np.mean((lower <= responses) & (responses <= upper)))
    noise = np.std(biases[True]) / 10
    assert noise < 0.025
    assert abs(np.mean(biases[True])) < 0.05 + noise
    assert np.mean(biases[False]) < -0.2
    assert np.mean(shares[True]) >= 0.88
    assert np.mean(shares[False]) < 0.85
