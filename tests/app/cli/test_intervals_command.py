"""`--intervals`: confidence intervals for coefficients, in units of the columns of the file."""

import html
import json
import math
import re

import numpy as np
import pandas as pd
import pytest

from commands import call, houses, refused, write
from steinpath.app import fitted as module

QUICK = ("--n-iter", "60", "--n-alphas", "6")
ENTRIES = {"name", "estimate", "stderr", "lower", "upper", "pvalue", "significant"}


def fit(file, out, *options, target="price"):
    """Fit with intervals; return the JSON, and what that says of them."""
    command = ("fit", file, "--target", target, "--out", out, "--json", "--no-plots", *QUICK)
    found = json.loads(call(*command, "--intervals", *options).stdout)
    intervals = found["coefficient_intervals"]
    return found, intervals, {row["name"]: row for row in intervals["features"]}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A fit with intervals of houses, and the same without."""
    folder = tmp_path_factory.mktemp("intervals")
    file = write(folder, table=houses(400))
    command = ("fit", file, "--target", "price", *QUICK)
    with_them = call(*command, "--out", folder / "with", "--intervals")
    without = call(*command, "--out", folder / "without", "--no-plots")
    return folder, file, with_them, without


def test_the_console_shows_a_table(fitted):
    _, _, result, without = fitted
    printed = result.stdout
    assert re.search(r"95% confidence intervals for the coefficients, from it\w+n \d+ of", printed)
    assert re.search(r"Fläche m² +3\.0\d+ +0\.\d+ +2\.9\d+ +3\.0\d+ +<0\.0001 +\* *\n", printed)
    assert "Benjamini–Hochberg procedure, false discovery rate 10%" in printed
    assert "assume independent rows" in printed
    assert "'town=Köln'" in printed
    # nothing else has changed
    start, end = without.stdout.split("Iterations ended")
    assert printed.startswith(start)
    assert "confidence" not in start + end


def test_json_has_them(fitted, tmp_path):
    _, file, _, _ = fitted
    found, intervals, rows = fit(file, tmp_path / "out")
    assert set(intervals) == {
        "t", "level", "scale", "scores", "fdr", "fdr_features", "warnings", "notes", "features",
    }  # fmt: skip
    assert (intervals["level"], intervals["fdr"], intervals["scores"]) == (0.95, 0.1, "residuals")
    assert all(set(row) == ENTRIES for row in rows.values())
    # of the category, all levels but the most frequent one
    assert list(rows) == [
        "Fläche m²", "rooms", "town=Paris", "town=東京", "garden=yes", "sold (days)",
    ]  # fmt: skip
    true = {"Fläche m²": 3, "rooms": 0, "town=Paris": 20, "garden=yes": 15}
    for name, value in true.items():
        row = rows[name]
        assert abs(row["estimate"] - value) < 3 * row["stderr"]
        assert row["significant"] == (value != 0)
    assert set(pd.read_csv(found["files"]["intervals"])) == ENTRIES


def test_nothing_else_changes(fitted):
    folder, _, _, _ = fitted
    models = [(folder / name / "model.json").read_text() for name in ("with", "without")]
    assert models[0] == models[1]
    files = [{file.name for file in (folder / name).iterdir()} for name in ("with", "without")]
    assert files[0] - files[1] == {"intervals.csv", "plots"}
    assert (folder / "with" / "plots" / "intervals.pdf").exists()
    page = (folder / "without" / "report.html").read_text()
    assert 'id="intervals"' not in page


def test_the_report_has_a_section(fitted):
    folder, _, _, _ = fitted
    page = html.unescape((folder / "with" / "report.html").read_text())
    section = re.search(r'<section id="intervals".*?</section>', page, re.S).group()
    assert "they are not adjusted for the selection of alpha" in section
    assert "differences from its most frequent level" in section
    rows = re.findall(r"<tr>(.*?)</tr>", section, re.S)[1:-1]
    names = [re.search(r'<th scope="row">(.*?)</th>', row).group(1) for row in rows]
    assert len(names) == 6
    assert names[0] == "Fläche m²"  # the largest per standard deviation
    for row in rows:
        assert ("forest found" in row) == (">yes</td>" in row)
        assert row.count("<circle") == 1


def test_columns_that_repeat_others_are_not_identified(tmp_path):
    data = houses(200).drop(columns="town")
    file = write(tmp_path, table=data.assign(twice=2 * data["rooms"]))
    _, intervals, rows = fit(file, tmp_path / "out")
    for name in ("rooms", "twice"):
        assert rows[name] == dict.fromkeys(ENTRIES) | {"name": name, "significant": False}
    assert rows["Fläche m²"]["significant"]
    (warning,) = intervals["warnings"]
    assert warning.startswith("2 coefficients are not identified (columns 'rooms', 'twice')")
    assert "drop columns" in warning
    assert ">not identified</td>" in (tmp_path / "out" / "report.html").read_text()


def test_of_many_features_those_with_the_largest_coefficients(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_FEATURES", 20)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 60))
    y = X[:, :2] @ [3.0, -2.0] + rng.standard_normal(80)
    table = pd.DataFrame(X.round(4), columns=[f"x{j}" for j in range(60)]).assign(y=y.round(4))
    _, intervals, rows = fit(write(tmp_path, table=table), tmp_path / "out", target="y")
    assert len(rows) == 20
    assert intervals["scores"] == "node-wise lasso"
    assert intervals["fdr_features"] == 60
    assert any("20 features with the largest coefficients, of 60" in n for n in intervals["notes"])
    assert rows["x0"]["significant"]
    assert rows["x1"]["significant"]
    # by the Benjamini–Hochberg procedure among all of them, the others not rejected
    ordered = sorted(row["pvalue"] for row in rows.values())
    passed = [p for k, p in enumerate(ordered, 1) if p <= 0.1 * k / 60]
    limit = max(passed, default=-math.inf)
    assert all(row["significant"] == (row["pvalue"] <= limit) for row in rows.values())


def test_times_warn_and_tune_takes_them_too(tmp_path):
    file = write(tmp_path)
    _, intervals, _ = fit(file, tmp_path / "out", "--time", "sold")
    assert any("time series" in warning for warning in intervals["warnings"])
    options = ("--intervals", "--penalty", "lasso", "--loss", "lad", "--loss", "huber", *QUICK)
    result = call(
        "tune", file, "--target", "price", "--out", tmp_path / "t", "--no-plots", *options
    )
    assert "95% confidence intervals" in result.stdout


@pytest.mark.parametrize("target", ["garden", "town"])
def test_intervals_of_classes_are_up_to_a_factor(target, tmp_path):
    """One class against the rest, if there are more than two."""
    file, out = write(tmp_path, table=houses(300)), tmp_path / "out"
    linear = ("--curves", "no", "--products", "no")
    _, intervals, rows = fit(file, out, *linear, target=target)
    assert intervals["scale"] == "index"
    assert any("up to one common factor" in note for note in intervals["notes"])
    assert any("against the rest" in note for note in intervals["notes"]) == (target == "town")
    assert all(0 <= row["pvalue"] <= 1 for row in rows.values())
    assert "up to one common factor" in (out / "report.html").read_text(encoding="utf-8")
    printed = call("fit", file, "--target", target, "--out", out, "--intervals", *linear, *QUICK)
    assert "for the coefficients up to a common factor, from iteration" in printed.stdout


def test_a_comparison_has_none(tmp_path):
    assert "No such option" in refused("compare", write(tmp_path), "--intervals", code=2)
