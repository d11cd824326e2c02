"""One fit: the rows of the user, counts expanded and columns standardised; and its callbacks."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import joblib
import numpy as np
from scipy import sparse
from sklearn.utils.validation import _check_sample_weight

from steinpath._support.arrays import (
    Array,
    in_own_precision,
    is_foreign,
    largest,
    like,
    take,
    to_numpy,
    unit_of,
)
from steinpath._support.validation import check_array, warn
from steinpath.design._base import Design
from steinpath.design._conversion import standardised
from steinpath.design._memmap import needs_blocks
from steinpath.design._transformed import InterceptDesign, check_sample_weight
from steinpath.engine._data import RunData
from steinpath.engine._loop import Watch
from steinpath.risk._after_choice import ChosenRisk

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """A placeholder."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method unchanged."""
        return method


__all__ = ["CallbackSupportMixin", "PreparedRows", "Progress", "prepare_rows", "with_callbacks"]

# Counts are expanded to rows up to this many entries of X, or four times the entries of X.
_MOST_ENTRIES = 2**26


class PreparedRows(NamedTuple):
    """The data of a fit, its standardisation, and the index of each row if rows changed."""

    X: Any
    y: Array
    weights: np.ndarray | None
    scale: Array
    centre: Array | None = None
    sources: np.ndarray | None = None

    def with_y(self, y: np.ndarray) -> PreparedRows:
        """Return the same rows with other responses, given those of the user's rows."""
        y = y if self.sources is None else y[self.sources]
        return self._replace(y=like(y, self.y))

    def own_units(self, coef: Array, intercept: float) -> tuple[Array, Any]:
        """Return the model of the original columns from that of the standardised ones."""
        coef = coef / self.scale
        if self.centre is not None:
            intercept -= float(self.centre @ coef)
        # of another library, an array of shape ()
        return coef, like(intercept, self.y) if is_foreign(self.X) else intercept

    def left_out(self, chosen: ChosenRisk) -> np.ndarray:
        """Return out-of-fold predictions of the user's rows; NaN where there are none."""
        sources = np.arange(self.y.shape[0]) if self.sources is None else self.sources
        places, count = sources[chosen.rows], int(sources.max()) + 1
        # repeated rows are held out once for each copy
        sums = np.bincount(places, chosen.predictions, minlength=count)
        with np.errstate(invalid="ignore"):
            return np.asarray(sums / np.bincount(places, minlength=count))

    def fingerprint(self, parameters: dict[str, Any]) -> str | None:
        """Return a hash of data and parameters; None if X is a file, or a hash is not possible."""
        if needs_blocks(self.X):
            return None
        X, is_sparse = self.X, bool(sparse.issparse(self.X))
        place = type(X), str(getattr(X, "device", "cpu")), X.shape
        entries = (X.data, X.indices, X.indptr) if is_sparse else to_numpy(X)
        with suppress(Exception):  # functions and objects of the user that cannot be pickled
            return str(joblib.hash((place, entries, to_numpy(self.y), self.weights, parameters)))
        return None


def prepare_rows(
    X: Any, y: Any, sample_weight: Any, expand: bool, **how: Any
) -> tuple[PreparedRows, Design]:
    """Return the rows of positive weight, and a `standardised` design.

    Integer weights may be expanded to repeated rows.
    """
    X, y, weights, sources = _weighted(X, y, sample_weight, expand)
    if isinstance(X, np.ndarray) and X.dtype.kind != "f" and not needs_blocks(X):
        X = X.astype(float)  # rows taken from a file
    design, scale, means = standardised(X, weights, **how)
    if weights is None and sources is not None and len(np.unique(sources)) < len(sources):
        design.source_rows = sources
    y = check_array("y", y, ndim=1, reference=in_own_precision(y, design.example))
    return PreparedRows(X, y, weights, scale, means, sources), design


def _weighted(
    X: Any, y: Array, sample_weight: Any, expand: bool
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
    if isinstance(X, Design):  # rows on a cluster stay where they are
        return X, y, check_sample_weight(weights, X), None
    if len(kept) < len(weights):
        X, y, weights, sources = _rows(X, kept), take(y, kept), weights[kept], kept
    if (count := len(weights)) < 2:
        raise ValueError(
            f"sample_weight is positive for n_samples = {count}; at least 2 are required"
        )
    if np.all(weights == weights[0]):
        return X, y, None, sources
    if not expand or not expands(weights, X.shape):  # only proportions matter
        return X, y, weights / unit_of(largest(weights)), sources
    warn(
        "sample_weight is treated as frequencies, since all are integers: each row stands for that "
        "many independent observations; if the weights mean something else, the estimated risk is "
        "too small: divide them by their mean"
    )
    repeated = np.repeat(np.arange(len(weights)), weights.astype(int))
    return _rows(X, repeated), take(y, repeated), None, kept[repeated]


def expands(weights: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether weights of the rows of X are counts, which are expanded into repeated rows."""
    with np.errstate(over="ignore"):
        total = weights.sum()
    size = math.prod(shape)
    return not np.any(weights % 1) and total * size / shape[0] <= max(_MOST_ENTRIES, 4 * size)


def _rows(X: Any, where: np.ndarray) -> Any:
    return take(X, where) if is_foreign(X) else X[where]


class Progress:
    """Calls callbacks after every iteration, with attributes ``known`` before the fit.

    ``count`` fits run one after the other.
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        sample_weight: Any,
        known: dict[str, Any],
        count: int = 1,
    ):
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self._facts = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        # number of iterations, if it is known
        self._n_iter = None if isinstance(estimator.n_iter, str) else estimator.n_iter
        self._known = known
        self._root: Any = None  # contexts of the fit and of the current iteration
        self._open: Any = None
        if hasattr(estimator, "_init_callback_context"):
            most = None if self._n_iter is None else count * self._n_iter
            self._root = estimator._init_callback_context(max_subtasks=most)
            self._root.call_on_fit_task_begin(**self._facts)
        self._anyone_listens = bool(getattr(estimator, "_skl_callbacks", ()))

    @property
    def listened(self) -> bool:
        """Whether there are callbacks."""
        return self._root is not None and self._anyone_listens

    def watch(self, rows: PreparedRows, data: RunData, known: int) -> Watch | None:
        """Return what to call after each iteration but the ``known`` ones, if anything."""
        if not self.listened or known == self._n_iter:
            return None

        def model(b: Array) -> dict[str, Any]:
            intercept = 0.0
            if isinstance(data.design, InterceptDesign):
                intercept = float(data.design.intercepts(b.T)[0] + data.level[0])
            units = rows.own_units(b[: rows.scale.shape[0], 0], intercept)
            return {**self._known, **self._facts["estimator"]._model(*units)}

        def after(t: int, b: Array) -> bool:
            if self._open is None:
                self._open = self._begin()
            attributes = partial(model, b) if b.shape[1] == 1 else None
            stop = self._open.call_on_fit_task_end(
                **self._facts, reconstruction_attributes=attributes
            )
            # whether there is a next iteration may be unknown until it has run
            unsure = self._n_iter is None or t == self._n_iter
            self._open = None if stop or unsure else self._begin()
            return bool(stop)

        if self._n_iter is not None:
            self._open = self._begin()
        return after

    def end(self) -> None:
        """Report the end of the fit."""
        if self._root is not None:
            self._root.call_on_fit_task_end(**self._facts, reconstruction_attributes=dict)

    def _begin(self) -> Any:
        context = self._root.subcontext(task_name="iteration")
        return context.call_on_fit_task_begin(**self._facts)
