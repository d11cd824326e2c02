"""Designs of batches: whose columns are whose.

Blocks have the shape (size, members) or (size, members, columns); each member is multiplied by its
own matrix, or all of them by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from steinpath._support.arrays import Array, cast, namespace, to_numpy
from steinpath.design._designs import DenseDesign, Design, InterceptDesign

# Steps of the power method that tells which members of a batch may have the largest norm, and how
# far below the largest one their estimates may be.
_POWER_STEPS, _NEARLY_LARGEST = 12, 0.9


class _OfMembers(Design):
    """A design whose columns each belong to a member of a batch, with a design of its own."""

    members: Sequence[Design]

    def _largest_singular_value(self, tol: float) -> float:
        xp = namespace(self.example)
        # not signs, to which a singular vector of a small matrix may be orthogonal
        start = np.random.default_rng(0).standard_normal((self.shape[1], len(self.members)))
        block = self.array(start)
        for _ in range(_POWER_STEPS):
            block = self.rmatmat(self.matmat(block))
            sizes = xp.linalg.vector_norm(block, axis=0)
            block = block / xp.where(sizes > 0, sizes, sizes + 1)
        rough = to_numpy(sizes)
        # for a warning it is enough to look at one
        least = rough.max() * (1.0 if tol >= 1e-3 else _NEARLY_LARGEST)
        near = np.flatnonzero(rough >= least).tolist()
        return max(self.members[k].norm(tol) for k in near)


class StackedDesign(_OfMembers):
    """Matrices of one shape, one for each member of a batch.

    Parameters
    ----------
    X : Array of shape (members, n, p)
        Checked before.
    """

    def __init__(self, X: Array):
        self.example, self.shape = X, (int(X.shape[1]), int(X.shape[2]))
        self.members = [DenseDesign.of_checked(X[k, ...]) for k in range(X.shape[0])]

    def matmat(self, block: Array) -> Array:
        return self._times(self.example, block)

    def rmatmat(self, block: Array) -> Array:
        return self._times(namespace(block).matrix_transpose(self.example), block)

    def astype(self, dtype: Any) -> StackedDesign:
        return StackedDesign(cast(self.example, dtype))

    @staticmethod
    def _times(matrices: Array, block: Array) -> Array:
        """Multiply the columns of each member, of shape (size, members[, columns]), by its own."""
        xp = namespace(block)
        columns = block[:, :, None] if block.ndim == 2 else block
        product = xp.permute_dims(matrices @ xp.permute_dims(columns, (1, 0, 2)), (1, 0, 2))
        return product[:, :, 0] if block.ndim == 2 else product


class StackedInterceptDesign(_OfMembers, InterceptDesign):
    """The same with intercepts."""

    def __init__(self, features: StackedDesign, members: Sequence[InterceptDesign]):
        self.members, xp = members, namespace(features.example)
        means = xp.stack([each.means for each in members], axis=1)
        super().__init__(features, means, features.array([each.height for each in members]))

    def astype(self, dtype: Any) -> StackedInterceptDesign:
        assert isinstance(self.features, StackedDesign)
        members = [each for each in self.members if isinstance(each, InterceptDesign)]
        return StackedInterceptDesign(self.features.astype(dtype), members)


class SharedDesign(Design):
    """One design for all members of a batch.

    Parameters
    ----------
    design : Design
        The design.
    """

    def __init__(self, design: Design):
        self.design, self.example, self.shape = design, design.example, design.shape
        self.dear = design.dear

    def matmat(self, block: Array) -> Array:
        return self._flat(self.design.matmat, block)

    def rmatmat(self, block: Array) -> Array:
        return self._flat(self.design.rmatmat, block)

    def astype(self, dtype: Any) -> SharedDesign:
        return SharedDesign(self.design.astype(dtype))

    @staticmethod
    def _flat(product: Any, block: Array) -> Array:
        xp, (size, *columns) = namespace(block), block.shape
        found = product(xp.reshape(block, (size, -1)))
        return xp.reshape(found, (found.shape[0], *columns))

    def _largest_singular_value(self, tol: float) -> float:
        return self.design.norm(tol)


def features_of(design: Design) -> Design:
    """Return the features of a design, without its intercept."""
    return design.features if isinstance(design, InterceptDesign) else design


def batch_design(features: Design, members: Sequence[Design]) -> Design:
    """Return the features of all members, with the intercepts that each of them may have."""
    first = members[0]
    if not isinstance(first, InterceptDesign):
        return features
    if not isinstance(features, StackedDesign):
        return InterceptDesign(features, first.means, first.height)
    return StackedInterceptDesign(
        features, [each for each in members if isinstance(each, InterceptDesign)]
    )
