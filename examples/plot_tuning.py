"""
Choose the penalty and the iterate together
===========================================

Twenty penalties run side by side, and the risk of every iterate of every one is estimated. The
truth is known here, and printed beside the choice.
"""

import numpy as np

import steinpath as sp

model = sp.simulate.paper_model(p=300, noise="t2")
X, y = model.sample(600, rng=0)
tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, fit_intercept=True, rng=0)
print(tuning)

# %%
# The risk of 20 × 301 models: from the smallest penalty with all coefficients zero (above) down.

ax = tuning.plot()

# %%
# How good is the choice? With a small penalty and few iterations, or a larger one and more, one
# gets to much the same risk.

paths = [risk.path for risk in tuning.risks]
truth = np.array([model.risk(path.coef, "absolute", path.intercept) for path in paths])
print(f"true risk of the choice: {truth[tuning.best]:.3f}")
print(f"the best of {truth.size} there is: {truth.min():.3f}")
print(f"the best of the {len(paths)} last iterates: {truth[:, -1].min():.3f}")

# %%
# Is the choice better than running to the end with the same penalty, or is that chance? The
# difference between two models is known better than either risk.

k, t = tuning.best
difference, stderr = tuning.compare((k, tuning.path.n_iter), tuning.best)
print(f"last iterate less the chosen one: estimated {difference:.3f} ± {stderr:.3f}")
print(f"in truth: {truth[k, -1] - truth[k, t]:.3f}")
