"""Sample weights: the risk on new rows, of which some count more than others."""

import numpy as np
import pytest
from scipy import sparse

import steinpath as sp
from problems import LOSS_EXAMPLES, SOME_LOSSES, draw, responses
from steinpath.risk._held_out import RowSample

N, P = 60, 8
COUNTS = np.random.default_rng(0).integers(1, 4, N)
#: Measurements of two precisions.
PRECISIONS = np.where(np.random.default_rng(1).random(N) < 0.5, 2.0, 0.4)
EVERY = np.repeat(np.arange(N), COUNTS)
FOLD = np.arange(N) % 5
INTERCEPT = pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
LOSSES = pytest.mark.parametrize("loss", SOME_LOSSES.values(), ids=SOME_LOSSES)


def problem(loss=None, n=N, p=P, seed=0):
    X, y, _ = draw(n, p, seed)
    loss = sp.LAD() if loss is None else loss
    return X + np.linspace(-1, 1, p), responses(loss, y + 1.0)


def splits(fold):
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]


# ----- Counts are copies that are left out together -----


@LOSSES
@INTERCEPT
def test_folds_are_those_of_groups_of_copies(loss, intercept):
    X, y = problem(loss)
    how = {"n_iter": 20, "fit_intercept": intercept}
    lam = 0.2 * np.sqrt(COUNTS.mean())
    weighted = sp.run(X, y, loss, sp.Lasso(0.2), **how, sample_weight=COUNTS)
    copied = sp.run(X[EVERY], y[EVERY], loss, sp.Lasso(lam), **how)
    found = sp.estimate_risk(weighted, method="folds", cv=splits(FOLD))
    wanted = sp.estimate_risk(copied, method="folds", cv=splits(FOLD[EVERY]), groups=EVERY)
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-9)
    np.testing.assert_allclose(found.train, wanted.train, rtol=1e-9)
    np.testing.assert_allclose(found.corrected[:, EVERY], wanted.corrected, atol=1e-9)
    # standard errors of ratios, apart from what rows share
    errors = found.estimate.stderr, wanted.estimate.stderr
    np.testing.assert_allclose(*errors, rtol=1e-9, atol=1e-15)
    for t in (3, 12):
        assert found.compare(t, 20)[0] == pytest.approx(wanted.compare(t, 20)[0], rel=1e-8)


@INTERCEPT
def test_leaving_one_row_out_leaves_out_its_copies(intercept):
    """Nearly: the scale of the loss is that of all rows, as for rows without weights."""
    X, y = problem()
    how = {"n_iter": 20, "fit_intercept": intercept}
    lam = 0.2 * np.sqrt(COUNTS.mean())
    weighted = sp.run(X, y, sp.LAD(), sp.Lasso(0.2), **how, sample_weight=COUNTS)
    copied = sp.run(X[EVERY], y[EVERY], sp.LAD(), sp.Lasso(lam), **how)
    found = sp.leave_one_out_path(weighted).values
    np.testing.assert_allclose(found, sp.leave_one_out_path(copied, groups=EVERY).values, rtol=0.01)
    assert abs(found / sp.leave_one_out_path(copied).values - 1).max() > 0.03
    np.testing.assert_allclose(sp.estimate_risk(weighted, method="loo").values, found, rtol=1e-12)


@LOSSES
@pytest.mark.parametrize("rule", ["min", "one_se"])
def test_a_search_is_that_of_copies(loss, rule):
    X, y = problem(loss)
    lams = np.geomspace(0.05, 0.8, 5)
    how = {"n_iter": 20, "method": "folds", "audit": 0, "fit_intercept": True, "rule": rule}
    found = sp.tune(X, y, loss, sp.Lasso, lams, sample_weight=COUNTS, cv=splits(FOLD), **how)
    wanted = sp.tune(
        *(X[EVERY], y[EVERY], loss, sp.Lasso, lams * np.sqrt(COUNTS.mean())),
        **how,
        cv=splits(FOLD[EVERY]),
        groups=EVERY,
    )
    assert found.best == wanted.best
    np.testing.assert_allclose(found.risk, wanted.risk, rtol=1e-9)
    assert found.chosen.method == wanted.chosen.method == "nested"
    assert found.best_risk == pytest.approx(wanted.best_risk, rel=1e-9)
    assert found.best_risk_stderr == pytest.approx(wanted.best_risk_stderr, rel=1e-9)
    np.testing.assert_allclose(found.chosen.predictions[EVERY], wanted.chosen.predictions)


def test_the_bootstrap_of_the_selection_is_that_of_copies(monkeypatch):
    monkeypatch.setattr("steinpath.risk._after_choice._MANY_ROWS", ((10, 1),))
    X, y = problem()
    lams = np.geomspace(0.05, 0.8, 5)
    how = {"n_iter": 20, "method": "folds", "audit": 0, "rng": 0}
    found = sp.tune(X, y, sp.LAD(), sp.Lasso, lams, sample_weight=COUNTS, cv=splits(FOLD), **how)
    wanted = sp.tune(
        *(X[EVERY], y[EVERY], sp.LAD(), sp.Lasso, lams * np.sqrt(COUNTS.mean())),
        **how,
        cv=splits(FOLD[EVERY]),
        groups=EVERY,
    )
    assert found.chosen.method == wanted.chosen.method == "bootstrap"
    assert found.best_risk == pytest.approx(wanted.best_risk, rel=1e-9)


@pytest.mark.parametrize("weights", [np.full(N, 0.7), np.ones(N), [3] * N])
def test_constant_weights_change_nothing(weights):
    X, y = problem()
    plain = sp.tune(X, y, sp.LAD(), sp.Lasso, 4, n_iter=20, rng=0)
    found = sp.tune(X, y, sp.LAD(), sp.Lasso, 4, n_iter=20, rng=0, sample_weight=weights)
    np.testing.assert_array_equal(found.risk, plain.risk)
    np.testing.assert_array_equal(found.coef, plain.coef)
    assert found.best_risk == plain.best_risk


# ----- Corrections: a map that differs by row, on the unweighted design -----


@pytest.mark.parametrize("shape", [(40, 15), (15, 25)])
@pytest.mark.parametrize("covariance", [False, True])
def test_corrections_are_those_of_a_map_that_differs_by_row(shape, covariance):
    """A general recursion, whose duals are those of all copies, knows nothing of weights."""
    n, p = shape
    X, y = problem(n=n, p=p)
    weights = np.random.default_rng(3).uniform(0.3, 2.5, n)
    weights /= weights.mean()
    root, delta, lam, N_ITER = np.sqrt(n), 1.0, 0.3, 12
    path = sp.run(
        X, y, sp.Huber(delta), sp.Ridge(lam), sp.ProximalGradient(), N_ITER, sample_weight=weights
    )
    step = path.algorithm.step

    def shrink(b):
        return b / (1 + step / root * lam)

    recursion = sp.Recursion(
        lambda t, u, v: -weights * np.clip(root * v[-1], -delta, delta) / root,
        lambda t, b, eta: shrink(b[-1] - step * eta[-1]),
        lambda t, u, v, du, dv: -((weights * (abs(root * v[-1]) < delta))[:, None] * dv[-1]),
        lambda t, b, eta, db, deta: shrink(db[-1] - step * deta[-1]),
    )
    other = sp.run(X, y, sp.Huber(delta), sp.NoPenalty(), recursion, N_ITER)
    np.testing.assert_allclose(path.coef, other.coef, atol=1e-10)
    np.testing.assert_allclose(weights * path.dual, other.dual, atol=1e-10)
    how = {"covariance": np.eye(p) if covariance else None}
    for found, wanted in zip(
        sp.correction_matrices(path, **how), sp.correction_matrices(other, **how), strict=True
    ):
        assert (found is None) == (wanted is None)
        if found is not None:
            np.testing.assert_allclose(found, wanted, atol=1e-8)
    found = sp.estimate_risk(path, method="exact", **how)
    wanted = sp.estimate_risk(other, method="exact", **how)
    np.testing.assert_allclose(found.corrected, wanted.corrected, atol=1e-8)
    losses = found.criterion(y, wanted.corrected)
    np.testing.assert_allclose(found.values, losses @ weights / n, rtol=1e-9)
    precise = sp.estimate_risk(path, method="compressed", n_probes=3000, rng=0, **how)
    np.testing.assert_allclose(precise.corrected, found.corrected, atol=0.1)


@pytest.mark.parametrize("name", ["lad", "huber", "square_root", "logistic"])
@INTERCEPT
def test_corrections_are_close_to_leave_one_out(name, intercept):
    """Without weights in the duals they would be off by tens of percent."""
    loss = LOSS_EXAMPLES[name]
    rng = np.random.default_rng(5)
    X, weights = rng.standard_normal((200, 80)), np.where(rng.random(200) < 0.5, 2.0, 0.4)
    y = responses(loss, X[:, :5].sum(axis=1) + rng.standard_normal(200) / np.sqrt(weights))
    path = sp.run(X, y, loss, sp.Ridge(0.3), n_iter=30, sample_weight=weights, **_with(intercept))
    exact, found = (sp.estimate_risk(path, method=name, rng=0) for name in ("loo", "exact"))
    np.testing.assert_allclose(found.values[3:], exact.values[3:], rtol=0.05)
    assert (found.values[30] - found.train[30]) > 0.15 * found.values[30]


def _with(intercept):
    return {"fit_intercept": intercept}


# ----- Standard errors -----


def test_standard_errors_are_those_of_a_ratio():
    """The sum of the weights is random, too: as in repeated samples."""
    rng = np.random.default_rng(0)
    estimates, errors = [], []
    for _ in range(2000):
        weights, losses = rng.choice([0.2, 3.0], 50), rng.exponential(size=(1, 50)) + 5
        sample = RowSample.of(50, weights)
        mean, error = sample.mean_and_error(losses)
        assert mean[0] == pytest.approx(np.average(losses[0], weights=weights))
        units, whole = sample.by_unit(losses)
        assert whole.mean(units)[0] == pytest.approx(mean[0])
        assert whole.stderr(units)[0] == pytest.approx(error[0])
        estimates.append(mean[0])
        errors.append(error[0])
    assert np.mean(errors) == pytest.approx(np.std(estimates), rel=0.1)
    # that of a sum divided by a constant would be several times as large
    assert np.std(estimates) < 0.3


def test_groups_of_weighted_rows():
    weights, groups = np.array([1.0, 2.0, 3.0, 0.0]), np.array([0, 0, 1, 2])
    sample = RowSample.of(4, weights, groups)
    losses = np.array([[1.0, 2.0, 4.0, 100.0]])
    mean, error = sample.mean_and_error(losses)
    assert mean[0] == pytest.approx(17 / 6)
    sums = np.array([(1 - 17 / 6) + 2 * (2 - 17 / 6), 3 * (4 - 17 / 6)])
    assert sample.units == 2
    assert error[0] == pytest.approx(np.sqrt(2 * (sums**2).sum()) / 6)


def test_few_effective_observations():
    X, y = problem()
    weights = np.full(N, 1e-3)
    weights[:12] = 1.0
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=20, sample_weight=weights)
    messages = " ".join(sp.estimate_risk(path, method="loo").warnings)
    assert "with 12.1 observations (the effective number, given their weights)" in messages


# ----- Weights that are functions of x -----


def test_an_audit_finds_weights_that_change_the_law_of_x():
    """The correction has the law of all rows, and folds that of the rows that count."""
    rng = np.random.default_rng(0)
    n, p = 400, 120
    X = rng.standard_normal((n, p))
    far = (X**2).sum(axis=1) > np.quantile((X**2).sum(axis=1), 0.75)
    X[far] *= 2.0
    y = X[:, 0] + rng.standard_normal(n)
    path = sp.run(X, y, sp.LAD(), sp.Ridge(0.3), n_iter=60, sample_weight=np.where(far, 4.0, 0.1))
    plain = sp.estimate_risk(path, method="compressed", rng=0)
    audited = sp.estimate_risk(path, method="compressed", audit="folds", rng=0)
    exact = sp.leave_one_out_path(path).values[-1]
    assert abs(plain.values[-1] / exact - 1) > 0.15
    assert abs(audited.values[-1] / exact - 1) < 0.1
    assert audited.audit.repaired[-1]


# ----- Intervals -----


def test_prediction_intervals_are_those_of_copies():
    X, y = problem(n=200)
    counts = np.random.default_rng(2).integers(1, 4, 200)
    every, fold = np.repeat(np.arange(200), counts), np.arange(200) % 5
    how = {"n_iter": 20, "method": "folds", "audit": 0, "fit_intercept": True}
    for loss in (sp.LAD(), sp.Quantile(0.3)):
        args = loss, sp.Lasso, [0.3]
        found = sp.tune(X, y, *args, sample_weight=counts, cv=splits(fold), **how)
        wanted = sp.tune(
            *(X[every], y[every], loss, sp.Lasso, [0.3 * np.sqrt(counts.mean())]),
            cv=splits(fold[every]),
            groups=every,
            **how,
        )
        both = (one.predict_interval(X[:20], level=0.8) for one in (found, wanted))
        np.testing.assert_allclose(*both, atol=0.1)


def test_intervals_for_coefficients_have_the_size_of_their_errors():
    ratios, widths = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, weights = rng.standard_normal((300, 60)), rng.choice([0.4, 2.2], 300)
        coef = np.repeat([1.0, 0.0], [5, 55])
        y = X @ coef + rng.standard_normal(300) / weights
        how = {"n_iter": 40, "fit_intercept": bool(seed % 2)}
        path = sp.run(X, y, sp.Huber(1.0), sp.Lasso(0.3), sample_weight=weights, **how)
        found = sp.coefficient_intervals(path, rng=0)
        ratios.append((found.estimate - coef) / found.stderr)
        plain = sp.run(X, y, sp.Huber(1.0), sp.Lasso(0.3), **how)
        widths.append(found.stderr.mean() / sp.coefficient_intervals(plain, rng=0).stderr.mean())
    assert np.std(ratios) == pytest.approx(1, abs=0.15)
    assert np.mean(widths) < 0.8


# ----- Everywhere -----


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sparse_and_mapped_rows_have_the_same_estimates(tmp_path):
    X, y = problem(n=120, p=15)
    X[np.random.default_rng(3).random(X.shape) < 0.6] = 0.0
    weights = np.random.default_rng(4).choice([0.4, 2.2], 120)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    how = {"n_alphas": 4, "n_iter": 30, "random_state": 0}
    for model in (
        sp.LADLasso(**how),
        sp.SqrtRidge(**how),
        sp.LADElasticNet(l1_ratio=[0.2, 0.8], **how),
        sp.QuantileLasso(q=(0.2, 0.8), **how),
    ):
        risks = [
            np.mean(model.fit(each, y, sample_weight=weights).best_risk_)
            for each in (X, sparse.csr_array(X), mapped)
        ]
        np.testing.assert_allclose(risks, risks[0], rtol=1e-9)
        plain = np.mean(model.fit(X, y).best_risk_)
        assert abs(risks[0] / plain - 1) > 1e-3


def test_a_run_stops_on_the_weighted_risk():
    X, y = problem(n=150, p=40)
    weights = np.random.default_rng(4).choice([0.4, 2.2], 150)
    how = {"n_iter": 300, "sample_weight": weights}
    stop = sp.StopOnRisk(patience=10, rng=0)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.05), stop=stop, **how)
    assert path.n_iter < 300
    whole = sp.run(X, y, sp.LAD(), sp.Lasso(0.05), **how)
    np.testing.assert_allclose(path.coef, whole.coef[: path.n_iter + 1])
    exact = sp.leave_one_out_path(path).values
    best = path.risk.best_iter
    assert path.risk.values[best] == pytest.approx(exact[best], rel=0.1)


# ----- Bad weights -----


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.where(FOLD == 2, 0.0, 1.0), "sample_weight is zero for all rows of a set"),
        (np.where(FOLD == 2, 1.0, 0.0), "sample_weight is zero for all rows of a set"),
        (-np.ones(N), r"must be nonnegative, but sample_weight\[0\] is -1"),
        (np.zeros(N), "zero for all rows"),
        (np.ones(N - 1), "60 rows, but sample_weight has 59 entries"),
        (np.full(N, np.nan), "NaN"),
    ],
)
def test_bad_weights(weights, message):
    X, y = problem()
    with pytest.raises(ValueError, match=message):
        sp.tune(X, y, sp.LAD(), sp.Lasso, 3, n_iter=5, sample_weight=weights, cv=splits(FOLD))


def test_no_weight_for_a_class():
    X, y = problem(sp.Logistic())
    with pytest.raises(ValueError, match="requires two classes"):
        sp.tune(X, y, sp.Logistic(), sp.Lasso, 3, n_iter=5, sample_weight=(y > 0) * 1.0)
