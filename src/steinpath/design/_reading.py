"""Conversion of user input to designs and responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scipy.sparse import issparse

from steinpath._support.arrays import Array, copied, in_own_precision
from steinpath._support.validation import check_array
from steinpath.design._base import Design
from steinpath.design._dense import DenseDesign
from steinpath.design._memmap import BlockDesign, needs_blocks
from steinpath.design._sparse import SparseDesign

#: Converts a recognised type of X to a design; returns None for other types.
Reader = Callable[[Any], Design | None]

_readers: list[Reader] = []


def reads_designs(reader: Reader) -> Reader:
    """Register a converter for a type of X that is defined in another module."""
    _readers.append(reader)
    return reader


def as_design(X: Any) -> Design:
    """Return a design from the X passed by the user."""
    if isinstance(X, Design):
        return X
    if issparse(X):
        return SparseDesign(X)
    if needs_blocks(X):
        return BlockDesign(X)
    for reader in _readers:
        design = reader(X)
        if design is not None:
            return design
    return DenseDesign(X)


def check_response(y: Any, design: Design) -> Array:
    """Return ``y`` as an array like the design, one entry per row, in its own precision."""
    checked = check_array("y", y, ndim=1, reference=in_own_precision(y, design.example))
    if checked.shape[0] != design.n_rows:
        raise ValueError(f"X has {design.n_rows} rows, but y has {checked.shape[0]} entries")
    return copied(checked)
