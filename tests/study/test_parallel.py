"""Replications are identical bit for bit, wherever they run and after failures."""

import io
import json
import os
import re
import socket
import subprocess
import sys
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from rich.console import Console
from threadpoolctl import threadpool_info, threadpool_limits

import studies
from steinpath.study import STUDIES, StudyError, run_study
from steinpath.study import _parallel as parallel
from steinpath.study import _runner as runner
from steinpath.study._store import Store
from studies import SIZES, TINY, Calls, part_files, tables

RISK = STUDIES["risk"]


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch):
    monkeypatch.setattr(runner, "write_figures", lambda folder, exhibits: [])


@pytest.fixture(scope="module")
def cluster():
    """Address of a cluster of two processes with two threads each."""
    distributed = pytest.importorskip("distributed")
    options = {"dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=2, **options) as workers:
        yield workers.scheduler_address


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """Folder of an undisturbed study."""
    folder = tmp_path_factory.mktemp("reference")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "write_figures", lambda folder, exhibits: [])
        report = run_study(RISK, folder, SIZES)
        run_study(TINY, folder, replace(SIZES, reps=4))
    assert report.finished == report.total == 16
    return folder


def assert_same_study(folder, reference, study, seeds):
    found, expected = tables(folder), tables(reference)
    assert found == {name: expected[name] for name in expected if name.startswith(study.name)}
    one, other = Store(folder), Store(reference)
    for config in study.plan(SIZES):
        for seed in seeds:
            a, b = one.read(config, [seed]), other.read(config, [seed])
            assert list(a) == list(b)
            for name in a:
                assert np.array_equal(a[name], b[name], equal_nan=True), (config, seed, name)


# ------------------------------------------------------------------------------------------------
# Reproducibility
# ------------------------------------------------------------------------------------------------


def test_processes_find_the_same_to_the_last_bit(tmp_path, reference):
    report = run_study(RISK, tmp_path, SIZES, jobs=2)
    assert report.finished == report.total == 16
    assert_same_study(tmp_path, reference, RISK, (0, 1))


def test_a_cluster_finds_the_same_to_the_last_bit(tmp_path, reference, cluster):
    report = run_study(RISK, tmp_path, SIZES, cluster=cluster)
    assert report.finished == report.total == 16
    assert_same_study(tmp_path, reference, RISK, (0, 1))


def test_some_here_some_there(tmp_path, reference, cluster):
    run_study(TINY, tmp_path, SIZES, jobs=2)
    run_study(TINY, tmp_path, replace(SIZES, reps=3), cluster=cluster)
    run_study(TINY, tmp_path, replace(SIZES, reps=4))
    assert_same_study(tmp_path, reference, TINY, range(4))


def test_a_replication_here_has_one_thread_for_the_while(tmp_path, monkeypatch):
    def note(task):
        found.append({library["num_threads"] for library in threadpool_info()})

    found = []
    Calls(monkeypatch, note)
    with threadpool_limits(2):
        run_study(TINY, tmp_path, SIZES)
        note(None)
    assert found == [{1}, {1}, {1}, {1}, {2}]


@pytest.mark.parametrize("where", ["processes", "cluster"])
def test_a_replication_elsewhere_has_one_thread(tmp_path, monkeypatch, request, where):
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.setattr(parallel, "in_worker", partial(studies.note_threads, notes))
    address = request.getfixturevalue("cluster") if where == "cluster" else None
    run_study(TINY, tmp_path, SIZES, jobs=2, cluster=address)
    found = [file.read_text().split(" ", 1) for file in notes.iterdir()]
    assert len(found) == 4
    assert {counts for _, counts in found} == {"[1]"}
    assert str(os.getpid()) not in {pid for pid, _ in found}


# ------------------------------------------------------------------------------------------------
# Failing replications and dying workers
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["processes", "cluster"])
def test_a_replication_that_fails_elsewhere_is_reported(tmp_path, monkeypatch, request, where):
    address = request.getfixturevalue("cluster") if where == "cluster" else None
    unknown = replace(TINY.plan(SIZES)[0], rows="no such law")
    study = replace(TINY, plan=lambda sizes: [*TINY.plan(sizes), unknown])
    report = run_study(study, tmp_path, SIZES, jobs=2, cluster=address)
    assert (report.finished, report.total) == (4, 6)
    [failure] = report.failures
    assert failure.startswith("2 × KeyError: 'no such law' (in draw, line ")


def test_a_process_that_dies_is_replaced(tmp_path, monkeypatch, reference):
    """Other replications are unaffected, and the failed one is computed later."""
    sizes = replace(SIZES, reps=4)
    with monkeypatch.context() as patch:
        patch.setattr(parallel, "in_worker", studies.die_always)
        report = run_study(TINY, tmp_path, sizes, jobs=2)
    assert (report.finished, report.total) == (7, 8)
    [failure] = report.failures
    assert failure.startswith("1 × ")
    assert "died" in failure
    assert run_study(TINY, tmp_path, sizes).finished == 8
    assert_same_study(tmp_path, reference, TINY, range(4))


@pytest.mark.slow
def test_a_process_that_dies_once_costs_nothing(tmp_path, monkeypatch, reference):
    marks, out = tmp_path / "marks", tmp_path / "out"
    marks.mkdir()
    monkeypatch.setattr(parallel, "in_worker", partial(studies.die_once, marks))
    report = run_study(TINY, out, replace(SIZES, reps=4), jobs=2)
    assert list(marks.iterdir())
    assert (report.finished, report.total, report.failures) == (8, 8, [])
    assert_same_study(out, reference, TINY, range(4))


@pytest.mark.slow
def test_a_replication_that_kills_its_process_costs_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel, "in_worker", studies.die_always)
    report = run_study(TINY, tmp_path, replace(SIZES, reps=40), jobs=2)
    assert (report.finished, report.total) == (79, 80)
    [failure] = report.failures
    assert failure.startswith("1 × ")
    assert "died" in failure


def test_a_worker_of_a_cluster_that_dies_is_replaced(tmp_path, monkeypatch, reference, cluster):
    marks, out = tmp_path / "marks", tmp_path / "out"
    marks.mkdir()
    monkeypatch.setattr(parallel, "in_worker", partial(studies.die_once, marks))
    report = run_study(TINY, out, replace(SIZES, reps=4), cluster=cluster)
    assert list(marks.iterdir())
    assert (report.finished, report.total, report.failures) == (8, 8, [])
    assert_same_study(out, reference, TINY, range(4))


def test_a_connection_that_breaks_while_a_result_is_fetched(tmp_path, monkeypatch, cluster):
    from distributed import Future
    from distributed.comm import CommClosedError

    really, broken = Future.result, []

    def result(self, *args, **options):
        if not broken:
            broken.append(self.key)
            raise CommClosedError("in <TCP (closed)>: Stream is closed")
        return really(self, *args, **options)

    monkeypatch.setattr(Future, "result", result)
    report = run_study(TINY, tmp_path, SIZES, cluster=cluster)
    assert broken
    assert (report.finished, report.failures) == (4, [])


def test_a_connection_that_breaks_while_an_error_is_fetched(tmp_path, monkeypatch, cluster):
    from distributed import Future
    from distributed.comm import CommClosedError

    really, broken = Future.exception, []

    def exception(self, *args, **options):
        if not broken:
            broken.append(self.key)
            raise CommClosedError("in <TCP (closed)>: Stream is closed")
        return really(self, *args, **options)

    monkeypatch.setattr(parallel, "in_worker", studies.fail)
    monkeypatch.setattr(Future, "exception", exception)
    report = run_study(TINY, tmp_path, SIZES, cluster=cluster)
    assert broken
    assert (report.finished, report.failures) == (0, ["4 × ValueError: not today"])


def test_a_worker_with_other_code_ends_the_study(tmp_path, monkeypatch, cluster):
    monkeypatch.setattr(parallel, "in_worker", studies.other_code)
    with pytest.raises(StudyError, match="different version of steinpath"):
        run_study(TINY, tmp_path, SIZES, cluster=cluster)
    assert part_files(tmp_path) == []


def test_workers_with_other_versions_are_pointed_out(tmp_path, monkeypatch, cluster):
    output = io.StringIO()
    console = Console(file=output, width=500)
    run_study(TINY, tmp_path, SIZES, cluster=cluster, console=console)
    assert "different versions" not in output.getvalue()
    monkeypatch.setattr(parallel, "in_worker", studies.other_versions)
    run_study(TINY, tmp_path, replace(SIZES, reps=3), cluster=cluster, console=console)
    assert output.getvalue().count("computed with different versions") == 1


# ------------------------------------------------------------------------------------------------
# Local clusters, and no cluster
# ------------------------------------------------------------------------------------------------


def test_a_cluster_on_this_machine_needs_no_port_of_its_own(tmp_path, reference):
    pytest.importorskip("distributed")
    with socket.socket() as taken, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with suppress(OSError):  # the port of the dashboard is in use
            taken.bind(("", 8787))
            taken.listen()
        report = run_study(TINY, tmp_path, replace(SIZES, reps=4), cluster="1")
    assert report.finished == report.total == 8
    assert_same_study(tmp_path, reference, TINY, range(4))
    assert [str(each.message) for each in caught if "8787" in str(each.message)] == []


def listening(process):
    """Return the addresses on which a process and its children listen."""
    return [
        connection.laddr.ip
        for each in (process, *process.children(recursive=True))
        for connection in each.net_connections("inet")
        if connection.status == "LISTEN"
    ]


def test_a_cluster_on_this_machine_listens_to_this_machine_alone():
    psutil = pytest.importorskip("psutil")
    pytest.importorskip("distributed")
    before = Counter(listening(psutil.Process()))
    with parallel.connected("2") as client:
        client.wait_for_workers(2, timeout=30)
        found = Counter(listening(psutil.Process())) - before
        info = client.scheduler_info()
    assert found.keys() == {"127.0.0.1"}
    assert found.total() >= 6  # scheduler and its dashboard, two workers, two nannies
    addresses = [info["address"], *info["workers"], *(w["nanny"] for w in info["workers"].values())]
    assert len(addresses) == 5
    assert all(address.startswith("tcp://127.0.0.1:") for address in addresses)


@pytest.mark.slow
def test_a_cluster_on_this_machine_that_loses_its_only_worker_goes_on(tmp_path):
    pytest.importorskip("distributed")
    script = f"""
from functools import partial
from steinpath.study import _parallel as parallel, _runner as runner, run_study
import studies
parallel.in_worker = partial(studies.die_once, {str(tmp_path)!r})
runner.write_figures = lambda folder, exhibits: []
report = run_study(studies.TINY, {str(tmp_path / "out")!r}, studies.SIZES, cluster="1")
print("finished", report.finished, report.failures)
"""
    # a machine so busy that a worker takes longer to come back than Dask is patient
    patience = {"DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT": "100ms"}
    env = {**os.environ, **patience, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=45, check=False)
    assert "finished 4 []" in done.stdout, done.stderr


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense", "tcp://127.0.0.1"])
def test_a_cluster_that_is_not_there(tmp_path, address):
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "500ms"}),
        pytest.raises(StudyError, match=re.escape(f"no workers at {address}: ")),
    ):
        run_study(TINY, tmp_path, SIZES, cluster=address)
    assert part_files(tmp_path) == []


@pytest.mark.parametrize("cluster", ["0", "00", "", " "])
def test_a_cluster_of_no_workers_is_refused(tmp_path, monkeypatch, cluster):
    pytest.importorskip("distributed")
    calls = Calls(monkeypatch)
    with pytest.raises(StudyError, match="workers of at least 1"):
        run_study(TINY, tmp_path, SIZES, cluster=cluster)
    assert not calls.jobs


def test_digits_that_are_no_number_are_refused(tmp_path):
    dask = pytest.importorskip("dask")
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "500ms"}),
        pytest.raises(StudyError, match="no workers at ²: "),
    ):
        run_study(TINY, tmp_path, SIZES, cluster="²")


@pytest.mark.parametrize(
    "content", ["", "{", "null", "[]", "3", '"text"', "{}", '{"id": 1}', "[" * 100_000, b"\xff"]
)
def test_a_file_that_is_no_schedulers_is_refused(tmp_path, content):
    pytest.importorskip("distributed")
    file = tmp_path / "scheduler.json"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(
        StudyError, match=r"no workers at .*scheduler\.json: the scheduler file has no address"
    ):
        run_study(TINY, tmp_path, SIZES, cluster=str(file))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_scheduler_file_that_is_no_file_is_not_waited_for(tmp_path, make):
    pytest.importorskip("distributed")
    make(tmp_path / "scheduler.json")
    with pytest.raises(StudyError, match="the scheduler file does not exist"):
        run_study(TINY, tmp_path, SIZES, cluster=str(tmp_path / "scheduler.json"))


def test_a_scheduler_file_leads_to_its_cluster(tmp_path, cluster):
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"type": "Scheduler", "address": cluster}))
    report = run_study(TINY, tmp_path / "out", SIZES, cluster=str(file))
    assert report.finished == report.total == 4


def test_a_missing_library_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(StudyError, match=r"pip install 'steinpath\[cluster\]'"):
        run_study(TINY, tmp_path, SIZES, cluster="2")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(StudyError, match=r"pip install 'steinpath\[study\]'"):
        run_study(TINY, tmp_path, SIZES)
