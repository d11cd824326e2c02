"""Folders of Parquet files: the same as one file of all rows."""

from pathlib import Path

import numpy as np
import pytest

from steinpath.app.tables import DataError, as_table, read_table
from steinpath.app.tables.folder import open_folder

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")


def frame(n=60, seed=0):
    """Columns of all kinds; a and b say something about y."""
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal(n), rng.integers(0, 5, n)
    town = rng.choice(["Aarau", "Bern", "Chur"], n, p=[0.5, 0.3, 0.2])
    return pd.DataFrame(
        {
            "a": a,
            "b": b,
            "town": town,
            "garden": rng.choice(["no", "yes"], n),
            "sold": pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "flag": rng.random(n) < 0.5,
            "written": [f"{x:.2f}" for x in rng.standard_normal(n)],  # numbers, as texts
            "paint": pd.Categorical(rng.choice(["red", "blue", "green"], n)),
            "site": rng.integers(0, 12, n),
            "y": 2 * a + 0.5 * b + (town == "Bern") + 0.3 * rng.standard_normal(n),
        }
    )


def write(folder, whole, cuts=(25, 26), name="part-{}.parquet"):
    """Write a data frame as several files."""
    folder.mkdir(exist_ok=True)
    for k, rows in enumerate(np.split(np.arange(len(whole)), cuts)):
        whole.iloc[rows].to_parquet(folder / name.format(k))
    return folder


def assert_same_tables(found, expected):
    assert list(found.columns) == list(expected.columns)
    for name, values in found.columns.items():
        np.testing.assert_array_equal(values, expected.columns[name], err_msg=name)
    assert found.codes == expected.codes


def test_a_folder_is_read_as_one_table(tmp_path):
    whole = frame()
    whole.to_parquet(tmp_path / "whole.parquet")
    found = read_table(write(tmp_path / "parts", whole), ["b"], ["a", "b"])
    expected = read_table(tmp_path / "whole.parquet", ["b"], ["a", "b"])
    assert_same_tables(found, expected)
    for name in ("a", "b"):
        np.testing.assert_array_equal(found.cells[name], expected.cells[name])
    assert expected.place(26) == "row 27"
    assert [found.place(k) for k in (0, 24, 25, 26, 59)] == [
        "row 1 of part-0.parquet",
        "row 25 of part-0.parquet",
        "row 1 of part-1.parquet",
        "row 1 of part-2.parquet",
        "row 34 of part-2.parquet",
    ]


def test_batches_of_files_are_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr("steinpath.app.tables.folder._NUMBERS_AT_ONCE", 1)
    monkeypatch.setattr("steinpath.app.tables.folder._FEW_ROWS", 7)
    folder = open_folder(write(tmp_path / "parts", frame()))
    wanted = ["sold", "a", "written"]
    tables = [table for k in range(3) for table in folder.batches(k, wanted)]
    assert [table.n_rows for table in tables] == [7, 7, 7, 4, 1, 7, 7, 7, 7, 6]
    whole = as_table(frame())
    for name in wanted:
        values = np.concatenate([table.columns[name] for table in tables])
        np.testing.assert_array_equal(values, whole.columns[name])
    assert tables[5].place(3) == "row 4 of part-2.parquet"


def test_files_are_in_the_order_of_their_numbers(tmp_path):
    for k in range(12):
        pd.DataFrame({"k": [k]}).to_parquet(tmp_path / f"part.{k}.parquet")
    for name in ("_metadata.parquet", ".hidden.parquet", "notes.txt"):
        (tmp_path / name).write_text("nothing that could be read")
    (tmp_path / "more.parquet").mkdir()
    assert read_table(tmp_path).columns["k"].tolist() == list(range(12))


def test_columns_may_be_stored_in_several_ways(tmp_path):
    parts = [
        {"n": [1, 2], "t": ["u", "v"], "c": pd.Categorical(["p", "q"]), "e": [None, None]},
        {"n": [0.5, None], "t": [None, "u"], "c": ["q", "r"], "e": ["s", "t"]},
        {"e": ["u", None], "c": ["p", None], "n": pd.array([3, None], "Int32"), "t": [None] * 2},
        {"n": [], "t": [], "c": [], "e": []},  # an empty file may have any types
    ]
    for k, part in enumerate(parts):
        pd.DataFrame(part).to_parquet(tmp_path / f"{k}.parquet")
    table = read_table(tmp_path)
    np.testing.assert_array_equal(table.columns["n"], [1, 2, 0.5, np.nan, 3, np.nan])
    assert table.columns["t"].tolist() == ["u", "v", None, "u", None, None]
    assert table.columns["c"].tolist() == ["p", "q", "q", "r", "p", None]
    assert table.columns["e"].tolist() == [None, None, "s", "t", "u", None]


def test_row_labels_of_pandas_are_no_columns(tmp_path):
    whole = frame()[["a", "y"]]
    whole[whole.a > 0].to_parquet(tmp_path / "0.parquet")  # with an index of its own
    whole.to_parquet(tmp_path / "1.parquet")
    assert list(read_table(tmp_path).columns) == ["a", "y"]


def bad_folders():
    def nothing(folder):
        (folder / "a.csv").write_text("a\n1\n")

    def deeper(folder):
        (folder / "year=2020").mkdir()
        frame().to_parquet(folder / "year=2020" / "0.parquet")

    def lacking(folder):
        frame().to_parquet(folder / "0.parquet")
        frame().drop(columns="town").to_parquet(folder / "1.parquet")

    def more(folder):
        frame().drop(columns="town").to_parquet(folder / "0.parquet")
        frame().to_parquet(folder / "1.parquet")

    def types(folder):
        frame().to_parquet(folder / "0.parquet")
        frame().assign(b="high").to_parquet(folder / "1.parquet")

    def damaged(folder):
        frame().to_parquet(folder / "0.parquet")
        (folder / "1.parquet").write_bytes(b"PAR1 and no more")

    def infinite(folder):
        frame().to_parquet(folder / "0.parquet")
        frame().assign(a=np.inf).to_parquet(folder / "1.parquet")

    def nested(folder):
        pd.DataFrame({"a": [[1, 2]], "y": [1]}).to_parquet(folder / "0.parquet")

    def empty(folder):
        frame()[:0].to_parquet(folder / "0.parquet")

    return {
        nothing: "it is a folder without a file that ends with .parquet or .pq$",
        deeper: r"without a file that ends with .* \(there is one in .*year=2020\)",
        lacking: "0.parquet has a column 'town', but 1.parquet does not",
        more: "1.parquet has a column 'town', but 0.parquet does not",
        types: r"column 'b' is of type (large_)?string in 1.parquet, but of type int64 in earlier",
        damaged: "1.parquet",
        infinite: "column 'a' has a number that is not finite, in row 1 of 1.parquet",
        nested: "column 'a' is of type list",
        empty: "its files have no rows",
    }


@pytest.mark.parametrize(("make", "message"), bad_folders().items())
def test_folders_that_cannot_be_read(tmp_path, make, message):
    make(tmp_path)
    with pytest.raises(DataError, match=f"^cannot read {tmp_path}: .*{message}"):
        read_table(tmp_path)


def test_a_folder_larger_than_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("steinpath.app.tables.folder._memory", lambda: 1000)
    with pytest.raises(DataError, match=r"60 rows of 10 columns need .* --workers "):
        read_table(write(Path(tmp_path / "parts"), frame()))
