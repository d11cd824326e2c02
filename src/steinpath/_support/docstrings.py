"""Docstrings of several functions that describe the same parameter, composed from one text."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

_SECTIONS = ("Parameters", "Returns", "Attributes", "See Also", "Notes", "References", "Examples")
_HEADING = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", re.MULTILINE)


def describes(shared: str, returns: str | None = None) -> Callable[[Function], Function]:
    """Return a decorator that describes the parameters which a docstring does not describe itself.

    shared: entries of a section of parameters; returns: the section of a function without one
    """

    def complete(function: Function) -> Function:
        if function.__doc__:  # not with python -OO
            head, sections = parts_of(function.__doc__)
            own = entries_of(sections.get("Parameters", ""))
            sections["Parameters"] = in_order(function, entries_of(shared) | own)
            if returns is not None:
                sections.setdefault("Returns", returns)
            function.__doc__ = composed(head, sections)
        return function

    return complete


def describes_as(function: Callable[..., Any]) -> Callable[[Function], Function]:
    """Return a decorator that describes parameters in the words of another function."""
    return describes(parts_of(function.__doc__ or "")[1].get("Parameters", ""))


def composed(head: str, sections: Mapping[str, str]) -> str:
    """Return the docstring of a text and its sections."""
    there = [name for name in _SECTIONS if name in sections]
    parts = [f"{name}\n{'-' * len(name)}\n{sections[name]}" for name in there]
    return "\n\n".join([head, *parts]) + "\n"


def parts_of(docstring: str) -> tuple[str, dict[str, str]]:
    """Return the text before the first section, and the sections by their names."""
    head, *rest = _HEADING.split(inspect.cleandoc(docstring))
    texts = (text.strip("\n") for text in rest[1::2])
    return head.strip(), dict(zip(rest[::2], texts, strict=True))


def entries_of(section: str) -> dict[str, str]:
    """Return the entries of a section by their names, of which an entry may have several."""
    entries = re.split(r"\n(?=\S)", section) if section else []
    return {entry.partition("\n")[0].partition(" : ")[0]: entry.rstrip() for entry in entries}


def in_order(function: Callable[..., Any], entries: Mapping[str, str]) -> str:
    """Return the section of those parameters that a function or class has, in its own order."""
    names = inspect.signature(function).parameters
    return "\n".join(entries[name] for name in names if name in entries)
