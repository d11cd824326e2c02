"""Registries of losses, penalties and scoring losses by name.

A class is registered when it is defined, if its body has a `name` and a `label`. Estimators, the
command line, reports, model files and tests look it up in the registry of its type.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from steinpath._support.validation import check_number

T = TypeVar("T")


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
        return check_number(
            self.name,
            value,
            low=self.low,
            high=self.high,
            open_low=self.open_low,
            open_high=self.open_high,
        )

    def in_units(self, value: float, spread: float) -> float:
        """Convert a value in robust standard deviations of y to units of y."""
        return value * spread if self.in_units_of_y else value

    def store(self, instance: Any) -> None:
        """Check the parameter of a frozen dataclass and store it as a plain float."""
        object.__setattr__(instance, self.name, self.check(getattr(instance, self.name)))


class Registry(Mapping[str, type[T]], Generic[T]):
    """Classes by name, in the order of their definition."""

    def __init__(self, kind: str):
        self._kind = kind  # for messages
        self._classes: dict[str, type[T]] = {}

    def __getitem__(self, name: str) -> type[T]:
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def __repr__(self) -> str:
        return f"<Registry of each {self._kind}: {', '.join(self)}>"

    def add(self, name: str, member: type[T]) -> None:
        """Register a class; refuse a name that another class uses."""
        known = self._classes.get(name)
        # re-running a notebook cell defines the same class again
        if known is not None and _place(known) != _place(member):
            raise ValueError(
                f"the name {name!r} of {_place(member)} is already used by {_place(known)}: choose "
                f"another name for this {self._kind}"
            )
        self._classes[name] = member


def _place(member: type) -> str:
    return f"{member.__module__}.{member.__qualname__}"


class Registered:
    """Base class whose subclasses are registered if their bodies have a `name` and a `label`."""

    #: Registry of the subclasses.
    registry: ClassVar[Registry[Any]]
    #: Key in the registry: the name on the command line, in estimators and in model files.
    name: ClassVar[str]
    #: Name in reports.
    label: ClassVar[str]
    #: Specification of the parameter, if there is one.
    parameter_spec: ClassVar[ParameterSpec | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls) and "label" in vars(cls):
            cls.registry.add(cls.name, cls)

    def __post_init__(self) -> None:
        """Check the parameter; dataclasses call this."""
        if self.parameter_spec is not None:
            self.parameter_spec.store(self)
