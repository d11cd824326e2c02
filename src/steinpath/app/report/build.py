"""What the report of a fit says."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath._support.printing import to_digits_of, with_error
from steinpath.app.fitting import Fit, Ranked, count_nonzeros
from steinpath.app.report.content import Charts, Coefficient, Content
from steinpath.plots._coefficients import largest_sizes
from steinpath.problem._penalties import PENALTIES, NoPenalty

# What a page can show, and a browser move quickly.
_MOST_ITERATES, _MOST_CURVES, _MOST_ROWS, _MOST_COEFFICIENTS = 400, 20, 2000, 1000

ASSUMPTIONS = (
    "New rows come from where these came from, by the same kind of draw.",
    "Rows are independent of each other: no repeated measurements of one subject, no neighbours in "
    "time or space. If they are not, the error on new ones is larger than estimated, and this "
    "report cannot see all such cases.",
    "Rows were not chosen, cleaned or transformed by looking at the target.",
)
_SMALLEST = (
    "The estimate at the choice is the smallest of many, and so too small: by a few percent, and "
    "by ten or more where there are few rows for the columns."
)


def build_content(
    fit: Fit,
    *,
    file: str,
    command: str,
    seed: int,
    notes: Sequence[str] = (),
    ranking: Sequence[Ranked] = (),
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
    """
    encoded, effects, coef = fit.data.encoded, fit.effects, fit.coef
    names = encoded.encoding.feature_names
    listed = np.argsort(-np.abs(effects), kind="stable")[: min(fit.nonzeros, _MOST_COEFFICIENTS)]
    return Content(
        title=f"{encoded.encoding.target}, from {file}",
        verdict=verdict(fit),
        facts=facts(fit),
        warnings=fit.warnings,
        assumptions=ASSUMPTIONS + ((_SMALLEST,) if fit.tuning.rule == "min" else ()),
        checks=fit.risk.diagnostics,
        columns=encoded.summaries,
        notes=tuple(notes),
        intercept=fit.intercept,
        coefficients=tuple(
            Coefficient(names[j], float(coef[j]), float(effects[j])) for j in listed
        ),
        ranking=tuple(ranking),
        charts=build_charts(fit, names),
        command=command,
        provenance=(
            *((name, version(name)) for name in ("steinpath", "numpy", "scipy", "scikit-learn")),
            ("python", platform.python_version()),
            ("made", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
            ("seed", str(seed)),
            ("risk estimated by", fit.risk.method),
        ),
        unlisted_columns=encoded.n_columns - len(encoded.summaries),
        unlisted_coefficients=fit.nonzeros - len(listed),
    )


def verdict(fit: Fit) -> str:
    """Say the result in a sentence or two."""
    risk, stderr = fit.estimate
    model = fit.spec.loss.label + (
        f" regression with {_article(fit.spec.penalty)} penalty"
        if fit.spec.penalty != NoPenalty.name
        else " regression without a penalty"
    )
    return (
        f"On new rows like these, the mean {fit.criterion.words} of the chosen model "
        f"is expected to be {with_error(risk, stderr)} (one standard error); that of a constant "
        f"prediction is {to_digits_of(fit.constant_risk, stderr)}. The model is iterate "
        f"{fit.tuning.best_iter} of {fit.tuning.path.n_iter} of {model}. {fit.length}"
    )


def facts(fit: Fit) -> tuple[tuple[str, str], ...]:
    """Return the key figures."""
    n, p = fit.data.encoded.X.shape
    risk, stderr = fit.estimate
    found = [
        (f"expected {fit.criterion.words}", with_error(risk, stderr)),
        ("error on the training rows", to_digits_of(fit.train, stderr)),
        ("error of a constant prediction", to_digits_of(fit.constant_risk, stderr)),
        ("chosen iterate", f"{fit.tuning.best_iter} of {fit.tuning.path.n_iter}"),
        ("coefficients not zero", f"{fit.nonzeros} of {p}"),
        ("rows", f"{n:,}"),
    ]
    if fit.criterion.name == "squared":
        found.insert(1, ("its root", to_digits_of(math.sqrt(max(risk, 0.0)), math.sqrt(stderr))))
    if fit.spec.penalty != NoPenalty.name:
        found.insert(-2, ("chosen alpha", f"{fit.alpha:.3g}"))
    return tuple(found)


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
    raw, corrected = _residuals(fit)
    return Charts(
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
        raw=tuple(raw.tolist()),
        corrected=tuple(corrected.tolist()),
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
    rows = np.arange(path.n_samples)
    if len(rows) > _MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(rows, _MOST_ROWS, replace=False))
    raw = path.response - path.products_at(slice(t, t + 1))[0, ...]
    return to_numpy(raw)[rows], to_numpy(fit.risk.residuals(t))[rows]


def _nested(array: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, np.asarray(array, float).tolist()))
