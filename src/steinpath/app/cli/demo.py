"""``steinpath demo``."""

from __future__ import annotations

import click

from steinpath.app.cli.renamed import n_iter_option


def _checked_extension(ctx: click.Context, param: click.Parameter, file: str | None) -> str | None:
    if file is None:
        return None
    from steinpath.plots._style import check_ending

    try:
        check_ending(file)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return file


@click.command()
@click.option(
    "--n", default=600, show_default=True, type=click.IntRange(2), help="Number of observations."
)
@click.option(
    "--p", default=300, show_default=True, type=click.IntRange(1), help="Number of features."
)
@n_iter_option(
    default=200,
    show_default=True,
    type=click.IntRange(1),
    help="Number of iterations.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Random seed.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, writable=True),
    callback=_checked_extension,
    help="Save a plot to this file (.png, .pdf or .svg).",
)
def demo(n: int, p: int, n_iter: int, seed: int, plot: str | None) -> None:
    """Compare estimated and true risk on simulated data."""
    from steinpath._support.printing import with_error
    from steinpath.app.cli.display import make_console, make_table, print_warnings, say
    from steinpath.app.demo import iterates_to_show, lad_lasso_demo

    console = make_console()
    console.print(f"LAD–lasso, Student-t₂ noise, n={n}, p={p}, {n_iter} iterations, seed {seed}")
    path, risk, truth = lad_lasso_demo(n, p, n_iter, seed)
    best = risk.best_iter
    table = make_table(
        "iteration", "training error", "estimated risk", "± s.e.", "true risk", "nonzeros"
    )
    for t in iterates_to_show(n_iter, best):
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
        f"Selected iteration {best}: estimated risk {estimated}, true risk {truth[best]:.3f}. "
        f"Smallest true risk: {truth.min():.3f} at iteration {truth.argmin()}."
    )
    print_warnings(console, risk.warnings)
    if plot:
        from steinpath.app.cli.outputs import drawing
        from steinpath.plots import plot_risk, save

        with drawing():
            save(plot_risk(risk, true_risk=truth), plot)
        say(console, f"Plot saved to {plot}")
