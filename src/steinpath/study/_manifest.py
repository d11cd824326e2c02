"""Provenance of a study: its configurations, and command, versions and time of each run."""

from __future__ import annotations

import json
import platform
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from steinpath._support.progress import Clock
from steinpath.study._base import Sizes, Study
from steinpath.study._settings import Configuration
from steinpath.study._store import write_text
from steinpath.study._versions import versions

# Keys present in every run, and the maximum size of a manifest in bytes.
_NOTED = ("command", "started", "machine", "versions", "ended")
_MOST = 2**26


class Manifest:
    """The file ``manifest.json`` of a study."""

    def __init__(self, file: Path, content: dict[str, Any]):
        self.file, self.content = file, content

    @classmethod
    def of(
        cls, folder: Path, study: Study, sizes: Sizes, seed: int, plan: Sequence[Configuration]
    ) -> Manifest:
        """Describe a study, keeping the records of earlier runs."""
        file = folder / "manifest.json"
        content = {
            "study": study.name,
            "sizes": asdict(sizes),
            "seed": seed,
            "settings": {config.key: config.describe() for config in plan},
            "runs": _runs_in(file),
        }
        return cls(file, content)

    @contextmanager
    def run(self) -> Iterator[dict[str, Any]]:
        """Record a run at its start, and again when it has ended, also after an error.

        Yields
        ------
        dict
            The record, to which keys may be added.
        """
        entry: dict[str, Any] = {
            "command": shlex.join(["steinpath", *sys.argv[1:]]),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": f"{platform.machine()}, {platform.system()}",
            "versions": versions(),
            "ended": None,
        }
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


def _runs_in(file: Path) -> list[dict[str, Any]]:
    """Return the runs recorded in a manifest; empty if the file is not a manifest."""
    try:
        if not file.is_file() or file.stat().st_size > _MOST:
            return []
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return []
    runs = content.get("runs") if isinstance(content, dict) else None
    return runs if isinstance(runs, list) and all(map(_is_run, runs)) else []


def _is_run(entry: Any) -> bool:
    """Return whether this is a record written by `Manifest.run`."""
    if not isinstance(entry, dict) or not entry.keys() >= set(_NOTED):
        return False
    kinds: dict[str, Any] = {"versions": dict, "failures": list}
    plain = str | int | float | None
    for name, value in entry.items():
        if not isinstance(value, kinds.get(name, plain)):
            return False
        inside = value.values() if name == "versions" else value if name == "failures" else ()
        if not all(isinstance(each, str) for each in inside):
            return False
    return True
