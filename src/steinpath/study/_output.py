"""What a study writes besides its replications: manifest, tables (CSV, Markdown) and figures."""

from __future__ import annotations

import json
import platform
import shlex
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from steinpath._support import files
from steinpath.study._base import Exhibit, Table
from steinpath.study._store import CODE, explained

# Significant digits of numbers in tables.
_DIGITS = ".10g"


def write_text(file: Path, text: str) -> None:
    """Write a text file atomically."""
    with explained(f"cannot write {file}"):
        files.write_text(file, text)


def write_tables(folder: Path, summary: Table, exhibits: Iterable[Exhibit]) -> list[Path]:
    """Write the summary as CSV and Markdown, and the tables of the figures as CSV."""
    texts = {"summary.csv": files.as_csv(summary, _DIGITS), "summary.md": as_markdown(summary)}
    texts |= {f"{name}.csv": files.as_csv(table, _DIGITS) for name, table, _ in exhibits}
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def write_figures(folder: Path, exhibits: Iterable[Exhibit]) -> list[Path]:
    """Write the figures as PDF and PNG; raise ImportError if they cannot be drawn."""
    from steinpath.plots import close, drawn_as

    written = []
    for name, table, draw in exhibits:
        try:
            figure = draw(table)
            pdf = drawn_as(figure, "pdf", metadata={"CreationDate": None})
            png = drawn_as(figure, "png", dpi=100)
            close(figure)
        except (OSError, MemoryError):
            raise
        except Exception as error:
            raise ImportError(str(error) or type(error).__name__) from error
        for file, content in ((folder / f"{name}.pdf", pdf), (folder / f"{name}.png", png)):
            with explained(f"cannot write {file}"):
                files.write_bytes(file, content)
            written.append(file)
    return written


def as_markdown(table: Table) -> str:
    """Return a table as Markdown, rounded for reading."""
    head = list(table[0])
    body = [[cell(row[name]).replace("|", "\\|") for name in head] for row in table]
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, ["---"] * len(head), *body])


def cell(value: Any) -> str:
    """Format a value for display."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


@cache  # looking up versions takes milliseconds
def versions(*names: str) -> dict[str, str]:
    """Return the versions of Python and of those packages that are installed."""
    installed = {"python": platform.python_version()}
    for name in names:
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed


class Manifest:
    """The file ``manifest.json``: what a study is, and command, versions and time of each run."""

    def __init__(self, file: Path, about: dict[str, Any]):
        try:
            runs = list(json.loads(file.read_bytes())["runs"])
        except (OSError, ValueError, KeyError, TypeError):  # none yet, or not a manifest
            runs = []
        self.file, self.content = file, {**about, "runs": runs}

    @contextmanager
    def run(self) -> Iterator[dict[str, Any]]:
        """Record a run at its start, and again at its end; yield the record, to add to it."""
        packages = ("steinpath", "numpy", "scipy", "scikit-learn", "pyarrow", "torch")
        entry: dict[str, Any] = {
            "command": shlex.join(["steinpath", *sys.argv[1:]]),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": f"{platform.machine()}, {platform.system()}",
            "versions": {"code": CODE, **versions(*packages)},
            "ended": None,
        }
        self.content["runs"].append(entry)
        self.write()
        start = time.monotonic()
        try:
            yield entry
            entry["ended"] = "complete"
        except BaseException as error:
            entry["ended"] = f"{type(error).__name__}: {error}"
            raise
        finally:
            entry["seconds"] = round(time.monotonic() - start, 1)
            self.write()

    def write(self) -> None:
        """Write the file."""
        write_text(self.file, json.dumps(self.content, indent=1) + "\n")
