"""What users hand to estimators, before scikit-learn checks it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from steinpath._support.arrays import namespace, to_numpy
from steinpath._support.reading import read_array
from steinpath.design._memmap import needs_blocks
from steinpath.design._sparse import compressed


def readable(name: str, values: Any) -> Any:
    """Return what scikit-learn reads as the numbers that it holds; refuse what `run` refuses.

    scikit-learn ignores masks, takes dates and texts for numbers, and converts sparse matrices
    before it looks at their indices. Frames stay frames, for the names of their columns.
    """
    if needs_blocks(values):  # is read, and checked, in blocks
        return values
    if hasattr(type(values), "compute"):  # of Dask
        values = values.compute()
    if name == "X" and issparse(values):
        return compressed(values)
    array = read_array(name, values)
    if hasattr(values, "columns") or array.ndim == 0:
        return values
    if not isinstance(array, np.ndarray):
        xp = namespace(array)
        if xp.isdtype(array.dtype, "real floating") and array.dtype != xp.float32:
            array = xp.astype(array, xp.float64)  # NumPy does not know all others
        array = to_numpy(array)
    return array


def columns_named(features: Any, names: np.ndarray | None) -> Any:
    """Return columns of X by their numbers, if they are given by their names."""
    if isinstance(features, str):
        features = [features]
    if np.ndim(features) == 0 or not any(isinstance(each, str) for each in features):
        return features
    if names is None:
        raise ValueError(
            "features are given by name, but X had no names in the fit; use numbers of columns"
        )
    places = {name: place for place, name in enumerate(names)}
    unknown = [name for name in features if name not in places]
    if unknown:
        raise ValueError(f"X had no column {unknown[0]!r} in the fit")
    return [places[name] for name in features]
