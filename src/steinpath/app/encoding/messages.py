"""Checks of names and columns, and the words for what they find."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from steinpath.app.tables import DataError, Table, is_date, is_number, missing, texts

# How many names a message lists, and how many columns or levels with their counts.
MOST_NAMES = 10
MOST_LISTED = 3


class Remark(NamedTuple):
    """What is to be said of a column, after its name; and of many such columns at once."""

    column: str
    one: str
    many: str


def as_notes(remarks: Iterable[Remark]) -> list[str]:
    """Return a sentence for each remark, or one for all that say the same of many columns."""
    alike: dict[str, list[Remark]] = {}
    for remark in remarks:
        alike.setdefault(remark.many, []).append(remark)
    notes = []
    for many, those in alike.items():
        if len(those) <= MOST_LISTED:
            notes += [f"column {remark.column!r} {remark.one}" for remark in those]
        else:
            listed = quoted(remark.column for remark in those[:MOST_LISTED])
            notes.append(f"{len(those)} columns {many}: {listed}, …")
    return notes


def check_text(what: str, text: Any) -> None:
    """Refuse what is no text, or cannot be written to a file."""
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{what} must be a text that is not blank, got {text!r:.60}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError(f"{what} must be Unicode, got {text!r:.60}") from None


def entries(what: str, found: Any, keys: Sequence[str]) -> list[Any]:
    """Return the values of a mapping, which must have these keys and no others."""
    if not isinstance(found, dict) or set(found) != set(keys):
        raise DataError(f"{what} must have {quoted(keys)} and nothing else, got {found!r:.60}")
    return [found[key] for key in keys]


def refuse_unknown(columns: Collection[str], names: Iterable[str]) -> None:
    """Refuse names that no column has, and say which there are."""
    unknown = [name for name in names if name not in columns]
    if not unknown:
        return
    known = list(columns)
    more = f", … ({len(known)} in all)" if len(known) > MOST_NAMES else ""
    none = "is no column" if len(unknown) == 1 else "are no columns"
    raise DataError(
        f"there {none} {with_closest(unknown, columns)}; the columns are "
        f"{quoted(known[:MOST_NAMES])}{more}"
    )


def refuse_missing(table: Table, names: Iterable[str], remedy: str) -> None:
    """Refuse columns in which values are missing, and say what to do about them."""
    where = ((name, missing(table.columns[name])) for name in names)
    gaps = {name: (int(found.sum()), int(found.argmax())) for name, found in where if found.any()}
    refuse_gaps(gaps, table.place, remedy)


def refuse_gaps(
    gaps: Mapping[str, tuple[int, int]], place: Callable[[int], str], remedy: str
) -> None:
    """Refuse missing values, and say what to do about them.

    Parameters
    ----------
    gaps : mapping of str to (int, int)
        For each column with missing values, how many there are, and the row of the first.
    place : callable
        Where a row is; see `Table.place`.
    remedy : str
        What to do.
    """
    if not gaps:
        return
    total = sum(count for count, _ in gaps.values())
    listed = [
        f"{name!r} ({count}, first in {place(row)})"
        for name, (count, row) in list(gaps.items())[:MOST_LISTED]
    ]
    more = ", …" if len(gaps) > len(listed) else ""
    raise DataError(
        f"{counted(total, 'value')} {be(total)} missing, in {counted(len(gaps), 'column')}: "
        f"{', '.join(listed)}{more}; {remedy}"
    )


def kind_of(values: np.ndarray) -> str:
    """Whether a column holds numbers, dates, texts or nothing."""
    if missing(values).all():
        return "nothing"
    return {"f": "number", "M": "date"}.get(values.dtype.kind, "text")


def first_other(name: str, kind: str, table: Table) -> str:
    """Say what the first value is that is not of a kind, and where."""
    values = texts(table.columns[name])
    present = np.flatnonzero(~missing(values))
    fits = is_number if kind == "number" else is_date
    first = next((row for row in present if not fits(values[row])), present[0])
    return f"{values[first]!r:.60} in {table.place(int(first))}"


def with_closest(names: Sequence[str], columns: Collection[str]) -> str:
    """List names that no column has, some with names that are alike."""
    known = {name.casefold(): name for name in columns}
    listed = []
    for k, name in enumerate(names):
        # looking takes long in a table of thousands of columns
        looked_up = name.casefold() if k < MOST_NAMES else ""
        close = [known[found] for found in difflib.get_close_matches(looked_up, known)]
        asked = f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""
        listed.append(f"{name!r}{asked}")
    return ", ".join(listed)


def quoted(names: Iterable[str]) -> str:
    """List names, in quotation marks."""
    return ", ".join(map(repr, names))


def counted(count: int, what: str) -> str:
    """Return a number of things, such as "1 row" or "2 rows"."""
    return f"{count} {what}{'s' * (count != 1)}"


def be(count: int) -> str:
    """Return the verb that goes with a number of things."""
    return "is" if count == 1 else "are"


def short(number: float) -> str:
    """Return a number with four digits, or with all of those before the point."""
    return f"{number:.0f}" if 1e4 <= abs(number) < 1e9 else f"{number:.4g}"
