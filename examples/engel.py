"""Engel's households: how much of its income a household spends on food, at several quantiles.

235 Belgian households of 1857 (Koenker and Bassett, 1982). The richer, the more they differ: the
lines fan out.
"""

import numpy as np
import statsmodels.api as sm

import steinpath as sp

households = sm.datasets.engel.load_pandas().data
X, y = households[["income"]], households["foodexp"]
for q in (0.1, 0.5, 0.9):
    model = sp.QuantileLasso(q=q, alpha=0.0, select="last", n_iter=5000, tol=1e-2, method=None)
    model.fit(X, y)
    below = np.mean(y <= model.predict(X))
    print(
        f"q = {q}: food = {model.intercept_:5.1f} + {model.coef_[0]:.3f} · income, "
        f"{below:.0%} of the households below"
    )
