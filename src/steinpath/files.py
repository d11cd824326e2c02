"""Files that are there as a whole, or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: How the names of files end that are being written.
PARTIAL = ".steinpath-partial"


@contextmanager
def written(file: Path) -> Iterator[Path]:
    """Name a file to write to; it takes its final name once it is complete, on disk."""
    # nobody else's: another thread, or a machine that shares the folder, may write the same file
    partial = file.with_name(f"{file.name}.{secrets.token_hex(4)}{PARTIAL}")
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield partial
        with open(partial, "r+b") as complete:
            os.fsync(complete.fileno())
        os.replace(partial, file)
    except OSError as error:
        # a full disk does not say what it was full for, and some writers give no error number
        raise OSError(
            error.errno or errno.EIO, error.strerror or str(error), os.fspath(file)
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def write_text(file: Path, text: str) -> None:
    """Write a text file as a whole, or not at all."""
    with written(file) as partial:
        partial.write_text(text, encoding="utf-8")


def write_bytes(file: Path, content: bytes) -> None:
    """Write any file as a whole, or not at all."""
    with written(file) as partial:
        partial.write_bytes(content)
