"""Replications in batches are the same as single replications."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from steinpath.simulate import PredictionErrors
from steinpath.study import StudyError, run_study
from steinpath.study import _parallel as parallel
from steinpath.study._parallel import Job, in_batches
from steinpath.study._replicate import most_members, replicate, replicate_batch
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
    together = replicate_batch(config, (0, 1, 2))
    for seed in range(3):
        assert_same(together[seed], replicate(config, seed), 1e-6)
        expected = replicate(on_numpy(config), seed)
        assert_same(together[seed], expected, 1e-5 if loss == "lad" else 0.15)
        np.testing.assert_allclose(together[seed]["truth"], expected["truth"], rtol=1e-12)


@pytest.mark.parametrize("jobs", [1, 2])
def test_all_tasks_are_done_in_batches_that_fit(monkeypatch, jobs):
    sizes = []

    def batch(config, seeds, jobs):
        sizes.append(len(seeds))
        return replicate_batch(config, seeds, jobs)

    monkeypatch.setattr(parallel, "replicate_batch", batch)
    monkeypatch.setattr(parallel, "most_members", lambda config: 2)
    configs = [SETTING, replace(SETTING, penalty="mcp"), replace(SETTING, rows="uniform")]
    todo = [Job(config, seed) for seed in range(3) for config in configs]
    results = list(in_batches(todo, jobs))
    assert {result.job for result in results} == set(todo)
    assert sorted(sizes) == [1, 1, 1, 2, 2, 2]
    for result in results:
        assert float(result.notes["seconds"]) >= 0
        assert_same(result.curves, replicate(*result.job), 1e-6)


def test_one_that_fails_costs_no_other(monkeypatch):
    def batch(config, seeds, jobs):
        if 2 in seeds:
            raise FloatingPointError("iterate 3 is not finite")
        return replicate_batch(config, seeds, jobs)

    monkeypatch.setattr(parallel, "replicate_batch", batch)
    results = {o.job.seed: o for o in in_batches([Job(SETTING, s) for s in range(5)], 1)}
    assert len(results) == 5
    assert not results[2].curves
    assert results[2].error.startswith("FloatingPointError: iterate 3 is not finite (in batch")
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


def test_data_and_true_risks_that_fail_are_results(monkeypatch):
    def fail(*arguments):
        raise ArithmeticError("the integral did not converge")

    todo = [Job(replace(SETTING, noise="cauchy"), seed) for seed in range(2)]
    results = list(in_batches(todo, 1))
    assert [result.curves for result in results] == [{}, {}]
    assert all("noise must be one of" in result.error for result in results)
    monkeypatch.setattr(PredictionErrors, "risk", fail)
    (result,) = in_batches([Job(SETTING, 0)], 1)
    assert not result.curves
    assert "the integral did not converge" in result.error


@pytest.mark.usefixtures("no_figures")
def test_a_study_in_batches(tmp_path):
    for backend in ("numpy", "torch"):
        report = run_study(TINY, tmp_path / backend, SIZES, backend=backend, jobs=2)
        assert report.finished == report.total == 4
        again = run_study(TINY, tmp_path / backend, SIZES, backend=backend)
        assert again.finished == 4
    assert tables(tmp_path / "torch").keys() == tables(tmp_path / "numpy").keys()


def test_batches_are_as_large_as_memory_allows(monkeypatch):
    huge = replace(SETTING, n=100_000, p=50_000)
    assert most_members(SETTING) == 128
    assert most_members(huge) == 1
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10**9, 10**12))
    paper = replace(SETTING, n=2000, p=1000, iters=300, device="cuda")
    assert 1 < most_members(paper) < 10
