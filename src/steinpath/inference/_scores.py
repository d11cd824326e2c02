r"""Scores: the part of a column of X that the other columns do not explain.

The score of coefficient j is :math:`z_j = X \Omega e_j / \Omega_{jj}` with the precision matrix
:math:`\Omega` of the rows, or an estimate of it:

- *covariance*: Ω is known.
- *residuals*: the residuals of the least-squares regression of column j on all others, for X with
  many more rows than columns. Conditionally on the other columns they vary in the orthogonal
  complement of these only, whose dimension replaces n.
- *node-wise lasso*: the residuals of a lasso regression on all others, otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from steinpath._support.arrays import Array, cast, like, namespace, take, to_numpy
from steinpath._support.validation import check_covariance
from steinpath.design._transformed import InterceptDesign
from steinpath.engine._path import Path
from steinpath.inference._nodewise import column_scales, columns_of, nodewise_residuals

#: Rows per column from which on the scores are least-squares residuals.
ROWS_PER_COLUMN = 3
# Eigenvalues of the Gram matrix below this fraction of the largest are rounding errors.
_RANK_TOL = 1e-10
# Unexplained fraction of a column from which on its coefficient is identified.
_IDENTIFIED = 1e-7
# Correlation of a score with another column from which on they are regarded as duplicates.
_COPIES = 1 - 1e-5
# Random signs that estimate a trace of order n, with relative error 1 / √(32 n).
_SIGNS = 64


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of some coefficients.

    Attributes
    ----------
    kind : str
        "covariance", "residuals" or "node-wise lasso".
    features : ndarray of int of shape (k,)
        Indices of the columns.
    factor : ndarray of shape (k,)
        Replacement of the diagonal of the precision matrix; zero where the column is constant or a
        linear combination of others, so that its coefficient is not identified.
    unit : ndarray of shape (k,)
        Standard deviation of ``factor * zᵀu`` for a dual of norm 1.
    correlation : ndarray of shape (k,) or None
        Largest correlation of each score with another column, where it may be nonzero.
    """

    kind: str
    path: Path
    features: np.ndarray
    factor: np.ndarray
    unit: np.ndarray
    correlation: np.ndarray | None
    #: The scores, either as combinations of the columns of the design or as residuals.
    combinations: Array | None = field(default=None, repr=False)  # (p, k)
    residuals: Array | None = field(default=None, repr=False)  # (n, k)
    #: Squared row scales, with mean 1, if rows have scales.
    row_squares: Array | None = field(default=None, repr=False)
    #: Dimension of the space in which the scores vary, if that is less than n.
    dimension: float | None = None
    #: Inverse of the Gram matrix, where scores vary in the complement of the columns only.
    inverse: Array | None = field(default=None, repr=False)
    #: Names of the features, if they are known.
    names: tuple[str, ...] | None = None

    @property
    def identified(self) -> np.ndarray:
        """Whether each coefficient is identified."""
        return np.asarray(self.factor > 0)

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
        return self.varying(signs)

    def norms(self) -> np.ndarray:
        """Norms of the duals ``u^0 … u^N`` in the space in which the scores vary."""
        duals, over_rows = self.path.duals, self.path.design.over_rows
        xp = namespace(duals)
        if self.row_squares is not None:
            inside = self.varying(duals.T)
            squares = over_rows(xp.sum(self.row_squares[:, None] * inside**2, axis=0))
        else:
            squares = over_rows(xp.sum(duals**2, axis=1))
            if self.path.fit_intercept:
                squares = squares - over_rows(xp.sum(duals, axis=1)) ** 2 / self.path.n_samples
            if self.inverse is not None:
                images = cast(self.path.etas, self.inverse.dtype) * math.sqrt(self.path.n_samples)
                p = self.inverse.shape[0]
                seen = xp.sum((images[:, :p] @ self.inverse) * images[:, :p], axis=1)
                squares = cast(squares, self.inverse.dtype) - seen
        return np.asarray(np.sqrt(np.maximum(to_numpy(squares).astype(float), 0.0)))

    def products(self, t: int) -> np.ndarray:
        """Return ``factor * zᵀu^t``, of shape (k,)."""
        if self.residuals is not None:
            products = self.path.design.over_rows(self.residuals.T @ self.path.duals[t, :])
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
        design = self.path.design
        block = take(self.combinations, which, axis=1)
        rest = design.shape[1] - block.shape[0]  # the intercept's column
        xp = namespace(block)
        block = xp.concat([block, xp.zeros_like(block[:1, :])], axis=0) if rest else block
        return to_numpy(design.forward(cast(block, design.example.dtype))).astype(float)

    def varying(self, block: Array) -> Array:
        """Project a block (n, m) on the space in which the scores vary."""
        xp, design = namespace(block), self.path.design
        if self.path.fit_intercept:
            total = design.over_rows(xp.sum(block, axis=0, keepdims=True))
            block = block - total / self.path.n_samples
        if self.inverse is None:
            return block
        p = self.inverse.shape[0]
        images = cast(design.adjoint(block), self.inverse.dtype)[:p, :]
        inner = cast(self.inverse @ images, block.dtype)
        if self.path.fit_intercept:
            inner = xp.concat([inner, xp.zeros_like(inner[:1, :])], axis=0)
        return block - design.forward(inner)


def known_scores(
    path: Path, covariance: Any, precision: Any, features: np.ndarray, row_squares: Array | None
) -> Scores:
    """Return scores by the covariance of the rows, or by its inverse."""
    name = "covariance" if precision is None else "precision"
    given = covariance if precision is None else precision
    matrix = to_numpy(check_covariance(given, path.n_features, path.iterates, name)).astype(float)
    if precision is None:
        identity = np.zeros((path.n_features, len(features)))
        identity[features, np.arange(len(features))] = 1
        try:
            columns = np.linalg.solve(matrix, identity)
        except np.linalg.LinAlgError:
            columns = np.full_like(identity, np.nan)
        if not np.all(np.isfinite(columns)) or np.any(columns[features].diagonal() <= 0):
            raise ValueError(
                "covariance is singular, but the scores need its inverse; drop columns that are "
                "linear combinations of others, or omit the covariance"
            )
    else:
        columns = matrix[:, features]
    factor = columns[features, np.arange(len(features))]
    if np.any(factor <= 0):
        raise ValueError("precision must have a positive diagonal")
    return Scores(
        "covariance",
        path,
        features,
        factor,
        np.sqrt(factor),
        None,
        combinations=_in_double(columns / factor, path),
        row_squares=row_squares,
    )


def residual_scores(path: Path, features: np.ndarray, row_squares: Array | None) -> Scores:
    """Return residuals of least-squares regressions, by the inverse of the Gram matrix."""
    n, p = path.n_samples, path.n_features
    scales = column_scales(path.design, p)
    gram = _gram(path, p)
    units = np.where(scales > 0, scales, 1.0) * math.sqrt(n)
    values, vectors = np.linalg.eigh(gram / np.outer(units, units))
    seen = values > _RANK_TOL * max(values[-1], 1e-300)
    rank = int(seen.sum())
    inverse = (vectors[:, seen] / values[seen]) @ vectors[:, seen].T
    # the part of each coefficient's direction in the row space of X
    visible = np.sum(vectors[features][:, seen] ** 2, axis=1)
    diagonal = inverse[features, features]
    identified = (scales[features] > 0) & (visible > 1 - _IDENTIFIED) & (diagonal > 0)
    own = np.where(identified, diagonal, 0.0) / units[features] ** 2
    inverse = inverse / np.outer(units, units)
    scores = Scores(
        "residuals",
        path,
        features,
        own,
        np.sqrt(own),
        None,
        combinations=_in_double(inverse[:, features] / np.where(identified, own, 1.0), path),
        row_squares=row_squares,
        inverse=_in_double(inverse, path),
    )
    # the dimension of the complement, with rows weighted by their squared scales
    free = float(n - path.fit_intercept - rank)
    if row_squares is not None:
        signs = path.design.signs(np.random.default_rng(0), n, _SIGNS)
        signs = path.design.local(signs)
        total = path.design.over_rows(namespace(signs).sum(signs * scores.read(signs)))
        free = float(total) / _SIGNS
    return replace(scores, factor=free * own, unit=np.sqrt(free * own), dimension=free)


def nodewise_scores(path: Path, features: np.ndarray, row_squares: Array | None) -> Scores:
    """Return residuals of node-wise lasso regressions."""
    found = nodewise_residuals(path.design, features)
    squares = np.sum(to_numpy(found.residuals).astype(float) ** 2, axis=0)
    norms = np.sqrt(path.design.over_rows(squares))
    n = path.n_samples
    unexplained = found.products > _IDENTIFIED * n * found.scales**2
    identified = unexplained & (found.correlation < _COPIES)
    factor = np.where(identified, n / np.where(identified, found.products, 1.0), 0.0)
    return Scores(
        "node-wise lasso",
        path,
        features,
        factor,
        factor * norms / math.sqrt(n),
        found.correlation,
        residuals=found.residuals,
        row_squares=row_squares,
    )


def _gram(path: Path, p: int) -> np.ndarray:
    design = path.design
    if design.has_gram:
        return to_numpy(design.gram(dtype=namespace(path.y).float64)).astype(float)[:p, :p]
    blocks = []
    for k in range(0, p, 256):
        columns = columns_of(design, np.arange(k, min(k + 256, p)))
        blocks.append(to_numpy(design.adjoint(columns)).astype(float)[:p])
    gram = np.concatenate(blocks, axis=1)
    return np.asarray((gram + gram.T) / 2)


def _in_double(values: np.ndarray, path: Path) -> Array:
    """Return values in double precision, on the device of the path."""
    return like(values, like(np.zeros(1), cast(path.iterates[:1, 0], namespace(path.y).float64)))


def uses_residuals(path: Path) -> bool:
    """Whether there are enough rows for least-squares residuals."""
    n = path.n_samples - isinstance(path.design, InterceptDesign)
    return enough_rows(n, path.n_features)


def enough_rows(n: int, p: int) -> bool:
    """Whether n rows, less one for an intercept, are enough for residuals of p columns."""
    return n >= ROWS_PER_COLUMN * p
