"""Penalty and iterate of LAD–lasso, chosen together; the truth is known, and printed beside.

With a file name ending in ``.png``, the risk over both is drawn into it.
"""

import sys

import numpy as np

import steinpath as sp
from steinpath.plots import save

model = sp.simulate.paper_model(p=300, noise="t2")
X, y = model.sample(600, rng=0)
tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, fit_intercept=True, rng=0)
paths = [risk.path for risk in tuning.risks]
truth = np.array([model.risk(path.coef, "absolute", path.intercept) for path in paths])
print(tuning)
print(f"true risk of the choice: {truth[tuning.best]:.3f}")
print(f"the best of {truth.size} there is: {truth.min():.3f}")
if sys.argv[-1].endswith(".png"):
    save(tuning.plot(), sys.argv[-1])
