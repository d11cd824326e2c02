"""Tiny studies and misbehaving workers, importable by other processes."""

import os
import signal
from dataclasses import replace
from pathlib import Path

from threadpoolctl import threadpool_info

from steinpath.study import STUDIES, Sizes
from steinpath.study import _parallel as parallel

SIZES = Sizes(reps=2, n=(40,), p=(20,), iters=5)

#: Two configurations, with the tables of the study ``risk``.
TINY = replace(
    STUDIES["risk"],
    name="tiny",
    plan=lambda sizes: [
        config
        for config in STUDIES["risk"].plan(sizes)
        if (config.loss, config.penalty) in (("lad", "lasso"), ("square_root", "ridge"))
    ],
)


def part_files(folder):
    return sorted(Path(folder, "parts").iterdir())


def tables(folder):
    """Return the contents of all tables of all studies, by name."""
    return {str(file.relative_to(folder)): file.read_text() for file in Path(folder).rglob("*.csv")}


def columns(file):
    """Return the columns of a replication, bit for bit."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(file)
    return {name: table[name].to_numpy().tobytes() for name in table.column_names}


def assert_same_parts(one, other):
    names = [file.name for file in part_files(one)]
    assert names == [file.name for file in part_files(other)]
    for name in names:
        assert columns(Path(one, "parts", name)) == columns(Path(other, "parts", name)), name


class Calls:
    """A `replicate` that records its calls."""

    def __init__(self, monkeypatch, fail=lambda job: None):
        self.jobs, self.fail = [], fail
        self._really = parallel.replicate
        monkeypatch.setattr(parallel, "replicate", self)

    def __call__(self, config, seed):
        job = parallel.Job(config, seed)
        self.jobs.append(job)
        self.fail(job)
        return self._really(config, seed)


# Replacements of `in_worker`

_really = parallel.in_worker


def die_once(folder, job):
    """Kill the first process that starts a second replication."""
    if job.seed == 1:
        try:
            Path(folder, "died").touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return _really(job)


def die_always(job):
    """Kill every process that starts the first replication of the plan."""
    if job.seed == 0 and job.config.loss == "lad":
        os.kill(os.getpid(), signal.SIGKILL)
    return _really(job)


def note_threads(folder, job):
    """Record how many threads each library may use during a replication."""
    result = _really(job)
    counts = {library["num_threads"] for library in threadpool_info()}
    Path(folder, f"{job.config.key}-{job.seed}").write_text(f"{os.getpid()} {sorted(counts)}")
    return result


def fail(job):
    """Raise an exception outside of the replication."""
    raise ValueError("not today")
