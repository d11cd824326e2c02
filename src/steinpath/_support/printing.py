"""Results as text: numbers with standard errors, tables, and names that come from data."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import zip_longest

# Width of a summary, the gap between its two columns, and the width of names.
_WIDTH, _GAP, _NAME = 78, 3, 24
# Characters of a cell, at most: the size of a page is bounded.
_MOST_IN_CELL = 80


def printable(text: str) -> str:
    """Replace control, bidirectional and invisible characters and surrogates; keep line ends."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def printable_json(text: str) -> str:
    """Return equivalent JSON with escapes for invisible characters; line ends are kept."""
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def text(value: object, most: int | None = None) -> str:
    """Return a value as HTML text of at most ``most`` characters, without any markup."""
    plain = printable(str(value))
    if most is not None and len(plain) > most:
        plain = f"{plain[: most - 1]}…"
    return escape(plain)


def fragment(
    title: str, facts: Iterable[tuple[str, object]], *parts: str, notes: Sequence[str] = ()
) -> str:
    """Return HTML of a table of key figures, with parts beside it and numbered notes below."""
    cell = 'style="text-align:left;padding:1px 10px 1px 0;background:none"'
    rows = "".join(
        f"<tr style='background:none'><th {cell}>{text(name)}</th>"
        f"<td {cell}>{text(value, _MOST_IN_CELL)}</td></tr>"
        for name, value in facts
    )
    listed = "".join(f"<li>{text(note)}</li>" for note in notes)
    return (
        '<div style="font-size:90%"><div style="font-weight:bold;margin-bottom:4px">'
        f"{text(title)}</div>"
        '<div style="display:flex;flex-wrap:wrap;gap:16px;align-items:flex-start">'
        f'<table style="border-collapse:collapse;margin:0">{rows}</table>{"".join(parts)}</div>'
        + (f'<ol style="margin:4px 0 0 0;max-width:60em">{listed}</ol>' if listed else "")
        + "</div>"
    )


def number(value: float, digits: int = 4, sign: str = "") -> str:
    """Format a number: "0.0025", "57.1", "17,600"; with an exponent below 1e-4 and from 1e7 on."""
    whole = 10.0 ** (digits - 1) <= abs(value) < 1e7
    return f"{value:{sign},.0f}" if whole else f"{value:{sign}.{digits}g}"


def with_error(value: float, stderr: float, *, signed: bool = False) -> str:
    """Format a number with its standard error, if that is finite, to two digits: "44.0 ± 1.6"."""
    sign = "+" if signed else ""
    estimate = to_digits_of(value, stderr, sign=sign)
    if not math.isfinite(stderr):
        return estimate
    return f"{estimate} ± {to_digits_of(stderr, stderr)}"


def to_digits_of(value: float, stderr: float, *, sign: str = "") -> str:
    """Format a number to the precision of a standard error, or to four digits without one."""
    if not 1e-7 <= stderr < 1e8:
        return number(value, sign=sign)
    places = places_of(stderr)
    return f"{round(value, places):{sign},.{max(places, 0)}f}"


def places_of(stderr: float) -> int:
    """Return the decimal place of the second significant digit of a standard error."""
    return 1 - math.floor(math.log10(stderr))


@dataclass(frozen=True, repr=False)
class Summary:
    """A summary of a result. ``str(summary)`` is a plain-text table; notebooks show it as HTML."""

    title: str
    facts: tuple[tuple[str, str], ...]  # names and values of the upper table
    head: tuple[str, ...] = ()  # column names of the lower table; empty without one
    rows: tuple[tuple[str, ...], ...] = ()  # its rows, each of which begins with a name
    notes: tuple[str, ...] = ()  # warnings and remarks, numbered below the tables

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
            width = (_WIDTH - _NAME) // len(self.head)
            lines += [_line("", self.head, width), "-" * _WIDTH]
            lines += [_line(name, values, width) for name, *values in self.rows]
            lines.append("=" * _WIDTH)
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
        number = "style='text-align:right;padding:1px 10px'"
        head = "".join(f"<th {number}>{text(name)}</th>" for name in self.head)
        rows = "".join(
            f"<tr><th style='text-align:left'>{text(name, _NAME)}</th>"
            + "".join(f"<td {number}>{text(value)}</td>" for value in values)
            + "</tr>"
            for name, *values in self.rows
        )
        table = f"<table><tr><th></th>{head}</tr>{rows}</table>" if self.head else ""
        return fragment(self.title, self.facts, table, notes=self.notes)


def _short(value: str, most: int) -> str:
    """Return text on one line of at most this many characters."""
    plain = printable(" ".join(value.split()))
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def _spread(fact: tuple[str, str], width: int) -> str:
    """Return a name and a value at the two ends of a line."""
    name, value = fact
    return f"{name}:{value:>{max(width - len(name) - 1, len(value) + 1)}}"


def _line(name: str, values: Sequence[str], width: int) -> str:
    """Return a line of a table, all of whose columns but the first are numbers."""
    return f"{_short(name, _NAME - 1):<{_NAME}}" + "".join(f"{value:>{width}}" for value in values)
