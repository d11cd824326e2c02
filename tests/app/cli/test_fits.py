"""`steinpath fit`, `tune`, `compare` and `predict` on good files."""

import html
import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import steinpath as sp
from commands import call, houses, spawn, write

QUICK = ("--n-iter", "60", "--n-alphas", "6")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A fit, its file and what was written."""
    folder = tmp_path_factory.mktemp("fit")
    file = write(folder)
    result = call("fit", file, "--target", "price", "--out", folder / "out", *QUICK)
    return folder, file, result


def test_fit_prints_a_table_and_writes_everything(fitted):
    folder, _, result = fitted
    for text in ("price: LAD + lasso", "expected absolute error", "Fläche m²", "rows", "120",
                 "Absolute error by terms", "linear ", "curves and products "):  # fmt: skip
        assert text in result.stdout
    out = folder / "out"
    files = {"model.json", "plots", "report.html", "risk.csv"}
    assert {file.name for file in out.iterdir()} == files
    names = "risk surface coefficients predicted left_out_residuals residuals diagnostics"
    plots = {file.name for file in (out / "plots").iterdir()}
    names += " curves importance"
    assert plots - {"products.pdf"} == {"summary.png", *(f"{name}.pdf" for name in names.split())}
    risks = pd.read_csv(out / "risk.csv")
    assert len(risks) == 6 * 61
    model = sp.load_model(out / "model.json")
    best = model[-1]
    at = np.isclose(risks["alpha"], best.alpha_) & (risks["iterate"] == best.best_iter_)
    # on its own path it is the smallest, and on others nothing is smaller by more than chance
    assert risks["risk"][np.isclose(risks["alpha"], best.alpha_)].idxmin() == np.flatnonzero(at)[0]
    assert risks["risk"].min() > risks["risk"][at].item() - best.best_risk_stderr_
    assert f"{best.best_iter_} of 60" in result.stdout


def test_predict_writes_a_number_for_each_row(fitted, tmp_path):
    folder, _, _ = fitted
    model = folder / "out" / "model.json"
    new = houses(30, seed=1)
    file = write(tmp_path, "new.csv", new)
    result = call("predict", model, file)
    lines = result.stdout.splitlines()
    assert lines[0] == "prediction"
    predictions = np.array(lines[1:], float)
    np.testing.assert_array_equal(predictions, sp.load_model(model).predict(new))
    error = np.abs(predictions - new["price"]).mean()
    assert f"mean absolute error on these 30 rows: {error:.4g}" in result.stderr
    out = tmp_path / "predictions.json"
    call("predict", model, write(tmp_path, table=new.drop(columns="price")), "--json", "--out", out)
    assert json.loads(out.read_text())["predictions"] == predictions.tolist()


def test_json_is_one_object(tmp_path):
    file = write(tmp_path)
    result = call("fit", file, "--target", "price", "--out", tmp_path / "o", "--json", *QUICK)
    found = json.loads(result.stdout)
    assert found["target"] == "price"
    assert found["rows"] == 120
    assert found["features"] == 7
    assert found["risk"] < found["constant_risk"]
    assert not found["interrupted"]
    assert all(os.path.exists(name) for name in found["files"].values())
    assert found["risk"] == sp.load_model(found["files"]["model"])[-1].best_risk_
    assert found["choice_counted_by"] == "nested"
    assert sum(level["selected"] for level in found["levels"]) == 1
    assert found["levels"][0]["name"] == "linear"
    assert sum(column["share"] for column in found["columns"]) == pytest.approx(1)
    expected = 100 * (1 - found["risk"] / found["constant_risk"])
    assert found["improvement_percent"] == pytest.approx(expected)
    # heavy tails: half of the errors are much smaller than the mean
    assert 0 < found["median_absolute_error"] < found["risk"]
    risks = pd.read_csv(found["files"]["risks"])
    at = np.isclose(risks["alpha"], found["alpha"]) & (risks["iterate"] == found["iterate"])
    naive = risks["risk"][at].item(), risks["stderr"][at].item()
    assert (found["naive_risk"], found["naive_stderr"]) == pytest.approx(naive, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--loss", "square-root"], "expected squared error"),
        (["--loss", "huber", "--penalty", "ridge"], "Huber + ridge"),
        (["--quantile", "0.9"], "pinball loss at 0.9"),
        (["--loss", "epsilon_insensitive", "--epsilon", "0"], "ε-insensitive loss (ε = 0)"),
        (["--penalty", "elastic-net", "--l1-ratio", "0.9"], "LAD + elastic net"),
        (["--penalty", "mcp", "--gamma", "5"], "LAD + MCP"),
        (["--penalty", "scad"], "LAD + SCAD"),
        (["--penalty", "none"], "LAD + no penalty"),
        (["--loss", "squared", "--test-loss", "absolute"], "expected absolute error"),
        (["--rule", "one-se"], "LAD + lasso"),
        (["--drop", "sold", "--category", "rooms"], "rooms="),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options(options, words, tmp_path):
    file, out = write(tmp_path), tmp_path / "o"
    result = call("fit", file, "--target", "price", "--out", out, "--no-plots", *QUICK, *options)
    assert words in result.stdout
    model = sp.load_model(out / "model.json")
    assert np.isfinite(model.predict(houses(10, seed=2))).all()


def test_compare_ranks_by_the_same_loss(tmp_path):
    table = houses(400)
    table["price"] += 2000.0 * (np.arange(400) % 10 == 0)  # gross errors are what LAD is for
    file, out = write(tmp_path, table=table), tmp_path / "o"
    kinds = ("--loss", "lad", "--loss", "square_root", "--penalty", "lasso", "--penalty", "ridge")
    few = ("--n-alphas", "8")
    result = call("compare", file, "--target", "price", "--out", out, "--json", *kinds, *few)
    found = json.loads(result.stdout)
    risks = [row["risk"] for row in found["ranking"]]
    assert len(risks) == 4
    assert risks == sorted(risks)
    assert found["test_loss"] == "absolute"
    assert found["ranking"][0]["behind"] == 0
    assert all(row["behind_stderr"] > 0 for row in found["ranking"][1:])
    assert "model" not in found["files"]
    assert not (out / "model.json").exists()
    table = pd.read_csv(out / "ranking.csv")
    np.testing.assert_allclose(table["risk"], risks, rtol=1e-6)
    assert [row["loss"] for row in found["ranking"]] == ["LAD"] * 2 + ["square root"] * 2
    worst = found["ranking"][-1]
    assert worst["behind"] == pytest.approx(worst["risk"] - risks[0])
    assert worst["behind"] > 2 * worst["behind_stderr"]


def test_tune_keeps_the_best_model(tmp_path):
    file, out = write(tmp_path), tmp_path / "o"
    kinds = ("--loss", "lad", "--loss", "squared", "--penalty", "lasso")
    result = call("tune", file, "--target", "price", "--out", out, "--no-plots", *kinds, *QUICK)
    model = sp.load_model(out / "model.json")
    ranking = pd.read_csv(out / "ranking.csv")
    assert model[-1].best_risk_ == pytest.approx(ranking["risk"].min(), rel=1e-6)
    assert f"The best model, {ranking['loss'][0]} + {ranking['penalty'][0]}" in result.stdout
    assert "alpha" in result.stdout


def test_a_quantile_is_tested_by_its_own_loss(tmp_path):
    file = write(tmp_path)
    command = ("compare", file, "--target", "price", "--out", tmp_path / "o", "--no-plots")
    found = json.loads(call(*command, "--quantile", "0.8", "--json", *QUICK).stdout)
    assert (found["test_loss"], found["test_parameter"]) == ("quantile", 0.8)
    assert {row["loss"] for row in found["ranking"]} == {"quantile"}


def test_without_matplotlib_there_are_no_plots_and_a_line_says_why(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = call("fit", write(tmp_path), "--target", "price", "--out", tmp_path / "o", *QUICK)
    assert "pip install 'steinpath[plot]'" in result.stderr
    assert (tmp_path / "o" / "report.html").exists()


@pytest.mark.slow
def test_a_hundred_thousand_rows(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_000, 4)).round(4)
    y = X[:, 0] - 2 * X[:, 1] + rng.laplace(size=len(X))
    file = tmp_path / "long.csv"
    table = np.column_stack([X, y.round(4)])
    np.savetxt(file, table, "%.4f", ",", header="a,b,c,d,y", comments="")
    result = spawn("fit", file, "--target", "y", "--out", tmp_path / "o", "--json", "--no-plots")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["rows"] == 100_000
    # the mean absolute value of the noise
    assert found["risk"] == pytest.approx(1.0, abs=5 * found["stderr"])
    assert "because of the number of rows" in found["notes"][0]
    assert found["stop"] == "risk"


def test_the_real_entry_point(tmp_path):
    """As installed: the script, and the module."""
    script = os.path.join(os.path.dirname(sys.executable), "steinpath")
    write(tmp_path)
    command = ["fit", "houses.csv", "--target", "price", "--no-plots", *QUICK]
    said = spawn(*command, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert said.stderr == ""  # no progress where nobody looks
    again = subprocess.run([script, *command], cwd=tmp_path, capture_output=True, text=True)
    assert again.stdout == said.stdout


def test_what_a_terminal_cannot_show(tmp_path):
    file = write(tmp_path, table=houses().rename(columns={"rooms": "x" * 500}))
    arguments = ("fit", file, "--target", "price", "--out", tmp_path / "o", "--no-plots", *QUICK)
    plain = spawn(*arguments, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert plain.returncode == 0, plain.stderr
    assert "expected absolute error" in plain.stdout


def test_a_ranking_of_runs_that_were_too_short_says_so(tmp_path):
    command = ("compare", write(tmp_path), "--target", "price", "--out", tmp_path / "o")
    kinds = ("--loss", "lad", "--loss", "square-root", "--penalty", "lasso", "--no-plots")
    found = json.loads(call(*command, *kinds, "--n-iter", 3, "--n-alphas", 3, "--json").stdout)
    assert [row["still_falls"] for row in found["ranking"]] == [True, True]
    loser = found["ranking"][1]
    note = f"the estimated risk of {loser['loss']} + lasso was still decreasing at the last"
    assert any(each.startswith(note) for each in found["notes"])
    assert found["stop"] == "n_iter"
    long = json.loads(call(*command, *kinds, "--n-alphas", 3, "--json").stdout)
    assert not any("still decreasing" in each for each in long["notes"])
    assert long["stop"] == "risk"


def test_warnings_come_before_notes(tmp_path):
    """Few rows for the columns: the estimate warns; a column left out is a note."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((20, 30)), columns=[f"x{j}" for j in range(30)])
    table = table.assign(constant=1.0, y=table["x0"] + rng.standard_t(2, 20))
    command = ("fit", write(tmp_path, table=table), "--target", "y", "--out", tmp_path / "o")
    said = call(*command, "--no-plots", "--n-iter", 3, "--n-alphas", 4).stdout
    assert 0 < said.rindex("Warning: ") < said.index("Note: ")


def test_an_end_of_the_grid_that_matters_is_noted(tmp_path):
    command = ("fit", write(tmp_path), "--target", "price", "--out", tmp_path / "o", "--no-plots")
    grid = ("--n-alphas", 3, "--alpha-ratio")
    said = " ".join(call(*command, *grid, 0.9).stdout.split())
    note = (
        "the smallest alpha on the grid was selected, and its estimated risk is lower than that of "
        "the next one by more than a standard error; consider extending the grid: "
    )
    assert f"{note}--alpha-ratio 0.09." in said
    # a grid that goes far enough ends with an alpha that is as good as the next
    assert "on the grid was selected" not in call(*command, *grid, 1e-6).stdout


def test_a_target_computed_from_columns_is_noted_everywhere(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.poisson((50, 200, 9), (200, 3)), columns=["casual", "member", "wind"])
    table.assign(bikers=table["casual"] + table["member"]).to_csv(tmp_path / "b.csv", index=False)
    command = ("fit", tmp_path / "b.csv", "--target", "bikers", "--out", tmp_path, "--no-plots")
    said = "check whether columns such as 'member', 'casual'"
    assert said in " ".join(call(*command).stdout.split())
    [note] = json.loads(call(*command, "--json").stdout)["notes"]
    assert said in note
    page = html.unescape((tmp_path / "report.html").read_text("utf-8"))
    assert f"{note}</li>" in page


def test_repeated_identifiers_are_noted_unless_they_are_the_group(tmp_path):
    rng, person = np.random.default_rng(0), np.repeat(np.arange(30) + 100, 4)
    table = pd.DataFrame({"person_id": person, "block": np.repeat(np.arange(1, 31), 4)})
    table = table.assign(x=rng.standard_normal(120), site=rng.integers(0, 12, 120))
    table["y"] = table["x"] + rng.standard_normal(120)
    table.to_csv(tmp_path / "d.csv", index=False)
    command = ("fit", tmp_path / "d.csv", "--target", "y", "--out", tmp_path, "--no-plots")

    def notes(*options):
        found = json.loads(call(*command, "--json", *QUICK, *options).stdout)["notes"]
        return [note for note in found if "--group '" in note]

    first, second = notes()
    assert "column 'person_id' looks like an identifier" in first
    assert "use --group 'person_id'" in first
    assert "column 'block' has the same value in blocks of rows (30 blocks of 4 rows" in second
    assert not notes("--group", "person_id")
    assert notes("--group", "site") == [first]
    assert not notes("--time", "x")
