"""Blocks of rows in files, which the workers read in pieces."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from scipy.sparse import issparse

from steinpath._support.validation import check_array, check_size, refuse_nonfinite
from steinpath.cluster._blocks import Facts, checked, checksum, unreadable
from steinpath.design._memmap import BlockDesign, BlockSizes, map_of


class StoredBlock:
    """A dense block of rows in a file, with a few pieces in memory at a time.

    Created by `stored` or `stored_value`. If Dask moves it to another worker, it is recreated
    there.

    Parameters
    ----------
    rows : memmap of shape (n, p)
        Validated rows.
    facts : Facts
        Properties of the block.
    name : str
        Name of the block in messages.
    largest_part : int
        Maximum bytes of rows and columns copied into memory.
    scratch : str or None
        File to remove with the block, if any.
    again : tuple, optional
        Function that recreates the block, and its arguments; by default from all its rows.
    """

    def __init__(
        self,
        rows: np.ndarray,
        facts: Facts,
        name: str,
        largest_part: int,
        scratch: str | None,
        again: tuple[Any, ...] | None = None,
    ):
        self.rows, self.facts = rows, facts
        self.design = BlockDesign.of_checked(rows, BlockSizes(largest_part=largest_part))
        self._name, self._largest_part, self._again = name, largest_part, again
        if scratch is not None:
            weakref.finalize(self, _remove, scratch)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._again is not None:
            return self._again
        return stored_value, (np.array(self.rows), self._name, self._largest_part)


def stored(loader: Callable[[], Any], name: str, largest_part: int) -> Any:
    """Load a block into a file of this worker in pieces, and validate it.

    Parameters
    ----------
    loader : callable
        Returns an array, a memory map (whose file is used directly), or an iterator over arrays of
        successive rows. Sparse blocks stay in memory.
    name : str
        Name of the block in messages.
    largest_part : int
        See `StoredBlock`.
    """
    again = stored, (loader, name, largest_part)
    try:
        found = loader()
    except Exception as error:
        raise unreadable(name, error) from error
    if isinstance(found, Iterator):
        return _written(_told(found, name), name, largest_part, again)
    if map_of(found) is not None and found.size:
        entries = _Entries()
        design = BlockDesign.of_checked(found)
        for _, piece in design.blocks():
            entries.add(piece)
        facts = entries.facts(design.shape, design.example.dtype, name)
        return StoredBlock(found, facts, name, largest_part, None, again)
    return _of_array(found, name, largest_part, again)


def stored_value(block: Any, name: str, largest_part: int) -> Any:
    """Write a block in memory to a file of this worker, and validate it."""
    return _of_array(block, name, largest_part, None)


def _of_array(block: Any, name: str, largest_part: int, again: tuple[Any, ...] | None) -> Any:
    block = checked(block, name)
    if issparse(block) or not block.size:
        return block
    return _written([block], name, largest_part, again)


def _told(pieces: Iterator[Any], name: str) -> Iterator[np.ndarray]:
    """Yield pieces as arrays of real numbers; errors name the block."""
    while True:
        try:
            piece = next(pieces)
        except StopIteration:
            return
        except Exception as error:
            raise unreadable(name, error) from error
        dtype = check_array("X", np.zeros((1, 1), piece.dtype), ndim=2).dtype
        yield np.ascontiguousarray(piece, dtype)


def _written(
    pieces: Iterable[np.ndarray], name: str, largest_part: int, again: tuple[Any, ...] | None
) -> Any:
    """Write successive pieces to a new file."""
    entries, rows, columns, dtype = _Entries(), 0, 0, np.dtype(float)
    number, path = tempfile.mkstemp(prefix="steinpath-", suffix=".rows", dir=_folder())
    try:
        with open(number, "wb") as file:
            for piece in pieces:
                entries.add(piece)
                try:
                    file.write(np.ascontiguousarray(piece).data)
                except OSError as error:
                    raise OSError(
                        error.errno,
                        f"{name} could not be written to the scratch folder of its worker "
                        f"({error.strerror}); start workers with a local_directory with enough "
                        "free space",
                        path,
                    ) from error
                rows, columns, dtype = rows + len(piece), piece.shape[1], piece.dtype
        if not rows:
            _remove(path)
            return np.zeros((0, columns))
        facts = entries.facts((rows, columns), dtype, name)
        found = np.memmap(path, dtype, "r", shape=(rows, columns))
    except BaseException:
        _remove(path)
        raise
    return StoredBlock(found, facts, name, largest_part, path, again)


class _Entries:
    """Properties of a block, accumulated over its pieces."""

    def __init__(self) -> None:
        self._checksum, self._bad, self._largest = 0, 0, 0.0

    def add(self, piece: np.ndarray) -> None:
        """Add a piece."""
        self._checksum = checksum([piece], self._checksum)
        with np.errstate(invalid="ignore"):
            largest = max(float(piece.max()), -float(piece.min())) if piece.size else 0.0
        if np.isfinite(largest):
            self._largest = max(self._largest, largest)
        else:
            self._bad += piece.size - int(np.count_nonzero(np.isfinite(piece)))

    def facts(self, shape: tuple[int, int], dtype: Any, name: str) -> Facts:
        """Return the properties of a dense block; reject invalid entries as `checked` does."""
        try:
            refuse_nonfinite("X", self._bad)
            check_size("X", self._largest, dtype, shape)
        except ValueError as error:
            raise type(error)(f"{name}: {error}") from None
        return Facts(*shape, str(dtype), False, self._checksum)


def _folder() -> str | None:
    """Return the scratch folder of this worker, which is removed when it ends."""
    from distributed import get_worker

    try:
        return str(get_worker().local_directory)
    except ValueError:  # not on a worker
        return None


def _remove(path: str) -> None:
    with suppress(OSError):  # the worker may have removed its folder
        os.unlink(path)
