"""
Comparing penalties
===================

LAD with six penalties, for sparse, group-sparse and dense signals. Each model is tuned by its own
estimated risk. The table shows the excess risk: the true mean absolute error of the selected model
minus that of the true coefficients. Smaller is better; 0 is optimal.
"""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np

import steinpath as sp

n, p, samples = 150, 50, 3
covariance = sp.simulate.toeplitz(p)
groups = np.repeat(np.arange(10), 5)


def with_signal(coef):
    """Return a model with signal strength 2 and Laplace noise."""
    coef = coef * np.sqrt(2 / (coef @ covariance @ coef))
    return sp.simulate.LinearModel(coef, covariance, noise="laplace")


# %%
# The same signal strength on three of 50 coefficients, on two of ten groups, or on all of them.

signals = {
    "3 of 50": with_signal(np.isin(np.arange(p), (10, 25, 40)) * 1.0),
    "2 of 10 groups": with_signal(np.isin(groups, (3, 7)) * 1.0),
    "all": with_signal(np.random.default_rng(0).standard_normal(p)),
}
penalties = {
    "Lasso": sp.Lasso,
    "MCP": sp.MCP,
    "SCAD": sp.SCAD,
    "ElasticNet(0.5)": sp.ElasticNet,
    "Ridge": sp.Ridge,
    "GroupLasso": partial(sp.GroupLasso, groups=groups),
}


def excess(model, penalty):
    """Return the mean excess risk of the selected models and its standard error."""
    least = model.risk(model.coef, "absolute")
    found = []
    for seed in range(samples):
        X, y = model.sample(n, rng=seed)
        tuning = sp.tune(X, y, sp.LAD(), penalty, lams=8, n_iter=60, fit_intercept=True, rng=seed)
        found.append(model.risk(tuning.coef, "absolute", tuning.intercept) - least)
    return np.mean(found), np.std(found, ddof=1) / np.sqrt(samples)


fig, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
print(" " * 16 + "".join(f"{name:>16s}" for name in signals))
for name, penalty in penalties.items():
    cells = [excess(model, penalty) for model in signals.values()]
    print(f"{name:16s}" + "".join(f"{mean:9.3f} ±{se:.3f}" for mean, se in cells))
    ax.plot(list(signals), [mean for mean, _ in cells], "o-", label=name)
ax.set(xlabel="nonzero coefficients", ylabel="excess mean absolute error", ylim=(0, None))
ax.legend(frameon=False)
plt.show()

# %%
# For real data the truth is unknown. Compare the estimates ``tuning.best_risk`` for the same
# ``test_loss``.
