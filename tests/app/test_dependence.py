"""Rows that belong together, rows in the order of time, and the target: read from a table."""

import numpy as np
import pytest
from sklearn.model_selection import TimeSeriesSplit

from steinpath._support.cells import as_arrow
from steinpath._support.messages import worded
from steinpath.app.tables import DataError, FileFormat, FileTable, read_table
from steinpath.app.target import check_roles, read_roles, time_splits
from steinpath.estimators._encoder import TableEncoder


def columns(n=60, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    return {"x": x, "site": rng.integers(0, 7, n), "y": 2 * x + rng.standard_normal(n)}


def roles(data, target="y", **options):
    return read_roles(FileTable(as_arrow(data)), target, **options)


LABELS = {
    "texts": lambda codes: np.array([f"site {k}" for k in codes]),
    "numbers": lambda codes: codes + 0.5,
    "whole numbers": lambda codes: codes,
    "dates": lambda codes: np.datetime64("2020-02-27") + codes,
    "true and false": lambda codes: codes > 2,
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind_are_the_same_groups(kind):
    data = columns()
    codes = data["site"] if kind != "true and false" else (data["site"] > 2).astype(int)
    groups = roles(data | {"site": LABELS[kind](data["site"])}, group="site").groups
    # the same partition of the rows, whatever the numbers of its parts
    np.testing.assert_array_equal(groups[:, None] == groups, codes[:, None] == codes)


def test_rows_without_a_target_have_no_group_and_no_time():
    data = columns() | {"day": np.arange(60)[::-1].astype(float)}
    data["y"][[3, 10]] = np.nan
    kept = np.delete(np.arange(60), [3, 10])
    found = roles(data, impute=True, group="site")
    np.testing.assert_array_equal(found.rows, kept)
    codes = data["site"][kept]
    np.testing.assert_array_equal(found.groups[:, None] == found.groups, codes[:, None] == codes)
    assert "2 rows without a target were dropped" in found.notes
    by_time = roles(data, impute=True, time="day", group="site")
    np.testing.assert_array_equal(by_time.rows, kept[::-1])
    np.testing.assert_array_equal(by_time.y, data["y"][kept[::-1]])
    np.testing.assert_array_equal(by_time.groups, found.groups[::-1])


@pytest.mark.parametrize("option", ["group", "time"])
@pytest.mark.parametrize("impute", [False, True])
def test_missing_groups_and_times_are_refused_with_their_place(option, impute, tmp_path):
    data = columns()
    cells = [*map(str, data["site"])]
    cells[20] = cells[30] = ""
    rows = [f"{x},{s},{y}" for x, s, y in zip(data["x"], cells, data["y"], strict=True)]
    if impute:
        rows[5] = rows[5].rsplit(",", 1)[0] + ","  # no target: the row goes, the places stay
    (tmp_path / "d.csv").write_text("\n".join(["x,site,y", *rows]))
    table = read_table(tmp_path / "d.csv")
    with pytest.raises(DataError) as caught:
        read_roles(table, "y", impute=impute, **{option: "site"})
    said = "2 values are missing, in 1 column: 'site' (2, first in line 22); every row needs a "
    assert worded(caught.value.message, str, table.place).startswith(said + option)


def test_rows_without_a_target_are_refused_unless_values_are_imputed():
    data = columns()
    data["y"][[3, 10]] = np.nan
    with pytest.raises(DataError, match=r"'y' \(2, first in row 4\); use missing='impute'"):
        roles(data)
    data = columns()
    data["y"][59] = np.nan
    with pytest.raises(DataError, match="remove row 60 if it is a footer, such as totals, or use"):
        roles(data)


@pytest.mark.parametrize("kind", ["numbers", "dates"])
def test_rows_are_sorted_by_time_and_ties_keep_their_order(kind):
    data = columns()
    day = np.random.default_rng(1).integers(0, 9, 60)
    times = day - 4.5 if kind == "numbers" else np.datetime64("1969-12-29") + day
    found = roles(data | {"day": times}, time="day")
    order = sorted(range(60), key=lambda row: (day[row], row))
    np.testing.assert_array_equal(found.rows, order)
    np.testing.assert_array_equal(found.y, data["y"][order])
    np.testing.assert_array_equal(found.times, times[order])
    assert found.groups is None


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (("nowhere", None), "unknown column 'nowhere'"),
        ((None, "sites"), r"unknown column 'sites' \(did you mean 'site'\?\)"),
        (("y", None), "'y' is the target, which cannot be the group"),
        ((None, "y"), "'y' is the target, which cannot be the group, the time"),
        ((None, None, "x", "y"), "which cannot be .* a category, nor be dropped or kept"),
        ((None, None, "z"), "unknown column 'z'"),
    ],
    ids=str,
)
def test_columns_with_two_roles_or_none(named, said):
    with pytest.raises(DataError, match=said):
        check_roles(["x", "site", "y"], "y", *named)


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        ({"site": ["a"] * 60}, {"group": "site"}, "group 'site' is 'a' in every row; at least two"),
        ({"site": ["May 3"] * 60}, {"time": "site"}, "numbers or dates .* has 'May 3' in row 1"),
        ({"site": ["3.5.2023"] * 60}, {"time": "site"}, "use date_format='%d.%m.%Y'"),
        ({"site": ["1,5", "2"] * 30}, {"time": "site"}, "first '1,5' in row 1; use decimal=','"),
    ],
    ids=["one group", "words", "dates in another format", "numbers in another format"],
)
def test_what_is_no_group_and_no_time(change, options, said):
    with pytest.raises(DataError, match=said):
        roles(columns() | change, **options)


def test_summaries_and_notes():
    data = columns() | {"day": np.datetime64("2020-01-01") + np.arange(60)}
    found = roles(data, group="site", time="day")
    sizes = np.bincount(data["site"])
    kinds = {name: each[:3] for name, each in found.summaries.items()}
    detail = f"7 groups of {sizes.min()} to {sizes.max()} rows"
    assert kinds["site"] == ("site", "group", detail)
    assert kinds["day"] == ("day", "time", "from 2020-01-01 to 2020-02-29")
    assert kinds["y"][2].startswith("from -")
    assert f"rows with the same 'site' are held out together ({detail})" in found.notes
    assert "rows are sorted by 'day'; later rows are predicted from earlier rows" in found.notes


@pytest.mark.parametrize(("n", "gap"), [(60, 0), (60, 5), (11, 0), (12, 0), (23, 6)])
def test_later_rows_are_left_out_in_blocks_after_a_gap(n, gap):
    cv = time_splits(np.arange(n), gap)
    expected = list(TimeSeriesSplit(5, gap=gap).split(np.zeros(n)))
    assert len(cv) == 5
    for (train, test), (some, later) in zip(cv, expected, strict=True):
        assert len(train) >= 2
        assert train.max() + gap + 1 == test.min()
        np.testing.assert_array_equal(train, some)
        np.testing.assert_array_equal(test, later)


def test_rows_of_the_same_time_are_in_the_same_block():
    day = np.sort(np.random.default_rng(0).integers(0, 9, 103))
    blocks = time_splits(day)
    for train, test in blocks:
        assert day[train].max() < day[test].min()
    assert sum(len(test) for _, test in blocks) == 103 - blocks[0][1][0]
    with pytest.raises(DataError, match=r"too few distinct times .* use groups=labels"):
        time_splits(np.sort(day > 4))


def test_a_gap_that_leaves_no_earlier_rows_is_refused_with_the_largest_that_does():
    with pytest.raises(DataError, match="use at most gap=8"):
        time_splits(np.arange(60), 9)
    assert len(time_splits(np.arange(60), 8)[0][0]) == 2


@pytest.mark.parametrize(
    ("y", "options", "task", "expected"),
    [
        (["low", "high", None] * 20, {}, "classification", ["low", "high"] * 20),
        ([1, 0] * 20, {}, "classification", [1, 0] * 20),
        ([1.0, 0.0, np.nan] * 20, {}, "classification", [1, 0] * 20),
        ([1.5, 0.0] * 20, {}, "classification", [1.5, 0.0] * 20),
        ([1, 0] * 20, {"task": "regression"}, "regression", [1.0, 0.0] * 20),
        ([True, False] * 20, {}, "classification", ["true", "false"] * 20),
        (["10", "9", "2"] * 20, {}, "regression", [10.0, 9.0, 2.0] * 20),
        (["10", "9", "2"] * 20, {"task": "classification"}, "classification", [10, 9, 2] * 20),
        (["$10", "$9", "$2"] * 20, {}, "regression", [10.0, 9.0, 2.0] * 20),
        (["1,5", "2"] * 20, {"task": "classification"}, "classification", ["1,5", "2"] * 20),
    ],
    ids=str,
)
def test_targets_and_their_tasks(y, options, task, expected):
    found = roles({"y": y}, impute=True, **options)
    assert found.task == task
    assert found.y.tolist() == expected
    assert found.y.dtype.kind == np.array(expected).dtype.kind.replace("U", "O")
    assert np.unique(found.y).tolist() == sorted(set(expected))


def test_categories_of_numbers_are_classes_in_their_order():
    pd = pytest.importorskip("pandas")
    found = roles(pd.DataFrame({"y": pd.Categorical([10, 9, 2] * 5)}))
    assert (found.task, np.unique(found.y).tolist()) == ("classification", [2, 9, 10])
    assert found.summaries["y"].detail == "10 (5), 2 (5), 9 (5)"


@pytest.mark.parametrize(
    ("y", "options", "said"),
    [
        ([1.0, *[np.nan] * 9], {}, "the target 'y' has 1 distinct value in 10 rows; a target must"),
        (["a"] * 10, {}, "the target 'y' has 1 distinct value in 10 rows; a target must"),
        ([None] * 10, {}, "the target 'y' has 0 distinct values in 10 rows"),
        ([*map(str, range(9)), "x"], {}, "must hold numbers, but has 'x' in row 10; for classes"),
        (["a", "b"] * 5, {"task": "regression"}, "must hold numbers, but has 'a' in row 1"),
        (["1,5", "2"] * 5, {}, r"use decimal=',' \(or task='classification' if these are labels"),
        (
            [f"c{k}" for k in range(21)],
            {},
            "has 21 distinct values in 21 rows, .* 'c0' in row 1",
        ),
        (range(21), {"task": "classification"}, "at least 2 rows: .* use task='regression'"),
        (["a", "a", "b"], {}, "the class 'b' of the target 'y' has a single row; every class"),
        (["a", "a", "b", "c"], {}, r"'b' of the target 'y' has a single row \(2 classes in all\)"),
        ([1.0, np.inf], {}, "column 'y' has a number that is not finite, in row 2"),
    ],
    ids=str,
)
def test_targets_that_are_refused(y, options, said):
    with pytest.raises(DataError, match=said):
        roles({"y": list(y)}, **options)


@pytest.mark.parametrize("count", [21, 26, 100])
def test_the_command_takes_as_many_classes_as_the_estimators(count):
    labels = [f"c{k}" for k in range(count)] * 2
    assert len(set(roles({"y": labels}).y)) == count
    numbers = roles({"y": [*range(count)] * 2}, task="classification").y
    assert np.unique(numbers).tolist() == [*range(count)]


def test_notes_about_targets():
    found = roles({"y": [1.0, 2.0, 3.0] * 10})
    assert found.notes == (
        "the target 'y' has 3 distinct values and is treated as numeric; if they are classes, use "
        "task='classification'",
    )
    assert "has 10 distinct values" in roles({"y": [*range(10)] * 10}).notes[0]  # digits
    assert "has 20 distinct values" in roles({"y": [*range(20)] * 10}).notes[0]
    assert not roles({"y": [*range(21)] * 100}).notes
    assert not roles({"y": [1.0, 2.0, 3.0] * 10}, task="regression").notes
    assert not roles({"y": [1.0, 2.0, 3.5] * 10}).notes
    signs = roles({"y": [f"${k}" for k in range(30)]})
    assert signs.notes == ("column 'y' was read without its currency signs ($)",)


def test_formats_apply_to_the_target(tmp_path):
    (tmp_path / "d.csv").write_text("y;x\n" + "1.234,5;1\n7;2\n-;3\n" * 5)
    how = FileFormat(decimal=",", thousands=".", na=("-",))
    found = read_roles(read_table(tmp_path / "d.csv", how), "y", task="regression", impute=True)
    assert found.y.tolist() == [1234.5, 7.0] * 5


def test_places_are_lines_of_the_file(tmp_path):
    file = tmp_path / "d.csv"
    file.write_text('y,x,note\n1,2,"a\nb"\n\n3,,c\nfour,5,a\n')
    table = read_table(file)
    with pytest.raises(DataError) as caught:
        read_roles(table, "y")
    said = "the target 'y' must hold numbers, but has 'four' in line 6; "
    assert worded(caught.value.message, str, table.place).startswith(said)


def test_levels_of_rows_without_a_target_do_not_count():
    table = FileTable(as_arrow({"kind": list("aaabbbc"), "y": [1, 2, 3, 4, 5, 6, None]}))
    rows = read_roles(table, "y", impute=True).rows
    encoder = TableEncoder()
    X = encoder.fit_transform(table.take(rows).frame.drop_columns("y"))
    assert encoder.columns_[0].levels == ("a", "b")
    assert X.ravel().tolist() == [0, 0, 0, 1, 1, 1]
