"""Hash of the source code on which numerical results depend.

Version numbers are not enough: they stay the same during development.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from importlib.resources.abc import Traversable

#: Folders of this package that compute paths, risks, selections and simulated data.
NUMERICAL = (
    *("_support", "algorithms", "design", "engine", "inference"),
    *("problem", "risk", "simulate", "tuning"),
)

# Modules of `_support` that show and write results, without effect on any number.
_PRESENTATION = {
    f"_support/{name}.py"
    for name in ("charts", "docstrings", "files", "messages", "printing", "progress")
}


@cache
def source_hash(*names: str) -> str:
    """Hash the source of folders and modules of this package; without source files, the version."""
    return hash_of(resources.files("steinpath"), names)


def hash_of(package: Traversable, names: tuple[str, ...]) -> str:
    """Hash the names and contents of modules in a folder or an archive."""
    modules = [dict(_modules(package.joinpath(name), name)) for name in names]
    sources = {file: source for each in modules for file, source in each.items()}
    if not all(modules):  # there are no source files
        sources = {}
        with suppress(PackageNotFoundError):
            sources = {"version": version("steinpath").encode()}
    digest = hashlib.sha256()
    for name in sorted(sources.keys() - _PRESENTATION):
        for part in (name.encode(), sources[name]):
            digest.update(b"%d " % len(part) + part)
    return digest.hexdigest()[:16]


def _modules(place: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    if place.is_dir():
        for entry in place.iterdir():
            yield from _modules(entry, f"{name}/{entry.name}")
    elif name.endswith(".py") and place.is_file():
        # git may have changed the line endings
        yield name, place.read_bytes().replace(b"\r\n", b"\n")
