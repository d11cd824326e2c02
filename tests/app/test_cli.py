"""The command."""

import json

from click.testing import CliRunner

from steinpath.app.cli import main


def test_demo_prints_a_table_names_the_iterate_and_saves_a_plot(tmp_path):
    file = tmp_path / "demo.png"
    command = ["demo", "--n", "80", "--p", "40", "--n-iter", "20", "--plot", str(file)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    for word in ("iteration", "training error", "estimated risk", "Selected iteration "):
        assert word in result.output
    assert file.read_bytes().startswith(b"\x89PNG")
    assert CliRunner().invoke(main, command).output == result.output  # a seed is a seed


def test_demo_prints_warnings():
    result = CliRunner().invoke(main, ["demo", "--n", "20", "--p", "10", "--n-iter", "5"])
    assert result.exit_code == 0, result.output
    assert "Warning: with 20 observations" in result.output


def test_demo_refuses_nonsense():
    assert CliRunner().invoke(main, ["demo", "--n-iter", "0"]).exit_code == 2
    assert "0.1" in CliRunner().invoke(main, ["--version"]).output


def test_bench_times_and_compares():
    command = ["bench", "--n", "100", "--p", "30", "--n-iter", "20"]
    found = json.loads(CliRunner().invoke(main, [*command, "--json"]).output)
    path, *methods = found["rows"]
    assert path["ratio"] == 1.0
    assert len(methods) == 4
    assert all(row["seconds"] > 0 and row["error"] > 0 for row in methods)
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    assert "10-fold cross-validation" in result.output


def test_the_former_name_of_n_iter_is_accepted_and_hidden():
    runner, size = CliRunner(), ["--n", "40", "--p", "10"]
    for command in ("demo", "bench"):
        result = runner.invoke(main, [command, *size, "--iters", "5"])
        assert result.exit_code == 0, result.output
        assert ", 5 iterations, " in result.output
    for command in ("demo", "bench", "study", "fit"):
        help_text = runner.invoke(main, [command, "--help"]).output
        assert "--n-iter" in help_text
        assert "--iters" not in help_text
