"""Coefficients as they are reported: levels of a category relative to its most frequent level.

A model has a coefficient for each level, and the levels add up to one in every row, so only
differences between levels can be interpreted. Subtracting the coefficient of the reference level
from those of all levels, and adding it to the intercept, leaves all predictions unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steinpath.app.encoding import Encoding

# Reference levels that are listed.
_LISTED = 3


@dataclass(frozen=True, eq=False)
class ReportedCoefficients:
    """Coefficients relative to reference levels.

    Attributes
    ----------
    names : list of str
        The features, without the reference levels.
    coef, effects : ndarray of shape (p,)
        Coefficients per unit and per standard deviation of the features.
    intercept : float
        Prediction at the reference levels, where all other features are zero.
    references : list of str
        The features of the reference levels.
    """

    names: list[str]
    coef: np.ndarray
    effects: np.ndarray
    intercept: float
    references: list[str]

    @property
    def nonzeros(self) -> int:
        """Number of nonzero coefficients."""
        return int(np.count_nonzero(self.coef))

    @property
    def caption(self) -> str:
        """Meaning of the coefficients of categories; empty if there are none."""
        return explain_references(self.references)


def explain_references(references: Sequence[str]) -> str:
    """Return the meaning of coefficients of categories, given the features of the references."""
    if not references:
        return ""
    more = ", …" if len(references) > _LISTED else ""
    listed = ", ".join(f"{name!r:.60}" for name in references[:_LISTED]) + more
    return f"coefficients of a category are differences from its most frequent level ({listed})"


def reference_features(encoding: Encoding) -> list[int]:
    """Return the index of the feature of the most frequent level of each category."""
    return [levels.start for levels in _categories(encoding)]


def _categories(encoding: Encoding) -> list[slice]:
    """Return the features of each category, of which the first is the most frequent level."""
    ends = np.cumsum([0, *(len(column.features) for column in encoding.columns)]).tolist()
    return [
        slice(start, stop)
        for column, start, stop in zip(encoding.columns, ends, ends[1:], strict=False)
        if column.kind == "category"
    ]


def report_coefficients(
    encoding: Encoding, effects: np.ndarray, scale: np.ndarray, intercept: float
) -> ReportedCoefficients:
    """Return coefficients relative to reference levels.

    Parameters
    ----------
    encoding : Encoding
        The features.
    effects : ndarray of shape (p,)
        Coefficients as fitted, per standard deviation of the features.
    scale : ndarray of shape (p,)
        Standard deviations of the features.
    intercept : float
        Intercept as fitted.
    """
    references, coef = reference_features(encoding), effects / scale
    relative, per_deviation = coef.copy(), effects.copy()
    for levels in _categories(encoding):
        relative[levels] -= coef[levels.start]
        per_deviation[levels] = relative[levels] * scale[levels]
    kept = np.delete(np.arange(len(coef)), references)
    names = encoding.feature_names
    return ReportedCoefficients(
        [names[j] for j in kept],
        relative[kept],
        per_deviation[kept],
        float(intercept + coef[references].sum()),
        [names[j] for j in references],
    )
