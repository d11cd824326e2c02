"""Estimated and true risk of the model selected by `sp.tune` with few rows.

    python -m benchmarks.accuracy.few_rows --json benchmarks/results/few_rows.json

LAD–lasso on the paper's model, twenty penalties, 300 iterations. The estimate at the selected model
is the smallest of 6020 and therefore biased downwards. The table shows this bias, the coverage of
± 2 standard errors, and the regret. With fewer rows than columns, the default is exact
leave-one-out if that takes seconds; "compressed" is the alternative.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

import steinpath as sp
from benchmarks.common.measuring import Record, machine

SETTINGS = ((120, 400, "laplace"), (120, 40, "laplace"), (400, 400, "laplace"))


def choose(n: int, p: int, noise: str, method: str, seed: int) -> tuple[float, float, float, float]:
    """Return estimate, standard error and true risk of the selected model, and the lowest risk."""
    model = sp.simulate.paper_model(p, noise=noise)
    X, y = model.sample(n, rng=seed)
    tuning = sp.tune(X, y, sp.LAD(), sp.Lasso, method=method, rng=seed)
    k, t = tuning.best
    truths = [model.risk(risk.path.coef, "absolute") for risk in tuning.risks]
    best = min(float(truth.min()) for truth in truths)
    return float(tuning.risk[k, t]), float(tuning.stderr[k, t]), float(truths[k][t]), best


def measure(n: int, p: int, noise: str, method: str, reps: int) -> Record:
    found = Parallel(n_jobs=-1)(delayed(choose)(n, p, noise, method, k) for k in range(reps))
    estimate, stderr, truth, best = np.array(found).T
    return {
        "n": n,
        "p": p,
        "noise": noise,
        "method": method,
        "reps": reps,
        "estimate_over_truth": float(np.mean(estimate / truth)),
        "covered": float(np.mean(np.abs(estimate - truth) < 2 * stderr)),
        "regret": float(np.mean(truth / best) - 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reps", type=int, default=40)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    records = []
    for n, p, noise in SETTINGS:
        for method in ("auto", "compressed") if n < p else ("auto",):
            records.append(measure(n, p, noise, method, options.reps))
            print(
                f"n={n}, p={p}, {noise}, {method}: estimate/truth "
                f"{records[-1]['estimate_over_truth']:.3f}, covered {records[-1]['covered']:.0%}, "
                f"regret {records[-1]['regret']:.1%}"
            )
    if options.json:
        text = json.dumps({"machine": machine(), "records": records}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
