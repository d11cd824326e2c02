"""The loop of the recursion: for iterates, for runs that leave rows out, and for tangents.

All advance blocks of shape (size, members, columns): iterates have one column for each member,
tangents have many. They differ in what a step does with X, with the responses and with what is
injected; the order of a step is here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from sys import maxsize
from typing import Any, NamedTuple, Protocol

import numpy as np

from steinpath._support.arrays import Array, namespace, take
from steinpath.algorithms._base import Algorithm, History, Maps
from steinpath.engine._data import RunData
from steinpath.engine._graphs import Recording, recording_of

#: Iterations between looks at whether iterates are finite: on a device, a look waits for it.
SELDOM = 16

#: Called after each iteration with its number and the iterates (p, members); True ends the run.
Watch = Callable[[int, Array], bool]


class Step(Protocol):
    """What one iteration consists of, in the order of these methods.

    They are handed what `now` says of an iteration, by which it differs from others.
    """

    def now(self, t: int) -> Any:
        """Return what is particular to iteration ``t``; asked for when it begins."""

    def residual(self, now: Any, b: Array, reading: list[Array] | None) -> Array:
        """``v^{t-1}`` from ``b^{t-1}``, and from what was read of it if that is known."""

    def dual(self, now: Any, u: History, v: History) -> Array:
        """``u^t`` from what came before."""

    def eta(self, now: Any, u: Array) -> Array:
        """``eta^t`` from ``u^t``."""

    def primal(self, now: Any, b: History, eta: History) -> Array:
        """``b^t`` from what came before, and from ``eta^t``."""

    def reading(self, u: Array, b: Array) -> list[Array]:
        """Return what is wanted of an iteration, besides its states."""

    def example(self) -> Any:
        """Something like what `now` returns, for any iteration."""

    def resembles(self, other: Any) -> bool:
        """Whether all but `now` is the same for another step."""


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
    reading: list[Array]


def iterate(
    step: Step,
    past: Histories,
    times: Iterable[int],
    memory: int | None,
    recording: Recording | None = None,
    reading: list[Array] | None = None,
) -> Generator[Newest]:
    """Advance a recursion, whose histories are extended and cut to its memory as it goes.

    What was read of the newest ``b`` is not read again, if it is given. With a recording, the
    arrays of an iteration are overwritten by the next one, and histories are up to date once the
    iterator is closed.
    """
    u, v, b, eta = past
    times = iter(times)
    while True:
        if recording is not None and len(b) > 1 and v:
            yield from recording.replay(step, past, times)
            recording = None
        t = next(times, None)
        if t is None:
            return
        now = step.now(t)
        v.append(step.residual(now, b[-1], reading))
        u.append(step.dual(now, u, v))
        eta.append(step.eta(now, u[-1]))
        b.append(step.primal(now, b, eta))
        reading = step.reading(u[-1], b[-1])
        yield Newest(b[-1], u[-1], eta[-1], reading)
        if memory is not None:
            for history in past:
                del history[:-memory]


# ------------------------------------------------------------------------------------------------
# Iterates
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Iteration:
    """A step of the iterates themselves; a `Step` whose reading is ``X b^t``."""

    maps: Maps
    data: RunData

    def now(self, t: int) -> int:
        return t

    def example(self) -> int:
        return 0

    def resembles(self, other: Any) -> bool:
        return other is self

    def residual(self, now: int, b: Array, reading: list[Array] | None) -> Array:
        (product,) = self.reading(b, b) if reading is None else reading
        return (self.data.target - product) / self.data.rows.root

    def dual(self, now: int, u: History, v: History) -> Array:
        return self.maps.dual(now, u, v)

    def eta(self, now: int, u: Array) -> Array:
        return self.data.design.adjoint(u) / self.data.rows.root

    def primal(self, now: int, b: History, eta: History) -> Array:
        return self.maps.primal(now, b, eta)

    def reading(self, u: Array, b: Array) -> list[Array]:
        return [self.data.design.forward(b)]


def beginning(data: RunData, members: int) -> Histories:
    """Return the histories at the start: ``b^0 = 0``, ``u^0 = 0``."""
    n, p = data.design.shape
    rows, columns = (data.design.zeros(size, members, 1) for size in (n, p))
    return Histories(History([rows]), History(), History([columns]), History([columns]))


def iterates(maps: Maps, data: RunData, members: int) -> Iterator[tuple[Array, Array]]:
    """Run from zero; yield ``b^t`` (p, members) and ``X b^t`` (n, members), from t = 0 on.

    They may be overwritten by the next ones.
    """
    iteration, past = Iteration(maps, data), beginning(data, members)
    first = iteration.reading(past.u[-1], past.b[-1])
    yield past.b[-1][:, :, 0], first[0][:, :, 0]
    recording = recording_of(maps, first[0], maxsize)
    for newest in iterate(iteration, past, count(1), maps.memory, recording, first):
        yield newest.b[:, :, 0], newest.reading[0][:, :, 0]


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


def check_finite_states(
    states: Sequence[Array], known: int, algorithm: Algorithm, data: RunData
) -> None:
    """Refuse iterates that are not finite.

    Parameters
    ----------
    states : sequence of Array of shape (members, T, size)
        Iterates ``b^t`` and ``X b^t`` up to the newest.
    known : int
        Number of iterates that were looked at before.
    algorithm : Algorithm
        What may be to blame.
    data : RunData
        The data.
    """
    new = [array[:, known:, :] for array in states]
    if all(_is_finite(each) for each in new):
        return
    finite = [all(_is_finite(each[:, k, :]) for each in new) for k in range(new[0].shape[1])]
    raise DivergenceError(
        known + finite.index(False), algorithm.why_diverged(data.design, data.loss)
    )


def _is_finite(array: Array) -> bool:
    xp = namespace(array)
    return bool(xp.all(xp.isfinite(array)))
