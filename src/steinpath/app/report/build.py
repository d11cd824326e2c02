"""What the report of a fit says."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath._support.printing import to_digits_of, with_error
from steinpath.app.classes import ClassFit
from steinpath.app.coefficient_intervals import FitIntervals
from steinpath.app.fitting import Fit, Ranked, count_nonzeros
from steinpath.app.report.classes import content_of_classes, facts_of_classes, verdict_of_classes
from steinpath.app.report.content import Charts, Coefficient, Content
from steinpath.plots._coefficients import largest_sizes
from steinpath.plots._left_out import QUANTILES
from steinpath.problem._penalties import PENALTIES, NoPenalty

# What a page can show, and a browser move quickly.
_MOST_ITERATES, _MOST_CURVES, _MOST_ROWS, _MOST_COEFFICIENTS = 400, 20, 2000, 1000

_SAME_SOURCE = "New rows come from where these came from, by the same kind of draw."
_UNTOUCHED = "Rows were not chosen, cleaned or transformed by looking at the target."
_INDEPENDENT = (
    "Rows are independent of each other: no repeated measurements of one subject, no neighbours in "
    "time or space. If they are not, the error on new ones is larger than estimated, and this "
    "report cannot see all such cases; use --group or --time."
)
_GROUPS = (
    "Groups are independent of each other, and new rows are of new groups; rows of one group need "
    "not be independent."
)
_TIME = (
    "What comes next depends on what came before as it did in these rows. Each row was predicted "
    "from earlier ones only; the earliest rows, for which there are none, were not predicted."
)

# How the choice of alpha and of the iterate is counted; see `ChosenRisk.method`.
_COUNTED_BY = {
    "nested": "nested folds",
    "bootstrap": "bootstrap of the choice",
    "fixed": "no choice",
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
    """Return what a report of a fit says.

    Parameters
    ----------
    fit : Fit
        What was found.
    file : str
        Name of the file with the data.
    command : str
        What to type to get the same again.
    seed : int
        Of the random numbers.
    notes : sequence of str
        What was done to the data, and else should be known.
    ranking : sequence of Ranked
        The fits that it was compared with, itself included.
    intervals : FitIntervals, optional
        Confidence intervals for the coefficients.
    """
    encoded, reported = fit.data.encoded, fit.reported
    effects, coef, nonzeros = reported.effects, reported.coef, reported.nonzeros
    listed = np.argsort(-np.abs(effects), kind="stable")[: min(nonzeros, _MOST_COEFFICIENTS)]
    return Content(
        title=f"{encoded.encoding.target}, from {file}",
        verdict=verdict(fit),
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
            ("made", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
            ("seed", str(seed)),
            ("risk estimated by", fit.risk.method),
            ("choice counted by", _COUNTED_BY[fit.tuning.chosen.method]),
        ),
        unlisted_columns=encoded.n_columns - len(encoded.summaries),
        unlisted_coefficients=nonzeros - len(listed),
        intervals=intervals,
    )


def _assumptions(fit: Fit) -> tuple[str, ...]:
    if fit.data.cv is not None:
        return _TIME, _UNTOUCHED
    return _SAME_SOURCE, _INDEPENDENT if fit.data.groups is None else _GROUPS, _UNTOUCHED


def verdict(fit: Fit) -> str:
    """Say the result in a sentence or two."""
    risk, stderr = fit.estimate
    with_penalty = (
        f"with {_article(fit.spec.penalty)} penalty"
        if fit.spec.penalty != NoPenalty.name
        else "without a penalty"
    )
    rows = "new rows like these"
    if fit.data.groups is not None:
        rows = "rows of new groups like these"
    elif fit.data.cv is not None:
        rows = "later rows like these"
    if isinstance(fit, ClassFit):
        return verdict_of_classes(fit, rows, with_penalty)
    model = f"{fit.spec.loss.label} regression {with_penalty}"
    return (
        f"On {rows}, the mean {fit.criterion.words} of the chosen model "
        f"is expected to be {with_error(risk, stderr)} ({fit.meaning_of_error}); that of a "
        f"constant prediction is {to_digits_of(fit.constant_risk, stderr)}. The model is iterate "
        f"{fit.tuning.best_iter} of {fit.tuning.path.n_iter} of {model}. {fit.length}"
    )


def _at_the_choice(fit: Fit) -> str:
    """Say why the curve is lower at the choice than the risk that the report begins with."""
    if fit.tuning.chosen.method == "fixed":
        return ""
    why = "That is the smallest of many estimates, and so too small; with the choice counted"
    counted = fit.main.estimate if isinstance(fit, ClassFit) else fit.estimate
    if fit.naive[0] > counted[0]:
        why = "With the choice counted, from runs that leave out rows in another way"
    return (
        f"At the chosen iterate the curve is at {with_error(*fit.naive)}. {why}, the risk is "
        f"{with_error(*counted)}."
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
    """Return an absolute error with the digits of the risk, where that is one, or else four."""
    stderr = fit.estimate[1] if fit.criterion.name != "squared" else math.inf
    return to_digits_of(error, stderr)


def _improvement(fit: Fit) -> list[tuple[str, str]]:
    percent = fit.improvement
    if not math.isfinite(percent):
        return []
    return [("improvement over a constant", f"{percent:.{int(abs(percent) < 10)}f}%")]


def _article(penalty: str) -> str:
    words = PENALTIES[penalty].label
    return f"{'an' if words[0] in 'aeiouMS' else 'a'} {words}"


def build_charts(fit: Fit, names: Sequence[str]) -> Charts:
    """Return the numbers behind the interactive curves."""
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
        left_out_by="fitted, and chosen," if fit.tuning.chosen.method == "nested" else "fitted",
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
    """Return all iterates, or of very many those that are evenly spread in logarithmic time."""
    if last < _MOST_ITERATES:
        return list(range(last + 1))
    spread = np.geomspace(1, last, _MOST_ITERATES).round().astype(int)
    return sorted({0, best, *spread.tolist()})


def _residuals(fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """Residuals at the choice, as they are and corrected, of all rows or of some."""
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
