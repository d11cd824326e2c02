"""A clock that jumps by hours, back and forth: the same results, and no time below zero."""

import io
import json
import random
import re
import time
from itertools import pairwise

import pyarrow.parquet
import pytest
from rich.console import Console

from commands import call
from steinpath._support.progress import Clock
from steinpath.study import _runner as runner
from steinpath.study import run_study
from studies import SIZES, TINY, assert_same_parts, part_files, tables

HOUR = 3600.0


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch):
    monkeypatch.setattr(runner, "write_figures", lambda folder, exhibits: [])


@pytest.fixture
def jumping(monkeypatch):
    """Have every clock jump whenever someone looks at it."""
    rng = random.Random(0)
    for name in ("time", "monotonic", "perf_counter"):
        really = getattr(time, name)

        def jumps(really=really):
            return really() + rng.choice([-5, -2, 0, 1, 3]) * HOUR

        monkeypatch.setattr(time, name, jumps)


def test_a_clock_that_never_goes_back(monkeypatch):
    seconds = iter([100.0, 101.0, 101.0 - HOUR, 103.0 - HOUR, 104.0 - HOUR + 9 * HOUR])
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
    clock = Clock()
    assert [clock() for _ in range(4)] == [1.0, 1.0, 3.0, 4.0 + 9 * HOUR]


@pytest.mark.usefixtures("jumping")
def test_the_clock_never_goes_back_however_it_jumps():
    clock = Clock()
    assert all(before <= after for before, after in pairwise(clock() for _ in range(200)))


@pytest.mark.parametrize("terminal", [False, True])
def test_a_study_is_the_same_and_shows_no_time_below_zero(tmp_path, request, terminal):
    run_study(TINY, tmp_path / "steady", SIZES)
    request.getfixturevalue("jumping")
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=terminal, width=120)
    report = run_study(TINY, tmp_path / "jumping", SIZES, console=console)
    assert report.finished == report.total
    assert "4/4" in shown.getvalue() if terminal else "4 of 4, done in" in shown.getvalue()
    assert not re.search(r"-\s?\d", shown.getvalue())
    assert tables(tmp_path / "jumping") == tables(tmp_path / "steady")
    assert_same_parts(tmp_path / "jumping", tmp_path / "steady")
    [run] = json.loads((tmp_path / "jumping" / "tiny" / "manifest.json").read_text())["runs"]
    assert run["seconds"] >= 0
    for file in part_files(tmp_path / "jumping"):
        assert float(pyarrow.parquet.read_schema(file).metadata[b"seconds"]) >= 0


@pytest.mark.usefixtures("jumping")
def test_times_that_are_compared_are_above_zero():
    result = call("bench", "--n=40", "--p=10", "--n-iter=10", "--json")
    rows = json.loads(result.stdout)["rows"]
    assert len(rows) == 5
    assert all(row["seconds"] > 0 and row["ratio"] > 0 for row in rows)
