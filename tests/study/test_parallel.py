"""Replications are identical bit for bit, wherever they run and after failures."""

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

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import studies
from steinpath.study import STUDIES, StudyError, run_study
from steinpath.study import _parallel as parallel
from steinpath.study._store import Store
from studies import SIZES, TINY, Calls, columns, part_files, tables

RISK = STUDIES["risk"]

pytestmark = pytest.mark.usefixtures("no_figures")


@pytest.fixture(scope="module")
def cluster():
    """Address of a cluster of two processes with two threads each."""
    distributed = pytest.importorskip("distributed")
    options = {"dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=2, **options) as workers:
        yield workers.scheduler_address


@pytest.fixture(params=["processes", "cluster"])
def address(request):
    """Address of a cluster, or none: processes of this machine."""
    return request.getfixturevalue("cluster") if request.param == "cluster" else None


def assert_same_study(folder, finished, study, seeds):
    expected = tables(finished / study.name)
    assert tables(folder / study.name) == expected
    one, other = Store(folder), Store(finished)
    for config in study.plan(SIZES):
        for seed in seeds:
            assert columns(one.part(config, seed)) == columns(other.part(config, seed))


# Reproducibility


def test_processes_find_the_same_to_the_last_bit(tmp_path, finished, address):
    report = run_study(RISK, tmp_path, SIZES, jobs=2, cluster=address)
    assert report.finished == report.total == 16
    assert_same_study(tmp_path, finished, RISK, (0, 1))


def test_a_replication_here_has_one_thread_for_the_while(tmp_path, monkeypatch):
    def note(task):
        found.append({library["num_threads"] for library in threadpool_info()})

    found = []
    Calls(monkeypatch, note)
    with threadpool_limits(2):
        run_study(TINY, tmp_path, SIZES)
        note(None)
    assert found == [{1}, {1}, {1}, {1}, {2}]


def test_a_replication_elsewhere_has_one_thread(tmp_path, monkeypatch, address):
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.setattr(parallel, "in_worker", partial(studies.note_threads, notes))
    run_study(TINY, tmp_path, SIZES, jobs=2, cluster=address)
    found = [file.read_text().split(" ", 1) for file in notes.iterdir()]
    assert len(found) == 4
    assert {counts for _, counts in found} == {"[1]"}
    assert str(os.getpid()) not in {pid for pid, _ in found}


# Failing replications and dying workers


def test_a_replication_that_fails_elsewhere_is_reported(tmp_path, monkeypatch, address):
    unknown = replace(TINY.plan(SIZES)[0], rows="no such law")
    study = replace(TINY, plan=lambda sizes: [*TINY.plan(sizes), unknown])
    report = run_study(study, tmp_path, SIZES, jobs=2, cluster=address)
    assert (report.finished, report.total) == (4, 6)
    [failure] = report.failures
    assert failure.startswith("2 × KeyError: 'no such law' (in draw, line ")


def test_a_process_that_dies_is_replaced(tmp_path, monkeypatch, finished):
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
    assert_same_study(tmp_path, finished, TINY, range(4))


def test_a_worker_that_dies_once_costs_nothing(tmp_path, monkeypatch, finished, address):
    marks, out = tmp_path / "marks", tmp_path / "out"
    marks.mkdir()
    monkeypatch.setattr(parallel, "in_worker", partial(studies.die_once, marks))
    report = run_study(TINY, out, replace(SIZES, reps=4), jobs=2, cluster=address)
    assert list(marks.iterdir())
    assert (report.finished, report.total, report.failures) == (8, 8, [])
    assert_same_study(out, finished, TINY, range(4))


@pytest.mark.parametrize(
    ("method", "expected"),
    [("result", (4, [])), ("exception", (0, ["4 × ValueError: not today"]))],
)
def test_after_a_lost_connection_the_rest_is_tried_again(
    tmp_path, monkeypatch, cluster, method, expected
):
    from distributed import Future
    from distributed.comm import CommClosedError

    really, broken = getattr(Future, method), []

    def breaks(self, *args, **options):
        if not broken:
            broken.append(self.key)
            raise CommClosedError("in <TCP (closed)>: Stream is closed")
        return really(self, *args, **options)

    if method == "exception":
        monkeypatch.setattr(parallel, "in_worker", studies.fail)
    monkeypatch.setattr(Future, method, breaks)
    report = run_study(TINY, tmp_path, SIZES, cluster=cluster)
    assert broken
    assert (report.finished, report.failures) == expected


def test_a_connection_that_is_lost_each_time_is_a_failure(tmp_path, monkeypatch, cluster):
    from distributed import Future

    def breaks(self, *args, **options):
        raise OSError("Stream is closed")

    monkeypatch.setattr(Future, "exception", breaks)
    report = run_study(TINY, tmp_path, SIZES, cluster=cluster)
    assert report.failures == [f"4 × the connection to the cluster {cluster} was lost"]


# Local clusters, and no cluster


def test_a_cluster_on_this_machine_needs_no_port_of_its_own(tmp_path, finished):
    pytest.importorskip("distributed")
    with socket.socket() as taken, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with suppress(OSError):  # the port of the dashboard is in use
            taken.bind(("", 8787))
            taken.listen()
        report = run_study(TINY, tmp_path, replace(SIZES, reps=4), cluster="1")
    assert report.finished == report.total == 8
    assert_same_study(tmp_path, finished, TINY, range(4))
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


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense", "tcp://127.0.0.1", "²"])
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


@pytest.mark.parametrize("content", [None, "", "{", "null", "[]", "3", '{"id": 1}'])
def test_a_file_that_is_no_schedulers_is_refused(tmp_path, content):
    pytest.importorskip("distributed")
    file = tmp_path / "scheduler.json"
    if content is not None:  # and a missing one is not waited for
        file.write_text(content)
    problem = "does not exist" if content is None else "has no address"
    with pytest.raises(StudyError, match=rf"no workers at .*json: the scheduler file {problem}"):
        run_study(TINY, tmp_path, SIZES, cluster=str(file))


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
