"""`steinpath predict`: columns that are kept, and what is refused."""

import csv
import io
import json

import numpy as np
import pandas as pd
import pytest

import steinpath as sp
from commands import call, houses, refused, write

QUICK = ("--iters", "60", "--n-alphas", "6", "--no-plots")
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


def test_kept_columns_in_json(model, tmp_path):
    ids = ["12", "-3", "4.50", "", "1e3", "9007199254740993", "NA", "0", "7", "8"]
    codes = [f"{k:03d}" for k in range(10)]
    table = new_rows().assign(id=ids, code=codes)
    out = tmp_path / "p.json"
    keep = ("--keep", "id", "--keep", "code", "--keep", "town", "--keep", "sold")
    call("predict", model, write(tmp_path, table=table), *keep, "--json", "--out", out)
    found = json.loads(out.read_text())
    assert list(found) == ["kept", "predictions", "notes"]
    assert found["kept"] == {
        "id": [12, -3, 4.5, None, 1000.0, 9007199254740993, None, 0, 7, 8],
        "code": codes,
        "town": table["town"].tolist(),
        "sold": table["sold"].tolist(),
    }
    assert found["predictions"] == sp.load_model(model).predict(table).tolist()


@pytest.mark.parametrize("ending", ["parquet", "feather", "npz"])
def test_kept_columns_of_other_files(ending, model, tmp_path):
    large = 2**53 + 1
    table = new_rows(4).assign(
        id=np.array([large, -large, 0, 7]),
        share=[0.1, np.nan, -2.0, 1e-9],
        ok=[True, False, True, False],
        name=["=a", "b", "007", "c"],
        day=pd.to_datetime(
            ["2020-01-01", "2020-01-02 03:04", "1969-12-31", "2021-06-01"], format="ISO8601"
        ),
    )
    file = tmp_path / f"new.{ending}"
    if ending == "npz":
        arrays = {name: table[name].to_numpy() for name in table}
        np.savez(file, **{k: v.astype(str) if v.dtype == object else v for k, v in arrays.items()})
    else:
        getattr(table, f"to_{ending}")(file)
    keep = [part for name in ("id", "share", "ok", "name", "day") for part in ("--keep", name)]
    found = rows_of(call("predict", model, file, *keep).stdout_bytes.decode())
    assert [row["id"] for row in found] == [str(large), str(-large), "0", "7"]
    assert [row["share"] for row in found] == ["0.1", "", "-2", "1e-09"]
    assert [row["ok"] for row in found] == ["true", "false", "true", "false"]
    assert [row["name"] for row in found] == ["=a", "b", "007", "c"]
    assert [row["day"][:16] for row in found] == [
        "2020-01-01", "2020-01-02T03:04", "1969-12-31", "2021-06-01"]  # fmt: skip


def test_a_column_that_is_not_there(model, tmp_path):
    line = refused("predict", model, write(tmp_path), "--keep", "Rooms", "--keep", "nothing")
    assert "there are no columns 'Rooms' (did you mean 'rooms'" in line
    assert "'nothing'; the columns are 'Fläche m²', 'rooms', 'town'" in line


def test_a_column_named_like_an_output(model, tmp_path):
    file = write(tmp_path, table=houses().assign(prediction=1, lower=2))
    line = refused("predict", model, file, "--keep", "prediction", code=2)
    assert "--keep 'prediction': the output has a column of that name; rename" in line
    assert call("predict", model, file, "--keep", "lower").stdout.startswith("lower,prediction\n2,")
