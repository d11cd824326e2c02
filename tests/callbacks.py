"""A callback of scikit-learn that records what it is shown."""

import pytest


class Counter:
    """Counts tasks; ends the run after so many iterations."""

    def __init__(self, stop_after=None):
        pytest.importorskip("sklearn.callback")  # of scikit-learn 1.9
        self.stop_after, self.hooks, self.models = stop_after, [], []

    def setup(self, estimator, context):
        self.hooks.append("setup")

    def teardown(self, estimator, context):
        self.hooks.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.hooks.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X, y, metadata, fitted_estimator):
        self.hooks.append(f"end {context.task_name}")
        self.models.append((fitted_estimator, X, y, metadata))
        return context.task_name == "iteration" and self.iterations == self.stop_after

    @property
    def iterations(self):
        return self.hooks.count("end iteration")

    @property
    def open(self):
        return self.hooks.count("setup") - self.hooks.count("teardown")
