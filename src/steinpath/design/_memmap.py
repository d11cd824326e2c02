"""Designs larger than memory: X in a memory-mapped file that is read in blocks.

A block is copied into a buffer while another one is multiplied. Its pages, which count as memory of
the process, are then released.
"""

from __future__ import annotations

import copy
import mmap
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from steinpath._support.arrays import Array
from steinpath._support.validation import (
    check_array,
    check_map,
    check_shape,
    check_size,
    map_of,
    refuse_nonfinite,
)
from steinpath.design._base import ScalableDesign
from steinpath.design._dense import DenseDesign


@dataclass(frozen=True)
class BlockSizes:
    """Limits on the part of a mapped file that is in memory at a time, in bytes and rows.

    Two blocks fit into a processor's cache. Very long rows are read ``few_rows`` at a time.
    """

    block: int = 2**23
    few_rows: int = 64
    largest_block: int = 2**26
    largest_part: int = 2**28


_SIZES = BlockSizes()


def needs_blocks(X: Any, largest: int = _SIZES.largest_block) -> bool:
    """Whether X is a `numpy.memmap`, or a view of one, of more than ``largest`` bytes."""
    plain = type(X) in (np.ndarray, np.memmap)
    return plain and X.nbytes > largest and map_of(X) is not None


class BlockDesign(ScalableDesign):
    """Memory-mapped file, or a view of one, that is never loaded as a whole and must not change.

    `matmat` reads it forwards and `rmatmat` backwards, so that each finds the last blocks of the
    other in the cache of the operating system. With ``any_size`` a `ScaledDesign` rescales entries.
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
        check_map("X", X)
        dtype = check_array("X", np.zeros((1, 1), X.dtype), ndim=2).dtype
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self.example = np.zeros(1, dtype)
        self._sizes = sizes
        # X or its transpose, whichever has contiguous rows
        contiguous = X.flags.c_contiguous or X.flags.f_contiguous
        slower, faster = np.abs(X.strides)
        self._by_rows = bool(X.flags.c_contiguous if contiguous else slower >= faster)
        self._matrix = X if self._by_rows else X.T

    def __getstate__(self) -> dict[str, Any]:
        """Return the position of X in its file, unless it is only in memory."""
        X, root, state = self._matrix, map_of(self._matrix), self.__dict__.copy()
        if root is not None and root.filename is not None and root.mode != "c":
            # slices of a map have the offset of the map, not their own
            offset = root.offset + X.ctypes.data - root.ctypes.data
            state["_matrix"] = os.fspath(root.filename), X.shape, X.dtype, offset, X.strides
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(state["_matrix"], tuple):
            file, shape, dtype, offset, strides = state["_matrix"]
            pages = np.memmap(file, np.uint8, "r")
            state["_matrix"] = np.ndarray(shape, dtype, pages, offset, strides)
        self.__dict__.update(state)

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
        """Return means and standard deviations of the columns, in double precision."""
        n, p = self.shape
        weights = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
        weights = weights / weights.sum()
        means = self.rmatmat(weights)
        # moments of the residuals from the preliminary means
        first, second = np.zeros(p), np.zeros(p)
        for piece, block in self.blocks():
            block -= self._of_columns(means, piece).astype(block.dtype)
            if self._by_rows:
                first += weights[piece] @ block
                second += weights[piece] @ np.square(block, out=block)
            else:
                first[piece] = block @ weights
                second[piece] = np.square(block, out=block) @ weights
        # a constant column leaves only the rounding error of its mean; this makes its variance zero
        return means + first, np.sqrt(np.maximum(second - first**2, 0.0))

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
        # `has_gram` is False, since products with X are cheaper for paths
        if of_rows:
            raise NotImplementedError("products between rows would need many passes over the file")
        design = self if dtype is None else self.astype(np.dtype(dtype))
        shift = design.array(np.zeros(self.shape[1]) if center is None else center)
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
        result = np.empty((self._matrix.shape[0], *block.shape[1:]), dtype)
        for piece, rows in self.blocks(backward):
            result[piece] = rows @ block
        return result

    def _of_all(self, block: np.ndarray, backward: bool = False) -> np.ndarray:
        """Multiply the transpose of the stored matrix with a vector or a block."""
        dtype = np.result_type(self.example, block)
        total = np.zeros((self._matrix.shape[1], *block.shape[1:]), dtype)
        for piece, rows in self.blocks(backward):
            total += rows.T @ block[piece]
        return total

    def blocks(self, backward: bool = False) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield slices of rows of the stored matrix, and entries valid until the next block."""
        matrix, dtype, sizes = self._matrix, self.example.dtype, self._sizes
        length, width = matrix.shape
        row = width * max(dtype.itemsize, matrix.dtype.itemsize)
        few = min(sizes.few_rows, sizes.largest_block // row)
        rows = min(length, max(sizes.block // row, few, 1))
        pieces = [slice(i, min(i + rows, length)) for i in range(0, length, rows)]
        pieces = pieces[::-1] if backward else pieces
        buffers = np.empty((2, rows, width), dtype)
        root = map_of(matrix)
        # private pages may hold changes that exist nowhere else
        release = root is not None and root.mode != "c" and hasattr(mmap, "MADV_DONTNEED")

        def read(piece: slice, block: np.ndarray) -> None:
            if release:
                _read_ahead(root, matrix[piece])
            with np.errstate(over="ignore"):  # overflow is detected in the products
                np.copyto(block, matrix[piece], casting="same_kind")
            if release:
                root.base.madvise(mmap.MADV_DONTNEED)

        with ThreadPoolExecutor(1) as background:

            def ahead(k: int) -> Any:
                block = buffers[k % 2, : pieces[k].stop - pieces[k].start]
                return background.submit(read, pieces[k], block), block

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


def _read_ahead(root: Any, view: np.ndarray) -> None:
    """Read the pages of a view at once, instead of one after another as they are touched."""
    low, high = np.lib.array_utils.byte_bounds(view)
    first = root.ctypes.data - root.offset % mmap.ALLOCATIONGRANULARITY
    start = (low - first) // mmap.PAGESIZE * mmap.PAGESIZE
    root.base.madvise(mmap.MADV_WILLNEED, start, high - first - start)
