"""Working in another precision than the path's, where that is faithful."""

from __future__ import annotations

from typing import Any

import numpy as np

from steinpath._support.arrays import Array, namespace, to_numpy
from steinpath.design._designs import Design
from steinpath.engine._path import Path


def design_in(path: Path, dtype: Any, *rngs: np.random.Generator) -> Design:
    """Return the path's design in another precision, or as it is where that would not do.

    It would not if entries overflow, or if their means are so large that nothing is left of them
    once they are centred; nor if the path itself is near the limits of the precision. A user's
    own maps are called with what they expect: the path's precision. There is one generator, or
    one for each member of a batch.
    """
    if not path.maps.structured:
        return path.design
    design = path.design.astype(dtype)
    signs = [path.design.signs(rng, design.shape[1]) for rng in rngs]
    probe = namespace(path.y).stack(signs, axis=1) if path.is_batch else signs[0]
    product = path.design.matmat(probe)
    copied = path.design.array(design.matmat(design.array(probe)))
    xp = namespace(product)

    def size(array: Array) -> np.ndarray:  # of the largest entry of each member, without a copy
        axes = tuple(range(array.ndim - 1)) if path.is_batch else None
        high, low = to_numpy(xp.max(array, axis=axes)), to_numpy(xp.min(array, axis=axes))
        largest = np.maximum(high, -low)
        return largest if path.is_batch else np.asarray(path.design.largest(float(largest)))

    sizes = [size(array) for array in (product, path.iterates, path.duals)]
    moderate = all(np.all((each == 0) | ((each > 1e-10) & (each < 1e10))) for each in sizes)
    faithful = np.all(size(copied - product) <= 1e-3 * sizes[0])
    return design if moderate and faithful else path.design
