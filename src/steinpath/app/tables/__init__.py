"""Tables from files: named columns of numbers, dates or texts, and the place of each row.

Untrusted files are never executed: arrays that would have to be unpickled are refused.
"""

from steinpath.app.tables.arrays import as_table
from steinpath.app.tables.cells import (
    date_formats,
    is_date,
    is_number,
    like_numbers,
    parse_cells,
    suggest_date_format,
)
from steinpath.app.tables.reading import open_folder_at, read_table
from steinpath.app.tables.table import DEFAULT_FORMAT, DataError, Table, TextFormat, missing, texts

__all__ = [
    "DEFAULT_FORMAT",
    "DataError",
    "Table",
    "TextFormat",
    "as_table",
    "date_formats",
    "is_date",
    "is_number",
    "like_numbers",
    "missing",
    "open_folder_at",
    "parse_cells",
    "read_table",
    "suggest_date_format",
    "texts",
]
