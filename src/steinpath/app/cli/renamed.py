"""Options that were renamed."""

from __future__ import annotations

from typing import Any

import click


class RenamedOption(click.Option):
    """An option that is still accepted under its former, deprecated name, which is not shown.

    Use it as ``click.option("--n-iter", cls=RenamedOption, former="--iters", ...)``.

    Parameters
    ----------
    *args, **settings
        As for `click.Option`.
    former : str
        The former name.
    """

    def __init__(self, *args: Any, former: str, **settings: Any):
        super().__init__(*args, **settings)
        self.former = former

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        shown = self.opts
        self.opts = [*shown, self.former]
        super().add_to_parser(parser, ctx)
        self.opts = shown
