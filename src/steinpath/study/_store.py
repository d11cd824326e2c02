"""Replications on disk: one Parquet part each, whole or not there at all.

A folder holds ``parts/<hash of the setting>-<hash of the code>-<seed>.parquet``, which any study
may use, and a subfolder for each study with its manifest, tables and figures. Nothing else has to
be kept to go on after an interruption: what is finished is what is there.
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
from steinpath.study._settings import Setting
from steinpath.study._versions import CODE


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
        file = self.folder / "lock"
        with _explained(f"cannot write to {self.folder}"):
            if file.exists() and not file.is_file():  # opening a pipe would wait for its other end
                raise OSError(errno.EINVAL, "lock is there, and is not a file")
            lock = open(file, "a")  # noqa: SIM115
        with lock:
            _lock(lock, self.folder)
            with _explained(f"cannot clean up {self.folder}"):
                for left in self.folder.glob(f"*/*{files.PARTIAL}"):
                    if left.is_file():
                        left.unlink(missing_ok=True)
            yield

    def part(self, setting: Setting, seed: int) -> Path:
        """File of a replication."""
        return self.parts / f"{setting.key}-{CODE}-{seed}.parquet"

    def by_other_code(self, settings: Iterable[Setting]) -> int:
        """How many replications of some settings there are that other code has computed."""
        keys = {setting.key for setting in settings}
        with _explained(f"cannot read {self.parts}"):
            names = [file.stem.split("-") for file in self.parts.glob("*.parquet")]
        return sum(name[0] in keys and name[1] != CODE for name in names if len(name) > 1)

    def notes(self, setting: Setting, seed: int) -> dict[bytes, bytes]:
        """Return what a replication notes of itself; nothing if it is missing, or another one."""
        file = self.part(setting, seed)
        with _explained(f"cannot read {file}"):
            if not file.exists():
                return {}
            if not file.is_file():  # opening a pipe would wait for its other end
                raise StudyError(f"{file} is not a file; delete it and run the same command again")
        try:
            found: dict[bytes, bytes] = _pyarrow().parquet.read_schema(file).metadata or {}
        except _unreadable():  # a copy that broke off, say: as good as not there
            return {}
        wanted = _identity(setting, seed)
        return found if found.items() >= wanted.items() else {}

    def has(self, setting: Setting, seed: int) -> bool:
        """Whether a replication is there, and is what its name says."""
        return bool(self.notes(setting, seed))

    def write(self, setting: Setting, seed: int, curves: Curves, **about: Any) -> None:
        """Keep a replication, and notes about how it was made."""
        arrow = _pyarrow()
        notes = {**_identity(setting, seed), b"sha256": _digest(curves)}
        notes |= {name.encode(): str(value).encode() for name, value in about.items()}
        table = arrow.table(curves).replace_schema_metadata(notes)
        with written(self.part(setting, seed)) as partial:
            arrow.parquet.write_table(table, partial, write_page_checksum=True)

    def read(self, setting: Setting, seeds: Iterable[int]) -> Curves:
        """Curves of several replications that are there, stacked: (replications, iterates)."""
        parts = [self._read(setting, seed) for seed in seeds]
        return {name: np.stack([part[name] for part in parts]) for name in parts[0]}

    def _read(self, setting: Setting, seed: int) -> Curves:
        file, arrow = self.part(setting, seed), _pyarrow()
        try:
            # page by page they have checksums, but what says where the pages are has none
            with arrow.parquet.ParquetFile(file, page_checksum_verification=True) as part:
                if part.metadata.num_rows != setting.entries:  # before any of them is read
                    raise ValueError(f"it has {part.metadata.num_rows} rows")
                table = part.read(use_threads=False)  # a few pages: threads cost more
            columns = zip(table.column_names, table.columns, strict=True)
            curves = {name: values.to_numpy() for name, values in columns}
            check_curves(setting, curves)
            found = (table.schema.metadata or {}).get(b"sha256")
            if _digest(curves) != found or arrow.table(curves).schema != table.schema:
                raise ValueError("its values are not those it was written with")
        except _unreadable() as error:
            raise StudyError(
                f"{file} is damaged ({error}); delete it and run the same command again"
            ) from None
        return curves


def _identity(setting: Setting, seed: int) -> dict[bytes, bytes]:
    return {b"setting": setting.text, b"seed": b"%d" % seed, b"code": CODE.encode()}


def _digest(curves: Curves) -> bytes:
    digest = hashlib.sha256()
    for name, values in curves.items():
        digest.update(name.encode() + b"\0" + values.tobytes())
    return digest.hexdigest().encode()


def _unreadable() -> tuple[type[Exception], ...]:
    """Return what reading a damaged part may raise."""
    return OSError, ValueError, _pyarrow().ArrowException


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
