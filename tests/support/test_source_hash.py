"""The hash of the source: the same for the same code, wherever it is, and another for any other."""

import ast
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import steinpath
from steinpath._support import source_hash as module
from steinpath._support.source_hash import NUMERICAL, hash_of, source_hash
from steinpath.study import _store as store

PACKAGE = Path(steinpath.__file__).parent
HASHED = (*NUMERICAL, *(f"study/{name}.py" for name in store.COMPUTING))


@pytest.fixture
def copy(tmp_path):
    """A copy of the package that may be changed."""
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(PACKAGE, tmp_path / "elsewhere" / "steinpath", ignore=ignored))


def test_a_copy_has_the_same_hash(copy):
    expected = hash_of(copy, HASHED)
    assert expected == source_hash(*HASHED) == store.CODE
    assert len(expected) == 16
    assert hash_of(copy, HASHED[::-1]) == expected
    for file in copy.rglob("*.py"):
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    (copy / "engine" / "__pycache__").mkdir()
    (copy / "engine" / "__pycache__" / "_run.cpython-311.pyc").write_bytes(b"compiled")
    (copy / "engine" / ".#_run.py").symlink_to("an editor's, and nowhere")
    (copy / "engine" / "notes.txt").write_text("none of it is code")
    (copy / "app" / "fitted.py").unlink()
    assert hash_of(copy, HASHED) == expected


def test_an_archive_has_the_same_hash(copy, tmp_path):
    with zipfile.ZipFile(tmp_path / "package.zip", "w") as archive:
        for file in copy.rglob("*.py"):
            archive.write(file, file.relative_to(copy.parent))
    packed = zipfile.Path(tmp_path / "package.zip", "steinpath/")
    assert hash_of(packed, HASHED) == store.CODE
    # also when the package is imported from there
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'package.zip')!r}); import steinpath; "
        "from steinpath.study._store import CODE; print(steinpath.__file__, CODE)"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    where, code = done.stdout.split()
    assert "package.zip" in where
    assert code == store.CODE


@pytest.mark.parametrize("name", HASHED)
def test_any_change_gives_another_hash(copy, name):
    before = hash_of(copy, HASHED)
    place = copy / name
    file = place if place.is_file() else sorted(place.rglob("*.py"))[-1]
    content = file.read_bytes()
    found = {before}
    for change in (content + b"\n", content.replace(b"1", b"2", 1), b""):
        if change != content:
            file.write_bytes(change)
            found.add(hash_of(copy, HASHED))
    assert len(found) >= 3
    file.write_bytes(content)
    assert hash_of(copy, HASHED) == before
    if place.is_dir():
        (place / "_new.py").touch()
        assert hash_of(copy, HASHED) != before
        (place / "_new.py").rename(place / "_renamed.py")
        assert hash_of(copy, HASHED) not in (before, hash_of(copy, NUMERICAL))


def test_without_the_source_it_is_the_version(copy, monkeypatch):
    before = hash_of(copy, HASHED)
    for file in (copy / "engine").rglob("*.py"):
        file.rename(file.with_suffix(".pyc"))
    first = hash_of(copy, HASHED)
    shutil.rmtree(copy / "engine")
    assert hash_of(copy, HASHED) == first != before
    monkeypatch.setattr(module, "version", lambda name: "0.0.0")
    assert hash_of(copy, HASHED) != first


def imported(name):
    """Modules of the package that a module imports, at once or later, but for plots of results."""
    for node in ast.walk(ast.parse((PACKAGE / name).read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("steinpath."):
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("steinpath"))


def test_all_that_replications_import_is_hashed():
    left, seen = {"study/_replicate.py"}, set()
    while left:
        name = left.pop()
        seen.add(name)
        for found in imported(name):
            place = found.removeprefix("steinpath.").replace(".", "/")
            files = {f"{place}.py", f"{place}/__init__.py"}
            left |= {file for file in files if (PACKAGE / file).exists()} - seen
        left = {name for name in left if not name.startswith("plots/")}
    assert len(seen) > 30
    assert [name for name in sorted(seen) if not name.startswith(HASHED)] == []
