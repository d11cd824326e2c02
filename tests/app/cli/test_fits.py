"""`steinpath fit`, `tune`, `compare` and `predict` on good files."""

import html
import json
import os
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.stats import median_abs_deviation

import steinpath as sp
from commands import bounds, call, houses, refused, spawn, write
from steinpath._support.printing import with_error
from steinpath.problem._scoring import CRITERIA

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
    for text in ("price: LAD + lasso", "expected absolute error", "Fläche m²", "rows", "120"):
        assert text in result.stdout
    out = folder / "out"
    assert {file.name for file in out.iterdir()} == {
        "model.json",
        "plots",
        "report.html",
        "risk.csv",
    }
    plots = {file.name for file in (out / "plots").iterdir()}
    assert plots == {
        f"{name}.pdf"
        for name in (
            "risk",
            "surface",
            "coefficients",
            "predicted",
            "left_out_residuals",
            "residuals",
            "diagnostics",
        )
    } | {"summary.png"}
    risks = pd.read_csv(out / "risk.csv")
    assert len(risks) == 6 * 61
    model = sp.load_model(out / "model.json")
    best = model[-1]
    at = np.isclose(risks["alpha"], best.alpha_) & (risks["iterate"] == best.best_iter_)
    # on its own path it is the smallest, and on others nothing is smaller by more than chance
    assert risks["risk"][np.isclose(risks["alpha"], best.alpha_)].idxmin() == np.flatnonzero(at)[0]
    assert risks["risk"].min() > risks["risk"][at].item() - best.best_risk_stderr_
    assert f"{best.best_iter_} of 60" in result.stdout


def X_of(data):
    """The features that the command makes of houses."""
    return pd.DataFrame(
        {
            "area": data["Fläche m²"],
            "rooms": data["rooms"],
            **{level: data["town"] == level for level in ("Köln", "Paris", "東京")},
            "garden": data["garden"] == "yes",
            "sold": (pd.to_datetime(data["sold"]) - pd.Timestamp(0)).dt.days,
        }
    ).to_numpy(float)


def test_the_choice_is_that_of_tune_on_standardised_columns(fitted):
    folder, _, _ = fitted
    model = sp.load_model(folder / "out" / "model.json")
    data = houses()
    X, y = X_of(data), np.asarray(data["price"], float)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    seed = np.random.RandomState(0).randint(np.iinfo(np.int32).max)  # as scikit-learn draws it
    by_hand = sp.tune(X, y, sp.LAD(), sp.Lasso, 6, 60, fit_intercept=True, rng=seed)
    assert model[-1].alpha_ == pytest.approx(by_hand.best_lam / np.sqrt(len(y)))
    assert model[-1].best_iter_ == by_hand.best_iter
    assert model[-1].best_risk_ == pytest.approx(by_hand.best_risk)
    assert model[-1].best_risk_stderr_ == pytest.approx(by_hand.best_risk_stderr)
    new = houses(50, seed=5)
    rows = (X_of(new) - X_of(data).mean(axis=0)) / X_of(data).std(axis=0)
    np.testing.assert_allclose(model.predict(new), by_hand.predict(rows), rtol=1e-6)
    np.testing.assert_allclose(
        bounds(model, new, 0.8), by_hand.predict_interval(rows, 0.8), rtol=1e-6
    )


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
    expected = 100 * (1 - found["risk"] / found["constant_risk"])
    assert found["improvement_percent"] == pytest.approx(expected)
    # heavy tails: half of the errors are much smaller than the mean
    assert 0 < found["median_absolute_error"] < found["risk"]
    risks = pd.read_csv(found["files"]["risks"])
    at = np.isclose(risks["alpha"], found["alpha"]) & (risks["iterate"] == found["iterate"])
    naive = risks["risk"][at].item(), risks["stderr"][at].item()
    assert (found["naive_risk"], found["naive_stderr"]) == pytest.approx(naive, rel=1e-6)


def test_the_error_is_said_with_what_it_means(fitted):
    folder, _, result = fitted
    model = sp.load_model(folder / "out" / "model.json")[-1]
    lines = " ".join(result.stdout.split())
    expected = with_error(model.best_risk_, model.best_risk_stderr_)
    assert f"expected absolute error {expected} median absolute error" in lines
    meaning = "± is one standard error, adjusted for the selection of alpha and iteration"
    assert lines.count("±") == 2  # the number, and what that means
    assert f"{meaning}." in lines
    page = (folder / "out" / "report.html").read_text(encoding="utf-8")
    assert f"{expected} ({meaning});" in html.unescape(page)
    assert "improvement over a constant" in lines
    assert "As the minimum of many estimates it is biased downwards" in page


def test_a_seed_is_a_seed(tmp_path):
    file, found = write(tmp_path), []
    for k in range(2):
        out = tmp_path / f"o{k}"
        call("fit", file, "--target", "price", "--out", out, "--no-plots", "--seed", 3, *QUICK)
        found.append([(out / name).read_bytes() for name in ("model.json", "risk.csv")])
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["d.csv", "d.tsv", "d.csv.gz", "d.parquet", "d.feather", "d.npz"])
def test_every_kind_of_file_gives_the_same_model(name, tmp_path):
    table = houses()
    file = tmp_path / name
    if name == "d.tsv":
        table.to_csv(file, sep="\t", index=False)
    elif "csv" in name:
        table.to_csv(file, index=False)
    elif name == "d.npz":
        columns = {column: table[column].to_numpy() for column in table}
        columns["sold"] = columns["sold"].astype("datetime64[D]")
        np.savez(file, **{k: v.astype(str) if v.dtype == object else v for k, v in columns.items()})
    else:
        table["sold"] = pd.to_datetime(table["sold"])
        getattr(table, f"to_{name[2:]}")(file)
    out = tmp_path / "o"
    call("fit", file, "--target", "price", "--out", out, "--no-plots", *QUICK)
    reference = write(tmp_path)
    call("fit", reference, "--target", "price", "--out", tmp_path / "r", "--no-plots", *QUICK)
    model, same = (sp.load_model(folder / "model.json") for folder in (out, tmp_path / "r"))
    np.testing.assert_allclose(model.predict(table), same.predict(table), rtol=1e-10)


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


def test_shapes_are_kept_with_the_model(tmp_path):
    file, out = write(tmp_path), tmp_path / "o"
    options = ("--loss", "huber", "--delta", "7", "--penalty", "mcp", "--gamma", "4")
    call("fit", file, "--target", "price", "--out", out, "--no-plots", *QUICK, *options)
    # in the file, in units of the target
    delta = 7 * median_abs_deviation(houses()["price"], scale="normal")
    model = sp.load_model(out / "model.json")[-1]
    assert model.loss_.delta == pytest.approx(delta)
    assert model.penalty_.gamma == 4


def test_missing_values_are_filled_in_on_request(tmp_path):
    table = houses()
    table.loc[3, "Fläche m²"] = None
    table.loc[4, "town"] = None
    table.loc[5, "price"] = None
    file, out = write(tmp_path, table=table), tmp_path / "o"
    result = call("fit", file, "--target", "price", "--out", out, "--impute", "--no-plots", *QUICK)
    assert "1 row without a target was dropped" in result.stdout
    predictions = call("predict", out / "model.json", file).stdout.splitlines()
    assert len(predictions) == 121


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


def test_the_report_has_the_number_the_command_and_the_notes(fitted):
    folder, file, _ = fitted
    page = (folder / "out" / "report.html").read_text(encoding="utf-8")
    model = sp.load_model(folder / "out" / "model.json")
    assert f"iteration {model[-1].best_iter_} of 60" in page
    assert f"steinpath fit {file} --target price" in page
    assert "Fläche m²" in page
    assert sp.__name__ in page


def test_folders_are_named_after_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    call("fit", "houses.csv", "--target", "price", "--no-plots", *QUICK)
    assert (tmp_path / "houses-fit" / "report.html").exists()


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
    import subprocess

    again = subprocess.run(
        [script, *command], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert again.stdout == said.stdout


def test_levels_do_not_depend_on_what_else_is_in_the_file(tmp_path):
    """Codes with zeros, long ones, true and false: a row is predicted as it is, in any company."""
    rng = np.random.default_rng(0)
    codes = ["01", "02", "9007199254740992", "9007199254740993"]
    table = pd.DataFrame(
        {
            "code": rng.choice(codes, 200),
            "flag": rng.choice(["True", "False"], 200),
            "x": rng.standard_normal(200),
        }
    )
    effects = dict(zip(codes, (-5.0, 0.0, 5.0, 10.0), strict=True))
    table["y"] = table["code"].map(effects) + 3 * (table["flag"] == "True") + table["x"]
    file, out = write(tmp_path, table=table), tmp_path / "o"
    call("fit", file, "--target", "y", "--category", "code", "--out", out, "--no-plots", *QUICK)
    model = out / "model.json"
    new = pd.DataFrame({"code": codes, "flag": ["TRUE", "false", "True", "FALSE"], "x": 0.0})
    strange = pd.DataFrame({"code": ["X9"], "flag": ["maybe"], "x": [0.0]})
    alone = call("predict", model, write(tmp_path, table=new)).stdout.split()[1:]
    beside = call("predict", model, write(tmp_path, table=pd.concat([new, strange])))
    assert beside.stdout.split()[1:5] == alone
    truth = new["code"].map(effects) + 3 * new["flag"].str.lower().eq("true")
    np.testing.assert_allclose(np.array(alone, float), truth, atol=0.5)
    np.testing.assert_array_equal(sp.load_model(model).predict(new), np.array(alone, float))


@pytest.mark.parametrize(
    ("options", "constant"),
    [
        (["--quantile", "0.9", "--loss", "lad"], lambda y: np.quantile(y, 0.9)),
        (["--loss", "squared", "--test-loss", "absolute"], np.median),
        (["--loss", "lad", "--test-loss", "squared"], np.mean),
    ],
    ids=["quantile", "absolute", "squared"],
)
def test_the_constant_prediction_is_the_best_for_the_test_loss(options, constant, tmp_path):
    file = write(tmp_path)
    command = ("compare", file, "--target", "price", "--out", tmp_path / "o", "--no-plots")
    found = json.loads(call(*command, "--penalty", "lasso", "--json", *QUICK, *options).stdout)
    y = houses()["price"].to_numpy()
    criterion = CRITERIA[found["test_loss"]](found["test_parameter"])
    best = criterion(y, np.full_like(y, constant(y))).mean()
    assert found["constant_risk"] == pytest.approx(best, rel=1e-3)


def test_widths_are_in_robust_standard_deviations_of_the_target(tmp_path):
    file = write(tmp_path)
    command = ("fit", file, "--target", "price", "--out", tmp_path / "o", "--no-plots", "--json")
    found = json.loads(call(*command, "--test-loss", "huber", *QUICK).stdout)
    spread = median_abs_deviation(houses()["price"], scale="normal")
    assert found["test_parameter"] == pytest.approx(1.35 * spread)
    found = json.loads(call(*command, "--test-loss", "huber", "--delta", 7, *QUICK).stdout)
    assert found["test_parameter"] == pytest.approx(7 * spread)


def test_single_precision_is_precise_enough(tmp_path):
    rng = np.random.default_rng(0)
    n = 26_000  # times the values of alpha: too many for double precision
    X = np.column_stack([1e6 + rng.standard_normal(n), 1e-42 * rng.standard_normal(n)])
    y = X[:, 0] - 1e42 * X[:, 1] + rng.laplace(size=n)
    file = tmp_path / "long.csv"
    np.savetxt(file, np.column_stack([X, y]), "%.17g", ",", header="a,b,y", comments="")
    result = call(
        "fit",
        file,
        "--target",
        "y",
        "--out",
        tmp_path / "o",
        "--no-plots",
        "--json",
        "--n-iter",
        60,
    )
    model = sp.load_model(json.loads(result.stdout)["files"]["model"])
    np.testing.assert_allclose(model[-1].coef_ * [1, 1e-42], [1, -1], atol=0.05)


def test_what_a_terminal_cannot_show(tmp_path):
    table = houses().rename(columns={"rooms": "\x1b[31mred" + "x" * 500, "garden": "[bold]"})
    file = write(tmp_path, table=table)
    arguments = ("fit", file, "--target", "price", "--out", tmp_path / "o", "--no-plots", *QUICK)
    assert "\x1b" not in call(*arguments).stdout
    plain = spawn(*arguments, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert plain.returncode == 0, plain.stderr
    assert "expected absolute error" in plain.stdout


def test_a_risk_that_still_falls_is_the_first_thing_said(tmp_path):
    file, out = write(tmp_path), tmp_path / "o"
    command = ("fit", file, "--target", "price", "--out", out, "--no-plots", "--n-alphas", 2)
    lines = call(*command, "--n-iter", 3).stdout.splitlines()
    (warning,) = json.loads(call(*command, "--n-iter", 3, "--json").stdout)["warnings"]
    assert lines[1].startswith(
        "Warning: the estimated risk was still decreasing after 3 iterations; use"
    )
    assert "Iterations ended at 3: as set by --n-iter." in lines
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.index("such as --n-iter 6") < page.index('<dl class="facts">')
    assert warning.endswith("such as --n-iter 6")


def test_iterations_are_as_many_as_lower_the_risk(tmp_path):
    command = ("fit", write(tmp_path), "--target", "price", "--out", tmp_path / "o", "--no-plots")
    said = call(*command).stdout
    model = sp.load_model(tmp_path / "o" / "model.json")
    reason = "more are not expected to lower the estimated risk"
    assert f"Iterations ended at {model[-1].n_iter_}: {reason}." in said
    assert f"{model[-1].best_iter_} of {model[-1].n_iter_}" in said
    assert "still decreasing" not in said


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


def test_a_target_that_nothing_predicts(tmp_path):
    rng = np.random.default_rng(0)
    table = houses().assign(price=rng.standard_normal(120))
    command = ("fit", write(tmp_path, table=table), "--target", "price", "--out", tmp_path / "o")
    said = " ".join(call(*command, "--no-plots", "--rule", "one-se").stdout.split())
    assert "all coefficients are zero: no feature improves on a constant prediction" in said


def test_the_former_name_of_an_option_still_works(tmp_path):
    file = write(tmp_path)
    command = ("fit", file, "--target", "price", "--out", tmp_path / "o", "--no-plots", "--json")
    one, other = (
        json.loads(call(*command, iterations, 20, alphas, 3).stdout)
        for iterations, alphas in (("--iters", "--n-alphas"), ("--n-iter", "--n-alphas"))
    )
    assert one["risk"] == other["risk"]
    assert len(pd.read_csv(tmp_path / "o" / "risk.csv")) == 3 * 21
    help_text = call("fit", "--help").stdout
    assert {"--n-alphas", "--n-iter"} <= set(help_text.split())
    assert "--iters" not in help_text.split()
    message = refused(*command, "--iters", 0, code=2)
    assert "'--n-iter'" in message
    assert "--iters" not in message


def test_codes_that_count_as_numbers_are_noted(tmp_path):
    table = houses().assign(zip=["00501", "10001", "02134"] * 40)
    file, out = write(tmp_path, table=table), tmp_path / "o"
    options = ("--target", "price", "--out", out, "--no-plots", *QUICK)
    said = " ".join(call("fit", file, *options).stdout.split())
    note = (
        "column 'zip' is treated as numeric but is written like a code, first '00501' in line 2; "
        "if it is a code, use --category 'zip'"
    )
    assert f"Note: {note}." in said
    assert note in html.unescape((out / "report.html").read_text(encoding="utf-8"))
    said = call("fit", file, *options, "--category", "zip").stdout
    assert "like a code" not in said
    assert "zip=00501" in sp.load_model(out / "model.json")[0].get_feature_names_out()
