"""Fits to rows on a cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from steinpath._support.arrays import Array
from steinpath._support.progress import begin
from steinpath.design._reading import as_design, check_response
from steinpath.design._remote import RemoteDesign
from steinpath.engine._data import prepare
from steinpath.engine._path import Path
from steinpath.estimators._rows import PreparedRows
from steinpath.problem._grid import make_penalty
from steinpath.problem._spread import robust_spread, scaled_test_loss
from steinpath.risk._options import RiskOptions
from steinpath.tuning._tune import check_n_iter
from steinpath.tuning._tuning import Tuning

if TYPE_CHECKING:
    from steinpath.estimators._estimators import PathEstimator

# Initial and largest number of iterations without a risk estimate, if it is not given.
_FIRST, _MOST = 100, 1600


def remote_rows(X: Any) -> RemoteDesign | None:
    """Return the design of rows on a cluster; None if X is to be in this process.

    A Dask array or data frame stays on the workers if there is a client.
    """
    if isinstance(X, RemoteDesign):
        return X
    if hasattr(type(X), "compute") and _has_client():
        design = as_design(X)
        return design if isinstance(design, RemoteDesign) else None
    return None


def _has_client() -> bool:
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return False
    try:
        return distributed.get_client() is not None
    except ValueError:
        return False


def check_remote(
    estimator: PathEstimator, given: Any, design: RemoteDesign, y: Any, sample_weight: Any
) -> Array:
    """Return the validated responses of rows on a cluster; store the names of the columns."""
    for name, asked in (
        ("sample_weight", sample_weight is not None),
        ("warm_start", estimator.warm_start),
    ):
        if asked:
            raise ValueError(f"{name} is not available for rows on a cluster; omit it")
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but y is None")
    y = check_response(y.compute() if hasattr(type(y), "compute") else y, design)
    if len(y) < 2:
        raise ValueError(f"X has n_samples = {len(y)}; at least 2 are required")
    estimator.n_features_in_ = design.shape[1]
    names = getattr(given, "columns", None)
    if names is None:
        names = getattr(design, "column_names", None)
    if names is not None and all(isinstance(name, str) for name in names):
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    return y


def run_remote(
    estimator: PathEstimator, rows: PreparedRows, design: RemoteDesign, options: RiskOptions | None
) -> tuple[Sequence[Path], tuple[int, int]]:
    """Run all penalties on the cluster, and select.

    Returns the paths, the index of the selected path and the selected iteration.
    """
    estimator.y_scale_ = robust_spread(rows.y, None)
    estimator.loss_ = loss = estimator._loss(estimator.y_scale_)
    penalty, algorithm = estimator._penalty(), estimator._algorithm()
    intercept, n_iter, iterate = estimator.fit_intercept, check_n_iter(estimator.n_iter), None
    if estimator.select != "risk":
        iterate = -1 if estimator.select == "last" else int(estimator.select)
    estimator.alphas_, lams = estimator._grid(prepare(design, rows.y, loss, intercept), penalty)
    if options is None:
        assert iterate is not None  # checked before
        own = make_penalty(penalty, lams[0])
        for length in _lengths(n_iter, iterate):
            path: Path = design.run(rows.y, loss, own, algorithm, length, intercept, None, None)
            if not estimator._not_converged(path):
                break
        return [path], (0, path.n_iter if iterate < 0 else min(iterate, path.n_iter))
    seed = check_random_state(estimator.random_state).randint(np.iinfo(np.int32).max)
    options = options.but(test_loss=scaled_test_loss(options.test_loss, loss, estimator.y_scale_))
    how = options, seed, estimator.rule, iterate, n_iter
    begin("tuning on the cluster", 0)
    tuning: Tuning = design.tune(rows.y, loss, penalty, (lams, None), algorithm, intercept, *how)
    estimator._keep_risk(tuning)
    estimator._keep_left_out(tuning, rows)
    return [risk.path for risk in tuning.risks], tuning.best


def _lengths(n_iter: int | None, iterate: int) -> list[int]:
    """Return numbers of iterations to try until convergence; one number if it is given."""
    if n_iter is not None or iterate >= 0:
        return [max(iterate, 1) if n_iter is None else n_iter]
    lengths = [_FIRST]
    while lengths[-1] < _MOST:
        lengths.append(2 * lengths[-1])
    return lengths
