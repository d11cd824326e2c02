"""Files that the commands write: model, report, plots, tables."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath._support.files import as_csv, write_text
from steinpath.app.classes import ClassFit
from steinpath.app.cli.class_outputs import (
    coefficients_of_classes,
    drawings_of_classes,
    json_of_classes,
    kept_classes,
)
from steinpath.app.cli.interval_outputs import (
    draw_intervals,
    interval_rows,
    json_of_intervals,
)
from steinpath.app.coefficient_intervals import FitIntervals
from steinpath.app.fitting import Fit, Ranked, count_nonzeros
from steinpath.app.models import Choice, Model
from steinpath.app.report.build import build_content
from steinpath.app.report.page import render
from steinpath.app.saved_intervals import for_file


@dataclass(frozen=True, eq=False)
class FitResult:
    """The result of a command, and how it was called."""

    fit: Fit
    ranking: Sequence[Ranked]
    notes: Sequence[str]
    interrupted: bool
    file: str
    folder: Path
    command: str
    seed: int
    intervals: FitIntervals | None = None


def check_writable(folder: Path) -> None:
    """Refuse a folder that is not writable, before any work is done."""
    trial = folder / f".{os.getpid()}.steinpath-trial"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        trial.touch()
        trial.unlink()
    except OSError as error:
        raise click.ClickException(
            f"cannot write to {folder}: {error.strerror}; use --out to name another folder"
        ) from None


def write_outputs(
    result: FitResult, with_model: bool, with_plots: bool
) -> Iterator[tuple[str, Path]]:
    """Write the files, the most important first; yield a label and the path of each.

    Parameters
    ----------
    result : FitResult
        The result.
    with_model, with_plots : bool
        Whether to write the model and the plots.
    """
    fit, folder = result.fit, result.folder
    if with_model:
        make_model(fit).save(folder / "model.json")
        yield "model", folder / "model.json"
    if result.ranking:
        write_text(folder / "ranking.csv", as_csv(map(asdict, result.ranking), ".8g"))
        yield "ranking", folder / "ranking.csv"
    write_text(folder / "risk.csv", as_csv(_risk_rows(fit), ".8g"))
    yield "risks", folder / "risk.csv"
    if result.intervals is not None:
        write_text(folder / "intervals.csv", as_csv(interval_rows(result.intervals), ".8g"))
        yield "intervals", folder / "intervals.csv"
    content = build_content(
        fit,
        file=result.file,
        command=result.command,
        seed=result.seed,
        notes=result.notes,
        ranking=result.ranking,
        intervals=result.intervals,
    )
    write_text(folder / "report.html", render(content))
    yield "report", folder / "report.html"
    if with_plots:
        yield from _draw(result)


def make_model(fit: Fit) -> Model:
    """Return the selected model for a model file."""
    of_classes = fit if isinstance(fit, ClassFit) else None
    coef: np.ndarray = fit.coef
    intercept: float | np.ndarray = fit.intercept
    if of_classes is not None:
        coef, intercept = coefficients_of_classes(of_classes)
    return Model(
        fit.data.encoded.encoding,
        coef,
        intercept,
        make_choice(fit),
        fit.warnings,
        version("steinpath"),
        None if of_classes else for_file(fit.intervals),
        kept_classes(of_classes) if of_classes else None,
        fit.data.encoded.text_format,
    )


def make_choice(fit: Fit) -> Choice:
    """Return how the model was selected."""
    risk, stderr = fit.estimate
    loss, penalty = fit.spec.loss, fit.tuning.path.penalty
    shapes = {
        field.name: getattr(part, field.name)
        for part in (loss, penalty)
        for field in fields(part)  # type: ignore[arg-type]
        if field.name not in ("lam", "weights", "class_weight")
    }
    return Choice(
        loss=loss.name,
        penalty=fit.spec.penalty,
        parameters=shapes,
        alpha=fit.alpha,
        iterate=fit.tuning.best_iter,
        iterations=fit.tuning.path.n_iter,
        test_loss=fit.risk.test_loss,
        test_parameter=fit.criterion.parameter,
        risk=risk,
        stderr=stderr,
        train=fit.train,
        rows=len(fit.data.y),
    )


def as_json(result: FitResult, files: dict[str, str]) -> dict[str, Any]:
    """Return the result as a JSON object."""
    fit = result.fit
    return {
        "target": fit.data.encoded.encoding.target,
        **asdict(make_choice(fit)),
        "features": fit.data.encoded.X.shape[1],
        "nonzeros": fit.nonzeros,
        "choice_counted_by": fit.tuning.chosen.method,
        **(json_of_classes(fit) if isinstance(fit, ClassFit) else _json_of_numbers(fit)),
        **_json_of_coefficients(result),
        "stop": fit.tuning.stop,
        "warnings": list(fit.warnings),
        "notes": list(result.notes),
        "ranking": [asdict(row) for row in result.ranking],
        "interrupted": result.interrupted,
        "files": files,
    }


def _json_of_numbers(fit: Fit) -> dict[str, Any]:
    return {
        "naive_risk": fit.naive[0],
        "naive_stderr": fit.naive[1],
        "median_absolute_error": fit.left_out.median_error,
        "constant_risk": fit.constant_risk,
        "improvement_percent": fit.improvement if math.isfinite(fit.improvement) else None,
        "intercept": fit.intercept,
    }


def _json_of_coefficients(result: FitResult) -> dict[str, Any]:
    found = result.intervals
    return {} if found is None else {"coefficient_intervals": json_of_intervals(found)}


def _risk_rows(fit: Fit) -> Iterator[dict[str, Any]]:
    """Yield the risk of every iterate for every alpha, and for every class if there are several."""
    if isinstance(fit, ClassFit) and fit.several:
        for label, one in zip(fit.labels, fit.fits, strict=True):
            yield from ({"class": label} | row for row in _risk_rows(one))
        return
    for alpha, risk in zip(fit.alphas, fit.tuning.risks, strict=True):
        nonzeros = count_nonzeros(risk.path)
        columns = (to_numpy(x).tolist() for x in (risk.values, risk.stderr, risk.train, nonzeros))
        for t, (value, stderr, train, count) in enumerate(zip(*columns, strict=True)):
            yield {
                "alpha": float(alpha),
                "iterate": t,
                "risk": value,
                "stderr": stderr,
                "train": train,
                "nonzeros": count,
            }


@contextmanager
def drawing() -> Iterator[None]:
    """Report in one line why plots could not be drawn."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph")  # characters that the font does not have
            yield
    except (OSError, MemoryError):  # of the disk or the machine, not of a plot
        raise
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise click.ClickException(f"the plots could not be drawn: {reason}") from error


def _draw(result: FitResult) -> Iterator[tuple[str, Path]]:
    with drawing():
        try:
            import matplotlib  # noqa: F401
        except ModuleNotFoundError:
            click.echo("plots require matplotlib: pip install 'steinpath[plot]'", err=True)
            return
        _draw_all(result)
    yield "plots", result.folder / "plots"


def _draw_all(result: FitResult) -> None:
    from steinpath import plots

    fit, tuning = result.fit, result.fit.tuning
    names, best = fit.data.encoded.encoding.feature_names, tuning.best_iter
    drawings: dict[str, Callable[[], Any]] = {
        "summary.png": lambda: plots.plot_summary(tuning, names),
        "risk.pdf": lambda: plots.plot_risk(fit.risk, log_time=True, best=best),
        "surface.pdf": lambda: plots.plot_tuning(tuning),
        "coefficients.pdf": lambda: plots.plot_coefficients(tuning.path, names, best=best),
        "diagnostics.pdf": lambda: plots.plot_diagnostics(fit.risk),
    }
    if isinstance(fit, ClassFit):
        drawings |= drawings_of_classes(fit)
    else:
        drawings |= {
            "predicted.pdf": lambda: plots.plot_predicted(tuning, offset=fit.data.level),
            "left_out_residuals.pdf": lambda: plots.plot_left_out_residuals(tuning),
            "residuals.pdf": lambda: plots.plot_residuals(fit.risk, best),
        }
    intervals = result.intervals
    if intervals is not None and any(row.identified for row in intervals.rows):
        drawings["intervals.pdf"] = lambda: draw_intervals(intervals)
    if result.ranking:
        drawings["ranking.pdf"] = lambda: plots.plot_ranking(result.ranking)
    for file, draw in drawings.items():
        drawn = draw()
        plots.save(drawn, result.folder / "plots" / file)
        plots.close(drawn)
