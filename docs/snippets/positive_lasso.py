"""A lasso with nonnegative coefficients: an asymmetric penalty, derived from the base class."""

from dataclasses import dataclass

import numpy as np

from steinpath.problem import Diagonal, Penalty


@dataclass(frozen=True, eq=False)
class PositiveLasso(Penalty):
    """``lam * Σ b_j`` if all ``b_j >= 0``, otherwise infinite."""

    lam: float

    name = "positive_lasso"

    def value(self, b):
        return np.where(np.all(b >= 0, axis=0), self.lam * np.sum(b, axis=0), np.inf)

    def prox(self, b, step):
        return np.maximum(b - step * self.lam, 0)

    def jacobian(self, b, step):
        return Diagonal((b > step * self.lam).astype(b.dtype))

    def null_lam(self, gradient):
        return max(float(np.max(gradient)), 0.0)
