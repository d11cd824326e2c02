"""How a study came about: its settings, and for each run the command, versions and time."""

from __future__ import annotations

import json
import platform
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console

from steinpath._support.printing import printable
from steinpath._support.progress import Clock
from steinpath.study._base import Sizes, Study
from steinpath.study._settings import Setting
from steinpath.study._store import write_text

_PACKAGES = ("steinpath", "numpy", "scipy", "scikit-learn", "pyarrow", "torch")


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


class Manifest:
    """The file ``manifest.json`` of a study."""

    def __init__(self, file: Path, content: dict[str, Any]):
        self.file, self.content = file, content

    @classmethod
    def of(
        cls, folder: Path, study: Study, sizes: Sizes, seed: int, plan: Sequence[Setting]
    ) -> Manifest:
        """Describe a study, and keep what is known of its earlier runs."""
        file = folder / "manifest.json"
        try:
            runs = json.loads(file.read_text(encoding="utf-8"))["runs"]
        except (OSError, ValueError, KeyError, TypeError):
            runs = []
        content = {
            "study": study.name,
            "sizes": asdict(sizes),
            "seed": seed,
            "settings": {setting.key: setting.describe() for setting in plan},
            "runs": runs,
        }
        return cls(file, content)

    @contextmanager
    def run(self, console: Console) -> Iterator[dict[str, Any]]:
        """Note a run: at its start, and once more when it has ended, however it did.

        Yields
        ------
        dict
            What is noted; more may be added.
        """
        before = self.content["runs"][-1:]
        entry: dict[str, Any] = {
            "command": shlex.join(["steinpath", *sys.argv[1:]]),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": f"{platform.machine()}, {platform.system()}",
            "versions": versions(),
            "ended": None,
        }
        if before and before[0].get("versions") != entry["versions"]:
            console.print(
                "The finished replications were made with other versions (see "
                f"{printable(str(self.file))}); use another folder to have all of them from one",
                style="yellow",
                markup=False,
            )
        self.content["runs"].append(entry)
        self.write()
        clock = Clock()
        try:
            yield entry
            entry["ended"] = "complete"
        except BaseException as error:
            entry["ended"] = f"{type(error).__name__}: {error}"
            raise
        finally:
            entry["seconds"] = round(clock(), 1)
            self.write()

    def write(self) -> None:
        """Write the file."""
        write_text(self.file, json.dumps(self.content, indent=1) + "\n")
