"""A full disk: nothing that was finished is lost, nothing half-written is there."""

import os
import re
import resource
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import matplotlib
import pytest

import steinpath as sp
from commands import COMMAND, call, houses, write
from steinpath import plots
from steinpath._support.files import write_text
from steinpath.study import StudyError, run_study
from steinpath.study import _runner as runner
from studies import SIZES, TINY, part_files

QUICK = ["--target=price", "--iters=20", "--n-alphas=3"]


@contextmanager
def files_below(most):
    """Let no file of this process grow to so many bytes: as on a full disk, and nobody else's."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most - 1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def contents(folder):
    """All files of a folder but notes of runs, by name."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in Path(folder).rglob("*")
        if file.is_file() and file.name not in ("manifest.json", "filler")
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Folder of a file, and what is made of it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    write(folder)
    write(folder, "many.csv", houses(500))
    before = os.getcwd()
    os.chdir(folder)
    call("fit", "houses.csv", *QUICK, "--no-plots", "--out=out")
    os.chdir(before)
    return folder


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("model.json", []),
        ("report.html", ["model.json", "risk.csv"]),
        ("plots/summary.png", ["model.json", "report.html", "risk.csv"]),
    ],
)
def test_what_could_not_be_written_is_named_and_all_else_is_kept(
    undisturbed, tmp_path, monkeypatch, name, kept
):
    shutil.copy(undisturbed / "houses.csv", tmp_path)
    monkeypatch.chdir(tmp_path)
    expected = contents(undisturbed / "out")
    largest = max(map(len, expected.values()))  # a figure is larger
    with files_below(len(expected[name]) if name in expected else largest + 1):
        drawn = [] if name.startswith("plots") else ["--no-plots"]
        result = call("fit", "houses.csv", *QUICK, *drawn, "--out=out", code=1)
    [line] = result.stderr.splitlines()
    assert line.startswith(f"Error: cannot write out/{name}: File too large; free disk space")
    assert "expected" in result.stdout  # what was found is shown all the same
    assert contents("out").keys() == set(kept)
    for file in kept:
        assert contents("out")[file] == expected[file] or (file == "report.html" and not drawn)


def test_a_file_that_was_there_before_stays_as_it_was(undisturbed, tmp_path, monkeypatch):
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    before = contents("out")
    with files_below(500):
        call("fit", "houses.csv", *QUICK, "--loss=huber", "--out=out", code=1)
        result = call("predict", "out/model.json", "many.csv", "--out=new.csv", code=1)
    assert contents("out") == before
    assert result.stderr.splitlines()[-1].startswith("Error: cannot write new.csv: File too large")
    assert not list(tmp_path.glob("new.csv*"))


def test_a_disk_that_is_really_full_and_then_is_not(undisturbed, tmp_path, monkeypatch, disk):
    shutil.copy(undisturbed / "houses.csv", tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").symlink_to(disk.place)
    disk.fill(room=60_000)
    arguments = ["fit", "houses.csv", *QUICK, "--no-plots", "--out=out"]
    [line] = call(*arguments, code=1).stderr.splitlines()
    assert line.startswith(
        "Error: cannot write out/report.html: No space left on device; free disk space"
    )
    assert set(contents(disk.place)) == {"model.json", "risk.csv"}
    (disk.place / "filler").unlink()
    call(*arguments)
    assert contents(disk.place) == contents(undisturbed / "out")


def test_an_output_that_takes_nothing(undisturbed):
    command = [*COMMAND, "predict", "out/model.json", "houses.csv"]
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=undisturbed, check=False
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("Error: cannot write the output: No space left")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_a_figure_on_a_full_disk(tmp_path, ending):
    figure, ax = matplotlib.pyplot.subplots()
    ax.plot([0, 1], [0, 1])
    file = tmp_path / f"figure.{ending}"
    plots.save(figure, file)
    before = file.read_bytes()
    ax.plot([0, 1], [1, 0])
    for most in (1, 2000, len(before) // 2):  # at the start, and in the midst
        with files_below(most), pytest.raises(OSError, match="File too large") as error:
            plots.save(figure, file)
        assert error.value.filename == str(file)
        assert list(tmp_path.iterdir()) == [file]
        assert file.read_bytes() == before


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Folder of a study that nothing disturbed."""
    folder = tmp_path_factory.mktemp("study")
    run_study(TINY, folder, SIZES)
    return folder


@pytest.mark.parametrize("kind", ["parquet", "csv", "pdf", "png"])
def test_a_study_on_a_full_disk_goes_on_where_it_was(study, tmp_path, monkeypatch, kind):
    if kind != "parquet":  # all replications are there, and it is about the rest
        shutil.copytree(study / "parts", tmp_path / "parts")
    largest = max(study.rglob(f"*.{kind}"), key=lambda file: file.stat().st_size)
    with files_below(largest.stat().st_size), pytest.raises(StudyError) as error:
        run_study(TINY, tmp_path, SIZES)
    explained = (
        r"cannot write (.+?): .*File too large\. Finished replications are kept: make sure that "
        "there is free space and permission to write, then run the same command again"
    )
    file = Path(re.fullmatch(explained, str(error.value))[1])
    assert file.suffix == largest.suffix
    assert not file.exists()
    assert not list(tmp_path.rglob("*-partial"))
    whole = contents(study / "tiny")
    assert contents(tmp_path / "tiny").items() <= whole.items()
    if kind != "pdf":  # they take long, and once they were all there
        monkeypatch.setattr(runner, "write_figures", lambda folder, exhibits: [])
        drawn = (".pdf", ".png")
        whole = {name: content for name, content in whole.items() if not name.endswith(drawn)}
    report = run_study(TINY, tmp_path, SIZES)
    assert report.finished == report.total
    assert contents(tmp_path / "tiny").items() >= whole.items()
    assert [file.name for file in part_files(tmp_path)] == [f.name for f in part_files(study)]


def test_links_are_followed_and_what_is_no_file_stays(tmp_path):
    real, link, pipe = tmp_path / "real.txt", tmp_path / "link.txt", tmp_path / "pipe"
    link.symlink_to(real)
    write_text(link, "text")
    assert link.is_symlink()
    assert real.read_text() == "text"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="is not a regular file"):
        write_text(pipe, "text")
    assert pipe.is_fifo()


def test_a_saved_model_on_a_full_disk_stays_as_it_was(undisturbed, tmp_path):
    file = Path(shutil.copy(undisturbed / "out" / "model.json", tmp_path))
    before, model = file.read_bytes(), sp.load_model(file)
    with files_below(100), pytest.raises(OSError, match="File too large"):
        sp.save_model(model, file)
    assert contents(tmp_path) == {"model.json": before}
