"""Base classes of studies: configurations, results, tables and figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from steinpath._support.validation import check_count
from steinpath.study._replicate import Curves
from steinpath.study._settings import PAIRS, PAPER_NOISE, Configuration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Curves of all finished replications by configuration, each of shape (replications, iterates).
Results = dict[Configuration, Curves]

#: Rows of a table, by the names of its columns.
Table = list[dict[str, Any]]


class Exhibit(NamedTuple):
    """A figure and the table it is drawn from."""

    name: str
    table: Table
    draw: Callable[[Table], Figure]


@dataclass(frozen=True)
class Sizes:
    """Size of a study.

    Attributes
    ----------
    reps : int
        Replications per configuration.
    n, p : tuple of int
        Numbers of observations and of features; all combinations are run. Empty p if the study
        derives p from n.
    iters : int
        Number of iterations; 0 stands for ``n_iter="auto"``, in studies whose default is 0.
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
    """A Monte Carlo study.

    Attributes
    ----------
    name : str
        Name on the command line.
    question : str
        Question that the study answers.
    plan : callable
        Returns the configurations for given sizes.
    exhibits : callable
        Returns figures with their tables for given results.
    summary : callable
        Returns a short table for given results.
    full, quick : Sizes
        Default sizes, and sizes of a trial run.
    """

    name: str
    question: str
    plan: Callable[[Sizes], list[Configuration]]
    exhibits: Callable[[Results], list[Exhibit]]
    summary: Callable[[Results], Table]
    full: Sizes
    quick: Sizes

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
    designs: tuple[str, ...] = ("gaussian",),
) -> list[Configuration]:
    """Return configurations for every n, p, design and loss–penalty pair."""
    return [
        Configuration(loss, penalty, n, p, sizes.iters, ways, design, noise[loss])
        for n in sizes.n
        for p in sizes.p
        for design in designs
        for loss, penalty in PAIRS
    ]


def columns_under(columns: Curves, name: str) -> Curves:
    """Return the columns whose names start with ``name_``, with this prefix removed."""
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
    """Return the mean over the replications and its standard error."""
    reps = len(values)
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(reps)


def centered(values: np.ndarray) -> np.ndarray:
    """Subtract the risk of the zero prediction (iteration 0) in each replication."""
    return np.asarray(values - values[:, :1])


def inside(values: np.ndarray) -> np.ndarray:
    """Return whether zero is within two standard errors of the mean over the replications."""
    mean, error = mean_and_error(values)
    return np.asarray(np.abs(mean) <= 2 * error)
