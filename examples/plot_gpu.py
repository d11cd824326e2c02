"""
Computing on a GPU
==================

If X is a torch tensor, all computations run on its device. Batches of small problems use a GPU
efficiently. Without a GPU the same code runs on the CPU; the first line of the output shows which
device was used here.
"""

import torch

import steinpath as sp

device = "cuda" if torch.cuda.is_available() else "cpu"
print(f"device: {device}")

# %%
# A single problem uses the same calls as with NumPy.

model = sp.simulate.paper_model(p=300, noise="normal")
data = model.sample(600, rng=0)
X, y = (torch.asarray(array, device=device) for array in data)
path = sp.run(X, y, sp.SquareRoot(), sp.Lasso(0.5), n_iter=100)
risk = sp.estimate_risk(path, rng=0)
print(path)
print(risk)
print(f"coefficients: {type(path.coef).__name__} on {path.coef.device}")

ax = risk.plot()

# %%
# A batch stacks problems along a leading axis. Each problem has the same path and risk as in a
# separate run with the same step sizes.

seeds = range(8)
samples = [model.sample(600, rng=seed, like_this=X) for seed in seeds]
batch = sp.run_batch(
    torch.stack([sample.X for sample in samples]),
    torch.stack([sample.y for sample in samples]),
    sp.SquareRoot(),
    sp.Lasso(0.5),
    n_iter=100,
)
risks = sp.estimate_risk_batch(batch, rng=list(seeds))
for k in seeds:
    t = risks[k].best_iter
    truth = model.risk(batch[k].coef[t], "squared")
    print(f"sample {k}: iteration {t:2d}, estimated {risks[k].values[t]:.3f}, true {truth:.3f}")
