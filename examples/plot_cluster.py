"""
Rows on a cluster
=================

When X does not fit into one machine, its rows stay in blocks on the workers of a Dask cluster.
``sp.run`` and ``sp.estimate_risk`` are called as ever. Here the cluster is two workers in this
process; in earnest, pass the address of a scheduler to ``Client``.
"""

import tempfile
from pathlib import Path

import numpy as np
from distributed import Client, LocalCluster

import steinpath as sp

# %%
# Four files of 500 rows each stand for data too large to load. The responses are here.

folder = tempfile.TemporaryDirectory()
X, y = sp.simulate.paper_model(p=100, noise="t2").sample(2000, rng=0)
files = []
for k in range(4):
    rows = slice(500 * k, 500 * (k + 1))
    files.append(str(Path(folder.name) / f"part-{k}.npy"))
    np.save(files[-1], X[rows])

# %%
# Workers load the files where they are to stay, and check them there. An iteration sends sums of p
# numbers; residuals never travel.

local = {"host": "tcp://127.0.0.1", "dashboard_address": "127.0.0.1:0"}  # for this machine alone
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
# In memory, the same seed gives the same: up to the order of sums, and to tangents in single
# precision.

here = sp.run(X, y, sp.LAD(), sp.Lasso(0.5), n_iter=30)
same = sp.estimate_risk(here, rng=0, method="compressed")
print(f"coefficients differ by {np.abs(coef - here.coef).max():.0e} at most")
print(f"risks differ by {np.abs(values - same.values).max():.0e} at most")
folder.cleanup()
