"""Checks of names and columns, and their messages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from steinpath.app.tables import DataError, Table, is_date, like_numbers, missing, texts

# Names that a message lists, and columns or levels with their counts.
MOST_NAMES = 10
MOST_LISTED = 3
# Names of columns without a name, as below a title of the table.
_NO_NAME = re.compile(r"column \d+|Unnamed: \d+")


class Remark(NamedTuple):
    """A sentence about a column, without its name, and the same about several columns."""

    column: str
    one: str
    many: str


def as_notes(remarks: Iterable[Remark]) -> list[str]:
    """Return one sentence for each kind of remark; it lists the columns if there are several."""
    alike: dict[str, list[Remark]] = {}
    for remark in remarks:
        alike.setdefault(remark.many, []).append(remark)
    notes = []
    for many, those in alike.items():
        if len(those) == 1:
            notes.append(f"column {those[0].column!r} {those[0].one}")
        else:
            listed = quoted(remark.column for remark in those[:MOST_NAMES])
            more = ", …" if len(those) > MOST_NAMES else ""
            notes.append(f"{len(those)} columns {many}: {listed}{more}")
    return notes


def check_text(what: str, text: Any) -> None:
    """Refuse a value that is not a text, or that cannot be written to a file."""
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{what} must be a nonblank string, got {text!r:.60}")
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
    """Refuse unknown column names; the message lists the columns."""
    unknown = [name for name in names if name not in columns]
    if not unknown:
        return
    known = list(columns)
    more = f", … ({len(known)} in all)" if len(known) > MOST_NAMES else ""
    several = "s" * (len(unknown) > 1)
    nameless = sum(_NO_NAME.fullmatch(name) is not None for name in known)
    title = "; remove the lines above the header" if 2 * nameless > len(known) else ""
    raise DataError(
        f"unknown column{several} {with_closest(unknown, columns)}; the columns are "
        f"{quoted(known[:MOST_NAMES])}{more}{title}"
    )


def refuse_missing(table: Table, names: Iterable[str], remedy: str) -> None:
    """Refuse columns with missing values; the message names a remedy."""
    where = ((name, missing(table.columns[name])) for name in names)
    gaps = {name: (int(found.sum()), int(found.argmax())) for name, found in where if found.any()}
    refuse_gaps(gaps, table.place, remedy)


def refuse_gaps(
    gaps: Mapping[str, tuple[int, int]], place: Callable[[int], str], remedy: str
) -> None:
    """Refuse missing values; the message names a remedy.

    Parameters
    ----------
    gaps : mapping of str to (int, int)
        Number of missing values of each column that has any, and the row of the first.
    place : callable
        Returns the place of a row; see `Table.place`.
    remedy : str
        The remedy.
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
    """Return the type of a column: "number", "date", "text", or "nothing" if it is empty."""
    if missing(values).all():
        return "nothing"
    return {"f": "number", "M": "date"}.get(values.dtype.kind, "text")


def first_other(name: str, kind: str, table: Table) -> str:
    """Return the first value that is not of the given type, and its place."""
    values = texts(table.columns[name])
    present = np.flatnonzero(~missing(values))
    shown = [values[row] for row in present]
    if kind == "number":
        fits = like_numbers(shown, table.text_format)
    else:
        fits = [is_date(value, table.text_format) for value in shown]
    first = next((row for row, fit in zip(present, fits, strict=True) if not fit), present[0])
    return f"{values[first]!r:.60} in {table.place(int(first))}"


def with_closest(names: Sequence[str], columns: Collection[str]) -> str:
    """List unknown names, with similar names that exist."""
    known = {name.casefold(): name for name in columns}
    listed = []
    for k, name in enumerate(names):
        # the search is slow in a table of thousands of columns
        looked_up = name.casefold() if k < MOST_NAMES else ""
        close = [known[found] for found in difflib.get_close_matches(looked_up, known)]
        hint = f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""
        listed.append(f"{name!r}{hint}")
    return ", ".join(listed)


def quoted(names: Iterable[str]) -> str:
    """List names, in quotation marks."""
    return ", ".join(map(repr, names))


def counted(count: int, what: str) -> str:
    """Return a count with a noun, such as "1 row" or "2 rows"."""
    return f"{count} {what}{'s' * (count != 1)}"


def be(count: int) -> str:
    """Return "is" or "are" for a count."""
    return "is" if count == 1 else "are"


def short(number: float) -> str:
    """Return a number with four significant digits, or with all digits before the point."""
    return f"{number:.0f}" if 1e4 <= abs(number) < 1e9 else f"{number:.4g}"
