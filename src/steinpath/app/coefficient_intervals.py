"""Confidence intervals for the coefficients of a fit, in units of the columns of the file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath._support.progress import begin
from steinpath.app.defaults import FDR, LEVEL, MOST_FEATURES
from steinpath.app.encoding.messages import counted
from steinpath.app.fitting import Fit, some_features
from steinpath.app.reference_levels import explain_references, reference_features
from steinpath.engine._path import Path
from steinpath.engine._run import run
from steinpath.inference._coefficient_intervals import CoefficientIntervals, coefficient_intervals
from steinpath.inference._scores import uses_residuals
from steinpath.plots._coefficients import largest_sizes

# Names that a message lists; smallest p-value that is printed.
_LISTED, _SMALL = 5, 1e-4

# Messages that replace those with column numbers or arguments of Python functions.
_MESSAGES = {
    "total response": (
        "the response of the dual variables to the residuals is small or uncertain, so the "
        "intervals are unreliable; use more rows, or another loss"
    ),
    "correlated scores": (
        "some features are still correlated with others after the node-wise lasso (up to "
        "{value:.2f}), so their intervals may be biased; use more rows, or --drop for columns that "
        "nearly duplicate others"
    ),
    "dominant rows": (
        "a single row has {value:.0%} of the variance of an estimate; the normal approximation is "
        "poor for rare categories and heavy-tailed columns: transform or merge them"
    ),
}


@dataclass(frozen=True)
class Interval:
    """A confidence interval for the coefficient of a feature.

    Attributes
    ----------
    name : str
        The feature.
    estimate, stderr, lower, upper : float
        Debiased coefficient per unit of the feature, its standard error and the ends of the
        interval; infinite if it is not identified.
    pvalue : float
        p-value of the hypothesis that the coefficient is zero.
    significant : bool
        Whether it is significant by the Benjamini–Hochberg procedure.
    scale : float, default=1.0
        Standard deviation of the feature.
    """

    name: str
    estimate: float
    stderr: float
    lower: float
    upper: float
    pvalue: float
    significant: bool
    scale: float = 1.0

    @property
    def identified(self) -> bool:
        """Whether the coefficient is identified."""
        return math.isfinite(self.stderr)

    @property
    def short_pvalue(self) -> str:
        """The p-value with two significant digits."""
        return f"<{_SMALL:.4f}" if self.pvalue < _SMALL else f"{self.pvalue:.2g}"

    @property
    def evidence(self) -> float:
        """Absolute estimate in standard errors; features are sorted by it."""
        if not self.stderr:  # a target without noise
            return math.inf if self.estimate else 0.0
        return abs(self.estimate) / self.stderr


@dataclass(frozen=True, eq=False)
class FitIntervals:
    """Confidence intervals for the coefficients of a fit. Returned by `fit_intervals`.

    Attributes
    ----------
    rows : tuple of Interval
        One for each feature.
    t, n_iter : int
        The iteration they are computed from, and the number of iterations.
    scores : str
        As in `steinpath.CoefficientIntervals`.
    warnings : tuple of str
        Reasons to doubt them.
    notes : tuple of str
        Notes.
    assumptions : str
        Their assumptions, in a sentence.
    n_tests : int
        Number of features that the false discovery rate refers to.
    effects : CoefficientIntervals, optional
        The intervals per standard deviation of the features.
    """

    rows: tuple[Interval, ...]
    t: int
    n_iter: int
    scores: str
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    assumptions: str
    n_tests: int
    effects: CoefficientIntervals | None = field(default=None, repr=False)

    @property
    def by_evidence(self) -> list[Interval]:
        """The intervals, smallest p-values first."""
        return sorted(self.rows, key=lambda row: -row.evidence)


def fit_intervals(fit: Fit, seed: int) -> FitIntervals:
    """Return confidence intervals for the coefficients of the linear model.

    They are computed from the path of the selected alpha. If there are categories, whose levels add
    up to a constant, the path is computed again without the most frequent level of each.

    Parameters
    ----------
    fit : Fit
        A regression.
    seed : int
        Random seed.
    """
    begin("computing confidence intervals", 0)
    data, encoding = fit.data, fit.data.encoded.encoding
    all_names, references = encoding.feature_names, reference_features(encoding)
    kept = np.delete(np.arange(len(all_names)), references)
    path, scale = _path_without(fit, kept) if references else (fit.tuning.path, data.scale)
    wanted = _most_likely(path, fit.effects[kept])
    names = [all_names[j] for j in kept]
    effects = coefficient_intervals(
        path,
        features=wanted,
        level=LEVEL,
        rng=seed,
        row_scale="norm",
        groups=data.groups,
        names=names,
    )
    found, p = effects.rescaled(scale), len(names)
    columns = (found.estimate, found.stderr, found.lower, found.upper, found.pvalue)
    rows = zip(
        (names[j] for j in wanted),
        *(column.tolist() for column in columns),
        found.significant(FDR, p).tolist(),
        scale[wanted].tolist(),
        strict=True,
    )
    return FitIntervals(
        rows=tuple(Interval(*row) for row in rows),
        t=found.t,
        n_iter=path.n_iter,
        scores=found.scores,
        warnings=tuple(_warnings(fit, found)),
        notes=tuple(_notes(fit, [all_names[j] for j in references], len(wanted), p)),
        assumptions=_assumptions(fit),
        n_tests=p,
        effects=effects,
    )


def _path_without(fit: Fit, kept: np.ndarray) -> tuple[Path, np.ndarray]:
    """Return the path of the selected alpha for some features, and the scales of these."""
    data, path = fit.data, fit.tuning.path
    rows, design = some_features(data, kept)
    # step sizes that are stable for all columns are stable for a subset
    again = run(
        design, rows.y, path.loss, path.penalty, path.algorithm, path.n_iter, fit_intercept=True
    )
    return again, rows.scale


def _most_likely(path: Path, effects: np.ndarray) -> np.ndarray:
    """Return the features with intervals: all, or those with the largest coefficients."""
    p = path.n_features
    if p <= MOST_FEATURES or uses_residuals(path):
        return np.arange(p)
    on_path = largest_sizes(to_numpy(path.coef))
    return np.sort(np.lexsort((-on_path, -np.abs(effects)))[:MOST_FEATURES])


def _warnings(fit: Fit, found: CoefficientIntervals) -> list[str]:
    messages = []
    for check in found.diagnostics:
        if not check.warns:
            continue
        message = check.message
        if check.name in _MESSAGES:
            message = _MESSAGES[check.name].format(value=check.value)
        elif check.name == "not identified":
            assert found.names is not None
            names = [n for n, s in zip(found.names, found.stderr, strict=True) if math.isinf(s)]
            message = (
                f"{counted(len(names), 'coefficient')} not identified ({_listed(names)}): the "
                "column is a linear combination of others; drop one of them with --drop"
            )
        messages.append(message)
    if fit.data.cv is not None:
        messages.append(
            "the standard errors assume independent rows, which is rarely true for time series; "
            "the intervals may be too short"
        )
    return messages


def _notes(fit: Fit, references: Sequence[str], k: int, p: int) -> list[str]:
    notes = []
    if references:
        notes.append(explain_references(references))
    if k < p:
        notes.append(
            f"only the {k} features with the largest coefficients, of {p:,}, have intervals, since "
            "with few rows each requires a regression on all others; the false discovery rate is "
            "adjusted for this selection, but the individual intervals are not"
        )
    if fit.data.groups is not None:
        notes.append("standard errors are robust to dependence within groups")
    return notes


def _listed(names: Sequence[str]) -> str:
    more = ", …" if len(names) > _LISTED else ""
    return ", ".join(f"{name!r:.60}" for name in names[:_LISTED]) + more


def _assumptions(fit: Fit) -> str:
    rows = "rows" if fit.data.groups is None else "groups of rows"
    return (
        f"The intervals assume independent {rows} and a linear model; they are not adjusted for "
        "the selection of alpha."
    )
