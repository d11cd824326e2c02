"""Folders of Parquet files: the same as one file of all rows."""

from pathlib import Path

import numpy as np
import pytest

from steinpath._support.cells import as_arrow, read_column
from steinpath.app.tables import DEFAULT_FORMAT, DataError, open_folder, read_table

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


def values(frame, name):
    return read_column(name, frame[name], DEFAULT_FORMAT).values


def assert_same_frames(found, expected):
    assert found.column_names == expected.column_names
    for name in found.column_names:
        np.testing.assert_array_equal(values(found, name), values(expected, name), err_msg=name)
        kinds = [pa.types.is_dictionary(each[name].type) for each in (found, expected)]
        assert kinds[0] == kinds[1], name


def test_a_folder_is_read_as_one_table(tmp_path):
    whole = frame()
    whole.to_parquet(tmp_path / "whole.parquet")
    found = read_table(write(tmp_path / "parts", whole))
    expected = read_table(tmp_path / "whole.parquet")
    assert_same_frames(found.frame, expected.frame)
    for name in ("a", "b", "paint"):
        assert found.cells(name) == expected.cells(name)
    assert expected.place(26) == "row 27"
    assert [found.place(k) for k in (0, 24, 25, 26, 59)] == [
        "row 1 of part-0.parquet",
        "row 25 of part-0.parquet",
        "row 1 of part-1.parquet",
        "row 1 of part-2.parquet",
        "row 34 of part-2.parquet",
    ]
    assert found.take(np.array([26, 3])).place(0) == "row 1 of part-2.parquet"


@pytest.mark.parametrize("blank", [False, True])
def test_batches_of_files_are_the_table(tmp_path, monkeypatch, blank):
    monkeypatch.setattr("steinpath.app.tables.binary._NUMBERS_AT_ONCE", 1)
    monkeypatch.setattr("steinpath.app.tables.binary._FEW_ROWS", 7)
    whole = frame().rename(columns={"a": " "} if blank else {})
    folder = open_folder(write(tmp_path / "parts", whole))
    wanted = ["sold", "column 1" if blank else "a", "written", "paint"]
    batches = [batch for k in range(3) for batch in folder.batches(k, wanted)]
    assert [batch.num_rows for batch in batches] == [7, 7, 7, 4, 1, 7, 7, 7, 7, 6]
    found = pa.concat_tables(batches)
    assert_same_frames(found, as_arrow(whole).select(found.column_names))
    assert sorted(found.column_names) == sorted(wanted)


def test_files_are_in_the_order_of_their_numbers(tmp_path):
    for k in range(12):
        pd.DataFrame({"k": [k]}).to_parquet(tmp_path / f"part.{k}.parquet")
    for name in ("_metadata.parquet", ".hidden.parquet", "notes.txt"):
        (tmp_path / name).write_text("nothing that could be read")
    (tmp_path / "more.parquet").mkdir()
    assert read_table(tmp_path).frame["k"].to_pylist() == list(range(12))


def test_columns_may_be_stored_in_several_ways(tmp_path):
    parts = [
        {"n": [1, 2], "t": ["u", "v"], "c": pd.Categorical(["p", "q"]), "e": [None, None]},
        {"n": [0.5, None], "t": [None, "u"], "c": ["q", "r"], "e": ["s", "t"]},
        {"e": ["u", None], "c": ["p", None], "n": pd.array([3, None], "Int32"), "t": [None] * 2},
        {"n": [], "t": [], "c": [], "e": []},  # an empty file may have any types
    ]
    for k, part in enumerate(parts):
        pd.DataFrame(part).to_parquet(tmp_path / f"{k}.parquet")
    found = read_table(tmp_path).frame
    np.testing.assert_array_equal(values(found, "n"), [1, 2, 0.5, np.nan, 3, np.nan])
    assert found["t"].to_pylist() == ["u", "v", None, "u", None, None]
    assert found["c"].to_pylist() == ["p", "q", "q", "r", "p", None]
    assert pa.types.is_dictionary(found["c"].type)
    assert found["e"].to_pylist() == [None, None, "s", "t", "u", None]


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

    def empty(folder):
        frame()[:0].to_parquet(folder / "0.parquet")

    return {
        nothing: "it is a folder without a file that ends with .parquet or .pq$",
        deeper: r"without a file that ends with .* \(there is one in .*year=2020\)",
        lacking: "1.parquet: it has no column 'town', unlike 0.parquet; all files must have",
        more: "1.parquet: it has a column 'town', unlike 0.parquet",
        types: "1.parquet: its columns differ in type from earlier files .* Field b has incompat",
        damaged: "1.parquet",
        empty: "its files have no rows",
    }


@pytest.mark.parametrize(("make", "message"), bad_folders().items())
def test_folders_that_cannot_be_read(tmp_path, make, message):
    make(tmp_path)
    with pytest.raises(DataError, match=f"^cannot read {tmp_path}: .*{message}"):
        read_table(tmp_path)


def test_a_folder_larger_than_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("steinpath.app.tables.binary._COPIES", 1e12)
    with pytest.raises(DataError, match=r"it needs .* GiB of memory, but this .* workers="):
        read_table(write(Path(tmp_path / "parts"), frame()))
