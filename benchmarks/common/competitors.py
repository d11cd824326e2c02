"""Adapters of methods that estimate the risk of every iterate.

Each takes a `Problem`, whose path has been run, and returns one or more curves with estimates of
the risk of every iterate. All use the same two batched products per step, so that methods are
compared and not implementations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import steinpath as sp
from steinpath.engine._batch import Batch
from steinpath.problem._scoring import observation_losses, resolve_test_loss
from steinpath.risk._leave_out import burmans_correction, cross_validate, leave_one_out
from steinpath.risk._splits import random_folds
from steinpath.study._settings import ALGORITHM, LAM, LOSSES, PAPER_NOISE, PENALTIES

#: Losses and penalties that all methods are run with.
PAIRS = [("lad", "lasso"), ("lad", "ridge"), ("square_root", "lasso"), ("square_root", "ridge")]
SIGMA, TAU, THETA = 0.1, 0.1, 0.5  # the paper's values, as in `ALGORITHM`


@dataclass(frozen=True, eq=False)
class Problem:
    """Data of the paper's model, a path, and its true risk."""

    loss: str
    penalty: str
    X: np.ndarray
    y: np.ndarray
    path: sp.Path
    model: sp.simulate.LinearModel

    @classmethod
    def draw(cls, loss: str, penalty: str, n: int, p: int, n_iter: int, seed: int) -> Problem:
        """Draw data and run the path."""
        model = sp.simulate.paper_model(p, PAPER_NOISE[loss])
        X, y = model.sample(n, rng=np.random.default_rng([seed, n, p]))
        path = sp.run(X, y, LOSSES[loss], PENALTIES[penalty], ALGORITHM, n_iter)
        return cls(loss, penalty, X, y, path, model)

    def truth(self) -> np.ndarray:
        """Return the exact risk of every iterate."""
        return self.model.risk(self.path.coef, self.path.loss)


def rms(values: np.ndarray) -> float:
    """Return the root mean square."""
    return float(np.sqrt(np.mean(values**2)))


Curves = dict[str, np.ndarray]


def plain(problem: Problem) -> Curves:
    """Run Chambolle–Pock in plain NumPy without storing iterates: the reference for times."""
    X, y, path = problem.X, problem.y, problem.path
    n, p = X.shape
    root_n = math.sqrt(n)
    u, b = np.zeros(n), np.zeros(p)
    v = before = y / root_n
    for _ in range(path.n_iter):
        w = u - SIGMA * ((1 + THETA) * v - THETA * before)
        if problem.loss == "lad":
            u = np.clip(w, -1 / root_n, 1 / root_n)
        else:
            u = w / max(1.0, float(np.linalg.norm(w)))
        z = b - TAU / root_n * (X.T @ u)
        if problem.penalty == "lasso":
            b = np.sign(z) * np.maximum(np.abs(z) - TAU / root_n * LAM, 0)
        elif problem.penalty == "ridge":
            b = z / (1 + TAU / root_n * LAM)
        else:
            raise NotImplementedError(f"no plain loop for {problem.penalty}")
        before, v = v, (y - X @ b) / root_n
    return {"last": b}


def steinpath_run(problem: Problem) -> Curves:
    """Run `sp.run`, which stores every iterate; the curve is the training error."""
    path = problem.path
    again = sp.run(problem.X, problem.y, path.loss, path.penalty, path.algorithm, path.n_iter)
    criterion = resolve_test_loss(None, path.loss)
    losses = observation_losses(criterion, problem.y, again.fitted)
    return {"training error": losses.mean(axis=1)}


def steinpath_risk(problem: Problem) -> Curves:
    """Run `sp.estimate_risk` with defaults: R̂, covariance unknown."""
    return {"steinpath R̂": sp.estimate_risk(problem.path, rng=0).values}


def steinpath_known(problem: Problem) -> Curves:
    """Run `sp.estimate_risk` with known covariance: R̃."""
    covariance = problem.model.covariance
    return {"steinpath R̃": sp.estimate_risk(problem.path, covariance=covariance, rng=0).values}


def hutchinson(problem: Problem) -> Curves:
    """Run the paper's estimator with five probes."""
    risk = sp.estimate_risk(problem.path, method="hutchinson", n_probes=5, rng=0)
    return {"paper's R̂, m=5": risk.values}


def folds(n_folds: int, burman: bool = False) -> Callable[[Problem], Curves]:
    """Return K-fold cross-validation of the whole path in single precision, plain or Burman's."""

    def run(problem: Problem) -> Curves:
        criterion = resolve_test_loss(None, problem.path.loss)
        rng = np.random.default_rng(0)
        design = problem.path.design.astype(np.float32)
        batch = Batch.of(problem.path)
        splits = random_folds(batch, n_folds, rng)
        (found,) = cross_validate(
            batch, [criterion], splits, design, correction=burmans_correction if burman else None
        )
        values = observation_losses(criterion, problem.y, found.predictions).mean(axis=1)
        if burman:
            return {f"{n_folds}-fold, Burman": values + found.optimism}
        return {f"{n_folds}-fold": values}

    return run


def loo(problem: Problem) -> Curves:
    """Run exact leave-one-out of the whole path, batched."""
    criterion = resolve_test_loss(None, problem.path.loss)
    predictions = leave_one_out(problem.path, design=problem.path.design.astype(np.float32))
    return {"leave-one-out": observation_losses(criterion, problem.y, predictions).mean(axis=1)}


#: Cheap methods run on every data set, expensive ones on the first of each configuration.
CHEAP: dict[str, Callable[[Problem], Curves]] = {
    "run": steinpath_run,
    "risk": steinpath_risk,
    "known": steinpath_known,
    "5-fold": folds(5),
    "10-fold": folds(10),
    "20-fold": folds(20),
    "5-fold, Burman": folds(5, burman=True),
    "10-fold, Burman": folds(10, burman=True),
}
EXPENSIVE: dict[str, Callable[[Problem], Curves]] = {"hutchinson": hutchinson, "loo": loo}
