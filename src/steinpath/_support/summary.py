"""Summaries of results as tables, in the style of statsmodels."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from steinpath._support.html import text
from steinpath._support.printing import printable

_WIDTH, _GAP, _NAME = 78, 3, 24


@dataclass(frozen=True, repr=False)
class Summary:
    """A summary of a result. ``str(summary)`` is a plain-text table; notebooks show it as HTML.

    Attributes
    ----------
    title : str
        The heading.
    facts : tuple of (str, str)
        Names and values of the upper table.
    head : tuple of str
        Column names of the lower table; empty without one.
    rows : tuple of tuple of str
        Its rows, each of which begins with a name.
    notes : tuple of str
        Warnings and remarks, numbered below the tables.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        facts = [(printable(name), _short(value, 60)) for name, value in self.facts]
        # long values take a line of their own, and short ones two columns
        cell = (_WIDTH - _GAP) // 2
        wide = [fact for fact in facts if len("".join(fact)) + 2 > cell]
        short = [fact for fact in facts if fact not in wide]
        lines = [printable(self.title).center(_WIDTH).rstrip(), "=" * _WIDTH]
        lines += [_spread(fact, _WIDTH) for fact in wide]
        half = (len(short) + 1) // 2
        for left, right in zip_longest(short[:half], short[half:]):
            second = _spread(right, cell) if right else ""
            lines.append(f"{_spread(left, cell)}{' ' * _GAP}{second}".rstrip())
        lines.append("=" * _WIDTH)
        if self.head:
            lines += [*_table(self.head, self.rows), "=" * _WIDTH]
        if self.notes:
            lines += ["", "Notes:"]
            for k, note in enumerate(self.notes, 1):
                mark = f"[{k}] "
                lines += textwrap.wrap(
                    mark + printable(note), _WIDTH, subsequent_indent=" " * len(mark)
                )
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cell = "style='text-align:left;padding:1px 10px 1px 0'"
        number = "style='text-align:right;padding:1px 10px'"
        facts = "".join(
            f"<tr><th {cell}>{text(name)}</th><td {cell}>{text(value)}</td></tr>"
            for name, value in self.facts
        )
        parts = [f"<table><caption>{text(self.title)}</caption>{facts}</table>"]
        if self.head:
            head = "".join(f"<th {number}>{text(each)}</th>" for each in self.head)
            rows = "".join(
                f"<tr><th {cell}>{text(name, _NAME)}</th>"
                + "".join(f"<td {number}>{text(each)}</td>" for each in values)
                + "</tr>"
                for name, *values in self.rows
            )
            parts.append(f"<table><tr><th></th>{head}</tr>{rows}</table>")
        if self.notes:
            notes = "".join(f"<li>{text(note)}</li>" for note in self.notes)
            parts.append(f"Notes:<ol>{notes}</ol>")
        return f"<div>{''.join(parts)}</div>"


def _short(value: str, most: int) -> str:
    """Return text on one line of at most this many characters."""
    plain = printable(" ".join(value.split()))
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def _spread(fact: tuple[str, str], width: int) -> str:
    """Return a name and a value at the two ends of a line."""
    name, value = fact
    return f"{name}:{value:>{max(width - len(name) - 1, len(value) + 1)}}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of a table, all of whose columns but the first are numbers."""
    width = (_WIDTH - _NAME) // len(head)
    lines = [" " * _NAME + "".join(f"{each:>{width}}" for each in head), "-" * _WIDTH]
    for name, *values in rows:
        lines.append(
            f"{_short(name, _NAME - 1):<{_NAME}}" + "".join(f"{each:>{width}}" for each in values)
        )
    return lines
