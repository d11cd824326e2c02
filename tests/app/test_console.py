"""What the pages say that commands print is what they print."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from steinpath.app.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "command.md", ROOT / "docs" / "tutorial.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_consoles(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        command, said = block.split("\n", 1)
        arguments = re.fullmatch(r"\$ (?:\.venv/bin/)?steinpath (.*)", command)[1].split()
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        printed = "\n".join(line.rstrip() for line in result.output.splitlines()).strip("\n")
        said = said.strip("\n")
        if said.startswith("…\n"):  # the end of it
            printed, said = printed[1 - len(said) :], said.removeprefix("…")
        assert printed == said
