"""Data in a folder of Parquet files, which the workers of a Dask cluster read and encode.

The encoder is fitted to facts that the workers collect from their files, and is the same as if all
files were one table. This process holds the target and the groups; the features stay on the
workers, in blocks of one or several files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from steinpath._support.cells import read_column
from steinpath._support.progress import begin
from steinpath.app.tables import ParquetFolder, Table, placed
from steinpath.app.tables.table import import_arrow
from steinpath.app.target import Roles, check_roles, read_roles
from steinpath.cluster._conversation import WorkerLost, worker_lost
from steinpath.cluster._design import DistributedDesign, design_of_loaders, fits
from steinpath.estimators._columns import MIXED, Facts, add_facts, as_numbers, middle_ranks
from steinpath.estimators._encoder import MOST_SUMMARIES, TableEncoder

# Columns whose medians are computed together; a worker holds all their numbers of a file in memory.
_COLUMNS_AT_ONCE = 16
# Marks of each file: about 2 n / _MARKS of n numbers are near the median.
_MARKS = 512
_Marks = tuple[int, np.ndarray, np.ndarray]


class FolderData(NamedTuple):
    """The fitted encoder, its features as they are, the target, and the places of rows."""

    encoder: TableEncoder
    design: DistributedDesign
    roles: Roles
    place: Callable[[int], str]


def encode_folder(
    folder: ParquetFolder,
    encoder: TableEncoder,
    client: Any,
    target: str,
    group: str | None = None,
    task: str | None = None,
) -> FolderData:
    """Fit the encoder to all files as one table, on a cluster whose workers can read them."""
    named = (*encoder.categories, *encoder.drop, *encoder.keep)
    check_roles(folder.names, target, group, None, *named)
    used = [target] if group is None else [target, group]
    files = _Files(folder, client)
    parts = list(files.of_each(_columns_of_file, used, doing="reading the target"))
    table = Table(import_arrow().concat_tables(parts), folder.format, files=folder.places)
    with placed(table.place):
        roles = read_roles(table, target, group, None, task, encoder.missing == "impute")
    if roles.rows is not None:
        files.kept = np.isin(np.arange(table.frame.num_rows), roles.rows)
        table = table.take(roles.rows)
    names = [name for name in folder.names if name not in used]
    with placed(table.place):
        encoder.fit_facts(names, files.facts(names, encoder))
        return FolderData(encoder, files.design(encoder), roles, table.place)


class _Files:
    """The files of a folder on a cluster; `kept` is a mask of their rows, None for all."""

    def __init__(self, folder: ParquetFolder, client: Any):
        self.folder, self.client = folder, client
        self.kept: np.ndarray | None = None

    def file(self, k: int) -> _File:
        """Return the rows of one file."""
        start, kept = self.folder.starts[k], self.kept
        if kept is None:
            return _File(self.folder, k, start, None)
        own = kept[start : start + self.folder.rows[k]]
        return _File(self.folder, k, int(kept[:start].sum()), own)

    def of_each(self, function: Callable[..., Any], *args: Any, doing: str) -> Iterator[Any]:
        """Call a function with each file on some worker, and yield the results in file order."""
        from distributed import KilledWorker

        count = len(self.folder.files)
        submit = partial(self.client.submit, function, pure=False)
        futures = [submit(self.file(k), *args) for k in reversed(range(count))]
        while futures:
            name = self.folder.files[count - len(futures)].name
            begin(f"{doing} of {name}", 0)
            try:
                result = futures.pop().result()  # popped, so that its memory is released
            except KilledWorker:
                raise WorkerLost(worker_lost(name, "repeatedly")) from None
            yield result

    def facts(self, names: Sequence[str], encoder: TableEncoder) -> dict[str, Facts]:
        """Return the facts about columns, including the middle values of numbers."""
        found = self._facts(names, encoder)
        if mixed := [name for name, facts in found.items() if facts.kind == MIXED]:
            # texts that are all numbers in some files, but not in others; not so if categories
            plain = clone(encoder).set_params(categories=(), drop=())
            found |= self._facts(mixed, plain, mixed)
        # other columns are neither imputed nor summarised
        few = names if encoder.missing == "impute" else names[:MOST_SUMMARIES]
        numbers = [name for name in few if found[name].low is not None]
        numbers = [name for name in numbers if found[name].middle is None]
        for start in range(0, len(numbers), _COLUMNS_AT_ONCE):
            some = numbers[start : start + _COLUMNS_AT_ONCE]
            doing = "computing medians"
            marks = list(self.of_each(_marks_of_file, some, doing=doing))
            ends = {name: bracket([each[name] for each in marks]) for name in some}
            inside = list(self.of_each(_within_file, ends, doing=doing))
            for name in some:
                middle = middle_of_all([each[name] for each in inside], found[name].present)
                found[name] = replace(found[name], middle=middle)
        return found

    def _facts(
        self, names: Sequence[str], encoder: TableEncoder, as_text: Collection[str] = ()
    ) -> dict[str, Facts]:
        found, args = dict[str, Facts](), (names, encoder, as_text)
        for part in self.of_each(_facts_of_file, *args, doing="reading the columns"):
            add_facts(found, part)
        return found

    def design(self, encoder: TableEncoder, which: np.ndarray | None = None) -> DistributedDesign:
        """Return features, in memory if there is room on the workers and else in files."""
        folder, client = self.folder, self.client
        which = np.arange(len(encoder.get_feature_names_out())) if which is None else which
        blocks = _blocks(folder.rows, sum(client.nthreads().values()))
        sizes = [8 * len(which) * sum(folder.rows[k] for k in block) for block in blocks]
        in_memory = fits(client, sizes)
        load = _block if in_memory else _pieces
        loaders = [partial(load, [self.file(k) for k in block], encoder, which) for block in blocks]
        names = list[str]()
        for block in blocks:
            ends = [folder.files[k].name for k in dict.fromkeys((block[0], block[-1]))]
            names.append(f"block {len(names)} ({' to '.join(ends)})")
        design = design_of_loaders(loaders, names, client, in_memory)
        design.load_columns = partial(self.design, encoder)
        return design


def _blocks(rows: Sequence[int], count: int) -> list[list[int]]:
    """Group consecutive files into at most `count` blocks with similar numbers of rows."""
    middles = np.cumsum(rows) - np.array(rows) / 2
    places = (middles * max(1, count) / sum(rows)).astype(int)
    return [np.flatnonzero(places == place).tolist() for place in np.unique(places)]


# ------------------------------------------------------------------------------------------------
# On the workers
# ------------------------------------------------------------------------------------------------


class _File(NamedTuple):
    """The rows of a file that are kept, and the number of such rows before it."""

    folder: ParquetFolder
    k: int
    start: int
    kept: np.ndarray | None

    def batches(self, names: Collection[str]) -> Iterator[tuple[int, np.ndarray, Any]]:
        """Yield batches of some columns, after the number of rows before and their numbers."""
        start, before = self.start, self.folder.starts[self.k]
        for first, batch in self.folder.batches(self.k, names):
            rows = np.arange(first, first + batch.num_rows)
            if self.kept is not None:
                rows = rows[self.kept[rows - before]]
                batch = batch.take(rows - first)
            if len(rows):
                yield start, rows, batch
            start += len(rows)


def _columns_of_file(file: _File, names: Sequence[str]) -> Any:
    parts = [batch.select(names) for *_, batch in file.batches(names)]
    return import_arrow().concat_tables(parts)


def _facts_of_file(
    file: _File, names: Sequence[str], encoder: TableEncoder, as_text: Collection[str]
) -> dict[str, Facts]:
    found: dict[str, Facts] = {}
    for start, rows, batch in file.batches(names):
        add_facts(found, encoder.facts(batch, start, as_text, rows))
    return found


def _numbers_of_file(file: _File, names: Collection[str]) -> dict[str, np.ndarray]:
    """Return all numbers of some columns, dates as days, sorted and without missing values."""
    parts: dict[str, list[np.ndarray]] = {name: [np.zeros(0)] for name in names}
    for *_, batch in file.batches(names):
        for name in names:
            read = read_column(name, batch.column(name), file.folder.format)
            if read.kind:
                parts[name].append(as_numbers(read.data[~read.gaps]))
    return {name: np.sort(np.concatenate(parts[name])) for name in names}


def _marks_of_file(file: _File, names: Collection[str]) -> dict[str, _Marks]:
    return {name: marks_of(each) for name, each in _numbers_of_file(file, names).items()}


def _within_file(file: _File, ends: dict[str, tuple[float, float]]) -> dict[str, _Marks]:
    return {name: within(each, *ends[name]) for name, each in _numbers_of_file(file, ends).items()}


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
    sizes = (file.folder.rows[file.k] if file.kept is None else file.kept.sum() for file in files)
    X, stop = np.empty((sum(sizes), len(which))), 0
    for piece in _pieces(files, encoder, which):
        start, stop = stop, stop + len(piece)
        X[start:stop] = piece
    return X


# ------------------------------------------------------------------------------------------------
# Exact medians of distributed numbers, with few numbers communicated: marks of each file bound the
# rank of any value, and so give an interval that contains the median; then its numbers are sent.
# ------------------------------------------------------------------------------------------------


def marks_of(numbers: np.ndarray) -> _Marks:
    """Return the count of sorted numbers, and the ranks and values of some, with both ends."""
    last = [len(numbers) - 1] if len(numbers) else []
    ranks = np.append(np.arange(0, len(numbers), -(-len(numbers) // _MARKS) or 1), last).astype(int)
    return len(numbers), ranks, numbers[ranks]


def bracket(marks: Sequence[_Marks]) -> tuple[float, float]:
    """Return an interval that contains the middle values of all numbers."""
    low, high = middle_ranks(sum(size for size, *_ in marks))
    ends = np.unique(np.concatenate([values for *_, values in marks]))
    below, up_to = np.zeros(len(ends), int), np.zeros(len(ends), int)
    for size, ranks, values in marks:
        # upper bound of the count below an end: ranks up to the first mark that is not below
        below += np.append(ranks, size)[np.searchsorted(values, ends, "left")]
        # lower bound of the count not above it: ranks up to the last mark that is not above
        up_to += np.append(0, ranks + 1)[np.searchsorted(values, ends, "right")]
    return float(ends[below <= low][-1]), float(ends[up_to > high][0])


def within(numbers: np.ndarray, low: float, high: float) -> _Marks:
    """Return the count of numbers below an interval, and the distinct ones in it, with counts."""
    inside = numbers[(numbers >= low) & (numbers <= high)]
    return int((numbers < low).sum()), *np.unique(inside, return_counts=True)


def middle_of_all(found: Sequence[_Marks], count: int) -> tuple[float, float]:
    """Return the two middle values of all numbers, from those in an interval around them."""
    values = np.concatenate([each for _, each, _ in found])
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(np.concatenate([counts for *_, counts in found])[order])
    ranks = np.array(middle_ranks(count)) - sum(below for below, *_ in found)
    low, high = values[order][np.searchsorted(ends, ranks, "right")]
    return float(low), float(high)
