"""Docstrings of estimators, composed from those of `PathRegressor` and `PathClassifier`.

A named estimator describes what is its own. Parameters and attributes that it shares are described
once, by the general estimator, and copied from there.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])

_SECTIONS = ("Parameters", "Returns", "Attributes", "See Also", "Notes", "References", "Examples")
# Parameters of several named estimators.
_SHARED = {
    "l1_ratio": """\
l1_ratio : float, default=0.5
    Weight of the lasso penalty, between 0 (ridge) and 1 (lasso)."""
}
# The parameter of all methods for new rows.
_FEATURES = """\
X : array-like or sparse matrix of shape (n_samples, n_features)
    The features."""
_HEADING = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", re.MULTILINE)


def documented(
    *kinds: Any, like: type, without: tuple[str, ...] = (), example: str = ""
) -> Callable[[type], type]:
    """Return a class decorator that completes the docstring of an estimator.

    It gets a description of every parameter and attribute, its own or else that of ``like``, except
    attributes in ``without``; and an example, in which ``{name}`` is its name. ``kinds`` are the
    loss and the penalty of a named estimator.
    """

    def complete(cls: type) -> type:
        if kinds:
            cls.loss_class, cls.penalty_class = kinds  # type: ignore[attr-defined]
        if not cls.__doc__ or not like.__doc__:  # with python -OO
            return cls
        head, own = _parts(cls.__doc__)
        other = _parts(like.__doc__)[1]
        parameters = _entries(other["Parameters"]) | _SHARED | _entries(own.get("Parameters", ""))
        names = [name for name in inspect.signature(cls).parameters if name in parameters]
        own["Parameters"] = "\n".join(parameters[name] for name in names)
        own["Attributes"] = _attributes(other["Attributes"], own.get("Attributes", ""), without)
        general = "PathClassifier" if "class_weight" in names else "PathRegressor"
        own.setdefault("See Also", f"{general} : Any loss and penalty.")
        own.setdefault("Examples", inspect.cleandoc(example).replace("{name}", cls.__name__))
        cls.__doc__ = _composed(head, own)
        return cls

    return complete


def of_features(method: Method) -> Method:
    """Complete the docstring of a method for new rows: it does not describe X itself."""
    if method.__doc__:
        head, sections = _parts(method.__doc__)
        others = [sections["Parameters"]] if "Parameters" in sections else []
        method.__doc__ = _composed(head, sections | {"Parameters": "\n".join([_FEATURES, *others])})
    return method


def _composed(head: str, sections: dict[str, str]) -> str:
    there = [name for name in _SECTIONS if name in sections]
    parts = [f"{name}\n{'-' * len(name)}\n{sections[name]}" for name in there]
    return "\n\n".join([head, *parts]) + "\n"


def _parts(docstring: str) -> tuple[str, dict[str, str]]:
    """Return the text before the first section, and the sections by their names."""
    head, *rest = _HEADING.split(inspect.cleandoc(docstring))
    texts = (text.strip("\n") for text in rest[1::2])
    return head.strip(), dict(zip(rest[::2], texts, strict=True))


def _entries(section: str) -> dict[str, str]:
    """Return the entries of a section by their names, of which an entry may have several."""
    entries = re.split(r"\n(?=\S)", section) if section else []
    return {entry.partition("\n")[0].partition(" : ")[0]: entry.rstrip() for entry in entries}


def _attributes(inherited: str, own: str, without: tuple[str, ...]) -> str:
    """Return the section of attributes: inherited ones in their order, and then the others."""
    mine = _entries(own)
    places = {name: key for key in mine for name in key.split(", ")}
    entries = dict[str, str]()
    for key, entry in _entries(inherited).items():
        names = key.split(", ")
        if replaced := {places[name]: mine[places[name]] for name in names if name in places}:
            entries |= replaced
        elif not set(names) <= set(without):
            entries[key] = entry
    return "\n".join((entries | mine).values())
