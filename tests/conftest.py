"""What all tests share."""

import os
import random
import signal
import sys
from collections import defaultdict

import hypothesis
import pytest

from backends import NUMPY, backend  # noqa: F401 (a fixture)

# The same examples each time, and few of them; many others by `make properties`.
hypothesis.settings.register_profile(
    "few", max_examples=20, derandomize=True, deadline=None, database=None
)
hypothesis.settings.register_profile("many", max_examples=1000, deadline=None, database=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "few"))


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def ctrl_c():
    """Have SIGINT interrupt us and what we start: as a background job we would ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# Files that take longest, to begin with: a process that starts on one at the end keeps all waiting.
LONGEST = (
    *("test_tuning", "test_command", "test_cluster", "test_estimators", "test_compression"),
    *("test_parallel", "test_memmap", "test_fits", "test_backends", "test_examples"),
    *("test_gap", "test_classifiers", "test_members", "test_path", "test_simulate"),
)


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="a few cases of each test, on NumPy")
    parser.addoption("--thin", action="store_true", help="at most 8 cases of each test")


# Cases of a test on each of the other libraries, where the lines are the same; with --quick there
# are none, and so many of any test; with --thin, so many on each library.
OTHERS, QUICK, THIN, THIN_OTHERS = 2, 4, 8, 1


def pytest_collection_modifyitems(config, items):
    """Put the longest first; leave out cases that `backends.everywhere` does not want."""
    items.sort(key=lambda item: item.path.stem not in LONGEST)
    quick, thin = config.getoption("quick"), config.getoption("thin")
    others = THIN_OTHERS if thin else OTHERS
    cases = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("every")
        library = item.callspec.params["backend"] if mark else NUMPY
        every = mark.args[0] if mark else 1
        cases[getattr(item, "originalname", ""), str(item.path), library, every].append(item)
    left_out = set()
    for (name, _, library, every), found in cases.items():
        if library != NUMPY:
            most = 0 if quick else min(others, -(-len(found) // every))
        elif quick or thin:
            most = min(QUICK if quick else THIN, len(found))
        else:
            continue
        # others on each library, but the same each time
        left_out |= {*found} - {*random.Random(f"{name} {library}").sample(found, most)}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
