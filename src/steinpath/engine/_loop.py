"""The loop of the recursion: for iterates, for runs that leave rows out, and for tangents.

All advance blocks of shape (size, members, columns): iterates have one column for each member,
tangents have many. They differ in what a step does with X, with the responses and with what is
injected; the order of a step is here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import count
from typing import Any, NamedTuple, Protocol

import numpy as np

from steinpath._support.arrays import Array, namespace, take
from steinpath.algorithms._base import Algorithm, History, Maps
from steinpath.engine._data import RunData

# Iterates on a device are looked at this seldom, since a look waits for it; NumPy's always.
_SELDOM = 16

#: Called after each iteration with its number and the iterates (p, members); True ends the run.
Watch = Callable[[int, Array], bool]


class Step(Protocol):
    """What one iteration consists of, in the order of these methods."""

    def residual(self, t: int, b: Array) -> Array:
        """``v^t`` from ``b^t``."""

    def dual(self, t: int, u: History, v: History) -> Array:
        """``u^t`` from what came before."""

    def eta(self, t: int, u: Array) -> Array:
        """``eta^t`` from ``u^t``."""

    def primal(self, t: int, b: History, eta: History) -> Array:
        """``b^t`` from what came before, and from ``eta^t``."""


class Histories(NamedTuple):
    """The past of a recursion; that of ``v`` lacks the residual of the newest ``b``."""

    u: History
    v: History
    b: History
    eta: History

    def copy(self) -> Histories:
        """Return histories that can be extended without changing these."""
        copies = []
        for history in self:
            copies.append(History(history))
            copies[-1].carried = history.carried
        return Histories(*copies)

    def some(self, members: np.ndarray) -> Histories:
        """Return the histories of some members."""
        return Histories(*(_each(lambda blocks: take(blocks[0], members, 1), [h]) for h in self))

    @classmethod
    def joined(cls, parts: Sequence[Histories]) -> Histories:
        """Return the histories of all members, from those of some each."""
        return cls(*(_each(_side_by_side, histories) for histories in zip(*parts, strict=True)))


def _side_by_side(blocks: Sequence[Array]) -> Array:
    return namespace(blocks[0]).concat(blocks, axis=1)


def _each(change: Callable[[Sequence[Array]], Array], histories: Sequence[History]) -> History:
    """Apply a function of blocks to those of several histories, and to what they carry."""
    result = History(change(blocks) for blocks in zip(*histories, strict=True))
    carried = [history.carried for history in histories]
    if isinstance(carried[0], tuple):
        result.carried = tuple(change(blocks) for blocks in zip(*carried, strict=True))
    elif carried[0] is not None:
        result.carried = change(carried)
    return result


class Newest(NamedTuple):
    """What an iteration found."""

    b: Array
    u: Array
    eta: Array


def iterate(
    step: Step, past: Histories, times: Iterable[int], memory: int | None
) -> Iterator[Newest]:
    """Advance a recursion, whose histories are extended and cut to its memory as it goes."""
    u, v, b, eta = past
    for t in times:
        v.append(step.residual(t - 1, b[-1]))
        u.append(step.dual(t, u, v))
        eta.append(step.eta(t, u[-1]))
        b.append(step.primal(t, b, eta))
        yield Newest(b[-1], u[-1], eta[-1])
        if memory is not None:
            for history in past:
                del history[:-memory]


# ------------------------------------------------------------------------------------------------
# Iterates
# ------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Iteration:
    """A step of the iterates themselves; a `Step`."""

    maps: Maps
    data: RunData
    _product: tuple[Array, Array] | None = field(default=None, init=False)  # b and X b

    def product(self, b: Array) -> Array:
        """``X b``, computed once for the newest ``b``."""
        if self._product is None or self._product[0] is not b:
            self._product = b, self.data.design.forward(b)
        return self._product[1]

    def residual(self, t: int, b: Array) -> Array:
        return (self.data.target - self.product(b)) / self.data.rows.root

    def dual(self, t: int, u: History, v: History) -> Array:
        return self.maps.dual(t, u, v)

    def eta(self, t: int, u: Array) -> Array:
        return self.data.design.adjoint(u) / self.data.rows.root

    def primal(self, t: int, b: History, eta: History) -> Array:
        return self.maps.primal(t, b, eta)


def beginning(data: RunData, members: int) -> Histories:
    """Return the histories at the start: ``b^0 = 0``, ``u^0 = 0``."""
    n, p = data.design.shape
    rows, columns = (data.design.zeros(size, members, 1) for size in (n, p))
    return Histories(History([rows]), History(), History([columns]), History([columns]))


def iterates(maps: Maps, data: RunData, members: int) -> Iterator[tuple[Array, Array]]:
    """Run from zero; yield ``b^t`` (p, members) and ``X b^t`` (n, members), from t = 0 on."""
    iteration, past = Iteration(maps, data), beginning(data, members)
    yield past.b[-1][:, :, 0], iteration.product(past.b[-1])[:, :, 0]
    for newest in iterate(iteration, past, count(1), maps.memory):
        yield newest.b[:, :, 0], iteration.product(newest.b)[:, :, 0]


class DivergenceError(FloatingPointError):
    """An iterate stopped being finite.

    Attributes
    ----------
    iterate : int
        The first iterate that is not finite.
    """

    def __init__(self, iterate: int, cause: str):
        super().__init__(f"iterate {iterate} is not finite: {cause}")
        self.iterate, self._cause = iterate, cause

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.iterate, self._cause)


class FiniteCheck:
    """Looks at iterates, and refuses those that are not finite.

    Parameters
    ----------
    algorithm : Algorithm
        What may be to blame.
    data : RunData
        The data.
    horizons : collection of int
        Iterations at which all iterates so far are to be known to be finite.
    """

    def __init__(self, algorithm: Algorithm, data: RunData, horizons: Collection[int]):
        self._algorithm, self._data, self._horizons = algorithm, data, horizons
        self._every = 1 if isinstance(data.y, np.ndarray) else _SELDOM
        self._unseen: list[tuple[Array, Array]] = []

    def __call__(self, t: int, b: Array, product: Array) -> None:
        self._unseen.append((b, product))
        if len(self._unseen) < self._every and t not in self._horizons:
            return
        bad = _first_infinite(self._unseen)
        if bad is not None:
            cause = self._algorithm.why_diverged(self._data.design, self._data.loss)
            raise DivergenceError(t - len(self._unseen) + 1 + bad, cause)
        self._unseen.clear()


def _first_infinite(pairs: Sequence[tuple[Array, Array]]) -> int | None:
    """Return which of the pairs is the first that is not finite, if any."""
    xp = namespace(pairs[0][0])
    finite = [xp.all(xp.isfinite(b)) & xp.all(xp.isfinite(product)) for b, product in pairs]
    return None if reduce(operator.and_, finite) else [bool(each) for each in finite].index(False)
