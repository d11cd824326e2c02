"""Tables as matrices: what each kind of column becomes, and the same for new rows."""

import datetime as dt
import json
import pickle
import re
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_no_attributes_set_in_init

from same_columns import DAYS, OTHERS, USUAL
from steinpath._support.messages import DataError, worded
from steinpath.app.cli.commands import option
from steinpath.estimators._columns import OTHER, Column, ColumnSummary
from steinpath.estimators._encoder import TableEncoder


def table(**columns):
    return pa.table({name: pa.array(values_of(values)) for name, values in columns.items()})


def values_of(values):
    """Numbers, ISO dates or texts, with None for missing values."""
    known = [value for value in values if value is not None]
    if known and all(isinstance(each, str) and re.match(r"\d{4}-", each) for each in known):
        return [None if each is None else dt.datetime.fromisoformat(each) for each in values]
    return values


def fit(data, **options):
    return TableEncoder(**{"missing": "error"} | options).fit(data)


def fitted(*columns):
    """An encoder that has these columns."""
    entries = [{**each._asdict(), "levels": list(each.levels), "curves": []} for each in columns]
    return TableEncoder.from_json({"columns": entries})


def refused(call, *args, **kwargs):
    """The message of an error."""
    with pytest.raises(DataError) as caught:
        call(*args, **kwargs)
    assert len(str(caught.value).splitlines()) == 1
    assert "--" not in str(caught.value)
    return str(caught.value)


def noted(encoder, data):
    """Features of rows, and the warnings about them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        X = encoder.transform(data)
    return X, [str(each.message) for each in caught]


def names(encoder):
    return encoder.get_feature_names_out().tolist()


Y = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]


# ----- Kinds of columns -----


def test_every_kind():
    days = ["1970-01-02", "1970-01-03T12:00", "1969-12-31", *["2020-01-01"] * 3]
    data = table(
        x=[1, 2, 3, 4, 5, 6.5],
        day=days,
        sure=["yes", "no", "no", "yes", "no", "no"],
        kind=["a", "a", "a", "b", "b", "b"],
        city=["r", "q", "q", "q", "s", "q"],
    )
    encoder = fit(data)
    assert encoder.columns_ == (
        Column("x", "number"),
        Column("day", "date"),
        Column("sure", "binary", ("no", "yes")),
        Column("kind", "binary", ("a", "b")),
        Column("city", "category", ("q", OTHER)),
    )
    assert names(encoder) == ["x", "day (days)", "sure=yes", "kind=b", "city=q", "city=(other)"]
    expected = [
        [1, 2, 3, 4, 5, 6.5],
        [1, 2.5, -1, 18262, 18262, 18262],
        [1, 0, 0, 1, 0, 0],
        [0, 0, 0, 1, 1, 1],
        [0, 1, 1, 1, 0, 1],
        [1, 0, 0, 0, 1, 0],
    ]
    X = TableEncoder().fit_transform(data)
    np.testing.assert_array_equal(X, np.transpose(expected))
    np.testing.assert_array_equal(noted(encoder, data)[0], X)
    assert X.dtype == float
    assert encoder.notes_ == ()
    assert encoder.reference_features_ == [4]
    assert encoder.summary_ == (
        ColumnSummary("x", "number", "from 1 to 6.5, mean 3.583, median 3.5", 0, 1),
        ColumnSummary("day", "date", "from 1969-12-31 to 2020-01-01", 0, 1),
        ColumnSummary("sure", "binary", "no (4), yes (2)", 0, 1),
        ColumnSummary("kind", "binary", "a (3), b (3)", 0, 1),
        ColumnSummary("city", "category", "q (4), r (1), s (1)", 0, 2),
    )


def test_levels_are_the_most_frequent():
    counts = {"rare": 2, "c": 3, "b": 5, "a": 5, OTHER: 4, "single": 1}
    encoder = TableEncoder()
    X = encoder.fit_transform({"kind": [level for level in counts for _ in range(counts[level])]})
    assert encoder.columns_[0].levels == ("a", "b", "c", OTHER)
    assert X.sum(axis=0).tolist() == [5, 5, 3, 7]
    assert encoder.summary_[0].detail == "a (5), b (5), (other) (4), … 6 levels"


def test_a_fit_says_how_many_of_many_levels_have_a_feature():
    values = [f"v{k:02d}" for k in range(60) for _ in range(3 if k < 40 else 2)]
    values = values[1:] + values[:1]
    (note,) = TableEncoder().fit({"kind": values}).notes_
    assert note == (
        "column 'kind' has 60 levels: 40 have a feature, and the rest, which are rarer, are merged "
        "as '(other)'"
    )
    assert TableEncoder().fit({"kind": values[:-31] + values[:1]}).notes_ == ()


def test_at_most_fifty_levels():
    values = [f"v{k:02d}" for k in range(60) for _ in range(3)] + ["v59"]
    encoder = TableEncoder()
    X = encoder.fit_transform({"kind": values})
    assert encoder.columns_[0].levels == ("v59", *(f"v{k:02d}" for k in range(49)), OTHER)
    assert X.shape == (181, 51)
    np.testing.assert_array_equal(X.sum(axis=1), 1)
    assert X[:, -1].sum() == 30


def test_columns_that_are_left_out():
    n = 800
    data = table(
        id=[f"no {k}" for k in range(n)],
        same=[3.0] * n,
        word=["a"] * n,
        day=["2020-01-01"] * n,
        none=[None] * n,
        nan=np.full(n, np.nan),
        x=np.arange(n) % 50,
        away=[f"{k}" for k in range(n)],
        list=[[1, 2]] * n,
        name=[f"Ms {k}" for k in range(n)],
    )
    encoder = fit(data, drop=["away", "list"])
    assert encoder.notes_ == (
        "column 'id' looks like an identifier and was excluded (keep=['id'] keeps it)",
        "3 columns are constant and were dropped: 'same', 'word', 'day'",
        "2 columns have no values and were dropped: 'none', 'nan'",
        "column 'name' was dropped: nearly all of its 800 values are distinct",
    )
    assert names(encoder) == ["x"]
    out = {one.name: one for one in encoder.summary_ if one.kind == "dropped"}
    assert list(out) == ["id", "same", "word", "day", "none", "nan", "away", "list", "name"]
    assert out["away"] == ColumnSummary("away", "dropped", "as requested", 0, 0)
    assert out["none"] == ColumnSummary("none", "dropped", "no values", n, 0)
    assert [one.name for one in encoder.summary_] == data.column_names
    assert encoder.feature_names_in_.tolist() == data.column_names
    assert encoder.n_features_in_ == 10


def blocks_noted(values):
    encoder = fit({"code": values, "x": np.random.default_rng(0).standard_normal(len(values))})
    return any("same value in blocks of rows" in note for note in encoder.notes_)


def test_codes_of_units_in_blocks_of_rows():
    """Codes of firms, states, animals and schools, and measurements in order."""
    rng = np.random.default_rng(0)
    firms = np.sort(rng.choice(10_000, 157, replace=False))
    states = np.delete(np.arange(1, 52), [1, 11, 30])
    assert blocks_noted(np.repeat(firms, 3))
    assert blocks_noted(np.repeat(firms[::-1], 8) + 0.0)
    assert blocks_noted(np.repeat(rng.permutation(firms), rng.integers(6, 11, 157)))
    assert blocks_noted(np.repeat(states, 30))
    assert blocks_noted(np.repeat(firms, rng.integers(25, 68, 157)))
    assert not blocks_noted(np.repeat(firms[:19], 8))
    assert not blocks_noted(np.repeat(np.arange(1985, 2015), 20))
    assert not blocks_noted(np.tile(np.repeat(firms, 3), 2))
    for sample in (
        rng.integers(18, 65, 900),
        rng.poisson(100, 2000),
        rng.geometric(0.02, 500),
        np.round(rng.lognormal(3, 1, 1000)),
        100 * rng.integers(10, 60, 1000),
    ):
        assert not blocks_noted(np.sort(sample))
        assert not blocks_noted(sample)


def test_identifiers():
    n = 20
    data = {
        "Unnamed: 0": np.arange(n)[::-1] + 7,
        "row": np.arange(1, n + 1),
        "user_id": np.arange(n) ** 2,
        "x": np.arange(n) / 2,
        "from seven": np.arange(7, n + 7),
        "PAID": np.arange(n)[::-1],
        "id": np.arange(n) // 2,
    }
    encoder = fit(data)
    assert names(encoder) == ["x", "from seven", "PAID", "id"]
    assert encoder.notes_[0] == (
        "3 columns look like identifiers and were excluded (keep=['Unnamed: 0'], … keeps them): "
        "'Unnamed: 0', 'row', 'user_id'"
    )
    assert encoder.notes_[1].startswith("column 'id' looks like an identifier whose values repeat")
    kept = fit(data, keep=["row", "user_id"])
    assert names(kept) == ["row", "user_id", "x", "from seven", "PAID", "id"]
    for name in ("ID", "Customer ID", "PassengerId", "orderID", "key", "No.", "id_code"):
        column = np.arange(n)[::-1] if name != "id_code" else [f"c{k}" for k in range(n)]
        assert names(fit({name: column, "x": data["x"]})) == ["x"]


UNITS = np.repeat(np.arange(1, 41), 3)
BLOCKS = [f"s{k:02d}" for k in np.random.default_rng(0).permutation(40) for _ in range(3)]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        *((name, UNITS[::-1] % 37) for name in ("person_id", "id", "subjectID", "Patient", "uuid")),
        ("subject", BLOCKS[::2] + BLOCKS[1::2]),  # in any order
        ("code", BLOCKS),
        ("unit", UNITS),
        ("unit", UNITS - 1),
    ],
)
def test_units_with_several_rows_are_noted_with_the_option_that_holds_them_out(name, values):
    data = table(**{name: list(values), "x": [k % 7 for k in range(120)]})
    [note] = [note for note in fit(data).notes_ if "groups=labels" in note]
    assert note.startswith(f"column {name!r} ")
    assert f"--group {name!r}" in worded(note, option)
    for parameter in ("drop", "keep"):  # the column was considered
        assert not any("groups" in note for note in fit(data, **{parameter: [name]}).notes_)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("year", np.repeat(np.arange(2000, 2040), 3)),
        ("month", np.repeat(np.arange(1, 13), 10)),
        ("mnth", np.repeat([f"m{k:02d}" for k in range(12)], 10)),
        ("day_of_year", UNITS),
        ("age", np.repeat(np.arange(0, 40), 3)),
        ("years", UNITS),
        ("size", np.sort(np.random.default_rng(0).poisson(5, 120))),
        ("dose", np.repeat(np.arange(6), 20)),
        ("treatment", np.repeat(["a", "b", "c", "d"], 30)),
        ("town", BLOCKS[::2] + BLOCKS[1::2]),
        ("length", UNITS + 0.5),
        ("group_id", [k % 4 for k in range(120)]),
        ("day", np.repeat([f"2024-01-{k:02d}" for k in range(1, 31)], 4)),
    ],
)
def test_ordinary_sorted_columns_are_not_taken_for_units(name, values):
    data = table(**{name: list(values), "x": [k % 7 for k in range(120)]})
    assert not any("groups" in note for note in fit(data).notes_)


def test_several_units_are_noted_once():
    data = table(a_id=list(UNITS), b_id=list(UNITS[::-1]), x=[k % 7 for k in range(120)])
    [note] = fit(data).notes_
    assert note.startswith("2 columns look like identifiers whose values repeat")
    assert note.endswith("use groups=labels to hold these rows out together: 'a_id', 'b_id'")
    assert "use --group COLUMN to hold" in worded(note, option)


def test_columns_of_numbers_but_for_a_few_values():
    data = table(
        x=["1", "2", "3", "4 m", None, "6"],
        rooms=["1", "2", "3+", "3+", "3+", "1"],
        coded=["1", "2", "3", "x", "4", "5"],
        z=Y,
    )
    encoder = fit(data, missing="impute", categories=["coded"])
    note = encoder.notes_[0]
    assert note == (
        "column 'x' is treated as text because of 1 value, first '4 m' in row 4; all others are "
        "numbers (if it means missing, use na=['4 m'])"
    )
    said = worded(note, lambda remedy: f"--na {remedy.value!r}", lambda row: f"line {row + 2}")
    assert said == note.replace("row 4", "line 5").replace("na=['4 m']", "--na '4 m'")
    assert worded(pickle.loads(pickle.dumps(note)), str, str) == worded(note, str, str)
    assert [each[:12] for each in encoder.notes_[1:]] == ["2 columns we"]
    assert names(fit(data, missing="impute", na=["4 m"], drop=["rooms", "coded", "z"]))[0] == "x"


def test_columns_that_may_be_dates():
    data = {"day": ["16.05.2023", "17.05.2023", "18.05.2023"] * 3, "x": np.arange(9) / 2}
    said = "is treated as text; if '16.05.2023' is a date, use date_format='%d.%m.%Y'"
    assert fit(data).notes_ == (f"column 'day' {said}",)
    assert fit(data, date_format="%d.%m.%Y").columns_[0].kind == "date"


def test_codes_are_numbers_unless_they_are_called_categories():
    data = {"code": [1, 1, 1, 2.5, 2.5, 2.5, 10, 10, 10], "two": [0, 1] * 4 + [1]}
    assert names(fit(data)) == ["code", "two"]
    encoder = TableEncoder(categories=["code", "two"])
    X = encoder.fit_transform(data)
    assert names(encoder) == ["code=1", "code=10", "code=2.5", "two=1"]
    np.testing.assert_array_equal(X[:, 0], [1, 1, 1, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(X[:, 3], data["two"])
    assert encoder.summary_[1].detail == "1 (5), 0 (4)"
    np.testing.assert_array_equal(noted(encoder, data)[0], X)


def test_dates_may_be_categories():
    data = table(day=["2020-01-01", "2021-01-01T10:00"] * 2)
    levels = ("2020-01-01", "2021-01-01T10:00:00.000000")
    assert fit(data, categories=("day",)).columns_[0].levels == levels


def test_names_of_features_are_different():
    data = {
        "a=yes": [1, 2, 3, 4, 5, 7],
        "a": ["yes", "no"] * 3,
        "a=yes (2)": [6, 5, 4, 3, 2, 0],
        "größe\nin cm": [1, 1, 1, 1, 1, 2],
    }
    assert names(fit(data)) == ["a=yes", "a=yes (2)", "a=yes (2) (2)", "größe\nin cm"]


def test_details_of_large_and_long_values():
    data = {
        "price": [123456.7, 1e12, 20201, 0, 0.25, -5e4],
        "text": ["x" * 100] * 3 + ["y"] * 3,
        "huge": [1e308] * 5 + [-1e308],
    }
    encoder = TableEncoder().fit(data)
    details = [one.detail for one in encoder.summary_]
    assert details[0] == "from -50000 to 1e+12, mean 1.667e+11, median 10101"
    assert details[1] == f"{'x' * 30} (3), y (3)"
    assert details[2].startswith("from -1e+308 to 1e+308")
    assert encoder.columns_[2].fill == 1e308


WRITTEN = {
    "x": ["1", "2.5", "", "4"],
    "day": ["2020-01-01", "2021-05-06", "NA", "1999-12-31"],
    "zip": ["00501", "10001", "02134", "10001"],
    "phone": ["+41791234567", "+41791234568", "+41791234569", "+41791234560"],
    "id number": ["12345678901234567890", "12345678901234567891", "2", "2"],
    "town": ["A", "B", "A", "007"],
    "sum": ["0", "0.5", "-0.25", "10"],
}


def test_numbers_that_are_written_like_codes():
    encoder = fit(WRITTEN, missing="impute", keep=["id number"])
    kinds = {column.name: column.kind for column in encoder.columns_}
    assert kinds == dict.fromkeys(("x", "day", "zip", "phone", "id number", "sum"), "number") | {
        "day": "date"
    }
    assert encoder.notes_[0] == (
        "3 columns are treated as numeric but are written like codes (if they are codes, use "
        "categories=['zip'], …): 'zip', 'phone', 'id number'"
    )
    encoder = fit(WRITTEN, missing="impute", drop=["phone", "id number"])
    assert encoder.notes_[0] == (
        "column 'zip' is treated as numeric but is written like a code, first '00501' in row 1; if "
        "it is a code, use categories=['zip']"
    )
    encoder = fit(WRITTEN, missing="impute", categories=["zip", "phone", "id number"])
    assert not any("like a code" in note for note in encoder.notes_)
    assert fit({"zip": ["00501", "00502"] * 3}, categories=["zip"]).columns_[0].levels == (
        "00501",
        "00502",
    )


def test_numbers_in_another_format_are_refused_unless_they_are_labels():
    data = {"price": ["7", "1,5", "2"] * 3, "x": np.arange(9) / 2}
    assert refused(fit, data) == (
        "column 'price' holds numbers in another format, first '1,5' in row 2; use decimal=',' (or "
        "categories=['price'] if these are labels)"
    )
    assert fit(data, categories=["price"]).columns_[0].kind == "category"
    assert fit(data, drop=["price"]).columns_[0].name == "x"
    assert fit(data, decimal=",").columns_[0].kind == "number"
    message = refused(fit(data, decimal=",").set_params(decimal=None).transform, data)
    assert message.endswith("first '1,5' in row 2; use decimal=','")


def test_negative_amounts_and_signs_are_noted():
    encoder = fit({"sum": ["$(5)", "$3", "$2"], "rate": ["5%", "7 %", "1%"]})
    assert encoder.notes_ == (
        "in column 'sum', '$(5)' is a negative number",
        "column 'sum' was read without its currency signs ($)",
        "column 'rate' was read without its percent signs (%)",
    )
    assert [column.sign for column in encoder.columns_] == ["$", "%"]
    assert encoder.transform({"sum": [1.0], "rate": ["5%"]}).tolist() == [[1.0, 5.0]]


def test_what_is_said_of_many_columns_is_said_once():
    def listed(name, count):
        return ", ".join(f"'{name}{k}'" for k in range(count)) + ", …"

    same = {f"same{k}": ["007"] * 6 for k in range(1000)}
    spoilt = {f"spoilt{k}": ["1", "2", "3", "4", "5", "x"] for k in range(1000)}
    encoder = fit({"x": ["1", "02", "3", "4", "5", "7"], **same, **spoilt})
    assert [re.sub(r" \(.*\)", "", note) for note in encoder.notes_] == [
        f"1001 columns are treated as numeric but are written like codes: 'x', {listed('same', 9)}",
        "1000 columns are treated as text although most of their values are numbers: "
        f"{listed('spoilt', 10)}",
        f"1000 columns are constant and were dropped: {listed('same', 10)}",
        "1000 columns were dropped: nearly all of their values are distinct: "
        f"{listed('spoilt', 10)}",
    ]
    assert len(encoder.summary_) == 1000


def test_units_are_suggested_to_be_removed():
    note = fit({"size": [f"{k} m" for k in range(9)], "x": np.arange(9) / 2}).notes_[0]
    assert note.endswith("such as '0 m'; if they are numbers, remove units and other characters")


# ----- Missing values -----


def test_missing_values_are_refused_in_one_message():
    data = table(
        a=[None, 1, 2, 3, 4, None],
        b=["u", "v", None, "u", "v", "u"],
        none=[None] * 6,
        c=["2020-01-01", "2020-01-02", None, None, None, "2020-01-02"],
        x=Y,
        d=[1, 2, 4, 8, None, 3],
        id=["1a", "2b", None, "3c", "4d", "5e"],
        dropped=[None, 1, 2, 3, 4, 5],
    )
    assert refused(fit, data, drop=["dropped"]) == (
        "7 values are missing, in 4 columns: 'a' (2, first in row 1), 'b' (1, first in row 3), 'c' "
        "(3, first in row 3), …; use missing='impute' to impute them "
        '(medians; a level "(missing)" or the most frequent one)'
    )
    single = refused(fit, {"x": [1.0, 2.0, None]})
    assert single.startswith("1 value is missing, in 1 column: 'x' (1, first in row 3); use ")
    footer = refused(fit, {"x": [1.0, 2.0, None], "z": [1.0, 3.0, None], "n": [1, 5, 9]})
    assert "; remove row 3 if it is a footer, such as totals, or use missing=" in footer


def test_missing_values_are_filled_in_and_indicated():
    data = table(
        a=[None, 1, 2, 5, None],
        b=["u", "v", None, "u", "w"],
        kind=["q", "q", "q", None, "o"],
        town=["s", "s", "s", "t", None],
        day=["2020-01-01", "2020-01-02", None, "2020-01-05", None],
        x=[1.0, 2.0, 4.0, 8.0, 32.0],
    )
    encoder = TableEncoder()
    X = encoder.fit_transform(data)
    assert encoder.notes_ == (
        "column 'b' was dropped: nearly all of its 4 values are distinct",
        '6 missing values in 4 columns were imputed (medians; a level "(missing)" or the most '
        "frequent one)",
    )
    days = 18263.0
    assert encoder.columns_ == (
        Column("a", "number", fill=2.0, indicator=True),
        Column("kind", "binary", ("o", "q"), "q"),
        Column("town", "binary", ("s", "t"), "s"),
        Column("day", "date", fill=days, indicator=True),
        Column("x", "number", fill=4.0),
    )
    expected = {
        "a": [2, 1, 2, 5, 2],
        "a (missing)": [1, 0, 0, 0, 1],
        "kind=q": [1, 1, 1, 1, 0],
        "town=t": [0, 0, 0, 1, 0],
        "day (days)": [days - 1, days, days, days + 3, days],
        "day (missing)": [0, 0, 1, 0, 1],
        "x": [1, 2, 4, 8, 32],
    }
    assert names(encoder) == list(expected)
    np.testing.assert_array_equal(X, np.transpose(list(expected.values())))
    assert [one.missing for one in encoder.summary_] == [2, 1, 1, 1, 2, 0]
    assert [one.features for one in encoder.summary_] == [2, 0, 1, 1, 2, 1]


@pytest.mark.filterwarnings("ignore:column 'kind' has 1 value that was rare")
def test_three_missing_values_of_a_category_are_a_level():
    encoder = TableEncoder()
    data = {"x": [1, 2, None] * 5, "kind": [*"aaaabbbccc", None, "d", None, None, "a"]}
    X = encoder.fit_transform(data)
    levels = "kind=a", "kind=b", "kind=c", "kind=(missing)", "kind=(other)"
    assert names(encoder) == ["x", "x (missing)", *levels]
    assert encoder.reference_features_ == [2]
    assert X[10:13, 2:].tolist() == [[0, 0, 0, 1, 0], [0, 0, 0, 0, 1], [0, 0, 0, 1, 0]]
    again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    np.testing.assert_array_equal(again.transform(data), X)
    two = {"kind": [*"aaabbb", None, None, None]}
    assert names(TableEncoder().fit(two)) == ["kind=a", "kind=b", "kind=(missing)"]
    # a new missing value is the most frequent level if there was none in the fit
    plain = TableEncoder().fit({"kind": [*"aaaabbbccc"]})
    assert plain.transform({"kind": ["b", None]}).tolist() == [[0, 1, 0], [1, 0, 0]]


def test_new_rows_are_filled_in_as_in_the_fit():
    data = table(
        x=[1, 2, 10, None],
        day=["1970-01-02", "1970-01-03", "1970-01-05", "1970-01-03"],
        kind=["a", "b", "a", "a"],
    )
    encoder = TableEncoder().fit(data)
    X = encoder.transform(table(x=[None, 5], day=[None, None], kind=[None, "b"]))
    np.testing.assert_array_equal(X, [[2, 1, 2, 0], [5, 0, 2, 1]])


def test_the_table_is_left_as_it_was():
    data = {"x": np.array([1, np.nan, 3, 4]), "kind": np.array(["a", None, "b", "b"], object)}
    before = {name: values.copy() for name, values in data.items()}
    TableEncoder(categories=["x"]).fit_transform(data)
    for name, values in before.items():
        np.testing.assert_array_equal(data[name], values)


# ----- What cannot be encoded -----


@pytest.mark.parametrize(
    ("columns", "how", "message"),
    [
        (
            {"Price": Y, "area": Y},
            {"drop": ["prize"]},
            "unknown column 'prize' (did you mean 'Price'?); the columns are 'Price', 'area'",
        ),
        (
            {f"x{k:02d}": Y for k in range(12)},
            {"keep": ["?"]},
            "unknown column '?'; the columns are 'x00', 'x01', 'x02', 'x03', 'x04', 'x05', "
            "'x06', 'x07', 'x08', 'x09', … (12 in all)",
        ),
        ({"x": Y}, {"categories": ["z", "w"]}, "unknown columns 'z', 'w'; the columns are 'x'"),
        (
            {"column 1": Y, "column 2": Y, "Prices of 2023": Y},
            {"drop": ["area"]},
            "unknown column 'area'; the columns are 'column 1', 'column 2', 'Prices of 2023'; "
            "remove the lines above the header",
        ),
        ({"x": Y}, {"drop": ["x"], "keep": ["x"]}, "'x' cannot be both dropped and kept"),
        ({"x": Y}, {"drop": ["x"]}, "there is no column to predict from"),
        ({"x": Y}, {"drop": "x"}, "drop must be a list of strings, got 'x'"),
        ({"x": Y}, {"decimal": ";"}, "the decimal separator must be . or ,"),
        (
            {"x": [1] * 6},
            {},
            "there is no column to predict from; column 'x' is constant and was dropped",
        ),
        ({"x": [1.0, np.inf]}, {}, "column 'x' has a number that is not finite, in row 2"),
        ({"x": []}, {}, "the table has no rows"),
        ({}, {}, "the table has no columns"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_bad_data(columns, how, message):
    assert refused(fit, columns, **how).startswith(message)


def test_missing_has_two_values():
    with pytest.raises(ValueError, match="missing must be one of"):
        fit({"x": Y}, missing="drop")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({0: [1.0], "0": [2.0]}, "several columns are named '0'"),
        (pd.DataFrame([[1, 2]], columns=[0, "0"]), "several columns are named '0'"),
        (pa.table([[1], [2]], ["a", "a"]), "several columns are named 'a'"),
        ({"a": [1.0], " a ": [2.0]}, "several columns are named 'a'"),
        (pl.DataFrame({"a": [dt.time(1)]}), "column 'a' is of type time"),
        (pl.DataFrame({"a": [dt.timedelta(1)]}), "column 'a' is of type duration"),
        (pa.table({"a": [[1, 2]]}), "column 'a' is of type list"),
        (pa.table({"a": pa.array([2**60], pa.timestamp("ms"))}), "column 'a': Casting from"),
        ({"a": [b"x"]}, "column 'a' is of type binary"),
        ({"a": np.array([True, 2], object)}, "column 'a' must hold only numbers"),
        ({"a": np.array([1, "x", None], object)}, "column 'a' must hold only numbers"),
        ({"a": np.array([1j, 2j])}, "column 'a' must hold only numbers"),
        ({"a": np.array([1, 2], "m8[D]")}, "column 'a' "),
        ({"a": np.zeros((2, 2))}, r"column 'a' has shape \(2, 2\); it must be a vector"),
        ({"a": [1.0, 2.0], "b": [1.0]}, "the columns must have the same length"),
    ],
)
def test_what_is_no_table_is_refused(data, message):
    with pytest.raises(DataError, match=message):
        TableEncoder().fit(data)


def test_only_what_has_columns_is_a_table():
    for wrong in (np.zeros((3, 2)), [[1, 2]], pd.Series([1.0, 2.0])):
        with pytest.raises(TypeError, match="X must be a data frame"):
            TableEncoder().fit(wrong)


def test_what_is_masked_is_missing():
    data = {"a": np.ma.array([1, 2, 4], mask=[False, True, False])}
    assert TableEncoder().fit_transform(data).tolist() == [[1, 0], [2.5, 1], [4, 0]]


def test_columns_without_a_name_are_numbered_and_names_may_be_numbers():
    assert names(fit({" ": [1.5, 2.0], 7: [1.5, 2.0]})) == ["column 1", "7"]
    assert names(fit(pd.DataFrame({0: [1.5, 2], 1: ["a", "b"]}), categories=[1])) == ["0", "1=b"]


def test_without_pyarrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'steinpath\[files\]'"):
        TableEncoder().fit({"x": Y})


# ----- New rows -----

FITTED = fitted(
    Column("x", "number"),
    Column("day", "date"),
    Column("sure", "binary", ("no", "yes")),
    Column("kind", "category", ("a", "b")),
    Column("city", "category", ("q", OTHER)),
)
NEW = {
    "x": [1, 2, 3],
    "day": ["1970-01-02", "1970-01-03", "1970-01-04"],
    "sure": ["yes", "no", "yes"],
    "kind": ["b", "a", "b"],
    "city": ["q", "q", OTHER],
}


def test_order_and_other_columns_do_not_matter():
    expected = [[1, 1, 1, 0, 1, 1, 0], [2, 2, 0, 1, 0, 1, 0], [3, 3, 1, 0, 1, 0, 1]]
    np.testing.assert_array_equal(FITTED.transform(table(**NEW)), expected)
    again = table(more=["?", None, "!"], list=[[1]] * 3, **dict(reversed(NEW.items())))
    np.testing.assert_array_equal(FITTED.transform(again), expected)


def test_levels_without_a_feature():
    new = NEW | {"sure": ["maybe", "no", "oh"], "kind": ["z", "a", "b"], "city": ["q", "r", "s"]}
    X, notes = noted(FITTED, table(**new))
    np.testing.assert_array_equal(X[:, 2:], [[0, 0, 0, 1, 0], [0, 1, 0, 0, 1], [0, 0, 1, 0, 1]])
    assert notes == [
        "2 columns have values that the model does not know: 'sure', 'kind'",
        "column 'city' has 2 values that were rare in the fit or not in it, first 'r' in row 2; "
        "treated as '(other)'",
    ]
    for name, note in {
        "sure": "2 values that the model does not know, first 'maybe' in row 1; treated as 'no'",
        "kind": "1 value that the model does not know, first 'z' in row 1; treated as none of its "
        "levels",
        "city": "2 values that were rare in the fit or not in it, first 'r' in row 2; treated as "
        "'(other)'",
    }.items():
        assert noted(FITTED, table(**NEW | {name: new[name]}))[1] == [f"column {name!r} has {note}"]


def test_levels_that_look_like_numbers_or_dates_in_the_new_rows():
    encoder = fitted(
        Column("code", "category", ("1", "2", "x")),
        Column("day", "binary", ("2020-01-01", "never")),
    )
    X, notes = noted(encoder, table(code=[2, 1, 2.5], day=["2020-01-01"] * 3))
    np.testing.assert_array_equal(X, [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    assert len(notes) == 1
    assert "first '2.5' in row 3" in notes[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"x": ["1", None, "two"]},
            "column 'x' must hold numbers, as in the fit, but has 'two' in row 3",
        ),
        ({"x": [None, "2020-01-01", "2020-01-01"]}, "column 'x' must hold numbers, as in"),
        (
            {"day": ["2020-01-01", "soon", "x"]},
            "column 'day' must hold dates, as in the fit, but has 'soon' in row 2",
        ),
        (
            {"day": [None, 2020, 2021]},
            "column 'day' must hold dates, as in the fit, but has '2020' in row 2",
        ),
        (
            {"x": [None, 1, None], "kind": ["a", "b", None]},
            "3 values are missing, in 2 columns: 'x' (2, first in row 1), 'kind' (1, first in row "
            "3); fill them in, or fit the model with missing='impute'",
        ),
        ({"x": [None] * 3}, "3 values are missing, in 1 column: 'x' (3, first in row 1)"),
    ],
    ids=lambda value: value[:50] if isinstance(value, str) else "",
)
def test_bad_new_rows(change, message):
    changed = NEW | change
    data = {name: changed[name] if name in change else values_of(changed[name]) for name in NEW}
    assert refused(FITTED.transform, data).startswith(message)


def test_columns_that_are_not_there():
    message = refused(FITTED.transform, {"X": [1], "day": ["2020-01-01"], "citi": ["q"]})
    assert message == (
        "4 columns of the model are missing: 'x' (did you mean 'X'?), 'sure', 'kind', "
        "'city' (did you mean 'citi'?)"
    )
    message = refused(FITTED.transform, {k: v for k, v in NEW.items() if k != "sure"})
    assert message == "1 column of the model is missing: 'sure'"


@pytest.mark.parametrize(
    ("fit_values", "new", "message"),
    [
        (
            ["5%", "7%"],
            [None, "0.05"],
            "column 'rate' holds numbers with '%' in the fit, but has '0.05' in row 2, without a "
            "sign; write them as in the fit",
        ),
        (["5%", "7%"], [0.05], "column 'rate' holds numbers with '%' in the fit, but has '0.05'"),
        (
            ["0.05", "0.07"],
            ["5%"],
            "column 'rate' holds numbers without a sign in the fit, but has '5%' in row 1, with "
            "'%'; write them as in the fit",
        ),
        ([0.05, 0.07], ["5%"], "column 'rate' holds numbers without a sign in the fit, but has"),
        (["5 €", "7"], ["$5"], "column 'rate' holds numbers with '€' in the fit, but has '$5' in"),
        (["5 €", "7"], ["5%"], "column 'rate' holds numbers with '€' in the fit, but has '5%' in"),
    ],
)
def test_other_signs_than_in_the_fit_are_refused(fit_values, new, message):
    encoder = TableEncoder().fit({"rate": fit_values})
    again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    for each in (encoder, again, pickle.loads(pickle.dumps(encoder))):
        assert refused(each.transform, {"rate": new}).startswith(message)


def test_signs_that_mean_the_same():
    encoder = TableEncoder().fit({"sum": ["5 €", "7 €"]})
    for same in ("6 €", "€6", "6", 6):
        assert encoder.transform({"sum": [same]}).tolist() == [[6.0]]
    percent = TableEncoder().fit({"rate": ["5%", "7%"]})
    assert percent.transform({"rate": ["5 %", None]}).tolist() == [[5.0], [6.0]]
    assert percent.transform({"rate": [None]}).tolist() == [[6.0]]
    assert TableEncoder().fit({"sum": ["5", "7"]}).transform({"sum": ["$6"]}).tolist() == [[6.0]]


# ----- Containers and types -----

MODEL = fitted(
    Column("x", "number"),
    Column("day", "date"),
    Column("town", "category", ("A", "B", "007")),
    Column("flag", "binary", ("false", "true")),
)
CONTAINERS = {
    "arrow table": lambda table: table,
    "arrow batch": lambda table: table.combine_chunks().to_batches()[0],
    "pandas": lambda table: table.to_pandas(),
    "pandas of arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas with an index": lambda table: table.to_pandas().set_axis(list("uvw")),
    "polars": pl.from_arrow,
    "polars, lazy": lambda table: pl.from_arrow(table).lazy(),
    "lists": lambda table: table.to_pydict(),
    "arrays": lambda table: {n: table.column(n).to_numpy() for n in table.column_names},
    "series": lambda table: dict(zip(table.column_names, pl.from_arrow(table), strict=True)),
}
EVERYWHERE = pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)


@EVERYWHERE
@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_features_are_the_same_in_every_container(container, change):
    days = [(day - dt.date(1970, 1, 1)).days for day in DAYS]
    levels = [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    expected = np.column_stack([[1.0, 2.5, -3.0], days, levels, [1, 0, 1]])
    found = MODEL.transform(container(pa.table(USUAL | change)))
    np.testing.assert_array_equal(found, expected)


@EVERYWHERE
def test_encoders_are_the_same_in_every_container(container):
    rows = pa.table(
        {
            "x": [1.5, None, 3.0],
            "town": ["u", "v", None],
            "day": [DAYS[0], None, DAYS[1]],
            "flag": [True, False, None],
            "written day": ["2020-01-01", None, "2021-01-01"],
            "written number": ["1", "2.5", "-3"],
            "nothing": pa.nulls(3, pa.string()),
        }
    )
    encoder, usual = TableEncoder(), TableEncoder().fit(rows)
    X = encoder.fit_transform(container(rows))
    assert encoder.to_json() == usual.to_json()
    assert (encoder.notes_, encoder.summary_) == (usual.notes_, usual.summary_)
    np.testing.assert_array_equal(X, usual.transform(rows))


def test_categories_of_a_frame_are_categories():
    codes = [2, 1, 2, 2, 1, 1, 3, 3, 3]
    frame = pd.DataFrame({"code": pd.Categorical(codes), "text": pd.Categorical(map(str, codes))})
    for data in (frame, pa.Table.from_pandas(frame), pl.from_pandas(frame[["text"]])):
        assert {column.kind for column in fit(data).columns_} == {"category"}
        assert {column.levels for column in fit(data).columns_} == {("1", "2", "3")}


def test_categories_that_parquet_stores_as_numbers(tmp_path):
    frame = pd.DataFrame({"code": pd.Categorical([2, 1, 2, 1]), "x": [1.5, 2, 3, 4]})
    frame.set_axis([5, 6, 7, 9]).to_parquet(tmp_path / "d.parquet")
    encoder = fit(pa.parquet.read_table(tmp_path / "d.parquet"))
    assert names(encoder) == ["code=2", "x"]


# ----- JSON -----


@pytest.mark.parametrize("missing", ["error", "impute"])
def test_through_json(missing):
    n = 30
    data = table(
        x=(np.arange(n) / 2).tolist(),
        größe=["klein", "groß", "mittel"] * 10,
        day=[f"2020-01-{k + 1:02d}" for k in range(n)],
        sure=["ja", "nein"] * 15,
        price=["5 €", "7 €"] * 15,
    )
    encoder = fit(data, missing=missing, na=("-",), date_format="%d.%m.%Y", keep=["x"])
    again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json(), allow_nan=False)))
    assert again.columns_ == encoder.columns_
    assert all((column.fill is not None) == (missing == "impute") for column in again.columns_)
    np.testing.assert_array_equal(again.transform(data), encoder.transform(data))
    assert again.to_json() == encoder.to_json()
    assert names(again) == names(encoder)
    assert again.feature_names_in_.tolist() == data.column_names
    assert again.get_params() == encoder.get_params() | {
        name: list(encoder.get_params()[name]) for name in ("categories", "drop", "keep", "na")
    }


NUMBER = {"name": "x", "kind": "number", "levels": [], "fill": None}
SURE = {"name": "sure", "kind": "binary", "levels": ["no", "yes"], "fill": None}
KIND = {"name": "kind", "kind": "category", "levels": ["b", "a"], "fill": "a"}


def test_columns_of_model_files_of_version_0_1_0():
    old = {"columns": [NUMBER | {"fill": 3}, SURE | {"kind": "yes or no"}, KIND]}
    encoder = TableEncoder.from_json(old)
    assert encoder.columns_ == (
        Column("x", "number", fill=3.0, sign=None),
        Column("sure", "binary", ("no", "yes"), sign=None),
        Column("kind", "category", ("b", "a"), "a", sign=None),
    )
    assert isinstance(encoder.columns_[0].fill, float)
    # whether there were signs is not known
    for written in ("5", "5%", "$5"):
        X = encoder.transform({"x": [written], "sure": ["yes"], "kind": ["b"]})
        assert X.tolist() == [[5, 1, 1, 0]]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, "'encoder' is not a mapping: None"),
        ({"columns": [NUMBER], "more": 1}, "'encoder' must have 'columns', 'names', 'parameters'"),
        ({"columns": NUMBER}, "'columns' is not a list"),
        ({"columns": []}, "'columns' are none"),
        ({"columns": [NUMBER, KIND, NUMBER]}, "several columns are named 'x'"),
        ({"columns": ["x"]}, "'columns' is not a mapping"),
        ({"columns": [NUMBER], "names": "x"}, "'names' is not a list"),
        ({"columns": [NUMBER], "names": ["x", 1]}, "'names' is not a string"),
        ({"columns": [NUMBER], "names": ["x", " "]}, "'names' have a blank one"),
        ({"columns": [NUMBER], "names": ["y"]}, "unknown column 'x'"),
        ({"columns": [NUMBER], "parameters": {"n": 1}}, "'parameters' are not those of TableEnc"),
        ({"columns": [NUMBER], "parameters": {"na": "x"}}, "'na' is not a list"),
        ({"columns": [NUMBER], "parameters": {"drop": 3}}, "'drop' is not a list"),
        ({"columns": [NUMBER], "parameters": {"missing": 1}}, "'missing' is not valid"),
        ({"columns": [NUMBER], "parameters": {"decimal": 3}}, "the decimal separator must be"),
        ({"columns": [NUMBER], "parameters": {"date_format": 1}}, "the date format must have"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_malformed_json(found, message):
    assert message in refused(TableEncoder.from_json, found)


@pytest.mark.parametrize(
    ("column", "change", "message"),
    [
        (NUMBER, {"extra": 1}, "must have 'name', 'kind', 'levels', 'fill', 'sign', 'indicator'"),
        (NUMBER, {"name": None}, "'name' is not a string"),
        (NUMBER, {"name": " "}, "'name' is blank"),
        (NUMBER, {"name": "\ud800"}, "'name' is not a string"),
        (NUMBER, {"kind": "nought"}, "'kind' of 'x' is not valid: 'nought'"),
        (NUMBER, {"levels": ["a"]}, "'levels' of 'x' are not those of the kind 'number': ['a']"),
        (NUMBER, {"levels": None}, "'levels' is not a list: None"),
        (NUMBER, {"fill": "a"}, "'fill' is not a number: 'a'"),
        (NUMBER, {"fill": float("nan")}, "'fill' is not a number: nan"),
        (NUMBER, {"fill": 10**400}, "'fill' is not a number: 1000"),
        (NUMBER, {"sign": 1, "indicator": False}, "'sign' of 'x' is not one such as '%' or '€': 1"),
        (NUMBER, {"sign": "", "indicator": True}, "'indicator' of 'x' is not false, or true with"),
        (SURE, {"levels": ["yes", "no"]}, "'levels' of 'sure' are not those of the kind 'binary'"),
        (SURE, {"levels": ["no", 1]}, "'levels' is not a string: 1"),
        (SURE, {"levels": [" ", "no"]}, "'levels' of 'sure' have a blank one"),
        (SURE, {"fill": "maybe"}, "'fill' of 'sure' is not a level: 'maybe'"),
        (KIND, {"levels": ["a", "a"]}, "'levels' of 'kind' are not those of the kind 'category'"),
        (KIND, {"levels": [OTHER, "a"]}, "'levels' of 'kind' are not those of the kind"),
        (KIND, {"levels": [str(k) for k in range(53)]}, "'levels' of 'kind' are not those"),
        (KIND, {"fill": 1}, "'fill' of 'kind' is not a level: 1"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_malformed_columns_in_json(column, change, message):
    assert message in refused(TableEncoder.from_json, {"columns": [column | change]})


# ----- scikit-learn -----

FRAME = pd.DataFrame({"x": [1.5, None, 3.0, 4.0], "kind": ["a", "b", "a", "b"]}, index=[3, 1, 4, 7])


def test_before_the_fit():
    for call in (
        lambda: TableEncoder().transform(FRAME),
        TableEncoder().get_feature_names_out,
        TableEncoder().to_json,
    ):
        with pytest.raises(NotFittedError):
            call()
    assert not hasattr(TableEncoder(), "reference_features_")


def test_clones_pickles_and_parameters():
    encoder = TableEncoder(drop=["kind"], na=("-",)).fit(FRAME)
    assert clone(encoder).get_params() == encoder.get_params()
    assert not hasattr(clone(encoder), "columns_")
    again = pickle.loads(pickle.dumps(encoder))
    assert (again.columns_, again.notes_) == (encoder.columns_, encoder.notes_)
    np.testing.assert_array_equal(again.transform(FRAME), encoder.transform(FRAME))
    check_no_attributes_set_in_init("TableEncoder", TableEncoder())
    assert TableEncoder().__sklearn_tags__().input_tags.allow_nan


@pytest.mark.parametrize("library", [pd, pl])
def test_output_as_data_frames(library):
    encoder = TableEncoder().set_output(transform=library.__name__)
    for data in (FRAME, pl.from_pandas(FRAME), FRAME.to_dict("list")):
        for found in (encoder.fit_transform(data), encoder.fit(data).transform(data)):
            assert isinstance(found, library.DataFrame)
            assert list(found.columns) == ["x", "x (missing)", "kind=b"]
    if library is pd:
        assert encoder.transform(FRAME).index.tolist() == [3, 1, 4, 7]
