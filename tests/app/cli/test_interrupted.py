"""Ctrl-C leaves what is finished, and progress is shown to those who look."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

import steinpath as sp
from commands import COMMAND, Terminal, write

pytestmark = pytest.mark.usefixtures("ctrl_c")

LONG = ["fit", "houses.csv", "--target=price", "--n-iter=40000", "--n-alphas=5", "--no-plots"]


def test_progress_and_a_fit_cut_short(tmp_path):
    write(tmp_path)
    terminal = Terminal(*LONG, cwd=tmp_path)
    terminal.wait_for("running 5 penalties")
    terminal.wait_for(r"[1-9]\d*/40000")
    terminal.interrupt()
    terminal.wait_for("Stopping; finished results are kept")
    assert terminal.end() == 130, terminal.seen[-500:]
    assert "with 5 values of alpha" in terminal.seen.replace("\r\n", " ")
    model = sp.load_model(tmp_path / "houses-fit" / "model.json")
    assert 0 < model[-1].n_iter_ < 40000
    assert (tmp_path / "houses-fit" / "report.html").exists()


def test_twice_is_the_end(tmp_path):
    write(tmp_path)
    terminal = Terminal(*LONG, cwd=tmp_path)
    terminal.wait_for(r"[1-9]\d*/40000")
    terminal.interrupt()
    terminal.wait_for("Stopping")
    terminal.interrupt()
    assert terminal.end() == 130
    assert "Error: stopped" in terminal.seen
    assert not (tmp_path / "houses-fit" / "model.json").exists()


def test_before_anything_is_finished_once_is_enough(tmp_path):
    os.mkfifo(tmp_path / "slow.csv")  # never ends
    terminal = Terminal("fit", "slow.csv", "--target=price", cwd=tmp_path)
    terminal.wait_for("reading slow.csv")
    time.sleep(1)  # a signal just before it waits for the pipe would be handled after that only
    terminal.interrupt()
    assert terminal.end() == 130
    assert "Error: stopped" in terminal.seen


@pytest.mark.parametrize("command", ["compare", "tune"])
def test_a_comparison_cut_short_has_what_is_finished(command, tmp_path):
    write(tmp_path)
    kinds = [f"--loss={loss}" for loss in ("lad", "huber", "square-root", "squared", "quantile")]
    terminal = Terminal(
        command, "houses.csv", "--target", "price", "--no-plots", "--json", *kinds, cwd=tmp_path
    )
    terminal.wait_for("comparing 10 models")
    terminal.wait_for("1/10")
    terminal.interrupt()
    assert terminal.end() == 130, terminal.seen[-500:]
    found = json.loads(terminal.seen[terminal.seen.index('{\r\n "target"') :])
    assert found["interrupted"]
    assert 1 <= len(found["ranking"]) < 10
    assert f"{len(found['ranking'])} of 10 models compared" in found["notes"][-1]
    folder = tmp_path / f"houses-{command}"
    assert (folder / "ranking.csv").exists()
    assert (folder / "model.json").exists() == (command == "tune")


# Sends us Ctrl-C when a module is about to be imported; hides it, as modules written in C do.
AT_IMPORT = """
import importlib.abc, os, signal, sys

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                if "HIDDEN" in os.environ:
                    raise ImportError("initialization failed") from None
                raise

sys.meta_path.insert(0, Finder())
"""
PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
MODULE, FUNCTION = PROJECT["project"]["scripts"]["steinpath"].split(":")
SCRIPT = [sys.executable, "-c", f"from {MODULE} import {FUNCTION}; {FUNCTION}()"]


def interrupted_at(module, folder, *arguments, command=COMMAND, **environment):
    """Run the command with Ctrl-C at the import of a module; return its exit code and errors."""
    (folder / "sitecustomize.py").write_text(AT_IMPORT)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [*command, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": path, "INTERRUPT_AT": module} | environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stderr.strip()


@pytest.mark.parametrize("command", [COMMAND, SCRIPT], ids=["module", "script"])
@pytest.mark.parametrize(
    "module",
    [
        "steinpath.app",
        "click",
        "numpy.random.mtrand",  # written in C
        "sklearn.base",
        "steinpath.app.cli.predict",
    ],
)
def test_while_modules_are_imported(module, command, tmp_path):
    arguments = {
        "sklearn.base": ("fit", "d.csv"),
        "steinpath.app.cli.predict": ("predict", "m", "d"),
    }
    ended = interrupted_at(module, tmp_path, *arguments.get(module, ("demo",)), command=command)
    assert ended == (130, "Error: stopped")


@pytest.mark.parametrize("hidden", [{}, {"HIDDEN": "1"}], ids=["seen", "hidden"])
def test_while_a_command_imports_what_it_needs(hidden, tmp_path):
    (tmp_path / "d.parquet").write_bytes(b"")
    arguments = "fit", "d.parquet", "--target=y"
    ended = interrupted_at("pyarrow.parquet", tmp_path, *arguments, **hidden)
    assert ended == (130, "Error: stopped")


def test_where_it_is_ignored_it_stays_ignored(tmp_path):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert interrupted_at("numpy", tmp_path, "--version") == (0, "")
    finally:
        signal.signal(signal.SIGINT, before)
