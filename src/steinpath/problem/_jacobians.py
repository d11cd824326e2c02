"""Structured Jacobians of proximal maps, stored without forming square matrices.

A Jacobian is applied to a vector or to a block of columns: of shape (size, columns) if the map was
evaluated at a vector, (size, members, columns) if it was evaluated at a block of several members.
All Jacobians of proximal maps are symmetric, and each class is closed under
``shift * I + factor * J``, which turns the Jacobian of a gradient into that of its proximal map and
back (Moreau).

Tangents are not computed where a Jacobian vanishes (`Jacobian.support`), and can be computed in any
coordinates where it is a multiple of the identity (`Jacobian.isotropic`).
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Self

import numpy as np

from steinpath._support.arrays import Array, along_rows, cast, constant, namespace, take
from steinpath.problem._rows import Rows


class Jacobian(ABC):
    """Symmetric linear map that acts on vectors and on blocks of columns."""

    @abstractmethod
    def __call__(self, block: Array) -> Array:
        """Multiply the Jacobian with a vector or with each column of a block."""

    @abstractmethod
    def affine(self, shift: float, factor: float) -> Jacobian:
        """Return the Jacobian ``shift * I + factor * J``."""

    @abstractmethod
    def support(self) -> Array | None:
        """Return a mask of the coordinates with nonzero rows and columns; None for all."""

    @abstractmethod
    def part(self, coordinates: Array | None, dtype: Any) -> Jacobian:
        """Return the block of coordinates that contain the `support`, in another precision."""

    @abstractmethod
    def columns(self, count: int) -> list[Jacobian]:
        """Return the Jacobian of each column of a block (size, members, columns)."""

    def isotropic(self) -> Array | float | None:
        """Return the factor if this is a multiple of the identity up to rank one, else None."""
        return None


@dataclass(frozen=True, eq=False)
class Diagonal(Jacobian):
    """``diag(entries)``; a scalar represents a multiple of the identity."""

    entries: Array

    def __call__(self, block: Array) -> Array:
        return along_rows(self.entries, block) * block

    def affine(self, shift: float, factor: float) -> Diagonal:
        return Diagonal(shift + factor * self.entries)

    def support(self) -> Array | None:
        return None if _is_for_all(self.entries) else _any_member(self.entries != 0)

    def columns(self, count: int) -> list[Jacobian]:
        return [Diagonal(entries) for entries in _columns(self.entries, count)]

    def part(self, coordinates: Array | None, dtype: Any) -> Diagonal:
        return Diagonal(_part(self.entries, coordinates, dtype))

    def isotropic(self) -> Array | float | None:
        if not hasattr(self.entries, "ndim") or self.entries.ndim == 0:
            return self.entries
        xp = namespace(self.entries)
        low, high = xp.min(self.entries), xp.max(self.entries)
        return high if low == high else None


@dataclass(frozen=True, eq=False)
class WithRankOne(Jacobian):
    """A multiple of the identity plus rank one, on all coordinates or on each group of them."""

    scale: Array
    coefficient: Array
    direction: Array

    def affine(self, shift: float, factor: float) -> Self:
        return replace(
            self, scale=shift + factor * self.scale, coefficient=factor * self.coefficient
        )

    def support(self) -> Array | None:
        return None

    def columns(self, count: int) -> list[Jacobian]:
        fields = (_columns(x, count) for x in (self.scale, self.coefficient, self.direction))
        return [
            replace(self, scale=s, coefficient=c, direction=z)
            for s, c, z in zip(*fields, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class RankOne(WithRankOne):
    """``scale * I + coefficient * z zᵀ``, as for the projection of a point outside a ball."""

    #: Sums over the coordinates, if these are rows.
    rows: Rows

    def __call__(self, block: Array) -> Array:
        along = self.rows.inner(along_rows(self.direction, block), block)
        scale, coefficient, direction = (
            along_rows(field, block) for field in (self.scale, self.coefficient, self.direction)
        )
        return scale * block + direction * (coefficient * along)

    def part(self, coordinates: Array | None, dtype: Any) -> RankOne:
        fields = (self.scale, self.coefficient, self.direction)
        scale, coefficient, direction = (_part(field, coordinates, dtype) for field in fields)
        return RankOne(scale, coefficient, direction, self.rows)

    def isotropic(self) -> Array | float | None:
        return self.scale


class Groups:
    """Partition into groups, summed in a padded table: the standard has no scatter."""

    def __init__(self, labels: np.ndarray):
        self.names, self.codes, self.sizes = np.unique(
            labels, return_inverse=True, return_counts=True
        )
        starts = np.cumsum(self.sizes) - self.sizes
        slot = np.arange(self.sizes.max(initial=1))
        self._inside = slot < self.sizes[:, None]
        order = np.argsort(self.codes, kind="stable")
        self._members = order[
            np.where(self._inside, starts[:, None] + slot, 0)
        ]  # (groups, largest)

    def sum(self, block: Array) -> Array:
        """Sum the rows of a vector or block within each group."""
        xp = namespace(block)
        rows = take(block, self._members.ravel())
        rows = xp.reshape(rows, (*self._members.shape, *block.shape[1:]))
        inside = constant(self._inside, block)
        return xp.sum(rows * xp.reshape(inside, inside.shape + (1,) * (block.ndim - 1)), axis=1)

    def spread(self, values: Array) -> Array:
        """Repeat each group's value (or row) for each of its coordinates."""
        return take(values, self.codes)


@dataclass(frozen=True, eq=False)
class GroupwiseRankOne(WithRankOne):
    """``scale_g * I + coefficient_g * z_g z_gᵀ`` on each group g; z is one entry per coordinate."""

    groups: Groups

    def __call__(self, block: Array) -> Array:
        direction = along_rows(self.direction, block)
        along = self.groups.sum(direction * block)
        along = self.groups.spread(along_rows(self.coefficient, along) * along)
        return along_rows(self.groups.spread(self.scale), block) * block + direction * along

    def support(self) -> Array:
        return _any_member(self.groups.spread((self.scale != 0) | (self.coefficient != 0)))

    def part(self, coordinates: Array | None, dtype: Any) -> GroupwiseRankOne:
        groups, kept = self.groups, None
        if coordinates is not None:
            # a group lies in the support entirely or not at all, so partial groups are zero
            groups = Groups(self.groups.codes[coordinates])
            kept = groups.names
        return GroupwiseRankOne(
            _part(self.scale, kept, dtype),
            _part(self.coefficient, kept, dtype),
            _part(self.direction, coordinates, dtype),
            groups,
        )


@dataclass(frozen=True, eq=False)
class FreeLast(Jacobian):
    """``head`` on all coordinates except the last, and a multiple of the identity on the last."""

    head: Jacobian
    last: float = 1.0

    def __call__(self, block: Array) -> Array:
        xp = namespace(block)
        return xp.concat([self.head(block[:-1, ...]), self.last * block[-1:, ...]], axis=0)

    def affine(self, shift: float, factor: float) -> FreeLast:
        return FreeLast(self.head.affine(shift, factor), shift + factor * self.last)

    def support(self) -> Array | None:
        head = self.head.support()
        if head is None:
            return None
        xp = namespace(head)
        return xp.concat([head, xp.ones_like(head[:1])])

    def columns(self, count: int) -> list[Jacobian]:
        return [FreeLast(head, self.last) for head in self.head.columns(count)]

    def part(self, coordinates: Array | None, dtype: Any) -> FreeLast:
        head = coordinates if coordinates is None else coordinates[:-1]
        return FreeLast(self.head.part(head, dtype), self.last)


@dataclass(frozen=True, eq=False)
class PerMember(Jacobian):
    """Jacobians of different types, one per member."""

    each: tuple[Jacobian, ...]

    def __call__(self, block: Array) -> Array:
        images = [own(block[:, k : k + 1, :]) for k, own in enumerate(self.each)]
        return namespace(block).concat(images, axis=1)

    def affine(self, shift: float, factor: float) -> PerMember:
        return PerMember(tuple(own.affine(shift, factor) for own in self.each))

    def support(self) -> Array | None:
        masks = [own.support() for own in self.each]
        return None if any(mask is None for mask in masks) else reduce(operator.or_, masks)

    def columns(self, count: int) -> list[Jacobian]:
        split = zip(*(own.columns(count) for own in self.each), strict=True)
        return [PerMember(tuple(each)) for each in split]

    def part(self, coordinates: Array | None, dtype: Any) -> PerMember:
        return PerMember(tuple(own.part(coordinates, dtype) for own in self.each))


def _is_for_all(values: Array) -> bool:
    """Whether a scalar, or one value per member, applies to all coordinates."""
    return not hasattr(values, "ndim") or values.ndim == 0 or values.shape[0] == 1


def _any_member(mask: Array) -> Array:
    """Return the coordinates that are in the mask of any member."""
    return mask if mask.ndim == 1 else namespace(mask).any(mask, axis=tuple(range(1, mask.ndim)))


def _part(values: Array, coordinates: Array | None, dtype: Any) -> Array:
    """Return the values of some coordinates in another precision; scalars are unchanged."""
    if not hasattr(values, "ndim"):
        return values
    if coordinates is not None and not _is_for_all(values):
        values = take(values, coordinates)
    return cast(values, dtype)


def _columns(values: Array, count: int) -> list[Array]:
    """Split a block into its columns; values shared by all columns are repeated."""
    if not hasattr(values, "ndim") or values.shape[-1] == 1:
        return [values] * count
    xp = namespace(values)
    pieces = xp.permute_dims(values, (values.ndim - 1, *range(values.ndim - 1))) + 0  # contiguous
    return [pieces[k, ..., None] for k in range(count)]
