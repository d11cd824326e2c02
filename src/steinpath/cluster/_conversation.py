"""Communication with all blocks in rounds: partial results in, totals out.

All messages are logged. If a session is lost, its replacement receives the log and replays it
without waiting for the other sessions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy as np

from steinpath._support.arrays import Array
from steinpath._support.validation import warn
from steinpath.cluster._log import Log
from steinpath.cluster._sessions import Answer, Call, Done, Failed, Lost, Partial

# Maximum number of times that a session may be lost in one round.
_REPLAYS = 3

# Reductions of the partial results of all blocks.
_REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {"sum": np.add, "largest": np.maximum}

_places = itertools.count()


class Request(NamedTuple):
    """A request to a session; see `Session.exchange`."""

    before: int | None
    after: int
    messages: Sequence[Any]


class Carrier(Protocol):
    """Sends requests to sessions and returns their answers."""

    #: Names of the blocks in messages.
    names: Sequence[str]

    def exchange(self, requests: Mapping[int, Request]) -> dict[int, Answer]:
        """Return the answers to requests, by block."""

    def forget(self) -> None:
        """End all sessions; later requests start new ones."""


class OutOfStep(RuntimeError):
    """The blocks did not perform the same computations."""


class WorkerLost(RuntimeError):
    """The worker of a block was lost repeatedly."""


def worker_lost(name: str, how_often: str) -> str:
    """Return a message that names the block whose worker was lost, and a remedy."""
    return (
        f"the worker that holds {name} was lost {how_often}, possibly because it ran out of "
        "memory: use smaller blocks or workers with more memory"
    )


class Conversation:
    """The log of all messages to the sessions, and their current position in it.

    Parameters
    ----------
    carrier : Carrier
        Connection to the sessions.
    """

    def __init__(self, carrier: Carrier):
        self._carrier = carrier
        self._blocks = range(len(carrier.names))
        self._log = Log()
        self._place: int | None = None  # position of all sessions; None if there are none

    def ask(
        self, calls: Sequence[Call], remember: bool | Callable[[list[Any]], bool] = False
    ) -> list[Any]:
        """Make a call on every block, and return the results in the order of the blocks.

        Parameters
        ----------
        calls : sequence of Call
            One per block.
        remember : bool or callable
            Whether later calls depend on this one; may be a function of the results.
        """
        known = len(self._log)
        try:
            answers = self._round(calls)
            while not all(isinstance(answer, Done | Failed) for answer in answers):
                for answer in answers:
                    if isinstance(answer, Failed):
                        raise self._told(answers)
                answers = self._round(_total(answers))
        except BaseException:
            # some sessions may be ahead of others
            self._forget()
            self._log.cut(known)
            raise
        if any(isinstance(answer, Failed) for answer in answers):
            self._log.cut(known)
            raise self._told(answers)
        values = [answer.value for answer in answers]
        if not (remember(values) if callable(remember) else remember):
            self._log.cut(known)
        for message, category in dict.fromkeys(each for a in answers for each in a.warnings):
            warn(message, category)
        return values

    def _round(self, messages: Sequence[Any]) -> list[Any]:
        """Send every block its message, and return the answers."""
        self._log.append(messages)
        after = next(_places)
        answers: dict[int, Answer] = {}
        if self._place is not None:
            requests = {k: Request(self._place, after, [messages[k]]) for k in self._blocks}
            answers = self._carrier.exchange(requests)
        # new sessions receive the whole log
        for _ in range(_REPLAYS + (self._place is None)):
            if not (lost := _lost(answers, self._blocks)):
                break
            answers |= self._catch_up(lost, after)
        if lost := _lost(answers, self._blocks):
            names = ", ".join(self._carrier.names[k] for k in lost)
            raise WorkerLost(worker_lost(names, f"{_REPLAYS + 1} times in a row"))
        self._place = after
        return [answers[k] for k in self._blocks]

    def _catch_up(self, blocks: Sequence[int], after: int) -> dict[int, Answer]:
        """Replay the whole log to some blocks; return their last answers."""
        answers: dict[int, Answer] = {}
        before, left = None, len(self._log)
        for portion in self._log.portions():
            left -= len(portion)
            place = next(_places) if left else after
            requests = {
                k: Request(before, place, [told[k] for told in portion])
                for k in blocks
                if k not in answers or isinstance(answers[k], Partial | Done)
            }
            answers |= self._carrier.exchange(requests)
            before = place
        return answers

    def _told(self, answers: Sequence[Answer]) -> BaseException:
        """Return the first error, with a note naming the block."""
        where, error = next(
            (k, answer.error) for k, answer in enumerate(answers) if isinstance(answer, Failed)
        )
        error.add_note(f"(at {self._carrier.names[where]})")
        return error

    def _forget(self) -> None:
        self._place = None
        self._carrier.forget()


def _lost(answers: Mapping[int, Answer], blocks: Iterable[int]) -> list[int]:
    """Return the blocks whose sessions did not answer."""
    return [k for k in blocks if isinstance(answers.get(k, Lost()), Lost)]


def _form(answer: Answer) -> tuple[Any, ...] | None:
    """Return the properties that must agree for all partial results."""
    if not isinstance(answer, Partial):
        return None
    if answer.kind == "first":
        return (answer.kind,)
    return answer.kind, answer.value.shape, answer.value.dtype


def _total(answers: Sequence[Any]) -> list[Array]:
    """Combine partial results in the order of the blocks."""
    alike = {_form(each) for each in answers}
    if len(alike) != 1 or None in alike:
        raise OutOfStep(
            "the blocks returned different results for the same computation; use the same type of "
            "machine and the same library versions for all workers"
        )
    values = [each.value for each in answers]
    if answers[0].kind == "first":
        return values[:1] * len(values)
    return [reduce(_REDUCTIONS[answers[0].kind], values)] * len(values)
