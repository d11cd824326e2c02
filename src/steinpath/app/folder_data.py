"""Data in a folder of Parquet files, which the workers of a Dask cluster read and encode.

Each worker fits the encoder to some columns of all files, as if these were one table. This process
holds the target and the groups; the features stay on the workers, in blocks of one or several
files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from steinpath._support.progress import begin
from steinpath.app.tables import FileTable, ParquetFolder, placed
from steinpath.app.tables.table import import_arrow
from steinpath.app.target import Roles, check_roles, read_roles
from steinpath.cluster._calls import WorkerLost, worker_lost
from steinpath.cluster._design import DistributedDesign, fits, make_design
from steinpath.estimators._columns import ColumnFit
from steinpath.estimators._encoder import TableEncoder

# Numbers that a worker reads at a time to fit the encoder: at least one column of all files.
_NUMBERS_AT_ONCE = 2**24


def encode_folder(
    folder: ParquetFolder,
    encoder: TableEncoder,
    client: Any,
    target: str,
    group: str | None = None,
    task: str | None = None,
    weight: str | None = None,
) -> tuple[DistributedDesign, Roles, Callable[[int], str]]:
    """Fit the encoder to all files as one table, on a cluster whose workers can read them.

    Returns its features as they are, the target and the groups, and the places of rows.
    """
    named = (*encoder.categories, *encoder.drop, *encoder.keep)
    check_roles(folder.names, target, group, None, *named, *filter(None, [weight]))
    used = [target, *(name for name in (group, weight) if name is not None)]
    files = _Files(folder, client)
    table = FileTable(files.columns(used), folder.format, where=folder.place)
    with placed(table.place):
        impute = encoder.missing == "impute"
        roles = read_roles(table, target, group, None, task, impute, weight)
    if roles.rows is not None:
        files.kept = np.isin(np.arange(table.frame.num_rows), roles.rows)
        table = table.take(roles.rows)
    names = [name for name in folder.names if name not in used]
    with placed(table.place):
        encoder.check_names(names)
        encoder.fit_columns([*files.column_fits(names, encoder)])
        return files.design(encoder), roles, table.place


class _Files:
    """The files of a folder on a cluster; `kept` is a mask of their rows."""

    def __init__(self, folder: ParquetFolder, client: Any):
        self.folder, self.client = folder, client
        self.kept = np.ones(sum(folder.rows), bool)

    def file(self, k: int) -> _File:
        """Return the rows of one file."""
        start = self.folder.starts[k]
        return _File(self.folder, k, self.kept[start : start + self.folder.rows[k]])

    def results(
        self, function: Callable[..., Any], calls: Mapping[str, tuple[Any, ...]]
    ) -> Iterator[Any]:
        """Call a function on the workers, by what the calls read; yield the results in order."""
        from distributed import KilledWorker

        submit = partial(self.client.submit, function, pure=False)
        futures = [submit(*args) for args in reversed([*calls.values()])]
        for what in calls:
            begin(f"reading {what}", 0)
            try:
                result = futures.pop().result()  # popped, so that its memory is released
            except (KilledWorker, CancelledError):
                raise WorkerLost(worker_lost(what, "repeatedly")) from None
            yield result

    def columns(self, names: Sequence[str]) -> Any:
        """Return some columns of all files, each read by some worker."""
        files = enumerate(self.folder.files)
        calls = {f"the target of {file.name}": ([self.file(k)], names) for k, file in files}
        return import_arrow().concat_tables(self.results(_columns, calls))

    def column_fits(self, names: Sequence[str], encoder: TableEncoder) -> Iterator[ColumnFit]:
        """Yield how each column becomes features; a worker reads a few columns of all files."""
        files = [self.file(k) for k in range(len(self.folder.files))]
        # not with each call, since they have an entry for each row
        [sent] = self.client.scatter([files], broadcast=True, hash=False)
        step = max(1, _NUMBERS_AT_ONCE // len(self.kept))
        parts = [names[start : start + step] for start in range(0, len(names), step)]
        calls = {f"columns from {part[0]!r}": (sent, encoder, names[0], part) for part in parts}
        for some in self.results(_column_fits, calls):
            yield from some

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
    """A file and which of its rows are kept, for workers."""

    folder: ParquetFolder
    k: int
    kept: np.ndarray

    def batches(self, names: Collection[str]) -> Iterator[Any]:
        """Yield batches of some columns, which may have no rows."""
        first = 0
        for batch in self.folder.batches(self.k, names):
            yield batch.filter(self.kept[first : first + batch.num_rows])
            first += batch.num_rows


def _columns(files: Sequence[_File], names: Sequence[str]) -> Any:
    """Return some columns of some files."""
    parts = [batch.select(names) for file in files for batch in file.batches(names)]
    return import_arrow().concat_tables(parts)


def _column_fits(
    files: Sequence[_File], encoder: TableEncoder, first: str, names: Sequence[str]
) -> list[ColumnFit]:
    rows = np.flatnonzero(np.concatenate([file.kept for file in files]))
    return [fit for fit, _ in encoder.column_fits(_columns(files, names), first, rows)]


def _pieces(
    files: Sequence[_File], encoder: TableEncoder, which: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield the features of a block in batches of rows, without remarks about rare levels."""
    names = [column.name for column in encoder.columns_]
    for file in files:
        for batch in file.batches(names):
            yield encoder.encode(batch)[0][:, which]


def _block(files: Sequence[_File], encoder: TableEncoder, which: np.ndarray) -> np.ndarray:
    """Return the features of a block."""
    X, stop = np.empty((sum(file.kept.sum() for file in files), len(which))), 0
    for piece in _pieces(files, encoder, which):
        start, stop = stop, stop + len(piece)
        X[start:stop] = piece
    return X
