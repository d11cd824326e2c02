"""
Joint selection of penalty and iteration
========================================

``tune`` runs a grid of twenty penalties and estimates the risk of every iterate for each of them.
The data are simulated, so that the selection can be compared with the truth.
"""

import numpy as np

import steinpath as sp

model = sp.simulate.paper_model(p=300, noise="t2")
X, y = model.sample(600, rng=0)
tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, fit_intercept=True, rng=0)
print(tuning)

# %%
# The estimated risk of all models. The largest penalty (top) sets all coefficients to zero.

ax = tuning.plot()

# %%
# How good is the selected model? A small penalty with few iterations and a larger penalty with more
# iterations reach nearly the same risk.

paths = [risk.path for risk in tuning.risks]
truth = np.array([model.risk(path.coef, "absolute", path.intercept) for path in paths])
print(f"true risk of the selected model: {truth[tuning.best]:.3f}")
print(f"smallest true risk of {truth.size} models: {truth.min():.3f}")
print(f"smallest true risk of the {len(paths)} last iterates: {truth[:, -1].min():.3f}")

# %%
# Is the selected model significantly better than the last iterate with the same penalty? The
# difference between two models has a smaller standard error than either risk.

k, t = tuning.best
difference, stderr = tuning.compare((k, tuning.path.n_iter), tuning.best)
print(f"last minus selected iterate: estimated {difference:.3f} ± {stderr:.3f}")
print(f"true difference: {truth[k, -1] - truth[k, t]:.3f}")
