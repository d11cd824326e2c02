"""Cost of the command and of the import: seconds, memory and size of the report.

    python -m benchmarks.speed.command --json benchmarks/results/command.json

Each time is that of a separate process, including start, end, and reading and writing of files:
``steinpath fit`` (LAD–lasso) on simulated CSV files, ``compare`` (six models), and, alternating,
``import steinpath`` and its additional time after ``import sklearn.linear_model``.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import steinpath as sp
from benchmarks.common.measuring import machine, seconds

_FILES = ((500, 20), (2_000, 500), (100_000, 20))


def write_csv(file: Path, n: int, p: int) -> None:
    """Write the paper's model, with heavy-tailed noise, to a file."""
    X, y = sp.simulate.paper_model(p, noise="t2").sample(n, rng=0)
    names = [f"x{j}" for j in range(p)]
    table = np.column_stack([X, y])
    np.savetxt(file, table, "%.6g", ",", header=",".join([*names, "y"]), comments="")


def command(folder: Path, name: str, file: Path, *options: str) -> dict[str, Any]:
    """Run the command on a file; return its seconds, memory and sizes."""
    call = [sys.executable, "-m", "steinpath", name, str(file), "--target", "y", "--json", *options]
    took, done = seconds(
        lambda: subprocess.run(call, cwd=folder, capture_output=True, check=True, text=True)
    )
    found = json.loads(done.stdout)
    report = folder / found["files"]["report"]
    return {
        "command": " ".join([name, *options]),
        "seconds": took,
        "risk": found["risk"],
        "report_kb": report.stat().st_size / 1e3,
        "peak_gib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20,
    }


def import_times(repeats: int) -> dict[str, float]:
    """Return median seconds of imports in a fresh interpreter."""
    code = "import time; s = time.perf_counter(); import {}; print(time.perf_counter() - s)"
    found: dict[str, list[float]] = {"sklearn.linear_model": [], "steinpath": [], "added": []}
    both = "sklearn.linear_model; s = time.perf_counter(); import steinpath"
    for _ in range(repeats):
        for name, module in zip(found, ("sklearn.linear_model", "steinpath", both), strict=True):
            call = [sys.executable, "-c", code.format(module)]
            done = subprocess.run(call, capture_output=True, check=True, text=True)
            found[name].append(float(done.stdout))
    return {name: median(values) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=11, help="repetitions of each import")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    imports = import_times(options.repeats)
    print("import:", ", ".join(f"{name} {value:.2f} s" for name, value in imports.items()))
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for n, p in _FILES:  # largest last: peak memory is over all children so far
            file = folder / f"n{n}.csv"
            write_csv(file, n, p)
            calls: list[tuple[str, ...]] = [("fit",), ("fit", "--no-plots")]
            calls += [("compare", "--no-plots")] if n < 10_000 else []
            for call in calls:
                row = {"n": n, "p": p, **command(folder, call[0], file, *call[1:])}
                rows.append(row)
                print(
                    f"n={n}, p={p}, {row['command']}: {row['seconds']:.1f} s, "
                    f"{row['peak_gib']:.2f} GiB, report of {row['report_kb']:.0f} kB"
                )
    if options.json:
        found = {"machine": machine(), "imports": imports, "commands": rows}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
