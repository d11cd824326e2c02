"""
Prediction intervals
====================

Prediction intervals are computed from the residuals of held-out rows, with the penalty and the
iteration selected without these rows. This example uses Engel's food expenditure data. 40% of the
households are held out only to measure the coverage.
"""

import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm
from sklearn.model_selection import train_test_split

import steinpath as sp

households = sm.datasets.engel.load_pandas().data
X, X_new, y, y_new = train_test_split(
    households[["income"]], households["foodexp"], test_size=0.4, random_state=0
)

# %%
# `LADLasso` fits the median. Its intervals (CV+) have nearly constant width. `QuantileLasso` fits
# three quantiles and conformalises the outer two: its intervals are wider where the expenditure is
# more variable.

models = {
    "median": sp.LADLasso(random_state=0).fit(X, y),
    "quantiles": sp.QuantileLasso(q=(0.05, 0.5, 0.95), random_state=0).fit(X, y),
}

# %%
# Both target 90% coverage over all households. Coverage within income groups is not guaranteed.

rich = X_new["income"] > X["income"].median()
for name, model in models.items():
    lower, upper = model.predict_interval(X_new, level=0.9).T
    covered = (lower <= y_new) & (y_new <= upper)
    print(
        f"{name}: {np.mean(covered):.0%} of the new households covered: "
        f"{np.mean(covered[~rich]):.0%} with lower income, "
        f"{np.mean(covered[rich]):.0%} with higher income"
    )

# %%
# Fitted quantiles adapt to the training rows, so the interval between the outer two has no coverage
# guarantee without conformalisation.

low, _, high = models["quantiles"].predict(X_new).T
print(f"between the fitted quantiles: {np.mean((low <= y_new) & (y_new <= high)):.0%}")

# %%
# The intervals and the new households, except for one with twice the income of any other.

shown = X_new[X_new["income"] < 3000].sort_values("income")
fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    lower, upper = model.predict_interval(shown, level=0.9).T
    middle = model.predict(shown).reshape(len(shown), -1)  # one or three columns
    ax.fill_between(shown["income"], lower, upper, color="#0072B2", alpha=0.2, lw=0, label="90%")
    ax.plot(shown["income"], middle[:, middle.shape[1] // 2], color="#0072B2", label="median")
    ax.plot(shown["income"], y_new[shown.index], ".", color="#333333", ms=4)
    ax.set(title=name, xlabel="income (Belgian francs per year)")
axes[0].set(ylabel="food expenditure")
axes[0].legend(frameon=False, loc="upper left")
plt.show()
