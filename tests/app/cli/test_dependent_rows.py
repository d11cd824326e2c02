"""`--group`, `--time` and `--gap`: errors on new groups, and on what comes later."""

import json

import numpy as np
import pandas as pd
import pytest

import steinpath as sp
from commands import bounds, call, write

QUICK = ("--n-iter", "60", "--n-alphas", "6", "--no-plots")


def clusters(count, seed, size=8, p=30):
    """Rows of a site share their features and most of their error."""
    rng = np.random.default_rng(seed)
    site = np.repeat(np.arange(count), size)
    X = rng.standard_normal((count, p))[site] + 0.1 * rng.standard_normal((count * size, p))
    y = X[:, 0] + rng.standard_normal(count)[site] + 0.3 * rng.standard_normal(count * size)
    table = pd.DataFrame(X.round(4), columns=[f"x{j}" for j in range(p)])
    table = table.assign(site=[f"site {k}" for k in site], y=y.round(4))
    return table.sample(frac=1, random_state=seed).reset_index(drop=True)


def fit(file, out, *options):
    command = ("fit", file, "--target", "y", "--out", out, "--json", *QUICK, *options)
    return json.loads(call(*command).stdout)


@pytest.fixture(scope="module")
def grouped(tmp_path_factory):
    """A fit to groups, one that takes rows for independent, and errors on new groups."""
    folder = tmp_path_factory.mktemp("groups")
    file, new = write(folder, table=clusters(40, seed=0)), clusters(400, seed=1)
    found = {
        "with": fit(file, folder / "with", "--group", "site"),
        "without": fit(file, folder / "without", "--drop", "site"),
    }
    models = {name: sp.load_model(each["files"]["model"]) for name, each in found.items()}
    errors = {n: np.abs(m.predict(new) - new["y"]).mean() for n, m in models.items()}
    return folder, found, models, errors, new


def test_the_expected_error_is_that_on_new_groups(grouped):
    _, found, _, errors, _ = grouped
    assert abs(found["with"]["risk"] - errors["with"]) < 3 * found["with"]["stderr"]
    assert abs(found["with"]["risk"] / errors["with"] - 1) < 0.2
    # rows of groups that the model has seen are easier
    assert found["without"]["risk"] < 0.7 * errors["without"]


def test_intervals_cover_new_groups(grouped):
    _, _, models, _, new = grouped
    shares = {}
    for name, model in models.items():
        lower, upper = bounds(model, new, 0.9).T
        shares[name] = np.mean((lower <= new["y"]) & (new["y"] <= upper))
    assert shares["with"] > 0.8
    assert shares["without"] < shares["with"] - 0.1


def test_the_group_is_no_feature_and_need_not_be_in_new_rows(grouped):
    _, found, models, _, new = grouped
    assert found["with"]["features"] == 30
    rows = new.drop(columns="site")
    np.testing.assert_array_equal(models["with"].predict(rows), models["with"].predict(new))
    assert any("held out together (40 groups of 8 rows)" in each for each in found["with"]["notes"])


def drifting(n, seed=0, order=None):
    """A level that wanders, so that neighbours in time are alike."""
    rng = np.random.default_rng(seed)
    level, X = np.cumsum(rng.standard_normal(n)), rng.standard_normal((n, 3))
    y = 3 * X[:, 0] + level
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(n), unit="D")
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y}).round(4)
    table["day"] = days.strftime("%Y-%m-%d")
    return table if order is None else table.iloc[order].reset_index(drop=True)


def test_the_order_of_the_file_does_not_matter(tmp_path):
    shuffled = np.random.default_rng(3).permutation(150)
    found = [
        fit(
            write(tmp_path, f"{name}.csv", drifting(150, order=order)),
            tmp_path / name,
            "--time",
            "day",
        )
        for name, order in (("sorted", None), ("shuffled", shuffled))
    ]
    same = ("risk", "stderr", "naive_risk", "constant_risk", "median_absolute_error", "alpha")
    assert [found[0][name] for name in same] == pytest.approx([found[1][name] for name in same])
    assert found[0]["features"] == 3


def test_later_rows_are_harder_than_rows_between_others(tmp_path):
    file, time = write(tmp_path, table=drifting(150)), ("--time", "day")
    options = {"between": ("--drop", "day"), "later": time, "gap": (*time, "--gap", "15")}
    risks = {name: fit(file, tmp_path / name, *own)["risk"] for name, own in options.items()}
    assert risks["later"] > 1.1 * risks["between"]
    assert risks["gap"] != risks["later"]
