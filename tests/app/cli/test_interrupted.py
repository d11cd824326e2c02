"""Ctrl-C leaves what is finished, and progress is shown to those who look."""

import json
import os

import pytest

import steinpath as sp
from commands import Terminal, write

pytestmark = pytest.mark.usefixtures("ctrl_c")

LONG = ["fit", "houses.csv", "--target=price", "--iters=100000", "--strengths=5", "--no-plots"]


def test_progress_and_a_fit_cut_short(tmp_path):
    write(tmp_path)
    terminal = Terminal(*LONG, cwd=tmp_path)
    terminal.wait_for("running 5 penalties")
    terminal.wait_for(r"[1-9]\d*/100000")
    terminal.interrupt()
    terminal.wait_for("Stopping: making do with what is finished")
    assert terminal.end() == 130, terminal.seen[-500:]
    assert "of 5 strengths of the penalty" in terminal.seen.replace("\r\n", " ")
    model = sp.load_model(tmp_path / "houses-fit" / "model.json")
    assert 0 < model.choice.iterations < 100000
    assert (tmp_path / "houses-fit" / "report.html").exists()


def test_twice_is_the_end(tmp_path):
    write(tmp_path)
    terminal = Terminal(*LONG, cwd=tmp_path)
    terminal.wait_for(r"[1-9]\d*/100000")
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
