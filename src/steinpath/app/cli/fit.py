"""``steinpath fit``, ``tune`` and ``compare``: a table, an encoder, and estimators."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from itertools import chain, product
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import click
import numpy as np
from sklearn.pipeline import make_pipeline

from steinpath._support.cells import texts
from steinpath._support.messages import DataError, counted, worded
from steinpath._support.printing import printable_json
from steinpath._support.progress import begin
from steinpath._support.validation import capturing_warnings
from steinpath.app import TASKS
from steinpath.app.cli.clusters import cluster, wants_cluster
from steinpath.app.cli.commands import option, read_format, usable_names
from steinpath.app.cli.console import Display, make_console, print_result, say
from steinpath.app.cli.entry import INTERRUPTED
from steinpath.app.cli.outputs import as_json, write_outputs
from steinpath.app.fitted import Fitted, Ranked, contender, fit_intervals, rank
from steinpath.app.report.build import Result
from steinpath.app.tables import FileFormat, open_folder, placed, read_table
from steinpath.app.target import Roles, check_roles, read_roles, time_splits
from steinpath.estimators._classifiers import PathClassifier
from steinpath.estimators._columns import ABOUT_UNITS
from steinpath.estimators._encoder import TableEncoder
from steinpath.estimators._regressors import PathRegressor
from steinpath.estimators._scores import ERROR_RATE, OF_CLASSES
from steinpath.problem._grid import robust_spread
from steinpath.problem._losses import LOSSES
from steinpath.problem._penalties import PENALTIES
from steinpath.problem._scoring import CRITERIA
from steinpath.risk._after_choice import ChosenRisk

# The error cannot be estimated from fewer rows.
_FEWEST_ROWS = 10
# Training losses for regression and classification, of which the first is that of a single fit.
_USUAL = {"regression": ("lad", "huber", "square_root"), "classification": ("logistic",)}
_ALPHAS = 20
# Scoring losses of probabilities.
_OF_PROBABILITIES = ("log", "brier")


def run_command(ctx: click.Context, /, loss: Any, penalty: Any, **options: Any) -> None:
    """Run ``steinpath fit``, ``tune`` or ``compare``; write all files and print the result."""
    name = str(ctx.command.name)
    losses = loss if name != "fit" else [loss] if loss else []
    penalties = (penalty or ("lasso", "ridge")) if name != "fit" else [penalty]
    needless = options["q"] is not None and name == "fit" and losses
    if needless and "quantile" not in (loss, options["test_loss"]):
        raise click.UsageError(f"--quantile requires --loss quantile, got --loss {loss}")
    stem = Path(options["file"]).name.split(".")[0] or "data"
    folder = Path(options["out"] or f"{stem}-{ctx.info_name}")
    result, how = _work(ctx, losses, penalties, options, folder)
    console, files = make_console(quiet=options["as_json"]), dict[str, str]()
    stopped, failure = result.interrupted, None
    try:
        for what, file in write_outputs(result, folder, how, name != "compare", options["plots"]):
            files[what] = str(file)
    except KeyboardInterrupt:
        stopped = True
    except Exception as error:  # such as a full disk: print the result all the same
        failure = error
    if options["as_json"]:
        text = json.dumps(as_json(result, files), indent=1, ensure_ascii=False)
        click.echo(printable_json(text))
    print_result(console, name, result)
    width = max(8, *map(len, files), 0)
    for what, where in files.items():
        say(console, f"{what:>{width}}  {where}", soft_wrap=True)
    if failure is not None:
        raise failure
    if stopped:
        sys.exit(INTERRUPTED)


class _Data(NamedTuple):
    """The features and the target of a file, and what was done to get them."""

    encoder: TableEncoder
    X: Any  # an array, or a design of rows on a cluster
    roles: Roles
    columns: list[str]
    format: FileFormat
    place: Callable[[int], str]
    notes: tuple[str, ...]
    cv: Any


def _work(
    ctx: click.Context,
    losses: Sequence[str],
    penalties: Sequence[str],
    options: dict[str, Any],
    folder: Path,
) -> tuple[Result, FileFormat]:
    """Read the file and fit; return also how the file is read."""
    compare, requested = ctx.command.name != "fit", _requested_task(losses, options)
    ranking, score = list[Ranked](), None
    intervals, wanted = None, options.get("intervals")
    try:
        with capturing_warnings() as captured, Display() as display:
            data = _data(ctx, display, options, requested)
            _check_writable(folder)
            usual = _USUAL[data.roles.task] if compare else _USUAL[data.roles.task][:1]
            usual = ("quantile",) if options["q"] is not None else usual
            pairs = list(product(dict.fromkeys(losses or usual), dict.fromkeys(penalties)))
            if compare:
                score = _score(data.roles.task, pairs, options)
                fitted, ranking = _compare(data, pairs, score, options)
            else:
                fitted = _fit(data, *pairs[0], options, options["test_loss"])
            enough = display.enough
            by_y = fitted.terms is not None and fitted.terms.pairs.size > 0
            if wanted and not enough and not by_y:
                intervals = fit_intervals(fitted)
    except DataError:
        raise
    except ValueError as error:  # about the numbers in the file; options were checked before
        raise DataError(str(error)) from error
    notes = [worded(note, option, data.place) for note in data.notes]
    warned = {*fitted.estimator.warnings_, *(intervals.warnings if intervals else ())}
    # warnings of models that were not selected are not shown
    if not compare:
        notes += [worded(text, option) for text, _ in captured if text not in warned]
    notes += _remarks(fitted, ranking)
    if enough:
        notes.append(_cut_short(fitted, len(ranking), len(pairs)))
    if wanted and by_y:
        notes.append(
            "there are no confidence intervals, since y selected the products; use --products no"
        )
    elif wanted and intervals is None:
        notes.append("interrupted before the confidence intervals were computed")
    used = {summary.name: summary for summary in data.encoder.summary_} | data.roles.summaries
    result = Result(
        fitted,
        target=options["target"],
        source=Path(options["file"]).name,
        command=str(ctx.obj),
        notes=notes,
        ranking=ranking,
        score=score,
        intervals=intervals,
        columns=[used[name] for name in data.columns if name in used],
        n_columns=len(data.columns),
        remedy=option,
        interrupted=enough,
    )
    return result, data.format


def _data(ctx: click.Context, display: Display, options: dict[str, Any], task: str | None) -> _Data:
    """Read the file, and encode its columns."""
    target, group, time, weight = (options[x] for x in ("target", "group", "time", "weight"))
    if group is not None and time is not None:
        raise click.UsageError("--group and --time cannot be used together")
    if options["gap"] is not None and time is None:
        raise click.UsageError("--gap requires --time")
    if both := set(options["drop"]) & set(options["keep"]):
        raise DataError(f"{min(both)!r} cannot be both in --drop and in --keep-column")
    path = Path(options["file"])
    on_cluster, how = wants_cluster(path, options), read_format(options)
    display.begin(f"reading {path}", 0)
    labels = [*options["categories"], *filter(None, [group])]
    source: Any = open_folder(path, how) if on_cluster else read_table(path, how, labels)
    columns = list(source.names if on_cluster else source.frame.column_names)
    if target is None:
        known = "the columns are " + ", ".join([*map(repr, columns)][-20:])
        raise click.UsageError(f"use --target to name the column to predict; {known}")
    how, notes = (how, ()) if on_cluster else (source.format, source.notes)
    named = {name: options[name] for name in ("drop", "categories", "keep")}
    given: dict[str, Any] = {"missing": "impute" if options["impute"] else "error"}
    given |= _terms(options, ctx.command.name == "fit" and not on_cluster, on_cluster)
    for name, some in named.items():
        given[name] = tuple(column for column in some if column not in (group, time, weight))
    encoder = TableEncoder(**given, **how.of_cells)
    encoder.unsaid = ABOUT_UNITS if time is not None else ABOUT_UNITS[: int(group is not None)]
    X: Any
    if on_cluster:
        from steinpath.app.folder_data import encode_folder

        # open until all files are written: the report needs residuals from the workers
        client = ctx.with_resource(cluster(options["workers"], options["cluster"]))
        X, roles, place = encode_folder(source, encoder, client, target, group, task, weight)
    else:
        with placed(source.place):
            others = *chain(*named.values()), *filter(None, [weight])
            check_roles(columns, target, group, time, *others)
            roles = read_roles(source, target, group, time, task, options["impute"], weight)
        table = source if roles.rows is None else source.take(roles.rows)
        with placed(place := table.place):
            features = table.frame.drop_columns(list(roles.summaries))
            X = encoder.fit_transform(features, rows=roles.rows)
    if (n := len(roles.y)) < _FEWEST_ROWS:
        raise DataError(f"there are {n} rows with a target; at least {_FEWEST_ROWS} are needed")
    cv = None if roles.times is None else time_splits(roles.times, options["gap"] or 0)
    if roles.task == "classification":
        _check_classes(roles, cv, options)
    notes = (*notes, *encoder.notes_, *roles.notes)
    return _Data(encoder, X, roles, columns, how, place, notes, cv)


def _terms(options: dict[str, Any], automatic: bool, on_cluster: bool) -> dict[str, Any]:
    """Return what the encoder adds to linear terms; set the options that are not given."""
    named = {name: options[name] for name in ("curves", "products", "transform_target")}
    if on_cluster and any(value not in (None, "no") for value in named.values()):
        raise click.UsageError("curves, products and a log target require a table in memory")
    usual = "auto" if automatic else "no"
    named = {name: usual if value is None else value for name, value in named.items()}
    target = named.pop("transform_target")
    options["transform_target"] = None if target == "no" else target
    return {name: {"yes": True, "no": False}.get(value, value) for name, value in named.items()}


def _check_classes(roles: Roles, cv: Any, options: dict[str, Any]) -> None:
    """Refuse groups and time splits whose training rows lack a class."""
    for label in np.unique(roles.y).tolist():
        of_class = roles.y == label
        if roles.groups is not None and len(np.unique(roles.groups[of_class])) < 2:
            raise DataError(
                f"all rows of the class {str(label)!r:.60} are in one group, which is held out as "
                "a whole; every class needs rows in at least two groups"
            )
        for train, _ in cv or ():
            if not of_class[train].any():
                raise DataError(
                    f"the class {str(label)!r:.60} does not occur in the first {len(train)} rows "
                    "in time order, from which later rows are predicted"
                )


def _fit(
    data: _Data, loss: str, penalty: str, options: dict[str, Any], test_loss: str | None
) -> Fitted:
    """Fit the pipeline of the encoder and an estimator.

    Options that have the name of a parameter of the estimator are passed to it.
    """
    y, estimator = data.roles.y, PathRegressor()
    if data.roles.task == "classification":
        estimator = PathClassifier()
        y = texts(y) if y.dtype.kind == "f" else y  # scikit-learn refuses labels with decimals
    given = {name: options.get(name) for name in estimator.get_params()}
    estimator.set_params(n_iter="auto", n_alphas="auto")
    estimator.set_params(**{name: value for name, value in given.items() if value is not None})
    for what, kind in {"loss": LOSSES[loss], "penalty": PENALTIES[penalty]}.items():
        spec: Any = kind.parameter_spec
        value = None if spec is None else options[spec.name]
        own = None if value is None else {spec.name: value}
        estimator.set_params(**{what: kind.name, f"{what}_params": own})
    estimator.set_params(test_loss=_test_loss(test_loss, loss, y, options), cv=data.cv)
    estimator.keeps_search = True  # for the report and the plots
    estimator.fit(data.X, y, sample_weight=data.roles.weights, groups=data.roles.groups)
    return Fitted(make_pipeline(data.encoder, estimator))


def _test_loss(name: str | None, loss: str, y: np.ndarray, options: dict[str, Any]) -> Any:
    """Return the scoring loss, with its own parameter if the command line has one."""
    if name is None:
        return None
    spec, own = CRITERIA[name].parameter_spec, LOSSES[loss].parameter_spec
    value = None if spec is None else options[spec.name]
    # the training loss may have that parameter, too
    if spec is None or value is None or (own and own.name == spec.name) or isinstance(value, list):
        return name
    return CRITERIA[name](spec.in_units(value, robust_spread(y)))


def _score(task: str, pairs: Sequence[tuple[str, str]], options: dict[str, Any]) -> str | None:
    """Return the score by which classifiers are compared; None for regressions."""
    if task == "regression":
        if options["score"] is not None:
            raise click.UsageError("--score is for classification; use --test-loss for regression")
        return None
    # the error rate of rare classes is smallest if they are never predicted, and losses of
    # different models are not comparable
    without = [loss for loss, _ in pairs if loss != "logistic"]
    score = str(options["score"] or options["test_loss"] or ("auc" if without else "log"))
    if without and score in _OF_PROBABILITIES:
        named = "score" if options["score"] else "test-loss"
        raise click.UsageError(
            f"--{named} {score} requires probabilities, which are not estimated with --loss "
            f"{without[0].replace('_', '-')}; use --loss logistic or --score auc"
        )
    return score


def _compare(
    data: _Data, pairs: Sequence[tuple[str, str]], score: str | None, options: dict[str, Any]
) -> tuple[Fitted, list[Ranked]]:
    """Fit several losses and penalties, and rank them by the same score or scoring loss.

    If a stop is requested, the remaining models are skipped, and the current one, too, unless it is
    the first.
    """
    test_loss = options["test_loss"]
    if test_loss is None and score is None:
        test_loss = "absolute" if options["q"] is None else "quantile"
    elif test_loss is None and score not in OF_CLASSES:
        test_loss = score
    best: Fitted | None = None
    lowest, contenders = math.inf, list[tuple[Ranked, ChosenRisk]]()
    done = begin(f"comparing {len(pairs)} models", len(pairs))
    for loss, penalty in pairs:
        fitted = _fit(data, loss, penalty, options, test_loss)
        stop = done()
        if stop and not fitted.is_whole and best is not None:
            break
        contenders.append(contender(fitted, score))
        if best is None or contenders[-1][0].risk < lowest:
            best, lowest = fitted, contenders[-1][0].risk
        del fitted  # keep only the best in memory while the next one runs
        if stop:
            break
    assert best is not None
    return best, rank(contenders)


def _requested_task(losses: Sequence[str], options: dict[str, Any]) -> str | None:
    """Return the task that the options request, explicitly or because they require it."""
    task, scored = options["task"], [options["test_loss"]] if options["test_loss"] else []
    reasons = {} if task is None else {f"--task {task}": task == TASKS[1]}
    reasons |= {f"--loss {name}".replace("_", "-"): LOSSES[name].margin for name in losses}
    reasons |= {f"--test-loss {name}".replace("_", "-"): CRITERIA[name].margin for name in scored}
    reasons |= {} if options.get("score") is None else {"--score": True}
    reasons |= {} if options["q"] is None else {"--quantile": False}
    reasons |= {} if options["class_weight"] is None else {"--class-weight": True}
    if not reasons:
        return None
    first, for_classes = next(iter(reasons.items()))
    if others := [name for name, kind in reasons.items() if kind != for_classes]:
        known = [name for name in usable_names(LOSSES) if LOSSES[name].margin == for_classes]
        raise click.UsageError(
            f"{first} and {others[0]} cannot be used together, since {others[0]} is for "
            f"{TASKS[not for_classes]}; losses for {TASKS[for_classes]} are "
            f"{', '.join(known).replace('_', '-')}"
        )
    return TASKS[for_classes]


def _remarks(fitted: Fitted, ranking: Sequence[Ranked]) -> list[str]:
    """Return notes about the selection that are no reason for doubt."""
    tuning, notes = fitted.tuning, fitted.notes
    count, (n, p) = len(tuning.lams), fitted.shape
    # further terms have other grids
    usual = fitted.main.n_alphas == "auto" and (not fitted.levels or fitted.levels[0].selected)
    if usual and 1 < count < _ALPHAS and fitted.is_whole:
        notes.append(
            f"because of the number of {'columns' if p > n else 'rows'}, the grid has {count} "
            f"values of alpha instead of {_ALPHAS}; use --n-alphas {_ALPHAS} for all"
        )
    if fitted.nonzeros == 0:
        said = "all coefficients are zero: no feature improves"
        said += f" the {fitted.scored_by} of a constant prediction"
        if fitted.classes and fitted.main.test_loss_ in ("hinge", ERROR_RATE):
            said += "; if a class is rare, use --loss logistic or --class-weight balanced"
        notes.append(said)
    if others := [f"{row.loss} + {row.penalty}" for row in ranking[1:] if row.still_falls]:
        notes.append(
            f"the estimated risk of {', '.join(others)} was still decreasing at the last "
            "iteration; the ranking may change with a larger --n-iter"
        )
    if fitted.risk.audit is not None:
        repair = float(fitted.risk.audit.repair[tuning.best_iter])
        did = f"{'raised' if repair > 0 else 'lowered'} the estimated risk by {abs(repair):.2g}"
        if abs(repair) > tuning.naive_risk_stderr / 4:
            notes.append(f"the bias correction of the audit {did}")
    return notes


def _cut_short(fitted: Fitted, ranked: int, total: int) -> str:
    """Return a note about what was finished before Ctrl-C."""
    if ranked and ranked < total:
        return f"interrupted: {ranked} of {total} models compared"
    if fitted.is_whole:
        return "interrupted: the estimated risk was not fully audited"
    return (
        f"interrupted after {counted(fitted.main.n_iter_, 'iteration')} with "
        f"{counted(len(fitted.tuning.lams), 'value')} of alpha"
    )


def _check_writable(folder: Path) -> None:
    """Refuse a folder that is not writable, before any work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError as error:
        said = f"cannot write to {folder}: {error.strerror}; use --out to name another folder"
        raise click.ClickException(said) from None
