"""What is released: versions, dependencies and files agree wherever they are written down."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_one_version_everywhere():
    found = {
        "installed": version("steinpath"),
        "CITATION.cff": _found(r"^version: (.*)$", "CITATION.cff"),
        "CHANGELOG.md": _found(r"^## (\d\S*)", "CHANGELOG.md"),
        "recipe": _found(r'set version = "(.*)"', "recipe/meta.yaml"),
    }
    assert found == dict.fromkeys(found, PROJECT["version"])


def test_the_release_date_is_that_of_the_changelog():
    date = _found(r"^date-released: (.*)$", "CITATION.cff")
    assert date in _found(r"^## (\d.*)$", "CHANGELOG.md")


def test_the_recipe_has_our_dependencies():
    recipe = (ROOT / "recipe/meta.yaml").read_text(encoding="utf-8")
    run = recipe.split("  run:\n")[1].split("  run_constrained:")[0]
    listed = {line.strip(" -").replace(" ", "") for line in run.splitlines()}
    assert listed == {*PROJECT["dependencies"], f"python{PROJECT['requires-python']}"}


def test_community_files_are_there():
    for name in ("LICENSE", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md"):
        assert (ROOT / name).read_text(encoding="utf-8").strip()
    assert (ROOT / "src/steinpath/py.typed").exists()


def _found(pattern, file):
    text = (ROOT / file).read_text(encoding="utf-8")
    return re.search(pattern, text, re.MULTILINE)[1]
