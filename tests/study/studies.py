"""Tiny studies and misbehaving workers, importable by other processes."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

from steinpath.study import STUDIES, Sizes
from steinpath.study import _parallel as parallel
from steinpath.study._store import Store

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


def assert_same_parts(one, other):
    import pyarrow.parquet

    names = [file.name for file in part_files(one)]
    assert names == [file.name for file in part_files(other)]
    for name in names:
        a, b = (pyarrow.parquet.read_table(Path(each, "parts", name)) for each in (one, other))
        assert a.column_names == b.column_names
        for column in a.column_names:
            assert a[column].to_numpy().tobytes() == b[column].to_numpy().tobytes(), (name, column)


def same_columns(one, other):
    return list(one) == list(other) and all(
        np.array_equal(one[name], other[name], equal_nan=True) for name in one
    )


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


def has_parts(folder, study, sizes, seeds):
    store = Store(folder)
    return all(store.has(config, seed) for config in study.plan(sizes) for seed in seeds)


# ------------------------------------------------------------------------------------------------
# Replacements of `in_worker`
# ------------------------------------------------------------------------------------------------

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


def other_code(job):
    """Compute a replication as a worker with a different version of the package would."""
    return _really(job)._replace(code="0" * 16)


def other_versions(job):
    """Compute a replication as a worker with a different version of NumPy would."""
    return _really(job)._replace(versions='{"numpy": "1.0"}')


def fail(job):
    """Raise an exception outside of the replication."""
    raise ValueError("not today")
