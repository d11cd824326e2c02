"""Replications on disk: one Parquet part each, whole or not there at all.

A folder holds ``parts/<hash of the setting>-<seed>.parquet``, which any study may use, and a
subfolder for each study with its manifest, tables and figures. Nothing else has to be kept to go on
after an interruption: what is finished is what is there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from steinpath._support import files
from steinpath.study._replicate import Curves
from steinpath.study._settings import Setting


class StudyError(Exception):
    """A study could not go on; the message says why, and what to do."""


def _pyarrow() -> Any:
    return files.import_pyarrow("studies", "study", StudyError)


class Store:
    """The replications in a folder.

    Parameters
    ----------
    folder : str or path
        Made if it is not there.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)
        self.parts = self.folder / "parts"
        _pyarrow()
        with _explained(f"cannot write to {self.folder}"):
            self.parts.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other runners out of the folder, and sweep up what killed ones left."""
        with _explained(f"cannot write to {self.folder}"):
            lock = open(self.folder / "lock", "w")  # noqa: SIM115
        with lock:
            _lock(lock, self.folder)
            for left in self.folder.glob(f"*/*{files.PARTIAL}"):
                left.unlink(missing_ok=True)
            yield

    def part(self, setting: Setting, seed: int) -> Path:
        """File of a replication."""
        return self.parts / f"{setting.key}-{seed}.parquet"

    def has(self, setting: Setting, seed: int) -> bool:
        """Whether a replication is there, and is what its name says."""
        file = self.part(setting, seed)
        if not file.exists():
            return False
        try:
            found = _pyarrow().parquet.read_schema(file).metadata or {}
        except (OSError, ValueError):  # a copy that broke off, say: as good as not there
            return False
        return found.get(b"setting") == setting.text and found.get(b"seed") == b"%d" % seed

    def write(self, setting: Setting, seed: int, curves: Curves, **about: Any) -> None:
        """Keep a replication, and notes about how it was made."""
        arrow = _pyarrow()
        notes = {b"setting": setting.text, b"seed": b"%d" % seed}
        notes[b"columns"] = " ".join(curves).encode()
        notes |= {name.encode(): str(value).encode() for name, value in about.items()}
        table = arrow.table(curves).replace_schema_metadata(notes)
        with written(self.part(setting, seed)) as partial:
            arrow.parquet.write_table(table, partial, write_page_checksum=True)

    def read(self, setting: Setting, seeds: Iterable[int]) -> Curves:
        """Curves of several replications that are there, stacked: (replications, iterates)."""
        parts = [self._read(setting, seed) for seed in seeds]
        return {name: np.stack([part[name] for part in parts]) for name in parts[0]}

    def _read(self, setting: Setting, seed: int) -> Curves:
        file = self.part(setting, seed)
        try:
            table = _pyarrow().parquet.read_table(file, page_checksum_verification=True)
            names = " ".join(table.column_names).encode()
            if names != (table.schema.metadata or {}).get(b"columns"):
                raise ValueError("its columns are not those it was written with")
        except (OSError, ValueError) as error:
            raise StudyError(
                f"{file} is damaged ({error}); delete it and run the same command again"
            ) from None
        return {name: table[name].to_numpy() for name in table.column_names}


def write_text(file: Path, text: str) -> None:
    """Write a text file that is there as a whole, or not at all."""
    with _explained(f"cannot write {file}"):
        files.write_text(file, text)


def write_bytes(file: Path, content: bytes) -> None:
    """Write any file that is there as a whole, or not at all."""
    with _explained(f"cannot write {file}"):
        files.write_bytes(file, content)


@contextmanager
def written(file: Path) -> Iterator[Path]:
    """Name a file to write to; it takes its final name once it is complete, on disk."""
    with _explained(f"cannot write {file}"), files.written(file) as partial:
        yield partial


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn errors of the file system into ones that say what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StudyError(
            f"{what}: {reason}. What is finished is kept: once there is room and permission to "
            "write, run the same command again"
        ) from error


def _lock(file: Any, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not POSIX
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StudyError(
            f"another study is running in {folder}; wait for it, or use another folder"
        ) from None
    except OSError:  # a file system without locks: do without
        return
