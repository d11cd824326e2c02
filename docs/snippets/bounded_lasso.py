"""A lasso whose coefficients stay within bounds: a separable penalty, by its pieces."""

from dataclasses import dataclass

from steinpath.problem import SeparablePenalty


@dataclass(frozen=True, eq=False, repr=False)
class BoundedLasso(SeparablePenalty):
    """``lam * Σ w_j |b_j|`` where all ``|b_j| <= bound``; no proximal map leads elsewhere."""

    bound: float = 1.0

    name = "bounded_lasso"

    def cost(self, size, lam):
        return lam * size

    def pieces(self, lam, step):
        # zero up to step * lam, slope 1 until the bound is reached, flat from there
        return [(step * lam, 1.0), (step * lam + self.bound, 0.0)]
