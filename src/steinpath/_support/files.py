"""Files that are there as a whole, or not at all, and what reads those of other makers."""

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

# What spreadsheets take for the beginning of a formula, also as wide characters.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")

#: How the names of files end that are being written.
PARTIAL = ".steinpath-partial"


@contextmanager
def written(file: Path) -> Iterator[Path]:
    """Name a file to write to; it takes its final name once it is complete, on disk.

    Links are followed. What is there and is no file (a pipe, a device, a folder) stays as it is.
    """
    named, file = file, Path(os.path.realpath(file))
    if file.exists() and not file.is_file():
        raise OSError(errno.EINVAL, "it is there, and is not a file", os.fspath(named))
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
            error.errno or errno.EIO, error.strerror or str(error), os.fspath(named)
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


def as_csv(rows: Iterable[Mapping[str, Any]], digits: str) -> str:
    """Return rows as CSV with a header: numbers as they are, and texts that no spreadsheet runs.

    Parameters
    ----------
    rows : iterable of mapping
        One at least, and all with the same keys.
    digits : str
        How floats are written, such as ".8g"; "" for all of their digits.
    """

    def cell(value: Any) -> Any:
        if isinstance(value, float):
            return format(value, digits)
        if not isinstance(value, str):
            return value
        # an apostrophe before it makes a cell a text, in every spreadsheet; a bare carriage return
        # is not quoted, and would begin another row
        text = value.replace("\r\n", "\n").replace("\r", "\n")
        return f"'{text}" if value.startswith(_FORMULA) else text

    text, rows = io.StringIO(), list(rows)
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writerow({name: cell(name) for name in rows[0]})
    writer.writerows({name: cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def import_pyarrow(what: str, extra: str, error: type[Exception] = ImportError) -> Any:
    """Return pyarrow, with its modules for Parquet and Arrow files.

    Parameters
    ----------
    what : str
        What needs it, in the plural, for the message where it is not installed.
    extra : str
        Extra of this package that installs it.
    error : type of exception, default=ImportError
        What to raise then.
    """
    try:
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise error(f"{what} need pyarrow: pip install 'steinpath[{extra}]'") from None
    return pyarrow
