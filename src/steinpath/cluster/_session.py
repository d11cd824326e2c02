"""One block of rows on its worker: its design, its totals with other blocks, and its session.

The engine runs unchanged on every block. Arrays over columns are the same on all blocks, arrays
over rows are those of the block, and blocks communicate only by a `Communicator`.
"""

from __future__ import annotations

import pickle
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from steinpath._support.arrays import Array
from steinpath._support.validation import capturing_warnings
from steinpath.cluster._blocks import StoredBlock
from steinpath.cluster._messages import KeptObjects, ResultPickler, Totals, unpack_call
from steinpath.design._base import ScalableDesign
from steinpath.design._conversion import column_moments
from steinpath.design._dense import DenseDesign
from steinpath.design._sparse import SparseDesign

# Number of entries per piece of column moments.
_PIECE = 2**20


class Communicator:
    """Connection of one block to the others, by which all compute totals, in the same order.

    ``exchange`` returns the "sum", the elementwise "largest" or the "first" of the blocks' values.
    ``bounds`` are the first row of each block and the number of all rows.
    """

    def __init__(self, index: int, bounds: Sequence[int], exchange: Callable[[str, Array], Array]):
        self.index, self.exchange = index, exchange
        self.start, self.n_rows = bounds[index], bounds[-1]
        self.largest_block = int(np.diff(bounds).max())


class WorkerDesign(ScalableDesign):
    """A block of consecutive rows of X; sums are over the rows of all blocks, except in `own`."""

    def __init__(self, own: ScalableDesign, communicator: Communicator, y: Array | None = None):
        self.own, self.communicator, self.all_y = own, communicator, y
        self.shape, self.example = own.shape, own.example
        self.out_of_core = own.out_of_core

    @property
    def n_rows(self) -> int:
        return self.communicator.n_rows

    @property
    def largest_share(self) -> int:
        return self.communicator.largest_block

    def over_rows(self, partial: Array) -> Array:
        return self.communicator.exchange("sum", partial)

    def largest(self, value: Any) -> Any:
        return self.communicator.exchange("largest", value)

    def once(self, compute: Callable[[], Array]) -> Array:
        value = np.zeros(0) if self.communicator.index else compute()
        return self.communicator.exchange("first", value)

    def local(self, values: Array) -> Array:
        first = self.communicator.start
        return values[first : first + self.shape[0], ...]

    def matmat(self, block: Array) -> Array:
        return self.own.matmat(block)

    def rmatmat(self, block: Array) -> Array:
        return self.over_rows(self.own.rmatmat(block))

    def adjoint_and_total(self, block: Array) -> tuple[Array, Array]:
        own = [self.own.adjoint(block), np.sum(block, axis=0, keepdims=True)]
        both = self.over_rows(np.concatenate(own))
        return both[:-1, ...], both[-1, ...]

    def row_squares(self, center: Array | None = None, scale: Array | None = None) -> Array:
        return self.own.row_squares(center, scale)

    def astype(self, dtype: Any) -> WorkerDesign:
        own = self.own.astype(dtype)
        return self if own is self.own else self._with(own)

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> WorkerDesign | None:
        part = self.own.part(rows, columns)
        # all blocks must decide alike: if a part is too large to copy on one, none copies it
        if self.out_of_core and self.largest(float(part is None)):
            return None
        return None if part is None else self._with(part)

    @property
    def has_gram(self) -> bool:
        return self.own.has_gram

    def gram(self, of_rows: bool = False, dtype: Any = None, center: Array | None = None) -> Array:
        if of_rows:
            raise NotImplementedError("products of rows with rows of other blocks")
        return self.over_rows(self.own.gram(False, dtype, center))

    def column_moments(self, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations of the columns, from those of pieces of rows."""
        pieces: Iterable[Any] = [self.own]
        weights = np.ones(self.n_rows) if weights is None else weights
        own, total = [self.local(weights)], float(weights.sum())
        if isinstance(self.own, DenseDesign):
            n_pieces = min(1 + self.own.example.size // _PIECE, self.shape[0])
            pieces = (part.astype(float) for part in np.array_split(self.own.example, n_pieces))
            own = np.array_split(own[0], n_pieces)
        nothing = [0.0], np.zeros(self.shape[1]), np.zeros(self.shape[1])
        moments = [
            ([some.sum()], *column_moments(piece, some)) if some.any() else nothing
            for piece, some in zip(pieces, own, strict=True)
        ]
        counts, own_means, deviations = (np.array(values) for values in zip(*moments, strict=True))
        means = self.over_rows((counts * own_means).sum(axis=0)) / total
        gaps = np.where(counts > 0, np.hypot(deviations, own_means - means), 0.0)
        unit = self.largest(gaps.max(axis=0))
        unit = np.where(unit > 0, unit, 1)  # so that squares neither underflow nor overflow
        squares = self.over_rows((counts * (gaps / unit) ** 2).sum(axis=0))
        return means, unit * np.sqrt(squares / total)

    def _with(self, own: ScalableDesign) -> WorkerDesign:
        return WorkerDesign(own, self.communicator, self.all_y)


def _design_of(block: Any, dtype: Any) -> ScalableDesign:
    """Return the design of a validated block: dense, sparse or in a file."""
    if isinstance(block, StoredBlock):
        return block.design.astype(dtype)
    if issparse(block):
        return SparseDesign.of_checked(block).astype(dtype)
    # arrays received over a network may be unaligned, which makes products slow
    block = np.require(block, requirements=["ALIGNED"])
    return DenseDesign.of_checked(block).astype(dtype)


# Sessions


class Call(NamedTuple):
    """A function to call on a block, packed with its arguments by `CallPickler`."""

    key: int
    packed: bytes
    generators: list[np.random.Generator]
    #: The parts of arguments over rows that belong to this block.
    parts: list[np.ndarray]
    #: Keys of earlier calls whose results are no longer needed.
    released: list[int]


class Partial(NamedTuple):
    """A value of the block whose total over all blocks is needed: "sum", "largest" or "first"."""

    kind: str
    value: Array


class Done(NamedTuple):
    """The result of a call: common to all blocks, and over the rows of the block."""

    packed: bytes
    parts: list[np.ndarray]
    generators: list[np.random.Generator]
    warnings: list[tuple[str, type[Warning]]]
    #: Shapes and sums of the arrays in ``packed``, which must agree with those of other blocks.
    summaries: list[Totals]


class Failed(NamedTuple):
    """The exception raised by a call."""

    error: BaseException


class Lost(NamedTuple):
    """The state of the session was lost together with its worker, or with that of another one."""

    own_worker: bool = True


Answer = Partial | Done | Failed | Lost


class _Stopped(BaseException):
    """The session is no longer needed."""


class Session:
    """Calls on one block, made in a thread; a session that Dask copies says that it is lost."""

    def __init__(self, block: Any, index: int, bounds: Sequence[int], dtype: str):
        self._args, self._name = (block, index, bounds, dtype), f"steinpath-block-{index}"
        self._lock = threading.Lock()
        self._position = 0
        self._last: Answer = Lost()
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        self._outbox: SimpleQueue[Answer] = SimpleQueue()

    def __reduce__(self) -> tuple[Any, ...]:
        return Session, self._args

    def exchange(self, position: int, message: Any) -> Answer:
        """Return the answer to a call or a total; the same if Dask delivers a message twice."""
        with self._lock:
            if position == self._position:
                return self._last
            if position != self._position + 1:
                return Lost()
            if position == 1:
                # it must not refer to the session, so that it ends soon after the session
                args, name = (self._inbox, self._outbox, *self._args), self._name
                threading.Thread(target=_serve, args=args, name=name, daemon=True).start()
                weakref.finalize(self, self._inbox.put, None)
            self._inbox.put(message)
            self._last, self._position = self._outbox.get(), position
            return self._last


def _serve(
    inbox: SimpleQueue[Any],
    outbox: SimpleQueue[Answer],
    block: Any,
    index: int,
    bounds: Sequence[int],
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

    own = _design_of(block, np.dtype(dtype))
    communicator, kept = Communicator(index, bounds, exchange), KeptObjects()
    while (call := inbox.get()) is not None:
        try:
            # a new design for each call, since it holds the responses
            answer = _answer(call, WorkerDesign(own, communicator), kept)
        except _Stopped:
            return
        outbox.put(answer)
        del call, answer  # release memory while waiting


def _answer(call: Call, design: WorkerDesign, kept: KeptObjects) -> Answer:
    """Make a call; exceptions become answers."""
    for place in [place for place in kept if place[0] in call.released]:
        del kept[place]
    try:
        generators = deepcopy(call.generators)  # sessions of one process received the same ones
        function, args = unpack_call(call.packed, design, call.parts, generators, kept)
        with capturing_warnings() as warned:
            result = ResultPickler(function(*args), call.key, kept)
        # what is common to all blocks is sent by the first one
        packed = b"" if design.communicator.index else result.packed
        return Done(packed, result.parts, generators, warned, result.summaries)
    except _Stopped:
        raise
    except BaseException as error:
        return Failed(_portable(error.with_traceback(None)))


def _portable(error: BaseException) -> BaseException:
    """Return an error that can be unpickled in another process."""
    error.__cause__ = error.__context__ = None
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
