"""Print how far the estimate of `docs/demo.png` is from the true risk, over seeds 0 to 19.

The picture itself is that of seed 0: `steinpath demo --n 2000 --p 1000 --plot docs/demo.png`.
"""

from __future__ import annotations

import numpy as np

from steinpath.app.cli.demo import lad_lasso_demo

errors = []
for seed in range(20):
    _, risk, truth = lad_lasso_demo(n=2000, p=1000, seed=seed)
    relative = risk.values / truth - 1
    best, last = relative[risk.best_iter], relative[-1]
    regret = truth[risk.best_iter] / truth.min() - 1
    errors.append((np.sqrt(np.mean(relative**2)), abs(best), abs(last), regret))
    print(f"seed {seed}: path {errors[-1][0]:.1%}, selected {best:+.1%}, last {last:+.1%}")
names = ("root mean square over the path", "selected iteration", "last iteration", "regret")
for name, value in zip(names, np.mean(errors, axis=0), strict=True):
    print(f"{name}: {value:.1%} on average")
