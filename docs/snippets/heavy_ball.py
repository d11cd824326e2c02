"""Proximal gradient with constant momentum: a variant of an existing algorithm."""

from dataclasses import dataclass, replace

import steinpath as sp
from steinpath.algorithms import before


@dataclass(frozen=True)
class HeavyBall(sp.ProximalGradient):
    """Proximal gradient with Polyak's momentum; safe for steps below ``2 (1 - momentum)``."""

    momentum: float = 0.7

    def primal(self, prox, t, b, eta):
        return prox(b[-1] + self.momentum * (b[-1] - before(b)) - self.step * eta[-1])

    def resolve(self, design, y, loss, penalty):
        found = super().resolve(design, y, loss, penalty)
        return self if self.step else replace(found, step=found.step * (1 - self.momentum))

    def stability(self, design, loss):
        formula, value, _ = super().stability(design, loss)
        return formula, value, 2 * (1 - self.momentum)
