"""Estimated error of weighted fits, against the true weighted error.

    python -m benchmarks.accuracy.weights           # 50 data sets per case, ten minutes
    python -m benchmarks.accuracy.weights --sets 5

Each row is a measurement with precision 2 or 0.4, at random, which is its weight. Columns are
independent, and a twentieth of the coefficients are 1. The true error is the weighted mean loss on
20,000 new rows. Three estimates are compared with it:

- `steinpath.estimate_risk` at iterations 5, 20, 60 and 120 of one path, without an audit (method
  "compressed"),
- the training error, and leave-one-out (method "loo"), at iteration 60,
- `best_risk_` of the estimator with default settings.

The table has the mean ratio to the true error minus one, and how often the true error is within two
standard errors.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import numpy as np

import steinpath as sp
from benchmarks.common.measuring import command, in_parallel, machine

SHAPES = ((300, 150), (200, 400))
CASES: dict[str, tuple[Any, Any, Any]] = {
    "LAD": (sp.LAD(), sp.Lasso(0.3), sp.LADLasso),
    "Huber": (sp.Huber(1.35), sp.Ridge(0.3), sp.HuberRidge),
    "square root": (sp.SquareRoot(), sp.Lasso(0.8), sp.SqrtLasso),
    "logistic": (sp.Logistic(), sp.Ridge(0.05), sp.LogisticLasso),
}
TIMES = [5, 20, 60, 120]
NEW = 20_000


def draw(name: str, n: int, p: int, rng: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, responses and precisions."""
    X, weights = rng.standard_normal((n, p)), np.where(rng.random(n) < 0.5, 2.0, 0.4)
    signal = X[:, : max(p // 20, 3)].sum(axis=1)
    if name == "logistic":
        return X, np.sign(0.7 * signal + rng.logistic(size=n) / np.sqrt(weights)), weights
    # the square-root loss has squared errors, whose means need fourth moments
    noise = rng.standard_normal(n) if name == "square root" else rng.standard_t(3, size=n)
    return X, signal + noise / np.sqrt(weights), weights


def replicate(name: str, n: int, p: int, seed: int) -> dict[str, Any]:
    """Return (ratio - 1, error in standard errors) of each estimate."""
    loss, penalty, estimator = CASES[name]
    rng = np.random.default_rng(seed)
    (X, y, weights), new = draw(name, n, p, rng), draw(name, NEW, p, rng)
    intercept = bool(seed % 2)
    path = sp.run(X, y, loss, penalty, n_iter=120, fit_intercept=intercept, sample_weight=weights)
    risk = sp.estimate_risk(path, method="compressed", rng=seed)
    loo = sp.estimate_risk(path, method="loo")
    found: list[list[float]] = []

    def compare(value: Any, stderr: Any, decision: Any, criterion: Callable[..., Any]) -> None:
        truth = np.average(criterion(new[1], decision), weights=new[2])
        found.append([float(value / truth - 1), float((value - truth) / stderr)])

    for t in TIMES:
        decision = new[0] @ path.coef[t] + path.intercept[t]
        compare(risk.values[t], risk.stderr[t], decision, risk.criterion)
        if t == 60:
            compare(risk.train[t], risk.stderr[t], decision, risk.criterion)
            compare(loo.values[t], loo.stderr[t], decision, risk.criterion)
    model = estimator(random_state=seed).fit(X, y, sample_weight=weights)
    decision = new[0] @ model.coef_.ravel() + np.ravel(model.intercept_)
    huber = sp.Huber(1.35 * model.y_scale_)  # in robust standard deviations of y
    own = (lambda y, z: huber.rho(y - z)) if name == "Huber" else risk.criterion
    compare(model.best_risk_, model.best_risk_stderr_, decision, own)
    return {"found": found}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=50)
    sets = parser.parse_args().sets
    print(f"{command()}: {sets} data sets per case, {machine()}\n")
    names = [f"t={t}" for t in TIMES[:3]]
    names += ["training, t=60", "leave-one-out, t=60", "t=120", "best_risk_"]
    print(f"| loss | shape | {' | '.join(names)} |\n{'|---' * 9}|")
    for name in CASES:
        for n, p in SHAPES:
            calls = [(name, n, p, seed) for seed in range(sets)]
            records = in_parallel(replicate, calls, os.cpu_count() or 1)
            results = np.array([record["found"] for record in records])
            ratios, within = results[:, :, 0].mean(axis=0), np.abs(results[:, :, 1]) <= 2
            cells = [
                f"{100 * ratio:+.1f}% ({100 * share:.0f}%)"
                for ratio, share in zip(ratios, within.mean(axis=0), strict=True)
            ]
            print(f"| {name} | {n} × {p} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
