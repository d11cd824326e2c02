"""Draw the figures of the documentation: `python docs/pictures/make.py`, half a minute.

The figures of the method use one problem: the paper's model with Laplace noise, n=600, p=300, and
100 iterations of LAD–lasso with the paper's step sizes. The picture of the report is a screenshot
and requires Chromium.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import steinpath as sp
from steinpath.plots import BLUE, GREEN, GREY, ORANGE, plot_curves, plot_products, plot_risk
from steinpath.risk._leave_out import leave_one_out

HERE = Path(__file__).parent
mpl.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
mpl.rcParams.update({"svg.hashsalt": "steinpath", "svg.fonttype": "path"})


def save(figure: plt.Figure, name: str) -> None:
    """Write a reproducible figure with a white background."""
    figure.savefig(HERE / f"{name}.png", dpi=130, metadata={"Software": None})
    plt.close(figure)


def errors(risk: sp.Risk, truth: np.ndarray) -> None:
    """Draw training error, estimated risk and true risk along the path."""
    figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    plot_risk(risk, ax, true_risk=truth)
    ax.set_ylabel("mean absolute error")
    save(figure, "errors")


def rows(path: sp.Path, risk: sp.Risk, t: int) -> tuple[float, float, float]:
    """Draw training and corrected residuals of one iterate against leave-one-out residuals."""
    left_out = leave_one_out(path)[t]
    figure, axes = plt.subplots(
        1, 2, figsize=(7.6, 3.7), sharex=True, sharey=True, layout="constrained"
    )
    shown = np.abs(path.y - left_out) < 6
    pairs = (
        ("training", path.fitted[t], ORANGE),
        ("corrected", risk.corrected[t], BLUE),
    )
    distances = []
    for ax, (name, fitted, colour) in zip(axes, pairs, strict=True):
        ax.plot([-6, 6], [-6, 6], color=GREY, lw=0.8)
        ax.plot(
            (path.y - left_out)[shown],
            (path.y - fitted)[shown],
            ".",
            color=colour,
            ms=3.5,
            alpha=0.7,
        )
        ax.set(title=name, xlabel="leave-one-out residual", xlim=(-6, 6), ylim=(-6, 6), aspect=1)
        distances.append(float(np.sqrt(np.mean((fitted - left_out) ** 2))))
    axes[0].set_ylabel("residual")
    save(figure, "rows")
    return *distances, float(np.mean(shown))


def directions(path: sp.Path) -> int:
    """Draw dual variables over time and their singular values; return how many are not small."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.2), layout="constrained")
    t = np.arange(1, path.n_iter + 1)
    some = np.random.default_rng(1).choice(path.n_samples, 40, replace=False)
    left.plot(t, np.sqrt(path.n_samples) * path.dual[:, some], color=BLUE, lw=0.7, alpha=0.6)
    left.set(
        xlabel="iteration", ylabel="√n · dual variable", title="dual variables of 40 observations"
    )
    # in logarithmic time, as in the estimate
    sizes = np.linalg.svd(path.dual / t[:, None], compute_uv=False)
    right.semilogy(np.arange(1, 31), sizes[:30] / sizes[0], "o-", color=GREEN, ms=4)
    right.axhline(0.05, color=GREY, lw=0.8, ls="--")
    right.set(xlabel="direction", ylabel="singular value / largest", title="all dual variables")
    save(figure, "directions")
    return int((sizes > 0.05 * sizes[0]).sum())


def tutorial() -> None:
    """Draw the risk path of the tutorial's estimator."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = make_pipeline(PolynomialFeatures(2, include_bias=False), sp.LADLasso(random_state=1))
    figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    sp.RiskPathDisplay.from_estimator(model.fit(X, y)[-1], ax=ax)
    save(figure, "tutorial")


def tuning() -> None:
    """Draw the risk over penalties and iterations, as `examples/plot_tuning.py` does."""
    X, y = sp.simulate.paper_model(p=300, noise="t2").sample(600, rng=0)
    figure, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    sp.tune(X, y, sp.LAD(), sp.Lasso, fit_intercept=True, rng=0).plot(ax)
    save(figure, "tuning")


def classification() -> None:
    """Draw margin losses, and the error rate along the path of a support vector machine."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.9), layout="constrained")
    margin = np.linspace(-2, 3, 501)
    losses = (
        ("zero-one", np.where(margin < 0, 1.0, 0.0), GREY, "-"),
        ("hinge", sp.Hinge().rho(1 - margin), BLUE, "-"),
        ("squared hinge", sp.SquaredHinge().rho(1 - margin), GREEN, "-."),
        ("logistic", sp.Logistic().rho(1 - margin), ORANGE, "--"),
    )
    for name, values, colour, style in losses:
        left.plot(margin, values, color=colour, ls=style, label=name)
    left.set(xlabel="margin y z", ylabel="loss", ylim=(-0.1, 4))
    left.legend(frameon=False)
    model = sp.simulate.label_model(p=900)
    X, y = model.sample(600, rng=0)
    path = sp.run(X, y, sp.Hinge(), sp.Ridge(0.05), n_iter=100)
    risk = sp.estimate_risk(path, test_loss="zero_one", rng=0)
    plot_risk(risk, right, true_risk=model.risk(path.coef, "zero_one"))
    right.set_ylabel("misclassification rate")
    save(figure, "classification")


def curves() -> None:
    """Draw curves and the strongest products of the model in `docs/curves.md`."""
    text = (HERE.parent / "curves.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(None):
        exec(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], names)
    save(plot_curves(names["model"]), "curves")
    save(plot_products(names["model"], most=1), "products")


def report() -> None:
    """Take a screenshot of the report on the house prices in `docs/command.md`."""
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if browser is None:
        print("Chromium not found: report.png was not updated")
        return
    houses = HERE.parents[1] / "examples" / "data" / "houses.csv"
    with tempfile.TemporaryDirectory() as folder:
        fit = [sys.executable, "-m", "steinpath", "fit", str(houses), "--target", "price"]
        subprocess.run([*fit, "--no-plots", "--out", folder], check=True, capture_output=True)
        screenshot = [browser, "--headless=new", "--no-sandbox", "--hide-scrollbars"]
        screenshot += ["--window-size=1180,1250", f"--screenshot={HERE / 'report.png'}"]
        subprocess.run(
            [*screenshot, f"file://{folder}/report.html"], check=True, capture_output=True
        )


if __name__ == "__main__":
    report()
    tutorial()
    tuning()
    classification()
    curves()
    model = sp.simulate.paper_model(p=300, noise="laplace")
    X, y = model.sample(600, rng=0)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(0.5), sp.ChambollePock(0.1, 0.1, 0.5), n_iter=100)
    risk = sp.estimate_risk(path, audit=32, rng=0)
    truth = model.risk(path.coef, "absolute")
    errors(risk, truth)
    for t in (risk.best_iter, 100):
        print(
            f"iterate {t}: training {risk.train[t]:.3f}, estimated {risk.values[t]:.3f}, "
            f"true {truth[t]:.3f}"
        )
    before, after, shown = rows(path, risk, t=100)
    print(
        f"distance to leave-one-out fitted values: {before:.3f}, corrected {after:.3f}; "
        f"{shown:.0%} of the observations are shown"
    )
    print(f"directions above a twentieth of the first: {directions(path)}")
