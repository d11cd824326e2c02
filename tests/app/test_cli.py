"""The command."""

import json

from click.testing import CliRunner

import steinpath as sp
from steinpath.app.cli import main


def test_demo_prints_a_table_names_the_iterate_and_saves_a_plot(tmp_path):
    file = tmp_path / "demo.png"
    command = ["demo", "--n", "80", "--p", "40", "--iters", "20", "--plot", str(file)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    for word in ("iterate", "training error", "estimated risk", "true risk", "Chosen iterate: "):
        assert word in result.output
    assert file.read_bytes().startswith(b"\x89PNG")
    assert CliRunner().invoke(main, command).output == result.output  # a seed is a seed


def test_demo_prints_warnings():
    result = CliRunner().invoke(main, ["demo", "--n", "20", "--p", "10", "--iters", "5"])
    assert result.exit_code == 0, result.output
    assert "Warning: with 20 observations" in result.output


def test_demo_refuses_nonsense():
    assert CliRunner().invoke(main, ["demo", "--iters", "0"]).exit_code == 2
    assert "0.1" in CliRunner().invoke(main, ["--version"]).output


def test_public_names_are_documented_and_complete():
    for name in sp.__all__:
        assert getattr(sp, name).__doc__, name


def test_bench_times_and_compares():
    command = ["bench", "--n", "100", "--p", "30", "--iters", "20"]
    found = json.loads(CliRunner().invoke(main, [*command, "--json"]).output)
    path, *rivals = found["rows"]
    assert path["ratio"] == 1.0
    assert len(rivals) == 4
    assert all(row["seconds"] > 0 and row["error"] > 0 for row in rivals)
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    assert "10 folds of the path" in result.output


def test_demo_cannot_save_a_plot(tmp_path):
    (tmp_path / "file").write_text("no folder")
    command = ["demo", "--n", "40", "--p", "10", "--iters", "5", "--plot"]
    result = CliRunner().invoke(main, [*command, str(tmp_path / "file" / "x.png")])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: cannot write")
    assert len(result.stderr.splitlines()) == 1
