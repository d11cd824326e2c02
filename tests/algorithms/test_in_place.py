"""Losses, penalties and algorithms of the user's own: they may work in place, and are checked."""

import functools
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

import steinpath as sp
from problems import draw
from steinpath._support.arrays import copied
from steinpath.algorithms import PrimalDual, before
from steinpath.problem import Diagonal

LIBRARIES = pytest.mark.parametrize("library", [np.asarray, torch.tensor], ids=["numpy", "torch"])


def careless(method):
    """Return a method that changes the array which it is handed, after use."""

    @functools.wraps(method)
    def spoils(self, first, *rest):
        value = method(self, copied(first), *rest)
        first[...] = 7.0
        return value

    return spoils


def spoiling(*methods):
    """Return a decorator of classes, for methods that are careless."""

    def decorate(cls):
        for name in methods:
            setattr(cls, name, careless(getattr(cls, name)))
        return cls

    return decorate


@spoiling("value", "prox", "jacobian", "null_lam")
@dataclass(frozen=True, eq=False, repr=False)
class SpoilsItsArgument(sp.Lasso):
    pass


@dataclass(frozen=True, eq=False, repr=False)
class ReturnsItsArgument(sp.Lasso):
    def prox(self, b, step):
        b[...] = super().prox(copied(b), step)
        return b


@dataclass(frozen=True, eq=False, repr=False)
class SameArrayEachTime(sp.Lasso):
    """Returns arrays that it keeps, and changes at the next call."""

    kept: dict = field(default_factory=dict, kw_only=True)

    def _keep(self, what, values):
        kept = self.kept.setdefault((what, tuple(values.shape)), copied(values))
        kept[...] = values
        return kept

    def prox(self, b, step):
        return self._keep("prox", super().prox(b, step))

    def jacobian(self, b, step):
        return Diagonal(self._keep("jacobian", super().jacobian(b, step).entries))


@spoiling("value", "gradient", "hessian", "location")
class LossInPlace(sp.Huber):
    pass


@dataclass(frozen=True)
class Reflected(PrimalDual):
    """Uses the point after its proximal map, and all of the histories."""

    sigma: float | None = None
    tau: float | None = None

    def dual(self, prox, t, u, v):
        point = u[-1] - self.sigma * (2 * v[-1] - before(v))
        return 0.9 * prox(point) + 0.05 * u[-1] + 0.05 * before(u)

    def primal(self, prox, t, b, eta):
        point = b[-1] - self.tau * eta[-1]
        return 0.9 * prox(point) + 0.05 * point + 0.05 * before(b)


class ReflectedInPlace(Reflected):
    """Changes the histories, and returns one of them."""

    def dual(self, prox, t, u, v):
        return self._spoil(super().dual(prox, t, u, v), u, v)

    def primal(self, prox, t, b, eta):
        return self._spoil(super().primal(prox, t, b, eta), b, eta)

    def _spoil(self, value, first, second):
        for array in (*first, *second):
            array[...] = 7.0
        first[-1][...] = value
        return first[-1]


@dataclass(frozen=True)
class Averaged(Reflected):
    """Carries a state of its own."""

    carries = True

    def primal(self, prox, t, b, eta):
        new = prox(b[-1] - self.tau * eta[-1])
        b.carried = new if b.carried is None else 0.5 * (b.carried + new)
        return 0.5 * (new + b.carried)


class AveragedInPlace(Averaged):
    def primal(self, prox, t, b, eta):
        new = prox(b[-1] - self.tau * eta[-1])
        if b.carried is None:
            b.carried = copied(new)
        else:
            b.carried += new
            b.carried *= 0.5
        b[-1][...] = 0.5 * (new + b.carried)
        return b[-1]


def results(library, loss, penalty, algorithm, **options):
    """All that a user may ask for."""
    X, y = map(library, draw(30, 6)[:2])
    path = sp.run(X, y, loss, penalty, algorithm, n_iter=9, **options)
    found = {
        "risk": sp.estimate_risk(path, method="exact").values,
        "loo": sp.estimate_risk(path, method="loo").values,
        "compressed": sp.estimate_risk(path, method="compressed", rng=0).values,
        "warnings": np.array(len(sp.estimate_risk(path, rng=0).warnings)),
        "objective": path.objective,
        "lam_max": sp.lam_max(X, y, loss, penalty, **options),
    }
    for name in ("coef", "dual", "fitted", "intercept", "y"):
        found[name] = getattr(path, name)
    np.testing.assert_array_equal(path.y, draw(30, 6)[1])
    return found


def assert_same(found, expected):
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, err_msg=name)


ALGORITHMS = {
    "chambolle-pock": sp.ChambollePock(relaxation=1.5),
    "halpern": sp.HalpernPDHG(restart=5, warmup=2),
    "admm": sp.LinearizedADMM(),
    "fista": sp.FISTA(),
    "own": Reflected(),
    "carries": Averaged(),
}


@LIBRARIES
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["no intercept", "intercept"])
@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
@pytest.mark.parametrize("kind", [SpoilsItsArgument, ReturnsItsArgument, SameArrayEachTime])
def test_penalties(kind, algorithm, fit_intercept, library):
    found, expected = (
        results(library, sp.Huber(), make(0.2), algorithm, fit_intercept=fit_intercept)
        for make in (kind, sp.Lasso)
    )
    assert_same(found, expected)


@LIBRARIES
@pytest.mark.parametrize("kind", [SpoilsItsArgument, ReturnsItsArgument, SameArrayEachTime])
def test_penalties_of_members(kind, library):
    X, y = map(library, draw(30, 6)[:2])
    for others in (lambda lam: sp.Lasso(lam), lambda lam: sp.MCP(lam, gamma=9.0)):
        found, expected = (
            sp.run_batch(X, y, sp.Huber(), [make(0.2), others(0.1), make(0.3)], n_iter=9)
            for make in (kind, sp.Lasso)
        )
        np.testing.assert_allclose(found.coef, expected.coef, rtol=1e-12)
        risks = [
            [risk.values for risk in sp.estimate_risk_batch(batch, rng=0)]
            for batch in (found, expected)
        ]
        np.testing.assert_allclose(*risks, rtol=1e-12)


@LIBRARIES
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["no intercept", "intercept"])
@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_losses(algorithm, fit_intercept, library):
    found, expected = (
        results(library, loss, sp.Lasso(0.2), algorithm, fit_intercept=fit_intercept)
        for loss in (LossInPlace(), sp.Huber())
    )
    assert_same(found, expected)


@LIBRARIES
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["no intercept", "intercept"])
@pytest.mark.parametrize("loss", [sp.LAD(), sp.SquareRoot()], ids=repr)
@pytest.mark.parametrize(
    ("careless", "careful"),
    [(ReflectedInPlace, Reflected), (AveragedInPlace, Averaged)],
    ids=["histories", "carried"],
)
def test_algorithms(careless, careful, loss, fit_intercept, library):
    found, expected = (
        results(library, loss, sp.Lasso(0.2), algorithm(), fit_intercept=fit_intercept)
        for algorithm in (careless, careful)
    )
    assert_same(found, expected)


def test_what_an_algorithm_carries_is_each_runs_own():
    """A run that is extended twice from the same place goes the same way twice."""
    X, y, _ = draw(30, 6)
    options = {"alpha": 0.1, "select": "last", "method": None, "tol": 10, "loss": "huber"}
    model = sp.PathRegressor(algorithm=AveragedInPlace(), n_iter=4, warm_start=True, **options)
    model.fit(X, y)
    first = model._warm.batch.extended(9).coef
    np.testing.assert_array_equal(model._warm.batch.extended(9).coef, first)
    fresh = sp.PathRegressor(algorithm=Averaged(), n_iter=9, **options).fit(X, y)
    np.testing.assert_allclose(model.set_params(n_iter=9).fit(X, y).coef_, fresh.coef_)


WRONG = {
    "nothing": lambda x: None,
    "a number": lambda x: 0.0,
    "a list": lambda x: x.tolist(),
    "too few": lambda x: x[:-1],
    "a vector": lambda x: x.ravel(),
    "more members": lambda x: x + np.zeros((1, 3, 1)),
    "complex": lambda x: x + 0j,
    "masked": lambda x: np.ma.masked_less(x, 0),
    "objects": lambda x: x.astype(object),
    "dates": lambda x: (100 * x).astype("datetime64[s]"),
    "tensors": lambda x: torch.tensor(x),
}


@pytest.mark.parametrize("fit_intercept", [False, True], ids=["no intercept", "intercept"])
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_is_no_iterate_is_refused(wrong, fit_intercept):
    class Prox(sp.Lasso):
        def prox(self, b, step):
            return wrong(super().prox(b, step))

    class Gradient(sp.Huber):
        def gradient(self, r, step=0.0, rows=None):
            return wrong(super().gradient(r, step, rows))

    class Dual(sp.ChambollePock):
        def dual(self, prox, t, u, v):
            return wrong(super().dual(prox, t, u, v))

    X, y, _ = draw(30, 6)
    steps = sp.ChambollePock(0.1, 0.1)
    options = {"n_iter": 3, "fit_intercept": fit_intercept}
    with pytest.raises(ValueError, match=r"^Prox.prox must return an array of shape \(6, 1, 1\)"):
        sp.run(X, y, sp.LAD(), Prox(0.2), steps, **options)
    with pytest.raises(ValueError, match=r"^Prox.prox must return an array of shape \(6, 1, 1\)"):
        sp.run_batch(X, y, sp.LAD(), [Prox(0.2), sp.Ridge(0.1)], steps, **options)
    with pytest.raises(ValueError, match=r"^Gradient.gradient must return an array of shape \(30"):
        sp.run(X, y, Gradient(), sp.Lasso(0.2), steps, **options)
    with pytest.raises(ValueError, match=r"^Dual.dual must return an array of shape \(30, 1, 1\)"):
        sp.run(X, y, sp.LAD(), sp.Lasso(0.2), Dual(0.1, 0.1), **options)


def test_other_precisions_are_cast():
    class Single(sp.Lasso):
        def prox(self, b, step):
            return super().prox(b, step).astype(np.float32)

    X, y, _ = draw(30, 6)
    found = sp.run(X, y, sp.LAD(), Single(0.2), n_iter=9)
    assert found.coef.dtype == float
    expected = sp.run(X, y, sp.LAD(), sp.Lasso(0.2), n_iter=9)
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-5)


def test_what_is_no_jacobian_is_refused():
    class Mine(sp.Lasso):
        def jacobian(self, b, step):
            return abs(b) > step

    X, y, _ = draw(30, 6)
    path = sp.run(X, y, sp.LAD(), Mine(0.2), n_iter=9)
    with pytest.raises(TypeError, match=r"Mine.jacobian must return a Jacobian such as"):
        sp.estimate_risk(path, method="exact")
