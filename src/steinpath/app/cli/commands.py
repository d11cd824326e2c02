"""``steinpath fit``, ``tune``, ``compare`` and ``predict``: their arguments, options and help.

An option that has the name of a parameter of the estimator is passed to it. The modules that run
the commands are imported when a command runs, so that ``--help`` is fast.
"""

from __future__ import annotations

from typing import Any

import click

from steinpath.app import LEVEL, MOST_FEATURES, TASKS
from steinpath.app.cli.options import (
    FLAG,
    Finite,
    ModelCommand,
    Name,
    declared,
    iterations,
    number,
    with_reading,
)
from steinpath.problem._grid import MOST_LAMS

_with_data = declared(
    """
    --target COLUMN  The column to predict.
    --task  Task; by default, classification if the target is text or has two distinct numbers.
    --drop COLUMN...  Drop this column; repeatable.
    --category COLUMN...  Treat this numeric column as categorical; repeatable.
    --keep-column COLUMN...  Use this column although it looks like an identifier; repeatable.
    --impute  Replace missing values with medians and most frequent levels, in the fit and in
        predictions; drop rows without a target.
    --group COLUMN  Group labels, such as patients or sites; whole groups are held out. Not a
        feature.
    --time COLUMN  Sort rows by this column of numbers or dates; later rows are predicted from
        earlier rows only. Not a feature.
    --gap  With --time, number of rows to skip before each held-out block; 0 by default.
    --workers N  Read a folder of Parquet files and fit in N processes, for data larger than memory.
    --cluster ADDRESS  Read a folder and fit on a Dask cluster: tcp://host:port, or a scheduler file
        (.json).
    """,
    task={"type": click.Choice(TASKS)},
    keep_column={"name": "keep_columns"},
    impute=FLAG,
    gap=number(0),
    workers=number(1),
)
_with_fit = declared(
    """
    --class-weight  Weight classes inversely to their frequencies.
    --n-iter  Number of iterations; by default until the estimated risk stops decreasing.
    --n-alphas  Number of regularisation strengths alpha on the grid; 20 by default, fewer for large
        data.
    --alpha-ratio  Smallest alpha of the grid relative to the largest; by default 0.01 with fewer
        rows than features, 0.001 otherwise, 0.0001 for ridge.
    --rule  Select the smallest risk (min), or the largest alpha whose risk exceeds the smallest by
        at most one standard error of the difference (one-se).
    --seed  Random seed.
    --out FOLDER  Output folder; by default named after the file.
    --json  Print the result as JSON.
    --plots/--no-plots  Whether to write plots.
    """,
    class_weight={"type": click.Choice(["balanced"])},
    n_iter=iterations(2, high=10**9),
    n_alphas=number(1, high=MOST_LAMS),
    alpha_ratio={"type": Finite(0, 1, min_open=True, max_open=True)},
    rule={"type": Name(["min", "one_se"]), "default": "min"},
    seed=number(0, 0) | {"name": "random_state"},
    out={"type": click.Path(file_okay=False)},
    json={"name": "as_json", **FLAG},
    plots={"default": True},
)
#: For commands that save a model.
_with_intervals = declared(
    f"""
    --intervals  Add {LEVEL:.0%} confidence intervals and p-values for the coefficients (regression
        only). With more than {MOST_FEATURES} features and few rows per feature, only for the
        {MOST_FEATURES} largest coefficients.
    """,
    intervals=FLAG,
)


def _with_options(command: Any) -> Any:
    """Add the options of commands that fit a file, except those of losses and penalties."""
    file = click.argument("file", type=click.Path())
    return file(_with_data(with_reading(_with_fit(command))))


def _run(ctx: click.Context, options: dict[str, Any]) -> None:
    from steinpath.app.cli.fit import run_command

    run_command(ctx, **options)


@click.command(cls=ModelCommand)
@_with_options
@_with_intervals
@click.pass_context
def fit(ctx: click.Context, /, **options: Any) -> None:
    """Fit a model to FILE and estimate its error on new data.

    FILE is CSV, TSV, Parquet, Feather or npz, or a folder of Parquet files. The regularisation
    strength alpha and the iteration with the smallest estimated risk are selected. The risk is the
    expected scoring loss on new data; the default scoring loss matches the training loss. For
    classification, the misclassification rate is also estimated. Writes the model, a report, plots
    and the risk of every iterate to --out.
    """
    _run(ctx, options)


@click.command(cls=ModelCommand, several=True)
@_with_options
@_with_intervals
@click.pass_context
def tune(ctx: click.Context, /, **options: Any) -> None:
    """Fit several losses and penalties to FILE and save the best model.

    The default models are LAD, Huber and square root, each with lasso and ridge. For classification
    they are logistic and hinge. All are compared by the same scoring loss: by default absolute
    error, the pinball loss with --quantile, or the misclassification rate for classification.
    Writes the same files as `fit`, and prints the alpha grid.
    """
    _run(ctx, options)


@click.command(cls=ModelCommand, several=True)
@_with_options
@click.pass_context
def compare(ctx: click.Context, /, **options: Any) -> None:
    """Rank losses and penalties on FILE by estimated risk.

    The default models are LAD, Huber and square root, each with lasso and ridge. For classification
    they are logistic and hinge. All are compared by the same scoring loss: by default absolute
    error, the pinball loss with --quantile, or the misclassification rate for classification.
    Writes a report and the ranking, but no model.
    """
    _run(ctx, options)


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
