"""Sentences about columns, with rows and remedies as data; lists of names and counts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from steinpath._support.messages import DataError, Message, Remedy, worded

#: Names that a message lists, and columns or levels with their counts.
MOST_NAMES, MOST_LISTED = 10, 3
# Names of columns without a name, as below a title of the table.
_NO_NAME = re.compile(r"column \d+|Unnamed: \d+")


class Sentence(Message):
    """Texts and messages one after another, each with rows and remedies of its own."""

    def __new__(cls, *texts: str) -> Sentence:
        found = str.__new__(cls, "".join(texts))
        found.template, found.parts = str(found), {"texts": texts}
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return Sentence, self.parts["texts"]

    def worded(
        self, remedy: Callable[[Remedy], str], place: Callable[[int], str] = lambda row: at(row)
    ) -> str:
        return "".join(worded(text, remedy, place) for text in self.parts["texts"])

    def after(self, prefix: str) -> Message:
        return Sentence(prefix, self)


def at(row: int) -> Message:
    """Return the place of a row."""
    return Message("{place}", row=row)


def use(parameter: str, value: Any) -> Message:
    """Return a parameter with the value to give it."""
    return Message("{remedy}", remedy=Remedy(parameter, value))


def between(separator: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield texts with a separator between them."""
    for k, text in enumerate(texts):
        yield from (separator, text) if k else (text,)


class Remark(NamedTuple):
    """What is said of one column after its name, and of several; alike if the keys are the same."""

    column: str
    key: str
    one: str
    many: str


def as_notes(remarks: Iterable[Remark]) -> list[Message]:
    """Return one sentence for each kind of remark; it lists the columns if there are several."""
    alike: dict[str, list[Remark]] = {}
    for remark in remarks:
        alike.setdefault(remark.key, []).append(remark)
    return [
        Sentence(f"column {first.column!r} ", first.one)
        if not others
        else Sentence(
            f"{1 + len(others)} columns ", first.many, ": ", listed_names([first, *others])
        )
        for first, *others in alike.values()
    ]


def refuse_gaps(gaps: Mapping[str, tuple[int, int]], *remedy: str) -> None:
    """Refuse missing values, given their number and the first row in each column with any."""
    total, columns = sum(count for count, _ in gaps.values()), counted(len(gaps), "column")
    listed = (
        Sentence(f"{name!r} ({count}, first in ", at(row), ")")
        for name, (count, row) in list(gaps.items())[:MOST_LISTED]
    )
    if gaps:
        said = f"{counted(total, 'value')} {'is' if total == 1 else 'are'} missing, in {columns}: "
        more = ", …; " if len(gaps) > MOST_LISTED else "; "
        raise DataError(Sentence(said, *between(", ", listed), more, *remedy))


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
        close = [repr(known[found]) for found in difflib.get_close_matches(name.casefold(), known)]
        listed[k] += f" (did you mean {' or '.join(close)}?)" if close else ""
    return ", ".join(listed)


def listed_names(names: Sequence[str | Remark]) -> str:
    """List the first names, in quotation marks."""
    few = (name.column if isinstance(name, Remark) else name for name in names[:MOST_NAMES])
    return ", ".join(map(repr, few)) + ", …" * (len(names) > MOST_NAMES)


def counted(count: int, what: str) -> str:
    """Return a count with a noun, such as "1 row" or "2 rows"."""
    return f"{count} {what}{'s' * (count != 1)}"


def short(number: float) -> str:
    """Return a number with four significant digits, or with all digits before the point."""
    return f"{number:.0f}" if 1e4 <= abs(number) < 1e9 else f"{number:.4g}"
