"""The benchmark of peers: adapters solve what they say, and the arithmetic is right."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Lasso

import steinpath as sp
from benchmarks.common.competitors import Problem, folds
from benchmarks.common.measuring import Peer, available
from benchmarks.common.pages import BLOCK, filled
from benchmarks.peers import bench, converged, solvers, tables, tuned
from benchmarks.speed import algorithms, growth

ROOT = Path(__file__).parents[1]
#: Pages, the tables of each, and the results from which they are made.
PAGES = {
    "benchmarks": (bench.IN_PAGES, "bench-peers"),
    "tables": (tables.PARTS, "tables"),
    "algorithms": (algorithms.PARTS, "algorithms"),
    "cost": (growth.PARTS, "growth"),
}


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_made_of_the_results(page):
    parts, results = PAGES[page]
    text = (ROOT / f"docs/results/{page}.md").read_text("utf-8")
    found = json.loads((ROOT / f"benchmarks/results/{results}.json").read_text("utf-8"))
    assert sorted(match[2] for match in BLOCK.finditer(text)) == sorted(parts)
    assert filled(text, parts, found) == text


LOOSE = ("1e-4", "300 iterations", "adelie, 1e-7")  # in the names of those that stop early


@pytest.mark.parametrize("problem", ["LAD–lasso", "LAD–ridge", "lasso path", "group lasso path"])
def test_solvers_minimise_the_same_objective(problem):
    """Other packages at their tight tolerances, and steinpath after many iterations, agree."""
    task = solvers.Task.draw(problem, 60, 20, seed=1)
    objectives = {}
    for name, peer in solvers.SOLVERS[problem].items():
        if peer.missing or "skglm" in name:  # skglm compiles for ten seconds
            continue
        coefs = peer.call(task)
        assert coefs.shape == (len(task.lams), 20)
        objectives[name] = task.objectives(coefs)
    gaps = solvers.relative_gaps(objectives)
    assert min(gaps.values()) <= 1e-9
    for name, gap in gaps.items():
        assert gap < (3e-3 if any(word in name for word in LOOSE) else 1e-5), name


def test_objectives_by_hand():
    X, y = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([3.0, 1.0])
    coefs = np.array([[1.0, 1.0]])
    task = solvers.Task(X, y, sp.LAD(), sp.Lasso, np.array([0.5]))
    assert task.objectives(coefs) == pytest.approx([(2 + 1) / np.sqrt(2) + 1])
    task = solvers.Task(X, y, sp.Squared(), sp.Ridge, np.array([0.5, 2.0]))
    both = task.objectives(np.repeat(coefs, 2, axis=0))
    assert both == pytest.approx([5 / 2 / np.sqrt(2) + 0.5, 5 / 2 / np.sqrt(2) + 2])


def test_gaps_are_to_the_lowest_of_any_at_the_worst_penalty():
    gaps = solvers.relative_gaps({"a": np.array([1.0, 2.2]), "b": np.array([1.05, 2.0])})
    assert gaps == pytest.approx({"a": 0.1, "b": 0.05})


def test_what_is_not_installed_is_left_out_and_said(capsys):
    found = available(
        {"here": Peer(len, ("json",)), "gone": Peer(len, ("json", "no_such_package"))}
    )
    assert found == {"here": len}
    assert "gone: skipped, because no_such_package is not installed" in capsys.readouterr().out


# ----- At convergence -----


def test_randalo_is_approximate_leave_one_out():
    pytest.importorskip("randalo")
    X, y = sp.simulate.paper_model(20, "normal").sample(100, rng=0)
    model = Lasso(alpha=converged.ALPHA, fit_intercept=False, tol=1e-10).fit(X, y)
    active = X[:, model.coef_ != 0]  # least squares on these columns
    leverage = np.einsum("ij,ji->i", active, np.linalg.pinv(active))
    exact = np.mean(((y - X @ model.coef_) / (1 - leverage)) ** 2)
    assert converged.randalo(True, X, y, 0).estimate() == pytest.approx(exact, rel=1e-4)
    assert converged.randalo(False, X, y, 0).estimate() == pytest.approx(exact, rel=0.05)


def test_estimates_at_convergence(capsys):
    """All methods are near the truth once the noise of the sample is taken off."""
    records = converged.converged(200, 20, 2, plain_seconds=0.1)
    assert {"steinpath R̂", "5-fold", "10-fold"} <= {r["method"] for r in records}
    for record in records:
        assert abs(record["error"]) < 0.1, record
    same = {r["method"]: r["truth"] for r in records if r["seed"] == 0}
    assert same["steinpath R̂"] == pytest.approx(same["5-fold"], rel=1e-4)  # the same minimum
    table = converged.converged_table(records).splitlines()
    assert len(table) == 2 + len(same)
    assert len({row.count("|") for row in table}) == 1


# ----- Tuned models -----


def test_tune_beside_one_fit():
    records = tuned.tuned_beside_fit(80, 10, 1, plain_seconds=0.1)
    ours, fit = records
    assert ours["of_fit"] == pytest.approx(ours["seconds"] / fit["seconds"])
    assert ours["ratio"] == pytest.approx(10 * ours["seconds"])
    assert abs(ours["error"]) < 0.3
    table = tuned.tuned_table(records).splitlines()
    assert table[2].endswith(f"| {100 * ours['error']:+.1f}% |")
    assert table[3].endswith("| – |")


def test_intervals_beside_others():
    """MAPIE's own are run in the tests of ``choice.py``."""
    assert tuned.WITH_INTERVALS[2:] == ("MAPIE, CV+", "MAPIE, jackknife+")
    (record,) = tuned.intervals([("square_root", 60, 5, 2)], ("estimator",))
    assert record["method"] == "SqrtLasso"
    assert 0.8 < record["interval_covers"] <= 1
    assert 3 < record["width"] < 6  # 3.3 for normal noise, if all else were known
    assert len(tuned.intervals_table([record]).splitlines()) == 3


def test_rivals_by_folds_estimate_the_risk_of_every_iterate():
    problem = Problem.draw("lad", "lasso", 40, 8, 6, seed=0)
    for burman in (False, True):
        ((name, values),) = folds(5, burman)(problem).items()
        assert ("Burman" in name) == burman
        cv = sp.cross_validate_path(problem.path, cv=5, burman=burman, rng=0).values
        assert values.shape == cv.shape
        np.testing.assert_allclose(values, cv, rtol=0.2)
