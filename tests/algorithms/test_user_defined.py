"""Losses, penalties, algorithms and maps of the user's own: what they return is checked."""

import numpy as np
import pytest
import torch

import steinpath as sp
from problems import draw
from steinpath._support.arrays import namespace

LIBRARIES = pytest.mark.parametrize("library", [np.asarray, torch.tensor], ids=["numpy", "torch"])


def momentum():
    """Momentum, so that all of the past matters."""
    return {
        "dual": lambda t, u, v: 0.3 * u[-1] - v[-1],
        "primal": lambda t, b, eta: b[-1] + 0.5 * (b[-1] - b[-2:][0]) - 0.2 * eta[-1],
        "dual_jvp": lambda t, u, v, du, dv: 0.3 * du[-1] - dv[-1],
        "primal_jvp": lambda t, b, eta, db, deta: (
            db[-1] + 0.5 * (db[-1] - db[-2:][0]) - 0.2 * deta[-1]
        ),
    }


@LIBRARIES
@pytest.mark.parametrize("which", momentum())
def test_maps_may_return_the_same_array_each_time(which, library):
    X, y = map(library, draw(24, 6)[:2])
    maps, kept = momentum(), {}

    def same_array(*args):
        value = maps[which](*args)
        kept.setdefault(tuple(value.shape), 0 * value)[...] = value
        return kept[tuple(value.shape)]

    found, expected = (
        sp.run(X, y, sp.Squared(), sp.NoPenalty(), sp.Recursion(**{**maps, **own}), n_iter=7)
        for own in ({which: same_array}, {})
    )
    np.testing.assert_array_equal(found.coef, expected.coef)
    risks = [sp.estimate_risk(path, method="exact").values for path in (found, expected)]
    np.testing.assert_array_equal(*risks)


@pytest.mark.parametrize("which", momentum())
def test_maps_cannot_modify_the_past(which):
    X, y, _ = draw(24, 6)
    maps = momentum()

    def in_place(t, *histories):
        for history in histories:
            history[-1][...] = 7.0

    def risk():
        recursion = sp.Recursion(**{**maps, which: in_place})
        path = sp.run(X, y, sp.Squared(), sp.NoPenalty(), recursion, n_iter=3)
        return sp.estimate_risk(path, method="exact")

    with pytest.raises(ValueError, match="read-only"):
        risk()


def test_a_map_that_returns_the_past_itself():
    X, y, _ = draw(24, 6)
    maps = {
        **momentum(),
        "primal": lambda t, b, eta: b[-1],
        "primal_jvp": lambda *args: args[3][-1],
    }
    path = sp.run(X, y, sp.Squared(), sp.NoPenalty(), sp.Recursion(**maps), n_iter=4)
    assert not path.coef.any()
    assert np.isfinite(sp.estimate_risk(path, method="exact").values).all()


@LIBRARIES
def test_histories_are_lists(library):
    X, y = map(library, draw(24, 6)[:2])
    maps = momentum()

    def average(t, u, v):
        xp = namespace(u[0])
        assert isinstance(v, list)
        assert len(v) == len(u) == t
        mean = xp.mean(xp.stack(v), axis=0)
        np.testing.assert_allclose(mean, sum(v) / len(v), atol=1e-12)
        return -mean

    path = sp.run(
        X, y, sp.Squared(), sp.NoPenalty(), sp.Recursion(**{**maps, "dual": average}), n_iter=5
    )
    residuals = (y - path.fitted[:-1]) / np.sqrt(24)
    means = np.cumsum(np.asarray(residuals), axis=0) / np.arange(1, 6)[:, None]
    np.testing.assert_allclose(path.dual, -means, atol=1e-12)


#: What is no iterate, and how a message shows it.
WRONG = {
    "nothing": (lambda x: None, "it returned NoneType$"),
    "a number": (lambda x: 0.0, "it returned float$"),
    "a list": (lambda x: x.tolist(), "it returned list$"),
    "too few": (lambda x: x[:-1], r"it returned ndarray \(shape"),
    "more axes": (lambda x: x[None], r"it returned ndarray \(shape \(1, "),
    "complex": (lambda x: x + 0j, "dtype complex128"),
    "objects": (lambda x: x.astype(object), "dtype object"),
    "dates": (lambda x: (100 * x).astype("datetime64[s]"), r"dtype datetime64\[s\]"),
    "masked": (lambda x: np.ma.masked_less(x, 0), "it returned MaskedArray"),
    "tensors": (lambda x: torch.tensor(x), "it returned Tensor"),
}
NO_ITERATE = pytest.mark.parametrize(("returned", "message"), WRONG.values(), ids=WRONG)


@pytest.mark.parametrize("name", momentum())
@NO_ITERATE
def test_maps_that_return_no_iterate_are_refused(name, returned, message):
    X, y, _ = draw(24, 6)
    maps = momentum()
    broken = {**maps, name: lambda *args: returned(maps[name](*args))}
    what = "a block of tangents" if name.endswith("jvp") else "an array like X"
    with pytest.raises(ValueError, match=rf"{name}.* must return {what} of shape .*{message}"):
        sp.estimate_risk(
            sp.run(X, y, sp.Squared(), sp.NoPenalty(), sp.Recursion(**broken), n_iter=3),
            method="exact",
        )


def test_tensors_that_require_gradients_are_refused():
    X, y, _ = draw(24, 6)
    maps = momentum()
    broken = {**maps, "dual": lambda *args: maps["dual"](*args).requires_grad_()}
    with pytest.raises(ValueError, match="requires_grad True"):
        sp.run(
            torch.tensor(X),
            torch.tensor(y),
            sp.Squared(),
            sp.NoPenalty(),
            sp.Recursion(**broken),
            n_iter=3,
        )


@pytest.mark.parametrize("fit_intercept", [False, True], ids=["no intercept", "intercept"])
@NO_ITERATE
def test_what_is_no_iterate_is_refused(returned, message, fit_intercept):
    class Prox(sp.Lasso):
        def prox(self, b, step):
            return returned(super().prox(b, step))

    class Gradient(sp.Huber):
        def gradient(self, r, step=0.0, rows=None):
            return returned(super().gradient(r, step, rows))

    class Dual(sp.ChambollePock):
        def dual(self, prox, t, u, v):
            return returned(super().dual(prox, t, u, v))

    X, y, _ = draw(30, 6)
    lasso, steps = sp.Lasso(0.2), sp.ChambollePock(0.1, 0.1)
    options = {"n_iter": 3, "fit_intercept": fit_intercept}
    for name, size, run in (
        ("Prox.prox", 6, lambda: sp.run(X, y, sp.LAD(), Prox(0.2), steps, **options)),
        (
            "Prox.prox",
            6,
            lambda: sp.run_batch(X, y, sp.LAD(), [Prox(0.2), sp.Ridge(0.1)], steps, **options),
        ),
        ("Gradient.gradient", 30, lambda: sp.run(X, y, Gradient(), lasso, steps, **options)),
        ("Dual.dual", 30, lambda: sp.run(X, y, sp.LAD(), lasso, Dual(0.1, 0.1), **options)),
    ):
        shape = rf"shape \({size}, 1, 1\) .*{message}"
        with pytest.raises(ValueError, match=f"^{name} must return an array of {shape}"):
            run()


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
