"""Sessions: the engine at work on one block, in a thread that pauses where it needs the others.

A session is told a `Call`, answers with a `Partial` wherever the engine wants a sum over all rows,
is told the total, and so on until the call is `Done` or has `Failed`. It is deterministic: told
the same things again, a new session arrives at the same place. So a session may be lost at any
time, with the process it lived in, as long as someone remembers what it was told.
"""

from __future__ import annotations

import pickle
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from steinpath._support.arrays import Array
from steinpath._support.validation import captured_warnings
from steinpath.cluster._shares import Place, ShareDesign, design_of_checked
from steinpath.engine._path import Path
from steinpath.risk._estimate import Risk
from steinpath.tuning._tuning import Tuning


@dataclass
class Share:
    """What a session knows: its block of rows and, once there are any, its paths and their risks.

    Attributes
    ----------
    index : int
        Which of the blocks this is.
    design : ShareDesign
        Its rows.
    paths : sequence of Path
        The paths, of which it has these rows: one of `run`, all penalties of `tune`.
    risks : dict
        Risks of these paths that are asked for again, by any keys.
    tuning : Tuning or None
        What `tune` found.
    """

    index: int
    design: ShareDesign
    paths: Sequence[Path] = ()
    risks: dict[Any, Risk] = field(default_factory=dict)
    tuning: Tuning | None = None


@dataclass(frozen=True)
class Call:
    """What a session is to do: call a function with its `Share` and some arguments."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()


class Partial(NamedTuple):
    """A number or array of which the session needs the total over all blocks."""

    kind: str
    value: Array


class Done(NamedTuple):
    """What a call returned, and the warnings on the way."""

    value: Any
    warnings: list[tuple[str, type[Warning]]]


class Failed(NamedTuple):
    """Why a call did not return."""

    error: BaseException


class Lost(NamedTuple):
    """The session is not where it was thought to be; it has to be told everything again."""


Answer = Partial | Done | Failed | Lost


class _Stopped(BaseException):
    """Nobody waits for the session any more."""


class Session:
    """The engine at work on one block.

    It starts anew, knowing nothing, wherever it is copied to.

    Parameters
    ----------
    block : ndarray or sparse matrix
        The rows, which were checked before.
    place : Place
        Which of all rows they are.
    dtype : str
        The precision that all blocks work in.
    """

    def __init__(self, block: Any, place: Place, dtype: str):
        self._args = block, place, dtype
        self._lock = threading.Lock()
        self._place: int | None = None  # after which messages it is
        self._last: Answer = Lost()
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        self._outbox: SimpleQueue[Answer] = SimpleQueue()
        self._end: Callable[[], Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Session, self._args

    def exchange(self, before: int | None, after: int, messages: Sequence[Any]) -> Answer:
        """Tell the session what comes next, and return its answer to the last message.

        Parameters
        ----------
        before : int or None
            The place at which the session has to be; None to start from the beginning.
        after : int
            The place at which it then is. If it is there already, it answers once more.
        messages : sequence
            Calls and totals.
        """
        with self._lock:
            if after == self._place:
                return self._last
            if before is None:
                self._start()
            elif before != self._place:
                return Lost()
            self._place = None  # until it has arrived
            for message in messages:
                self._inbox.put(message)
                self._last = self._outbox.get()
                if isinstance(self._last, Failed):  # what comes next was meant for another end
                    break
            self._place = after
            return self._last

    def _start(self) -> None:
        if self._end is not None:
            self._end()
        self._inbox, self._outbox = SimpleQueue(), SimpleQueue()
        # the thread must not know the session, which it is to outlive by no more than a moment
        threading.Thread(
            target=_serve,
            args=(self._inbox, self._outbox, *self._args),
            name=f"steinpath-block-{self._args[1].index}",
            daemon=True,
        ).start()
        self._end = weakref.finalize(self, self._inbox.put, None)


def _serve(
    inbox: SimpleQueue[Any],
    outbox: SimpleQueue[Answer],
    block: Any,
    place: Place,
    dtype: str,
) -> None:
    """Do what is asked for until there is nobody who asks."""

    def exchange(kind: str, value: Array) -> Array:
        outbox.put(Partial(kind, np.asarray(value)))
        total = inbox.get()
        if total is None:
            raise _Stopped
        # the engine may write into it, and others may have been handed the very same array
        return np.array(total)

    @lru_cache(maxsize=1)
    def share() -> Share:
        rows = design_of_checked(block, np.dtype(dtype))
        return Share(place.index, ShareDesign(rows, place, exchange))

    while (call := inbox.get()) is not None:
        try:
            answer = _answer(call, share)
        except _Stopped:
            return
        outbox.put(answer)
        del call, answer  # while it waits, it should hold no more than it has to


def _answer(call: Call, share: Callable[[], Share]) -> Answer:
    """Make a call; whatever happens, there is an answer."""
    warned: list[tuple[str, type[Warning]]] = []
    token = captured_warnings.set(warned)
    try:
        return Done(call.function(share(), *call.args), warned)
    except _Stopped:
        raise
    except BaseException as error:
        return Failed(_portable(error.with_traceback(None)))
    finally:
        captured_warnings.reset(token)


def _portable(error: BaseException) -> BaseException:
    """Return an error that another process can read."""
    error.__cause__ = error.__context__ = None
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
