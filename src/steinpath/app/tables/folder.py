"""Folders of Parquet files with the same columns, which are the rows of one table."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from steinpath.app.tables.arrow import (
    categorical_columns,
    from_arrow,
    import_arrow,
    is_index,
    open_parquet,
)
from steinpath.app.tables.table import DataError, Table, check_names, check_values

_ENDINGS = (".parquet", ".pq")
# Numbers that are read at a time, of a file that is not to be in memory as a whole; where rows are
# long, so many of them, since each column has its costs.
_NUMBERS_AT_ONCE, _FEW_ROWS = 2**20, 1000
# How many times the memory of its numbers a table takes while it is encoded.
_COPIES = 3


@dataclass(frozen=True, eq=False)
class ParquetFolder:
    """The Parquet files in a folder, which have the same columns. Made by `open_folder`.

    Attributes
    ----------
    files : tuple of Path
        The files, in the order of their names, in which numbers count as such: part-2 is before
        part-10.
    rows : tuple of int
        How many rows each has.
    schema : pyarrow.Schema
        Names and types of the columns, without those that are row labels of pandas. What is of
        whole numbers in one file and of others in another is of numbers.
    categorical : frozenset of str
        Columns of the schema that are categories in some file.
    """

    files: tuple[Path, ...]
    rows: tuple[int, ...]
    schema: Any = field(repr=False)
    categorical: frozenset[str] = field(repr=False)

    @property
    def names(self) -> list[str]:
        """Names of the columns, in their order."""
        return check_names(self.schema.names)

    @property
    def starts(self) -> tuple[int, ...]:
        """How many rows come before each file."""
        return tuple(int(start) for start in np.cumsum([0, *self.rows[:-1]]))

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """Names of the files, and how many rows come before each; see `Table.files`."""
        return tuple(zip((file.name for file in self.files), self.starts, strict=True))

    def read(self, as_text: Collection[str] = (), keep: Collection[str] = ()) -> Table:
        """Return all rows as one table; see `read_table`."""
        found = []
        for file in self.files:
            with _named(file), open_parquet(file) as opened:
                found.append(self._cast(opened.read(columns=self.schema.names)))
        whole = import_arrow().concat_tables(found)
        del found
        return replace(from_arrow(whole, as_text, keep, self.categorical), files=self.places)

    def batches(
        self, k: int, columns: Collection[str], as_text: Collection[str] = ()
    ) -> Iterator[Table]:
        """Read some columns of a file, some rows after the other.

        Parameters
        ----------
        k : int
            Which file.
        columns : collection of str
            Names of columns, as of `names`.
        as_text : collection of str
            As for `read_table`.

        Yields
        ------
        Table
            Texts are parsed by themselves: where all are numbers, these may be numbers.
        """
        wanted = [
            stored for stored, name in zip(self.schema.names, self.names, strict=True)
            if name in columns
        ]  # fmt: skip
        start, step = self.starts[k], max(_NUMBERS_AT_ONCE // max(1, len(wanted)), _FEW_ROWS)
        with _named(self.files[k]), open_parquet(self.files[k]) as opened:
            for batch in opened.iter_batches(step, columns=wanted, use_threads=False):
                found = self._cast(import_arrow().Table.from_batches([batch]))
                table = from_arrow(found, as_text, (), self.categorical)
                stop = start + batch.num_rows
                table = replace(table, files=self.places, numbers=np.arange(start, stop))
                check_values(table)
                yield table
                start = stop

    def _cast(self, found: Any) -> Any:
        """Return columns of a file in the types that they have in all files together."""
        arrow = import_arrow()
        columns = []
        for name in found.column_names:
            column, kind = found.column(name), self.schema.field(name).type
            if arrow.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            # whole numbers with more digits than a float has are rounded, as everywhere
            columns.append(column.cast(kind, safe=not arrow.types.is_floating(kind)))
        return arrow.table(columns, names=found.column_names)


def read_folder(path: Path, as_text: Collection[str] = (), keep: Collection[str] = ()) -> Table:
    """Read all Parquet files of a folder as one table."""
    folder = open_folder(path)
    needed = _COPIES * 8 * sum(folder.rows) * len(folder.names)
    if (memory := _memory()) is not None and needed > memory:
        raise DataError(
            f"its {sum(folder.rows):,} rows of {len(folder.names):,} columns need "
            f"{needed / 2**30:.0f} GiB of memory, and there are {memory / 2**30:.0f}; `fit` and "
            "`tune` read it file by file with --workers N, such as --workers "
            f"{os.cpu_count() or 1}"
        )
    return folder.read(as_text, keep)


def _memory() -> int | None:
    """Return the memory of this machine in bytes, if that can be found out."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def open_folder(path: Path) -> ParquetFolder:
    """Find the Parquet files of a folder, and check that they have the same columns.

    Files whose names begin with a dot or an underscore, in which others keep notes, are not read,
    and neither are folders in it.

    Raises
    ------
    DataError
        If there are none, or their columns differ.
    """
    files = sorted(
        (
            file
            for file in path.iterdir()
            if file.name.lower().endswith(_ENDINGS)
            and not file.name.startswith((".", "_"))
            and file.is_file()
        ),
        key=_order,
    )
    if not files:
        deeper = next(path.glob("*/**/*.parquet"), None)
        hint = "" if deeper is None else f" (there is one in {deeper.parent})"
        raise DataError(
            f"it is a folder, and no file in it ends with {' or '.join(_ENDINGS)}{hint}"
        )
    schemas, rows = [], []
    for file in files:
        with _named(file), open_parquet(file) as opened:
            schemas.append(opened.schema_arrow)
            rows.append(opened.metadata.num_rows)
    kept = [k for k, count in enumerate(rows) if count]  # of no rows, columns have any type
    if not kept:
        raise DataError("its files have no rows")
    files, schemas, rows = ([each[k] for k in kept] for each in (files, schemas, rows))
    categorical = frozenset().union(*map(categorical_columns, schemas))
    return ParquetFolder(tuple(files), tuple(rows), _common(schemas, files), categorical)


def _order(file: Path) -> tuple[Any, ...]:
    """Return what files are sorted by: texts and numbers in turn, and all of the name at last."""
    parts = re.split(r"(\d+)", file.name)
    return tuple(int(part) if k % 2 else part for k, part in enumerate(parts)), file.name


def _common(schemas: Sequence[Any], files: Sequence[Path]) -> Any:
    """Return the names and types of columns that all files have."""
    arrow = import_arrow()
    found = []
    for schema, file in zip(schemas, files, strict=True):
        columns = [each for each in schema if not is_index(each.name)]
        with _named(file):
            check_names([each.name for each in columns])
        found.append({each.name: _plain(each.type) for each in columns})
    first, *others = found
    for types, file in zip(others, files[1:], strict=True):
        for one, other, there, lacking in (
            (first, types, files[0], file),
            (types, first, file, files[0]),
        ):
            if unknown := [name for name in one if name not in other]:
                raise DataError(
                    f"{there.name} has a column {unknown[0]!r}, and {lacking.name} has none of "
                    "that name; all files must have the same columns"
                )
        for name, kind in types.items():
            pair = [arrow.schema([(name, each)]) for each in (first[name], kind)]
            try:
                merged = arrow.unify_schemas(pair, promote_options="permissive")
            except (arrow.ArrowInvalid, arrow.ArrowTypeError):
                raise DataError(
                    f"column {name!r} is of type {kind} in {file.name}, and of type {first[name]} "
                    "in files before it; write it in the same way in all files"
                ) from None
            first[name] = merged.field(name).type
    return arrow.schema(list(first.items()))


def _plain(kind: Any) -> Any:
    """Return the type of the values of a column, which may be stored as categories."""
    return kind.value_type if import_arrow().types.is_dictionary(kind) else kind


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Name the file in errors about it."""
    try:
        yield
    except DataError as error:
        if file.name in str(error):
            raise
        raise DataError(f"{file.name}: {error}") from None
    except OSError as error:
        raise DataError(f"{file.name}: {error.strerror or error}") from error
    except MemoryError:
        raise
    except Exception as error:  # of a library, about a damaged file
        reason = str(error) or type(error).__name__
        raise DataError(f"{file.name} may be damaged ({reason:.200})") from error
