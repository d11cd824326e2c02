"""Whether two losses, penalties or algorithms are the same: by all that they keep.

Classes of the user's own may keep anything, in fields, attributes or slots. What cannot be compared
by its value is compared by its identity: two objects that are taken for different are only run
apart, but two that are wrongly taken for the same would give wrong results.
"""

from __future__ import annotations

from collections.abc import Hashable
from copy import deepcopy
from dataclasses import is_dataclass
from functools import cached_property
from typing import Any

import array_api_compat
import numpy as np

from steinpath._support.arrays import to_numpy


def same(first: Any, second: Any) -> bool:
    """Whether two objects are of one class, and keep the same."""
    return first is second or (type(first) is type(second) and key(first) == key(second))


def key(instance: Any) -> tuple[Any, ...]:
    """All that an object keeps, as it is now; cached properties follow from the rest."""
    kind, state = type(instance), object.__getstate__(instance)
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    kept = {**(attributes or {}), **(slots or {})}
    return kind, *(
        (name, _comparable(kept[name]))
        for name in sorted(kept)
        if not isinstance(getattr(kind, name, None), cached_property)
    )


def snapshot(instance: Any) -> Any:
    """Return a copy to compare later objects with; of what cannot be copied, one like no other."""
    try:
        return deepcopy(instance)
    except Exception:  # an object of the user's own, with a lock or a file
        return object()


def _comparable(value: Any) -> Any:
    """Return something that is equal for equal values, and does not change with the value."""
    if isinstance(value, list | tuple):
        return type(value), *map(_comparable, value)
    if isinstance(value, dict):
        return type(value), *((name, _comparable(each)) for name, each in value.items())
    if isinstance(value, np.generic | np.ma.MaskedArray):
        return value if isinstance(value, np.generic) else id(value)
    if array_api_compat.is_array_api_obj(value):
        array = to_numpy(value.detach() if hasattr(value, "detach") else value)
        return type(value), array.shape, array.dtype.str, array.tobytes()
    if is_dataclass(value) and not isinstance(value, type):
        return key(value)
    return value if isinstance(value, Hashable) else id(value)
