"""
Prediction intervals: how sure is a single prediction?
======================================================

Between which values will the response of a new row be? Intervals are made of the residuals of rows
that were left out, with the penalty and the iterate chosen without them. Here they are for the food
expenditure of Engel's households, 40% of which are held out, only to see how many are covered.
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
# `LADLasso` fits the median. Its intervals (CV+) are about as wide everywhere. `QuantileLasso` fits
# three quantiles, and conformalises the outer two: its intervals are wide where the expenditures
# vary much.

models = {
    "median": sp.LADLasso(random_state=0).fit(X, y),
    "quantiles": sp.QuantileLasso(q=(0.05, 0.5, 0.95), random_state=0).fit(X, y),
}

# %%
# Both aim at 90%, over all households. That is no promise for the rich, or for the poor.

rich = X_new["income"] > X["income"].median()
for name, model in models.items():
    lower, upper = model.predict_interval(X_new, level=0.9).T
    covered = (lower <= y_new) & (y_new <= upper)
    print(
        f"{name}: {np.mean(covered):.0%} of the new households covered, "
        f"{np.mean(covered[~rich]):.0%} of those with lower incomes, "
        f"{np.mean(covered[rich]):.0%} with higher ones"
    )

# %%
# A fitted quantile bends to the rows of the fit. Without the left-out residuals, the share between
# the outer two would not be known.

low, _, high = models["quantiles"].predict(X_new).T
print(f"between the fitted quantiles: {np.mean((low <= y_new) & (y_new <= high)):.0%}")

# %%
# The intervals and the new households, but for one whose income is twice as large as any here.

shown = X_new[X_new["income"] < 3000].sort_values("income")
fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    lower, upper = model.predict_interval(shown, level=0.9).T
    middle = model.predict(shown).reshape(len(shown), -1)  # one column, or three
    ax.fill_between(shown["income"], lower, upper, color="#0072B2", alpha=0.2, lw=0, label="90%")
    ax.plot(shown["income"], middle[:, middle.shape[1] // 2], color="#0072B2", label="median")
    ax.plot(shown["income"], y_new[shown.index], ".", color="#333333", ms=4)
    ax.set(title=name, xlabel="income, Belgian francs a year")
axes[0].set(ylabel="spent on food")
axes[0].legend(frameon=False, loc="upper left")
plt.show()
