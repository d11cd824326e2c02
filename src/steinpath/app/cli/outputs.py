"""Files that the commands write: model, report, plots, tables."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any, cast

import click
import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath._support.files import as_csv, write_text
from steinpath._support.messages import worded
from steinpath.app import FDR, LEVEL
from steinpath.app.cli.commands import option
from steinpath.app.fitted import FitIntervals, Fitted
from steinpath.app.models import save_model_file
from steinpath.app.report.build import Result, build_content, finite, render
from steinpath.app.tables import FileFormat


def write_outputs(
    result: Result, folder: Path, form: FileFormat, with_model: bool, with_plots: bool
) -> Iterator[tuple[str, Path]]:
    """Write the files, the most important first; yield a label and the path of each."""
    if with_model:
        file = folder / "model.json"
        save_model_file(result.fitted.model, file, result.target, form.to_json())
        yield "model", file
    for label, name, rows in (
        ("ranking", "ranking.csv", _ranking_rows(result)),
        ("risks", "risk.csv", _risk_rows(result.fitted)),
        ("intervals", "intervals.csv", _interval_rows(result.intervals)),
    ):
        if label == "risks" or getattr(result, label):
            write_text(folder / name, as_csv(rows, ".8g"))
            yield label, folder / name
    write_text(folder / "report.html", render(build_content(result)))
    yield "report", folder / "report.html"
    if with_plots:
        yield from _draw(result, folder / "plots")


def as_json(result: Result, files: dict[str, str]) -> dict[str, Any]:
    """Return the result as a JSON object."""
    fitted, main = result.fitted, result.fitted.main
    risk, stderr = fitted.estimate
    shapes = {
        field.name: getattr(part, field.name)
        for part in (main.loss_, main.penalty_)
        for field in fields(part)
        if field.name not in ("lam", "weights", "class_weight", "positive")
    }
    found = {
        "target": result.target,
        "loss": main.loss_.name,
        "penalty": main.penalty_.name,
        "parameters": shapes,
        **main.best_params_,
        "iterate": main.best_iter_,
        "iterations": main.n_iter_,
        "test_loss": main.test_loss_,
        "test_parameter": cast(Any, fitted.risk.criterion).parameter,
        "risk": risk,
        "stderr": finite(stderr),
        "train": float(main.train_risk_),
        "rows": fitted.shape[0],
        "features": fitted.shape[1],
        "nonzeros": fitted.nonzeros,
        "choice_counted_by": fitted.tuning.chosen.method,
    }
    found |= (_json_of_classes if fitted.classes else _json_of_numbers)(fitted)
    if (intervals := result.intervals) is not None:
        found["coefficient_intervals"] = {
            "t": intervals.found.t,
            "level": LEVEL,
            "scale": intervals.found.scale,
            "scores": intervals.found.scores,
            "fdr": FDR,
            "fdr_features": intervals.n_tests,
            "warnings": [worded(text, option) for text in intervals.warnings],
            "notes": list(intervals.notes),
            "features": list(_interval_rows(intervals)),
        }
    if fitted.levels:
        found["levels"] = [
            {name: finite(v) if isinstance(v, float) else v for name, v in level._asdict().items()}
            for level in fitted.levels
        ]
    if fitted.effects is not None:
        columns = fitted.effects.to_dict()
        rows = zip(*(value.tolist() for value in columns.values()), strict=True)
        found["columns"] = [dict(zip(columns, row, strict=True)) for row in rows]
    return found | {
        "stop": main.stop_,
        "warnings": [worded(text, option) for text in fitted.estimator.warnings_],
        "notes": list(result.notes),
        "ranking": [*_ranking_rows(result)],
        "interrupted": result.interrupted,
        "files": files,
    }


def _json_of_numbers(fitted: Fitted) -> dict[str, Any]:
    main = fitted.main
    return {
        "naive_risk": main.naive_risk_,
        "naive_stderr": main.naive_risk_stderr_,
        "median_absolute_error": main.median_error_,
        "constant_risk": main.constant_risk_,
        "improvement_percent": finite(fitted.improvement),
        "intercept": float(main.intercept_),
        "transform_target": main.transform_target_,
    }


def _json_of_classes(fitted: Fitted) -> dict[str, Any]:
    estimator = fitted.estimator
    return {
        "classes": fitted.classes,
        "class_weight": estimator.class_weight,
        "scores": {
            name: {"expected": value, "stderr": finite(stderr), "constant": constant}
            for name, (value, stderr, constant) in estimator.scores_.items()
        },
        "error_rate": estimator.error_rate_,
        "error_rate_stderr": finite(estimator.error_rate_stderr_),
        "error_rate_interval": list(estimator.error_rate_interval_),
        "train_error_rate": estimator.train_error_rate_,
        "confusion": estimator.confusion_.tolist(),
        "models": [
            {
                "class": label,
                "alpha": each.alpha_,
                "iterate": each.best_iter_,
                "nonzeros": int(np.count_nonzero(each.coef_)),
                "intercept": float(each.intercept_[0]),
                "risk": each.best_risk_,
                "stderr": finite(each.best_risk_stderr_),
            }
            for label, each in zip(fitted.labels, fitted.models, strict=True)
        ],
    }


def _ranking_rows(result: Result) -> Iterator[dict[str, Any]]:
    """Yield the numbers of each model; None for standard errors that are not known."""
    for row in result.ranking:
        unknown = {name: finite(getattr(row, name)) for name in ("stderr", "behind_stderr")}
        yield asdict(row) | unknown


def _interval_rows(found: FitIntervals | None) -> Iterator[dict[str, Any]]:
    """Yield the numbers of each feature; None if its coefficient is not identified."""
    for row in () if found is None else found.rows:
        own = {n: finite(getattr(row, n)) if row.identified else None for n in row._fields[1:6]}
        yield {"name": row.name, **own, "significant": row.significant}


def _risk_rows(fitted: Fitted) -> Iterator[dict[str, Any]]:
    """Yield the risk of every iterate for every alpha, and for every class if there are several."""
    for label, model in zip(fitted.labels or [""], fitted.models, strict=True):
        of_class = {"class": label} if fitted.several else {}
        tuning = model.tuning_
        alphas = tuning.lams / math.sqrt(model.n_samples_)
        alphas = alphas if tuning.params else to_numpy(model.alphas_)
        for k, (alpha, risk) in enumerate(zip(alphas, tuning.risks, strict=True)):
            own = {name: float(values[k]) for name, values in tuning.params.items()}
            nonzeros = np.count_nonzero(to_numpy(risk.path.coef), axis=1)
            columns = risk.values, risk.stderr, risk.train, nonzeros
            rows = zip(*(to_numpy(column).tolist() for column in columns), strict=True)
            for t, row in enumerate(rows):
                numbers = dict(zip(("risk", "stderr", "train", "nonzeros"), row, strict=True))
                yield {**of_class, "alpha": float(alpha), **own, "iterate": t, **numbers}


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


def _draw(result: Result, folder: Path) -> Iterator[tuple[str, Path]]:
    with drawing():
        try:
            import matplotlib  # noqa: F401
        except ModuleNotFoundError:
            click.echo("plots require matplotlib: pip install 'steinpath[plot]'", err=True)
            return
        from steinpath import plots

        for file, draw in _drawings(result, plots).items():
            drawn = draw()
            plots.save(drawn, folder / file)
            plots.close(drawn)
    yield "plots", folder


def _drawings(result: Result, plots: Any) -> dict[str, Callable[[], Any]]:
    """Return what draws each file."""
    fitted, tuning, intervals = result.fitted, result.fitted.tuning, result.intervals
    names, best = fitted.feature_names, tuning.best_iter
    drawings: dict[str, Callable[[], Any]] = {
        "summary.png": partial(plots.plot_summary, tuning, names),
        "risk.pdf": partial(plots.plot_risk, fitted.risk, log_time=True, best=best),
        "surface.pdf": partial(plots.plot_tuning, tuning),
        "coefficients.pdf": partial(plots.plot_coefficients, tuning.path, names, best=best),
        "diagnostics.pdf": partial(plots.plot_diagnostics, fitted.risk),
    }
    if fitted.classes:
        tunings = [each.tuning_ for each in fitted.models]
        of = dict(zip(fitted.labels, tunings, strict=True)) if fitted.several else tuning
        drawings["roc.pdf"] = partial(plots.plot_roc, of)
        if hasattr(fitted.estimator, "predict_proba"):
            drawings["reliability.pdf"] = partial(plots.plot_reliability, of)
    else:
        of_rows = {
            "predicted.pdf": partial(plots.plot_predicted, tuning),
            "left_out_residuals.pdf": partial(plots.plot_left_out_residuals, tuning),
            "residuals.pdf": partial(plots.plot_residuals, fitted.risk, best),
        }
        for file, draw in of_rows.items():
            drawings[file] = partial(_draw_logarithms, draw) if fitted.log_target else draw
    if intervals is not None and any(row.identified for row in intervals.rows):
        drawings["intervals.pdf"] = partial(_draw_intervals, intervals)
    of_main: dict[str, Any] = {"which": fitted.models.index(fitted.main)}
    if fitted.curves:
        drawings["curves.pdf"] = partial(plots.plot_curves, fitted.model, most=12, **of_main)
        drawings["importance.pdf"] = partial(plots.plot_importance, fitted.model)
    if fitted.surfaces:
        drawings["products.pdf"] = partial(plots.plot_products, fitted.model, **of_main)
    if result.ranking:
        drawings["ranking.pdf"] = partial(plots.plot_ranking, result.ranking)
    return drawings


def _draw_logarithms(draw: Callable[[], Any]) -> Any:
    """Draw residuals or predictions of the logarithm of the target, and say so."""
    axes = draw()
    axes.set_xlabel(f"{axes.get_xlabel()}, log(target)")
    return axes


def _draw_intervals(found: FitIntervals) -> Any:
    """Draw a forest plot, per standard deviation of the features so that they are comparable."""
    per_deviation = found.found.rescaled(1 / np.array([row.scale for row in found.rows]))
    axes = per_deviation.plot(fdr=FDR, n_tests=found.n_tests)
    axes.set_xlabel(f"{found.found.what}, per s.d., {LEVEL:.0%} confidence interval")
    return axes
