"""The same columns say the same in every kind of file, in a fit and in new rows."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import steinpath as sp
from same_columns import DAYS, USUAL
from steinpath._support.messages import worded
from steinpath.app.tables import DataError, read_table
from steinpath.app.target import read_roles

COLUMNS = [
    {"name": "x", "kind": "number", "levels": [], "fill": None},
    {"name": "day", "kind": "date", "levels": [], "fill": None},
    {"name": "town", "kind": "category", "levels": ["A", "B", "007"], "fill": None},
    {"name": "flag", "kind": "yes or no", "levels": ["false", "true"], "fill": None},
]
ENCODER = sp.TableEncoder.from_json({"columns": COLUMNS})

WRITERS = {
    ".csv": lambda table, file: table.to_pandas().to_csv(file, index=False),
    ".parquet": pa.parquet.write_table,
    ".feather": pa.feather.write_feather,
}
IN_FILES = pytest.mark.parametrize("ending", WRITERS)


def written(table, folder, ending):
    file = folder / f"d{ending}"
    WRITERS[ending](table, file)
    return read_table(file, labels=("town", "flag"))


@IN_FILES
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"x": pa.array(["1", "two", "3"])}, "'x' must hold numbers, .* but has 'two' in line 3"),
        ({"x": pa.array(DAYS)}, "'x' must hold numbers, .* but has '2020-01-01' in line 2"),
        (
            {"day": pa.array([1.0, 2.0, 3.0])},
            "'day' must hold dates, .* but has '1(.0)?' in line 2",
        ),
        ({"day": pa.array(["soon"] * 3)}, "'day' must hold dates, .* but has 'soon' in line 2"),
        ({"x": pa.array(["1", None, "3"])}, r"1 value is missing, .*: 'x' \(1, first in line 3"),
        (
            {"x": pa.array(["1", "NA", "3"]).dictionary_encode()},
            r"1 value is missing, .*: 'x' \(1, first in line 3",
        ),
        ({"day": pa.nulls(3, pa.string())}, "3 values are missing, in 1 column: 'day'"),
    ],
)
def test_new_rows_of_another_type_are_refused_with_their_place(ending, change, said, tmp_path):
    table = written(pa.table(USUAL | change), tmp_path, ending)
    with pytest.raises(DataError) as caught:
        ENCODER.transform(table.frame)
    if ending != ".csv":
        said = re.sub(r"line (\d)", lambda found: f"row {int(found[1]) - 1}", said)
    assert re.search(said, caught.value.message.worded(str, table.place))


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
WITH_TEXTS = pytest.mark.parametrize("ending", [*WRITERS, ".npz"])


def fitted(file, labels=(), **options):
    """Do as the command: a table, the encoder fitted to it, and its notes."""
    table = read_table(file, labels=labels)
    y = read_roles(table, "y").y
    encoder = sp.TableEncoder(categories=labels, **options).fit(table.frame.drop_columns("y"))
    return table, encoder, [worded(note, str, table.place) for note in encoder.notes_], y


def texts_in(folder, ending):
    """Write texts, and nothing but texts."""
    file = folder / f"d{ending}"
    if ending == ".npz":
        np.savez(file, **{name: np.array(values) for name, values in WRITTEN.items()})
    else:
        WRITERS[ending](pa.table(WRITTEN), file)
    return file


@WITH_TEXTS
def test_texts_are_read_alike_from_every_file(ending, tmp_path):
    file = texts_in(tmp_path, ending)
    _, encoder, notes, y = fitted(file)
    assert y.tolist() == [1, 2, 4, 8]
    assert {column.name: column.kind for column in encoder.columns_} == {
        "x": "number",
        "day": "date",
        "zip": "number",
        "phone": "number",
        "id": "number",
        "sum": "number",
    }
    assert notes[0] == (
        "3 columns are treated as numeric but are written like codes (if they are codes, use "
        "categories=['zip'], …): 'zip', 'phone', 'id'"
    )
    place = "line 2" if ending == ".csv" else "row 1"
    assert fitted(file, drop=CODES[1:])[2][0] == (
        f"column 'zip' is treated as numeric but is written like a code, first '00501' in {place}; "
        "if it is a code, use categories=['zip']"
    )


@WITH_TEXTS
def test_codes_that_are_categories_keep_their_zeros(ending, tmp_path):
    table, _, notes, _ = fitted(texts_in(tmp_path, ending), CODES)
    assert table.frame["zip"].to_pylist() == WRITTEN["zip"]
    assert not any("like a code" in note for note in notes)
