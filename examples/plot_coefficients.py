"""
Confidence intervals: which coefficients are nonzero?
=====================================================

The coefficients of a penalised fit are biased towards zero and have no standard errors. This
example computes debiased confidence intervals for the progression of diabetes in 442 patients, and
for simulated data with more columns than rows, where the truth is known.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import steinpath as sp

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = sp.LADLasso(random_state=0).fit(X, y)
intervals = model.coef_intervals(level=0.95)
print(intervals.to_frame().round(3).to_string(index=False))

# %%
# The forest plot shows the coefficients in the units of the columns. Coloured coefficients are
# significant by the Benjamini–Hochberg procedure at a false discovery rate of 10%.

intervals.plot()
plt.show()

# %%
# With 150 rows and 300 columns, least squares is not applicable. The first 30 coefficients are
# nonzero. We compute intervals for 40 columns only, since each needs a regression on all others.

simulated = sp.simulate.paper_model(p=300, noise="t2")
X, y = simulated.sample(150, rng=0)
path = sp.run(X, y, sp.LAD(), sp.Lasso(0.5), n_iter=200, fit_intercept=True)
wide = sp.coefficient_intervals(path, features=np.arange(10, 50), rng=0)
truth = simulated.coef[wide.features]
covered = (wide.lower <= truth) & (truth <= wide.upper)
print(f"{np.mean(covered):.0%} of the coefficients are covered, at iteration {wide.t}")

# %%
# The intervals are valid at any iterate, but their width varies. The default minimises the width.

known = np.flatnonzero(np.isfinite(wide.relative_width))
fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.plot(known, wide.relative_width[known], color="#0072B2")
ax.plot(wide.t, 1, "o", color="#D55E00", label="default")
ax.set(xlabel="iteration", ylabel="relative width of the intervals", ylim=(0, None))
ax.legend(frameon=False)
plt.show()
