"""The design matrix X behind two products: dense, sparse, memory-mapped, centred, scaled."""

from steinpath.design._base import Design

__all__ = ["Design"]
