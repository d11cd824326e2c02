"""Registries of losses, penalties and scoring losses by name.

A class is registered when it is defined, if its body has a `name` and a `label`. Estimators, the
command line, reports, model files and tests look it up in the registry of its type.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

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
        """Check the parameter of a frozen dataclass and store it as a plain float."""
        object.__setattr__(instance, self.name, self.check(getattr(instance, self.name)))


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
