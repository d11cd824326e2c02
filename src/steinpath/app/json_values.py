"""Values of a model file: checked for their types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from steinpath.app.encoding.messages import entries
from steinpath.app.tables import DataError

__all__ = ["count", "entries", "items", "number", "text"]


def text(name: str, value: Any) -> str:
    """Return a text of the file, which must be valid Unicode."""
    if not isinstance(value, str):
        raise DataError(f"its {name!r} is not a string")
    try:
        value.encode()
    except UnicodeEncodeError:  # lone surrogates, which JSON can escape
        raise DataError(f"its {name!r} is not Unicode") from None
    return value


def count(name: str, value: Any) -> int:
    """Return a nonnegative integer of the file."""
    if type(value) is not int or not 0 <= value < 2**63:
        raise DataError(f"its {name!r} is not a nonnegative integer")
    return value


def number(name: str, value: Any) -> float:
    """Return a finite number of the file."""
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    # an integer of a thousand digits is not a float
    if not usable or abs(value) > 1e300 or not math.isfinite(value):
        raise DataError(f"its {name!r} is not a number")
    return float(value)


def items(name: str, value: Any) -> Sequence[Any]:
    """Return the items of a list of the file."""
    if not isinstance(value, list):
        raise DataError(f"its {name!r} is not a list")
    return value
