"""One replication of ``margins``: run a path of a margin loss, estimate its risk, compare."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from steinpath.algorithms._family import ChambollePock
from steinpath.engine._null_model import lam_max
from steinpath.engine._run import run
from steinpath.problem._penalties import Lasso, Penalty, Ridge
from steinpath.risk._estimate import estimate_risk
from steinpath.simulate import LabelModel, label_model
from steinpath.study._settings import MARGINS, Configuration

#: True intercepts: 50% or about 72% of the labels are 1.
CLASSES = {"equal classes": 0.0, "unequal classes": 1.5}

#: Scoring losses of each path; "matched" is that of its own loss.
RISKS = ("zero_one", "matched")

#: Options of `estimate_risk` for each estimator.
WAYS: dict[str, dict[str, Any]] = {
    "hat": {"method": "compressed"},
    "mended": {"method": "auto", "audit": 64},
    "burman": {"method": "folds"},
}

# Regularisation strengths: for the lasso relative to the smallest with all coefficients zero, for
# the ridge relative to √n.
_LASSO, _RIDGE = 0.15, 0.02


@lru_cache(maxsize=8)
def model_of(p: int, rows: str) -> LabelModel:
    """Return the model of labels; cached, to compute the root of its covariance once."""
    return label_model(p, intercept=CLASSES[rows])


def penalty_of(config: Configuration, X: np.ndarray, y: np.ndarray) -> Penalty:
    """Return the penalty of a path."""
    if config.penalty == "ridge":
        return Ridge(_RIDGE * math.sqrt(config.n))
    largest = lam_max(X, y, MARGINS[config.loss], Lasso(1.0), fit_intercept=True)
    return Lasso(_LASSO * largest)


def classify(config: Configuration, seed: int) -> dict[str, np.ndarray]:
    """Compute one replication.

    Parameters
    ----------
    config : Configuration
        Configuration of the replication.
    seed : int
        Random seed. For the same seed, n and p, all losses and penalties use the same data.

    Returns
    -------
    dict of ndarray
        For every iterate and each of `RISKS`, prefixed by its name and an underscore: ``truth``;
        ``train``, the training error; for each estimator its estimate under the estimator's name,
        and the standard error under this name with ``_stderr`` appended.
    """
    data, *streams = np.random.SeedSequence([seed, config.n, config.p]).spawn(1 + len(WAYS))
    model = model_of(config.p, config.rows)
    X, y = model.sample(config.n, np.random.default_rng(data))
    loss = MARGINS[config.loss]
    penalty = penalty_of(config, X, y)
    path = run(X, y, loss, penalty, ChambollePock(), config.iters, fit_intercept=True)
    rngs = dict(zip(WAYS, streams, strict=True))
    found: dict[str, np.ndarray] = {}
    for name in RISKS:
        test_loss = loss if name == "matched" else name
        found[f"{name}_truth"] = model.risk(path.coef, test_loss, path.intercept)
        for way in config.ways:
            # the same folds and probes for all scoring losses
            rng = np.random.default_rng(rngs[way])
            risk = estimate_risk(path, test_loss, rng=rng, **WAYS[way])
            found[f"{name}_train"] = np.asarray(risk.train)
            found[f"{name}_{way}"] = np.asarray(risk.values)
            found[f"{name}_{way}_stderr"] = np.asarray(risk.stderr)
    return found


def columns_of_labels(config: Configuration) -> set[str]:
    """Return the names of the columns of a replication."""
    ways = {f"{way}{end}" for way in config.ways for end in ("", "_stderr")}
    return {f"{name}_{each}" for name in RISKS for each in {"truth", "train", *ways}}
