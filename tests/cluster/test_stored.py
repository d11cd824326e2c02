"""Blocks in files of the workers: the same results as in memory, with far less memory."""

import gc
import os
import pickle
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, save_npz
from sklearn.base import clone

import steinpath as sp
from problems import draw
from steinpath.cluster._blocks import (
    StoredBlock,
    info_of,
    read_columns,
    read_pieces,
    stored,
)
from steinpath.cluster._design import fits

distributed = pytest.importorskip("distributed")
pa = pytest.importorskip("pyarrow")

PART = 2**20
X, Y, _ = draw(90, 20)
X = X + np.linspace(0, 3, 20)
PARTS = np.split(np.column_stack([X, Y]), [40, 55])
NAMES = [f"x{j}" for j in range(20)]
PROBLEM = {"loss": sp.LAD(), "penalty": sp.Lasso(0.2), "n_iter": 6, "fit_intercept": True}


@pytest.fixture(scope="module")
def cluster():
    # threads, which start at once
    options = {"processes": False, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as workers:
        yield workers


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        yield client
        assert_no_scratch(client)


def scratch(client):
    folders = client.run(lambda dask_worker: dask_worker.local_directory).values()
    return [file for folder in folders for file in Path(folder).glob("**/*.rows")]


def assert_no_scratch(client):
    deadline = time.monotonic() + 10
    while scratch(client) and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.02)
    assert not scratch(client)


def write(file, part, dtype=None):
    if file.suffix == ".npy":
        np.save(file, part)
    elif file.suffix == ".npz":
        save_npz(file, csr_array(part))
    else:
        from pyarrow import parquet

        columns = dict(zip([*NAMES, "y"], np.asarray(part, dtype).T, strict=True))
        parquet.write_table(pa.table(columns), file, row_group_size=7)
    return file


# On a cluster


@pytest.mark.parametrize(
    "kind", ["parquet", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("npy", "npz"))]
)
def test_results_are_those_in_memory(client, tmp_path, kind):
    files = [write(tmp_path / f"part-{k}.{kind}", part) for k, part in enumerate(PARTS)]
    response = "y" if kind == "parquet" else 20
    found = []
    for in_memory in (True, False):
        design, y = sp.distributed.from_files(files, response=response, in_memory=in_memory)
        assert len(scratch(client)) == (0 if in_memory or kind == "npz" else 3)
        path = sp.run(design, y, **PROBLEM)
        risk = sp.estimate_risk(path, rng=1, method="compressed", precision="float64")
        found.append((path.coef, path.intercept, path.fitted, path.dual, risk.values, risk.stderr))
        del design, path, risk
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    whole = sp.run(X, Y, **PROBLEM)
    np.testing.assert_allclose(found[1][0], whole.coef, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["npy", "npz", "parquet"])
def test_columns_are_chosen_by_name_or_position(client, tmp_path, kind):
    files = [write(tmp_path / f"part-{k}.{kind}", part) for k, part in enumerate(PARTS)]
    columns, response = ([3, 1], 20) if kind != "parquet" else (["x3", "x1"], "y")
    design, y = sp.distributed.from_files(files, columns=columns, response=response)
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(design.matmat(np.eye(2)), X[:, [3, 1]])
    with pytest.raises(ValueError, match=r"block 0 \(part-0.* has no column 99; it has"):
        sp.distributed.from_files(files, columns=[99])


def test_estimators_find_what_they_find_in_memory(client, tmp_path):
    files = [write(tmp_path / f"{k}.npy", part[:, :-1]) for k, part in enumerate(PARTS)]
    design = sp.distributed.from_files(files, in_memory=False)
    model = sp.LADLasso(n_alphas=4, n_iter=20, random_state=0)
    found, expected = (
        (model.coef_, model.best_risk_, model.predict_interval(X), model.coef_intervals().estimate)
        for model in (clone(model).fit(rows, Y) for rows in (design, X))
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


def test_arrays_in_files_stay_where_they_are(client, tmp_path):
    file = write(tmp_path / "X.npy", X)
    design = sp.distributed.from_files([file], in_memory=False)
    assert not scratch(client)
    expected = sp.run(X, Y, **PROBLEM).coef
    np.testing.assert_allclose(sp.run(design, Y, **PROBLEM).coef, expected, rtol=1e-9, atol=1e-9)
    del design
    assert file.exists()


@pytest.mark.parametrize("how", ["loaders", "pieces", "delayed", "dask array"])
def test_other_blocks_in_files(client, how):
    dask = pytest.importorskip("dask")
    da = pytest.importorskip("dask.array")
    blocks = [part[:, :-1] for part in PARTS]
    design = {
        "loaders": lambda: [partial(np.copy, block) for block in blocks],
        "pieces": lambda: [partial(in_pieces, block) for block in blocks],
        "delayed": lambda: [dask.delayed(np.copy)(block) for block in blocks],
        "dask array": lambda: da.from_array(X, chunks=(40, 7)),
    }[how]()
    make = sp.distributed.from_dask_array if how == "dask array" else sp.distributed.from_delayed
    design = make(design, in_memory=False)
    assert len(scratch(client)) == 3
    expected = sp.run(X, Y, **PROBLEM).coef
    np.testing.assert_allclose(sp.run(design, Y, **PROBLEM).coef, expected, rtol=1e-9, atol=1e-9)


def in_pieces(block):
    yield from np.array_split(block, 4)


def test_sparse_blocks_stay_in_memory(client):
    design = sp.distributed.from_delayed([partial(csr_array, X)], in_memory=False)
    assert not scratch(client)
    expected = sp.run(X, Y, **PROBLEM).coef
    np.testing.assert_allclose(sp.run(design, Y, **PROBLEM).coef, expected, rtol=1e-8, atol=1e-8)


def test_auto_looks_at_the_memory_of_the_workers(client, tmp_path, monkeypatch):
    files = [write(tmp_path / f"{k}.parquet", part) for k, part in enumerate(PARTS)]
    design = sp.distributed.from_files(files, columns=NAMES)
    assert not scratch(client)
    from steinpath.cluster import _design

    size = 40 * 20 * 8  # of the largest, which is alone on its worker; the others have more
    assert not fits(client, [10**15])
    monkeypatch.setattr(_design, "_memory_limit", limit(size * 3))
    assert fits(client, [size, 0])
    assert not fits(client, [2 * size, 0])
    design = sp.distributed.from_files(files, columns=NAMES)
    assert len(scratch(client)) == 3
    del design
    monkeypatch.setattr(_design, "_memory_limit", limit(0))  # there is none
    assert fits(client, [10**15])


def limit(size):
    return lambda dask_worker: size


@pytest.mark.parametrize(
    ("loader", "error", "message"),
    [
        (lambda: iter([X[:5], X[5:] * np.nan]), ValueError, r"block 0: X .* NaN"),
        (lambda: iter([X, np.full((3, 20), 1e200)]), ValueError, "block 0: X"),
        (lambda: (1 / 0 for _ in "a"), RuntimeError, "block 0 could not be loaded: ZeroDivision"),
        (lambda: iter([X[:0]]), ValueError, "X is empty: no block has any rows"),
        (lambda: "text", TypeError, "block 0"),
    ],
)
def test_blocks_that_are_no_good_leave_no_files(client, loader, error, message):
    with pytest.raises(error, match=message):
        sp.distributed.from_delayed([loader], in_memory=False)
    assert_no_scratch(client)


def test_what_in_memory_can_be(client, tmp_path):
    file = write(tmp_path / "X.npy", X)
    for bad in ("disk", None, 3):
        with pytest.raises(TypeError, match="in_memory"):
            sp.distributed.from_files([file], in_memory=bad)


# One block


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "bool"])
@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_blocks_are_the_same_in_files_and_in_memory(tmp_path, kind, dtype):
    part = (PARTS[0] * 2).astype(dtype)
    file = str(write(tmp_path / f"X.{kind}", part, dtype))
    for columns in (range(21), [3, 0, 7]):
        named = [[*NAMES, "y"][j] for j in columns] if kind == "parquet" else list(columns)
        block = stored(partial(read_pieces, file, named), "block 0", PART)
        wanted = np.dtype("float32" if dtype == "float32" else "float64")
        assert isinstance(block, StoredBlock)
        assert block.info.dtype == wanted
        design, expected = block.design, part[:, list(columns)].astype(float)
        np.testing.assert_allclose(design.matmat(np.eye(len(columns))), expected, rtol=1e-6)
        np.testing.assert_array_equal(read_columns(file, named).astype(float), expected)


def test_missing_values_in_parquet_are_refused(tmp_path):
    from pyarrow import parquet

    for k, column in enumerate(([1, None, 3], [True, None, False], [1.0, None, 2.0])):
        file = tmp_path / f"{k}.parquet"
        parquet.write_table(pa.table({"a": column}), file)
        with pytest.raises(ValueError, match=r"block 0: X .* NaN"):
            stored(partial(read_pieces, str(file), ["a"]), "block 0", PART)


def test_a_block_that_is_moved_is_made_anew(tmp_path):
    file = str(write(tmp_path / "X.parquet", PARTS[0]))
    loader = partial(read_pieces, file, NAMES)
    for source in (loader, X):
        block = stored(source, "block 0", PART)
        copy = pickle.loads(pickle.dumps(block))
        assert copy.rows.filename != block.rows.filename
        assert info_of(copy) == info_of(block)
        np.testing.assert_array_equal(copy.rows, block.rows)
        files = [copy.rows.filename, block.rows.filename]
        assert all(map(os.path.exists, files))
        del copy, block
        gc.collect()
        assert not any(map(os.path.exists, files))


# Memory

ROWS, COLUMNS = 120_000, 250
CHILD = """
import sys
import numpy as np
from distributed import Client
import steinpath as sp

def peak():  # the kernel's ru_maxrss would be that of the parent, if that has more
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines["VmHWM"].split()[0]) / 1024

with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
    small, y = sp.distributed.from_files(sys.argv[2:], response="y", columns=["x0"])
    steps = sp.ChambollePock(0.1, 0.1)
    args = y, sp.LAD(), sp.Lasso(1.0), steps, 3
    sp.run(small, *args)  # what is imported counts for no one
    before = peak()
    in_memory = sys.argv[1] == "memory"
    design = sp.distributed.from_files(sys.argv[2:], response="y", in_memory=in_memory)[0]
    sp.run(design, *args)
    print(peak() - before)
"""


@pytest.fixture(scope="module")
def large_files(tmp_path_factory):
    from pyarrow import parquet

    folder, rng = tmp_path_factory.mktemp("large"), np.random.default_rng(0)
    names = [f"x{j}" for j in range(COLUMNS)]
    files = [folder / f"{k}.parquet" for k in range(2)]
    few = rng.integers(0, 100, (1000, COLUMNS)) / 8.0  # soon written
    table = pa.table(dict(zip(names, few.T, strict=True)) | {"y": rng.standard_normal(1000)})
    for file in files:
        with parquet.ParquetWriter(file, table.schema) as writer:
            for _ in range(ROWS // len(files) // 5000):
                writer.write_table(pa.concat_tables([table] * 5))
    return files


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
@pytest.mark.parametrize("where", ["files", pytest.param("memory", marks=pytest.mark.slow)])
def test_memory_stays_far_below_the_data(large_files, where):
    size = ROWS * COLUMNS * 8 / 2**20
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, where, *large_files],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    used = float(done.stdout)
    if where == "memory":  # or this would not measure what it is to measure
        assert used > 0.9 * size
    else:
        assert used < size / 2
