"""Atomic file writes, CSV export and the optional import of pyarrow."""

from __future__ import annotations

import csv
import errno
import io
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

# Characters that start a formula in spreadsheets, including their full-width forms.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")

#: Suffix of temporary files.
PARTIAL = ".steinpath-partial"


@contextmanager
def written(file: Path) -> Iterator[Path]:
    """Yield a temporary path; the file is renamed to its final name once it is complete on disk.

    Symbolic links are followed; a pipe, a device or a folder is refused.
    """
    named, file = file, Path(os.path.realpath(file))
    if file.exists() and not file.is_file():
        raise OSError(errno.EINVAL, "exists and is not a regular file", os.fspath(named))
    # unique: another thread, or a machine sharing the folder, may be writing the same file
    partial = file.with_name(f"{file.name}.{secrets.token_hex(4)}{PARTIAL}")
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield partial
        with open(partial, "r+b") as complete:
            os.fsync(complete.fileno())
        os.replace(partial, file)
    except OSError as error:
        # a full disk does not name the file, and some writers give no error number
        raise OSError(
            error.errno or errno.EIO, error.strerror or str(error), os.fspath(named)
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def write_text(file: Path, text: str) -> None:
    """Write a text file atomically."""
    with written(file) as partial:
        partial.write_text(text, encoding="utf-8")


def write_bytes(file: Path, content: bytes) -> None:
    """Write a binary file atomically."""
    with written(file) as partial:
        partial.write_bytes(content)


def as_csv(rows: Iterable[Mapping[str, Any]], digits: str) -> str:
    """Return rows as CSV without formulas; ``digits`` is the format of floats ("": all digits)."""

    def cell(value: Any) -> Any:
        if isinstance(value, float):
            return format(value, digits)
        if not isinstance(value, str):
            return value
        # a leading apostrophe makes a cell text in every spreadsheet; a bare carriage return is not
        # quoted by the csv module and would start a new row
        text = value.replace("\r\n", "\n").replace("\r", "\n")
        return f"'{text}" if value.startswith(_FORMULA) else text

    text, rows = io.StringIO(), list(rows)
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writerow({name: cell(name) for name in rows[0]})
    writer.writerows({name: cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def import_pyarrow(what: str, extra: str, error: type[Exception] = ImportError) -> Any:
    """Import pyarrow with its Parquet and Arrow modules for a feature of an extra."""
    try:
        import pyarrow.compute
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise error(f"{what} need pyarrow: pip install 'steinpath[{extra}]'") from None
    return pyarrow
