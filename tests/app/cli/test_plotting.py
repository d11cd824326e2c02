"""Commands draw for files, whatever backend is set, and show their result whatever plots do."""

import os

import pytest

from commands import call, spawn, write
from steinpath import plots
from steinpath.study import _output

# Of a notebook that is not installed here, one that is not there, no backend at all, and one with
# windows.
BACKENDS = ["module://matplotlib_inline.backend_inline", "module://nowhere", "nonsense", "TkAgg"]
SIZE = ["--n=40", "--p=10", "--iters=5"]
FIT = ["houses.csv", "--target=price", "--n-iter=20", "--n-alphas=3", "--loss=lad"]
COMMANDS = {
    "demo": ["demo", *SIZE, "--plot=demo.png"],
    "fit": ["fit", *FIT],
    "tune": ["tune", *FIT],
    "compare": ["compare", *FIT],
    "study": ["study", "risk", *SIZE, "--reps=2", "--jobs=1", "--out=out"],
    "bench": ["bench", *SIZE],
}


@pytest.mark.parametrize(
    ("command", "backend"),
    [("demo", BACKENDS[0]), ("fit", BACKENDS[0])]
    + [pytest.param("demo", backend, marks=pytest.mark.slow) for backend in BACKENDS[1:]]
    + [
        pytest.param(command, BACKENDS[0], marks=pytest.mark.slow)
        for command in COMMANDS
        if command not in ("demo", "fit")
    ],
)
def test_any_backend(command, backend, tmp_path):
    write(tmp_path)
    done = spawn(
        *COMMANDS[command], cwd=tmp_path, env=os.environ | {"MPLBACKEND": backend, "DISPLAY": ""}
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    drawn = {file.suffix for file in tmp_path.rglob("*") if file.suffix in (".png", ".pdf")}
    wanted = {"bench": set(), "demo": {".png"}}.get(command, {".png", ".pdf"})
    assert drawn == wanted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("demo", ImportError("no font")),
        ("demo", RuntimeError()),
        ("fit", ValueError("two\nlines")),
        ("tune", ValueError("no font")),
    ],
)
def test_the_result_is_shown_though_a_plot_fails(command, error, tmp_path, monkeypatch):
    def fails(*args, **kwargs):
        raise error

    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    good = call(*COMMANDS[command]).stdout.splitlines()
    monkeypatch.setattr(plots, "plot_risk", fails)
    result = call(*COMMANDS[command], code=1)
    reason = " ".join(str(error).split()) or "RuntimeError"
    assert result.stderr == f"Error: the plots could not be drawn: {reason}\n"
    # all but the line that says where the plots are
    assert result.stdout.splitlines() == good[:-1]


def test_the_table_of_a_study_is_shown_though_a_figure_fails(tmp_path, monkeypatch):
    def fails(*args, **kwargs):
        raise RuntimeError("no font")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("steinpath.plots.drawn_as", fails)
    said = call(*COMMANDS["study"]).stdout
    assert "No figures: no font; use --redraw to draw them later" in said
    assert (tmp_path / "out" / "risk" / "summary.md").read_text() in said


def test_a_figure_that_cannot_be_written_is_no_fault_of_the_plot(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device", "x.png")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plots, "save", full)
    result = call(*COMMANDS["demo"], code=1)
    assert result.stderr.startswith("Error: cannot write x.png: No space left on device")
    monkeypatch.setattr(_output.files, "write_bytes", full)
    result = call(*COMMANDS["study"], code=1)
    assert "No space left on device" in result.stderr
