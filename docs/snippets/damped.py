"""A primal–dual algorithm in full: Arrow and Hurwicz's, each step damped."""

import math
from dataclasses import dataclass

from steinpath.algorithms import DualMap, ProximalAlgorithm


@dataclass(frozen=True)
class DampedArrowHurwicz(ProximalAlgorithm):
    """Both steps go only a part of the way, and the dual one looks at the last residual alone."""

    sigma: float
    tau: float
    damping: float = 0.5

    def dual(self, prox, t, u, v):
        step = prox(u[-1] - self.sigma * v[-1])
        return u[-1] + self.damping * (step - u[-1])

    def primal(self, prox, t, b, eta):
        step = prox(b[-1] - self.tau * eta[-1])
        return b[-1] + self.damping * (step - b[-1])

    def dual_map(self, loss, n):
        delta = self.sigma / math.sqrt(n)  # of the loss's conjugate, by Moreau
        return DualMap(loss, step=1 / delta, factor=1 / delta)

    def prox_step(self, n):
        return self.tau / math.sqrt(n)

    def resolve(self, design, y, loss, penalty):
        return self  # both step sizes are the user's

    def stability(self, design, loss):
        value = self.sigma * self.tau * design.norm(tol=1e-3) ** 2 / design.n_rows
        return "sigma * tau * ‖X‖² / n", value, 1.0
