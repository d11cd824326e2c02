"""``steinpath predict``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
import numpy as np

from steinpath._support.files import as_csv, write_text
from steinpath._support.printing import printable, with_error
from steinpath.app.models import Model, load_model
from steinpath.app.tables import Table, read_table
from steinpath.problem._scoring import CRITERIA


@click.command()
@click.argument("model", type=click.Path())
@click.argument("file", type=click.Path())
@click.option("--out", type=click.Path(dir_okay=False), help="Write here, not to the screen.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON instead of CSV.")
def predict(model: str, file: str, out: str | None, as_json: bool) -> None:
    """Predict the rows of FILE with a MODEL that `fit` or `tune` wrote.

    One prediction for each row, in their order. Where FILE has the target as well, the error is
    compared with the expected one.
    """
    if out is not None and not Path(out).name:
        raise click.UsageError(f"--out must name a file, got {out!r}")
    fitted = load_model(model)
    table = read_table(file, fitted.encoding.named)
    predictions, notes = fitted.predict_table(table)
    for note in notes:
        click.echo(printable(f"Note: {note}."), err=True)
    if as_json:
        text = json.dumps({"predictions": predictions.tolist(), "notes": notes}) + "\n"
    else:
        text = as_csv(({"prediction": value} for value in predictions.tolist()), "")
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(Path(out), text)
    if (remark := _remark(fitted, table, predictions)) is not None:
        click.echo(remark, err=True)


def _remark(model: Model, table: Table, predictions: np.ndarray) -> str | None:
    """Compare the error on these rows with the expected one, where the target is known."""
    y, choice = table.columns.get(model.encoding.target), model.choice
    if y is None or y.dtype.kind != "f":
        return None
    known = np.isfinite(y)
    if not known.any():
        return None
    criterion = CRITERIA[choice.test_loss](choice.test_parameter)
    with np.errstate(over="ignore"):  # squares of targets that are far off
        error = float(criterion(y[known], predictions[known]).mean())
    found = f"{error:.4g}" if np.isfinite(error) else "too large for a number"
    return (
        f"mean {criterion.words} on these {known.sum()} rows: {found}; expected on new "
        f"ones: {with_error(choice.risk, choice.stderr)}"
    )
