"""Data in a folder of Parquet files, which the workers of a Dask cluster read and encode.

The encoder is fitted to facts that the workers collect from their files, and is the same as if all
files were one table. This process holds the target and the groups; the features stay on the
workers, in blocks of one or several files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from steinpath._support.cells import read_column
from steinpath._support.progress import begin
from steinpath.app.tables import FileTable, ParquetFolder, placed
from steinpath.app.tables.table import import_arrow
from steinpath.app.target import Roles, check_roles, read_roles
from steinpath.cluster._calls import WorkerLost, worker_lost
from steinpath.cluster._design import DistributedDesign, fits, make_design
from steinpath.estimators._columns import MIXED, Facts, add_facts, middle_of
from steinpath.estimators._encoder import MOST_SUMMARIES, TableEncoder

# Columns whose medians are computed together, from all their rows.
_COLUMNS_AT_ONCE = 8


def encode_folder(
    folder: ParquetFolder,
    encoder: TableEncoder,
    client: Any,
    target: str,
    group: str | None = None,
    task: str | None = None,
) -> tuple[DistributedDesign, Roles, Callable[[int], str]]:
    """Fit the encoder to all files as one table, on a cluster whose workers can read them.

    Returns its features as they are, the target and the groups, and the places of rows.
    """
    named = (*encoder.categories, *encoder.drop, *encoder.keep)
    check_roles(folder.names, target, group, None, *named)
    used = [target] if group is None else [target, group]
    files = _Files(folder, client)
    columns = files.columns(used, "reading the target")
    table = FileTable(columns, folder.format, where=folder.place)
    with placed(table.place):
        roles = read_roles(table, target, group, None, task, encoder.missing == "impute")
    if roles.rows is not None:
        files.kept = np.isin(np.arange(table.frame.num_rows), roles.rows)
        table = table.take(roles.rows)
    names = [name for name in folder.names if name not in used]
    with placed(table.place):
        encoder.fit_facts(names, files.facts(names, encoder))
        return files.design(encoder), roles, table.place


class _Files:
    """The files of a folder on a cluster; `kept` is a mask of their rows."""

    def __init__(self, folder: ParquetFolder, client: Any):
        self.folder, self.client = folder, client
        self.kept = np.ones(sum(folder.rows), bool)

    def file(self, k: int) -> _File:
        """Return the rows of one file."""
        start = self.folder.starts[k]
        own = self.kept[start : start + self.folder.rows[k]]
        return _File(self.folder, k, int(self.kept[:start].sum()), own)

    def of_each(self, function: Callable[..., Any], *args: Any, doing: str) -> Iterator[Any]:
        """Call a function with each file that has rows on some worker; yield results in order."""
        from distributed import KilledWorker

        files = [self.file(k) for k in range(len(self.folder.files))]
        files = [file for file in files if file.kept.any()]
        submit = partial(self.client.submit, function, pure=False)
        futures = [submit(file, *args) for file in reversed(files)]
        for file in files:
            name = self.folder.files[file.k].name
            begin(f"{doing} of {name}", 0)
            try:
                result = futures.pop().result()  # popped, so that its memory is released
            except KilledWorker:
                raise WorkerLost(worker_lost(name, "repeatedly")) from None
            yield result

    def facts(self, names: Sequence[str], encoder: TableEncoder) -> dict[str, Facts]:
        """Return the facts about columns, including the middle values of numbers."""
        read = partial(self.of_each, _facts_of_file, doing="reading the columns")
        found = _added(read(names, encoder))
        if mixed := [name for name, facts in found.items() if facts.kind == MIXED]:
            # texts that are all numbers in some files, but not in others; not so if categories
            plain = clone(encoder).set_params(categories=(), drop=())
            found |= _added(read(mixed, plain, mixed))
        # other columns are neither imputed nor summarised
        few = names if encoder.missing == "impute" else names[:MOST_SUMMARIES]
        few = [name for name in few if found[name].low is not None and found[name].middle is None]
        for start in range(0, len(few), _COLUMNS_AT_ONCE):
            table = self.columns(few[start : start + _COLUMNS_AT_ONCE], "computing medians")
            for name in table.column_names:
                own = read_column(name, table.column(name), self.folder.format)
                found[name] = replace(found[name], middle=middle_of(own.data[~own.gaps]))
        return found

    def columns(self, names: Sequence[str], doing: str) -> Any:
        """Return some columns of all files."""
        return import_arrow().concat_tables(self.of_each(_columns_of_file, names, doing=doing))

    def design(self, encoder: TableEncoder, which: np.ndarray | None = None) -> DistributedDesign:
        """Return features, in memory if there is room on the workers and else in files."""
        folder, client = self.folder, self.client
        which = np.arange(len(encoder.get_feature_names_out())) if which is None else which
        blocks = _blocks(folder.rows, sum(client.nthreads().values()))
        sizes = [8 * len(which) * sum(folder.rows[k] for k in block) for block in blocks]
        in_memory = fits(client, sizes)
        load = _block if in_memory else _pieces
        loaders = [partial(load, [self.file(k) for k in block], encoder, which) for block in blocks]
        files = [[folder.files[k].name for k in block] for block in blocks]
        ends = [" to ".join(dict.fromkeys((each[0], each[-1]))) for each in files]
        names = [f"block {k} ({each})" for k, each in enumerate(ends)]
        design = make_design(loaders, names, client, in_memory)
        design.load_columns = partial(self.design, encoder)
        return design


def _blocks(rows: Sequence[int], count: int) -> list[list[int]]:
    """Group consecutive files into at most `count` blocks with similar numbers of rows."""
    middles = np.cumsum(rows) - np.array(rows) / 2
    places = (middles * max(1, count) / sum(rows)).astype(int)
    return [np.flatnonzero(places == place).tolist() for place in np.unique(places)]


class _File(NamedTuple):
    """The rows of a file that are kept, for workers, and the number of such rows before it."""

    folder: ParquetFolder
    k: int
    start: int
    kept: np.ndarray

    def batches(self, names: Collection[str]) -> Iterator[tuple[int, np.ndarray, Any]]:
        """Yield batches of some columns, after the number of rows before and their numbers."""
        start, first, before = self.start, 0, self.folder.starts[self.k]
        for batch in self.folder.batches(self.k, names):
            kept = first + np.flatnonzero(self.kept[first : first + batch.num_rows])
            if len(kept):
                yield start, before + kept, batch.take(kept - first)
            start, first = start + len(kept), first + batch.num_rows


def _columns_of_file(file: _File, names: Sequence[str]) -> Any:
    return import_arrow().concat_tables(batch.select(names) for *_, batch in file.batches(names))


def _facts_of_file(
    file: _File, names: Sequence[str], encoder: TableEncoder, as_text: Collection[str] = ()
) -> dict[str, Facts]:
    batches = file.batches(names)
    return _added(encoder.facts(batch, start, as_text, rows) for start, rows, batch in batches)


def _added(parts: Iterable[dict[str, Facts]]) -> dict[str, Facts]:
    """Return the facts about all parts."""
    found: dict[str, Facts] = {}
    for part in parts:
        add_facts(found, part)
    return found


def _pieces(
    files: Sequence[_File], encoder: TableEncoder, which: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield the features of a block in batches of rows, without remarks about rare levels."""
    names = [column.name for column in encoder.columns_]
    for file in files:
        for *_, batch in file.batches(names):
            yield encoder.encode(batch)[0][:, which]


def _block(files: Sequence[_File], encoder: TableEncoder, which: np.ndarray) -> np.ndarray:
    """Return the features of a block."""
    X, stop = np.empty((sum(file.kept.sum() for file in files), len(which))), 0
    for piece in _pieces(files, encoder, which):
        start, stop = stop, stop + len(piece)
        X[start:stop] = piece
    return X
