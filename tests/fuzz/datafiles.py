"""Random data files: sensible ones, whose contents are known, and such as are odd or damaged."""

import csv
import datetime
import gzip
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from inputs import chance, one_of

ENDINGS = (".csv", ".csv", ".csv", ".txt", ".tsv", ".csv.gz", ".parquet", ".feather", ".npz")
NAMES = (
    *("area", "Fläche m²", "rooms", "town", "価格", "a=b", "x (2)", "price, net", 'the "best"'),
    *(
        "[red]bold[/red]",
        "<b>&amp;",
        "=1+1",
        "é",
        "🏠",
        "line\nbreak",
        "-",
        "--target",
        "0",
        "coef",
    ),
    *("None", "n" * 300),
)
ODD_NAMES = ("", " ", "1", "nan", "a\tb", "\N{ZERO WIDTH SPACE}", "\N{RIGHT-TO-LEFT OVERRIDE}x")
LEVELS = (
    ("no", "yes"),
    ("True", "False"),
    ("Köln", "Paris", "東京", "a,b", 'say "hi"'),
    ("(other)", "A1", "1e5x", "=SUM(A1)"),
    tuple(f"id{k}" for k in range(60)),
)
MISSING = ("", "NA", "nan", "NULL", "?", "  ", "#N/A")
#: Cells that are not what a column of numbers is made of, or only just.
ODD_CELLS = (
    *("inf", "1e400", "1e-400", "-1.7e308", "5e-324", "12345678901234567890", "9" * 5000, "1_000"),
    *("1,5", "1.234,5", "٣", "½", "\N{MINUS SIGN}5", "0x1F", "--5", "12.5.2023", "2023-02-30"),
    *("0001-01-01", "9999-12-31T23:59:59-12:00", "2023-W05", "true", "None", "a\nb", "a\r\nb", '"'),
    *("x" * 140_000, "\N{NO-BREAK SPACE}7", "[/]", "</script>", "%s %d {}"),
)


@dataclass
class Column:
    """A column, and what its cells are: floats, datetimes, texts, or None where missing."""

    name: str
    kind: str
    values: list


@dataclass
class DataFile:
    """A file that was written.

    Its columns are None where something odd was done, so that nobody knows. It is whole if it is as
    a program would have written it, and not damaged afterwards.
    """

    path: Path
    columns: list | None
    names: list
    whole: bool = True


def columns_of(rng, n, *, names=None):
    """Some columns of a table, the last one a target that depends on the others."""
    count = int(rng.integers(1, 6))
    if names is None:
        names = [str(name) for name in rng.permutation(NAMES)[: count + 1]]
    columns, signal = [], rng.standard_normal(n) * one_of(rng, (1e-9, 0.3, 0.3, 1.0))
    for name in names[:-1]:
        column = feature(rng, name, n)
        columns.append(column)
        if column.kind == "number" and chance(rng, 0.7):
            numbers = np.array(column.values)
            spread = np.std(numbers / max(1.0, np.abs(numbers).max()))
            signal = signal + numbers / max(1.0, np.abs(numbers).max()) / (spread or 1.0)
    with np.errstate(all="ignore"):
        y = signal * 10.0 ** rng.integers(-3, 4) + one_of(rng, (0.0, 5.0, 1e6))
    if chance(rng, 0.2):
        y = np.round(y)
    if chance(rng, 0.05):
        y = y * 10.0 ** rng.integers(-100, 100)
    target = Column(names[-1], "number", [float(value) for value in y])
    if chance(rng, 0.25):  # classes instead
        labels = one_of(rng, LEVELS[:3])
        codes = np.argsort(np.argsort(y)) * len(labels) // n
        target = Column(names[-1], "text", [labels[code] for code in codes])
    return [*columns, target]


def with_gaps(rng, columns):
    """Make some values of some columns missing."""
    for column in columns[: rng.integers(1, len(columns) + 1)]:
        gaps = rng.random(len(column.values)) < one_of(rng, (0.05, 0.05, 0.3, 0.3, 1.0))
        column.values = [
            None if gap else value for value, gap in zip(column.values, gaps, strict=True)
        ]


def feature(rng, name, n):
    """A column of numbers, dates or texts."""
    kind = one_of(rng, ("number", "number", "number", "date", "text"))
    if kind == "text":
        return Column(name, kind, [str(level) for level in rng.choice(one_of(rng, LEVELS), n)])
    if kind == "date":
        start = datetime.datetime(int(rng.integers(1, 9990)), 1, 1)
        days = rng.integers(0, one_of(rng, (1, 30, 2000)), n)
        seconds = rng.integers(0, 86400, n) * chance(rng, 0.3)
        spans = map(datetime.timedelta, days.tolist(), seconds.tolist())
        return Column(name, kind, [start + span for span in spans])
    normal = rng.standard_normal(n)
    forms = (
        normal * 10.0 ** rng.integers(-3, 6),
        np.round(normal * 10.0 ** rng.integers(-3, 6), one_of(rng, (0, 2))),
        rng.integers(0, one_of(rng, (2, 5, 2**53)), n),
        np.full(n, 3.0),
        normal * 10.0 ** rng.integers(-130, 130),
        1e9 + normal * 1e-6,
    )
    return Column(name, kind, [float(value) for value in one_of(rng, forms)])


def data_file(rng, folder, name="data", *, wild=0.5, rows=None):
    """Write a random file; with probability ``wild`` there is something odd about it."""
    n = int(one_of(rng, rows or (1, 9, *(10, 12, 20, 30, 40, 60) * 2)))
    columns = columns_of(rng, n)
    if chance(rng, 0.25):
        with_gaps(rng, columns)
    known = True
    if chance(rng, wild / 4):
        known = False
        names = [*(column.name for column in columns), *ODD_NAMES]
        for column in columns:
            if chance(rng, 0.5):
                column.name = one_of(rng, names)
    ending = one_of(rng, ENDINGS)
    path = Path(folder) / f"{name}{ending.upper() if chance(rng, 0.03) else ending}"
    known &= _write(rng, path, columns, wild)
    written = DataFile(path, columns if known else None, [column.name for column in columns])
    if chance(rng, wild / 4):
        damage(rng, written)
    return written


def _write(rng, path, columns, wild):
    """Write columns; return whether they are read as what they were."""
    ending = path.name[path.name.index(".") :].lower()
    if ending in (".parquet", ".feather"):
        _write_arrow(rng, path, columns, ending)
        return True
    if ending == ".npz":
        return _write_npz(rng, path, columns, wild)
    return _write_text(rng, path, columns, ending, wild)


def _write_text(rng, path, columns, ending, wild):
    """Write cells between delimiters; return whether they are read as what they were."""
    cells = [_spelled(rng, column) for column in columns]
    odd = chance(rng, wild / 2)
    if odd:
        _make_odd(rng, cells)
    rows = [[column.name for column in columns], *map(list, zip(*cells, strict=True))]
    delimiter = "\t" if ending.startswith(".t") and ending != ".txt" else one_of(rng, ",,,;\t|")
    if delimiter != "," and ending != ".tsv":
        # a header of one name has no delimiter, and others may have more commas than delimiters
        odd |= len(columns) < 2 or sum(name.count(c) for name in rows[0] for c in ",;\t|") > 0
    ragged = chance(rng, wild / 8)
    if ragged:
        row = one_of(rng, rows)
        row[:] = one_of(rng, ([], row[:-1], [*row, "1"], ["", *row]))
    text = io.StringIO()
    quoting = one_of(rng, (csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    end = one_of(rng, ("\n", "\n", "\r\n"))
    csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator=end).writerows(rows)
    content = text.getvalue()
    if chance(rng, wild / 8):
        content = one_of(rng, (content.rstrip(), content + end * 3, end + content, content + " "))
        odd = True
    encoding = "utf-8-sig" if chance(rng, 0.1) else "utf-8"
    if chance(rng, wild / 30):
        encoding, odd = one_of(rng, ("utf-16", "latin1", "utf-8")), True
        content = content if encoding != "latin1" else content.encode("ascii", "replace").decode()
    encoded = content.encode(encoding)
    path.write_bytes(gzip.compress(encoded) if ending.endswith(".gz") else encoded)
    return not (odd or ragged)


def _spelled(rng, column):
    """The cells of a column, as people and programs write them."""
    gap, spell = one_of(rng, MISSING), rng.integers(4)

    def number(value):
        whole = value.is_integer() and abs(value) < 2**53
        forms = (f"{value:.17g}", f"{value:.16E}", f"{value:+.17g}", f" {value!r} ")
        forms += (repr(value).removesuffix(".0"), f"{value:.0f}." if whole else repr(value))
        return one_of(rng, forms) if chance(rng, 0.2) else repr(value)

    def date(value):
        text = value.isoformat()
        plain = value.date().isoformat() if value.time() == datetime.time() else text
        forms = plain, text, value.isoformat(" "), f"{text}Z", f"{text}+00:00"
        return plain if spell else one_of(rng, forms)

    spelled = {"number": number, "date": date, "text": str}[column.kind]
    return [gap if value is None else spelled(value) for value in column.values]


def _make_odd(rng, cells):
    """Change some cells to what nobody would expect there."""
    for _ in range(rng.integers(1, 4)):
        column = one_of(rng, cells)
        if chance(rng, 0.1):
            column[:] = [one_of(rng, ODD_CELLS) for _ in column]
        else:
            column[rng.integers(len(column))] = one_of(rng, ODD_CELLS)


def _write_arrow(rng, path, columns, ending):
    types = {"number": pa.float64(), "date": pa.timestamp("us"), "text": pa.string()}
    arrays = []
    for column in columns:
        array = pa.array(column.values, types[column.kind])
        if column.kind == "text" and chance(rng, 0.3):
            array = array.dictionary_encode()
        if column.kind == "number" and chance(rng, 0.5) and all(map(_whole, column.values)):
            array = array.cast(pa.int64())
        arrays.append(array)
    table = pa.table(arrays, names=[column.name for column in columns])
    if ending == ".parquet":
        pa.parquet.write_table(table, path)
    else:
        pa.feather.write_feather(table, path, compression=one_of(rng, ("lz4", "uncompressed")))


def _whole(value):
    return value is None or (value.is_integer() and abs(value) < 2**53)


def _write_npz(rng, path, columns, wild):
    """Write arrays; return whether they are read as what they were."""
    arrays = {}
    for column in columns:
        if column.kind == "number":
            array = np.array([np.nan if value is None else value for value in column.values])
        elif column.kind == "date":
            array = np.array(column.values, "datetime64[us]")
        else:
            array = np.array([value or "" for value in column.values])
        arrays[column.name] = array
    strange = chance(rng, wild / 2) or any("/" in name or not name for name in arrays)
    if strange:
        odd = one_of(rng, list(arrays))
        array, n = arrays[odd], len(arrays[odd])
        forms = (
            *(array[:-1], array.astype(object), array[:, None], array[None], np.zeros((n, 0))),
            *(np.full(n, b"x"), np.full(n, 1 + 2j), np.full(n, np.inf), np.full(n, "\ud800")),
            *(np.full(n, 2**63 + 1, np.uint64), np.arange(n, dtype=">i2"), np.arange(n) % 2 == 0),
            *(np.full(n, np.longdouble("1e4000")), np.full(n, np.datetime64("NaT"))),
            *(np.arange(n).astype("datetime64[Y]") + 10**6, np.arange(n).astype("timedelta64[s]")),
            *(np.zeros(n, [("a", float)]), rng.standard_normal((n, 3)), np.float64(3.0)),
        )
        arrays[odd] = one_of(rng, forms)
        if chance(rng, 0.2):
            arrays["feature_names"] = np.array(["p", "q", "r"])
    with open(path, "wb") as file:
        np.savez(file, **{name: array for name, array in arrays.items() if name != "file"})
    return not strange and len(arrays) == len(columns) and "file" not in arrays


def damage(rng, file):
    """Do something to a file that was whole."""
    file.columns, file.whole = None, False
    path, content = file.path, file.path.read_bytes()
    if chance(rng, 0.15):
        other = path.with_name(path.name.split(".")[0] + one_of(rng, (*ENDINGS, ".pq", ".arrow")))
        path.rename(other)
        file.path = other
        return
    path.write_bytes(damaged(rng, content))


def damaged(rng, content):
    """Bytes that were cut, changed, repeated or put together."""
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(content) + 1))
        random = rng.integers(0, 256, one_of(rng, (1, 1, 2, 8))).astype(np.uint8).tobytes()
        some = one_of(rng, (random, random, b'"', b"\n", b",", b"\0", b"\xff", b"\xef\xbb\xbf"))
        forms = (
            content[:at],
            content[at:],
            content[:at] + some + content[at + len(some) :],
            content[:at] + some + content[at:],
            content + content[at:],
            content[:at] + content[at + int(rng.integers(1, 20)) :],
        )
        content = one_of(rng, forms)
    return content
