"""Penalties against brute force, finite differences and each other."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from backends import everywhere, on_backend, seen, sp
from problems import PENALTY_EXAMPLES
from steinpath.problem._penalties import PENALTIES, FreeIntercept, Penalty, PerMemberPenalty

SEPARABLE = {
    "lasso": (sp.Lasso(0.7), (0.1, 1.0, 5.0)),
    "lasso-zero": (sp.Lasso(0.0), (0.1, 1.0)),
    "ridge": (sp.Ridge(0.7), (0.1, 1.0, 5.0)),
    "elastic_net": (sp.ElasticNet(0.7, 0.3), (0.1, 1.0, 5.0)),
    "mcp": (sp.MCP(0.7), (0.1, 1.0, 2.9, 2.999)),
    "mcp-steep": (sp.MCP(0.7, gamma=1.1), (0.1, 1.09)),
    "scad": (sp.SCAD(0.7), (0.1, 1.0, 2.6, 2.699)),
    "scad-steep": (sp.SCAD(0.7, a=2.1), (0.1, 1.09)),
}
CASES = [
    pytest.param(penalty, step, id=f"{name}-{step}")
    for name, (penalty, steps) in SEPARABLE.items()
    for step in steps
]


def test_every_penalty_is_in_the_examples():
    assert set(PENALTIES) <= set(PENALTY_EXAMPLES)


@everywhere
@pytest.mark.parametrize(("penalty", "step"), CASES)
def test_prox_minimises_on_a_grid(penalty, step):
    penalty = seen(penalty)
    b = np.array([-6.0, -2.2, -0.8, -0.05, 0.0, 0.4, 0.75, 1.3, 2.0, 2.5, 2.7, 4.0])
    grid = np.linspace(-7, 7, 280_001)
    values = np.array([penalty.value(np.array([x])) for x in (0.0,)])  # scalar calls work too
    assert values[0] == 0
    costs_of_size = penalty.cost(np.abs(grid), np.asarray(penalty.lam))
    for b_j, x_j in zip(b, penalty.prox(b, step), strict=True):
        costs = step * costs_of_size + (grid - b_j) ** 2 / 2
        own = step * float(penalty.value(np.array([x_j]))) + (x_j - b_j) ** 2 / 2
        assert own <= costs.min() + 1e-11
        # near the limit of weak convexity the minimum is flat: compare costs, not places
        if step < 0.95 * penalty.max_step:
            assert abs(x_j - grid[costs.argmin()]) < 5e-4


@everywhere
def test_group_lasso_prox_minimises():
    rng = np.random.default_rng(0)
    penalty = sp.GroupLasso(0.5, ["a", "b", "a", "b", "c"], weights=[1.0, 2.0, 0.0])
    for step in (0.1, 1.0, 3.0):
        b = rng.standard_normal(5)
        x = penalty.prox(b, step)

        def cost(z, b=b, step=step):
            return step * float(penalty.value(z)) + np.sum((z - b) ** 2) / 2

        for size in (1e-4, 1e-2, 1.0):  # convex: no better point nearby means no better point
            for _ in range(100):
                assert cost(x) <= cost(x + size * rng.standard_normal(5)) + 1e-14
        assert x[4] == b[4]  # weight 0


@everywhere
@pytest.mark.parametrize("name", PENALTY_EXAMPLES)
@pytest.mark.parametrize("step", [0.2, 1.3])
def test_jacobians_are_the_finite_differences(name, step):
    p, h = 9, 1e-6
    rng = np.random.default_rng(1)
    penalty = seen(PENALTY_EXAMPLES[name](p))
    b = rng.standard_normal(p) + 0.0123
    dense = np.stack(
        [
            (penalty.prox(b + h * e, step) - penalty.prox(b - h * e, step)) / (2 * h)
            for e in np.eye(p)
        ],
        axis=1,
    )
    jacobian = penalty.jacobian(b, step)
    block = rng.standard_normal((p, 4))
    np.testing.assert_allclose(jacobian(np.eye(p)), dense, atol=1e-8)
    np.testing.assert_allclose(jacobian(block), dense @ block, atol=1e-7)
    np.testing.assert_allclose(jacobian(block[:, 0]), dense @ block[:, 0], atol=1e-7)
    np.testing.assert_allclose(jacobian.affine(2.0, -0.5)(block), 2 * block - dense @ block / 2)


@everywhere
def test_jacobian_at_an_intercept():
    penalty = on_backend(FreeIntercept)(sp.Lasso(1.0))
    b = np.array([2.0, 0.1, 0.05])
    np.testing.assert_array_equal(penalty.jacobian(b, 0.5)(np.eye(3)), np.diag([1.0, 0.0, 1.0]))
    np.testing.assert_array_equal(
        penalty.jacobian(b, 0.5).affine(1.0, -2.0)(np.eye(3)), np.diag([-1.0, 1.0, -1.0])
    )
    np.testing.assert_array_equal(penalty.prox(b, 0.5), [1.5, 0.0, 0.05])
    assert penalty.value(b) == pytest.approx(2.1)


@everywhere
def test_unpenalised_coefficients_move_freely_even_from_zero():
    b = np.array([0.0, 0.0])
    for penalty in (
        sp.Lasso(1.0, weights=[0, 1]),
        sp.ElasticNet(1.0, weights=[0, 1]),
        sp.MCP(1.0, weights=[0, 1]),
        sp.SCAD(1.0, weights=[0, 1]),
        sp.GroupLasso(1.0, [0, 1], weights=[0, 1]),
    ):
        np.testing.assert_array_equal(penalty.jacobian(b, 0.5)(np.eye(2)), np.diag([1.0, 0.0]))
        np.testing.assert_array_equal(penalty.free(2), [True, False])
        np.testing.assert_array_equal(penalty.prox(np.array([0.3, 0.2]), 0.5), [0.3, 0.0])


@everywhere
def test_identities_between_penalties():
    b = np.random.default_rng(2).standard_normal(8)
    lasso = sp.Lasso(0.6)
    same = {
        "wide MCP": sp.MCP(0.6, gamma=1e9),
        "wide SCAD": sp.SCAD(0.6, a=1e9),
        "elastic net, all lasso": sp.ElasticNet(0.6, 1.0),
        "groups of one": sp.GroupLasso(0.6, np.arange(8)),
        "weights of one": sp.Lasso(0.6, weights=np.ones(8)),
        "weights for lam": sp.Lasso(1.2, weights=np.full(8, 0.5)),
    }
    for name, other in same.items():
        close = {"rtol": 1e-8, "atol": 1e-14, "err_msg": name}
        np.testing.assert_allclose(other.prox(b, 0.5), lasso.prox(b, 0.5), **close)
        np.testing.assert_allclose(other.value(b), lasso.value(b), **close)
        np.testing.assert_allclose(other.jacobian(b, 0.5)(b), lasso.jacobian(b, 0.5)(b), **close)
    ridge = sp.Ridge(0.6)
    for other in (sp.ElasticNet(0.6, 0.0), sp.Ridge(0.2, weights=np.full(8, 3.0))):
        np.testing.assert_allclose(other.prox(b, 0.5), ridge.prox(b, 0.5))
        np.testing.assert_allclose(other.jacobian(b, 0.5)(b), ridge.jacobian(b, 0.5)(b))


# Penalties that keep coefficients at zero, for two weights of zero and two of other sizes.
SPARSE = {
    "lasso": lambda lam, w: sp.Lasso(lam, weights=w),
    "elastic_net": lambda lam, w: sp.ElasticNet(lam, 0.4, weights=w),
    "mcp": lambda lam, w: sp.MCP(lam, weights=w),
    "scad": lambda lam, w: sp.SCAD(lam, weights=w),
    "group_lasso": lambda lam, w: sp.GroupLasso(lam, [0, 1, 2, 3, 2], weights=w[:4]),
}
GRADIENTS = [
    np.array([9.0, 0.4, -0.7, -8.0, 0.5]),
    np.array([0.0, 3.0, 0.1, 0.0, 0.1]),
    np.array([0.0, 0.1, 0.2, 0.0, -3.0]),
]


@everywhere
@pytest.mark.parametrize("make", SPARSE.values(), ids=SPARSE)
@pytest.mark.parametrize("gradient", GRADIENTS, ids=range(3))
def test_null_lam_is_where_coefficients_leave_zero(make, gradient):
    """A step from zero along the gradient comes back to zero from there on, and not below."""
    weights, penalised = np.array([0.0, 2.0, 0.5, 0.0, 0.25]), np.array([1, 2, 4])
    penalty = make(0.3, weights)
    bound, step = penalty.null_lam(gradient), 0.1
    for lam, stays in ((bound * (1 + 1e-9), True), (bound * (1 - 1e-6), False)):
        moved = make(lam, weights).prox(-step * gradient, step)[penalised]
        assert (not moved.any()) == stays
    assert penalty.null_lam(0 * gradient) == 0
    assert penalty.null_lam(np.array([1.0, 0.0, 0.0, -1.0, 0.0])) == 0  # only free ones move


def test_null_lam_without_weights_or_knots():
    gradient = np.array([0.3, -0.8, 0.5])
    assert sp.Lasso(1.0).null_lam(gradient) == 0.8
    assert sp.ElasticNet(1.0, 0.25).null_lam(gradient) == pytest.approx(3.2)
    assert sp.ElasticNet(1.0, 0.0).null_lam(gradient) == math.inf
    assert sp.Ridge(1.0).null_lam(gradient) == math.inf
    assert sp.Ridge(1.0).null_lam(0 * gradient) == 0
    assert sp.NoPenalty().null_lam(gradient) == math.inf
    assert sp.Lasso(1.0, weights=np.zeros(3)).null_lam(gradient) == 0
    assert sp.GroupLasso(1.0, [0, 0, 0], weights=[0]).null_lam(gradient) == 0
    assert FreeIntercept(sp.Lasso(1.0)).null_lam(gradient) == 0.8
    assert FreeIntercept(sp.Lasso(1.0)).null_lam(np.array([0.3, 9.0])) == 0.3
    both = PerMemberPenalty((sp.Lasso(1.0), sp.ElasticNet(1.0, 0.25)))
    assert both.null_lam(gradient) == pytest.approx(3.2)


def test_what_is_free():
    for penalty, free in (
        (sp.Lasso(1.0), [False, False, False]),
        (sp.Lasso(1.0, weights=[1, 0, 2]), [False, True, False]),
        (sp.GroupLasso(1.0, [0, 1, 0], weights=[0, 3]), [True, False, True]),
        (sp.NoPenalty(), [True, True, True]),
        (FreeIntercept(sp.Lasso(1.0)), [False, False, True]),
        (FreeIntercept(sp.NoPenalty()), [True, True, True]),
        (FreeIntercept(sp.Lasso(1.0, weights=[0, 1])), [True, False, True]),
        (PerMemberPenalty((sp.Lasso(1.0),)), [False, False, False]),
    ):
        found = penalty.free(3)
        assert found.dtype == bool
        np.testing.assert_array_equal(found, free)


def test_sizes_are_checked():
    for p in (1, 4):
        sp.Lasso(1.0).check_size(p)
        sp.NoPenalty().check_size(p)
    weighted, grouped = sp.Lasso(1.0, weights=[1, 0, 2]), sp.GroupLasso(1.0, ["a", "b", "a"])
    for penalty, message in (
        (weighted, r"^Lasso\(lam=1, weights=…\) has 3 weights, but X has 4 columns$"),
        (grouped, r"^GroupLasso has group labels for 3 coefficients, but X has 4 columns$"),
    ):
        penalty.check_size(3)
        FreeIntercept(penalty).check_size(4)
        with pytest.raises(ValueError, match=message):
            penalty.check_size(4)
        with pytest.raises(ValueError, match=message):
            FreeIntercept(penalty).check_size(5)


# ------------------------------------------------------------------------------------------------
# Members
# ------------------------------------------------------------------------------------------------

SEVERAL = {
    "diagonal": [PENALTY_EXAMPLES[name](6) for name in ("lasso", "ridge", "scad")],
    "others": [PENALTY_EXAMPLES[name](6) for name in ("lasso", "group_lasso", "none")],
    "lassos": [sp.Lasso(lam) for lam in (0.1, 0.0, 0.7)],
    "ridges": [sp.Ridge(lam) for lam in (0.1, 2.0, 0.7)],
    "nets": [sp.ElasticNet(lam, 0.3) for lam in (0.1, 2.0, 0.7)],
    "weighted": [sp.MCP(lam, weights=np.arange(6)) for lam in (0.1, 0.6, 0.3)],
    "scads": [sp.SCAD(lam) for lam in (0.1, 0.6, 0.3)],
    "groups": [sp.GroupLasso(lam, [0, 0, 1, 1, 1, 2], [1, 2, 0]) for lam in (0.1, 0.6, 0.3)],
    "same": [sp.Lasso(0.3)] * 3,
    "intercepts": [FreeIntercept(sp.Lasso(lam)) for lam in (0.1, 0.6, 0.3)],
    "kinds with intercepts": [FreeIntercept(each) for each in (sp.Lasso(0.2), sp.NoPenalty())],
}
MEMBERS = pytest.mark.parametrize("penalties", SEVERAL.values(), ids=SEVERAL)


@everywhere
@MEMBERS
@pytest.mark.parametrize("own_steps", [False, True], ids=["one step", "own steps"])
def test_members_are_those_of_each(penalties, own_steps):
    """With Jacobians that are all diagonal, with others among them, and of one kind."""
    count, rng = len(penalties), np.random.default_rng(4)
    both, each = seen(penalties[0].beside(penalties[1:])), [seen(own) for own in penalties]
    b, tangents = (rng.standard_normal((6, count, columns)) for columns in (1, 4))
    steps = np.linspace(0.4, 1.0, count) if own_steps else np.full(count, 0.7)
    step = steps[:, None] if own_steps else 0.7
    value, prox, jacobian = both.value(b), both.prox(b, step), both.jacobian(b, step)
    found = jacobian(tangents)
    for k, own in enumerate(each):
        alone, at = b[:, k, 0], float(steps[k])
        np.testing.assert_allclose(value[k, 0], own.value(alone))
        np.testing.assert_allclose(prox[:, k, 0], own.prox(alone, at))
        np.testing.assert_allclose(found[:, k], own.jacobian(alone, at)(tangents[:, k]))
        if not own_steps:
            assert both.member(k) == own
    assert value.shape == (count, 1)
    assert found.dtype == prox.dtype == float  # and not object, which compares equal
    assert both.max_step == min(own.max_step for own in each)


@MEMBERS
def test_columns_of_members_are_iterations(penalties):
    """The Jacobian at a block of several columns is one for each of them."""
    count, times = len(penalties), 4
    both = penalties[0].beside(penalties[1:])
    b = np.random.default_rng(5).standard_normal((6, count, times))
    tangents = np.random.default_rng(6).standard_normal((6, count, 3))
    for t, at_once in enumerate(both.jacobian(b, 0.7).columns(times)):
        expected = both.jacobian(b[:, :, t : t + 1], 0.7)
        np.testing.assert_allclose(at_once(tangents), expected(tangents))


@MEMBERS
def test_supports_and_parts_of_members(penalties):
    """The union of the members' supports is enough to go by."""
    b = np.random.default_rng(7).standard_normal((6, len(penalties), 1))
    tangents = np.random.default_rng(8).standard_normal((6, len(penalties), 3))
    jacobian = penalties[0].beside(penalties[1:]).jacobian(b, 0.9)
    found, support = jacobian(tangents), jacobian.support()
    inside = np.arange(6) if support is None else np.flatnonzero(support)
    assert not np.delete(found, inside, axis=0).any()
    part = jacobian.part(None if support is None else inside, np.dtype(float))
    np.testing.assert_allclose(part(tangents[inside]), found[inside])


def test_what_penalties_beside_each_other_are():
    """An array of ``lam`` where that is all they differ in; one of them if they do not."""
    lasso = sp.Lasso(0.5)
    assert lasso.beside([]) is lasso
    assert lasso.beside([sp.Lasso(0.5)] * 2) is lasso
    joint = lasso.beside([sp.Lasso(0.25), sp.Lasso(2)])
    assert isinstance(joint, sp.Lasso)
    np.testing.assert_array_equal(joint.lam, [0.5, 0.25, 2.0])
    assert [joint.member(k).lam for k in range(3)] == [0.5, 0.25, 2.0]
    kinds = (lasso, sp.Ridge(0.5), sp.NoPenalty())
    for penalties in (
        kinds,
        (sp.MCP(0.5, gamma=3), sp.MCP(0.5, gamma=4, unit=2.0)),
        (sp.Lasso(0.5), sp.Lasso(0.5, positive=True)),
        (sp.Lasso(0.5), sp.Lasso(0.5, weights=[1, 2])),
        (sp.GroupLasso(0.5, [0, 1]), sp.GroupLasso(0.5, [0, 0])),
    ):
        joint = penalties[0].beside(penalties[1:])
        assert isinstance(joint, PerMemberPenalty)
        assert joint.each == penalties
        assert [joint.member(k) for k in range(len(penalties))] == list(penalties)
    nothing = sp.NoPenalty()
    assert nothing.beside([sp.NoPenalty()]) is nothing


@everywhere(every=3)
@pytest.mark.parametrize(
    "penalties",
    [
        [sp.ElasticNet(lam, l1_ratio) for lam in (0.5, 1.0) for l1_ratio in (0.0, 0.3, 1.0)],
        [sp.ElasticNet(0.5, l1_ratio, weights=[1, 0, 2]) for l1_ratio in (0.1, 0.9)],
        [sp.MCP(lam, gamma) for lam, gamma in ((0.5, 3.0), (0.5, 2.0), (1.0, 5.0))],
        [sp.SCAD(lam, a, unit=2.0) for lam, a in ((0.5, 3.0), (0.5, 2.5), (1.0, 5.0))],
        [sp.Lasso(lam, positive=True) for lam in (0.1, 2.0)],
    ],
    ids=lambda penalties: type(penalties[0]).__name__,
)
def test_parameters_of_members(penalties):
    joint = penalties[0].beside(penalties[1:])
    assert not isinstance(joint, PerMemberPenalty)
    b = np.random.default_rng(0).standard_normal((3, len(penalties), 2))
    values, prox, jacobian = joint.value(b), joint.prox(b, 0.4), joint.jacobian(b, 0.4)(b)
    for k, penalty in enumerate(penalties):
        assert joint.member(k) == penalty
        own = b[:, k : k + 1, :]
        np.testing.assert_allclose(values[k], penalty.value(own)[0])
        np.testing.assert_allclose(prox[:, k : k + 1], penalty.prox(own, 0.4))
        np.testing.assert_allclose(jacobian[:, k : k + 1], penalty.jacobian(own, 0.4)(own))
    assert joint.max_step == min(penalty.max_step for penalty in penalties)
    assert joint.some(np.array([1])).member(0) == penalties[1]
    assert joint.repeated(2).member(3) == penalties[1]


def test_repeated_members():
    lams = sp.Lasso(np.array([0.5, 0.25]))
    np.testing.assert_array_equal(lams.repeated(2).lam, [0.5, 0.5, 0.25, 0.25])
    np.testing.assert_array_equal(
        FreeIntercept(lams).repeated(2).features.lam, [0.5] * 2 + [0.25] * 2
    )
    assert lams.repeated(1) is lams
    one = sp.Lasso(0.5)
    assert one.repeated(3) is one
    kinds = PerMemberPenalty((sp.Lasso(0.5), sp.Ridge(0.5)))
    assert kinds.repeated(2).each == (sp.Lasso(0.5),) * 2 + (sp.Ridge(0.5),) * 2


def test_a_penalty_of_ones_own_needs_no_more_than_four_methods():
    class Zero(Penalty):
        value = prox = jacobian = null_lam = None

    assert Zero().max_step == math.inf
    assert not Zero().isotropic
    assert sp.NoPenalty().value(np.array([1.0, 2.0])) == 0
    assert not Zero().free(2).any()
    Zero().check_size(3)
    both = Zero().beside([sp.NoPenalty()])
    assert isinstance(both, PerMemberPenalty)
    assert isinstance(both.member(0), Zero)
    same = Zero()
    assert same.beside([Zero()]) is same.member(1) is same.repeated(2) is same


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sp.Lasso(-1), "lam must be"),
        (lambda: sp.Lasso(math.inf), "lam must be"),
        (lambda: sp.Lasso("1"), "lam must be a real number"),
        (lambda: sp.Lasso(np.array([0.5, -1.0])), "^lam must be nonnegative, got -1$"),
        (lambda: sp.GroupLasso(np.array([0.5, -1.0]), [0]), "^lam must be nonnegative, got -1$"),
        (lambda: sp.Ridge(np.array([0.5, math.nan])), "^lam has 1 value that is NaN"),
        (lambda: sp.MCP(np.ones((2, 2))), "lam must have 1 dimension"),
        (lambda: sp.Lasso(1, weights=[1, -1]), "nonnegative"),
        (lambda: sp.Lasso(1, weights=[1, math.nan]), "^weights has 1 value that is NaN"),
        (lambda: sp.Lasso(1, weights=[[1.0]]), "1 dimension"),
        (lambda: sp.ElasticNet(1, l1_ratio=1.5), "l1_ratio must be"),
        (lambda: sp.ElasticNet(1, l1_ratio=-0.1), "l1_ratio must be"),
        (lambda: sp.GroupLasso(-1, [0]), "lam must be"),
        (lambda: sp.MCP(1, gamma=1), "gamma must be"),
        (lambda: sp.SCAD(1, a=2), "a must be"),
        (lambda: sp.GroupLasso(1, []), "groups must be"),
        (lambda: sp.GroupLasso(1, [[0, 1]]), "^groups must be one integer or string label per"),
        (lambda: sp.GroupLasso(1, [[0, 1], [2]]), "groups must be"),
        (lambda: sp.GroupLasso(1, np.array(["a", None])), "groups must be"),
        (lambda: sp.GroupLasso(1, [0.5, 1.5]), "groups must be"),
        (lambda: sp.GroupLasso(1, [0, 1, 1], weights=[1, 2, 3]), "3 weights for 2 groups"),
    ],
)
def test_impossible_parameters_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_reprs_are_readable():
    assert repr(sp.MCP(0.5)) == "MCP(lam=0.5, gamma=3)"
    assert repr(sp.Lasso(0.5, weights=[1, 2])) == "Lasso(lam=0.5, weights=…)"
    assert repr(sp.GroupLasso(0.5, [0, 1, 1])) == "GroupLasso(lam=0.5, groups=2)"
    assert repr(sp.Lasso(0.5).beside([sp.Lasso(0.25)])) == "Lasso(lam=…)"
    assert repr(sp.GroupLasso(np.array([0.5, 1]), [0, 1, 1])) == "GroupLasso(lam=…, groups=2)"
    assert repr(FreeIntercept(sp.MCP(0.5))) == "MCP(lam=0.5, gamma=3)"


class Shrink(Penalty):
    """A penalty of the user's own, which keeps its factor in one way or another."""

    def __init__(self, factor):
        self.factor = factor

    def value(self, b):
        return 0 * b.sum(axis=0)

    def prox(self, b, step):
        return self.factor * b

    def jacobian(self, b, step):
        raise NotImplementedError

    def null_lam(self, gradient):
        return 1.0


@dataclass(frozen=True)
class OwnEquality(Shrink):
    """The equality of dataclasses, which arrays of several entries do not have."""

    factor: np.ndarray


@dataclass(frozen=True, eq=False, slots=True)
class Slots(Shrink):
    factor: float
    lam: float = 1.0


@dataclass(frozen=True, eq=False)
class Strength(Shrink):
    """Its proximal map was written for a number ``lam``."""

    lam: float

    def prox(self, b, step):
        return math.exp(-self.lam) * b


@dataclass(frozen=True, eq=False, repr=False)
class Scaled(sp.Lasso):
    """Has an attribute that `replace` does not know."""

    unit = 1.0

    @classmethod
    def of(cls, unit):
        made = cls(0.1)
        object.__setattr__(made, "unit", unit)
        return made

    def prox(self, b, step):
        return self.unit * super().prox(b, step)


@pytest.mark.parametrize(
    "make", [Shrink, lambda f: OwnEquality(np.full((6, 1, 1), f)), Slots, Strength, Scaled.of]
)
def test_members_of_a_batch_have_their_own_penalties(make):
    rng = np.random.default_rng(0)
    X, y, factors = rng.standard_normal((30, 6)), rng.standard_normal(30), (1.0, 0.5, 0.9)
    batch = sp.run_batch(X, y, sp.Huber(), [make(f) for f in factors], sp.FISTA(0.01), n_iter=6)
    for path, factor in zip(batch, factors, strict=True):
        alone = sp.run(X, y, sp.Huber(), make(factor), sp.FISTA(0.01), n_iter=6)
        np.testing.assert_allclose(path.coef, alone.coef, atol=1e-14)


def test_equal_penalties_are_equal_and_hash_alike():
    assert sp.Lasso(0.5) == sp.Lasso(0.5)
    assert hash(sp.MCP(0.5)) == hash(sp.MCP(0.5))
    assert len({sp.Lasso(0.5), sp.Lasso(0.6), sp.Ridge(0.5), sp.NoPenalty()}) == 4
    assert len({hash(each) for each in (sp.Lasso(0.5), sp.Lasso(0.6), sp.Ridge(0.5))}) == 3
    assert sp.Lasso(0.5) != sp.Lasso(0.6)
    assert sp.Lasso(0.5) != sp.Ridge(0.5)
    assert sp.Lasso(0.5, weights=[1, 2]) == sp.Lasso(0.5, weights=[1, 2])
    assert sp.Lasso(0.5, weights=[1, 2]) == sp.Lasso(0.5, weights=np.float32([1, 2]))
    assert sp.Lasso(0.5, weights=[1, 2]) != sp.Lasso(0.5, weights=[1, 3])
    assert sp.GroupLasso(0.5, [0, 1]) == sp.GroupLasso(0.5, np.array([0, 1]))
    names = np.array(["b", "a"])  # as columns of data frames hold them
    assert sp.GroupLasso(0.5, names) == sp.GroupLasso(0.5, names.astype(object))
    assert sp.NoPenalty() == sp.NoPenalty()


# ------------------------------------------------------------------------------------------------
# Conjugates
# ------------------------------------------------------------------------------------------------

CONJUGATES = {
    "lasso": lambda: sp.Lasso(0.7),
    "lasso-weighted": lambda: sp.Lasso(0.7, weights=[1, 2, 0.5, 3, 1e-3, 4]),
    "ridge": lambda: sp.Ridge(0.7),
    "ridge-tiny": lambda: sp.Ridge(1e-30),
    "elastic_net": lambda: sp.ElasticNet(0.7, l1_ratio=0.3),
    "group_lasso": lambda: sp.GroupLasso(0.7, [0, 0, 1, 1, 2, 2], weights=[1, 2, 0.5]),
}


@everywhere
@pytest.mark.parametrize("name", CONJUGATES)
def test_fenchels_inequality_is_an_equality_at_subgradients(name):
    penalty, rng = CONJUGATES[name](), np.random.default_rng(0)
    step = 1 / penalty.lam
    point = 3 * rng.standard_normal((6, 5))
    b = penalty.prox(point, step)
    z = (point - b) / step  # a subgradient at b
    inner = np.sum(b * z, axis=0)
    np.testing.assert_allclose(penalty.value(b) + penalty.conjugate(z), inner, rtol=1e-9)
    assert np.all(penalty.gauge(z) <= 1 + 1e-12)
    np.testing.assert_allclose(penalty.to_domain(z), z, rtol=1e-12)
    # and no more than an inequality elsewhere
    others = penalty.lam * rng.standard_normal((6, 5)) * 4
    for inside in (penalty.to_domain(others), others / np.maximum(penalty.gauge(others), 1)):
        assert np.all(penalty.gauge(inside) <= 1 + 1e-12)
        bound = np.sum(b * inside, axis=0) - 1e-12 * (1 + np.abs(inner))
        assert np.all(penalty.value(b) + penalty.conjugate(inside) >= bound)


@pytest.mark.parametrize("penalty", [sp.MCP(0.7), sp.SCAD(0.7), sp.Ridge(0.7), sp.Lasso(0.7)])
def test_derivatives_are_those_of_the_costs(penalty):
    size, h = np.linspace(0.011, 4, 300), 1e-7
    lam = np.asarray(0.7)
    slopes = (penalty.cost(size + h, lam) - penalty.cost(size - h, lam)) / (2 * h)
    np.testing.assert_allclose(penalty.derivative(size), slopes, atol=1e-6)
    assert penalty.derivative(np.zeros(1)) == pytest.approx(0.0 if penalty.isotropic else 0.7)


def test_which_penalties_are_convex():
    for name, make in PENALTY_EXAMPLES.items():
        for penalty in (make(6), FreeIntercept(make(6))):
            assert penalty.convex == (name not in ("mcp", "scad"))


def test_the_intercept_is_free_in_the_dual():
    penalty = FreeIntercept(sp.Lasso(2.0))
    z = np.array([[4.0, 1.0], [0.0, 0.0]])
    np.testing.assert_array_equal(penalty.gauge(z), [2.0, 0.5])
    np.testing.assert_array_equal(penalty.conjugate(z / 2), [0.0, 0.0])
    z[1] = 1e-9
    assert np.all(np.isposinf(penalty.gauge(z)))
    np.testing.assert_array_equal(penalty.to_domain(z), [[2.0, 1.0], [0.0, 0.0]])
    np.testing.assert_array_equal(
        FreeIntercept(sp.MCP(1.0)).derivative(np.array([0.0, 3.0])), [1.0, 0.0]
    )


def test_without_a_penalty_only_zero_is_feasible():
    z = np.array([[1.0, 0.0], [0.0, 0.0]])
    for penalty in (sp.NoPenalty(), sp.Lasso(0.0), sp.GroupLasso(0.0, [0, 1])):
        np.testing.assert_array_equal(penalty.gauge(z), [math.inf, 0.0])
        np.testing.assert_array_equal(penalty.to_domain(z), 0 * z)
        np.testing.assert_array_equal(penalty.conjugate(0 * z), [0.0, 0.0])


def test_penalties_without_a_conjugate_say_so():
    own = Shrink(0.5)
    for method in (own.conjugate, own.gauge, own.derivative, own.to_domain):
        with pytest.raises(NotImplementedError, match="Shrink does not implement"):
            method(np.zeros(2))
