"""The command ``steinpath study``: output, exit codes, and robustness against kills."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from steinpath import plots
from steinpath.app.cli import main
from steinpath.study import STUDIES
from studies import Calls, part_files

TINY = ["--n", "40", "--p", "20", "--n-iter", "5", "--reps", "2"]


@pytest.fixture(autouse=True)
def _signals():
    """Restore signal handlers: the command handles SIGTERM like Ctrl-C, the tests should not."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def study(*arguments):
    return CliRunner().invoke(main, ["study", *map(str, arguments)])


# Output


def test_help_and_list_name_what_there_is(monkeypatch):
    command = [sys.executable, "-m", "steinpath", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: steinpath ")
    assert {"demo", "study"} <= set(done.stdout.split())
    monkeypatch.setenv("COLUMNS", "120")
    result = study("list")
    assert result.exit_code == 0, result.output
    for name, each in STUDIES.items():
        assert name in result.output
        assert str(each.full.reps) in result.output
    assert study("--help").exit_code == 0


def test_unknown_studies_are_refused_with_those_that_are_known(tmp_path):
    result = study("risks", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "'risks' is not a study; choose from list, all, risk, universality" in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["rates", "--p", 20], "the study 'rates' derives p from n; do not set p"),
        (["late", "--p", 20], "the study 'late' derives p from n; do not set p"),
        (["rates", "--n", 40], "the study 'rates' requires at least two values of n"),
        (["mis-specified", "--n", 40, "--n", 60], "requires exactly one n and one p"),
        (["mis-specified", "--p", 20, "--p", 30], "requires exactly one n and one p"),
        (["all", "--quick", "--n", 40, "--n", 60], "requires exactly one n and one p"),
        (["risk", "--reps", 1], "--reps"),
        (["risk", "--n", 19], "--n"),
        (["risk", "--jobs", 0], "--jobs"),
        (["risk", "--backend", "jax"], "--backend"),
        (["risk", "--device", "cuda"], "only the device 'cpu'; got 'cuda'"),
    ],
)
def test_nonsense_is_refused_before_anything_is_done(tmp_path, monkeypatch, arguments, reason):
    calls = Calls(monkeypatch)
    sizes = ["--reps", 2, "--n-iter", 5, "--jobs", 1]
    result = study(arguments[0], *sizes, *arguments[1:], "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert reason in result.output
    assert not calls.jobs
    assert not (tmp_path / "out").exists()


def test_progress_the_table_and_the_files_are_printed(tmp_path):
    result = study("risk", *TINY, "--jobs", 1, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    shown = [line for line in lines if re.fullmatch(r"risk: \d+ of 16, .+ left", line)]
    assert len(shown) == 15
    assert any(re.fullmatch(r"risk: 16 of 16, done in \d+ s", line) for line in lines)
    assert sum(line.startswith("| ") for line in lines) == 18
    files = [Path(line) for line in lines if line.startswith(str(tmp_path))]
    assert {file.suffix for file in files} == {".csv", ".md", ".pdf", ".png"}
    assert all(file.stat().st_size for file in files)


@pytest.mark.usefixtures("no_figures")
def test_failures_are_printed_and_the_exit_code_says_so(tmp_path, monkeypatch):
    def fail(job):
        if job.seed == 1 and job.config.penalty == "mcp":
            raise ValueError("[not] today")

    with monkeypatch.context() as patch:
        Calls(patch, fail)
        result = study("risk", *TINY, "--jobs", 1, "--out", tmp_path)
    assert result.exit_code == 1
    assert "14 of 16 replications finished." in result.output
    assert "Failed: 2 × ValueError: [not] today (in fail, line " in result.output
    calls = Calls(monkeypatch)
    assert study("risk", *TINY, "--jobs", 1, "--out", tmp_path).exit_code == 0
    assert len(calls.jobs) == 2


@pytest.mark.slow  # each study is tested in test_studies
def test_all_studies_run_at_tiny_sizes(tmp_path, monkeypatch):
    def for_print_alone(figure, kind, **options):
        return really(figure, kind, **options) if kind == "pdf" else b"as in the other tests"

    really = plots.drawn_as
    monkeypatch.setattr(plots, "drawn_as", for_print_alone)
    result = study("all", "--quick", *TINY, "--jobs", 1, "--out", tmp_path)
    assert result.exit_code == 0, (result.output[-2000:], result.exception)
    for name in STUDIES:
        assert (tmp_path / name / "summary.csv").stat().st_size, name
        assert (tmp_path / name / "manifest.json").exists(), name
        assert list((tmp_path / name).glob("*.pdf")), name


def test_errors_take_a_line_and_no_traceback(tmp_path):
    (tmp_path / "risk").write_text("mine")
    result = study("risk", *TINY, "--jobs", 1, "--out", tmp_path)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert result.output.startswith("Error: cannot write ")


# Separate processes


class Commands:
    """Starts the command in new process groups, and finds processes left behind."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = []
        self.mark = f"STEINPATH_TEST={folder}"

    def start(self, *arguments, reps, out):
        """Start a study of the given size."""
        size = ["--n", "60", "--p", "30", "--n-iter", "20", "--reps", str(reps)]
        command = [sys.executable, "-m", "steinpath", "study", "risk", *size, "--out", str(out)]
        name, value = self.mark.split("=", 1)
        with open(self.folder / "stdout", "w") as one, open(self.folder / "stderr", "w") as other:
            process = subprocess.Popen(
                [*command, *arguments],
                stdout=one,
                stderr=other,
                start_new_session=True,
                env={**os.environ, name: value},
            )
        self.processes.append(process)
        return process

    def said(self):
        """Return stdout and stderr of the latest process."""
        return (self.folder / "stdout").read_text(), (self.folder / "stderr").read_text()

    def alive(self):
        """Return all processes that are still running."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                environment = (place / "environ").read_bytes().split(b"\0")
            except OSError:  # gone, or none of ours
                continue
            if self.mark.encode() in environment:
                found.append(int(place.name))
        return found


@pytest.fixture
def commands(tmp_path):
    if not Path("/proc/self/environ").exists():
        pytest.skip("needs /proc")
    found = Commands(tmp_path)
    yield found
    for pid in found.alive():  # all of which it has started
        os.kill(pid, signal.SIGKILL)
    for process in found.processes:
        process.wait()


def wait_for_parts(process, out, count):
    """Wait until some parts are stored, or the process has ended."""
    while process.poll() is None:
        with_parts = (out / "parts").exists()
        if with_parts and sum(1 for _ in (out / "parts").glob("*.parquet")) >= count:
            return
        time.sleep(0.01)


def wait_until_gone(commands, seconds):
    end = time.monotonic() + seconds
    while (left := commands.alive()) and time.monotonic() < end:
        time.sleep(0.1)
    return left


@pytest.mark.slow
def test_a_killed_study_leaves_no_workers_behind(tmp_path, commands):
    process = commands.start("--jobs", "2", reps=6, out=tmp_path / "out")
    wait_for_parts(process, tmp_path / "out", 6)  # all workers are at work
    assert len(commands.alive()) >= 3
    os.kill(process.pid, signal.SIGKILL)  # it alone, as the kernel does when memory runs out
    process.wait()
    assert wait_until_gone(commands, 10) == []


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(
    ("number", "send"),
    [(signal.SIGTERM, os.kill), (signal.SIGINT, os.killpg)],  # as a queue does, as Ctrl-C does
    ids=["SIGTERM", "SIGINT"],
)
def test_stopped_it_says_that_what_is_finished_is_kept(tmp_path, commands, number, send):
    out = tmp_path / "out"
    process = commands.start("--jobs", "2", reps=100, out=out)
    wait_for_parts(process, out, 1)
    send(process.pid, number)
    assert process.wait() == 130
    output, errors = commands.said()
    assert f"Stopped. Run the same command again to resume; results are in {out}." in " ".join(
        output.split()
    )
    assert "Traceback" not in errors
    assert wait_until_gone(commands, 10) == []
    assert list(out.rglob("*-partial")) == []
    assert 1 <= len(part_files(out)) < 800
    [run] = json.loads((out / "risk" / "manifest.json").read_text())["runs"]
    assert run["ended"].startswith("KeyboardInterrupt")
