"""Tables from files, and the place of each row.

Untrusted files are never executed: arrays that would have to be unpickled are refused.
"""

from steinpath._support.messages import DataError
from steinpath.app.tables.folder import ParquetFolder
from steinpath.app.tables.reading import open_folder, read_table
from steinpath.app.tables.table import DEFAULT_FORMAT, FileFormat, PlacedError, Table, placed

__all__ = [
    "DEFAULT_FORMAT",
    "DataError",
    "FileFormat",
    "ParquetFolder",
    "PlacedError",
    "Table",
    "open_folder",
    "placed",
    "read_table",
]
