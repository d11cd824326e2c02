"""
The error rate of every iterate of a support vector machine
===========================================================

With more features than rows, a linear support vector machine soon puts all of its training rows
into the right class. That says nothing of new rows. The error rate of every iterate is estimated
from the run itself, without folds and without a test set.
"""

import numpy as np

import steinpath as sp
from steinpath.plots import plot_risk

# %%
# 600 rows, 900 features, 20 of which matter. The labels are -1 and 1. They are simulated, so that
# the truth is known; the run does not see it.

model = sp.simulate.label_model(p=900)
X, y = model.sample(600, rng=0)

# %%
# The hinge loss with the ridge penalty is a support vector machine. One run, one estimate for all
# iterates. `test_loss` says what is counted: here, rows on the wrong side.

path = sp.run(X, y, sp.Hinge(), sp.Ridge(0.05), n_iter=100)
risk = sp.estimate_risk(path, test_loss="zero_one", rng=0)
print(f"wrong in training, after 5 iterations: {risk.train[5]:.1%}, after 100: {risk.train[-1]:.1%}")
print(f"estimated for new rows, after 100: {risk.values[-1]:.1%} ± {risk.stderr[-1]:.1%}")

# %%
# A simulation can tell whether that is right: 20,000 new rows, and the exact error rate.

X_new, y_new = model.sample(20_000, rng=1)
wrong = np.sign(X_new @ path.coef[-1]) != y_new
truth = model.risk(path.coef, "zero_one")
print(f"wrong of 20,000 new rows: {wrong.mean():.1%}; exactly: {truth[-1]:.1%}")

ax = plot_risk(risk, true_risk=truth)

# %%
# The lasso knows that few features matter
# ----------------------------------------
# The hinge loss has a kink, and with a lasso many rows stay at it. The estimate from derivatives is
# then noisy, and the default is ten folds, which run side by side.

sparse = sp.run(X, y, sp.Hinge(), sp.Lasso(0.5), n_iter=100)
found = sp.estimate_risk(sparse, test_loss="zero_one", rng=0)
t = found.best_iter
exact = model.risk(sparse.coef[t], "zero_one")
print(f"lasso: by {found.method}, iterate {t}, {np.count_nonzero(sparse.coef[t])} coefficients")
print(f"estimated {found.values[t]:.1%} ± {found.stderr[t]:.1%}, exactly {exact:.1%}")

# %%
# An error rate of 600 rows has a standard error of about 2 percentage points, however it is
# estimated. Differences between iterates of one run are known better, and the hinge loss and the
# log loss better still: choose by these if few errors decide.
