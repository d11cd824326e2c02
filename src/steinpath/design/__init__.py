"""The design matrix X behind two products: dense, sparse, memory-mapped, centred, scaled."""

from steinpath.design import _memmap  # registers its reader
from steinpath.design._designs import Design

__all__ = ["Design", "_memmap"]
