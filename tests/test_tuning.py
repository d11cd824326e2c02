"""The smallest penalty with zero coefficients, and the choice of penalty and iterate."""

import functools
import math

import numpy as np
import pytest

from backends import everywhere, on_backend, sp
from problems import REGRESSION_EXAMPLES, SOME_LOSSES, draw, draw_for, responses
from steinpath.problem import _scoring as scoring

resolve_test_loss = on_backend(scoring.resolve_test_loss)

P = 8
PENALTIES = {
    "lasso": sp.Lasso,
    "weighted": lambda lam: sp.Lasso(lam, weights=[1, 2, 0.5, 1, 1, 3, 1, 1]),
    "elastic-net": lambda lam: sp.ElasticNet(lam, 0.4),
    "group": lambda lam: sp.GroupLasso(lam, [0, 0, 1, 1, 2, 2, 3, 3]),
    "mcp": sp.MCP,
    "scad": sp.SCAD,
}


# every loss with every penalty, half of them with an intercept
PAIRS = {
    f"{one}-{other}": (loss, make, (i + j) % 2 == 1)
    for i, (one, loss) in enumerate(SOME_LOSSES.items())
    for j, (other, make) in enumerate(PENALTIES.items())
}


@pytest.mark.parametrize(("loss", "make", "intercept"), PAIRS.values(), ids=PAIRS)
def test_zero_above_and_not_below(loss, make, intercept):
    X, y, _ = draw(41, P)
    y = responses(loss, y + 0.5)
    lam = sp.lam_max(X, y, loss, make(1.0), intercept)
    above = sp.run(X, y, loss, make(1.02 * lam), n_iter=1500, fit_intercept=intercept)
    below = sp.run(X, y, loss, make(0.98 * lam), n_iter=1500, fit_intercept=intercept)
    assert (above.coef[-1] == 0).all()
    # the best constant for the hinge loss is at the kink of all rows of a class: smaller may do
    if not (intercept and loss == sp.Hinge()):
        assert (below.coef[-500:] != 0).any()  # nonconvex runs may go round in circles


@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot(), sp.Huber()], ids=repr)
def test_unpenalised_columns_are_fitted_first(loss):
    X, y, _ = draw(41, P)
    weights = np.ones(P)
    weights[:2] = 0
    lam = sp.lam_max(X, y, loss, sp.Lasso(1.0, weights=weights))
    assert lam < sp.lam_max(X, y, loss, sp.Lasso(1.0))
    above = sp.run(X, y, loss, sp.Lasso(1.02 * lam, weights=weights), n_iter=3000)
    below = sp.run(X, y, loss, sp.Lasso(0.98 * lam, weights=weights), n_iter=3000)
    assert (above.coef[-1][2:] == 0).all()
    assert (above.coef[-1][:2] != 0).all()
    assert (below.coef[-1][2:] != 0).any()


def test_no_finite_penalty():
    X, y, _ = draw(20, P)
    for penalty in (sp.Ridge(1.0), sp.NoPenalty(), sp.ElasticNet(1.0, 0.0)):
        assert sp.lam_max(X, y, sp.LAD(), penalty) == math.inf
    assert sp.lam_max(X, 0 * y, sp.Squared(), sp.Lasso(1.0)) == 0


# ----- Grids -----


def grid(X, y, loss, penalty, count=4, **how):
    return sp.tune(X, y, loss, penalty, count, n_iter=1, method="folds", **how).lams


@everywhere(every=13)
@pytest.mark.parametrize("loss", SOME_LOSSES.values(), ids=SOME_LOSSES)
@pytest.mark.parametrize("make", PENALTIES.values(), ids=PENALTIES)
@pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
def test_grids_fall_in_equal_ratios_from_the_null_model(loss, make, intercept):
    for n, smallest, how in ((41, 1e-3, {}), (7, 1e-2, {}), (41, 0.2, {"lam_ratio": 0.2})):
        X, y, _ = draw_for(loss, n, P)
        lams = grid(X, y, loss, make, fit_intercept=intercept, **how)
        largest = sp.lam_max(X, y, loss, make(1.0), intercept)
        np.testing.assert_allclose(lams, largest * smallest ** (np.arange(4) / 3), rtol=1e-12)


@pytest.mark.parametrize("loss", SOME_LOSSES.values(), ids=SOME_LOSSES)
@pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
def test_ridge_grids_go_from_almost_nothing_to_almost_all(loss, intercept):
    X, y, _ = draw(60, 12)
    X, y = X + np.linspace(-1, 1, 12), responses(loss, y + 2)
    lams = grid(X, y, loss, sp.Ridge, fit_intercept=intercept)
    np.testing.assert_allclose(lams / lams[0], 1e-4 ** (np.arange(4) / 3))
    centred = X - intercept * X.mean(axis=0)
    most, least, none = (
        np.linalg.norm(
            centred @ sp.run(X, y, loss, penalty, n_iter=800, fit_intercept=intercept).coef[-1]
        )
        for penalty in (sp.Ridge(lams[0]), sp.Ridge(lams[-1]), sp.NoPenalty())
    )
    if loss.margin:  # where classes can be told apart, fits without a penalty never end
        assert 0.001 * none < most < 0.05 * none
        assert 0.3 * none < least < none
    else:
        assert 0.01 * none < most < 0.11 * none
        assert 0.95 * none < least < 1.05 * none


def test_the_largest_ridge_shrinks_every_direction_tenfold():
    X, y, _ = draw(60, 12)
    largest = grid(X, y, sp.Squared(), sp.Ridge)[0]
    squares = np.linalg.svd(X, compute_uv=False) ** 2 / np.sqrt(60)
    factors = squares / (squares + largest)
    assert factors.max() == pytest.approx(1 / 11)


@everywhere
@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot(), sp.Squared(), sp.Quantile(0.3)])
def test_ridge_grids_know_units(loss):
    """Coefficients go with the units of y over those of X, and so must the penalty."""
    X, y, _ = draw(60, 12)
    lams = grid(X, y, loss, sp.Ridge)
    power = 0 if loss.name == "squared" else 1
    np.testing.assert_allclose(grid(X, 100 * y, loss, sp.Ridge), lams / 100**power)
    np.testing.assert_allclose(grid(100 * X, y, loss, sp.Ridge), lams * 100**2)


@everywhere(every=5)
@pytest.mark.parametrize("loss", REGRESSION_EXAMPLES.values(), ids=REGRESSION_EXAMPLES)
@pytest.mark.parametrize("constant", [0.0, 3.0, 0.1])
def test_constant_responses(loss, constant):
    X, _, _ = draw(30, P)
    y = np.full(30, constant)
    assert sp.lam_max(X, y, loss, sp.Lasso(1.0), True) == pytest.approx(0, abs=1e-12)
    for penalty in (sp.Lasso, sp.Ridge):
        tuning = sp.tune(X, y, loss, penalty, 3, 10, fit_intercept=True, rng=0)
        assert np.isfinite(tuning.lams).all()
        assert (tuning.lams > 0).all()
        np.testing.assert_allclose(tuning.coef, 0, atol=1e-12)
        assert tuning.intercept == pytest.approx(constant, abs=1e-12)
        np.testing.assert_allclose(tuning.risk, 0, atol=1e-12)


@everywhere
def test_penalties_of_the_users_own():
    X, y, _ = draw(41, P)
    given = np.array([0.5, 0.1, 0.3])
    tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, given, 10, rng=0)
    given[:] = 7
    np.testing.assert_array_equal(tuning.lams, [0.5, 0.1, 0.3])
    assert tuning.lams.dtype == np.float64
    for lams in ([1, 0], (0.2,), np.float32([0.5, 0.25])):
        tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, lams, 10, rng=0)
        np.testing.assert_array_equal(tuning.lams, lams)
        assert tuning.risk.shape == (len(lams), 11)
        assert [risk.path.penalty for risk in tuning.risks] == [sp.Lasso(lam) for lam in lams]
    single = sp.tune(X, y, sp.LAD(), sp.Lasso, 1, 10, rng=0)
    assert single.lams == pytest.approx([sp.lam_max(X, y, sp.LAD(), sp.Lasso(1.0))])


# ----- The choice -----

LAD = sp.LAD()
METHODS = {
    "auto": {},
    "loo": {"method": "loo"},
    "folds": {"method": "folds"},
    "compressed": {"method": "compressed"},
    "unaudited": {"method": "compressed", "audit": 0},
    "some rows": {"method": "compressed", "audit": 12, "row_scale": "auto"},
    "exact": {"method": "exact", "covariance": np.eye(P)},
}
RULES = pytest.mark.parametrize("rule", ["min", "one_se"])
HOW = pytest.mark.parametrize("how", METHODS.values(), ids=METHODS)


def tuned(loss=LAD, penalty=sp.Lasso, lams=5, n_iter=12, n=41, rng=0, **how):
    X, y, _ = draw(n, P)
    X, y = X + np.linspace(-1, 1, P), y + 1.0
    return sp.tune(X, y, loss, penalty, lams, n_iter, rng=rng, **how), X, y


@everywhere
@HOW
@pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
def test_shapes_and_the_minimum(how, intercept):
    tuning, X, y = tuned(fit_intercept=intercept, **how)
    for array in (tuning.risk, tuning.stderr, tuning.train):
        assert array.shape == (5, 13)
    assert len(tuning.risks) == len(tuning.settled) == 5
    k, t = tuning.best
    assert (k, t) == np.unravel_index(np.argmin(tuning.risk), tuning.risk.shape)
    assert (tuning.best_lam, tuning.best_iter) == (tuning.lams[k], t)
    assert tuning.settled[k]
    for j, risk in enumerate(tuning.risks):
        np.testing.assert_array_equal(tuning.risk[j], risk.values)
        np.testing.assert_array_equal(tuning.stderr[j], risk.stderr)
        expected = np.abs(y - risk.path.fitted).mean(axis=1)
        np.testing.assert_allclose(tuning.train[j], expected, rtol=1e-12)
    best, steps = sp.Lasso(tuning.best_lam), tuning.path.algorithm
    path = sp.run(X, y, sp.LAD(), best, steps, n_iter=12, fit_intercept=intercept)
    np.testing.assert_allclose(tuning.coef, path.coef[t], atol=1e-12)
    assert tuning.intercept == pytest.approx(path.intercept[t], abs=1e-12)
    assert isinstance(tuning.intercept, float)
    assert tuning.warnings == tuning.risks[k].warnings
    assert f"iteration {t} at lam = {tuning.best_lam:.4g}" in repr(tuning)


@everywhere
@pytest.mark.parametrize("method", ["loo", "exact"])
@pytest.mark.parametrize("test_loss", [None, "squared", lambda y, z: np.abs(y - z) ** 1.5])
def test_risks_without_noise_are_those_of_estimate_risk(method, test_loss):
    tuning, _, _ = tuned(method=method, audit=0, row_scale=None, test_loss=test_loss)
    for risk in tuning.risks:
        expected = sp.estimate_risk(risk.path, test_loss, method=method)
        np.testing.assert_allclose(risk.values, expected.values, rtol=1e-10)
        np.testing.assert_allclose(risk.stderr, expected.stderr, rtol=1e-10)


@everywhere
def test_folds_are_the_same_for_one_penalty_and_for_many():
    how = {"method": "folds", "algorithm": sp.HalpernPDHG()}  # without a search for a ratio
    tuning, _, _ = tuned(**how)
    for k, lam in enumerate(tuning.lams):
        alone, _, _ = tuned(lams=[lam], **how)
        np.testing.assert_allclose(alone.risk[0], tuning.risk[k], rtol=1e-11)
        np.testing.assert_allclose(alone.stderr[0], tuning.stderr[k], rtol=1e-10)


@everywhere(every=11)
@HOW
@RULES
@pytest.mark.parametrize("iterate", [0, -1, np.int64(5)])
def test_the_penalty_for_a_given_iterate(how, rule, iterate):
    tuning, _, _ = tuned(iterate=iterate, rule=rule, **how)
    assert tuning.best_iter == iterate % 13
    column = tuning.risk[:, iterate]
    least = np.argmin(column), tuning.best_iter
    best = least if rule == "min" else first_within_one_error(tuning, [iterate % 13] * 5)
    assert tuning.best == best
    np.testing.assert_array_equal(tuning.coef, tuning.path.coef[iterate])


def first_within_one_error(tuning, iterates):
    """The rule, from nothing but `compare`."""
    values = [tuning.risk[k, t] for k, t in enumerate(iterates)]
    best = int(np.argmin(values))
    for k, t in enumerate(iterates):
        difference, stderr = tuning.compare((k, t), (best, iterates[best]))
        assert difference == pytest.approx(values[k] - values[best], abs=1e-12)
        if difference <= stderr:
            return k, t
    raise AssertionError("the minimum is within any error of itself")


@everywhere(every=5)
@HOW
def test_one_standard_error(how):
    moved = 0
    for n in (30, 41, 50):
        tuning, _, _ = tuned(n=n, lams=12, lam_ratio=0.1, rule="one_se", **how)
        iterates = [int(np.argmin(values)) for values in tuning.risk]
        assert tuning.best == first_within_one_error(tuning, iterates)
        assert tuning.rule == "one_se"
        least = np.unravel_index(np.argmin(tuning.risk), tuning.risk.shape)
        assert tuning.best[0] <= least[0]
        moved += tuning.best[0] < least[0]
    assert moved > 0


@HOW
@RULES
def test_contenders_are_settled(how, rule):
    """The chosen one, and the minimum that it is compared with; others only if they were tried."""
    for n in (30, 41, 60):
        tuning, _, _ = tuned(n=n, lams=12, lam_ratio=0.1, rule=rule, **how)
        least = np.unravel_index(np.argmin(tuning.risk), tuning.risk.shape)
        assert tuning.settled[tuning.best[0]]
        assert tuning.settled[least[0]]
        for settled, risk in zip(tuning.settled, tuning.risks, strict=True):
            unsettled = not settled and risk.method != "loo"
            assert not (unsettled and risk.audit is not None)


def test_probes_suffice_where_the_choice_is_made():
    """Not only near the iterate that has the least risk."""
    X, y = sp.simulate.paper_model(80, "t2").sample(160, rng=0)
    for iterate in (None, -1):
        tuning = sp.tune(
            X, y, LAD, sp.Ridge, [0.1], 150, method="compressed", audit=0, rng=0, iterate=iterate
        )
        (risk,), t = tuning.risks, tuning.best_iter
        assert tuning.settled.all()
        assert risk.probe_stderr[t] < risk.stderr[t] / 2


def test_the_order_of_the_penalties_does_not_matter():
    for how in METHODS.values():
        falling, _, _ = tuned(**how)
        rising, _, _ = tuned(lams=falling.lams[::-1], **how)
        np.testing.assert_allclose(rising.risk, falling.risk[::-1], rtol=1e-6)
        assert rising.best == (4 - falling.best[0], falling.best[1])
        np.testing.assert_array_equal(rising.settled, falling.settled[::-1])


@everywhere(every=3)
@HOW
def test_randomness(how):
    first, again, generator, other = (
        tuned(rng=rng, **how)[0] for rng in (0, 0, np.random.default_rng(0), 1)
    )
    for same in (again, generator):
        np.testing.assert_array_equal(first.risk, same.risk)
        np.testing.assert_array_equal(first.stderr, same.stderr)
        assert first.best == same.best
    if how.get("method") in ("loo", "exact"):
        np.testing.assert_allclose(first.risk, other.risk, atol=0.2)
    else:
        assert not np.allclose(first.risk[:, 1:], other.risk[:, 1:], rtol=1e-10)


@pytest.mark.parametrize(
    ("loss", "penalty", "noise", "shape"),
    [
        (sp.LAD(), sp.Lasso, "t2", (300, 100)),
        (sp.Huber(), sp.Ridge, "normal", (300, 100)),
        (sp.SquareRoot(), sp.Lasso, "normal", (200, 300)),
        (sp.LAD(), sp.MCP, "normal", (300, 100)),
    ],
    ids=["lad-lasso", "huber-ridge", "sqrt-lasso", "lad-mcp"],
)
def test_choices_are_nearly_the_best_there_are(loss, penalty, noise, shape):
    model = sp.simulate.paper_model(shape[1], noise)
    regrets = []
    for seed in range(3):
        X, y = model.sample(shape[0], rng=seed)
        tuning = sp.tune(X, y, loss, penalty, 8, 30, rng=seed)
        true = np.stack([model.risk(risk.path.coef, loss.test_loss) for risk in tuning.risks])
        assert true.max() > 1.25 * true.min()
        regrets.append(true[tuning.best] / true.min() - 1)
    assert max(regrets) < 0.06
    assert np.mean(regrets) < 0.04


# ----- Comparisons -----


@everywhere(every=3)
@pytest.mark.parametrize("method", ["compressed", "folds", "exact", "hutchinson"])
def test_comparing_different_paths_by_hand(method):
    tuning, _, y = tuned(sp.Quantile(0.3), method=method, audit=0)
    criterion = resolve_test_loss(sp.Quantile(0.3))
    for (j, s), (k, t) in (((1, 4), (3, 11)), ((2, 0), (4, 12)), ((3, 7), (2, 7))):
        one, other = (
            criterion(y, tuning.risks[index].corrected[time]) for index, time in ((j, s), (k, t))
        )
        variance = np.var(one - other, ddof=1) / len(y)
        variance += tuning.risks[j].probe_stderr[s] ** 2 + tuning.risks[k].probe_stderr[t] ** 2
        shared = tuning.risks[j].shared_error[s], tuning.risks[k].shared_error[t]
        variance += abs(shared[0] ** 2 - shared[1] ** 2)
        difference, stderr = tuning.compare((j, s), (k, t))
        assert stderr == pytest.approx(np.sqrt(variance), rel=1e-10)
        if method != "folds":  # which adds Burman's correction
            assert difference == pytest.approx((one - other).mean(), abs=1e-12)
        assert difference == pytest.approx(tuning.risk[j, s] - tuning.risk[k, t], abs=1e-12)


@everywhere
def test_comparing_audited_with_unaudited_paths():
    """The error of an audit of one side alone counts in full."""
    tuning, _, y = tuned(lams=8, method="compressed", audit=12)
    (j,), k = np.flatnonzero(tuning.settled)[:1], int(np.flatnonzero(~tuning.settled)[0])
    risk, plain = tuning.risks[j], tuning.risks[k]
    one, other = (np.abs(y - each.corrected[5]) for each in (risk, plain))
    variance = np.var(one - other, ddof=1) / len(y)
    variance += risk.probe_stderr[5] ** 2 + plain.probe_stderr[5] ** 2
    variance += risk.audit.error[5] ** 2 + (risk.interactions.stderr() ** 2)[5]
    variance += plain.shared_error[5] ** 2
    assert tuning.compare((j, 5), (k, 5))[1] == pytest.approx(np.sqrt(variance), rel=1e-10)


def test_comparing_what_is_not_there():
    tuning, _, _ = tuned()
    for bad in (3, (1, 2, 3), (1.0, 2), (1, 2.0), (5, 0), (-1, 0), (0, 13), (0, -1)):
        for pair in ((bad, (0, 0)), ((0, 0), bad)):
            with pytest.raises((TypeError, ValueError), match="must be"):
                tuning.compare(*pair)


# ----- What is refused -----


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"penalty": sp.Lasso(1.0)}, TypeError, "penalty must be a function of lam"),
        ({"penalty": "lasso"}, TypeError, "penalty must be a function of lam"),
        ({"penalty": lambda lam: lam}, TypeError, r"penalty\(lam\) must return a Penalty"),
        ({"penalty": functools.partial(sp.Lasso, weights=[1, 2])}, ValueError, "has 2 weights"),
        ({"lams": 0}, ValueError, "lams must be at least 1"),
        ({"lams": True}, TypeError, "lams must be an integer"),
        ({"lams": 0.5}, ValueError, "lams must have 1 dimension"),
        ({"lams": []}, ValueError, "lams is empty"),
        ({"lams": [1.0, -0.1]}, ValueError, "lams must be a finite number in .* got -0.1"),
        ({"lams": [1.0, np.inf]}, ValueError, "lams has 1 value that is NaN or infinite"),
        ({"lams": "auto"}, TypeError, "lams must hold real numbers"),
        ({"lam_ratio": 0}, ValueError, "lam_ratio must be a finite number in"),
        ({"lam_ratio": 1.0}, ValueError, "lam_ratio must be a finite number in"),
        ({"rule": "1se"}, ValueError, "rule must be one of 'min', 'one_se'"),
        ({"iterate": 13}, ValueError, "iterate must be at most 12"),
        ({"iterate": -14}, ValueError, "iterate must be at least -13"),
        ({"iterate": 2.0}, TypeError, "iterate must be an integer"),
        ({"algorithm": sp.ChambollePock}, TypeError, "algorithm is the class ChambollePock"),
        ({"algorithm": sp.Recursion(*[len] * 4)}, TypeError, "must be a ProximalAlgorithm"),
        ({"algorithm": sp.FISTA()}, ValueError, "FISTA requires a loss with a Lipschitz gradient"),
        ({"n_iter": 0}, ValueError, "n_iter must be at least 1"),
        ({"loss": sp.LAD}, TypeError, "loss is the class LAD"),
        ({"method": "cv"}, ValueError, "method must be one of"),
        ({"method": "spectral"}, ValueError, "method 'spectral' requires"),
        ({"covariance": np.eye(3)}, ValueError, r"covariance has shape \(3, 3\)"),
        ({"audit": "loo"}, ValueError, "audit must be a number of rows or 'folds'"),
        ({"test_loss": lambda y, z: 1.0}, ValueError, "one number per observation"),
        ({"fit_intercept": 1}, TypeError, "fit_intercept must be True or False"),
        ({"rng": "seed"}, TypeError, "rng must be None"),
    ],
)
def test_bad_arguments(how, error, message):
    with pytest.raises(error, match=message):
        tuned(**how)


def test_with_fewer_rows_than_columns_the_choice_is_made_by_leave_one_out():
    X, y, _ = draw(100, 400)
    settings = {"lams": 6, "n_iter": 200, "rng": 0}
    tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, **settings)
    k, t = tuning.best
    assert tuning.risks[k].method == "loo"
    exact = sp.estimate_risk(tuning.path, method="loo")
    assert tuning.risk[k, t] == exact.values[t]
    assert sp.tune(X, y, sp.LAD(), sp.Lasso, method="compressed", **settings).risks[0].method == (
        "compressed"
    )
