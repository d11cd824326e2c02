"""
The error rate of every iterate of a support vector machine
===========================================================

With more features than rows, a linear support vector machine soon classifies all training rows
correctly, which is no evidence about new rows. The error rate of every iterate is estimated
from the run itself, without cross-validation and without a test set.
"""

import numpy as np

import steinpath as sp
from steinpath.plots import plot_risk

# %%
# 600 rows and 900 features, 20 of them relevant. The labels are -1 and 1. The data are simulated,
# so that the true error rate is known.

model = sp.simulate.label_model(p=900)
X, y = model.sample(600, rng=0)

# %%
# The hinge loss with the ridge penalty is a linear support vector machine. One run gives estimates
# for all iterates. With ``test_loss="zero_one"`` the risk is the misclassification rate.

path = sp.run(X, y, sp.Hinge(), sp.Ridge(0.05), n_iter=100)
risk = sp.estimate_risk(path, test_loss="zero_one", rng=0)
print(f"training error after 5 iterations: {risk.train[5]:.1%}, after 100: {risk.train[-1]:.1%}")
print(f"estimated error rate after 100 iterations: {risk.values[-1]:.1%} ± {risk.stderr[-1]:.1%}")

# %%
# Compare with the error rate on 20,000 new rows and with the exact error rate.

X_new, y_new = model.sample(20_000, rng=1)
wrong = np.sign(X_new @ path.coef[-1]) != y_new
truth = model.risk(path.coef, "zero_one")
print(f"error rate on 20,000 new rows: {wrong.mean():.1%}; exact: {truth[-1]:.1%}")

ax = plot_risk(risk, true_risk=truth)
ax.set_ylabel("error rate")

# %%
# Over several data sets
# ----------------------
# Repeat this for six data sets, with the ridge penalty and with the lasso, which performs better
# because few features are relevant. With the lasso, many rows stay at the kink of the hinge loss.
# The estimate from derivatives is then noisy, so the default method is 10-fold cross-validation.

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
# Any error rate estimated from 600 rows has a standard error of about 2 percentage points. Here the
# estimates differ from the truth by about one standard error on average: they are too high for
# ridge and too low for the lasso.
