"""The Arrow–Hurwicz algorithm with damped steps: a primal–dual algorithm in ten lines."""

from dataclasses import dataclass

from steinpath.algorithms import PrimalDual


@dataclass(frozen=True)
class DampedArrowHurwicz(PrimalDual):
    """Both steps are damped, and the dual step uses the latest residual only."""

    sigma: float | None = None
    tau: float | None = None
    damping: float = 0.5

    def dual(self, prox, t, u, v):
        step = prox(u[-1] - self.sigma * v[-1])
        return u[-1] + self.damping * (step - u[-1])

    def primal(self, prox, t, b, eta):
        step = prox(b[-1] - self.tau * eta[-1])
        return b[-1] + self.damping * (step - b[-1])
