"""Folders that are encoded on a cluster: what all files give as one table."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from steinpath.app.encoding import encode
from steinpath.app.encoding.encoded import EncodingOptions
from steinpath.app.encoding.facts import Facts, facts_of, facts_of_rows, moved
from steinpath.app.encoding.medians import bracket, marks_of, middle_of_all, within
from steinpath.app.fitting import prepare_data
from steinpath.app.folder_data import Moments, _blocks, encode_folder
from steinpath.app.tables import DataError, as_table, read_table
from steinpath.app.tables.folder import open_folder
from test_folders import frame, write

distributed = pytest.importorskip("distributed")
pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def client():
    # threads, which start at once
    options = {"processes": False, "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def _few_rows_at_a_time(monkeypatch):
    monkeypatch.setattr("steinpath.app.tables.folder._NUMBERS_AT_ONCE", 1)
    monkeypatch.setattr("steinpath.app.tables.folder._FEW_ROWS", 7)


def both(folder, client, **options):
    """Encode a folder as one table, and on a cluster."""
    options = EncodingOptions("y", **options)
    named = [*options.categories, *filter(None, [options.group])]
    return encode(read_table(folder, named), **vars(options)), encode_folder(
        open_folder(folder), options, client
    )


def assert_same(found, expected):
    assert found.encoding == expected.encoding
    assert found.summaries == expected.summaries
    assert found.notes == expected.notes
    assert (found.classes, found.n_columns) == (expected.classes, expected.n_columns)
    np.testing.assert_array_equal(found.y, expected.y)
    np.testing.assert_array_equal(found.groups, expected.groups)
    assert found.X.shape == expected.X.shape
    ready, wanted = prepare_data(found), prepare_data(expected)
    np.testing.assert_allclose(ready.scale, wanted.scale, rtol=1e-12)
    np.testing.assert_allclose(ready.centre, wanted.centre, rtol=1e-12, atol=1e-12)
    X = np.concatenate([as_array(block.result()) for block in ready.design.blocks])
    np.testing.assert_allclose(X, wanted.design.example, rtol=1e-9, atol=1e-11)
    assert (ready.notes, ready.n_alphas, ready.level) == (
        wanted.notes,
        wanted.n_alphas,
        wanted.level,
    )
    np.testing.assert_array_equal(ready.y, wanted.y)


def as_array(block):
    return np.array(getattr(block, "rows", block))


def with_gaps(whole):
    rng = np.random.default_rng(1)
    for name in ("a", "town", "garden", "sold", "written", "paint", "y"):
        whole.loc[rng.random(len(whole)) < 0.15, name] = None
    return whole


CHANGES = {
    "as it is": (lambda whole: whole, {}),
    "with a group": (lambda whole: whole, {"group": "site"}),
    "with categories": (lambda whole: whole, {"categories": ["b", "written"], "drop": ["a"]}),
    "with gaps": (with_gaps, {"impute": True}),
    "with gaps and a group": (with_gaps, {"impute": True, "group": "site", "drop": ["town"]}),
    "of classes": (lambda whole: whole.assign(y=np.where(whole.y > 0, "high", "low")), {}),
    "of two numbers": (lambda whole: whole.assign(y=(whole.y > 0) * 1), {"task": "regression"}),
    "without some columns": (
        lambda whole: whole.assign(flag=True, name=[f"n{k}" for k in range(60)], none=None),
        {},
    ),
    # in the first file they are numbers, in the others not
    "with texts of several kinds": (
        lambda whole: whole.assign(written=[*"1233"] * 10 + ["01", "x"] * 10), {}
    ),
    "with codes": (lambda whole: whole.assign(written=["12", "007"] * 30), {}),
    "with other dates": (lambda whole: whole.assign(town=["1.2.2023", "3.4.2023"] * 30), {}),
    "with dates as texts": (
        lambda whole: whole.assign(town=[None] * 26 + ["2023-04-05", "2023-04-07"] * 17),
        {"impute": True},
    ),
    "with many levels": (
        lambda whole: whole.assign(town=[f"t{k % 23}" for k in range(60)]),
        {"drop": ["paint"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "options"), CHANGES.values(), ids=CHANGES)
def test_a_cluster_gives_what_one_table_gives(tmp_path, client, change, options):
    folder = write(tmp_path / "parts", change(frame()))
    expected, found = both(folder, client, **options)
    assert_same(found, expected)


def test_blocks_in_files_are_the_same(tmp_path, client, monkeypatch):
    monkeypatch.setattr("steinpath.app.folder_data.fits", lambda *_: False)
    folder = write(tmp_path / "parts", with_gaps(frame()), cuts=[5, 20, 26, 50])
    expected, found = both(folder, client, impute=True)
    assert_same(found, expected)
    blocks = prepare_data(found).design.blocks
    assert len(blocks) == 2  # as many as threads
    assert all(hasattr(block.result(), "design") for block in blocks)


def test_some_features(tmp_path, client):
    expected, found = both(write(tmp_path / "parts", frame()), client)
    which = np.array([0, 3, 4])
    means, scale, design = found.X.columns(which).standardised(np.float32)
    assert design.shape == (60, 3)
    assert design.example.dtype == np.float32
    np.testing.assert_allclose(means, expected.X[:, which].mean(axis=0))
    np.testing.assert_allclose(scale, expected.X[:, which].std(axis=0))


def bad():
    whole = frame()
    gap = whole.assign(a=whole.a.where(whole.index != 30))
    return {
        "missing": (gap, {}, r"missing, in 1 column: 'a' \(1, first in row 5 of part-2.parquet\)"),
        "missing target": (
            whole.assign(y=whole.y.where(whole.index != 25)),
            {},
            r"'y' \(1, first in row 1 of part-1.parquet\)",
        ),
        "missing group": (gap, {"group": "a"}, r"'a' \(1, first in row 5 of part-2.parquet\)"),
        "unknown": (whole, {"drop": ["twon"]}, "unknown column 'twon' .did you mean 'town'"),
        "infinite": (
            whole.assign(a=np.where(whole.index == 27, np.inf, 1.0)),
            {},
            "column 'a' has a number that is not finite, in row 2 of part-2.parquet",
        ),
        "texts": (
            whole.assign(y=[*"123456"] * 9 + ["x"] * 6),
            {"task": "regression"},
            "'y' must hold numbers, but has 'x' in row 29 of part-2.parquet",
        ),
        "large": (whole.assign(a=whole.a * 1e80), {}, "largest absolute value of 'a' is"),
    }


@pytest.mark.parametrize(("whole", "options", "message"), bad().values(), ids=bad())
def test_errors_name_the_file_and_the_column(tmp_path, client, whole, options, message):
    folder = write(tmp_path / "parts", whole)
    for k in (0, 1):
        with pytest.raises(DataError, match=message):
            prepare_data(both_later(folder, client, options)[k]())


def both_later(folder, client, options):
    options = EncodingOptions("y", **options)
    return (
        lambda: encode(read_table(folder), **vars(options)),
        lambda: encode_folder(open_folder(folder), options, client),
    )


def test_too_many_levels_are_refused(tmp_path, client, monkeypatch):
    monkeypatch.setattr("steinpath.app.encoding.facts.MOST_COUNTED", 40)
    folder = write(tmp_path / "parts", frame().assign(name=[f"n{k}" for k in range(60)]))
    with pytest.raises(DataError, match=r"column 'name' has more than 40 distinct strings.*--drop"):
        both(folder, client)
    assert_same(*reversed(both(folder, client, drop=["name"])))


# ------------------------------------------------------------------------------------------------
# Sums over parts
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 10, 1001, 5000])
@pytest.mark.parametrize("kind", ["normal", "ties", "sorted", "two values"])
def test_medians_of_parts_are_exact(count, kind):
    rng = np.random.default_rng(count)
    numbers = {
        "normal": rng.standard_normal(count),
        "ties": rng.integers(0, 7, count) * 1.0,
        "sorted": np.arange(count) * 1.0,
        "two values": (np.arange(count) >= count // 2) * 1.0,
    }[kind]
    parts = np.split(numbers, sorted(rng.integers(0, count + 1, 4)))  # some of them empty
    interval = bracket([marks_of(part) for part in parts])
    inside = [within(part, interval) for part in parts]
    low, high = middle_of_all(inside, count)
    assert (low + high) / 2 == np.median(numbers)
    if kind == "normal" and count == 5000:
        assert sum(len(each.values) for each in inside) < 100


def test_facts_add_up(tmp_path):
    table = as_table(with_gaps(frame()))
    for name in table.columns:
        for kept in (None, np.arange(60) % 3 > 0):
            whole = facts_of_rows(table, name, kept)
            parts = [
                moved(
                    facts_of_rows(
                        replace(table, columns={name: table.columns[name][rows]}),
                        name,
                        None if kept is None else kept[rows],
                    ),
                    rows.start,
                )
                for rows in (slice(0, 1), slice(1, 40), slice(40, 60))
            ]
            found = sum(parts, Facts())
            assert replace(found, total=0.0, middle=None) == replace(whole, total=0.0, middle=None)
            assert found.total == pytest.approx(whole.total)
            one, other = ({**vars(each.numbers)} for each in (found, whole))
            np.testing.assert_array_equal(one.pop("values"), other.pop("values"))
            assert one == other


def test_facts_of_several_kinds_are_mixed():
    texts = facts_of(np.array(["u", None], object))
    numbers, nothing = facts_of(np.array([1.0, 2.0])), facts_of(np.array([None], object))
    assert (texts + numbers).kind == (numbers + texts).kind == "?"
    assert (nothing + numbers).kind == (numbers + nothing).kind == "f"
    assert (texts + numbers + numbers).kind == "?"
    assert (texts + texts).levels == Counter(u=2)


@pytest.mark.parametrize(
    ("signs", "kind"),
    [
        (("percent signs (%)", "percent signs (%)"), "f"),
        (("currency signs ($)", ""), "f"),
        (("percent signs (%)", ""), "?"),
        (("currency signs ($)", "currency signs (€)"), "?"),
    ],
    ids=str,
)
def test_numbers_with_other_signs_are_mixed(signs, kind):
    one, other = (replace(facts_of(np.array([1.0, 2.0])), conversion=sign) for sign in signs)
    assert (one + other).kind == (other + one).kind == kind
    assert (one + facts_of(np.array([np.nan]))).kind == "f"


def test_moments_add_up():
    X = np.random.default_rng(0).standard_normal((50, 3)) + np.array([0, 1e6, -3])
    found = sum((Moments.of(part) for part in np.split(X[1:], [3, 40])), Moments.of(X[:1]))
    np.testing.assert_allclose(found.means, X.mean(axis=0), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(np.sqrt(found.squares / 50), X.std(axis=0), rtol=1e-9)
    np.testing.assert_array_equal(found.sizes, np.abs(X).max(axis=0))


@pytest.mark.parametrize("count", [1, 2, 3, 100])
@pytest.mark.parametrize("rows", [[5], [1, 1, 1, 1, 1], [100, 1, 1, 1], [1, 2, 50, 50, 3]])
def test_files_are_put_into_blocks_in_their_order(rows, count):
    blocks = _blocks(rows, count)
    assert [k for files in blocks for k in files] == list(range(len(rows)))
    assert len(blocks) <= min(count, len(rows))
    assert all(blocks)


def test_what_is_learned_can_be_kept(tmp_path, client):
    _, found = both(write(tmp_path / "parts", frame()), client)
    json.dumps(found.encoding.to_json())
