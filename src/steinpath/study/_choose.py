"""One replication of a choice: tune a model, and compare what it says of itself with the truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from steinpath.study._choice_data import LAWS, ChoiceData
from steinpath.study._settings import LOSSES, PENALTIES, Setting
from steinpath.tuning._tune import tune

#: Level of the prediction intervals.
LEVEL = 0.9

# New rows whose prediction intervals are counted.
_ROWS = 2000

#: What is known of a choice: the true risk of the chosen model; the smallest estimate and the one
#: that counts the choice, with their standard errors; share of new rows within their prediction
#: intervals, and the mean width of these.
COLUMNS = ("truth", "naive", "naive_stderr", "honest", "honest_stderr", "covered", "width")


def _later_rows(_: ChoiceData) -> dict[str, Any]:
    from sklearn.model_selection import TimeSeriesSplit  # which takes time to import

    return {"cv": TimeSeriesSplit(5)}


#: What each of `steinpath.study._settings.CHOICES` tells `tune`.
_OPTIONS: dict[str, Callable[[ChoiceData], dict[str, Any]]] = {
    "rows": lambda _: {},
    "groups": lambda given: {"groups": given.groups},
    "time": _later_rows,
}


def choose(setting: Setting, seed: int) -> dict[str, np.ndarray]:
    """Do one replication.

    Parameters
    ----------
    setting : Setting
        What to do.
    seed : int
        Of all its randomness. With the same seed, n and p, all settings with the same law of data
        see the same data.

    Returns
    -------
    dict of ndarray of shape (1,)
        `COLUMNS` of each way to choose, with the way's name and an underscore before.
    """
    data, new, *streams = np.random.SeedSequence([seed, setting.n, setting.p]).spawn(
        2 + len(_OPTIONS)
    )
    given = LAWS[setting.rows](setting.n, setting.p, setting.noise, np.random.default_rng(data))
    loss, penalty = LOSSES[setting.loss], type(PENALTIES[setting.penalty])
    rngs = dict(zip(_OPTIONS, streams, strict=True))
    found: dict[str, np.ndarray] = {}
    for way in setting.ways:
        tuning = tune(
            given.X,
            given.y,
            loss,
            penalty,
            n_iter=setting.iters or "auto",
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


def columns_of_choices(setting: Setting) -> set[str]:
    """Return the names of the columns of a replication."""
    return {f"{way}_{name}" for way in setting.ways for name in COLUMNS}
