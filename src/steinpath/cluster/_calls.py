"""Calls of a function on all blocks, with totals over the blocks in rounds.

If a worker is lost, new sessions are started on all blocks, the calls whose results the client
still uses are repeated, and then the call in progress.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._support.arrays import Array
from steinpath._support.validation import warn
from steinpath.cluster._messages import (
    CallPickler,
    NotOnWorkers,
    Reference,
    same_on_all,
    unpack_result,
)
from steinpath.cluster._session import Answer, Call, Done, Failed, Lost, Partial
from steinpath.design._base import Design, NormBounds

if TYPE_CHECKING:
    from steinpath.cluster._dask import DaskCarrier

# Maximum number of times that a call is repeated because workers were lost.
_REPEATS = 3

# Totals of the values of all blocks.
_TOTALS: dict[str, Callable[[Any, Any], Any]] = {"sum": np.add, "largest": np.maximum}

_OUT_OF_STEP = (
    "the blocks returned different results for the same computation; use the same type of machine "
    "and the same library versions for all workers"
)


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


class CallResult:
    """The result of a call, as long as the client uses an object of it that the blocks keep."""

    def __init__(self, calls: Calls, key: int, needs: Sequence[CallResult]):
        self.key, self.calls = key, calls
        self._needs = needs  # results that the call is repeated with


class Calls:
    """The sessions of all blocks of a design, and the calls that made their state."""

    def __init__(self, carrier: DaskCarrier, design: Design, starts: Sequence[int]):
        self._carrier, self._design, self._starts = carrier, weakref.ref(design), starts
        self._keys, self._lock = itertools.count(), threading.RLock()
        self._position = 0  # number of messages to the current sessions; 0 if there are none
        self._made: dict[int, list[Call]] = {}  # calls with results in use, by key
        self._released: list[int] = []  # keys of results that are no longer used
        self.norms: dict[tuple[Any, ...], NormBounds] = {}  # of designs, by their transformations
        self._references = weakref.WeakKeyDictionary[Any, Reference]()
        self._objects = weakref.WeakValueDictionary[tuple[int, int], Any]()

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function on every block, and return its result."""
        design = self._design()
        assert design is not None
        try:
            pickler = CallPickler(function, args, design, self._references, self.norms)
        except NotOnWorkers:
            return function(*args)  # with products of the client
        key, result = next(self._keys), list[CallResult]()
        parts = [np.split(values, self._starts[1:]) for values in pickler.over_rows]
        with self._lock:
            released = self._released[:]  # others may be added meanwhile
            del self._released[: len(released)]
            for old in released:
                self._made.pop(old, None)
            # generators as they are now, with which the call may have to be repeated later
            message = key, pickler.packed, deepcopy(pickler.generators)
            numbers = range(len(self._starts))
            calls = [Call(*message, [own[k] for own in parts], released) for k in numbers]
            answers = self._completed(calls)
            if not same_on_all([one.summaries for one in answers]):
                raise OutOfStep(_OUT_OF_STEP)

            def reference(number: int) -> Reference:
                if not result:
                    result.append(CallResult(self, key, pickler.results))
                    weakref.finalize(result[0], self._released.append, key)
                    self._made[key] = calls
                return Reference(result[0], number)

            sources: dict[str, Callable[..., Any]] = {
                "design": lambda: design,
                "kept": self._objects.__getitem__,
                "new": reference,
            }
            value = unpack_result(answers[0].packed, [one.parts for one in answers], sources)
        for own, used in zip(pickler.generators, answers[0].generators, strict=True):
            _advance(own, used)
        warned = itertools.chain.from_iterable(one.warnings for one in answers)
        for text, category in dict.fromkeys(warned):
            warn(text, category)
        return value

    def register(self, value: Any, reference: Reference) -> None:
        """Note that an object of the client stands for one that the blocks keep."""
        self._references[value] = reference
        self._objects[reference.result.key, reference.number] = value

    def _completed(self, calls: Sequence[Call]) -> list[Done]:
        """Make a call; if a worker is lost, repeat those whose results are used, and it."""
        lost = ""
        for _ in range(_REPEATS + 1):
            again = [] if self._position else list(self._made.values())
            try:
                for messages in [*again, calls]:
                    answers = self._answers(messages)
                failed = [one.error for one in answers if isinstance(one, Failed)]
                if not failed:
                    return [one for one in answers if isinstance(one, Done)]
            except _SessionsLost as error:
                lost = str(error)
                self._restart()
            except BaseException:
                self._restart()  # some sessions may be ahead of others
                raise
            else:
                raise failed[0]
        raise WorkerLost(worker_lost(lost, f"{_REPEATS + 1} times in a row"))

    def _answers(self, messages: Sequence[Any]) -> list[Answer]:
        """Send each block a message, and then totals until all have ended the call."""
        while True:
            self._position += 1
            answers = self._carrier.exchange(self._position, messages)
            pairs = list(zip(self._carrier.names, answers, strict=True))
            if any(isinstance(answer, Lost) for answer in answers):
                names = [name for name, one in pairs if isinstance(one, Lost) and one.own_worker]
                raise _SessionsLost(", ".join(names))
            failed = [(name, one.error) for name, one in pairs if isinstance(one, Failed)]
            for name, error in failed:
                error.add_note(f"(at {name})")
            if not any(isinstance(answer, Partial) for answer in answers):
                return answers
            if failed:
                raise failed[0][1]
            messages = [_total(answers)] * len(answers)

    def _restart(self) -> None:
        self._position = 0
        self._carrier.restart()


class _SessionsLost(Exception):
    """Some blocks have lost their sessions."""


def _total(answers: Sequence[Any]) -> Array:
    """Return the total of the values of all blocks, in the order of the blocks."""
    partials = [one for one in answers if isinstance(one, Partial)]
    values, kinds = [one.value for one in partials], {one.kind for one in partials}
    same_form = kinds == {"first"} or len({(value.shape, value.dtype) for value in values}) == 1
    if len(partials) < len(answers) or len(kinds) > 1 or not same_form:
        raise OutOfStep(_OUT_OF_STEP)
    (kind,) = kinds
    return values[0] if kind == "first" else reduce(_TOTALS[kind], values)


def _advance(generator: np.random.Generator, used: np.random.Generator) -> None:
    """Set a generator to the state of its copy that was used."""
    generator.bit_generator.state = used.bit_generator.state
    own, other = generator.bit_generator.seed_seq, used.bit_generator.seed_seq
    spawned: Any = getattr(other, "n_children_spawned", 0)
    if missing := spawned - getattr(own, "n_children_spawned", 0):
        own.spawn(missing)  # type: ignore[attr-defined]
