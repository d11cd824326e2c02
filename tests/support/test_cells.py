"""Texts as numbers, dates or labels: what is written is read, and doubt is said."""

import time

import numpy as np
import pyarrow as pa
import pytest

from steinpath._support.cells import (
    TextFormat,
    as_arrow,
    date_formats,
    missing,
    read_column,
    texts,
    uses_decimal_comma,
)
from steinpath._support.messages import DataError, Remedy, worded


def read(cells, *, as_labels=False, **options):
    column = pa.chunked_array([pa.array(cells)])
    return read_column("a", column, TextFormat(**options), as_labels)


def assert_values(found, wanted):
    if found.dtype == object:
        assert found.tolist() == wanted
    else:
        assert isinstance(wanted[0], str) == (found.dtype.kind == "M")
        np.testing.assert_array_equal(found, np.array(wanted, found.dtype))


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (["1", " -2.5e-3 ", "+.5", "0007", "1E5"], [1.0, -0.0025, 0.5, 7.0, 1e5]),
        (["1", "1_000"], ["1", "1_000"]),
        (["1", "12 m"], ["1", "12 m"]),
        (["TRUE", "False", "NA"], ["TRUE", "False", None]),
        (["2020-02-30", "2020-01-01"], ["2020-02-30", "2020-01-01"]),
        (["2020", "2021"], [2020.0, 2021.0]),
        (["555-1234", "555-9876"], ["555-1234", "555-9876"]),
        (["0001-01-01T00:00+10:00"], ["0001-01-01T00:00+10:00"]),
        (["2020-01-01T12:00:00+02:00", "1066-10-14"], ["2020-01-01T10:00", "1066-10-14"]),
        (["2020-01-01 12:00:00.25"], ["2020-01-01T12:00:00.250"]),
        (["٣", "4"], [3.0, 4.0]),
        (["5", "5" + " " * 100_000 + "z"], ["5", "5" + " " * 100_000 + "z"]),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_cells_are(cells, wanted):
    assert_values(read(cells).values, wanted)


@pytest.mark.parametrize(
    "mark",
    [
        *("", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "null", "NULL", "None", "#N/A", "?"),
        *("-nan", "   ", None),
    ],
)
def test_missing_values(mark):
    assert_values(read([mark, "1"]).values, [np.nan, 1.0])
    assert_values(read([mark, "2020-01-02"]).values, ["NaT", "2020-01-02"])
    assert_values(read([mark, "a"]).values, [None, "a"])
    assert read([mark, mark]).kind == ""
    assert read([mark, "1"], as_labels=True).values.tolist() == [None, "1"]


@pytest.mark.parametrize(
    ("cells", "options", "wanted"),
    [
        (["1,5", "-2"], {"decimal": ","}, [1.5, -2.0]),
        (["1.234,50", "7"], {"decimal": ",", "thousands": "."}, [1234.5, 7.0]),
        (["1,234.5", "1,234,567"], {"thousands": ","}, [1234.5, 1234567.0]),
        (["1'234", "1’234.5"], {"thousands": "'"}, [1234.0, 1234.5]),
        (["1 234,5", "1\u202f234"], {"thousands": " ", "decimal": ","}, [1234.5, 1234.0]),
        # separators in other places are not of thousands
        (["1,23", "5"], {"thousands": ","}, ["1,23", "5"]),
        (["1.5", "5"], {"decimal": ","}, ["1.5", "5"]),
        (["-999", "5", "missing"], {"na": ("-999", "missing")}, [np.nan, 5.0, np.nan]),
        (["16.05.2023", "NA"], {"date_format": "%d.%m.%Y"}, ["2023-05-16", "NaT"]),
        (["20230516"], {"date_format": "%Y%m%d"}, ["2023-05-16"]),
        (["202311"], {"date_format": "%Y%m%d"}, [202311.0]),
        (["2023-05-16"], {"date_format": "%d.%m.%Y"}, ["2023-05-16"]),
        (["$5", "-$1.5", "$ 2"], {}, [5.0, -1.5, 2.0]),
        (["5 €", "1.5€", "2"], {}, [5.0, 1.5, 2.0]),
        (["CHF 1'200", "CHF 90"], {"thousands": "'"}, [1200.0, 90.0]),
        (["12%", "7 %"], {}, [12.0, 7.0]),
        (["(5)", "3-", "\N{MINUS SIGN}2", "1"], {}, [-5.0, -3.0, -2.0, 1.0]),
        # amounts that are not comparable, and texts
        (["12%", "0.5"], {}, ["12%", "0.5"]),
        (["$5", "€5"], {}, ["$5", "€5"]),
        (["$5", "five"], {}, ["$5", "five"]),
    ],
    ids=repr,
)
def test_formats_of_numbers_and_dates(cells, options, wanted):
    assert_values(read(cells, **options).values, wanted)


def test_signs_and_negative_numbers_are_told():
    assert read(["5 €", "2"]).sign == "€"
    assert read(["12%", "7 %"]).sign == "%"
    assert read(["(5)", "3"]).negative == "(5)"
    assert read(["-5", "3"]).negative == ""


@pytest.mark.parametrize("before", ["(", "$("])
def test_long_cells_of_digits_are_read_in_linear_time(before):
    begun = time.perf_counter()
    read([before + 40_000 * "1", "3"])
    assert time.perf_counter() - begun < 1  # a quadratic pattern takes about ten seconds


@pytest.mark.parametrize(
    ("cells", "remedy"),
    [
        (["1,5", "2"], "decimal=','"),
        (["1.234,50", "2,5"], "decimal=',', thousands='.'"),
        (["1,234.50", "2.5"], "thousands=','"),
        (["$1,234.50", "$2"], "thousands=','"),
        (["1'234", "2"], 'thousands="\'"'),
        (["1 234,5", "2"], "decimal=',', thousands=' '"),
        (["1,234", "2"], "decimal=',' or thousands=','"),
        (["1,5", "2", "x"], "decimal=','"),
    ],
    ids=repr,
)
def test_other_formats_are_named_with_their_options(cells, remedy):
    found = read(["7", *cells]).doubtful
    said = f"column 'a' holds numbers in another format, first {cells[0]!r} in"
    assert found == f"{said} row 2; use {remedy}"

    def option(remedy: Remedy):
        return f"--{remedy.parameter} {remedy.value}"

    line = worded(found, option, lambda row: f"line {row + 2}")
    assert line.startswith(f"{said} line 3; use --")
    assert "=" not in line


@pytest.mark.parametrize("cells", [["a", "1,5"], ["1,2,3", "4,5,6"], ["1.2.3"], ["12:30"]])
def test_texts_are_not_numbers_in_another_format(cells):
    found = read(cells)
    assert found.doubtful is None
    assert found.values.tolist() == cells


def test_decimal_commas_beyond_doubt():
    assert uses_decimal_comma(["1,5", None, "2", "1,234"])
    assert uses_decimal_comma(["1,5 €", "2 €"])
    for doubtful in (["1,234"], ["1,5", "x"], ["1,5", "2.5"], ["1", "2"], []):
        assert not uses_decimal_comma(doubtful)


def test_codes_are_found_in_any_row_and_with_blanks_around_them():
    for number in ("0", "0.5", "00.5", "-007", "1e05", "10", "+5", "1234567890123456"):
        assert read([number, "3"]).code is None
    assert read(["3", "  07 ", "08"]).code == ("07", 1)
    assert read(["3", "+41791234567"]).code == ("+41791234567", 1)
    assert read(["12345678901234567890", "2"]).code == ("12345678901234567890", 0)
    assert read(["00501", "1"], as_labels=True).values.tolist() == ["00501", "1"]


@pytest.mark.parametrize("cells", [["1", "inf"], ["1", "1e999"], [1.0, -np.inf]], ids=repr)
def test_infinite_numbers_are_refused(cells):
    with pytest.raises(DataError, match="number that is not finite, in row 2; numbers must be"):
        read(cells)


@pytest.mark.parametrize(
    "options",
    [{"decimal": ";"}, {"thousands": "_"}, {"thousands": "."}, {"decimal": ",", "thousands": ","}],
    ids=str,
)
def test_formats_that_are_refused(options):
    with pytest.raises(DataError, match="separator"):
        TextFormat(**options)


@pytest.mark.parametrize(
    "wrong", ["dd.mm.yyyy", "%Q", "%", "%d.%d.%Y", "%d" + " " * 100, 3], ids=str
)
def test_date_formats_that_are_refused(wrong):
    with pytest.raises(DataError, match=r"such as %d\.%m\.%Y"):
        TextFormat(date_format=wrong)


def test_texts_of_columns():
    numbers = np.array([1.0, -0.0, 2.5, np.nan, 1e300, 2.0**53])
    assert texts(numbers).tolist() == ["1", "0", "2.5", None, "1e+300", "9007199254740992.0"]
    dates = np.array(["2020-01-01", "NaT", "2020-01-01T10:30"], "M8[us]")
    assert texts(dates).tolist() == ["2020-01-01", None, "2020-01-01T10:30:00.000000"]
    words = np.array(["a", None, "TRUE", "1.0", "01", "9007199254740993", "1e3", "-2"], object)
    usual = ["a", None, "true", "1", "01", "9007199254740993", "1000", "-2"]
    assert texts(words).tolist() == usual
    for values in (numbers, dates, words):
        assert missing(values).tolist() == [text is None for text in texts(values)]


def test_common_formats_of_dates():
    assert date_formats(["16.05.2023", "01.02.2023"]) == {"%d.%m.%Y"}
    assert date_formats(["01/02/2023"]) == {"%d/%m/%Y", "%m/%d/%Y"}
    assert "%b %d, %Y" in date_formats(["May 16, 2023"])
    assert date_formats(["16 May 2023 10:30"]) == {"%d %b %Y %H:%M", "%d %B %Y %H:%M"}
    for other in (["soon"], ["ABC-12"], ["12"], ["16.05.2023", "32.05.2023"]):
        assert not date_formats(other)


def test_types_of_arrow():
    table = as_arrow(
        {
            "large": pa.array([2**53 + 1, -(2**62)]),
            "unsigned": pa.array([2**64 - 1, 0], pa.uint64()),
            "half": np.array([1.5, 2], np.float16),
            "seconds": pa.array([0, 86400], pa.timestamp("s")),
            "fine": pa.array([1_001, None], pa.timestamp("ns")),
            "none": pa.nulls(2),
            "view": pa.array(["x", None], pa.string_view()),
            "flags": [True, None],
        }
    )
    found = {name: read_column(name, table.column(name)).values for name in table.column_names}
    wanted = {
        "large": [2.0**53, -(2.0**62)],
        "unsigned": [2.0**64, 0.0],
        "half": [1.5, 2.0],
        "seconds": ["1970-01-01", "1970-01-02"],
        "fine": ["1970-01-01T00:00:00.000001", "NaT"],
        "none": [None, None],
        "view": ["x", None],
        "flags": ["true", None],
    }
    for name, values in wanted.items():
        assert_values(found[name], values)
