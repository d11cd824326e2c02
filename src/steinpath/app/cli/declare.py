"""Options of the commands, declared as a help page shows them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import click

FLAG = {"is_flag": True}


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


def number(low: int, default: int | None = None, high: int | None = None) -> dict[str, Any]:
    """Return the settings of an option that is an integer."""
    found: dict[str, Any] = {"type": click.IntRange(low, high)}
    return found if default is None else found | {"default": default}


def iterations(low: int, default: int | None = None, high: int | None = None) -> dict[str, Any]:
    """Return the settings of ``--n-iter``."""
    return number(low, default, high) | {"cls": RenamedOption, "former": "--iters"}


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

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def simulated(**settings: dict[str, Any]) -> Callable[[Any], Any]:
    """Return the options of a command that simulates data."""
    text = """
    --n  Number of observations.
    --p  Number of features.
    --n-iter  Number of iterations.
    --seed  Random seed.
    """
    return declared(text, seed=number(0, 0), **settings)
