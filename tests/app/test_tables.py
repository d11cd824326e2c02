"""Tables from files: what was written is read, and what cannot be used is refused in one line."""

import datetime as dt
import gzip
import json
import os
import sys
import time
import zipfile
from contextlib import suppress
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from refused_files import message_about
from steinpath.app.tables import (
    DataError,
    Table,
    TextFormat,
    as_table,
    is_date,
    is_number,
    missing,
    read_table,
    texts,
)


@pytest.fixture
def write(tmp_path):
    def write(content, name="data.csv"):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return write


@pytest.fixture
def refused(write):
    """The message about a file that is refused."""

    def refused(content, name="data.csv"):
        return message_about(write(content, name))

    return refused


def assert_columns(table, **columns):
    assert list(table.columns) == list(columns)
    for name, wanted in columns.items():
        found = table.columns[name]
        assert len(found) == table.n_rows
        assert found.dtype in (np.dtype(float), np.dtype("M8[us]"), np.dtype(object))
        if found.dtype == object:
            assert found.tolist() == wanted, name
        else:
            np.testing.assert_array_equal(found, np.array(wanted, found.dtype), err_msg=name)
            assert isinstance(wanted[0], str) == (found.dtype.kind == "M"), name


# ------------------------------------------------------------------------------------------------
# Text
# ------------------------------------------------------------------------------------------------

PLAIN = "x,day,who\n1.5,2020-01-02,ann\n-2e3, 2021-03-04 , bob\n"
PLAIN_COLUMNS = {"x": [1.5, -2000.0], "day": ["2020-01-02", "2021-03-04"], "who": ["ann", "bob"]}


@pytest.mark.parametrize("delimiter", ",;\t|")
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=repr)
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"], ids=["plain", "bom"])
def test_delimiters_line_ends_and_marks(write, delimiter, end, bom):
    text = PLAIN.replace(",", delimiter).replace("\n", end)
    table = read_table(write(bom + text.encode()))
    assert_columns(table, **PLAIN_COLUMNS)
    assert [table.place(row) for row in range(2)] == ["line 2", "line 3"]


@pytest.mark.parametrize("name", ["a.csv", "A.CSV", "a.txt", "a.csv.gz", "a.b.Csv.GZ"])
def test_endings_of_text(write, name):
    content = PLAIN.encode()
    table = read_table(
        write(gzip.compress(content) if name.lower().endswith("gz") else content, name)
    )
    assert_columns(table, **PLAIN_COLUMNS)


@pytest.mark.parametrize("name", ["a.tsv", "a.TAB", "a.tsv.gz"])
def test_tabs_only(write, name):
    content = b"a,b\tc\n1\t2\n"
    table = read_table(write(gzip.compress(content) if name.endswith("gz") else content, name))
    assert_columns(table, **{"a,b": [1.0], "c": [2.0]})


def test_no_newline_at_the_end_and_a_str(write):
    assert_columns(read_table(str(write("a,b\n1,2"))), a=[1.0], b=[2.0])


def test_delimiters_within_quotes_do_not_count(write):
    table = read_table(write('"a, b, c, d";e\n"1";"x, y"\n'))
    assert_columns(table, **{"a, b, c, d": [1.0], "e": ["x, y"]})


def test_lines_are_those_of_the_file(write):
    text = '\n"the\nname",b\n\n1,"two\n\nlines"\n   \n2,"say ""so"""\n\n3,c\n'
    table = read_table(write(text))
    assert_columns(table, **{"the\nname": [1.0, 2.0, 3.0], "b": ["two\n\nlines", 'say "so"', "c"]})
    lines = text.split("\n")
    assert [table.place(row) for row in range(3)] == ["line 5", "line 9", "line 11"]
    assert [lines[line - 1][0] for line in table.lines] == list("123")


def test_unicode(write):
    table = read_table(write("größe,城市\n1,東京\n2,Zürich 🚲\n"))
    assert_columns(table, größe=[1.0, 2.0], 城市=["東京", "Zürich 🚲"])


def test_columns_without_a_name_are_numbered(write):
    assert_columns(
        read_table(write(",a, \n0,1,2\n")), **{"column 1": [0.0], "a": [1.0], "column 3": [2.0]}
    )


def test_missing_values(write):
    marks = ["", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "null", "NULL", "None", "#N/A", "?"]
    for mark in (*marks, "-nan", '"  "'):
        # the last row is not empty, since empty rows at the end are skipped
        gaps = ",".join([mark] * 4)
        table = read_table(write(f"x,day,who,none\n{gaps}\n1,2020-01-02,a,{mark}\n"))
        day = ["NaT", "2020-01-02"]
        assert_columns(table, x=[np.nan, 1.0], day=day, who=[None, "a"], none=[None, None])


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (["1", " -2.5e-3 ", "+.5", "0007", "1E5"], [1.0, -0.0025, 0.5, 7.0, 1e5]),
        (["1", "1_000"], ["1", "1_000"]),
        (["1", "12 m"], ["1", "12 m"]),
        (["1,5", "a", "b"], ["1,5", "a", "b"]),
        (["inf", "a"], ["inf", "a"]),
        (["TRUE", "False", "NA"], ["TRUE", "False", None]),
        (["True", "maybe"], ["True", "maybe"]),
        (["2020-02-30", "2020-01-01"], ["2020-02-30", "2020-01-01"]),
        (["2020", "2021"], [2020.0, 2021.0]),
        (["20200101T10", "2020-01-01"], ["20200101T10", "2020-01-01"]),
        (["555-1234", "555-9876"], ["555-1234", "555-9876"]),
        (["0001-01-01T00:00+10:00", "x"], ["0001-01-01T00:00+10:00", "x"]),
        (["0001-01-01T00:00+10:00"], ["0001-01-01T00:00+10:00"]),
    ],
    ids=repr,
)
def test_what_cells_are(write, cells, wanted):
    text = "a;b\n" + "".join(f"{cell};0\n" for cell in cells)
    assert_columns(read_table(write(text)), a=wanted, b=[0.0] * len(cells))


def test_times_are_in_utc(write):
    cells = [
        "2020-01-01T12:00:00+02:00",
        "2020-01-01 12:00:00.25",
        "2020-01-01T12:00Z",
        "1066-10-14",
    ]
    table = read_table(write("when\n" + "\n".join(cells)))
    wanted = ["2020-01-01T10:00", "2020-01-01T12:00:00.250", "2020-01-01T12:00", "1066-10-14"]
    assert_columns(table, when=wanted)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty; the first line must name the columns"),
        ("\n  \n", "it is empty"),
        ("a,b\n", "it has no rows"),
        ("a,b, a \n1,2,3\n", "several columns are named 'a'; column names must be unique"),
        ("column 2,\n1,2\n", "several columns are named 'column 2'"),
        ("1.5,2\n3,4\n", "the first line must name the columns, but holds numbers such as '2'"),
        (",0,1\n0,3,4\n", "the first line must name the columns, but holds numbers"),
        ("a,b\n1,2\n3\n", "line 3 has 1 cell, but the header names 2 columns"),
        ('a,b\n"1\n",2\n\n3,4,5\n', "line 5 has 3 cells, but the header names 2 columns"),
        ("a,b\n1,2\n1,i\0\n", "line 3 has a NUL byte"),
        ('a,b\n1,2\n"1,2\n3,4\n', "line 3: unexpected end of data; check for unbalanced quotation"),
        ('a,b\n"1"x,2\n', "line 2: ',' expected after '\"'"),
        (f"a,b\n1,{'x' * 200_000}\n", "line 2: field larger than field limit"),
        (
            "a,b\n1,2\n1,inf\n",
            "column 'b' has a number that is not finite, in line 3; numbers must",
        ),
        ("a,b\n1,NA\n1,-Infinity\n", "column 'b' has a number that is not finite, in line 3"),
        ("a,b\n1,2\n1,1e999\n", "column 'b' has a number that is not finite, in line 3"),
    ],
    ids=lambda text: repr(text[:40]),
)
def test_bad_text(refused, text, message):
    assert refused(text).startswith(message)


ZURICH = "ort,x\na,1\nZürich – €,2\n"


@pytest.mark.parametrize(
    ("encoding", "note"),
    [
        *(("utf-8", ""), ("utf-8-sig", ""), ("utf-16", ""), ("utf-16-le", ""), ("utf-16-be", "")),
        ("cp1252", "the file is not UTF-8 and was read as Windows-1252"),
    ],
)
@pytest.mark.parametrize("name", ["data.csv", "data.csv.gz"])
def test_encodings_are_detected(write, name, encoding, note):
    content = ZURICH.encode(encoding)
    table = read_table(write(gzip.compress(content) if name.endswith("gz") else content, name))
    assert_columns(table, ort=["a", "Zürich – €"], x=[1.0, 2.0])
    assert table.place(1) == "line 3"
    assert [each[: len(note)] for each in table.notes] == [note] * bool(note)


def test_a_byte_that_windows_does_not_use_is_latin_1(write):
    table = read_table(write(b"ort,x\nZ\xfcr\x81,1\n" + b"a,2\n" * 50_000))
    assert table.columns["ort"][0] == "Zür\x81"
    assert table.notes == [
        "the file is not UTF-8 and was read as Latin-1; if names look wrong, use --encoding"
    ]


def test_an_encoding_may_be_stated(write):
    file = write("ort,x\nŁódź,1\n".encode("cp1250"))
    table = read_table(file, text_format=TextFormat(encoding="cp1250"))
    assert_columns(table, ort=["Łódź"], x=[1.0])
    assert not table.notes
    with pytest.raises(DataError, match="not encoded as utf-8; use another --encoding"):
        read_table(file, text_format=TextFormat(encoding="utf-8"))
    with pytest.raises(DataError, match="unknown encoding 'utf-99'"):
        TextFormat(encoding="utf-99")


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
        (["a", "-"], {"na": ("-",)}, ["a", None]),
        (["16.05.2023", "NA"], {"date_format": "%d.%m.%Y"}, ["2023-05-16", "NaT"]),
        (["5/16/2023"], {"date_format": "%m/%d/%Y"}, ["2023-05-16"]),
        (["20230516"], {"date_format": "%Y%m%d"}, ["2023-05-16"]),
        (["202311"], {"date_format": "%Y%m%d"}, [202311.0]),
        (["2023-05-16"], {"date_format": "%d.%m.%Y"}, ["2023-05-16"]),
        (["$5", "-$1.5", "$ 2"], {}, [5.0, -1.5, 2.0]),
        (["5 €", "1.5€", "2"], {}, [5.0, 1.5, 2.0]),
        (["CHF 1'200", "CHF 90"], {"thousands": "'"}, [1200.0, 90.0]),
        (["12%", "7 %"], {}, [12.0, 7.0]),
        # amounts that are not comparable, and texts
        (["12%", "0.5"], {}, ["12%", "0.5"]),
        (["$5", "€5"], {}, ["$5", "€5"]),
        (["$5", "five"], {}, ["$5", "five"]),
        (["ABC 5", "ABC 6"], {}, ["ABC 5", "ABC 6"]),
    ],
    ids=repr,
)
def test_formats_of_numbers_and_dates(write, cells, options, wanted):
    text = "a|b\n" + "".join(f"{cell}|0\n" for cell in cells)
    table = read_table(write(text), text_format=TextFormat(**options))
    assert_columns(table, a=wanted, b=[0.0] * len(cells))


@pytest.mark.parametrize(
    ("cells", "remedy"),
    [
        (["1,5", "2"], "--decimal ,"),
        (["1.234,50", "2,5"], "--decimal , --thousands ."),
        (["1,234.50", "2.5"], "--thousands ,"),
        (["$1,234.50", "$2"], "--thousands ,"),
        (["1'234", "2"], '--thousands "\'"'),
        (["1 234,5", "2"], '--decimal , --thousands " "'),
        (["1,234", "2"], "--decimal , or --thousands ,"),
        (["1,5", "2", "x"], "--decimal ,"),
    ],
    ids=repr,
)
def test_other_formats_are_named_with_their_options(write, cells, remedy):
    text = "a|b\n7|0\n" + "".join(f"{cell}|0\n" for cell in cells)
    (message,) = read_table(write(text)).doubtful.values()
    assert message == (
        f"column 'a' holds numbers in another format, first {cells[0]!r} in line 3; use {remedy}"
    )


@pytest.mark.parametrize("cells", [["a", "1,5"], ["1,2,3", "4,5,6"], ["1.2.3"], ["12:30"]])
def test_texts_are_not_numbers_in_another_format(write, cells):
    table = read_table(write("a|b\n" + "".join(f"{cell}|0\n" for cell in cells)))
    assert not table.doubtful
    assert table.columns["a"].tolist() == cells


def test_decimal_commas_between_semicolons(write):
    table = read_table(write("x;n;who\n1,5;1;a\nNA;2;b\n1,234;3;c\n"))
    assert_columns(table, x=[1.5, np.nan, 1.234], n=[1.0, 2.0, 3.0], who=["a", "b", "c"])
    assert table.notes == ["numbers were read with a decimal comma (--decimal ,)"]
    assert table.text_format == TextFormat(decimal=",")
    # where it might be another separator, or another file, it has to be stated
    for text in ("x;z\n1,234;1\n", "x;z\n1,5;2.5\n", "x;z\n1,5;2.000\n", "x|z\n1,5|2\n"):
        table = read_table(write(text))
        assert table.columns["x"].dtype == object
        assert not table.notes
    thousands = read_table(write("x;z\n1,5;1.234,5\n"))
    assert thousands.doubtful["z"].endswith("use --decimal , --thousands .")


@pytest.mark.parametrize(
    "options",
    [
        {"delimiter": "ab"},
        {"delimiter": '"'},
        {"decimal": ";"},
        {"thousands": "_"},
        {"thousands": "."},
        {"decimal": ",", "thousands": ","},
    ],
    ids=str,
)
def test_formats_that_are_refused(options):
    with pytest.raises(DataError, match=r"separator|delimiter"):
        TextFormat(**options)


@pytest.mark.parametrize("wrong", ["dd.mm.yyyy", "%Q", "%", "%d.%d.%Y", "%d" + " " * 100], ids=str)
def test_date_formats_that_are_refused(wrong):
    with pytest.raises(DataError, match=r"such as %d\.%m\.%Y"):
        TextFormat(date_format=wrong)


def test_long_cells_are_read_in_linear_time(write):
    # blanks within a cell; a quadratic time would be minutes
    table = read_table(write("x,y\n5" + " " * 100_000 + "z,1\n6,2\n"))
    assert table.columns["x"].dtype == object


def test_formats_in_model_files():
    full = TextFormat(";", ",", ".", "utf-16", ("-", "x"), "%d.%m.%Y")
    for each in (full, TextFormat(), TextFormat(na=("-",))):
        assert TextFormat.from_json(json.loads(json.dumps(each.to_json()))) == each
    for wrong in ([], {"colour": "red"}, {"na": "x"}, {"na": [1]}, {"decimal": 3}):
        with pytest.raises(DataError, match="'reading'"):
            TextFormat.from_json(wrong)


def test_damaged_gzip(refused):
    whole = gzip.compress(b"a,b\n" + os.urandom(2000).hex().encode())
    for content in (b"", b"a,b\n1,2\n", whole[:-9], whole[:400], whole[:50] + b"xx" + whole[52:]):
        assert refused(content, "data.csv.gz")
    assert refused(b"a,b\n1,2\n", "data.csv.gz").startswith("Not a gzipped file")


def test_many_rows(tmp_path):
    """Within seconds, of which a few are allowed for a busy machine."""
    n = 50_000
    rng = np.random.default_rng(0)
    X = rng.integers(-(10**6), 10**6, (n, 6)) / 1000
    kinds = np.array(["a", "b", "c"])[rng.integers(0, 3, n)]
    file = tmp_path / "many.csv"
    frame = pd.DataFrame(X, columns=list("uvwxyz")).assign(kind=kinds)
    frame.loc[n - 1, "z"] = np.nan
    frame.to_csv(file, index=False)
    start = time.perf_counter()
    table = read_table(file)
    assert time.perf_counter() - start < 8
    assert table.place(n - 1) == f"line {n + 1}"
    np.testing.assert_array_equal(table.columns["u"], X[:, 0])
    np.testing.assert_array_equal(table.columns["z"], frame["z"])
    assert table.columns["kind"].tolist() == kinds.tolist()


# ------------------------------------------------------------------------------------------------
# Parquet and Arrow
# ------------------------------------------------------------------------------------------------

ARROW_ENDINGS = pytest.mark.parametrize("name", ["d.parquet", "d.PQ", "d.feather", "d.arrow"])


def write_arrow(table, file):
    """Write by the ending."""
    if file.suffix.lower() in (".parquet", ".pq"):
        pa.parquet.write_table(table, file)
    else:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    return file


@pytest.mark.parametrize("ending", [".parquet", ".feather"])
def test_data_frames(tmp_path, ending):
    frame = pd.DataFrame(
        {
            "whole": [1, 2, 3],
            "größe": [0.5, np.nan, -1.0],
            "flag": [True, False, True],
            "who": ["ann", None, " bob "],
            "level": pd.Categorical(["u", "v", None], categories=["v", "u"]),
            "code": pd.Categorical([2, 1, 2]),
            "when": pd.to_datetime(["2020-01-01 10:00", None, "2021-05-06 00:00"]),
            "zone": pd.to_datetime(["2020-01-01 10:00"] * 3).tz_localize("Europe/Berlin"),
            "day": [dt.date(2020, 1, 1), None, dt.date(1999, 12, 31)],
            "maybe": pd.array([1, None, 3], dtype="Int64"),
            "text": pd.array(["a", "", "1"], dtype="string"),
        }
    )
    file = tmp_path / f"frame{ending}"
    if ending == ".parquet":
        frame = frame.set_axis([5, 6, 7])
        frame.to_parquet(file, index=True)
        assert "__index_level_0__" in pa.parquet.read_schema(file).names
    else:
        frame.to_feather(file)
    table = read_table(file)
    assert_columns(
        table,
        whole=[1.0, 2.0, 3.0],
        größe=[0.5, np.nan, -1.0],
        flag=["true", "false", "true"],
        who=["ann", None, "bob"],
        level=["u", "v", None],
        code=["2", "1", "2"],
        when=["2020-01-01T10:00", "NaT", "2021-05-06"],
        zone=["2020-01-01T09:00"] * 3,
        day=["2020-01-01", "NaT", "1999-12-31"],
        maybe=[1.0, np.nan, 3.0],
        text=["a", None, "1"],
    )
    assert table.place(1) == "row 2"


@ARROW_ENDINGS
def test_arrow_types(tmp_path, name):
    table = pa.table(
        {
            "decimal": [Decimal("1.25"), None],
            "large": pa.array([2**53 + 1, -(2**62)]),
            "unsigned": pa.array([2**64 - 1, 0], pa.uint64()),
            "half": pa.array(np.array([1.5, 2], np.float16)),
            "single": pa.array([0.1, None], pa.float32()),
            "seconds": pa.array([0, 86400], pa.timestamp("s")),
            "fine": pa.array([1_001, None], pa.timestamp("ns")),
            "none": pa.nulls(2),
            "large text": pa.array(["a", "b"], pa.large_string()),
            "levels": pa.array(["x", None]).dictionary_encode(),
        }
    )
    found = read_table(write_arrow(table, tmp_path / name))
    assert_columns(
        found,
        **{
            "decimal": [1.25, np.nan],
            "large": [2.0**53, -(2.0**62)],
            "unsigned": [2.0**64, 0.0],
            "half": [1.5, 2.0],
            "single": [float(np.float32(0.1)), np.nan],
            "seconds": ["1970-01-01", "1970-01-02"],
            "fine": ["1970-01-01T00:00:00.000001", "NaT"],
            "none": [None, None],
            "large text": ["a", "b"],
            "levels": ["x", None],
        },
    )
    assert all(values.flags.writeable for values in found.columns.values())


def test_arrow_stream(tmp_path):
    table = pa.table({"a": [1.0, 2.0]})
    with pa.ipc.new_stream(tmp_path / "d.arrow", table.schema) as writer:
        writer.write_table(table)
    assert_columns(read_table(tmp_path / "d.arrow"), a=[1.0, 2.0])


def test_names_of_folders_are_no_columns(tmp_path):
    folder = tmp_path / "year=2020"
    folder.mkdir()
    file = write_arrow(pa.table({"a": [1.0]}), folder / "d.parquet")
    assert_columns(read_table(file), a=[1.0])


@pytest.mark.parametrize("name", ["d.parquet", "d.arrow"])
@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"a": [1], "l": [[1, 2]]}), "column 'l' is of type list<"),
        (pa.table({"s": [{"a": 1}]}), "column 's' is of type struct<"),
        (pa.table({"b": [b"abc"]}), "column 'b' is of type binary; columns must hold numbers"),
        (pa.table({"t": pa.array([1], pa.duration("s"))}), "column 't' is of type duration[s]"),
        (pa.table({"t": pa.array([1], pa.time64("us"))}), "column 't' is of type time64[us]"),
        (pa.table([[1], [2]], ["a", "a"]), "several columns are named 'a'"),
        (
            pa.table({"a": [1.0, None, -np.inf]}),
            "column 'a' has a number that is not finite, in row 3",
        ),
        (pa.table({"a": pa.array([], pa.float64())}), "it has no rows"),
        (pa.table({"__index_level_0__": [1]}), "it has no columns"),
        (pa.table({}), "it has no columns"),
        (pa.table({"a": pa.array([2**60], pa.timestamp("ms"))}), "it may be damaged (Casting"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_bad_arrow(tmp_path, name, table, message):
    found = message_about(write_arrow(table, tmp_path / name))
    assert found.startswith(message)


@ARROW_ENDINGS
def test_damaged_arrow(tmp_path, name):
    """Whatever bytes change, there is a table or an error that says so."""
    rng = np.random.default_rng(0)
    table = pa.table({"a": rng.standard_normal(50), "b": ["some", "text"] * 25})
    file = write_arrow(table, tmp_path / name)
    whole = file.read_bytes()
    for stop in (0, 3, 12, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:stop])
        assert message_about(file)
    for _ in range(60):
        content = bytearray(whole)
        for where in rng.integers(0, len(whole), 3):
            content[where] = rng.integers(256)
        file.write_bytes(content)
        with suppress(DataError):
            read_table(file)


def test_damaged_pages(tmp_path):
    file = tmp_path / "d.parquet"
    pa.parquet.write_table(pa.table({"a": [1.0, 2.0]}), file, write_page_checksum=True)
    whole = file.read_bytes()
    assert np.float64(2.0).tobytes() in whole
    file.write_bytes(whole.replace(np.float64(2.0).tobytes(), np.float64(3.0).tobytes(), 1))
    assert "CRC" in message_about(file)


def test_without_pyarrow(tmp_path, monkeypatch):
    file = write_arrow(pa.table({"a": [1.0]}), tmp_path / "d.parquet")
    for module in ("pyarrow", "pyarrow.parquet", "pyarrow.ipc"):
        monkeypatch.setitem(sys.modules, module, None)
    assert (
        message_about(file)
        == "Parquet and Arrow files need pyarrow: pip install 'steinpath[files]'"
    )


# ------------------------------------------------------------------------------------------------
# Arrays of NumPy
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays(tmp_path, save):
    save(
        tmp_path / "d.npz",
        X=np.array([[1, 2], [3, 4]], np.int8),
        y=np.array([0.5, np.nan], np.float32),
        who=np.array([" ann", ""]),
        flag=np.array([True, False]),
        when=np.array(["2020-01-01", "NaT"], "datetime64[D]"),
        feature_names=np.array(["größe", "b"]),
    )
    table = read_table(tmp_path / "d.npz")
    assert_columns(
        table,
        größe=[1.0, 3.0],
        b=[2.0, 4.0],
        y=[0.5, np.nan],
        who=["ann", None],
        flag=["true", "false"],
        when=["2020-01-01", "NaT"],
    )
    assert table.place(0) == "row 1"


def test_matrices(tmp_path):
    file = tmp_path / "D.NPZ"
    with open(file, "wb") as opened:
        np.savez(opened, X=np.eye(2), Z=np.ones((2, 1)), columns=np.array(["a", "b"]))
    assert_columns(
        read_table(file), X0=[1.0, 0.0], X1=[0.0, 1.0], Z0=[1.0, 1.0], columns=["a", "b"]
    )


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.eye(3), "y": np.ones(2)}, "array 'y' has 2 rows, but 'X' has 3; arrays must"),
        (
            {"X": np.eye(3), "columns": np.array(["a", "b"])},
            "array 'columns' has 2 names, but 'X' has 3 columns",
        ),
        ({"X": np.eye(2), "columns": np.array(["a", "a"])}, "several columns are named 'a'"),
        ({"X": np.eye(2), "X0": np.ones(2)}, "several columns are named 'X0'"),
        ({"a": np.float64(1)}, "array 'a' is of type float64 and shape ()"),
        ({"a": np.ones((2, 2, 2))}, "array 'a' is of type float64 and shape (2, 2, 2)"),
        ({"a": np.array([1j])}, "array 'a' is of type complex128"),
        ({"a": np.array([b"a"])}, "array 'a' is of type |S1"),
        ({"a": np.array([["a"]])}, "array 'a' is of type <U1 and shape (1, 1)"),
        ({"a": np.zeros(2, [("u", float)])}, "array 'a' is of type [('u', '<f8')]"),
        ({"a": np.array([1, np.inf])}, "column 'a' has a number that is not finite, in row 2"),
        ({"a": np.array([])}, "it has no rows"),
        ({}, "it has no columns"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_bad_arrays(tmp_path, arrays, message):
    np.savez(tmp_path / "d.npz", **arrays)
    assert message_about(tmp_path / "d.npz").startswith(message)


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return open, (str(self.file), "w")


def test_nothing_is_unpickled(tmp_path, refused):
    trap = np.array([Trap(tmp_path / "sprung")], object)
    np.savez(tmp_path / "d.npz", a=np.ones(1), b=trap)
    assert message_about(tmp_path / "d.npz").startswith(
        "array 'b' holds Python objects, which are never loaded; save it as numbers or strings"
    )
    np.savez(tmp_path / "names.npz", X=np.ones((1, 1)), feature_names=trap)
    assert message_about(tmp_path / "names.npz").startswith("array 'feature_names' holds Python")
    for content in (trap.dumps(), b""):
        assert refused(content, "e.npz") == "it is damaged, or was not written by numpy.savez"
    assert not (tmp_path / "sprung").exists()
    np.load(tmp_path / "d.npz", allow_pickle=True)["b"][0].close()  # it is a trap indeed
    assert (tmp_path / "sprung").exists()


def test_damaged_arrays(tmp_path):
    file = tmp_path / "d.npz"
    np.savez_compressed(file, a=np.arange(50.0), b=np.array(["some", "text"] * 25))
    whole = file.read_bytes()
    for stop in (0, 3, 100, len(whole) - 1):
        file.write_bytes(whole[:stop])
        assert message_about(file) == "it is damaged, or was not written by numpy.savez"
    rng = np.random.default_rng(0)
    for _ in range(200):
        content = bytearray(whole)
        content[rng.integers(len(whole))] = rng.integers(256)
        file.write_bytes(content)
        with suppress(DataError):
            read_table(file)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("note.txt", "no array")
    assert message_about(file) == "'note.txt' is not an array"
    np.save(tmp_path / "single.npy", np.ones(3))
    (tmp_path / "single.npy").rename(file)
    assert message_about(file) == "it is damaged, or was not written by numpy.savez"


# ------------------------------------------------------------------------------------------------
# Files, and what else there is
# ------------------------------------------------------------------------------------------------

READABLE = ["d.csv", "d.tsv.gz", "d.parquet", "d.feather", "d.npz"]


@pytest.mark.parametrize("name", READABLE)
def test_no_file(tmp_path, name):
    assert message_about(tmp_path / name) == "No such file or directory"
    (tmp_path / name).mkdir()
    assert message_about(tmp_path / name).startswith("it is a folder without a file that ends with")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
@pytest.mark.parametrize("name", READABLE)
def test_no_permission(write, name):
    file = write("a\n1\n", name)
    file.chmod(0)
    assert message_about(file) == "Permission denied"


@pytest.mark.parametrize("name", ["d.xlsx", "d", "csv", "d.csv.zip", "d.pkl", "d.gz", "d.npy"])
def test_other_endings(refused, name):
    message = refused("a\n1\n", name)
    assert message.startswith("its extension must be one of .csv, .txt, ")
    assert message.endswith(
        ", .npz" if name != "d.xlsx" else "; save the sheet as CSV in the spreadsheet program"
    )


def test_messages_have_one_line(tmp_path):
    with pytest.raises(DataError) as caught:
        read_table(tmp_path / "two\nlines.csv")
    assert len(str(caught.value).splitlines()) == 1
    assert isinstance(caught.value, ValueError)
    with pytest.raises(DataError, match="embedded null byte"):
        read_table("nul\0.csv")


def test_running_out_of_memory(write, monkeypatch):
    def too_much(*args, **kwargs):
        raise MemoryError

    file = write("a\n1\n")
    monkeypatch.setattr("steinpath.app.tables.text._parse_text", too_much)
    assert message_about(file) == "there is not enough memory"


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


def test_kinds_of_texts():
    assert [is_number(text) for text in ("1", "-1e5", "1_000", "a", "")] == [1, 1, 0, 0, 0]
    assert [is_date(text) for text in ("2020-01-01", "20200101", "x")] == [1, 0, 0]


def test_tables_without_columns():
    assert Table({}).n_rows == 0


def test_data_frames_are_read_as_their_files_would_be(tmp_path):
    frame = pd.DataFrame(
        {
            "number": [1.5, None, 3.0],
            "integer": pd.array([1, None, 3], dtype="Int64"),
            "text": ["x", None, "y"],
            "category": pd.Categorical(["u", "v", None]),
            "flag": [True, False, True],
            "nullable flag": pd.array([True, None, False], dtype="boolean"),
            "time": pd.to_datetime(["2020-01-01", None, "2020-02-01"]),
            "day": [dt.date(2020, 1, 1), None, dt.date(2021, 1, 1)],
            "written day": ["2020-01-01", None, "2021-01-01"],
            "written number": ["1", "2.5", "-3"],
            "nothing": [None, None, None],
        }
    )
    file = tmp_path / "f.csv"
    frame.to_csv(file, index=False)
    read, direct = read_table(file), as_table(frame)
    for name, values in direct.columns.items():
        assert values.dtype == read.columns[name].dtype, name
        both = [texts(x) if x.dtype == object else x for x in (values, read.columns[name])]
        np.testing.assert_array_equal(*both, err_msg=name)
    assert as_table(direct) is direct
    assert as_table({"a": [1, 2], "b": ["u", "v"]}).n_rows == 2


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"a": np.array([1, "x", None], object)}, "must hold only numbers"),
        ({"a": np.array([1j, 2j])}, "must hold only numbers"),
        ({"a": np.array([{}, []], object)}, "must hold only numbers"),
        ({"a": np.zeros((2, 2))}, "must be a vector"),
        ({"a": [1.0, 2.0], "b": [1.0]}, "same length"),
        ({"a": [1.0, np.inf]}, "not finite"),
        ({"a": np.array([1, 2], "m8[D]")}, "must hold only numbers"),
        ({}, "no columns"),
    ],
    ids=[
        *("mixed", "complex", "objects", "a matrix", "of two lengths", "infinite"),
        *("spans of time", "nothing"),
    ],
)
def test_mappings_that_are_no_table(columns, said):
    with pytest.raises(DataError, match=said):
        as_table(columns)


def test_only_what_has_columns_is_a_table():
    with pytest.raises(TypeError, match="data frame"):
        as_table(np.zeros((3, 2)))
