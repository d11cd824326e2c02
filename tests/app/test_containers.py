"""The same columns say the same in every container and as every type, in a fit and in new rows."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import steinpath as sp
from steinpath.app.encoding import Column, Encoding, encode
from steinpath.app.models import Choice
from steinpath.app.tables import DataError, as_table, read_table

CHOICE = Choice("lad", "lasso", {}, 0.1, 7, 300, "absolute", 0.0, 1.5, 0.1, 1.4, 200)
COLUMNS = (
    Column("x", "number"),
    Column("day", "date"),
    Column("town", "category", ("A", "B", "007")),
    Column("flag", "binary", ("false", "true")),
)
MODEL = sp.Model(Encoding("y", COLUMNS), np.array([2.0, 0.5, 10, 20, 40, 80]), 1.0, CHOICE)

DAYS = [dt.date(2020, 1, 1), dt.date(2021, 5, 6), dt.date(1999, 12, 31)]
TIMES = [dt.datetime(day.year, day.month, day.day) for day in DAYS]
ZONED = [time.replace(tzinfo=dt.UTC) for time in TIMES]
USUAL = {
    "x": pa.array([1.0, 2.5, -3.0]),
    "day": pa.array(DAYS),
    "town": pa.array(["A", "007", "B"]),
    "flag": pa.array([True, False, True]),
}
#: Ways to give the same columns.
OTHERS = {
    "usual": {},
    "single": {"x": pa.array([1.0, 2.5, -3.0], pa.float32())},
    "numbers as text": {"x": pa.array(["1", " 2.50 ", "-3e0"])},
    "numbers as large text": {"x": pa.array(["1", "2.5", "-3"], pa.large_string())},
    "decimals": {"x": pa.array([Decimal("1.0"), Decimal("2.5"), Decimal("-3.0")])},
    "numbers as levels": {"x": pa.array(["1", "2.5", "-3"]).dictionary_encode()},
    "dates as text": {"day": pa.array([str(day) for day in DAYS])},
    "dates as levels": {"day": pa.array([str(day) for day in DAYS]).dictionary_encode()},
    "times": {"day": pa.array(TIMES, pa.timestamp("ns"))},
    "times as text": {"day": pa.array([f"{time.isoformat()}+00:00" for time in TIMES])},
    "times of a zone": {"day": pa.array(ZONED, pa.timestamp("us", "Asia/Tokyo"))},
    "levels": {"town": USUAL["town"].dictionary_encode()},
    "flags as text": {"flag": pa.array(["True", "FALSE", "true"])},
    "flags as levels": {"flag": pa.array(["true", "false", "true"]).dictionary_encode()},
}


def to_csv(table, file):
    table.to_pandas().to_csv(file, index=False)
    return file


def to_file(ending, write):
    def container(table, folder):
        file = folder / f"d{ending}"
        write(table, file)
        return read_table(file, MODEL.encoding.named)

    return container


CONTAINERS = {
    "csv": to_file(".csv", to_csv),
    "parquet": to_file(".parquet", pa.parquet.write_table),
    "feather": to_file(".feather", pa.feather.write_feather),
    "arrow table": lambda table, folder: table,
    "arrow batch": lambda table, folder: table.combine_chunks().to_batches()[0],
    "pandas": lambda table, folder: table.to_pandas(),
    "pandas of arrow": lambda table, folder: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda table, folder: pl.from_arrow(table),
    "polars, lazy": lambda table, folder: pl.from_arrow(table).lazy(),
    "lists": lambda table, folder: table.to_pydict(),
    "arrays": lambda table, folder: {n: table.column(n).to_numpy() for n in table.column_names},
}
EVERYWHERE = pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)


@EVERYWHERE
@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_predictions_are_the_same(container, change, tmp_path):
    days = [(day - dt.date(1970, 1, 1)).days / 2 for day in DAYS]
    expected = np.array([1 + 2 + 10 + 80, 1 + 5 + 40, 1 - 6 + 20 + 80]) + days
    found = MODEL.predict(container(pa.table(USUAL | change), tmp_path))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@EVERYWHERE
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": pa.array(["1", "two", "3"])}, "'x' must hold numbers, .* but has 'two'"),
        ({"x": pa.array(DAYS)}, "'x' must hold numbers, .* but has '2020-01-01'"),
        ({"day": pa.array([1.0, 2.0, 3.0])}, "'day' must hold dates, .* but has '1'"),
        ({"day": pa.array(["soon"] * 3)}, "'day' must hold dates, .* but has 'soon'"),
        ({"x": pa.array(["1", None, "3"])}, "1 value is missing, in 1 col.*: 'x'"),
        (
            {"x": pa.array(["1", "NA", "3"]).dictionary_encode()},
            "1 value is missing, in 1 col.*: 'x'",
        ),
        ({"day": pa.nulls(3, pa.string())}, "3 values are missing, in 1 column: 'day'"),
    ],
)
def test_what_is_of_another_kind_is_refused(container, change, message, tmp_path):
    with pytest.raises(DataError, match=message):
        MODEL.predict(container(pa.table(USUAL | change), tmp_path))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({0: [1.0], "0": [2.0]}, "several columns are named '0'"),
        (pd.DataFrame([[1, 2]], columns=[0, "0"]), "several columns are named '0'"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "several columns are named 'a'"),
        (pa.table([[1], [2]], ["a", "a"]), "several columns are named 'a'"),
        ({"a": [1.0], " a ": [2.0]}, "several columns are named 'a'"),
        (pl.DataFrame({"a": [dt.time(1)]}), "column 'a' must hold only numbers, only dates"),
        (pl.DataFrame({"a": [dt.timedelta(1)]}), "column 'a' must hold only numbers, only dates"),
        (pl.DataFrame({"a": [[1, 2]]}), "column 'a' must hold only numbers, only dates"),
        (pa.table({"a": [[1, 2]]}), "column 'a' is of type list"),
        (pa.table({"a": pa.array([2**60], pa.timestamp("ms"))}), "Casting from timestamp"),
        ({"a": [[1], [2, 3]]}, "column 'a' must hold only numbers, only dates"),
        ({"a": [b"x"]}, "column 'a' must hold only numbers, only dates"),
        ({"a": np.array([True, 2], object)}, "must hold only numbers"),
        ({"a": np.array([1.5, dt.date(2020, 1, 1)], object)}, "must hold only numbers"),
    ],
)
def test_what_is_no_table_is_refused(data, message):
    with pytest.raises(DataError, match=message):
        as_table(data)


def test_what_is_masked_is_missing():
    found = as_table({"a": np.ma.array([1, 2], mask=[False, True])}).columns["a"]
    np.testing.assert_array_equal(found, [1.0, np.nan])


def test_columns_may_have_the_names_of_methods():
    names = ("collect", "collect_schema", "column_names", "schema", "columns")
    frame = pd.DataFrame({name: [1.0] for name in names})
    assert list(as_table(frame).columns) == list(names)


def test_columns_are_found_by_names_that_are_numbers():
    model = sp.Model(Encoding("y", (Column("0", "number"),)), np.array([2.0]), 1.0, CHOICE)
    assert model.predict(pd.DataFrame({0: [1.0]})).tolist() == [3.0]


# ------------------------------------------------------------------------------------------------
# Fits
# ------------------------------------------------------------------------------------------------

WRITTEN = {
    "y": ["1", "2", "4", "8"],
    "x": ["1", "2.5", "", "4"],
    "day": ["2020-01-01", "2021-05-06", "NA", "1999-12-31"],
    "zip": ["00501", "10001", "02134", "10001"],
    "phone": ["+41791234567", "+41791234568", "+41791234569", "+41791234560"],
    "id": ["12345678901234567890", "12345678901234567891", "2", "3"],
    "town": ["A", "B", "A", "007"],
    "sum": ["0", "0.5", "-0.25", "10"],
}
CODES = ("zip", "phone", "id")


def written(file):
    """Write texts, and nothing but texts."""
    if file.suffix == ".npz":
        np.savez(file, **{name: np.array(values) for name, values in WRITTEN.items()})
    elif file.suffix == ".csv":
        pd.DataFrame(WRITTEN).to_csv(file, index=False)
    elif file.suffix == ".parquet":
        pa.parquet.write_table(pa.table(WRITTEN), file)
    else:
        pa.feather.write_feather(pa.table(WRITTEN), file)
    return file


@pytest.mark.parametrize("name", ["d.csv", "d.parquet", "d.feather", "d.npz"])
def test_texts_are_read_alike_from_every_file(name, tmp_path):
    found = encode(read_table(written(tmp_path / name)), "y", impute=True)
    assert {column.name: column.kind for column in found.encoding.columns} == {
        "x": "number",
        "day": "date",
        "zip": "number",
        "phone": "number",
        "id": "number",
        "sum": "number",
    }
    assert found.notes[0] == (
        "3 columns are treated as numeric but are written like codes (if they are codes, use "
        "--category): 'zip', 'phone', 'id'"
    )
    place = "line 2" if name == "d.csv" else "row 1"
    found = encode(read_table(tmp_path / name), "y", impute=True, drop=CODES[1:])
    assert found.notes[0] == (
        f"column 'zip' is treated as numeric but is written like a code, first '00501' in {place}; "
        "if it is a code, use --category 'zip'"
    )


@pytest.mark.parametrize("name", ["d.csv", "d.parquet", "d.feather", "d.npz"])
def test_codes_that_are_categories_keep_their_zeros(name, tmp_path):
    table = read_table(written(tmp_path / name), as_text=CODES)
    assert table.columns["zip"].tolist() == WRITTEN["zip"]
    found = encode(table, "y", impute=True, categories=CODES)
    assert not any("like a code" in note for note in found.notes)


@pytest.mark.parametrize(
    "cell", ["0", "0.5", "00.5", "-007", "1e05", "10", "+5", "1234567890123456"]
)
def test_numbers_are_no_codes(cell, tmp_path):
    (tmp_path / "d.csv").write_text(f"a,b\n1,{cell}\n2,3\n")
    assert not read_table(tmp_path / "d.csv").codes


def test_a_code_in_any_row_and_with_blanks_around_it(tmp_path):
    (tmp_path / "d.csv").write_text('a,b\n1,3\n2,"  07 "\n3,08\n')
    assert read_table(tmp_path / "d.csv").codes == {"b": ("07", 1)}
