"""A lasso with bounded coefficients: a separable penalty, defined by knots and slopes."""

from dataclasses import dataclass

from steinpath.problem import SeparablePenalty


@dataclass(frozen=True, eq=False, repr=False)
class BoundedLasso(SeparablePenalty):
    """``lam * Σ w_j |b_j|`` subject to ``|b_j| <= bound``, which its proximal map enforces."""

    bound: float = 1.0

    name = "bounded_lasso"

    def cost(self, size, lam):
        return lam * size

    def pieces(self, lam, step):
        # zero up to step * lam, slope 1 until the bound is reached, flat beyond
        return [(step * lam, 1.0), (step * lam + self.bound, 0.0)]
