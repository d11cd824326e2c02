"""Files that are made to harm: refused in one line, within a bounded memory, and nothing runs."""

import gzip
import os
import pickle
import struct
import subprocess
import sys
import threading
import zipfile
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import steinpath as sp
from refused_files import message_about
from steinpath._support.cells import read_column
from steinpath.app.tables import DataError, read_table, text
from steinpath.estimators._encoder import TableEncoder

# Reads a file in a memory of 3 GiB, and says in a line what came of it.
READ = """
import sys, resource
# what takes address space before the limit
import pyarrow.parquet, pyarrow.ipc, pyarrow.csv, pyarrow.compute
from steinpath.app.tables import DataError, read_table
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 3 * 2**30,) * 2)
for file in sys.argv[1:]:
    try:
        read_table(file)
        print("read")
    except DataError as error:
        print(error)
"""
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as Linux does it")


def refusals(*files):
    """What a process of bounded memory says of each file."""
    done = subprocess.run(
        [sys.executable, "-c", READ, *map(str, files)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(files), done.stdout
    return lines


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return open, (str(self.file), "w")


def repeated_gzip(file, chunk, times, head=b""):
    """Write gzip members that repeat, so that gigabytes are made in no time."""
    file.write_bytes((gzip.compress(head) if head else b"") + gzip.compress(chunk) * times)
    return file


@ON_LINUX
def test_small_files_of_gigabytes_are_refused(tmp_path):
    files = [
        repeated_gzip(tmp_path / "rows.csv.gz", (b"1" * 1023 + b"\n") * 2**10, 1024, b"a\n"),
        repeated_gzip(tmp_path / "line.csv.gz", b"x" * 2**20, 1024, b"a,b\n"),
        repeated_gzip(tmp_path / "header.tsv.gz", b"\t" * 2**20, 1024),
        repeated_gzip(tmp_path / "blanks.csv.gz", (b" " * 2**18 + b"\n") * 4, 1024),
        repeated_gzip(tmp_path / "quoted.csv.gz", b"\n" * 2**20, 1024, b'a,b\n1,"'),
        npz_of_zeros(tmp_path / "zeros.npz", 2**27),
        parquet_of_nothing(tmp_path / "nothing.parquet", 2**22, 64),
        arrow_of_nothing(tmp_path / "nothing.feather", 2**31 - 1),
    ]
    assert all(file.stat().st_size < 2**23 for file in files)
    said = refusals(*files)
    for file, line in zip(files, said, strict=True):
        assert line.startswith(f"cannot read {file}: "), line
        assert "memory than there is" not in line, line
    reasons = [line.split(": ", 1)[1] for line in said]
    for reason in reasons:
        assert "over 100 times as many" in reason
        assert "save it as uncompressed CSV or npz" in reason


def npz_of_zeros(file, count):
    """An array of so many zeros, of which only a few are ever in memory here."""
    about = {"descr": "<f8", "fortran_order": False, "shape": (count,)}
    packed = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with packed as archive, archive.open("a.npy", "w", force_zip64=True) as entry:
        np.lib.format.write_array_header_1_0(entry, about)
        for _ in range(count // 2**17):
            entry.write(bytes(2**20))
    return file


def parquet_of_nothing(file, rows, columns):
    """Missing values in a row are counted, and not kept."""
    table = pa.table({f"x{k}": pa.nulls(rows) for k in range(columns)})
    pa.parquet.write_table(table, file, row_group_size=rows)
    return file


def arrow_of_nothing(file, rows):
    table = pa.table({"a": pa.nulls(rows)})
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return file


def test_what_compresses_well_is_read(tmp_path):
    rows = "a,b\n" + "0,1\n" * 10**5
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(rows.encode()))
    assert (tmp_path / "d.csv.gz").stat().st_size < len(rows) / 500
    assert read_table(tmp_path / "d.csv.gz").frame.num_rows == 10**5
    np.savez_compressed(tmp_path / "d.npz", a=np.zeros(10**5))
    assert read_table(tmp_path / "d.npz").frame.num_rows == 10**5


def test_text_that_is_not_packed_has_no_limit_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "_MOST_TEXT", 10)
    (tmp_path / "d.csv").write_text("a,b\n" + "1,2\n" * 1000)
    assert read_table(tmp_path / "d.csv").frame.num_rows == 1000
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 100))
    assert read_table(tmp_path / "d.csv.gz").frame.num_rows == 100
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 10**5))
    assert "over 100 times as many" in message_about(tmp_path / "d.csv.gz")


def test_more_columns_than_any_table_has(tmp_path):
    file = tmp_path / "wide.csv"
    file.write_bytes(b"," * 2**20 + b"\n1\n")
    assert message_about(file) == "it has 1048577 columns; at most 1048576 are supported"
    with open(file, "wb") as opened:
        opened.truncate(2**33)  # a billion columns, and more, of which no byte is on the disk
    assert message_about(file).startswith("line 1 has a NUL byte")


def test_long_lines_and_cells(tmp_path, monkeypatch):
    file = tmp_path / "long.csv"
    file.write_text(f"a,b\n1,{'x' * 200_000}\n")
    assert "field larger than field limit" in message_about(file)
    file.write_text("a,b\n" + f"1,{'x' * 100_000}\n" * 3)
    # a row is longer than what is parsed at once
    monkeypatch.setattr("steinpath.app.tables.text._BLOCK", 1000)
    assert read_table(file).frame.num_rows == 3


def test_numbers_of_a_hundred_thousand_digits(tmp_path):
    file = tmp_path / "digits.csv"
    rows = "".join(f"{k},x\n{k + 1},{'1' * 100_000}\n" for k in range(0, 12, 2))
    file.write_text(f"y,a\n{rows}")
    encoder = TableEncoder().fit(read_table(file).frame)
    assert encoder.columns_[-1].levels == ("1" * 100_000, "x")
    file.write_text("y,a\n1,2\n2," + "9" * 100_000 + "\n")
    with pytest.raises(DataError, match="column 'a' has a number that is not finite, in row 2"):
        TableEncoder().fit(read_table(file).frame)


def npz_with_header(file, header, body=b""):
    text = repr(header).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    content = b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + body
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.npy", content)
    return file


@pytest.mark.parametrize(
    ("descr", "shape", "said"),
    [
        ("<U0", (10**12,), "array 'a' is of type <U0"),
        ("<f8", (0, 10**12), "it has 1000000000000 columns"),
        ("<f8", (10**14,), ""),
        ("<f8", (2**62, 4), ""),
        ("<U250000000", (1000,), ""),
        ("|O", (1,), "array 'a' holds Python objects, which are never loaded"),
        ([("x", "|O")], (1,), "array 'a' holds Python objects, which are never loaded"),
    ],
    ids=str,
)
def test_arrays_whose_header_lies(tmp_path, descr, shape, said):
    sprung = tmp_path / "sprung"
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    body = pickle.dumps([Trap(sprung)])
    assert message_about(npz_with_header(tmp_path / "d.npz", header, body)).startswith(said)
    assert not sprung.exists()


def with_metadata(file, about, field=None):
    """Write a table with these notes about it, or about its column."""
    column = pa.field("a", pa.float64(), metadata=field)
    table = pa.table([[1.0, 2.0]], pa.schema([column], metadata=about))
    if file.suffix == ".parquet":
        pa.parquet.write_table(table, file)
    else:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    return file


def assert_read_or_refused(file):
    """There is the column as it was written, or the usual error."""
    try:
        found = read_table(file)
    except DataError:
        assert message_about(file)
    else:
        with suppress(DataError):
            assert read_column("a", found.frame["a"]).values.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("ending", [".parquet", ".feather"])
@pytest.mark.parametrize(
    "notes",
    [
        b"{",
        b"[" * 100_000,
        b'{"columns": 3}',
        b'{"columns": [{"field_name": [], "pandas_type": "categorical"}]}',
        pickle.dumps(Trap("sprung")),
    ],
    ids=range(5),
)
def test_notes_of_pandas_are_harmless(tmp_path, monkeypatch, ending, notes):
    monkeypatch.chdir(tmp_path)
    file = with_metadata(tmp_path / f"d{ending}", {b"pandas": notes})
    assert_read_or_refused(file)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("ending", [".parquet", ".feather"])
@pytest.mark.parametrize("name", ["arrow.py_extension_type", "nobody.knows", "arrow.opaque"])
@pytest.mark.filterwarnings("ignore")
def test_extension_types_are_not_unpickled(tmp_path, ending, name):
    sprung = tmp_path / "sprung"
    field = {
        b"ARROW:extension:name": name.encode(),
        b"ARROW:extension:metadata": pickle.dumps(Trap(sprung)),
    }
    file = with_metadata(tmp_path / f"d{ending}", None, field)
    assert_read_or_refused(file)
    assert not sprung.exists()


READABLE = ["d.csv", "d.tsv.gz", "d.parquet", "d.feather", "d.npz"]


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there are no devices")
@pytest.mark.parametrize("name", READABLE)
def test_devices_that_never_end(tmp_path, name):
    file = tmp_path / name
    file.symlink_to("/dev/zero")
    assert message_about(file) == "it is a device, not a file"


def feed(file, content):
    """Write to a pipe, from another thread; who reads may go away before all is read."""

    def write():
        try:
            with open(file, "wb") as opened:
                opened.write(content)
        except BrokenPipeError:
            pass

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
@pytest.mark.parametrize("name", ["d.csv", "d.tsv"])
def test_pipes_are_read_to_a_limit(tmp_path, monkeypatch, name):
    file = tmp_path / name
    os.mkfifo(file)
    writer = feed(file, b"a\tb\n1\t2\n")
    assert read_table(file).cells("b") == ["2"]
    writer.join()
    writer = feed(file, b"a\tb\n1\t\xff\n")
    assert read_table(file).cells("b") == ["ÿ"]
    writer.join()
    monkeypatch.setattr(text, "_MOST_PIPED", 1000)
    writer = feed(file, b"a\tb\n" + b"1\t2\n" * 10**5)
    assert message_about(file) == "it is a pipe with more than 1000 bytes; save it to a file"
    writer.join()


def test_addresses_are_names_of_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for address in ("https://example.org/d.parquet", "s3://bucket/d.csv", "file:///etc/d.csv"):
        with pytest.raises(DataError, match="No such file"):
            read_table(address)
    with pytest.raises(DataError, match="No such file"):
        sp.load_model("https://example.org/model.json")
