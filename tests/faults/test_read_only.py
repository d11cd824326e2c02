"""Places where nothing can be written: said before the work, or with what was found."""

import importlib
import os
from pathlib import Path

import pytest

import steinpath as sp
from commands import call, write
from steinpath.study import StudyError, run_study
from steinpath.study import _runner as runner
from studies import SIZES, TINY

work = importlib.import_module("steinpath.app.cli.fit")
QUICK = ["--target=price", "--iters=20", "--n-alphas=3"]


pytestmark = pytest.mark.usefixtures("no_figures")


@pytest.fixture(params=["a file in its place", "read-only", "/proc"])
def place(request, tmp_path):
    """A folder that nothing can be written to, not even by root."""
    folder = tmp_path / "folder"
    if request.param == "a file in its place":
        folder.write_text("mine")
    elif request.param == "/proc":
        folder = Path("/proc")
    elif os.geteuid() != 0:
        folder.mkdir(mode=0o555)
    else:
        disk = request.getfixturevalue("disk")
        disk.mount("ro")
        folder = disk.place
    return folder


def no_work(*arguments):
    raise AssertionError("nothing should be done for a place that cannot be written to")


def test_a_report_is_refused_before_any_work_is_done(place, tmp_path, monkeypatch):
    monkeypatch.setattr(work, "_fit", no_work)
    file = write(tmp_path)
    [line] = call("fit", file, *QUICK, "--out", place / "out", code=1).stderr.splitlines()
    assert line.startswith(f"Error: cannot write to {place / 'out'}: ")
    assert line.endswith("; use --out to name another folder")


def test_a_study_is_refused_before_any_work_is_done(place, monkeypatch):
    monkeypatch.setattr(runner, "_source", no_work)
    with pytest.raises(StudyError, match=f"^cannot write to {place / 'out'}: ") as error:
        run_study(TINY, place / "out", SIZES)
    assert "permission to write" in str(error.value)


@pytest.mark.parametrize("name", ["model.json", "report.html"])
def test_what_was_found_is_shown_where_it_cannot_be_kept(tmp_path, monkeypatch, name):
    file = write(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("out", name).mkdir(parents=True)
    result = call("fit", file, *QUICK, "--no-plots", "--out=out", code=1)
    [line] = result.stderr.splitlines()
    assert line.startswith(f"Error: cannot write out/{name}")
    assert line.endswith("; free disk space, or write elsewhere")
    assert "expected absolute error" in result.stdout
    assert ("  out/model.json" in result.stdout) == (name != "model.json")
    if name != "model.json":
        assert sp.load_model("out/model.json")[-1].n_iter_ == 20
    assert not list(Path("out").rglob("*-partial"))
