"""Which code this is: a hash of the source that numbers depend on.

Versions do not tell: they stay the same while the code is worked on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from importlib.resources.abc import Traversable

#: What computes paths, their risks, choices, and simulated data: folders of this package.
NUMERICAL = (
    *("_support", "algorithms", "design", "engine", "inference"),
    *("problem", "risk", "simulate", "tuning"),
)


@cache
def source_hash(*names: str) -> str:
    """Hash the source of folders and modules of this package, such as "engine", "risk/_audit.py".

    It is that of the version where there is no source. The files are read once per process.
    """
    return hash_of(resources.files("steinpath"), names)


def hash_of(package: Traversable, names: tuple[str, ...]) -> str:
    """Hash the names and contents of modules, wherever they are: a folder, an archive."""
    found: dict[str, bytes] = {}
    try:
        for name in names:
            modules = dict(_modules(package.joinpath(name), name))
            if not modules:
                raise FileNotFoundError(name)
            found |= modules
    except OSError:
        found = {"version": _version().encode()}
    digest = hashlib.sha256()
    for name in sorted(found):
        for part in (name.encode(), found[name]):
            digest.update(b"%d " % len(part) + part)
    return digest.hexdigest()[:16]


def _modules(place: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    if place.is_dir():
        for each in place.iterdir():
            yield from _modules(each, f"{name}/{each.name}")
    elif name.endswith(".py") and place.is_file():
        # git may have changed the ends of lines
        yield name, place.read_bytes().replace(b"\r\n", b"\n")


def _version() -> str:
    try:
        return version("steinpath")
    except PackageNotFoundError:
        return "unknown"
