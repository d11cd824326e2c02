"""Collect the content of the report of a fit."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath._support.printing import to_digits_of, with_error
from steinpath.app.classes import ClassFit
from steinpath.app.coefficient_intervals import FitIntervals
from steinpath.app.encoding import RemoteFeatures
from steinpath.app.fitting import Fit, Ranked, count_nonzeros
from steinpath.app.report.classes import (
    compared,
    content_of_classes,
    facts_of_classes,
    verdict_of_classes,
)
from steinpath.app.report.content import Charts, Coefficient, Content
from steinpath.app.saved_intervals import for_file
from steinpath.plots._coefficients import largest_sizes
from steinpath.plots._left_out import QUANTILES
from steinpath.problem._penalties import PENALTIES, NoPenalty

# What a page can show, and a browser can redraw quickly.
_MOST_ITERATES, _MOST_CURVES, _MOST_ROWS, _MOST_COEFFICIENTS = 400, 20, 2000, 1000

# Levels of prediction intervals whose average width is reported.
_LEVELS = 0.5, 0.8, 0.9, 0.95

_SAME_SOURCE = "New rows come from the same population as these rows."
_UNTOUCHED = "Rows were not selected, cleaned or transformed using the target."
_INDEPENDENT = (
    "Rows are independent of each other: no repeated measurements of one subject, no correlation "
    "in time or space. Otherwise the error on new rows is larger than estimated, and the checks do "
    "not detect every such case; use --group or --time."
)
_GROUPS = (
    "Groups are independent of each other, and new rows belong to new groups. Rows of one group "
    "may be dependent."
)
_TIME = (
    "Later rows depend on earlier rows as they did in these data. Each row was predicted from "
    "earlier rows only; the earliest rows were not predicted."
)

# How the estimate is adjusted for the selection of alpha and iteration; see `ChosenRisk.method`.
_ADJUSTED_BY = {
    "nested": "nested folds",
    "bootstrap": "bootstrap",
    "fixed": "not needed: nothing was selected",
}


def build_content(
    fit: Fit,
    *,
    file: str,
    command: str,
    seed: int,
    notes: Sequence[str] = (),
    ranking: Sequence[Ranked] = (),
    intervals: FitIntervals | None = None,
) -> Content:
    """Return the content of the report of a fit.

    Parameters
    ----------
    fit : Fit
        The fit.
    file : str
        Name of the data file.
    command : str
        The command that produces the same report.
    seed : int
        Seed of the random numbers.
    notes : sequence of str
        Changes to the data, and other remarks.
    ranking : sequence of Ranked
        The models compared, this fit included.
    intervals : FitIntervals, optional
        Confidence intervals for the coefficients.
    """
    encoded, reported = fit.data.encoded, fit.reported
    effects, coef, nonzeros = reported.effects, reported.coef, reported.nonzeros
    listed = np.argsort(-np.abs(effects), kind="stable")[: min(nonzeros, _MOST_COEFFICIENTS)]
    return Content(
        title=f"Predicting {encoded.encoding.target} from {file}",
        verdict=verdict(fit),
        model=model_sentence(fit),
        facts=facts(fit),
        warnings=fit.warnings,
        assumptions=_assumptions(fit),
        checks=fit.risk.diagnostics,
        columns=encoded.summaries,
        notes=tuple(notes),
        intercept=reported.intercept,
        coefficients=tuple(
            Coefficient(reported.names[j], float(coef[j]), float(effects[j])) for j in listed
        ),
        ranking=tuple(ranking),
        charts=build_charts(fit, encoded.encoding.feature_names),
        command=command,
        provenance=(
            *((name, version(name)) for name in ("steinpath", "numpy", "scipy", "scikit-learn")),
            ("python", platform.python_version()),
            ("seed", str(seed)),
            ("risk estimation method", fit.risk.method),
            ("adjustment for selection", _ADJUSTED_BY[fit.tuning.chosen.method]),
        ),
        unlisted_columns=encoded.n_columns - len(encoded.summaries),
        unlisted_coefficients=nonzeros - len(listed),
        intervals=intervals,
        widths=_interval_widths(fit),
        caption=reported.caption[:1].upper() + reported.caption[1:],
    )


def _assumptions(fit: Fit) -> tuple[str, ...]:
    if fit.data.cv is not None:
        return _TIME, _UNTOUCHED
    return _SAME_SOURCE, _INDEPENDENT if fit.data.groups is None else _GROUPS, _UNTOUCHED


def verdict(fit: Fit) -> str:
    """State the expected error and the improvement over a constant prediction."""
    rows = "new rows like these"
    if fit.data.groups is not None:
        rows = "rows of new groups like these"
    elif fit.data.cv is not None:
        rows = "later rows like these"
    if isinstance(fit, ClassFit):
        return verdict_of_classes(fit, rows)
    risk, stderr = fit.estimate
    constant = to_digits_of(fit.constant_risk, stderr)
    return (
        f"On {rows}, the expected {fit.criterion.words} is {with_error(risk, stderr)} "
        f"({fit.meaning_of_error}); {compared(risk, fit.constant_risk)} of a constant prediction "
        f"({constant})."
    )


def model_sentence(fit: Fit) -> str:
    """Describe the selected model, and why the iterations ended."""
    name = PENALTIES[fit.spec.penalty].label
    penalty = f"with {'an' if name[0] in 'aeiouMS' else 'a'} {name} penalty"
    if fit.spec.penalty == NoPenalty.name:
        penalty = "without a penalty"
    of_classes = isinstance(fit, ClassFit)
    model = f"{fit.spec.loss.label} {'loss' if of_classes else 'regression'} {penalty}"
    if isinstance(fit, ClassFit) and fit.several:
        return (
            f"The model has one one-vs-rest classifier per class, each fitted by the {model}; "
            "the class with the largest decision value is predicted."
        )
    return (
        f"The selected model is iteration {fit.tuning.best_iter} of {fit.tuning.path.n_iter} of "
        f"{'the ' * of_classes}{model}. {fit.length}"
    )


def _interval_widths(fit: Fit) -> tuple[tuple[float, float], ...] | None:
    """Return the average width of prediction intervals; None if the model has none."""
    kept = None if isinstance(fit, ClassFit) else for_file(fit.intervals)
    if kept is None:
        return None
    X = fit.data.encoded.X
    if isinstance(X, RemoteFeatures):  # its rows are not in memory
        return ()
    rows = slice(None) if len(X) <= _MOST_ROWS else _some_rows(len(X))
    found = []
    for level in _LEVELS:
        with suppress(ValueError):  # too few residuals for the level
            low, high = kept.interval(X[rows], level).T
            found.append((level, float(np.mean(high - low))))
    return tuple(found)


def _at_the_choice(fit: Fit) -> str:
    """Explain why the curve differs from the risk stated first in the report."""
    if fit.tuning.chosen.method == "fixed":
        return ""
    why = "As the minimum of many estimates it is biased downwards; adjusted for selection"
    adjusted = fit.main.estimate if isinstance(fit, ClassFit) else fit.estimate
    if fit.naive[0] > adjusted[0]:
        why = "Adjusted for selection, with different held-out rows"
    return (
        f"At the selected iteration, the estimate is {with_error(*fit.naive)}. {why}, it is "
        f"{with_error(*adjusted)}."
    )


def facts(fit: Fit) -> tuple[tuple[str, str], ...]:
    """Return the key figures."""
    if isinstance(fit, ClassFit):
        return facts_of_classes(fit)
    n, p = fit.data.encoded.X.shape
    risk, stderr = fit.estimate
    found = [
        (f"expected {fit.criterion.words}", with_error(risk, stderr)),
        ("median absolute error", _like(fit.left_out.median_error, fit)),
        ("training error", to_digits_of(fit.train, stderr)),
        ("error of a constant prediction", to_digits_of(fit.constant_risk, stderr)),
        *_improvement(fit),
        ("selected iteration", f"{fit.tuning.best_iter} of {fit.tuning.path.n_iter}"),
        ("nonzero coefficients", f"{fit.nonzeros} of {p}"),
        ("rows", f"{n:,}"),
    ]
    if fit.criterion.name == "squared":
        root = to_digits_of(math.sqrt(max(risk, 0.0)), math.sqrt(stderr))
        found.insert(1, ("root mean squared error", root))
    if fit.spec.penalty != NoPenalty.name:
        found.insert(-2, ("selected alpha", f"{fit.alpha:.3g}"))
    return tuple(found)


def _like(error: float, fit: Fit) -> str:
    """Return an absolute error with the digits of the risk if that is one, or else four."""
    stderr = fit.estimate[1] if fit.criterion.name != "squared" else math.inf
    return to_digits_of(error, stderr)


def _improvement(fit: Fit) -> list[tuple[str, str]]:
    percent = fit.improvement
    if not math.isfinite(percent):
        return []
    return [("improvement over a constant", f"{percent:.{int(abs(percent) < 10)}f}%")]


def build_charts(fit: Fit, names: Sequence[str]) -> Charts:
    """Return the numbers of the charts."""
    tuning = fit.tuning
    k, best = tuning.best
    shown = _some_iterates(tuning.path.n_iter, best)
    order = np.argsort(-tuning.lams, kind="stable")
    curves = [
        _nested(to_numpy(array)[order][:, shown])
        for array in (tuning.risk, tuning.stderr, tuning.train)
    ]
    nonzeros = [count_nonzeros(tuning.risks[j].path)[shown].tolist() for j in order]
    path = to_numpy(tuning.path.coef)
    sizes = largest_sizes(path)
    by_size = np.argsort(-sizes, kind="stable")
    largest = [int(j) for j in by_size[:_MOST_CURVES] if sizes[j]]
    charts = Charts(
        test_loss=fit.criterion.words,
        penalty=PENALTIES[fit.spec.penalty].label,
        alphas=tuple(fit.alphas[order].tolist()),
        iterates=tuple(shown),
        risk=curves[0],
        stderr=curves[1],
        train=curves[2],
        nonzeros=tuple(map(tuple, nonzeros)),
        chosen=(int(np.flatnonzero(order == k)[0]), shown.index(best)),
        coefficient_names=tuple(names[j] for j in largest),
        coefficients=_nested(path[:, largest][shown]),
        at_the_choice=_at_the_choice(fit),
        left_out_by="fitted and selected" if fit.tuning.chosen.method == "nested" else "fitted",
    )
    if isinstance(fit, ClassFit):
        return replace(charts, classes=content_of_classes(fit))
    raw, corrected = _residuals(fit)
    left_out = fit.left_out
    some = _some_rows(len(left_out.actual))
    return replace(
        charts,
        raw=tuple(raw.tolist()),
        corrected=tuple(corrected.tolist()),
        actual=tuple(left_out.actual[some].tolist()),
        predicted=tuple(left_out.predicted[some].tolist()),
        quantiles=tuple(np.quantile(left_out.residuals, QUANTILES).tolist()),
        left_out_rows=len(left_out.actual),
    )


def _some_iterates(last: int, best: int) -> list[int]:
    """Return all iterations, or a logarithmically spaced subset of very many."""
    if last < _MOST_ITERATES:
        return list(range(last + 1))
    spread = np.geomspace(1, last, _MOST_ITERATES).round().astype(int)
    return sorted({0, best, *spread.tolist()})


def _residuals(fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """Return training and corrected residuals of all rows, or of a sample."""
    t, path = fit.tuning.best_iter, fit.tuning.path
    rows = _some_rows(path.n_samples)
    raw = path.response - path.products_at(slice(t, t + 1))[0, ...]
    return to_numpy(raw)[rows], to_numpy(fit.risk.residuals(t))[rows]


def _some_rows(count: int) -> np.ndarray:
    """Return all rows, or a random sample of very many."""
    rows = np.arange(count)
    if count <= _MOST_ROWS:
        return rows
    return np.sort(np.random.default_rng(0).choice(rows, _MOST_ROWS, replace=False))


def _nested(array: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, np.asarray(array, float).tolist()))
