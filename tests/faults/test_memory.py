"""Too little memory: a line that says what to do, whole files or none, and a study that goes on."""

import subprocess
import sys
from pathlib import Path

import pytest

from commands import call, write
from steinpath.study import STUDIES, Sizes, run_study
from steinpath.study import _runner as runner
from studies import Calls, assert_same_parts, part_files

RISK = STUDIES["risk"]
LIMITED = Path(__file__).with_name("limited.py")

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


def with_memory(mebibytes, *arguments):
    """Run the command with so little memory."""
    command = [sys.executable, str(LIMITED), str(mebibytes), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def not_now(job):
    raise ValueError("to see what would be done is enough")


def test_a_fit_without_enough_memory_says_so_and_writes_nothing(tmp_path):
    file, out = write(tmp_path), tmp_path / "out"
    done = with_memory(10, "fit", file, "--target=price", "--iters=3000", "--out", out)
    assert done.returncode == 1, done.stdout
    line = "Error: there is not enough memory; try a smaller --n-alphas or --n-iter\n"
    assert (done.stdout, done.stderr) == ("", line)
    assert not list(out.iterdir())


def test_a_study_keeps_what_there_was_memory_for_and_goes_on_from_there(tmp_path, monkeypatch):
    out, size = tmp_path / "out", ["--p=20", "--n-iter=200", "--reps=2", "--jobs=1"]
    done = with_memory(12, "study", "risk", "--n=40", "--n=3000", *size, "--out", out)
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    assert "16 of 32 replications finished." in done.stdout
    failures = [line for line in done.stdout.splitlines() if line.startswith("Failed: ")]
    assert failures
    assert all("× MemoryError: " in line for line in failures)
    assert all("fewer jobs leave more memory for each" in line for line in failures)
    assert "Run the same command again to retry only the failed replications." in done.stdout
    assert not list(out.rglob("*-partial"))
    # what is there is what should be, and what is not is all that is left to do
    monkeypatch.setattr(runner, "write_figures", lambda folder, exhibits: [])
    run_study(RISK, tmp_path / "small", Sizes(2, (40,), (20,), 200))
    assert_same_parts(out, tmp_path / "small")
    calls = Calls(monkeypatch, not_now)
    report = run_study(RISK, out, Sizes(2, (40, 3000), (20,), 200))
    assert [setting.n for setting, _ in calls.jobs] == [3000] * 16
    assert (report.finished, len(part_files(out))) == (16, 16)


def test_a_study_that_itself_has_no_memory_left_says_what_to_do(tmp_path, monkeypatch):
    def none_left(*arguments):
        raise MemoryError

    monkeypatch.setattr(runner, "write_tables", none_left)
    size = ["--n=40", "--p=20", "--n-iter=5", "--reps=2", "--jobs=1"]
    [line] = call("study", "risk", *size, "--out", tmp_path, code=1).stderr.splitlines()
    assert line.startswith("Error: not enough memory. Finished replications are kept:")
    assert "run the same command again with fewer --jobs" in line
    assert len(part_files(tmp_path)) == 16
