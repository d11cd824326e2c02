"""The norm of a matrix that is dear to go through: few passes, with many columns each."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

# Columns of each product, and products before a restart.
_WIDTH, _STEPS = 16, 12
_MOST_RESTARTS = 50


def norm_in_few_passes(
    forth: Callable[[np.ndarray], np.ndarray],
    back: Callable[[np.ndarray], np.ndarray],
    size: int,
    tol: float,
) -> float:
    """Largest singular value of A, by block Lanczos for ``AᵀA`` with restarts.

    A single vector needs ten times as many products where singular values lie densely, as those
    of random matrices do: what counts is the gap to the first one that the block has no room for.

    Parameters
    ----------
    forth, back : callable
        Multiply a block with A and with Aᵀ.
    size : int
        Number of columns of A; more than 32.
    tol : float
        Relative accuracy. The error of the value is about the square of that of the vector, over
        the gap; so the vector's is made smaller than ``tol ** (2/3)``.
    """
    steps = min(_STEPS, size // _WIDTH)
    basis = np.zeros((size, steps * _WIDTH))
    start = np.random.default_rng(0).standard_normal((size, _WIDTH))
    value = rest = 0.0
    for _ in range(_MOST_RESTARTS):
        new = np.linalg.qr(start)[0]
        projected = np.zeros((basis.shape[1], basis.shape[1]))  # AᵀA in the basis
        for first in range(0, basis.shape[1], _WIDTH):
            block = slice(first, first + _WIDTH)
            basis[:, block] = new
            known = basis[:, : block.stop]
            product = back(forth(new))
            inner = known.T @ product
            projected[: block.stop, block], projected[block, : block.stop] = inner, inner.T
            values, vectors = np.linalg.eigh(projected[: block.stop, : block.stop])
            value = float(values[-1])
            if value <= 0:
                return 0.0
            product = product - known @ inner
            rest = float(np.linalg.norm(product @ vectors[-_WIDTH:, -1]))
            if rest <= tol ** (2 / 3) * value:
                return math.sqrt(value)
            new = product
            for _ in range(2):  # once is not enough where little is left of the product
                new = np.linalg.qr(new - known @ (known.T @ new))[0]
        start = basis @ vectors[:, -_WIDTH:]
    return math.sqrt(value + rest)  # not too low, if not to the last digit
