"""Equality of losses, penalties and algorithms, based on their full state.

User-defined classes may store anything in fields, attributes or slots. Values that cannot be
compared are compared by identity: treating equal objects as different only costs a separate run,
while treating different objects as equal would give wrong results.
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
    """Whether two objects have the same class and the same state."""
    return first is second or (type(first) is type(second) and key(first) == key(second))


def key(instance: Any) -> tuple[Any, ...]:
    """Return the current state of an object, without cached properties."""
    kind, state = type(instance), object.__getstate__(instance)
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    kept = {**(attributes or {}), **(slots or {})}
    return kind, *(
        (name, _comparable(kept[name]))
        for name in sorted(kept)
        if not isinstance(getattr(kind, name, None), cached_property)
    )


def snapshot(instance: Any) -> Any:
    """Return a copy for later comparison; if copying fails, an object that equals nothing."""
    try:
        return deepcopy(instance)
    except Exception:  # a user-defined object holding a lock or a file
        return object()


def _comparable(value: Any) -> Any:
    """Return an immutable value that is equal for equal inputs."""
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
