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
    *("test_distributed", "test_command", "test_fits", "test_parallel", "test_interrupted"),
    *("test_kills", "test_disk"),
)


def pytest_addoption(parser):
    parser.addoption(
        "--numpy", action="store_true", help="leave out what runs on other array libraries"
    )


# On each of the other libraries no test needs more cases than so many: the lines are the same.
MOST = 3


def pytest_collection_modifyitems(config, items):
    """Put the longest first; leave out cases that `backends.everywhere` does not want."""
    items.sort(key=lambda item: item.path.stem not in LONGEST)
    cases = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("every")
        running = mark and item.callspec.params["backend"]
        if mark is not None and running != NUMPY:
            cases[item.originalname, str(item.path), str(running), mark.args[0]].append(item)
    left_out = set()
    for (name, _, running, every), found in cases.items():
        most = 0 if config.getoption("numpy") else min(MOST, -(-len(found) // every))
        # others on each library, but the same each time
        left_out |= {*found} - {*random.Random(name + running).sample(found, most)}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
