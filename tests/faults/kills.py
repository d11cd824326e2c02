"""Kill a running study again and again, and see whether it comes to the same end.

``python tests/faults/kills.py --kills 100 --seed 0`` starts a small study, kills it at a random
moment, starts it again, until it is finished; then another one, until that many kills are used up.
Every file of every finished study but its manifest is compared, byte for byte, with that of a
study that nothing disturbed, and every replication that a kill left behind with its own.

A kill is one of SIGKILL, SIGTERM and SIGINT, and reaches the process, its group or one of its
workers; while Python starts, at any time, at one of the steps by which a file is written, or while
tables and figures are.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

STUDY = "risk"
SIZES = ("--n", "60", "--p", "30", "--n-iter", "20", "--reps")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
#: When a kill comes, and how often of all.
MOMENTS = {"starting": 10, "any time": 25, "writing": 30, "tables": 20, "worker": 15}
#: What a study imports: done once, in the process that the others are forked from.
IMPORTED = (
    "joblib",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_pdf",
    "matplotlib.pyplot",
    "PIL.PngImagePlugin",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "scipy.stats",
    "steinpath.app.cli",
    "steinpath.study",
)
#: A study that says nothing for so long hangs.
PATIENCE = 300.0


class Kill(NamedTuple):
    """One kill: when, which signal, whether the whole process group, and at which file step."""

    moment: str
    number: signal.Signals
    group: bool
    step: int

    def __str__(self) -> str:
        if self.moment == "worker":
            return f"{self.number.name} to a worker"
        return f"{self.number.name} to the {'group' if self.group else 'process'}, {self.moment}"


class Difference(Exception):
    """A killed study did not come to the same end."""


# ------------------------------------------------------------------------------------------------
# Runs of the command
# ------------------------------------------------------------------------------------------------


def _forked(arguments: Sequence[str], log: str, kill: Kill | None) -> None:
    """Run the command in this process, which was forked after all imports."""
    os.setsid()
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(target, 1)
    os.dup2(target, 2)
    if kill is not None:
        sys.addaudithook(_at_step(kill))
    from steinpath.app.cli import main

    sys.argv = ["steinpath", *arguments]
    main(list(arguments))


def _at_step(kill: Kill) -> Callable[[str, tuple[Any, ...]], None]:
    """Return a hook that kills this process at one of the steps by which files are written."""
    from steinpath._support.files import PARTIAL

    seen = 0

    def hook(event: str, values: tuple[Any, ...]) -> None:
        nonlocal seen
        if event not in ("open", "os.rename", "os.remove"):
            return
        file = Path(str(values[0]))
        tables = file.parent.name == STUDY and not file.name.startswith("manifest")
        wanted = file.name.endswith(PARTIAL) and tables == (kill.moment == "tables")
        seen += wanted
        if wanted and seen == kill.step:
            (os.killpg if kill.group else os.kill)(os.getpid(), kill.number)

    return hook


class Run:
    """A run of the command, forked or in an interpreter of its own."""

    def __init__(self, arguments: Sequence[str], log: Path, *, fork: bool, kill: Kill | None):
        self.log, self._forked, self._own = log, None, None
        if fork:
            context = multiprocessing.get_context("forkserver")
            self._forked = context.Process(target=_forked, args=(arguments, str(log), kill))
            self._forked.start()
            self.pid = self._forked.pid or 0
        else:
            with open(log, "w") as output:
                self._own = subprocess.Popen(
                    [sys.executable, "-m", "steinpath", *arguments],
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            self.pid = self._own.pid

    def code(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        if self._own is not None:
            return self._own.poll()
        assert self._forked is not None
        return self._forked.exitcode

    def wait(self, seconds: float = PATIENCE) -> bool:
        """Wait for the end, for a time; return whether it came."""
        if self._own is not None:
            try:
                self._own.wait(seconds)
            except subprocess.TimeoutExpired:
                return False
            return True
        assert self._forked is not None
        self._forked.join(seconds)
        return self._forked.exitcode is not None

    def send(self, number: signal.Signals, group: bool) -> bool:
        """Send a signal; return whether there was anybody to receive it."""
        if self.code() is not None:
            return False
        try:
            (os.killpg if group else os.kill)(self.pid, number)
        except ProcessLookupError:  # it has no group of its own yet
            os.kill(self.pid, number)
        return True

    def workers(self) -> list[int]:
        """Processes that it has started."""
        found = []
        for place in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = place.read_text().rpartition(")")[2].split()
            except OSError:  # gone meanwhile
                continue
            if int(fields[1]) == self.pid and fields[0] != "Z":
                found.append(int(place.parent.name))
        return found

    def said(self) -> str:
        """All it has printed."""
        return self.log.read_text(errors="replace")


# ------------------------------------------------------------------------------------------------
# Kills
# ------------------------------------------------------------------------------------------------


class Killer:
    """Kills studies, and compares what becomes of them with one that nothing disturbed.

    Parameters
    ----------
    folder : Path
        Where the studies go.
    reps : int
        Replications of each of their settings.
    seed : int
        Of the moments and signals.
    """

    def __init__(self, folder: Path, reps: int, seed: int):
        self.folder, self.reps = folder, reps
        self.rng = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.late = self.survived = self.studies = 0
        self.reference = folder / "undisturbed"
        start = time.monotonic()
        run = self._run(self.reference)
        if not run.wait() or run.code() != 0:
            raise Difference(f"the undisturbed study failed: {run.said()[-2000:]}")
        self.seconds = time.monotonic() - start
        self.total = len(_parts(self.reference))

    def kill(self, count: int, moments: dict[str, int] = MOMENTS) -> None:
        """Kill studies so many times, and let the last one come to its end."""
        planned, late = iter(self._plan(count, moments)), 0
        kill = next(planned, None)
        while kill is not None:
            self.studies += 1
            out = self.folder / f"study-{self.studies}"
            finished = False
            while not finished:
                finished, hit = (
                    self._killed(out, kill, late) if kill else (self._through(out), False)
                )
                if hit:
                    self.done[str(kill)] += 1
                    kill = next(planned, None)
                    said = "" if kill is None else f", next {kill}"
                    print(f"{self.done.total()} kills, {len(_parts(out))} parts{said}", flush=True)
                late = 0 if hit or kill is None else late + 1
                self.late += late > 0
                if late > 3:
                    raise Difference(f"{kill}: nothing came of it, {late} times")
                self.survived += hit and finished
            self._compare(out)

    def _plan(self, count: int, moments: dict[str, int]) -> list[Kill]:
        names = self.rng.choices(list(moments), list(moments.values()), k=count)
        kills = []
        for moment in names:
            number = self.rng.choice(SIGNALS)
            if moment == "worker" and number == signal.SIGINT:  # which they leave to their parent
                number = signal.SIGKILL
            # a file is opened once or twice, renamed and seen to be gone
            step = self.rng.randint(1, 30)
            kills.append(Kill(moment, number, self.rng.random() < 0.5, step))
        return kills

    def _run(self, out: Path, *, kill: Kill | None = None) -> Run:
        moment = kill.moment if kill else ""
        jobs = "2" if moment == "worker" else "1"
        arguments = ["study", STUDY, *SIZES, str(self.reps), "--jobs", jobs, "--out", str(out)]
        fork = moment not in ("starting", "worker")
        at_step = kill if moment in ("writing", "tables") else None
        return Run(arguments, self.folder / "log", fork=fork, kill=at_step)

    def _through(self, out: Path) -> bool:
        """Let a study come to its end."""
        run = self._run(out)
        if not run.wait() or run.code() != 0:
            raise Difference(f"{out} was not finished: {run.code()}, {run.said()[-2000:]}")
        return True

    def _killed(self, out: Path, kill: Kill, late: int) -> tuple[bool, bool]:
        """Run and kill a study; return whether it was finished, and whether it was hit.

        A kill that came too ``late`` so many times before comes the sooner.
        """
        before = _parts(out)
        run = self._run(out, kill=kill)
        hit = False
        if kill.moment in ("writing", "tables"):  # it kills itself
            run.wait()
            hit = run.code() != 0
        elif kill.moment == "worker":
            while run.code() is None and len(_parts(out)) <= len(before):
                time.sleep(0.001)
            if workers := run.workers():
                os.kill(self.rng.choice(workers), kill.number)
                hit = True
        else:
            longest = self.seconds if kill.moment == "any time" else 2.0
            run.wait(self.rng.uniform(0, longest / 2**late))
            hit = run.send(kill.number, kill.group)
        if not run.wait():
            raise Difference(f"{kill}: it hangs; {run.said()[-2000:]}")
        self._look(out, kill, run, before)
        return run.code() == 0, hit

    def _look(self, out: Path, kill: Kill, run: Run, before: set[str]) -> None:
        """Look at what a kill has left behind."""
        code, said = run.code(), run.said()
        codes = {0, 130, -kill.number} if kill.moment != "worker" else {0}
        if kill.moment == "starting":  # nothing of ours is there yet to catch it
            codes.add(1)
        # joblib's own watchman may be the worker that is lost, and the next one is surprised
        elif kill.moment != "worker" and "Traceback" in said:
            raise Difference(f"{kill}: a traceback; {said[-2000:]}")
        if code not in codes:
            raise Difference(f"{kill}: exit code {code}; {said[-2000:]}")
        parts = _parts(out)
        if before - parts:
            raise Difference(f"{kill}: finished replications are lost: {before - parts}")
        for name in parts - before:
            if _columns(out, name) != _columns(self.reference, name):
                raise Difference(f"{kill}: {name} is not what it should be")

    def _compare(self, out: Path) -> None:
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


def _parts(out: Path) -> set[str]:
    return {file.name for file in out.glob("parts/*.parquet")}


def _columns(out: Path, name: str) -> dict[str, bytes]:
    """Return the columns of a replication, bit for bit."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(out / "parts" / name)
    return {column: table[column].to_numpy().tobytes() for column in table.column_names}


def _outputs(out: Path) -> dict[str, bytes]:
    """Return all that a study has written, but for the notes of its runs."""
    return {
        str(file.relative_to(out)): file.read_bytes()
        for file in (out / STUDY).rglob("*")
        if file.name != "manifest.json"
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill studies as the command line says; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reps", type=int, default=6, help="replications of each setting")
    parser.add_argument("--out", type=Path, help="folder; a new one that is removed by default")
    options = parser.parse_args(arguments)
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    # a shell's background jobs are deaf to Ctrl-C, and so would be all that they start
    signal.signal(signal.SIGINT, signal.default_int_handler)
    multiprocessing.set_forkserver_preload(list(IMPORTED))
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            killer = Killer(folder, options.reps, options.seed)
            killer.kill(options.kills)
        except Difference as difference:
            print(f"Different: {difference}")
            return 1
    for what, count in sorted(killer.done.items()):
        print(f"{count:4d} × {what}")
    print(
        f"{killer.done.total()} kills of {killer.studies} studies of {killer.total} replications, "
        f"each resumed to its end: all tables, figures and replications are those of the "
        f"undisturbed study to the last bit ({killer.survived} kills did not keep a study from "
        f"its end, {killer.late} more came after it; {time.monotonic() - start:.0f} s)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
