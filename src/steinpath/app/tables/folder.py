"""Folders of Parquet files with the same columns, read as one table."""

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
from steinpath.app.tables.table import (
    DEFAULT_FORMAT,
    DataError,
    Table,
    TextFormat,
    check_names,
    check_values,
)

_ENDINGS = (".parquet", ".pq")
# Numbers read at a time from a file that is processed in batches, and the fewest rows: each column
# of a batch has a fixed cost.
_NUMBERS_AT_ONCE, _FEW_ROWS = 2**20, 1000
# Memory of a table while it is encoded, relative to that of its numbers.
_COPIES = 3


@dataclass(frozen=True, eq=False)
class ParquetFolder:
    """The Parquet files of a folder, which have the same columns. Returned by `open_folder`.

    Attributes
    ----------
    files : tuple of Path
        The files in natural order of their names: part-2 comes before part-10.
    rows : tuple of int
        Number of rows of each file.
    schema : pyarrow.Schema
        Names and common types of the columns, without pandas indices. A column of integers in one
        file and floats in another has floats.
    categorical : frozenset of str
        Columns that are categorical in some file.
    text_format : TextFormat
        How texts are parsed.
    """

    files: tuple[Path, ...]
    rows: tuple[int, ...]
    schema: Any = field(repr=False)
    categorical: frozenset[str] = field(repr=False)
    text_format: TextFormat = DEFAULT_FORMAT

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return check_names(self.schema.names)

    @property
    def starts(self) -> tuple[int, ...]:
        """Number of rows before each file."""
        return tuple(int(start) for start in np.cumsum([0, *self.rows[:-1]]))

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """Names of the files and the number of rows before each; see `Table.files`."""
        return tuple(zip((file.name for file in self.files), self.starts, strict=True))

    def read(self, as_text: Collection[str] = (), keep: Collection[str] = ()) -> Table:
        """Return all rows as one table; see `read_table`."""
        found = []
        for file in self.files:
            with _named(file), open_parquet(file) as opened:
                found.append(self._cast(opened.read(columns=self.schema.names)))
        whole = import_arrow().concat_tables(found)
        del found
        table = from_arrow(whole, as_text, keep, self.categorical, self.text_format)
        return replace(table, files=self.places)

    def batches(
        self, k: int, columns: Collection[str], as_text: Collection[str] = ()
    ) -> Iterator[Table]:
        """Read some columns of a file in batches of rows.

        Parameters
        ----------
        k : int
            Number of the file.
        columns : collection of str
            Names of columns, as of `names`.
        as_text : collection of str
            As for `read_table`.

        Yields
        ------
        Table
            A batch of rows. Texts are parsed for each batch, so types may differ between batches.
        """
        wanted = [
            stored for stored, name in zip(self.schema.names, self.names, strict=True)
            if name in columns
        ]  # fmt: skip
        start, step = self.starts[k], max(_NUMBERS_AT_ONCE // max(1, len(wanted)), _FEW_ROWS)
        with _named(self.files[k]), open_parquet(self.files[k]) as opened:
            for batch in opened.iter_batches(step, columns=wanted, use_threads=False):
                found = self._cast(import_arrow().Table.from_batches([batch]))
                table = from_arrow(found, as_text, (), self.categorical, self.text_format)
                stop = start + batch.num_rows
                table = replace(table, files=self.places, numbers=np.arange(start, stop))
                check_values(table)
                yield table
                start = stop

    def _cast(self, found: Any) -> Any:
        """Cast the columns of a file to their common types."""
        arrow = import_arrow()
        columns = []
        for name in found.column_names:
            column, kind = found.column(name), self.schema.field(name).type
            if arrow.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            # integers with more digits than a float are rounded, as in other files
            columns.append(column.cast(kind, safe=not arrow.types.is_floating(kind)))
        return arrow.table(columns, names=found.column_names)


def read_folder(
    path: Path,
    as_text: Collection[str] = (),
    keep: Collection[str] = (),
    text_format: TextFormat = DEFAULT_FORMAT,
) -> Table:
    """Read all Parquet files of a folder as one table."""
    folder = open_folder(path, text_format)
    needed = _COPIES * 8 * sum(folder.rows) * len(folder.names)
    if (memory := _memory()) is not None and needed > memory:
        raise DataError(
            f"its {sum(folder.rows):,} rows of {len(folder.names):,} columns need "
            f"{needed / 2**30:.0f} GiB of memory, but this machine has {memory / 2**30:.0f}; use "
            f"`fit` or `tune` with --workers {os.cpu_count() or 1} to read it file by file"
        )
    return folder.read(as_text, keep)


def _memory() -> int | None:
    """Return the memory of this machine in bytes, if known."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def open_folder(path: Path, text_format: TextFormat = DEFAULT_FORMAT) -> ParquetFolder:
    """Find the Parquet files of a folder, and check that they have the same columns.

    Files whose names begin with a dot or an underscore, which hold metadata, are ignored, and so
    are subfolders.

    Raises
    ------
    DataError
        If there are no files, or their columns differ.
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
            f"it is a folder without a file that ends with {' or '.join(_ENDINGS)}{hint}"
        )
    schemas, rows = [], []
    for file in files:
        with _named(file), open_parquet(file) as opened:
            schemas.append(opened.schema_arrow)
            rows.append(opened.metadata.num_rows)
    kept = [k for k, count in enumerate(rows) if count]  # columns without rows may have any type
    if not kept:
        raise DataError("its files have no rows")
    files, schemas, rows = ([each[k] for k in kept] for each in (files, schemas, rows))
    categorical = frozenset().union(*map(categorical_columns, schemas))
    schema = _common(schemas, files)
    return ParquetFolder(tuple(files), tuple(rows), schema, categorical, text_format)


def _order(file: Path) -> tuple[Any, ...]:
    """Return the sort key of a file: texts and numbers in turn, then the whole name."""
    parts = re.split(r"(\d+)", file.name)
    return tuple(int(part) if k % 2 else part for k, part in enumerate(parts)), file.name


def _common(schemas: Sequence[Any], files: Sequence[Path]) -> Any:
    """Return the common names and types of the columns of all files."""
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
                    f"{there.name} has a column {unknown[0]!r}, but {lacking.name} does not; all "
                    "files must have the same columns"
                )
        for name, kind in types.items():
            pair = [arrow.schema([(name, each)]) for each in (first[name], kind)]
            try:
                merged = arrow.unify_schemas(pair, promote_options="permissive")
            except (arrow.ArrowInvalid, arrow.ArrowTypeError):
                raise DataError(
                    f"column {name!r} is of type {kind} in {file.name}, but of type {first[name]} "
                    "in earlier files; use the same type in all files"
                ) from None
            first[name] = merged.field(name).type
    return arrow.schema(list(first.items()))


def _plain(kind: Any) -> Any:
    """Return the type of the values of a column, which may be dictionary-encoded."""
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
    except Exception as error:  # from a library, about a damaged file
        reason = str(error) or type(error).__name__
        raise DataError(f"{file.name} may be damaged ({reason:.200})") from error
