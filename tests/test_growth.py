"""How cost grows: the arithmetic of limits and exponents, a tiny run, and the page."""

import json

import numpy as np
import pytest

from benchmarks.speed import growth


def test_exponents_are_of_the_largest_decade():
    sizes = np.array([10.0, 30, 100, 300, 1000])
    assert growth.exponent(sizes, 5 * sizes**1.5) == pytest.approx(1.5)
    flat_before = np.maximum(sizes, 100) ** 2
    assert growth.exponent(sizes, flat_before) == pytest.approx(2)


def test_limits_by_hand():
    """1000 × 125 doubles are a MB, read twice in each of ten iterations; 5 Mflop per column."""
    rates = object.__new__(growth.Rates)
    rates.flops = {"float64": 1e9, "float32": 2e9}
    rates._reading = {20: 1e9, 19: 2e9}
    setting = growth.Configuration(n=1000, p=125, n_iter=10)
    assert rates.limit(setting, 1, "float64") == pytest.approx(20e6 / 1e9)  # reading
    assert rates.limit(setting, 100, "float64") == pytest.approx(0.5)  # computing
    assert rates.limit(setting, 1, "float32") == pytest.approx(10e6 / 2e9)
    assert rates.limit(setting, 100, "float32") == pytest.approx(0.25)


def test_a_tiny_run(tmp_path):
    found = json.loads(json.dumps(growth.run(quick=True, workers=False)))
    for sweep in growth.QUICK:
        all_curves = growth.curves(found["records"], sweep.name)
        assert tuple(all_curves) == sweep.operations
        for sizes, took, limit in all_curves.values():
            assert tuple(sizes) == sweep.sizes
            assert (took > 0).all()
            assert (limit >= 0).all()
    for part in ("exponents", "seconds"):
        rows = growth.PARTS[part](found).splitlines()
        assert len({row.count("|") for row in rows}) == 1
        assert len(rows) == 2 + len(growth.QUICK) * (1 if part == "exponents" else 2)
    figures = growth.draw(found, tmp_path)
    assert [path.name for path in figures] == [
        f"growth-{name}.png" for name in ("rows", "columns", "iterations", "penalties")
    ]
    assert all(path.stat().st_size > 5000 for path in figures)


@pytest.mark.slow
def test_workers():
    found = growth.run(quick=True, workers=True)
    workers = [r for r in found["records"] if r["quantity"] == growth.WORKERS]
    assert [(r["size"], r["operation"]) for r in workers] == [
        (count, name) for count in (1, 2) for name in ("path", "risk")
    ]
    assert len(growth.workers_table(found).splitlines()) == 4
