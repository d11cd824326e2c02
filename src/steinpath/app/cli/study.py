"""``steinpath study``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from steinpath._support.printing import printable
from steinpath.app.cli.display import say

if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:  # which takes no type before click 8.4
    _TextType = click.ParamType


class _StudyName(_TextType):
    """The name of a study, "all" or "list"; the studies are imported when one is named."""

    name = "name"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "NAME"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        from steinpath.study import STUDIES

        known = ("list", "all", *STUDIES)
        if value not in known:
            self.fail(f"{value!r} is no study; there are {', '.join(known)}", param, ctx)
        return str(value)


@click.command()
@click.argument("name", type=_StudyName())
@click.option(
    "--out",
    default="studies",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Folder of replications, tables and figures; what is finished there is not done again.",
)
@click.option("--reps", type=click.IntRange(2), help="Replications of each setting.")
@click.option("--n", type=click.IntRange(20), multiple=True, help="Observations (may be repeated).")
@click.option("--p", type=click.IntRange(2), multiple=True, help="Features (may be repeated).")
@click.option("--iters", type=click.IntRange(2), help="Iterations.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="First seed.")
@click.option(
    "--jobs", type=click.IntRange(1), help="Processes on this machine; as many as cores by default."
)
@click.option(
    "--cluster",
    help="Use a Dask cluster: tcp://host:port, a scheduler file (.json), or a number of workers "
    "to start on this machine.",
)
@click.option(
    "--backend", default="numpy", show_default=True, type=click.Choice(["numpy", "torch"])
)
@click.option("--device", default="cpu", show_default=True, help="Device of torch's arrays.")
@click.option("--quick", is_flag=True, help="Small sizes, to try it out; two minutes at most.")
@click.option("--redraw", is_flag=True, help="Only write tables and figures of what is there.")
def study(
    name: str,
    out: str,
    jobs: int | None,
    quick: bool,
    reps: int | None,
    n: tuple[int, ...],
    p: tuple[int, ...],
    iters: int | None,
    **options: Any,
) -> None:
    """Run a Monte Carlo study.

    `steinpath study list` lists the studies.

    Interrupted, by whatever it may be, it goes on where it was when the same command is given
    again.
    """
    from joblib import cpu_count

    from steinpath.study import STUDIES, StudyError, run_study
    from steinpath.study._replicate import check_backend

    console = Console()
    if name == "list":
        console.print(_described(STUDIES.values()))
        return
    options["jobs"] = jobs or cpu_count()
    chosen = STUDIES.values() if name == "all" else [STUDIES[name]]
    try:
        if options["cluster"] is None:
            check_backend(options["backend"], options["device"])
        sizes = []
        for each in chosen:
            # one that derives p from n has sizes of another kind: together with others, its own
            given = {} if name == "all" and not each.full.p else {"n": n, "p": p}
            sizes.append(each.sizes(quick=quick, reps=reps, iters=iters, **given))
            each.plan(sizes[-1])
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    failed = False
    for each, size in zip(chosen, sizes, strict=True):
        try:
            report = run_study(each, out, size, console=console, **options)
        except StudyError as error:
            raise click.ClickException(str(error)) from None
        except MemoryError:
            raise click.ClickException(
                "there is not enough memory for this. What is finished is kept: run the same "
                "command again, with fewer --jobs or when others need less"
            ) from None
        except KeyboardInterrupt:
            say(console, f"\nStopped. What is finished is in {out}; the same command goes on.")
            sys.exit(130)
        _show(console, each.name, report)
        failed |= bool(report.failures)
    if failed:
        sys.exit(1)


def _described(studies: Any) -> Table:
    table = Table("study", "question", "replications", "settings", show_lines=True)
    for each in studies:
        settings = len(each.plan(each.full))
        table.add_row(each.name, each.question, str(each.full.reps), str(settings))
    return table


def _show(console: Console, name: str, report: Any) -> None:
    """Print what a study found."""
    from steinpath.study._output import as_markdown, cell

    if report.summary and console.is_terminal:
        table = Table(*map(escape, report.summary[0]), title=name, box=box.SIMPLE, padding=(0, 1))
        for row in report.summary:
            table.add_row(*(escape(cell(value)) for value in row.values()))
        console.print(table)
    elif report.summary:  # a file has no width to fit into
        click.echo(as_markdown(report.summary))
    for file in report.files:
        click.echo(printable(str(file)))
    if report.finished < report.total:
        console.print(
            f"{report.finished} of {report.total} replications are finished.", style="yellow"
        )
    for failure in report.failures:
        say(console, f"Failed: {failure}", style="red", soft_wrap=True)
    if report.failures:
        console.print("The same command tries again what has failed, and nothing else.")
