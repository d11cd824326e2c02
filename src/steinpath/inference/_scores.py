r"""Scores: the part of a column of X that the other columns do not explain.

The score of coefficient j is :math:`z_j = X \Omega e_j / \Omega_{jj}` with the precision matrix
:math:`\Omega` of the rows, or an estimate of it:

- *covariance*: Ω is known.
- *residuals*: the residuals of the least-squares regression of column j on all others, for X with
  many more rows than columns. Conditionally on the other columns they vary in the orthogonal
  complement of these only, whose dimension replaces n.
- *node-wise lasso*: the residuals of the least-squares regression on columns that the scaled lasso
  selects, with penalty :math:`\hat\sigma_j \sqrt{2 \log p / n}`, otherwise. They vary in the
  orthogonal complement of the selected columns.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, pinvh

from steinpath._support.arrays import Array, cast, like, namespace, take, to_numpy
from steinpath._support.validation import check_choice, check_covariance
from steinpath.design._base import Design
from steinpath.design._transformed import InterceptDesign
from steinpath.engine._path import Path
from steinpath.engine._traces import row_squares_of
from steinpath.risk._evidence import columns_of, features_of

# Eigenvalues of the Gram matrix below this fraction of the largest are rounding errors, in double
# precision and in single.
_RANK_TOL, _SINGLE = 1e-10, 1e-5
# Unexplained fraction of a column from which on its coefficient is identified, and correlation of
# its score with another column from which on they are regarded as duplicates.
_IDENTIFIED, _COPIES = 1e-7, 1 - 1e-5
# Random signs that estimate a trace of order n, with relative error 1 / √(32 n).
_SIGNS = 64
# Columns that are read together.
_BLOCK = 256
# Scores that represent all of them.
_SOME = 32
# Node-wise lasso: rounds that find the size of the residuals, its relative tolerance, and that of
# duality gaps; and the share of the dimensions that selected columns may use.
_ROUNDS, _SETTLED, _GAP, _SELECTED = 30, 1e-4, 1e-6, 0.5
# Columns up to which all inner products are computed; with more, only those of this many columns,
# the most correlated ones, for each regression.
_ALL_COLUMNS, _CANDIDATES = 6000, 1500


class ReaderOutside(NamedTuple):
    """Restriction of traces to the complement of the columns selected for a score.

    The dimension of the complement is replaced by that of all rows, as in the norms of the scores.
    """

    columns: np.ndarray
    weights: np.ndarray  # of the images of each probe, (number of columns, m)
    scale: float

    def read(self, traces: np.ndarray, images: np.ndarray) -> np.ndarray:
        """Return traces (m, r) there, given products of responses and columns of X (p, m, r)."""
        explained = np.einsum("am,amr->mr", self.weights, images[self.columns])
        return np.asarray((traces - explained) * self.scale)


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of some coefficients (k of them)."""

    #: "covariance", "residuals" or "node-wise lasso".
    kind: str
    path: Path
    #: Indices of the columns, of shape (k,).
    features: np.ndarray
    #: Replacement of the diagonal of the precision matrix, of shape (k,); zero where the column is
    #: constant or a linear combination of others, so that its coefficient is not identified.
    factor: np.ndarray
    #: Standard deviation of ``factor * zᵀu`` for a dual of norm 1, of shape (k,).
    unit: np.ndarray
    #: Squared row scales, with mean 1, if rows have scales.
    row_squares: Array | None = field(repr=False)
    #: Largest correlation of each score with another column, where it may be nonzero.
    correlation: np.ndarray | None = None
    #: The scores as combinations of the columns of the design, of shape (p, k).
    combinations: Array = field(kw_only=True, repr=False)
    #: Dimension of the space in which the scores vary, if that is less than n.
    dimension: float | None = None
    #: Inverse of the Gram matrix, where scores vary in the complement of the columns only.
    inverse: Array | None = field(default=None, repr=False)
    #: Columns selected by the regression of each score, and inner products of all columns.
    selected: tuple[np.ndarray, ...] | None = field(default=None, repr=False)
    gram: np.ndarray | None = field(default=None, repr=False)
    #: Names of the features, if they are known.
    names: tuple[str, ...] | None = None

    @property
    def identified(self) -> np.ndarray:
        return np.asarray(self.factor > 0)

    @property
    def some(self) -> np.ndarray:
        """Indices of a few scores, whose mean represents all of them."""
        return np.unique(np.linspace(0, len(self.features) - 1, _SOME).astype(int))

    @property
    def degrees_of_freedom(self) -> np.ndarray:
        """Dimensions that the norm of a dual is estimated from, for each score."""
        if self.kind == "covariance":
            return np.full(len(self.features), np.inf)
        used = [float(len(columns)) for columns in self.selected or ()] or 0.0
        free = self._free if self.dimension is None else self.dimension
        return np.full(len(self.features), float(free)) - used

    @property
    def share(self) -> float:
        """Fraction of the dimensions of the duals in which the scores vary."""
        return (self.dimension or self.path.n_samples) / self.path.n_samples

    @property
    def plain(self) -> Design:
        """The design without sample weights, with columns centred by all rows alike."""
        return _plain(self.path)

    @property
    def row_sizes(self) -> Array:
        """Scales of the rows, with mean square 1."""
        assert self.row_squares is not None
        return self.row_squares**0.5

    def listed(self, which: Sequence[int]) -> str:
        """Return the names of some columns for a message, or their indices without names."""
        named = [repr(self.names[k]) if self.names else str(self.features[k]) for k in which]
        return ", ".join(named)

    @property
    def self_normalised(self) -> bool:
        """Whether `factor` has the norms of the scores instead of their expectation."""
        return self.kind != "covariance"

    def read(self, probes: Array) -> Array:
        """Return the block (n, m) that reads the responses of the duals to these probes."""
        return self.path.data.of_copies(self.varying(probes).T).T

    def readers_outside(self, probes: Array, which: np.ndarray) -> list[ReaderOutside]:
        """Return what restricts traces of responses to these probes, for some scores.

        Empty if traces are the same for all scores, whose readings need no restriction.
        """
        if self.selected is None:
            return []
        n, of_probes = self.path.n_samples, to_numpy(self.plain.adjoint(probes)).astype(float)
        readers = []
        for columns, solve in self._selections(which):
            weights, used = solve(of_probes[columns]), float(len(columns))
            if self.row_squares is not None:  # the dimensions of rows of unequal size
                used = float(np.sum(of_probes[columns] * weights)) / probes.shape[1]
            readers.append(ReaderOutside(columns, weights, n / max(self._free - used, 1.0)))
        return readers

    def norms_outside(self, t: slice, which: np.ndarray) -> np.ndarray:
        """Return norms of duals there relative to `norms`, for some scores: (k or 1, T)."""
        n = self.path.n_samples
        if self.selected is None:
            return np.ones((1, 1))
        duals = self.varying(self.duals(t).T)
        squares = self.path.design.over_rows(namespace(duals).sum(duals**2, axis=0))
        squares = np.maximum(to_numpy(squares).astype(float), 1e-300)
        images = to_numpy(self.path.etas[t, :]).astype(float).T * math.sqrt(n)
        found = []
        for columns, solve in self._selections(which):
            explained = np.sum(images[columns] * solve(images[columns]), axis=0)
            shares = np.maximum(1 - explained / squares, 0.0)
            found.append(np.sqrt(shares * n / (self._free - len(columns))))
        return np.stack(found)

    @property
    def _free(self) -> int:
        return self.path.n_samples - self.path.fit_intercept

    def _selections(self, which: np.ndarray) -> Iterator[tuple[np.ndarray, Callable[..., Any]]]:
        """Yield the columns selected for some scores, and a function that inverts their Gram."""
        assert self.selected is not None
        assert self.gram is not None
        for k in which:
            columns = self.selected[k]
            yield columns, _inverse(self.gram[np.ix_(columns, columns)])

    def duals(self, t: slice) -> Array:
        """Return duals of some iterations, (T, n), those of a row summed over its copies."""
        return self.path.data.of_copies(self.path.duals[t, :])

    def norms(self) -> np.ndarray:
        """Norms of the duals ``u^0 … u^N`` in the space in which the scores vary."""
        duals, over_rows = self.duals(slice(None)), self.path.design.over_rows
        xp = namespace(duals)
        if self.row_squares is not None:
            weighted = self.row_squares[:, None] * self.varying(duals.T) ** 2
            squares = over_rows(xp.sum(weighted, axis=0))
        else:
            squares = over_rows(xp.sum(duals**2, axis=1))
            if self.path.fit_intercept:
                squares = squares - over_rows(xp.sum(duals, axis=1)) ** 2 / self.path.n_samples
            if self.inverse is not None:
                images = self.path.etas[:, : self.inverse.shape[0]]
                images = cast(images, self.inverse.dtype) * math.sqrt(self.path.n_samples)
                explained = xp.sum((images @ self.inverse) * images, axis=1)
                squares = cast(squares, self.inverse.dtype) - explained
        return np.asarray(np.sqrt(np.maximum(to_numpy(squares).astype(float), 0.0)))

    def products(self, t: int) -> np.ndarray:
        """Return ``factor * zᵀu^t``, of shape (k,)."""
        images = self.path.etas[t, : self.combinations.shape[0]]
        products = self.combinations.T @ cast(images, self.combinations.dtype)
        return np.asarray(
            self.factor * to_numpy(products).astype(float) * math.sqrt(self.path.n_samples)
        )

    def columns(self, which: np.ndarray) -> np.ndarray:
        """Return some scores, of shape (n, len(which)), for the rows of this process."""
        design = self.plain
        block = cast(take(self.combinations, which, axis=1), design.example.dtype)
        return to_numpy(design.forward(self._with_intercept(block))).astype(float)

    def varying(self, block: Array) -> Array:
        """Project a block (n, m) on the space in which the scores vary."""
        xp, design = namespace(block), self.plain
        if self.path.fit_intercept:
            total = design.over_rows(xp.sum(block, axis=0, keepdims=True))
            block = block - total / self.path.n_samples
        if self.inverse is None:
            return block
        images = cast(design.adjoint(block), self.inverse.dtype)[: self.inverse.shape[0], :]
        inner = cast(self.inverse @ images, block.dtype)
        return block - design.forward(self._with_intercept(inner))

    def _with_intercept(self, block: Array) -> Array:
        """Append zeros for the column of an intercept to a block (p, m)."""
        if not self.path.fit_intercept:
            return block
        xp = namespace(block)
        return xp.concat([block, xp.zeros_like(block[:1, :])], axis=0)


def scores_of(
    path: Path, features: np.ndarray, kind: str, covariance: Any, precision: Any, row_scale: Any
) -> Scores:
    """Return scores by the covariance, if it is known, and otherwise of this kind."""
    check_choice("scores", kind, ("auto", "residuals", "node-wise lasso"))
    squares = row_squares_of(path, row_scale)
    if covariance is not None or precision is not None:
        if covariance is not None and precision is not None:
            raise ValueError("pass either covariance or precision, not both")
        if kind != "auto":
            raise ValueError("scores has no effect if covariance or precision is given; omit it")
        return known_scores(path, covariance, precision, features, squares)
    n, p = path.n_samples - path.fit_intercept, path.n_features
    if kind == "node-wise lasso" or (kind == "auto" and not enough_rows(n, p)):
        return nodewise_scores(path, features, squares)
    if n <= p:
        raise ValueError(
            f"scores='residuals' needs more rows than columns, but X has {path.n_samples} rows and "
            f"{p} columns; use scores='node-wise lasso'"
        )
    return residual_scores(path, features, squares)


def _plain(path: Path) -> Design:
    """Return the design without sample weights, with columns centred by all rows alike."""
    if path.data.sample_weight is None:
        return path.design
    features = features_of(path.design).unweighted
    return InterceptDesign(features) if path.fit_intercept else features


def enough_rows(n: int, p: int) -> bool:
    """Whether n rows, less one for an intercept, are enough for least-squares scores."""
    return n >= 3 * p


# ----- Known covariance -----


def known_scores(
    path: Path, covariance: Any, precision: Any, features: np.ndarray, row_squares: Array | None
) -> Scores:
    """Return scores by the covariance of the rows, or by its inverse."""
    name, given = ("covariance", covariance) if precision is None else ("precision", precision)
    matrix = to_numpy(check_covariance(given, path.n_features, path.iterates, name)).astype(float)
    columns, k = matrix[:, features], np.arange(len(features))
    if precision is None:
        try:
            columns = np.linalg.solve(matrix, np.eye(path.n_features)[:, features])
        except np.linalg.LinAlgError:
            columns = np.full_like(columns, np.nan)
        if not np.all(np.isfinite(columns)) or np.any(columns[features, k] <= 0):
            raise ValueError(
                "covariance is singular, but the scores need its inverse; drop columns that are "
                "linear combinations of others, or omit the covariance"
            )
    factor = columns[features, k]
    if np.any(factor <= 0):
        raise ValueError("precision must have a positive diagonal")
    shares = _in_double(columns / factor, path)
    unit = np.sqrt(factor)
    return Scores("covariance", path, features, factor, unit, row_squares, combinations=shares)


# ----- Least squares -----


def residual_scores(path: Path, features: np.ndarray, row_squares: Array | None) -> Scores:
    """Return residuals of least-squares regressions, by the inverse of the Gram matrix."""
    n, p = path.n_samples, path.n_features
    scales = column_scales(_plain(path), p)
    units = np.where(scales > 0, scales, 1.0) * math.sqrt(n)
    values, vectors = np.linalg.eigh(_gram(path, p) / np.outer(units, units))
    positive = values > _RANK_TOL * max(values[-1], 1e-300)
    inverse = (vectors[:, positive] / values[positive]) @ vectors[:, positive].T
    # the part of each coefficient's direction in the row space of X
    visible = np.sum(vectors[features][:, positive] ** 2, axis=1)
    diagonal = inverse[features, features]
    identified = (scales[features] > 0) & (visible > 1 - _IDENTIFIED) & (diagonal > 0)
    factor = np.where(identified, diagonal, 0.0) / units[features] ** 2
    inverse = inverse / np.outer(units, units)
    combinations = _in_double(inverse[:, features] / np.where(identified, factor, 1.0), path)
    args = "residuals", path, features, factor, np.sqrt(factor), row_squares
    scores = Scores(*args, combinations=combinations, inverse=_in_double(inverse, path))
    # the dimension of the complement, with rows weighted by their squared scales
    free = float(n - path.fit_intercept - int(positive.sum()))
    if row_squares is not None:
        signs = path.design.local(path.design.signs(np.random.default_rng(0), n, _SIGNS))
        read = row_squares[:, None] * signs
        total = path.design.over_rows(namespace(signs).sum(signs * scores.varying(read)))
        free = float(total) / _SIGNS
    return replace(scores, factor=free * factor, unit=np.sqrt(free * factor), dimension=free)


def _gram(path: Path, p: int) -> np.ndarray:
    design = _plain(path)
    if design.has_gram:
        return to_numpy(design.gram(dtype=namespace(path.y).float64)).astype(float)[:p, :p]
    blocks = (design.adjoint(columns_of(design, which)) for which in blocks_of(p))
    gram = np.hstack([to_numpy(block).astype(float)[:p] for block in blocks])
    return np.asarray((gram + gram.T) / 2)


def _in_double(values: np.ndarray, path: Path) -> Array:
    """Return values in double precision, on the device of the path."""
    return like(values, like(np.zeros(1), cast(path.iterates[:1, 0], namespace(path.y).float64)))


# ----- Node-wise lasso -----


def nodewise_scores(path: Path, features: np.ndarray, row_squares: Array | None) -> Scores:
    """Return residuals of regressions on columns that lassos select; zero for constant columns."""
    n, p, design = path.n_samples, path.n_features, _plain(path)
    scales = column_scales(design, p)
    units = np.where(scales > 0, scales, 1.0)
    gram = _gram(path, p) if p <= _ALL_COLUMNS else None
    correlations = None if gram is None else _correlations(gram, scales, n)
    combinations = np.zeros((p, len(features)))
    selected, squares, largest = [], np.zeros(len(features)), np.zeros(len(features))
    for k, j in enumerate(features):
        if correlations is None:
            places, of_these = _candidates(design, j, scales)
        else:
            places, of_these = np.arange(p), correlations
        own = int(np.flatnonzero(places == j)[0])
        coef, squares[k], largest[k] = _regression(of_these, own, n - path.fit_intercept)
        combinations[places, k] = -coef * scales[j] / units[places]
        combinations[j, k] = 1.0
        selected.append(places[coef != 0])
    rounding = max(_IDENTIFIED, 32 * float(namespace(path.y).finfo(design.example.dtype).eps))
    identified = (squares > rounding) & (largest < _COPIES) & (scales[features] > 0)
    combinations[:, scales[features] == 0] = 0.0
    squares = np.where(identified, scales[features] ** 2 * squares, 1.0)
    factor = np.where(identified, 1 / squares, 0.0)
    unit = np.sqrt(factor)
    args = "node-wise lasso", path, features, factor, unit, row_squares, largest
    known = None if gram is None else tuple(selected)
    of_X = _in_double(combinations, path)
    return Scores(*args, combinations=of_X, selected=known, gram=gram)


def _correlations(gram: np.ndarray, scales: np.ndarray, n: int) -> np.ndarray:
    """Return correlations of columns; constant ones are uncorrelated with all others."""
    inverse = np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0)
    correlations = gram * np.outer(inverse, inverse) / n
    np.fill_diagonal(correlations, 1.0)
    return correlations


def _candidates(design: Design, j: int, scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns that are most correlated with column j, j itself, and correlations."""
    column = columns_of(design, np.array([j]))
    products = np.abs(to_numpy(design.adjoint(column)).astype(float)[: len(scales), 0])
    sizes = np.divide(products, scales, out=np.zeros_like(products), where=scales > 0)
    sizes[j] = np.inf
    places = np.sort(np.argpartition(-sizes, _CANDIDATES)[:_CANDIDATES])
    block = to_numpy(columns_of(design, places)).astype(float)
    return places, _correlations(design.over_rows(block.T @ block), scales[places], design.n_rows)


def _regression(correlations: np.ndarray, j: int, n: int) -> tuple[np.ndarray, float, float]:
    """Regress column j, of mean square 1, on the columns that the scaled lasso selects.

    Returns the coefficients, the mean square of the residuals, and their largest correlation with
    another column (Sun and Zhang, 2012).
    """
    own, coef, size = correlations[j].copy(), np.zeros(len(correlations)), 1.0
    others = own.copy()
    others[j] = 0.0
    selected, unit = np.array([], dtype=int), math.sqrt(2 * math.log(max(len(own), 2)) / n)
    # column j is uncorrelated with all others meanwhile, so that it is not selected
    correlations[j] = correlations[:, j] = 0.0
    for _ in range(_ROUNDS):
        coef, before = _lasso(correlations, others, unit * size, coef), size
        some = np.flatnonzero(coef)
        if len(some) > _SELECTED * n:
            break
        explained = coef[some] @ (2 * others[some] - correlations[np.ix_(some, some)] @ coef[some])
        selected, size = some, math.sqrt(max(1 - float(explained), 0.0))
        if size > (1 - _SETTLED) * before:
            break
    coef = np.zeros(len(own))
    coef[selected] = _inverse(correlations[np.ix_(selected, selected)])(others[selected])
    square = max(1 - float(coef[selected] @ others[selected]), 0.0)
    gradient = np.abs(others - correlations[:, selected] @ coef[selected]).max()
    correlations[j] = correlations[:, j] = own
    return coef, square, min(float(gradient) / math.sqrt(square), 1.0) if square else 1.0


def _inverse(gram: np.ndarray) -> Callable[..., Any]:
    """Return a function that multiplies by the inverse of a Gram matrix, perhaps of duplicates."""
    gram[np.diag_indices(len(gram))] *= 1 + _RANK_TOL
    try:
        return partial(cho_solve, cho_factor(gram), check_finite=False)
    except np.linalg.LinAlgError:  # duplicates in single precision
        return partial(np.matmul, pinvh(gram, rtol=_SINGLE))


def _lasso(gram: np.ndarray, products: np.ndarray, penalty: float, start: np.ndarray) -> np.ndarray:
    """Return lasso coefficients from the inner products of the columns, for responses of norm 1."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import lasso_path  # not needed by studies and runs

    shape = np.empty((1, len(products)))  # scikit-learn uses nothing else of X
    how: dict[str, Any] = {"precompute": gram, "Xy": products, "coef_init": start}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, path, _ = lasso_path(
            shape, np.ones(1), alphas=[penalty], tol=_GAP, check_input=False, **how
        )
    return np.ascontiguousarray(path[:, 0])


# ----- Columns of X -----


def blocks_of(count: int) -> list[np.ndarray]:
    """Return the indices of columns, or of scores, that are read together."""
    return [np.arange(k, min(k + _BLOCK, count)) for k in range(0, count, _BLOCK)]


def column_scales(design: Design, p: int) -> np.ndarray:
    """Return root mean squares of the first columns; zero where they are rounding errors."""
    squares, sizes = np.zeros(p), np.zeros(p)
    for which in blocks_of(p):
        columns = to_numpy(columns_of(design, which)).astype(float)
        squares[which] = np.sum(columns**2, axis=0)
        sizes[which] = np.max(np.abs(columns), axis=0)
    scales, sizes = np.sqrt(design.over_rows(squares) / design.n_rows), design.largest(sizes)
    means = getattr(design, "means", None)
    offsets = sizes if means is None else np.abs(to_numpy(means).astype(float)).reshape(-1)[:p]
    rounding = 64 * float(namespace(design.example).finfo(design.example.dtype).eps)
    return np.where(scales > rounding * offsets, scales, 0.0)
