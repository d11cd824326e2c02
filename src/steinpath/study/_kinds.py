"""Replications of the studies ``choice``, ``margins`` and ``intervals``.

For the same seed, n, p and data-generating process, all configurations use the same data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtri

from steinpath.algorithms._family import ChambollePock
from steinpath.engine._null_model import lam_max
from steinpath.engine._run import run
from steinpath.inference._coefficient_intervals import CoefficientIntervals
from steinpath.inference._estimate_intervals import intervals_along
from steinpath.problem._penalties import Lasso, Penalty, Ridge
from steinpath.risk._estimate import estimate_risk
from steinpath.simulate import LabelModel, Noise, label_model
from steinpath.study._scenarios import BY_DESIGN, CHOICE_SCENARIOS, Sample, model_of
from steinpath.study._settings import (
    ALGORITHM,
    CHOICES,
    LOSSES,
    MARGIN_LOSSES,
    PENALTIES,
    SCORES,
    Configuration,
    Curves,
    generators,
    interval_times,
)
from steinpath.tuning._tune import tune

# Choice: tune a model, compare its error estimate and prediction intervals with the truth

#: Level of the prediction intervals.
PREDICTION_LEVEL = 0.9

# Number of new rows for the coverage of prediction intervals.
_ROWS = 2000


def _split(way: str, data: Sample) -> dict[str, Any]:
    """Return the options of `tune` for one of `steinpath.study._settings.CHOICES`."""
    if way == "time":
        from sklearn.model_selection import TimeSeriesSplit  # slow to import

        return {"cv": TimeSeriesSplit(5)}
    return {"groups": data.groups} if way == "groups" else {}


def choose(config: Configuration, seed: int) -> Curves:
    """Return risks by type of cross-validation, adjusted ("honest") or not ("naive")."""
    (rng, new), rngs = generators(config, seed, 2, CHOICES)
    data = CHOICE_SCENARIOS[config.rows](config.n, config.p, config.noise, rng)
    loss, penalty = LOSSES[config.loss], type(PENALTIES[config.penalty])
    curves: Curves = {}
    for way in config.ways:
        tuning = tune(
            data.X,
            data.y,
            loss,
            penalty,
            n_iter=config.iters or "auto",
            fit_intercept=True,
            rng=rngs[way],
            **_split(way, data),
        )
        later = deepcopy(new)  # the same new rows for all types of cross-validation
        X, y = data.new(_ROWS, later)
        low, high = tuning.predict_interval(X, PREDICTION_LEVEL).T
        values = {
            "truth": data.risk(tuning.coef, loss, tuning.intercept, later),
            "naive": tuning.naive_risk,
            "naive_stderr": tuning.naive_risk_stderr,
            "honest": tuning.best_risk,
            "honest_stderr": tuning.best_risk_stderr,
            "covered": np.mean((low <= y) & (y <= high)),
            "width": np.mean(high - low),
        }
        curves |= {f"{way}_{name}": np.array([float(value)]) for name, value in values.items()}
    return curves


# Margins: run a path of a margin loss, estimate its risk, compare

#: True intercepts: 50% or about 72% of the labels are 1.
CLASSES = {"equal classes": 0.0, "unequal classes": 1.5}

#: Scoring losses of each path; "matched" is that of its own loss.
RISKS = ("zero_one", "matched")

#: Options of `estimate_risk` for each estimator.
LABEL_WAYS: dict[str, dict[str, Any]] = {
    "hat": {"method": "compressed"},
    "mended": {"method": "auto", "audit": 64},
    "burman": {"method": "folds"},
}

# Regularisation strengths: for the lasso relative to the smallest with all coefficients zero, for
# the ridge relative to √n.
_LASSO, _RIDGE = 0.15, 0.02


@lru_cache(maxsize=8)
def _label_model(p: int, rows: str) -> LabelModel:
    """Return the model of labels; cached, to compute the root of its covariance once."""
    return label_model(p, intercept=CLASSES[rows])


def classify(config: Configuration, seed: int) -> Curves:
    """Return, for each of `RISKS`, columns as those of `steinpath.study._replicate.replicate`."""
    (data,), rngs = generators(config, seed, 1, LABEL_WAYS)
    model, loss = _label_model(config.p, config.rows), MARGIN_LOSSES[config.loss]
    X, y = model.sample(config.n, data)
    penalty: Penalty = Ridge(_RIDGE * math.sqrt(config.n))
    if config.penalty == "lasso":
        penalty = Lasso(_LASSO * lam_max(X, y, loss, Lasso(1.0), fit_intercept=True))
    path = run(X, y, loss, penalty, ChambollePock(), config.iters, fit_intercept=True)
    curves: Curves = {}
    for name in RISKS:
        test_loss = loss if name == "matched" else name
        curves[f"{name}_truth"] = model.risk(path.coef, test_loss, path.intercept)
        for way in config.ways:
            rng = deepcopy(rngs[way])  # the same folds and probes for all scoring losses
            risk = estimate_risk(path, test_loss, rng=rng, **LABEL_WAYS[way])
            curves[f"{name}_train"] = np.asarray(risk.train)
            curves[f"{name}_{way}"] = np.asarray(risk.values)
            curves[f"{name}_{way}_stderr"] = np.asarray(risk.stderr)
    return curves


# Intervals: coverage of coefficient intervals at several iterations

#: Pointwise confidence level; nominal false discovery rate (Benjamini–Hochberg) and family-wise
#: error rate (Bonferroni).
COEFFICIENT_LEVEL, FDR, FAMILY = 0.95, 0.1, 0.05

#: Maximum number of coefficients for node-wise regressions; half of them nonzero.
_FEATURES = 50


def infer(config: Configuration, seed: int) -> Curves:
    """Return `_counts` by type of scores, at given times, the default and the best."""
    (data, errors, risk), rngs = generators(config, seed, 3, SCORES)
    model = model_of(config.p).under(noise=config.noise, design=BY_DESIGN[config.rows])
    X = model.sample(config.n, data).X
    noise = Noise(config.noise).sample(config.n, errors)
    loss, penalty = LOSSES[config.loss], PENALTIES[config.penalty]
    path = run(X, X @ model.coef + noise, loss, penalty, ALGORITHM, config.iters)
    by_risk = max(1, estimate_risk(path, method="compressed", rng=risk).best_iter)
    times = [*interval_times(config.iters), None, by_risk]
    curves: Curves = {}
    for way in config.ways:
        features, options = None, {"covariance": model.covariance}
        if way == "nodewise":
            features, options = _some(model.coef), {"kind": "node-wise lasso"}
        along = intervals_along(path, times, features, COEFFICIENT_LEVEL, rngs[way], **options)
        rows = [_counts(intervals, model.coef[intervals.features]) for (intervals,) in along]
        curves |= {f"{way}_{name}": np.array([row[name] for row in rows]) for name in rows[0]}
    return curves


def _some(coef: np.ndarray) -> np.ndarray:
    """Return a subset of the features, evenly spaced, half of them with nonzero coefficients."""
    parts = []
    for which in (np.flatnonzero(coef), np.flatnonzero(coef == 0)):
        places = np.linspace(0, len(which) - 1, min(_FEATURES // 2, len(which)))
        parts.append(which[places.astype(int)])
    return np.concatenate(parts)


def _counts(intervals: CoefficientIntervals, coef: np.ndarray) -> dict[str, float]:
    """Count covered coefficients, and the share and presence of false discoveries."""
    covered, zero = (intervals.lower <= coef) & (coef <= intervals.upper), coef == 0
    discovered = intervals.significant(FDR)
    family = intervals.pvalue <= FAMILY / len(coef)
    width = 2 * ndtri(0.5 + COEFFICIENT_LEVEL / 2) * intervals.stderr.mean()
    checks = [check for check in intervals.diagnostics if check.name == "total response"]
    return {
        "iterate": float(intervals.t),
        "covers": float(covered.mean()),
        "zero": float(covered[zero].mean()),
        "nonzero": float(covered[~zero].mean()),
        "width": float(width),
        "warned": float(any(check.warns for check in checks)),
        "false": float(np.sum(discovered & zero) / max(1, np.sum(discovered))),
        "power": float(discovered[~zero].mean()),
        "any_false": float(np.any(family & zero)),
    }


#: Functions that compute these replications, by `Configuration.kind`.
KINDS: dict[str, Callable[[Configuration, int], Curves]] = {
    "choice": choose,
    "labels": classify,
    "intervals": infer,
}
