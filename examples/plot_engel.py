"""
Quantile regression of Engel's food expenditure data
====================================================

How much of its income does a household spend on food? The data are 235 Belgian households from 1857
(Koenker and Bassett, 1982). The dispersion increases with income, so the fitted lines diverge.
"""

import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm

import steinpath as sp

households = sm.datasets.engel.load_pandas().data
X, y = households[["income"]], households["foodexp"]

# %%
# One feature needs neither a penalty nor early stopping: set ``alpha=0`` and use the last of 5000
# iterations, when the fit has converged. ``method=None`` disables risk estimation.

models = {}
for q in (0.1, 0.5, 0.9):
    model = sp.QuantileLasso(q=q, alpha=0.0, select="last", n_iter=5000, tol=1e-2, method=None)
    models[q] = model.fit(X, y)
    below = np.mean(y <= model.predict(X))
    print(
        f"q = {q}: food = {model.intercept_:5.1f} + {model.coef_[0]:.3f} · income, "
        f"{below:.0%} of the households below"
    )

# %%
# Half of the households are below the median line, a tenth below the lowest line.

fig, ax = plt.subplots(layout="constrained")
ax.plot(X["income"], y, ".", color="#777777", ms=4)
ends = X.iloc[[X["income"].argmin(), X["income"].argmax()]]
for q, model in models.items():
    ax.plot(ends["income"], model.predict(ends), label=f"q = {q}")
ax.set(xlabel="income (Belgian francs per year)", ylabel="food expenditure")
ax.legend(frameon=False)
plt.show()
