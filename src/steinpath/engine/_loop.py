"""The loop of the recursion, for iterates, for runs on subsets of the rows, and for tangents.

All advance blocks of shape (size, members, columns): iterates have one column per member, tangents
have many. They differ in how a step uses X, the responses and injections; this module defines the
order of operations.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from sys import maxsize
from typing import Any, NamedTuple, Protocol

import numpy as np

from steinpath._support.arrays import Array, namespace, take
from steinpath.algorithms._base import Algorithm, History, Maps, Moment
from steinpath.engine._data import RunData
from steinpath.engine._graphs import Recording, recording_of

#: Iterations between checks for finite iterates; on a device, a check synchronises with it.
SELDOM = 16

#: Called after each iteration with its number and the iterates (p, members); True ends the run.
Watch = Callable[[int, Array], bool]


class Step(Protocol):
    """One iteration, as methods in the order of their calls; ``now`` is what is specific to it."""

    def now(self, t: int, moment: Moment | None = None) -> Any:
        """Return the data specific to iteration ``t``; its numbers may be those of a moment."""

    def residual(self, now: Any, b: Array, reading: list[Array] | None) -> Array:
        """Return ``v^{t-1}`` given ``b^{t-1}``, and its readings if they are known."""

    def dual(self, now: Any, u: History, v: History) -> Array:
        """Return ``u^t`` given the histories."""

    def eta(self, now: Any, u: Array) -> Array:
        """Return ``eta^t`` given ``u^t``."""

    def primal(self, now: Any, b: History, eta: History) -> Array:
        """Return ``b^t`` given the histories, including ``eta^t``."""

    def reading(self, u: Array, b: Array) -> list[Array]:
        """Return the readings of an iteration, in addition to its states."""

    def resembles(self, other: Any) -> bool:
        """Whether another step differs from this one only in `now`."""


class Histories(NamedTuple):
    """Histories of a recursion; that of ``v`` lacks the residual of the newest ``b``."""

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
        return Histories(*(_mapped(lambda blocks: take(blocks[0], members, 1), [h]) for h in self))

    @classmethod
    def joined(cls, parts: Sequence[Histories]) -> Histories:
        """Join the histories of disjoint sets of members."""

        def side_by_side(blocks: Sequence[Array]) -> Array:
            return namespace(blocks[0]).concat(blocks, axis=1)

        return cls(*(_mapped(side_by_side, histories) for histories in zip(*parts, strict=True)))


def _mapped(change: Callable[[Sequence[Array]], Array], histories: Sequence[History]) -> History:
    """Apply a function of blocks to those of several histories and to their carried states."""
    result = History(change(blocks) for blocks in zip(*histories, strict=True))
    carried = [history.carried for history in histories]
    if isinstance(carried[0], tuple):
        result.carried = tuple(change(blocks) for blocks in zip(*carried, strict=True))
    elif carried[0] is not None:
        result.carried = change(carried)
    return result


class Newest(NamedTuple):
    """States of the newest iteration."""

    b: Array
    u: Array
    eta: Array
    reading: list[Array]


def advance(step: Step, now: Any, past: Histories, reading: list[Array] | None) -> Newest:
    """Do one iteration, extending the histories; readings of the newest ``b`` are reused."""
    u, v, b, eta = past
    v.append(step.residual(now, b[-1], reading))
    u.append(step.dual(now, u, v))
    eta.append(step.eta(now, u[-1]))
    b.append(step.primal(now, b, eta))
    return Newest(b[-1], u[-1], eta[-1], step.reading(u[-1], b[-1]))


def iterate(
    step: Step,
    past: Histories,
    times: Iterable[int],
    memory: int | None,
    recording: Recording | None = None,
    reading: list[Array] | None = None,
) -> Generator[Newest]:
    """Advance a recursion, extending its histories and trimming them to its memory.

    With a recording, the next iteration overwrites arrays; histories are complete at the end.
    """
    times = iter(times)
    while True:
        if recording is None:
            t = next(times, None)
        else:
            before = past.b[-1]
            t = yield from recording.replay(advance, step, past, times)
            reading = reading if past.b[-1] is before else None
        if t is None:
            return
        newest = advance(step, step.now(t), past, reading)
        reading = newest.reading
        yield newest
        if memory is not None:
            for history in past:
                del history[:-memory]


# ------------------------------------------------------------------------------------------------
# Iterates
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Iteration:
    """Step of the iterates; a `Step` whose reading is ``X b^t``."""

    maps: Maps
    data: RunData

    def now(self, t: int, moment: Moment | None = None) -> int | Moment:
        return t if moment is None else moment

    def resembles(self, other: Any) -> bool:
        return other is self

    def residual(self, now: int | Moment, b: Array, reading: list[Array] | None) -> Array:
        (product,) = self.reading(b, b) if reading is None else reading
        residual = self.data.target - product
        residual /= self.data.rows.root
        return residual

    def dual(self, now: int | Moment, u: History, v: History) -> Array:
        return self.maps.dual(now, u, v)

    def eta(self, now: int | Moment, u: Array) -> Array:
        return self.data.design.adjoint(u) / self.data.rows.root

    def primal(self, now: int | Moment, b: History, eta: History) -> Array:
        return self.maps.primal(now, b, eta)

    def reading(self, u: Array, b: Array) -> list[Array]:
        return [self.data.design.forward(b)]


def beginning(data: RunData, members: int) -> Histories:
    """Return the initial histories, ``b^0 = 0`` and ``u^0 = 0``."""
    n, p = data.design.shape
    rows, columns = (data.design.zeros(size, members, 1) for size in (n, p))
    return Histories(History([rows]), History(), History([columns]), History([columns]))


def iterates(
    maps: Maps, data: RunData, past: Histories, known: int = 0
) -> Generator[tuple[Array, Array]]:
    """Yield ``b^t`` and ``X b^t`` (size, members), valid until the next ones.

    Runs begin with iteration 0, or continue after the ``known`` iterations. The histories ``past``
    are extended; they are complete once the iterator is closed.
    """
    iteration = Iteration(maps, data)
    first = iteration.reading(past.u[-1], past.b[-1])
    if not known:
        yield past.b[-1][:, :, 0], first[0][:, :, 0]
    recording = recording_of(maps, first[0], maxsize)
    for newest in iterate(iteration, past, count(known or 1), maps.memory, recording, first):
        yield newest.b[:, :, 0], newest.reading[0][:, :, 0]


class DivergenceError(FloatingPointError):
    """Error raised if an iterate is not finite.

    Attributes
    ----------
    iterate : int
        The first iteration whose iterate is not finite.
    """

    def __init__(self, iterate: int, cause: str):
        super().__init__(f"iterate {iterate} is not finite: {cause}")
        self.iterate, self._cause = iterate, cause

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.iterate, self._cause)


def check_finite_states(
    states: Sequence[Array], known: int, algorithm: Algorithm, data: RunData
) -> None:
    """Refuse states (members, T, size) that are not finite, the first ``known`` of them checked."""
    new = [array[:, known:, :] for array in states]
    if all(map(_is_finite, new)):
        return
    finite = [all(_is_finite(array[:, k, :]) for array in new) for k in range(new[0].shape[1])]
    cause = algorithm.why_diverged(data.design, data.loss)
    raise DivergenceError(known + finite.index(False), cause)


def _is_finite(array: Array) -> bool:
    xp = namespace(array)
    return bool(xp.all(xp.isfinite(array)))
