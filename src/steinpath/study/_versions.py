"""Versions that the results depend on: the source code and the libraries."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

from steinpath._support.source_hash import NUMERICAL, source_hash
from steinpath.study._settings import Configuration

_OWN = (
    "_batch",
    "_choice_data",
    "_choose",
    "_classify",
    "_infer",
    "_replicate",
    "_scenarios",
    "_settings",
)
_PACKAGES = ("steinpath", "numpy", "scipy", "scikit-learn", "pyarrow", "torch")

#: Hash of the source code that computes replications, at the time of import.
CODE = source_hash(*NUMERICAL, *(f"study/{name}.py" for name in _OWN))


def versions() -> dict[str, str]:
    """Return the versions of the code, Python and the libraries in this process."""
    found = {"code": CODE, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def computed_with(config: Configuration) -> str:
    """Return, as JSON, the versions that the results of a replication may depend on."""
    return _computed_with(config.backend, version)


@lru_cache(maxsize=4)
def _computed_with(backend: str, version: Callable[[str], str]) -> str:
    """Implement `computed_with`; cached, because looking up versions takes milliseconds."""
    names = ("python", "numpy", "scipy", *(["torch"] if backend == "torch" else []))
    known = versions()
    return json.dumps({name: known.get(name) for name in names}, sort_keys=True)
