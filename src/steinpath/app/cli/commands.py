"""``steinpath fit``, ``tune``, ``compare`` and ``predict``: their options, help and messages.

An option that has the name of a parameter of the estimator or of the encoder is passed to it. The
modules that run the commands are imported when a command runs, so that ``--help`` is fast: this one
imports neither SciPy nor scikit-learn.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import click

from steinpath._support.messages import DataError, Remedy, worded
from steinpath.app import LEVEL, MOST_FEATURES, TASKS
from steinpath.app.tables.table import DEFAULT_FORMAT, FileFormat
from steinpath.problem._grid import MOST_LAMS
from steinpath.problem._losses import LOSSES
from steinpath.problem._penalties import PENALTIES
from steinpath.problem._registry import ParameterSpec
from steinpath.problem._scoring import CRITERIA

FLAG = {"is_flag": True}


def declared(text: str, **settings: dict[str, Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds options; ``settings`` are those of `click.option` by name.

    Each option is a paragraph such as ``--drop COLUMN...  Help.``, where dots mean that it is
    repeatable, and two spaces end its name.
    """
    options = []
    for paragraph in re.split(r"\n(?=--)", inspect.cleandoc(text)):
        names, about = paragraph.split("  ", 1)
        flags, _, metavar = names.partition(" ")
        given: dict[str, Any] = {"metavar": metavar.removesuffix("...") or None}
        given |= {"multiple": True} if metavar.endswith("...") else {}
        given |= settings.get(flags.split("/")[0].removeprefix("--").replace("-", "_"), {})
        given = {"show_default": "default" in given} | given
        own = [given.pop("name")] if "name" in given else []
        options.append(click.option(flags, *own, help=" ".join(about.split()), **given))
    return lambda command: functools.reduce(lambda last, add: add(last), options[::-1], command)


def simulated(**settings: dict[str, Any]) -> Callable[[Any], Any]:
    """Return the options of a command that simulates data."""
    text = """
    --n  Number of observations.
    --p  Number of features.
    --n-iter  Number of iterations.
    --seed  Random seed.
    """
    return declared(text, seed=number(0, 0), **settings)


def number(low: int, default: int | None = None, high: int | None = None) -> dict[str, Any]:
    """Return the settings of an option that is an integer."""
    settings: dict[str, Any] = {"type": click.IntRange(low, high)}
    return settings if default is None else settings | {"default": default}


def iterations(low: int, default: int | None = None, high: int | None = None) -> dict[str, Any]:
    """Return the settings of ``--n-iter``."""
    return number(low, default, high) | {"cls": _Iterations}


class _Iterations(click.Option):
    """``--n-iter``, which is still accepted under its former name; that is not shown."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        shown, self.opts = self.opts, [*self.opts, "--iters"]
        super().add_to_parser(parser, ctx)
        self.opts = shown


class Name(click.Choice[str]):
    """One of several names, with dashes or underscores."""

    def __init__(self, names: Sequence[str]):
        super().__init__([name.replace("_", "-") for name in names])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(str(value).replace("_", "-"), param, ctx).replace("-", "_")


class Finite(click.FloatRange):
    """A finite number in a range; NaN and infinity are refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


def usable_names(registry: Mapping[str, type]) -> list[str]:
    """Return the losses or penalties whose arguments, except `lam`, all have defaults."""

    def usable(kind: type) -> bool:
        arguments = inspect.signature(kind).parameters.values()
        return all(each.default is not each.empty or each.name == "lam" for each in arguments)

    return [name for name, kind in registry.items() if usable(kind)]


def parameter_specs() -> dict[str, ParameterSpec]:
    """Return the parameters of all losses, penalties and scoring losses by name.

    If classes share a parameter, its limits are the widest; each class checks its own arguments.
    """
    specs: dict[str, ParameterSpec] = {}
    for registry in (LOSSES, PENALTIES, CRITERIA):
        for spec in (registry[name].parameter_spec for name in usable_names(registry)):
            if spec is not None:
                specs[spec.name] = _widest(specs.get(spec.name, spec), spec)
    return specs


def _widest(*specs: ParameterSpec) -> ParameterSpec:
    low, high = min(spec.low for spec in specs), max(spec.high for spec in specs)
    open_low = all(spec.open_low for spec in specs if spec.low == low)
    open_high = all(spec.open_high for spec in specs if spec.high == high)
    return replace(specs[0], low=low, high=high, open_low=open_low, open_high=open_high)


class ModelCommand(click.Command):
    """A command with options for all registered losses, penalties and scoring losses."""

    def __init__(self, *, several: bool = False, **settings: Any):
        super().__init__(**settings)
        self._several = several

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        names = (tuple(usable_names(registry)) for registry in (LOSSES, PENALTIES, CRITERIA))
        kinds, shapes = _model_options(self._several, *names, tuple(parameter_specs().values()))
        others = super().get_params(ctx)
        place = [option.name for option in others].index("delimiter")
        return [*kinds, *others[:place], *shapes, *others[place:]]


def _only(ctx: click.Context, option: click.Parameter, values: Sequence[str]) -> str | None:
    """Return the only value of an option of a command for one model."""
    if len(values) > 1:
        said = "is given more than once; use steinpath tune or compare for several"
        raise click.UsageError(f"{option.opts[0]} {said}")
    return values[0] if values else None


def _one_or_several(ctx: click.Context, option: click.Parameter, values: Sequence[float]) -> Any:
    """Return None, a value, or a list of several."""
    return list(values) if len(values) > 1 else values[0] if values else None


@functools.cache  # click compares options by identity
def _model_options(
    several: bool,
    losses: Sequence[str],
    penalties: Sequence[str],
    test_losses: Sequence[str],
    specs: Sequence[ParameterSpec],
) -> tuple[list[click.Option], list[click.Option]]:
    """Return the options for the loss and the penalty, and for their parameters."""
    usual: dict[str, Any] = {} if several else {"default": ["lasso"], "show_default": True}
    own: dict[str, Any] = {"multiple": True, "callback": None if several else _only}
    about = "Training loss; by default LAD, or logistic for classification.", "Penalty."
    about = ("Training loss; repeatable.", "Penalty; repeatable.") if several else about
    kinds = [
        click.Option(["--loss"], type=Name(losses), help=about[0], **own),
        click.Option(["--penalty"], type=Name(penalties), help=about[1], **own, **usual),
    ]
    kinds_of = [*LOSSES.values(), *PENALTIES.values()]
    # other quantiles are other models
    several_values = {name for kind in kinds_of for name in kind.of_members} - {"q"}
    shapes = []
    for spec in specs:
        low, high = (None if math.isinf(limit) else limit for limit in (spec.low, spec.high))
        kind = Finite(low, high, min_open=spec.open_low, max_open=spec.open_high)
        how: dict[str, Any] = {"type": kind, "help": spec.help}
        if spec.name in several_values:
            how |= {"multiple": True, "callback": _one_or_several}
            how["help"] += " Repeatable: the best value is selected."
        shapes.append(click.Option([f"--{spec.option}", spec.name], **how))
    default = "Scoring loss; see above for the default."
    return kinds, [*shapes, click.Option(["--test-loss"], type=Name(test_losses), help=default)]


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


# Options for parameters in remedies, where they are not "--parameter value".
_OPTIONS = {"cv": "--time COLUMN", "groups": "--group COLUMN", "missing": "--impute"}
_OPTIONS |= {"workers": "--workers N"}
# Options that name a column or a text of the data.
_NAMED = {"categories": "--category", "drop": "--drop", "keep": "--keep-column", "na": "--na"}
_NAMED |= {"groups": "--group"}


def option(remedy: Remedy) -> str:
    """Return the option of the command that a remedy names."""
    name, value = remedy
    if name in _OPTIONS and (value is None or name not in _NAMED):
        return _OPTIONS[name]
    flag = _NAMED.get(name) or f"--{name.replace('_', '-')}"
    if value is None:
        return flag
    if name in _NAMED:
        return f"{flag} {value!r:.60}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f'{flag} "{text}"' if " " in text or text == "'" else f"{flag} {text}"


def in_options(error: DataError) -> str:
    """Return the message of an error in the words of the command."""
    place = {"place": error.place} if hasattr(error, "place") else {}
    return worded(error.message, option, **place)


_with_data = declared(
    """
    --target COLUMN  The column to predict.
    --task  Task; by default, classification if the target is text or has two distinct numbers.
    --drop COLUMN...  Drop this column; repeatable.
    --category COLUMN...  Treat this numeric column as categorical; repeatable.
    --keep-column COLUMN...  Use this column although it looks like an identifier; repeatable.
    --impute  Replace missing numbers with medians, and treat missing categories as a level, in the
        fit and in predictions; drop rows without a target.
    --group COLUMN  Group labels, such as patients or sites; whole groups are held out. Not a
        feature.
    --time COLUMN  Sort rows by this column of numbers or dates; later rows are predicted from
        earlier rows only. Not a feature.
    --weight COLUMN  Weights of the rows, such as counts or the inverse variances of measurements.
        Not a feature.
    --gap  With --time, number of rows to skip before each held-out block; 0 by default.
    --curves  Smooth curves of numbers and dates as features: if they reduce the estimated error
        (auto), always (yes) or never (no). By default auto for `fit` and tables in
        memory, else no.
    --products  Products of the features of two columns, likewise.
    --transform-target  Fit the logarithm of a positive target (log), if that reduces the estimated
        error of the target itself (auto), or not (no); by default as for --curves.
    --workers N  Read a folder of Parquet files and fit in N processes, for data larger than memory.
    --cluster ADDRESS  Read a folder and fit on a Dask cluster: tcp://host:port, or a scheduler file
        (.json).
    """,
    task={"type": click.Choice(TASKS)},
    category={"name": "categories"},
    keep_column={"name": "keep"},
    impute=FLAG,
    gap=number(0),
    curves={"type": click.Choice(["auto", "yes", "no"])},
    products={"type": click.Choice(["auto", "yes", "no"])},
    transform_target={"type": click.Choice(["auto", "log", "no"])},
    workers=number(1),
)
_with_fit = declared(
    """
    --positive  Exclude negative coefficients.
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
    positive=FLAG,
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
#: For commands that compare models.
_with_score = declared(
    """
    --score  Score by which classifiers are compared: log loss, or area under the ROC curve (auc) if
        losses without probabilities are compared. Alpha and iteration are selected by the same
        score, or by the training loss for auc and balanced-error, the mean of the error rates of
        the classes.
    """,
    score={"type": Name(["log", "auc", "zero_one", "balanced_error", "brier"])},
)
#: For commands that save a model.
_with_intervals = declared(
    f"""
    --intervals  Add {LEVEL:.0%} confidence intervals and p-values for the coefficients; of classes,
        up to one common factor. With more than {MOST_FEATURES} features and few rows per feature,
        only for the {MOST_FEATURES} largest coefficients.
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
@_with_score
@_with_intervals
@click.pass_context
def tune(ctx: click.Context, /, **options: Any) -> None:
    """Fit several losses and penalties to FILE and save the best model.

    The default models are LAD, Huber and square root, each with lasso and ridge; for
    classification, logistic with both. All are compared by the same scoring loss: by default
    absolute error, the pinball loss with --quantile, or log loss for classification. Writes the
    same files as `fit`, and prints the alpha grid.
    """
    _run(ctx, options)


@click.command(cls=ModelCommand, several=True)
@_with_options
@_with_score
@click.pass_context
def compare(ctx: click.Context, /, **options: Any) -> None:
    """Rank losses and penalties on FILE by estimated risk.

    The default models are LAD, Huber and square root, each with lasso and ridge; for
    classification, logistic with both. All are compared by the same scoring loss: by default
    absolute error, the pinball loss with --quantile, or log loss for classification. Writes a
    report and the ranking, but no model.
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
