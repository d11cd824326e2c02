"""
On a GPU
========

X as a torch tensor stays on its device, and so does everything that is computed from it. Many
small problems fill a GPU when they take their steps together. Without a GPU the same lines run on
the processor, as they did here if the first line of the output says so.
"""

import torch

import steinpath as sp

device = "cuda" if torch.cuda.is_available() else "cpu"
print(f"on {device}")

# %%
# One problem: the same calls as with NumPy.

model = sp.simulate.paper_model(p=300, noise="normal")
data = model.sample(600, rng=0)
X, y = (torch.asarray(array, device=device) for array in data)
path = sp.run(X, y, sp.SquareRoot(), sp.Lasso(0.5), n_iter=100)
risk = sp.estimate_risk(path, rng=0)
print(path)
print(risk)
print(f"the coefficients are a {type(path.coef).__name__} on {path.coef.device}")

ax = risk.plot()

# %%
# Many problems: a leading axis of members. Each has the path and the risk that it would have alone
# with the same step sizes.

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
    print(f"sample {k}: iterate {t:2d}, estimated {risks[k].values[t]:.3f}, true {truth:.3f}")
