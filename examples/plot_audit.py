"""
When not to trust the estimate
==============================

The risk estimate assumes independent rows. Repeated measurements violate this assumption: a
held-out row still has near-duplicates in the training data, so that every estimate that holds out
single rows is too small. The estimate detects this and warns.
"""

import matplotlib.pyplot as plt
import numpy as np

import steinpath as sp
from steinpath.plots import plot_risk

# %%
# 100 patients, each measured four times, with nearly equal features and the same error.

rng = np.random.default_rng(0)
model = sp.simulate.paper_model(p=200, noise="laplace")
X, y = model.sample(100, rng)
patient = np.repeat(np.arange(100), 4)
X_four = X[patient] + 0.1 * rng.standard_normal((400, 200))
noise = (y - X @ model.coef)[patient]
y_four = X_four @ model.coef + noise

# %%
# For comparison, the same number of rows, each from a different patient.

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
    print(f"{name}: iteration {t}, estimated {risk.values[t]:.3f}, true {truth[t]:.3f}")
    for warning in risk.warnings or ["no warnings"]:
        print("  -", warning)
    plot_risk(risk, ax, true_risk=truth).set_title(name, fontsize="medium")
plt.show()

# %%
# Leave-one-out has the same bias. The remedy is to hold out whole patients with ``groups``, which
# ``tune`` and all estimators accept as well.

left_out = sp.leave_one_out_path(path)
by_patient = sp.estimate_risk(path, groups=patient, rng=0)
print("100 patients, last iteration:")
print(f"  rows held out     {left_out.values[-1]:.3f}")
print(f"  patients held out {by_patient.values[-1]:.3f}")
print(f"  truth             {truth[-1]:.3f}")
