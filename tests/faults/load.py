"""Fits that run beside others: importable, so that they reach other processes."""

import os
import sys
import warnings

import numpy as np

import steinpath as sp
from problems import draw
from steinpath._support.progress import listener
from steinpath._support.validation import capturing_warnings
from steinpath.app.cli import main


class Listening:
    """Notes every step, and whether the process's own settings were changed."""

    def __init__(self):
        self.steps, self.settings = [], set()

    def __call__(self, what, steps):
        def step():
            self.steps.append((what, steps))
            self.settings.add(settings())
            return False

        return step


def settings():
    """What a fit must leave alone, since all threads share it."""
    state = np.random.get_state()  # noqa: NPY002 (the one that everybody shares)
    return str(warnings.filters), os.getcwd(), state[1].tobytes(), state[2]


def fit(k):
    """A fit of its own for each k: its bits, its progress, and its warnings."""
    X, y, _ = draw(60 + 5 * k, 15, seed=k)
    rng = np.random.default_rng(k)
    listening = Listening()
    token = listener.set(listening)
    try:
        with capturing_warnings() as said:
            steps = sp.ChambollePock(1.0 + k, 1.0)  # too long by an amount of its own
            path = sp.run(X, y, sp.LAD(), sp.Lasso(0.3), steps, 5)
            tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, 4, 20 + k, method="compressed", rng=rng)
    finally:
        listener.reset(token)
    arrays = [path.coef, tuning.risk, tuning.stderr, tuning.coef, rng.integers(2**62, size=2)]
    bits = [np.asarray(array).tobytes() for array in arrays]
    return bits, tuning.best, listening.steps, said, listening.settings


def command(arguments):
    """Run the command in this process, without its output, and return its exit code."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    try:
        main(arguments)
    except SystemExit as end:
        return end.code
