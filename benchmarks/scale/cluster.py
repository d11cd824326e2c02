"""A design on two workers of a local Dask cluster, compared with NumPy and X in memory.

    python -m benchmarks.scale.cluster --json benchmarks/results/cluster.json

Measures seconds per iteration of a path (LAD–lasso) and of its risk estimate, alternating between
this process with all its threads, and two worker processes with one thread and half of the rows
each. The norm of X, computed once per design, is timed separately. Then a worker is killed
half-way, and the extra time is measured. X has 2 GB by default; blocks are drawn on the workers.

``--tune`` also times `sp.tune` and `Tuning.best_risk`. ``--rounds`` times single rounds of
communication: sums of p numbers, and of 100 p numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import steinpath as sp
from benchmarks.common.measuring import machine
from benchmarks.common.measuring import seconds as timed
from steinpath.design._dense import DenseDesign


def draw_block(seed: int, n: int, p: int) -> np.ndarray:
    """Draw a block of Gaussian rows."""
    return np.random.default_rng(seed).standard_normal((n, p))


class Contest:
    """Times paths and risks of the same data in memory and on the cluster."""

    def __init__(self, sides: dict[str, Any], y: np.ndarray, iters: int):
        self.sides, self.y, self.iters = sides, y, iters
        self.seconds: dict[str, dict[str, list[float]]] = {
            side: {"norm": [], "path": [], "risk": []} for side in sides
        }
        for side, seconds in self.seconds.items():
            took, _ = timed(partial(self.run, side, 1))
            seconds["norm"].append(took)
            print(f"{side:>8}: norm of X in {took:.1f} s", flush=True)

    def run(self, side: str, n_iter: int) -> Any:
        return sp.run(self.sides[side], self.y, sp.LAD(), sp.Lasso(0.1), n_iter=n_iter)

    def round(self) -> None:
        """Run everything once on each side, and compare the results."""
        found = {}
        for side, seconds in self.seconds.items():
            each, path = timed(partial(self.run, side, self.iters))
            whole, risk = timed(partial(sp.estimate_risk, path, method="compressed", rng=0))
            each, whole = each / self.iters, whole / self.iters
            seconds["path"].append(each)
            seconds["risk"].append(whole)
            found[side] = path.coef, risk.values
            print(
                f"{side:>8}: {1e3 * each:.0f} ms per iteration of the path, "
                f"{1e3 * whole:.0f} of the risk ({risk.n_probes} probes)",
                flush=True,
            )
            del path, risk
        for name, one, other in zip(("coef", "risk"), *found.values(), strict=True):
            print(f"          {name} differ by {np.abs(one - other).max():.1e}")

    def ratio(self, what: str) -> float:
        """Return the time on the cluster relative to memory."""
        here, there = (median(seconds[what]) for seconds in self.seconds.values())
        return there / here


def killed(contest: Contest, client: Any, design: Any) -> dict[str, float]:
    """Time a path with and without killing a worker half-way."""
    undisturbed, path = timed(lambda: contest.run("cluster", contest.iters))
    [address] = client.who_has(design.blocks[:1]).popitem()[1][:1]
    pid = client.run(os.getpid, workers=[address])[address]
    timer = threading.Timer(undisturbed / 2, os.kill, (pid, signal.SIGKILL))
    timer.start()
    disturbed, again = timed(lambda: contest.run("cluster", contest.iters))
    timer.join()
    assert np.allclose(path.coef, again.coef, rtol=0, atol=1e-9)
    lost = disturbed - undisturbed
    print(f"a run of {undisturbed:.1f} s takes {lost:.1f} s more if a worker is killed half-way")
    return {"undisturbed": undisturbed, "killed": disturbed}


def tuned(sides: dict[str, Any], y: np.ndarray, lams: int, n_iter: int) -> dict[str, Any]:
    """Time `tune` and `best_risk` in memory and on the cluster."""
    seconds: dict[str, Any] = {}
    found = {}
    for side, design in sides.items():
        how: dict[str, Any] = {"lams": lams, "n_iter": n_iter, "fit_intercept": True, "rng": 0}
        choosing, tuning = timed(partial(sp.tune, design, y, sp.LAD(), sp.Lasso, **how))
        counting, value = timed(partial(getattr, tuning, "best_risk"))
        seconds[side] = {"tune": choosing, "best_risk": counting}
        found[side] = tuning.best, tuning.coef, value
        print(
            f"{side:>8}: {lams} penalties with {n_iter} iterations in {choosing:.1f} s, best_risk "
            f"({tuning.chosen.method}) in {counting:.1f} s; best {tuning.best}",
            flush=True,
        )
    (first, coef, value), (second, other, same) = found.values()
    assert first == second
    print(f"          coef differ by {np.abs(coef - other).max():.1e}, risk by {value - same:.1e}")
    here, there = (sum(each.values()) for each in seconds.values())
    print(f"tune: {there / here:.2f} times as long as in memory")
    return seconds | {"ratio": there / here}


def add_up(design: Any, size: int, count: int) -> None:
    """Compute successive sums over all rows."""
    for _ in range(count):
        design.over_rows(np.zeros(size))


def rounds(design: Any, sizes: list[int], count: int = 100) -> dict[int, float]:
    """Return milliseconds per round, by the number of values summed."""
    found = {}
    for size in sizes:
        design.on_blocks(add_up, design, size, 5)
        took, _ = timed(partial(design.on_blocks, add_up, design, size, count))
        found[size] = 1e3 * took / count
        print(f"a round with {size} numbers takes {found[size]:.1f} ms", flush=True)
    return found


def main() -> None:
    from dask import config
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--n", type=int, default=50_000)
    parser.add_argument("--p", type=int, default=5_000)
    parser.add_argument("--iters", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tune", action="store_true", help="time sp.tune as well")
    parser.add_argument("--lams", type=int, default=20, help="number of penalties for --tune")
    parser.add_argument(
        "--tune-iters", type=int, default=50, help="number of iterations for --tune"
    )
    parser.add_argument("--rounds", action="store_true", help="time single rounds of communication")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    n, p, workers = options.n, options.p, options.workers
    sizes = [len(part) for part in np.array_split(np.arange(n), workers)]
    loaders = [partial(draw_block, seed, size, p) for seed, size in enumerate(sizes)]
    start = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    patience = {"distributed.deploy.lost-worker-timeout": "1 hour"}  # for the killed worker
    with config.set(patience), LocalCluster(**start) as cluster, Client(cluster) as client:
        loading, design = timed(lambda: sp.distributed.from_delayed(loaders))
        print(f"{design!r}, loaded in {loading:.1f} s", flush=True)
        X = np.empty((n, p))
        for first, size, loader in zip(np.cumsum(sizes) - sizes, sizes, loaders, strict=True):
            X[first : first + size] = loader()
        noise = np.random.default_rng(workers).standard_t(2, size=n)
        sides, y = {"memory": X, "cluster": design}, X[:, :10].sum(axis=1) + noise
        more: dict[str, Any] = {}
        if options.rounds:
            more["rounds"] = rounds(design, [p, 100 * p])
        if options.tune:
            more["tune"] = tuned(sides, y, options.lams, options.tune_iters)
        contest = Contest(sides | {"memory": DenseDesign(X)}, y, options.iters)
        for _ in range(options.repeats):
            contest.round()
        ratios = {what: contest.ratio(what) for what in ("norm", "path", "risk")}
        print(
            ", ".join(
                f"{what}: {ratio:.2f} times as long as in memory" for what, ratio in ratios.items()
            )
        )
        lost = killed(contest, client, design)
    if options.json:
        result = {"machine": machine(), "n": n, "p": p, "iters": options.iters, "workers": workers}
        result |= {"seconds": contest.seconds, "ratios": ratios, "loading": loading, "kill": lost}
        result |= more
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
