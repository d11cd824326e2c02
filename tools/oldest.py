"""Print the oldest versions that pyproject.toml allows, as constraints for pip (`make oldest`).

Includes the package and its extras for plots, files and clusters. The extras for tests and
documentation are not constrained.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

_EXTRAS = ("plot", "files", "cluster")


def oldest_versions(project: Path) -> list[str]:
    """Return constraints, one per dependency.

    Parameters
    ----------
    project : Path
        A pyproject.toml in which all dependencies have lower bounds.
    """
    table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    wanted = [*table["dependencies"]]
    for extra in _EXTRAS:
        wanted += table["optional-dependencies"][extra]
    # constraints must not name extras
    return [re.sub(r"\[.*\]", "", text).replace(">=", "==") for text in wanted]


if __name__ == "__main__":
    print(*oldest_versions(Path(__file__).parents[1] / "pyproject.toml"), sep="\n")
