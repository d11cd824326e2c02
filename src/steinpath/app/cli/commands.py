"""``steinpath fit``, ``tune``, ``compare`` and ``predict``: their arguments and help.

The modules that run them are imported when a command runs, so that ``--help`` is fast.
"""

from __future__ import annotations

from typing import Any

import click

from steinpath.app.cli.declare import FLAG, declared
from steinpath.app.cli.options import (
    Finite,
    ModelCommand,
    with_intervals,
    with_options,
    with_reading,
)


def run(ctx: click.Context, options: dict[str, Any]) -> None:
    """Run ``fit``, ``tune`` or ``compare``."""
    from steinpath.app.cli.fit import run_command

    run_command(ctx, **options)


@click.command(cls=ModelCommand)
@with_options
@with_intervals
@click.pass_context
def fit(ctx: click.Context, /, **options: Any) -> None:
    """Fit a model to FILE and estimate its error on new data.

    FILE is CSV, TSV, Parquet, Feather or npz, or a folder of Parquet files. The regularisation
    strength alpha and the iteration with the smallest estimated risk are selected. The risk is the
    expected scoring loss on new data; the default scoring loss matches the training loss. For
    classification, the misclassification rate is also estimated. Writes the model, a report, plots
    and the risk of every iterate to --out.
    """
    run(ctx, options)


@click.command(cls=ModelCommand, several=True)
@with_options
@with_intervals
@click.pass_context
def tune(ctx: click.Context, /, **options: Any) -> None:
    """Fit several losses and penalties to FILE and save the best model.

    The default models are LAD, Huber and square root, each with lasso and ridge. For classification
    they are logistic and hinge. All are compared by the same scoring loss: by default absolute
    error, the pinball loss with --quantile, or the misclassification rate for classification.
    Writes the same files as `fit`, and prints the alpha grid.
    """
    run(ctx, options)


@click.command(cls=ModelCommand, several=True)
@with_options
@click.pass_context
def compare(ctx: click.Context, /, **options: Any) -> None:
    """Rank losses and penalties on FILE by estimated risk.

    The default models are LAD, Huber and square root, each with lasso and ridge. For classification
    they are logistic and hinge. All are compared by the same scoring loss: by default absolute
    error, the pinball loss with --quantile, or the misclassification rate for classification.
    Writes a report and the ranking, but no model.
    """
    run(ctx, options)


@click.command()
@click.argument("model", type=click.Path())
@click.argument("file", type=click.Path())
@declared(
    """
    --keep COLUMN...  Copy this column of FILE verbatim to the output; repeatable.
    --interval LEVEL  Also write prediction intervals with this coverage, such as 0.9.
    --out  Output file; standard output by default.
    --json  Write JSON instead of CSV.
    """,
    interval={"type": Finite(0, 1, min_open=True, max_open=True)},
    out={"type": click.Path(dir_okay=False)},
    json={"name": "as_json", **FLAG},
)
@with_reading
def predict(**options: Any) -> None:
    """Predict the rows of FILE with a model from `fit` or `tune`.

    Writes one prediction for each row, in order. If FILE has the target, the error is compared with
    the expected error and, with --interval, the coverage is reported. For classification, writes
    the predicted class and, for the logistic loss, the probability of each class. FILE is read with
    the options of the fit (--decimal, --date-format, ...) unless they are given again.
    """
    from steinpath.app.cli.predict import run_predict

    run_predict(**options)
