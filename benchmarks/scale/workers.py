"""Speed-up by a second worker of a local Dask cluster, and reproducibility of the results.

    python -m benchmarks.scale.workers --json benchmarks/results/workers.json

Runs sixteen replications of the study ``risk`` (eight pairs, two seeds) alternately with one worker
and with two, each time in a new folder. Reports seconds including the start of the cluster, their
ratio, and whether all results are identical bit for bit to those of a single process.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.common.measuring import machine
from steinpath.study import STUDIES, Sizes, run_study
from steinpath.study._base import Results
from steinpath.study._store import Store


def timed(sizes: Sizes, cluster: str | None) -> tuple[float, Results]:
    """Run the study in a new folder; return its seconds and replications."""
    study = STUDIES["risk"]
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        report = run_study(study, folder, sizes, cluster=cluster)
        seconds = time.perf_counter() - start
        assert report.finished == report.total, report.failures
        store = Store(folder)
        return seconds, {s: store.read(s, range(sizes.reps))[0] for s in study.plan(sizes)}


def same(one: Results, other: Results) -> bool:
    """Return whether the results of two runs are identical bit for bit."""
    return all(
        np.array_equal(one[setting][name], other[setting][name])
        for setting in one
        for name in one[setting]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--p", type=int, default=1000)
    parser.add_argument("--iters", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    sizes = Sizes(reps=2, n=(options.n,), p=(options.p,), iters=options.iters)
    alone, reference = timed(sizes, None)
    print(f"one process: {alone:.1f} s")
    times: dict[str, list[float]] = {"1": [], "2": []}
    for _ in range(options.repeats):
        for workers, seconds in times.items():
            took, found = timed(sizes, workers)
            seconds.append(took)
            equal = "identical" if same(reference, found) else "DIFFERENT RESULTS"
            print(f"{workers} worker(s): {took:.1f} s, {equal}", flush=True)
            assert same(reference, found)
    ratio = median(times["1"]) / median(times["2"])
    print(f"speed-up by a second worker: {ratio:.2f}")
    if options.json:
        result = {"machine": machine(), "n": options.n, "p": options.p, "iters": options.iters}
        result |= {"one process": alone, "seconds": times, "ratio": ratio}
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
