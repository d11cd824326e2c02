"""Count the modules of the package whose functions a job passes.

    python tools/modules.py             # LADLasso().fit, and steinpath fit on the example data
    python tools/modules.py --list      # with their names

A reader who follows the job in an editor opens each of these files. Modules that are only imported
are not counted, nor are functions that run at import; threads are.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "steinpath"


def passed(job: Callable[[], Any]) -> list[str]:
    """Return the modules of the package in which a job calls functions."""
    found: set[str] = set()

    def trace(frame: FrameType, event: str, argument: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        # "<module>" and the bodies of classes run at import
        at_import = frame.f_code.co_name == "<module>" or not frame.f_code.co_flags & 0x2
        if name.startswith("steinpath.") and not at_import:
            found.add(name)

    threading.settrace(trace)
    sys.settrace(trace)
    try:
        job()
    finally:
        sys.settrace(None)
        threading.settrace(None)
    return sorted(found)


def fit_estimator() -> None:
    """Fit the usual estimator to simulated rows."""
    import numpy as np

    import steinpath as sp

    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 20))
    y = X[:, 0] + rng.standard_t(2, 400)
    estimator = sp.LADLasso(random_state=0)
    estimator.fit(X, y)


def fit_file() -> None:
    """Run ``steinpath fit`` on the example data, without plots."""
    from steinpath.app.cli import main

    file = ROOT / "examples" / "data" / "houses.csv"
    with tempfile.TemporaryDirectory() as folder:
        try:
            main(["fit", str(file), "--target", "price", "--out", folder, "--no-plots", "--json"])
        except SystemExit as end:
            if end.code:
                raise


def main() -> int:
    """Print the numbers of modules."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the names of the modules")
    listed = parser.parse_args().list
    import steinpath

    steinpath.LADLasso  # noqa: B018  (imports what public names need)
    for name, job in (("LADLasso().fit", fit_estimator), ("steinpath fit", fit_file)):
        modules = passed(job)
        print(f"{name}: {len(modules)} modules", file=sys.stderr)
        if listed:
            print("\n".join(f"  {module}" for module in modules), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
