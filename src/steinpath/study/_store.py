"""Replications on disk: one Parquet file each, written atomically.

A folder holds ``parts/<hash of the configuration>-<hash of the code>-<seed>.parquet``, shared by
all studies, and a subfolder for each study with its manifest, tables and figures. The files are
the only state: an interrupted study resumes from those present.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from steinpath._support import files
from steinpath._support.source_hash import NUMERICAL, source_hash
from steinpath.study._settings import Configuration, Curves

#: Modules of this folder that compute replications; the others make tables and figures of them.
COMPUTING = ("_kinds", "_replicate", "_scenarios", "_settings")

#: Hash of the source code that computes replications, at the time of import.
CODE = source_hash(*NUMERICAL, *(f"study/{name}.py" for name in COMPUTING))


class StudyError(Exception):
    """A study could not continue; the message gives the reason and the remedy."""


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Convert file system errors to StudyError with instructions."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StudyError(
            f"{what}: {reason}. Finished replications are kept: make sure that there is free space "
            "and permission to write, then run the same command again"
        ) from error


class Store:
    """The replications in a folder, which is created if it does not exist."""

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)
        self.parts = self.folder / "parts"
        self._arrow = files.import_pyarrow("studies", "study", StudyError)
        with explained(f"cannot write to {self.folder}"):
            self.parts.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder against other runs, and remove temporary files of killed runs."""
        with explained(f"cannot write to {self.folder}"):
            lock = open(self.folder / "lock", "a")  # noqa: SIM115
        with lock:
            try:
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StudyError(
                    f"another study is running in {self.folder}; wait for it, or use another folder"
                ) from None
            except (ImportError, OSError):  # not POSIX, or a file system without locks
                pass
            with explained(f"cannot clean up {self.folder}"):
                for left in self.folder.glob(f"*/*{files.PARTIAL}"):
                    left.unlink(missing_ok=True)
            yield

    def part(self, config: Configuration, seed: int) -> Path:
        """File of a replication."""
        return self.parts / f"{config.key}-{CODE}-{seed}.parquet"

    def has(self, config: Configuration, seed: int) -> bool:
        """Return whether a replication is stored."""
        return self.part(config, seed).exists()

    def write(
        self, config: Configuration, seed: int, curves: Curves, notes: Mapping[str, str]
    ) -> None:
        """Store a replication, with its configuration and notes on its computation."""
        own = {"setting": config.text, "seed": str(seed), "sha256": _digest(curves), **notes}
        table = self._arrow.table(curves).replace_schema_metadata(own)
        file = self.part(config, seed)
        with explained(f"cannot write {file}"), files.written(file) as partial:
            self._arrow.parquet.write_table(table, partial)

    def read(self, config: Configuration, seeds: Sequence[int]) -> tuple[Curves, set[str]]:
        """Return stored replications, stacked to (replications, iterates), and their versions."""
        parts, versions = zip(*(self._read(self.part(config, seed)) for seed in seeds), strict=True)
        return {name: np.stack([part[name] for part in parts]) for name in parts[0]}, {*versions}

    def _read(self, file: Path) -> tuple[Curves, str]:
        try:
            table = self._arrow.parquet.read_table(file, use_threads=False)
            curves = {name: table[name].to_numpy() for name in table.column_names}
            notes = table.schema.metadata or {}
            if notes[b"sha256"] != _digest(curves).encode():
                raise ValueError("checksum mismatch")
            return curves, notes[b"versions"].decode()
        except (OSError, ValueError, KeyError, self._arrow.ArrowException) as error:
            raise StudyError(
                f"{file} is damaged ({error}); delete it and run the same command again"
            ) from None


def _digest(curves: Curves) -> str:
    digest = hashlib.sha256()
    for name, values in curves.items():
        digest.update(name.encode() + b"\0" + values.tobytes())
    return digest.hexdigest()
