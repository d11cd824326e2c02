"""One replication of ``choice``: tune a model, compare its error estimate with the true risk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from steinpath.study._choice_data import LAWS, ChoiceData
from steinpath.study._settings import LOSSES, PENALTIES, Configuration
from steinpath.tuning._tune import tune

#: Level of the prediction intervals.
LEVEL = 0.9

# Number of new rows for the coverage of prediction intervals.
_ROWS = 2000

#: True risk of the selected model; its estimated risk not adjusted and adjusted for selection, with
#: standard errors; coverage and mean width of prediction intervals for new rows.
COLUMNS = ("truth", "naive", "naive_stderr", "honest", "honest_stderr", "covered", "width")


def _later_rows(_: ChoiceData) -> dict[str, Any]:
    from sklearn.model_selection import TimeSeriesSplit  # slow to import

    return {"cv": TimeSeriesSplit(5)}


#: Options of `tune` for each of `steinpath.study._settings.CHOICES`.
_OPTIONS: dict[str, Callable[[ChoiceData], dict[str, Any]]] = {
    "rows": lambda _: {},
    "groups": lambda given: {"groups": given.groups},
    "time": _later_rows,
}


def choose(config: Configuration, seed: int) -> dict[str, np.ndarray]:
    """Compute one replication.

    Parameters
    ----------
    config : Configuration
        Configuration of the replication.
    seed : int
        Random seed. For the same seed, n, p and data-generating process, all configurations use the
        same data.

    Returns
    -------
    dict of ndarray of shape (1,)
        `COLUMNS` of each type of cross-validation, prefixed by its name and an underscore.
    """
    data, new, *streams = np.random.SeedSequence([seed, config.n, config.p]).spawn(
        2 + len(_OPTIONS)
    )
    given = LAWS[config.rows](config.n, config.p, config.noise, np.random.default_rng(data))
    loss, penalty = LOSSES[config.loss], type(PENALTIES[config.penalty])
    rngs = dict(zip(_OPTIONS, streams, strict=True))
    found: dict[str, np.ndarray] = {}
    for way in config.ways:
        tuning = tune(
            given.X,
            given.y,
            loss,
            penalty,
            n_iter=config.iters or "auto",
            fit_intercept=True,
            rng=np.random.default_rng(rngs[way]),
            **_OPTIONS[way](given),
        )
        rng = np.random.default_rng(new)
        X, y = given.new(_ROWS, rng)
        low, high = tuning.predict_interval(X, LEVEL).T
        values = {
            "truth": given.risk(tuning.coef, tuning.intercept, loss, rng),
            "naive": tuning.naive_risk,
            "naive_stderr": tuning.naive_risk_stderr,
            "honest": tuning.best_risk,
            "honest_stderr": tuning.best_risk_stderr,
            "covered": np.mean((low <= y) & (y <= high)),
            "width": np.mean(high - low),
        }
        found |= {f"{way}_{name}": np.array([float(values[name])]) for name in COLUMNS}
    return found


def columns_of_choices(config: Configuration) -> set[str]:
    """Return the names of the columns of a replication."""
    return {f"{way}_{name}" for way in config.ways for name in COLUMNS}
