"""Audits: rows that are left out check an estimate, and repair it where they disagree."""

import itertools

import numpy as np
import pytest
from scipy import stats

from backends import everywhere, on_backend, seen, sp
from problems import draw
from small_paths import (
    absolute,
    batch_of,
    estimate,
    momentum,
    options_of,
    plain_losses,
    problem_of,
    ridge_path,
)
from steinpath.risk import _audit as auditing
from steinpath.risk import _estimate as estimating
from steinpath.risk import _leave_out as baselines
from steinpath.risk import _splits
from steinpath.risk._held_out import HeldOut, RowSample
from steinpath.risk._methods import METHODS

Audit, compare, hold_out_rows = map(
    on_backend, (auditing.Audit, auditing.compare, auditing.hold_out_rows)
)
leave_one_out, cross_validate = map(on_backend, (baselines.leave_one_out, baselines.cross_validate))
random_folds = on_backend(_splits.random_folds)
assemble = on_backend(estimating.assemble)


# Takes less for noise than usual, so that repairs are seen in small problems.
SENSITIVE = 0.3
OF_THE_PAPER = [name for name in METHODS if name not in ("loo", "folds")]


def estimate_sensitively(path, method="exact", rng=0, **options):
    """The same, with an audit that takes less for noise."""
    options = {"method": method, "precision": "float64", **options}
    risk = sp.estimate_risk(path, rng=rng, **options)
    (resolved,) = options_of(**options).resolved(batch_of(path), [np.random.default_rng(0)])
    found, held_out = risk.estimate, risk.audited
    audit = compare(resolved, found, held_out, SENSITIVE)
    return assemble(resolved, risk.method, found, risk.row_scale, audit, held_out)


def stderr_of(values, shrink):
    return shrink * values.std(axis=-1, ddof=1)


def error_of(added, left, shrink):
    """Standard error of what was added, and the size of what was not, less its noise."""
    seen = left.mean(axis=-1) ** 2 - stderr_of(left, shrink) ** 2
    return np.sqrt(stderr_of(added, shrink) ** 2 + np.maximum(seen, 0))


def dependence(risk, *iterates):
    """Variance from the dependence of the losses on each other."""
    if risk.interactions is None:
        squares = 2 / len(risk.path.y) * np.maximum(risk.values - risk.train, 0) ** 2
        return abs(squares[iterates[0]] - squares[iterates[1]]) if iterates else squares
    if iterates:
        return risk.interactions.stderr_between(*iterates) ** 2
    return risk.interactions.stderr() ** 2


def share_of(difference, stderr, noise):
    """Positive-part shrinkage, with both squares pooled from half to twice ``t``."""
    share = []
    for square, chance in zip(pooled(difference**2), pooled(stderr**2), strict=True):
        share.append(max(0.0, 1 - noise**2 * chance / square) if square > 0 else 0.0)
    return np.array(share)


def pooled(values):
    last = len(values) - 1
    near = (range(t // 2, min(2 * t, last) + 1) for t in range(last + 1))
    return np.array([np.mean([values[s] for s in times]) for times in near])


def assert_by_hand(path, risk, loss, left_out, optimism, shrink):
    """Recompute all that an audit says from corrected and left-out predictions of all rows."""
    audit, y, rows = risk.audit, path.y, risk.audit.rows
    losses = loss(y, risk.corrected)
    # what was added to the mean losses of the estimate belongs to it
    own = (risk.raw - losses.mean(axis=1))[:, None]
    differences = (loss(y, left_out) + optimism - losses - own)[:, rows]
    differences = np.where(np.abs(differences) > 1e-12, differences, 0.0)  # else it is rounding
    difference, stderr = differences.mean(axis=1), stderr_of(differences, shrink)
    share = share_of(difference, stderr, SENSITIVE)
    added = share[:, None] * differences
    error = error_of(added, differences - added, shrink)
    sampling = losses.std(axis=1, ddof=1) / np.sqrt(len(y))
    close = {"rtol": 1e-8, "atol": 1e-10}
    np.testing.assert_allclose(audit.differences, differences, **close)
    np.testing.assert_allclose(audit.difference, difference, **close)
    np.testing.assert_allclose(audit.stderr, stderr, **close)
    np.testing.assert_allclose(audit.share[1:], share[1:], **close)  # the first: of rounding
    np.testing.assert_array_equal(audit.repaired[1:], share[1:] > 0)
    np.testing.assert_allclose(audit.repair, share * difference, **close)
    np.testing.assert_allclose(audit.error, error, **close)
    np.testing.assert_allclose(risk.values, risk.raw + share * difference, **close)
    variance = sampling**2 + error**2 + dependence(risk)
    np.testing.assert_allclose(risk.stderr, np.sqrt(variance), **close)
    assert risk.method == "loo" or ((share > 0) & (share < 1))[1:].any()
    for t in range(1, path.n_iter + 1):
        x, z = risk.corrected[t, rows], left_out[t, rows]
        assert audit.slope[t] == pytest.approx(np.polyfit(x, z, 1)[0], rel=1e-9)
        assert audit.correlation[t] == pytest.approx(np.corrcoef(x, z)[0, 1], rel=1e-9)


def assert_rows_by_hand(path, risk, loss, m):
    """The same for an audit of ``m`` rows."""
    n, rows = path.n_samples, risk.audit.rows
    assert len(rows) == len(set(rows)) == m
    shrink = np.sqrt((1 - m / n) / m)
    assert_by_hand(path, risk, loss, path.above_level(leave_one_out(path)), 0.0, shrink)


# ----- By hand -----


@everywhere(every=2)
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
@pytest.mark.parametrize(
    ("method", "options"),
    [
        *((method, {}) for method in METHODS),
        *((name, {"covariance": sp.simulate.toeplitz(15)}) for name in OF_THE_PAPER),
        ("exact", {"row_scale": "norm"}),
        ("exact", {"row_scale": np.linspace(1, 2, 40)}),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else value,
)
def test_methods_by_hand(method, options, fit_intercept):
    path = ridge_path(fit_intercept=fit_intercept)
    risk = estimate_sensitively(path, method, test_loss="absolute", audit=14, **options)
    assert risk.covariance_known == ("covariance" in options)
    assert_rows_by_hand(path, risk, absolute, 14)


@everywhere
@pytest.mark.parametrize(
    ("test_loss", "loss"),
    [
        (None, absolute),
        ("squared", lambda y, z: (y - z) ** 2),
        (sp.Quantile(0.3), lambda y, z: np.maximum(0.3 * (y - z), -0.7 * (y - z))),
        (plain_losses, plain_losses),
    ],
    ids=["own", "named", "loss", "callable"],
)
def test_test_losses_by_hand(test_loss, loss):
    X, y, _ = draw(40, 15)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.2), n_iter=12)
    assert_rows_by_hand(path, estimate_sensitively(path, test_loss=test_loss, audit=14), loss, 14)


@everywhere(every=3)
@pytest.mark.parametrize("method", ["exact", "compressed", "loo"])
def test_recursions_by_hand(method):
    X, y, _ = draw(20, 7)
    path = sp.run(X, y, sp.Huber(), sp.NoPenalty(), momentum(), n_iter=9)
    risk = estimate_sensitively(path, method, test_loss="absolute", audit=6)
    assert_rows_by_hand(path, risk, absolute, 6)


@everywhere
def test_centering_leaves_the_audit_alone():
    path = ridge_path()
    plain, centered = (
        estimate_sensitively(path, audit=14, centered=flag) for flag in (False, True)
    )
    np.testing.assert_array_equal(centered.audit.differences, plain.audit.differences)
    np.testing.assert_allclose(centered.values, plain.values - (path.y**2).mean(), atol=1e-10)
    losses = (path.y - plain.corrected) ** 2 - path.y**2
    sampling = losses.std(axis=1, ddof=1) / np.sqrt(40)
    variance = sampling**2 + plain.audit.error**2 + dependence(plain)
    np.testing.assert_allclose(centered.stderr, np.sqrt(variance), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("audit", [14, "folds"])
def test_single_precision_is_close(audit):
    path = ridge_path(fit_intercept=True)
    double = estimate(path, test_loss="absolute", audit=audit)
    single = sp.estimate_risk(path, "absolute", method="exact", audit=audit, rng=0)
    np.testing.assert_array_equal(single.audit.rows, double.audit.rows)
    pairs = [(single.audit.differences, double.audit.differences)]
    if audit != "folds":
        pairs.append((single.interactions.changes, double.interactions.changes))
    for found, expected in pairs:
        assert 0 < np.abs(found - expected).max() < 1e-5
        assert found.dtype == np.float64
    for values in (single.values, single.stderr, single.audit.slope):
        assert values.dtype == np.float64


# ----- All rows, exact estimates, hardly any data -----


@everywhere
@pytest.mark.parametrize("m", [40, 1000], ids=["all", "more than there are"])
@pytest.mark.parametrize("method", METHODS)
def test_auditing_all_rows_is_leave_one_out(method, m):
    path = ridge_path()
    risk, loo = estimate(path, method, audit=m), estimate(path, "loo")
    np.testing.assert_array_equal(np.sort(risk.audit.rows), np.arange(40))
    np.testing.assert_allclose(risk.values, loo.values, rtol=1e-12)
    np.testing.assert_allclose(risk.raw + risk.audit.difference, loo.values, rtol=1e-12)
    assert (risk.audit.stderr == 0).all()
    assert (risk.audit.error == 0).all()


@everywhere
def test_leave_one_out_itself_is_chosen_rather_than_audited_on_all_rows():
    X, y, _ = draw(400, 100)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=2)
    methods = [sp.estimate_risk(path, audit=m, rng=0).method for m in (0, 32, 400, 1000)]
    assert methods == ["compressed", "compressed", "loo", "loo"]


@everywhere
@pytest.mark.parametrize("audit", [2, 14, "folds"])
@pytest.mark.parametrize("groups", [None, np.arange(40) % 7], ids=["rows", "groups"])
def test_leave_one_out_needs_no_repair(audit, groups):
    path = ridge_path()
    risk, plain = (estimate(path, "loo", audit=rows, groups=groups) for rows in (audit, 0))
    for name in ("values", "stderr"):
        np.testing.assert_array_equal(getattr(risk, name), getattr(plain, name))
    if groups is None:
        np.testing.assert_array_equal(risk.interactions.changes, plain.interactions.changes)
    for name in ("differences", "stderr", "repair", "error"):
        assert not getattr(risk.audit, name).any()
    assert groups is not None or not risk.audit.repaired.any()  # of groups, all of nothing is added
    if audit != "folds":
        np.testing.assert_allclose(risk.audit.slope, 1, rtol=1e-12)
        np.testing.assert_allclose(risk.audit.correlation, 1, rtol=1e-12)


@everywhere
def test_equal_predictions_agree():
    X, y, _ = draw(20, 5)
    path = sp.run(X, y + 3.0, sp.LAD(), sp.Lasso(0.3), n_iter=4)
    for method, audit in itertools.product(("exact", "compressed", "loo"), (6, "folds")):
        found = sp.estimate_risk(path, method=method, audit=audit, rng=0).audit
        assert (found.slope[0], found.correlation[0]) == (1, 1)
        assert found.difference[0] == pytest.approx(0, abs=1e-6)
        assert np.isfinite(found.error).all()


@everywhere
@pytest.mark.parametrize("method", ["exact", "compressed", "loo"])
def test_where_the_intercept_starts_is_audited(method):
    """At the median of the rows that are kept, which the estimates know nothing of."""
    X, y, _ = draw(20, 5)
    y = y + 3.0
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=4, fit_intercept=True)
    medians = np.array([np.median(np.delete(y, i)) for i in range(20)])
    found = estimate(path, method, audit=6).audit
    if method == "loo":
        assert (found.slope[0], found.correlation[0]) == pytest.approx((1, 1))
        assert (found.differences == 0).all()
    else:
        assert (found.slope[0], found.correlation[0]) == (0, 0)  # fitted values are equal
        expected = absolute(y, medians) - absolute(y, np.median(y))
        np.testing.assert_allclose(found.differences[0], expected[found.rows], atol=1e-12)
        assert found.difference[0] > 1e-3
    assert np.isfinite(sp.estimate_risk(path, method=method, audit="folds").audit.error).all()


@everywhere
def test_predictions_of_which_one_kind_is_equal_do_not_agree():
    path = ridge_path()
    problem = problem_of(path)
    found = seen(METHODS["exact"])(problem)
    audit = compare(
        problem, found, HeldOut(np.arange(40), np.full((13, 40), 0.1), RowSample.of(40))
    )
    assert (audit.slope[0], audit.correlation[0]) == (1, 1)  # all zero against all 0.1
    assert (audit.slope[1:] == 0).all()
    assert (audit.correlation[1:] == 0).all()


@pytest.mark.parametrize("audit", [2, 32, "folds"])
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
def test_two_rows_will_do(audit, fit_intercept):
    path = sp.run(
        [[1.0], [2.0]], [1.0, 3.0], sp.LAD(), sp.Lasso(0.1), n_iter=3, fit_intercept=fit_intercept
    )
    for method in ("exact", "compressed", "loo"):
        risk = sp.estimate_risk(path, method=method, audit=audit, rng=0, precision="float64")
        np.testing.assert_array_equal(np.sort(risk.audit.rows), [0, 1])
        for values in (risk.values, risk.stderr, risk.audit.slope, risk.audit.correlation):
            assert np.isfinite(values).all()
        if audit != "folds":
            loo = np.abs(path.response - leave_one_out(path)).mean(axis=1)
            np.testing.assert_allclose(risk.values, loo, rtol=1e-12)


# ----- How much is added -----


def audit_of(differences, population=None, **options):
    """An audit of an estimate with these differences, row by row."""
    T, m = differences.shape
    sample = RowSample.of(m, population=population)
    return Audit(np.arange(m), differences, np.ones(T), np.ones(T), sample, **options)


@everywhere
@pytest.mark.parametrize("T", [1, 2, 3, 30])
@pytest.mark.parametrize("noise", [1.0, 1.75])
def test_the_share_by_brute_force(T, noise):
    rng = np.random.default_rng(T)
    drift = np.cumsum(rng.standard_normal(T)) / 5
    audit = audit_of(drift[:, None] + rng.standard_normal((T, 10)), 40, noise=noise)
    difference = audit.differences.mean(axis=1)
    stderr = np.sqrt(0.75 / 10) * audit.differences.std(axis=1, ddof=1)
    expected = share_of(difference, stderr, noise)
    np.testing.assert_allclose(audit.share, expected, atol=1e-12)
    np.testing.assert_allclose(audit.repair, expected * difference, atol=1e-12)
    ratio = np.sqrt(pooled(difference**2) / pooled(stderr**2))
    np.testing.assert_allclose(audit.significance, ratio, rtol=1e-10)
    assert ((audit.share >= 0) & (audit.share <= 1)).all()
    assert T < 30 or audit.share.min() < 0.1 < 0.9 < audit.share.max()


@everywhere
def test_a_difference_without_noise_is_added_where_it_is_near():
    differences = np.zeros((9, 5))
    differences[6:] = 2.0
    audit = audit_of(differences)
    near = np.array([0, 0, 0, 1, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(audit.share, near)
    np.testing.assert_array_equal(audit.significance, np.where(near, np.inf, 0))
    np.testing.assert_array_equal(audit.repair, 2.0 * (np.arange(9) > 5))
    np.testing.assert_array_equal(audit.error, 0)


@everywhere
def test_a_difference_that_is_not_added_is_an_error():
    values = np.array([1.0, -1.0, 1.0, -1.0, 1.5])  # mean 0.3, standard error 0.54
    audit = audit_of(np.tile(values, (4, 1)))
    assert (audit.share == 0).all()
    assert (audit.error == 0).all()  # no more than its noise
    values = values + 0.5
    audit = audit_of(np.tile(values, (4, 1)))
    assert (audit.share == 0).all()
    seen = values.mean() ** 2 - values.var(ddof=1) / 5
    np.testing.assert_allclose(audit.error, np.sqrt(seen), rtol=1e-12)


def test_noise_is_left_alone_as_often_as_by_students_law():
    rng = np.random.default_rng(0)
    rows, trials = 8, 2000
    noises = rng.standard_normal((trials, rows))
    # the same noise at all iterates: pooling makes no difference
    repaired = [audit_of(np.stack([noise, noise])).repaired[0] for noise in noises]
    chance = 2 * stats.t.sf(1.75, rows - 1)
    assert sum(repaired) == pytest.approx(
        trials * chance, abs=4 * np.sqrt(trials * chance * (1 - chance))
    )


# ----- Unbiasedness -----


@everywhere
@pytest.mark.parametrize("method", ["exact", "folds"])
def test_the_mean_over_all_samples_is_leave_one_out(method):
    """Exactly, and the mean squared standard error is the variance over samples."""
    path = ridge_path(n=9, p=4)
    problem = problem_of(path)
    found, loo = seen(METHODS[method])(problem), leave_one_out(path)
    drawn = hold_out_rows(problem, 4)
    np.testing.assert_allclose(drawn.predictions, loo[:, drawn.rows], atol=1e-12)
    audits = [
        compare(problem, found, drawn._replace(rows=rows, predictions=loo[:, rows]))
        for rows in map(np.array, itertools.combinations(range(9), 4))
    ]
    estimates = found.values + np.stack([audit.difference for audit in audits])
    truth = absolute(path.y, loo).mean(axis=1)
    np.testing.assert_allclose(estimates.mean(axis=0), truth, rtol=1e-12)
    squares = np.mean([audit.stderr**2 for audit in audits], axis=0)
    np.testing.assert_allclose(squares, estimates.var(axis=0), rtol=1e-10, atol=1e-15)
    assert (squares[1:] > 1e-6).all()


def test_all_samples_are_equally_likely():
    X, y, _ = draw(6, 4)
    problem = problem_of(sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=1))
    drawn = [np.sort(hold_out_rows(problem, 3).rows) for _ in range(2000)]
    samples, counts = np.unique(drawn, axis=0, return_counts=True)
    np.testing.assert_array_equal(samples, list(itertools.combinations(range(6), 3)))
    assert stats.chisquare(counts).pvalue > 0.001


# ----- Folds -----


class SameFolds(np.random.Generator):
    """Randomness that deals the same folds each time."""

    def __init__(self, bits=None):
        super().__init__(bits or np.random.PCG64(0))

    def permutation(self, n):
        return np.random.default_rng(1).permutation(n)


@everywhere
@pytest.mark.parametrize("n", [7, 33], ids=["fewer rows than folds", "more"])
@pytest.mark.parametrize("method", ["exact", "compressed"])
def test_folds_audit_all_rows(method, n):
    path = ridge_path(n=n, p=5, fit_intercept=True)
    options = {"test_loss": "absolute", "precision": "float64"}
    risk = estimate_sensitively(path, method, SameFolds(), audit="folds", **options)
    crossed = sp.estimate_risk(path, method="folds", rng=SameFolds(), **options)
    np.testing.assert_array_equal(risk.audit.rows, np.arange(n))
    np.testing.assert_allclose(risk.audit.difference, crossed.values - risk.raw, atol=1e-10)
    splits = random_folds(batch_of(path), min(n, 10), SameFolds())
    splits = splits._replace(test=splits.test.astype(int))  # not an array of the backend
    (burman,) = cross_validate(batch_of(path), [absolute], splits)
    optimism = burman.optimism[:, None]
    predictions = path.above_level(burman.predictions)
    assert_by_hand(path, risk, absolute, predictions, optimism, 1 / np.sqrt(n))
    assert (np.abs(optimism[3:]) > 1e-4).all()


@pytest.mark.parametrize("method", ["auto", "exact", "folds"])
def test_folds_that_say_nothing_are_refused(method):
    X, y, _ = draw(12, 7)
    path = sp.run(X, y, sp.Huber(), sp.NoPenalty(), momentum(), n_iter=5)
    message = "does not support a Recursion; use method='loo'"
    if method == "folds":
        path, message = ridge_path(), "audit='folds' cannot check method='folds'; use audit=32"
    with pytest.raises(ValueError, match=message):
        sp.estimate_risk(path, method=method, audit="folds")


# ----- Sizes of rows -----


def elliptical_path():
    X, y = sp.simulate.paper_model(30, "normal", "t4").sample(60, rng=0)
    return sp.run(X, y, sp.SquareRoot(), sp.Ridge(0.1), n_iter=20)


def path_with_a_heavy_column():
    """Rows that are large because of one feature alone."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 10))
    X[:, 0] = 4 * rng.standard_t(3, 40)
    y = X[:, 1] + rng.standard_normal(40)
    return sp.run(X, y, sp.SquareRoot(), sp.Ridge(0.1), n_iter=20)


@everywhere(every=3)
@pytest.mark.parametrize("audit", [20, "folds"])
@pytest.mark.parametrize(
    ("make", "chosen"), [(elliptical_path, "norm"), (path_with_a_heavy_column, None)]
)
def test_the_audit_chooses_the_row_scale(make, chosen, audit):
    path = make()
    automatic = estimate(path, row_scale="auto", audit=audit)
    assert automatic.row_scale == chosen
    fixed = {scale: estimate(path, row_scale=scale, audit=audit) for scale in (None, "norm")}
    squares = {scale: (risk.audit.differences**2).mean() for scale, risk in fixed.items()}
    assert squares[chosen] == min(squares.values())
    for name in ("values", "raw", "stderr", "corrected"):
        np.testing.assert_array_equal(getattr(automatic, name), getattr(fixed[chosen], name))
    np.testing.assert_array_equal(automatic.audit.rows, fixed[chosen].audit.rows)


def test_row_scales_have_names():
    path = ridge_path()
    given = np.linspace(1, 2, 40)
    for row_scale, name in ((None, None), ("norm", "norm"), (given, "given")):
        for audit in (0, 10):
            assert estimate(path, row_scale=row_scale, audit=audit).row_scale == name
    for method in ("loo", "folds"):
        for row_scale in (None, "norm", given, "auto"):
            assert estimate(path, method, row_scale=row_scale, audit=10).row_scale is None


def test_only_an_audit_can_choose():
    with pytest.raises(ValueError, match="is selected by the audit; set audit"):
        sp.estimate_risk(ridge_path(), row_scale="auto")


# ----- Comparing iterates -----


@everywhere
@pytest.mark.parametrize("audit", [14, "folds"])
def test_comparisons_by_hand(audit):
    path = path_with_a_heavy_column()
    risk = estimate_sensitively(path, test_loss="absolute", audit=audit)
    shrink = 1 / np.sqrt(40) if audit == "folds" else np.sqrt((1 - 14 / 40) / 14)
    losses, share = absolute(path.y, risk.corrected), risk.audit.share
    added = share[:, None] * risk.audit.differences
    left = risk.audit.differences - added
    assert ((share > 0.01) & (share < 0.99)).sum() > 5
    for t1, t2 in ((3, 12), (20, 4), (0, 20)):
        sampling = stderr_of(losses[t1] - losses[t2], 1 / np.sqrt(40))
        error = error_of(added[t1] - added[t2], left[t1] - left[t2], shrink)
        assert error > 1e-3 * sampling
        variance = sampling**2 + error**2 + dependence(risk, t1, t2)
        difference, stderr = risk.compare(t1, t2)
        assert difference == pytest.approx(risk.values[t1] - risk.values[t2], rel=1e-12)
        assert stderr == pytest.approx(np.sqrt(variance), rel=1e-10)
        assert risk.audit.error_between(t1, t2) == pytest.approx(error, rel=1e-10)


@everywhere
@pytest.mark.parametrize("audit", [14, "folds"])
def test_an_iterate_is_no_better_than_itself(audit):
    risk = estimate(ridge_path(), audit=audit)
    for t in (0, 5, 12):
        assert risk.compare(t, t) == (0, 0)


@everywhere
def test_probe_noise_counts_in_comparisons():
    risk = estimate_sensitively(ridge_path(), "compressed", audit=14)
    first, second = risk.probe_stderr[[5, 12]]
    losses = (risk.predictions.path.y - risk.corrected[[5, 12]]) ** 2
    sampling = stderr_of(losses[0] - losses[1], 1 / np.sqrt(40))
    variance = sampling**2 + first**2 + second**2 + dependence(risk, 5, 12)
    variance += risk.audit.error_between(5, 12) ** 2
    assert min(first, second) > 0.01
    assert risk.compare(5, 12)[1] == pytest.approx(np.sqrt(variance), rel=1e-10)


# ----- What is asked for -----


@pytest.mark.parametrize(
    ("audit", "error", "message"),
    [
        (1, ValueError, "audit must be at least 2, for a standard error, or 0 for no audit"),
        (-1, ValueError, "audit must be at least 0, got -1"),
        (2.5, TypeError, "audit must be an integer, got 2.5"),
        (True, TypeError, "audit must be an integer, got True"),
        (None, TypeError, "audit must be an integer, got None"),
        ("all", ValueError, "audit must be a number of rows or 'folds'; got 'all'"),
        ([4, 5], TypeError, "audit must be an integer"),
    ],
)
def test_bad_audits(audit, error, message):
    with pytest.raises(error, match=message):
        sp.estimate_risk(ridge_path(), audit=audit)


@everywhere
@pytest.mark.parametrize("method", METHODS)
def test_an_audit_does_not_change_the_raw_estimate(method):
    path = ridge_path()
    expected = estimate(path, method)
    for audit in (2, 14, 40, "folds"):
        if method != audit:
            risk = estimate(path, method, audit=audit)
            np.testing.assert_array_equal(risk.raw, expected.values)
            np.testing.assert_array_equal(risk.corrected, expected.corrected)


@everywhere
@pytest.mark.parametrize("audit", [14, "folds"])
@pytest.mark.parametrize("method", ["exact", "compressed"])
def test_the_rng_draws_the_audit(method, audit):
    path = ridge_path()
    first, again, other = (
        sp.estimate_risk(path, method=method, audit=audit, rng=seed) for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first.audit.rows, again.audit.rows)
    np.testing.assert_array_equal(first.audit.differences, again.audit.differences)
    np.testing.assert_array_equal(first.values, again.values)
    assert not np.allclose(first.audit.difference, other.audit.difference)


# ----- How far an audit goes -----


def long_path(n_iter=60):
    """A path whose smallest risk is early: there is nothing to predict."""
    X, y = np.random.default_rng(0).standard_normal((60, 30)), np.sin(np.arange(60.0) ** 2)
    return sp.run(X, y, sp.LAD(), sp.Lasso(0.05), n_iter=n_iter)


@everywhere
@pytest.mark.parametrize(
    "options",
    [{"audit": 8}, {"audit": "folds"}, {"audit": 5, "groups": np.arange(60) % 12}],
    ids=["rows", "folds", "groups"],
)
def test_audits_cover_all_iterates(options):
    path = long_path()
    whole, short = (estimate(each, "exact", **options) for each in (path, path.until(20)))
    assert whole.best_iter < 10
    np.testing.assert_allclose(whole.audit.differences[:21], short.audit.differences, atol=1e-9)
    # each of the later ones is compared with its own runs
    assert (np.abs(np.diff(whole.audit.difference))[20:] > 1e-9).all()


def test_single_precision_data():
    X, y, _ = draw(40, 15)
    single, double = (
        estimate(sp.run(X.astype(t), y.astype(t), sp.LAD(), sp.Lasso(0.2), n_iter=12), audit=14)
        for t in (np.float32, np.float64)
    )
    np.testing.assert_array_equal(single.audit.rows, double.audit.rows)
    for name in ("difference", "stderr", "slope", "correlation", "share", "error"):
        found, expected = (getattr(risk.audit, name) for risk in (single, double))
        assert found.dtype == np.float32
        np.testing.assert_allclose(found[1:], expected[1:], atol=1e-4)
    assert single.interactions.changes.dtype == np.float32
    np.testing.assert_allclose(
        *(risk.interactions.stderr() for risk in (single, double)), rtol=1e-3, atol=1e-5
    )
    assert single.values.dtype == single.stderr.dtype == np.float32


def test_leave_one_out_is_not_run_twice(monkeypatch):
    path, runs, real = ridge_path(), [], baselines.LeftOutRuns
    expected = estimate(path, "loo").values
    monkeypatch.setattr(baselines, "LeftOutRuns", lambda *a, **k: runs.append(1) or real(*a, **k))
    np.testing.assert_array_equal(estimate(path, "loo", audit=14).values, expected)
    assert len(runs) == 1
