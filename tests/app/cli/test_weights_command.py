"""``--weight``, ``--positive`` and several values of a parameter."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import steinpath as sp
from commands import call, houses, refused

SMALL = ("--n-iter", 20, "--n-alphas", 3, "--no-plots", "--seed", 1, "--curves=no", "--products=no")
SMALL = (*SMALL, "--transform-target=no")
FIT = {"n_iter": 20, "n_alphas": 3, "random_state": 1}


@pytest.fixture
def table(tmp_path):
    data = houses()
    rng = np.random.default_rng(0)
    data["precision"] = rng.choice([0.4, 2.2], len(data))
    data.to_csv(tmp_path / "houses.csv", index=False)
    return data, tmp_path / "houses.csv", ("--target", "price", "--out", tmp_path / "out")


def json_of(*arguments):
    return json.loads(call(*arguments, "--json").stdout)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_weights_are_those_of_fit(table, task, tmp_path):
    data, file, how = table
    y = data["price"]
    if task == "classification":
        y = np.where(y > y.median(), "high", "low")
        data.assign(price=y).to_csv(file, index=False)
    found = json_of("fit", file, *how, "--weight", "precision", *SMALL)
    model = sp.PathRegressor if task == "regression" else sp.PathClassifier
    pipeline = make_pipeline(sp.TableEncoder(), model(**FIT))
    name = model.__name__.lower()
    features = data.drop(columns=["price", "precision"])
    pipeline.fit(features, y, **{f"{name}__sample_weight": data["precision"]})
    assert found["risk"] == pytest.approx(pipeline[-1].best_risk_)
    said = call("fit", file, *how, "--weight", "precision", *SMALL).stdout
    assert "rows count by their weight 'precision' in the fit and in all errors" in " ".join(
        said.split()
    )
    page = (tmp_path / "out" / "report.html").read_text()
    assert "from 0.4 to 2.2" in page
    plain = json_of("fit", file, *how, "--drop", "precision", *SMALL)
    assert abs(plain["risk"] / found["risk"] - 1) > 0.01
    # a model of weighted rows predicts as any other
    call("predict", tmp_path / "out" / "model.json", file, "--out", tmp_path / "p.csv")
    values = pd.read_csv(tmp_path / "p.csv")
    assert len(values) == len(data)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (lambda w: w * -1, "the weight 'precision' must be nonnegative, but has -2.2"),
        (lambda w: w * 0, "the weight 'precision' must be nonnegative, but is 0 in every row"),
        (lambda w: w.where(w > 1), "every row needs a weight"),
        (lambda w: w.astype(str) + " kg", "the weight 'precision' must hold numbers, but has"),
    ],
    ids=["negative", "zero", "missing", "texts"],
)
def test_bad_weights_are_refused(table, values, message):
    data, file, how = table
    data.assign(precision=values(data["precision"])).to_csv(file, index=False)
    assert message in refused("fit", file, *how, "--weight", "precision", *SMALL)


def test_the_weight_is_another_column_than_the_target(table):
    _, file, how = table
    line = refused("fit", file, *how, "--weight", "price", *SMALL)
    assert "'price' is the target, which cannot be the group, the time, the weight" in line
    assert "unknown column 'weight'" in refused("fit", file, *how, "--weight", "weight", *SMALL)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_positive_coefficients(table):
    _, file, how = table
    found = json_of("fit", file, *how, "--positive", *SMALL)
    assert found["nonzeros"]
    assert all(one["coefficient"] >= 0 for one in found.get("coefficients", []))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_several_values_are_selected_from(table, tmp_path):
    _, file, how = table
    ratios = ("--penalty", "elastic-net", "--l1-ratio", 0.2, "--l1-ratio", 0.9)
    found = json_of("fit", file, *how, *ratios, *SMALL)
    assert found["l1_ratio"] in (0.2, 0.9)
    risks = pd.read_csv(tmp_path / "out" / "risk.csv")
    assert set(risks["l1_ratio"]) == {0.2, 0.9}
    assert risks["alpha"].nunique() == 6
    assert "selected l1_ratio" in (tmp_path / "out" / "report.html").read_text()
    one = json_of("fit", file, *how, "--penalty", "elastic-net", "--l1-ratio", 0.2, *SMALL)
    assert "l1_ratio" not in one
    assert one["parameters"]["l1_ratio"] == 0.2
