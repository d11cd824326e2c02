"""Bounds of the spectral norm of a matrix from at most ten products."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from steinpath._support.arrays import (
    Array,
    cast,
    largest_along,
    like,
    namespace,
    to_numpy,
    units_of,
)

if TYPE_CHECKING:
    from steinpath.design._base import Design

#: Columns of a product, and number of applications of ``Xᵀ X``.
WIDTH, STEPS = 8, 5
#: Up to this many columns, the norm is computed exactly.
EXACT = 64


class NormBounds(NamedTuple):
    """Bounds of the largest singular value of a matrix.

    Attributes
    ----------
    low : float
        Lower bound: the factor by which some vector is stretched.
    high : float
        Upper bound, at most a few percent above the norm; see `norm_bounds`.
    """

    low: float
    high: float


def norm_bounds(design: Design) -> NormBounds:
    """Bound the norm of a design, or the largest norm of its members, by block Lanczos.

    Five steps from a random block of eight columns give the largest Ritz value θ of ``Xᵀ X`` and
    its residual. An eigenvalue lies within the norm of the residual of θ. It is the largest one
    unless the random block is nearly orthogonal to the leading eigenvectors, so ``√(θ + residual)``
    is an upper bound. For random matrices, whose singular values are dense, it is 1 to 3 percent
    too large; it is exact if the largest singular values are well separated.

    Parameters
    ----------
    design : Design
        Design; only its products are used.
    """
    p, members = design.shape[1], design.members
    if p <= EXACT:
        start, steps = np.eye(p), 1
    else:
        start, steps = np.random.default_rng(0).standard_normal((p, WIDTH)), STEPS
    xp = namespace(design.example)
    block = like(start, design.example)[None, :, :] + design.zeros(members, 1, 1)
    block = _orthonormal(block / math.sqrt(p), 0.0)
    blocks: list[Array] = []
    images: list[Array] = []
    for step in range(steps):
        # blocks of a design have the members axis in the middle; stacked matrices have it first
        image = design.adjoint(design.forward(xp.permute_dims(block, (1, 0, 2))))
        blocks.append(block)
        images.append(xp.permute_dims(image, (1, 0, 2)))
        if step < steps - 1:
            block = images[-1] / units_of(xp.max(largest_along(images[-1], 1), axis=2)[:, :, None])
            for known in blocks:
                block = block - known @ (xp.matrix_transpose(known) @ block)
            # the remainder of a product that is pure rounding error has no meaningful direction
            block = _orthonormal(block, float(xp.finfo(block.dtype).eps) ** 0.5)
    basis, image = xp.concat(blocks, axis=2), xp.concat(images, axis=2)
    projected = to_numpy(cast(xp.matrix_transpose(basis) @ image, xp.float64))
    values, vectors = np.linalg.eigh((projected + projected.transpose(0, 2, 1)) / 2)
    top = like(vectors[:, :, -1:], basis)
    theta = np.maximum(values[:, -1], 0.0)
    rest = image @ top - like(theta[:, None, None], basis) * (basis @ top)
    unit = np.where(theta > 0, theta, 1.0)
    size = np.linalg.norm(to_numpy(rest)[:, :, 0].astype(float) / unit[:, None], axis=1)
    return NormBounds(math.sqrt(float(theta.max())), math.sqrt(float((theta * (1 + size)).max())))


def _orthonormal(block: Array, least: float) -> Array:
    """Return orthonormal bases of the columns of matrices; columns not above ``least`` become 0."""
    xp, limit = namespace(block), least**2 * block.shape[1]
    for _ in range(2):  # the second pass removes rounding errors of the first
        gram = to_numpy(xp.matrix_transpose(block) @ block).astype(float)
        squares, vectors = np.linalg.eigh(gram)
        factors = 1 / np.sqrt(np.where(squares > limit, squares, np.inf))
        block = block @ like(vectors * factors[:, None, :], block)
        limit = 0.5
    return block
