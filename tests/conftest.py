"""What all tests share."""

import os
import signal
import sys
from collections import Counter

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


def pytest_collection_modifyitems(config, items):
    """Put the longest first; leave out cases that `backends.everywhere` does not want."""
    items.sort(key=lambda item: item.path.stem not in LONGEST)
    met, left_out = Counter(), []
    for item in items:
        mark = item.get_closest_marker("every")
        running = mark and item.callspec.params["backend"]
        if mark is None or running == NUMPY:
            continue
        case = item.originalname, item.path, str(running)
        if met[case] % mark.args[0]:
            left_out.append(item)
        met[case] += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
