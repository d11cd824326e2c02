"""Tables from files, and the place of each row.

Untrusted files are never executed: arrays that would have to be unpickled are refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from pathlib import Path

from steinpath._support.messages import DataError
from steinpath.app.tables.binary import READERS, ParquetFolder, find_files
from steinpath.app.tables.table import DEFAULT_FORMAT, FileFormat, FileTable, explained, placed
from steinpath.app.tables.text import read_text

__all__ = ["DEFAULT_FORMAT", "DataError", "FileFormat", "FileTable", "ParquetFolder", "open_folder"]
__all__ += ["placed", "read_table"]

# Delimiters of text files by extension; None if it has to be detected.
_TEXTS: dict[str, str | None] = dict.fromkeys((".csv", ".txt", ".csv.gz"))
_TEXTS |= dict.fromkeys((".tsv", ".tab", ".tsv.gz"), "\t")
_SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods")


def read_table(
    file: str | os.PathLike[str], how: FileFormat = DEFAULT_FORMAT, labels: Collection[str] = ()
) -> FileTable:
    """Read a table from a file, whose extension determines the format, or a folder of Parquet.

    Texts in columns of `labels` are not numbers, so that their commas are not decimal commas.
    In .npz files, a one-dimensional array is a column and a two-dimensional array several: X gives
    X0, X1, and so on, unless it is the only matrix and an array `feature_names` or `columns` names
    its columns.
    """
    path, known = Path(file), (*_TEXTS, *READERS)
    with explained(f"cannot read {path}: "):
        end = next((end for end in known if path.name.lower().endswith(end)), "")
        if not end and not path.is_dir():
            sheet = path.suffix.lower() in _SPREADSHEETS
            export = "; save the sheet as CSV in the spreadsheet program" if sheet else ""
            raise DataError(f"its extension must be one of {', '.join(known)}{export}")
        mode = path.stat().st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise DataError("it is a device, not a file")
        if path.is_dir():
            table = find_files(path, how).read()
        elif end in _TEXTS:
            table = read_text(path, labels, how, _TEXTS[end])
        else:
            table = FileTable(READERS[end](path), how)
        if not all(table.frame.shape):
            raise DataError(f"it has no {'rows' if table.frame.num_columns else 'columns'}")
    return table


def open_folder(path: str | os.PathLike[str], how: FileFormat = DEFAULT_FORMAT) -> ParquetFolder:
    """Find the Parquet files of a folder."""
    with explained(f"cannot read {path}: "):
        return find_files(Path(path), how)
