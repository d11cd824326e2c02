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

from steinpath import distributed, simulate
from steinpath.algorithms import (
    FISTA,
    ChambollePock,
    LinearizedADMM,
    ProximalGradient,
)
from steinpath.baselines import (
    Validation,
    cross_validate_path,
    hold_out_path,
    leave_one_out_path,
)
from steinpath.batch_risks import estimate_risk_batch
from steinpath.batches import Batch, run_batch
from steinpath.corrections import correction_matrices
from steinpath.estimators import (
    HuberLasso,
    HuberRidge,
    LADElasticNet,
    LADLasso,
    LADRidge,
    PathRegressor,
    QuantileLasso,
    QuantileRidge,
    SqrtLasso,
    SqrtRidge,
)
from steinpath.losses import LAD, EpsilonInsensitive, Huber, Quantile, Squared, SquareRoot
from steinpath.models import Model, load_model
from steinpath.path import DivergenceError, Path, run
from steinpath.penalties import MCP, SCAD, ElasticNet, GroupLasso, Lasso, NoPenalty, Ridge
from steinpath.plots import RiskPathDisplay
from steinpath.recursion import Recursion
from steinpath.risk import Risk, estimate_risk
from steinpath.stopping import StopOnRisk
from steinpath.strengths import lam_max
from steinpath.tuning import Tuning, tune

__all__ = [
    "FISTA",
    "LAD",
    "MCP",
    "SCAD",
    "Batch",
    "ChambollePock",
    "DivergenceError",
    "ElasticNet",
    "EpsilonInsensitive",
    "GroupLasso",
    "Huber",
    "HuberLasso",
    "HuberRidge",
    "LADElasticNet",
    "LADLasso",
    "LADRidge",
    "Lasso",
    "LinearizedADMM",
    "Model",
    "NoPenalty",
    "Path",
    "PathRegressor",
    "ProximalGradient",
    "Quantile",
    "QuantileLasso",
    "QuantileRidge",
    "Recursion",
    "Ridge",
    "Risk",
    "RiskPathDisplay",
    "SqrtLasso",
    "SqrtRidge",
    "SquareRoot",
    "Squared",
    "StopOnRisk",
    "Tuning",
    "Validation",
    "correction_matrices",
    "cross_validate_path",
    "distributed",
    "estimate_risk",
    "estimate_risk_batch",
    "hold_out_path",
    "lam_max",
    "leave_one_out_path",
    "load_model",
    "run",
    "run_batch",
    "simulate",
    "tune",
]
