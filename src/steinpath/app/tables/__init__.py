"""Tables from files: named columns of numbers, dates or texts, and where in the file each row is.

Nothing in a file is ever run: arrays that would have to be unpickled are refused.
"""

from steinpath.app.tables.arrays import as_table
from steinpath.app.tables.reading import open_folder_at, read_table
from steinpath.app.tables.table import DataError, Table, missing, texts
from steinpath.app.tables.text import is_date, is_number, parse_cells

__all__ = [
    "DataError",
    "Table",
    "as_table",
    "is_date",
    "is_number",
    "missing",
    "open_folder_at",
    "parse_cells",
    "read_table",
    "texts",
]
