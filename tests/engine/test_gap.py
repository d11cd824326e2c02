"""The duality gap: above the distance to optima that other solvers find, and zero in the end."""

import math
import runpy
from pathlib import Path as File

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

import steinpath as sp
from backends import everywhere
from backends import sp as seen_sp
from problems import ALGORITHM_EXAMPLES, PENALTY_EXAMPLES, draw, handles
from problems import REGRESSION_EXAMPLES as LOSS_EXAMPLES
from steinpath.engine import _gap

SMOOTH = ("huber", "squared", "square_root")
NOT_CONVEX = ("mcp", "scad")
CONVEX = [name for name in PENALTY_EXAMPLES if name not in NOT_CONVEX]
INTERCEPT = pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
COUNTS = np.random.default_rng(1).integers(1, 4, 40)


def snippet(name):
    """What a snippet of the documentation defines."""
    return runpy.run_path(File(__file__).parents[2] / "docs" / "snippets" / f"{name}.py")


def assert_bounds(path, optimum):
    """The gap is at least the distance to the optimum, but for rounding."""
    gap, objective = np.asarray(path.gap), np.asarray(path.objective)
    rounding = 100 * np.finfo(gap.dtype).eps * objective[0]
    assert gap.shape == objective.shape
    assert np.all(np.isfinite(gap))
    assert np.all(gap >= 0)
    assert np.all(gap >= objective - optimum - rounding)


# ------------------------------------------------------------------------------------------------
# Against other solvers
# ------------------------------------------------------------------------------------------------


CVXPY_RHO = {
    "lad": lambda r, loss: cp.abs(r),
    "quantile": lambda r, loss: cp.maximum(loss.q * r, (loss.q - 1) * r),
    "huber": lambda r, loss: cp.huber(r, loss.delta) / 2,
    "epsilon_insensitive": lambda r, loss: cp.pos(cp.abs(r) - loss.eps),
    "squared": lambda r, loss: cp.square(r) / 2,
}


@pytest.mark.parametrize("name", LOSS_EXAMPLES)
def test_gap_bounds_the_distance_to_a_conic_program(name):
    X, y, _ = draw(40, 9)
    loss, groups = LOSS_EXAMPLES[name], np.arange(9) % 3
    weights = COUNTS / COUNTS.mean()
    b, c = cp.Variable(9), cp.Variable()
    r = y - X @ b - c
    if name == "square_root":
        h = cp.norm(cp.multiply(np.sqrt(weights), r))
    else:
        h = weights @ CVXPY_RHO[name](r, loss) / math.sqrt(40)
    factors = np.array([0.0, 0, 1, 2, 1, 1, 1, 0.5, 1])
    for penalty, g in (
        (sp.Lasso(0.4, weights=factors), 0.4 * factors @ cp.abs(b)),
        (sp.GroupLasso(0.5, groups), 0.5 * sum(cp.norm(b[groups == k]) for k in range(3))),
        (sp.NoPenalty(), 0.0),
        (sp.Ridge(0.5), 0.25 * cp.sum_squares(b)),
    ):
        optimum = cp.Problem(cp.Minimize(h + g)).solve(solver=cp.CLARABEL)
        path = sp.run(X, y, loss, penalty, n_iter=1000, fit_intercept=True, sample_weight=COUNTS)
        assert_bounds(path, optimum + 1e-6)  # as closely as that solver found it
        assert path.gap[-1] < 5e-3 * optimum


# ------------------------------------------------------------------------------------------------
# Every loss, penalty and algorithm
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("intercept", "weights"),
    [
        pytest.param(False, None, marks=pytest.mark.slow),
        pytest.param(True, None, marks=pytest.mark.slow),
        (True, COUNTS),
    ],
    ids=["plain", "intercept", "weighted"],
)
@pytest.mark.parametrize("penalty", CONVEX)
@pytest.mark.parametrize("loss", LOSS_EXAMPLES)
def test_gap_ends_at_zero(loss, penalty, weights, intercept):
    X, y, _ = draw(40, 6)
    path = sp.run(
        X,
        y,
        LOSS_EXAMPLES[loss],
        PENALTY_EXAMPLES[penalty](6),
        n_iter=2000,
        fit_intercept=intercept,
        sample_weight=weights,
    )
    assert_bounds(path, path.objective.min())
    assert np.all(np.diff(path.objective - path.gap) >= -1e-12 * path.objective[0])
    assert path.gap[-1] <= (1e-9 if loss in SMOOTH else 1e-3) * path.objective[-1]


@pytest.mark.parametrize("seed", range(25))
def test_gap_bounds_the_distance_on_random_problems(seed):
    rng = np.random.default_rng(seed)
    n, p = (int(k) for k in rng.integers(5, 40, 2))
    X = rng.standard_normal((n, p)) @ (np.eye(p) + rng.standard_normal((p, p)))
    X = X * 10.0 ** rng.integers(-2, 3, p) + 3 * rng.standard_normal(p)
    y = X @ (rng.standard_normal(p) * (rng.random(p) < 0.3)) + rng.standard_t(2, n)
    loss = rng.choice(list(LOSS_EXAMPLES.values()))
    penalty = PENALTY_EXAMPLES[rng.choice(CONVEX)](p)
    if hasattr(penalty, "lam"):
        penalty = type(penalty)(**{**arguments(penalty), "lam": 10.0 ** rng.uniform(-3, 1)})
    algorithm = rng.choice([own for own in ALGORITHM_EXAMPLES.values() if handles(own, loss)])
    if algorithm == ALGORITHM_EXAMPLES["chambolle-pock-theta"]:  # whose steps are given
        algorithm = sp.ChambollePock(theta=0.5)
    weights = rng.uniform(0.1, 3, n) if rng.random() < 0.5 else None
    rest = {"fit_intercept": bool(rng.random() < 0.5), "sample_weight": weights}
    path = sp.run(X, y, loss, penalty, algorithm, 200, **rest)
    best = sp.run(X, y, loss, penalty, n_iter=2000, **rest)
    assert_bounds(path, best.objective.min())


def arguments(penalty):
    return {name: value for name, value in vars(penalty).items() if not name.startswith("_")}


# ------------------------------------------------------------------------------------------------
# Penalties that are not convex
# ------------------------------------------------------------------------------------------------


@INTERCEPT
@pytest.mark.parametrize("penalty", [sp.MCP(0.3, gamma=2.5), sp.SCAD(0.2)], ids=NOT_CONVEX)
@pytest.mark.parametrize("name", SMOOTH)
def test_gap_of_a_penalty_that_is_not_convex_is_zero_where_it_is_stationary(
    name, penalty, intercept
):
    X, y, _ = draw(60, 10)
    path = sp.run(X, y, LOSS_EXAMPLES[name], penalty, n_iter=3000, fit_intercept=intercept)
    assert np.any(penalty.derivative(np.abs(path.coef[-1])) < 1e-12)  # it is flat there
    assert path.gap[-1] <= 1e-9 * path.objective[-1]
    assert path.gap[5] > 1e-3 * path.objective[5]


def test_gap_of_a_penalty_that_is_not_convex_is_that_of_a_weighted_lasso():
    X, y, _ = draw(60, 10)
    penalty = sp.MCP(0.6)
    path = sp.run(X, y, sp.Huber(), penalty, n_iter=40)
    for t in (0, 3, 10, 40):
        lasso = sp.Lasso(1.0, weights=np.maximum(0.6 - np.abs(path.coef[t]) / 3, 0))
        best = sp.run(X, y, sp.Huber(), lasso, n_iter=3000).objective.min()
        here = sp.Huber().value(y - path.fitted[t]) + lasso.value(path.coef[t])
        assert path.gap[t] >= here - best - 1e-12
    assert path.gap[0] == pytest.approx(path.objective[0])


# ------------------------------------------------------------------------------------------------
# Columns
# ------------------------------------------------------------------------------------------------


def test_equal_columns_need_no_penalty_of_their_own():
    X, y, _ = draw(40, 5)
    X = np.column_stack([X, X[:, 0], X[:, 1] + X[:, 2], np.zeros(40)])
    for penalty in (sp.NoPenalty(), sp.Lasso(0.0), sp.GroupLasso(0.0, np.arange(8) % 2)):
        path = sp.run(X, y, sp.Squared(), penalty, n_iter=3000, fit_intercept=True)
        assert_bounds(path, path.objective.min())
        assert path.gap[-1] < 1e-6 * path.objective[-1]


def test_dummy_variables_of_all_categories_do_no_harm():
    # centred, they add up to zero: products with them cannot be anything
    rng = np.random.default_rng(0)
    codes = [(k, rng.integers(0, k, 300)) for k in (4, 5, 3)]
    X = np.hstack([*(np.eye(k)[code] for k, code in codes), rng.standard_normal((300, 3))])
    y = X @ rng.standard_normal(15) + rng.standard_t(2, 300)
    for dtype in (np.float64, np.float32):
        data = X.astype(dtype), y.astype(dtype)
        path = sp.run(*data, sp.Huber(), sp.Lasso(0.005), n_iter=100, fit_intercept=True)
        assert np.all(path.coef[-1] != 0)
        assert path.gap[-1] < 2e-3 * path.objective[-1]


def test_more_free_columns_than_rows_leave_the_bound_zero():
    rng = np.random.default_rng(0)
    path = sp.run(rng.standard_normal((8, 12)), rng.standard_normal(8), sp.LAD(), sp.NoPenalty())
    np.testing.assert_allclose(path.gap, path.objective, rtol=1e-10)


def test_columns_of_zeros_span_nothing():
    y = np.random.default_rng(0).standard_normal(20)
    for X in (np.zeros((20, 3)), sparse.csr_array((20, 3))):
        for penalty in (sp.NoPenalty(), sp.Lasso(0.3)):
            path = sp.run(X, y, sp.LAD(), penalty, n_iter=30)
            np.testing.assert_allclose(path.gap[-1], 0.0, atol=1e-12)


def test_units_of_the_columns_do_not_matter_where_they_are_free():
    X, y, _ = draw(40, 4)
    scale = np.array([1e-9, 1.0, 1e9, 1.0])
    path = sp.run(X * scale, y, sp.Squared(), sp.NoPenalty(), n_iter=50)
    left = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
    assert_bounds(path, sp.Squared().value(left))
    assert path.gap[-1] < path.objective[-1]  # all directions were projected out


def test_nearly_equal_columns_show_in_the_gap():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(100)
    X = np.column_stack([x, x + 1e-3 * rng.standard_normal(100)])
    y = 1e3 * (X[:, 0] - X[:, 1]) + 0.1 * rng.standard_normal(100)
    for penalty in (sp.Lasso(1e-4), sp.NoPenalty(), sp.Ridge(1e-6)):
        path = sp.run(X, y, sp.LAD(), penalty, fit_intercept=True)
        assert path.gap[-1] > 0.8 * path.objective[-1]


# ------------------------------------------------------------------------------------------------
# Where it is not known
# ------------------------------------------------------------------------------------------------


def test_gap_of_what_has_no_conjugate_is_infinite():
    PositiveLasso = snippet("positive_lasso")["PositiveLasso"]
    X, y, _ = draw(30, 4)
    assert np.all(np.isposinf(sp.run(X, y, sp.LAD(), PositiveLasso(0.3), n_iter=5).gap))

    class Own(sp.Huber):
        name = "own"

        def rho_conjugate(self, w):
            raise NotImplementedError

    assert np.all(np.isposinf(sp.run(X, y, Own(), sp.Lasso(0.3), n_iter=5).gap))


def test_gap_of_a_recursion_is_infinite():
    X, y, _ = draw(30, 4)
    recursion = sp.Recursion(
        dual=lambda t, u, v: -v[-1],
        primal=lambda t, b, eta: b[-1] - 0.1 * eta[-1],
        dual_jvp=lambda t, u, v, du, dv: -dv[-1],
        primal_jvp=lambda t, b, eta, db, deta: db[-1] - 0.1 * deta[-1],
    )
    path = sp.run(X, y, sp.Squared(), sp.NoPenalty(), recursion, n_iter=5)
    assert path.gap.shape == (6,)
    assert np.all(np.isposinf(path.gap))


def test_gap_is_infinite_where_free_columns_are_too_many_to_copy(monkeypatch):
    X, y, _ = draw(30, 20)
    monkeypatch.setattr(_gap, "_LARGEST_COPY", 0)
    assert np.all(np.isposinf(sp.run(X, y, sp.LAD(), sp.NoPenalty(), n_iter=5).gap))
    # those of nonzero coefficients only make bounds better
    assert np.all(np.isfinite(sp.run(X, y, sp.LAD(), sp.Lasso(0.1), n_iter=5).gap))


def test_a_penalty_from_the_base_class_has_a_gap_if_it_has_a_conjugate():
    class WithConjugate(snippet("positive_lasso")["PositiveLasso"]):
        name = "with_conjugate"

        def gauge(self, z):
            return np.maximum(np.max(z, axis=0), 0) / self.lam

        def conjugate(self, z):
            return np.zeros(z.shape[1:])

    X, y, _ = draw(40, 6)
    for intercept in (False, True):
        penalty = WithConjugate(0.2)
        path = sp.run(X, y, sp.Huber(), penalty, n_iter=2000, fit_intercept=intercept)
        assert_bounds(path, path.objective.min())
        assert path.gap[-1] < 1e-6 * path.objective[-1]


def test_a_penalty_by_its_pieces_has_a_gap():
    BoundedLasso = snippet("bounded_lasso")["BoundedLasso"]
    X, y, _ = draw(40, 6)
    path = sp.run(X, y, sp.Huber(), BoundedLasso(0.2, bound=0.1), n_iter=2000)
    assert np.max(np.abs(path.coef[-1])) == pytest.approx(0.1)
    assert_bounds(path, path.objective.min())
    assert path.gap[-1] < 1e-9 * path.objective[-1]


# ------------------------------------------------------------------------------------------------
# Arrays, designs, numbers
# ------------------------------------------------------------------------------------------------


@everywhere
@INTERCEPT
def test_gap_on_every_library(intercept):
    X, y, _ = draw(40, 6)
    for loss, penalty in (
        (seen_sp.LAD(), seen_sp.Lasso(0.4)),
        (seen_sp.SquareRoot(), seen_sp.GroupLasso(0.4, np.arange(6) % 3)),
        (seen_sp.Huber(), seen_sp.MCP(0.4)),
        (seen_sp.EpsilonInsensitive(), seen_sp.ElasticNet(0.4)),
    ):
        path = seen_sp.run(X, y, loss, penalty, n_iter=100, fit_intercept=intercept)
        assert path.gap.shape == (101,)
        assert np.all(path.gap >= 0)
        assert path.gap[-1] < 0.1 * path.objective[-1]


def test_gap_in_single_precision_is_close_to_that_in_double():
    X, y, _ = draw(80, 10)
    for loss in LOSS_EXAMPLES.values():
        for penalty in (sp.Lasso(0.5), sp.Ridge(0.5), sp.NoPenalty()):
            double = sp.run(X, y + 100, loss, penalty, n_iter=100, fit_intercept=True)
            single = sp.run(
                X.astype(np.float32),
                (y + 100).astype(np.float32),
                loss,
                penalty,
                n_iter=100,
                fit_intercept=True,
            )
            assert single.gap.dtype == np.float32
            difference = np.abs(single.gap - double.gap)
            assert np.max(difference) < 1e-3 * double.objective[0]


def test_gap_of_designs_is_that_of_the_matrix(tmp_path):
    X, y, _ = draw(40, 6)
    file = np.memmap(tmp_path / "X", dtype=float, mode="w+", shape=X.shape)
    file[:] = X
    for penalty in (sp.Lasso(0.3), sp.Lasso(0.3, weights=[0, 0, 1, 1, 1, 1])):
        rest = {"loss": sp.LAD(), "penalty": penalty, "n_iter": 60, "fit_intercept": True}
        expected = sp.run(X, y, **rest).gap
        for design in (sparse.csr_array(X), file):
            np.testing.assert_allclose(sp.run(design, y, **rest).gap, expected, rtol=1e-9)


@pytest.mark.parametrize("unit", [1e-60, 1e60])
def test_units_of_the_responses_do_not_matter(unit):
    X, y, _ = draw(40, 6)
    for loss, lam in (
        (sp.LAD(), 1.0),
        (sp.Quantile(0.3), 1.0),
        (sp.SquareRoot(), 1.0),
        (sp.Squared(), unit),
    ):
        for penalty, own in ((sp.Lasso(0.3), sp.Lasso(0.3 * lam)), (sp.NoPenalty(),) * 2):
            one = sp.run(X, y, loss, penalty, n_iter=100, fit_intercept=True)
            other = sp.run(X, unit * y, loss, own, n_iter=100, fit_intercept=True)
            size = one.objective[0]
            units = other.objective[0] / size
            np.testing.assert_allclose(other.gap / units, one.gap, atol=1e-6 * size)


def test_gap_is_zero_where_nothing_is_to_be_fitted():
    X, _, _ = draw(20, 3)
    for loss in LOSS_EXAMPLES.values():
        path = sp.run(X, np.zeros(20), loss, sp.Lasso(0.3), n_iter=3, fit_intercept=True)
        np.testing.assert_array_equal(path.gap, 0.0)
