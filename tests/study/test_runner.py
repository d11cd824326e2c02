"""The runner computes missing replications, keeps existing ones, and records all runs."""

import io
import json
import os
import shutil
from dataclasses import asdict, replace

import numpy as np
import pytest
from rich.console import Console

from steinpath.study import STUDIES, Sizes, StudyError, run_study
from steinpath.study import _parallel as parallel
from steinpath.study import _runner as runner
from steinpath.study import _store as store
from steinpath.study import _versions as versions
from steinpath.study._manifest import Manifest
from steinpath.study._store import Store
from steinpath.study._versions import CODE
from studies import SIZES, TINY, Calls, assert_same_parts, other_code, part_files, tables

RISK, UNIVERSALITY = STUDIES["risk"], STUDIES["universality"]


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch):
    monkeypatch.setattr(runner, "write_figures", lambda folder, exhibits: [])


def refuse(job):
    raise AssertionError("nothing should be done")


def manifest_of(folder, study=TINY):
    return json.loads((folder / study.name / "manifest.json").read_text())


# ------------------------------------------------------------------------------------------------
# Missing replications
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
    assert calls.jobs == [(config, seed) for seed in (0, 1) for config in plan]


def test_studies_share_what_they_have_in_common(tmp_path, monkeypatch):
    run_study(RISK, tmp_path, SIZES)
    calls = Calls(monkeypatch)
    report = run_study(UNIVERSALITY, tmp_path, SIZES)
    assert report.total == 32
    assert len(calls.jobs) == 16
    assert {config.rows for config, _ in calls.jobs} == {"uniform"}


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
    assert {row["reps"] for row in report.summary} == {2}  # available for all configurations
    assert set(tables(tmp_path)) == set(before)


def test_redraw_of_nothing_draws_nothing(tmp_path, monkeypatch):
    Calls(monkeypatch, refuse)
    report = run_study(TINY, tmp_path, SIZES, redraw=True)
    assert (report.summary, report.files, report.finished, report.failures) == ([], [], 0, [])


# ------------------------------------------------------------------------------------------------
# Failures
# ------------------------------------------------------------------------------------------------


def test_a_replication_that_fails_is_reported_and_costs_no_other(tmp_path, monkeypatch):
    once, again = tmp_path / "once", tmp_path / "again"
    run_study(TINY, once, replace(SIZES, reps=4))

    def fail(job):
        if job.seed in (1, 3) and job.config.loss == "lad":
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
    assert content["settings"] == {config.key: config.describe() for config in plan}
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


RUN = {
    "command": "steinpath study tiny",
    "started": "2026-01-01T00:00:00+00:00",
    "machine": "x86_64, Linux",
    "versions": {"numpy": "2.0"},
    "ended": None,
}
VALID = {"study": "tiny", "seed": 0, "runs": [RUN, {**RUN, "seconds": 1.5, "failures": ["1 × no"]}]}
SCALARS = (None, True, 0, -1.5, 10**30, "", "text", "\ud800")
DEEP = 100_000
ODD_MANIFESTS = {
    **{f"value {k}": json.dumps(value) for k, value in enumerate([*SCALARS, [], {}, [[]], [{}]])},
    **{f"runs {k}": json.dumps({"runs": value}) for k, value in enumerate([*SCALARS, {}, RUN])},
    **{
        f"run {k}": json.dumps({"runs": [RUN, value]})
        for k, value in enumerate([*SCALARS, [], {}, [RUN], {"versions": RUN["versions"]}])
    },
    **{
        f"{name} {k}": json.dumps({"runs": [{**RUN, name: value}]})
        for name in ("command", "versions", "failures", "more")
        for k, value in enumerate([[0], [RUN], {"a": 0}, {"a": {"b": "c"}}])
    },
    "versions are a list": json.dumps({"runs": [{**RUN, "versions": []}]}),
    "failures are a text": json.dumps({"runs": [{**RUN, "failures": "none"}]}),
    "a name is missing": json.dumps({"runs": [{k: v for k, v in RUN.items() if k != "ended"}]}),
    "empty": "",
    "spaces": " \n",
    "cut off": json.dumps(VALID)[:-20],
    "two": json.dumps(VALID) * 2,
    "deep list": "[" * DEEP + "]" * DEEP,
    "deep runs": '{"runs": ' + "[" * DEEP + "]" * DEEP + "}",
    "deep run": '{"runs": [' + '{"a": ' * DEEP + "0" + "}" * DEEP + "]}",
    "deep enough to be read": json.dumps({"runs": [{**RUN, "more": 0}]}).replace(
        '"more": 0', '"more": ' + "[" * 500 + "]" * 500
    ),
    "many digits": '{"runs": ' + "9" * 10_000 + "}",
    "no number": '{"runs": NaN}',
    "not UTF-8": b'{"runs": ["\xff\xfe"]}',
    "zeros": bytes(1000),
    "UTF-16": json.dumps(VALID).encode("utf-16")[:-1],
    "long": "[" + "0," * 10**6 + "0]",
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Folder of an undisturbed study."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "write_figures", lambda folder, exhibits: [])
        run_study(TINY, folder, SIZES)
    return folder


@pytest.mark.parametrize("name", ODD_MANIFESTS)
def test_a_manifest_that_is_none_counts_as_no_runs(tmp_path, finished, name):
    folder = tmp_path / "folder"
    shutil.copytree(finished, folder)
    Store(folder).part(TINY.plan(SIZES)[0], 1).unlink()
    text = ODD_MANIFESTS[name]
    content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    (folder / "tiny" / "manifest.json").write_bytes(content)
    report = run_study(TINY, folder, SIZES)
    assert report.finished == report.total
    assert tables(folder) == tables(finished)
    [run] = manifest_of(folder)["runs"]
    assert run["ended"] == "complete"


def nodes_of(value):
    """Yield all containers in a document, with their keys."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from nodes_of(value[key])


def test_any_edit_of_a_manifest_leaves_one_that_can_be_written(tmp_path):
    random = np.random.default_rng(0)
    file = tmp_path / "tiny" / "manifest.json"
    file.parent.mkdir()
    odd = [*SCALARS, [], {}, [0], {"a": 0}, RUN, [RUN]]
    kept = set()
    for k in range(200):
        if k % 2:
            document = json.loads(json.dumps(VALID))
            nodes = list(nodes_of(document))
            place, key = nodes[random.integers(len(nodes))]
            place[key] = odd[random.integers(len(odd))]
            file.write_text(json.dumps(document))
        else:
            content = bytearray(json.dumps(VALID).encode())
            start = random.integers(len(content))
            content[start : start + random.integers(3)] = random.bytes(random.integers(3))
            file.write_bytes(content)
        found = Manifest.of(file.parent, TINY, SIZES, 0, TINY.plan(SIZES))
        before = len(found.content["runs"])
        with found.run():
            pass
        runs = manifest_of(tmp_path)["runs"]
        assert len(runs) == before + 1
        assert all(set(run) >= set(RUN) for run in runs)
        kept.add(before)
    assert {0, 2} <= kept <= {0, 1, 2}


def test_earlier_runs_are_kept(tmp_path):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "manifest.json").write_text(json.dumps(VALID))
    run_study(TINY, tmp_path, SIZES)
    runs = manifest_of(tmp_path)["runs"]
    assert runs[:2] == VALID["runs"]
    assert runs[2]["ended"] == "complete"


def test_a_manifest_of_unlikely_size_is_not_read(tmp_path):
    (tmp_path / "tiny").mkdir()
    file = tmp_path / "tiny" / "manifest.json"
    file.touch()
    os.truncate(file, 2**33)  # which takes no room
    report = run_study(TINY, tmp_path, SIZES)
    assert report.finished == report.total
    assert file.stat().st_size < 10_000


def test_the_manifest_describes_tables_that_were_drawn_again(tmp_path):
    run_study(TINY, tmp_path, replace(SIZES, reps=4))
    runs = manifest_of(tmp_path)["runs"]
    run_study(TINY, tmp_path, SIZES, redraw=True)
    assert manifest_of(tmp_path)["sizes"]["reps"] == 2
    assert manifest_of(tmp_path)["runs"] == runs


# ------------------------------------------------------------------------------------------------
# Different code or versions
# ------------------------------------------------------------------------------------------------


def said_by(study, folder, sizes, **options):
    output = io.StringIO()
    report = run_study(study, folder, sizes, console=Console(file=output, width=500), **options)
    return report, output.getvalue()


def change_code(patch, code):
    """Pretend that this process has different code."""
    for module in (parallel, runner, store):
        patch.setattr(module, "CODE", code)


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
        change_code(patch, "0" * 16)
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


def test_studies_do_not_share_replications_by_other_code(tmp_path, monkeypatch):
    run_study(RISK, tmp_path, SIZES)
    change_code(monkeypatch, "0" * 16)
    calls = Calls(monkeypatch)
    _, said = said_by(UNIVERSALITY, tmp_path, SIZES)
    assert len(calls.jobs) == 32
    assert "Ignoring 16 replications" in said


def test_the_manifest_and_the_parts_say_which_code_it_was(tmp_path):
    run_study(TINY, tmp_path, SIZES)
    [run] = manifest_of(tmp_path)["runs"]
    assert run["versions"]["code"] == CODE
    for config in TINY.plan(SIZES):
        notes = Store(tmp_path).notes(config, 0)
        assert notes[b"code"] == CODE.encode()
        assert json.loads(notes[b"versions"])["numpy"] == np.__version__


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_process_with_other_code_ends_the_study(tmp_path, monkeypatch, jobs):
    monkeypatch.setattr(parallel, "in_worker", other_code)
    if jobs == 1:
        monkeypatch.setattr(parallel, "CODE", "0" * 16)
    with pytest.raises(StudyError, match="different version of steinpath"):
        run_study(TINY, tmp_path, SIZES, jobs=jobs)
    assert part_files(tmp_path) == []


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


def test_different_versions_are_pointed_out(tmp_path, monkeypatch):
    def version(name):
        return "1.0" if name == "numpy" else really(name)

    told = "computed with different versions"
    three, four = (replace(SIZES, reps=reps) for reps in (3, 4))
    run_study(TINY, tmp_path, SIZES)
    assert told not in said_by(TINY, tmp_path, three)[1]
    really = versions.version
    with monkeypatch.context() as patch:
        patch.setattr(versions, "version", version)
        # another study, which has no runs on record, too
        other = replace(TINY, name="other")
        for study, sizes in ((other, four), (other, four), (TINY, four)):
            said = said_by(study, tmp_path, sizes)[1]
            assert said.count(told) == 1
            assert '"numpy": "1.0"' in said
            assert np.__version__ in said
    for redraw in (False, True):
        assert told in said_by(TINY, tmp_path, four, redraw=redraw)[1]
        assert told not in said_by(TINY, tmp_path, three, redraw=redraw)[1]
