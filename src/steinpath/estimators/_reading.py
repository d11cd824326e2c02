"""Reading of the data passed to estimators, before scikit-learn validates them."""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn
from array_api_compat import device
from scipy.sparse import issparse

from steinpath._support.arrays import Array, beside, is_foreign, namespace, to_numpy
from steinpath._support.reading import read_array
from steinpath.design._memmap import needs_blocks
from steinpath.design._sparse import compressed


def readable(name: str, values: Any) -> Any:
    """Return data in a form that scikit-learn reads correctly; reject what `run` rejects.

    scikit-learn ignores masks, converts dates and strings to numbers, and converts sparse matrices
    before it checks their indices. Data frames stay data frames, for the names of their columns.
    Arrays of other libraries stay on their device with scikit-learn's array API dispatch, and
    become NumPy arrays without.
    """
    if needs_blocks(values):  # read and checked in blocks
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
            array = xp.astype(array, xp.float64)  # NumPy does not have all other types
        if not sklearn.get_config()["array_api_dispatch"]:
            array = _on_the_host(name, array)
        elif xp.isdtype(
            array.dtype, "complex floating"
        ):  # scikit-learn would discard the imaginary part
            raise TypeError(f"{name} must be real, got {array.dtype}; pass .real if intended")
    return array


def _on_the_host(name: str, array: Array) -> np.ndarray:
    """Return an array of another library as a NumPy array, if it is on the CPU."""
    try:
        return np.asarray(array)
    except (TypeError, RuntimeError):  # raised by libraries for arrays on other devices
        raise TypeError(
            f"{name} is on the device {device(array)}: to compute there, enable scikit-learn's "
            "array API dispatch, sklearn.set_config(array_api_dispatch=True); or move it to the CPU"
        ) from None


def following(values: Any, X: Any) -> Any:
    """Return values of the rows in the library and on the device of X.

    For sparse matrices, data frames and files, they are NumPy arrays.
    """
    if is_foreign(X):
        return beside(values, X)
    return to_numpy(values) if is_foreign(values) else values


def check_same_library(X: Any, coef: Array, method: str) -> None:
    """Raise an error if X is in another array library than in the fit, or on another device.

    Parameters
    ----------
    X
        The features.
    coef : Array
        The coefficients.
    method : str
        The method that X was passed to, such as "LADLasso.predict()".
    """
    known, given = (_place(array) for array in (coef, X))
    if known != given:
        raise ValueError(
            f"Inputs passed to {method} must use the same namespace and the same device as those "
            f"passed to fit(): fit() was passed {known}, and {method} {given}; convert X, and use "
            "sklearn.set_config(array_api_dispatch=True) for arrays of libraries other than NumPy"
        )


def _place(array: Any) -> str:
    if not is_foreign(array):
        return "NumPy arrays"
    library = namespace(array).__name__.removeprefix("array_api_compat.")
    return f"arrays of {library} on {device(array)}"


def columns_named(features: Any, names: np.ndarray | None) -> Any:
    """Return column indices of features that are given by name."""
    if isinstance(features, str):
        features = [features]
    if np.ndim(features) == 0 or not any(isinstance(each, str) for each in features):
        return features
    if names is None:
        raise ValueError(
            "features are given by name, but X had no column names in fit; use column indices"
        )
    places = {name: place for place, name in enumerate(names)}
    unknown = [name for name in features if name not in places]
    if unknown:
        raise ValueError(f"X had no column {unknown[0]!r} in fit")
    return [places[name] for name in features]
