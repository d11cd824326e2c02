"""
Early stopping without a hold-out set
=====================================

The training error of LAD with a weak lasso penalty decreases along the path, but the error on new
data decreases only for a few iterations. ``StopOnRisk`` monitors the estimated risk and stops the
run once its minimum has clearly been passed.
"""

import steinpath as sp
from steinpath.plots import plot_risk

# %%
# 600 observations, 300 features, and heavy-tailed noise with infinite variance. The data are
# simulated, so that the true risk is known.

model = sp.simulate.paper_model(p=300, noise="t2")
X, y = model.sample(600, rng=0)

# %%
# The rule estimates the risk after 40 iterations, then after 60, and so on by a factor of 1.5. It
# stops the run when the best iterate is at least 20 iterations old and better than the last one by
# more than one standard error of their difference.

path = sp.run(X, y, sp.LAD(), sp.Lasso(0.2), n_iter=2000, stop=sp.StopOnRisk(patience=20, rng=0))
risk = path.risk
print(f"stopped after {path.n_iter} of 2000 iterations")
print(risk)

# %%
# For simulated data, the exact risk of every iterate is available for comparison.

truth = model.risk(path.coef, "absolute")
print(f"true risk at the selected iteration {risk.best_iter}: {truth[risk.best_iter]:.3f}")
print(f"smallest true risk, at iteration {truth.argmin()}: {truth.min():.3f}")
print(f"true risk at the last iteration: {truth[-1]:.3f}")

ax = plot_risk(risk, true_risk=truth)

# %%
# Is the selected iterate significantly better than the last one? The difference between two
# iterates has a much smaller standard error than either risk, because both use the same
# observations.

difference, stderr = risk.compare(path.n_iter, risk.best_iter)
print(f"last minus best: {difference:.3f} ± {stderr:.3f}")
