"""Time of default fits on tables of ordinary shapes, compared with other regressions.

    python -m benchmarks.peers.everyday
    python -m benchmarks.peers.everyday --quick        # without the largest table
    python -m benchmarks.peers.everyday --json benchmarks/results/everyday.json

Data are simulated designs with independent columns and t₂ noise, and real flight delays (collinear
one-hot columns). Compares `LADLasso`, including tuning, with one fit of scikit-learn's
`QuantileRegressor` without a penalty (a linear program) and with `LassoCV`. All may use all cores.
Also reports the training error relative to that of the linear program, which is the smallest
possible, and the mean absolute error on other rows.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LassoCV, QuantileRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import steinpath as sp
from benchmarks.common.datasets import TABLES
from benchmarks.common.measuring import machine, seconds

Data = tuple[np.ndarray, np.ndarray]
Record = dict[str, Any]


def simulated(n: int, p: int) -> Data:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2 * n, p))
    return X, 0.7 * X[:, :5].sum(axis=1) + rng.standard_t(2, size=2 * n)


def flights(n: int) -> Data:
    """Return twice as many flights as training rows, in random order."""
    X, y = TABLES["flights-100000"].load()
    rows = np.random.default_rng(0).permutation(len(y))[: 2 * n]
    X, y = X[rows], y[rows]
    return X[:, np.ptp(X[:n], axis=0) > 0], y


CASES: dict[str, Callable[[], Data]] = {
    "100 × 200": lambda: simulated(100, 200),
    "400 × 20": lambda: simulated(400, 20),
    "3,000 × 40": lambda: simulated(3000, 40),
    "flights, 3,000 rows": lambda: flights(3000),
    "flights, 50,000 rows": lambda: flights(50_000),
}
#: The linear program takes many minutes on the largest table.
LARGEST = "flights, 50,000 rows"


def measure(name: str) -> Record:
    X, y = CASES[name]()
    n = len(y) // 2
    train, test = slice(0, n), slice(n, None)
    models: dict[str, Any] = {"LADLasso": sp.LADLasso(random_state=0)}
    if name != LARGEST:
        models["LAD by linear programming"] = make_pipeline(
            StandardScaler(), QuantileRegressor(quantile=0.5, alpha=0.0, solver="highs")
        )
    models["LassoCV"] = make_pipeline(StandardScaler(), LassoCV())
    record: Record = {"case": name, "n": n, "p": X.shape[1], "methods": {}}
    for label, model in models.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            time, _ = seconds(partial(model.fit, X[train], y[train]))
        errors = [float(np.abs(y[s] - model.predict(X[s])).mean()) for s in (train, test)]
        record["methods"][label] = {"seconds": time, "train": errors[0], "test": errors[1]}
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="skip the largest table")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    sp.LADLasso(n_iter=5, n_alphas=2).fit(*simulated(20, 3))  # trigger lazy imports
    records = []
    print("| table | p | method | seconds | training error | error on other rows |")
    print("|---|---|---|---|---|---|")
    for name in CASES:
        if options.quick and name == LARGEST:
            continue
        record = measure(name)
        records.append(record)
        for label, found in record["methods"].items():
            numbers = f"{found['seconds']:.2f} | {found['train']:.4g} | {found['test']:.4g}"
            print(f"| {name} | {record['p']} | {label} | {numbers} |", flush=True)
    if options.json:
        result = {"machine": machine(), "records": records}
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
