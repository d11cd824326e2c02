"""Helpers for benchmarks: time, memory, description of the machine, optional packages."""

from __future__ import annotations

import datetime
import os
import platform
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_info, threadpool_limits

Record = dict[str, Any]


def seconds(function: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Return the median time of several calls, and the last result."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return float(np.median(times)), result


def steady_seconds(function: Callable[[], Any], enough: float = 0.3) -> tuple[float, Any]:
    """Return the shortest time of up to ten calls within ``enough`` seconds, and a result.

    Other processes can only increase a time, so the shortest is the most reproducible.
    """
    times: list[float] = []
    while not times or (sum(times) < enough and len(times) < 10):
        took, result = seconds(function)
        times.append(took)
    return min(times), result


def peak_memory(function: Callable[[], Any]) -> int:
    """Return the peak memory in bytes beyond that held before."""
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


class Peer(NamedTuple):
    """An adapter: a function that calls a package, and the modules it imports."""

    call: Callable[..., Any]
    needs: tuple[str, ...] = ()

    @property
    def missing(self) -> str | None:
        """The first module that is not installed, if any."""
        return next((module for module in self.needs if find_spec(module) is None), None)


def available(peers: dict[str, Peer]) -> dict[str, Callable[..., Any]]:
    """Return the adapters whose packages are installed; print which are skipped."""
    for name, peer in peers.items():
        if peer.missing:
            print(f"  {name}: skipped, because {peer.missing} is not installed", flush=True)
    return {name: peer.call for name, peer in peers.items() if not peer.missing}


def machine() -> Record:
    """Return the date and a description of the machine."""
    return {
        "date": datetime.date.today().isoformat(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": max((pool["num_threads"] for pool in threadpool_info()), default=1),
        "numpy": np.__version__,
    }


def versions(packages: Iterable[str]) -> dict[str, str | None]:
    """Return the versions of packages; None if not installed."""
    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def command() -> str:
    """Return the command that is running, as the documentation writes it."""
    spec = sys.modules["__main__"].__spec__
    return " ".join(["python", "-m", spec.name if spec else "benchmarks", *sys.argv[1:]])


def in_parallel(
    function: Callable[..., Record], calls: Iterable[tuple[Any, ...]], jobs: int
) -> list[Record]:
    """Call a function once for each tuple of arguments; each call on one core."""

    def alone(*arguments: Any) -> Record:
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # counted through `Risk.warnings`
            return function(*arguments)

    return list(Parallel(jobs)(delayed(alone)(*arguments) for arguments in calls))
