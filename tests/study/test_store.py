"""Replications on disk: atomic writes, damaged files, and errors with explanations."""

import errno
import os
import shutil
from dataclasses import fields, replace

import numpy as np
import pyarrow.parquet
import pytest

from steinpath.study import Configuration, StudyError, run_study
from steinpath.study._replicate import replicate
from steinpath.study._store import CODE, Store
from studies import SIZES, TINY, Calls, assert_same_parts, part_files, tables

pytestmark = pytest.mark.usefixtures("no_figures")

SETTING = Configuration("lad", "lasso", 40, 20, 5, ("tilde", "hat"), "gaussian", "t2")
ODD = np.array([0.0, -0.0, 5e-324, 1e-310, np.finfo(float).max, 1])
NAMES = ("truth", "tilde", "tilde_stderr", "train", "hat", "hat_stderr")
COLUMNS = {name: np.roll(ODD, k) for k, name in enumerate(NAMES)}
NOTES = {"seconds": "0.5", "versions": "{}"}


def leftovers(folder):
    return list(folder.rglob("*-partial"))


def test_the_hash_of_a_setting_stays_what_it_is():
    # parts of earlier runs are found by it: if it must change, so must REVISION
    assert SETTING.key == "ca27862e4f377e4c"


@pytest.mark.parametrize("name", [field.name for field in fields(Configuration)])
def test_the_hash_knows_every_field(name):
    value = getattr(SETTING, name)
    other = {int: lambda: value + 1, str: lambda: value + "x", tuple: lambda: value[::-1]}
    assert replace(SETTING, **{name: other[type(value)]()}).key != SETTING.key
    assert replace(SETTING, **{name: value}).key == SETTING.key


def test_a_part_comes_back_to_the_last_bit(tmp_path):
    store = Store(tmp_path)
    store.write(SETTING, 7, COLUMNS, NOTES)
    assert store.has(SETTING, 7)
    assert not store.has(SETTING, 8)
    assert not store.has(replace(SETTING, iters=6), 7)
    found, versions = store.read(SETTING, [7, 7])
    for name, values in COLUMNS.items():
        assert found[name].shape == (2, 6)
        assert found[name][1].tobytes() == values.tobytes()
    assert versions == {"{}"}
    assert [file.name for file in part_files(tmp_path)] == [f"{SETTING.key}-{CODE}-7.parquet"]
    notes = pyarrow.parquet.read_schema(store.part(SETTING, 7)).metadata
    assert notes[b"seconds"] == b"0.5"
    assert notes[b"setting"] == SETTING.text.encode()


@pytest.mark.parametrize(
    ("error", "raised"),
    [(RuntimeError, RuntimeError), (OSError, StudyError), (KeyboardInterrupt, KeyboardInterrupt)],
)
def test_a_writer_that_fails_midway_leaves_nothing(tmp_path, monkeypatch, error, raised):
    def broken(table, file, **options):
        file.write_bytes(b"PAR1 and so on")
        raise error("midway")

    store = Store(tmp_path)
    store.write(SETTING, 0, COLUMNS, NOTES)
    before = store.part(SETTING, 0).read_bytes()
    monkeypatch.setattr(pyarrow.parquet, "write_table", broken)
    for seed in (0, 1):
        with pytest.raises(raised, match="midway"):
            store.write(SETTING, seed, COLUMNS, NOTES)
    assert part_files(tmp_path) == [store.part(SETTING, 0)]
    assert store.part(SETTING, 0).read_bytes() == before


# Damaged parts


def with_bytes(change):
    """Return a function that changes the content of a part."""
    return lambda file: file.write_bytes(change(bytearray(file.read_bytes())))


def with_columns(change):
    """Return a function that rewrites a part with changes and its original metadata."""

    def spoil(file):
        table = pyarrow.parquet.read_table(file)
        columns = {name: table[name].to_numpy().copy() for name in table.column_names}
        changed = pyarrow.table(change(columns)).replace_schema_metadata(table.schema.metadata)
        pyarrow.parquet.write_table(changed, file)

    return spoil


def with_hat(change):
    return with_columns(lambda columns: {**columns, "hat": change(columns["hat"])})


DAMAGES = {
    "cut off": with_bytes(lambda content: content[: len(content) // 2]),
    "empty": with_bytes(lambda content: b""),
    "a row less": with_columns(lambda columns: {name: c[:-1] for name, c in columns.items()}),
    "another last bit": with_hat(lambda values: np.nextafter(values, np.inf)),
    "texts": with_hat(lambda values: [str(value) for value in values]),
    "a column less": with_columns(lambda columns: {"truth": columns["truth"]}),
    "columns changed over": with_columns(
        lambda columns: {**columns, "hat": columns["tilde"], "tilde": columns["hat"]}
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_part_is_named_and_once_deleted_done_again(tmp_path, finished, damage):
    folder = tmp_path / "folder"
    shutil.copytree(finished, folder)
    sizes = replace(SIZES, reps=4)
    before, file = tables(folder), Store(folder).part(SETTING, 0)
    DAMAGES[damage](file)
    for redraw in (False, True):
        with pytest.raises(StudyError, match="is damaged") as error:
            run_study(TINY, folder, sizes, redraw=redraw)
        assert str(file) in str(error.value)
        assert "delete it and run the same command again" in str(error.value)
        assert tables(folder) == before
    file.unlink()
    report = run_study(TINY, folder, sizes)
    assert report.finished == report.total
    assert tables(folder) == before
    assert_same_parts(finished, folder)


def test_no_edit_of_a_part_changes_what_is_read(tmp_path):
    store = Store(tmp_path)
    store.write(SETTING, 0, replicate(SETTING, 0), NOTES)
    (good, _), file = store.read(SETTING, [0]), store.part(SETTING, 0)
    intact = file.read_bytes()
    rng = np.random.default_rng(0)
    outcomes = []
    for _ in range(300):
        edited = bytearray(intact)
        for place in rng.integers(len(intact), size=rng.integers(1, 4)):
            edited[place] = rng.integers(256) if rng.random() < 0.5 else edited[place] ^ 1
        file.write_bytes(edited)
        try:
            found, _ = store.read(SETTING, [0])
        except StudyError:
            outcomes.append("damaged")
        else:
            assert list(found) == list(good)
            assert all(found[name].tobytes() == good[name].tobytes() for name in good)
            outcomes.append("harmless")
    assert {*outcomes} == {"damaged", "harmless"}


# Concurrent use of the folder, and no space


def test_a_second_runner_is_kept_out(tmp_path):
    run_study(TINY, tmp_path, SIZES)
    with Store(tmp_path).alone():
        for redraw in (False, True):
            with pytest.raises(StudyError, match="another study is running in") as error:
                run_study(TINY, tmp_path, SIZES, redraw=redraw)
            assert str(tmp_path) in str(error.value)
    run_study(TINY, tmp_path, SIZES)


def test_what_killed_runners_left_is_swept_up_and_nothing_else(tmp_path):
    # the folder of a study may be a home folder, where browsers leave such files
    theirs = [tmp_path / "download.iso.partial", tmp_path / "Downloads" / "film.partial"]
    theirs[1].parent.mkdir()
    part = Store(tmp_path).part(SETTING, 0)
    left = part.with_name(f"{part.name}.12345.steinpath-partial")
    for file in (left, *theirs):
        file.write_text("half")
    run_study(TINY, tmp_path, SIZES)
    assert leftovers(tmp_path) == []
    assert all(file.exists() for file in theirs)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_full_disk_costs_nothing_that_was_finished(tmp_path, monkeypatch, jobs):
    really, seen = pyarrow.parquet.write_table, []

    def write_table(table, file, **options):
        seen.append(file)
        if len(seen) > 2:
            file.write_bytes(b"PAR1")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        really(table, file, **options)

    once, again = tmp_path / "once", tmp_path / "again"
    run_study(TINY, once, replace(SIZES, reps=3))
    with monkeypatch.context() as patch:
        patch.setattr(pyarrow.parquet, "write_table", write_table)
        with pytest.raises(StudyError, match="No space left on device") as error:
            run_study(TINY, again, replace(SIZES, reps=3), jobs=jobs)
    assert "Finished replications are kept" in str(error.value)
    assert "run the same command again" in str(error.value)
    assert len(part_files(again)) == 2
    assert leftovers(again) == []
    calls = Calls(monkeypatch)
    report = run_study(TINY, again, replace(SIZES, reps=3))
    assert len(calls.jobs) == 4
    assert report.finished == report.total == 6
    assert_same_parts(once, again)
    assert tables(once) == tables(again)


@pytest.mark.parametrize("name", ["lock", "tiny"])
def test_a_folder_without_permission_to_write(tmp_path, name):
    # something that cannot be written to in place of what is needed: root may do anything else
    Store(tmp_path)
    if name == "lock":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_text("mine")
    with pytest.raises(StudyError, match="cannot write"):
        run_study(TINY, tmp_path, SIZES)
