"""Designs larger than memory: X in a memory-mapped file that is read in blocks.

Pages of a mapped file count as memory of the process that touches them. Where possible (contiguous
by rows or by columns), a block is therefore read from the file into a buffer, and a second buffer
is filled while the first one is multiplied. Other data (some columns of a larger matrix, a map with
private changes) are copied from the map.
"""

from __future__ import annotations

import copy
import errno
import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from steinpath._support.arrays import Array
from steinpath._support.reading import check_map, map_of, pages_of, truncated_error
from steinpath._support.validation import check_array, check_shape, check_size, refuse_nonfinite
from steinpath.design._base import ScalableDesign
from steinpath.design._dense import DenseDesign

#: Fills a buffer with consecutive rows, starting at the given one.
Read = Callable[[int, np.ndarray], None]


@dataclass(frozen=True)
class BlockSizes:
    """Limits on the part of a mapped file that is in memory at a time.

    Attributes
    ----------
    block : int
        Bytes of a block. Two of them fit into a processor's cache, which makes them several times
        faster to read than large ones.
    few_rows, largest_block : int
        If rows are so long that a block has few of them, summing their products costs more than
        computing them. Blocks then have ``few_rows`` rows, up to ``largest_block`` bytes.
    largest_part : int
        Parts of X up to this many bytes are copied into memory.
    """

    block: int = 2**23
    few_rows: int = 64
    largest_block: int = 2**26
    largest_part: int = 2**28


_SIZES = BlockSizes()
# Bytes of a file that are compared with its map.
_MOST_ROWS, _MOST_BYTES = 64, 2**20


def needs_blocks(X: Any, largest: int = _SIZES.largest_block) -> bool:
    """Whether X is a `numpy.memmap`, or a view of one, that exceeds a single block.

    Parameters
    ----------
    X
        Design matrix as passed by the user.
    largest : int
        Bytes of the largest block.
    """
    plain = type(X) in (np.ndarray, np.memmap)
    return plain and X.nbytes > largest and map_of(X) is not None


class BlockDesign(ScalableDesign):
    """Memory-mapped file that is never loaded as a whole.

    Memory holds a few blocks of 8 MiB (64 MiB for very long rows), copies of parts up to 256 MiB
    for the tangents, and the path itself: ``2 · n_iter · (n + p)`` numbers.

    Parameters
    ----------
    X : numpy.memmap of shape (n, p), or a view of one
        Real and finite, in C or Fortran order (other layouts are read more slowly). float32 and
        float64 are kept, integers become float64 as they are read. The file must not change while
        the design is used: if it was replaced or modified, products raise an `OSError`.
    any_size : bool, default=False
        Whether entries may have any magnitude, because a `ScaledDesign` rescales them.
    sizes : BlockSizes, optional
        Sizes of the blocks and of the parts that are copied.

    Notes
    -----
    `matmat` reads the file forwards and `rmatmat` backwards, so that each finds the blocks that the
    other read last in the cache of the operating system.
    """

    out_of_core = True

    def __init__(self, X: np.ndarray, any_size: bool = False, sizes: BlockSizes = _SIZES):
        self._open(X, sizes)
        self._check_entries(any_size)

    @classmethod
    def of_checked(cls, X: np.ndarray, sizes: BlockSizes = _SIZES) -> BlockDesign:
        """Return a design of entries that were checked before or will be checked later."""
        design = cls.__new__(cls)
        design._open(X, sizes)
        return design

    def _open(self, X: np.ndarray, sizes: BlockSizes) -> None:
        check_shape("X", X.shape, ndim=2)
        dtype = check_array("X", np.zeros((1, 1), X.dtype), ndim=2).dtype
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self.example = np.zeros(1, dtype)
        self._sizes = sizes
        # X or its transpose, whichever has contiguous rows
        self._by_rows = _has_rows_in_one_piece(X)
        self._stored = _stored(X if self._by_rows else X.T)

    def matmat(self, block: Array) -> Array:
        return self._of_each(block) if self._by_rows else self._of_all(block)

    def rmatmat(self, block: Array) -> Array:
        return self._of_all(block, True) if self._by_rows else self._of_each(block, True)

    def row_squares(self, center: Array | None = None, scale: Array | None = None) -> Array:
        squares = np.zeros(self.shape[0], self.example.dtype)
        for piece, block in self.blocks():
            # in place: the block is a buffer that is not needed any more
            if center is not None:
                block -= self._of_columns(center, piece)
            if scale is not None:
                block /= self._of_columns(scale, piece)
            np.square(block, out=block)
            if self._by_rows:
                squares[piece] = block.sum(axis=1)
            else:
                squares += block.sum(axis=0)
        return squares

    def column_moments(self, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances of the columns in double precision.

        Parameters
        ----------
        weights : ndarray of shape (n,), optional
            Weight of each row.
        """
        n, p = self.shape
        weights = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
        weights = weights / weights.sum()
        means = self.rmatmat(weights)
        first, second = (
            np.zeros(p),
            np.zeros(p),
        )  # moments of the residuals from the preliminary means
        for piece, block in self.blocks():
            block -= self._of_columns(means, piece).astype(block.dtype)
            if self._by_rows:
                first += weights[piece] @ block
                second += weights[piece] @ np.square(block, out=block)
            else:
                first[piece] = block @ weights
                second[piece] = np.square(block, out=block) @ weights
        # a constant column leaves only the rounding error of its mean; this makes its variance zero
        return means + first, np.maximum(second - first**2, 0.0)

    def astype(self, dtype: Any) -> BlockDesign:
        """Return a design that converts each block as it is read."""
        if dtype == self.example.dtype:
            return self
        design = copy.copy(self)
        design.example = np.zeros(1, dtype)
        return design

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> DenseDesign | None:
        kept = zip((rows, columns), self.shape, strict=True)
        wanted = [np.arange(size) if which is None else which for which, size in kept]
        if len(wanted[0]) * len(wanted[1]) * self.example.itemsize > self._sizes.largest_part:
            return None
        along, across = wanted if self._by_rows else wanted[::-1]
        values = np.empty((len(along), len(across)), self.example.dtype)
        for piece, block in self.blocks():
            low, high = np.searchsorted(along, (piece.start, piece.stop))
            values[low:high] = block[np.ix_(along[low:high] - piece.start, across)]
        return DenseDesign.of_checked(values if self._by_rows else values.T)

    def gram(self, of_rows: bool = False, dtype: Any = None, center: Array | None = None) -> Array:
        """Return ``Xᵀ X``, in one pass if X is in C order.

        `has_gram` is False: for paths, products with X are cheaper.
        """
        if of_rows:
            raise NotImplementedError("products between rows would need many passes over the file")
        design = self if dtype is None else self.astype(np.dtype(dtype))
        shift = design.zeros(self.shape[1])
        if center is not None:
            shift = shift + np.asarray(center, shift.dtype)
        total = design.zeros(self.shape[1], self.shape[1])
        for piece, block in design.blocks():
            block -= self._of_columns(shift, piece)
            if self._by_rows:
                total += block.T @ block
            else:
                columns = block.T.copy()  # the products below reuse the buffer
                total[:, piece] = design.rmatmat(columns) - np.outer(shift, columns.sum(axis=0))
        return total

    def _of_columns(self, values: np.ndarray, piece: slice) -> np.ndarray:
        """Return one value per column, shaped to broadcast over a block."""
        return values if self._by_rows else values[piece, None]

    def _of_each(self, block: np.ndarray, backward: bool = False) -> np.ndarray:
        """Multiply the stored matrix with a vector or a block."""
        dtype = np.result_type(self.example, block)
        result = np.empty((self._stored.shape[0], *block.shape[1:]), dtype)
        for piece, stored in self.blocks(backward):
            result[piece] = stored @ block
        return result

    def _of_all(self, block: np.ndarray, backward: bool = False) -> np.ndarray:
        """Multiply the transpose of the stored matrix with a vector or a block."""
        dtype = np.result_type(self.example, block)
        total = np.zeros((self._stored.shape[1], *block.shape[1:]), dtype)
        for piece, stored in self.blocks(backward):
            total += stored.T @ block[piece]
        return total

    def blocks(self, backward: bool = False) -> Iterator[tuple[slice, np.ndarray]]:
        """Iterate over the stored matrix, some rows at a time, in reused buffers.

        Yields
        ------
        piece : slice
            The rows of the block.
        block : ndarray
            Their entries in the design's precision, valid until the next block is read.
        """
        (length, width), dtype = self._stored.shape, self.example.dtype
        row = width * max(dtype.itemsize, self._stored.dtype.itemsize)
        sizes = self._sizes
        few = min(sizes.few_rows, sizes.largest_block // row)
        rows = min(length, max(sizes.block // row, few, 1))
        pieces = [slice(i, min(i + rows, length)) for i in range(0, length, rows)]
        if backward:
            pieces.reverse()
        buffers = np.empty((2, rows, width), dtype)
        with self._stored.reading() as read, ThreadPoolExecutor(1) as background:
            read = _converted(read, self._stored.dtype, dtype)

            def ahead(k: int) -> Any:
                block = buffers[k % 2, : pieces[k].stop - pieces[k].start]
                return background.submit(read, pieces[k].start, block), block

            coming = ahead(0)
            for k, piece in enumerate(pieces):
                arrived, block = coming
                arrived.result()
                if k + 1 < len(pieces):
                    coming = ahead(k + 1)
                yield piece, block

    def _check_entries(self, any_size: bool) -> None:
        """Apply the checks of `check_array` and `check_magnitude` block by block."""
        bad, size = 0, 0.0
        with np.errstate(invalid="ignore", over="ignore"):
            for _, block in self.blocks():
                largest = max(float(block.max()), -float(block.min()))
                if np.isfinite(largest):
                    size = max(size, largest)
                else:
                    bad += block.size - int(np.count_nonzero(np.isfinite(block)))
        refuse_nonfinite("X", bad)
        if not any_size:
            check_size("X", size, self.example.dtype, self.shape)


# ------------------------------------------------------------------------------------------------
# Sources of the blocks
# ------------------------------------------------------------------------------------------------


class _Stored(ABC):
    """Matrix in a mapped file, of which consecutive rows can be read.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        Matrix.
    root : memmap
        Memory map that X is a view of.
    """

    def __init__(self, X: np.ndarray, root: np.memmap[Any, Any]):
        self.shape, self.dtype = (int(X.shape[0]), int(X.shape[1])), X.dtype
        self.name = os.fspath(root.filename or "")
        # writing to a shared map changes the modification time of its file
        self._read_only = root.mode in ("r", "c")
        self._version: tuple[int, ...] = (0, 0, 0)  # no file
        with suppress(OSError):
            file = os.stat(self.name)
            if file.st_size == pages_of(root).size():  # otherwise the file was replaced
                self._version = self._version_of(file)

    @abstractmethod
    def reading(self) -> AbstractContextManager[Read]:
        """Open the matrix for reading within a context."""

    def _version_of(self, file: os.stat_result) -> tuple[int, ...]:
        """Return values that identify a file and its version."""
        return file.st_ino, file.st_size, file.st_mtime_ns if self._read_only else 0

    def _check(self, file: os.stat_result) -> None:
        """Refuse a file that has changed."""
        number, size, _ = self._version
        if file.st_ino == number and file.st_size < size:
            raise truncated_error("X", self.name)
        if self._version_of(file) != self._version:
            raise OSError(errno.ESTALE, "the file was replaced or modified after it was mapped")

    @contextmanager
    def _errors_explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message = (
                f"X can no longer be read ({error.strerror}); its file must not change while the "
                "path and its risk are computed"
            )
            raise OSError(error.errno, message, self.name) from error


class _File(_Stored):
    """Contiguous rows of a file."""

    def __init__(self, X: np.ndarray, root: np.memmap[Any, Any]):
        super().__init__(X, root)
        # slices of a map have the offset of the map, not their own
        self._offset = root.offset + X.ctypes.data - root.ctypes.data

    @contextmanager
    def reading(self) -> Iterator[Read]:
        with self._errors_explained(), open(self.name, "rb", buffering=0) as file:

            def read(first: int, rows: np.ndarray) -> None:
                rest = rows.reshape(-1).view(np.uint8).data
                file.seek(self._offset + first * self.shape[1] * self.dtype.itemsize)
                while rest and (count := file.readinto(rest)):
                    rest = rest[count:]
                if rest:
                    raise truncated_error("X", self.name)

            self._check(os.fstat(file.fileno()))
            yield read
            self._check(os.fstat(file.fileno()))


class _Map(_Stored):
    """Rows copied from the pages of a map; no page stays in memory."""

    def __init__(self, X: np.ndarray, root: np.memmap[Any, Any]):
        super().__init__(X, root)
        self._X, self._root = X, root

    @property
    def _is_mapped(self) -> bool:
        """Whether this is still the map, and not an unpickled copy in memory."""
        return isinstance(pages_of(self._root), mmap.mmap)

    def _check_file(self) -> None:
        """Refuse a modified file. If it was replaced, the map still shows the old one."""
        try:
            file = os.stat(self.name)
        except OSError:
            return
        if self._is_mapped and file.st_ino == self._version[0]:
            self._check(file)

    @contextmanager
    def reading(self) -> Iterator[Read]:
        pages = pages_of(self._root)
        # private pages may hold changes that exist nowhere else
        shared = self._is_mapped and self._root.mode != "c"
        droppable = shared and hasattr(mmap, "MADV_DONTNEED")

        def read(first: int, rows: np.ndarray) -> None:
            check_map("X", self._X)
            rows[...] = self._X[first : first + len(rows)]
            if droppable:
                pages.madvise(mmap.MADV_DONTNEED)

        with self._errors_explained():
            self._check_file()
            yield read
            self._check_file()


def _stored(X: np.ndarray) -> _Stored:
    """Return the rows of X from their file if possible, else from the map."""
    root = map_of(X)
    assert root is not None
    if root.filename is None or root.mode == "c" or not X.flags.c_contiguous:
        return _Map(X, root)
    file, pages = _File(X, root), _Map(X, root)
    return file if _are_same(file, pages) else pages


def _are_same(file: _File, pages: _Map) -> bool:
    """Whether a file is still the mapped one, judged by its size and some of its rows."""
    length, width = file.shape
    few = max(2, min(_MOST_ROWS, _MOST_BYTES // (width * file.dtype.itemsize)))
    ours, theirs = np.empty((2, 1, width), file.dtype)
    try:
        with file.reading() as read, pages.reading() as copied:
            for i in np.unique(np.linspace(0, length - 1, few).astype(int)):
                read(i, ours)
                copied(i, theirs)
                if ours.tobytes() != theirs.tobytes():
                    return False
    except (OSError, EOFError):  # the file was deleted or truncated
        return False
    return True


def _has_rows_in_one_piece(X: np.ndarray) -> bool:
    if X.flags.c_contiguous or X.flags.f_contiguous:
        return bool(X.flags.c_contiguous)
    return abs(X.strides[0]) >= abs(X.strides[1])


def _converted(read: Read, dtype: np.dtype[Any], wanted: np.dtype[Any]) -> Read:
    """Return a reader that converts entries to another type."""
    if dtype == wanted:
        return read
    raw = np.empty(0, dtype)

    def read_and_convert(first: int, rows: np.ndarray) -> None:
        nonlocal raw
        if raw.shape != rows.shape:
            raw = np.empty(rows.shape, dtype)
        read(first, raw)
        with np.errstate(over="ignore"):  # overflow is detected in the products
            np.copyto(rows, raw, casting="same_kind")

    return read_and_convert
