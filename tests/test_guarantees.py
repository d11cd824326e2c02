"""The guarantees name existing tests."""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/guarantees.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)


def functions_of(file):
    """Names of the functions of a file that pytest runs in `make test`."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and "mark.slow" not in "".join(map(ast.unparse, node.decorator_list))
    }


def test_each_promise_has_its_test():
    promises = re.findall(r"^\| (?!guarantee|-)(.+) \| (.+) \|$", PAGE, flags=re.M)
    assert len(promises) > 20
    for promise, shown in promises:
        assert re.search(r"`tests/", shown), promise


def test_the_tests_are_there():
    assert len(NAMED) > 40
    for file, name in NAMED:
        there = functions_of(file)
        assert there, file
        assert not name or name in there, f"{file}::{name}"


def test_warnings_are_errors():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["tool"]["pytest"]["ini_options"]["filterwarnings"] == ["error"]
