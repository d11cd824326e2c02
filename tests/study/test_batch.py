"""Replications in batches: those that would have been done one by one."""

import os
from concurrent.futures import BrokenExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from steinpath.simulate import PredictionErrors
from steinpath.study import (
    STUDIES,
    run_study,
)
from steinpath.study import (
    _batch as batch,
)
from steinpath.study import (
    _parallel as parallel,
)
from steinpath.study import (
    _runner as runner,
)
from steinpath.study._batch import draw_batch, most_members, replicate_batch
from steinpath.study._parallel import Job, in_batches
from steinpath.study._replicate import draw, replicate
from steinpath.study._settings import PAIRS, PAPER_NOISE, Setting
from studies import SIZES, TINY, tables

SETTING = Setting("lad", "lasso", 60, 25, 12, ("tilde", "hat"), "gaussian", "t2", "torch")


def on_numpy(setting):
    return replace(setting, backend="numpy")


def assert_same(found, expected, rtol):
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=rtol, err_msg=name)


@pytest.mark.parametrize(("loss", "penalty"), PAIRS)
@pytest.mark.parametrize("rows", ["gaussian", "uniform"])
def test_a_batch_is_its_replications(loss, penalty, rows):
    """Alone, in a batch, and by NumPy; where that draws other probes, up to their noise."""
    setting = replace(SETTING, loss=loss, penalty=penalty, rows=rows, noise=PAPER_NOISE[loss])
    together = replicate_batch(setting, range(3))
    for seed in range(3):
        assert_same(together[seed], replicate(setting, seed), 1e-6)
        expected = replicate(on_numpy(setting), seed)
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

    def start(setting, data, workers):
        sizes.append(len(data.drawn))
        return batch.start_batch(setting, data, workers)

    monkeypatch.setattr(parallel, "start_batch", start)
    monkeypatch.setattr(parallel, "most_members", lambda setting: 2)
    settings = [SETTING, replace(SETTING, penalty="mcp"), replace(SETTING, rows="uniform")]
    todo = [Job(setting, seed) for seed in range(3) for setting in settings]
    results = list(in_batches(todo, jobs))
    assert {result.job for result in results} == set(todo)
    assert sorted(sizes) == [1, 1, 1, 2, 2, 2]
    for result in results:
        assert result.seconds > 0
        assert_same(result.curves, replicate(*result.job), 1e-6)


def test_one_that_fails_costs_no_other(monkeypatch):
    def start(setting, data, workers):
        if any(each["hat"].bit_generator.state == bad for each in data.rngs):
            raise FloatingPointError("iterate 3 is not finite")
        return batch.start_batch(setting, data, workers)

    _, rngs = draw(SETTING, 2)
    bad = rngs["hat"].bit_generator.state
    monkeypatch.setattr(parallel, "start_batch", start)
    results = {o.job.seed: o for o in in_batches([Job(SETTING, s) for s in range(5)], 1)}
    assert len(results) == 5
    assert results[2].curves is None
    assert results[2].error.startswith("FloatingPointError: iterate 3 is not finite (in start")
    for seed in (0, 1, 3, 4):
        assert_same(results[seed].curves, replicate(SETTING, seed), 1e-6)


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
    """One of those that compute true risks."""
    with parallel._processes(2) as workers:
        with pytest.raises(BrokenExecutor):
            workers.submit(os._exit, 1).result()
        pending = batch.start_batch(SETTING, draw_batch(SETTING, [0, 1]), workers)
        for seed, finish in enumerate(pending):
            assert_same(finish(), replicate(SETTING, seed), 1e-6)


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
    setting = replace(study.plan(SIZES)[0], backend="torch")
    assert {"audited", "five", "ten", "loo"} <= set(setting.ways)
    assert_same(replicate_batch(setting, [0])[0], replicate(on_numpy(setting), 0), 1e-5)


def test_batches_are_as_large_as_memory_allows(monkeypatch):
    huge = replace(SETTING, n=100_000, p=50_000)
    assert most_members(SETTING) == 128
    assert most_members(huge) == 1
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10**9, 10**12))
    paper = replace(SETTING, n=2000, p=1000, iters=300, device="cuda")
    assert 1 < most_members(paper) < 10
