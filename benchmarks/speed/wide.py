"""Time and memory with many more columns than rows.

    python -m benchmarks.speed.wide --json benchmarks/results/wide.json

`LADLasso()` on 20 × 30,000 normal numbers, and ``steinpath fit`` on a CSV file of 30 × 100,000
counts from 0 to 2, like genotypes: seconds and peak memory, each in a separate process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.common.measuring import machine

ESTIMATOR = """
import sys, warnings
import numpy as np
import steinpath as sp
n, p = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
X = rng.standard_normal((n, p))
y = X[:, :3].sum(axis=1) + rng.standard_normal(n)
warnings.simplefilter("ignore")
sp.LADLasso(random_state=0).fit(X, y)
"""


def measured(command: list[str], folder: str) -> dict[str, float]:
    """Run a command; return its seconds and peak memory in GB."""
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command[:4]} failed")
    return {"seconds": time.perf_counter() - start, "GB": usage.ru_maxrss * 1024 / 1e9}


def write_counts(file: Path, n: int, p: int) -> None:
    """Write a table of counts, and a target that depends on the first three columns."""
    rng = np.random.default_rng(0)
    X = rng.binomial(2, 0.3, (n, p))
    y = X[:, :3].sum(axis=1) + rng.standard_normal(n)
    with file.open("w", encoding="utf-8") as out:
        out.write("y," + ",".join(f"x{j}" for j in range(p)) + "\n")
        for target, row in zip(y, X, strict=True):
            out.write(f"{target:.3f}," + ",".join(map(str, row)) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    result: dict[str, object] = {"machine": machine()}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", ESTIMATOR, "20", "30000"]
        result["LADLasso, 20 x 30,000"] = measured(command, folder)
        file = Path(folder) / "counts.csv"
        write_counts(file, 30, 100_000)
        result["MB of the file"] = file.stat().st_size / 1e6
        command = [sys.executable, "-m", "steinpath", "fit", file.name, "--target", "y"]
        result["steinpath fit, 30 x 100,000"] = measured(command, folder)
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
