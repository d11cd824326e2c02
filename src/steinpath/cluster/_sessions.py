"""Sessions: the engine running on one block, in a thread that waits for totals over all blocks.

A session receives a `Call`, answers with a `Partial` whenever the engine needs a sum over all rows,
receives the total, and so on until the call is `Done` or has `Failed`. It is deterministic: a new
session that receives the same messages reaches the same state. A session can therefore be lost at
any time, together with its process, as long as the messages are logged.
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
    """State of a session: its block of rows, and its paths and their risks.

    Attributes
    ----------
    index : int
        Index of the block.
    design : ShareDesign
        Rows of the block.
    paths : sequence of Path
        Paths restricted to these rows: one for `run`, one per penalty for `tune`.
    risks : dict
        Risks of these paths that may be requested again, by key.
    tuning : Tuning or None
        Result of `tune`.
    """

    index: int
    design: ShareDesign
    paths: Sequence[Path] = ()
    risks: dict[Any, Risk] = field(default_factory=dict)
    tuning: Tuning | None = None


@dataclass(frozen=True)
class Call:
    """A function to call with the `Share` of a session and further arguments."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()


class Partial(NamedTuple):
    """A number or array whose total over all blocks the session needs."""

    kind: str
    value: Array


class Done(NamedTuple):
    """Return value of a call, and its warnings."""

    value: Any
    warnings: list[tuple[str, type[Warning]]]


class Failed(NamedTuple):
    """Exception raised by a call."""

    error: BaseException


class Lost(NamedTuple):
    """The session is not at the expected position; it needs a replay of the whole log."""


Answer = Partial | Done | Failed | Lost


class _Stopped(BaseException):
    """The session is no longer needed."""


class Session:
    """The engine running on one block.

    A copy of a session starts from the beginning.

    Parameters
    ----------
    block : ndarray or sparse matrix
        Validated rows.
    place : Place
        Position of the block among all rows.
    dtype : str
        Precision of all blocks.
    """

    def __init__(self, block: Any, place: Place, dtype: str):
        self._args = block, place, dtype
        self._lock = threading.Lock()
        self._place: int | None = None  # position in the log
        self._last: Answer = Lost()
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        self._outbox: SimpleQueue[Answer] = SimpleQueue()
        self._end: Callable[[], Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Session, self._args

    def exchange(self, before: int | None, after: int, messages: Sequence[Any]) -> Answer:
        """Send messages to the session, and return its answer to the last one.

        Parameters
        ----------
        before : int or None
            Expected position of the session in the log; None to start from the beginning.
        after : int
            Position after the messages. If the session is already there, it repeats its answer.
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
            self._place = None  # until all messages are processed
            for message in messages:
                self._inbox.put(message)
                self._last = self._outbox.get()
                if isinstance(self._last, Failed):  # later messages assume another outcome
                    break
            self._place = after
            return self._last

    def _start(self) -> None:
        if self._end is not None:
            self._end()
        self._inbox, self._outbox = SimpleQueue(), SimpleQueue()
        # the thread must not refer to the session, so that it ends soon after the session
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
    """Answer calls until the session ends."""

    def exchange(kind: str, value: Array) -> Array:
        outbox.put(Partial(kind, np.asarray(value)))
        total = inbox.get()
        if total is None:
            raise _Stopped
        # copy: the engine may write into it, and other sessions may have received the same array
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
        del call, answer  # release memory while waiting


def _answer(call: Call, share: Callable[[], Share]) -> Answer:
    """Make a call; exceptions become answers."""
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
    """Return an error that can be unpickled in another process."""
    error.__cause__ = error.__context__ = None
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
