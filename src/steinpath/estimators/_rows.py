"""Rows of the user: read, checked, counts expanded, columns standardised."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import _check_sample_weight

from steinpath._support.arrays import (
    Array,
    copied,
    in_own_precision,
    is_foreign,
    largest,
    like,
    namespace,
    take,
    to_numpy,
    unit_of,
)
from steinpath._support.validation import check_array, warn
from steinpath.design._base import Design
from steinpath.design._conversion import standardised
from steinpath.design._memmap import needs_blocks
from steinpath.risk._after_choice import ChosenRisk

# Counts are expanded to rows up to this many entries of X, or four times the entries of X.
_MOST_ENTRIES = 2**26


class PreparedRows(NamedTuple):
    """The data of a fit: columns not standardised, weights None if uniform.

    ``scale`` and ``centre`` standardise the columns. ``sources`` has the index of each row in the
    data of the user, None if rows are unchanged.
    """

    X: Any
    y: Array
    weights: np.ndarray | None
    scale: Array
    centre: Array | None = None
    sources: np.ndarray | None = None

    def own_units(self, coef: Array, intercept: float) -> tuple[Array, Any]:
        """Return the model of the original columns from that of the standardised ones.

        The intercept is a float, or an array of shape () if X is an array of another library.
        """
        coef = coef / self.scale
        if self.centre is not None:
            intercept -= float(self.centre @ coef)
        return coef, like(intercept, self.y) if is_foreign(self.X) else intercept

    def left_out(self, chosen: ChosenRisk) -> np.ndarray:
        """Return out-of-fold predictions of the user's rows; NaN where there are none."""
        sources = np.arange(self.y.shape[0]) if self.sources is None else self.sources
        places, count = sources[chosen.rows], int(sources.max()) + 1
        # repeated rows are held out once for each copy
        sums = np.bincount(places, chosen.predictions, minlength=count)
        with np.errstate(invalid="ignore"):
            return np.asarray(sums / np.bincount(places, minlength=count))

    def copy(self) -> PreparedRows:
        """Return a copy that is independent of later changes of the data."""
        weights = None if self.weights is None else self.weights.copy()
        X = self.X if needs_blocks(self.X) else _copy(self.X)
        return self._replace(X=X, y=copied(self.y), weights=weights)

    def equal(self, other: PreparedRows) -> bool:
        """Whether the data are the same; files are always regarded as changed."""
        kinds = [(_kind(rows.X), rows.X.shape, rows.X.dtype) for rows in (self, other)]
        if kinds[0] != kinds[1] or needs_blocks(self.X) or needs_blocks(other.X):
            return False
        same_X = (self.X != other.X).nnz == 0 if _is_sparse(self.X) else _equal(self.X, other.X)
        mine, theirs = (np.zeros(0) if w is None else w for w in (self.weights, other.weights))
        same_rows = _equal(self.y, other.y) and _equal(mine, theirs)
        return bool(same_X and same_rows and _equal(self.scale, other.scale))


def _kind(X: Any) -> tuple[Any, str]:
    """Return the library and the device of a matrix."""
    return type(X) if is_foreign(X) else _is_sparse(X), str(getattr(X, "device", "cpu"))


def _copy(X: Any) -> Any:
    return X.copy() if _is_sparse(X) else copied(X)


def _equal(first: Array, second: Array) -> bool:
    return first.shape == second.shape and bool(namespace(first).all(first == second))


def prepare_rows(
    X: Any, y: Any, sample_weight: Any, needs_risk: bool, **how: Any
) -> tuple[PreparedRows, Design]:
    """Return the rows, and a design of their columns, `standardised` in the way given.

    If the risk is needed, counts are expanded, and other weights raise an error.
    """
    X, y, weights, sources = _weighted(X, y, sample_weight, needs_risk)
    if isinstance(X, np.ndarray) and X.dtype.kind != "f" and not needs_blocks(X):
        X = X.astype(float)  # rows taken from a file
    design, scale, means = standardised(X, weights, **how)
    if weights is None and sources is not None and len(np.unique(sources)) < len(sources):
        design.source_rows = sources
    y = check_array("y", y, ndim=1, reference=in_own_precision(y, design.example))
    return PreparedRows(X, y, weights, scale, means, sources), design


def _weighted(
    X: Any, y: Array, sample_weight: Any, needs_risk: bool
) -> tuple[Any, Array, np.ndarray | None, np.ndarray | None]:
    """Return X, y, weights that are not counts, and the original index of each row."""
    if sample_weight is None:
        return X, y, None, None
    if is_foreign(sample_weight):  # read on the host
        sample_weight = to_numpy(sample_weight)
    if np.iscomplexobj(sample_weight):
        raise TypeError("sample_weight must be real, got complex numbers")
    rows = np.empty(X.shape[0])
    weights = _check_sample_weight(sample_weight, rows, dtype=float, ensure_non_negative=True)
    kept, sources = np.flatnonzero(weights), None
    if len(kept) < len(weights):
        X, y, weights, sources = _rows(X, kept), take(y, kept), weights[kept], kept
    if len(weights) < 2:
        count = len(weights)
        raise ValueError(
            f"sample_weight is positive for n_samples = {count}; at least 2 are required"
        )
    if np.all(weights == weights[0]):
        return X, y, None, sources
    if not needs_risk:  # only proportions matter
        return X, y, weights / unit_of(largest(weights)), sources
    if np.any(weights % 1):
        raise ValueError(
            "the risk cannot be estimated with non-uniform sample weights, but selection requires "
            "it; use integers if sample_weight are frequencies, or a number for alpha and "
            "select='last' or an iteration"
        )
    with np.errstate(over="ignore"):
        count = weights.sum()
    if count * X.shape[1] > max(_MOST_ENTRIES, 4 * X.shape[0] * X.shape[1]):
        raise ValueError(
            f"sample_weight adds up to {count:.3g} rows, too many to expand for the risk estimate; "
            "use a number for alpha and select='last' or an iteration"
        )
    warn(
        "sample_weight is treated as frequencies: each row stands for that many independent "
        "observations; if the weights mean something else, the estimated risk is too small: use "
        "select='last' and a number for alpha"
    )
    repeated = np.repeat(np.arange(len(weights)), weights.astype(int))
    return _rows(X, repeated), take(y, repeated), None, kept[repeated]


def _rows(X: Any, where: np.ndarray) -> Any:
    return take(X, where) if is_foreign(X) else X[where]


def _is_sparse(X: Any) -> bool:
    return bool(sparse.issparse(X))


def columns_named(features: Any, names: np.ndarray | None) -> Any:
    """Return column indices of features that are given by name."""
    if isinstance(features, str):
        features = [features]
    if np.ndim(features) == 0 or not any(isinstance(each, str) for each in features):
        return features
    if names is None:
        raise ValueError(
            "features are given by name, but X had no column names in fit; use column indices"
        )
    places = {name: place for place, name in enumerate(names)}
    unknown = [name for name in features if name not in places]
    if unknown:
        raise ValueError(f"X had no column {unknown[0]!r} in fit")
    return [places[name] for name in features]
