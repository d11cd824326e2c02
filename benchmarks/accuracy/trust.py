"""Reliability of the estimates: audits against exact leave-one-out, coverage, warnings.

    python -m benchmarks.accuracy.trust                      # all four tables, 90 minutes
    python -m benchmarks.accuracy.trust --parts audit cost
    python -m benchmarks.accuracy.trust --parts coverage warnings --jobs 16

- **audit**: root mean square distance to exact leave-one-out over the path, raw and audited with
  random samples of 32 rows; and the coverage of ± 2 standard errors of the difference.
- **cost** of an audit, relative to a plain NumPy run of the same path and to `steinpath.run`.
- **coverage**: for five data-generating processes, the coverage of ± 2 standard errors for the true
  risk of an iterate and for the difference between the best iterate and another; how often the
  estimate is off by more than three standard errors; and how often this happens without a warning.
- **warnings**: how often runs on the paper's model warn, for all eight pairs.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import steinpath as sp
from benchmarks.common.challenges import CHALLENGES
from benchmarks.common.competitors import Problem, plain, rms
from benchmarks.common.measuring import in_parallel, machine, seconds
from steinpath.engine._batch import Batch
from steinpath.problem._scoring import resolve_test_loss
from steinpath.risk._audit import compare
from steinpath.risk._held_out import HeldOut, RowSample
from steinpath.risk._leave_out import leave_one_out
from steinpath.risk._options import RiskOptions
from steinpath.study._settings import ALGORITHM as PAPERS
from steinpath.study._settings import PAIRS as EIGHT

ROWS = 32  # audited rows
SAFE = sp.ChambollePock()
Record = dict[str, Any]


# ------------------------------------------------------------------------------------------------
# Audits against exact leave-one-out
# ------------------------------------------------------------------------------------------------


class Configuration(NamedTuple):
    """A path of the paper's model for which exact leave-one-out is affordable."""

    name: str
    loss: Any
    penalty: Any
    n: int
    p: int
    n_iter: int
    algorithm: Any = SAFE
    noise: str = "t2"
    design: str = "gaussian"
    row_scale: str | None = None


LAD, ROOT = sp.LAD(), sp.SquareRoot()
CONFIGURATIONS = (
    Configuration("LAD–lasso .5, n=200, p=100, 800 iterations", LAD, sp.Lasso(0.5), 200, 100, 800),
    Configuration("the same at the paper's steps", LAD, sp.Lasso(0.5), 200, 100, 800, PAPERS),
    Configuration(
        "LAD–lasso 1.5, n=100, p=200, 800, paper's steps", LAD, sp.Lasso(1.5), 100, 200, 800, PAPERS
    ),
    Configuration(
        "LAD–lasso .5, n=600, p=300, 100, paper's steps", LAD, sp.Lasso(0.5), 600, 300, 100, PAPERS
    ),
    Configuration("LAD–lasso .5, n=600, p=300, 800 iterations", LAD, sp.Lasso(0.5), 600, 300, 800),
    Configuration(
        "sqrt–ridge .5, n=600, p=300, 200", ROOT, sp.Ridge(0.5), 600, 300, 200, noise="normal"
    ),
    Configuration(
        "sqrt–ridge .5, t₄ rows, row-scaled, n=300, p=150, 200",
        *(ROOT, sp.Ridge(0.5), 300, 150, 200, SAFE, "normal", "t4", "norm"),
    ),
)


def distances(setting: Configuration, seed: int, samples: int) -> Record:
    """Audit one path with several samples of rows; return root mean squares over both."""
    rng = np.random.default_rng([seed, 7])
    model = sp.simulate.paper_model(setting.p, setting.noise, setting.design)
    X, y = model.sample(setting.n, rng=seed)
    path = sp.run(X, y, setting.loss, setting.penalty, setting.algorithm, setting.n_iter)
    risk = sp.estimate_risk(path, method="compressed", row_scale=setting.row_scale, rng=seed)
    (options,) = RiskOptions().resolved(Batch.of(path), [rng])
    criterion = resolve_test_loss(None, setting.loss)
    predictions = leave_one_out(path, design=path.design.astype(np.float32))
    losses = criterion(y, predictions)
    truth = losses.mean(axis=1)
    sample = RowSample.of(ROWS, population=setting.n)
    rows_alone, plain_difference, audited, claimed, covered = [], [], [], [], []
    for _ in range(samples):
        rows = rng.choice(setting.n, ROWS, replace=False)
        audit = compare(options, risk.estimate, HeldOut(rows, predictions[:, rows], sample))
        error = risk.values + audit.difference - truth
        rows_alone.append(losses[:, rows].mean(axis=1) - truth)
        plain_difference.append(error)
        audited.append(risk.values + audit.repair - truth)
        claimed.append(audit.error)
        covered.append(np.abs(error[1:]) <= 2 * audit.stderr[1:])
    return {
        "raw": rms(risk.values - truth),
        "rows": rms(np.array(rows_alone)),
        "difference": rms(np.array(plain_difference)),
        "audited": rms(np.array(audited)),
        "claimed": rms(np.array(claimed)),
        "covered": float(np.mean(covered)),
    }


def audit_table(reps: int, jobs: int) -> list[Record]:
    """Print the distances to leave-one-out."""
    columns = ("raw", "rows", "difference", "audited", "claimed")
    print(
        "\n| distance to leave-one-out | R̂ | 32 rows | difference | audited | claimed | ± 2 s.e. |"
    )
    print("|---|---|---|---|---|---|---|")
    table = []
    for setting in CONFIGURATIONS:
        calls = [(setting, seed, 20) for seed in range(reps)]
        records = in_parallel(distances, calls, jobs)
        row = {name: rms(np.array([r[name] for r in records])) for name in columns}
        row["covered"] = float(np.mean([r["covered"] for r in records]))
        cells = [f"{row[name]:.3f}" for name in columns] + [f"{row['covered']:.0%}"]
        print(f"| {setting.name} | {' | '.join(cells)} |", flush=True)
        table.append({"setting": setting.name, **row})
    return table


# ------------------------------------------------------------------------------------------------
# Cost
# ------------------------------------------------------------------------------------------------


def cost_table() -> list[Record]:
    """Print the cost of an audit of 32 rows."""
    print("\n| n, p, iterations | plain run | `run` | R̂ | audit | audit / `run` |")
    print("|---|---|---|---|---|---|")
    table = []
    for n, p, n_iter in ((200, 100, 800), (600, 300, 800), (2000, 1000, 299)):
        problem = Problem.draw("lad", "lasso", n, p, n_iter, seed=0)
        path = problem.path
        again = partial(sp.run, problem.X, problem.y, path.loss, path.penalty, path.algorithm)
        # a loose tolerance, so that neither draws additional probes
        estimate = partial(sp.estimate_risk, path, method="compressed", rng=0, probe_tol=1.0)
        times = [
            seconds(function, repeats=7)[0]
            for function in (
                partial(plain, problem),
                partial(again, n_iter),
                estimate,
                partial(estimate, audit=ROWS),
            )
        ]
        base, run, bare, audited = times
        row = {"plain": base, "run": run / base, "risk": bare / base}
        row |= {"audit": (audited - bare) / base, "audit_in_runs": (audited - bare) / run}
        cells = [f"{base:.3f} s", *(f"{row[k]:.1f}" for k in ("run", "risk", "audit"))]
        print(
            f"| {n}, {p}, {n_iter} | {' | '.join(cells)} | {row['audit_in_runs']:.1f} |", flush=True
        )
        table.append({"n": n, "p": p, "n_iter": n_iter, **row})
    return table


# ------------------------------------------------------------------------------------------------
# Coverage and warnings
# ------------------------------------------------------------------------------------------------

#: Loss, penalty and noise. Standard errors of mean absolute losses require a finite variance, so
#: Laplace noise replaces the paper's Student's t₂ for LAD.
PAIRS = {
    "LAD–lasso": (sp.LAD(), sp.Lasso(0.5), "laplace"),
    "LAD–ridge": (sp.LAD(), sp.Ridge(0.5), "laplace"),
    "sqrt–lasso": (sp.SquareRoot(), sp.Lasso(0.5), "normal"),
    "sqrt–ridge": (sp.SquareRoot(), sp.Ridge(0.5), "normal"),
}
ITERATIONS = 200
WAYS: dict[str, Record] = {
    "plain": {},
    "audited": {"audit": ROWS},
    "audited, row_scale='auto'": {"audit": ROWS, "row_scale": "auto"},
}


def replicate(
    challenge: str, pair: str, seed: int, ways: Iterable[str] = WAYS, n: int = 400, p: int = 200
) -> Record:
    """Return errors of the estimates of one run in standard errors, and warnings, by method."""
    loss, penalty, noise = PAIRS[pair]
    data = CHALLENGES[challenge](n, p, noise, np.random.default_rng([seed, 11]))
    path = sp.run(data.X, data.y, loss, penalty, PAPERS, ITERATIONS)
    times = np.unique(np.geomspace(1, path.n_iter, 12).astype(int))
    truth = data.risk(path.coef[times], loss)
    best = int(np.argmin(truth))
    record = {}
    for way in ways:
        risk = sp.estimate_risk(path, method="compressed", rng=seed, **WAYS[way])
        pairs = [risk.compare(int(t), int(times[best])) for t in np.delete(times, best)]
        differences, errors = np.array(pairs).T
        chosen = float(data.risk(path.coef[[risk.best_iter]], loss)[0])
        record[way] = {
            "single": (risk.values[times] - truth) / risk.stderr[times],
            "between": (differences - np.delete(truth - truth[best], best)) / errors,
            "chosen": (risk.values[risk.best_iter] - chosen) / risk.stderr[risk.best_iter],
            "warnings": [d.name for d in risk.diagnostics if d.warns],
        }
    return record


def summary(records: list[Record]) -> Record:
    """Summarise replications of one method: coverage, failures, warnings."""
    single = np.array([r["single"] for r in records])
    between = np.concatenate([r["between"] for r in records])
    worst = np.maximum(np.abs(single).max(axis=1), np.abs([r["chosen"] for r in records]))
    warned = np.array([bool(r["warnings"]) for r in records])
    return {
        "single": float(np.mean(np.abs(single) <= 2)),
        "chosen": float(np.mean(np.abs([r["chosen"] for r in records]) <= 2)),
        "between": float(np.mean(np.abs(between) <= 2)),
        "off by three": float(np.mean(worst > 3)),
        "without a warning": float(np.mean((worst > 3) & ~warned)),
        "warned": float(np.mean(warned)),
        "reasons": dict(Counter(name for r in records for name in r["warnings"])),
    }


def coverage_table(reps: int, jobs: int, kinds: Iterable[str]) -> list[Record]:
    """Print coverage and warnings on the five data sets."""
    columns = ("single", "chosen", "between", "off by three", "without a warning", "warned")
    print(f"\n| {reps} replications | | {' | '.join(columns)} |")
    print("|---|---" + "|---" * len(columns) + "|")
    table = []
    for challenge in kinds:
        for pair in PAIRS:
            calls = [(challenge, pair, seed) for seed in range(reps)]
            records = in_parallel(replicate, calls, jobs)
            for way in WAYS:
                row = summary([r[way] for r in records])
                cells = " | ".join(f"{row[name]:.1%}" for name in columns)
                print(f"| {challenge}, {pair} | {way} | {cells} |", flush=True)
                table.append({"challenge": challenge, "pair": pair, "way": way, **row})
    return table


def warns(loss: str, penalty: str, seed: int, n: int, p: int, n_iter: int) -> Record:
    """Return the warnings of one run on the paper's model, plain and audited."""
    path = Problem.draw(loss, penalty, n, p, n_iter, seed).path
    record = {}
    for way in ("plain", "audited"):
        risk = sp.estimate_risk(path, method="compressed", rng=seed, **WAYS[way])
        record[way] = [d.name for d in risk.diagnostics if d.warns]
    return record


def warnings_table(reps: int, jobs: int) -> list[Record]:
    """Print how often runs on the paper's model warn."""
    print(f"\n| the paper's model, {reps} runs | plain | audited | reasons |\n|---|---|---|---|")
    table = []
    for n, p, n_iter in ((500, 250, 100), (1000, 500, 200), (1000, 1200, 200)):
        for loss, penalty in EIGHT:
            calls = [(loss, penalty, seed, n, p, n_iter) for seed in range(reps)]
            records = in_parallel(warns, calls, jobs)
            row = {way: float(np.mean([bool(r[way]) for r in records])) for way in records[0]}
            reasons = dict(Counter(name for r in records for name in r["audited"]))
            print(
                f"| {loss}, {penalty}, n={n}, p={p}, {n_iter} | {row['plain']:.1%} "
                f"| {row['audited']:.1%} | {reasons or ''} |",
                flush=True,
            )
            table.append({"loss": loss, "penalty": penalty, "n": n, "p": p, **row})
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ("audit", "cost", "coverage", "warnings")
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--reps", type=int, help="replications; 10, 200 and 50 by default")
    parser.add_argument("--kinds", nargs="+", choices=list(CHALLENGES), default=list(CHALLENGES))
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    parser.add_argument("--json", type=Path, help="write the tables to this file")
    options = parser.parse_args()
    tables: Record = {"machine": machine()}
    if "cost" in options.parts:
        tables["cost"] = cost_table()
    if "audit" in options.parts:
        tables["audit"] = audit_table(options.reps or 10, options.jobs)
    if "coverage" in options.parts:
        tables["coverage"] = coverage_table(options.reps or 200, options.jobs, options.kinds)
    if "warnings" in options.parts:
        tables["warnings"] = warnings_table(options.reps or 50, options.jobs)
    if options.json:
        options.json.write_text(json.dumps(tables, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
