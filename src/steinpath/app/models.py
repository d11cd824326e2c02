"""Model files: plain JSON, from which nothing is executed."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from steinpath._support.files import write_text
from steinpath._support.printing import with_error
from steinpath._support.validation import warn
from steinpath.app.classes import predict_codes
from steinpath.app.encoding import Encoding
from steinpath.app.json_values import count, items, number, text
from steinpath.app.saved_intervals import from_json, to_json
from steinpath.app.tables import DEFAULT_FORMAT, DataError, Table, TextFormat, as_table
from steinpath.app.tables.table import objects
from steinpath.inference._prediction_intervals import PredictionIntervals
from steinpath.problem._losses import LOSSES
from steinpath.problem._margins import Logistic, class_probabilities
from steinpath.problem._scoring import CRITERIA

# Format and version, at the start of each file.
_FORMAT, _VERSION = "steinpath model", 1
# A model with a million coefficients has about fifty million characters.
_MOST_BYTES = 2**28


@dataclass(frozen=True)
class Choice:
    """How a model was selected, and its estimated risk.

    Attributes
    ----------
    loss, penalty : str
        Their names, such as "lad" and "lasso".
    parameters : dict of str to float
        Parameters of the loss and of the penalty, except its strength.
    alpha : float
        Regularisation strength, on scikit-learn's scale.
    iterate, iterations : int
        The selected iteration, and the number of iterations run.
    test_loss : str
        The scoring loss.
    test_parameter : float
        Its parameter, such as a quantile; 0 if it has none.
    risk, stderr, train : float
        Estimated risk on new rows, adjusted for selection; its standard error (infinite if
        unknown); the training error.
    rows : int
        Number of training rows.
    """

    loss: str
    penalty: str
    parameters: dict[str, float]
    alpha: float
    iterate: int
    iterations: int
    test_loss: str
    test_parameter: float
    risk: float
    stderr: float
    train: float
    rows: int


@dataclass(frozen=True)
class Classes:
    """The classes of a classifier.

    Attributes
    ----------
    labels : tuple of str
        The classes. With two classes, the decision value is that of the second.
    error_rate, stderr : float
        Expected error rate on new rows, and its standard error.
    has_probabilities : bool
        Whether decision values are log-odds.
    """

    labels: tuple[str, ...]
    error_rate: float
    stderr: float
    has_probabilities: bool

    @property
    def n_models(self) -> int:
        """Number of binary models: one for two classes, otherwise one for each class."""
        return 1 if len(self.labels) == 2 else len(self.labels)


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted model, which predicts from the columns of a table. Read it with `load_model`.

    Attributes
    ----------
    encoding : Encoding
        How columns become features.
    coef : ndarray of shape (p,), or (K, p) with more than two classes
        Coefficients of the features.
    intercept : float, or ndarray of shape (K,) with more than two classes
        Prediction, or decision value, where all features are zero.
    choice : Choice
        How the model was selected, and its estimated risk.
    warnings : tuple of str
        Reasons to doubt the estimated risk.
    steinpath_version : str
        Version of steinpath that fitted the model.
    intervals : PredictionIntervals, optional
        Out-of-fold models and residuals for `predict_interval`, in units of the features.
    classes : Classes, optional
        The classes of a classifier. With more than two classes there is one one-vs-rest model per
        class; `choice` then describes the class with the largest estimated risk.
    text_format : TextFormat
        How texts are read, as in the fit.
    """

    encoding: Encoding
    coef: np.ndarray = field(repr=False)
    intercept: float | np.ndarray
    choice: Choice
    warnings: tuple[str, ...] = ()
    steinpath_version: str = ""
    intervals: PredictionIntervals | None = field(default=None, repr=False)
    classes: Classes | None = None
    text_format: TextFormat = DEFAULT_FORMAT

    @property
    def feature_names(self) -> list[str]:
        """Names of the features."""
        return self.encoding.feature_names

    def predict(self, data: Any) -> np.ndarray:
        """Predict the target.

        Parameters
        ----------
        data : DataFrame, LazyFrame, pyarrow.Table, mapping of columns, or Table
            Rows with the columns that the model was fitted to; other columns are ignored. Numbers
            and dates may be strings, as in a text file.

        Returns
        -------
        ndarray of shape (n,)
            Numbers, or the labels of classes.
        """
        predictions, notes = self.predict_table(self._table(data))
        for note in notes:
            warn(note)
        return predictions

    def _table(self, data: Any) -> Table:
        return as_table(data, self.encoding.named, self.text_format)

    def decision_function(self, data: Any) -> np.ndarray:
        """Return the decision values of a classifier: log-odds for the logistic loss.

        Parameters
        ----------
        data
            As for `predict`.

        Returns
        -------
        ndarray of shape (n,), or (n, K) with more than two classes
        """
        values, _, notes = self._decide(self._table(data))
        for note in notes:
            warn(note)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict_proba(self, data: Any) -> np.ndarray:
        """Predict class probabilities; requires the logistic loss.

        Parameters
        ----------
        data
            As for `predict`.

        Returns
        -------
        ndarray of shape (n, K)
            In the order of ``classes.labels``.
        """
        values, classes, notes = self._decide(self._table(data))
        if not classes.has_probabilities:
            raise DataError(
                f"a model with the {self.choice.loss} loss has no probabilities; fit one with "
                "--loss logistic"
            )
        for note in notes:
            warn(note)
        return np.asarray(class_probabilities(values))

    def predict_interval(self, data: Any, level: float = 0.9) -> np.ndarray:
        """Predict intervals that contain the target of new rows with a given probability.

        The intervals are CV+ intervals, from models fitted without one fold each; see
        `PredictionIntervals`.

        Parameters
        ----------
        data
            As for `predict`.
        level : float, default=0.9
            Coverage: the share of new rows whose target is inside.

        Returns
        -------
        ndarray of shape (n, 2)
            Lower and upper ends.

        Raises
        ------
        DataError
            If the model was saved without prediction intervals, or the level is not between 0 and
            1, or too high for the number of training rows.
        """
        bounds, notes = self.predict_table_interval(self._table(data), level)
        for note in notes:
            warn(note)
        return bounds

    def predict_table(self, table: Table) -> tuple[np.ndarray, list[str]]:
        """Return predictions, and notes about them."""
        if self.classes is not None:
            columns, notes = self.predict_table_classes(table)
            return columns["prediction"], notes
        return self._linear(table)

    def predict_table_classes(self, table: Table) -> tuple[dict[str, np.ndarray], list[str]]:
        """Return predicted classes and probabilities by column name, and notes about them."""
        values, classes, notes = self._decide(table)
        columns = {"prediction": objects(classes.labels)[predict_codes(values)]}
        if classes.has_probabilities:
            columns |= dict(zip(self.probability_names, class_probabilities(values).T, strict=True))
        return columns, notes

    @property
    def probability_names(self) -> list[str]:
        """Names of the columns with probabilities in `predict_table_classes`."""
        if self.classes is None or not self.classes.has_probabilities:
            return []
        return [f"probability of {label}" for label in self.classes.labels]

    def _decide(self, table: Table) -> tuple[np.ndarray, Classes, list[str]]:
        """Return decision values as a matrix, the classes, and notes."""
        if self.classes is None:
            raise DataError("this model is a regression, not a classifier; use predict")
        values, notes = self._linear(table)
        return values.reshape(len(values), -1), self.classes, notes

    def _linear(self, table: Table) -> tuple[np.ndarray, list[str]]:
        X, notes = self.encoding.transform(table)
        with np.errstate(over="ignore", invalid="ignore"):
            values = X @ self.coef.T + self.intercept
        _refuse_overflow(table, values)
        return values, notes

    def predict_table_interval(self, table: Table, level: float) -> tuple[np.ndarray, list[str]]:
        """Return intervals, and notes about them."""
        if self.classes is not None:
            raise DataError(
                "prediction intervals require a regression, but this model is a classifier; omit "
                "--interval (with the logistic loss, class probabilities are predicted)"
            )
        if self.intervals is None:
            raise DataError(
                "the model was saved without prediction intervals, by an earlier version or since "
                "it has too many coefficients; fit it again with `steinpath fit`, or use "
                "sp.tune(...).predict_interval in Python"
            )
        X, notes = self.encoding.transform(table)
        with np.errstate(over="ignore", invalid="ignore"):
            _refuse_overflow(table, X @ self.intervals.coef.T + self.intervals.intercept)
        try:
            return self.intervals.interval(X, level), notes
        except ValueError as error:
            raise DataError(str(error)) from None

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the model to a file, for `load_model`.

        Parameters
        ----------
        file : str or path
            Its name; ".json" is usual.
        """
        entries: dict[str, Any] = {
            "format": _FORMAT,
            "version": _VERSION,
            "steinpath_version": self.steinpath_version,
            **asdict(self.choice),
            "stderr": self.choice.stderr if math.isfinite(self.choice.stderr) else None,
            "warnings": list(self.warnings),
            **self.encoding.to_json(),
            "intercept": np.asarray(self.intercept).tolist(),
            "coef": dict(zip(self.feature_names, self.coef.T.tolist(), strict=True)),
        }
        if self.classes is not None:
            error = self.classes.stderr
            entries |= {
                "classes": list(self.classes.labels),
                "error_rate": self.classes.error_rate,
                "error_rate_stderr": error if math.isfinite(error) else None,
            }
        if self.intervals is not None:
            entries["intervals"] = to_json(self.intervals)
        if self.text_format != DEFAULT_FORMAT:
            entries["reading"] = self.text_format.to_json()
        content = json.dumps(entries, indent=1, ensure_ascii=False, allow_nan=False)
        write_text(Path(file), content + "\n")

    def __repr__(self) -> str:
        c = self.choice
        return (
            f"<Model of {self.encoding.target!r}, {c.loss} + {c.penalty}: "
            f"{np.count_nonzero(self.coef)} of {self.coef.size} coefficients, {c.test_loss} risk "
            f"{with_error(c.risk, c.stderr)}>"
        )


def _refuse_overflow(table: Table, predictions: np.ndarray) -> None:
    rows = np.flatnonzero(~np.isfinite(predictions.reshape(len(predictions), -1)).all(axis=1))
    if len(rows):
        raise DataError(
            f"the numbers in {table.place(int(rows[0]))} are too large for a prediction"
        )


def load_model(file: str | os.PathLike[str]) -> Model:
    """Read a model that `Model.save` or ``steinpath fit`` wrote.

    The file is JSON. Nothing in it is executed, and files that are not valid models are refused.

    Parameters
    ----------
    file : str or path
        Its name.

    Returns
    -------
    Model
        The model; its `predict` accepts data frames.

    Examples
    --------
    >>> import steinpath as sp
    >>> model = sp.load_model("houses-fit/model.json")  # doctest: +SKIP
    >>> model.predict(new_houses)  # doctest: +SKIP
    """
    try:
        return _from_json(_read_json(file))
    except OSError as error:
        hint = "; give its model.json" if isinstance(error, IsADirectoryError) else ""
        raise DataError(f"cannot read {file}: {error.strerror or error}{hint}") from None
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise DataError(f"{file} is not a model: it is not JSON, or is truncated") from None
    except MemoryError:
        raise DataError(f"{file} is not a model: there is not enough memory to read it") from None
    except DataError as error:
        raise DataError(f"{file} is not a model that this version can read: {error}") from None
    except ValueError as error:  # an impossible file name
        raise DataError(f"cannot read {str(file)!r}: {error}") from None


def _read_json(file: str | os.PathLike[str], most_bytes: int = _MOST_BYTES) -> Any:
    """Read JSON of bounded size, strictly: ambiguous contents are refused.

    Parameters
    ----------
    file : str or path
        Its name.
    most_bytes : int
        Larger files are refused.
    """
    with open(file, "rb") as opened:
        # not by file size: a device reports 0, and never ends
        content = opened.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise DataError("it is too large for a model")
    return json.loads(
        content.decode(),
        parse_constant=_refuse,
        parse_int=_parse_int,
        object_pairs_hook=_once_each,
    )


def _refuse(constant: str) -> float:
    raise DataError(f"{constant} is not a valid number")


def _parse_int(digits: str) -> int:
    if len(digits) > 4000:  # Python has a limit of its own, without a specific error
        _refuse(f"{digits[:20]}…")
    return int(digits)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise DataError(f"it has {counts.most_common(1)[0][0]!r:.60} more than once")
    return found


def _from_json(found: Any) -> Model:
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise DataError(f"its 'format' is not {_FORMAT!r}")
    if type(found.get("version")) is not int or found["version"] != _VERSION:
        raise DataError(
            f"its version is {found.get('version')!r:.20}, not {_VERSION}; it may be from a newer "
            "steinpath"
        )
    encoding = Encoding.from_json({name: found.get(name) for name in ("target", "columns")})
    coef = found.get("coef")
    if not isinstance(coef, dict) or list(coef) != encoding.feature_names:
        raise DataError("its 'coef' does not match the features of its columns")
    warnings = found.get("warnings", [])
    if not isinstance(warnings, list):
        raise DataError("its 'warnings' are not strings")
    intervals, choice = found.get("intervals"), _choice(found)
    classes = _classes(found, choice)
    of = 1 if classes is None else classes.n_models
    return Model(
        encoding,
        np.array([_numbers(f"coef {name!r:.60}", value, of) for name, value in coef.items()]).T,
        _numbers("intercept", found.get("intercept"), of),
        choice,
        tuple(text("warnings", warning) for warning in warnings),
        text("steinpath_version", found.get("steinpath_version", "")),
        None if intervals is None else from_json(intervals, len(coef)),
        classes,
        TextFormat.from_json(found.get("reading", {})),
    )


def _numbers(name: str, value: Any, count: int) -> Any:
    """Return a number of the file, or one for each of several models."""
    if count == 1:
        return number(name, value)
    found = [number(name, each) for each in items(name, value)]
    if len(found) != count:
        raise DataError(f"its {name!r} has {len(found)} numbers, but there are {count} classes")
    return np.array(found)


def _classes(found: dict[str, Any], choice: Choice) -> Classes | None:
    """Return the classes of the file, if its loss is for classification."""
    loss = LOSSES.get(choice.loss)
    if loss is None or not loss.margin:
        if "classes" in found:
            raise DataError(f"it has 'classes', but its loss {choice.loss!r:.60} is for regression")
        return None
    labels = tuple(text("classes", label) for label in items("classes", found.get("classes")))
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise DataError("its 'classes' are not two or more distinct labels")
    stderr = found.get("error_rate_stderr")
    rate = number("error_rate", found.get("error_rate"))
    error = math.inf if stderr is None else number("error_rate_stderr", stderr)
    if not 0 <= rate <= 1 or error < 0:
        raise DataError("its 'error_rate' is not valid")
    return Classes(labels, rate, error, issubclass(loss, Logistic))


def _choice(found: dict[str, Any]) -> Choice:
    entries: dict[str, Any] = {}
    for entry in fields(Choice):
        if entry.name not in found:
            raise DataError(f"it has no {entry.name!r}")
        value = found[entry.name]
        if entry.name == "stderr" and value is None:
            value = math.inf
        elif entry.type == "float":
            value = number(entry.name, value)
        elif entry.type == "int":
            value = count(entry.name, value)
        elif entry.type == "str":
            value = text(entry.name, value)
        entries[entry.name] = value
    parameters = entries["parameters"]
    if not isinstance(parameters, dict):
        raise DataError("its 'parameters' are not named numbers")
    entries["parameters"] = {
        text("parameters", name): number(name, value) for name, value in parameters.items()
    }
    choice = Choice(**entries)
    if choice.iterate > choice.iterations or min(choice.stderr, choice.alpha) < 0:
        raise DataError("its numbers are not valid")
    try:
        CRITERIA[choice.test_loss](choice.test_parameter)
    except (KeyError, ValueError):
        raise DataError("its 'test_loss' is unknown, or has no such parameter") from None
    return choice
