"""`steinpath predict`: columns that are kept, and what is refused."""

import csv
import io
import json

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import steinpath as sp
from commands import bounds, call, houses, refused, write

QUICK = ("--n-iter", "60", "--n-alphas", "6", "--no-plots")
# Codes, a number that begins with a sign, what a spreadsheet would run, what stands for a missing
# value, blanks, quotation marks and line ends.
STRANGE = [
    "007",
    "-5.30",
    "=1+1",
    "NA",
    "",
    'say "a, b"',
    "a\r\nb",
    "a\rb",
    "9007199254740993",
    " é ",
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    call("fit", write(folder), "--target", "price", "--out", folder / "o", *QUICK)
    return folder / "o" / "model.json"


def new_rows(n=10):
    return houses(n, seed=1)


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_kept_columns_are_as_they_are_before_the_predictions(model, tmp_path):
    table = new_rows().assign(**{"=id": STRANGE, "note": "x"})
    file = tmp_path / "new.csv"
    with open(file, "w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened, lineterminator="\r\n")
        writer.writerow(table)
        writer.writerows(table.itertuples(index=False))
    keep = ("--keep", "=id", "--keep", "rooms", "--keep", "price", "--keep", "=id")
    result = call("predict", model, file, *keep)
    found = rows_of(result.stdout_bytes.decode())
    assert list(found[0]) == ["'=id", "rooms", "price", "prediction"]
    # but for line ends, and for blanks that begin a cell, which csv files have for looks
    same = [text.lstrip().replace("\r\n", "\n").replace("\r", "\n") for text in STRANGE]
    assert [row["'=id"] for row in found] == same
    assert [row["rooms"] for row in found] == [str(k) for k in table["rooms"]]
    assert [row["price"] for row in found] == [str(x) for x in table["price"]]
    predictions = np.array([row["prediction"] for row in found], float)
    np.testing.assert_array_equal(predictions, sp.load_model(model).predict(table))
    # that price is kept does not hide it from the comparison
    assert "mean absolute error on these 10 rows" in result.stderr


def test_a_column_that_is_not_there(model, tmp_path):
    line = refused("predict", model, write(tmp_path), "--keep", "Rooms", "--keep", "nothing")
    assert "unknown columns 'Rooms' (did you mean 'rooms'" in line
    assert "'nothing'; the columns are 'Fläche m²', 'rooms', 'town'" in line


def test_a_column_named_like_an_output(model, tmp_path):
    file = write(tmp_path, table=houses().assign(prediction=1, lower=2))
    line = refused("predict", model, file, "--keep", "prediction", code=2)
    assert "--keep 'prediction': the output has a column of that name; rename" in line
    assert call("predict", model, file, "--keep", "lower").stdout.startswith("lower,prediction\n2,")


def test_numbers_too_large_for_a_prediction(model, tmp_path):
    table = new_rows()
    table["Fläche m²"] = 1.0
    table.loc[[4, 6], "Fläche m²"] = 1.7e308
    line = refused("predict", model, write(tmp_path, table=table))
    assert "the numbers in line 6 are too large for a prediction" in line


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_models_of_python(tmp_path):
    table, file = houses(), write(tmp_path)
    y, model = table.pop("price"), tmp_path / "m.json"
    small = {"alpha": 0.1, "n_iter": 5}
    pipeline = make_pipeline(sp.TableEncoder(), sp.QuantileLasso(q=0.8, **small)).fit(table, y)
    sp.save_model(pipeline, model, target="price")
    result = call("predict", model, file)
    assert result.stdout.split()[1:] == [repr(x) for x in pipeline.predict(table).tolist()]
    assert "mean pinball loss at 0.8 on these 120 rows" in result.stderr
    two = make_pipeline(sp.TableEncoder(), sp.QuantileLasso(q=[0.1, 0.9], **small)).fit(table, y)
    sp.save_model(two, model)
    assert "predicts several quantiles" in refused("predict", model, file)
    sp.save_model(pipeline[-1], model)
    assert "has no TableEncoder" in refused("predict", model, file)
    # without an estimate there is nothing to compare with
    last = sp.LogisticLasso(**small, select="last", method=None, tol=1e9)
    last = make_pipeline(sp.TableEncoder(), last).fit(table.assign(y=y), y > 300)
    sp.save_model(last, model, target="price")
    assert call("predict", model, write(tmp_path, table=table.assign(y=y, price="x"))).stderr == ""


def test_intervals_are_columns_after_the_predictions(model, tmp_path):
    new = houses(200, seed=1)
    file = write(tmp_path, "new.csv", new)
    result = call("predict", model, file, "--interval", 0.8, "--keep", "town")
    found = rows_of(result.stdout_bytes.decode())
    assert list(found[0]) == ["town", "prediction", "lower", "upper"]
    ends = np.array([[row["lower"], row["upper"]] for row in found], float)
    np.testing.assert_array_equal(ends, bounds(sp.load_model(model), new, 0.8))
    y = new["price"].to_numpy()
    inside = int(np.sum((ends[:, 0] <= y) & (y <= ends[:, 1])))
    lines = result.stderr.splitlines()
    assert lines[0].startswith("mean absolute error on these 200 rows: ")
    assert (
        lines[1] == f"coverage of the 80% intervals: {inside} of these 200 rows ({inside / 2:.1f}%)"
    )
    assert 0.7 < inside / 200 < 0.9


def test_intervals_in_json_and_without_the_target(model, tmp_path):
    new = houses(20, seed=1).drop(columns="price")
    result = call("predict", model, write(tmp_path, table=new), "--interval", 0.9, "--json")
    found = json.loads(result.stdout)
    assert list(found) == ["level", "predictions", "lower", "upper", "notes"]
    assert found["level"] == 0.9
    ends = bounds(sp.load_model(model), new, 0.9)
    assert [found["lower"], found["upper"]] == ends.T.tolist()
    assert result.stderr == ""


@pytest.mark.parametrize("level", ["0", "1", "1.5", "-0.1", "nan", "most"])
def test_levels_that_are_none(level, model, tmp_path):
    assert "--interval" in refused("predict", model, write(tmp_path), "--interval", level, code=2)


def test_a_level_too_high_for_the_rows_of_the_fit(model, tmp_path):
    line = refused("predict", model, write(tmp_path), "--interval", 0.999)
    assert "the highest possible level is 0.99" in line


def test_a_model_of_an_earlier_version_predicts_without_intervals(model, tmp_path):
    entries = json.loads(model.read_text(encoding="utf-8"))
    entries["model"]["intervals"] = None
    old = tmp_path / "old.json"
    old.write_text(json.dumps(entries), encoding="utf-8")
    file = write(tmp_path)
    assert call("predict", old, file).stdout == call("predict", model, file).stdout
    line = refused("predict", old, file, "--interval", 0.9)
    assert "saved without prediction intervals" in line
    assert "`steinpath fit`" in line
