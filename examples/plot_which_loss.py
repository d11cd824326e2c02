"""
Which loss?
===========

Five losses with a lasso, on noise of three laws, each tuned by its own estimated risk. The tables
have the true mean absolute error of the chosen model, less that of the true coefficients: smaller
is better, and 0 is perfect.
"""

import matplotlib.pyplot as plt
import numpy as np

import steinpath as sp

n, p, samples = 150, 50, 4
options = {"lams": 8, "n_iter": 60, "fit_intercept": True, "test_loss": "absolute"}


def excess(model, loss):
    """Mean absolute error of the choice, less that of the true coefficients; mean and s.e."""
    least = model.risk(model.coef, "absolute")
    found = []
    for seed in range(samples):
        X, y = model.sample(n, rng=seed)
        tuning = sp.tune(X, y, loss, sp.Lasso, rng=seed, **options)
        found.append(model.risk(tuning.coef, "absolute", tuning.intercept) - least)
    return np.mean(found), np.std(found, ddof=1) / np.sqrt(samples)


def table(losses, models, unit=1.0):
    """Print the excess of each loss in each model, and return its mean."""
    print(" " * 20 + "".join(f"{name:>16s}" for name in models))
    means = {}
    for name, loss in losses.items():
        cells = [np.divide(excess(model, loss), unit) for model in models.values()]
        print(f"{name:20s}" + "".join(f"{mean:9.3f} ±{se:.3f}" for mean, se in cells))
        means[name] = [mean for mean, _ in cells]
    return means


# %%
# The loss should suit the noise
# ------------------------------
# Student's t with two degrees of freedom has no variance: a few errors are very large.

losses = {
    "LAD": sp.LAD(),
    "Huber(1.35)": sp.Huber(1.35),
    "EpsilonInsens.(0.5)": sp.EpsilonInsensitive(0.5),
    "SquareRoot": sp.SquareRoot(),
    "Squared": sp.Squared(),
}
models = {noise: sp.simulate.paper_model(p, noise) for noise in ("normal", "laplace", "t2")}
means = table(losses, models)

fig, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for name, values in means.items():
    ax.plot(list(models), values, "o-", label=name)
ax.set(ylabel="excess of the mean absolute error", ylim=(0, None))
ax.legend(frameon=False)
plt.show()

# %%
# What is in units has to be chosen in units
# ------------------------------------------
# The same heavy-tailed data, with y in units of fifty: all errors are a fiftieth, and the table is
# in these units. Huber's ``delta`` is then beyond nearly all errors, and Huber is the squared loss.
# LAD and the square root have no such parameter, and give the same as above.

paper = models["t2"]
small = sp.simulate.LinearModel(
    paper.coef / 50, paper.covariance, noise=sp.simulate.Noise("t2", scale=1 / 50)
)
again = {name: losses[name] for name in ("LAD", "Huber(1.35)", "SquareRoot")}
means = table(again | {"Huber(1.35 / 50)": sp.Huber(1.35 / 50)}, {"t2 / 50": small}, unit=1 / 50)

# %%
# A simulation knows the truth. On data of your own, compare what each model says of itself:
# ``tuning.risk.min()``, for the same ``test_loss``.
