"""The examples run."""

import runpy
from pathlib import Path

import matplotlib as mpl
import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
# They take longest, and `make docs` runs them.
SLOW = ("plot_which_loss", "plot_which_penalty")


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(file, id=file.stem, marks=[pytest.mark.slow] * (file.stem in SLOW))
        for file in EXAMPLES
    ],
)
# warnings about real data (near-duplicate rows among products of features) are theirs to give
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_example(example, capsys):
    mpl.use("Agg")
    runpy.run_path(str(example), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= 3


def test_there_are_examples():
    assert len(EXAMPLES) >= 10
