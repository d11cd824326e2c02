"""Base classes of studies: configurations, results, tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from steinpath._support.validation import check_count
from steinpath.study._settings import PAIRS, PAPER_NOISE, Configuration, Curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Curves of all finished replications by configuration, each of shape (replications, iterates).
Results = dict[Configuration, Curves]

#: A row of a table, by the names of its columns.
Row = dict[str, Any]
Table = list[Row]


class Exhibit(NamedTuple):
    """A figure and the table it is drawn from."""

    name: str
    table: Table
    draw: Callable[[Table], Figure]


@dataclass(frozen=True)
class Sizes:
    """Replications, and all combinations of n and p; ``iters=0`` stands for ``n_iter="auto"``.

    p is empty if the study derives it from n.
    """

    reps: int
    n: tuple[int, ...]
    p: tuple[int, ...]
    iters: int

    def __post_init__(self) -> None:
        # a Monte Carlo standard error needs two replications
        for name in ("reps", "iters"):
            value = getattr(self, name)
            low = 0 if name == "iters" and value == 0 else 2
            object.__setattr__(self, name, check_count(name, value, low=low))
        for name, low in (("n", 20), ("p", 2)):
            values = [check_count(name, value, low=low) for value in getattr(self, name)]
            object.__setattr__(self, name, tuple(dict.fromkeys(values)))  # no duplicates


@dataclass(frozen=True)
class Study:
    """A Monte Carlo study: its configurations for given sizes, and what is made of the results."""

    name: str  # on the command line
    question: str
    plan: Callable[[Sizes], list[Configuration]]
    exhibits: Callable[[Results], list[Exhibit]]
    summary: Callable[[Results], Table]
    full: Sizes
    quick: Sizes  # of a trial run

    def sizes(self, *, quick: bool = False, **changes: Any) -> Sizes:
        """Return the default or quick sizes, with given values (not None or empty) replaced."""
        given = {name: value for name, value in changes.items() if value not in (None, ())}
        base = self.quick if quick else self.full
        if "p" in given and not base.p:
            raise ValueError(f"the study {self.name!r} derives p from n; do not set p")
        return replace(base, **given)


def all_pairs(
    sizes: Sizes,
    ways: tuple[str, ...],
    noise: dict[str, str] = PAPER_NOISE,
    designs: Sequence[str] = ("gaussian",),
    pairs: Sequence[tuple[str, str]] = PAIRS,
) -> list[Configuration]:
    """Return configurations for every n, p, design and loss–penalty pair."""
    return [
        Configuration(loss, penalty, n, p, sizes.iters, ways, design, noise[loss])
        for n in sizes.n
        for p in sizes.p
        for design in designs
        for loss, penalty in pairs
    ]
