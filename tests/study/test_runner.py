"""The runner: what is missing is done, what is there is kept, and all of it is on record."""

import io
import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from rich.console import Console

from steinpath.study import STUDIES, Sizes, run_study
from steinpath.study import _manifest as manifest
from steinpath.study import _runner as runner
from steinpath.study._store import Store
from studies import SIZES, TINY, Calls, assert_same_parts, part_files, tables

RISK, UNIVERSALITY = STUDIES["risk"], STUDIES["universality"]


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch):
    monkeypatch.setattr(runner, "write_figures", lambda folder, exhibits: [])


def refuse(job):
    raise AssertionError("nothing should be done")


def manifest_of(folder, study=TINY):
    return json.loads((folder / study.name / "manifest.json").read_text())


# ------------------------------------------------------------------------------------------------
# What is missing, and no more
# ------------------------------------------------------------------------------------------------


def test_a_second_run_does_nothing_and_finds_the_same(tmp_path, monkeypatch):
    first = run_study(RISK, tmp_path, SIZES)
    assert first.finished == first.total == 16
    assert len(first.summary) == 16
    assert not first.failures
    before = tables(tmp_path), [file.read_bytes() for file in part_files(tmp_path)]
    calls = Calls(monkeypatch, refuse)
    second = run_study(RISK, tmp_path, SIZES)
    assert not calls.jobs
    assert second == first
    assert (tables(tmp_path), [file.read_bytes() for file in part_files(tmp_path)]) == before


def test_more_replications_are_added_to_those_that_are_there(tmp_path, monkeypatch):
    run_study(TINY, tmp_path / "two", SIZES)
    calls = Calls(monkeypatch)
    report = run_study(TINY, tmp_path / "two", replace(SIZES, reps=4))
    assert [seed for _, seed in calls.jobs] == [2, 2, 3, 3]
    assert report.finished == report.total == 8
    run_study(TINY, tmp_path / "four", replace(SIZES, reps=4))
    assert tables(tmp_path / "two") == tables(tmp_path / "four")
    assert_same_parts(tmp_path / "two", tmp_path / "four")


def test_fewer_replications_are_those_of_a_smaller_study(tmp_path, monkeypatch):
    run_study(TINY, tmp_path / "four", replace(SIZES, reps=4))
    run_study(TINY, tmp_path / "two", SIZES)
    Calls(monkeypatch, refuse)
    report = run_study(TINY, tmp_path / "four", SIZES)
    assert report.finished == report.total == 4
    assert tables(tmp_path / "two") == tables(tmp_path / "four")


def test_seeds_follow_the_first(tmp_path, monkeypatch):
    run_study(TINY, tmp_path, SIZES)
    calls = Calls(monkeypatch)
    run_study(TINY, tmp_path, SIZES, seed=1)
    assert [seed for _, seed in calls.jobs] == [2, 2]


def test_all_settings_come_once_before_any_comes_twice(tmp_path, monkeypatch):
    calls = Calls(monkeypatch)
    run_study(TINY, tmp_path, SIZES)
    plan = TINY.plan(SIZES)
    assert calls.jobs == [(setting, seed) for seed in (0, 1) for setting in plan]


def test_studies_share_what_they_have_in_common(tmp_path, monkeypatch):
    run_study(RISK, tmp_path, SIZES)
    calls = Calls(monkeypatch)
    report = run_study(UNIVERSALITY, tmp_path, SIZES)
    assert report.total == 32
    assert len(calls.jobs) == 16
    assert {setting.rows for setting, _ in calls.jobs} == {"uniform"}


def test_a_study_whose_replications_are_all_there_from_another(tmp_path, monkeypatch):
    run_study(RISK, tmp_path / "alone", SIZES)
    run_study(UNIVERSALITY, tmp_path / "shared", SIZES)
    Calls(monkeypatch, refuse)
    report = run_study(RISK, tmp_path / "shared", SIZES)
    assert report.finished == report.total == 16
    mine = {file: text for file, text in tables(tmp_path / "shared").items() if "risk" in file}
    assert mine == tables(tmp_path / "alone")
    assert manifest_of(tmp_path / "shared", RISK)["settings"]


def test_redraw_draws_what_is_there_and_does_nothing(tmp_path, monkeypatch):
    run_study(TINY, tmp_path, replace(SIZES, reps=3))
    before = tables(tmp_path)
    lost = Store(tmp_path).part(TINY.plan(SIZES)[0], 1)
    lost.unlink()
    for file in tmp_path.rglob("*.csv"):
        file.unlink()
    calls = Calls(monkeypatch, refuse)
    report = run_study(TINY, tmp_path, replace(SIZES, reps=3), redraw=True)
    assert not calls.jobs
    assert not lost.exists()
    assert (report.finished, report.total, report.failures) == (5, 6, [])
    assert {row["reps"] for row in report.summary} == {2}  # those that all settings have
    assert set(tables(tmp_path)) == set(before)


def test_redraw_of_nothing_draws_nothing(tmp_path, monkeypatch):
    Calls(monkeypatch, refuse)
    report = run_study(TINY, tmp_path, SIZES, redraw=True)
    assert (report.summary, report.files, report.finished, report.failures) == ([], [], 0, [])


# ------------------------------------------------------------------------------------------------
# What goes wrong
# ------------------------------------------------------------------------------------------------


def test_a_replication_that_fails_is_reported_and_costs_no_other(tmp_path, monkeypatch):
    once, again = tmp_path / "once", tmp_path / "again"
    run_study(TINY, once, replace(SIZES, reps=4))

    def fail(job):
        if job.seed in (1, 3) and job.setting.loss == "lad":
            raise ValueError("not today")

    with monkeypatch.context() as patch:
        Calls(patch, fail)
        report = run_study(TINY, again, replace(SIZES, reps=4))
    assert (report.finished, report.total) == (6, 8)
    [failure] = report.failures
    assert failure.startswith("2 × ValueError: not today (in fail, line ")
    assert "test_runner.py" in failure
    assert {row["reps"] for row in report.summary} == {2}
    calls = Calls(monkeypatch)
    report = run_study(TINY, again, replace(SIZES, reps=4))
    assert calls.jobs == [(TINY.plan(SIZES)[0], seed) for seed in (1, 3)]
    assert (report.finished, report.failures) == (8, [])
    assert tables(once) == tables(again)
    assert_same_parts(once, again)


def test_different_failures_are_told_apart(tmp_path, monkeypatch):
    def fail(job):
        raise ValueError("odd") if job.seed % 2 else MemoryError("even")

    Calls(monkeypatch, fail)
    report = run_study(TINY, tmp_path, replace(SIZES, reps=3))
    assert report.finished == 0
    assert report.summary == []
    assert sorted(failure[:18] for failure in report.failures) == [
        "2 × ValueError: od",
        "4 × MemoryError: e",
    ]


def test_an_interruption_keeps_what_is_finished(tmp_path, monkeypatch):
    def interrupt(job):
        if job.seed == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        Calls(patch, interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_study(TINY, tmp_path, SIZES)
    assert len(part_files(tmp_path)) == 2
    calls = Calls(monkeypatch)
    run_study(TINY, tmp_path, SIZES)
    assert [seed for _, seed in calls.jobs] == [1, 1]


def test_sizes_that_leave_nothing_to_do_are_refused(tmp_path):
    for nothing in ({"p": ()}, {"n": ()}):
        with pytest.raises(ValueError, match=r"\bn\b|\bp\b"):
            run_study(RISK, tmp_path, replace(SIZES, **nothing))


def test_sizes_may_come_from_numpy(tmp_path, monkeypatch):
    run_study(TINY, tmp_path, SIZES)
    Calls(monkeypatch, refuse)
    n, p = np.array([40]), np.array([20])
    report = run_study(TINY, tmp_path, Sizes(np.int64(2), tuple(n), tuple(p), np.int64(5)))
    assert report.finished == report.total == 4


@pytest.mark.parametrize("options", [{"jobs": 0}, {"seed": -1}, {"backend": "jax"}])
def test_nonsense_is_refused(tmp_path, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        run_study(TINY, tmp_path / "out", SIZES, **options)
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------------------------------------
# Manifest
# ------------------------------------------------------------------------------------------------


def test_the_manifest_says_how_a_study_came_about(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/bin/steinpath", "study", "tiny", "--out", "a folder"])
    run_study(TINY, tmp_path, SIZES, seed=3)
    content = manifest_of(tmp_path)
    assert content["study"] == "tiny"
    assert content["sizes"] == json.loads(json.dumps(asdict(SIZES)))
    assert content["seed"] == 3
    plan = TINY.plan(SIZES)
    assert content["settings"] == {setting.key: setting.describe() for setting in plan}
    assert {file.name[:16] for file in part_files(tmp_path)} == set(content["settings"])
    [run] = content["runs"]
    assert run["command"] == "steinpath study tiny --out 'a folder'"
    assert run["versions"]["numpy"] == np.__version__
    assert {"python", "steinpath", "scipy", "scikit-learn", "pyarrow"} <= set(run["versions"])
    assert run["ended"] == "complete"
    assert run["seconds"] >= 0
    assert run["started"].endswith("+00:00")


def test_the_manifest_notes_interrupted_runs(tmp_path, monkeypatch):
    def interrupt(job):
        # the run is on record from its start, as it must be if it is killed
        assert manifest_of(tmp_path)["runs"][-1]["ended"] is None
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        Calls(patch, interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_study(TINY, tmp_path, SIZES)
    assert manifest_of(tmp_path)["runs"][0]["ended"].startswith("KeyboardInterrupt")
    run_study(TINY, tmp_path, SIZES)
    ends = [run["ended"] for run in manifest_of(tmp_path)["runs"]]
    assert ends[0].startswith("KeyboardInterrupt")
    assert ends[1:] == ["complete"]


def test_the_manifest_describes_the_tables_beside_it(tmp_path):
    run_study(TINY, tmp_path, replace(SIZES, reps=4))
    report = run_study(TINY, tmp_path, SIZES, seed=1)
    assert {row["reps"] for row in report.summary} == {2}
    content = manifest_of(tmp_path)
    assert (content["sizes"]["reps"], content["seed"]) == (2, 1)


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_manifest_that_cannot_be_read_stops_nothing(tmp_path, text):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "manifest.json").write_text(text)
    report = run_study(TINY, tmp_path, SIZES)
    assert report.finished == report.total
    assert manifest_of(tmp_path)["runs"][-1]["ended"] == "complete"


def test_other_versions_are_pointed_out(tmp_path, monkeypatch):
    run_study(TINY, tmp_path, SIZES)
    output = io.StringIO()
    console = Console(file=output, width=200)
    run_study(TINY, tmp_path, replace(SIZES, reps=3), console=console)
    assert "other versions" not in output.getvalue()
    monkeypatch.setattr(manifest, "versions", lambda: {"numpy": "1.0"})
    run_study(TINY, tmp_path, replace(SIZES, reps=4), console=console)
    assert "made with other versions" in output.getvalue()
