"""Distributed blocks in files compared with blocks in memory: time and peak memory of workers.

    python -m benchmarks.scale.stored_blocks --json benchmarks/results/stored_blocks.json
    python -m benchmarks.scale.stored_blocks --n 4000 --p 200 --iters 5       # 6 MB

Two workers with one thread each read Parquet files of random numbers, keep them in memory or in
binary files, and run LAD–lasso with fixed step sizes. The results must be identical. Peak memory is
the largest increase over the workers.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from rich.console import Console
from rich.table import Table

import steinpath as sp
from benchmarks.common.measuring import machine

Record = dict[str, Any]
FILES = 4
ROWS = 1000  # drawn at a time
KINDS = ("memory", "files")


def write(folder: Path, n: int, p: int) -> list[Path]:
    """Write files of random numbers, and responses that depend on ten columns."""
    rng, files = np.random.default_rng(0), []
    for k in range(FILES):
        files.append(folder / f"part-{k}.parquet")
        writer = None
        for _ in range(0, n // FILES, ROWS):
            X = rng.standard_normal((ROWS, p))
            y = X[:, :10].sum(axis=1) + rng.standard_t(2, ROWS)
            columns = {f"x{j}": X[:, j] for j in range(p)} | {"y": y}
            table = pa.table(columns)
            if writer is None:
                writer = parquet.ParquetWriter(files[-1], table.schema)
            writer.write_table(table)
        assert writer is not None
        writer.close()
    return files


def peak() -> float:
    """Return the peak memory of this process in MiB."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return int(found["VmHWM"].split()[0]) / 1024


def measure(files: list[Path], n_iter: int, in_memory: bool) -> tuple[Record, np.ndarray]:
    """Load the files and run on a new cluster."""
    from distributed import Client, LocalCluster

    options: Any = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    cluster: Any = LocalCluster
    connect: Any = Client
    with cluster(**options) as workers, connect(workers) as client:
        few = sp.distributed.from_files(files, columns=["x0"])  # excludes the memory of imports
        before = client.run(peak)
        start = time.perf_counter()
        design, y = sp.distributed.from_files(files, response="y", in_memory=in_memory)
        loaded = time.perf_counter() - start
        steps = sp.ChambollePock(sigma=0.1, tau=0.1)
        start = time.perf_counter()
        path = sp.run(design, y, sp.LAD(), sp.Lasso(0.5), steps, n_iter)
        took = time.perf_counter() - start
        used = max(value - before[where] for where, value in client.run(peak).items())
        coef = path.coef[-1]
        del few, design, path
    return {"load s": loaded, "s per iteration": took / n_iter, "peak MiB": used}, coef


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=200_000, help="rows")
    parser.add_argument("--p", type=int, default=500, help="columns")
    parser.add_argument("--iters", type=int, default=30, help="iterations")
    parser.add_argument("--folder", help="folder for the temporary files")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        files = write(Path(folder), options.n, options.p)
        found = {name: measure(files, options.iters, name == "memory") for name in KINDS}
    (_, first), (_, second) = found.values()
    np.testing.assert_allclose(first, second, rtol=0, atol=1e-9 * np.abs(first).max())
    size = 8 * options.n * options.p / 2**20
    title = f"n={options.n:,}, p={options.p:,} ({size:.0f} MiB), {options.iters} iterations"
    table = Table("blocks in", "loading, s", "s per iteration", "peak MiB of a worker", title=title)
    for name, (of, _) in found.items():
        cells = f"{of['load s']:.1f}", f"{of['s per iteration']:.3f}", f"{of['peak MiB']:.0f}"
        table.add_row(name, *cells)
    Console().print(table)
    if options.json:
        results = {"n": options.n, "p": options.p, "iters": options.iters, "MiB of X": size}
        results |= {name: of for name, (of, _) in found.items()}
        options.json.write_text(json.dumps({"machine": machine()} | results, indent=1) + "\n")


if __name__ == "__main__":
    main()
