"""``steinpath study``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from steinpath.app.cli.commands import FLAG, declared, iterations, number

if TYPE_CHECKING:
    from rich.console import Console


def _check_name(ctx: click.Context, param: click.Parameter, name: str) -> str:
    """Refuse what is neither a study nor "all" or "list"."""
    from steinpath.study import STUDIES

    known = ("list", "all", *STUDIES)
    if name not in known:
        raise click.BadParameter(f"{name!r} is not a study; choose from {', '.join(known)}")
    return name


@click.command()
@click.argument("name", metavar="NAME", callback=_check_name)
@declared(
    """
    --out  Folder for replications, tables and figures. Finished replications are reused.
    --reps  Replications per configuration.
    --n  Number of observations; can be given several times.
    --p  Number of features; can be given several times.
    --n-iter  Number of iterations.
    --seed  Seed of the first replication.
    --jobs  Number of processes on this machine.
    --cluster  Dask cluster: tcp://host:port, a scheduler file (.json), or a number of workers to
        start on this machine.
    --backend  Array library.
    --device  Device for the torch backend.
    --quick  Small sizes for a trial run of at most two minutes.
    --redraw  Write tables and figures from stored results; run nothing.
    """,
    out={"type": click.Path(file_okay=False), "default": "studies"},
    reps=number(2),
    n=number(20) | {"multiple": True},
    p=number(2) | {"multiple": True},
    n_iter=iterations(2),
    seed=number(0, 0),
    jobs=number(1) | {"show_default": "number of cores"},
    backend={"type": click.Choice(["numpy", "torch"]), "default": "numpy"},
    device={"default": "cpu"},
    quick=FLAG,
    redraw=FLAG,
)
def study(name: str, out: str, n: tuple[int, ...], p: tuple[int, ...], **options: Any) -> None:
    """Run a Monte Carlo study.

    `steinpath study list` lists the studies.

    Run the same command again to resume an interrupted study.
    """
    from joblib import cpu_count
    from rich.console import Console
    from rich.table import Table

    from steinpath.app.cli.console import say
    from steinpath.study import STUDIES, StudyError, check_backend, run_study

    console = Console()
    if name == "list":
        table = Table("study", "question", "replications", "configurations", show_lines=True)
        for each in STUDIES.values():
            count = len(each.plan(each.full))
            table.add_row(each.name, each.question, str(each.full.reps), str(count))
        console.print(table)
        return
    options["jobs"] = options["jobs"] or cpu_count()
    usual = {"iters": options.pop("n_iter")} | {k: options.pop(k) for k in ("quick", "reps")}
    selected = STUDIES.values() if name == "all" else [STUDIES[name]]
    try:
        if options["cluster"] is None:
            check_backend(options["backend"], options["device"])
        sizes = []
        for each in selected:
            # "all": a study that derives p from n keeps its own sizes
            own: Any = {} if name == "all" and not each.full.p else {"n": n, "p": p}
            sizes.append(each.sizes(**usual, **own))
            each.plan(sizes[-1])
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    failed = False
    for each, size in zip(selected, sizes, strict=True):
        try:
            report = run_study(each, out, size, console=console, **options)
        except StudyError as error:
            raise click.ClickException(str(error)) from None
        except MemoryError:
            said = "not enough memory. Finished replications are kept: run the same command again"
            raise click.ClickException(f"{said} with fewer --jobs") from None
        except KeyboardInterrupt:
            say(console, f"\nStopped. Run the same command again to resume; results are in {out}.")
            sys.exit(130)
        _show(console, each.name, report)
        failed |= bool(report.failures)
    if failed:
        sys.exit(1)


def _show(console: Console, name: str, report: Any) -> None:
    """Print the results of a study."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from steinpath._support.printing import printable
    from steinpath.app.cli.console import say
    from steinpath.study import as_markdown, cell

    if report.summary and console.is_terminal:
        table = Table(*map(escape, report.summary[0]), title=name, box=box.SIMPLE, padding=(0, 1))
        for row in report.summary:
            table.add_row(*(escape(cell(value)) for value in row.values()))
        console.print(table)
    elif report.summary:  # not limited to the width of a terminal
        click.echo(as_markdown(report.summary))
    for file in report.files:
        click.echo(printable(str(file)))
    if report.finished < report.total:
        console.print(f"{report.finished} of {report.total} replications finished.", style="yellow")
    for failure in report.failures:
        say(console, f"Failed: {failure}", style="red", soft_wrap=True)
    if report.failures:
        console.print("Run the same command again to retry only the failed replications.")
