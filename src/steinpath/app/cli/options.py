"""Options that several commands have in common."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import click

from steinpath.app.coefficient_intervals import LEVEL, MOST_FEATURES
from steinpath.app.encoding import TASKS
from steinpath.app.model_spec import loss_names, parameter_specs, penalty_names
from steinpath.inference._scores import ROWS_PER_COLUMN
from steinpath.problem._grid import MOST_LAMS
from steinpath.problem._registry import ParameterSpec
from steinpath.problem._scoring import CRITERIA


class Name(click.Choice[str]):
    """One of several names, in which a dash is as good as an underscore."""

    def __init__(self, names: Sequence[str]):
        super().__init__([name.replace("_", "-") for name in names])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        found = super().convert(str(value).replace("_", "-"), param, ctx)
        return found.replace("-", "_")


class Finite(click.FloatRange):
    """A number in a range, and not one of those that are neither in it nor out of it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class ModelCommand(click.Command):
    """A command with the options of everything that is registered: losses, penalties, test losses.

    Parameters
    ----------
    several : bool
        Whether it takes several losses and penalties.
    **settings
        Of `click.Command`.
    """

    def __init__(self, *, several: bool = False, **settings: Any):
        super().__init__(**settings)
        self._several = several

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        specs = tuple(parameter_specs().values())
        names = tuple(loss_names()), tuple(penalty_names()), tuple(CRITERIA)
        kinds, shapes = _model_options(self._several, *names, specs)
        others, place = super().get_params(ctx), len(_DATA)
        return [*kinds, *others[:place], *shapes, *others[place:]]


@functools.cache  # click compares options by identity
def _model_options(
    several: bool,
    losses: Sequence[str],
    penalties: Sequence[str],
    test_losses: Sequence[str],
    specs: Sequence[ParameterSpec],
) -> tuple[list[click.Option], list[click.Option]]:
    """Return the options that choose a loss and a penalty, and those about them."""
    if several:
        kinds = [
            click.Option(
                ["--loss"], type=Name(losses), multiple=True, help="What is minimised; repeatable."
            ),
            click.Option(
                ["--penalty"], type=Name(penalties), multiple=True, help="Repeatable, too."
            ),
        ]
    else:
        kinds = [
            click.Option(
                ["--loss"],
                type=Name(losses),
                help="What is minimised; LAD by default, logistic for classes.",
            ),
            click.Option(["--penalty"], type=Name(penalties), default="lasso", show_default=True),
        ]
    shapes = [click.Option([f"--{s.option}", s.name], type=_range(s), help=s.help) for s in specs]
    test_loss = click.Option(
        ["--test-loss"], type=Name(test_losses), help="Scoring loss; its default is given above."
    )
    return kinds, [*shapes, test_loss]


def _range(spec: ParameterSpec) -> Finite:
    low, high = (None if math.isinf(limit) else limit for limit in (spec.low, spec.high))
    return Finite(low, high, min_open=spec.open_low, max_open=spec.open_high)


_DATA = (
    click.argument("file", type=click.Path()),
    click.option("--target", metavar="COLUMN", help="The column to predict."),
    click.option(
        "--task",
        type=click.Choice(TASKS),
        help="What to predict: numbers or classes. By default, a target of texts or of two "
        "different numbers is one of classes.",
    ),
    click.option("--drop", metavar="COLUMN", multiple=True, help="Leave this column out."),
    click.option(
        "--category",
        metavar="COLUMN",
        multiple=True,
        help="Treat this numeric column as categorical.",
    ),
    click.option(
        "--impute",
        is_flag=True,
        help="Fill in missing values by medians and most frequent categories, here and in "
        "predictions; rows without a target are left out.",
    ),
    click.option(
        "--group",
        metavar="COLUMN",
        help="Rows with the same value in this column belong together (one patient, one site): "
        "whole groups are left out. No feature.",
    ),
    click.option(
        "--time",
        metavar="COLUMN",
        help="Sort rows by this column of numbers or dates, and predict later rows from earlier "
        "ones only. No feature.",
    ),
    click.option(
        "--gap",
        type=click.IntRange(0),
        help="Rows to leave out between earlier and later ones, with --time; 0 by default.",
    ),
    click.option(
        "--workers",
        metavar="N",
        type=click.IntRange(1),
        help="Read a folder of Parquet files file by file, and fit, in so many processes: for data "
        "larger than memory.",
    ),
    click.option(
        "--cluster",
        metavar="ADDRESS",
        help="Do that on the workers of this Dask cluster: tcp://host:port, or a scheduler file "
        "(.json).",
    ),
)
_CHOICE = (
    click.option(
        "--class-weight",
        type=click.Choice(["balanced"]),
        help="Let classes count inversely to how many rows they have.",
    ),
    click.option(
        "--iters",
        type=click.IntRange(2, 10**9),
        help="Iterations; by default as many as lower the estimated risk.",
    ),
    click.option(
        "--n-alphas",
        type=click.IntRange(1, MOST_LAMS),
        help="Values of the regularisation strength alpha to try; 20 by default, fewer on large "
        "files.",
    ),
    click.option("--strengths", type=click.IntRange(1, MOST_LAMS), hidden=True),  # its former name
    click.option(
        "--alpha-ratio",
        type=Finite(0, 1, min_open=True, max_open=True),
        help="Smallest alpha of the grid relative to the largest; by default 0.01 with fewer rows "
        "than columns, 0.001 with more, 0.0001 for ridge.",
    ),
    click.option(
        "--rule",
        type=click.Choice(["min", "one-se"]),
        default="min",
        show_default=True,
        help="Take the smallest risk, or the largest alpha whose risk is within a standard error "
        "of the difference.",
    ),
    click.option("--seed", type=click.IntRange(0), default=0, show_default=True),
)
_OUTPUT = (
    click.option(
        "--out",
        metavar="FOLDER",
        type=click.Path(file_okay=False),
        help="Where to write; a folder named after the file by default.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
    click.option(
        "--plots/--no-plots", default=True, help="Whether to draw plots.", show_default=True
    ),
)


#: Of commands that keep a model.
with_intervals = click.option(
    "--intervals",
    is_flag=True,
    help=f"Add {LEVEL:.0%} confidence intervals and p-values for the coefficients; not for "
    f"classes. With more than {MOST_FEATURES} features and fewer than {ROWS_PER_COLUMN} rows for "
    f"each, they are for the {MOST_FEATURES} with the largest coefficients.",
)


def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of everything that fits something to a file, but for those of models."""
    options = (*_DATA, *_CHOICE, *_OUTPUT)
    return functools.reduce(lambda f, option: option(f), reversed(options), command)
