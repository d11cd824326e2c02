"""Mean absolute error of Huber regression with one width, and with widths that are selected.

    python -m benchmarks.accuracy.huber_width      # five minutes on two cores

Each data set of `datasets.py` is split into halves (of at most 6000 rows), twice. `HuberLasso` is
fitted to one half with ``delta=1.35``, with three values to select from, and with four, which are
its default; errors on the other half are relative to those of 1.35. `LADLasso` is for comparison.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np

import steinpath as sp
from benchmarks.common.datasets import TABLES
from benchmarks.common.measuring import command, in_parallel, machine

MOST_ROWS = 6000
MODELS = {
    "delta=1.35": sp.HuberLasso(delta=1.35, random_state=0),
    "0.5, 1.35, 3": sp.HuberLasso(delta=(0.5, 1.35, 3.0), random_state=0),
    "0.1, 0.5, 1.35, 3": sp.HuberLasso(random_state=0),
    "LADLasso": sp.LADLasso(random_state=0),
}


def measure(name: str, seed: int) -> dict[str, Any]:
    """Return the error and the seconds of each model on a split of a data set."""
    X, y = TABLES[name].load()
    rows = np.random.default_rng(seed).permutation(len(y))[:MOST_ROWS]
    train, test = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    X = X[:, np.ptp(X[train], axis=0) > 0]
    found: dict[str, Any] = {"name": name}
    for what, model in MODELS.items():
        start = time.perf_counter()
        model.fit(X[train], y[train])
        seconds = time.perf_counter() - start
        found[what] = float(np.abs(y[test] - model.predict(X[test])).mean()), seconds
    return found


def main() -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--sets", nargs="*", default=list(TABLES))
    args = parser.parse_args()
    calls = [(name, seed) for name in args.sets for seed in range(args.splits)]
    records = in_parallel(measure, calls, os.cpu_count() or 1)
    print(f"{command()}: {len(args.sets)} data sets, {args.splits} splits, {machine()}\n")
    print("| model | geometric mean | better by 1% | worse by 1% | time |\n|---|---|---|---|---|")
    values = np.array([[record[what] for what in MODELS] for record in records])
    values = values.reshape(len(args.sets), args.splits, len(MODELS), 2).mean(axis=1)
    ratios = values[:, :, 0] / values[:, :1, 0]
    for k, what in enumerate(MODELS):
        own, seconds = ratios[:, k], values[:, k, 1].sum() / values[:, 0, 1].sum()
        mean = np.exp(np.log(own).mean())
        counts = f"{np.sum(own < 0.99)} | {np.sum(own > 1.01)}"
        print(f"| {what} | {mean:.3f} | {counts} | {seconds:.1f} |")


if __name__ == "__main__":
    main()
