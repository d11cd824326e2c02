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
_MODEL = ("intercept", "index", "coef")
_WORDS = {float: "number", int: "nonnegative integer", str: "string", list: "list", dict: "mapping"}
REGISTRIES: dict[str, Any] = {"loss": LOSSES, "penalty": PENALTIES}


def read_json(file: str | os.PathLike[str], most_bytes: int = MOST_BYTES) -> Any:
    """Read JSON of bounded size, strictly: ambiguous contents are refused."""
    with open(file, "rb") as opened:
        # not by file size: a device reports 0, and never ends
        content = opened.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise DataError("it is too large for a model")
    how: Any = {"parse_constant": _refuse, "parse_int": _int, "object_pairs_hook": _once_each}
    return json.loads(content.decode(), **how)


def _refuse(constant: str) -> float:
    raise DataError(f"{constant} is not a valid number")


def _int(digits: str) -> int:
    # Python has a limit of its own, without a specific error
    return int(digits) if len(digits) <= 4000 else int(_refuse(f"{digits[:20]}…"))


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise DataError(f"it has {counts.most_common(1)[0][0]!r:.60} more than once")
    return found


def checked(kind: type, name: str, value: Any) -> Any:
    """Return a value of the file, if it is of a type: float (finite), int (not negative), str."""
    right = type(value) is kind or (kind is float and type(value) is int)
    if kind in (float, int) and right:  # an integer of a thousand digits is not a float
        right = abs(value) <= 1e300 if kind is float else 0 <= value < 2**63
    if not right:
        raise DataError(f"its {name!r} is not a {_WORDS[kind]}")
    if kind is str and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise DataError(f"its {name!r} is not Unicode")
    return float(value) if kind is float else value


def listed(kind: type, name: str, value: Any, count: int | None = None) -> list[Any]:
    """Return a list of the file, with items of a type."""
    found = [checked(kind, name, item) for item in checked(list, name, value)]
    if count is not None and len(found) != count:
        raise DataError(f"its {name!r} has {len(found)} entries, not {count}")
    return found


def entries(what: str, found: Any, keys: Sequence[str]) -> dict[str, Any]:
    """Return a mapping of the file, which must have these keys and no others."""
    if not isinstance(found, dict) or set(found) != set(keys):
        names = ", ".join(map(repr, keys))
        raise DataError(f"{what} must have {names} and nothing else, got {found!r:.60}")
    return found


# ------------------------------------------------------------------------------------------------
# Parameters, losses and penalties
# ------------------------------------------------------------------------------------------------


def plain_items(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters, losses and penalties as plain data, without those that cannot be."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        with suppress(TypeError, ValueError):
            found[name] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic) or is_foreign(value):
        value = to_numpy(value).tolist()
    if value is None or isinstance(value, bool | str | int | float):
        return _scalar(str(value) if isinstance(value, str) else value)  # such as a `Message`
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):  # whose keys may be numbers, such as labels of classes
        return {"dict": [[_plain(key), _plain(item)] for key, item in value.items()]}
    given: Mapping[str, Any] = {}
    if isinstance(value, partial) and not value.args:
        value, given = value.func, value.keywords
    elif isinstance(value, Loss | Penalty):
        names = [each.name for each in fields(value)]  # type: ignore[arg-type]
        value, given = type(value), {name: getattr(value, name) for name in names}
    for key, registry in REGISTRIES.items():
        if registry.get(getattr(value, "name", None)) is value:
            return {key: value.name, "parameters": {k: _plain(x) for k, x in given.items()}}
    raise TypeError(f"{value!r:.60} cannot be stored")


def _scalar(value: Any) -> Any:
    if value is not None and not isinstance(value, bool):
        checked(str if isinstance(value, str) else float, "parameters", value)
    return value


def from_plain(value: Any) -> Any:
    """Return a parameter, loss or penalty from plain data; see `plain_items`."""
    if value is None or isinstance(value, bool | str | int | float):
        return _scalar(value)
    if isinstance(value, list):
        return [from_plain(item) for item in value]
    if set(value) == {"dict"}:
        pairs = listed(list, "dict", value["dict"])
        if all(len(pair) == 2 and not isinstance(pair[0], list | dict) for pair in pairs):
            return {from_plain(key): from_plain(item) for key, item in pairs}
    for key, registry in REGISTRIES.items():
        if set(value) == {key, "parameters"}:
            name, given = checked(str, key, value[key]), checked(dict, key, value["parameters"])
            return _made(key, registry.get(name), {k: from_plain(x) for k, x in given.items()})
    raise DataError(f"its 'parameters' have an object that is not valid: {value!r:.60}")


def _made(key: str, kind: Any, given: dict[str, Any]) -> Any:
    """Return a loss or penalty; a penalty without its strength is a function of it."""
    if kind is None:
        raise DataError(f"its {key!r} is unknown")
    try:
        open_lam = "lam" in [each.name for each in fields(kind)] and "lam" not in given
        return partial(kind, **given) if open_lam else kind(**given)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"its {key!r} is not valid: {error}") from None


# ------------------------------------------------------------------------------------------------
# Prediction intervals
# ------------------------------------------------------------------------------------------------


def intervals_to_json(found: list[PredictionIntervals]) -> list[dict[str, Any] | None]:
    """Return the intervals of several fits with fewer residuals; None if they are too large."""
    size = sum(one.coef.size for one in found)
    nonzero = sum(np.count_nonzero(one.coef) for one in found)
    step = max((-(-len(one.residuals) // _MOST_RESIDUALS) for one in found), default=1)
    folds = max((len(one.coef) for one in found), default=0)
    # with fewer than four residuals for each fold, not even the largest would be kept
    few = step > 1 and 4 * folds > _MOST_RESIDUALS
    if size > _MOST_COEFFICIENTS or nonzero > _MOST_NONZEROS or few:
        return [None] * len(found)
    if step > 1 and len(found) == 1:
        found = [found[0].thinned(_MOST_RESIDUALS)]
    elif step > 1:  # the first and the last of several quantiles need the same rows
        first, last, order = found[0], found[-1], []
        scores = np.maximum(-first.residuals, last.residuals)
        for rows in (np.flatnonzero(first.fold == k) for k in range(folds)):
            largest_first = rows[np.argsort(-scores[rows], kind="stable")]
            order.append(largest_first[::step][: len(rows) // step])
        kept = np.sort(np.concatenate(order))
        found = [replace(x, fold=x.fold[kept], residuals=x.residuals[kept]) for x in found]
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
        for one in found
    ]


def _sparse(coef: np.ndarray, intercept: float) -> dict[str, Any]:
    index = np.flatnonzero(coef)
    return {"intercept": float(intercept), "index": index.tolist(), "coef": coef[index].tolist()}


def intervals_from_json(found: Any, features: int, fits: int) -> PredictionIntervals:
    """Return the intervals of one of several fits."""
    found = entries("intervals", found, ("scores", "model", "folds"))
    scores, centre, folds = found["scores"], found["model"], found["folds"]
    if scores not in ("absolute", "signed"):
        raise DataError("its 'scores' are not one of absolute, signed")
    # zero coefficients take no space in a file, but they do in memory
    if not 0 < len(checked(list, "folds", folds)) * features * fits <= _MOST_COEFFICIENTS:
        raise DataError("its 'intervals' have no folds, or too many")
    folds = [entries("a fold", fold, (*_MODEL, "residuals")) for fold in folds]
    models = [_dense(fold, features) for fold in folds]
    residuals = [listed(float, "residuals", fold["residuals"]) for fold in folds]
    if not any(residuals):
        raise DataError("its 'intervals' have no 'residuals'")
    return PredictionIntervals(
        coef=np.array([coef for coef, _ in models]),
        intercept=np.array([intercept for _, intercept in models]),
        fold=np.repeat(np.arange(len(folds)), [len(errors) for errors in residuals]),
        residuals=np.concatenate([np.array(errors, float) for errors in residuals]),
        symmetric=scores == "absolute",
        model=None if centre is None else _dense(entries("the model", centre, _MODEL), features),
    )


def _dense(model: dict[str, Any], features: int) -> tuple[np.ndarray, float]:
    """Return all coefficients and the intercept, from the nonzero ones and their indices."""
    places, numbers = listed(int, "index", model["index"]), listed(float, "coef", model["coef"])
    if len(places) != len(numbers):
        raise DataError("its 'index' and 'coef' are not of the same length")
    if places != sorted(set(places)) or (places and places[-1] >= features):
        raise DataError(f"its 'index' must increase, from 0 to {features - 1} at most")
    coef = np.zeros(features)
    coef[places] = numbers
    return coef, checked(float, "intercept", model["intercept"])
