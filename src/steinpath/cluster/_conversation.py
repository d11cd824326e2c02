"""The conversation with all blocks: round by round, partial results in, totals out.

It is kept word for word. Whatever happens to a session, the next one is told all of it again, and
runs through it without waiting for the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy as np

from steinpath._support.arrays import Array
from steinpath._support.validation import warn
from steinpath.cluster._sessions import Answer, Call, Done, Failed, Lost, Partial

# How often a session may be lost in one round.
_REPLAYS = 3

_places = itertools.count()


class Request(NamedTuple):
    """What a session is told; see `Session.exchange`."""

    before: int | None
    after: int
    messages: Sequence[Any]


class Carrier(Protocol):
    """Takes requests to sessions, wherever these are, and brings their answers back."""

    #: What to call each block in messages.
    names: Sequence[str]

    def exchange(self, requests: Mapping[int, Request]) -> dict[int, Answer]:
        """Return the answer of each block that there is a request for."""

    def forget(self) -> None:
        """End all sessions; the next requests are for new ones."""


class OutOfStep(RuntimeError):
    """Blocks whose computations should be alike are not."""


class WorkerLost(RuntimeError):
    """A block whose worker is lost time and again."""


def worker_lost(name: str, how_often: str) -> str:
    """Say which block's worker was lost, and what may help."""
    return (
        f"the worker that holds {name} was lost {how_often}: of memory, perhaps, and then smaller "
        "blocks or larger workers help"
    )


class Conversation:
    """What all sessions were told, and how to go on.

    Parameters
    ----------
    carrier : Carrier
        How to reach the sessions.
    """

    def __init__(self, carrier: Carrier):
        self._carrier = carrier
        self._blocks = range(len(carrier.names))
        self._log: list[Sequence[Any]] = []  # for each round, what each block was told
        self._place: int | None = None  # where all sessions are; None if there are none

    def ask(self, calls: Sequence[Call], remember: bool = False) -> list[Any]:
        """Make a call at every block, and return the results in the order of the blocks.

        Parameters
        ----------
        calls : sequence of Call
            One per block.
        remember : bool
            Whether later calls depend on this one.
        """
        known = len(self._log)
        try:
            answers = self._round(calls)
            while not all(isinstance(answer, Done | Failed) for answer in answers):
                for answer in answers:
                    if isinstance(answer, Failed):
                        raise self._told(answers)
                answers = self._round([_total(answers)] * len(self._blocks))
        except BaseException:
            # some sessions may have gone on and others not
            self._forget()
            del self._log[known:]
            raise
        if not remember:
            del self._log[known:]
        if any(isinstance(answer, Failed) for answer in answers):
            raise self._told(answers)
        for message, category in dict.fromkeys(each for a in answers for each in a.warnings):
            warn(message, category)
        return [answer.value for answer in answers]

    def _round(self, messages: Sequence[Any]) -> list[Any]:
        """Tell every block its message, and return the answers."""
        self._log.append(messages)
        after = next(_places)

        def everything(k: int) -> Request:
            return Request(None, after, [told[k] for told in self._log])

        if self._place is None:
            requests = {k: everything(k) for k in self._blocks}
        else:
            requests = {k: Request(self._place, after, [messages[k]]) for k in self._blocks}
        answers: dict[int, Answer] = {}
        for _ in range(_REPLAYS + 1):
            answers |= self._carrier.exchange(requests)
            requests = {k: everything(k) for k in requests if isinstance(answers[k], Lost)}
            if not requests:
                self._place = after
                return [answers[k] for k in self._blocks]
        lost = ", ".join(self._carrier.names[k] for k in requests)
        raise WorkerLost(worker_lost(lost, f"{_REPLAYS + 1} times in a row"))

    def _told(self, answers: Sequence[Answer]) -> BaseException:
        """Return the first error, with a note that says where it was."""
        where, error = next(
            (k, answer.error) for k, answer in enumerate(answers) if isinstance(answer, Failed)
        )
        error.add_note(f"(at {self._carrier.names[where]})")
        return error

    def _forget(self) -> None:
        self._place = None
        self._carrier.forget()


def _total(answers: Sequence[Any]) -> Array:
    """Put partial results together, in the order of the blocks."""
    alike = {
        (each.kind, each.value.shape, each.value.dtype) if isinstance(each, Partial) else None
        for each in answers
    }
    if len(alike) != 1 or None in alike:
        raise OutOfStep(
            "blocks disagree on what comes next, though all of them were told the same: are their "
            "machines, or the versions of their libraries, of different kinds?"
        )
    values = [each.value for each in answers]
    return reduce(np.add if answers[0].kind == "sum" else np.maximum, values)
