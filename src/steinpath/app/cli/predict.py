"""``steinpath predict``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from steinpath._support.cells import missing, read_column, texts
from steinpath._support.files import as_csv, write_text
from steinpath._support.messages import DataError, Message, refuse_unknown, worded
from steinpath._support.printing import number, printable, with_error
from steinpath._support.validation import capturing_warnings
from steinpath.app.cli.commands import option, read_format
from steinpath.app.models import SavedModel, load_model_file
from steinpath.app.tables import FileTable, placed, read_table
from steinpath.app.tables.table import FileFormat
from steinpath.problem._scoring import CRITERIA


def run_predict(
    model: str,
    file: str,
    keep: tuple[str, ...],
    interval: float | None,
    out: str | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Run ``steinpath predict``."""
    if out is not None and not Path(out).name:
        raise click.UsageError(f"--out must name a file, got {out!r}")
    saved = load_model_file(model)
    if not isinstance(saved.model, Pipeline):
        said = "has no TableEncoder, so it cannot predict from a file; use Python"
        raise DataError(f"{model} {said}")
    encoder, estimator = saved.model
    names = ["prediction"]
    if hasattr(estimator, "predict_proba"):
        names += [f"probability of {label}" for label in texts(estimator.classes_)]
    names += [] if interval is None else ["lower", "upper"]
    if clash := [name for name in keep if name in names]:
        said = "the output has a column of that name; rename the column of FILE"
        raise click.UsageError(f"--keep {clash[0]!r}: {said}")
    keep = tuple(dict.fromkeys(keep))
    how = read_format(reading, FileFormat.from_json(saved.format))
    encoder.set_params(**how.of_cells)
    table = read_table(file, how, [c.name for c in encoder.columns_ if c.levels])
    refuse_unknown(table.frame.column_names, keep)
    with capturing_warnings() as captured, placed(table.place):
        X = encoder.transform(table.frame)
        columns = dict(zip(names, _predict(estimator, X, interval), strict=True))
        remarks = [*_remarks(saved, table, columns, interval)]  # before anything is printed
    all_notes = (*table.notes, *(text for text, _ in captured))
    notes = [worded(note, option, table.place) for note in all_notes]
    for note in notes:
        click.echo(printable(f"Note: {note}."), err=True)
    if as_json:
        found: dict[str, Any] = {} if interval is None else {"level": interval}
        found |= {"kept": {name: table.json_cells(name) for name in keep}} if keep else {}
        for name, values in columns.items():
            found["predictions" if name == "prediction" else name] = values.tolist()
        text = json.dumps(found | {"notes": notes}) + "\n"
    else:
        kept = (map(_Verbatim, table.cells(name)) for name in keep)
        rows = zip(*kept, *(values.tolist() for values in columns.values()), strict=True)
        text = as_csv((dict(zip((*keep, *columns), row, strict=True)) for row in rows), "")
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(Path(out), text)
    for remark in remarks:
        click.echo(remark, err=True)


def _predict(estimator: Any, X: np.ndarray, level: float | None) -> list[np.ndarray]:
    """Return predictions, probabilities and the bounds of intervals."""
    for_classes = is_classifier(estimator)
    if level is not None and for_classes:
        raise DataError(
            "prediction intervals require a regression, but this model is a classifier; omit "
            "--interval (with the logistic loss, class probabilities are predicted)"
        )
    if not for_classes and estimator.coef_.ndim > 1:
        raise DataError("the model predicts several quantiles; use Python, or fit one quantile")
    try:
        predictions = np.asarray(estimator.predict(X))
    except ValueError:
        with np.errstate(over="ignore", invalid="ignore"):
            terms = getattr(estimator, "terms_", np.asarray)
            values = terms(X) @ np.atleast_2d(estimator.coef_).T + estimator.intercept_
        if not len(rows := np.flatnonzero(~np.isfinite(values).all(axis=1))):
            raise
        said = "the numbers in {place} are too large for a prediction"
        raise DataError(Message(said, row=int(rows[0]))) from None
    found = [texts(predictions) if for_classes else predictions]
    if hasattr(estimator, "predict_proba"):
        found += [*np.asarray(estimator.predict_proba(X)).T]
    if level is None:
        return found
    if not hasattr(estimator, "intervals_"):
        raise DataError(
            "the model was saved without prediction intervals, by an earlier version or since it "
            "has too many coefficients; fit it again with `steinpath fit`, or use "
            "predict_interval of the fitted estimator in Python"
        )
    try:
        return [*found, *estimator.predict_interval(X, level).T]
    except ValueError as error:
        raise DataError(str(error)) from None


class _Verbatim:
    """A text of the user's own file, by which rows are matched: `as_csv` writes it verbatim."""

    def __init__(self, text: str | None):
        self._text = (text or "").replace("\r\n", "\n").replace("\r", "\n")

    def __str__(self) -> str:
        return self._text


def _remarks(
    saved: SavedModel, table: FileTable, columns: dict[str, np.ndarray], level: float | None
) -> Iterator[str]:
    """Compare the error on these rows with the expected error, if the target is known."""
    target, estimator = saved.target, saved.model[-1]
    if target is None or target not in table.frame.column_names:
        return
    read = read_column(target, table.frame.column(target), table.format)
    classes = is_classifier(estimator)
    actual = texts(read.values) if classes else read.data
    known = ~missing(actual) if classes else ~read.gaps
    y, columns = actual[known], {name: values[known] for name, values in columns.items()}
    if classes and len(y) and hasattr(estimator, "error_rate_"):
        new = int(np.sum(~np.isin(y.astype(str), texts(estimator.classes_).astype(str))))
        of_new = f" ({new} of them of classes unknown to the model)" if new else ""
        rate, expected = np.mean(y != columns["prediction"]), estimator.error_rate_
        yield (
            f"error rate on these {len(y)} rows{of_new}: {rate:.4g}; expected on new rows: "
            f"{with_error(expected, estimator.error_rate_stderr_)}"
        )
    parameter = getattr(estimator, "test_parameter_", None)
    if classes or read.kind != "f" or not len(y) or parameter is None:
        return
    criterion = CRITERIA[estimator.test_loss_](parameter)
    with np.errstate(over="ignore"):  # squares of very large errors
        error = float(criterion(y, columns["prediction"]).mean())
    found = number(error) if np.isfinite(error) else "too large"
    yield (
        f"mean {criterion.words} on these {len(y)} rows: {found}; expected on new "
        f"rows: {with_error(estimator.best_risk_, estimator.best_risk_stderr_)}"
    )
    if level is not None:
        inside = int(np.sum((columns["lower"] <= y) & (y <= columns["upper"])))
        yield (
            f"coverage of the {100 * level:g}% intervals: {inside} of these {len(y)} rows "
            f"({100 * inside / len(y):.1f}%)"
        )
