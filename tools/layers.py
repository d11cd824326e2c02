"""Check that each folder of the package imports only from folders below it; run by `make lint`.

    python tools/layers.py

Imports inside functions and imports for type checkers are checked as well. `plots` and `app` may
import everything. Only methods such as ``path.plot()`` may import `plots`, when called; nothing
else may import `plots` or `app`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "steinpath"
#: Folders and modules, lowest layer first; those in one tuple must not import each other.
LAYERS = (
    ("_support",),
    ("problem",),
    ("design",),
    ("algorithms",),
    ("engine",),
    ("risk",),
    ("inference",),
    ("tuning",),
    ("estimators",),
    ("simulate", "cluster"),
    ("study", "distributed"),
    ("plots",),
    ("app",),
)
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
TOP = ("plots", "app")


def imports(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the import statements of a module, with the layer each imports from."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names = [f"{base}.{a.name}" for a in node.names] if base == "steinpath" else [base]
        for name in names:
            package, _, rest = name.partition(".")
            if package == "steinpath" and isinstance(node, ast.stmt):
                yield node, rest.partition(".")[0]


def violations(file: Path, package: Path = PACKAGE) -> Iterator[str]:
    """Yield a message for each forbidden import of a module."""
    relative = file.relative_to(package)
    own = relative.parts[0].removesuffix(".py")
    if own in ("__init__", "__main__", "_public"):  # the command, and the list of public names
        return
    if own not in HEIGHT:
        yield f"{relative}: {own} is not assigned to a layer; add it to tools/layers.py"
        return
    tree = ast.parse(file.read_text(encoding="utf-8"))
    at_module_level = set(map(id, tree.body))
    for node, other in imports(tree):
        where = f"{relative}:{node.lineno}"
        if other == own:
            continue
        if other not in HEIGHT:
            yield f"{where}: imports {other or 'the package'}; import from the defining folder"
        elif other == "plots" and own not in TOP and id(node) not in at_module_level:
            continue
        elif HEIGHT[other] >= HEIGHT[own]:
            yield f"{where}: {own} must not import {other}, which is not in a lower layer"


def main() -> int:
    """Print all violations; return 1 if there are any, otherwise 0."""
    found = [line for file in sorted(PACKAGE.rglob("*.py")) for line in violations(file)]
    print("\n".join(found) if found else "layers: all imports are from lower layers")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
