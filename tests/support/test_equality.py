"""Objects are the same if all that they keep is."""

import copy
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock

import numpy as np
import pytest
import torch

import steinpath as sp
from problems import draw
from steinpath._support.equality import same, snapshot
from steinpath.problem import Diagonal, Penalty, SeparablePenalty


class Shrink(Penalty):
    """A penalty of the user's own: its factor is for its subclasses to keep."""

    def value(self, b):
        return 0 * b.sum(axis=0)

    def prox(self, b, step):
        return self.factor * b

    def jacobian(self, b, step):
        return Diagonal(self.factor)

    def null_lam(self, gradient):
        return 1.0


@dataclass(frozen=True, eq=False)
class Fields(Shrink):
    _factor: float
    lam: float = 1.0

    @property
    def factor(self):
        return self._factor


@dataclass(frozen=True, eq=False)
class NotCompared(Shrink):
    factor: np.ndarray = field(compare=False)


@dataclass(frozen=True)
class OwnEquality(Shrink):
    """The equality of dataclasses, which arrays of several entries do not have."""

    factor: np.ndarray

    @classmethod
    def of(cls, factor):
        return cls(np.full((6, 1, 1), factor))


class Attributes(Shrink):
    def __init__(self, factor):
        self.factor = factor


class Slots(Shrink):
    __slots__ = ("__factor",)

    def __init__(self, factor):
        self.__factor = factor

    @property
    def factor(self):
        return self.__factor


class Function(Shrink):
    def __init__(self, factor):
        self.of_step = lambda step: factor

    @property
    def factor(self):
        return self.of_step(1.0)


class Listed(Shrink):
    def __init__(self, factor):
        self.parts = [{"factor": [np.array([factor]), "unit"]}]

    @property
    def factor(self):
        return float(self.parts[0]["factor"][0][0])


@dataclass(frozen=True, eq=False, repr=False)
class Scaled(sp.Lasso):
    """Has an array of ``lam`` for all members, and attributes that `replace` does not know."""

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "unit", 1.0)

    @classmethod
    def of(cls, unit, lam=1.0):
        made = cls(lam)
        object.__setattr__(made, "unit", unit)
        return made

    def prox(self, b, step):
        return self.unit * super().prox(b, step)


class OtherArguments(SeparablePenalty):
    """Cannot be made again by the names of its fields."""

    def __init__(self, factor):
        super().__init__(0.1)
        object.__setattr__(self, "factor", factor)

    def cost(self, size, lam):
        return 0 * size

    def pieces(self, lam, step):
        return [(0 * lam, self.factor)]


KINDS = [
    Fields,
    NotCompared,
    OwnEquality.of,
    Attributes,
    Slots,
    Function,
    Listed,
    Scaled.of,
    OtherArguments,
]


@pytest.mark.parametrize("make", KINDS)
def test_penalties_that_differ_anywhere_are_different(make):
    assert not same(make(0.5), make(0.25))
    assert same(one := make(0.5), one)
    if make is not Function:  # two functions are different, whatever they return
        assert same(make(0.5), make(0.5))
        assert same(make(0.5), copy.deepcopy(make(0.5)))


@pytest.mark.parametrize("make", KINDS)
def test_members_of_a_batch_have_their_own_penalties(make):
    X, y, _ = draw(30, 6)
    factors = (1.0, 0.5, 0.9)
    batch = sp.run_batch(X, y, sp.Huber(), [make(f) for f in factors], sp.FISTA(0.01), n_iter=6)
    for path, factor in zip(batch, factors, strict=True):
        alone = sp.run(X, y, sp.Huber(), make(factor), sp.FISTA(0.01), n_iter=6)
        np.testing.assert_allclose(path.coef, alone.coef, atol=1e-14)
        assert same(path.penalty, alone.penalty) or make is Function


def test_state_that_only_a_later_member_has_is_not_lost():
    plain, scaled = Scaled(1.0), Scaled.of(0.5, lam=2.0)
    for penalties in ((plain, scaled), (scaled, plain)):
        joint = penalties[0].beside(penalties[1:])
        assert [joint.member(k).unit for k in (0, 1)] == [each.unit for each in penalties]


@pytest.mark.parametrize("make", KINDS)
def test_warm_starts_go_on_with_the_same_penalty_only(make):
    X, y, _ = draw(30, 6)
    fixed = {"alpha": 0.1, "select": "last", "method": None, "tol": 10, "loss": "huber"}
    for factor, other in ((1.0, 0.5), (0.9, 0.9)):
        model = sp.PathRegressor(
            **fixed, penalty=lambda lam, f=factor: make(f), n_iter=4, warm_start=True
        ).fit(X, y)
        model.set_params(penalty=lambda lam, f=other: make(f), n_iter=8).fit(X, y)
        fresh = sp.PathRegressor(**fixed, penalty=lambda lam, f=other: make(f), n_iter=8).fit(X, y)
        np.testing.assert_array_equal(model.coef_, fresh.coef_)


@pytest.mark.parametrize("what", ["penalty", "loss"])
def test_warm_starts_notice_objects_that_changed_in_place(what):
    class Mine(sp.Huber):
        """An attribute that is no field."""

        unit = 1.0

        def score(self, r, s):
            return self.unit * super().score(r, s)

    X, y, _ = draw(30, 6)
    penalty, loss = Attributes(1.0), Mine()
    fixed = {"alpha": 0.1, "select": "last", "method": None, "tol": 10}
    options = {**fixed, "loss": loss, "penalty": lambda lam: penalty}
    model = sp.PathRegressor(**options, n_iter=4, warm_start=True).fit(X, y)
    if what == "penalty":
        penalty.factor = 0.5
    else:
        object.__setattr__(loss, "unit", 0.5)
    model.set_params(n_iter=8).fit(X, y)
    fresh = sp.PathRegressor(**options, n_iter=8).fit(X, y)
    np.testing.assert_array_equal(model.coef_, fresh.coef_)


def test_one_penalty_for_every_lam_is_refused_if_it_changes():
    X, y, _ = draw(30, 6)
    shared = Attributes(1.0)

    def changes(lam):
        shared.factor = 1 / (1 + lam)
        return shared

    with pytest.raises(ValueError, match="must return a new Penalty each time; it modified one"):
        sp.tune(X, y, sp.LAD(), changes, lams=[0.1, 0.5], n_iter=3)
    constant = sp.tune(X, y, sp.LAD(), lambda lam: shared, lams=[0.1, 0.5], n_iter=3, rng=0)
    np.testing.assert_array_equal(*(risk.path.coef for risk in constant.risks))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (np.zeros(2), np.zeros(2, dtype=int), False),
        (np.zeros((2, 3)), np.zeros((3, 2)), False),
        (np.array([1.0, math.nan]), np.array([1.0, math.nan]), True),
        (torch.zeros(2), torch.zeros(2), True),
        (torch.zeros(2), torch.ones(2), False),
        (torch.zeros(2, requires_grad=True), torch.zeros(2, requires_grad=True), True),
        (np.ma.masked_less(np.ones(2), 0), np.ma.masked_less(np.ones(2), 2), False),
        ([1, 2], (1, 2), False),
        ([np.zeros(2)], [np.zeros(2)], True),
        ({"a": np.zeros(2)}, {"a": np.ones(2)}, False),
        (math.nan, math.nan, True),
        (float("nan"), float("nan"), False),
        (np.float64(1), 1.0, True),
        (sp.Huber(2.0), sp.Huber(2.0), True),
        (sp.Huber(2.0), sp.Huber(3.0), False),
        (abs, max, False),
    ],
)
def test_what_is_kept(first, second, expected):
    one, other = Attributes(first), Attributes(second)
    assert same(one, other) is (one == other) is expected
    assert hash(one) == hash(other) or not expected
    assert same(one, one)


def test_what_is_cached_does_not_count():
    @dataclass(frozen=True, eq=False)
    class Cached(Shrink):
        factor: float

        @cached_property
        def half(self):
            return self.factor / 2

    one, other = Cached(0.5), Cached(0.5)
    assert one.half
    assert one == other
    groups = sp.GroupLasso(0.5, [0, 0, 1])
    assert groups == replace(groups) != sp.GroupLasso(0.5, [0, 1, 1])


def test_what_cannot_be_copied_is_like_no_other():
    one = Attributes(Lock())
    assert not same(snapshot(one), one)
    assert same(snapshot(Attributes(1.0)), Attributes(1.0))
