"""Options of the commands: how they are declared, and how messages name them.

This module imports neither SciPy nor scikit-learn, so that ``--help`` is fast.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

import click

from steinpath._support.messages import DataError, Remedy, worded
from steinpath.app.tables.table import DEFAULT_FORMAT, FileFormat
from steinpath.problem._losses import LOSSES
from steinpath.problem._penalties import PENALTIES
from steinpath.problem._registry import ParameterSpec, Registered
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
    return number(low, default, high) | {"cls": RenamedOption, "former": "--iters"}


class RenamedOption(click.Option):
    """An option that is still accepted under its former, deprecated name, which is not shown."""

    def __init__(self, *args: Any, former: str, **settings: Any):
        super().__init__(*args, **settings)
        self.former = former

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        shown = self.opts
        self.opts = [*shown, self.former]
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


# ------------------------------------------------------------------------------------------------
# Losses, penalties and scoring losses
# ------------------------------------------------------------------------------------------------


def loss_names() -> list[str]:
    """Return the losses that need only numbers as arguments."""
    return [name for name, kind in LOSSES.items() if _is_made_of(kind, ())]


def penalty_names() -> list[str]:
    """Return the penalties that need only numbers as arguments, and no groups."""
    return [name for name, kind in PENALTIES.items() if _is_made_of(kind, ("lam",))]


def _is_made_of(kind: type, given: Iterable[str]) -> bool:
    """Whether all arguments except the given ones have defaults."""
    arguments = inspect.signature(kind).parameters.values()
    return all(x.default is not x.empty or x.name in given for x in arguments)


def parameter_specs() -> dict[str, ParameterSpec]:
    """Return the parameters of all losses, penalties and scoring losses by name.

    If classes share a parameter, its limits are the widest of theirs; each class checks its own
    arguments.
    """
    kinds: list[type[Registered]] = [LOSSES[name] for name in loss_names()]
    kinds += [*(PENALTIES[name] for name in penalty_names()), *CRITERIA.values()]
    specs: dict[str, ParameterSpec] = {}
    for spec in (kind.parameter_spec for kind in kinds):
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
        specs = tuple(parameter_specs().values())
        names = tuple(loss_names()), tuple(penalty_names()), tuple(CRITERIA)
        kinds, shapes = _model_options(self._several, *names, specs)
        others = super().get_params(ctx)
        place = [option.name for option in others].index("delimiter")
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
    shapes = []
    for spec in specs:
        low, high = (None if math.isinf(limit) else limit for limit in (spec.low, spec.high))
        kind = Finite(low, high, min_open=spec.open_low, max_open=spec.open_high)
        shapes.append(click.Option([f"--{spec.option}", spec.name], type=kind, help=spec.help))
    default = "Scoring loss; see above for the default."
    return kinds, [*shapes, click.Option(["--test-loss"], type=Name(test_losses), help=default)]


# ------------------------------------------------------------------------------------------------
# How files are read
# ------------------------------------------------------------------------------------------------

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


# ------------------------------------------------------------------------------------------------
# Messages
# ------------------------------------------------------------------------------------------------

# Options for parameters in remedies, where they are not "--parameter value".
_OPTIONS = {"cv": "--time COLUMN", "groups": "--group COLUMN", "missing": "--impute"}
_OPTIONS |= {"workers": "--workers N"}
# Options that name a column or a text of the data.
_NAMED = {"categories": "--category", "drop": "--drop", "keep": "--keep-column", "na": "--na"}


def option(remedy: Remedy) -> str:
    """Return the option of the command that a remedy names."""
    name, value = remedy
    if name in _OPTIONS:
        return _OPTIONS[name]
    flag = _NAMED.get(name) or f"--{name.replace('_', '-')}"
    if value is None:
        return flag
    if name in _NAMED:
        return f"{flag} {value!r:.60}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    quoted = f'"{text}"' if " " in text or text == "'" else text
    return f"{flag} {quoted}"


def in_options(error: DataError) -> str:
    """Return the message of an error in the words of the command."""
    place = getattr(error, "place", None)
    return worded(error.message, option) if place is None else worded(error.message, option, place)
