"""Primal–dual and proximal gradient algorithms as pairs of maps that never see X."""

from steinpath.algorithms._base import Algorithm, DualMap, PrimalDual, ProximalAlgorithm, before

__all__ = ["Algorithm", "DualMap", "PrimalDual", "ProximalAlgorithm", "before"]
