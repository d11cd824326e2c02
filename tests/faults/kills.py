"""Kill a running study again and again, and see whether it comes to the same end.

``python tests/faults/kills.py --kills 100 --seed 0`` starts a small study, kills it at a random
moment, starts it again, until it is finished; then another one, until that many kills are used up.
Every file of every finished study but its manifest is compared, byte for byte, with that of a
study that nothing disturbed, and every replication that a kill left behind with its own.

A kill is one of SIGKILL, SIGTERM and SIGINT, and reaches the process, its group or one of its
workers; while Python starts, at any time, at one of the steps by which a file is written, or while
tables and figures are.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

STUDY = "risk"
SIZES = ("--n", "60", "--p", "30", "--n-iter", "20", "--reps")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
#: When a kill comes, and how often of all.
MOMENTS = {"starting": 10, "any time": 25, "writing": 30, "tables": 20, "worker": 15}
#: A study that says nothing for so long hangs.
PATIENCE = 300.0


class Kill(NamedTuple):
    """One kill: when, which signal, whether the whole process group, and at which file step."""

    moment: str
    number: signal.Signals
    group: bool
    step: int

    def __str__(self):
        if self.moment == "worker":
            return f"{self.number.name} to a worker"
        return f"{self.number.name} to the {'group' if self.group else 'process'}, {self.moment}"


class Difference(Exception):
    """A killed study did not come to the same end."""


def run_and_kill_oneself(moment, number, group, step, *arguments):
    """Run the command, and kill this process at one of the steps by which files are written."""
    from steinpath._support.files import PARTIAL
    from steinpath.app.cli import main

    seen = 0

    def hook(event, values):
        nonlocal seen
        if event not in ("open", "os.rename", "os.remove"):
            return
        file = Path(str(values[0]))
        tables = file.parent.name == STUDY and not file.name.startswith("manifest")
        wanted = file.name.endswith(PARTIAL) and tables == (moment == "tables")
        seen += wanted
        if wanted and seen == int(step):
            (os.killpg if group == "True" else os.kill)(os.getpid(), int(number))

    sys.addaudithook(hook)
    sys.argv = ["steinpath", *arguments]
    main(list(arguments))


class Killer:
    """Kills studies in a folder, and compares them with one that nothing disturbed."""

    def __init__(self, folder, reps, seed):
        self.folder, self.reps = folder, reps
        self.rng = random.Random(seed)
        self.done = Counter()
        self.late = self.survived = self.studies = 0
        self.reference = folder / "undisturbed"
        start = time.monotonic()
        self._through(self.reference)
        self.seconds = time.monotonic() - start

    def kill(self, count, moments=MOMENTS):
        """Kill studies so many times, and let the last one come to its end."""
        planned, late = iter(list(self._plan(count, moments))), 0
        kill = next(planned, None)
        while kill is not None:
            self.studies += 1
            out = self.folder / f"study-{self.studies}"
            finished = False
            while not finished:
                if kill is None:
                    self._through(out)
                    break
                finished, hit = self._killed(out, kill, late)
                self.survived += hit and finished
                late = 0 if hit else late + 1
                self.late += not hit
                if late > 3:
                    raise Difference(f"{kill}: nothing came of it, {late} times")
                if hit:
                    self.done[str(kill)] += 1
                    kill = next(planned, None)
                    print(f"{self.done.total()} kills, {len(_parts(out))} parts", flush=True)
            self._compare(out)

    def _plan(self, count, moments):
        for moment in self.rng.choices(list(moments), list(moments.values()), k=count):
            number = self.rng.choice(SIGNALS)
            if moment == "worker" and number == signal.SIGINT:  # which they leave to their parent
                number = signal.SIGKILL
            # a file is opened once or twice, renamed and seen to be gone
            step = self.rng.randint(1, 30)
            yield Kill(moment, number, self.rng.random() < 0.5, step)

    def _start(self, out, kill=None):
        moment = kill.moment if kill else ""
        jobs = "2" if moment == "worker" else "1"
        arguments = ["study", STUDY, *SIZES, str(self.reps), "--jobs", jobs, "--out", str(out)]
        command = [sys.executable, "-m", "steinpath"]
        if moment in ("writing", "tables"):
            own = (moment, int(kill.number), kill.group, kill.step)
            command = [sys.executable, __file__, "itself", *map(str, own)]
        with open(self.folder / "log", "w") as log:
            return subprocess.Popen(
                [*command, *arguments], stdout=log, stderr=log, start_new_session=True
            )

    def _said(self):
        return (self.folder / "log").read_text(errors="replace")[-2000:]

    def _through(self, out):
        """Let a study come to its end."""
        code = self._start(out).wait(PATIENCE)
        if code != 0:
            raise Difference(f"{out} was not finished: {code}, {self._said()}")

    def _killed(self, out, kill, late):
        """Run and kill a study; return whether it was finished, and whether it was hit.

        A kill that came too ``late`` so many times before comes the sooner.
        """
        before = _parts(out)
        process = self._start(out, kill)
        hit = False
        if kill.moment == "worker":
            while process.poll() is None and len(_parts(out)) <= len(before):
                time.sleep(0.001)
            if workers := _workers(process.pid):
                os.kill(self.rng.choice(workers), kill.number)
                hit = True
        elif kill.moment not in ("writing", "tables"):
            longest = self.seconds if kill.moment == "any time" else 2.0
            time.sleep(self.rng.uniform(0, longest / 2**late))
            hit = process.poll() is None
            if hit:
                (os.killpg if kill.group else os.kill)(process.pid, kill.number)
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Difference(f"{kill}: it hangs; {self._said()}") from None
        self._look(out, kill, code, before)
        return code == 0, hit or (kill.moment in ("writing", "tables") and code != 0)

    def _look(self, out, kill, code, before):
        """Look at what a kill has left behind."""
        codes = {0, 130, -kill.number} if kill.moment != "worker" else {0}
        if kill.moment in ("starting", "any time"):
            codes.add(1)  # while Python starts, nothing of ours is there yet to catch a signal
        # joblib's own watchman may be the worker that is lost, and the next one is surprised
        elif kill.moment != "worker" and "Traceback" in self._said():
            raise Difference(f"{kill}: a traceback; {self._said()}")
        if code not in codes:
            raise Difference(f"{kill}: exit code {code}; {self._said()}")
        parts = _parts(out)
        if before - parts:
            raise Difference(f"{kill}: finished replications are lost: {before - parts}")
        for name in parts - before:
            if _columns(out, name) != _columns(self.reference, name):
                raise Difference(f"{kill}: {name} is not what it should be")

    def _compare(self, out):
        """Compare all files of a finished study with those of the undisturbed one."""
        if _parts(out) != _parts(self.reference):
            raise Difference(f"{out} has other parts than {self.reference}")
        found, expected = _outputs(out), _outputs(self.reference)
        names = [name for name in {*found, *expected} if found.get(name) != expected.get(name)]
        if names:
            raise Difference(f"{out} differs from {self.reference} in {sorted(names)}")
        if left := [*out.rglob("*-partial")]:
            raise Difference(f"{out} has leftovers: {left}")
        runs = json.loads((out / STUDY / "manifest.json").read_text())["runs"]
        if runs[-1]["ended"] != "complete":
            raise Difference(f"{out}'s last run is noted as {runs[-1]['ended']}")


def _workers(pid):
    """Return the processes that a process has started."""
    workers = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:  # gone meanwhile
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            workers.append(int(place.parent.name))
    return workers


def _parts(out):
    return {file.name for file in out.glob("parts/*.parquet")}


def _columns(out, name):
    """Return the columns of a replication, bit for bit."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(out / "parts" / name)
    return {column: table[column].to_numpy().tobytes() for column in table.column_names}


def _outputs(out):
    """Return all that a study has written, but for the notes of its runs."""
    files = [file for file in (out / STUDY).rglob("*") if file.name != "manifest.json"]
    return {str(file.relative_to(out)): file.read_bytes() for file in files}


def main():
    """Kill studies as the command line says; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reps", type=int, default=6, help="replications of each setting")
    options = parser.parse_args()
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    # a shell's background jobs are deaf to Ctrl-C, and so would be all that they start
    signal.signal(signal.SIGINT, signal.default_int_handler)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            killer = Killer(Path(folder), options.reps, options.seed)
            killer.kill(options.kills)
        except Difference as difference:
            print(f"Different: {difference}")
            return 1
    for what, count in sorted(killer.done.items()):
        print(f"{count:4d} × {what}")
    print(
        f"{killer.done.total()} kills of {killer.studies} studies, each resumed to its end: all "
        f"tables, figures and replications are those of the undisturbed study to the last bit "
        f"({killer.survived} kills did not keep a study from its end, {killer.late} more came "
        f"after it; {time.monotonic() - start:.0f} s)"
    )
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["itself"]:
        run_and_kill_oneself(*sys.argv[2:])
    else:
        sys.exit(main())
