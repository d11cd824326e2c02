"""Accuracy of the estimated risk on the paper's model.

For each of the paper's eight loss–penalty pairs and each seed, runs the path and computes R̃
(covariance known), R̂ and the exact risk. Prints, averaged over seeds, the root mean square error
over the path, the estimates' own sampling standard error and Monte Carlo error (as root mean
squares), and the worst regret of the selected iteration relative to the best on the path.

    python -m benchmarks.accuracy.paper_model --seeds 5 --json accuracy.json
    python -m benchmarks.accuracy.paper_model --seeds 1 --method hutchinson --probes 5

For LAD, the loss of the zero prediction is subtracted: the mean of absolute Student-t₂ noise is
common to all iterates, has infinite variance and would dominate all differences.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import steinpath as sp
from benchmarks.common.competitors import Problem, rms
from steinpath.study._settings import PAIRS


def measure(
    loss: str,
    penalty: str,
    seed: int,
    n: int = 2000,
    p: int = 1000,
    n_iter: int = 300,
    **options: Any,
) -> dict[str, Any]:
    """Return errors and regrets of both estimates on one data set."""
    problem = Problem.draw(loss, penalty, n, p, n_iter, seed)
    centered = loss == "lad"
    truth = problem.model.risk(problem.path.coef, problem.path.loss, centered=centered)
    uncentered = problem.truth()
    record: dict[str, Any] = {"loss": loss, "penalty": penalty, "seed": seed}
    for name, covariance in (("tilde", problem.model.covariance), ("hat", None)):
        start = time.perf_counter()
        risk = sp.estimate_risk(
            problem.path, covariance=covariance, centered=centered, rng=seed, **options
        )
        record[f"{name}_seconds"] = time.perf_counter() - start
        record[f"{name}_method"] = risk.method
        record[f"{name}_rms"] = rms(risk.values - truth)
        record[f"{name}_probe_rms"] = rms(risk.probe_stderr)
        record[f"{name}_stderr_rms"] = rms(risk.stderr)
        record[f"{name}_regret"] = float(uncentered[risk.best_iter] / uncentered.min() - 1)
        record[f"{name}_best"] = risk.best_iter
    record["true_best"] = int(uncentered.argmin())
    return record


def summary(records: list[dict[str, Any]]) -> str:
    """Return a table of means over seeds, one line per pair."""
    lines = [
        "| pair | R̃ error | R̂ error | s.e. | Monte Carlo error R̃, R̂ | worst regret R̃, R̂ |",
        "|---|---|---|---|---|---|",
    ]
    for loss, penalty in PAIRS:
        rows = [r for r in records if (r["loss"], r["penalty"]) == (loss, penalty)]
        if not rows:
            continue
        mean = {k: np.mean([r[k] for r in rows]) for k in rows[0] if isinstance(rows[0][k], float)}
        worst = [max(r[f"{name}_regret"] for r in rows) for name in ("tilde", "hat")]
        lines.append(
            f"| {loss}, {penalty} | {mean['tilde_rms']:.3f} | {mean['hat_rms']:.3f} "
            f"| {mean['hat_stderr_rms']:.3f} "
            f"| {mean['tilde_probe_rms']:.3f}, {mean['hat_probe_rms']:.3f} "
            f"| {worst[0]:.1%}, {worst[1]:.1%} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--p", type=int, default=1000)
    parser.add_argument("--iters", type=int, default=300)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--probes", type=int)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
    records = []
    for loss, penalty in PAIRS:
        for seed in range(args.seeds):
            record = measure(
                loss,
                penalty,
                seed,
                args.n,
                args.p,
                args.iters,
                method=args.method,
                n_probes=args.probes,
            )
            records.append(record)
            print(json.dumps(record), flush=True)
    settings = {k: v for k, v in vars(args).items() if k != "json"}
    print(f"\n{settings}\n\n{summary(records)}")
    if args.json:
        args.json.write_text(json.dumps({"settings": settings, "records": records}, indent=1))


if __name__ == "__main__":
    main()
