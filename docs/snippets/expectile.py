"""The asymmetric squared loss of expectile regression: a separable loss in three methods."""

from dataclasses import dataclass

import numpy as np

from steinpath.problem import ParameterSpec, SeparableLoss


@dataclass(frozen=True)
class Expectile(SeparableLoss):
    """``rho(r) = w(r) r² / 2`` with ``w(r) = 2 q`` for ``r > 0`` and ``2 (1 - q)`` elsewhere."""

    q: float = 0.5

    name = "expectile"
    parameter_spec = ParameterSpec("q", 0.5, low=0, high=1, open_low=True, open_high=True)
    test_loss = "squared"
    smoothness = 2.0  # no larger than this for any q

    def _weight(self, r):
        return np.where(r > 0, 2 * self.q, 2 * (1 - self.q))

    def rho(self, r):
        return self._weight(r) * r**2 / 2

    def score(self, r, s):
        return self._weight(r) * r / (1 + s * self._weight(r))

    def slope(self, r, s):
        return self._weight(r) / (1 + s * self._weight(r))

    def rho_conjugate(self, w):
        return w**2 / (2 * self._weight(w))
