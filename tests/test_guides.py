"""The guides' own code runs, and prints what they say."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sklearn

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Run in a folder that has the data of the examples."""
    shutil.copytree(ROOT / "examples" / "data", tmp_path / "examples" / "data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("page", "count", "printing"),
    [
        *[("docs/groups", 5, 2), ("docs/intervals", 2, 2), ("docs/coefficients", 2, 2)],
        *[("docs/classification", 6, 5), ("docs/summaries", 3, 3), ("docs/dataframe", 8, 8)],
        *[("docs/tutorial", 6, 4), ("docs/installation", 2, 1), ("docs/faq", 3, 2)],
        ("docs/curves", 2, 2),
        ("README", 4, 4),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of rows that are left out in the wrong way
def test_code_of_guides_prints_what_they_say(page, count, printing, capsys, folder):
    text, names = (ROOT / f"{page}.md").read_text("utf-8"), {}
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


@pytest.mark.parametrize(
    "page",
    [
        *("README.md", "docs/tutorial.md", "docs/dataframe.md"),
        pytest.param("docs/command.md", marks=pytest.mark.slow),
    ],
)
def test_commands_print_what_the_pages_say(page, folder):
    """Lines that a page leaves out are shown as "…"."""
    text = (ROOT / page).read_text("utf-8")
    shown = re.findall(r"```console\n\$ (?:\S*/)?steinpath (.*)\n((?s:.*?))```", text)
    assert len(shown) == text.count("```console")
    for arguments, said in shown:
        command = [sys.executable, "-m", "steinpath", *arguments.split()]
        width = os.environ | {"COLUMNS": "120", "PYTHONUTF8": "1"}
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        run = subprocess.run(command, **both, env=width, encoding="utf-8", check=True)
        printed = re.sub(" +$", "", run.stdout, flags=re.MULTILINE)
        assert re.fullmatch("(?s:.*)".join(map(re.escape, said.split("…\n"))), printed), printed
