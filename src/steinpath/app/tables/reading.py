"""Tables from files: the reader for each file extension, and errors that name the file."""

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
from steinpath.app.tables.table import DEFAULT_FORMAT, DataError, Table, TextFormat, check_values
from steinpath.app.tables.text import read_text

_READERS: dict[str, Callable[[Path, Collection[str], Collection[str], TextFormat], Table]] = {
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

_SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods")


def read_table(
    file: str | os.PathLike[str],
    as_text: Collection[str] = (),
    keep: Collection[str] = (),
    text_format: TextFormat = DEFAULT_FORMAT,
) -> Table:
    """Read a table from a file, or from a folder of Parquet files.

    Parameters
    ----------
    file : str or path
        Its extension determines the format: text with a header (.csv, .txt, .tsv, .tab, .csv.gz,
        .tsv.gz), Parquet (.parquet, .pq), Arrow (.feather, .arrow) or NumPy arrays (.npz). For
        folders, see `ParquetFolder`.
    as_text : collection of str
        Columns whose texts and integers are labels, kept as they are.
    keep : collection of str
        Columns whose verbatim cells are kept in `Table.cells`, in addition to the parsed values.
    text_format : TextFormat
        How texts are parsed.

    Raises
    ------
    DataError
        If it cannot be read, or has no rows.

    Notes
    -----
    A text column holds numbers, or dates in ISO 8601, if all of its cells that are not missing do.
    Times with a zone are converted to UTC. Columns without a name are named "column 1" and so on,
    by their position.

    In .npz files, a one-dimensional array is a column and a two-dimensional array several: X gives
    X0, X1, and so on, unless it is the only matrix and an array `feature_names` or `columns` names
    its columns.
    """
    path = Path(file)
    if path.is_dir():
        read: Callable[..., Table] | None = read_folder
    else:
        read = next((_READERS[end] for end in _READERS if path.name.lower().endswith(end)), None)
    if read is None:
        known = ", ".join(_READERS)
        sheet = path.suffix.lower() in _SPREADSHEETS
        export = "; save the sheet as CSV in the spreadsheet program" if sheet else ""
        raise DataError(f"cannot read {path}: its extension must be one of {known}{export}")
    with _explained(path):
        mode = path.stat().st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise DataError("it is a device, not a file")
        table = read(path, as_text, keep, text_format)
        check_values(table)
    return table


def open_folder_at(path: Path, text_format: TextFormat = DEFAULT_FORMAT) -> ParquetFolder:
    """Find the Parquet files of a folder; see `open_folder`."""
    with _explained(path):
        return open_folder(path, text_format)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn every exception into a `DataError` that names the file and the reason."""
    try:
        yield
    except DataError as error:
        raise DataError(f"cannot read {path}: {error}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except MemoryError as error:
        raise DataError(f"cannot read {path}: there is not enough memory") from error
    # libraries do not document what they raise for damaged files
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise DataError(f"cannot read {path}: it may be damaged ({reason:.200})") from error
