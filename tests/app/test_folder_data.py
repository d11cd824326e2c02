"""Folders that are encoded on a cluster: what all files give as one table."""

import re

import numpy as np
import pytest

from steinpath._support.messages import worded
from steinpath.app.folder_data import _blocks, encode_folder
from steinpath.app.tables import DataError, open_folder, placed, read_table
from steinpath.app.target import check_roles, read_roles
from steinpath.estimators._encoder import TableEncoder
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
    monkeypatch.setattr("steinpath.app.tables.binary._NUMBERS_AT_ONCE", 1)
    monkeypatch.setattr("steinpath.app.tables.binary._FEW_ROWS", 7)
    monkeypatch.setattr("steinpath.app.folder_data._NUMBERS_AT_ONCE", 200)


def as_one(folder, missing="error", group=None, task=None, **options):
    """Encode a folder as one table."""
    table, encoder = read_table(folder), TableEncoder(missing=missing, **options)
    named = [name for names in options.values() for name in names]
    check_roles(table.frame.column_names, "y", group, None, *named)
    with placed(table.place):
        roles = read_roles(table, "y", group, task=task, impute=missing == "impute")
    table = table if roles.rows is None else table.take(roles.rows)
    with placed(table.place):
        X = encoder.fit_transform(table.frame.drop(["y", group] if group else ["y"]))
    return encoder, X, roles, table.place


def on_cluster(folder, client, missing="error", group=None, task=None, **options):
    encoder = TableEncoder(missing=missing, **options)
    return encoder, *encode_folder(open_folder(folder), encoder, client, "y", group, task)


def assert_same(found, expected):
    (own_encoder, design, own_roles, own_place), (encoder, X, roles, place) = found, expected
    assert own_encoder.to_json() == encoder.to_json()
    for name in ("summary_", "notes_"):
        assert getattr(own_encoder, name) == getattr(encoder, name)
    for name in ("task", "notes", "summaries"):
        assert getattr(own_roles, name) == getattr(roles, name)
    np.testing.assert_array_equal(own_roles.y, roles.y)
    np.testing.assert_array_equal(own_roles.groups, roles.groups)
    assert [own_place(row) for row in range(len(X))] == [place(row) for row in range(len(X))]
    blocks = np.concatenate([as_array(block.result()) for block in design.blocks])
    assert blocks.dtype == float
    np.testing.assert_array_equal(blocks, X)
    means, deviations = design.column_moments()
    np.testing.assert_allclose(means, X.mean(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(deviations, X.std(axis=0), rtol=1e-9)


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
    "with gaps": (with_gaps, {"missing": "impute"}),
    "with gaps and a group": (with_gaps, {"missing": "impute", "group": "site", "drop": ["town"]}),
    "with a file without a target": (
        lambda whole: whole.assign(y=whole.y.where(whole.index != 25)),
        {"missing": "impute"},
    ),
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
    "with signs that are not comparable": (
        lambda whole: whole.assign(written=["5", "7"] * 15 + ["5%", "3%"] * 15), {}
    ),
    "with codes": (lambda whole: whole.assign(written=["12", "007"] * 30), {}),
    "with other dates": (lambda whole: whole.assign(town=["1.2.2023", "3.4.2023"] * 30), {}),
    "with dates as texts": (
        lambda whole: whole.assign(town=[None] * 26 + ["2023-04-05", "2023-04-07"] * 17),
        {"missing": "impute"},
    ),
    "with many levels": (
        lambda whole: whole.assign(town=[f"t{k % 23}" for k in range(60)]),
        {"drop": ["paint"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "options"), CHANGES.values(), ids=CHANGES)
def test_a_cluster_gives_what_one_table_gives(tmp_path, client, change, options):
    folder = write(tmp_path / "parts", change(frame()))
    assert_same(on_cluster(folder, client, **options), as_one(folder, **options))


def test_blocks_in_files_are_the_same(tmp_path, client, monkeypatch):
    monkeypatch.setattr("steinpath.app.folder_data.fits", lambda *_: False)
    folder = write(tmp_path / "parts", with_gaps(frame()), cuts=[5, 20, 26, 50])
    found = on_cluster(folder, client, missing="impute")
    assert_same(found, as_one(folder, missing="impute"))
    assert len(found[1].blocks) == 2  # as many as threads
    assert all(hasattr(block.result(), "design") for block in found[1].blocks)


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
        "missing after a dropped row": (
            gap.assign(y=whole.y.where(whole.index != 25)),
            {"missing": "impute", "group": "a"},
            r"'a' \(1, first in row 5 of part-2.parquet\)",
        ),
        "infinite after a dropped row": (
            whole.assign(
                a=np.where(whole.index == 27, np.inf, 1.0), y=whole.y.where(whole.index != 26)
            ),
            {"missing": "impute"},
            "column 'a' has a number that is not finite, in row 2 of part-2.parquet",
        ),
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
    }


@pytest.mark.parametrize(("whole", "options", "message"), bad().values(), ids=bad())
def test_errors_name_the_file_and_the_column(tmp_path, client, whole, options, message):
    folder = write(tmp_path / "parts", whole)
    for encode in (as_one, lambda *args, **options: on_cluster(*args, client, **options)):
        with pytest.raises(DataError) as caught:
            encode(folder, **options)
        said = caught.value.message
        if hasattr(caught.value, "place"):
            said = worded(said, str, caught.value.place)
        assert re.search(message, said)


@pytest.mark.parametrize("count", [1, 2, 3, 100])
@pytest.mark.parametrize("rows", [[5], [1, 1, 1, 1, 1], [100, 1, 1, 1], [1, 2, 50, 50, 3]])
def test_files_are_put_into_blocks_in_their_order(rows, count):
    blocks = _blocks(rows, count)
    assert [k for files in blocks for k in files] == list(range(len(rows)))
    assert len(blocks) <= min(count, len(rows))
    assert all(blocks)
