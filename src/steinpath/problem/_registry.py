"""Registries of losses, penalties and scoring losses by name.

A class is registered when it is defined, if its body has a `name` and a `label`. Estimators, the
command line, reports, model files and tests look it up in the registry of its type.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from steinpath._support.validation import check_number


@dataclass(frozen=True)
class ParameterSpec:
    """Parameter of a loss, penalty or scoring loss, besides ``lam``.

    Attributes
    ----------
    name : str
        Keyword argument of the class, such as "q".
    default : float
        Default value.
    low, high : float
        Bounds.
    open_low, open_high : bool
        Whether the bounds themselves are excluded.
    option : str
        Name on the command line, without dashes; `name` by default.
    help : str
        Help text for the command line.
    in_units_of_y : bool
        Whether it is a residual size. The class takes it in units of y; estimators and the command
        line take it in robust standard deviations of y.
    """

    name: str
    default: float
    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    option: str = ""
    help: str = ""
    in_units_of_y: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "option", self.option or self.name.replace("_", "-"))

    def check(self, value: Any) -> float:
        """Return the value as a float within the bounds."""
        names = ("low", "high", "open_low", "open_high")
        return check_number(self.name, value, **{name: getattr(self, name) for name in names})

    def in_units(self, value: float, spread: float) -> float:
        """Convert a value in robust standard deviations of y to units of y."""
        return value * spread if self.in_units_of_y else value

    def store(self, instance: Any) -> None:
        """Check the parameter of a frozen dataclass and store it as a plain float.

        It may also be an array with one value per member.
        """
        given = getattr(instance, self.name)
        several = self.name in instance.of_members and getattr(given, "ndim", 0) == 1
        value = np.array([self.check(x) for x in given]) if several else self.check(given)
        object.__setattr__(instance, self.name, value)


def _place(member: type) -> str:
    return f"{member.__module__}.{member.__qualname__}"


class Registered:
    """Base class whose subclasses are registered if their bodies have a `name` and a `label`."""

    #: Subclasses by name, in the order of their definition.
    registry: ClassVar[dict[str, Any]]
    #: Key in the registry: the name on the command line, in estimators and in model files.
    name: ClassVar[str]
    #: Name in reports.
    label: ClassVar[str]
    #: Specification of the parameter, if there is one.
    parameter_spec: ClassVar[ParameterSpec | None] = None
    #: Fields that may be arrays with one value per member of a batch.
    of_members: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls) and "label" in vars(cls):
            known = cls.registry.setdefault(cls.name, cls)
            # re-running a notebook cell defines the same class again
            if _place(known) != _place(cls):
                raise ValueError(
                    f"the name {cls.name!r} of {_place(cls)} is already used by {_place(known)}: "
                    "choose another name"
                )
            cls.registry[cls.name] = cls

    def __post_init__(self) -> None:
        """Check the parameter; dataclasses call this."""
        if self.parameter_spec is not None:
            self.parameter_spec.store(self)

    def member(self, k: int) -> Any:
        """Return that of one member, if members have their own."""
        return self._changed(lambda name, values: self._of_one(name, values[k]))

    def some(self, members: np.ndarray) -> Any:
        """Return that of some members."""
        return self._changed(lambda name, values: values[members])

    def repeated(self, count: int) -> Any:
        """Return that in which each member is repeated ``count`` times."""
        if count == 1:
            return self
        return self._changed(lambda name, values: np.repeat(values, count, axis=0))

    def joined(self, others: Sequence[Any]) -> Any:
        """Return that of several members, this one the first; None if they differ otherwise."""
        each = (self, *others)
        if not all(type(other) is type(self) for other in others):
            return None
        names = [name for name in self.of_members if hasattr(self, name)]
        given = {name: [getattr(one, name) for one in each] for name in names}
        own = [name for name, of in given.items() if any(value != of[0] for value in of)]
        # the others are in units of the first
        own = list(dict.fromkeys([*names[:1], *own])) if own else []
        arrays = {name: self._of_several(name, given[name]) for name in own}
        if any(values is None for values in arrays.values()):
            return None
        with contextlib.suppress(TypeError):  # a class that cannot be rebuilt from its fields
            joint = replace(self, **arrays)  # type: ignore[type-var]
            if all(state_of(one, own) == state_of(joint, own) for one in each):
                return joint
        return None

    def _changed(self, change: Callable[[str, np.ndarray], Any]) -> Any:
        given = {name: getattr(self, name, None) for name in self.of_members}
        own = {k: change(k, x) for k, x in given.items() if isinstance(x, np.ndarray)}
        return replace(self, **own) if own else self  # type: ignore[type-var]

    def _of_one(self, name: str, value: Any) -> Any:
        return float(value)

    def _of_several(self, name: str, values: Sequence[Any]) -> np.ndarray | None:
        return np.array(values, dtype=float)


def state_of(one: Any, without: Sequence[str] = ()) -> tuple[Any, ...]:
    """Return all but some attributes as hashable values; by their identity if they are not."""
    kind, state = type(one), object.__getstate__(one)
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    kept = sorted(((attributes or {}) | (slots or {})).items())
    return tuple(
        (name, (value.shape, value.dtype.str, value.tobytes()))
        if type(value) is np.ndarray
        else (name, value if isinstance(value, Hashable) else id(value))
        for name, value in kept
        if name not in without
        and not isinstance(getattr(kind, name, None), functools.cached_property)
    )
