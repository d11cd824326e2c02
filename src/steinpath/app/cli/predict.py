"""``steinpath predict``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from steinpath._support.files import as_csv, write_text
from steinpath._support.printing import printable, with_error
from steinpath.app.cli.options import read_format
from steinpath.app.encoding.messages import refuse_unknown
from steinpath.app.models import Classes, Model, load_model
from steinpath.app.tables import Table, missing, read_table, texts
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
    bounds = [] if interval is None else ["lower", "upper"]
    keep = _check_kept(keep, ["prediction", *bounds])
    fitted = load_model(model)
    keep = _check_kept(keep, fitted.probability_names)
    text_format = read_format(reading, fitted.text_format)
    table = read_table(file, fitted.encoding.named, keep, text_format)
    refuse_unknown(table.columns, keep)
    if fitted.classes is None:
        predictions, notes = fitted.predict_table(table)
        columns = {"prediction": predictions}
    else:
        columns, notes = fitted.predict_table_classes(table)
    notes = [*table.notes, *notes]
    for note in notes:
        click.echo(printable(f"Note: {note}."), err=True)
    if interval is not None:
        ends, _ = fitted.predict_table_interval(table, interval)
        columns |= dict(zip(bounds, ends.T, strict=True))
    if as_json:
        level = {} if interval is None else {"level": interval}
        text = _json(table, keep, level, columns, notes)
    else:
        text = _csv(table, keep, columns)
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(Path(out), text)
    for remark in _remarks(fitted, table, columns, interval):
        click.echo(remark, err=True)


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
    kept = (map(_Verbatim, table.cells[name]) for name in keep)
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
        found["kept"] = {name: _json_cells(table, name) for name in keep}
    for name, values in columns.items():
        found["predictions" if name == "prediction" else name] = values.tolist()
    return json.dumps(found | {"notes": notes}) + "\n"


def _json_cells(table: Table, name: str) -> list[Any]:
    """Return a column of the file: numbers, unless they are codes, or else verbatim texts."""
    cells: list[str | None] = table.cells[name].tolist()
    if table.columns[name].dtype.kind != "f" or name in table.codes:
        return cells
    values = table.columns[name].tolist()
    return [_number(cell, value) for cell, value in zip(cells, values, strict=True)]


def _number(cell: str | None, value: float) -> int | float | None:
    if not np.isfinite(value):
        return None
    text = (cell or "").strip()
    # an integer may have more digits than a float
    return int(text) if text.lstrip("+-").isdecimal() else value


def _remarks(
    model: Model, table: Table, columns: dict[str, np.ndarray], level: float | None
) -> Iterator[str]:
    """Compare the error on these rows with the expected error, if the target is known."""
    if model.classes is not None:
        yield from _remarks_on_classes(model, model.classes, table, columns["prediction"])
        return
    y, choice = table.columns.get(model.encoding.target), model.choice
    if y is None or y.dtype.kind != "f":
        return
    known = np.isfinite(y)
    if not known.any():
        return
    y, columns = y[known], {name: values[known] for name, values in columns.items()}
    criterion = CRITERIA[choice.test_loss](choice.test_parameter)
    with np.errstate(over="ignore"):  # squares of very large errors
        error = float(criterion(y, columns["prediction"]).mean())
    found = f"{error:.4g}" if np.isfinite(error) else "too large"
    yield (
        f"mean {criterion.words} on these {len(y)} rows: {found}; expected on new "
        f"rows: {with_error(choice.risk, choice.stderr)}"
    )
    if level is not None:
        inside = int(np.sum((columns["lower"] <= y) & (y <= columns["upper"])))
        yield (
            f"coverage of the {100 * level:g}% intervals: {inside} of these {len(y)} rows "
            f"({100 * inside / len(y):.1f}%)"
        )


def _remarks_on_classes(
    model: Model, classes: Classes, table: Table, predictions: np.ndarray
) -> Iterator[str]:
    """Compare the error rate on these rows with the expected one, if the target is known."""
    if model.encoding.target not in table.columns:
        return
    actual = texts(table.columns[model.encoding.target])
    known = ~missing(actual)
    if not known.any():
        return
    rate = float(np.mean(actual[known] != predictions[known]))
    new = int(sum(label not in classes.labels for label in actual[known]))
    of_new = f" ({new} of them of classes unknown to the model)" if new else ""
    yield (
        f"error rate on these {int(known.sum())} rows{of_new}: {rate:.4g}; expected on new rows: "
        f"{with_error(classes.error_rate, classes.stderr)}"
    )
