"""The fuzzer, for a few seconds; ``make fuzz`` goes on for longer."""

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import outcomes
import steinpath as sp
from estimator_surface import ESTIMATORS, PARAMETERS
from fuzz import try_case
from surfaces import SURFACES, Case

#: Cases of each surface, of seeds of their own.
CASES, FIRST = 150, 1_000_000


@pytest.mark.parametrize("surface", sorted(SURFACES))
def test_no_findings(surface):
    cases = CASES // 3 if surface == "commands" else CASES  # which take longest
    results = [try_case(surface, FIRST + k) for k in range(cases)]
    assert [each for each in results if each["outcome"] == "finding"] == []
    done = sum(each["outcome"] == "done" for each in results)
    # enough of both: what is always refused tests nothing but refusals
    assert cases / 5 < done < cases


def test_all_estimators_are_fuzzed_with_all_of_their_parameters():
    public = {getattr(sp, name) for name in sp.__all__}
    expected = {
        kind for kind in public if isinstance(kind, type) and issubclass(kind, BaseEstimator)
    }
    # the encoder is fuzzed with files
    assert {*ESTIMATORS} == expected - {sp.TableEncoder}
    drawn = {name for kind in ESTIMATORS for name in inspect.signature(kind).parameters}
    assert {*PARAMETERS} == drawn


def test_cases_are_known_by_their_seeds():
    drawn = [Case(np.random.default_rng(7), Path()) for _ in range(2)]
    for case in drawn:
        SURFACES["run"](case)
    assert repr(drawn[0].tried) == repr(drawn[1].tried)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: np.array([1.0]) / np.array([0.0]), "a warning leaks: RuntimeWarning"),
        (lambda: np.linalg.inv(np.zeros((2, 2))), "LinAlgError"),
        (lambda: {}["x"], "KeyError"),
    ],
)
def test_what_is_neither_right_nor_clear_is_found(call, said, monkeypatch):
    monkeypatch.setattr(outcomes, "HERE", Path("elsewhere"))
    with pytest.raises(outcomes.Finding, match=said):
        outcomes.evaluate(call)


def test_hangs_are_found(monkeypatch):
    def hangs(case):
        while True:
            pass

    monkeypatch.setitem(SURFACES, "hangs", hangs)
    assert "still running" in try_case("hangs", 0, limit=1)["said"]


@pytest.mark.slow
def test_a_process_that_dies_is_a_finding_and_the_rest_goes_on():
    code = (
        "import os, surfaces, fuzz\n"
        "surfaces.SURFACES |= {'dies': lambda case: os._exit(9), 'lives': lambda case: None}\n"
        "cases = [('lives', 0), ('dies', 1), ('lives', 2)]\n"
        "found = fuzz.try_all(cases, 1, start='fork')\n"  # which knows the new surfaces
        "print([each['outcome'] for each in found])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parent
    )
    assert ended.stdout.strip() == "['done', 'finding', 'done']", ended.stderr
