"""Risk of a converged lasso: steinpath compared with RandALO and cross-validation.

Squared loss at one penalty, normal noise, the paper's model with known true risk. Each method has
its own fit and estimates the risk of its own coefficients:

- **steinpath R̂**: FISTA, and the estimate at the last iteration. Estimates for all other iterations
  come at no extra cost.
- **RandALO** (Nobel, LeJeune and Candès, 2024): scikit-learn's `Lasso`, and approximate
  leave-one-out with 100 random probes (the default) of the Jacobian at the minimum, from the
  package `randalo`. It requires a loss with a second derivative, so LAD is not supported.
- **approximate leave-one-out**: the same with the exact diagonal of the Jacobian.
- **5-fold**, **10-fold**: scikit-learn's `cross_val_score` of `Lasso`.

*Bias* and *error* are the mean and the root mean square over data sets of the relative difference
from the true risk. The deviation of the sample's noise from its mean, common to all estimates, is
subtracted first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import Lasso
from sklearn.model_selection import KFold, cross_val_score

import steinpath as sp
from benchmarks.common.competitors import rms
from benchmarks.common.measuring import Peer, Record, available, seconds

ALPHA = 0.05  # near the best alpha for the sizes below
N_ITER = 300


class Fit(NamedTuple):
    """A fit, and a function that estimates its risk."""

    coef: np.ndarray
    estimate: Callable[[], float]


def _lasso(X: np.ndarray, y: np.ndarray) -> Lasso:
    return Lasso(alpha=ALPHA, fit_intercept=False, tol=1e-8, max_iter=100_000).fit(X, y)


def steinpath(X: np.ndarray, y: np.ndarray, seed: int) -> Fit:
    lam = ALPHA * math.sqrt(len(y))
    path = sp.run(X, y, sp.Squared(), sp.Lasso(lam), sp.FISTA(), N_ITER)
    return Fit(path.coef[-1], lambda: float(sp.estimate_risk(path, rng=seed).values[-1]))


def randalo(exact: bool, X: np.ndarray, y: np.ndarray, seed: int) -> Fit:
    import torch
    from randalo import RandALO

    model = _lasso(X, y)

    def squared(y: torch.Tensor, predicted: torch.Tensor) -> float:
        return float(torch.mean((y - predicted) ** 2))

    def estimate() -> float:
        torch.manual_seed(seed)  # of the subsets
        made = RandALO.from_sklearn(model, torch.as_tensor(X), torch.as_tensor(y))
        made._rng.manual_seed(seed)  # of the probes: `from_sklearn` does not accept a generator
        return float(made.evaluate_alo(squared) if exact else made.evaluate(squared))

    return Fit(model.coef_, estimate)


def folds(n_folds: int, X: np.ndarray, y: np.ndarray, seed: int) -> Fit:
    model = _lasso(X, y)
    splits = KFold(n_folds, shuffle=True, random_state=seed)
    score = partial(cross_val_score, model, X, y, scoring="neg_mean_squared_error", cv=splits)
    return Fit(model.coef_, lambda: -float(np.mean(score())))


METHODS: dict[str, Peer] = {
    "steinpath R̂": Peer(steinpath),
    "RandALO": Peer(partial(randalo, False), ("randalo", "cvxpy")),
    "approximate leave-one-out": Peer(partial(randalo, True), ("randalo", "cvxpy")),
    "5-fold": Peer(partial(folds, 5)),
    "10-fold": Peer(partial(folds, 10)),
}


def converged(n: int, p: int, n_sets: int, plain_seconds: float) -> list[Record]:
    """Run all methods on several data sets."""
    model = sp.simulate.paper_model(p, "normal")
    methods = available(METHODS)
    for method in methods.values():
        method(*model.sample(50, rng=0), 0).estimate()  # trigger lazy imports
    records = []
    for seed in range(n_sets):
        X, y = model.sample(n, rng=np.random.default_rng([seed, n, p]))
        noise = np.mean((y - X @ model.coef) ** 2) - model.risk(model.coef, "squared")
        for name, method in methods.items():
            of_fit, fit = seconds(partial(method, X, y, seed))
            elapsed, estimate = seconds(fit.estimate)
            truth = float(model.risk(fit.coef, "squared"))
            records.append(
                {
                    "n": n,
                    "p": p,
                    "seed": seed,
                    "method": name,
                    "fit": of_fit / plain_seconds,
                    "ratio": elapsed / plain_seconds,
                    "truth": truth,
                    "error": (estimate - float(noise)) / truth - 1,
                }
            )
    return records


def converged_table(records: list[Record]) -> str:
    lines = [
        "| n × p | method | fit, plain runs | estimate, plain runs | true risk | bias | error |",
        "|---|---|---|---|---|---|---|",
    ]
    groups: dict[Any, list[Record]] = {}
    for record in records:
        groups.setdefault((record["n"], record["p"], record["method"]), []).append(record)
    for (n, p, method), rows in groups.items():
        fit, ratio = (float(np.median([r[key] for r in rows])) for key in ("fit", "ratio"))
        errors = np.array([r["error"] for r in rows])
        spread = errors.std(ddof=1) / math.sqrt(len(errors))
        truth = np.mean([r["truth"] for r in rows])
        lines.append(
            f"| {n} × {p} | {method} | {fit:.1f} | {ratio:.1f} | {truth:.3f} "
            f"| {100 * errors.mean():+.1f} ± {100 * spread:.1f}% | {100 * rms(errors):.1f}% |"
        )
    return "\n".join(lines)
