"""Signals at any moment: what was finished is there, and what was killed comes to the same end."""

import os
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import kills
import steinpath as sp
from commands import call, write
from steinpath.app.cli.console import Display
from steinpath.plots._style import drawn_as


def test_killed_at_random_a_study_comes_to_the_same_end():
    # the same with a hundred kills, and of workers too, is `make kills`
    command = [sys.executable, kills.__file__, "--kills=4", "--reps=2", "--seed=2627"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    said = done.stdout.splitlines()
    assert said[-1].startswith("4 kills of ")
    assert "to the last bit" in said[-1]
    for each in ("SIGKILL", "SIGTERM", "SIGINT", "any time", "writing", "tables"):
        assert any(each in line for line in said), each


def test_the_program_would_notice_a_difference(tmp_path):
    for folder in ("undisturbed", "killed"):
        (tmp_path / folder / "parts").mkdir(parents=True)
        (tmp_path / folder / "risk").mkdir()
        (tmp_path / folder / "risk" / "summary.csv").write_text("1.5\n")
        runs = '{"runs": [{"ended": "complete"}]}'
        (tmp_path / folder / "risk" / "manifest.json").write_text(runs)
    killer = object.__new__(kills.Killer)
    killer.reference = tmp_path / "undisturbed"
    killer._compare(tmp_path / "killed")
    (tmp_path / "killed" / "risk" / "summary.csv").write_text("1.6\n")
    with pytest.raises(kills.Difference, match=r"differs .* in \['risk/summary.csv'\]"):
        killer._compare(tmp_path / "killed")


@pytest.fixture(autouse=True)
def _unhandled():
    """A signal that the command does not handle is a failure, and not the end of the tests."""

    def unhandled(number, frame):
        raise AssertionError(f"nobody handled {number!r}")

    before = signal.signal(signal.SIGTERM, unhandled)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def signalled(monkeypatch):
    """Have the process that fits sent a signal after some steps of one of its parts."""

    def after(number, part, steps):
        really, seen = Display.begin, []

        def begin(self, what, total):
            step = really(self, what, total)

            def counted():
                if what.startswith(part):
                    seen.append(what)
                    if len(seen) == steps:
                        os.kill(os.getpid(), number)
                return step()

            return counted

        monkeypatch.setattr(Display, "begin", begin)

    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    yield after
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_fit_that_is_told_to_end_makes_do_with_what_is_finished(tmp_path, signalled, number):
    signalled(number, "running", 12)
    options = ["--target=price", "--iters=40", "--n-alphas=3", "--no-plots", "--out", tmp_path]
    result = call("fit", write(tmp_path), *options, code=130)
    assert "Stopping; finished results are kept" in result.stderr
    assert "interrupted after" in result.stdout
    assert sp.load_model(tmp_path / "model.json")[-1].n_iter_ in (12, 13)
    assert (tmp_path / "report.html").exists()
    assert not list(tmp_path.glob("*-partial"))


def test_a_figure_that_is_cut_off_says_by_what():
    class Figure:
        def savefig(self, file, **options):
            try:
                raise KeyboardInterrupt
            finally:  # as Matplotlib's writer of PDF does
                raise zlib.error("Error -2 while flushing: inconsistent stream state")

    with pytest.raises(KeyboardInterrupt):
        drawn_as(Figure(), "pdf")


def test_a_command_that_is_ended_while_it_writes_leaves_no_half_file(tmp_path, monkeypatch):
    def ended(text, *args, **options):
        really(text, *args, **options)
        os.kill(os.getpid(), signal.SIGTERM)

    options = ["--target=price", "--iters=20", "--n-alphas=3", "--no-plots", "--out", tmp_path]
    call("fit", write(tmp_path), *options)
    before = (tmp_path / "model.json").read_bytes()
    really = Path.write_text
    monkeypatch.setattr(Path, "write_text", ended)
    result = call("predict", tmp_path / "model.json", tmp_path / "houses.csv", code=0)
    call(
        "predict",
        *(tmp_path / "model.json", tmp_path / "houses.csv", "--out", tmp_path / "p.csv"),
        code=130,
    )
    assert result.stdout.startswith("prediction\n")
    assert not list(tmp_path.glob("p.csv*"))
    assert (tmp_path / "model.json").read_bytes() == before
