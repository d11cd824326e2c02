"""``steinpath fit``, ``tune`` and ``compare``: models selected by their estimated risk."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from steinpath._support.printing import printable_json, with_error
from steinpath._support.validation import captured_warnings
from steinpath.app.classes import ClassFit
from steinpath.app.cli.class_outputs import SHOWN, print_coefficients_of_several, print_confusion
from steinpath.app.cli.clusters import cluster, encode_on_cluster, wants_cluster
from steinpath.app.cli.display import Display, make_console, make_table, print_warnings, say, shown
from steinpath.app.cli.entry import INTERRUPTED
from steinpath.app.cli.interval_outputs import print_intervals
from steinpath.app.cli.options import read_format
from steinpath.app.cli.outputs import FitResult, as_json, check_writable, write_outputs
from steinpath.app.cli.tasks import Task, check_quantile, requested_task, task_of
from steinpath.app.coefficient_intervals import FitIntervals, fit_intervals
from steinpath.app.encoding import encode
from steinpath.app.encoding.encoded import EncodingOptions
from steinpath.app.encoding.messages import counted
from steinpath.app.fitting import Fit, FitData, Ranked, compare_models, prepare_data
from steinpath.app.model_spec import ModelSpec, make_criterion, parameter_specs
from steinpath.app.report.build import facts
from steinpath.app.tables import DataError, open_folder_at, read_table
from steinpath.problem._scoring import CRITERIA, Criterion
from steinpath.tuning._grid_end import end_of_grid


def run_fit(ctx: click.Context, /, loss: str | None, penalty: str, **options: Any) -> None:
    """Run ``steinpath fit``."""
    losses = [] if loss is None else [loss]
    check_quantile(losses, options)
    result = _work(ctx, losses, [penalty], options, compare=False)
    _finish(result, options, _print_fit, with_model=True)


def run_tune(
    ctx: click.Context, /, loss: tuple[str, ...], penalty: tuple[str, ...], **options: Any
) -> None:
    """Run ``steinpath tune``."""
    result = _work(ctx, loss, penalty or ("lasso", "ridge"), options, compare=True)
    _finish(result, options, _print_tuning, with_model=True)


def run_compare(
    ctx: click.Context, /, loss: tuple[str, ...], penalty: tuple[str, ...], **options: Any
) -> None:
    """Run ``steinpath compare``."""
    result = _work(ctx, loss, penalty or ("lasso", "ridge"), options, compare=True)
    _finish(result, options, _print_ranking, with_model=False)


# ------------------------------------------------------------------------------------------------
# Work
# ------------------------------------------------------------------------------------------------


def _work(
    ctx: click.Context,
    losses: Sequence[str],
    penalties: Sequence[str],
    options: dict[str, Any],
    compare: bool,
) -> FitResult:
    """Read the file and fit."""
    requested = requested_task(losses, options)
    seed, rule = options["seed"], options["rule"].replace("-", "_")
    captured: list[tuple[str, type[Warning]]] = []
    token = captured_warnings.set(captured)
    ranking: list[Ranked] = []
    intervals: FitIntervals | None = None
    try:
        with Display() as display:
            data = _data(ctx, display, options, requested)
            wanted = _wants_intervals(data, options)
            folder, task = _folder(options, ctx), task_of(data)
            test_loss = _test_loss(data, task, options, compare)
            weights = {"class_weight": options["class_weight"], **_parameters(options)}
            specs = [
                ModelSpec.from_names(loss, penalty, data.encoded.y, **weights)
                for loss in dict.fromkeys(losses or task.usual_losses(options["q"], compare))
                for penalty in dict.fromkeys(penalties)
            ]
            best: Fit
            if compare:
                best, ranking = compare_models(data, specs, test_loss, rule, seed, task.fit)
            else:
                best = task.fit(data, specs[0], test_loss, rule, seed)
            enough = display.enough
            if wanted and not enough:
                intervals = fit_intervals(best, seed)
    except ValueError as error:  # about the numbers in the file; options were checked before
        raise DataError(str(error)) from error
    finally:
        captured_warnings.reset(token)
    notes = [*data.encoded.notes, *data.notes, *(message for message, _ in captured)]
    notes += _remarks(best, ranking)
    if enough:
        notes.append(_cut_short(best, len(ranking), len(specs)))
    if wanted and intervals is None:
        notes.append("interrupted before the confidence intervals were computed")
    file, command = Path(options["file"]).name, str(ctx.obj)
    return FitResult(best, ranking, notes, enough, file, folder, command, seed, intervals)


def _data(
    ctx: click.Context, display: Display, options: dict[str, Any], task: str | None
) -> FitData:
    """Read the file and prepare the data."""
    if options["group"] is not None and options["time"] is not None:
        raise click.UsageError("--group and --time cannot be used together")
    if options["gap"] is not None and options["time"] is None:
        raise click.UsageError("--gap requires --time")
    path = Path(options["file"])
    on_cluster, text_format = wants_cluster(path, options), read_format(options)
    display.begin(f"reading {path}", 0)
    if on_cluster:
        folder = open_folder_at(path, text_format)
        wanted = _encoding_options(options, folder.names, task)
        # open until all files are written: the report needs residuals from the workers
        client = ctx.with_resource(cluster(options["workers"], options["cluster"]))
        encoded = encode_on_cluster(folder, wanted, client)
    else:
        labels = [*options["category"], *filter(None, [options["group"]])]
        table = read_table(path, labels, text_format=text_format)
        encoded = encode(table, **vars(_encoding_options(options, table.columns, task)))
    gap = None if options["time"] is None else options["gap"] or 0
    return prepare_data(
        encoded, options["n_iter"], options["n_alphas"], options["alpha_ratio"], gap
    )


def _encoding_options(
    options: dict[str, Any], columns: Iterable[str], task: str | None
) -> EncodingOptions:
    """Return how to use the columns."""
    if options["target"] is None:
        names = ", ".join([*map(repr, columns)][-20:])
        raise click.UsageError(
            f"use --target to name the column to predict; the columns are {names}"
        )
    return EncodingOptions(
        target=options["target"],
        impute=options["impute"],
        drop=options["drop"],
        categories=options["category"],
        group=options["group"],
        time=options["time"],
        task=task,
        keep_columns=options["keep_columns"],
    )


def _wants_intervals(data: FitData, options: dict[str, Any]) -> bool:
    """Whether to compute intervals for coefficients; refuse this for classification."""
    wanted = bool(options.get("intervals"))
    if wanted and data.encoded.classes:
        raise click.UsageError(
            "--intervals requires a numeric target, but the task is classification; for a target "
            "of two numbers, use --task regression"
        )
    return wanted


def _parameters(options: dict[str, Any]) -> dict[str, float | None]:
    """Return the parameters of losses and penalties."""
    return {name: options[name] for name in parameter_specs()}


def _test_loss(
    data: FitData, task: Task, options: dict[str, Any], compare: bool
) -> Criterion | str | None:
    """Return the scoring loss; None for that of the training loss."""
    name = options["test_loss"]
    if name is None and compare:  # the same for all models
        name = task.common_test_loss(options["q"])
    if name is None or CRITERIA[name].margin:
        return None if name is None else str(name)
    return make_criterion(name, data.encoded.y, **_parameters(options))


def _remarks(fit: Fit, ranking: Sequence[Ranked]) -> list[str]:
    """Return notes about the selection that are no reason for doubt."""
    tuning, found = fit.tuning, []
    if fit.nonzeros == 0:
        found.append("all coefficients are zero: no feature improves on a constant prediction")
    elif (end := end_of_grid(tuning)) is not None:
        ratio = tuning.lams.min() / tuning.lams.max() / 10
        remedy = f"consider extending the grid with --alpha-ratio {ratio:.1g}"
        if end == "largest":
            remedy = "the features may be only weakly related to the target"
        found.append(f"the {end} alpha on the grid was selected; {remedy}")
    if others := [f"{row.loss} + {row.penalty}" for row in ranking[1:] if row.still_falls]:
        found.append(
            f"the estimated risk of {', '.join(others)} was still decreasing at the last "
            "iteration; the ranking may change with a larger --n-iter"
        )
    if fit.risk.audit is not None:
        repair = float(fit.risk.audit.repair[tuning.best_iter])
        if abs(repair) > fit.naive[1] / 4:
            found.append(
                f"the bias correction of the audit "
                f"{'raised' if repair > 0 else 'lowered'} the estimated risk by {abs(repair):.2g}"
            )
    return found


def _cut_short(fit: Fit, ranked: int, total: int) -> str:
    """Return a note about what was finished before Ctrl-C."""
    if ranked and ranked < total:
        return f"interrupted: {ranked} of {total} models compared"
    if fit.is_whole:
        return "interrupted: the estimated risk was not fully audited"
    return (
        f"interrupted after {counted(fit.tuning.path.n_iter, 'iteration')} with "
        f"{counted(len(fit.tuning.lams), 'value')} of alpha"
    )


# ------------------------------------------------------------------------------------------------
# Results
# ------------------------------------------------------------------------------------------------


def _folder(options: dict[str, Any], ctx: click.Context) -> Path:
    """Return the output folder; refuse one that is not writable."""
    name = Path(options["file"]).name.split(".")[0] or "data"
    folder = Path(options["out"] or f"{name}-{ctx.info_name}")
    check_writable(folder)
    return folder


def _finish(
    result: FitResult,
    options: dict[str, Any],
    show: Callable[[Console, FitResult], None],
    with_model: bool,
) -> None:
    """Write all files and print the result."""
    console, files = make_console(quiet=options["as_json"]), dict[str, str]()
    stopped = result.interrupted
    failure: Exception | None = None
    try:
        for name, file in write_outputs(result, with_model, options["plots"]):
            files[name] = str(file)
    except KeyboardInterrupt:
        stopped = True
    except Exception as error:  # such as a full disk: print the result all the same
        failure = error
    if options["as_json"]:
        text = json.dumps(as_json(result, files), indent=1, ensure_ascii=False)
        click.echo(printable_json(text))
    show(console, result)
    width = max(8, *map(len, files), 0)
    for name, where in files.items():
        say(console, f"{name:>{width}}  {where}", soft_wrap=True)
    if failure is not None:
        raise failure
    if stopped:
        sys.exit(INTERRUPTED)


def _print_fit(console: Console, result: FitResult) -> None:
    """Print the key figures and the largest coefficients."""
    fit, encoded = result.fit, result.fit.data.encoded
    console.print(f"{shown(encoded.encoding.target)}: {fit.spec.words}", style="bold")
    print_warnings(console, fit.warnings)
    table = make_table("", "", left=1)
    table.show_header = False
    for what, value in facts(fit):
        table.add_row(what, value)
    console.print(table)
    say(console, f"{fit.meaning_of_error}.")
    if isinstance(fit, ClassFit):
        print_confusion(console, fit)
    if isinstance(fit, ClassFit) and fit.several:
        shown_of = print_coefficients_of_several(console, fit)
    else:
        shown_of = _print_coefficients(console, fit)
    if shown_of > SHOWN:
        console.print(f"… and {shown_of - SHOWN} more, in model.json")
    if caption := fit.reported.caption:
        say(console, f"{caption[0].upper()}{caption[1:]}.")
    if result.intervals is not None:
        print_intervals(console, result.intervals)
    _print_notes(console, result)


def _print_coefficients(console: Console, fit: Fit) -> int:
    """Print the largest coefficients; return the number of nonzero ones."""
    found = fit.reported
    effects, coef, names = found.effects, found.coef, found.names
    largest = sorted(range(len(names)), key=lambda j: -abs(effects[j]))[:SHOWN]
    table = make_table("feature", "coefficient", "per s.d.", left=1)
    for j in largest:
        if effects[j]:
            table.add_row(shown(names[j]), f"{coef[j]:.4g}", f"{effects[j]:+.3g}")
    if found.nonzeros:
        console.print(table)
    return found.nonzeros


def _print_ranking(console: Console, result: FitResult) -> None:
    """Print the losses and penalties, the best first."""
    _print_ranks(console, result)
    _print_notes(console, result)
    console.print("To save the best model, use `steinpath tune`.")


def _print_tuning(console: Console, result: FitResult) -> None:
    """Print the ranking, and the alpha grid of the best model."""
    _print_ranks(console, result)
    tuning = result.fit.tuning
    table = make_table("alpha", "best iteration", "nonzeros", "risk", "difference", left=0)
    for k, (alpha, risk) in enumerate(zip(result.fit.alphas, tuning.risks, strict=True)):
        selected = k == tuning.best[0]
        t = tuning.best_iter if selected else risk.best_iter
        # the risks of values that were screened out are not comparable
        known = tuning.settled[k] and not selected
        difference = with_error(*tuning.compare((k, t), tuning.best)) if known else ""
        difference = "selected" if selected else difference
        table.add_row(
            f"{alpha:.3g}",
            str(t),
            str(int((risk.path.coef[t] != 0).sum())),
            with_error(float(risk.values[t]), float(risk.stderr[t])),
            difference,
            style="bold" if selected else None,
        )
    of = ""
    if isinstance(result.fit, ClassFit) and result.fit.several:
        of = f" {result.fit.main_label!r:.60} vs rest, {result.fit.criterion.words},"
    say(
        console,
        f"The best model, {result.fit.spec.words},{of} by alpha (not adjusted for selection):",
    )
    console.print(table)
    if not tuning.settled.all():
        console.print("Values of alpha without a difference were screened out by a rough estimate.")
    if result.intervals is not None:
        print_intervals(console, result.intervals)
    _print_notes(console, result)


def _print_ranks(console: Console, result: FitResult) -> None:
    fit = result.fit
    console.print(
        f"{shown(fit.data.encoded.encoding.target)}: expected {fit.ranked_by}", style="bold"
    )
    print_warnings(console, fit.warnings)
    table = make_table(
        "loss", "penalty", "alpha", "iteration", "nonzeros", "risk", "difference", left=2
    )
    for k, row in enumerate(result.ranking):
        table.add_row(
            row.loss,
            row.penalty,
            f"{row.alpha:.3g}",
            str(row.iterate),
            str(row.nonzeros),
            with_error(row.risk, row.stderr),
            with_error(row.behind, row.behind_stderr) if k else "",
            style=None if k else "bold",
        )
    console.print(table)
    say(console, f"{fit.meaning_of_error}.")
    if len(result.ranking) > 1:
        say(console, "It is not adjusted for the selection among losses and penalties.")


def _print_notes(console: Console, result: FitResult) -> None:
    """Print the number of iterations and the notes."""
    say(console, result.fit.length)
    for note in result.notes:
        say(console, f"Note: {note}.")
