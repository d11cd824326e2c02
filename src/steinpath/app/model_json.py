"""Values of model files: strict JSON, and plain data for parameters and intervals."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from steinpath._support.arrays import is_foreign, to_numpy
from steinpath._support.messages import DataError
from steinpath.inference._prediction_intervals import PredictionIntervals
from steinpath.problem._losses import LOSSES, Loss
from steinpath.problem._penalties import PENALTIES, Penalty

#: Most bytes of a file. A model with a million coefficients has about fifty million characters.
MOST_BYTES = 2**28
# Residuals that are kept for prediction intervals; nonzero coefficients of all folds (about thirty
# million characters), and all their coefficients in memory (a quarter of a gigabyte).
_MOST_RESIDUALS, _MOST_NONZEROS, _MOST_COEFFICIENTS = 2000, 10**6, 2**25
_LINEAR = ("intercept", "index", "coef")
_WORDS = {float: "number", int: "nonnegative integer", str: "string", list: "list", dict: "mapping"}
REGISTRIES: dict[str, Any] = {"loss": LOSSES, "penalty": PENALTIES}


def read_json(file: str | os.PathLike[str], most_bytes: int = MOST_BYTES) -> Any:
    """Read JSON of bounded size, strictly: ambiguous contents are refused."""
    with open(file, "rb") as opened:
        # not by file size: a device reports 0, and never ends
        content = opened.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise DataError("it is too large for a model")
    how: Any = {"parse_constant": _integer, "parse_int": _integer, "object_pairs_hook": _once_each}
    return json.loads(content.decode(), **how)


def _integer(text: str) -> int:
    """Return an integer; refuse NaN, infinity, and more digits than Python converts."""
    if len(text) > 4000 or not text.lstrip("-").isdigit():
        raise DataError(f"{text:.20} is not a valid number")
    return int(text)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a mapping, whose names must be distinct."""
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise DataError(f"it has {counts.most_common(1)[0][0]!r:.60} more than once")
    return found


def require(right: Any, name: str, value: Any, said: str = "is not valid") -> None:
    """Refuse an entry of the file that is not right."""
    if not right:
        raise DataError(f"its {name!r:.60} {said}: {value!r:.60}")


def checked(kind: Any, name: str, value: Any) -> Any:
    """Return an entry of a type, or a list of them: ``(type, count)``, or None for any count."""
    if isinstance(kind, tuple):
        right = kind[1] in (None, len(checked(list, name, value)))
        require(right, name, value, "has too many or too few entries")
        return [checked(kind[0], name, item) for item in value]
    right = type(value) is kind or (kind is float and type(value) is int)
    if right and kind is float:  # finite, also as an integer of a thousand digits
        right = abs(value) <= 1e300
    elif right and kind is int:
        right = 0 <= value < 2**63
    elif right and kind is str:  # without halves of characters
        right = value.encode(errors="ignore").decode() == value
    require(right, name, value, f"is not a {_WORDS[kind]}")
    return float(value) if kind is float else value


def entries(name: str, found: Any, keys: Sequence[str]) -> dict[str, Any]:
    """Return a mapping of the file, which must have these keys and no others."""
    right = isinstance(found, dict) and set(found) == set(keys)
    require(right, name, found, f"must have {', '.join(map(repr, keys))} and nothing else")
    return found  # type: ignore[no-any-return]


def to_plain(value: Any) -> Any:
    """Return a parameter, loss or penalty as plain data; raise an error if it cannot be."""
    if isinstance(value, np.ndarray | np.generic) or is_foreign(value):
        value = to_numpy(value).tolist()
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, Mapping):  # whose keys may be numbers, such as labels of classes
        return {"dict": [[to_plain(key), to_plain(item)] for key, item in value.items()]}
    kind, given = value, {}
    if isinstance(value, partial) and not value.args:
        kind, given = value.func, value.keywords
    elif isinstance(value, Loss | Penalty):
        names = [each.name for each in fields(value)]  # type: ignore[arg-type]
        kind, given = type(value), {name: getattr(value, name) for name in names}
    for key, registry in REGISTRIES.items():
        if kind in registry.values():
            return {key: kind.name, "parameters": {k: to_plain(x) for k, x in given.items()}}
    return from_plain("value", str(value) if isinstance(value, str) else value)


def from_plain(name: str, value: Any) -> Any:
    """Return a parameter, loss or penalty; a penalty without its strength is a function of it."""
    if isinstance(value, list):
        return [from_plain(name, item) for item in value]
    if not isinstance(value, dict):
        if value is not None and not isinstance(value, bool):
            checked(str if isinstance(value, str) else float, name, value)
        return value
    try:
        if set(value) == {"dict"}:
            return dict(from_plain(name, pair) for pair in value["dict"])
        [key] = set(value) - {"parameters"}
        kind = REGISTRIES[key][value[key]]
        given = {k: from_plain(name, x) for k, x in value["parameters"].items()}
        open_lam = "lam" in [each.name for each in fields(kind)] and "lam" not in given
        return partial(kind, **given) if open_lam else kind(**given)
    except DataError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError):
        raise DataError(f"its {name!r:.60} is not valid: {value!r:.60}") from None


def plain_items(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters or attributes as plain data, without those that cannot be."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        with suppress(TypeError, ValueError):
            found[name] = to_plain(value)
    return found


def intervals_to_json(found: list[PredictionIntervals]) -> list[dict[str, Any] | None]:
    """Return the intervals of several fits with fewer residuals; None if they are too large."""
    size = sum(one.coef.size for one in found)
    nonzero = sum(np.count_nonzero(one.coef) for one in found)
    # with fewer than four residuals for each fold, not even the largest would be kept
    few = any(len(x.residuals) > _MOST_RESIDUALS < 4 * len(x.coef) for x in found)
    if size > _MOST_COEFFICIENTS or nonzero > _MOST_NONZEROS or few:
        return [None] * len(found)
    return [
        {
            "scores": "absolute" if one.symmetric else "signed",
            "model": None if one.model is None else _sparse(*one.model),
            "folds": [
                _sparse(coef, one.intercept[k])
                | {"residuals": one.residuals[one.fold == k].tolist()}
                for k, coef in enumerate(one.coef)
            ],
        }
        for one in _thinned(found)
    ]


def _thinned(found: list[PredictionIntervals]) -> list[PredictionIntervals]:
    """Keep some of the residuals: of several quantiles, those of the same rows."""
    if len(found) < 2:
        return [one.thinned(_MOST_RESIDUALS) for one in found]
    order = np.argsort(np.maximum(-found[0].residuals, found[-1].residuals), kind="stable")
    ranks = replace(found[0], residuals=np.argsort(order), symmetric=True)
    rows = np.sort(order[ranks.thinned(_MOST_RESIDUALS).residuals.astype(int)])
    return [replace(one, fold=one.fold[rows], residuals=one.residuals[rows]) for one in found]


def _sparse(coef: np.ndarray, intercept: float) -> dict[str, Any]:
    """Return a linear model without its zeros."""
    index = np.flatnonzero(coef)
    return {"intercept": float(intercept), "index": index.tolist(), "coef": coef[index].tolist()}


def intervals_from_json(found: Any, features: int, fits: int) -> PredictionIntervals:
    """Return the intervals of one of several fits."""
    found = entries("intervals", found, ("scores", "model", "folds"))
    scores, centre, folds = found["scores"], found["model"], checked(list, "folds", found["folds"])
    require(scores in ("absolute", "signed"), "scores", scores)
    # zero coefficients take no space in a file, but they do in memory
    few = 0 < len(folds) * features * fits <= _MOST_COEFFICIENTS
    require(few, "folds", len(folds), "are none, or too many")
    folds = [entries("folds", fold, (*_LINEAR, "residuals")) for fold in folds]
    models = [_dense(fold, features) for fold in folds]
    residuals = [checked((float, None), "residuals", fold["residuals"]) for fold in folds]
    require(any(residuals), "residuals", residuals)
    return PredictionIntervals(
        coef=np.array([coef for coef, _ in models]),
        intercept=np.array([intercept for _, intercept in models]),
        fold=np.repeat(np.arange(len(folds)), [len(errors) for errors in residuals]),
        residuals=np.concatenate([np.array(errors, float) for errors in residuals]),
        symmetric=scores == "absolute",
        model=None if centre is None else _dense(entries("model", centre, _LINEAR), features),
    )


def _dense(model: dict[str, Any], features: int) -> tuple[np.ndarray, float]:
    """Return all coefficients and the intercept, from the nonzero ones and their indices."""
    index, coef = checked((int, None), "index", model["index"]), np.zeros(features)
    right = index == sorted(set(index)) and (not index or index[-1] < features)
    require(right, "index", index, f"must increase, from 0 to {features - 1} at most")
    coef[index] = checked((float, len(index)), "coef", model["coef"])
    return coef, checked(float, "intercept", model["intercept"])
