"""Work that tells how far it is, and makes do with what is finished."""

import numpy as np
import pytest

import steinpath as sp
from problems import draw
from steinpath._support.progress import listener


class Listening:
    """Counts the steps of each part, and has enough after so many of one of them."""

    def __init__(self, part="", steps=0):
        self.part, self.steps = part, steps
        self.counts, self.totals = {}, {}

    def __call__(self, what, steps):
        self.totals[what], self.counts[what] = steps, 0

        def step():
            self.counts[what] += 1
            return what.startswith(self.part) and self.counts[what] >= self.steps

        return step


@pytest.fixture
def listening(request):
    tokens = []

    def listen(*arguments):
        who = Listening(*arguments)
        tokens.append(listener.set(who))
        return who

    yield listen
    for token in reversed(tokens):
        listener.reset(token)


def tune(**options):
    X, y, _ = draw(120, 40)
    settings = {"lams": 5, "n_iter": 30, "method": "compressed", "rng": 0}
    return sp.tune(X, y, sp.LAD(), sp.Lasso, **settings | options)


def test_every_step_is_told(listening):
    record = listening("nothing", 0)
    tuning = tune()
    assert record.counts["running 5 penalties"] == record.totals["running 5 penalties"] == 30
    assert record.counts["estimating their risks"] == 5
    assert record.counts["auditing the best"] >= 1
    listener.set(None)
    np.testing.assert_array_equal(tune().risk, tuning.risk)  # listening changes nothing


def test_fewer_iterations_are_a_shorter_tuning(listening):
    listening("running", 12)
    cut = tune()
    listener.set(None)
    assert cut.path.n_iter == 12
    np.testing.assert_array_equal(cut.risk, tune(n_iter=12).risk)


def test_fewer_estimates_are_a_tuning_of_fewer_penalties(listening):
    """Neighbours are estimated together: those under way are finished, and no others begun."""
    listening("estimating", 3)
    cut = tune(lams=30)
    listener.set(None)
    whole = tune(lams=30)
    count = len(cut.lams)
    assert 3 <= count < 30
    np.testing.assert_array_equal(cut.lams, whole.lams[:count])
    assert cut.risk.shape == (count, 31)
    assert cut.best[0] < count


def test_a_choice_that_was_not_looked_at_closely(listening):
    listening("looking", 1)
    cut = tune()
    assert cut.settled.sum() == 1
    assert cut.risk.shape == (5, 31)
