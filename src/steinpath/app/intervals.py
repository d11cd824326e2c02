"""Confidence intervals for the coefficients of a fitted model, as they are shown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from steinpath._support.arrays import to_numpy
from steinpath._support.progress import begin
from steinpath.app.defaults import FDR, LEVEL, MOST_FEATURES
from steinpath.app.fitted import Fitted
from steinpath.inference._coefficient_intervals import CoefficientIntervals
from steinpath.inference._scores import enough_rows
from steinpath.plots import largest_sizes

# Smallest p-value that is printed.
_SMALL = 1e-4


class Interval(NamedTuple):
    """The interval of a feature per unit; infinite if its coefficient is not identified."""

    name: str
    estimate: float
    stderr: float
    lower: float
    upper: float
    pvalue: float
    significant: bool
    #: Standard deviation of the feature.
    scale: float

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
    """Confidence intervals of a model, with what is said about them."""

    found: CoefficientIntervals
    rows: tuple[Interval, ...]
    n_iter: int
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    assumptions: str
    #: Number of features that the false discovery rate refers to.
    n_tests: int

    @property
    def by_evidence(self) -> list[Interval]:
        """The intervals, smallest p-values first."""
        return sorted(self.rows, key=lambda row: -row.evidence)


def fit_intervals(fitted: Fitted) -> FitIntervals:
    """Return confidence intervals for the coefficients of a regression.

    They are `coef_intervals` of the estimator without the most frequent level of each category. If
    each interval requires a regression on all other features, only the largest coefficients have
    one.
    """
    begin("computing confidence intervals", 0)
    model, names, references = fitted.main, fitted.feature_names, fitted.references
    kept, scale = np.delete(np.arange(len(names)), references), to_numpy(model.scale_)
    wanted = _most_likely(fitted, to_numpy(model.coef_) * scale, kept)
    found = model.coef_intervals(wanted, LEVEL, without=references, names=names)
    columns = found.estimate, found.stderr, found.lower, found.upper, found.pvalue
    others = found.significant(FDR, len(kept)), scale[wanted]
    numbers = (each.tolist() for each in (*columns, *others))
    rows = zip([names[j] for j in wanted], *numbers, strict=True)
    warnings, notes = list(found.warnings), [fitted.caption] if references else []
    if fitted.dependence == "time":
        warnings.append(
            "the standard errors assume independent rows, which is rarely true for time series; "
            "the intervals may be too short"
        )
    if len(wanted) < len(kept):
        notes.append(
            f"only the {len(wanted)} features with the largest coefficients, of {len(kept):,}, "
            "have intervals, since with few rows each requires a regression on all others; the "
            "false discovery rate is adjusted for this selection, but the individual intervals are "
            "not"
        )
    if grouped := fitted.dependence == "groups":
        notes.append("standard errors are robust to dependence within groups")
    return FitIntervals(
        found=found,
        rows=tuple(Interval(*row) for row in rows),
        n_iter=model.n_iter_,
        warnings=tuple(warnings),
        notes=tuple(notes),
        assumptions=(
            f"The intervals assume independent {'groups of rows' if grouped else 'rows'} and a "
            "linear model; they are not adjusted for the selection of alpha."
        ),
        n_tests=len(kept),
    )


def _most_likely(fitted: Fitted, effects: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return the features with intervals: all, or those with the largest coefficients."""
    if len(kept) <= MOST_FEATURES or enough_rows(fitted.shape[0] - 1, len(kept)):
        return kept
    on_path = largest_sizes(to_numpy(fitted.tuning.path.coef))
    order = np.lexsort((-on_path[kept], -np.abs(effects[kept])))
    return np.sort(kept[order[:MOST_FEATURES]])
