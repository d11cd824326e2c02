"""Paths against a plain loop and against an interior-point solver, for random configurations.

Neither knows the package's losses, penalties or designs. Most of the seeds are in the slow tier.
"""

import inspect
from dataclasses import asdict, replace
from itertools import count, islice

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import configurations
import reference
import steinpath as sp
from configurations import CONVEX, RECURSIONS, draw
from steinpath._support.arrays import to_numpy
from steinpath.algorithms._base import ProximalAlgorithm
from steinpath.problem._losses import LOSSES
from steinpath.problem._penalties import PENALTIES

#: Configurations in all, and in the ordinary tier.
MANY, FEW = 200, 20


def seeds(wanted=lambda configuration: True):
    """The first configurations of a kind, the last few of them in the ordinary tier.

    Changes to each loss, penalty and algorithm, to weights and to the intercept were tried: those
    few notice all of them.
    """
    found = [*islice(filter(lambda seed: wanted(draw(seed)), count()), MANY)]
    slow = [pytest.param(seed, marks=pytest.mark.slow) for seed in found[:-FEW]]
    return pytest.mark.parametrize("seed", slow + found[-FEW:])


def double(array):
    return to_numpy(array).astype(float)


def starting_at(problem, start, rounding=1e-12):
    """The problem with an intercept that starts there, once that is seen to be best."""
    if not problem.fit_intercept:
        return problem
    if problem.loss.name == "hinge":  # where the squared hinge starts: see `Hinge.start`
        counts = problem.weights * class_weights(problem)
        assert start == pytest.approx(np.average(problem.y, weights=counts), abs=rounding)
        return replace(problem, start=start)
    costs = [problem.loss_value(problem.y - c) for c in (start, *problem.y)]
    best = minimize_scalar(
        lambda c: problem.loss_value(problem.y - c),
        bounds=(problem.y.min(), problem.y.max() + 1e-300),
        method="bounded",
        options={"xatol": 1e-12},
    )
    assert costs[0] <= min(best.fun, *costs) * (1 + rounding) + 1e-300
    return replace(problem, start=start)


@seeds()
def test_every_iterate_is_that_of_a_plain_loop(seed, tmp_path):
    configuration = draw(seed)
    path = configuration.run(tmp_path)
    single = configuration.dtype == np.float32
    start = float(path.intercept[0])
    problem = starting_at(configuration.reference, start, 1e-6 if single else 1e-12)
    steps = asdict(path.algorithm)
    norm = np.linalg.norm(problem.design, 2)
    if norm and "step" not in steps:
        product = np.prod([steps[name] for name in path.algorithm.steps])
        assert product * norm**2 / problem.n < 1
    recursion = RECURSIONS[type(path.algorithm)]
    expected = problem.run(recursion, configuration.n_iter, **steps)
    rounding = 1e-3 if single else 1e-10
    for name, wanted in zip(("coef", "intercept", "fitted", "dual"), expected, strict=True):
        found = getattr(path, name)
        if name in ("coef", "dual"):  # what is on the scale of y has its precision
            assert configuration.dtype.__name__ in str(found.dtype)
        # where all of them are zero, what they are made of is not
        atol = rounding * (np.abs(wanted).max() + 1e-3)
        np.testing.assert_allclose(double(found), wanted, rtol=0, atol=atol, err_msg=name)
    coef, intercept, *_ = expected
    objective = [problem.objective(*each) for each in zip(coef, intercept, strict=True)]
    np.testing.assert_allclose(double(path.objective), objective, rtol=rounding, atol=1e-30)


def errors_without(configuration, path, keep, count):
    """Absolute errors of rows that are left out, by a plain loop on the others."""
    whole = configuration.reference
    rest = replace(
        whole,
        X=whole.X[keep],
        y=whole.y[keep],
        weights=whole.weights[keep],
        count=count,
        constant_entry=whole.intercept_entry,
    )
    rest = starting_at(rest, path.loss.start(rest.y))
    # with fewer rows in their scaling, steps may have to be smaller
    share = 1.0 if count else keep.mean()
    recursion = RECURSIONS[type(path.algorithm)]
    steps = asdict(path.algorithm if share == 1 else path.algorithm.on_fewer_rows(share))
    coef, intercept, *_ = rest.run(recursion, path.n_iter, **steps)
    return np.abs(whole.y[~keep] - coef @ whole.X[~keep].T - intercept[:, None])


@seeds(lambda configuration: np.ptp(configuration.reference.weights) == 0)
def test_leaving_rows_out_is_a_plain_loop_on_the_others(seed, tmp_path):
    configuration = draw(seed)
    n = len(configuration.reference.y)
    path = configuration.run(tmp_path)
    fold = np.random.default_rng(seed).permutation(n) % 3
    if path.loss.margin:  # no fold has all rows of a class
        y = configuration.reference.y
        fold = np.where(y > 0, np.cumsum(y > 0), 1 + np.cumsum(y < 0)) % 3
    folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    rounding = 1e-3 if configuration.dtype == np.float32 else 1e-9
    for found, labels, scaled_by in (
        (sp.cross_validate_path(path, folds, "absolute"), fold, None),
        # the paper's, which keeps the scaling by all rows
        (sp.leave_one_out_path(path, "absolute"), np.arange(n), n),
    ):
        expected = np.zeros((path.n_iter + 1, n))
        for label in np.unique(labels):
            keep = labels != label
            expected[:, ~keep] = errors_without(configuration, path, keep, scaled_by)
        wanted = expected.mean(axis=1)
        atol = rounding * (wanted.max() + 1e-3)
        np.testing.assert_allclose(double(found.values), wanted, rtol=0, atol=atol)


# ------------------------------------------------------------------------------------------------
# The minimum
# ------------------------------------------------------------------------------------------------


def class_weights(problem):
    """How much rows count by their labels, where they have them."""
    if problem.loss.name not in reference.MARGIN:
        return np.ones(len(problem.y))
    return reference.counted(**problem.loss.parameters, y=problem.y)


def solved(problem):
    """Minimiser and minimum that an interior-point solver finds."""
    loss, penalty = problem.loss, problem.penalty
    b, c = cp.Variable(problem.X.shape[1]), cp.Variable()
    unit = np.abs(problem.y).max()  # the solver's tolerances are absolute, in part
    r = problem.y - unit * (problem.X @ b + (c if problem.fit_intercept else 0))
    rho = {
        "lad": lambda: cp.abs(r),
        "quantile": lambda q: cp.maximum(q * r, (q - 1) * r),
        "huber": lambda delta: cp.huber(r, delta) / 2,
        "epsilon_insensitive": lambda eps: cp.pos(cp.abs(r) - eps),
        "squared": lambda: cp.square(r) / 2,
        "hinge": lambda **_: cp.multiply(counts, cp.pos(signed)),
        "squared_hinge": lambda **_: cp.multiply(counts, cp.square(cp.pos(signed))) / 2,
        "logistic": lambda **_: cp.multiply(counts, cp.logistic(signed - 1)),
    }
    signed = cp.multiply(problem.y, r)
    counts = class_weights(problem)
    if loss.name == "square_root":
        cost = cp.norm(cp.multiply(problem.roots, r))
    else:
        cost = problem.roots**2 @ rho[loss.name](**loss.parameters) / np.sqrt(problem.n)
    coef = unit * b
    if penalty.groups is not None:
        for weight, name in zip(penalty.weights, np.unique(penalty.groups), strict=True):
            cost += penalty.lam * weight * cp.norm(coef[np.flatnonzero(penalty.groups == name)])
    elif penalty.name != "none":
        shares = {"lasso": 1.0, "ridge": 0.0} | penalty.parameters
        share = shares.get(penalty.name, shares.get("l1_ratio"))
        each = share * cp.abs(coef) + (1 - share) * cp.square(coef) / 2
        cost += penalty.lam * penalty.weights @ each
    zero = problem.loss_value(problem.y) or 1.0
    cp.Problem(cp.Minimize(cost / zero)).solve(cp.CLARABEL)
    b, c = unit * b.value, unit * float(c.value or 0.0)
    return b, c, problem.objective(b, c)


def proven_gap(problem, path, b, c, point):
    """How far above the minimum the objective is at most, by the theorems on the algorithms.

    Chambolle and Pock (2011, theorem 1) for the average of all iterates; Beck and Teboulle (2009),
    and Su, Boyd and Candès (2016, theorem 6) for the momentum used here, for the last one. For
    Halpern's iteration Lieder (2021): the last step is no longer than the way to the solution over
    the number of steps, and the gap is at most that times the way to the point that attains it.
    """
    n, T, algorithm = problem.n, path.n_iter, path.algorithm
    way = b @ b
    if problem.fit_intercept:
        moved = c + problem.means @ b - float(path.intercept[0])
        way += (moved / problem.intercept_entry) ** 2
    if isinstance(algorithm, sp.ProximalGradient):
        step = algorithm.step / np.sqrt(n)
        faster = isinstance(algorithm, sp.FISTA)
        return 2 * way / (step * (T + 1) ** 2) if faster else way / (2 * step * T)
    if isinstance(algorithm, sp.LinearizedADMM):
        sigma, tau = algorithm.rho / n, algorithm.alpha
    else:
        sigma, tau = algorithm.sigma / np.sqrt(n), algorithm.tau / np.sqrt(n)

    def force(b, c):
        """The size of the loss's gradient, which is the dual farthest from the first one."""
        r = problem.y - problem.X @ b - c
        if problem.loss.name == "squared_hinge":
            r = class_weights(problem) * np.maximum(problem.y * r, 0)
        curved = problem.loss.name in ("huber", "squared", "squared_hinge")
        return problem.roots**2 @ r**2 / n if curved else 1.0

    if isinstance(algorithm, sp.HalpernPDHG):
        farthest = np.sqrt(2 * (way / tau + force(b, c) / sigma))
        duals = np.sqrt(2 / sigma) * (np.sqrt(force(b, c)) + np.sqrt(force(*point)))
        return farthest / (T + 1) * (farthest + duals)
    return (way / tau + force(*point) / sigma) / (2 * T)


def has_a_minimum(configuration):
    """Whether the problem is convex; where classes can be told apart, penalties keep it finite."""
    problem = configuration.reference
    penalty = problem.penalty
    if problem.loss.name not in reference.MARGIN:
        return penalty.name in CONVEX
    return penalty.name in CONVEX - {"none"} and penalty.weights.min() > 0


@seeds(has_a_minimum)
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # it is not, by as much as counts
def test_objectives_fall_to_the_minimum_and_no_lower(seed, tmp_path):
    configuration = draw(seed)
    problem = configuration.reference
    b, c, best = solved(problem)
    algorithm = type(configuration.algorithm)()
    if isinstance(algorithm, sp.HalpernPDHG):
        algorithm = replace(algorithm, restart=None, warmup=0)  # as in the theorem
    path = replace(configuration, algorithm=algorithm).run(tmp_path, 1000)
    iterates = [*zip(double(path.coef), double(path.intercept), strict=True)]
    point = iterates[-1]
    if not isinstance(path.algorithm, sp.ProximalGradient | sp.HalpernPDHG):
        point = tuple(np.mean(each, axis=0) for each in zip(*iterates[1:], strict=True))
    # what a loss has no use for, within its band, still sets the solver's scale
    size = problem.loss_value(problem.y) + np.abs(problem.y).max()
    rounding = size * (1e-4 if configuration.dtype == np.float32 else 1e-6)
    found = problem.objective(*point)
    assert found <= best + proven_gap(problem, path, b, c, point) + rounding
    for each in (point, *iterates[::20]):
        assert problem.objective(*each) >= best - 1e-6 * size


# ------------------------------------------------------------------------------------------------
# The reference itself
# ------------------------------------------------------------------------------------------------


def test_all_losses_penalties_and_algorithms_are_drawn():
    assert {*configurations.LOSSES} == {*LOSSES}
    assert {*configurations.PENALTIES} == {*PENALTIES}
    public = filter(inspect.isclass, (getattr(sp, name) for name in sp.__all__))
    assert {*RECURSIONS} == {kind for kind in public if issubclass(kind, ProximalAlgorithm)}


def minimiser(function, z):
    """Minimiser near z, from a grid and then from the best point on it."""
    grid = np.linspace(-abs(z) - 1, abs(z) + 1, 2001)
    start = grid[np.argmin(function(grid))]
    bounds = (start - 0.01, start + 0.01)
    return minimize_scalar(function, bounds=bounds, method="bounded", options={"xatol": 1e-10}).x


@pytest.mark.parametrize("kind", ["loss", "penalty"])
def test_proximal_maps_of_the_reference_minimise(kind):
    """By search, where there is one coefficient or row to a term."""
    rng = np.random.default_rng(0)
    values, maps, drawn = {
        "loss": (reference.RHO, reference.RHO_PROX, configurations.LOSSES),
        "penalty": (reference.COST, reference.COST_PROX, configurations.PENALTIES),
    }[kind]
    for name, value in values.items():
        for _ in range(20):
            z, step = 3 * rng.standard_normal(), rng.uniform(0.1, 1.2)
            parameters = drawn[name](rng) | (
                {"lam": rng.uniform(0, 2)} if kind == "penalty" else {}
            )

            def cost(x, z=z, step=step, value=value, parameters=parameters):
                return step * value(x, **parameters) + (x - z) ** 2 / 2

            found = maps[name](z, step, **parameters)
            assert found == pytest.approx(minimiser(cost, z), abs=1e-6), (name, z, step, parameters)
