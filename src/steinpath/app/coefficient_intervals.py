"""Confidence intervals for the coefficients of a fit, in units of the columns of the file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath._support.progress import begin
from steinpath.app.encoding import Encoding
from steinpath.app.encoding.messages import counted
from steinpath.app.fitting import Fit, some_features
from steinpath.engine._path import Path
from steinpath.engine._run import run
from steinpath.inference._coefficient_intervals import CoefficientIntervals, coefficient_intervals
from steinpath.inference._scores import uses_residuals
from steinpath.plots._coefficients import largest_sizes

#: Confidence level of each interval, and the false discovery rate at which features are marked.
LEVEL, FDR = 0.95, 0.1
#: Features that have intervals, if each of them takes a regression on all others.
MOST_FEATURES = 200
# Names that a message lists; p-values below this are not told from each other.
_LISTED, _SMALL = 5, 1e-4

# Checks whose messages name columns by number, or arguments of Python functions.
_MESSAGES = {
    "total response": (
        "the response of the duals to the residuals is small or uncertain, so that the intervals "
        "are unreliable; use more rows, or another loss"
    ),
    "correlated scores": (
        "some features are still correlated with others after the node-wise lasso (up to "
        "{value:.2f}): their intervals may be off centre; use more rows, or drop columns that "
        "nearly repeat others by --drop"
    ),
    "dominant rows": (
        "a single row has {value:.0%} of the variance of an estimate: the normal approximation is "
        "rough for rare categories and heavy-tailed columns; transform or merge these"
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
        Change of the prediction per unit of the feature, without the bias of the penalty, its
        standard error and the ends of the interval; infinite if it is not identified.
    pvalue : float
        Of the hypothesis that the coefficient is zero.
    significant : bool
        Whether the Benjamini–Hochberg procedure declares it nonzero.
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
        """Whether the coefficient can be told from others."""
        return math.isfinite(self.stderr)

    @property
    def short_pvalue(self) -> str:
        """The p-value with two digits."""
        return f"<{_SMALL:.4f}" if self.pvalue < _SMALL else f"{self.pvalue:.2g}"

    @property
    def evidence(self) -> float:
        """Estimate in standard errors: what features are sorted by, the largest first."""
        if not self.stderr:  # responses without noise
            return math.inf if self.estimate else 0.0
        return abs(self.estimate) / self.stderr


@dataclass(frozen=True, eq=False)
class FitIntervals:
    """Confidence intervals for the coefficients of a fit. Made by `fit_intervals`.

    Attributes
    ----------
    rows : tuple of Interval
        One for each feature.
    t, n_iter : int
        The iterate they are computed from, and how many there are.
    scores : str
        As of `steinpath.CoefficientIntervals`.
    warnings : tuple of str
        Reasons not to trust them.
    notes : tuple of str
        What else should be known.
    assumptions : str
        What they assume, in a sentence.
    n_tests : int
        Number of features that the false discovery rate is about.
    effects : CoefficientIntervals, optional
        The same per standard deviation of the features.
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
        """The intervals, those with the smallest p-values first."""
        return sorted(self.rows, key=lambda row: -row.evidence)


def fit_intervals(fit: Fit, seed: int) -> FitIntervals:
    """Return confidence intervals for the coefficients of the linear model.

    They are computed from the path of the chosen alpha. If there are categories, whose levels add
    up to a constant, that is run again without the most frequent level of each.

    Parameters
    ----------
    fit : Fit
        A regression.
    seed : int
        Of the random numbers.
    """
    begin("computing confidence intervals", 0)
    data, encoding = fit.data, fit.data.encoded.encoding
    all_names, references = encoding.feature_names, _references(encoding)
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


def _references(encoding: Encoding) -> list[int]:
    """Return the feature of the most frequent level of each category."""
    found, start = [], 0
    for column in encoding.columns:
        if column.kind == "category":
            found.append(start)
        start += len(column.features)
    return found


def _path_without(fit: Fit, kept: np.ndarray) -> tuple[Path, np.ndarray]:
    """Run the chosen alpha on some of the features; return the path, and their scales."""
    data, path = fit.data, fit.tuning.path
    rows, design = some_features(data, kept)
    # step sizes that are safe for all columns are safe for some of them
    again = run(
        design, rows.y, path.loss, path.penalty, path.algorithm, path.n_iter, fit_intercept=True
    )
    return again, rows.scale


def _most_likely(path: Path, effects: np.ndarray) -> np.ndarray:
    """Return which features have intervals: all, or those with the largest coefficients."""
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
                f"{counted(len(names), 'coefficient')} cannot be told from others "
                f"({_listed(names)}): the column is a linear combination of others; drop one of "
                "these by --drop"
            )
        messages.append(message)
    if fit.data.cv is not None:
        messages.append(
            "rows in the order of time are rarely independent, which the standard errors assume; "
            "intervals may be too short"
        )
    return messages


def _notes(fit: Fit, references: Sequence[str], k: int, p: int) -> list[str]:
    notes = []
    if references:
        notes.append(
            "coefficients of a category are differences from its most frequent level, which the "
            f"intervals leave out ({_listed(references)}); the model has all levels"
        )
    if k < p:
        notes.append(
            f"intervals are for the {k} features with the largest coefficients of {p:,}, since "
            "with so few rows each takes a regression on all others; the false discovery rate "
            "allows for that choice, and each interval by itself does not"
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
        f"The intervals assume independent {rows} and a linear model; they do not allow for the "
        "choice of the penalty."
    )
