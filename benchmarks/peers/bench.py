r"""Cost and accuracy of estimating the risk of every iterate, compared with other methods.

    python -m benchmarks.peers.bench         # small problems, two minutes
    python -m benchmarks.peers.bench --full  # the paper's sizes, an hour
    python -m benchmarks.peers.bench --full --json benchmarks/results/bench.json
    python -m benchmarks.peers.bench --from benchmarks/results/bench-peers.json \
        --page docs/results/benchmarks.md

Prints eight tables of accuracy and time. Times are multiples of a plain NumPy run of the same size,
with 300 iterations unless stated otherwise:

- **peers**: for LAD and square-root loss with lasso and ridge on the paper's model, the time of
  each method (excluding the path itself), the root mean square error over the path relative to the
  true risk, the regret of the selected iteration, and the peak memory beyond the path as a multiple
  of X. For LAD, the loss of the zero prediction is subtracted, because the mean of absolute
  Student-t₂ noise is common to all methods and would dominate all differences.
- **solvers** of the same objectives: time and distance to the lowest objective (``solvers.py``).
- **converged**: risk of a converged lasso, compared with RandALO and cross-validation
  (``converged.py``).
- **tune** with the risk of the selected model, compared with one exact fit (``tuned.py``).
- **intervals** for predictions, compared with MAPIE: coverage and width (``tuned.py``).
- **probe noise**: Monte Carlo error of the default, as the root mean square distance over the path
  to an estimate with very many probes. (For square-root–ridge, which needs no probes, this is the
  small bias of omitting rank-one terms.)
- **stopping** online: iterations used, regret, and time relative to the full run with its risk.
- **scaling** with the number of iterations and with the size of X.

Packages that are not installed are skipped with a message.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import steinpath as sp
from benchmarks.common.competitors import CHEAP, EXPENSIVE, PAIRS, Problem, plain, rms
from benchmarks.common.measuring import Record, machine, peak_memory, seconds, versions
from benchmarks.common.pages import filled
from benchmarks.peers.converged import converged, converged_table
from benchmarks.peers.solvers import SOLVERS, solve_all, solvers_table
from benchmarks.peers.tuned import intervals, intervals_table, tuned_beside_fit, tuned_table


def peers(n: int, p: int, n_iter: int, n_sets: int, expensive: bool) -> list[Record]:
    """Run all methods on several data sets of each pair."""
    records = []
    for loss, penalty in PAIRS:
        for seed in range(n_sets):
            problem = Problem.draw(loss, penalty, n, p, n_iter, seed)
            truth = problem.truth()
            methods = {**CHEAP, **EXPENSIVE} if expensive and seed == 0 else CHEAP
            base, result = seconds(partial(plain, problem), repeats=5)
            assert np.allclose(result["last"], problem.path.coef[-1], atol=1e-8)
            for method in methods.values():
                call = partial(method, problem)
                elapsed, curves = seconds(call)
                memory = peak_memory(call) / problem.X.nbytes if seed == 0 else None
                for name, curve in curves.items():
                    records.append(
                        {
                            "loss": loss,
                            "penalty": penalty,
                            "p": p,
                            "seed": seed,
                            "method": name,
                            "ratio": elapsed / base,
                            "memory": memory,
                            **_closeness(problem, curve, truth),
                        }
                    )
            print(f"  {loss}–{penalty}, p={p}, data set {seed}: done", flush=True)
    return records


def _closeness(problem: Problem, curve: np.ndarray, truth: np.ndarray) -> Record:
    error = curve - truth
    if problem.loss == "lad":
        error = error - (curve[0] - truth[0])
    regret = float(truth[int(np.argmin(curve))] / truth.min() - 1)
    return {"error": rms(error), "end_bias": float(error[-1]), "regret": regret}


def peers_table(records: list[Record]) -> str:
    """Return means over pairs and data sets, one line per method."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[record["method"]].append(record)
    lines = [
        "| | time, plain runs | error | regret, mean | worst | memory / X | data sets |",
        "|---|---|---|---|---|---|---|",
    ]
    for method, rows in groups.items():
        memory = max(r["memory"] for r in rows if r["memory"] is not None)
        regrets = [r["regret"] for r in rows]
        lines.append(
            f"| {method} | {np.mean([r['ratio'] for r in rows]):.1f} "
            f"| {np.mean([r['error'] for r in rows]):.3f} | {np.mean(regrets):.1%} "
            f"| {max(regrets):.1%} | {memory:.2f} | {len(rows)} |"
        )
    return "\n".join(lines)


def pairs_table(records: list[Record]) -> str:
    """Return time and error of each method by pair."""
    methods = list(dict.fromkeys(r["method"] for r in records))
    head = " | ".join(f"{a}–{b}" for a, b in PAIRS)
    lines = [f"| time; error | {head} |", "|---|" + "---|" * len(PAIRS)]
    for method in methods:
        cells = []
        for pair in PAIRS:
            rows = [r for r in records if (r["loss"], r["penalty"], r["method"]) == (*pair, method)]
            ratio, error = (np.mean([r[key] for r in rows]) for key in ("ratio", "error"))
            cells.append(f"{ratio:.1f}; {error:.3f}")
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def probe_noise(n: int, p: int, n_iter: int, draws: int, many: int) -> list[Record]:
    """Measure Monte Carlo error and cost of the default against a reference with many probes."""
    records = []
    for loss, penalty in PAIRS:
        problem = Problem.draw(loss, penalty, n, p, n_iter, seed=0)
        path = problem.path
        reference = sp.estimate_risk(
            path, method="compressed", n_probes=many, probe_tol=100.0, rng=10**6
        )
        base, _ = seconds(partial(plain, problem), repeats=9)
        elapsed, errors, claimed = [], [], []
        for seed in range(draws):
            took, risk = seconds(partial(sp.estimate_risk, path, rng=seed))
            elapsed.append(took)
            errors.append(rms(risk.values - reference.values))
            claimed.append(rms(risk.probe_stderr))
        records.append(
            {
                "loss": loss,
                "penalty": penalty,
                "method": risk.method,
                "probes": risk.n_probes,
                "ratio": float(np.median(elapsed)) / base,
                "noise": rms(np.asarray(errors)),
                "claimed": rms(np.asarray(claimed)),
                "noise_of_reference": rms(reference.probe_stderr),
            }
        )
    return records


def noise_table(records: list[Record]) -> str:
    lines = [
        "| | method | probes | time, plain runs | Monte Carlo error | as reported |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['loss']}–{r['penalty']} | {r['method']} | {r['probes']} | {r['ratio']:.2f} "
        f"| {r['noise']:.4f} | {r['claimed']:.4f} |"
        for r in records
    ]
    return "\n".join(lines)


def stopping(n: int, p: int, n_iter: int, n_sets: int) -> list[Record]:
    """Run with early stopping on the estimated risk, and the whole path for comparison."""
    records = []
    for loss, penalty in PAIRS:
        for seed in range(n_sets):
            problem = Problem.draw(loss, penalty, n, p, n_iter, seed)
            full, truth = problem.path, problem.truth()
            run = partial(
                sp.run, problem.X, problem.y, full.loss, full.penalty, full.algorithm, n_iter
            )
            run_seconds, path = seconds(run)
            risk_seconds, risk = seconds(partial(sp.estimate_risk, path, rng=0))
            elapsed, path = seconds(partial(run, stop=sp.StopOnRisk(rng=0)))
            best = {"full": risk.best_iter, "stopped": path.risk.best_iter}
            records.append(
                {
                    "loss": loss,
                    "penalty": penalty,
                    "seed": seed,
                    "n_iter": path.n_iter,
                    "share": elapsed / (run_seconds + risk_seconds),
                    "best": best,
                    "regret": {k: float(truth[t] / truth.min() - 1) for k, t in best.items()},
                }
            )
    return records


def stopping_table(records: list[Record]) -> str:
    lines = [
        "| | iterations used | worst regret, full run | worst regret, stopped | fraction of time |",
        "|---|---|---|---|---|",
    ]
    for pair in PAIRS:
        rows = [r for r in records if (r["loss"], r["penalty"]) == pair]
        used = sorted({r["n_iter"] for r in rows})
        worst = {k: max(r["regret"][k] for r in rows) for k in ("full", "stopped")}
        lines.append(
            f"| {pair[0]}–{pair[1]} | {', '.join(map(str, used))} | {worst['full']:.1%} "
            f"| {worst['stopped']:.1%} | {np.mean([r['share'] for r in rows]):.0%} |"
        )
    return "\n".join(lines)


def scaling(settings: list[tuple[int, int, int]]) -> list[Record]:
    """Time the default at several sizes."""
    records = []
    for n, p, n_iter in settings:
        for loss, penalty in PAIRS:
            problem = Problem.draw(loss, penalty, n, p, n_iter, seed=0)
            base, _ = seconds(partial(plain, problem), repeats=3)
            call = partial(sp.estimate_risk, problem.path, rng=0)
            elapsed, risk = seconds(call, repeats=3)
            memory = peak_memory(call) / problem.X.nbytes
            records.append(
                {
                    "n": n,
                    "p": p,
                    "n_iter": n_iter,
                    "loss": loss,
                    "penalty": penalty,
                    "plain_seconds": base,
                    "seconds": elapsed,
                    "method": risk.method,
                    "probes": risk.n_probes,
                    "memory": memory,
                }
            )
        print(f"  n={n}, p={p}, {n_iter} iterations: done", flush=True)
    return records


def scaling_table(records: list[Record]) -> str:
    head = " | ".join(f"{a}–{b}" for a, b in PAIRS)
    lines = [f"| n × p, iterations | {head} |", "|---|" + "---|" * len(PAIRS)]
    for key in dict.fromkeys((r["n"], r["p"], r["n_iter"]) for r in records):
        rows = [r for r in records if (r["n"], r["p"], r["n_iter"]) == key]
        cells = (
            f"{r['seconds']:.2f} s, {r['seconds'] / r['plain_seconds']:.1f} runs, "
            f"{r['memory']:.1f} X"
            for r in rows
        )
        lines.append(f"| {key[0]} × {key[1]}, {key[2]} | {' | '.join(cells)} |")
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------
# Parts
# ------------------------------------------------------------------------------------------------


@cache
def plain_seconds(n: int, p: int) -> float:
    """Time the reference: 300 iterations of LAD–lasso in plain NumPy."""
    problem = Problem.draw("lad", "lasso", n, p, 300, seed=0)
    return seconds(partial(plain, problem), repeats=5)[0]


def solvers_at(sizes: list[tuple[int, int]]) -> list[Record]:
    return [
        record
        for n, p in sizes
        for problem in SOLVERS
        for record in solve_all(problem, n, p, 0, plain_seconds(n, p))
    ]


def converged_at(sizes: list[tuple[int, int, int]]) -> list[Record]:
    return [record for n, p, sets in sizes for record in converged(n, p, sets, plain_seconds(n, p))]


def tune_at(n: int, p: int, n_sets: int) -> list[Record]:
    return tuned_beside_fit(n, p, n_sets, plain_seconds(n, p))


#: Functions that measure and print each part; their arguments are in the sizes below.
PARTS: dict[str, tuple[Callable[..., list[Record]], Callable[[list[Record]], str]]] = {
    "solvers": (solvers_at, solvers_table),
    "converged": (converged_at, converged_table),
    "tune": (tune_at, tuned_table),
    "intervals": (intervals, intervals_table),
    "noise": (probe_noise, noise_table),
    "stopping": (stopping, stopping_table),
    "scaling": (scaling, scaling_table),
}
QUICK: dict[str, Any] = {
    "peers": [(600, 300, 100, 2), (600, 720, 100, 2)],
    "solvers": ([(400, 200)],),
    "converged": ([(600, 300, 8), (600, 720, 8)],),
    "tune": (1000, 500, 1),
    "intervals": ([("lad", 100, 50, 2), ("square_root", 100, 50, 4)],),
    "noise": (600, 300, 100, 4, 200),
    "stopping": (600, 300, 200, 2),
    "scaling": ([(600, 300, 50), (600, 300, 200), (1200, 600, 100)],),
}
FULL: dict[str, Any] = {
    "peers": [(2000, 1000, 299, 8), (2000, 2400, 299, 8)],
    "solvers": ([(400, 200), (1000, 500)],),
    "converged": ([(2000, 1000, 20), (2000, 2400, 20)],),
    "tune": (1000, 500, 5),
    "intervals": ([("lad", 120, 60, 4), ("square_root", 400, 200, 8)],),
    "noise": (2000, 1000, 299, 12, 1200),
    "stopping": (2000, 1000, 299, 8),
    "scaling": (
        [
            *((2000, 1000, n_iter) for n_iter in (100, 200, 400, 800, 1600)),
            *((n, n // 2, 299) for n in (500, 1000, 5000)),
        ],
    ),
}
#: Tables of docs/results/benchmarks.md that are generated from results.
IN_PAGES: dict[str, Callable[[Record], str]] = {
    "solvers": lambda found: solvers_table(found["solvers"]),
    "converged": lambda found: converged_table(found["converged"]),
    "tune": lambda found: tuned_table(found["tune"]),
    "intervals": lambda found: intervals_table(found["intervals"]),
}
PACKAGES = (
    "steinpath",
    "scikit-learn",
    "scipy",
    "skglm",
    "rehline",
    "ortools",
    "clarabel",
    "adelie",
    "randalo",
    "mapie",
)


def show(found: Record, page: Path | None) -> None:
    """Print the tables of stored results, or insert them into a page."""
    if page is None:
        print(
            "\n\n".join(table(found[name]) for name, (_, table) in PARTS.items() if name in found)
        )
    else:
        page.write_text(filled(page.read_text("utf-8"), IN_PAGES, found), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="use the paper's sizes")
    names = ["peers", *PARTS]
    parser.add_argument(
        "--parts", nargs="+", choices=names, default=names, help="tables to produce"
    )
    parser.add_argument("--p", type=int, help="run the peers only with this p")
    parser.add_argument("--json", type=Path, help="write all records to this file")
    parser.add_argument("--from", type=Path, dest="source", help="show stored results, run nothing")
    parser.add_argument("--page", type=Path, help="with --from: page whose tables to update")
    args = parser.parse_args()
    if args.page and not args.source:
        parser.error("--page requires --from")
    if args.source:
        show(json.loads(args.source.read_text(encoding="utf-8")), args.page)
        return
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
    sizes = FULL if args.full else QUICK
    found: Record = {"machine": machine(), "versions": versions(PACKAGES), "sizes": sizes}
    print(found["machine"])

    def keep(name: str, records: list[Record]) -> None:
        found[name] = found.get(name, []) + records
        if args.json:
            args.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")

    chosen = [size for size in sizes["peers"] if args.p in (None, size[1])]
    for n, p, n_iter, n_sets in chosen if "peers" in args.parts else []:
        records = peers(n, p, n_iter, n_sets, expensive=p < n)
        print(f"\n## peers, n={n}, p={p}, {n_iter} iterations\n\n{peers_table(records)}")
        print(f"\n{pairs_table(records)}\n", flush=True)
        keep("peers", records)
    for name, (measure, table) in PARTS.items():
        if name in args.parts:
            records = measure(*sizes[name])
            print(f"\n## {name}\n\n{table(records)}\n", flush=True)
            keep(name, records)


if __name__ == "__main__":
    main()
