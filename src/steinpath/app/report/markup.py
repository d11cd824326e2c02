"""What the page is made of: elements of HTML, numbers in words, tables and small pictures.

Text is escaped where it becomes part of an element, and only there: what is HTML already has a type
of its own, `Markup`, which text cannot turn into by accident.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from steinpath._support.printing import places_of


@dataclass(frozen=True)
class Markup:
    """Text that is HTML already."""

    html: str


Node: TypeAlias = "Markup | str | Iterable[Node] | None"


def markup(node: Node) -> str:
    """Return the HTML of an element, of text, or of several of them."""
    if node is None:
        return ""
    if isinstance(node, Markup):
        return node.html
    if isinstance(node, str):
        return html.escape(node)
    return "".join(markup(child) for child in node)


def tag(name: str, /, *children: Node, **attributes: str | float | bool | None) -> Markup:
    """Return an element; ``class_`` stands for class, ``aria_label`` for aria-label."""
    opening = name
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            opening += f" {key}"
        elif value is not None and value is not False:
            opening += f' {key}="{html.escape(str(value))}"'
    closing = "" if name == "meta" else f"</{name}>"
    return Markup(f"<{opening}>{markup(children)}{closing}")


def verbatim(name: str, text: str, **attributes: str) -> Markup:
    """Return a style or a script, whose text ends at the first closing tag and has no escapes."""
    if "</" in text or "<!--" in text:
        raise ValueError(f"the text of a {name} must not have '</' or '<!--' in it")
    return tag(name, Markup(text), **attributes)


def figure(value: float, stderr: float = math.nan, of: float | None = None) -> str:
    """Return a number with four digits, or as many as its standard error asks for.

    ``of`` is another number, whose digits to take. The script does the same.
    """
    size = abs(value if of is None else of)
    if not math.isfinite(value):
        return "–"
    if size and not 1e-4 <= size < 1e7:
        mantissa, exponent = f"{value:.3e}".split("e")
        return f"{mantissa}e{int(exponent)}".replace("-", "−")
    places = [0] + [places_of(s) + k for k, s in ((2, size), (0, stderr)) if s > 0]
    return f"{value:,.{min(max(places), 10)}f}".replace("-", "−")


def plus_minus(value: float, stderr: float, of: float | None = None) -> str:
    """Return a number and its standard error, to the same place."""
    of = value if of is None else of
    if not (math.isfinite(value) and math.isfinite(stderr)):
        return figure(value, of=of)
    return f"{figure(value, stderr, of)} ± {figure(stderr, stderr, of)}"


def short(value: float) -> str:
    """Return a number with three digits at most."""
    return f"{value:.3g}".replace("-", "−") if math.isfinite(value) else "–"


def section(ident: str, title: str, *children: Node, class_: str | None = None) -> Markup:
    """Return a part of the page, with its heading; plain text is a paragraph of it."""
    parts = [tag("p", child) if isinstance(child, str) else child for child in children]
    heading = tag("h2", title, id=f"{ident}-title")
    return tag("section", heading, parts, id=ident, class_=class_, aria_labelledby=f"{ident}-title")


def sentences(texts: Iterable[str]) -> Markup | None:
    """Return a list of sentences."""
    items = [tag("li", text) for text in texts]
    return tag("ul", items) if items else None


def table(
    label: str, head: Sequence[str], rows: Sequence[Sequence[Node]], shown: int | None = None
) -> list[Markup]:
    """Return a table that scrolls by itself, and what is beyond ``shown`` rows to be opened.

    Titles that begin with "#" are those of numbers.
    """
    if not rows:
        return []
    kinds = ["number" if title.startswith("#") else None for title in head]
    titles = [
        tag("th", title.removeprefix("#"), class_=kind, scope="col")
        for title, kind in zip(head, kinds, strict=True)
    ]
    body = [
        tag(
            "tr",
            tag("th", first, scope="row"),
            [tag("td", cell, class_=kind) for cell, kind in zip(cells, kinds[1:], strict=True)],
        )
        for first, *cells in rows[:shown]
    ]
    inner = tag("table", tag("thead", tag("tr", titles)), tag("tbody", body))
    seen = tag("div", inner, class_="scroll", role="region", aria_label=label, tabindex=0)
    others = rows[len(body) :]
    if not others:
        return [seen]
    summary = tag("summary", f"Show {len(others):,} more")
    return [seen, tag("details", summary, table(f"{label}, continued", head, others))]


def bar(value: float, largest: float) -> Markup:
    """Return a bar to the left or to the right of the middle."""
    length = 50 * value / largest if largest and math.isfinite(value) else 0.0
    zero = tag("path", d="M50 0V12", class_="zero")
    box = tag("rect", x=f"{50 + min(length, 0):.2f}", y=1, width=f"{abs(length):.2f}", height=10)
    frame = {"viewBox": "0 0 100 12", "preserveAspectRatio": "none", "aria-hidden": "true"}
    return tag("svg", zero, box, class_="bar", **frame)


def whisker(value: float, stderr: float, low: float, high: float) -> Markup:
    """Return a dot with a line of two standard errors to either side."""

    def place(x: float) -> str:
        return f"{8 + 144 * (x - low) / ((high - low) or 1):.1f}"

    zero = tag("path", d=f"M{place(0)} 0V20", class_="zero")
    reach = tag("path", d=f"M{place(value - 2 * stderr)} 10H{place(value + 2 * stderr)}")
    # a line without a length: its round ends stay round where the picture is made narrower
    dot = tag("path", d=f"M{place(value)} 10h0.01", class_="spot")
    frame = {"viewBox": "0 0 160 20", "preserveAspectRatio": "none", "aria-hidden": "true"}
    return tag("svg", zero, reach, dot, class_="whisker", **frame)


def chart(ident: str) -> Markup:
    """Return the place of a chart and of a line about it, which the script fills."""
    missing = tag("p", "This picture is drawn by JavaScript, which is off.", class_="quiet")
    plot = tag("div", tag("noscript", missing), id=f"{ident}-plot", class_="plot")
    return tag("figure", plot, tag("p", id=f"{ident}-note", class_="readout"))


def button(ident: str, label: str) -> Markup:
    """Return a button, which the script shows: without it there is nothing to press."""
    return tag("button", label, id=ident, type="button", hidden=True)
