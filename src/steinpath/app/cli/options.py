"""Options that several commands have in common."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import click

from steinpath.app.model_spec import LOSS_WORDS, PENALTY_WORDS
from steinpath.engine._grid import MOST_STRENGTHS
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


LOSS, PENALTY, TEST_LOSS = Name(list(LOSS_WORDS)), Name(list(PENALTY_WORDS)), Name(list(CRITERIA))

_POSITIVE = Finite(0, min_open=True)

_DATA = (
    click.argument("file", type=click.Path()),
    click.option("--target", metavar="COLUMN", help="The column to predict."),
    click.option("--drop", metavar="COLUMN", multiple=True, help="Leave this column out."),
    click.option(
        "--category",
        metavar="COLUMN",
        multiple=True,
        help="Take the numbers in this column for codes of categories.",
    ),
    click.option(
        "--impute",
        is_flag=True,
        help="Fill in missing values by medians and most frequent categories, here and in "
        "predictions; rows without a target are left out.",
    ),
)
_SHAPE = (
    click.option(
        "--quantile",
        type=Finite(0, 1, min_open=True, max_open=True),
        help="Aim at this quantile (0.9, say) instead of the middle.",
    ),
    click.option(
        "--delta",
        type=_POSITIVE,
        help="Where Huber's loss becomes linear, in units of the target; 1.35 robust standard "
        "deviations of it by default.",
    ),
    click.option(
        "--epsilon",
        type=Finite(0),
        help="Errors that cost nothing, in units of the target; a tenth of a robust standard "
        "deviation of it by default.",
    ),
    click.option("--l1-ratio", type=Finite(0, 1), help="Share of the lasso in the elastic net."),
    click.option("--gamma", type=Finite(1, min_open=True), help="Shape of MCP."),
    click.option("--a", type=Finite(2, min_open=True), help="Shape of SCAD."),
)
_CHOICE = (
    click.option("--test-loss", type=TEST_LOSS, help="What an error costs; above is the default."),
    click.option("--iters", type=click.IntRange(2, 10**9), help="Iterations; 300 by default."),
    click.option(
        "--strengths",
        type=click.IntRange(1, MOST_STRENGTHS),
        help="How many strengths of the penalty to try; 20 by default.",
    ),
    click.option(
        "--rule",
        type=click.Choice(["min", "one-se"]),
        default="min",
        show_default=True,
        help="Take the smallest risk, or the strongest penalty that is not worse by a standard "
        "error of the difference.",
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


def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of everything that fits something to a file."""
    options = (*_DATA, *_SHAPE, *_CHOICE, *_OUTPUT)
    return functools.reduce(lambda f, option: option(f), reversed(options), command)


def with_several(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the same, for several losses and penalties."""
    loss = click.option("--loss", type=LOSS, multiple=True, help="What is minimised; repeatable.")
    penalty = click.option("--penalty", type=PENALTY, multiple=True, help="Repeatable, too.")
    return loss(penalty(with_options(command)))
