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
print(f"wrong in training, after 5 iterations: {risk.train[5]:.1%}, 100: {risk.train[-1]:.1%}")
print(f"estimated for new rows, after 100: {risk.values[-1]:.1%} ± {risk.stderr[-1]:.1%}")

# %%
# A simulation can tell whether that is right: 20,000 new rows, and the exact error rate.

X_new, y_new = model.sample(20_000, rng=1)
wrong = np.sign(X_new @ path.coef[-1]) != y_new
truth = model.risk(path.coef, "zero_one")
print(f"wrong of 20,000 new rows: {wrong.mean():.1%}; exactly: {truth[-1]:.1%}")

ax = plot_risk(risk, true_risk=truth)
ax.set_ylabel("error rate")

# %%
# Over several data sets
# ----------------------
# That was one data set. Here are six, with the ridge penalty and with the lasso, which does better,
# since few features matter. The hinge loss has a kink, and with the lasso many rows stay at it. The
# estimate from derivatives is then noisy, and the default is ten folds, which run side by side.

for penalty in (sp.Ridge(0.05), sp.Lasso(0.5)):
    found = []
    for seed in range(6):
        X, y = model.sample(600, rng=seed)
        path = sp.run(X, y, sp.Hinge(), penalty, n_iter=60)
        risk = sp.estimate_risk(path, test_loss="zero_one", rng=0)
        truth = float(model.risk(path.coef[-1], "zero_one"))
        found.append((risk.values[-1], truth, risk.stderr[-1]))
    values, truths, stderr = np.array(found).T
    print(
        f"{penalty.name}, method {risk.method!r}: estimated {values.mean():.3f} on average, "
        f"true {truths.mean():.3f}; root mean square difference "
        f"{np.sqrt(np.mean((values - truths) ** 2)):.3f}, standard error {stderr.mean():.3f}"
    )

# %%
# An error rate that is estimated from 600 rows has a standard error of about 2 percentage points,
# however it is done. Here the estimates are off by about one standard error on average: too high
# for ridge, too low for the lasso.
