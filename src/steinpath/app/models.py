"""Model files: plain JSON, from which nothing is executed."""

from __future__ import annotations

import json
import math
import os
from contextlib import suppress
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from steinpath._support.arrays import to_numpy
from steinpath._support.files import write_text
from steinpath._support.messages import DataError
from steinpath.app.model_json import (
    MOST_BYTES,
    REGISTRIES,
    checked,
    entries,
    from_plain,
    intervals_from_json,
    intervals_to_json,
    listed,
    plain_items,
    read_json,
)
from steinpath.app.tables import FileFormat
from steinpath.estimators import _classifiers, _regressors
from steinpath.estimators._encoder import TableEncoder
from steinpath.problem._grid import make_penalty
from steinpath.problem._losses import LOSSES, Loss
from steinpath.problem._penalties import Penalty
from steinpath.problem._scoring import CRITERIA, Criterion, resolve_test_loss
from steinpath.problem._spread import scaled_test_loss

_FORMAT, _VERSION = "steinpath model", 2
_FILE = ("format", "version", "steinpath_version", "target", "reading", "steps", "encoder", "model")
_FIT = ("parameters", "attributes", "intervals")
_DTYPES: dict[type, Any] = {float: float, str: object}
_MODEL = ("class", "classes", "dtype", "intercept", "coef", *_FIT, "estimators")
_NAMES = """PathRegressor LADLasso LADRidge LADElasticNet SqrtLasso SqrtRidge HuberLasso HuberRidge
QuantileLasso QuantileRidge PathClassifier LogisticLasso LogisticRidge LogisticElasticNet
HingeLasso HingeRidge"""
_KINDS = vars(_regressors) | vars(_classifiers)
_ESTIMATORS: dict[str, Any] = {name: _KINDS[name] for name in _NAMES.split()}
_ATTRIBUTES: dict[str, type] = {
    **dict.fromkeys(("best_index_", "best_iter_", "n_iter_", "n_samples_"), int),
    **dict.fromkeys(("alpha_", "alphas_", "best_risk_", "best_risk_stderr_", "naive_risk_"), float),
    **dict.fromkeys(("naive_risk_stderr_", "constant_risk_", "train_risk_", "y_scale_"), float),
    **dict.fromkeys(("median_error_", "error_rate_", "error_rate_stderr_"), float),
    **dict.fromkeys(("train_error_rate_", "test_parameter_"), float),
    **dict.fromkeys(("test_loss_", "stop_", "warnings_", "feature_names_in_"), str),
    "loss_": Loss,
    "penalty_": Penalty,
}
# Options of reading a table that are parameters of the encoder.
_CELLS = ("decimal", "thousands", "na", "date_format")
# Attributes by their names in files of version 0.1.0.
_OLD = {"alpha": "alpha_", "iterate": "best_iter_", "iterations": "n_iter_", "rows": "n_samples_"}
_OLD |= {"risk": "best_risk_", "stderr": "best_risk_stderr_", "train": "train_risk_"}
_OLD |= {"test_loss": "test_loss_", "test_parameter": "test_parameter_"}
_OLD_OPTIONAL = {name: f"{name}_" for name in ("error_rate", "error_rate_stderr", "warnings")}


class SavedModel(NamedTuple):
    """A model from a file, the name of its target, and how its table was read."""

    model: Any
    target: str | None
    format: dict[str, Any]

    @property
    def estimator(self) -> Any:
        """The estimator, which has the expected errors as attributes."""
        return self.model[-1] if isinstance(self.model, Pipeline) else self.model

    @property
    def criterion(self) -> Criterion | None:
        """The scoring loss of `best_risk_`, if it is known."""
        parameter = getattr(self.estimator, "test_parameter_", None)
        return None if parameter is None else CRITERIA[self.estimator.test_loss_](parameter)


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
    save_model : Write a model to a file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import steinpath as sp
    >>> X, y = sp.simulate.paper_model(20, noise="t2").sample(200, rng=0)
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "model.json")
    ...     sp.save_model(sp.LADLasso(n_alphas=5, random_state=0).fit(X, y), file)
    ...     sp.load_model(file).predict_interval(X[:5]).shape
    (5, 2)
    """
    return load_model_file(file).model


def save_model_file(
    model: Any, file: str | os.PathLike[str], target: str | None, reading: dict[str, Any]
) -> None:
    """Do as `save_model`, with the options by which the table was read."""
    steps = model.steps if isinstance(model, Pipeline) else [(None, model)]
    kinds, estimator = [type(step) for _, step in steps], steps[-1][1]
    several = isinstance(model, Pipeline)
    if kinds != [TableEncoder] * several + [_ESTIMATORS.get(kinds[-1].__name__)]:
        raise TypeError(
            "model must be an estimator of steinpath, such as sp.LADLasso, or a pipeline of "
            "sp.TableEncoder and such an estimator; got "
            + "a pipeline of " * several
            + ", ".join(kind.__name__ for kind in kinds)
        )
    check_is_fitted(estimator)
    encoder = steps[0][1] if several else None
    found = {
        "format": _FORMAT,
        "version": _VERSION,
        "steinpath_version": _installed(),
        "target": target,
        "reading": reading,
        "steps": [name for name, _ in steps] if several else None,
        "encoder": encoder and encoder.to_json(),
        "model": _model_to_json(estimator, encoder and [*encoder.get_feature_names_out()]),
    }
    content = json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if len(content) > MOST_BYTES / 2:  # characters may have several bytes
        raise DataError(f"the model is too large for a file: {len(content)} characters")
    write_text(Path(file), content)


def _installed() -> str:
    with suppress(PackageNotFoundError):
        return version("steinpath")
    return "0+unknown"


def _model_to_json(model: Any, names: list[str] | None) -> dict[str, Any]:
    """Return an estimator as plain data, with coefficients by the names of the features."""
    coef, intercept = to_numpy(model.coef_), to_numpy(model.intercept_)
    classes = to_numpy(model.classes_).tolist() if is_classifier(model) else None
    if not all(isinstance(label, str | int | float) for label in classes or ()):
        raise TypeError(f"classes must be strings or numbers, got {classes!r:.60}")
    parts = getattr(model, "estimators_", None)
    fits = parts or [model]
    kept = intervals_to_json([one.intervals_ for one in fits if hasattr(one, "intervals_")])
    each = [_fit_to_json(*one) for one in zip(fits, kept or [None] * len(fits), strict=True)]
    if coef.ndim == 2 and len(coef) == 1:
        coef, intercept = coef[0], intercept[0]
    keys = _keys(names or [*getattr(model, "feature_names_in_", ())], coef.shape[-1])
    return {
        "class": type(model).__name__,
        "classes": classes,
        "dtype": str(coef.dtype),
        "intercept": intercept.tolist(),
        "coef": dict(zip(keys, coef.T.tolist(), strict=True)),
        **(_fit_to_json(model, None) if parts else each[0]),
        "estimators": each if parts else None,
    }


def _keys(names: list[str], count: int) -> list[str]:
    """Return names of coefficients: those of the features, if they are known and unique."""
    return names if len(set(names)) == count else [f"x{k}" for k in range(count)]


def _fit_to_json(model: Any, intervals: dict[str, Any] | None) -> dict[str, Any]:
    """Return the parameters and attributes of one of several fits, or of all together."""
    given = model.get_params(deep=False)
    for name in ("cv", "row_scale"):  # not with one entry for each training row
        if not isinstance(given[name], str | int | None):
            del given[name]
    own: dict[str, Any] = {"warnings_": ()} | vars(model)
    if "test_parameter_" not in own and "loss_" in own and "test_loss_" in own:
        scaled = scaled_test_loss(model.test_loss, model.loss_, own.get("y_scale_", 1.0))
        criterion: Any = resolve_test_loss(scaled, model.loss_)
        if CRITERIA.get(model.test_loss_) is type(criterion):  # not a function of the user
            own["test_parameter_"] = criterion.parameter
    attributes = {name: own[name] for name in _ATTRIBUTES if name in own}
    for name in (name for name in attributes if name.endswith("stderr_")):
        errors = to_numpy(own[name]).astype(object)  # infinite ones are null
        attributes[name] = np.where(errors == math.inf, np.array(None), errors)
    plain = plain_items(given), plain_items(attributes)
    return dict(zip(_FIT, (*plain, intervals), strict=True))


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
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise DataError(f"its 'format' is not {_FORMAT!r}")
    number = found.get("version")
    if type(number) is not int or number not in (1, _VERSION):
        raise DataError(
            f"its version is {number!r:.20}, not {_VERSION}; it may be from a newer steinpath"
        )
    found = entries("it", _from_version_1(found) if number == 1 else found, _FILE)
    target, reading, encoder = found["target"], found["reading"], found["encoder"]
    checked(str, "steinpath_version", found["steinpath_version"])
    if target is not None and not checked(str, "target", target).strip():
        raise DataError("its 'target' is blank")
    FileFormat.from_json(reading)
    if encoder is None and found["steps"] is None:
        return SavedModel(_model_from_json(found["model"], []), target, reading)
    table = TableEncoder.from_json(encoder)
    estimator = _model_from_json(found["model"], [*table.get_feature_names_out()])
    names = listed(str, "steps", found["steps"], 2)
    return SavedModel(Pipeline([*zip(names, (table, estimator), strict=True)]), target, reading)


def _model_from_json(found: Any, names: list[str]) -> Any:
    """Return a fitted estimator; ``names`` are those of the features, if there is an encoder."""
    found = entries("an estimator", found, _MODEL)
    kind = _ESTIMATORS.get(checked(str, "class", found["class"]))
    if kind is None:
        raise DataError(f"its 'class' {found['class']!r:.60} is not an estimator of steinpath")
    coef, dtype, parts = checked(dict, "coef", found["coef"]), found["dtype"], found["estimators"]
    classifier = is_classifier(kind())
    classes = _classes(found["classes"], classifier)
    several = len(classes) if len(classes) > 2 else 1
    if parts is not None:
        several = len(listed(dict, "estimators", parts, several if classifier else None))
    if not several or dtype not in ("float32", "float64"):
        raise DataError("it has no 'estimators', or its 'dtype' is not float32 or float64")
    model = _fit_from_json(kind, found, len(coef), several, parts is not None)
    own = {name: x for name, x in vars(model).items() if name == "feature_names_in_"}
    own["n_features_in_"] = len(coef)
    if not coef or list(coef) != _keys(names or [*own.get("feature_names_in_", ())], len(coef)):
        raise DataError("its 'coef' does not match the features of its columns")
    cells = zip((*map(repr, coef), "intercept"), (*coef.values(), found["intercept"]), strict=True)
    rows = [listed(float, name, x if several > 1 else [x], several) for name, x in cells]
    matrix = np.array(rows).T.astype(dtype if classifier else float)
    weights, constants = matrix[:, :-1].astype(dtype), matrix[:, -1]
    if classifier or parts:
        vars(model).update(own, coef_=weights, intercept_=constants)
    else:
        vars(model).update(own, coef_=weights[0], intercept_=float(constants[0]))
    if classifier:
        model.classes_, own["classes_"] = np.array(classes), np.arange(2)
    if parts:
        model.estimators_ = []
    for k, part in enumerate(parts or ()):
        one = _fit_from_json(kind, entries("a fit", part, _FIT), len(coef), several)
        at: Any = slice(k, k + 1) if classifier else k
        vars(one).update(own, coef_=weights[at], intercept_=constants[at])
        model.estimators_.append(one)
    return model


def _classes(found: Any, classifier: bool) -> list[Any]:
    """Return the labels of a classifier, which are of one type; none for a regressor."""
    if not classifier and found is None:
        return []
    kinds = {type(label) for label in checked(list, "classes", found)} if classifier else set()
    if kinds not in ({str}, {int}, {float}, {bool}):
        raise DataError("its 'classes' are not labels of a classifier, all of one type")
    if kinds != {bool}:
        listed(str if kinds == {str} else float, "classes", found)
    # an array of strings does not keep zero bytes at their ends
    if len(found) < 2 or len(set(np.array(found).tolist())) < len(found):
        raise DataError("its 'classes' are not two or more distinct labels")
    return list(found)


def _fit_from_json(
    kind: Any, found: dict[str, Any], features: int, several: int, together: bool = False
) -> Any:
    """Return an estimator with the parameters and attributes of one of several fits, or of all."""
    given = checked(dict, "parameters", found["parameters"])
    if not set(given) <= set(kind().get_params(deep=False)):
        raise DataError(f"its 'parameters' are not those of {kind.__name__}")
    given = {name: from_plain(value) for name, value in given.items()}
    stored = checked(dict, "attributes", found["attributes"])
    own = {name: _attribute(name, x, several if together else -1) for name, x in stored.items()}
    try:  # the loss is used by predictions; levels of quantiles and class weights are not
        problem = kind(
            **{name: x for name, x in given.items() if name not in ("q", "class_weight")}
        )
        make_penalty(problem._penalty(), 1.0)
        if own.get("loss_", problem._loss()).margin != problem._loss().margin:
            raise ValueError("its 'loss_' is not for its estimator")
        if "test_parameter_" in own:
            CRITERIA[own["test_loss_"]](own["test_parameter_"])
    except KeyError:
        raise DataError("its 'test_loss_' is unknown") from None
    except (TypeError, ValueError) as error:
        raise DataError(str(error)) from None
    if found["intervals"] is not None:
        own["intervals_"] = intervals_from_json(found["intervals"], features, several)
    late = np.any(own.get("best_iter_", 0) > own.get("n_iter_", math.inf))
    if late or np.any(own.get("best_index_", 0) >= len(own.get("alphas_", range(10**9)))):
        raise DataError("its numbers are not valid: a selected one is beyond the last one")
    if len(own.get("feature_names_in_", range(features))) != features:
        raise DataError("its 'feature_names_in_' do not match its 'coef'")
    model = kind(**given)
    vars(model).update(own)
    return model


def _attribute(name: str, value: Any, several: int) -> Any:
    """Return an attribute; of several fits together, it may have one number for each."""
    if (kind := _ATTRIBUTES.get(name)) is None:
        raise DataError(f"it has the attribute {name!r:.60}, which is unknown")
    if kind in (Loss, Penalty):
        if not isinstance(made := from_plain(value), kind):
            raise DataError(f"its {name!r} is not a {kind.__name__}")
        return made
    if name in ("alphas_", "warnings_", "feature_names_in_"):
        items = listed(kind, name, value)
        return tuple(items) if name == "warnings_" else np.array(items, _DTYPES[kind])
    if isinstance(value, list) and len(value) == several:
        return np.array([_attribute(name, each, -1) for each in value])
    if value is None and name.endswith("stderr_"):
        return math.inf
    found, most = checked(kind, name, value), 1 if name.endswith("rate_") else math.inf
    if name.endswith(("alpha_", "stderr_", "rate_")) and not 0 <= found <= most:
        raise DataError(f"its numbers are not valid: {name!r} is {found:g}")
    return found


def _from_version_1(old: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of a file of version 0.1.0 as those of today."""
    given = checked(dict, "parameters", old.get("parameters"))
    for name, value in given.items():
        checked(float, checked(str, "parameters", name), value)
    alpha, rows = checked(float, "alpha", old.get("alpha")), checked(int, "rows", old.get("rows"))
    checked(str, "target", old.get("target"))
    own = {new: old.get(name) for name, new in _OLD.items()}
    own |= {new: old[name] for name, new in _OLD_OPTIONAL.items() if name in old}
    own |= {"alphas_": [alpha], "best_index_": 0}
    parameters: dict[str, Any] = {}
    for key, registry in REGISTRIES.items():
        if (part := registry.get(checked(str, key, old.get(key)))) is None:
            raise DataError(f"its {key} {old[key]!r:.60} is unknown")
        names = [each.name for each in fields(part)]
        shape = {name: value for name, value in given.items() if name in names}
        strength = {"lam": alpha * math.sqrt(rows)} if "lam" in names else {}
        own[f"{key}_"] = {key: old[key], "parameters": shape | strength}
        parameters[key] = {key: old[key], "parameters": shape} if shape else old[key]
    kind = "PathClassifier" if LOSSES[old["loss"]].margin else "PathRegressor"
    columns = checked(list, "columns", old.get("columns"))
    filled = any(isinstance(column, dict) and column.get("fill") is not None for column in columns)
    reading = checked(dict, "reading", old.get("reading", {}))
    cells = {name: value for name, value in reading.items() if name in _CELLS}
    today = {"missing": "impute" if filled else "error"} | cells
    fit = {"parameters": parameters, "attributes": own, "estimators": None}
    kept = {name: old.get(name) for name in ("classes", "intercept", "coef", "intervals")}
    return {name: old.get(name, "") for name in _FILE[:4]} | {
        "reading": reading,
        "steps": ["tableencoder", kind.lower()],
        "encoder": {"columns": columns, "parameters": today},
        "model": {"class": kind, "dtype": "float64", **fit, **kept},
    }
