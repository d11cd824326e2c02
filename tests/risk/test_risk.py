"""Risk estimates: their definition, their truth, their standard errors, their test losses."""

import numpy as np
import pytest

from backends import everywhere, sp
from problems import draw
from steinpath.problem._scoring import CRITERIA, resolve_test_loss
from steinpath.risk._risk import compare_risks


def small_path(loss=None, **options):
    X, y, model = draw(60, 30)
    return sp.run(X, y, loss or sp.LAD(), sp.Lasso(0.3), n_iter=10, **options), model


@everywhere
def test_estimates_are_the_papers_formulas():
    path, model = small_path()
    W, K, A = sp.correction_matrices(path, model.covariance)
    for covariance, weights in ((model.covariance, W), (None, np.linalg.inv(K) @ A)):
        risk = sp.estimate_risk(path, covariance=covariance, method="exact")
        for t in (0, 1, 4, 10):
            shift = sum(weights[t, s - 1] * path.dual[s - 1] for s in range(1, t + 1))
            corrected = path.fitted[t] - shift
            losses = np.abs(path.y - corrected)
            np.testing.assert_allclose(risk.corrected[t], corrected, atol=1e-12)
            np.testing.assert_allclose(risk.values[t], losses.mean())
            optimism = losses.mean() - np.abs(path.y - path.fitted[t]).mean()
            stderr = np.sqrt((losses.var(ddof=1) + 2 * optimism**2) / 60)
            np.testing.assert_allclose(risk.stderr[t], stderr)
            np.testing.assert_allclose(risk.train[t], np.abs(path.y - path.fitted[t]).mean())
        assert risk.best_iter == np.argmin(risk.values)
        assert risk.covariance_known == (covariance is not None)
        assert (risk.probe_stderr == 0).all()
        assert risk.test_loss == "absolute"


@everywhere
def test_corrections_of_an_intercept_use_centred_duals():
    path, _ = small_path(fit_intercept=True)
    _, K, A = sp.correction_matrices(path)
    risk = sp.estimate_risk(path, method="exact")
    duals = path.dual - path.dual.mean(axis=1, keepdims=True)
    expected = path.fitted - np.linalg.solve(K, A)[:, :10] @ duals
    np.testing.assert_allclose(risk.corrected, expected, atol=1e-12)


@everywhere
def test_row_scale_multiplies_each_rows_correction():
    path, _ = small_path()
    rho = np.linspace(0.5, 2, 60)
    _, K, A = sp.correction_matrices(path, row_scale=rho)
    risk = sp.estimate_risk(path, method="exact", row_scale=rho)
    squares = rho**2 / np.mean(rho**2)
    expected = path.fitted - squares * (np.linalg.solve(K, A)[:, :10] @ path.dual)
    np.testing.assert_allclose(risk.corrected, expected, atol=1e-12)
    norms = np.linalg.norm(path.design.example, axis=1)
    by_name, by_hand = (
        sp.estimate_risk(path, method="exact", row_scale=scale) for scale in ("norm", norms)
    )
    np.testing.assert_allclose(by_name.values, by_hand.values, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot(), sp.Huber()], ids=repr)
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
def test_estimates_are_close_to_the_truth_on_average(loss, fit_intercept):
    """Monte Carlo: the mean error over data sets is small, the training error's is not."""
    covariance = sp.simulate.toeplitz(100)
    signal = sp.simulate.sparse_signal(covariance)
    options = {"mean": np.linspace(-1, 1, 100), "intercept": 3.0} if fit_intercept else {}
    model = sp.simulate.LinearModel(signal, covariance, "normal", **options)
    errors = []
    for seed in range(12):
        X, y = model.sample(200, seed)
        path = sp.run(X, y, loss, sp.Lasso(0.3), n_iter=15, fit_intercept=fit_intercept)
        truth = model.risk(path.coef, loss, path.intercept)
        estimates = [
            sp.estimate_risk(path, covariance=c, method="exact") for c in (model.covariance, None)
        ]
        errors.append([risk.values - truth for risk in estimates] + [estimates[0].train - truth])
    mean = np.mean(errors, axis=0)
    stderr = np.std(errors, axis=0, ddof=1) / np.sqrt(len(errors))
    assert (np.abs(mean[:2]) <= 3 * stderr[:2] + 0.02).all()
    assert (np.abs(mean[2, 5:]) > 5 * stderr[2, 5:]).all()


@pytest.mark.parametrize(
    ("loss", "penalty"),
    [(sp.LAD(), sp.Lasso(0.3)), (sp.LAD(), sp.Ridge(0.3)), (sp.SquareRoot(), sp.Ridge(0.3))],
    ids=repr,
)
def test_without_the_covariance_the_estimate_comes_to_the_same(loss, penalty):
    """R-hat less R-tilde falls like 1/n: the median over data sets, of root mean squares over t.

    The paper proves n^(-1/4) and expects better: both corrections are traces, whose fluctuations
    are of the order of 1/n. Weights that are wrong by 5% bring the slope to -0.35 or above.
    """
    sizes, gaps = (32, 64, 128, 256), []
    for n in sizes:
        model = sp.simulate.paper_model(n // 2, noise="normal")
        squares = []
        for seed in range(8):
            path = sp.run(
                *model.sample(n, seed), loss, penalty, sp.ChambollePock(0.3, 0.3), n_iter=8
            )
            tilde, hat = (
                sp.estimate_risk(path, covariance=covariance, method="exact").values
                for covariance in (model.covariance, None)
            )
            squares.append(np.mean((hat - tilde)[1:] ** 2))
        gaps.append(np.sqrt(np.median(squares)))
    slope, _ = np.polyfit(np.log(sizes), np.log(gaps), 1)
    assert -1.4 < slope < -0.65, gaps
    # the training error is farther from both, and stays so
    assert gaps[-1] < 0.05 * np.mean(tilde[1:] - sp.estimate_risk(path, method="exact").train[1:])


@pytest.mark.slow
def test_small_intercept_model_is_unbiased():
    """With n = 30 and p = 2 the intercept's own optimism would show."""
    covariance = sp.simulate.toeplitz(2)
    model = sp.simulate.LinearModel([1.0, -1.0], covariance, mean=[1.0, -2.0], intercept=3.0)
    errors = []
    for seed in range(400):
        X, y = model.sample(30, seed)
        path = sp.run(X, y, sp.Squared(), sp.Ridge(0.1), n_iter=25, fit_intercept=True)
        truth = model.risk(path.coef[-1], "squared", path.intercept[-1])
        estimates = [sp.estimate_risk(path, None, c, method="exact") for c in (covariance, None)]
        errors.append([risk.values[-1] - truth for risk in estimates])
    mean, stderr = np.mean(errors, axis=0), np.std(errors, axis=0) / 20
    assert (np.abs(mean) <= 3 * stderr).all()
    assert (stderr < 0.02).all()  # three times less than the optimism of 2 / n


def test_probe_standard_error_is_the_spread_over_probes():
    path, model = small_path()
    for covariance in (None, model.covariance):
        risks = [
            sp.estimate_risk(path, covariance=covariance, method="hutchinson", rng=seed)
            for seed in range(200)
        ]
        spread = np.std([risk.values for risk in risks], axis=0)[2:]
        claimed = np.sqrt(np.mean([risk.probe_stderr**2 for risk in risks], axis=0))[2:]
        np.testing.assert_allclose(claimed, spread, rtol=0.3)
    single = sp.estimate_risk(path, method="hutchinson", n_probes=1)
    assert np.isinf(single.probe_stderr).all()


@everywhere
def test_centering_subtracts_the_zero_prediction():
    path, _ = small_path()
    plain, centered = sp.estimate_risk(path), sp.estimate_risk(path, centered=True)
    baseline = np.mean(np.abs(path.y))
    np.testing.assert_allclose(centered.values + baseline, plain.values, rtol=1e-12)
    np.testing.assert_allclose(centered.train + baseline, plain.train, rtol=1e-12)
    assert centered.values[0] == pytest.approx(0)
    assert centered.best_iter == plain.best_iter
    assert (centered.stderr < plain.stderr).all()
    np.testing.assert_array_equal(centered.corrected, plain.corrected)


@everywhere
def test_auto_takes_the_cheapest():
    path, model = small_path()
    assert sp.estimate_risk(path).method == "loo"
    assert sp.estimate_risk(path, covariance=model.covariance).method == "exact"
    model = sp.simulate.paper_model(200)
    X, y = model.sample(400, rng=0)
    for loss, penalty, expected in (
        (sp.LAD(), sp.Ridge(0.5), "compressed"),
        (sp.SquareRoot(), sp.Lasso(0.5), "compressed"),
        (sp.SquareRoot(), sp.Ridge(0.5), "spectral"),
        (sp.Squared(), sp.NoPenalty(), "spectral"),
    ):
        path = sp.run(X, y, loss, penalty, n_iter=60)
        for covariance in (None, model.covariance):
            assert sp.estimate_risk(path, covariance=covariance, rng=0).method == expected


@everywhere
def test_a_linearisation_that_diverges_says_so():
    X, y, _ = draw(60, 30)
    steep = sp.Recursion(
        dual=lambda t, u, v: -np.tanh(v[-1]),
        primal=lambda t, b, eta: b[-1] - 0.1 * eta[-1],
        dual_jvp=lambda t, u, v, du, dv: -1e200 * dv[-1],
        primal_jvp=lambda t, b, eta, db, deta: db[-1] - 0.1 * deta[-1],
    )
    path = sp.run(X, y, sp.Squared(), sp.NoPenalty(), steep, n_iter=5)
    with pytest.raises(FloatingPointError, match="predictions are not finite"):
        sp.estimate_risk(path)


# ----- Test losses -----


@everywhere
def test_named_losses():
    r = np.array([-3.0, -0.05, 0.0, 0.5, 2.0])
    y, zero = r, np.zeros(5)
    expected = {
        "absolute": np.abs(r),
        "squared": r**2,
        "huber": np.where(np.abs(r) <= 1.35, r**2 / 2, 1.35 * np.abs(r) - 1.35**2 / 2),
        "pseudo_huber": 1.35**2 * (np.sqrt(1 + (r / 1.35) ** 2) - 1),
        "epsilon_insensitive": np.maximum(np.abs(r) - 0.1, 0),
        "quantile": np.abs(r) / 2,
    }
    assert set(expected) == {name for name, kind in CRITERIA.items() if not kind.margin}
    for name, values in expected.items():
        np.testing.assert_allclose(resolve_test_loss(name)(y, zero), values, atol=1e-14)


def test_losses_bring_their_parameters():
    assert resolve_test_loss(None, sp.Quantile(0.9)) == CRITERIA["quantile"](0.9)
    assert resolve_test_loss("pseudo_huber", sp.Huber(2.0)) == CRITERIA["pseudo_huber"](2.0)
    assert resolve_test_loss(sp.Huber(3.0), sp.Huber(2.0)) == CRITERIA["huber"](3.0)
    assert resolve_test_loss(None, sp.SquareRoot()) == CRITERIA["squared"]()
    assert resolve_test_loss(sp.EpsilonInsensitive(0.5)).parameter == 0.5


def test_callables():
    path, _ = small_path()

    def hinge(y, prediction):
        return np.maximum(1 - y * prediction, 0)

    risk = sp.estimate_risk(path, test_loss=hinge)
    assert risk.test_loss == "hinge"
    np.testing.assert_allclose(risk.values[0], 1.0)
    absolute = sp.estimate_risk(path, test_loss=lambda y, z: abs(y - z))
    np.testing.assert_allclose(absolute.values, sp.estimate_risk(path).values)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test_loss": lambda y, z: 1.0}, "one number per observation"),
        ({"test_loss": lambda y, z: (y - z)[:-1]}, "one number per observation"),
        ({"test_loss": lambda y, z: y * np.nan}, "NaN or infinite"),
        ({"test_loss": "hinge"}, "test_loss='hinge' requires labels y of -1 and 1"),
        ({"test_loss": "quadratic"}, "test_loss must be one of 'absolute'"),
        ({"test_loss": 3}, "test_loss must be a name"),
        ({"test_loss": sp.Huber}, "test_loss is the class Huber"),
        ({"centered": "no"}, "centered must be True or False"),
        ({"rng": "seed"}, "rng must be None"),
        ({"method": "guess"}, "method must be one of 'auto', 'compressed'"),
        ({"method": "spectral"}, "requires the square-root or squared loss"),
        ({"method": "loo", "covariance": np.eye(30)}, "does not use a covariance"),
        ({"precision": "half"}, "precision must be one of 'float32'"),
        ({"probe_tol": 0}, "probe_tol must be a finite number"),
        ({"method": "hutchinson", "n_probes": 0}, "n_probes must be at least 1"),
        ({"n_probes": 2.5}, "n_probes must be an integer"),
        ({"covariance": np.eye(29)}, r"shape \(29, 29\), but X has 30 columns"),
        ({"covariance": np.ones(30)}, "2 dimensions"),
        ({"covariance": np.triu(np.ones((30, 30)))}, "not symmetric"),
        ({"covariance": -np.eye(30)}, "not positive semidefinite"),
        ({"covariance": np.full((30, 30), np.nan)}, "NaN"),
        ({"row_scale": "leverage"}, "row_scale must be None, 'norm', 'auto' or an array"),
        ({"row_scale": np.ones(59)}, "one nonnegative entry for each of the 60 rows"),
        ({"row_scale": -np.ones(60)}, "nonnegative"),
        ({"row_scale": np.zeros(60)}, "must not be zero for all rows"),
    ],
)
def test_bad_options_are_refused(options, message):
    path, _ = small_path()
    with pytest.raises((ValueError, TypeError), match=message):
        sp.estimate_risk(path, **options)


@pytest.mark.parametrize(
    "test_loss", ["absolute", lambda y, z: np.abs(y - z)], ids=["named", "own"]
)
def test_paths_of_two_losses_are_compared_row_by_row(test_loss):
    """Each measures y from a level of its own, the median or the mean."""
    X, y, _ = draw(60, 5)
    y = np.exp(y)  # whose mean is far from its median
    one, other = (
        sp.estimate_risk(
            sp.run(X, y, loss, sp.Lasso(0.2), n_iter=20, fit_intercept=True),
            test_loss,
            method="exact",
        )
        for loss in (sp.LAD(), sp.SquareRoot())
    )
    losses = [np.abs(y - risk.corrected[t]) for risk, t in ((one, 7), (other, 15))]
    difference, stderr = compare_risks(one, 7, other, 15)
    assert difference == pytest.approx(np.mean(losses[0] - losses[1]))
    shared = 2 / 60 * (one.values[7] - one.train[7]) ** 2
    shared -= 2 / 60 * (other.values[15] - other.train[15]) ** 2
    variance = np.var(losses[0] - losses[1], ddof=1) / 60 + abs(shared)
    assert stderr == pytest.approx(np.sqrt(variance))


@pytest.mark.filterwarnings("ignore:.*may diverge")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_iterate_that_runs_away_says_nothing_of_others(dtype):
    """Squares are taken in units of each iterate's own losses."""
    X, y, _ = draw(60, 30)
    algorithm = sp.ProximalGradient(step=2.0)
    short, long = (
        sp.run(X.astype(dtype), y, sp.Squared(), sp.Lasso(0.05), algorithm, n_iter=n)
        for n in (6, 18)
    )
    assert long.objective[-1] > 1e12 * long.objective[0]
    for options in ({"method": "exact"}, {"method": "loo"}, {"method": "loo", "audit": 8}):
        one, other = (sp.estimate_risk(path, rng=0, **options) for path in (short, long))
        np.testing.assert_allclose(other.stderr[:7], one.stderr, rtol=1e-4)
        assert (other.stderr > 0).all()
    one, other = (sp.cross_validate_path(path, rng=0).stderr for path in (short, long))
    np.testing.assert_allclose(other[:7], one, rtol=1e-4)
