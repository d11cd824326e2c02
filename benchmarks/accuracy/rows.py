"""Designs whose row norms vary widely: the paper's estimate and the row-scaled one.

    python -m benchmarks.accuracy.rows

Two tables. For simulated elliptical rows (multivariate Student t₄) and Gaussian rows, the bias of
the estimated risk at the end of the path. For real data sets of scikit-learn, with all products of
two features and standardised, the distance to exact leave-one-out over the path.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from sklearn import datasets
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import steinpath as sp
from steinpath.study._tables import mean_and_error

PAIRS: dict[str, tuple[sp.LAD | sp.SquareRoot, sp.Lasso | sp.Ridge]] = {
    "LAD–lasso": (sp.LAD(), sp.Lasso(0.5)),
    "square-root–lasso": (sp.SquareRoot(), sp.Lasso(0.5)),
    "square-root–ridge": (sp.SquareRoot(), sp.Ridge(0.5)),
}
STEPS = sp.ChambollePock(0.1, 0.1, 0.5)
SCALES = (None, "norm")


def simulated(design: str, n: int, p: int, n_iter: int, seeds: int) -> dict[str, list[str]]:
    """Return the mean relative error of both estimates at the last iteration."""
    rows = {}
    for name, (loss, penalty) in PAIRS.items():
        noise = "t2" if name.startswith("LAD") else "normal"
        model = sp.simulate.paper_model(p, noise, design)
        errors = []
        for seed in range(seeds):
            X, y = model.sample(n, rng=seed)
            path = sp.run(X, y, loss, penalty, STEPS, n_iter)
            truth = model.risk(path.coef[[0, -1]], loss)
            ends = []
            for scale in SCALES:
                values = sp.estimate_risk(path, row_scale=scale, rng=seed, n_probes=64).values
                shift = values[0] - truth[0] if noise == "t2" else 0.0
                ends.append((values[-1] - shift) / truth[1] - 1)
            errors.append(ends)
        both = zip(*mean_and_error(np.array(errors)), strict=True)
        rows[name] = [f"{mean:+.1%} ± {stderr:.1%}" for mean, stderr in both]
    return rows


def real(name: str, n_iter: int) -> dict[str, list[str]]:
    """Return the root mean square distance to exact leave-one-out, relative to its mean."""
    load: dict[str, Callable[..., tuple[np.ndarray, np.ndarray]]] = {
        "diabetes": datasets.load_diabetes,
        "breast cancer": datasets.load_breast_cancer,
    }
    X, y = load[name](return_X_y=True)
    X = PolynomialFeatures(2, include_bias=False).fit_transform(StandardScaler().fit_transform(X))
    X = StandardScaler().fit_transform(X[:, X.std(axis=0) > 0])
    y = (y - y.mean()) / y.std()
    rows = {}
    for pair, (loss, penalty) in PAIRS.items():
        path = sp.run(X, y, loss, penalty, n_iter=n_iter, fit_intercept=True)
        truth = sp.estimate_risk(path, method="loo").values
        distances = []
        for scale in SCALES:
            risk = sp.estimate_risk(path, method="compressed", row_scale=scale, n_probes=256, rng=0)
            distances.append(np.sqrt(np.mean((risk.values - truth) ** 2)) / truth.mean())
        rows[pair] = [f"{d:.1%}" for d in distances]
    return rows


def show(title: str, rows: dict[str, list[str]]) -> None:
    print(f"\n{title}\n\n| | paper's | row-scaled |\n|---|---|---|", flush=True)
    for name, cells in rows.items():
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    for design in ("t4", "gaussian"):
        rows = simulated(design, 800, 400, 200, seeds)
        show(f"{design} rows, n=800, p=400: bias at iteration 200", rows)
    for name in ("diabetes", "breast cancer"):
        show(f"{name}: distance to leave-one-out, 100 iterations", real(name, 100))


if __name__ == "__main__":
    main()
