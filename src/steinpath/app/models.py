"""Model files: plain JSON, from which nothing is executed."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from steinpath._support.arrays import is_foreign, to_numpy
from steinpath._support.entries import checked, entries, require
from steinpath._support.files import write_text
from steinpath._support.messages import DataError
from steinpath.app.tables import FileFormat
from steinpath.estimators import _classifiers, _regressors
from steinpath.estimators._basis import Terms
from steinpath.estimators._encoder import TableEncoder
from steinpath.inference._prediction_intervals import PredictionIntervals
from steinpath.problem._grid import make_penalty, scaled_test_loss
from steinpath.problem._losses import LOSSES, Loss
from steinpath.problem._penalties import PENALTIES, Penalty
from steinpath.problem._scoring import CRITERIA, resolve_test_loss

_FORMAT, _VERSION = "steinpath model", 2
_FILE = ("format", "version", "steinpath_version", "target", "reading", "steps", "encoder", "model")
_FIT = ("parameters", "attributes", "intervals")
_MODEL = ("class", "classes", "dtype", "intercept", "coef", *_FIT, "estimators")
_NAMES = """PathRegressor LADLasso LADRidge LADElasticNet SqrtLasso SqrtRidge HuberLasso HuberRidge
QuantileLasso QuantileRidge PathClassifier LogisticLasso LogisticRidge LogisticElasticNet
HingeLasso HingeRidge"""
_ESTIMATORS: dict[str, Any] = {
    name: (vars(_regressors) | vars(_classifiers))[name] for name in _NAMES.split()
}
# Attributes that are stored, by their kinds.
_KINDS: dict[Any, str] = {
    int: "best_index_ best_iter_ n_iter_ n_samples_",
    float: """alpha_ best_risk_ best_risk_stderr_ naive_risk_ naive_risk_stderr_ constant_risk_
    train_risk_ y_scale_ median_error_ error_rate_ error_rate_stderr_ train_error_rate_
    test_parameter_ l1_ratio_ gamma_ a_ delta_ eps_ crossing_""",
    str: "test_loss_ stop_ transform_target_",
    (float, None): "alphas_ coupling_ error_rate_interval_",
    (str, None): "warnings_ feature_names_in_",
    Loss: "loss_",
    Penalty: "penalty_",
    Terms: "terms_",
}
_ATTRIBUTES = {name: kind for kind, names in _KINDS.items() for name in names.split()}
# Options of reading a table that are parameters of the encoder.
_CELLS = ("decimal", "thousands", "na", "date_format")
# Attributes of files of version 0.1.0, by their names there.
_OLD = {name: f"{name}_" for name in ("alpha", "test_loss", "test_parameter", "warnings")}
_OLD |= {name: f"{name}_" for name in ("error_rate", "error_rate_stderr")}
_OLD |= {"iterate": "best_iter_", "iterations": "n_iter_", "rows": "n_samples_"}
_OLD |= {"risk": "best_risk_", "stderr": "best_risk_stderr_", "train": "train_risk_"}
#: Most bytes of a file. A model with a million coefficients has about fifty million characters.
MOST_BYTES = 2**28
# Residuals that are kept for prediction intervals; nonzero coefficients of all folds (about thirty
# million characters), and all their coefficients in memory (a quarter of a gigabyte).
_MOST_RESIDUALS, _MOST_NONZEROS, _MOST_COEFFICIENTS = 2000, 10**6, 2**25
_LINEAR = ("intercept", "index", "coef")
REGISTRIES: dict[str, Any] = {"loss": LOSSES, "penalty": PENALTIES}


class SavedModel(NamedTuple):
    """A model from a file, the name of its target, and how its table was read."""

    model: Any
    target: str | None
    format: dict[str, Any]


def save_model(model: Any, file: str | os.PathLike[str], target: str | None = None) -> None:
    """Write a fitted model to a JSON file, for `load_model` and ``steinpath predict``.

    The training data are not stored, nor are parameters that are functions or objects other than
    losses and penalties: the loaded model has their defaults. Prediction intervals are stored with
    at most 2,000 residuals, which makes those of more rows slightly wider, and left out if the
    models of all folds have more than a million nonzero coefficients.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted estimator such as `LADLasso`, or a pipeline of a `TableEncoder` and an estimator.
    file : str or path
        Its name; ".json" is usual. An existing file is replaced.
    target : str, optional
        Name of the column that is predicted, for ``steinpath predict``.

    See Also
    --------
    load_model : Read the file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import steinpath as sp
    >>> X, y = sp.simulate.paper_model(20, noise="t2").sample(200, rng=0)
    >>> model = sp.LADLasso(n_alphas=5, random_state=0).fit(X, y)
    >>> with TemporaryDirectory() as folder:
    ...     sp.save_model(model, Path(folder, "model.json"), target="price")
    ...     again = sp.load_model(Path(folder, "model.json"))
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    save_model_file(model, file, target, {})


def load_model(file: str | os.PathLike[str]) -> Any:
    """Read a model that `save_model` or ``steinpath fit`` wrote, also in version 0.1.0.

    The file is JSON. Nothing in it is executed, and files that are not valid models are refused
    with a `ValueError`.

    Parameters
    ----------
    file : str or path
        Its name.

    Returns
    -------
    estimator or Pipeline
        The fitted model, of the class that was saved. Attributes with entries for training rows or
        iterations are not available, nor are methods that require the training data.

    See Also
    --------
    save_model : Write a model to a file; its example also reads it.
    """
    return load_model_file(file).model


def save_model_file(
    model: Any, file: str | os.PathLike[str], target: str | None, reading: dict[str, Any]
) -> None:
    """Do as `save_model`, with the options by which the table was read."""
    steps = dict(model.steps) if isinstance(model, Pipeline) else {"": model}
    kinds, (*encoders, last) = [type(step) for step in steps.values()], steps.values()
    wanted = [TableEncoder] * isinstance(model, Pipeline)
    if kinds != [*wanted, _ESTIMATORS.get(kinds[-1].__name__)]:
        raise TypeError(
            "model must be an estimator of steinpath, such as sp.LADLasso, or a pipeline of "
            "sp.TableEncoder and such an estimator; got "
            f"{'a pipeline of ' * len(wanted)}{', '.join(kind.__name__ for kind in kinds)}"
        )
    check_is_fitted(last)
    names = [name for encoder in encoders for name in encoder.get_feature_names_out()]
    found = {
        "format": _FORMAT,
        "version": _VERSION,
        "steinpath_version": installed_version(),
        "target": target,
        "reading": reading,
        "steps": [*steps] if encoders else None,
        "encoder": encoders[0].to_json() if encoders else None,
        "model": _model_to_json(last, names),
    }
    content = json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if len(content) > MOST_BYTES / 2:  # characters may have several bytes
        raise DataError(f"the model is too large for a file: {len(content)} characters")
    write_text(Path(file), content)


def installed_version() -> str:
    """Return the version of this package."""
    with suppress(PackageNotFoundError):
        return version("steinpath")
    return "0+unknown"


def _model_to_json(model: Any, names: list[str]) -> dict[str, Any]:
    """Return an estimator as plain data, with coefficients by the names of the features."""
    coef, intercept = to_numpy(model.coef_), to_numpy(model.intercept_)
    names = _names(model, names)
    if coef.ndim == 2 and len(coef) == 1:
        coef, intercept = coef[0], intercept[0]
    classes = to_numpy(model.classes_).tolist() if is_classifier(model) else None
    if not all(isinstance(label, str | int | float) for label in classes or ()):
        raise TypeError(f"classes must be strings or numbers, got {classes!r:.60}")
    fits = getattr(model, "estimators_", [])
    each = [_fit_to_json(one) for one in (model, *fits)]
    kept = [one.intervals_ for one in fits or [model] if hasattr(one, "intervals_")]
    for fit, intervals in zip(each[-len(kept) :], intervals_to_json(kept), strict=False):
        fit["intervals"] = intervals
    return {
        "class": type(model).__name__,
        "classes": classes,
        "dtype": str(coef.dtype),
        "intercept": intercept.tolist(),
        "coef": dict(zip(_keys(names, coef.shape[-1]), coef.T.tolist(), strict=True)),
        **each[0],
        "estimators": each[1:] or None,
    }


def _names(model: Any, names: list[str]) -> list[str]:
    """Return the names of the features of a model, given those before terms are selected."""
    names = names or [*getattr(model, "feature_names_in_", ())]
    if not names or not hasattr(model, "terms_"):
        return names
    require(len(names) == model.terms_.n_given, "terms_", model.terms_, "do not fit the features")
    terms: Terms = model.terms_
    return terms.names(names)


def _keys(names: list[str], count: int) -> list[str]:
    """Return names of coefficients: those of the features, if they are known and unique."""
    return names if len(set(names)) == count else [f"x{k}" for k in range(count)]


def _fit_to_json(model: Any) -> dict[str, Any]:
    """Return the parameters and attributes of one of several fits, or of all together."""
    given, own = model.get_params(deep=False), {"warnings_": ()} | vars(model)
    for name in ("cv", "row_scale"):  # not with one entry for each training row
        if not isinstance(given[name], str | int | None):
            del given[name]
    if "test_parameter_" not in own and "loss_" in own and "test_loss_" in own:
        scaled = scaled_test_loss(model.test_loss, model.loss_, own.get("y_scale_", 1.0))
        criterion: Any = resolve_test_loss(scaled, model.loss_)
        if CRITERIA.get(model.test_loss_) is type(criterion):  # not a function of the user
            own["test_parameter_"] = criterion.parameter
    for name in (name for name in own if name.endswith("stderr_")):
        errors = to_numpy(own[name]).astype(object)  # infinite ones are null
        own[name] = np.where(errors == math.inf, np.array(None), errors)
    stored = {name: own[name] for name in _ATTRIBUTES if own.get(name) is not None}
    attributes = _plain(stored)
    if "terms_" in stored:
        attributes["terms_"] = stored["terms_"].to_json()
    return {"parameters": _plain(given), "attributes": attributes, "intervals": None}


def load_model_file(file: str | os.PathLike[str]) -> SavedModel:
    """Do as `load_model`, with the target and the options by which its table was read."""
    try:
        return _from_json(read_json(file))
    except OSError as error:
        hint = "; give its model.json" if isinstance(error, IsADirectoryError) else ""
        said = f"cannot read {file}: {error.strerror or error}{hint}"
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        said = f"{file} is not a model: it is not JSON, or is truncated"
    except MemoryError:
        said = f"{file} is not a model: there is not enough memory to read it"
    except DataError as error:
        said = f"{file} is not a model that this version can read: {error}"
    except ValueError as error:  # an impossible file name
        said = f"cannot read {str(file)!r}: {error}"
    raise DataError(said)


def _from_json(found: Any) -> SavedModel:
    """Return the model of a file."""
    require(isinstance(found, dict) and found.get("format") == _FORMAT, "format", found)
    number = found.get("version")
    known = type(number) is int and number in (1, _VERSION)
    require(known, "version", number, f"is not {_VERSION}; it may be from a newer steinpath")
    found = entries("format", _from_version_1(found) if number == 1 else found, _FILE)
    target, reading, encoder = found["target"], found["reading"], found["encoder"]
    checked(str, "steinpath_version", found["steinpath_version"])
    require(target is None or checked(str, "target", target).strip(), "target", target)
    FileFormat.from_json(reading)
    if encoder is None and found["steps"] is None:
        return SavedModel(_model_from_json(found["model"], []), target, reading)
    table, names = TableEncoder.from_json(encoder), checked((str, 2), "steps", found["steps"])
    estimator = _model_from_json(found["model"], [*table.get_feature_names_out()])
    return SavedModel(Pipeline([*zip(names, (table, estimator), strict=True)]), target, reading)


def _model_from_json(found: Any, names: list[str], fits: int = 1) -> Any:
    """Return an estimator, one of some ``fits``; ``names`` are those of an encoder's features."""
    found = entries("model", found, _MODEL)
    kind: Any = _ESTIMATORS.get(checked(str, "class", found["class"]))
    require(kind, "class", found["class"], "is not an estimator of steinpath")
    require(found["dtype"] in ("float32", "float64"), "dtype", found["dtype"])
    coef, parts, dtype = checked(dict, "coef", found["coef"]), found["estimators"], found["dtype"]
    classes = _labels(found["classes"], is_classifier(kind()))
    several = len(classes) if len(classes) > 2 else 1
    if parts is not None:
        several = several if len(classes) else len(checked(list, "estimators", parts))
        checked((dict, several), "estimators", parts)
    own = checked(dict, "attributes", found["attributes"])
    own = {name: _attribute(name, x, several if parts else None) for name, x in own.items()}
    model = _with_parameters(kind, found["parameters"], own)
    given, terms = _names(model, names), own.get("terms_")
    right = coef and list(coef) == _keys(given, len(coef)) and len(given or coef) == len(coef)
    right = right and (terms is None or len(terms.kept) + terms.pairs.shape[1] == len(coef))
    require(right, "coef", list(coef), "does not match the features of its columns")
    cells = [*coef.items(), ("intercept", found["intercept"])]
    rows = [checked((float, several), name, x if several > 1 else [x]) for name, x in cells]
    matrix = np.array(rows).T[slice(None) if len(classes) or parts else 0]
    model.n_features_in_ = len(coef) if terms is None else terms.n_given
    model.coef_ = matrix[..., :-1].astype(dtype)
    constants = matrix[..., -1].astype(dtype if len(classes) else float)
    model.intercept_ = constants if constants.ndim else float(constants)
    if len(classes):
        model.classes_ = classes
    if found["intervals"] is not None:
        model.intervals_ = intervals_from_json(found["intervals"], len(coef), fits)
    if parts:
        same = {name: found[name] for name in ("class", "dtype")}
        same |= {"classes": [0, 1] if len(classes) else None, "estimators": None}
        model.estimators_ = []
        for part, (*weights, constant) in zip(parts, matrix.tolist(), strict=True):
            fit = entries("estimators", part, _FIT) | same | {"intercept": constant}
            fit["coef"] = dict(zip(coef, weights, strict=True))
            model.estimators_.append(_model_from_json(fit, names, several))
    return model


def _labels(found: Any, classifier: bool) -> np.ndarray:
    """Return the labels of a classifier, which are of one type; none for a regressor."""
    kinds = {type(label) for label in checked(list, "classes", found)} if classifier else set()
    right = kinds in ({str}, {int}, {float}, {bool}) if classifier else found is None
    require(right, "classes", found, "are not labels of a classifier, all of one type")
    labels = np.array(from_plain("classes", found or []))
    # an array of strings does not keep zero bytes at their ends
    right = not classifier or len(found) == len(set(labels.tolist())) > 1
    require(right, "classes", found, "are not two or more distinct labels")
    return labels


def _with_parameters(kind: Any, found: Any, own: dict[str, Any]) -> Any:
    """Return an estimator with parameters of the file and these attributes, if they fit."""
    right = set(checked(dict, "parameters", found)) <= set(kind().get_params(deep=False))
    require(right, "parameters", [*found], f"are not those of {kind.__name__}")
    given = {name: from_plain(name, value) for name, value in found.items()}
    try:  # the loss is used by predictions; levels of quantiles and class weights are not
        used = kind(**{k: x for k, x in given.items() if k not in ("q", "class_weight")})
        make_penalty(used._penalty(), 1.0)
        loss = own.get("loss_", used._loss())
        right = loss.margin == used._loss().margin
        if "test_parameter_" in own:
            CRITERIA[own["test_loss_"]](own["test_parameter_"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"its 'parameters' or 'test_loss_' are not valid: {error}") from None
    require(right, "loss_", loss, "is not for its estimator")
    index, t = own.get("best_index_", 0), own.get("best_iter_", 0)
    require(np.all(index < len(own.get("alphas_", range(10**9)))), "best_index_", index)
    require(np.all(t <= own.get("n_iter_", math.inf)), "best_iter_", t)
    model = kind(**given)
    vars(model).update(own)
    return model


def _attribute(name: str, value: Any, several: int | None = None) -> Any:
    """Return an attribute; of several fits together, it may have one number for each."""
    kind = _ATTRIBUTES.get(name)
    require(kind, name, value, "is unknown")
    if kind is Terms:
        return Terms.from_json(value)
    if kind in (Loss, Penalty):
        made = from_plain(name, value)
        require(isinstance(made, kind), name, value)
        return made
    if isinstance(value, list) and not isinstance(kind, tuple) and len(value) == several:
        return np.array([_attribute(name, each) for each in value])
    if value is None and name.endswith("stderr_"):
        return math.inf
    found, most = checked(kind, name, value), 1 if name.endswith("rate_") else math.inf
    if name == "warnings_":
        return tuple(found)
    if isinstance(kind, tuple):
        return np.array(found, object if kind[0] is str else float)
    bounded = name.endswith(("alpha_", "stderr_", "rate_"))
    require(not bounded or 0 <= found <= most, name, value, f"is {value!r:.20}, out of range")
    return found


def _from_version_1(old: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of a file of version 0.1.0 as those of today."""
    given, reading = (checked(dict, key, old.get(key, {})) for key in ("parameters", "reading"))
    alpha, rows = checked(float, "alpha", old.get("alpha")), checked(int, "rows", old.get("rows"))
    own = {new: old[name] for name, new in _OLD.items() if name in old}
    checked(str, "target", old.get("target"))
    parameters: dict[str, Any] = {}
    for key, registry in REGISTRIES.items():
        part = registry.get(checked(str, key, old.get(key)))
        require(part, key, old[key], "is unknown")
        names = [each.name for each in fields(part)]
        shape = {name: value for name, value in given.items() if name in names}
        strength = {"lam": alpha * math.sqrt(rows)} if "lam" in names else {}
        own[f"{key}_"] = {key: old[key], "parameters": shape | strength}
        parameters[key] = {key: old[key], "parameters": shape} if shape else old[key]
    columns = checked((dict, None), "columns", old.get("columns"))
    filled = any(column.get("fill") is not None for column in columns)
    cells = {name: value for name, value in reading.items() if name in _CELLS}
    cells["missing"] = "impute" if filled else "error"
    kind = "PathClassifier" if LOSSES[old["loss"]].margin else "PathRegressor"
    fit = {"class": kind, "dtype": "float64", "parameters": parameters, "attributes": own}
    same = {name: old.get(name) for name in ("classes", "intercept", "coef", "intervals")}
    return {name: old.get(name, "") for name in _FILE[:4]} | {
        "reading": reading,
        "steps": ["tableencoder", kind.lower()],
        "encoder": {"columns": columns, "parameters": cells},
        "model": fit | same | {"estimators": None},
    }


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


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
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
