"""
When not to trust it
====================

The estimate takes the rows to be independent of each other. Rows that were measured several times
are not: whatever is left out is still there in a copy, and every estimate from the same rows is too
small. The estimate cannot repair that, but it says so.
"""

import matplotlib.pyplot as plt
import numpy as np

import steinpath as sp
from steinpath.plots import plot_risk

# %%
# 100 patients, each measured four times: the features nearly the same, the errors alike.

rng = np.random.default_rng(0)
model = sp.simulate.paper_model(p=200, noise="laplace")
X, y = model.sample(100, rng)
patient = np.repeat(np.arange(100), 4)
X_four = X[patient] + 0.1 * rng.standard_normal((400, 200))
noise = (y - X @ model.coef)[patient]
y_four = X_four @ model.coef + noise

# %%
# The same number of rows, all of different patients, for comparison.

X_all, y_all = model.sample(400, rng)

fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for name, data, ax in (
    ("400 patients", (X_all, y_all), axes[0]),
    ("100 patients, four times each", (X_four, y_four), axes[1]),
):
    path = sp.run(*data, sp.LAD(), sp.Lasso(0.2), n_iter=100)
    risk = sp.estimate_risk(path, method="compressed", audit=32, rng=0)
    truth = model.risk(path.coef, "absolute")
    t = risk.best_iter
    print(f"{name}: iterate {t}, estimated {risk.values[t]:.3f}, true {truth[t]:.3f}")
    for warning in risk.warnings or ["no warnings"]:
        print("  -", warning)
    plot_risk(risk, ax, true_risk=truth).set_title(name, fontsize="medium")
plt.show()

# %%
# Leave-one-out errs in the same way. What is right is to leave out whole patients, which ``groups``
# asks for, here and in all estimators.

left_out = sp.leave_one_out_path(path)
by_patient = sp.estimate_risk(path, groups=patient, rng=0)
print("100 patients, last iterate:")
print(f"  rows left out     {left_out.values[-1]:.3f}")
print(f"  patients left out {by_patient.values[-1]:.3f}")
print(f"  truth             {truth[-1]:.3f}")
