"""Folders of Parquet files with the same columns, read as one table."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from steinpath._support.messages import DataError, Message, Remedy
from steinpath.app.tables.binary import frame_of, open_parquet
from steinpath.app.tables.table import FileFormat, Table, explained, import_arrow, plain

_ENDINGS = (".parquet", ".pq")
# Numbers read at a time from a file that is processed in batches, and the fewest rows: each column
# of a batch has a fixed cost.
_NUMBERS_AT_ONCE, _FEW_ROWS = 2**20, 1000
# Memory of a table while it is encoded, relative to that of its numbers.
_COPIES = 3


@dataclass(frozen=True, eq=False)
class ParquetFolder:
    """The Parquet files of a folder, with rows, in natural order: part-2 comes before part-10.

    The schema has the names and common types of their columns; some are categorical in some file.
    """

    files: tuple[Path, ...]
    rows: tuple[int, ...]
    schema: Any
    categorical: frozenset[str]
    format: FileFormat

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self.schema.names)

    @property
    def starts(self) -> tuple[int, ...]:
        """Number of rows before each file."""
        return tuple(int(start) for start in np.cumsum([0, *self.rows[:-1]]))

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """Names of the files and the number of rows before each; see `Table.files`."""
        return tuple(zip((file.name for file in self.files), self.starts, strict=True))

    def read(self) -> Table:
        """Return all rows as one table."""
        rows, columns = sum(self.rows), len(self.schema)
        needed, memory = _COPIES * 8 * rows * columns / 2**30, _memory()
        if needed > memory:
            raise DataError(
                Message(
                    f"its {rows:,} rows of {columns:,} columns need {needed:.0f} GiB of memory, "
                    f"but this machine has {memory:.0f}; use `fit` or `tune` with {{remedy}} to "
                    "read it file by file",
                    remedy=Remedy("workers", os.cpu_count() or 1),
                )
            )
        parts = []
        for file in self.files:
            with explained(f"{file.name}: "), open_parquet(file) as opened:
                parts.append(self._cast(opened.read()))
        whole = import_arrow().concat_tables(parts).unify_dictionaries()
        return Table(whole, self.format, files=self.places)

    def batches(self, k: int, columns: Collection[str]) -> Iterator[tuple[int, Any]]:
        """Yield batches of some columns of file `k`, each after the number of rows before it."""
        start, step = self.starts[k], max(_NUMBERS_AT_ONCE // max(1, len(columns)), _FEW_ROWS)
        file = self.files[k]
        with explained(f"{file.name}: "), open_parquet(file) as opened:
            # columns without a name are named by their position
            stored = [name for name in opened.schema_arrow.names if name in columns]
            wanted = stored if len(stored) == len(columns) else None
            for batch in opened.iter_batches(step, columns=wanted, use_threads=False):
                yield start, self._cast(import_arrow().Table.from_batches([batch]), columns)
                start += batch.num_rows

    def _cast(self, found: Any, columns: Collection[str] | None = None) -> Any:
        """Cast the columns of a file to their common types."""
        arrow, found = import_arrow(), frame_of(found)
        names = [name for name in self.names if columns is None or name in columns]
        arrays = []
        for name in names:
            kind = self.schema.field(name).type
            # integers with more digits than a float are rounded, as in other files
            values = plain(found[name]).cast(kind, safe=not arrow.types.is_floating(kind))
            arrays.append(values.dictionary_encode() if name in self.categorical else values)
        return arrow.table(arrays, names=names)


def _memory() -> float:
    """Return the memory of this machine in GiB, if known."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    except (AttributeError, ValueError, OSError):
        return np.inf


def find_files(path: Path, how: FileFormat) -> ParquetFolder:
    """Find the Parquet files of a folder, and check that they have the same columns.

    Subfolders, and files whose names begin with a dot or an underscore (metadata), are ignored.
    """
    files = [path / name for name in os.listdir(path) if name.lower().endswith(_ENDINGS)]
    files = [file for file in files if not file.name.startswith((".", "_")) and file.is_file()]
    if not files:
        deeper = next(path.glob("*/**/*.parquet"), None)
        hint = "" if deeper is None else f" (there is one in {deeper.parent})"
        raise DataError(
            f"it is a folder without a file that ends with {' or '.join(_ENDINGS)}{hint}"
        )
    arrow, rows, schema, categorical = import_arrow(), dict[Path, int](), None, set[str]()
    for file in sorted(files, key=_order):
        with explained(f"{file.name}: "), open_parquet(file) as opened:
            if opened.metadata.num_rows:  # columns without rows may have any type
                rows[file] = opened.metadata.num_rows
                own = frame_of(opened.schema_arrow.empty_table())
                types = {name: plain(own[name]).type for name in own.column_names}
                categorical |= {name for name in types if types[name] != own[name].type}
                schema = _common(schema, arrow.schema(types.items()), next(iter(rows)).name)
    if schema is None:
        raise DataError("its files have no rows")
    counts = tuple(rows.values())
    return ParquetFolder(tuple(rows), counts, schema, frozenset(categorical), how)


def _order(file: Path) -> tuple[Any, ...]:
    """Return the sort key of a file: texts and numbers in turn, then the whole name."""
    parts = re.split(r"(\d+)", file.name)
    return tuple(int(part) if k % 2 else part for k, part in enumerate(parts)), file.name


def _common(earlier: Any, own: Any, first: str) -> Any:
    """Return the names and types of columns that a file shares with earlier ones."""
    arrow, earlier = import_arrow(), own if earlier is None else earlier
    if other := sorted(set(own.names).symmetric_difference(earlier.names)):
        has = "has a column" if other[0] in own.names else "has no column"
        raise DataError(f"it {has} {other[0]!r}, unlike {first}; all files must have the same")
    try:
        return arrow.unify_schemas([earlier, own], promote_options="permissive")
    except (arrow.ArrowInvalid, arrow.ArrowTypeError) as error:
        raise DataError(f"its columns differ in type from earlier files ({error})") from None
