"""Random inputs through everything that is public: ``python tests/fuzz/fuzz.py --cases 10000``.

Every case ends in a right result or a clear error, or it is a finding. Cases run in processes of
their own, so that a crash is a finding too, and under an alarm, so that a hang is. A finding is
reproduced by its surface and seed: ``python tests/fuzz/fuzz.py --surface run --seed 17 --cases 1``.
"""

import argparse
import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import numpy as np

from judge import Finding, Refusal
from surfaces import SURFACES, Case

#: Seconds that a case may take; the slowest take about a second.
LIMIT = 60


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
                outcome = {"outcome": "finding", "said": said, "tried": _readable(case.tried)}
            else:
                refused = isinstance(result, Refusal)
                outcome = {"outcome": "refused" if refused else "done"}
                if refused:
                    outcome["said"] = result.message
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return outcome | {
        "surface": surface,
        "seed": seed,
        "seconds": time.perf_counter() - started,
    }


def _readable(tried):
    def show(value):
        array = isinstance(value, np.ndarray)
        detail = f" of {value.dtype}, {value.shape}: " if array else " "
        return f"{type(value).__name__}{detail}{value!r:.400}"

    return {name: show(value) for name, value in tried.items()}


def try_all(cases, jobs, limit=LIMIT):
    """Run cases in several processes; yield their outcomes as they come.

    A process that dies takes one case with it: the finding is named, and another takes over.
    """
    context = multiprocessing.get_context("spawn")
    shards = [cases[k::jobs] for k in range(jobs)]
    workers = {}
    for shard in filter(None, shards):
        _start(context, workers, shard, limit)
    while workers:
        for end in multiprocessing.connection.wait(list(workers)):
            process, shard, done = workers[end]
            try:
                outcome = end.recv()
            except EOFError:
                process.join()
                del workers[end]
                left = shard[done:]
                if left:  # it died in the middle of the first of these
                    surface, seed = left[0]
                    yield {
                        "outcome": "finding",
                        "said": f"the process died (exit code {process.exitcode})",
                        "surface": surface,
                        "seed": seed,
                        "seconds": 0.0,
                        "tried": {},
                    }
                    if left[1:]:
                        _start(context, workers, left[1:], limit)
            else:
                workers[end] = process, shard, done + 1
                yield outcome


def _start(context, workers, shard, limit):
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, shard, limit), daemon=True)
    process.start()
    theirs.close()
    workers[ours] = process, shard, 0


def _work(end, shard, limit):
    for surface, seed in shard:
        end.send(try_case(surface, seed, limit))


def main():
    """Fuzz, print what was found, and exit with 1 if anything was."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--surface", choices=SURFACES, action="append", help="all by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path, help="write a summary here")
    arguments = parser.parse_args()
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # a process per core is enough
        os.environ.setdefault(name, "1")
    surfaces = arguments.surface or list(SURFACES)
    cases = [
        (surfaces[k % len(surfaces)], arguments.seed + k // len(surfaces))
        for k in range(arguments.cases)
    ]
    outcomes, seconds = Counter(), Counter()
    findings = 0
    for outcome in try_all(cases, max(1, arguments.jobs)):
        outcomes[outcome["surface"], outcome["outcome"]] += 1
        seconds[outcome["surface"]] += outcome["seconds"]
        if outcome["outcome"] == "finding":
            findings += 1
            print(f"\n{outcome['surface']}, seed {outcome['seed']}: {outcome['said']}")
            for name, value in outcome["tried"].items():
                print(f"    {name} = {value}")
            sys.stdout.flush()
        elif arguments.cases == 1:
            print(outcome)
    summary = {
        surface: {kind: outcomes[surface, kind] for kind in ("done", "refused", "finding")}
        | {"seconds": round(seconds[surface], 1)}
        for surface in surfaces
    }
    print(json.dumps(summary, indent=2))
    if arguments.json:
        arguments.json.write_text(
            json.dumps(
                {"seed": arguments.seed, "cases": arguments.cases, "surfaces": summary}, indent=2
            )
            + "\n"
        )
    sys.exit(findings > 0)


if __name__ == "__main__":
    main()
