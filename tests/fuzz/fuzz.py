"""Random inputs through everything that is public: ``python tests/fuzz/fuzz.py --cases 10000``.

Every case ends in a right result or a clear error, or it is a finding. Cases run in processes of
their own, so that a crash is a finding too, and under an alarm, so that a hang is. A finding is
reproduced by its surface and seed: ``python tests/fuzz/fuzz.py --surface run --seed 17 --cases 1``.
"""

import argparse
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np

from outcomes import Finding, Refusal
from surfaces import SURFACES, Case

#: Seconds that a case may take; the slowest take about a second.
LIMIT = 60
#: Cases that a process is given at a time.
CHUNK = 25


def try_case(surface, seed, limit=LIMIT):
    """Run one case; return its outcome as a dictionary."""

    def too_long(*_):
        raise Finding(f"still running after {limit} seconds")

    rng = np.random.default_rng([seed, *surface.encode()])
    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(limit)
    started = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory() as folder:
            case = Case(rng, Path(folder))
            try:
                result = SURFACES[surface](case)
            except Exception as error:
                said = str(error) if isinstance(error, Finding) else traceback.format_exc()
                tried = {name: f"{value!r:.400}" for name, value in case.tried.items()}
                outcome = {"outcome": "finding", "said": said, "tried": tried}
            else:
                refused = isinstance(result, Refusal)
                outcome = {"outcome": "refused", "said": result.message} if refused else {}
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    seconds = time.perf_counter() - started
    return {"outcome": "done", "surface": surface, "seed": seed, "seconds": seconds} | outcome


def try_some(cases):
    """Run several cases in one process."""
    return [try_case(*case) for case in cases]


def try_all(cases, jobs, start="spawn"):
    """Run cases in several processes; yield their outcomes.

    If a process dies, the cases that were not finished run again one at a time: the one that ends
    its process is the finding.
    """
    context = multiprocessing.get_context(start)
    chunks, alone = [cases[k : k + CHUNK] for k in range(0, len(cases), CHUNK)], []
    with ProcessPoolExecutor(jobs, context) as pool:
        for chunk, task in [(chunk, pool.submit(try_some, chunk)) for chunk in chunks]:
            try:
                yield from task.result()
            except BrokenProcessPool:
                alone += chunk
    for surface, seed in alone:
        with ProcessPoolExecutor(1, context) as pool:
            try:
                yield pool.submit(try_case, surface, seed).result()
            except BrokenProcessPool:
                about = {"surface": surface, "seed": seed, "seconds": 0.0, "tried": {}}
                yield {"outcome": "finding", "said": "the process died"} | about


def main():
    """Fuzz, print what was found, and exit with 1 if anything was."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--surface", choices=SURFACES, action="append", help="all by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # a process per core is enough
        os.environ.setdefault(name, "1")
    surfaces = arguments.surface or list(SURFACES)
    cases = [
        (surfaces[k % len(surfaces)], arguments.seed + k // len(surfaces))
        for k in range(arguments.cases)
    ]
    outcomes, seconds = Counter(), Counter()
    for outcome in try_all(cases, max(1, arguments.jobs)):
        outcomes[outcome["surface"], outcome["outcome"]] += 1
        seconds[outcome["surface"]] += outcome["seconds"]
        if outcome["outcome"] == "finding" or arguments.cases == 1:
            print(f"\n{outcome['surface']}, seed {outcome['seed']}: {outcome.get('said', 'done')}")
            for name, value in outcome.get("tried", {}).items():
                print(f"    {name} = {value}", flush=True)
    kinds = "done", "refused", "finding"
    summary = {
        surface: {kind: outcomes[surface, kind] for kind in kinds}
        | {"seconds": round(seconds[surface], 1)}
        for surface in surfaces
    }
    print(json.dumps(summary, indent=2))
    sys.exit(any(kind == "finding" for _, kind in outcomes))


if __name__ == "__main__":
    main()
