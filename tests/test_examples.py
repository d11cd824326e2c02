"""The examples run."""

import runpy
from pathlib import Path

import matplotlib as mpl
import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
# warnings about real data (near copies among products of features) are theirs to give
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_example(example, capsys):
    mpl.use("Agg")
    runpy.run_path(str(example), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= 3


def test_there_are_examples():
    assert len(EXAMPLES) >= 10
