"""The runner computes missing replications, keeps existing ones, and records all runs."""

import io
import json
import shutil
from dataclasses import asdict, replace

import numpy as np
import pytest
from rich.console import Console

from steinpath.study import STUDIES, Configuration, Sizes, StudyError, run_study
from steinpath.study import _output as output
from steinpath.study import _parallel as parallel
from steinpath.study import _runner as runner
from steinpath.study import _store as store
from steinpath.study._store import CODE, Store
from studies import SIZES, TINY, Calls, assert_same_parts, part_files, tables

RISK, UNIVERSALITY = STUDIES["risk"], STUDIES["universality"]

pytestmark = pytest.mark.usefixtures("no_figures")


def refuse(job):
    raise AssertionError("nothing should be done")


def manifest_of(folder, study=TINY):
    return json.loads((folder / study.name / "manifest.json").read_text())


# Missing replications


def test_a_second_run_does_nothing_and_finds_the_same(tmp_path, monkeypatch):
    first = run_study(RISK, tmp_path, SIZES)
    assert first.finished == first.total == 16
    assert len(first.summary) == 16
    assert not first.failures
    before = tables(tmp_path), [file.read_bytes() for file in part_files(tmp_path)]
    Calls(monkeypatch, refuse)
    # also with sizes from NumPy
    sizes = Sizes(np.int64(2), tuple(np.array([40])), tuple(np.array([20])), np.int64(5))
    assert run_study(RISK, tmp_path, sizes) == first
    assert (tables(tmp_path), [file.read_bytes() for file in part_files(tmp_path)]) == before


def test_more_replications_are_added_to_those_that_are_there(tmp_path, monkeypatch, finished):
    run_study(TINY, tmp_path, SIZES)
    two = tables(tmp_path)
    calls = Calls(monkeypatch)
    report = run_study(TINY, tmp_path, replace(SIZES, reps=4))
    # every configuration once before any twice
    assert calls.jobs == [(config, seed) for seed in (2, 3) for config in TINY.plan(SIZES)]
    assert report.finished == report.total == 8
    name = "tiny/risk-n40-p20.csv"
    assert tables(tmp_path)[name] == tables(finished)[name]
    # fewer replications are those of a smaller study
    assert run_study(TINY, tmp_path, SIZES).total == 4
    assert tables(tmp_path) == two
    # seeds follow the first
    calls.jobs.clear()
    run_study(TINY, tmp_path, SIZES, seed=3)
    assert [seed for _, seed in calls.jobs] == [4, 4]


def test_studies_share_what_they_have_in_common(tmp_path, monkeypatch, finished):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    calls = Calls(monkeypatch)
    report = run_study(UNIVERSALITY, tmp_path, SIZES)
    assert report.total == 32
    assert len(calls.jobs) == 16
    assert {config.rows for config, _ in calls.jobs} == {"uniform"}
    calls.jobs.clear()
    shutil.rmtree(tmp_path / "risk")
    report = run_study(RISK, tmp_path, SIZES)
    assert report.finished == report.total == 16
    assert not calls.jobs
    assert manifest_of(tmp_path, RISK)["settings"]
    assert tables(tmp_path / "risk") == tables(finished / "risk")


@pytest.mark.parametrize(
    ("study", "config", "rows"),
    [
        ("choice", ("lad", "lasso", 60, 12, 8, ("rows", "time"), "time series", "normal"), 2),
        ("margins", ("hinge", "lasso", 60, 12, 8, ("hat",), "equal classes", "logistic"), 2),
    ],
)
def test_models_are_computed_in_numpy_whatever_the_backend(
    tmp_path, monkeypatch, study, config, rows
):
    pytest.importorskip("torch")
    study = replace(STUDIES[study], plan=lambda sizes: [Configuration(*config)])
    sizes = Sizes(reps=2, n=(60,), p=(), iters=8)
    first = run_study(study, tmp_path / "one", sizes)
    assert (first.finished, first.total, len(first.summary)) == (2, 2, rows)
    run_study(study, tmp_path / "two", sizes, jobs=2)
    assert_same_parts(tmp_path / "one", tmp_path / "two")
    Calls(monkeypatch, refuse)
    assert run_study(study, tmp_path / "one", sizes, backend="torch").summary == first.summary


def test_redraw_draws_what_is_there_and_does_nothing(tmp_path, monkeypatch):
    Calls(monkeypatch, refuse)
    report = run_study(TINY, tmp_path, SIZES, redraw=True)
    assert (report.summary, report.files, report.finished, report.failures) == ([], [], 0, [])
    monkeypatch.undo()
    monkeypatch.setattr(runner, "write_figures", lambda folder, exhibits: [])
    run_study(TINY, tmp_path, replace(SIZES, reps=3))
    before = tables(tmp_path)
    lost = Store(tmp_path).part(TINY.plan(SIZES)[0], 1)
    lost.unlink()
    for file in tmp_path.rglob("*.csv"):
        file.unlink()
    Calls(monkeypatch, refuse)
    report = run_study(TINY, tmp_path, replace(SIZES, reps=3), redraw=True)
    assert not lost.exists()
    assert (report.finished, report.total, report.failures) == (5, 6, [])
    assert {row["reps"] for row in report.summary} == {2}  # available for all configurations
    assert set(tables(tmp_path)) == set(before)


# Failures


def test_a_replication_that_fails_is_reported_and_costs_no_other(tmp_path, monkeypatch, finished):
    def fail(job):
        if job.seed in (1, 3) and job.config.loss == "lad":
            raise ValueError("odd") if job.seed == 1 else MemoryError("large")

    sizes = replace(SIZES, reps=4)
    with monkeypatch.context() as patch:
        Calls(patch, fail)
        report = run_study(TINY, tmp_path, sizes)
    assert (report.finished, report.total) == (6, 8)
    odd, large = report.failures
    assert odd.startswith("1 × ValueError: odd (in fail, line ")
    assert "test_runner.py" in odd
    assert large.startswith("1 × MemoryError: large")
    assert large.endswith("; fewer jobs leave more memory for each")
    assert {row["reps"] for row in report.summary} == {2}
    calls = Calls(monkeypatch)
    report = run_study(TINY, tmp_path, sizes)
    assert calls.jobs == [(TINY.plan(SIZES)[0], seed) for seed in (1, 3)]
    assert (report.finished, report.failures) == (8, [])
    name = "tiny/summary.csv"
    assert tables(tmp_path)[name] == tables(finished)[name]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_a_failure(tmp_path, monkeypatch, value):
    def replicate(config, seed):
        curves = really(config, seed)
        if seed == 1 and config.loss == "lad":
            curves["hat_stderr"][3] = value
        return curves

    really = parallel.replicate
    with monkeypatch.context() as patch:
        patch.setattr(parallel, "replicate", replicate)
        report = run_study(TINY, tmp_path, replace(SIZES, reps=3))
    assert (report.finished, report.total) == (5, 6)
    [failure] = report.failures
    assert failure == "1 × ValueError: column 'hat_stderr' contains NaN or infinite values"
    assert run_study(TINY, tmp_path, replace(SIZES, reps=3)).finished == 6


def test_an_interruption_keeps_what_is_finished_and_is_on_record(tmp_path, monkeypatch):
    def interrupt(job):
        # the run is on record from its start, as it must be if it is killed
        assert manifest_of(tmp_path)["runs"][-1]["ended"] is None
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
    first, second = (run["ended"] for run in manifest_of(tmp_path)["runs"])
    assert first.startswith("KeyboardInterrupt")
    assert second == "complete"


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"jobs": 0}, "jobs"),
        ({"seed": -1}, "seed"),
        ({"backend": "jax"}, "backend"),
        ({"sizes": replace(SIZES, p=())}, "of n and of p"),
        ({"sizes": replace(SIZES, n=())}, "of n and of p"),
    ],
)
def test_nonsense_is_refused(tmp_path, options, name):
    with pytest.raises(ValueError, match=name):
        run_study(TINY, tmp_path / "out", **{"sizes": SIZES, **options})
    assert not (tmp_path / "out").exists()


# Manifest


def test_the_manifest_says_how_a_study_came_about(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/bin/steinpath", "study", "tiny", "--out", "a folder"])
    run_study(TINY, tmp_path, SIZES, seed=3)
    content = manifest_of(tmp_path)
    assert content["study"] == "tiny"
    assert content["sizes"] == json.loads(json.dumps(asdict(SIZES)))
    assert content["seed"] == 3
    plan = TINY.plan(SIZES)
    assert content["settings"] == {config.key: config.describe() for config in plan}
    assert {file.name[:16] for file in part_files(tmp_path)} == set(content["settings"])
    [run] = content["runs"]
    assert run["command"] == "steinpath study tiny --out 'a folder'"
    assert run["versions"]["numpy"] == np.__version__
    assert run["versions"]["code"] == CODE
    assert {"python", "steinpath", "scipy", "scikit-learn", "pyarrow"} <= set(run["versions"])
    assert run["ended"] == "complete"
    assert run["seconds"] >= 0
    assert run["started"].endswith("+00:00")


def test_the_manifest_describes_the_tables_beside_it(tmp_path):
    run_study(TINY, tmp_path, replace(SIZES, reps=4))
    runs = manifest_of(tmp_path)["runs"]
    report = run_study(TINY, tmp_path, SIZES, seed=1)
    assert {row["reps"] for row in report.summary} == {2}
    content = manifest_of(tmp_path)
    assert (content["sizes"]["reps"], content["seed"]) == (2, 1)
    run_study(TINY, tmp_path, SIZES, redraw=True)
    content = manifest_of(tmp_path)
    assert (content["sizes"]["reps"], content["seed"], content["runs"]) == (2, 0, runs)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b'{"runs": 3}', b"\xff", bytes(100)])
def test_a_manifest_that_is_none_counts_as_no_runs(tmp_path, content):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "manifest.json").write_bytes(content)
    report = run_study(TINY, tmp_path, SIZES)
    assert report.finished == report.total
    [run] = manifest_of(tmp_path)["runs"]
    assert run["ended"] == "complete"


# Different code or versions


def said_by(study, folder, sizes, **options):
    text = io.StringIO()
    report = run_study(study, folder, sizes, console=Console(file=text, width=500), **options)
    return report, text.getvalue()


def test_replications_by_other_code_are_kept_and_not_used(tmp_path, monkeypatch):
    run_study(TINY, tmp_path, SIZES)
    before = {file: file.read_bytes() for file in part_files(tmp_path)}
    old = TINY.plan(SIZES)[0]
    (tmp_path / "parts" / f"{old.key}-0.parquet").write_bytes(b"of a version that named them so")
    (tmp_path / "parts" / "else.parquet").write_bytes(b"none of ours")
    told = (
        f"Ignoring 5 replications in {tmp_path / 'parts'} that were computed with a different "
        "version of the code\n"
    )
    with monkeypatch.context() as patch:
        for module in (parallel, runner, store):
            patch.setattr(module, "CODE", "0" * 16)
        report, said = said_by(TINY, tmp_path, SIZES, redraw=True)
        assert (report.finished, report.files) == (0, [])
        assert told in said
        calls = Calls(patch)
        report, said = said_by(TINY, tmp_path, SIZES)
        assert len(calls.jobs) == report.finished == report.total == 4
        assert told in said
        calls.jobs.clear()
        report, said = said_by(TINY, tmp_path, SIZES)
        assert not calls.jobs
        assert "different version" not in said
    assert {file: file.read_bytes() for file in before} == before
    Calls(monkeypatch, refuse)
    assert run_study(TINY, tmp_path, SIZES).finished == 4


def test_a_process_with_other_code_ends_the_study(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel, "CODE", "0" * 16)
    with pytest.raises(StudyError, match="different version of steinpath"):
        run_study(TINY, tmp_path, SIZES)
    assert part_files(tmp_path) == []


def test_different_versions_are_pointed_out(tmp_path, monkeypatch):
    told = "computed with different versions"
    three, four = (replace(SIZES, reps=reps) for reps in (3, 4))
    run_study(TINY, tmp_path, SIZES)
    assert told not in said_by(TINY, tmp_path, three)[1]
    really = output.versions
    with monkeypatch.context() as patch:
        patch.setattr(parallel, "versions", lambda *names: really(*names) | {"numpy": "1.0"})
        said = said_by(TINY, tmp_path, four)[1]
    assert said.count(told) == 1
    assert '"numpy": "1.0"' in said
    assert np.__version__ in said
    for redraw in (False, True):
        assert told in said_by(TINY, tmp_path, four, redraw=redraw)[1]
        assert told not in said_by(TINY, tmp_path, three, redraw=redraw)[1]
