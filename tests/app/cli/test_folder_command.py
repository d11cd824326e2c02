"""Commands on folders of Parquet files, as one table and on a cluster."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from commands import COMMAND, call, houses, refused, spawn

distributed = pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

FEW = ("--n-iter", 8, "--n-alphas", 2, "--no-plots", "--json")


@pytest.fixture
def folder(tmp_path):
    """Write a table as a file and as a folder of three."""
    whole = houses()
    whole["site"] = np.arange(len(whole)) // 4
    whole.to_parquet(tmp_path / "whole.parquet")
    (tmp_path / "parts").mkdir()
    for k, rows in enumerate(np.split(np.arange(len(whole)), [50, 51])):
        whole.iloc[rows].to_parquet(tmp_path / "parts" / f"part-{k}.parquet")
    return tmp_path / "parts"


@pytest.fixture(scope="module")
def address():
    # threads, which start at once
    options = {"processes": False, "dashboard_address": "127.0.0.1:0", "protocol": "tcp"}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as workers:
        yield workers.scheduler_address


# Rows on a cluster have linear terms only.
LINEAR = ("--curves", "no", "--products", "no", "--transform-target", "no")


def fit(file, tmp_path, *arguments, command="fit"):
    out = tmp_path / "out"
    how = (*FEW, *LINEAR, "--out", out, *arguments)
    found = json.loads(call(command, file, "--target", "price", *how).stdout)
    model = json.loads((out / "model.json").read_text()) if command != "compare" else {}
    return found, model, pd.read_csv(out / "risk.csv"), (out / "report.html").read_text()


def test_a_folder_is_fitted_as_one_file(folder, tmp_path):
    expected = fit(tmp_path / "whole.parquet", tmp_path)
    found = fit(folder, tmp_path)
    assert found[:2] == expected[:2]
    pd.testing.assert_frame_equal(found[2], expected[2])
    assert "Predicting price from parts" in found[3]


def test_what_is_refused(folder, tmp_path, monkeypatch):
    there = ("fit", folder, "--target", "price")
    for options, message in (
        (("--workers", 2, "--cluster", "tcp://x:1"), "cannot be used together"),
        (("--workers", 2, "--time", "sold"), "--time cannot be used with --workers"),
        (("--workers", 0), "--workers"),
    ):
        assert message in refused(*there, *options, code=2)
    whole = tmp_path / "whole.parquet"
    message = refused("fit", whole, "--target", "price", "--cluster", "tcp://x:1", code=2)
    assert "--cluster requires a folder of Parquet files" in message
    assert "the columns are 'Fläche m²'" in refused("fit", folder, "--workers", 1, code=2)
    (folder / "part-3.parquet").write_text("no Parquet")
    assert "part-3.parquet" in refused(*there)
    assert "part-3.parquet" in refused(*there, "--workers", 2)
    (folder / "part-3.parquet").unlink()
    none = tmp_path / "none.json"
    message = refused(*there, "--cluster", none, code=1)
    assert message == f"Error: no workers at {none}: the scheduler file does not exist"
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "pip install 'steinpath[cluster]'" in refused(*there, "--workers", 1, code=1)


def test_errors_on_a_cluster_are_single_lines(folder, tmp_path, address):
    there = ("fit", folder, "--target", "price", "--cluster", address)
    assert "unknown column 'twon' (did you mean 'town'?)" in refused(*there, "--drop", "twon")
    bad = houses(5).assign(site=1, rooms=[1, 2, None, 4, 5])
    bad.to_parquet(folder / "part-9.parquet")
    assert "'rooms' (1, first in row 3 of part-9.parquet)" in refused(*there)


# the others take as long as the one that is left
SLOW = pytest.mark.slow
CASES = [
    pytest.param("memory", (), id="plain", marks=SLOW),
    pytest.param("files", (), id="plain, in files", marks=SLOW),
    pytest.param("memory", ("--group", "site"), id="groups", marks=SLOW),
    pytest.param("files", ("--group", "site"), id="groups, in files"),
    pytest.param("memory", ("--target", "garden", "--drop", "price"), id="classes", marks=SLOW),
]


@pytest.mark.parametrize(("where", "options"), CASES)
def test_a_cluster_fits_what_one_table_gives(
    folder, tmp_path, address, monkeypatch, where, options
):
    if where == "files":
        monkeypatch.setattr("steinpath.app.folder_data.fits", lambda *_: False)
    expected = fit(folder, tmp_path, *options)
    found = fit(folder, tmp_path, "--cluster", address, *options)
    assert_close(found[0], expected[0])
    assert_close(found[1], expected[1])
    pd.testing.assert_frame_equal(found[2], expected[2], rtol=1e-5, atol=1e-8)


def assert_close(found, expected, **close):
    """What JSON has of two fits: the same, but for the rounding of sums."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_close(found[key], expected[key], **close)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other, **close)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, **{"rel": 1e-6, "abs": 1e-8} | close)
    else:
        assert found == expected


@pytest.mark.slow
def test_workers_of_its_own(folder, tmp_path):
    options = ("--target", "price", *FEW, *LINEAR, "--impute", "--intervals")
    found = [
        spawn("fit", folder, *options, "--out", tmp_path / "out", *more)
        for more in ((), ("--workers", 2))
    ]
    assert [done.stderr for done in found] == ["", ""]
    found, expected = (json.loads(done.stdout) for done in reversed(found))
    intervals = [each.pop("coefficient_intervals") for each in (found, expected)]
    assert_close(found, expected)
    assert_close(*intervals, rel=1e-4, abs=1e-4)  # from tangents in single precision


@pytest.mark.slow
def test_ctrl_c_ends_the_workers_too(folder, tmp_path):
    command = [*COMMAND, "fit", folder, "--target", "price", "--workers", 2, "--n-iter", 10**5]
    process = subprocess.Popen(
        [*map(str, command), "--out", str(tmp_path / "out")],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        time.sleep(20)  # until the workers are there
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert said.strip() == "Error: stopped"
    until = time.monotonic() + 20
    while (left := has_processes(process.pid)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left


def has_processes(group):
    """Whether a group of processes has any."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
