"""Features from columns: what each kind becomes, and the same for new rows."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from steinpath.app.encoding import OTHER, Column, ColumnSummary, Encoding, encode
from steinpath.app.tables import DataError, Table, read_table


def table(lines=None, **columns):
    """A table of lists: numbers with None for missing ones, ISO dates, or texts."""
    return Table({name: values_of(values) for name, values in columns.items()}, lines)


def values_of(values):
    present = [value for value in values if value is not None]
    if present and not isinstance(present[0], str):
        return np.array([np.nan if value is None else value for value in values], float)
    if present and all(re.match(r"\d{4}-", value) for value in present):
        return np.array(values, "datetime64[us]")
    array = np.empty(len(values), object)
    array[:] = values
    return array


def refused(call, *args, **kwargs):
    """The message of an error."""
    with pytest.raises(DataError) as caught:
        call(*args, **kwargs)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


Y = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]


# ------------------------------------------------------------------------------------------------
# Kinds of columns
# ------------------------------------------------------------------------------------------------


def test_every_kind():
    data = table(
        x=[1, 2, 3, 4, 5, 6.5],
        day=[
            "1970-01-02",
            "1970-01-03T12:00",
            "1969-12-31",
            "2020-01-01",
            "2020-01-01",
            "2020-01-01",
        ],
        sure=["yes", "no", "no", "yes", "no", "no"],
        y=Y,
        kind=["b", "b", "b", "a", "a", "a"][::-1],
        city=["r", "q", "q", "q", "s", "q"],
    )
    found = encode(data, "y")
    assert found.encoding == Encoding(
        "y",
        (
            Column("x", "number"),
            Column("day", "date"),
            Column("sure", "binary", ("no", "yes")),
            Column("kind", "binary", ("a", "b")),
            Column("city", "category", ("q", OTHER)),
        ),
    )
    names = ["x", "day (days)", "sure=yes", "kind=b", "city=q", "city=(other)"]
    assert found.encoding.feature_names == names
    expected = [
        [1, 2, 3, 4, 5, 6.5],
        [1, 2.5, -1, 18262, 18262, 18262],
        [1, 0, 0, 1, 0, 0],
        [0, 0, 0, 1, 1, 1],
        [0, 1, 1, 1, 0, 1],
        [1, 0, 0, 0, 1, 0],
    ]
    np.testing.assert_array_equal(found.X, np.transpose(expected))
    np.testing.assert_array_equal(found.y, Y)
    assert found.X.dtype == found.y.dtype == float
    assert found.notes == ()
    assert found.summaries == (
        ColumnSummary("x", "number", "from 1 to 6.5, mean 3.583, median 3.5", 0, 1),
        ColumnSummary("day", "date", "from 1969-12-31 to 2020-01-01", 0, 1),
        ColumnSummary("sure", "binary", "no (4), yes (2)", 0, 1),
        ColumnSummary("y", "target", "from 1 to 32, mean 10.5, median 6", 0, 0),
        ColumnSummary("kind", "binary", "a (3), b (3)", 0, 1),
        ColumnSummary("city", "category", "q (4), r (1), s (1)", 0, 2),
    )


def test_levels_are_the_most_frequent():
    counts = {"rare": 2, "c": 3, "b": 5, "a": 5, OTHER: 4, "single": 1}
    values = [level for level, count in counts.items() for _ in range(count)]
    data = table(kind=values, y=np.arange(len(values)))
    found = encode(data, "y")
    assert found.encoding.columns[0].levels == ("a", "b", "c", OTHER)
    assert found.X.sum(axis=0).tolist() == [5, 5, 3, 7]
    assert found.summaries[0].detail == "a (5), b (5), (other) (4), … 6 levels"


def test_all_levels_are_kept_if_none_is_rare():
    data = table(kind=list("aaabbbccc"), y=np.arange(9))
    assert encode(data, "y").encoding.columns[0].levels == ("a", "b", "c")


def test_at_most_fifty_levels():
    values = [f"{k:02d}" for k in range(60) for _ in range(3)] + ["59"]
    found = encode(table(kind=values, y=np.arange(181)), "y")
    levels = found.encoding.columns[0].levels
    assert levels == ("59", *(f"{k:02d}" for k in range(49)), OTHER)
    assert found.X.shape == (181, 51)
    np.testing.assert_array_equal(found.X.sum(axis=1), 1)
    assert found.X[:, -1].sum() == 30


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
        name=[f"Ms {k}" for k in range(n)],
        y=np.arange(n) % 7,
    )
    found = encode(data, "y", drop=["away"])
    assert found.notes == (
        "column 'id' looks like an identifier and was excluded (--keep-column 'id' keeps it)",
        "3 columns are constant and were dropped: 'same', 'word', 'day'",
        "2 columns have no values and were dropped: 'none', 'nan'",
        "column 'name' was dropped: nearly all of its 800 values are distinct",
    )
    assert found.encoding.feature_names == ["x"]
    out = {one.name: one for one in found.summaries if one.kind == "dropped"}
    assert list(out) == ["id", "same", "word", "day", "none", "nan", "away", "name"]
    assert out["away"] == ColumnSummary("away", "dropped", "as requested", 0, 0)
    assert out["none"] == ColumnSummary("none", "dropped", "no values", n, 0)
    assert [one.name for one in found.summaries] == list(data.columns)


def test_columns_of_numbers_but_for_a_few_values():
    data = table(
        np.arange(2, 8),
        x=["1", "2", "3", "4 m", None, "6"],
        rooms=["1", "2", "3+", "3+", "3+", "1"],
        coded=["1", "2", "3", "x", "4", "5"],
        z=Y,
        y=[None, *Y[1:]],
    )
    found = encode(data, "y", impute=True, categories=["coded"])
    assert found.notes[0] == (
        "column 'x' is treated as text because of 1 value, first '4 m' in line 5; all others are "
        "numbers (if it means missing, use --na '4 m')"
    )
    assert [note[:12] for note in found.notes[1:]] == [
        "1 row withou",
        "2 columns we",
    ]


def test_codes_are_numbers_unless_they_are_called_categories():
    data = table(code=[1, 1, 1, 2.5, 2.5, 2.5, 10, 10, 10], two=[0, 1] * 4 + [1], y=np.arange(9))
    assert encode(data, "y").encoding.feature_names == ["code", "two"]
    found = encode(data, "y", categories=["code", "two"])
    assert found.encoding.feature_names == ["code=1", "code=10", "code=2.5", "two=1"]
    np.testing.assert_array_equal(found.X[:, 0], [1, 1, 1, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(found.X[:, 3], data.columns["two"])
    assert found.summaries[1].detail == "1 (5), 0 (4)"


def test_dates_may_be_categories():
    data = table(day=["2020-01-01", "2021-01-01T10:00"] * 2, y=Y[:4])
    found = encode(data, "y", categories=("day",))
    assert found.encoding.columns[0].levels == ("2020-01-01", "2021-01-01T10:00:00.000000")


def test_names_of_features_are_different():
    data = table(
        **{
            "a=yes": [1, 2, 3, 4, 5, 7],
            "a": ["yes", "no"] * 3,
            "a=yes (2)": [6, 5, 4, 3, 2, 0],
            "größe\nin cm": [1, 1, 1, 1, 1, 2],
            "y": Y,
        }
    )
    found = encode(data, "y")
    wanted = ["a=yes", "a=yes (2)", "a=yes (2) (2)", "größe\nin cm"]
    assert found.encoding.feature_names == wanted
    assert found.X.shape == (6, 4)


def test_details_of_large_and_long_values():
    data = table(
        price=[123456.7, 1e12, 20201, 0, 0.25, -5e4],
        text=["x" * 100] * 3 + ["y"] * 3,
        huge=[1e308] * 5 + [-1e308],
        y=Y,
    )
    details = [one.detail for one in encode(data, "y").summaries]
    assert details[0] == "from -50000 to 1e+12, mean 1.667e+11, median 10101"
    assert details[1] == f"{'x' * 30} (3), y (3)"
    assert details[2].startswith("from -1e+308 to 1e+308")
    assert encode(data, "y", impute=True).encoding.columns[2].fill == 1e308


# ------------------------------------------------------------------------------------------------
# Missing values
# ------------------------------------------------------------------------------------------------


def test_missing_values_are_refused_in_one_message():
    data = table(
        np.arange(10, 16),
        a=[None, 1, 2, 3, 4, None],
        b=["u", "v", None, "u", "v", "u"],
        none=[None] * 6,
        y=[1, 2, 3, None, 5, 6],
        c=["2020-01-01", "2020-01-02", None, None, None, "2020-01-02"],
        x=Y,
        id=["1a", "2b", None, "3c", "4d", "5e"],
        dropped=[None, 1, 2, 3, 4, 5],
    )
    message = refused(encode, data, "y", drop=["dropped"])
    assert message == (
        "7 values are missing, in 4 columns: 'y' (1, first in line 13), 'a' (2, first in line 10), "
        "'b' (1, first in line 12), …; use --impute to replace them with medians and most "
        "frequent levels (rows without a target are dropped)"
    )
    single = refused(encode, table(x=[1, 2, None], y=[1, 2, 3]), "y")
    assert single.startswith("1 value is missing, in 1 column: 'x' (1, first in row 3); use ")


def test_missing_values_are_filled_in():
    data = table(
        a=[None, 1, 2, 5, 400, None],
        b=["u", "v", None, "u", "v", "w"],
        kind=["q", "q", "q", None, "p", "o"],
        y=[1, 2, 3, 7, None, 6],
        day=["2020-01-01", "2020-01-02", None, "2020-01-05", "2020-02-02", None],
        x=Y,
    )
    found = encode(data, "y", impute=True)
    assert found.notes == (
        "1 row without a target was dropped",
        "column 'b' was dropped: nearly all of its 4 values are distinct",
        "5 missing values in 3 columns were replaced with medians and most frequent levels",
    )
    days = 18263.0
    assert found.encoding.columns == (
        Column("a", "number", fill=2.0),
        Column("kind", "binary", ("o", "q"), "q"),
        Column("day", "date", fill=days),
        Column("x", "number", fill=4.0),
    )
    expected = [
        [2, 1, 2, 5, 2],
        [1, 1, 1, 1, 0],
        [days - 1, days, days, days + 3, days],
        [1, 2, 4, 8, 32],
    ]
    np.testing.assert_array_equal(found.X, np.transpose(expected))
    np.testing.assert_array_equal(found.y, [1, 2, 3, 7, 6])
    assert {one.name: one.missing for one in found.summaries} == {
        "a": 2,
        "b": 1,
        "kind": 1,
        "y": 1,
        "day": 2,
        "x": 0,
    }


def test_one_missing_value_is_filled_in():
    found = encode(table(x=[1, 4, None], y=[1, 2, 3]), "y", impute=True)
    assert found.notes == (
        "1 missing value in 1 column was replaced with medians and most frequent levels",
    )
    assert encode(table(x=[1, 2, 4], y=[1, 2, 3]), "y", impute=True).notes == ()


def test_levels_of_rows_without_target_do_not_count():
    data = table(kind=list("aaabbbc"), y=[1, 2, 3, 4, 5, 6, None])
    found = encode(data, "y", impute=True)
    assert found.encoding.columns == (Column("kind", "binary", ("a", "b"), "a"),)
    assert found.X.ravel().tolist() == [0, 0, 0, 1, 1, 1]


def test_the_table_is_left_as_it_was():
    data = table(x=[1, None, 3, 4], kind=["a", None, "b", "b"], y=[1, 2, None, 3])
    before = {name: values.copy() for name, values in data.columns.items()}
    encode(data, "y", impute=True, categories=["x"])
    for name, values in before.items():
        np.testing.assert_array_equal(data.columns[name], values)


# ------------------------------------------------------------------------------------------------
# What cannot be encoded
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "how", "message"),
    [
        (
            {"Price": Y, "area": Y},
            {"target": "prize"},
            "unknown column 'prize' (did you mean 'Price'?); the columns are 'Price', 'area'",
        ),
        (
            {f"x{k:02d}": Y for k in range(12)},
            {"target": "?"},
            "unknown column '?'; the columns are 'x00', 'x01', 'x02', 'x03', 'x04', 'x05', "
            "'x06', 'x07', 'x08', 'x09', … (12 in all)",
        ),
        ({"y": Y, "abc": Y}, {"drop": ["abd"]}, "unknown column 'abd' (did you mean 'abc'?)"),
        ({"y": Y, "x": Y}, {"categories": ["z", "w"]}, "unknown columns 'z', 'w'; the"),
        ({"y": Y, "x": Y}, {"drop": ["y"]}, "'y' is the target, which can neither be dropped"),
        ({"y": Y, "x": Y}, {"categories": ["y"]}, "'y' is the target, which can neither"),
        (
            {"y": ["1", None, "2", "n/k", "3"], "x": Y[:5]},
            {},
            "the target 'y' must hold numbers, but has 'n/k' in row 4",
        ),
        (
            {"y": ["1", "2"], "x": [1, 2]},
            {"task": "regression"},
            "the target 'y' must hold numbers, but has '1' in row 1",
        ),
        (
            {"y": ["no", "yes"], "x": [1, 2]},
            {"impute": True, "task": "regression"},
            "the target 'y' must hold numbers, but has 'no' in row 1",
        ),
        (
            {"y": [None, "2020-01-01", "2020-01-02"], "x": [1, 2, 3]},
            {},
            "the target 'y' must hold numbers, but has '2020-01-01' in row 2",
        ),
        (
            {"y": [None] * 3, "x": [1, 2, 3]},
            {},
            "the target 'y' has 0 nonmissing values in 3 rows; at least",
        ),
        (
            {"y": [1, None], "x": [1, 2]},
            {"impute": True},
            "the target 'y' has 1 nonmissing value in 2 rows",
        ),
        (
            {"y": [1], "x": [1]},
            {},
            "the target 'y' has 1 nonmissing value in 1 row; at least two are needed",
        ),
        (
            {"y": [3, 3, None], "x": [1, 2, 3]},
            {},
            "the target 'y' is 3 in every row; a target must vary",
        ),
        ({"y": Y}, {}, "there is no column to predict 'y' from"),
        ({"y": Y, "x": Y}, {"drop": ["x"]}, "there is no column to predict 'y' from"),
        (
            {"y": Y, "x": [1] * 6},
            {},
            "there is no column to predict 'y' from; column 'x' is constant and was dropped",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_bad_data(columns, how, message):
    assert refused(encode, table(**columns), **{"target": "y", **how}).startswith(message)


def test_places_are_lines_of_the_file(tmp_path):
    file = tmp_path / "data.csv"
    file.write_text('y,x,note\n1,2,"a\nb"\n\n3,,c\nfour,5,a\n')
    message = refused(encode, read_table(file), "y")
    assert message.startswith("the target 'y' must hold numbers, but has 'four' in line 6; ")
    file.write_text(file.read_text().replace("four", "4"))
    assert "'x' (1, first in line 5)" in refused(encode, read_table(file), "y")


# ------------------------------------------------------------------------------------------------
# New rows
# ------------------------------------------------------------------------------------------------

FITTED = Encoding(
    "y",
    (
        Column("x", "number"),
        Column("day", "date"),
        Column("sure", "binary", ("no", "yes")),
        Column("kind", "category", ("a", "b")),
        Column("city", "category", ("q", OTHER)),
    ),
)
NEW = {
    "x": [1, 2, 3],
    "day": ["1970-01-02", "1970-01-03", "1970-01-04"],
    "sure": ["yes", "no", "yes"],
    "kind": ["b", "a", "b"],
    "city": ["q", "q", OTHER],
}


def test_order_and_other_columns_do_not_matter():
    X, notes = FITTED.transform(table(**NEW))
    again, _ = FITTED.transform(table(more=["?", None, "!"], **dict(reversed(NEW.items()))))
    expected = [[1, 1, 1, 0, 1, 1, 0], [2, 2, 0, 1, 0, 1, 0], [3, 3, 1, 0, 1, 0, 1]]
    np.testing.assert_array_equal(X, expected)
    np.testing.assert_array_equal(again, expected)
    assert notes == []


def test_the_rows_of_the_fit_are_encoded_as_in_the_fit():
    rng = np.random.default_rng(0)
    data = table(
        x=rng.standard_normal(50).tolist(),
        kind=rng.choice(list("aaabbcde"), 50).tolist(),
        code=rng.integers(0, 4, 50).tolist(),
        y=rng.standard_normal(50),
    )
    found = encode(data, "y", categories=["code"])
    X, notes = found.encoding.transform(data)
    np.testing.assert_array_equal(X, found.X)
    assert notes == []


def test_levels_without_a_feature():
    new = NEW | {"sure": ["maybe", "no", "oh"], "kind": ["z", "a", "b"], "city": ["q", "r", "s"]}
    X, notes = FITTED.transform(table(**new))
    np.testing.assert_array_equal(X[:, 2:], [[0, 0, 0, 1, 0], [0, 1, 0, 0, 1], [0, 0, 1, 0, 1]])
    assert notes == [
        "3 columns have values that the model does not know: 'sure', 'kind', 'city'",
    ]
    for name, note in {
        "sure": "2 values that the model does not know, first 'maybe' in row 1; treated as 'no'",
        "kind": "1 value that the model does not know, first 'z' in row 1; treated as none of its "
        "levels",
        "city": "2 values that the model does not know, first 'r' in row 2; treated as '(other)'",
    }.items():
        _, notes = FITTED.transform(table(**NEW | {name: new[name]}))
        assert notes == [f"column {name!r} has {note}"]


def test_levels_that_look_like_numbers_or_dates_in_the_new_file():
    fitted = Encoding(
        "y",
        (
            Column("code", "category", ("1", "2", "x")),
            Column("day", "binary", ("2020-01-01", "never")),
        ),
    )
    X, notes = fitted.transform(table(code=[2, 1, 2.5], day=["2020-01-01"] * 3))
    np.testing.assert_array_equal(X, [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    assert len(notes) == 1
    assert "first '2.5' in row 3" in notes[0]


def test_true_and_false_of_any_file(tmp_path):
    frame = pd.DataFrame({"flag": [True, False, True, True], "y": [1.0, 2.0, 3.0, 4.0]})
    frame.to_parquet(tmp_path / "d.parquet")
    frame.to_csv(tmp_path / "d.csv", index=False)
    encoded = [encode(read_table(tmp_path / name), "y") for name in ("d.parquet", "d.csv")]
    assert encoded[0].encoding == encoded[1].encoding
    assert encoded[0].encoding.feature_names == ["flag=true"]
    assert encoded[0].X.ravel().tolist() == encoded[1].X.ravel().tolist() == [1, 0, 1, 1]


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
            "3); fill them in, or fit the model with --impute",
        ),
        ({"x": [None] * 3}, "3 values are missing, in 1 column: 'x' (3, first in row 1)"),
    ],
    ids=lambda value: value[:50] if isinstance(value, str) else "",
)
def test_bad_new_rows(change, message):
    assert refused(FITTED.transform, table(**(NEW | change))).startswith(message)


def test_columns_that_are_not_there():
    message = refused(FITTED.transform, table(X=[1], day=["2020-01-01"], citi=["q"]))
    assert message == (
        "4 columns of the model are missing: 'x' (did you mean 'X'?), 'sure', 'kind', "
        "'city' (did you mean 'citi'?)"
    )
    message = refused(FITTED.transform, table(**{k: v for k, v in NEW.items() if k != "sure"}))
    assert message == "1 column of the model is missing: 'sure'"


def test_new_rows_are_filled_in_as_in_the_fit():
    data = table(
        x=[1, 2, 10], day=["1970-01-02", "1970-01-03", "1970-01-05"], kind=["a", "b", "a"], y=Y[:3]
    )
    encoding = encode(data, "y", impute=True).encoding
    X, notes = encoding.transform(table(x=[None, 5], day=[None, None], kind=[None, "b"]))
    np.testing.assert_array_equal(X, [[2, 2, 0], [5, 2, 1]])
    assert notes == []


def test_missing_values_of_a_single_column():
    for column in (Column("x", "number"), Column("x", "category", ("a", "b"))):
        assert np.isnan(column.encode(values_of([None]))).all()


# ------------------------------------------------------------------------------------------------
# JSON
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("impute", [False, True])
def test_through_json(impute):
    n = 30
    data = table(
        x=np.arange(n),
        größe=["klein", "groß", "mittel"] * 10,
        day=[f"2020-01-{k + 1:02d}" for k in range(n)],
        sure=["ja", "nein"] * 15,
        y=np.arange(n) ** 2,
    )
    encoding = encode(data, "y", impute=impute).encoding
    again = Encoding.from_json(json.loads(json.dumps(encoding.to_json(), allow_nan=False)))
    assert again == encoding
    assert all((column.fill is not None) == impute for column in again.columns)
    np.testing.assert_array_equal(again.transform(data)[0], encoding.transform(data)[0])


def test_whole_numbers_in_json():
    found = {"name": "x", "kind": "number", "levels": [], "fill": 3}
    column = Encoding.from_json({"target": "y", "columns": [found]}).columns[0]
    assert column == Column("x", "number", fill=3.0)
    assert isinstance(column.fill, float)


NUMBER = {"name": "x", "kind": "number", "levels": [], "fill": None}
SURE = {"name": "sure", "kind": "binary", "levels": ["no", "yes"], "fill": None}
KIND = {"name": "kind", "kind": "category", "levels": ["b", "a"], "fill": "a"}


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, "an encoding must have 'target', 'columns' and nothing else, got None"),
        ([], "an encoding must have"),
        ({"target": "y"}, "an encoding must have"),
        ({"target": "y", "columns": [NUMBER], "more": 1}, "an encoding must have"),
        ({"target": 1, "columns": [NUMBER]}, "the name of the target must be a nonblank string"),
        ({"target": " ", "columns": [NUMBER]}, "the name of the target must be a nonblank string"),
        ({"target": "\ud800", "columns": [NUMBER]}, "the name of the target must be Unicode"),
        ({"target": "y", "columns": NUMBER}, "the columns of an encoding must be a list"),
        ({"target": "y", "columns": []}, "there must be a column other than the target"),
        ({"target": "x", "columns": [NUMBER]}, "several columns are named 'x'"),
        ({"target": "y", "columns": [NUMBER, KIND, NUMBER]}, "several columns are named 'x'"),
        ({"target": "y", "columns": ["x"]}, "a column must have 'name', 'kind', 'levels', 'fill'"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_malformed_json(found, message):
    assert refused(Encoding.from_json, found).startswith(message)


@pytest.mark.parametrize(
    ("column", "change", "message"),
    [
        (NUMBER, {"extra": 1}, "a column must have 'name', 'kind', 'levels', 'fill' and nothing"),
        (NUMBER, {"name": None}, "the name of a column must be a nonblank string"),
        (NUMBER, {"name": ["x"]}, "the name of a column must be a nonblank string"),
        (NUMBER, {"kind": "nought"}, "column 'x' must be one of 'number', 'date', 'binary'"),
        (NUMBER, {"kind": ["number"]}, "column 'x' must be one of"),
        (
            NUMBER,
            {"levels": ["a"]},
            "column 'x' is of kind 'number' and must have no levels, got ('a',)",
        ),
        (NUMBER, {"levels": None}, "the levels of column 'x' must be a list, got None"),
        (NUMBER, {"levels": "ab"}, "the levels of column 'x' must be a list, got 'ab'"),
        (NUMBER, {"fill": "a"}, "the fill of column 'x' must be a finite number, got 'a'"),
        (NUMBER, {"fill": True}, "the fill of column 'x' must be a finite number, got True"),
        (NUMBER, {"fill": float("nan")}, "the fill of column 'x' must be a finite number, got nan"),
        (NUMBER, {"fill": float("inf")}, "the fill of column 'x' must be a finite number"),
        (NUMBER, {"fill": 10**400}, "the fill of column 'x' must be a finite number, got 1000"),
        (NUMBER, {"fill": [1.0]}, "the fill of column 'x' must be a finite number"),
        (SURE, {"levels": ["no"]}, "column 'sure' is of kind 'binary' and must have two levels"),
        (
            SURE,
            {"levels": ["yes", "no"]},
            "column 'sure' is of kind 'binary' and must have two levels",
        ),
        (
            SURE,
            {"levels": ["no", "no"]},
            "column 'sure' is of kind 'binary' and must have two levels",
        ),
        (SURE, {"levels": ["no", 1]}, "a level of column 'sure' must be a nonblank string"),
        (SURE, {"levels": ["no", ["yes"]]}, "a level of column 'sure' must be a nonblank string"),
        (SURE, {"fill": "maybe"}, "the fill of column 'sure' must be one of its levels"),
        (KIND, {"levels": []}, "column 'kind' is of kind 'category' and must have 2 to 51"),
        (KIND, {"levels": ["a", "a"]}, "column 'kind' is of kind 'category' and must have 2 to 51"),
        (
            KIND,
            {"levels": [OTHER, "a"]},
            "column 'kind' is of kind 'category' and must have 2 to 51",
        ),
        (KIND, {"levels": [str(k) for k in range(52)]}, "column 'kind' is of kind 'category'"),
        (KIND, {"levels": ["a", ""]}, "a level of column 'kind' must be a nonblank string"),
        (KIND, {"fill": 1}, "the fill of column 'kind' must be one of its levels, got 1"),
        (KIND, {"fill": ["a"]}, "the fill of column 'kind' must be one of its levels"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_malformed_columns_in_json(column, change, message):
    found = {"target": "y", "columns": [column | change]}
    assert refused(Encoding.from_json, found).startswith(message)


def test_levels_of_a_column_are_a_tuple():
    message = refused(Column, "x", "category", ["a", "b"])
    assert message == "the levels of column 'x' must be a tuple, got ['a', 'b']"


def listed(name, count):
    return ", ".join(f"'{name}{k}'" for k in range(count)) + ", …"


def test_what_is_said_of_many_columns_is_said_once():
    same = {f"same{k}": [1.0] * 6 for k in range(1000)}
    spoilt = {f"spoilt{k}": ["1", "2", "3", "4", "5", "x"] for k in range(1000)}
    data = table(x=[1, 2, 3, 4, 5, 7], y=Y, **same, **spoilt)
    data.codes.update(dict.fromkeys(("x", *same), ("007", 0)))
    found = encode(data, "y")
    assert [re.sub(r" \(.*\)", "", note) for note in found.notes] == [
        f"1001 columns are treated as numeric but are written like codes: 'x', {listed('same', 9)}",
        "1000 columns are treated as text although most of their values are numbers: "
        f"{listed('spoilt', 10)}",
        f"1000 columns are constant and were dropped: {listed('same', 10)}",
        "1000 columns were dropped: nearly all of their values are distinct: "
        f"{listed('spoilt', 10)}",
    ]
