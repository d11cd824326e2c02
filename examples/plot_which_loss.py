"""
Comparing losses
================

Five losses with a lasso penalty and three noise distributions. Each model is tuned by its own
estimated risk. The tables show the excess risk: the true mean absolute error of the selected model
minus that of the true coefficients. Smaller is better; 0 is optimal.
"""

import matplotlib.pyplot as plt
import numpy as np

import steinpath as sp

n, p, samples = 150, 50, 4
options = {"lams": 8, "n_iter": 60, "fit_intercept": True, "test_loss": "absolute"}


def excess(model, loss):
    """Return the mean excess risk of the selected models and its standard error."""
    least = model.risk(model.coef, "absolute")
    found = []
    for seed in range(samples):
        X, y = model.sample(n, rng=seed)
        tuning = sp.tune(X, y, loss, sp.Lasso, rng=seed, **options)
        found.append(model.risk(tuning.coef, "absolute", tuning.intercept) - least)
    return np.mean(found), np.std(found, ddof=1) / np.sqrt(samples)


def table(losses, models, unit=1.0):
    """Print the excess risk of each loss under each model, and return the means."""
    print(" " * 20 + "".join(f"{name:>16s}" for name in models))
    means = {}
    for name, loss in losses.items():
        cells = [np.divide(excess(model, loss), unit) for model in models.values()]
        print(f"{name:20s}" + "".join(f"{mean:9.3f} ±{se:.3f}" for mean, se in cells))
        means[name] = [mean for mean, _ in cells]
    return means


# %%
# The loss should match the noise
# -------------------------------
# Student's t distribution with two degrees of freedom has infinite variance: a few errors are very
# large.

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
ax.set(xlabel="noise", ylabel="excess mean absolute error", ylim=(0, None))
ax.legend(frameon=False)
plt.show()

# %%
# Scale parameters depend on the units of y
# -----------------------------------------
# The same heavy-tailed data with y divided by 50; the table is in the new units. Huber's ``delta``
# now exceeds nearly all errors, so the Huber loss is effectively the squared loss. LAD and the
# square root have no scale parameter and give the same results as above.

paper = models["t2"]
small = sp.simulate.LinearModel(
    paper.coef / 50, paper.covariance, noise=sp.simulate.Noise("t2", scale=1 / 50)
)
again = {name: losses[name] for name in ("LAD", "Huber(1.35)", "SquareRoot")}
means = table(again | {"Huber(1.35 / 50)": sp.Huber(1.35 / 50)}, {"t2 / 50": small}, unit=1 / 50)

# %%
# For real data the truth is unknown. Compare the estimates ``tuning.best_risk`` for the same
# ``test_loss``.
