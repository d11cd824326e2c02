"""How far the estimates can be trusted: audits, coverage, warnings, on data of many kinds.

A quarter of an hour on two cores: `make slow`. The figures of docs/results/reliability.md
come from the same functions.
"""

import numpy as np
import pytest

from benchmarks.accuracy import trust

KINDS = ["Gaussian", "elliptical t₃", "one-hot", "near-duplicate rows", "time series"]
PAIRS = ["LAD–lasso", "LAD–ridge", "sqrt–lasso", "sqrt–ridge"]


def estimates(kind, pair, way, reps):
    calls = [(kind, pair, seed, [way]) for seed in range(reps)]
    return [record[way] for record in trust.in_parallel(trust.replicate, calls, jobs=min(reps, 2))]


@pytest.mark.parametrize("kind", KINDS)
def test_no_failure_without_a_warning(kind):
    for pair in PAIRS:
        (record,) = estimates(kind, pair, "audited", reps=1)
        worst = max(np.abs(record["single"]).max(), abs(record["chosen"]))
        assert worst <= 3 or record["warnings"]
        if kind == "Gaussian":
            assert not record["warnings"]


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS)
def test_the_band_covers_on_the_papers_model(pair):
    found = trust.summary(estimates("Gaussian", pair, "audited", reps=200))
    assert 0.93 <= found["single"] <= 0.985
    assert 0.93 <= found["between"] <= 0.995
    assert found["off by three"] <= 0.05
    assert found["warned"] < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("pair", PAIRS[::3])
def test_the_band_covers_elsewhere_or_there_is_a_warning(kind, pair):
    found = trust.summary(estimates(kind, pair, "audited, row_scale='auto'", reps=200))
    assert found["without a warning"] <= 0.05
    if kind in KINDS[:3]:
        assert 0.87 <= found["single"] <= 0.99
        assert 0.89 <= found["between"] <= 0.995
    else:
        assert found["warned"] == 1


@pytest.mark.slow
def test_audits_come_close_to_leave_one_out():
    settings = {setting.name: setting for setting in trust.CONFIGURATIONS}
    wandering = settings["LAD–lasso .5, n=200, p=100, 800 iterations"]
    good = settings["LAD–lasso .5, n=600, p=300, 100, paper's steps"]
    for setting in (wandering, good):
        calls = [(setting, seed, 20) for seed in range(10)]
        records = trust.in_parallel(trust.distances, calls, jobs=2)
        raw, audited = (trust.rms(np.array([r[k] for r in records])) for k in ("raw", "audited"))
        assert 0.92 <= np.mean([r["covered"] for r in records]) <= 0.98
        if setting is wandering:
            assert raw > 0.2
            assert audited <= 0.05
        else:
            assert audited <= 1.5 * raw
