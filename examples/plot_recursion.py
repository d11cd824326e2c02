r"""
A user-defined algorithm
========================

``Recursion`` accepts any algorithm of the form

.. math:: u^t = \phi^t(u^0, …, u^{t-1}, v^0, …, v^{t-1}), \qquad
          b^t = \psi^t(b^0, …, b^{t-1}, \eta^0, …, \eta^t),

with residuals :math:`v^t = (y - Xb^t)/\sqrt n` and gradients :math:`\eta^t = X^\top u^t/\sqrt n`.
The maps may depend on all previous states. Given the maps and their derivatives, the package
estimates the risk of every iterate.
"""

import numpy as np

import steinpath as sp
from steinpath.plots import plot_risk

# %%
# Gradient descent with momentum on Tukey's biweight
# --------------------------------------------------
# Tukey's loss is not convex: large residuals have no influence. It is not part of this package. Its
# derivative is :math:`r (1 - r^2/c^2)^2` for :math:`|r| < c` and zero otherwise.

c, step, momentum = 4.685, 0.1, 0.8
n, p = 600, 300
model = sp.simulate.paper_model(p, noise="t2")
X, y = model.sample(n, rng=0)


def dual(t, u, v):
    """Return the negative influence of each residual."""
    r = np.sqrt(n) * v[-1]
    return -np.where(abs(r) < c, r * (1 - (r / c) ** 2) ** 2, 0) / np.sqrt(n)


def dual_jvp(t, u, v, du, dv):
    """Return the derivative of `dual` in the directions given by the columns of a block."""
    square = n * v[-1] ** 2 / c**2
    slope = np.where(square < 1, (1 - square) * (1 - 5 * square), 0)
    return -slope[:, None] * dv[-1]


def primal(t, b, eta):
    """Return a gradient step with momentum."""
    before = b[-2] if t > 1 else b[-1]
    return b[-1] + momentum * (b[-1] - before) - step * eta[-1]


def primal_jvp(t, b, eta, db, deta):
    """Return the derivative of `primal`, which is linear and thus its own derivative."""
    return primal(t, db, deta)


# %%
# Pass it to ``run`` like any other algorithm. The loss only determines the default scoring loss; a
# penalty would be part of ``primal``.

descent = sp.Recursion(dual, primal, dual_jvp, primal_jvp)
path = sp.run(X, y, sp.LAD(), sp.NoPenalty(), descent, n_iter=60)
risk = sp.estimate_risk(path, method="compressed", audit=16, rng=0)
print(risk)
truth = model.risk(path.coef, "absolute")
t = risk.best_iter
print(f"training {risk.train[t]:.3f}, estimated {risk.values[t]:.3f}, true {truth[t]:.3f}")
print(f"smallest true risk: {truth.min():.3f} at iteration {truth.argmin()}")
ax = plot_risk(risk, true_risk=truth)

# %%
# A mistake in the derivatives affects only the risk estimate. Compare them with finite differences
# once; the audit used above would also detect a mistake.

h, t, direction = 1e-6, 5, np.random.default_rng(0).standard_normal(n)
v = [(path.y - path.fitted[s]) / np.sqrt(n) for s in range(t)]
ahead, behind = ([*v[:-1], v[-1] + sign * h * direction] for sign in (1, -1))
difference = (dual(t, None, ahead) - dual(t, None, behind)) / (2 * h)
derivative = dual_jvp(t, None, v, None, [direction[:, None]])[:, 0]
print(f"finite differences agree to {abs(difference - derivative).max():.0e}")
