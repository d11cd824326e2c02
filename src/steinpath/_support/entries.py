"""Entries of a model file, each of which is checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steinpath._support.messages import DataError

_WORDS = {float: "number", int: "nonnegative integer", str: "string", list: "list", dict: "mapping"}


def require(right: Any, name: str, value: Any, said: str = "is not valid") -> None:
    """Refuse an entry of the file that is not right."""
    if not right:
        raise DataError(f"its {name!r:.60} {said}: {value!r:.60}")


def checked(kind: Any, name: str, value: Any) -> Any:
    """Return an entry of a type, or a list of them: ``(type, count)``, or None for any count."""
    if isinstance(kind, tuple):
        right = kind[1] in (None, len(checked(list, name, value)))
        require(right, name, value, "has too many or too few entries")
        return [checked(kind[0], name, item) for item in value]
    right = type(value) is kind or (kind is float and type(value) is int)
    if right and kind is float:  # finite, also as an integer of a thousand digits
        right = abs(value) <= 1e300
    elif right and kind is int:
        right = 0 <= value < 2**63
    elif right and kind is str:  # without halves of characters
        right = value.encode(errors="ignore").decode() == value
    require(right, name, value, f"is not a {_WORDS[kind]}")
    return float(value) if kind is float else value


def entries(name: str, found: Any, keys: Sequence[str]) -> dict[str, Any]:
    """Return a mapping of the file, which must have these keys and no others."""
    right = isinstance(found, dict) and set(found) == set(keys)
    require(right, name, found, f"must have {', '.join(map(repr, keys))} and nothing else")
    return found  # type: ignore[no-any-return]
