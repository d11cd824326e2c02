"""Messages about columns, and lists of names and counts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from steinpath._support.messages import DataError, Message, joined

#: Names that a message lists, and columns or levels with their counts.
MOST_NAMES, MOST_LISTED = 10, 3
# Names of columns without a name, as below a title of the table.
_NO_NAME = re.compile(r"column \d+|Unnamed: \d+")


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
    for first, *others in alike.values():
        note = Message("column {name!r} {said}", name=first.column, said=first.one)
        if others:
            names = listed_names([first.column, *(other.column for other in others)])
            several = f"{1 + len(others)} columns {{said}}: {{names}}"
            note = Message(several, said=first.many, names=names)
        notes.append(note)
    return notes


def refuse_gaps(
    gaps: Mapping[str, tuple[int, int]], advice: str, footer: int | None = None
) -> None:
    """Refuse missing values, given their number and the first row in each column with any.

    footer: the only row with missing values, if it may be a footer
    """
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
        close = [repr(known[found]) for found in difflib.get_close_matches(name.casefold(), known)]
        listed[k] += f" (did you mean {' or '.join(close)}?)" if close else ""
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
