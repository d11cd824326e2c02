"""The norm of a matrix, in few passes over it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from steinpath._support.arrays import namespace, to_numpy


def norm_in_few_passes(
    forth: Callable[[np.ndarray], np.ndarray],
    back: Callable[[np.ndarray], np.ndarray],
    size: int,
    tol: float,
    width: int = 16,
    most_steps: int = 12,
    every: int = 1,
    most_restarts: int = 50,
) -> float:
    """Largest singular value of A, by block Lanczos for ``AᵀA`` with restarts.

    A block needs fewer products than a single vector where singular values lie densely, as those
    of random matrices do: what counts is the gap to the first one that the block has no room for.
    A matrix in memory meets a single vector so much faster that this is the better way there.

    Parameters
    ----------
    forth, back : callable
        Multiply a block with A and with Aᵀ.
    size : int
        Number of columns of A; at least twice `width`.
    tol : float
        Relative accuracy. The error of the value is about the square of that of the vector, over
        the gap; so the vector's is made smaller than ``tol ** (2/3)``.
    width : int, default=16
        Columns of each product.
    most_steps : int, default=12
        Products before a restart, at most.
    every : int, default=1
        Products between looks at the value.
    most_restarts : int, default=50
        After these, a value is returned that is not too low, if not to the last digit.
    """
    steps = min(most_steps, size // width)
    basis = np.zeros((size, steps * width))
    start = np.random.default_rng(0).standard_normal((size, width))
    value = rest = 0.0
    for _ in range(most_restarts):
        new = np.linalg.qr(start)[0]
        projected = np.zeros((basis.shape[1], basis.shape[1]))  # AᵀA in the basis
        for first in range(0, basis.shape[1], width):
            block = slice(first, first + width)
            basis[:, block] = new
            known = basis[:, : block.stop]
            product = back(forth(new))
            inner = known.T @ product
            projected[: block.stop, block], projected[block, : block.stop] = inner, inner.T
            product = product - known @ inner
            if block.stop % (every * width) == 0 or block.stop == basis.shape[1]:
                values, vectors = np.linalg.eigh(projected[: block.stop, : block.stop])
                value = float(values[-1])
                if value <= 0:
                    return 0.0
                rest = float(np.linalg.norm(product @ vectors[-width:, -1]))
                if rest <= tol ** (2 / 3) * value:
                    return math.sqrt(value)
            new = product
            for _ in range(2):  # once is not enough where little is left of the product
                new = np.linalg.qr(new - known @ (known.T @ new))[0]
        start = basis @ vectors[:, -width:]
    return math.sqrt(value + rest)  # not too low, if not to the last digit


def near_the_largest(design: Any, steps: int = 12, share: float = 0.9) -> np.ndarray:
    """Return which members' matrices may have the largest norm, by a few steps of the power method.

    Parameters
    ----------
    design : Design
        With several members.
    steps : int
        Steps of the power method.
    share : float
        How far below the largest estimate that of a member may be.
    """
    xp = namespace(design.example)
    # not signs, to which a singular vector of a small matrix may be orthogonal
    start = np.random.default_rng(0).standard_normal((design.shape[1], design.members))
    block = design.array(start)[:, :, None]
    for _ in range(steps):
        block = design.adjoint(design.forward(block))
        sizes = xp.linalg.vector_norm(block, axis=0, keepdims=True)
        block = block / xp.where(sizes > 0, sizes, sizes + 1)
    rough = to_numpy(sizes)[0, :, 0]
    return np.flatnonzero(rough >= share * rough.max())
