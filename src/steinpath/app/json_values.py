"""Values of a model file: of the type that they should be, or refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from steinpath.app.encoding.messages import entries
from steinpath.app.tables import DataError

__all__ = ["count", "entries", "items", "number", "text"]


def text(name: str, value: Any) -> str:
    """Return a text of the file that can be written to one again."""
    if not isinstance(value, str):
        raise DataError(f"its {name!r} is not a text")
    try:
        value.encode()
    except UnicodeEncodeError:  # halves of characters, which JSON has escapes for
        raise DataError(f"its {name!r} is not Unicode") from None
    return value


def count(name: str, value: Any) -> int:
    """Return a whole number of the file that is not negative."""
    if type(value) is not int or not 0 <= value < 2**63:
        raise DataError(f"its {name!r} is not a whole number")
    return value


def number(name: str, value: Any) -> float:
    """Return a finite number of the file."""
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    # an integer of a thousand digits is no float
    if not usable or abs(value) > 1e300 or not math.isfinite(value):
        raise DataError(f"its {name!r} is not a number")
    return float(value)


def items(name: str, value: Any) -> Sequence[Any]:
    """Return the items of a list of the file."""
    if not isinstance(value, list):
        raise DataError(f"its {name!r} is not a list")
    return value
