"""Public names of `steinpath`, imported when the first of them is used."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from steinpath.algorithms._family import (
    FISTA,
    ChambollePock,
    HalpernPDHG,
    LinearizedADMM,
    ProximalGradient,
)
from steinpath.algorithms._recursion import Recursion
from steinpath.engine._batch import Batch
from steinpath.engine._loop import DivergenceError
from steinpath.engine._null_model import lam_max
from steinpath.engine._path import Path
from steinpath.engine._run import run, run_batch
from steinpath.engine._traces import correction_matrices
from steinpath.estimators._classifiers import (
    HingeLasso,
    HingeRidge,
    LogisticElasticNet,
    LogisticLasso,
    LogisticRidge,
    PathClassifier,
)
from steinpath.estimators._effects import ColumnEffects, column_effects
from steinpath.estimators._encoder import TableEncoder
from steinpath.estimators._regressors import (
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
    predict_interval,
)
from steinpath.inference._coefficient_intervals import CoefficientIntervals
from steinpath.inference._estimate_intervals import (
    coefficient_intervals,
    coefficient_intervals_batch,
)
from steinpath.problem._losses import LAD, EpsilonInsensitive, Huber, Quantile, Squared, SquareRoot
from steinpath.problem._margins import Hinge, Logistic, SquaredHinge
from steinpath.problem._penalties import MCP, SCAD, ElasticNet, GroupLasso, Lasso, NoPenalty, Ridge
from steinpath.risk._estimate import estimate_risk, estimate_risk_batch
from steinpath.risk._leave_out import (
    Validation,
    cross_validate_path,
    hold_out_path,
    leave_one_out_path,
)
from steinpath.risk._risk import Risk
from steinpath.risk._stopping import StopOnRisk
from steinpath.tuning._tune import tune
from steinpath.tuning._tuning import Tuning

if TYPE_CHECKING:
    import steinpath.distributed as distributed
    import steinpath.simulate as simulate
    from steinpath.app.models import load_model, save_model
    from steinpath.app.report.build import report
    from steinpath.plots import RiskPathDisplay

try:
    __version__ = version("steinpath")
except PackageNotFoundError:  # run from a source tree, not installed
    __version__ = "0+unknown"

# Losses and penalties
__all__ = ["LAD", "MCP", "SCAD", "ElasticNet", "EpsilonInsensitive", "GroupLasso", "Hinge", "Huber"]
__all__ += ["Lasso", "Logistic", "NoPenalty", "Quantile", "Ridge", "SquareRoot", "Squared"]
__all__ += ["SquaredHinge"]
# Algorithms, runs and what is computed from them
__all__ += ["FISTA", "Batch", "ChambollePock", "CoefficientIntervals", "DivergenceError"]
__all__ += ["HalpernPDHG", "LinearizedADMM", "Path", "ProximalGradient", "Recursion", "Risk"]
__all__ += ["StopOnRisk", "Tuning", "Validation", "coefficient_intervals"]
__all__ += ["coefficient_intervals_batch", "correction_matrices", "cross_validate_path"]
__all__ += ["estimate_risk", "estimate_risk_batch", "hold_out_path", "lam_max"]
__all__ += ["leave_one_out_path", "run", "run_batch", "tune"]
# Estimators
__all__ += ["HingeLasso", "HingeRidge", "HuberLasso", "HuberRidge", "LADElasticNet", "LADLasso"]
__all__ += ["LADRidge", "LogisticElasticNet", "LogisticLasso", "LogisticRidge", "PathClassifier"]
__all__ += ["PathRegressor", "QuantileLasso", "QuantileRidge", "SqrtLasso", "SqrtRidge"]
__all__ += ["ColumnEffects", "TableEncoder", "column_effects", "predict_interval"]
# Reports, files, and modules
__all__ += ["RiskPathDisplay", "distributed", "load_model", "report", "save_model", "simulate"]


# What few programs need, or what depends on everything else, is imported on first use.
_LATER = {
    "RiskPathDisplay": "steinpath.plots",
    "load_model": "steinpath.app.models",
    "report": "steinpath.app.report.build",
    "save_model": "steinpath.app.models",
}


def __getattr__(name: str) -> Any:
    if name in ("distributed", "simulate"):
        return import_module(f"steinpath.{name}")
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
