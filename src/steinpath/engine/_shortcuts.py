r"""Tangents in fewer coordinates, for losses and penalties with isotropic Jacobians.

If the Jacobians of the dual map are multiples of the identity up to a rank-one part (square-root
and squared loss), dual tangents stay in the span of the columns of X, the duals and the injections.
`GramLinearization` computes them there, with one product with the Gram matrix per iteration in
place of two with X.

If those of the primal map are isotropic too (ridge, no penalty), the singular vectors of X
diagonalise the recursion up to the rank-one part. `SpectralLinearization` drops that part, which
changes traces of order p by order 1, and needs neither products with X nor random probes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from steinpath._support.arrays import (
    Array,
    cast,
    folded,
    indices,
    like,
    members_product,
    namespace,
    rows_product,
    take,
)
from steinpath.algorithms._base import ProximalTangent, Tangent
from steinpath.design._base import Design
from steinpath.design._transformed import InterceptDesign
from steinpath.engine._batch import Batch
from steinpath.engine._path import Path
from steinpath.engine._tangents import Coordinates, Linearization
from steinpath.problem._jacobians import Diagonal, FreeLast, Jacobian, RankOne, WithRankOne

# ------------------------------------------------------------------------------------------------
# The Gram matrix
# ------------------------------------------------------------------------------------------------


def has_gram(path: Path | Batch) -> bool:
    """Whether `GramLinearization` supports the path, or all paths of a batch."""
    data = path.data
    return path.maps.structured and data.loss.isotropic and data.design.has_gram


class GramLinearization(Linearization):
    """Linearised recursion with dual tangents ``X μ + Y ζ + D δ`` stored as ``[μ; ζ; δ]``.

    Y, of shape (n, members, q), is an orthonormal basis of the duals that contains the directions
    of the rank-one parts. Column ``j`` of D, of shape (n, members, k), is injected into ``dv`` by
    column ``j`` of the feed; δ is a single row. The paths share X, and ``gram`` is ``Xᵀ X`` in the
    precision of the tangents.
    """

    def __init__(self, batch: Batch, gram: Array, basis: Array, injected: Array | None):
        super().__init__(batch)
        data, dtype = batch.data.design, gram.dtype
        self._injects = injected is not None
        if injected is None:
            injected = data.zeros(data.shape[0], len(batch), 1)
        # (members, q, n); arrays derived from it also have the members first
        self._basis = _members_first(cast(basis, dtype), transpose=True)
        self._reach = _members_first(cast(data.adjoint(basis), dtype))  # XᵀY
        across = members_product(self._basis, cast(injected, dtype))
        self._across = data.over_rows(across)  # YᵀD
        image = cast(data.adjoint(data.array(injected)), dtype)
        self.design = GramDesign(gram, self._reach, image, None)

    def injection(self) -> Array | None:
        """Return the injection into ``dv`` in these coordinates: ones in the last row."""
        if not self._injects:
            return None
        xp = namespace(self._across)
        ones = xp.ones_like(self._across[:1, ...])
        zeros = self.design.zeros(self.design.shape[0] - 1, *self._across.shape[1:])
        return xp.concat([zeros, ones], axis=0)

    def prepare(self) -> None:
        """Compute all derivatives now if some rows are not local; later steps use local data."""
        if self.batch.data.design.is_whole:
            return
        self._known = {}
        for first in range(1, self.n_iter + 1, self._length):
            self._tangents(first, min(first + self._length, self.n_iter + 1))

    def _differentiate(self, first: int, last: int) -> list[tuple[Tangent, Tangent]]:
        both = super()._differentiate(first, last)
        duals = [dual for dual, _ in both if isinstance(dual, ProximalTangent)]
        inside = self._in_span([dual.jacobian for dual in duals])
        return [
            (dual.by(jacobian), primal)
            for dual, jacobian, (_, primal) in zip(duals, inside, both, strict=True)
        ]

    def _in_span(self, jacobians: Sequence[Jacobian]) -> list[Jacobian]:
        rank_one = [own for own in jacobians if isinstance(own, RankOne)]
        if not rank_one:
            return [_isotropic(own) for own in jacobians]
        xp = namespace(self._basis)
        directions = xp.concat([each.direction for each in rank_one], axis=2)  # (n, members, T)
        directions = members_product(self._basis, cast(directions, self._basis.dtype))
        directions = self.batch.data.design.over_rows(directions)
        inner = xp.concat([members_product(self._reach, directions), directions], axis=0)
        injected = xp.matrix_transpose(_members_first(directions)) @ _members_first(self._across)
        result: list[Jacobian] = []
        for k, own in enumerate(rank_one):
            along, products = (x[:, :, k : k + 1] for x in (directions, inner))
            parts = along, products, injected[:, k, :]
            result.append(_RankOneInSpan(own.scale, own.coefficient, *parts))
        return result


def _members_first(block: Array, transpose: bool = False) -> Array:
    """Return a block (size, members, columns) as matrices (members, size, columns)."""
    xp = namespace(block)
    return xp.permute_dims(block, (1, 2, 0) if transpose else (1, 0, 2))


class GramDesign(Design):
    """X as a map between coordinates of dual tangents and (some of) those of primal ones."""

    def __init__(self, gram: Array, reach: Array, injected: Array, columns: Coordinates):
        # XᵀX, XᵀY of each member and XᵀD; the rows of the active columns of each
        self.example, self._reach, self._injected = gram, reach, injected
        p = int(gram.shape[0])
        self.shape = (int(gram.shape[1] + reach.shape[2]) + 1, p)
        self._place: Array = None  # index of each coordinate in a block padded with a row of zeros
        if columns is not None:
            place = np.full(self.shape[0], p)
            place[columns] = np.arange(p)
            self._place = indices(place, gram)

    def matmat(self, block: Array) -> Array:
        # the active columns' coordinates are the tangents themselves; all others are zero
        xp, (size, columns) = namespace(block), block.shape
        missing = self.shape[0] - size if self._place is None else 1
        padded = xp.concat([block, self.zeros(missing, columns)], axis=0)
        return padded if self._place is None else xp.take(padded, self._place, axis=0)

    def rmatmat(self, block: Array) -> Array:
        raise NotImplementedError("blocks of dual tangents must have a members axis")

    def adjoint(self, block: Array) -> Array:
        p = self.example.shape[1]
        result = folded(lambda mu: self.example @ mu, block[:p, ...])
        result += members_product(self._reach, block[p:-1, ...])
        return result + self._injected * block[-1:, ...]

    def part(self, rows: Coordinates, columns: Coordinates) -> GramDesign | None:
        if columns is None:
            return None
        gram, injected = (take(matrix, columns) for matrix in (self.example, self._injected))
        return GramDesign(gram, take(self._reach, columns, axis=1), injected, columns)


@dataclass(frozen=True, eq=False)
class _RankOneInSpan(WithRankOne):
    """`RankOne` on coordinates ``[μ; ζ; δ]``; its direction (q, members, 1) is in those of ζ."""

    inner: Array  # (p + q, members, 1): products of the direction with the columns of X and Y
    injected: Array  # (members, k): and with those of D

    def __call__(self, block: Array) -> Array:
        along = rows_product(self.inner, block[:-1, ...]) + self.injected * block[-1, ...]
        result = self.scale * block
        q = self.direction.shape[0]
        result[-1 - q : -1, ...] += self.direction * (self.coefficient * along)
        return result

    def part(self, coordinates: Coordinates, dtype: Any) -> Jacobian:
        scale, coefficient = cast(self.scale, dtype), cast(self.coefficient, dtype)
        return replace(self, scale=scale, coefficient=coefficient)


# ------------------------------------------------------------------------------------------------
# The spectrum
# ------------------------------------------------------------------------------------------------


def has_spectrum(path: Path) -> bool:
    """Whether `SpectralLinearization` supports the path."""
    # products between rows are not available if some rows are not local
    n, p = path.design.whole_shape
    shown = path.design.is_whole or n >= p
    return has_gram(path) and path.penalty.isotropic and shown


class SpectralLinearization(Linearization):
    """Linearised recursion in the singular vectors of X, without the rank-one parts."""

    def __init__(self, path: Path, spectrum: Spectrum):
        super().__init__(Batch.of(path))
        self.design = DiagonalDesign(spectrum.values)

    def _differentiate(self, first: int, last: int) -> list[tuple[Tangent, Tangent]]:
        both = super()._differentiate(first, last)
        return [(_without_rank_one(dual), _without_rank_one(primal)) for dual, primal in both]


def _without_rank_one(tangent: Tangent) -> Tangent:
    assert isinstance(tangent, ProximalTangent)
    jacobian = tangent.jacobian
    if isinstance(jacobian, FreeLast):  # the last coordinate is the intercept's in this basis, too
        return tangent.by(replace(jacobian, head=_isotropic(jacobian.head)))
    return tangent.by(_isotropic(jacobian))


def _isotropic(jacobian: Jacobian) -> Diagonal:
    value = jacobian.isotropic()
    shaped = hasattr(value, "ndim")
    return Diagonal(namespace(value).reshape(value, (1, 1, 1)) if shaped else value)


class DiagonalDesign(Design):
    """Diagonal matrix: X in the basis of its singular vectors."""

    def __init__(self, values: Array):
        self.example, self.shape = values, (int(values.shape[0]),) * 2

    def matmat(self, block: Array) -> Array:
        return self.example[:, None] * block

    rmatmat = matmat


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Singular values of a design, and quadratic forms in its singular vectors.

    The last is that of the constant column. A single zero represents the null space, if p > n.
    """

    values: Array
    moments: Array | None  # vᵀ Σ v for the right singular vectors; its sum over the null space
    row_squares: Array | None  # uᵀ diag(ρ²) u for the left singular vectors


def _decomposed(gram: Array) -> Array:
    """Return the eigenvalues of a matrix stacked above its eigenvectors."""
    squares, vectors = namespace(gram).linalg.eigh(gram)
    return namespace(gram).concat([squares[None, :], vectors], axis=0)


def spectrum(path: Path, moments: Array | None, row_squares: Array | None) -> Spectrum:
    """Decompose the design of a path, given second moments Σ of a row and squared row scales ρ²."""
    design = path.design
    n, p = design.whole_shape
    of_rows = n < p
    # regardless of the precision of X, since eigenvalues of its Gram matrix are squares
    gram = design.gram(of_rows, dtype=namespace(path.y).float64)
    xp = namespace(gram)
    constant = design.intercept_scale if isinstance(design, InterceptDesign) else None
    if constant is not None:  # orthogonal to the centred features, and treated separately
        gram = gram - constant**2 if of_rows else gram[:-1, :-1]
    vectors: Any = None
    if moments is None and row_squares is None:
        squares = design.once(lambda: xp.linalg.eigvalsh(gram))
    else:
        both = design.once(lambda: _decomposed(gram))
        squares, vectors = both[0, :], both[1:, :]
    seen = squares > xp.max(squares) * (squares.shape[0] * xp.finfo(gram.dtype).eps)
    values = xp.sqrt(xp.clip(squares, 0.0))

    def other_side(product: Array) -> Array:
        """Return singular vectors of one side, given products of those of the other side with X."""
        return product * xp.where(seen, 1 / xp.where(seen, values, 1 + values), 0 * values)

    tails = []  # singular value and quadratic forms outside the range of the Gram matrix
    forms_right = forms_left = None
    if moments is not None:
        features = slice(0, path.n_features)
        inner = cast(moments[features, features], gram.dtype)
        right = vectors
        if of_rows:
            right = other_side(cast(design.adjoint(design.array(vectors)), gram.dtype)[features, :])
        forms_right = xp.sum(right * (inner @ right), axis=0)
        unseen = xp.linalg.trace(inner) - xp.sum(forms_right)
        tails.append((0.0, float(unseen), 0.0))
    if row_squares is not None:
        left = vectors
        if not of_rows:
            no_constant = [] if constant is None else [0 * vectors[:1, :]]
            padded = design.array(xp.concat([vectors, *no_constant], axis=0))
            left = other_side(cast(design.forward(padded), gram.dtype))
        forms_left = xp.sum(cast(row_squares, gram.dtype)[:, None] * left**2, axis=0)
        forms_left = design.over_rows(forms_left)
    if constant is not None:
        tails.append((constant * math.sqrt(n), constant**2, 1.0))

    def extended(head: Array | None, which: int) -> Array | None:
        tail = [entry[which] for entry in tails]
        return head if head is None or not tail else xp.concat([head, like(tail, head)])

    return Spectrum(extended(values, 0), extended(forms_right, 1), extended(forms_left, 2))
