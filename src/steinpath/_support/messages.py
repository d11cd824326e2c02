"""Messages whose remedies are data, so that each front end words them in its own way, and lists.

A message names the parameter to change, and perhaps a row of the data. Python says
``groups=labels`` and "row 17"; the command says ``--group COLUMN`` and "line 18".
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

#: Names that a message lists, and columns or levels with their counts.
MOST_NAMES, MOST_LISTED = 10, 3
# Names of columns without a name, as below a title of the table.
_NO_NAME = re.compile(r"column \d+|Unnamed: \d+")

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
    """A sentence in Python's words; the function `worded` returns it in those of a front end.

    The template has ``{place}`` for a row, ``{remedy}`` and the names of other fields.
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
        return partial(Message, self.template, **self.parts), ()


def _filled(
    template: str,
    parts: dict[str, Any],
    remedy: Callable[[Remedy], str],
    place: Callable[[int], str],
    between: str,
) -> str:
    fields = dict(parts)
    for name, part in parts.items():
        if isinstance(part, Message):
            fields[name] = _filled(part.template, part.parts, remedy, place, between)
        elif isinstance(part, Remedy):
            fields[name] = remedy(part)
    fields["remedy"] = between.join(map(remedy, parts["remedy"]))
    fields["place"] = "" if parts["row"] is None else place(parts["row"])
    return template.format(**fields)


def joined(separator: str, parts: Iterable[str | Remedy]) -> Message:
    """Return texts, messages and remedies one after another."""
    fields: dict[str, Any] = {f"part{k}": part for k, part in enumerate(parts)}
    return Message(separator.join(f"{{{name}}}" for name in fields), **fields)


def prefixed(prefix: str, text: str) -> str:
    """Return a text or a message after a prefix."""
    if not isinstance(text, Message):
        return prefix + text
    escaped = prefix.replace("{", "{{").replace("}", "}}")
    return Message(escaped + text.template, **text.parts)


def worded(text: str, remedy: Callable[[Remedy], str], place: Callable[[int], str] = _row) -> str:
    """Return a text in the words of a front end; plain texts are the same everywhere."""
    if not isinstance(text, Message):
        return text
    return _filled(text.template, text.parts, remedy, place, " ")


class DataError(ValueError):
    """Unusable data. The message is one line: what is wrong, where, and what would be right."""

    def __init__(self, message: str):
        #: The message, perhaps a `Message`.
        self.message = message if isinstance(message, Message) else " ".join(message.splitlines())
        super().__init__(self.message)


class Remark(NamedTuple):
    """What is said of one column after its name, and of several with the same key."""

    column: str
    key: str
    one: str
    many: str


def as_notes(remarks: Iterable[Remark]) -> list[Message]:
    """Return one sentence for each kind of remark; it lists the columns if there are several."""
    alike: dict[str, list[Remark]] = {}
    for remark in remarks:
        alike.setdefault(remark.key, []).append(remark)
    notes = []
    for same in alike.values():
        first, names = same[0], listed_names([remark.column for remark in same])
        if len(same) == 1:
            notes.append(Message("column {name!r} {said}", name=first.column, said=first.one))
        else:
            several = f"{len(same)} columns {{said}}: {{names}}"
            notes.append(Message(several, said=first.many, names=names))
    return notes


def refuse_gaps(
    gaps: Mapping[str, tuple[int, int]], advice: str, footer: int | None = None
) -> None:
    """Refuse missing values, given their number and first row by column, and perhaps a footer."""
    if not gaps:
        return
    if footer is not None:
        totals = "remove {place} if it is a footer, such as totals, or {advice}"
        advice = Message(totals, row=footer, advice=advice)
    total = sum(count for count, _ in gaps.values())
    are = f"{counted(total, 'value')} {'is' if total == 1 else 'are'} missing"
    template = "{name!r} ({count}, first in {place})"
    listed = [
        Message(template, row=row, name=name, count=count)
        for name, (count, row) in list(gaps.items())[:MOST_LISTED]
    ]
    more = ", …" * (len(gaps) > MOST_LISTED)
    said = f"{are}, in {counted(len(gaps), 'column')}: {{listed}}{more}; {{advice}}"
    raise DataError(Message(said, listed=joined(", ", listed), advice=advice))


def refuse_unknown(columns: Collection[str], names: Iterable[str]) -> None:
    """Refuse unknown column names; the message lists the columns."""
    if not (unknown := [name for name in names if name not in columns]):
        return
    known = list(columns)
    more = f" ({len(known)} in all)" if len(known) > MOST_NAMES else ""
    title = 2 * sum(map(bool, map(_NO_NAME.fullmatch, known))) > len(known)
    raise DataError(
        f"unknown column{'s' * (len(unknown) > 1)} {with_closest(unknown, columns)}; the columns "
        f"are {listed_names(known)}{more}{'; remove the lines above the header' * title}"
    )


def with_closest(names: Sequence[str], columns: Collection[str]) -> str:
    """List unknown names, with similar names that exist."""
    known = {name.casefold(): name for name in columns}
    listed = [*map(repr, names)]
    for k, name in enumerate(names[:MOST_NAMES]):  # slow in a table of thousands of columns
        close = difflib.get_close_matches(name.casefold(), known)
        if close:
            listed[k] += f" (did you mean {' or '.join(repr(known[match]) for match in close)}?)"
    return ", ".join(listed)


def listed_names(names: Sequence[str]) -> str:
    """List the first names, in quotation marks."""
    return ", ".join(map(repr, names[:MOST_NAMES])) + ", …" * (len(names) > MOST_NAMES)


def counted(count: int, what: str) -> str:
    """Return a count with a noun, such as "1 row" or "2 rows"."""
    return f"{count} {what}{'s' * (count != 1)}"


def short(number: float) -> str:
    """Return a number with four significant digits, or with all digits before the point."""
    return f"{number:.0f}" if 1e4 <= abs(number) < 1e9 else f"{number:.4g}"
