"""Options that were renamed, and the one that was: `n_iter_option`."""

from __future__ import annotations

from functools import partial
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


#: Declares ``--n-iter``, for all commands that have it.
n_iter_option = partial(click.option, "--n-iter", cls=RenamedOption, former="--iters")
