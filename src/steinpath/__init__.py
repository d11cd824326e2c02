"""Know the test error of every iterate of an optimisation algorithm, without a test set.

>>> import numpy as np
>>> import steinpath as sp
>>> rng = np.random.default_rng(0)
>>> X = rng.standard_normal((200, 100))
>>> y = X[:, :5].sum(axis=1) + rng.standard_t(2, size=200)
>>> path = sp.run(X, y, sp.LAD(), sp.Lasso(0.5), n_iter=40)
>>> risk = sp.estimate_risk(path)
>>> beta = path.coef[risk.best_iter]
"""

from steinpath import simulate
from steinpath.algorithms import (
    FISTA,
    ChambollePock,
    LinearizedADMM,
    ProximalGradient,
)
from steinpath.corrections import correction_matrices
from steinpath.losses import LAD, EpsilonInsensitive, Huber, Quantile, Squared, SquareRoot
from steinpath.path import DivergenceError, Path, run
from steinpath.penalties import MCP, SCAD, ElasticNet, GroupLasso, Lasso, NoPenalty, Ridge
from steinpath.recursion import Recursion
from steinpath.risk import Risk, estimate_risk
from steinpath.stopping import StopOnRisk
from steinpath.tuning import lam_max

__all__ = [
    "FISTA",
    "LAD",
    "MCP",
    "SCAD",
    "ChambollePock",
    "DivergenceError",
    "ElasticNet",
    "EpsilonInsensitive",
    "GroupLasso",
    "Huber",
    "Lasso",
    "LinearizedADMM",
    "NoPenalty",
    "Path",
    "ProximalGradient",
    "Quantile",
    "Recursion",
    "Ridge",
    "Risk",
    "SquareRoot",
    "Squared",
    "StopOnRisk",
    "correction_matrices",
    "estimate_risk",
    "lam_max",
    "run",
    "simulate",
]
