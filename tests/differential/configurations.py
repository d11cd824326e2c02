"""Random problems, as the package is given them and as `reference` has them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars
import torch
from scipy import sparse

import reference
import steinpath as sp
from reference import Reference, Term
from steinpath.problem._losses import LOSSES as LOSS_CLASSES
from steinpath.problem._penalties import PENALTIES as PENALTY_CLASSES

LOSSES = {
    "lad": lambda rng: {},
    "square_root": lambda rng: {},
    "quantile": lambda rng: {"q": rng.uniform(0.05, 0.95)},
    "huber": lambda rng: {"delta": 10 ** rng.uniform(-1, 1)},
    "epsilon_insensitive": lambda rng: {"eps": rng.choice([0.0, rng.uniform(0, 1)])},
    "squared": lambda rng: {},
    "hinge": lambda rng: _class_weights(rng),
    "squared_hinge": lambda rng: _class_weights(rng),
    "logistic": lambda rng: _class_weights(rng),
}
SMOOTH = ("huber", "squared", "squared_hinge", "logistic")
PENALTIES = {
    "lasso": lambda rng: {},
    "ridge": lambda rng: {},
    "elastic_net": lambda rng: {"l1_ratio": rng.choice([0.0, 1.0, rng.uniform()])},
    "mcp": lambda rng: {"gamma": rng.uniform(1.5, 5)},
    "scad": lambda rng: {"a": rng.uniform(2.5, 5)},
    "group_lasso": lambda rng: {},
    "none": lambda rng: {},
}
CONVEX = {*PENALTIES} - {"mcp", "scad"}
RECURSIONS = {
    sp.ChambollePock: reference.chambolle_pock,
    sp.HalpernPDHG: reference.halpern,
    sp.LinearizedADMM: reference.linearized_admm,
    sp.ProximalGradient: reference.proximal_gradient,
    sp.FISTA: reference.fista,
}


def _of_package(loss):
    kind, parameters = LOSS_CLASSES[loss.name], loss.parameters
    if kind.margin:
        return kind({-1: parameters["low"], 1: parameters["high"]})
    return kind(**parameters)


def _class_weights(rng):
    """Of the classes -1 and 1; at most one, for step sizes that do not know them."""
    low, high = rng.choice([1.0, rng.uniform(0.2, 1)], 2)
    return {"low": low, "high": high}


def _memmap(X, folder):
    mapped = np.memmap(folder / "X", dtype=X.dtype, mode="w+", shape=X.shape)
    mapped[:] = X
    mapped.flush()
    return np.memmap(folder / "X", dtype=X.dtype, mode="r", shape=X.shape)


CONTAINERS = {
    "C order": lambda X, folder: np.ascontiguousarray(X),
    "Fortran order": lambda X, folder: np.asfortranarray(X),
    "strided": lambda X, folder: np.repeat(X, 2, axis=1)[:, ::2],
    "CSR": lambda X, folder: sparse.csr_array(X),
    "CSC": lambda X, folder: sparse.csc_matrix(X),
    "COO": lambda X, folder: sparse.coo_array(X),
    "pandas": lambda X, folder: pd.DataFrame(X),
    "polars": lambda X, folder: polars.DataFrame(X),
    "list": lambda X, folder: X.tolist(),
    "torch": lambda X, folder: torch.asarray(X),
    "memmap": _memmap,
}


@dataclass(frozen=True)
class Configuration:
    """What `steinpath.run` is called with, and the same problem in plain NumPy."""

    reference: Reference
    container: str
    dtype: type
    algorithm: Any
    n_iter: int

    def run(self, folder, n_iter=None):
        """Run the package, and give back NumPy arrays in double precision."""
        problem, loss, penalty = self.reference, self.reference.loss, self.reference.penalty
        X = CONTAINERS[self.container](problem.X.astype(self.dtype), folder)
        how = dict(penalty.parameters)
        if penalty.groups is not None:
            how["groups"] = penalty.groups
        if penalty.name != "none":
            how |= {"lam": penalty.lam, "weights": penalty.weights}
        even = np.ptp(problem.weights) == 0
        return sp.run(
            X,
            problem.y,
            _of_package(loss),
            PENALTY_CLASSES[penalty.name](**how),
            self.algorithm,
            n_iter=n_iter or self.n_iter,
            fit_intercept=problem.fit_intercept,
            sample_weight=None if even else problem.weights,
        )


def draw(seed):
    """Draw a configuration."""
    rng = np.random.default_rng(seed)
    n, p = (int(size) for size in rng.integers((4, 1), (41, 41)))
    dtype = rng.choice([np.float64, np.float64, np.float32])
    container = str(rng.choice([*CONTAINERS]))
    # a list has no precision of its own
    dtype = np.float64 if container == "list" else dtype
    X, y = _data(rng, n, p, dtype)
    loss = _loss(rng)
    problem = Reference(
        X,
        labels(y) if loss.name in reference.MARGIN else y,
        loss=loss,
        penalty=_penalty(rng, p),
        weights=_weights(rng, n).astype(dtype).astype(float),
        fit_intercept=bool(rng.random() < 0.5),
    )
    algorithm = _algorithm(rng, problem, smooth=loss.name in SMOOTH)
    return Configuration(problem, container, dtype, algorithm, n_iter=int(rng.integers(1, 60)))


def _data(rng, n, p, dtype):
    """Correlated columns, some of them sparse or constant, of different sizes and means."""
    X = rng.standard_normal((n, p)) + 0.5 * rng.standard_normal((n, 1))
    X = X * (rng.random((n, p)) < rng.choice([0.3, 1.0])) * np.exp(0.5 * rng.standard_normal(p))
    X = X + rng.choice([0.0, 1.0]) * rng.standard_normal(p)
    if rng.random() < 0.2:
        X[:, rng.integers(p)] = rng.choice([0.0, 2.0])
    noise = rng.standard_t(2, n) if rng.random() < 0.5 else rng.standard_normal(n)
    y = X @ (rng.standard_normal(p) * (rng.random(p) < 0.3)) + noise + rng.choice([0.0, 3.0])
    y = y * 10.0 ** rng.integers(-2, 3)
    return X.astype(dtype).astype(float), y.astype(dtype).astype(float)


def labels(y):
    """Labels of two classes, the smaller one of two rows at least."""
    most = len(y) - max(2, len(y) // 3)
    return np.where(np.argsort(np.argsort(y)) >= most, 1.0, -1.0)


def _loss(rng):
    name = str(rng.choice([*LOSSES]))
    return Term(name, {key: float(value) for key, value in LOSSES[name](rng).items()})


def _penalty(rng, p):
    name = str(rng.choice([*PENALTIES]))
    parameters = {key: float(value) for key, value in PENALTIES[name](rng).items()}
    groups, size = None, p
    if name == "group_lasso":
        groups = rng.integers(0, 4, p)
        size = len(np.unique(groups))
    weights = np.ones(size)
    if rng.random() < 0.4:
        weights = rng.random(size) * (rng.random(size) < 0.7)
    return Term(name, parameters, float(10 ** rng.uniform(-2, 1)), weights, groups)


def _weights(rng, n):
    if rng.random() < 0.5:
        return np.ones(n)
    return rng.choice([rng.integers(1, 5, n).astype(float), rng.uniform(0.1, 3, n)])


def _algorithm(rng, problem, smooth):
    """An algorithm with step sizes of its own, or of ours that are just safe."""
    sigma = float(10 ** rng.uniform(-1, 1))
    convex = problem.penalty.name in CONVEX
    norm = np.linalg.norm(problem.design, 2)
    tau = 0.95 * problem.n / norm**2 / sigma if convex and norm else None
    kinds = [
        lambda: sp.ChambollePock(),
        lambda: sp.ChambollePock(sigma, tau, theta=rng.random()),
        lambda: sp.ChambollePock(sigma, tau, relaxation=rng.uniform(0.5, 1.9)),
        lambda: sp.ChambollePock(relaxation=rng.uniform(0.5, 1.9)),
        lambda: sp.LinearizedADMM(),
        lambda: sp.LinearizedADMM(sigma, tau),
        lambda: sp.HalpernPDHG(ratio="auto"),
        lambda: sp.HalpernPDHG(sigma, tau, int(rng.integers(1, 20)), warmup=int(rng.integers(3))),
        lambda: sp.HalpernPDHG(restart=None, ratio=sigma),
        lambda: sp.HalpernPDHG(restart="auto", warmup=int(rng.integers(3))),
    ]
    if smooth:
        kinds += [lambda: sp.ProximalGradient(), lambda: sp.FISTA()] * 3
        if tau:
            kinds += [lambda: sp.ProximalGradient(1.8 * sigma * tau)]
    return kinds[rng.integers(len(kinds))]()
