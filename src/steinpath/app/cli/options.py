"""Options that several commands share."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

import click

from steinpath._support.messages import DataError
from steinpath.app.cli.declare import FLAG, declared, iterations, number
from steinpath.app.cli.words import in_options
from steinpath.app.defaults import LEVEL, MOST_FEATURES, TASKS
from steinpath.app.tables.table import DEFAULT_FORMAT, FileFormat
from steinpath.problem._grid import MOST_LAMS
from steinpath.problem._losses import LOSSES
from steinpath.problem._penalties import PENALTIES
from steinpath.problem._registry import ParameterSpec, Registered
from steinpath.problem._scoring import CRITERIA


def loss_names() -> list[str]:
    """Return the losses that need only numbers as arguments."""
    return [name for name, kind in LOSSES.items() if _is_made_of(kind, ())]


def penalty_names() -> list[str]:
    """Return the penalties that need only numbers as arguments, and no groups."""
    return [name for name, kind in PENALTIES.items() if _is_made_of(kind, ("lam",))]


def _is_made_of(kind: type, given: Iterable[str]) -> bool:
    """Whether all arguments except the given ones have defaults."""
    arguments = inspect.signature(kind).parameters.values()
    return all(each.default is not each.empty or each.name in given for each in arguments)


def parameter_specs() -> dict[str, ParameterSpec]:
    """Return the parameters of all losses, penalties and scoring losses by name.

    If classes share a parameter, its limits are the widest of theirs; each class checks its own
    arguments.
    """
    kinds: list[type[Registered]] = [LOSSES[name] for name in loss_names()]
    kinds += [*(PENALTIES[name] for name in penalty_names()), *CRITERIA.values()]
    found: dict[str, ParameterSpec] = {}
    for spec in (kind.parameter_spec for kind in kinds):
        if spec is not None:
            found[spec.name] = _widest(found.get(spec.name, spec), spec)
    return found


def _widest(one: ParameterSpec, other: ParameterSpec) -> ParameterSpec:
    low, high = min(one.low, other.low), max(one.high, other.high)
    return replace(
        one,
        low=low,
        high=high,
        open_low=all(each.open_low for each in (one, other) if each.low == low),
        open_high=all(each.open_high for each in (one, other) if each.high == high),
    )


class Name(click.Choice[str]):
    """One of several names, with dashes or underscores."""

    def __init__(self, names: Sequence[str]):
        super().__init__([name.replace("_", "-") for name in names])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        found = super().convert(str(value).replace("_", "-"), param, ctx)
        return found.replace("-", "_")


class Finite(click.FloatRange):
    """A finite number in a range; NaN and infinity are refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class ModelCommand(click.Command):
    """A command with options for all registered losses, penalties and scoring losses."""

    def __init__(self, *, several: bool = False, **settings: Any):
        super().__init__(**settings)
        self._several = several

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        specs = tuple(parameter_specs().values())
        names = tuple(loss_names()), tuple(penalty_names()), tuple(CRITERIA)
        kinds, shapes = _model_options(self._several, *names, specs)
        others = super().get_params(ctx)
        place = [each.name for each in others].index("delimiter")
        return [*kinds, *others[:place], *shapes, *others[place:]]


@functools.cache  # click compares options by identity
def _model_options(
    several: bool,
    losses: Sequence[str],
    penalties: Sequence[str],
    test_losses: Sequence[str],
    specs: Sequence[ParameterSpec],
) -> tuple[list[click.Option], list[click.Option]]:
    """Return the options for the loss and the penalty, and for their parameters."""
    usual: dict[str, Any] = {} if several else {"default": "lasso", "show_default": True}
    about = "Training loss; by default LAD, or logistic for classification.", "Penalty."
    about = ("Training loss; repeatable.", "Penalty; repeatable.") if several else about
    kinds = [
        click.Option(["--loss"], type=Name(losses), multiple=several, help=about[0]),
        click.Option(["--penalty"], type=Name(penalties), multiple=several, help=about[1], **usual),
    ]
    shapes = [click.Option([f"--{s.option}", s.name], type=_range(s), help=s.help) for s in specs]
    test_loss = click.Option(
        ["--test-loss"], type=Name(test_losses), help="Scoring loss; see above for the default."
    )
    return kinds, [*shapes, test_loss]


def _range(spec: ParameterSpec) -> Finite:
    low, high = (None if math.isinf(limit) else limit for limit in (spec.low, spec.high))
    return Finite(low, high, min_open=spec.open_low, max_open=spec.open_high)


#: Options that state how texts are read.
with_reading = declared(
    r"""
    --delimiter CHARACTER  Field delimiter of a text file, such as ; or \t; detected by default.
    --decimal  Decimal separator; a point by default.
    --thousands CHARACTER  Thousands separator: , . ' or a space; none by default.
    --encoding  Encoding of a text file; by default UTF-8, UTF-16 or Windows-1252, as detected.
    --na TEXT...  String to read as missing, in addition to NA, NaN and the like; repeatable.
    --date-format FORMAT  Date format in addition to ISO 8601, such as %d.%m.%Y (see Python's
        strptime).
    """,
    decimal={"type": click.Choice([".", ","])},
)


def read_format(options: dict[str, Any], stored: FileFormat = DEFAULT_FORMAT) -> FileFormat:
    """Take the options of `with_reading` out of others; those not given are as in ``stored``."""
    given = {field.name: options.pop(field.name) for field in fields(FileFormat)}
    if given["delimiter"] is not None:
        given["delimiter"] = given["delimiter"].replace("\\t", "\t")
    if given["decimal"] is not None and given["decimal"] == stored.thousands:
        stored = replace(stored, thousands=None, decimal=None)  # another format than in the fit
    try:
        return replace(stored, **{name: value for name, value in given.items() if value})
    except DataError as error:
        raise click.UsageError(in_options(error)) from None


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
_with_choice = declared(
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
    rule={"type": click.Choice(["min", "one-se"]), "default": "min"},
    seed=number(0, 0),
    out={"type": click.Path(file_okay=False)},
    json={"name": "as_json", **FLAG},
    plots={"default": True},
)
#: For commands that save a model.
with_intervals = declared(
    f"""
    --intervals  Add {LEVEL:.0%} confidence intervals and p-values for the coefficients (regression
        only). With more than {MOST_FEATURES} features and few rows per feature, only for the
        {MOST_FEATURES} largest coefficients.
    """,
    intervals=FLAG,
)


def with_options(command: Any) -> Any:
    """Add the options of commands that fit a file, except those of losses and penalties."""
    file = click.argument("file", type=click.Path())
    return file(_with_data(with_reading(_with_choice(command))))
