"""Structured Jacobians of proximal maps: what is stored is the structure, never a square matrix.

A Jacobian is called on a vector or on a block of columns. All of them are symmetric, as
Jacobians of proximal maps are, and all are closed under ``shift * I + factor * J``, which
turns the Jacobian of a gradient into that of its proximal map and back (Moreau).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import array_api_compat
import numpy as np

from steinpath._arrays import Array, along_rows, like, namespace


class Jacobian(ABC):
    """A symmetric linear map that acts on vectors and on blocks of columns."""

    @abstractmethod
    def __call__(self, block: Array) -> Array:
        """Product of the Jacobian with a vector or with each column of a block."""

    @abstractmethod
    def affine(self, shift: float, factor: float) -> Jacobian:
        """Return the Jacobian ``shift * I + factor * J``."""


@dataclass(frozen=True, eq=False)
class Diagonal(Jacobian):
    """``diag(entries)``; a scalar stands for a multiple of the identity."""

    entries: Array

    def __call__(self, block: Array) -> Array:
        return along_rows(self.entries, block) * block

    def affine(self, shift: float, factor: float) -> Diagonal:
        return Diagonal(shift + factor * self.entries)


@dataclass(frozen=True, eq=False)
class RankOne(Jacobian):
    """``scale * I + coefficient * z zᵀ``: the projection on a ball, seen from outside."""

    scale: Array
    coefficient: Array
    direction: Array

    def __call__(self, block: Array) -> Array:
        # tensordot, because 1-d times 2-d contracts the right axis in every namespace
        along = namespace(block).tensordot(self.direction, block, axes=1)
        direction = along_rows(self.direction, block)
        return self.scale * block + direction * (self.coefficient * along)

    def affine(self, shift: float, factor: float) -> RankOne:
        return RankOne(shift + factor * self.scale, factor * self.coefficient, self.direction)


class Groups:
    """A partition of coordinates, with sums over its parts.

    The standard array API has no scatter, so members are gathered into a padded table: exact,
    and no waste when groups have similar sizes.
    """

    def __init__(self, labels: np.ndarray):
        self.names, self.codes, self.sizes = np.unique(
            labels, return_inverse=True, return_counts=True
        )
        starts = np.cumsum(self.sizes) - self.sizes
        slot = np.arange(self.sizes.max())
        inside = slot < self.sizes[:, None]
        order = np.argsort(self.codes, kind="stable")
        self._members = order[np.where(inside, starts[:, None] + slot, 0)]  # (groups, largest)
        self._inside = inside

    def sum(self, block: Array) -> Array:
        """Sum the rows of a vector or block within each group."""
        xp = namespace(block)
        rows = _take(block, self._members.ravel())
        rows = xp.reshape(rows, (*self._members.shape, *block.shape[1:]))
        inside = like(self._inside, block)
        return xp.sum(rows * xp.reshape(inside, inside.shape + (1,) * (block.ndim - 1)), axis=1)

    def spread(self, values: Array) -> Array:
        """Repeat each group's value (or row) for each of its members."""
        return _take(values, self.codes)


def _take(block: Array, rows: np.ndarray) -> Array:
    xp = namespace(block)
    return xp.take(block, xp.asarray(rows, device=array_api_compat.device(block)), axis=0)


@dataclass(frozen=True, eq=False)
class GroupwiseRankOne(Jacobian):
    """Block diagonal: ``scale_g * I + coefficient_g * z_g z_gᵀ`` on each group ``g``."""

    groups: Groups
    scale: Array  # one per group
    coefficient: Array  # one per group
    direction: Array  # one per coordinate

    def __call__(self, block: Array) -> Array:
        direction = along_rows(self.direction, block)
        along = self.groups.sum(direction * block)
        along = self.groups.spread(along_rows(self.coefficient, along) * along)
        return along_rows(self.groups.spread(self.scale), block) * block + direction * along

    def affine(self, shift: float, factor: float) -> GroupwiseRankOne:
        return GroupwiseRankOne(
            self.groups, shift + factor * self.scale, factor * self.coefficient, self.direction
        )


@dataclass(frozen=True, eq=False)
class FreeLast(Jacobian):
    """``head`` on all coordinates but the last, a multiple of the identity there."""

    head: Jacobian
    last: float = 1.0

    def __call__(self, block: Array) -> Array:
        xp = namespace(block)
        return xp.concat([self.head(block[:-1, ...]), self.last * block[-1:, ...]], axis=0)

    def affine(self, shift: float, factor: float) -> FreeLast:
        return FreeLast(self.head.affine(shift, factor), shift + factor * self.last)
