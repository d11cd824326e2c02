"""Tables from files: what was written is read, and what cannot be used is refused in one line."""

import datetime as dt
import gzip
import json
import os
import sys
from contextlib import suppress
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from refused_files import message_about
from steinpath._support.cells import read_column
from steinpath._support.messages import worded
from steinpath.app.tables import DataError, FileFormat, read_table


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


def values(table, name):
    """What the encoder makes of a column: numbers, dates or texts."""
    return read_column(name, table.frame[name], table.format).values


def assert_columns(table, **columns):
    assert table.frame.column_names == list(columns)
    for name, wanted in columns.items():
        found = values(table, name)
        assert len(found) == table.frame.num_rows
        assert found.dtype in (np.dtype(float), np.dtype("M8[us]"), np.dtype(object))
        if found.dtype == object:
            assert found.tolist() == wanted, name
        else:
            np.testing.assert_array_equal(found, np.array(wanted, found.dtype), err_msg=name)
            assert isinstance(wanted[0], str) == (found.dtype.kind == "M"), name


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


def test_delimiters_within_quotes_do_not_count(write):
    table = read_table(write('"a, b, c, d";e\n"1";"x, y"\n'))
    assert_columns(table, **{"a, b, c, d": [1.0], "e": ["x, y"]})


def test_lines_are_those_of_the_file(write):
    text = '\n"the\nname",b\n\n1,"two\n\nlines"\n   \n2,"say ""so"""\n\n3,c\n'
    table = read_table(write(text))
    assert_columns(table, **{"the\nname": [1.0, 2.0, 3.0], "b": ["two\n\nlines", 'say "so"', "c"]})
    assert [table.place(row) for row in range(3)] == ["line 5", "line 9", "line 11"]


def test_columns_without_a_name_are_numbered(write):
    assert_columns(
        read_table(write(",a, \n0,1,2\n")), **{"column 1": [0.0], "a": [1.0], "column 3": [2.0]}
    )


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
    assert values(table, "ort")[0] == "Zür\x81"
    (note,) = table.notes
    assert worded(note, str).startswith("the file is not UTF-8 and was read as Latin-1; if names")
    assert note.parts["remedy"][0].parameter == "encoding"


def test_an_encoding_may_be_stated(write):
    file = write("ort,x\nŁódź,1\n".encode("cp1250"))
    table = read_table(file, FileFormat(encoding="cp1250"))
    assert_columns(table, ort=["Łódź"], x=[1.0])
    assert not table.notes
    with pytest.raises(DataError, match="not encoded as utf-8; use another encoding"):
        read_table(file, FileFormat(encoding="utf-8"))
    with pytest.raises(DataError, match="unknown encoding 'utf-99'"):
        FileFormat(encoding="utf-99")


def test_decimal_commas_between_semicolons(write):
    table = read_table(write("x;n;who\n1,5;1;a\nNA;2;b\n1,234;3;c\n"))
    assert_columns(table, x=[1.5, np.nan, 1.234], n=[1.0, 2.0, 3.0], who=["a", "b", "c"])
    assert table.notes == ("numbers were read with a decimal comma (decimal=',')",)
    assert table.format == FileFormat(decimal=",")
    # where it might be another separator, or another file, it has to be stated
    for text in ("x;z\n1,234;1\n", "x;z\n1,5;2.5\n", "x;z\n1,5;2.000\n", "x|z\n1,5|2\n"):
        table = read_table(write(text))
        assert table.format == FileFormat()
        assert not table.notes
    assert not read_table(write("x;z\n1,5;2\n"), FileFormat(decimal=".")).notes
    assert not read_table(write("x;z\n1,5;2\n"), labels=["x"]).notes


def test_formats_in_model_files():
    full = FileFormat(",", ".", ("-", "x"), "%d.%m.%Y", delimiter=";", encoding="utf-16")
    for each in (full, FileFormat(), FileFormat(na=("-",))):
        assert FileFormat.from_json(json.loads(json.dumps(each.to_json()))) == each
    for wrong in ([], {"colour": "red"}, {"na": "x"}, {"na": [1]}, {"decimal": 3}):
        with pytest.raises(DataError, match="'reading'"):
            FileFormat.from_json(wrong)
    assert full.of_cells == {
        "decimal": ",", "thousands": ".", "na": ("-", "x"), "date_format": "%d.%m.%Y"
    }  # fmt: skip


def test_rows_keep_their_places(write):
    table = read_table(write('a,b\n1,"x\ny"\n\n2,u\n3,v\n'))
    assert [table.place(row) for row in range(3)] == ["line 2", "line 5", "line 6"]
    some = table.take(np.array([2, 0]))
    assert [some.place(row) for row in range(2)] == ["line 6", "line 2"]
    assert some.take(np.array([1])).place(0) == "line 2"
    assert some.cells("b") == ["v", "x\ny"]


def test_cells_are_verbatim(write, tmp_path):
    table = read_table(write("a,b,c\n 007,1.50,x\n12,,y\n"))
    assert table.cells("a") == [" 007", "12"]
    assert table.cells("b") == ["1.50", ""]
    assert table.json_cells("a") == [" 007", "12"]  # codes
    assert table.json_cells("b") == [1.5, None]
    assert table.json_cells("c") == ["x", "y"]
    file = tmp_path / "d.parquet"
    columns = {"n": [2**60 + 1, None], "x": [1.0, 2.5], "t": [dt.date(2020, 1, 2), None]}
    write_arrow(pa.table(columns | {"f": [True, False]}), file)
    table = read_table(file)
    assert table.cells("n") == ["1152921504606846977", None]
    assert table.json_cells("n") == [2**60 + 1, None]
    assert table.cells("x") == ["1", "2.5"]
    assert table.cells("t") == ["2020-01-02", None]
    assert table.json_cells("f") == ["true", "false"]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('a,b\n1, "x, y"\n', [["1", "x, y"]]),
        ('a,b\n1, "x"\n', [["1", "x"]]),
        ('a,b\n1,5" pipe\n2,"say ""so"", twice"\n', [["1", '5" pipe'], ["2", 'say "so", twice']]),
        ("a,b\n1,2,,\n3,4\n", [["1", "2"], ["3", "4"]]),
        ("a,b\n1,2\n  \n3,4\n\n", [["1", "2"], ["3", "4"]]),
        ("a,b\n1,2\n,\n,\n", [["1", "2"]]),
        ("a\n1\n\n2\n", [["1"], ["2"]]),
        ("sep=;\r\na;b\r\n1;2\r\n", [["1", "2"]]),
    ],
    ids=repr,
)
def test_rows_of_unusual_files(write, text, rows):
    frame = read_table(write(text)).frame
    assert [list(row.values()) for row in frame.to_pylist()] == rows


def test_damaged_gzip(refused):
    whole = gzip.compress(b"a,b\n" + os.urandom(2000).hex().encode())
    for content in (b"", b"a,b\n1,2\n", whole[:-9], whole[:400], whole[:50] + b"xx" + whole[52:]):
        assert refused(content, "data.csv.gz")
    assert refused(b"a,b\n1,2\n", "data.csv.gz").startswith("Not a gzipped file")


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
    times = pd.to_datetime(["2020-01-01 10:00", None, "2021-05-06 00:00"])
    zone = pd.to_datetime(["2020-01-01 10:00"] * 3).tz_localize("Europe/Berlin")
    days = [dt.date(2020, 1, 1), None, dt.date(1999, 12, 31)]
    levels = pd.Categorical(["u", "v", None], categories=["v", "u"])
    columns = {  # as they are written, and as they are read
        "whole": ([1, 2, 3], [1.0, 2.0, 3.0]),
        "größe": ([0.5, np.nan, -1.0], [0.5, np.nan, -1.0]),
        "flag": ([True, False, True], ["true", "false", "true"]),
        "who": (["ann", None, " bob "], ["ann", None, "bob"]),
        "level": (levels, ["u", "v", None]),
        "code": (pd.Categorical([2, 1, 2]), ["2", "1", "2"]),
        "when": (times, ["2020-01-01T10:00", "NaT", "2021-05-06"]),
        "zone": (zone, ["2020-01-01T09:00"] * 3),
        "day": (days, ["2020-01-01", "NaT", "1999-12-31"]),
        "maybe": (pd.array([1, None, 3], dtype="Int64"), [1.0, np.nan, 3.0]),
        "text": (pd.array(["a", "", "1"], dtype="string"), ["a", None, "1"]),
    }
    frame = pd.DataFrame({name: made for name, (made, _) in columns.items()})
    file = tmp_path / f"frame{ending}"
    if ending == ".parquet":
        frame = frame.set_axis([5, 6, 7])
        frame.to_parquet(file, index=True)
        assert "__index_level_0__" in pa.parquet.read_schema(file).names
    else:
        frame.to_feather(file)
    table = read_table(file)
    assert_columns(table, **{name: wanted for name, (_, wanted) in columns.items()})
    assert table.place(1) == "row 2"


@ARROW_ENDINGS
def test_arrow_types(tmp_path, name):
    stamp = pa.timestamp
    columns = {  # as they are written, and as they are read
        "decimal": ([Decimal("1.25"), None], [1.25, np.nan]),
        "large": (pa.array([2**53 + 1, -(2**62)]), [2.0**53, -(2.0**62)]),
        "unsigned": (pa.array([2**64 - 1, 0], pa.uint64()), [2.0**64, 0.0]),
        "half": (pa.array(np.array([1.5, 2], np.float16)), [1.5, 2.0]),
        "single": (pa.array([0.1, None], pa.float32()), [float(np.float32(0.1)), np.nan]),
        "seconds": (pa.array([0, 86400], stamp("s")), ["1970-01-01", "1970-01-02"]),
        "fine": (pa.array([1_001, None], stamp("ns")), ["1970-01-01T00:00:00.000001", "NaT"]),
        "none": (pa.nulls(2), [None, None]),
        "large text": (pa.array(["a", "b"], pa.large_string()), ["a", "b"]),
        "levels": (pa.array(["x", None]).dictionary_encode(), ["x", None]),
    }
    table = pa.table({key: made for key, (made, _) in columns.items()})
    found = read_table(write_arrow(table, tmp_path / name))
    assert_columns(found, **{key: wanted for key, (_, wanted) in columns.items()})


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
        (pa.table([[1], [2]], ["a", "a"]), "several columns are named 'a'"),
        (pa.table({"a": pa.array([], pa.float64())}), "it has no rows"),
        (pa.table({"__index_level_0__": [1]}), "it has no columns"),
        (pa.table({}), "it has no columns"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_bad_arrow(tmp_path, name, table, message):
    found = message_about(write_arrow(table, tmp_path / name))
    assert found.startswith(message)


@pytest.mark.parametrize("name", ["d.parquet", "d.feather", "d.npz"])
def test_damaged_files_give_a_table_or_one_line(tmp_path, name):
    file, rng = tmp_path / name, np.random.default_rng(0)
    columns = {"a": rng.standard_normal(50), "b": np.array(["some", "text"] * 25)}
    if name == "d.npz":
        np.savez_compressed(file, **columns)
    else:
        write_arrow(pa.table({"a": columns["a"], "b": columns["b"].tolist()}), file)
    whole = file.read_bytes()
    for stop in (0, 3, 12, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:stop])
        assert message_about(file)
    for _ in range(60):
        content = bytearray(whole)
        content[rng.integers(len(whole))] = rng.integers(256)
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
    assert message_about(file) == "files of data need pyarrow: pip install 'steinpath[files]'"


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
        (
            {"X": np.eye(3), "y": np.ones(2)},
            "arrays must have the same number of rows, but 'X' has 3, 'y' has 2",
        ),
        (
            {"X": np.eye(3), "columns": np.array(["a", "b"])},
            "arrays must have the same number of rows, but 'X' has 3, 'columns' has 2",
        ),
        ({"X": np.eye(2), "columns": np.array(["a", "a"])}, "several columns are named 'a'"),
        ({"X": np.eye(2), "X0": np.ones(2)}, "several columns are named 'X0'"),
        ({"a": np.float64(1)}, "array 'a' is of type float64 and shape ()"),
        ({"a": np.ones((2, 2, 2))}, "array 'a' is of type float64 and shape (2, 2, 2)"),
        ({"a": np.array([1j])}, "array 'a' is of type complex128"),
        ({"a": np.array([b"a"])}, "array 'a' is of type |S1"),
        ({"a": np.array([["a"]])}, "array 'a' is of type <U1 and shape (1, 1)"),
        ({"a": np.zeros(2, [("u", float)])}, "array 'a' is of type [('u', '<f8')]"),
        ({"a": np.full(2, "\ud800")}, "an array holds texts that are not valid Unicode"),
        ({"a": np.array([])}, "it has no rows"),
        ({}, "it has no columns"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_bad_arrays(tmp_path, arrays, message):
    np.savez(tmp_path / "d.npz", **arrays)
    assert message_about(tmp_path / "d.npz").startswith(message)


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
    monkeypatch.setattr("steinpath.app.tables.text._parsed", too_much)
    assert message_about(file) == "there is not enough memory"
