"""Rows that belong together, and rows in the order of time: read from a table, and no features."""

import numpy as np
import pytest
from sklearn.model_selection import TimeSeriesSplit

from steinpath.app.encoding import encode
from steinpath.app.fitting import prepare_data
from steinpath.app.tables import DataError, as_table, read_table


def columns(n=60, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    return {"x": x, "site": rng.integers(0, 7, n), "y": 2 * x + rng.standard_normal(n)}


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
    encoded = encode(as_table(data | {"site": LABELS[kind](data["site"])}), "y", group="site")
    # the same partition of the rows, whatever the numbers of its parts
    together = encoded.groups[:, None] == encoded.groups
    np.testing.assert_array_equal(together, codes[:, None] == codes)
    assert encoded.encoding.feature_names == ["x"]


def test_codes_with_zeros_in_front_are_groups_of_their_own(tmp_path):
    file = tmp_path / "d.csv"
    file.write_text(
        "x,g,y\n" + "".join(f"{k},{g},{k % 5}\n" for k, g in enumerate(["7", "07"] * 9, 5))
    )
    groups = encode(read_table(file, ["g"]), "y", group="g").groups
    np.testing.assert_array_equal(groups == groups[0], np.arange(18) % 2 == 0)


def test_rows_without_a_target_have_no_group_and_no_time():
    data = columns() | {"day": np.arange(60)[::-1].astype(float)}
    data["y"][[3, 10]] = np.nan
    kept = np.delete(np.arange(60), [3, 10])
    encoded = encode(as_table(data), "y", impute=True, group="site", drop=["day"])
    prepared = prepare_data(encoded, 20, 3)
    assert prepared.groups.shape == prepared.y.shape == (58,)
    codes = data["site"][kept]
    np.testing.assert_array_equal(
        prepared.groups[:, None] == prepared.groups, codes[:, None] == codes
    )
    by_time = encode(as_table(data), "y", impute=True, time="day", drop=["site"])
    np.testing.assert_array_equal(by_time.y, data["y"][kept[::-1]])
    np.testing.assert_array_equal(by_time.X[:, 0], data["x"][kept[::-1]])


def test_a_missing_group_of_a_row_without_a_target_is_no_matter():
    data = columns()
    data["y"][3] = np.nan
    data["site"] = data["site"].astype(float)
    data["site"][3] = np.nan
    assert encode(as_table(data), "y", impute=True, group="site").groups.shape == (59,)


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
    said = r"2 values are missing, in 1 column: 'site' \(2, first in line 22\); every row needs a "
    with pytest.raises(DataError, match=said + option):
        encode(read_table(tmp_path / "d.csv"), "y", impute=impute, **{option: "site"})


def test_places_are_those_of_the_file_where_it_has_no_lines():
    data = columns()
    data["y"][3] = np.nan
    site = data["site"].astype(float)
    site[20] = np.nan
    with pytest.raises(DataError, match="first in row 21"):
        encode(as_table(data | {"site": site}), "y", impute=True, group="site")


@pytest.mark.parametrize("kind", ["numbers", "dates"])
def test_rows_are_sorted_by_time_and_ties_keep_their_order(kind):
    data = columns()
    day = np.random.default_rng(1).integers(0, 9, 60)
    times = day - 4.5 if kind == "numbers" else np.datetime64("1969-12-29") + day
    encoded = encode(as_table(data | {"day": times}), "y", time="day", drop=["site"])
    order = sorted(range(60), key=lambda row: (day[row], row))
    np.testing.assert_array_equal(encoded.y, data["y"][order])
    np.testing.assert_array_equal(encoded.X[:, 0], data["x"][order])
    assert encoded.encoding.feature_names == ["x"]
    assert encoded.groups is None


def test_what_is_missing_elsewhere_is_at_its_place_in_the_file_though_rows_are_sorted():
    data = columns() | {"day": np.arange(60.0)[::-1]}
    data["x"][7] = np.nan
    with pytest.raises(DataError, match=r"'x' \(1, first in row 8\)"):
        encode(as_table(data), "y", time="day")


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        ({"site": ["a"] * 60}, {"group": "site"}, "group 'site' is 'a' in every row; at least two"),
        ({}, {"group": "nowhere"}, "unknown column 'nowhere'"),
        ({}, {"time": "sites"}, r"unknown column 'sites' \(did you mean 'site'\?\)"),
        ({}, {"group": "y"}, "'y' is the target and cannot be the group as well"),
        ({}, {"time": "y"}, "'y' is the target and cannot be the time as well"),
        ({"site": ["May 3"] * 60}, {"time": "site"}, "numbers or dates .* has 'May 3' in row 1"),
        ({"x": [1.0] * 60}, {"group": "site"}, "there is no column to predict 'y' from"),
    ],
    ids=["one group", "unknown", "like another", "target", "target as time", "words", "no feature"],
)
def test_what_is_no_group_and_no_time(change, options, said):
    with pytest.raises(DataError, match=said):
        encode(as_table(columns() | change), "y", **options)


def test_the_table_of_columns_says_what_they_are_for():
    data = columns() | {"day": np.datetime64("2020-01-01") + np.arange(60)}
    by_group = encode(as_table(data), "y", group="site")
    kinds = {summary.name: (summary.kind, summary.detail) for summary in by_group.summaries}
    sizes = np.bincount(data["site"])
    assert kinds["site"] == ("group", f"7 groups of {sizes.min()} to {sizes.max()} rows")
    assert "rows with the same 'site' are held out together" in " ".join(by_group.notes)
    by_time = encode(as_table(data), "y", time="day")
    kinds = {summary.name: (summary.kind, summary.detail) for summary in by_time.summaries}
    assert kinds["day"] == ("time", "from 2020-01-01 to 2020-02-29")


@pytest.mark.parametrize(("n", "gap"), [(60, 0), (60, 5), (11, 0), (12, 0), (23, 6)])
def test_later_rows_are_left_out_in_blocks_after_a_gap(n, gap):
    data = columns(n) | {"day": np.arange(n)}
    cv = prepare_data(encode(as_table(data), "y", time="day"), 20, 3, gap=gap).cv
    expected = list(TimeSeriesSplit(5, gap=gap).split(np.zeros(n)))
    assert len(cv) == 5
    for (train, test), (some, later) in zip(cv, expected, strict=True):
        assert len(train) >= 2
        assert train.max() + gap + 1 == test.min()
        np.testing.assert_array_equal(train, some)
        np.testing.assert_array_equal(test, later)


def test_rows_of_the_same_time_are_in_the_same_block():
    n = 103
    data = columns(n) | {"day": np.sort(np.random.default_rng(0).integers(0, 9, n))}
    blocks = prepare_data(encode(as_table(data), "y", time="day"), 20, 3, gap=0).cv
    for train, test in blocks:
        assert data["day"][train].max() < data["day"][test].min()
    assert sum(len(test) for _, test in blocks) == n - blocks[0][1][0]
    few = encode(as_table(data | {"day": np.sort(data["day"] > 4) * 1.0}), "y", time="day")
    with pytest.raises(DataError, match="too few distinct times"):
        prepare_data(few, 20, 3, gap=0)


def test_a_gap_that_leaves_no_earlier_rows_is_refused_with_the_largest_that_does():
    encoded = encode(as_table(columns() | {"day": np.arange(60)}), "y", time="day")
    with pytest.raises(DataError, match="--gap must be at most 8"):
        prepare_data(encoded, 20, 3, gap=9)
    assert len(prepare_data(encoded, 20, 3, gap=8).cv[0][0]) == 2


def test_without_either_rows_are_independent():
    prepared = prepare_data(encode(as_table(columns()), "y"), 20, 3)
    assert prepared.groups is None
    assert prepared.cv is None
