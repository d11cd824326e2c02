"""Messages whose remedies are data, so that each front end words them in its own way.

A message names the parameter to change, and perhaps a row of the data. Python says
``groups=labels`` and "row 17"; the command says ``--group COLUMN`` and "line 18".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

# Parameters whose value only the user knows, in Python's words.
_UNKNOWN = {
    "groups": "groups=labels",
    "cv": "cv=TimeSeriesSplit(5) of sklearn.model_selection",
}
# Parameters that are lists of columns or texts.
_LISTS = ("categories", "drop", "keep", "na")


class Remedy(NamedTuple):
    """A parameter to change, and the value to give it, if that is known."""

    parameter: str
    value: Any = None

    def __str__(self) -> str:
        value = f"{self.value!r:.60}"
        value = f"[{value}]" if self.parameter in _LISTS else value
        return _UNKNOWN.get(self.parameter) or f"{self.parameter}={value}"


def _row(row: int) -> str:
    return f"row {row + 1}"


class Message(str):
    """A sentence in Python's words; `worded` returns it in those of another front end.

    The template has ``{place}`` for a row of the data, counted from 0, ``{remedy}`` for parameters
    to change together, and the names of other fields: texts, numbers, remedies or messages.
    """

    template: str
    parts: dict[str, Any]

    def __new__(
        cls,
        template: str,
        *,
        row: int | None = None,
        remedy: Remedy | tuple[Remedy, ...] = (),
        **fields: Any,
    ) -> Message:
        remedies = (remedy,) if isinstance(remedy, Remedy) else tuple(remedy)
        parts = {"row": row, "remedy": remedies, **fields}
        message = super().__new__(cls, _filled(template, parts, str, _row, ", "))
        message.template, message.parts = template, parts
        return message

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.template, self.parts)

    def worded(self, remedy: Callable[[Remedy], str], place: Callable[[int], str] = _row) -> str:
        """Return the sentence with remedies and places in the words of another front end."""
        parts = {
            name: part.worded(remedy, place) if isinstance(part, Message) else part
            for name, part in self.parts.items()
        }
        return _filled(self.template, parts, remedy, place, " ")

    def after(self, prefix: str) -> Message:
        """Return the sentence after a prefix."""
        escaped = prefix.replace("{", "{{").replace("}", "}}")
        return Message(escaped + self.template, **self.parts)


def _again(template: str, parts: dict[str, Any]) -> Message:
    return Message(template, **parts)


def _filled(
    template: str,
    parts: dict[str, Any],
    remedy: Callable[[Remedy], str],
    place: Callable[[int], str],
    between: str,
) -> str:
    row = parts["row"]
    known = {
        "remedy": between.join(map(remedy, parts["remedy"])),
        "place": "" if row is None else place(row),
    }
    known |= {name: remedy(part) for name, part in parts.items() if isinstance(part, Remedy)}
    return template.format(**parts | known)


def joined(separator: str, parts: Iterable[str | Remedy]) -> Message:
    """Return texts, messages and remedies one after another."""
    fields: dict[str, Any] = {f"part{k}": part for k, part in enumerate(parts)}
    return Message(separator.join(f"{{{name}}}" for name in fields), **fields)


def worded(text: str, remedy: Callable[[Remedy], str], place: Callable[[int], str] = _row) -> str:
    """Return a text in the words of a front end; plain texts are the same everywhere."""
    return text.worded(remedy, place) if isinstance(text, Message) else text


class DataError(ValueError):
    """Unusable data. The message is one line: what is wrong, where, and what would be right."""

    def __init__(self, message: str):
        if not isinstance(message, Message):
            message = " ".join(message.splitlines())
        super().__init__(message)

    @property
    def message(self) -> str:
        """The message, perhaps a `Message`."""
        found: str = self.args[0]
        return found
