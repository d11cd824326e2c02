"""What the corrections cost, as multiples of a plain NumPy run of the same path.

    python benchmarks/core.py                  # n=2000, p=1000, 300 iterations, five probes
    python benchmarks/core.py --quick          # a tenth of that

Prints, for LAD–lasso and square-root–ridge: a hand-written NumPy loop, `sp.run`, Hutchinson's
method with and without the covariance, and exact traces on a small problem.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import steinpath as sp

SIGMA, TAU, THETA, LAM = 0.1, 0.1, 0.5, 0.5


def plain(X: np.ndarray, y: np.ndarray, loss: str, penalty: str, n_iter: int) -> np.ndarray:
    """Chambolle–Pock as one would write it in NumPy; the last iterate."""
    n, p = X.shape
    root_n = math.sqrt(n)
    u, b = np.zeros(n), np.zeros(p)
    v = before = y / root_n
    for _ in range(n_iter):
        w = u - SIGMA * ((1 + THETA) * v - THETA * before)
        u = (
            np.clip(w, -1 / root_n, 1 / root_n)
            if loss == "lad"
            else w / max(1.0, float(np.linalg.norm(w)))
        )
        z = b - TAU / root_n * (X.T @ u)
        if penalty == "lasso":
            b = np.sign(z) * np.maximum(np.abs(z) - TAU / root_n * LAM, 0)
        else:
            b = z / (1 + TAU / root_n * LAM)
        before, v = v, (y - X @ b) / root_n
    return b


def best_of(repeats: int, function: Callable[[], Any]) -> tuple[float, Any]:
    """Shortest time of several runs, and the last result."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return min(times), result


def compare(
    name: str, loss: sp.LAD | sp.SquareRoot, penalty: sp.Lasso | sp.Ridge, n: int, p: int, N: int
) -> None:
    model = sp.simulate.paper_model(p, "t2" if name == "LAD–lasso" else "normal")
    X, y = model.sample(n, rng=0)
    base, b = best_of(5, lambda: plain(X, y, loss.name, penalty.name, N))
    algorithm = sp.ChambollePock(SIGMA, TAU, THETA)
    seconds, path = best_of(3, lambda: sp.run(X, y, loss, penalty, algorithm, N))
    assert np.allclose(path.coef[-1], b, atol=1e-10)
    rows = [("plain NumPy", base), ("sp.run, all iterates kept", seconds)]
    for label, covariance in (("R̂, Hutchinson m=5", None), ("R̃, Hutchinson m=5", model.covariance)):
        start = time.perf_counter()
        sp.estimate_risk(path, covariance=covariance, method="hutchinson", n_probes=5, rng=0)
        rows.append((label, time.perf_counter() - start))
    print(f"\n{name}, n={n}, p={p}, {N} iterations")
    for label, seconds in rows:
        print(f"  {label:28s} {seconds:9.3f} s {seconds / base:8.1f} plain runs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    n, p, N = (600, 300, 100) if parser.parse_args().quick else (2000, 1000, 300)
    compare("LAD–lasso", sp.LAD(), sp.Lasso(LAM), n, p, N)
    compare("square-root–ridge", sp.SquareRoot(), sp.Ridge(LAM), n, p, N)

    X, y = sp.simulate.paper_model(100, "t2").sample(200, rng=0)
    path = sp.run(X, y, sp.LAD(), sp.Lasso(LAM), n_iter=50)
    seconds, _ = best_of(3, lambda: sp.estimate_risk(path, method="exact"))
    print(f"\nexact traces, LAD–lasso, n=200, p=100, 50 iterations: {seconds:.2f} s")


if __name__ == "__main__":
    main()
