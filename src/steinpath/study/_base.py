"""What a study is: a plan of settings, and what to make of their replications."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from steinpath._support.validation import check_count
from steinpath.study._replicate import Curves
from steinpath.study._settings import PAIRS, PAPER_NOISE, Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Curves of all finished replications of each setting, each of shape (replications, iterates).
Results = dict[Setting, Curves]

#: Rows of a table, by the names of its columns.
Table = list[dict[str, Any]]


class Exhibit(NamedTuple):
    """A figure and the table of the numbers it shows; it is drawn from the table alone."""

    name: str
    table: Table
    draw: Callable[[Table], Figure]


@dataclass(frozen=True)
class Sizes:
    """How large a study is.

    Attributes
    ----------
    reps : int
        Replications of each setting.
    n, p : tuple of int
        Observations, features: every n with every p. No p where a study derives it from n.
    iters : int
        Iterations; 0 for as many as pay, in a study whose full size has 0.
    """

    reps: int
    n: tuple[int, ...]
    p: tuple[int, ...]
    iters: int

    def __post_init__(self) -> None:
        # a Monte Carlo standard error needs two replications; what is compared, some rows,
        # columns and iterations
        for name in ("reps", "iters"):
            value = getattr(self, name)
            low = 0 if name == "iters" and value == 0 else 2
            object.__setattr__(self, name, check_count(name, value, low=low))
        for name, low in (("n", 20), ("p", 2)):
            values = [check_count(name, value, low=low) for value in getattr(self, name)]
            object.__setattr__(self, name, tuple(dict.fromkeys(values)))  # each once


@dataclass(frozen=True)
class Study:
    """A Monte Carlo study.

    Attributes
    ----------
    name : str
        What it is called on the command line.
    question : str
        What it asks, in a sentence.
    plan : callable
        Sizes in, settings out.
    exhibits : callable
        Results in, figures with their tables out.
    summary : callable
        Results in, a short table out.
    full, quick : Sizes
        How large it is by default, and to try it out.
    """

    name: str
    question: str
    plan: Callable[[Sizes], list[Setting]]
    exhibits: Callable[[Results], list[Exhibit]]
    summary: Callable[[Results], Table]
    full: Sizes
    quick: Sizes

    def sizes(self, *, quick: bool = False, **changes: Any) -> Sizes:
        """Sizes by default, or quick ones, but for those that are given (not None or empty)."""
        given = {name: value for name, value in changes.items() if value not in (None, ())}
        base = self.quick if quick else self.full
        if "p" in given and not base.p:
            raise ValueError(f"the study {self.name!r} derives p from n; leave out p")
        return replace(base, **given)


def all_pairs(
    sizes: Sizes,
    ways: tuple[str, ...],
    noise: dict[str, str] = PAPER_NOISE,
    designs: tuple[str, ...] = ("gaussian",),
) -> list[Setting]:
    """Plan every n with every p, each design, and all loss–penalty pairs."""
    return [
        Setting(loss, penalty, n, p, sizes.iters, ways, design, noise[loss])
        for n in sizes.n
        for p in sizes.p
        for design in designs
        for loss, penalty in PAIRS
    ]


def columns_under(columns: Curves, name: str) -> Curves:
    """Return the columns whose names begin with a name and an underscore, without these."""
    start = f"{name}_"
    return {
        each.removeprefix(start): values
        for each, values in columns.items()
        if each.startswith(start)
    }


# ------------------------------------------------------------------------------------------------
# Monte Carlo means
# ------------------------------------------------------------------------------------------------


def mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over the replications, and its standard error."""
    reps = len(values)
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(reps)


def centered(values: np.ndarray) -> np.ndarray:
    """Risks less that of the first iterate, the zero prediction, in each replication."""
    return np.asarray(values - values[:, :1])


def inside(values: np.ndarray) -> np.ndarray:
    """Whether zero is within two standard errors of the mean over the replications."""
    mean, error = mean_and_error(values)
    return np.asarray(np.abs(mean) <= 2 * error)
