"""Designs that do not fit into memory as dense arrays: sparse, and memory-mapped.

    python -m benchmarks.scale.storage --json benchmarks/results/scale.json
    python -m benchmarks.scale.storage memmap --n 5000 --p 1000 --iters 5       # 40 MB

Two parts, each in a separate process to measure its peak memory:

- **sparse**: simulated tf-idf rows of texts. Seconds per iteration of the path (including setup),
  and the time of the risk of every iterate relative to the path.
- **memmap**: a file of random numbers. Bytes per second of the passes through the file for the
  norm, the path and its risk, compared with plain reading in the same blocks before and after. The
  risk takes few passes, because it copies the active part of X once every few iterations.

The exit status is nonzero if peak memory exceeds 4 GiB (sparse) or 1.5 GiB (memmap).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse

import steinpath as sp
from benchmarks.common.measuring import machine, seconds
from steinpath.design._memmap import BlockDesign

Record = dict[str, Any]

PAIRS = {"LAD–lasso": sp.LAD(), "square-root–lasso": sp.SquareRoot()}
SIZES = {"sparse": (20_000, 50_000, 300), "memmap": (50_000, 10_000, 20)}
LIMITS = {"sparse": 4096, "memmap": 1536}  # MiB
# Relative to the smallest penalty with all coefficients zero.
SHARE = 0.1


def peak() -> float:
    """Return the peak memory of this process in MiB.

    `resource.getrusage` is not used, because it starts from the peak of the parent process.
    """
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return int(found["VmHWM"].split()[0]) / 1024


# ------------------------------------------------------------------------------------------------
# Sparse
# ------------------------------------------------------------------------------------------------


def texts(n: int, p: int, density: float, seed: int = 0) -> sparse.csr_array:
    """Draw rows of unit norm with words of very different frequencies, weighted by tf-idf."""
    rng = np.random.default_rng(seed)
    frequency = 1 / (np.arange(p) + p * density)
    words = rng.choice(p, size=(n, round(density * p)), p=frequency / frequency.sum())
    rows = np.repeat(np.arange(n), words.shape[1])
    counts = sparse.coo_array((np.ones(rows.size), (rows, words.ravel())), shape=(n, p)).tocsr()
    counts.sum_duplicates()
    documents = np.bincount(counts.indices, minlength=p)
    weight = np.log(n / np.maximum(documents, 1)) + 1
    counts.data = np.log1p(counts.data) * weight[counts.indices] * rng.lognormal(0, 0.5, counts.nnz)
    lengths = np.sqrt(counts.multiply(counts).sum(axis=1))
    return sparse.csr_array(sparse.diags_array(1 / lengths) @ counts)


def measure_sparse(n: int, p: int, n_iter: int, density: float, repeats: int) -> Record:
    X = texts(n, p, density)
    rng = np.random.default_rng(1)
    beta = np.zeros(p)
    beta[rng.permutation(p // 10)[: p // 100]] = 10 * rng.standard_normal(p // 100)  # no rare words
    y = X @ beta + rng.standard_t(2, n)
    result: Record = {"density": X.nnz / (n * p), "MiB of X": _bytes(X) / 2**20, "pairs": {}}
    for name, loss in PAIRS.items():
        lam = SHARE * sp.lam_max(X, y, loss, sp.Lasso(1.0), fit_intercept=True)

        def run(loss: Any = loss, lam: float = lam) -> Any:
            return sp.run(X, y, loss, sp.Lasso(lam), n_iter=n_iter, fit_intercept=True)

        of_path, path = seconds(run, repeats)

        def estimate(path: Any = path) -> Any:
            return sp.estimate_risk(path, row_scale="norm", rng=0)

        of_risk, risk = seconds(estimate, repeats)
        result["pairs"][name] = {
            "seconds per iteration": of_path / n_iter,
            "risk / path": of_risk / of_path,
            "active columns": int(np.count_nonzero(path.coef[-1])),
            "risk": [float(risk.values[0]), float(risk.values.min())],
        }
    return result | {"peak MiB": peak()}


def _bytes(X: sparse.csr_array) -> int:
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


# ------------------------------------------------------------------------------------------------
# Memory-mapped file
# ------------------------------------------------------------------------------------------------


class Counted(BlockDesign):
    """A design that counts passes through the file."""

    passes = 0

    def blocks(self, backward: bool = False) -> Iterator[tuple[slice, np.ndarray]]:
        self.passes += 1
        return super().blocks(backward)


def write(folder: Path, n: int, p: int) -> None:
    """Write a random matrix, and responses that depend on ten columns."""
    rng = np.random.default_rng(0)
    beta = np.zeros(p)
    beta[:10] = 0.5
    y = []
    with open(folder / "X", "wb") as file:
        for first in range(0, n, 1000):
            rows = rng.standard_normal((min(1000, n - first), p))
            y.append(rows @ beta + rng.standard_t(2, len(rows)))
            file.write(rows.data)
    np.save(folder / "y.npy", np.concatenate(y))


def measure_memmap(folder: Path, n: int, p: int, n_iter: int) -> Record:
    X = np.memmap(folder / "X", dtype=float, mode="r", shape=(n, p))
    y, size = np.load(folder / "y.npy"), X.nbytes
    stages: Record = {}

    def stage(name: str, work: Callable[[], Any]) -> Any:
        before, start = design.passes, time.perf_counter()
        result = work()
        took, passes = time.perf_counter() - start, design.passes - before
        rate = passes * size / took / 1e9
        stages[name] = {"seconds": took, "passes": passes, "GB per second": rate}
        return result

    def read() -> None:
        for _ in design.blocks():
            pass

    design = Counted(X)
    lam = SHARE * sp.lam_max(design, y, sp.LAD(), sp.Lasso(1.0))
    stage("reading before", read)
    stage("norm", design.norm_bounds)
    path = stage("path", lambda: sp.run(design, y, sp.LAD(), sp.Lasso(lam), n_iter=n_iter))
    risk = stage("risk", lambda: sp.estimate_risk(path, row_scale="norm", rng=0))
    stage("reading after", read)
    reading = [stages[f"reading {when}"]["GB per second"] for when in ("before", "after")]
    return {
        "GB of X": size / 1e9,
        "stages": stages,
        "path / reading": stages["path"]["GB per second"] / np.mean(reading),
        "risk / path": stages["risk"]["seconds"] / stages["path"]["seconds"],
        "active columns": int(np.count_nonzero(path.coef[-1])),
        "risk": [float(risk.values[0]), float(risk.values.min())],
        "peak MiB": peak(),
    }


# ------------------------------------------------------------------------------------------------
# Both
# ------------------------------------------------------------------------------------------------


def measured_alone(part: str, options: argparse.Namespace) -> Record:
    """Measure a part in a separate process."""
    n, p, n_iter = (
        given or default
        for given, default in zip((options.n, options.p, options.iters), SIZES[part], strict=True)
    )
    sizes = ["--n", str(n), "--p", str(p), "--iters", str(n_iter)]
    more = ["--density", str(options.density), "--repeats", str(options.repeats)]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if part == "memmap":
            write(Path(folder), n, p)
        inside = [part, "--inside", folder, *sizes, *more]
        command = [sys.executable, "-m", "benchmarks.scale.storage", *inside]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    found: Record = json.loads(done.stdout)
    return {"n": n, "p": p, "iters": n_iter} | found


def show(console: Console, part: str, result: Record) -> None:
    n, p, n_iter = (result[name] for name in ("n", "p", "iters"))
    title = f"{part}: n={n:,}, p={p:,}, {n_iter} iterations"
    if part == "sparse":
        title += f", density {result['density']:.2%}, {result['MiB of X']:.0f} MiB"
        table = Table("", "ms per iteration", "risk / path", "active columns", title=title)
        for name, of in result["pairs"].items():
            each = f"{1e3 * of['seconds per iteration']:.1f}"
            table.add_row(name, each, f"{of['risk / path']:.2f}", f"{of['active columns']}")
    else:
        table = Table("", "seconds", "passes", "GB/s", title=f"{title}, {result['GB of X']:.3g} GB")
        for name, of in result["stages"].items():
            cells = f"{of['seconds']:.2f}", f"{of['passes']}", f"{of['GB per second']:.2f}"
            table.add_row(name, *cells)
    console.print(table)
    if part == "memmap":
        console.print(
            f"path at {result['path / reading']:.0%} of the reading rate; "
            f"risk / path: {result['risk / path']:.2f}"
        )
    console.print(f"peak memory: {result['peak MiB']:.0f} of {LIMITS[part]} MiB\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="parts to run: sparse, memmap; both by default")
    parser.add_argument("--n", type=int, help="number of rows; each part has its own default")
    parser.add_argument("--p", type=int, help="number of columns; each part has its own default")
    parser.add_argument(
        "--iters", type=int, help="number of iterations; each part has its own default"
    )
    parser.add_argument("--density", type=float, default=0.002, help="density of the sparse matrix")
    parser.add_argument(
        "--repeats", type=int, default=1, help="repetitions of each timing of the sparse part"
    )
    parser.add_argument("--folder", help="folder for the temporary file")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument(
        "--inside", type=Path, help=argparse.SUPPRESS
    )  # used by the separate process of a part
    options = parser.parse_args()
    parts = options.parts or list(SIZES)
    if unknown := set(parts) - set(SIZES):
        parser.error(f"unknown part {unknown.pop()!r}; choose from {', '.join(SIZES)}")
    if options.inside:
        size = options.n, options.p, options.iters
        if parts == ["sparse"]:
            result = measure_sparse(*size, options.density, options.repeats)
        else:
            result = measure_memmap(options.inside, *size)
        print(json.dumps(result))
        return
    console, results = Console(), {}
    for part in parts:
        results[part] = measured_alone(part, options)
        show(console, part, results[part])
    if options.json:
        options.json.write_text(json.dumps({"machine": machine()} | results, indent=1) + "\n")
    if any(result["peak MiB"] > LIMITS[part] for part, result in results.items()):
        raise SystemExit("peak memory exceeds the limit")


if __name__ == "__main__":
    main()
