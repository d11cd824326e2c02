"""The benchmark on ordinary data: its data sets are well formed, its arithmetic is right."""

import math
import time

import numpy as np
import pandas as pd
import pytest

from benchmarks.common import datasets
from benchmarks.peers import tables

# ----- Data sets -----


def test_those_that_need_no_other_package_load():
    loaded = {
        name: table.load()
        for name, table in datasets.TABLES.items()
        if table.package in ("scikit-learn", "statsmodels")
    }
    assert len(loaded) >= 10
    for X, y in loaded.values():
        assert X.dtype == y.dtype == np.float64
        assert X.shape[0] == len(y)
        assert np.isfinite(X).all()
        assert np.isfinite(y).all()
        assert (X.std(axis=0) > 0).all()
        assert len(np.unique(y)) > 2
    # known from elsewhere
    assert loaded["diabetes"][0].shape == (442, 10)
    assert loaded["diabetes-squares"][0].shape == (442, 65)
    assert loaded["engel"][0].shape == (235, 1)
    assert loaded["stackloss"][0].shape == (21, 3)
    assert loaded["stackloss"][1].sum() == 368
    again, _ = datasets.TABLES["randhie"].load()  # the same sample each time
    np.testing.assert_array_equal(loaded["randhie"][0], again)


def test_encoding():
    frame = pd.DataFrame(
        {
            "rownames": range(6),
            "y": [1, 2, 3, 4, 5, 6],
            "number": [0.5, 1.5, 2.5, None, 4.5, 5.5],
            "constant": 7.0,
            "code": [1, 2, 1, 2, 3, 1],
            "text": ["b", "a", None, "a", "b", "b"],
            "name": list("uvwxyz"),
        }
    )
    options = {"drop": ["name"], "categories": ["code"]}
    X, y = datasets.encoded(frame, "y", **options)
    np.testing.assert_array_equal(y, [1, 2, 3, 5, 6])  # one row has no number
    # number; text: b, missing (a is dropped); code: 2, 3 (1 is dropped)
    expected = [[0.5, 1, 0, 0, 0], [1.5, 0, 0, 1, 0], [2.5, 0, 1, 0, 0]]
    expected += [[4.5, 1, 0, 0, 1], [5.5, 1, 0, 0, 0]]
    np.testing.assert_array_equal(X, expected)
    assert datasets.encoded(frame, "y", all_levels=True, **options)[0].shape == (5, 7)
    assert len(datasets.encoded(frame, "y", rows=4, **options)[0]) == 4


# ----- Arithmetic -----


def test_comparison_by_hand():
    # two splits of four rows: rows 0, 1 are held out first, rows 1, 2 then
    one = [np.array([2.0, -4.0]), np.array([4.0, 0.0])]
    other = [np.array([-1.0, 3.0]), np.array([2.0, 2.0])]
    rows = [np.array([0, 1]), np.array([1, 2])]
    found = tables.compare(one, other, rows, squared=False)
    assert found.ratio == pytest.approx(2.5 / 2)
    # row means of the differences: 1, (1 + 2)/2, -2; of splits: 1, 0
    variance = np.var([1, 1.5, -2], ddof=1) / 3 + np.var([1, 0], ddof=1) / 2
    assert found.stderr == pytest.approx(math.sqrt(variance) / 2)
    found = tables.compare(one, other, rows, squared=True)
    assert found.ratio == pytest.approx(math.sqrt(9 / 4.5))
    # 3, (7 + 12)/2, -4; of splits: 5, 4
    variance = np.var([3, 9.5, -4], ddof=1) / 3 + np.var([5, 4], ddof=1) / 2
    derivative = 1 / (2 * math.sqrt(9 / 4.5))
    assert found.stderr == pytest.approx(derivative * math.sqrt(variance) / 4.5)


ERRORS = {"LADLasso": 2.2, "HuberLasso": 2.0, "SqrtLasso": 1.9, "least squares": 3.0}
ERRORS |= {"Huber": 2.0, "LAD": 2.5, "LassoCV": 1.0}


def made_up():
    """Two splits of three rows, each method with a residual of its own on all rows."""
    record = {"mae": 0.0, "rmse": 0.0, "seconds": 1.0, "warnings": []}
    own = {"estimate": 1.1, "estimate_stderr": 0.3, "held_out": 1.0, "held_out_stderr": 0.4}
    own |= {"alpha": 0.1, "best_iter": 3, "n_iter": 9}
    splits = []
    for seed in range(2):
        records, residuals = {}, {}
        for method in tables.METHODS:
            if method not in ERRORS:
                records[method] = {"failed": "TimeoutError: more than 60 s"}
                continue
            value = ERRORS[method]
            records[method] = record | {"mae": value, "rmse": value}
            if method in tables.STEINPATH:
                records[method] |= own | {"warnings": [f"UserWarning: {seed + 10} rows of 0.5"]}
            residuals[method] = np.full(3, value)
        splits.append({"records": records, "residuals": residuals, "test": np.arange(3) + seed})
    return splits


def test_summary_of_made_up_splits():
    found = tables.summary(made_up())
    assert found["best"] == {"mae": "Huber", "rmse": "Huber"}
    methods = found["methods"]
    assert methods["LADLasso"]["mae_ratio"] == pytest.approx((1.1, 0), abs=1e-12)
    assert methods["LassoCV"]["rmse_ratio"] == pytest.approx((0.5, 0), abs=1e-12)
    assert methods["LADLasso"]["warned"] == 2
    assert methods["LADLasso"]["warnings"] == {"UserWarning: 10 rows of 0.5": 2}
    assert methods["LADLasso"]["estimate_over_held_out"] == pytest.approx(1.1)
    assert methods["LADLasso"]["estimate_errors"] == pytest.approx([0.2, 0.2])
    assert methods["skglm, quantile"] == {"failed": {"TimeoutError: more than 60 s": 2}}
    lost = tables.behind({"engel": found})
    assert [(name, method) for name, method, _ in lost] == [("engel", "LADLasso")]


def test_one_split(monkeypatch):
    """Some methods on little data; what fails, or is not installed, is in the records."""
    kept = (*tables.STEINPATH, *tables.MINIMISERS, "LassoCV")
    methods = {method: tables.METHODS[method] for method in kept}

    def missing(fitting):
        raise ModuleNotFoundError("No module named 'rival'")

    class Slow:
        def fit(self, X, y):
            time.sleep(60)

    slow = {"slow": lambda fitting: Slow(), "missing": missing}
    monkeypatch.setattr(tables, "METHODS", methods | slow)
    monkeypatch.setattr(tables, "RIVALS", tables.RIVALS | slow)
    X, y = tables.TABLES["statecrime"].load()
    rows = np.arange(len(y))
    found = tables.split("statecrime", rows[::2], rows[1::2], seed=0, limit=1)
    for method in kept:
        residuals = found["residuals"][method]
        assert found["records"][method]["mae"] == pytest.approx(np.abs(residuals).mean())
    expected = np.linalg.lstsq(np.c_[np.ones(26), X[::2]], y[::2])[0]
    predicted = np.c_[np.ones(25), X[1::2]] @ expected
    np.testing.assert_allclose(found["residuals"]["least squares"], y[1::2] - predicted)
    own = found["records"]["SqrtLasso"]
    assert own["held_out"] == pytest.approx(own["rmse"] ** 2)
    failed = {name: record["failed"] for name, record in found["records"].items() if name in slow}
    assert failed["slow"] == "TimeoutError: more than 1 s"
    assert failed["missing"] == "ModuleNotFoundError: No module named 'rival'"
