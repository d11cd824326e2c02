"""One replication with labels: run a path of a margin loss, estimate its risks, know the truth."""

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
from steinpath.study._settings import MARGINS, Setting

#: True intercepts, by the names of laws: one half of the labels are 1, or about 72% are.
CLASSES = {"equal classes": 0.0, "unequal classes": 1.5}

#: Test losses of each path: its own is called "matched", since its name depends on the loss.
RISKS = ("zero_one", "matched")

#: What each way to estimate the risk tells `estimate_risk`.
WAYS: dict[str, dict[str, Any]] = {
    "hat": {"method": "compressed"},
    "mended": {"method": "auto", "audit": 64},
    "burman": {"method": "folds"},
}

# Regularisation strengths: the lasso's relative to the smallest that leaves nothing, the ridge's
# to √n, which is the weight of a row.
_LASSO, _RIDGE = 0.15, 0.02


@lru_cache(maxsize=8)
def model_of(p: int, rows: str) -> LabelModel:
    """Return the model of labels, with one root of its covariance for all replications."""
    return label_model(p, intercept=CLASSES[rows])


def penalty_of(setting: Setting, X: np.ndarray, y: np.ndarray) -> Penalty:
    """Return the penalty of a path."""
    if setting.penalty == "ridge":
        return Ridge(_RIDGE * math.sqrt(setting.n))
    largest = lam_max(X, y, MARGINS[setting.loss], Lasso(1.0), fit_intercept=True)
    return Lasso(_LASSO * largest)


def classify(setting: Setting, seed: int) -> dict[str, np.ndarray]:
    """Do one replication.

    Parameters
    ----------
    setting : Setting
        What to do.
    seed : int
        Of all its randomness. With the same seed, n and p, all losses and penalties see the same
        data.

    Returns
    -------
    dict of ndarray
        For every iterate and each of `RISKS`, with its name and an underscore before: ``truth``;
        ``train``, the training error; for each way its estimate under the way's name, and the
        standard error under the name with ``_stderr`` appended.
    """
    data, *streams = np.random.SeedSequence([seed, setting.n, setting.p]).spawn(1 + len(WAYS))
    model = model_of(setting.p, setting.rows)
    X, y = model.sample(setting.n, np.random.default_rng(data))
    loss = MARGINS[setting.loss]
    penalty = penalty_of(setting, X, y)
    path = run(X, y, loss, penalty, ChambollePock(), setting.iters, fit_intercept=True)
    rngs = dict(zip(WAYS, streams, strict=True))
    found: dict[str, np.ndarray] = {}
    for name in RISKS:
        test_loss = loss if name == "matched" else name
        found[f"{name}_truth"] = model.risk(path.coef, test_loss, path.intercept)
        for way in setting.ways:
            # the same folds and probes for all test losses
            rng = np.random.default_rng(rngs[way])
            risk = estimate_risk(path, test_loss, rng=rng, **WAYS[way])
            found[f"{name}_train"] = np.asarray(risk.train)
            found[f"{name}_{way}"] = np.asarray(risk.values)
            found[f"{name}_{way}_stderr"] = np.asarray(risk.stderr)
    return found


def columns_of_labels(setting: Setting) -> set[str]:
    """Return the names of the columns of a replication."""
    ways = {f"{way}{end}" for way in setting.ways for end in ("", "_stderr")}
    return {f"{name}_{each}" for name in RISKS for each in {"truth", "train", *ways}}
