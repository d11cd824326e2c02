"""``steinpath predict``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from steinpath._support.cells import missing, read_column, texts
from steinpath._support.files import as_csv, write_text
from steinpath._support.messages import DataError, worded
from steinpath._support.printing import printable, with_error
from steinpath._support.validation import captured_warnings
from steinpath._support.wording import refuse_unknown
from steinpath.app.cli.options import read_format
from steinpath.app.cli.words import option
from steinpath.app.models import SavedModel, load_model_file
from steinpath.app.tables import Table, placed, read_table
from steinpath.app.tables.table import FileFormat


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
    bounds = [] if interval is None else ["lower", "upper"]
    keep = _check_kept(keep, ["prediction", *bounds])
    saved = load_model_file(model)
    if not isinstance(saved.model, Pipeline):
        raise DataError(
            f"{model} has no TableEncoder, so it cannot predict from a file; use Python"
        )
    names = _probability_names(saved)
    keep = _check_kept(keep, names)
    how = read_format(reading, FileFormat.from_json(saved.format))
    encoder = saved.model[0]
    encoder.set_params(**how.of_cells)
    table = read_table(file, how, [c.name for c in encoder.columns_ if c.levels])
    refuse_unknown(table.frame.column_names, keep)
    token = captured_warnings.set([])
    try:
        with placed(table.place):
            columns = _predict(saved, table, interval, names, bounds)
        notes = [worded(text, option, table.place) for text, _ in captured_warnings.get() or ()]
    finally:
        captured_warnings.reset(token)
    notes = [*(worded(note, option, table.place) for note in table.notes), *notes]
    for note in notes:
        click.echo(printable(f"Note: {note}."), err=True)
    if as_json:
        level = {} if interval is None else {"level": interval}
        text = _json(table, keep, level, columns, notes)
    else:
        text = _csv(table, keep, columns)
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(Path(out), text)
    for remark in _remarks(saved, table, columns, interval):
        click.echo(remark, err=True)


def _probability_names(saved: SavedModel) -> list[str]:
    """Return the names of the columns with probabilities."""
    estimator = saved.estimator
    if not is_classifier(estimator) or not hasattr(estimator, "predict_proba"):
        return []
    return [f"probability of {label}" for label in texts(estimator.classes_)]


def _predict(
    saved: SavedModel, table: Table, level: float | None, names: list[str], bounds: list[str]
) -> dict[str, np.ndarray]:
    """Return predictions, probabilities and bounds of intervals, by column name."""
    encoder, estimator = saved.model
    X = encoder.transform(table.frame)
    try:
        predictions = np.asarray(estimator.predict(X))
    except ValueError:
        _refuse_overflow(X, estimator, table)
        raise
    if level is not None and is_classifier(estimator):
        raise DataError(
            "prediction intervals require a regression, but this model is a classifier; omit "
            "--interval (with the logistic loss, class probabilities are predicted)"
        )
    columns = {"prediction": texts(predictions) if is_classifier(estimator) else predictions}
    if names:
        columns |= dict(zip(names, np.asarray(estimator.predict_proba(X)).T, strict=True))
    if level is not None:
        if not hasattr(estimator, "intervals_"):
            raise DataError(
                "the model was saved without prediction intervals, by an earlier version or since "
                "it has too many coefficients; fit it again with `steinpath fit`, or use "
                "sp.tune(...).predict_interval in Python"
            )
        try:
            ends = estimator.predict_interval(X, level)
        except ValueError as error:
            raise DataError(str(error)) from None
        columns |= dict(zip(bounds, ends.T, strict=True))
    return columns


def _refuse_overflow(X: np.ndarray, estimator: Any, table: Table) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        values = X @ np.atleast_2d(estimator.coef_).T + estimator.intercept_
    rows = np.flatnonzero(~np.isfinite(values.reshape(len(X), -1)).all(axis=1))
    if len(rows):
        raise DataError(
            f"the numbers in {table.place(int(rows[0]))} are too large for a prediction"
        )


def _check_kept(keep: Sequence[str], outputs: Sequence[str]) -> tuple[str, ...]:
    """Return the columns to copy, without duplicates; refuse names that the output has."""
    for name in keep:
        if name in outputs:
            raise click.UsageError(
                f"--keep {name!r}: the output has a column of that name; rename the column of FILE"
            )
    return tuple(dict.fromkeys(keep))


class _Verbatim:
    """A text of the file, which `as_csv` writes verbatim, except for line ends.

    Other names in results are changed if a spreadsheet would execute them. These texts are from the
    user's own file, and rows are matched by them.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str | None):
        self._text = (text or "").replace("\r\n", "\n").replace("\r", "\n")

    def __str__(self) -> str:
        return self._text


def _csv(table: Table, keep: Sequence[str], columns: dict[str, np.ndarray]) -> str:
    """Return CSV with a header: columns of the file verbatim, and numbers with all digits."""
    names = *keep, *columns
    kept = (map(_Verbatim, table.cells(name)) for name in keep)
    numbers = (values.tolist() for values in columns.values())
    rows = (dict(zip(names, row, strict=True)) for row in zip(*kept, *numbers, strict=True))
    return as_csv(rows, "")


def _json(
    table: Table,
    keep: Sequence[str],
    level: dict[str, float],
    columns: dict[str, np.ndarray],
    notes: Sequence[str],
) -> str:
    """Return one JSON object: columns of the file by name, predictions, notes."""
    found: dict[str, Any] = {**level}
    if keep:
        found["kept"] = {name: table.json_cells(name) for name in keep}
    for name, values in columns.items():
        found["predictions" if name == "prediction" else name] = values.tolist()
    return json.dumps(found | {"notes": notes}) + "\n"


def _remarks(
    saved: SavedModel, table: Table, columns: dict[str, np.ndarray], level: float | None
) -> Iterator[str]:
    """Compare the error on these rows with the expected error, if the target is known."""
    target, estimator = saved.target, saved.estimator
    if target is None or target not in table.frame.column_names:
        return
    column = table.frame.column(target)
    if is_classifier(estimator):
        yield from _remarks_on_classes(
            estimator, read_column(target, column, table.format), columns
        )
        return
    read, criterion = read_column(target, column, table.format), saved.criterion
    known = ~read.gaps
    if read.kind != "f" or not known.any() or criterion is None:
        return
    y, columns = read.data[known], {name: values[known] for name, values in columns.items()}
    with np.errstate(over="ignore"):  # squares of very large errors
        error = float(criterion(y, columns["prediction"]).mean())
    found = f"{error:.4g}" if np.isfinite(error) else "too large"
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


def _remarks_on_classes(estimator: Any, read: Any, columns: dict[str, np.ndarray]) -> Iterator[str]:
    """Compare the error rate on these rows with the expected one, if the target is known."""
    actual = texts(read.values)
    known = ~missing(actual)
    if not known.any():
        return
    rate = float(np.mean(actual[known] != columns["prediction"][known]))
    new = int(np.sum(~np.isin(actual[known].astype(str), texts(estimator.classes_).astype(str))))
    of_new = f" ({new} of them of classes unknown to the model)" if new else ""
    yield (
        f"error rate on these {int(known.sum())} rows{of_new}: {rate:.4g}; expected on new rows: "
        f"{with_error(estimator.error_rate_, estimator.error_rate_stderr_)}"
    )
