"""Computations in a lower precision than the path's, where that is accurate enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from steinpath._support.arrays import Array, namespace, to_numpy
from steinpath.design._base import Design
from steinpath.engine._batch import Batch

# Size of runs from which on single precision is enough, for responses within a moderate range, and
# the number of iterations that is assumed.
_LARGE, _MODERATE, _USUAL_ITERATIONS = 3e7, 1e7, 100


def design_in(batch: Batch, dtype: Any, rngs: Sequence[np.random.Generator]) -> Design:
    """Return the batch's design in another precision, or unchanged if that is not accurate enough.

    It is not if entries overflow, if means are so large that centred entries lose their digits, or
    if a path is near the limits of the precision. User-defined maps are always called in the path's
    precision. There is one generator per member.
    """
    whole = batch.data.design
    if not batch.maps.structured:
        return whole
    design = whole.astype(dtype)
    signs = [whole.signs(rng, design.shape[1]) for rng in rngs]
    probe = namespace(batch.data.y).stack(signs, axis=1)[:, :, None]
    product = whole.forward(probe)
    copied = whole.array(design.forward(design.array(probe)))
    states = batch.states

    def size(array: Array, member_axis: int) -> np.ndarray:
        """Return the largest entry of each member without a copy."""
        xp, axes = namespace(array), tuple(k for k in range(3) if k != member_axis)
        high, low = to_numpy(xp.max(array, axis=axes)), to_numpy(xp.min(array, axis=axes))
        largest = np.maximum(high, -low)
        return np.array([whole.largest(float(each)) for each in largest])

    sizes = [size(product, 1), size(states.b, 0), size(states.u, 0)]
    moderate = all(np.all((each == 0) | ((each > 1e-10) & (each < 1e10))) for each in sizes)
    faithful = np.all(size(copied - product, 1) <= 1e-3 * sizes[0])
    return design if moderate and faithful else whole


def enough_precision(y: np.ndarray, size: float) -> str:
    """Return the precision of runs whose iterates have this size in all: single, if it is large.

    Columns must then be standardised and centred before they are rounded.
    """
    spread = float(np.abs(y - np.median(y)).max())
    small = size * _USUAL_ITERATIONS > _LARGE and 1 / _MODERATE < spread < _MODERATE
    return "float32" if small else "float64"
