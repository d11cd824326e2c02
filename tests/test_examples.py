"""The examples run."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
# warnings about real data (near copies among products of features) are theirs to give
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_example(example, capsys):
    runpy.run_path(str(example))
    assert len(capsys.readouterr().out.splitlines()) >= 3


def test_there_are_examples():
    assert EXAMPLES
