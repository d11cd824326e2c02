"""Stopping on the estimated risk: when a run ends, and that nothing else about it changes."""

import numpy as np
import pytest

from backends import everywhere, sp
from problems import draw
from steinpath._support.arrays import cast, clip

LASSO = sp.Lasso(0.1)
CLIPPED = sp.Recursion(
    dual=lambda t, u, v: -clip(v[-1], -0.1, 0.1),
    primal=lambda t, b, eta: b[-1] - 0.3 * eta[-1],
    dual_jvp=lambda t, u, v, du, dv: -dv[-1] * cast(abs(v[-1]) < 0.1, dv[-1].dtype)[:, None],
    primal_jvp=lambda t, b, eta, db, deta: db[-1] - 0.3 * deta[-1],
)


def overfitting():
    """Data on which the best iterate comes early."""
    return sp.simulate.paper_model(40).sample(60, rng=0)


def heavy_tailed():
    """More of them, on which it comes early whichever rows the standard errors look at."""
    return sp.simulate.paper_model(60, "t2").sample(120, rng=0)


def assert_beginning(part, whole):
    """The one path is the beginning of the other, to the last bit; intercepts are sums of them."""
    N = part.n_iter
    np.testing.assert_array_equal(part.coef, whole.coef[: N + 1])
    np.testing.assert_array_equal(part.dual, whole.dual[:N])
    np.testing.assert_array_equal(part.fitted, whole.fitted[: N + 1])
    np.testing.assert_allclose(part.intercept, whole.intercept[: N + 1], rtol=0, atol=1e-14)
    assert part.algorithm == whole.algorithm


# ----- When a run ends -----


def test_horizons_grow_to_the_last_iteration():
    stop = sp.StopOnRisk(patience=5, growth=1.5)
    assert list(stop.horizons(40)) == [10, 15, 23, 35, 40]
    assert list(stop.horizons(11)) == [10, 11]
    for n_iter in (10, 9, 1):
        assert list(stop.horizons(n_iter)) == [n_iter]
    assert list(sp.StopOnRisk(patience=1, growth=1.01).horizons(5)) == [2, 3, 4, 5]
    assert list(sp.StopOnRisk().horizons(100)) == [40, 60, 90, 100]


@everywhere
@pytest.mark.parametrize(
    ("loss", "algorithm"),
    [(sp.LAD(), sp.ChambollePock()), (sp.Squared(), sp.ProximalGradient(0.1))],
    ids=["lad", "squared"],
)
def test_a_run_ends_when_the_rise_is_significant(loss, algorithm):
    """The rule by hand, on leave-one-out of the full run."""
    X, y = overfitting()
    full = sp.run(X, y, loss, LASSO, algorithm, n_iter=150)
    risk = sp.estimate_risk(full, method="loo", rng=0)
    ends = set()
    for patience, growth in ((2, 1.5), (5, 1.5), (10, 1.2), (20, 1.5), (30, 2.0), (70, 1.5)):
        stop = sp.StopOnRisk(patience=patience, growth=growth, method="loo", rng=0)
        for expected in stop.horizons(150):
            best = risk.values[: expected + 1].argmin()
            rise, error = risk.compare(expected, best)
            if expected - best >= patience and rise > error:
                break
        path = sp.run(X, y, loss, LASSO, algorithm, n_iter=150, stop=stop)
        assert path.n_iter == expected
        assert path.risk.best_iter == best
        ends.add(expected)
    assert min(ends) > 10  # the first looks, after 4 and 10 iterations, were too early


def test_patience_counts_from_the_best_iterate():
    """Iterates on rails: to the true coefficients until the 13th, then back again."""
    X, y, model = draw(60, 20, noise_scale=0.01)
    rails = sp.Recursion(
        dual=lambda t, u, v: 0 * v[-1],
        primal=lambda t, b, eta: model.coef * (1 - abs(t - 13) / 13),
        dual_jvp=lambda *_: None,
        primal_jvp=lambda *_: None,
    )
    for patience, end in ((8, 21), (9, 23), (10, 23), (11, 24)):  # of 9, no look after 22
        stop = sp.StopOnRisk(patience=patience, growth=1.05, method="loo")
        assert end in stop.horizons(30)
        path = sp.run(X, y, sp.LAD(), sp.NoPenalty(), rails, n_iter=30, stop=stop)
        assert (path.risk.best_iter, path.n_iter) == (13, end)
    difference, error = path.risk.compare(15, 13)
    assert difference > 5 * error  # it was not for a lack of significance that it waited


@everywhere
@pytest.mark.parametrize("slow", [True, False], ids=["falling", "flat"])
def test_a_risk_that_does_not_rise_ends_no_run(slow):
    X, y, _ = draw(60, 20, noise_scale=0.1)
    penalty = sp.NoPenalty() if slow else sp.Lasso(3 * sp.lam_max(X, y, sp.Squared(), LASSO))
    algorithm = sp.ProximalGradient(0.01)
    path = sp.run(X, y, sp.Squared(), penalty, algorithm, n_iter=33, stop=sp.StopOnRisk(patience=1))
    assert path.n_iter == 33
    assert path.risk.values.shape == (34,)
    change = np.diff(path.risk.values)
    assert (change < 0).all() if slow else (change == 0).all()


class Rule:
    """Looks after 1, 4, 9 and all iterations, and stops at one of them, or at none."""

    def __init__(self, end=None):
        self.end, self.seen = end, []

    def horizons(self, n_iter):
        return 1, 4, 9, n_iter

    def evaluate(self, path):
        self.seen.append(path)
        return path, path.n_iter == self.end


def test_a_rule_sees_the_run_so_far():
    X, y = overfitting()
    full = sp.run(X, y, sp.LAD(), LASSO, n_iter=12)
    assert full.risk is None
    for end, seen in ((4, [1, 4]), (None, [1, 4, 9, 12])):
        rule = Rule(end)
        assert sp.run(X, y, sp.LAD(), LASSO, n_iter=12, stop=rule).n_iter == seen[-1]
        assert [path.n_iter for path in rule.seen] == seen
        for path in rule.seen:
            assert_beginning(path, full)


# ----- What it returns -----


RECURSION = {"penalty": sp.NoPenalty(), "algorithm": CLIPPED}
KNOWN = {"covariance": sp.simulate.toeplitz(40)}
SCALED = {"method": "compressed", "row_scale": "norm", "test_loss": sp.Huber(0.5)}
SETTINGS = {
    "lad": (heavy_tailed, sp.LAD(), {}, {}),
    "intercept": (heavy_tailed, sp.LAD(), {"fit_intercept": True}, {}),
    "fista": (heavy_tailed, sp.Squared(), RECURSION | {"algorithm": sp.FISTA()}, {}),
    "admm": (
        *(overfitting, sp.SquareRoot()),
        *({"algorithm": sp.LinearizedADMM()}, {"test_loss": "absolute"}),
    ),
    "recursion": (overfitting, sp.Squared(), RECURSION, {}),
    "covariance": (overfitting, sp.LAD(), {}, KNOWN),
    "folds": (heavy_tailed, sp.LAD(), {}, {"method": "folds"}),
    "compressed": (overfitting, sp.LAD(), {}, {"method": "compressed"}),
    "row scale": (overfitting, sp.Huber(), {}, SCALED),
}


@everywhere(every=3)
@pytest.mark.parametrize(("data", "loss", "options", "how"), SETTINGS.values(), ids=SETTINGS)
def test_iterates_and_risk_are_those_of_a_shorter_run(data, loss, options, how):
    X, y = data()
    problem = {"X": X, "y": y, "loss": loss, "penalty": LASSO} | options
    full = sp.run(**problem, n_iter=150)
    stopped = sp.run(**problem, n_iter=150, stop=sp.StopOnRisk(patience=4, rng=3, **how))
    assert 8 <= stopped.n_iter < 150
    assert stopped.risk.best_iter <= stopped.n_iter - 4
    assert_beginning(stopped, full)
    shorter = sp.run(**problem, n_iter=stopped.n_iter)
    again = sp.estimate_risk(shorter, rng=3, audit=32, **how)
    for name in ("test_loss", "method", "covariance_known"):
        assert getattr(stopped.risk, name) == getattr(again, name)
    for name in ("values", "raw", "train", "stderr", "probe_stderr", "corrected"):
        np.testing.assert_array_equal(getattr(stopped.risk, name), getattr(again, name))


# ----- What is refused -----


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patience": 0}, "patience must be at least 1"),
        ({"patience": 2.5}, "patience must be an integer"),
        ({"growth": 1}, r"growth must be a finite number in \(1, "),
        ({"growth": "2"}, "growth must be a real number"),
        ({"method": "guess"}, "method must be one of 'auto', 'compressed'"),
        ({"audit": 1}, "audit must be at least 2"),
        ({"audit": "all"}, "audit must be a number of rows or 'folds'"),
        ({"rng": "seed"}, "rng must be None"),
    ],
)
def test_bad_rules_are_refused(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        sp.StopOnRisk(**options)


def test_bad_options_of_the_estimate_are_refused():
    X, y = overfitting()
    for how, message in (
        ({"test_loss": "quadratic"}, "test_loss must be one of"),
        ({"method": "spectral"}, "requires the square-root or squared loss"),
        ({"covariance": np.eye(3)}, "X has 40 columns"),
    ):
        with pytest.raises(ValueError, match=message):
            sp.run(X, y, sp.LAD(), LASSO, n_iter=5, stop=sp.StopOnRisk(**how))


@pytest.mark.parametrize("last", [3, 50], ids=["before the first look", "after some"])
def test_divergence_is_reported(last):
    X, y, _ = draw(60, 20)
    explode = sp.Recursion(
        dual=lambda t, u, v: -v[-1],
        primal=lambda t, b, eta: b[-1] - (0.01 if t < last else np.inf) * eta[-1],
        dual_jvp=lambda t, u, v, du, dv: -dv[-1],
        primal_jvp=lambda t, b, eta, db, deta: db[-1] - 0.01 * deta[-1],
    )
    stop = sp.StopOnRisk(patience=5, rng=0)
    with pytest.raises(sp.DivergenceError, match=f"iterate {last} is not finite") as caught:
        sp.run(X, y, sp.Squared(), sp.NoPenalty(), explode, n_iter=100, stop=stop)
    assert caught.value.iterate == last


# ----- Comparing two iterates -----


def test_comparing_iterates_that_are_not_there_is_refused():
    X, y, _ = draw(30, 10)
    risk = sp.estimate_risk(sp.run(X, y, sp.LAD(), sp.Lasso(0.3), n_iter=5))
    with pytest.raises(ValueError, match="t1 must be at least 0"):
        risk.compare(-1, 2)
    with pytest.raises(ValueError, match="t2 must be at most 5"):
        risk.compare(0, 6)


def test_slow_divergence_is_reported_as_such():
    X, y = sp.simulate.paper_model(60, "t2").sample(120, rng=0)
    stop = sp.StopOnRisk(patience=50)
    with (
        pytest.warns(UserWarning, match="may diverge"),
        pytest.raises(sp.DivergenceError, match="step sizes are too large"),
    ):
        sp.run(X, y, sp.Squared(), sp.NoPenalty(), sp.ProximalGradient(100.0), 2000, stop=stop)


# ----- Rules of the user's own -----


@pytest.mark.parametrize("missing", ["horizons", "evaluate"])
def test_rules_without_one_of_their_methods_are_refused(missing):
    X, y = overfitting()
    rule = Rule()
    setattr(rule, missing, None)
    for no_rule in (rule, 5):
        with pytest.raises(TypeError, match="object with the methods horizons and evaluate"):
            sp.run(X, y, sp.LAD(), LASSO, n_iter=3, stop=no_rule)


@pytest.mark.parametrize("method", ["horizons", "evaluate"])
def test_errors_of_a_rule_are_its_own(method):
    def fails(*_):
        raise ZeroDivisionError

    rule = Rule()
    setattr(rule, method, fails)
    with pytest.raises(ZeroDivisionError):
        sp.run(*overfitting(), sp.LAD(), LASSO, n_iter=12, stop=rule)


@everywhere
@pytest.mark.parametrize("known", [False, True], ids=["estimated", "known"])
def test_exact_estimates_do_not_depend_on_later_iterations(known):
    X, y = overfitting()
    how = {"method": "exact", "covariance": sp.simulate.toeplitz(40) if known else None, "audit": 0}
    stop = sp.StopOnRisk(patience=4, growth=1.2, **how)
    stopped = sp.run(X, y, sp.LAD(), LASSO, n_iter=30, stop=stop)
    full = sp.estimate_risk(sp.run(X, y, sp.LAD(), LASSO, n_iter=30), **how)
    assert stopped.n_iter < 30
    for name in ("values", "stderr", "corrected"):
        expected = getattr(full, name)[: stopped.n_iter + 1]
        np.testing.assert_allclose(getattr(stopped.risk, name), expected, atol=1e-8)
