"""Primal–dual and proximal gradient algorithms as pairs of maps that never see X."""

from steinpath.algorithms._family import DualMap, ProximalAlgorithm
from steinpath.algorithms._recursion import Algorithm

__all__ = ["Algorithm", "DualMap", "ProximalAlgorithm"]
