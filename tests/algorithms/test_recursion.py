"""Maps of the user's own: they may work in place, and what they return is checked."""

import operator

import numpy as np
import pytest
import torch

import steinpath as sp
from problems import draw
from steinpath._support.arrays import copied, namespace

LIBRARIES = pytest.mark.parametrize("library", [np.asarray, torch.tensor], ids=["numpy", "torch"])


def careful():
    """Momentum, so that all of the past matters."""
    return {
        "dual": lambda t, u, v: 0.3 * u[-1] - v[-1],
        "primal": lambda t, b, eta: b[-1] + 0.5 * (b[-1] - b[-2:][0]) - 0.2 * eta[-1],
        "dual_jvp": lambda t, u, v, du, dv: 0.3 * du[-1] - dv[-1],
        "primal_jvp": lambda t, b, eta, db, deta: (
            db[-1] + 0.5 * (db[-1] - db[-2:][0]) - 0.2 * deta[-1]
        ),
    }


def spoil(*histories):
    """Change all that a map is handed, by every way to an array of a list."""
    for history in histories:
        for array in history:
            array[...] = 7.0
        for k in range(len(history)):
            history[k][...] = 7.0
        joined = operator.add(history, []), operator.add([], history)
        every = reversed(history), history[:], history.copy(), [*history], tuple(history)
        for arrays in (*every, *joined, [history.pop()]):
            for array in arrays:
                array[...] = 7.0
        history.clear()


class Spoils:
    """Calls a map, and then changes all that it was handed."""

    def __init__(self, function):
        self.function = function

    def __call__(self, t, *histories):
        value = copied(self.function(t, *histories))
        spoil(*histories)
        return value


class SameArray(Spoils):
    """Returns an array that it keeps and changes at the next call."""

    def __init__(self, function):
        super().__init__(function)
        self.kept = {}

    def __call__(self, t, *histories):
        value = self.function(t, *histories)
        kept = self.kept.setdefault(tuple(value.shape), copied(value))
        kept[...] = value
        return kept


class ViewOfSameArray(SameArray):
    def __call__(self, t, *histories):
        return super().__call__(t, *histories)[...]


class ItsArgument(Spoils):
    """Returns an array of the right shape that it was handed."""

    def __call__(self, t, *histories):
        value = self.function(t, *histories)
        for history in histories:
            if history[-1].shape == value.shape:
                argument = history[-1]
                argument[...] = value
        return argument


@LIBRARIES
@pytest.mark.parametrize("careless", [Spoils, SameArray, ViewOfSameArray, ItsArgument])
@pytest.mark.parametrize("which", [*careful(), "all"])
def test_maps_that_work_in_place_are_those_that_do_not(careless, which, library):
    X, y = map(library, draw(24, 6)[:2])
    maps = careful()
    chosen = {name: careless(maps[name]) for name in maps if which in (name, "all")}
    found, expected = (
        sp.run(X, y, sp.Squared(), sp.NoPenalty(), sp.Recursion(**each), n_iter=7)
        for each in ({**maps, **chosen}, maps)
    )
    for method in ("exact", "loo"):
        risks = [sp.estimate_risk(path, method=method, rng=0).values for path in (found, expected)]
        np.testing.assert_array_equal(*risks)
    for name in ("coef", "dual", "fitted", "etas"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_a_map_that_returns_the_past_itself():
    X, y, _ = draw(24, 6)
    maps = {**careful(), "primal": lambda t, b, eta: b[-1], "primal_jvp": lambda *args: args[3][-1]}
    path = sp.run(X, y, sp.Squared(), sp.NoPenalty(), sp.Recursion(**maps), n_iter=4)
    assert not path.coef.any()
    assert np.isfinite(sp.estimate_risk(path, method="exact").values).all()


@LIBRARIES
def test_histories_are_lists(library):
    X, y = map(library, draw(24, 6)[:2])
    maps = careful()

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


@pytest.mark.parametrize("name", careful())
@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda x: None, "it returned NoneType$"),
        (lambda x: 0.0, "it returned float$"),
        (lambda x: x.tolist(), "it returned list$"),
        (lambda x: x[:-1], r"it returned ndarray \(shape"),
        (lambda x: x[None], r"it returned ndarray \(shape \(1, "),
        (lambda x: x + 0j, "dtype complex128"),
        (lambda x: x.astype(object), "dtype object"),
        (lambda x: (100 * x).astype("datetime64[s]"), r"dtype datetime64\[s\]"),
        (lambda x: np.ma.masked_less(x, 0), "it returned MaskedArray"),
        (lambda x: torch.tensor(x), "it returned Tensor"),
    ],
)
def test_what_is_no_iterate_is_refused(name, returned, message):
    X, y, _ = draw(24, 6)
    maps = careful()
    broken = {**maps, name: lambda *args: returned(maps[name](*args))}
    what = "a block of tangents" if name.endswith("jvp") else "an array like X"
    with pytest.raises(ValueError, match=rf"{name}.* must return {what} of shape .*{message}"):
        sp.estimate_risk(
            sp.run(X, y, sp.Squared(), sp.NoPenalty(), sp.Recursion(**broken), n_iter=3),
            method="exact",
        )


def test_tensors_that_require_gradients_are_refused():
    X, y, _ = draw(24, 6)
    maps = careful()
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
