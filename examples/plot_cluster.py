"""
Distributed data with Dask
==========================

If X does not fit into the memory of one machine, distribute its rows over the workers of a Dask
cluster. The calls of ``sp.run`` and ``sp.estimate_risk`` do not change. This example uses two
workers in the same process; in practice, pass the address of a scheduler to ``Client``.
"""

import tempfile
from pathlib import Path

import numpy as np
from distributed import Client, LocalCluster

import steinpath as sp

# %%
# Four files of 500 rows each represent data that is too large to load. The responses are local.

folder = tempfile.TemporaryDirectory()
X, y = sp.simulate.paper_model(p=100, noise="t2").sample(2000, rng=0)
files = []
for k in range(4):
    rows = slice(500 * k, 500 * (k + 1))
    files.append(str(Path(folder.name) / f"part-{k}.npy"))
    np.save(files[-1], X[rows])

# %%
# Each worker loads and validates its own files. An iteration communicates only sums of p numbers;
# residuals stay on the workers.

local = {"host": "tcp://127.0.0.1", "dashboard_address": "127.0.0.1:0"}  # this machine only
with (
    LocalCluster(n_workers=2, threads_per_worker=1, processes=False, **local) as cluster,
    Client(cluster),
):
    design = sp.distributed.from_files(files)
    print(design)
    path = sp.run(design, y, sp.LAD(), sp.Lasso(0.5), n_iter=30)
    risk = sp.estimate_risk(path, rng=0)
    coef, values = path.coef, risk.values
    print(risk)
    ax = risk.plot()

# %%
# In memory, the same seed gives the same results, up to rounding and the single precision of the
# tangents.

local_path = sp.run(X, y, sp.LAD(), sp.Lasso(0.5), n_iter=30)
same = sp.estimate_risk(local_path, rng=0, method="compressed")
print(f"largest difference of coefficients: {np.abs(coef - local_path.coef).max():.0e}")
print(f"largest difference of risks: {np.abs(values - same.values).max():.0e}")
folder.cleanup()
