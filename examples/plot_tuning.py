"""
Joint selection of penalty and iteration
========================================

``tune`` runs a grid of twenty penalties and estimates the risk of every iterate for each of them.
The data are simulated, so that the selection can be compared with the truth.
"""

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

(k, t), paths = tuning.best, [risk.path for risk in tuning.risks]
truth = [model.risk(path.coef, "absolute", path.intercept) for path in paths]
smallest = min(curve.min() for curve in truth)
print(f"true risk of the selected model: {truth[k][t]:.3f}")
print(f"smallest true risk of {sum(map(len, truth))} models: {smallest:.3f}")

# %%
# Is the selected model significantly better than a later iterate with the same penalty? (The risk
# of the selected path is estimated up to twice the selected iteration.) The difference between two
# models has a smaller standard error than either risk.

last = len(truth[k]) - 1
difference, stderr = tuning.compare((k, last), tuning.best)
print(f"iterate {last} minus iterate {t}: estimated {difference:.3f} ± {stderr:.3f}")
print(f"true difference: {truth[k][last] - truth[k][t]:.3f}")
