"""Log of the messages sent to all blocks, in memory and, if long, in a file."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

import numpy as np

# Maximum bytes of totals kept in memory, and bytes per message of a replay.
_IN_MEMORY, _AT_A_TIME = 2**28, 2**26


class _Stored(NamedTuple):
    """A total stored in the file."""

    start: int
    size: int


class Log:
    """Messages sent to all blocks, by round.

    Most messages are totals common to all blocks. Beyond a quarter of a gigabyte they are written
    to a temporary file, which is read only if a worker is lost.
    """

    def __init__(self) -> None:
        self._rounds: list[Sequence[Any] | _Stored] = []
        self._kept = 0  # bytes in memory
        self._file: IO[bytes] | None = None

    def __len__(self) -> int:
        return len(self._rounds)

    def append(self, messages: Sequence[Any]) -> None:
        """Add a round, with one message per block."""
        size = _size(messages)
        if size and self._kept + size > _IN_MEMORY:
            self._rounds.append(self._store(messages[0]))
        else:
            self._kept += size
            self._rounds.append(messages)

    def cut(self, length: int) -> None:
        """Drop all rounds after the first ones."""
        gone = self._rounds[length:]
        del self._rounds[length:]
        self._kept -= sum(0 if isinstance(each, _Stored) else _size(each) for each in gone)
        first = next((each.start for each in gone if isinstance(each, _Stored)), None)
        if first is not None and self._file is not None:
            self._file.truncate(first)

    def portions(self) -> Iterator[list[Sequence[Any]]]:
        """Yield all rounds in order, grouped into messages of limited size."""
        portion, size = list[Sequence[Any]](), 0
        for each in self._rounds:
            own = each.size if isinstance(each, _Stored) else _size(each)
            if portion and size + own > _AT_A_TIME:
                yield portion
                portion, size = [], 0
            size += own
            portion.append(_ForAll(self._read(each)) if isinstance(each, _Stored) else each)
        yield portion

    def _store(self, total: np.ndarray) -> _Stored:
        if self._file is None:
            self._file = file = TemporaryFile()  # noqa: SIM115 (closed with the log)
            weakref.finalize(self, file.close)
        start = self._file.seek(0, 2)
        np.lib.format.write_array(self._file, total, allow_pickle=False)
        return _Stored(start, total.nbytes)

    def _read(self, stored: _Stored) -> np.ndarray:
        assert self._file is not None
        self._file.flush()
        self._file.seek(stored.start)
        return np.asarray(np.lib.format.read_array(self._file, allow_pickle=False))


class _ForAll(Sequence[Any]):
    """The same message for all blocks."""

    def __init__(self, message: Any):
        self._message = message

    def __getitem__(self, k: Any) -> Any:
        return self._message

    def __len__(self) -> int:
        return 1


def _size(messages: Sequence[Any]) -> int:
    """Return the size in bytes of a total common to all blocks; 0 for other messages."""
    first = messages[0]
    return int(first.nbytes) if isinstance(first, np.ndarray) else 0
