"""Prediction intervals in model files: compact JSON, strictly checked when it is read."""

from __future__ import annotations

from typing import Any

import numpy as np

from steinpath.app.json_values import count, entries, items, number
from steinpath.app.tables import DataError
from steinpath.inference._prediction_intervals import PredictionIntervals

# Residuals that are kept.
_MOST_RESIDUALS = 2000
# How residuals are used: absolute values, or with signs.
_SCORES = ("absolute", "signed")
# Nonzero coefficients that are kept for all folds: about thirty million characters.
_MOST_NONZEROS = 10**6
# Coefficients in memory, including zeros: a quarter of a gigabyte.
_MOST_COEFFICIENTS = 2**25


def for_file(intervals: PredictionIntervals) -> PredictionIntervals | None:
    """Return intervals for a model file, with fewer residuals; None if they are too large.

    Parameters
    ----------
    intervals : PredictionIntervals
        In units of the features.
    """
    folds, few = len(intervals.coef), len(intervals.residuals) <= _MOST_RESIDUALS
    if intervals.coef.size > _MOST_COEFFICIENTS:
        return None
    if np.count_nonzero(intervals.coef) > _MOST_NONZEROS:
        return None
    if few:
        return intervals
    # with fewer than four for each fold, not even the largest would be kept
    return intervals.thinned(_MOST_RESIDUALS) if 4 * folds <= _MOST_RESIDUALS else None


def to_json(intervals: PredictionIntervals) -> dict[str, Any]:
    """Return intervals as a JSON object; see `from_json`."""
    folds = [
        _model_to_json(coef, intercept) | {"residuals": intervals.residuals[rows].tolist()}
        for coef, intercept, rows in zip(
            intervals.coef,
            intervals.intercept,
            (intervals.fold == k for k in range(len(intervals.coef))),
            strict=True,
        )
    ]
    model = None if intervals.model is None else _model_to_json(*intervals.model)
    scores = _SCORES[not intervals.symmetric]
    return {"scores": scores, "model": model, "folds": folds}


def _model_to_json(coef: np.ndarray, intercept: float) -> dict[str, Any]:
    index = np.flatnonzero(coef)
    return {
        "intercept": float(intercept),
        "index": index.tolist(),
        "coef": coef[index].tolist(),
    }


def from_json(found: Any, features: int) -> PredictionIntervals:
    """Return intervals from a JSON object.

    Parameters
    ----------
    found : object
        The object.
    features : int
        Number of features of the model.

    Raises
    ------
    DataError
        If the object is not valid.
    """
    scores, centre, listed = entries("intervals", found, ("scores", "model", "folds"))
    if scores not in _SCORES:
        raise DataError(f"its 'scores' are not one of {', '.join(_SCORES)}")
    folds = items("folds", listed)
    # zero coefficients take no space in a file, but they do in memory
    if not folds or len(folds) * features > _MOST_COEFFICIENTS:
        raise DataError("its 'intervals' have no folds, or too many")
    coef = np.zeros((len(folds), features))
    intercept, residuals = np.zeros(len(folds)), []
    for k, fold in enumerate(folds):
        level, index, values, errors = entries(
            "a fold", fold, ("intercept", "index", "coef", "residuals")
        )
        coef[k], intercept[k] = _coefficients(index, values, features), number("intercept", level)
        residuals.append(np.array([number("residuals", x) for x in items("residuals", errors)]))
    if not sum(map(len, residuals)):
        raise DataError("its 'intervals' have no 'residuals'")
    model = None
    if centre is not None:
        level, index, values = entries("the model", centre, ("intercept", "index", "coef"))
        model = _coefficients(index, values, features), number("intercept", level)
    return PredictionIntervals(
        coef=coef,
        intercept=intercept,
        fold=np.repeat(np.arange(len(folds)), [len(errors) for errors in residuals]),
        residuals=np.concatenate(residuals),
        symmetric=scores == _SCORES[0],
        model=model,
    )


def _coefficients(index: Any, values: Any, features: int) -> np.ndarray:
    """Return all coefficients, from the nonzero ones and their indices."""
    places = [count("index", place) for place in items("index", index)]
    numbers = [number("coef", value) for value in items("coef", values)]
    if len(places) != len(numbers):
        raise DataError("its 'index' and 'coef' are not of the same length")
    if places != sorted(set(places)) or (places and places[-1] >= features):
        raise DataError(f"its 'index' must increase, from 0 to {features - 1} at most")
    found = np.zeros(features)
    found[places] = numbers
    return found
