"""What replications are computed with: the code, and the libraries that its numbers depend on."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

from steinpath._support.source_hash import NUMERICAL, source_hash
from steinpath.study._settings import Setting

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

#: The code of replications, as it was when this process imported it.
CODE = source_hash(*NUMERICAL, *(f"study/{name}.py" for name in _OWN))


def versions() -> dict[str, str]:
    """Return the versions of all that a study uses, where this runs."""
    found = {"code": CODE, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def computed_with(setting: Setting) -> str:
    """Return, as JSON, the versions that the bits of a replication may depend on."""
    return _computed_with(setting.backend, version)


@lru_cache(maxsize=4)
def _computed_with(backend: str, version: Callable[[str], str]) -> str:
    """Do as `computed_with`, once: to find out the versions takes milliseconds."""
    names = ("python", "numpy", "scipy", *(["torch"] if backend == "torch" else []))
    known = versions()
    return json.dumps({name: known.get(name) for name in names}, sort_keys=True)
