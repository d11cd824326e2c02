r"""Scores: the part of a column of X that the other columns do not explain.

The score of coefficient j is :math:`z_j = X \Omega e_j / \Omega_{jj}` with the precision matrix
:math:`\Omega` of the rows, or an estimate of it:

- *covariance*: Ω is known.
- *residuals*: the residuals of the least-squares regression of column j on all others, for X with
  many more rows than columns. Conditionally on the other columns they vary in the orthogonal
  complement of these only, whose dimension replaces n.
- *node-wise lasso*: the residuals of a lasso regression on all others, otherwise. Many of these
  regressions are members of one batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from steinpath._support.arrays import Array, cast, like, namespace, take, to_numpy
from steinpath._support.validation import check_choice, check_covariance
from steinpath.algorithms._family import FISTA
from steinpath.design._base import Design, NormBounds, TransformedDesign
from steinpath.design._transformed import InterceptDesign, ScaledDesign
from steinpath.engine._batch import Batch
from steinpath.engine._data import RunData
from steinpath.engine._path import Path
from steinpath.engine._traces import row_squares_of
from steinpath.problem._losses import Squared
from steinpath.problem._penalties import Lasso
from steinpath.risk._evidence import columns_of, features_of

# Eigenvalues of the Gram matrix below this fraction of the largest are rounding errors.
_RANK_TOL = 1e-10
# Unexplained fraction of a column from which on its coefficient is identified, and correlation of
# its score with another column from which on they are regarded as duplicates.
_IDENTIFIED, _COPIES = 1e-7, 1 - 1e-5
# Random signs that estimate a trace of order n, with relative error 1 / √(32 n).
_SIGNS = 64
# Columns that are read together.
_BLOCK = 256
# Node-wise lasso: the penalty is _FACTOR * √(log p / n) on the scale of standardised columns.
_FACTOR = 0.5
# Iterations per round and in total; and the relative tolerance of the optimality conditions.
_STRIDE, _MOST_ITERATIONS, _TOLERANCE = 50, 500, 0.05
# Bytes for the states of regressions that are run together.
_ROOM = 2**28


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
    #: The scores, either as combinations of the columns of the design or as residuals.
    combinations: Array | None = field(default=None, repr=False)  # (p, k)
    residuals: Array | None = field(default=None, repr=False)  # (n, k)
    #: Dimension of the space in which the scores vary, if that is less than n.
    dimension: float | None = None
    #: Inverse of the Gram matrix, where scores vary in the complement of the columns only.
    inverse: Array | None = field(default=None, repr=False)
    #: Names of the features, if they are known.
    names: tuple[str, ...] | None = None

    @property
    def identified(self) -> np.ndarray:
        return np.asarray(self.factor > 0)

    @property
    def share(self) -> float:
        """Fraction of the dimensions of the duals in which the scores vary."""
        return (self.dimension or self.path.n_samples) / self.path.n_samples

    def listed(self, which: Sequence[int]) -> str:
        """Return the names of some columns for a message, or their indices without names."""
        named = [repr(self.names[k]) if self.names else str(self.features[k]) for k in which]
        return ", ".join(named)

    @property
    def self_normalised(self) -> bool:
        """Whether `factor` has the norms of the scores instead of their expectation."""
        return self.kind != "covariance"

    def read(self, signs: Array) -> Array:
        """Return the block (n, m) that reads the responses of the duals to these signs."""
        if self.row_squares is not None:
            signs = self.row_squares[:, None] * signs
        return self.path.data.of_copies(self.varying(signs).T).T

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
        if self.residuals is not None:
            dual = self.duals(slice(t, t + 1))[0, :]
            products = self.path.design.over_rows(self.residuals.T @ dual)
        else:
            assert self.combinations is not None
            images = self.path.etas[t, : self.combinations.shape[0]]
            products = self.combinations.T @ cast(images, self.combinations.dtype)
            products = products * math.sqrt(self.path.n_samples)
        return np.asarray(self.factor * to_numpy(products).astype(float))

    def columns(self, which: np.ndarray) -> np.ndarray:
        """Return some scores, of shape (n, len(which)), for the rows of this process."""
        if self.residuals is not None:
            return to_numpy(take(self.residuals, which, axis=1)).astype(float)
        assert self.combinations is not None
        design = _plain(self.path)
        block = cast(take(self.combinations, which, axis=1), design.example.dtype)
        return to_numpy(design.forward(self._with_intercept(block))).astype(float)

    def varying(self, block: Array) -> Array:
        """Project a block (n, m) on the space in which the scores vary."""
        xp, design = namespace(block), _plain(self.path)
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
    args = "residuals", path, features, factor, np.sqrt(factor), row_squares, None, combinations
    scores = Scores(*args, inverse=_in_double(inverse, path))
    # the dimension of the complement, with rows weighted by their squared scales
    free = float(n - path.fit_intercept - int(positive.sum()))
    if row_squares is not None:
        signs = path.design.local(path.design.signs(np.random.default_rng(0), n, _SIGNS))
        read = signs if row_squares is None else row_squares[:, None] * signs
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
    """Return residuals of lasso regressions on all other columns; zero for constant columns."""
    n, p, design = path.n_samples, path.n_features, _plain(path)
    scales = column_scales(design, p)
    # constant columns and that of an intercept are excluded from all regressions
    divisors = np.full(design.shape[1], np.inf)
    divisors[:p][scales > 0] = scales[scales > 0]
    scaled = ScaledDesign(design, design.array(divisors))
    lam = _FACTOR * math.sqrt(math.log(max(p, 2)))
    width = max(1, min(64, _ROOM // (16 * sum(design.shape) * _MOST_ITERATIONS)))
    blocks = [
        _regress(scaled, features[k : k + width], scales, lam)
        for k in range(0, len(features), width)
    ]
    parts = list(zip(*blocks, strict=True))
    residuals = namespace(parts[0][0]).concat(parts[0], axis=1)
    products, correlation = np.concatenate(parts[1]), np.concatenate(parts[2])
    norms = np.sqrt(design.over_rows(np.sum(to_numpy(residuals).astype(float) ** 2, axis=0)))
    explained = products <= _IDENTIFIED * n * scales[features] ** 2
    identified = ~explained & (correlation < _COPIES)
    factor = np.where(identified, n / np.where(identified, products, 1.0), 0.0)
    unit = factor * norms / math.sqrt(n)
    kind = "node-wise lasso"
    return Scores(kind, path, features, factor, unit, row_squares, correlation, residuals=residuals)


def _regress(
    scaled: ScaledDesign, features: np.ndarray, scales: np.ndarray, lam: float
) -> tuple[Array, np.ndarray, np.ndarray]:
    """Return residuals (n, k), products with their columns, largest correlations with others."""
    n, members, own = scaled.n_rows, len(features), scales[features]
    # of the unscaled columns, for which `columns_of` handles the intercept
    columns = columns_of(scaled.inner, features) / scaled.array(np.where(own > 0, own, np.inf))
    others = OtherColumns(scaled, features)
    data = RunData(columns, Squared(), others, np.zeros(members))
    batch = Batch.start(data, Lasso(lam).repeated(members), FISTA(), members)
    while batch.n_iter < _MOST_ITERATIONS:
        batch = batch.extended(batch.n_iter + _STRIDE)
        residuals = columns - take(batch.states.product, np.array([batch.n_iter]), axis=1)[:, 0].T
        gradient = to_numpy(others.adjoint(residuals[:, :, None]))[..., 0] / n  # at most alpha
        if np.max(np.abs(gradient)) <= (1 + _TOLERANCE) * lam / math.sqrt(n):
            break
    xp = namespace(residuals)
    sums = xp.sum(cast(residuals, xp.float64) ** 2, axis=0), xp.sum(residuals * columns, axis=0)
    squares, inner = scaled.over_rows(np.stack([to_numpy(total).astype(float) for total in sums]))
    norms = np.sqrt(squares)
    correlation = np.abs(gradient).max(axis=0) / (np.where(norms > 0, norms, 1.0) / math.sqrt(n))
    return residuals * scaled.array(own), own**2 * inner, correlation


class OtherColumns(TransformedDesign):
    """Columns of a design, of which column ``own[k]`` is hidden from member k."""

    def __init__(self, scaled: ScaledDesign, own: np.ndarray):
        super().__init__(scaled)
        self._scaled, self._own = scaled, own
        visible = np.ones((scaled.shape[1], len(own)))
        visible[own, np.arange(len(own))] = 0
        self._visible = scaled.array(visible)[:, :, None]

    @property
    def members(self) -> int:
        return len(self._own)

    def member(self, k: int) -> OtherColumns:
        return self.some(np.array([k]))

    def some(self, members: np.ndarray) -> OtherColumns:
        return OtherColumns(self._scaled, self._own[members])

    def forward(self, block: Array) -> Array:
        return self._scaled.forward(self._visible * block)

    def adjoint(self, block: Array) -> Array:
        return self._visible * self._scaled.adjoint(block)

    def norm_bounds(self) -> NormBounds:
        return self._scaled.norm_bounds()  # of all columns, which bound that of each member


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
