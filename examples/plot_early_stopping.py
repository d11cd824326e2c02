"""
Stop early, without a hold-out set
==================================

LAD with a weak lasso fits the training data better and better. New data are fitted better for a
few iterations only. ``StopOnRisk`` watches the estimated risk and ends the run once its minimum is
clearly behind.
"""

import steinpath as sp
from steinpath.plots import plot_risk

# %%
# 600 observations, 300 features, noise so heavy-tailed that it has no variance. The data are
# simulated, so that the truth is known; the run does not see it.

model = sp.simulate.paper_model(p=300, noise="t2")
X, y = model.sample(600, rng=0)

# %%
# The rule looks after 40 iterations, then after half as many again, and so on. It ends the run when
# the best iterate is 20 iterations behind and better than the last one by more than a standard
# error of their difference.

path = sp.run(X, y, sp.LAD(), sp.Lasso(0.2), n_iter=2000, stop=sp.StopOnRisk(patience=20, rng=0))
risk = path.risk
print(f"stopped after {path.n_iter} of 2000 iterations")
print(risk)

# %%
# Was it right? A simulation can tell: the exact risk of every iterate.

truth = model.risk(path.coef, "absolute")
print(f"true risk of the chosen iterate {risk.best_iter}: {truth[risk.best_iter]:.3f}")
print(f"the best there is, iterate {truth.argmin()}: {truth.min():.3f}")
print(f"the last one: {truth[-1]:.3f}")

ax = plot_risk(risk, true_risk=truth)

# %%
# Is an earlier iterate really better than a later one? The difference between two iterates is
# known much better than either risk, because the same observations count in both.

difference, stderr = risk.compare(path.n_iter, risk.best_iter)
print(f"last less best: {difference:.3f} ± {stderr:.3f}")
