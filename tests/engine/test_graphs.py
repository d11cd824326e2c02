"""Recorded iterations are those that would be done one by one.

There is no CUDA device here: what stands in for a graph runs the recorded lines again, and leaves
their results where the recording had put them, as a graph does.
"""

from dataclasses import dataclass

import numpy as np
import pytest

import steinpath as sp
from problems import draw
from steinpath.engine import _batch, _graphs, _loop, _tangents

torch = pytest.importorskip("torch")

ALGORITHMS = {
    "chambolle-pock": (sp.LAD(), sp.ChambollePock()),
    "theta": (sp.SquareRoot(), sp.ChambollePock(theta=0.3)),
    "relaxed": (sp.Huber(), sp.ChambollePock(relaxation=1.4)),
    "admm": (sp.Quantile(0.3), sp.LinearizedADMM()),
    "proximal gradient": (sp.Squared(), sp.ProximalGradient()),
    "fista": (sp.Squared(), sp.FISTA()),
    "halpern": (sp.LAD(), sp.HalpernPDHG(warmup=4, restart=15)),
}


class Graph:
    """Runs the same lines again, into the same arrays."""

    def __init__(self, body, newest):
        self.body, self.newest = body, newest

    def replay(self):
        found = self.body()
        for old, new in zip(
            (*self.newest[:3], *self.newest[3]), (*found[:3], *found[3]), strict=True
        ):
            old.copy_(new)


class Recording(_graphs.Recording):
    replays = 0

    def _on_device(self, body):
        self._newest = body()
        self._graph = Graph(body, self._newest)

    def replay(self, *recursion):
        steps = super().replay(*recursion)
        while True:
            try:
                newest = next(steps)
            except StopIteration as end:
                return end.value
            Recording.replays += 1
            try:
                yield newest
            except GeneratorExit:
                steps.close()
                raise


@pytest.fixture
def recorded(monkeypatch):
    def recording_of(maps, example, n_iter):
        return Recording(maps) if maps.steady else None

    for module in (_batch, _loop, _tangents):
        monkeypatch.setattr(module, "recording_of", recording_of)
    monkeypatch.setattr(_tangents, "on_cuda", lambda array: True)  # all of X in every window
    monkeypatch.setattr(Recording, "replays", 0)


def problem(loss):
    X, y, _ = draw(50, 12)
    return torch.asarray(X), torch.asarray(np.sign(y) if loss.margin else y)


@pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_paths_and_risks(name, intercept, request):
    loss, algorithm = ALGORITHMS[name]
    X, y = problem(loss)

    def found():
        path = sp.run(X, y, loss, sp.Lasso(0.1), algorithm, 40, intercept)
        options = {"precision": "float64", "rng": 0}
        return [
            *(path.coef, path.dual, path.fitted),
            sp.estimate_risk(path, method="compressed", **options).values,
            sp.estimate_risk(path, covariance=np.eye(12), method="compressed", **options).values,
            sp.estimate_risk(path, method="compressed", audit=4, **options).values,
            sp.estimate_risk(path, method="folds", **options).values,
        ]

    expected = found()
    request.getfixturevalue("recorded")
    for one, other in zip(found(), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    # HalpernPDHG starts and restarts one by one
    assert Recording.replays > 5 * (29 if name == "halpern" else 38)


def test_runs_that_go_on(request):
    X, y = problem(sp.LAD())
    expected = sp.run(X, y, sp.LAD(), sp.Lasso(0.1), n_iter=30)
    request.getfixturevalue("recorded")
    batch = sp.run_batch(X, y, sp.LAD(), sp.Lasso(np.array([0.1, 0.4])), n_iter=7)
    for n_iter in (9, 20, 30):
        batch = batch.extended(n_iter)
    np.testing.assert_allclose(batch[0].coef, expected.coef, atol=1e-12)
    stopped = batch.extended(40, watch=lambda t, b: t == 33)
    np.testing.assert_allclose(stopped.extended(40).coef, batch.extended(40).coef, atol=1e-12)


@dataclass(frozen=True)
class Momentum(sp.ChambollePock):
    """An algorithm of the user."""


def test_algorithms_of_users_are_not_recorded(recorded):
    X, y = problem(sp.LAD())
    sp.run(X, y, sp.LAD(), sp.Lasso(0.1), Momentum(), n_iter=20)
    assert Recording.replays == 0


def test_what_cannot_be_recorded_runs_one_by_one(recorded, monkeypatch):
    def refuse(self, body):
        self.failed = True

    monkeypatch.setattr(Recording, "_on_device", refuse)
    X, y = problem(sp.LAD())
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.1), n_iter=20)
    monkeypatch.undo()
    expected = sp.run(X, y, sp.LAD(), sp.Lasso(0.1), n_iter=20)
    np.testing.assert_array_equal(path.coef, expected.coef)


def test_the_switch(monkeypatch):
    class OnCuda:
        pass

    monkeypatch.setattr(_graphs, "on_cuda", lambda array: isinstance(array, OnCuda))
    maps = sp.run(*draw(20, 3)[:2], sp.LAD(), sp.Lasso(0.1), n_iter=1).maps
    assert _graphs.recording_of(maps, OnCuda(), 100) is not None
    assert _graphs.recording_of(maps, OnCuda(), 3) is None
    assert _graphs.recording_of(maps, np.zeros(1), 100) is None
    monkeypatch.setenv("STEINPATH_CUDA_GRAPHS", "0")
    assert _graphs.recording_of(maps, OnCuda(), 100) is None
