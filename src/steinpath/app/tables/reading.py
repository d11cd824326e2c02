"""Tables from files: which reader a file has, and what is said if it cannot be read."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from steinpath.app.tables.arrays import read_npz
from steinpath.app.tables.arrow import read_arrow, read_parquet
from steinpath.app.tables.folder import ParquetFolder, open_folder, read_folder
from steinpath.app.tables.table import DataError, Table, check_values
from steinpath.app.tables.text import read_text

_READERS: dict[str, Callable[[Path, Collection[str], Collection[str]], Table]] = {
    ".csv": read_text,
    ".txt": read_text,
    ".csv.gz": read_text,
    ".tsv": partial(read_text, delimiter="\t"),
    ".tab": partial(read_text, delimiter="\t"),
    ".tsv.gz": partial(read_text, delimiter="\t"),
    ".parquet": read_parquet,
    ".pq": read_parquet,
    ".feather": read_arrow,
    ".arrow": read_arrow,
    ".npz": read_npz,
}


def read_table(
    file: str | os.PathLike[str], as_text: Collection[str] = (), keep: Collection[str] = ()
) -> Table:
    """Read a table from a file, or from a folder of Parquet files.

    Parameters
    ----------
    file : str or path
        Its ending, in small or capital letters, says what it is: text with a header (.csv, .txt,
        .tsv, .tab, .csv.gz, .tsv.gz), Parquet (.parquet, .pq), Arrow (.feather, .arrow) or arrays
        of NumPy (.npz). Of a folder, see `ParquetFolder`.
    as_text : collection of str
        Columns whose texts and whole numbers are kept as they are, since they are names.
    keep : collection of str
        Columns of which `Table.cells` has what is in the file, beside what it is read as.

    Raises
    ------
    DataError
        If it cannot be read, or has no rows.

    Notes
    -----
    A column of text files holds numbers, or dates in ISO format, if all of its cells do that are
    not missing; times are converted to UTC where their zone is given. Columns without a name are
    called "column 1", and so on, after their position.

    In .npz files, arrays of one dimension are columns, and those of two are several: X gives X0,
    X1, and so on, unless it is the only one and its columns are named by an array `feature_names`
    or `columns`.
    """
    path = Path(file)
    if path.is_dir():
        read: Callable[..., Table] | None = read_folder
    else:
        read = next((_READERS[end] for end in _READERS if path.name.lower().endswith(end)), None)
    if read is None:
        known = ", ".join(_READERS)
        raise DataError(f"cannot read {path}: the endings of files that can be read are {known}")
    with _explained(path):
        mode = path.stat().st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise DataError("it is a device, and no file")
        table = read(path, as_text, keep)
        check_values(table)
    return table


def open_folder_at(path: Path) -> ParquetFolder:
    """Find the Parquet files of a folder; see `open_folder`."""
    with _explained(path):
        return open_folder(path)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Say of whatever goes wrong that a file could not be read, and why."""
    try:
        yield
    except DataError as error:
        raise DataError(f"cannot read {path}: {error}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except MemoryError as error:
        raise DataError(f"cannot read {path}: it needs more memory than there is") from error
    # whatever the libraries may raise: for damaged files, that is not documented
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise DataError(f"cannot read {path}: it may be damaged ({reason:.200})") from error
