"""Replications in batches are the same as single replications."""

import os
import signal
import subprocess
import sys
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from multiprocessing import Pipe
from threading import Event

import numpy as np
import pytest
import torch

from steinpath.simulate import PredictionErrors
from steinpath.study import (
    STUDIES,
    StudyError,
    run_study,
)
from steinpath.study import (
    _batch as batch,
)
from steinpath.study import (
    _lanes as lanes,
)
from steinpath.study import (
    _runner as runner,
)
from steinpath.study._batch import draw_batch, most_members, replicate_batch
from steinpath.study._lanes import in_batches
from steinpath.study._parallel import Job, JobResult
from steinpath.study._replicate import draw, replicate
from steinpath.study._settings import PAIRS, PAPER_NOISE, Configuration
from studies import SIZES, TINY, tables

SETTING = Configuration("lad", "lasso", 60, 25, 12, ("tilde", "hat"), "gaussian", "t2", "torch")


def on_numpy(config):
    return replace(config, backend="numpy")


def assert_same(found, expected, rtol):
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=rtol, err_msg=name)


@pytest.mark.parametrize(("loss", "penalty"), PAIRS)
@pytest.mark.parametrize("rows", ["gaussian", "uniform"])
def test_a_batch_is_its_replications(loss, penalty, rows):
    """Alone, in a batch, and with NumPy; up to Monte Carlo error where probes differ."""
    config = replace(SETTING, loss=loss, penalty=penalty, rows=rows, noise=PAPER_NOISE[loss])
    together = replicate_batch(config, range(3))
    for seed in range(3):
        assert_same(together[seed], replicate(config, seed), 1e-6)
        expected = replicate(on_numpy(config), seed)
        assert_same(together[seed], expected, 1e-5 if loss == "lad" else 0.15)
        np.testing.assert_allclose(together[seed]["truth"], expected["truth"], rtol=1e-12)


def test_data_are_drawn_on_the_device():
    data = draw_batch(SETTING, [3, 4], jobs=2)
    assert data.X.shape == (2, 60, 25)
    for k, seed in enumerate((3, 4)):
        alone, _ = draw(on_numpy(SETTING), seed)
        np.testing.assert_allclose(data.X[k], alone.X, atol=1e-12)
        np.testing.assert_allclose(data.y[k], alone.y, atol=1e-12)


@pytest.mark.parametrize("jobs", [1, 2])
def test_all_tasks_are_done_in_batches_that_fit(monkeypatch, jobs):
    sizes = []

    def start(config, data, workers):
        sizes.append(len(data.drawn))
        return batch.start_batch(config, data, workers)

    monkeypatch.setattr(lanes, "start_batch", start)
    monkeypatch.setattr(lanes, "most_members", lambda config, lanes: 2)
    configs = [SETTING, replace(SETTING, penalty="mcp"), replace(SETTING, rows="uniform")]
    todo = [Job(config, seed) for seed in range(3) for config in configs]
    results = list(in_batches(todo, jobs))
    assert {result.job for result in results} == set(todo)
    assert sorted(sizes) == [1, 1, 1, 2, 2, 2]
    for result in results:
        assert result.seconds > 0
        assert_same(result.curves, replicate(*result.job), 1e-6)


def test_one_that_fails_costs_no_other(monkeypatch):
    def start(config, data, workers):
        if any(each["hat"].bit_generator.state == bad for each in data.rngs):
            raise FloatingPointError("iterate 3 is not finite")
        return batch.start_batch(config, data, workers)

    _, rngs = draw(SETTING, 2)
    bad = rngs["hat"].bit_generator.state
    monkeypatch.setattr(lanes, "start_batch", start)
    results = {o.job.seed: o for o in in_batches([Job(SETTING, s) for s in range(5)], 1)}
    assert len(results) == 5
    assert results[2].curves is None
    assert results[2].error.startswith("FloatingPointError: iterate 3 is not finite (in start")
    for seed in (0, 1, 3, 4):
        assert_same(results[seed].curves, replicate(SETTING, seed), 1e-6)


@pytest.mark.parametrize("device", ["nowhere", "meta:x"])
def test_a_device_that_is_not_there_is_refused(tmp_path, device):
    with pytest.raises(StudyError, match=f"torch cannot use the device '{device}'"):
        run_study(TINY, tmp_path, SIZES, backend="torch", device=device)


def test_a_study_is_redrawn_without_its_device(tmp_path):
    """For example, without a GPU."""
    report = run_study(TINY, tmp_path, SIZES, backend="torch", device="cuda", redraw=True)
    assert report.finished == 0


def test_what_cannot_be_drawn_is_a_result():
    todo = [Job(replace(SETTING, noise="cauchy"), seed) for seed in range(2)]
    results = list(in_batches(todo, 1))
    assert [result.curves for result in results] == [None, None]
    assert all("noise must be one of" in result.error for result in results)


def test_a_true_risk_that_fails_is_a_result(monkeypatch):
    def fail(*arguments):
        raise ArithmeticError("the integral did not converge")

    monkeypatch.setattr(PredictionErrors, "risk", fail)
    (result,) = in_batches([Job(SETTING, 0)], 1)
    assert result.curves is None
    assert "the integral did not converge" in result.error


def test_a_worker_that_dies_costs_nothing():
    """One of the processes that compute true risks."""
    with lanes._processes(2) as workers:
        with pytest.raises(BrokenExecutor):
            workers.submit(os._exit, 1).result()
        pending = batch.start_batch(SETTING, draw_batch(SETTING, [0, 1]), workers)
        for seed, finish in enumerate(pending):
            assert_same(finish(), replicate(SETTING, seed), 1e-6)


# ------------------------------------------------------------------------------------------------
# Several processes on a device
# ------------------------------------------------------------------------------------------------

SHARING = [replace(SETTING, penalty=penalty, p=p) for p in (10, 25) for penalty in ("lasso", "mcp")]
TODO = [Job(config, seed) for seed in range(2) for config in SHARING]


def assert_same_bits(found, expected):
    assert {result.job for result in found} == {result.job for result in expected}
    curves = {result.job: result.curves for result in expected}
    for result in found:
        assert result.curves.keys() == curves[result.job].keys()
        for name, values in result.curves.items():
            np.testing.assert_array_equal(values, curves[result.job][name])


def test_another_process_finds_the_same_bits():
    assert_same_bits(list(in_batches(TODO, 1, lanes=1)), list(in_batches(TODO, 1)))


@pytest.mark.slow
def test_several_processes_find_the_same_bits():
    todo = [Job(replace(config, rows="uniform"), seed) for config, seed in TODO]
    assert_same_bits(list(in_batches(TODO + todo, 4, lanes=2)), list(in_batches(TODO + todo, 1)))


def dealt(groups, *does):
    """Deal groups to threads that run these functions with their end of a connection."""
    with ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(len(does)))
        connections = []
        for do in does:
            ours, theirs = Pipe()
            connections.append(stack.enter_context(ours))
            threads.submit(do, theirs)  # which closes it
        return list(lanes._dealt(groups, connections))


def ask(connection):
    connection.send(None)
    return connection.recv()


def do_all(connection, when=None):
    with connection:
        if when is not None:
            when.wait(10)
        while group := ask(connection):
            for job in lanes._jobs_of(group):
                connection.send(JobResult(job, {}))


def die_after_one(connection, begun):
    """Take two groups, like a lane that draws ahead, and end after one replication."""
    with connection:
        group = ask(connection)
        ask(connection)
        begun.set()
        connection.send(JobResult(lanes._jobs_of(group)[0], {}))


GROUPS = [[((seed,), SETTING), ((seed,), replace(SETTING, penalty="mcp"))] for seed in range(5)]


def test_shares_are_about_as_large():
    large, small = replace(SETTING, p=240), replace(SETTING, p=100)
    groups = [[((seed,), config)] for config in (small, large) for seed in range(4)]
    shares = lanes._shares(groups, 3)
    assert [[config.p for [(_, config)] in share] for share in shares] == [
        [240, 240],
        [100, 100, 240],
        [100, 100, 240],
    ]


def test_all_groups_are_dealt():
    results = dealt(GROUPS, do_all, do_all)
    assert sorted(result.job.seed for result in results) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert not any(result.error for result in results)


def test_a_process_that_dies_costs_what_it_had():
    begun = Event()
    results = dealt(GROUPS, partial(die_after_one, begun=begun), partial(do_all, when=begun))
    assert len({result.job for result in results}) == len(results) == 10
    failed = [result for result in results if result.error]
    assert len(failed) == 3
    assert {result.error for result in failed} == {lanes._DIED}


def test_if_all_processes_die_the_rest_fails():
    results = dealt(GROUPS, *[partial(die_after_one, begun=Event())] * 2)
    assert len({result.job for result in results}) == len(results) == 10
    assert sum(not result.error for result in results) == 2


@pytest.mark.slow
def test_a_process_that_is_killed_is_reported():
    psutil = pytest.importorskip("psutil")
    # of 64 batches, most remain when the first results arrive
    todo = [Job(replace(SETTING, iters=12 + k), seed) for k in range(64) for seed in range(2)]
    results = in_batches(todo, 1, lanes=1)
    first = next(results)
    assert not first.error
    for child in psutil.Process().children():
        if any("popen_loky_posix" in word for word in child.cmdline()):
            child.kill()
    others = list(results)
    assert {first.job, *(result.job for result in others)} == set(todo)
    assert lanes._DIED in {result.error for result in others}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["Ctrl-C", "closed", "killed"])
def test_processes_end_with_the_one_that_started_them(how):
    psutil = pytest.importorskip("psutil")
    script = """
import sys
from test_batch import TODO, in_batches
results = in_batches(TODO, 4, lanes=2)
next(results)
print("begun", flush=True)
if sys.argv[1] == "closed":
    sys.stdin.readline()
    results.close()
    print("closed", flush=True)
while True:
    list(results)
    results = in_batches(TODO, 4, lanes=2)
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, how]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE) | {"text": True}
    with subprocess.Popen(command, env=env, start_new_session=True, **pipes) as process:
        try:
            assert process.stdout.readline() == "begun\n"
            children = []
            for child in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.Error):  # one that has just ended
                    children += [child] if "popen_loky_posix" in str(child.cmdline()) else []
            assert children
            if how == "closed":
                print(file=process.stdin, flush=True)
                assert process.stdout.readline() == "closed\n"
            else:
                sent = signal.SIGINT if how == "Ctrl-C" else signal.SIGKILL
                (os.killpg if how == "Ctrl-C" else os.kill)(process.pid, sent)
                _, errors = process.communicate(timeout=30)
                assert how == "killed" or errors.rstrip().endswith("KeyboardInterrupt")
                assert errors.count("Traceback") == (how == "Ctrl-C")
            _, alive = psutil.wait_procs(children, timeout=10)
            assert not alive
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("jobs", "count", "device", "expected"),
    [(16, 8, "cuda", lanes._LANES), (3, 8, "cuda", 0), (16, 2, "cuda", 0), (16, 8, "cpu", 0)],
)
def test_several_processes_share_a_gpu_if_there_is_enough_to_do(
    monkeypatch, jobs, count, device, expected
):
    @contextmanager
    def started(count, device, jobs):
        found.append(count)
        yield []

    found = []
    monkeypatch.setattr(lanes, "_started", started)
    monkeypatch.setattr(lanes, "_check_device", lambda device: None)
    monkeypatch.setattr(lanes, "_groups", lambda seeds, lanes: [])
    monkeypatch.setattr(lanes, "_work", lambda groups, device, jobs: (each for each in ()))
    todo = [Job(replace(SETTING, device=device, p=10 + k), 0) for k in range(count)]
    list(in_batches(todo, jobs))
    assert found == [expected] * bool(expected)


def test_a_study_in_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "write_figures", lambda folder, exhibits: [])
    for backend in ("numpy", "torch"):
        report = run_study(TINY, tmp_path / backend, SIZES, backend=backend, jobs=2)
        assert report.finished == report.total == 4
        again = run_study(TINY, tmp_path / backend, SIZES, backend=backend)
        assert again.finished == 4
    assert tables(tmp_path / "torch").keys() == tables(tmp_path / "numpy").keys()


def test_other_ways_are_done_one_by_one():
    study = STUDIES["stopping"]
    config = replace(study.plan(SIZES)[0], backend="torch")
    assert {"audited", "five", "ten", "loo"} <= set(config.ways)
    assert_same(replicate_batch(config, [0])[0], replicate(on_numpy(config), 0), 1e-5)


def test_batches_are_as_large_as_memory_allows(monkeypatch):
    huge = replace(SETTING, n=100_000, p=50_000)
    assert most_members(SETTING) == 128
    assert most_members(huge) == 1
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10**9, 10**12))
    paper = replace(SETTING, n=2000, p=1000, iters=300, device="cuda")
    assert 1 < most_members(paper) < 10
