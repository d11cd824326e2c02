"""``steinpath demo``."""

from __future__ import annotations

import click

from steinpath._support.printing import with_error
from steinpath.app.cli.display import make_console, make_table, print_warnings, say
from steinpath.app.cli.outputs import drawing
from steinpath.plots._style import check_ending


def _with_ending(ctx: click.Context, param: click.Parameter, file: str | None) -> str | None:
    try:
        if file is not None:
            check_ending(file)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return file


@click.command()
@click.option("--n", default=600, show_default=True, type=click.IntRange(2), help="Observations.")
@click.option("--p", default=300, show_default=True, type=click.IntRange(1), help="Features.")
@click.option("--iters", default=200, show_default=True, type=click.IntRange(1), help="Iterations.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Random seed.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, writable=True),
    callback=_with_ending,
    help="Save a plot here.",
)
def demo(n: int, p: int, iters: int, seed: int, plot: str | None) -> None:
    """Compare estimated and true risk on simulated data."""
    from steinpath.app.demo import iterates_to_show, lad_lasso_demo

    console = make_console()
    console.print(f"LAD–lasso, Student-t₂ noise, n={n}, p={p}, {iters} iterations, seed {seed}")
    path, risk, truth = lad_lasso_demo(n, p, iters, seed)
    best = risk.best_iter
    table = make_table(
        "iterate", "training error", "estimated risk", "± s.e.", "true risk", "nonzeros"
    )
    for t in iterates_to_show(iters, best):
        table.add_row(
            f"{t}",
            f"{risk.train[t]:.3f}",
            f"{risk.values[t]:.3f}",
            f"{risk.stderr[t]:.3f}",
            f"{truth[t]:.3f}",
            f"{(path.coef[t] != 0).sum()}",
            style="bold" if t == best else None,
        )
    console.print(table)
    estimated = with_error(risk.values[best], risk.stderr[best])
    console.print(
        f"Chosen iterate: {best}, estimated risk {estimated}, "
        f"true risk {truth[best]:.3f}; the best on the path is iterate {truth.argmin()} with "
        f"{truth.min():.3f}."
    )
    print_warnings(console, risk.warnings)
    if plot:
        from steinpath.plots import plot_risk, save

        with drawing():
            save(plot_risk(risk, true_risk=truth), plot)
        say(console, f"Plot saved to {plot}")
