"""Docstrings of estimators, composed from those of `PathRegressor` and `PathClassifier`.

A named estimator describes what is its own. Parameters and attributes that it shares are described
once, by the general estimator, and copied from there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from steinpath._support.docstrings import composed, describes, entries_of, in_order, parts_of

# Parameters of several named estimators.
_SHARED = {
    "l1_ratio": """\
l1_ratio : float or array-like, default=0.5
    Weight of the lasso penalty, between 0 (ridge) and 1 (lasso), or several values to select from.
    In regressions the ridge part is that of coefficients in units of the robust standard deviation
    of y."""
}
# Methods for new rows do not describe X themselves.
of_features = describes("""\
X : array-like or sparse matrix of shape (n_samples, n_features)
    The features.""")


def documented(
    *kinds: Any, like: type, without: tuple[str, ...] = (), example: str = ""
) -> Callable[[type], type]:
    """Return a class decorator that completes the docstring of an estimator by that of ``like``.

    It omits attributes in ``without`` and writes the name into the example; ``kinds`` are the loss
    and the penalty of a named estimator.
    """

    def complete(cls: type) -> type:
        if kinds:
            cls.loss_class, cls.penalty_class = kinds  # type: ignore[attr-defined]
        other = parts_of(like.__doc__ or "")[1]
        if not cls.__doc__ or not other:  # with python -OO
            return cls
        head, own = parts_of(cls.__doc__)
        shared = entries_of(other["Parameters"]) | _SHARED
        own["Parameters"] = in_order(cls, shared | entries_of(own.get("Parameters", "")))
        own["Attributes"] = _attributes(other["Attributes"], own.get("Attributes", ""), without)
        general = "PathClassifier" if hasattr(cls, "class_weight") else "PathRegressor"
        own.setdefault("See Also", f"{general} : Any loss and penalty.")
        own.setdefault("Examples", inspect.cleandoc(example).replace("{name}", cls.__name__))
        cls.__doc__ = composed(head, own)
        return cls

    return complete


def _attributes(inherited: str, own: str, without: tuple[str, ...]) -> str:
    """Return the section of attributes: inherited ones in their order, and then the others."""
    mine = entries_of(own)
    places = {name: key for key in mine for name in key.split(", ")}
    entries = dict[str, str]()
    for key, entry in entries_of(inherited).items():
        names = key.split(", ")
        if replaced := {places[name]: mine[places[name]] for name in names if name in places}:
            entries |= replaced
        elif not set(names) <= set(without):
            entries[key] = entry
    return "\n".join((entries | mine).values())
