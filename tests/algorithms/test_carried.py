"""An algorithm of the user's own whose updates carry a state: Halpern's, as in the guide."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import steinpath as sp
from problems import draw
from steinpath.algorithms import PrimalDual


@dataclass(frozen=True)
class Halpern(PrimalDual):
    """Chambolle–Pock, each step reflected and averaged with the start (Lu and Yang, 2024)."""

    sigma: Any = None
    tau: Any = None

    carries = True

    def dual(self, prox, t, u, v):
        # the anchored dual, the residual of the anchored coefficients, and that of the start
        z, r, start = u.carried or (0 * u[-1], v[-1], v[-1])
        new, weight = prox(z - self.sigma * (2 * v[-1] - r)), t / (t + 1)
        r = weight * (2 * v[-1] - r) + (1 - weight) * start
        u.carried = weight * (2 * new - z), r, start
        return new

    def primal(self, prox, t, b, eta):
        # the anchored coefficients, and the gradient of the anchored dual
        (z, g), weight = b.carried or (0 * b[-1], 0 * eta[-1]), t / (t + 1)
        z, g = b.carried = weight * (2 * b[-1] - z), weight * (2 * eta[-1] - g)
        return prox(z - self.tau * g)


#: The same, as it comes with the package.
OURS = sp.HalpernPDHG(0.4, 0.5, restart=None, warmup=0)
OWN = Halpern(0.4, 0.5)

PROBLEMS = pytest.mark.parametrize(
    ("loss", "penalty"),
    [
        (sp.LAD(), sp.Lasso(0.05)),
        (sp.SquareRoot(), sp.Lasso(0.05)),
        (sp.Huber(0.8), sp.Ridge(0.05)),
        (sp.Squared(), sp.Ridge(0.05)),
    ],
    ids=["lad-lasso", "sqrt-lasso", "huber-ridge", "squared-ridge"],
)
INTERCEPT = pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])


@PROBLEMS
@INTERCEPT
def test_iterates_matrices_and_risks_are_those_of_ours(loss, penalty, intercept):
    X, y, model = draw(24, 7)
    found, expected = (
        sp.run(X, y, loss, penalty, algorithm, 12, intercept) for algorithm in (OWN, OURS)
    )
    assert np.abs(found.coef[-1]).max() > 0.1
    for name in ("coef", "dual", "fitted"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-13)
    both = (sp.correction_matrices(path, model.covariance) for path in (found, expected))
    for mine, other in zip(*both, strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-10)
    methods = ["exact", "compressed", "hutchinson", "loo", "folds"]
    for method in methods + ["spectral"] * isinstance(loss, sp.Squared):
        mine, other = (
            sp.estimate_risk(path, method=method, precision="float64", rng=0).values
            for path in (found, expected)
        )
        np.testing.assert_allclose(mine, other, rtol=1e-8, err_msg=method)


def test_it_has_no_ratio_to_search_for():
    X, y, _ = draw(12, 7)
    assert sp.run(X, y, sp.LAD(), sp.Lasso(0.05), Halpern(), 1).algorithm.ratio == 1
