"""The guides' own code runs, and prints what they say."""

import re
from pathlib import Path

import numpy as np
import pytest
import sklearn

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize(
    ("page", "count", "printing"),
    [
        *[("groups", 5, 2), ("intervals", 2, 2), ("coefficients", 1, 1), ("classification", 6, 5)],
        ("results", 3, 3),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of rows that are left out in the wrong way
def test_code_of_guides_prints_what_they_say(page, count, printing, capsys):
    text, names = (DOCS / f"{page}.md").read_text("utf-8"), {}
    blocks = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", text, re.DOTALL)
    assert (len(blocks), sum(bool(said) for _, said in blocks)) == (count, printing)
    with sklearn.config_context():  # which a page may change
        for code, said in blocks:
            exec(code, names)
            assert capsys.readouterr().out == said


def test_least_coverage_that_is_stated_is_that_of_the_theorem():
    """Theorem 4 of Barber, Candès, Ramdas and Tibshirani (2021), for ten folds and alpha = 0.1."""
    text = (DOCS / "intervals.md").read_text("utf-8")
    sizes, shares = re.search(r"\| n \| (.*) \|\n.*\n\| at least \| (.*) \|", text).groups()
    n, K, alpha = np.array([int(size) for size in sizes.split(" | ")]), 10, 0.1
    least = 1 - 2 * alpha - np.minimum(2 * (1 - 1 / K) / (n / K + 1), (1 - K / n) / (K + 1))
    assert np.all(least >= 1 - 2 * alpha - np.sqrt(2 / n))
    assert shares == " | ".join(f"{share:.1%}" for share in least)
