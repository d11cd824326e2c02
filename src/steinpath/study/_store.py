"""Replications on disk: one Parquet file each, written atomically.

A folder holds ``parts/<hash of the configuration>-<hash of the code>-<seed>.parquet``, shared by
all studies, and a subfolder for each study with its manifest, tables and figures. The files are
the only state: an interrupted study resumes from those present.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from steinpath._support import files
from steinpath.study._replicate import Curves, check_curves
from steinpath.study._settings import Configuration
from steinpath.study._versions import CODE


class StudyError(Exception):
    """A study could not continue; the message gives the reason and the remedy."""


def _pyarrow() -> Any:
    return files.import_pyarrow("studies", "study", StudyError)


class Store:
    """The replications in a folder.

    Parameters
    ----------
    folder : str or path
        Created if it does not exist.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)
        self.parts = self.folder / "parts"
        _pyarrow()
        with _explained(f"cannot write to {self.folder}"):
            self.parts.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder against other runs, and remove temporary files of killed runs."""
        file = self.folder / "lock"
        with _explained(f"cannot write to {self.folder}"):
            if file.exists() and not file.is_file():  # opening a pipe would block
                raise OSError(errno.EINVAL, "lock exists and is not a file")
            lock = open(file, "a")  # noqa: SIM115
        with lock:
            _lock(lock, self.folder)
            with _explained(f"cannot clean up {self.folder}"):
                for left in self.folder.glob(f"*/*{files.PARTIAL}"):
                    if left.is_file():
                        left.unlink(missing_ok=True)
            yield

    def part(self, config: Configuration, seed: int) -> Path:
        """File of a replication."""
        return self.parts / f"{config.key}-{CODE}-{seed}.parquet"

    def by_other_code(self, configs: Iterable[Configuration]) -> int:
        """Return the number of replications that a different version of the code computed."""
        keys = {config.key for config in configs}
        with _explained(f"cannot read {self.parts}"):
            names = [file.stem.split("-") for file in self.parts.glob("*.parquet")]
        return sum(name[0] in keys and name[1] != CODE for name in names if len(name) > 1)

    def notes(self, config: Configuration, seed: int) -> dict[bytes, bytes]:
        """Return the metadata of a replication; empty if it is missing or does not match."""
        file = self.part(config, seed)
        with _explained(f"cannot read {file}"):
            if not file.exists():
                return {}
            if not file.is_file():  # opening a pipe would block
                raise StudyError(f"{file} is not a file; delete it and run the same command again")
        try:
            found: dict[bytes, bytes] = _pyarrow().parquet.read_schema(file).metadata or {}
        except _unreadable():  # e.g. an incomplete copy: treat as missing
            return {}
        wanted = _identity(config, seed)
        return found if found.items() >= wanted.items() else {}

    def has(self, config: Configuration, seed: int) -> bool:
        """Return whether a replication is stored and its metadata match."""
        return bool(self.notes(config, seed))

    def write(self, config: Configuration, seed: int, curves: Curves, **about: Any) -> None:
        """Store a replication with metadata."""
        arrow = _pyarrow()
        notes = {**_identity(config, seed), b"sha256": _digest(curves)}
        notes |= {name.encode(): str(value).encode() for name, value in about.items()}
        table = arrow.table(curves).replace_schema_metadata(notes)
        with written(self.part(config, seed)) as partial:
            arrow.parquet.write_table(table, partial, write_page_checksum=True)

    def read(self, config: Configuration, seeds: Iterable[int]) -> Curves:
        """Return the stacked curves of stored replications: (replications, iterates)."""
        parts = [self._read(config, seed) for seed in seeds]
        return {name: np.stack([part[name] for part in parts]) for name in parts[0]}

    def _read(self, config: Configuration, seed: int) -> Curves:
        file, arrow = self.part(config, seed), _pyarrow()
        try:
            # pages have checksums, but the footer with their positions has none
            with arrow.parquet.ParquetFile(file, page_checksum_verification=True) as part:
                if part.metadata.num_rows != config.entries:  # checked before reading
                    rows = part.metadata.num_rows
                    raise ValueError(f"expected {config.entries} rows; got {rows}")
                table = part.read(use_threads=False)  # threads do not pay for a few pages
            columns = zip(table.column_names, table.columns, strict=True)
            curves = {name: values.to_numpy() for name, values in columns}
            check_curves(config, curves)
            found = (table.schema.metadata or {}).get(b"sha256")
            if _digest(curves) != found or arrow.table(curves).schema != table.schema:
                raise ValueError("checksum mismatch")
        except _unreadable() as error:
            raise StudyError(
                f"{file} is damaged ({error}); delete it and run the same command again"
            ) from None
        return curves


def _identity(config: Configuration, seed: int) -> dict[bytes, bytes]:
    return {b"setting": config.text, b"seed": b"%d" % seed, b"code": CODE.encode()}


def _digest(curves: Curves) -> bytes:
    digest = hashlib.sha256()
    for name, values in curves.items():
        digest.update(name.encode() + b"\0" + values.tobytes())
    return digest.hexdigest().encode()


def _unreadable() -> tuple[type[Exception], ...]:
    """Return the exceptions that reading a damaged file may raise."""
    return OSError, ValueError, _pyarrow().ArrowException


def write_text(file: Path, text: str) -> None:
    """Write a text file atomically."""
    with _explained(f"cannot write {file}"):
        files.write_text(file, text)


def write_bytes(file: Path, content: bytes) -> None:
    """Write a file atomically."""
    with _explained(f"cannot write {file}"):
        files.write_bytes(file, content)


@contextmanager
def written(file: Path) -> Iterator[Path]:
    """Yield a temporary name to write to; rename it when the file is complete and on disk."""
    with _explained(f"cannot write {file}"), files.written(file) as partial:
        yield partial


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Convert file system errors to StudyError with instructions."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StudyError(
            f"{what}: {reason}. Finished replications are kept: make sure that there is free space "
            "and permission to write, then run the same command again"
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
    except OSError:  # file system without locks: continue without one
        return
