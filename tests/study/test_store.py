"""Replications on disk: atomic writes, and errors with explanations."""

import errno
import io
import os
import shutil
import signal
import socket
import subprocess
from dataclasses import fields, replace
from functools import partial

import numpy as np
import pyarrow.parquet
import pytest
from rich.console import Console

from steinpath.study import (
    Configuration,
    StudyError,
    run_study,
)
from steinpath.study import (
    _parallel as parallel,
)
from steinpath.study import (
    _runner as runner,
)
from steinpath.study import (
    _settings as configs,
)
from steinpath.study._replicate import replicate
from steinpath.study._store import Store, write_text, written
from steinpath.study._versions import CODE
from studies import (
    SIZES,
    TINY,
    Calls,
    assert_same_parts,
    has_parts,
    part_files,
    same_columns,
    tables,
)

SETTING = Configuration("lad", "lasso", 40, 20, 5, ("tilde", "hat"), "gaussian", "t2")
ODD = np.array([0.0, -0.0, 5e-324, 1e-310, np.finfo(float).max, 1])
NAMES = ("truth", "tilde", "tilde_stderr", "train", "hat", "hat_stderr")
COLUMNS = {name: np.roll(ODD, k) for k, name in enumerate(NAMES)}


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch):
    monkeypatch.setattr(runner, "write_figures", lambda folder, exhibits: [])


def leftovers(folder):
    return list(folder.rglob("*-partial"))


# ------------------------------------------------------------------------------------------------
# Names
# ------------------------------------------------------------------------------------------------


def test_the_hash_of_a_setting_stays_what_it_is():
    # parts of earlier runs are found by it: if it must change, so must REVISION
    assert SETTING.key == "ca27862e4f377e4c"


@pytest.mark.parametrize("name", [field.name for field in fields(Configuration)])
def test_the_hash_knows_every_field(name):
    value = getattr(SETTING, name)
    other = {int: lambda: value + 1, str: lambda: value + "x", tuple: lambda: value[::-1]}
    assert replace(SETTING, **{name: other[type(value)]()}).key != SETTING.key
    assert replace(SETTING, **{name: value}).key == SETTING.key


def test_the_hash_knows_the_revision(monkeypatch):
    before = SETTING.key
    monkeypatch.setattr(configs, "REVISION", configs.REVISION + 1)
    assert SETTING.key != before


# ------------------------------------------------------------------------------------------------
# Atomic writes
# ------------------------------------------------------------------------------------------------


def test_a_part_comes_back_to_the_last_bit(tmp_path):
    store = Store(tmp_path)
    assert not store.has(SETTING, 7)
    store.write(SETTING, 7, COLUMNS, seconds="0.5")
    assert store.has(SETTING, 7)
    assert not store.has(SETTING, 8)
    assert not store.has(replace(SETTING, iters=6), 7)
    found = store.read(SETTING, [7, 7])
    for name, values in COLUMNS.items():
        assert found[name].shape == (2, 6)
        assert found[name][1].tobytes() == values.tobytes()
    assert [file.name for file in part_files(tmp_path)] == [f"{SETTING.key}-{CODE}-7.parquet"]
    notes = pyarrow.parquet.read_schema(store.part(SETTING, 7)).metadata
    assert notes[b"seconds"] == b"0.5"


@pytest.mark.parametrize(
    ("error", "raised"),
    [(RuntimeError, RuntimeError), (OSError, StudyError), (KeyboardInterrupt, KeyboardInterrupt)],
)
def test_a_writer_that_fails_midway_leaves_nothing(tmp_path, monkeypatch, error, raised):
    def broken(table, file, **options):
        file.write_bytes(b"PAR1 and so on")
        raise error("midway")

    store = Store(tmp_path)
    store.write(SETTING, 0, COLUMNS)
    before = store.part(SETTING, 0).read_bytes()
    monkeypatch.setattr(pyarrow.parquet, "write_table", broken)
    for seed in (0, 1):
        with pytest.raises(raised, match="midway"):
            store.write(SETTING, seed, COLUMNS)
    assert part_files(tmp_path) == [store.part(SETTING, 0)]
    assert store.part(SETTING, 0).read_bytes() == before


def test_texts_are_written_as_a_whole_too(tmp_path):
    file = tmp_path / "table.csv"
    write_text(file, "one\n")

    def half_written():
        with written(file) as partial:
            partial.write_text("tw")
            assert file.read_text() == "one\n"
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half_written()
    assert file.read_text() == "one\n"
    assert list(tmp_path.iterdir()) == [file]


def _truncated(store):
    file = store.part(SETTING, 0)
    os.truncate(file, file.stat().st_size // 2)


def _without_end(store):
    file = store.part(SETTING, 0)
    os.truncate(file, file.stat().st_size - 1)


def _empty(store):
    os.truncate(store.part(SETTING, 0), 0)


def _zeros(store):
    file = store.part(SETTING, 0)
    file.write_bytes(bytes(file.stat().st_size))


def _of_another_configuration(store):
    other = replace(SETTING, penalty="ridge")
    store.write(other, 0, COLUMNS)
    store.part(other, 0).rename(store.part(SETTING, 0))


def _of_another_seed(store):
    shutil.copy(store.part(SETTING, 1), store.part(SETTING, 0))


def _by_other_code(store):
    file = store.part(SETTING, 0)
    table = pyarrow.parquet.read_table(file)
    notes = {**table.schema.metadata, b"code": b"0" * 16}
    pyarrow.parquet.write_table(table.replace_schema_metadata(notes), file)


def _without_notes(store):
    pyarrow.parquet.write_table(pyarrow.table(COLUMNS), store.part(SETTING, 0))


@pytest.mark.parametrize(
    "spoil",
    [
        _truncated,
        _without_end,
        _empty,
        _zeros,
        _of_another_configuration,
        _of_another_seed,
        _by_other_code,
        _without_notes,
    ],
)
def test_a_part_that_is_not_what_its_name_says_is_done_again(tmp_path, monkeypatch, spoil):
    once, again = tmp_path / "once", tmp_path / "again"
    run_study(TINY, once, SIZES)
    shutil.copytree(once, again)
    store = Store(again)
    spoil(store)
    assert not store.has(SETTING, 0)
    calls = Calls(monkeypatch)
    report = run_study(TINY, again, SIZES)
    assert calls.jobs == [(SETTING, 0)]
    assert report.finished == report.total
    assert_same_parts(once, again)
    assert tables(once) == tables(again)


def data_of(file):
    """Return the position of the data in a part, which precede its footer."""
    return data_of_intact(file.read_bytes())


def data_of_intact(content):
    return range(4, len(content) - 8 - int.from_bytes(content[-8:-4], "little"))


def test_damage_to_the_data_of_a_part_is_noticed(tmp_path):
    store = Store(tmp_path)
    store.write(SETTING, 0, replicate(SETTING, 0))
    good, file = store.read(SETTING, [0]), store.part(SETTING, 0)
    intact = file.read_bytes()
    rng = np.random.default_rng(0)
    noticed = 0
    for place in data_of(file)[::4]:
        spoilt = bytearray(intact)
        spoilt[place] ^= 1 << rng.integers(8)
        file.write_bytes(spoilt)
        assert store.has(SETTING, 0)
        try:
            found = store.read(SETTING, [0])
        except StudyError:
            noticed += 1
        else:  # a bit that says nothing of interest, as there are some in the headers of pages
            assert same_columns(found, good), place
    assert noticed > 0.5 * len(data_of(file)) / 4


def _flipped(file):
    content = bytearray(file.read_bytes())
    for place in data_of(file):
        content[place] ^= 0x10
    file.write_bytes(content)


def rewritten(change):
    """Return a function that rewrites a part with changes and its original metadata."""

    def spoil(file):
        table = pyarrow.parquet.read_table(file)
        columns = dict(zip(table.column_names, table.columns, strict=True))
        changed = change(columns)
        if isinstance(changed, dict):
            changed = pyarrow.table(changed)
        changed = changed.replace_schema_metadata(table.schema.metadata)
        pyarrow.parquet.write_table(changed, file, write_page_checksum=True)

    return spoil


def rows(*indices):
    which = pyarrow.array(indices, pyarrow.int64())
    return rewritten(lambda columns: {name: each.take(which) for name, each in columns.items()})


def with_hat(change):
    """Return a function that changes the values of a column."""
    return rewritten(lambda columns: {**columns, "hat": change(columns["hat"].to_numpy().copy())})


def put(value, at=3):
    def change(values):
        values[at] = value
        return values

    return with_hat(change)


def but(columns, name):
    return {each: values for each, values in columns.items() if each != name}


DAMAGES = {
    "a page": _flipped,
    "no rows": rows(),
    "one row": rows(0),
    "a row less": rows(0, 1, 2, 3, 4),
    "a row more": rows(0, 1, 2, 3, 4, 5, 5),
    "rows in another order": rows(0, 2, 1, 3, 4, 5),
    "NaN": put(np.nan),
    "infinity": put(-np.inf, at=0),
    "another value": put(1.0),
    "another last bit": with_hat(lambda values: np.nextafter(values, np.inf)),
    "zeros": with_hat(np.zeros_like),
    "texts": with_hat(lambda values: [str(each) for each in values]),
    "words": with_hat(lambda values: list("abcdef")),
    "bytes": with_hat(lambda values: [b"\xff"] * 6),
    "integers": with_hat(lambda values: values.astype(int)),
    "truths": with_hat(lambda values: values > 0),
    "single precision": with_hat(lambda values: values.astype(np.float32)),
    "missing values": with_hat(lambda values: [*values[:5], None]),
    "nothing but missing values": with_hat(lambda values: [None] * 6),
    "lists": with_hat(lambda values: [[each] for each in values]),
    "records": with_hat(lambda values: [{"value": each} for each in values]),
    "dates": with_hat(lambda values: values.astype("datetime64[s]")),
    "no columns": rewritten(lambda columns: {}),
    "a column less": rewritten(lambda columns: but(columns, "hat")),
    "no truth": rewritten(lambda columns: but(columns, "truth")),
    "a column more": rewritten(lambda columns: {**columns, "more": columns["hat"]}),
    "columns in another order": rewritten(lambda columns: dict(reversed(columns.items()))),
    "columns changed over": rewritten(
        lambda columns: {**columns, "hat": columns["tilde"], "tilde": columns["hat"]}
    ),
    "a column twice": rewritten(
        lambda columns: pyarrow.table([*columns.values(), columns["hat"]], [*columns, "hat"])
    ),
    "a column of another name": rewritten(
        lambda columns: {name.replace("train", "Train"): each for name, each in columns.items()}
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_part_is_named_and_once_deleted_done_again(tmp_path, finished, damage):
    folder = tmp_path / "folder"
    shutil.copytree(finished, folder)
    before, file = tables(folder), Store(folder).part(SETTING, 0)
    DAMAGES[damage](file)
    assert Store(folder).has(SETTING, 0)
    for redraw in (False, True):
        with pytest.raises(StudyError, match="is damaged") as error:
            run_study(TINY, folder, SIZES, redraw=redraw)
        assert str(file) in str(error.value)
        assert "delete it and run the same command again" in str(error.value)
        assert tables(folder) == before
    file.unlink()
    report = run_study(TINY, folder, SIZES)
    assert report.finished == report.total
    assert tables(folder) == before
    assert_same_parts(finished, folder)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Folder of an undisturbed study."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "write_figures", lambda folder, exhibits: [])
        run_study(TINY, folder, SIZES)
    return folder


def test_no_edit_of_a_part_changes_what_is_read(tmp_path):
    store = Store(tmp_path)
    store.write(SETTING, 0, replicate(SETTING, 0))
    good, file = store.read(SETTING, [0]), store.part(SETTING, 0)
    intact = file.read_bytes()
    rng = np.random.default_rng(0)
    outcomes = []
    for _ in range(500):
        edited = bytearray(intact)
        for _ in range(rng.integers(1, 4)):
            # most of them where it says what is where, which has no checksum of its own
            start = data_of_intact(intact).stop if rng.random() < 0.8 else 0
            place = rng.integers(start, len(intact))
            edited[place] = rng.integers(256) if rng.random() < 0.5 else edited[place] ^ 1
        file.write_bytes(edited)
        if not store.has(SETTING, 0):
            outcomes.append("missing")
            continue
        try:
            found = store.read(SETTING, [0])
        except StudyError as error:
            assert "is damaged" in str(error)  # noqa: PT017
            outcomes.append("damaged")
        else:
            assert same_columns(found, good)
            outcomes.append("harmless")
    assert {*outcomes} == {"missing", "damaged", "harmless"}


def test_a_part_of_very_many_rows_is_not_read(tmp_path):
    store = Store(tmp_path)
    store.write(SETTING, 0, replicate(SETTING, 0))
    file = store.part(SETTING, 0)
    notes = pyarrow.parquet.read_schema(file).metadata
    group = pyarrow.table({name: np.zeros(2**20) for name in NAMES}).replace_schema_metadata(notes)
    pyarrow.parquet.write_table(pyarrow.concat_tables([group] * 20), file)  # 1 GB, of few kB
    before = pyarrow.total_allocated_bytes()
    with pytest.raises(StudyError, match=r"is damaged \(expected 6 rows; got 20971520\)"):
        store.read(SETTING, [0])
    assert pyarrow.total_allocated_bytes() - before < 2**24


# ------------------------------------------------------------------------------------------------
# Pipes, folders, sockets and devices in place of files
# ------------------------------------------------------------------------------------------------


def _socket(file):
    here = os.getcwd()
    os.chdir(file.parent)  # since the names of sockets must be short
    with socket.socket(socket.AF_UNIX) as each:
        each.bind(file.name)
    os.chdir(here)


KINDS = {
    "pipe": os.mkfifo,
    "folder": os.mkdir,
    "socket": _socket,
    "zeros": partial(os.symlink, "/dev/zero"),
    "nothing": partial(os.symlink, "/dev/null"),
}


@pytest.fixture
def _no_test_waits_for_ever():
    def give_up(*_):
        raise TimeoutError("it waits for something that never comes")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("_no_test_waits_for_ever")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "place", ["part", "lock", "tiny/manifest.json", "tiny/summary.csv", "tiny/risk-n40-p20.csv"]
)
def test_what_is_no_file_is_named_and_not_waited_for(tmp_path, monkeypatch, finished, kind, place):
    folder = tmp_path / "folder"
    shutil.copytree(finished, folder)
    store = Store(folder)
    store.part(SETTING, 1).unlink()  # so that there is something to do
    file = store.part(SETTING, 0) if place == "part" else folder / place
    file.unlink()
    KINDS[kind](file)
    before = file.lstat()
    calls = Calls(monkeypatch)
    with pytest.raises(StudyError, match=r"not a (regular )?file") as error:
        run_study(TINY, folder, SIZES)
    assert file.name in str(error.value)
    assert bool(calls.jobs) == place.endswith(".csv")  # which come last
    after = file.lstat()
    assert (after.st_mode, after.st_ino) == (before.st_mode, before.st_ino)
    (os.rmdir if kind == "folder" else os.unlink)(file)
    run_study(TINY, folder, SIZES)
    assert tables(folder) == tables(finished)


@pytest.mark.usefixtures("_no_test_waits_for_ever")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "folder"])
@pytest.mark.parametrize("name", ["parts", "tiny"])
def test_what_is_no_folder_is_named_and_not_waited_for(tmp_path, kind, name):
    KINDS[kind](tmp_path / name)
    with pytest.raises(StudyError, match=f"cannot write .*{tmp_path}"):
        run_study(TINY, tmp_path, SIZES)


def test_notes_that_are_no_text_stop_nothing(tmp_path, finished):
    folder = tmp_path / "folder"
    shutil.copytree(finished, folder)
    file = Store(folder).part(SETTING, 0)
    table = pyarrow.parquet.read_table(file)
    notes = {**table.schema.metadata, b"versions": b"\xff\xfe"}
    pyarrow.parquet.write_table(table.replace_schema_metadata(notes), file)
    output = io.StringIO()
    run_study(TINY, folder, SIZES, console=Console(file=output, width=500))
    assert "computed with different versions" in output.getvalue()


def test_a_lock_that_is_a_link_leaves_the_file_as_it_is(tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "lock").symlink_to(mine)
    run_study(TINY, folder, SIZES)
    assert mine.read_text() == "mine"


# ------------------------------------------------------------------------------------------------
# Concurrent use of the folder
# ------------------------------------------------------------------------------------------------


def test_a_second_runner_is_kept_out(tmp_path):
    run_study(TINY, tmp_path, SIZES)
    with Store(tmp_path).alone():
        for redraw in (False, True):
            with pytest.raises(StudyError, match="another study is running in") as error:
                run_study(TINY, tmp_path, SIZES, redraw=redraw)
            assert str(tmp_path) in str(error.value)
    run_study(TINY, tmp_path, SIZES)


def test_the_folder_is_free_after_an_error(tmp_path, monkeypatch):
    def interrupted(job):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        Calls(patch, interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_study(TINY, tmp_path, SIZES)
    run_study(TINY, tmp_path, SIZES)


def test_what_killed_runners_left_is_swept_up(tmp_path):
    run_study(TINY, tmp_path, SIZES)
    part = Store(tmp_path).part(SETTING, 0)
    left = [
        part.with_name(f"{part.name}.12345.steinpath-partial"),
        tmp_path / "tiny/a.csv.12345.steinpath-partial",
    ]
    for file in left:
        file.write_text("half")
    folder = part.with_name("a folder.steinpath-partial")
    folder.mkdir()
    run_study(TINY, tmp_path, SIZES)
    assert leftovers(tmp_path) == [folder]


def test_files_of_others_are_not_swept_up(tmp_path):
    # the folder of a study may be a home folder, where browsers leave such files
    theirs = [tmp_path / "download.iso.partial", tmp_path / "Downloads" / "film.partial"]
    theirs[1].parent.mkdir()
    for file in theirs:
        file.write_text("half")
    run_study(TINY, tmp_path, SIZES)
    assert all(file.exists() for file in theirs)


def test_a_folder_whose_name_looks_like_a_leftover_does_no_harm(tmp_path):
    (tmp_path / "data.partial").mkdir()
    report = run_study(TINY, tmp_path, SIZES)
    assert report.finished == report.total


# ------------------------------------------------------------------------------------------------
# No space or permission
# ------------------------------------------------------------------------------------------------


def no_room_after(count, monkeypatch):
    """Allow a number of parts to be written, and no more."""
    really, seen = pyarrow.parquet.write_table, []

    def write_table(table, file, **options):
        seen.append(file)
        if len(seen) > count:
            file.write_bytes(b"PAR1")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        really(table, file, **options)

    monkeypatch.setattr(pyarrow.parquet, "write_table", write_table)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_full_disk_costs_nothing_that_was_finished(tmp_path, monkeypatch, jobs):
    once, again = tmp_path / "once", tmp_path / "again"
    run_study(TINY, once, replace(SIZES, reps=3))
    with monkeypatch.context() as patch:
        no_room_after(2, patch)
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


@pytest.fixture
def mounted(tmp_path):
    """Mount a file system of a given size, or resize an existing one."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root may mount")
    place = tmp_path / "mounted"
    place.mkdir()
    there = []

    def mount(options):
        options = ",".join(["remount"] * len(there) + [options])
        command = ["mount", "-t", "tmpfs", "-o", options, "steinpath-test", str(place)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("may not mount here")
        there.append(place)
        return place

    yield mount
    if there:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_disk_that_is_really_full(tmp_path, mounted):
    sizes = replace(SIZES, reps=12)
    run_study(TINY, tmp_path, sizes)
    folder = mounted("size=80k") / "again"
    with pytest.raises(StudyError, match="No space left on device"):
        run_study(TINY, folder, sizes)
    assert 0 < len(part_files(folder)) < 24
    assert leftovers(folder) == []
    assert all(pyarrow.parquet.read_table(file).num_rows == 6 for file in part_files(folder))
    mounted("size=16m")
    report = run_study(TINY, folder, sizes)
    assert report.finished == report.total == 24
    assert_same_parts(tmp_path, folder)


def test_a_folder_that_is_really_read_only(mounted):
    folder = mounted("size=1m")
    run_study(TINY, folder, SIZES)
    mounted("ro")
    with pytest.raises(StudyError, match=f"cannot write to {folder}: Read-only file system"):
        run_study(TINY, folder, replace(SIZES, reps=3))


@pytest.mark.parametrize("inside", ["", "deeper/still"])
def test_a_file_in_place_of_the_folder(tmp_path, inside):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StudyError, match="cannot write to"):
        run_study(TINY, tmp_path / "file" / inside, SIZES)
    assert (tmp_path / "file").read_text() == "mine"


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


def test_parts_are_those_of_the_replications(tmp_path):
    run_study(TINY, tmp_path, SIZES)
    assert has_parts(tmp_path, TINY, SIZES, (0, 1))
    found = Store(tmp_path).read(SETTING, [1])
    expected = parallel.attempt(parallel.Job(SETTING, 1)).curves
    assert same_columns({name: values[0] for name, values in found.items()}, expected)
