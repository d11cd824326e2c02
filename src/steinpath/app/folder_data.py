"""Data in a folder of Parquet files, which the workers of a Dask cluster read and encode.

The encoding is learned from facts that the workers collect from their files, and is the same as if
all files were one table. This process holds at most one number per row: the target and the groups.
The features stay on the workers, in blocks of one or several files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from steinpath._support.progress import begin
from steinpath.app.encoding import Encoded, Encoding, RemoteFeatures
from steinpath.app.encoding.encoded import (
    MOST_SUMMARIES,
    EncodingOptions,
    learn,
    read_roles,
    rows_of,
)
from steinpath.app.encoding.facts import (
    MIXED,
    Facts,
    as_numbers,
    check_levels,
    facts_of_rows,
    moved,
)
from steinpath.app.encoding.medians import (
    Marks,
    Within,
    bracket,
    marks_of,
    middle_of_all,
    within,
)
from steinpath.app.tables import Table
from steinpath.app.tables.folder import ParquetFolder
from steinpath.app.tables.table import objects
from steinpath.cluster._conversation import WorkerLost, worker_lost
from steinpath.cluster._design import DistributedDesign, design_of_loaders, fits
from steinpath.estimators._rows import sizes_from_moments

# Columns whose medians are computed together; a worker holds all their numbers of a file in memory.
_COLUMNS_AT_ONCE = 16


def encode_folder(folder: ParquetFolder, options: EncodingOptions, client: Any) -> Encoded:
    """Encode all files as one table on a cluster; see `steinpath.app.encoding.encode`.

    Parameters
    ----------
    folder : ParquetFolder
        The files, which all workers can read.
    options : EncodingOptions
        How to use the columns; rows cannot be sorted by time.
    client : distributed.Client
        The cluster.

    Raises
    ------
    DataError
        As for `encode`; the message names the file and the column.
    """
    names = folder.names
    options.check(names)
    files = _Files(folder, client)
    roles = read_roles(files.table([options.target, *options.roles], options), options)
    features = [name for name in names if name not in (options.target, *options.roles)]
    facts = files.facts(features, options, roles.kept)
    place = Table({}, files=folder.places).place
    learned = learn(names, facts, roles, options, place)
    X = FolderFeatures.found(files, learned.encoding, roles.kept)
    return Encoded(
        learned.encoding,
        X,
        roles.y,
        learned.summaries,
        len(names),
        learned.notes,
        roles.groups,
        None,
        roles.classes,
        folder.text_format,
    )


class _Files:
    """Runs functions on the workers for the files of a folder."""

    def __init__(self, folder: ParquetFolder, client: Any):
        self.folder, self.client = folder, client

    def of_each(
        self, function: Callable[..., Any], *args: Any, kept: np.ndarray | None, doing: str
    ) -> Iterator[Any]:
        """Call a function for each file on some worker, and yield the results in file order.

        Parameters
        ----------
        function : callable
            Called with the folder, the number of the file, the mask of its rows that are kept, and
            the arguments.
        *args
            Arguments.
        kept : ndarray of bool, optional
            Mask of the rows that are kept; None for all.
        doing : str
            Progress message, before the name of the file.
        """
        parts: Sequence[Any] = [None] * len(self.folder.files)
        if kept is not None:
            parts = np.split(kept, self.folder.starts[1:])
        futures = [
            self.client.submit(function, self.folder, k, part, *args, pure=False)
            for k, part in enumerate(parts)
        ]
        futures.reverse()
        while futures:
            name = self.folder.files[len(parts) - len(futures)].name
            begin(f"{doing} of {name}", 0)
            yield _result(futures.pop(), name)  # popped, so that its memory is released

    def table(self, names: Sequence[str], options: EncodingOptions) -> Table:
        """Return some columns of all rows."""
        as_text = {name for name in names if name == options.group}
        while True:
            parts = defaultdict[str, list[_Values]](list)
            read = self.of_each(
                _read_columns, names, as_text, kept=None, doing="reading the target"
            )
            for found in read:
                for name, values in found.items():
                    parts[name].append(values)
            columns = {name: _joined(parts[name]) for name in names}
            mixed = {name for name, values in columns.items() if values is None}
            if not mixed:
                known = {name: values for name, values in columns.items() if values is not None}
                places, text_format = self.folder.places, self.folder.text_format
                return Table(known, files=places, text_format=text_format)
            as_text |= mixed

    def facts(
        self, names: Sequence[str], options: EncodingOptions, kept: np.ndarray | None
    ) -> dict[str, Facts]:
        """Return the facts about columns, including the middle values of numbers."""
        found = self._facts(names, options, kept, options.categories)
        if mixed := [name for name, facts in found.items() if facts.kind == MIXED]:
            # texts that are all numbers in some files, but not in others
            found |= self._facts(mixed, options, kept, [*options.categories, *mixed])
        # other columns are neither imputed nor summarised
        few = names if options.impute else names[:MOST_SUMMARIES]
        numbers = [name for name in few if found[name].low is not None]
        numbers = [name for name in numbers if found[name].middle is None]
        for start in range(0, len(numbers), _COLUMNS_AT_ONCE):
            some = numbers[start : start + _COLUMNS_AT_ONCE]
            for name, middle in self._middles(some, kept, found).items():
                found[name] = replace(found[name], middle=middle)
        return {name: found[name] for name in names}

    def _facts(
        self,
        names: Sequence[str],
        options: EncodingOptions,
        kept: np.ndarray | None,
        as_text: Collection[str],
    ) -> dict[str, Facts]:
        found: dict[str, Facts] = {}
        args = list(names), options, frozenset(as_text)
        for part in self.of_each(_facts_of_file, *args, kept=kept, doing="reading the columns"):
            _add(found, part)
        return found

    def _middles(
        self, names: Sequence[str], kept: np.ndarray | None, facts: dict[str, Facts]
    ) -> dict[str, tuple[float, float]]:
        marks = defaultdict[str, list[Marks]](list)
        for found in self.of_each(_marks_of_file, names, kept=kept, doing="computing medians"):
            for name, each in found.items():
                marks[name].append(each)
        intervals = {name: bracket(marks[name]) for name in names}
        inside = defaultdict[str, list[Within]](list)
        for found in self.of_each(_within_file, intervals, kept=kept, doing="computing medians"):
            for name, each in found.items():
                inside[name].append(each)
        return {name: middle_of_all(inside[name], facts[name].present) for name in names}


def _result(future: Any, name: str) -> Any:
    """Wait for the result of a worker."""
    from distributed import KilledWorker

    try:
        return future.result()
    except KilledWorker:
        raise WorkerLost(worker_lost(name, "repeatedly")) from None


def _add(found: dict[str, Facts], later: dict[str, Facts]) -> None:
    """Add the facts about later rows."""
    for name, facts in later.items():
        found[name] = found[name] + facts if name in found else facts
        check_levels(name, found[name].levels)


# ------------------------------------------------------------------------------------------------
# Features
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moments:
    """Means and centred sums of squares, which add up over blocks of rows.

    Attributes
    ----------
    count : int
        Number of rows.
    means, squares : ndarray of shape (p,)
        Means of the features, and sums of squared deviations from them.
    sizes : ndarray of shape (p,)
        Largest absolute values.
    """

    count: int
    means: np.ndarray
    squares: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray) -> Moments:
        """Return the moments of a block of rows."""
        means = X.mean(axis=0)
        sizes = np.abs(X).max(axis=0)
        with np.errstate(over="ignore"):  # such sizes are refused later
            return cls(len(X), means, np.square(X - means).sum(axis=0), sizes)

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count
        shift = other.means - self.means
        with np.errstate(over="ignore"):
            between = np.square(shift) * (self.count * other.count / count)
        return Moments(
            count,
            self.means + shift * (other.count / count),
            self.squares + other.squares + between,
            np.maximum(self.sizes, other.sizes),
        )


@dataclass(frozen=True, eq=False)
class FolderFeatures(RemoteFeatures):
    """Features of the rows of a folder.

    Parameters
    ----------
    files : _Files
        The folder, and the cluster.
    encoding : Encoding
        How columns become features.
    kept : ndarray of bool, optional
        Mask of the rows that are used; None for all.
    moments : Moments
        Moments of all features.
    which : ndarray of int
        Indices of the selected features.
    """

    files: _Files
    encoding: Encoding
    kept: np.ndarray | None
    moments: Moments
    which: np.ndarray

    @classmethod
    def found(cls, files: _Files, encoding: Encoding, kept: np.ndarray | None) -> FolderFeatures:
        """Return all features; compute their moments."""
        moments: Moments | None = None
        doing = "computing means and standard deviations"
        for part in files.of_each(_moments_of_file, encoding, kept=kept, doing=doing):
            if part is not None:
                moments = part if moments is None else moments + part
        assert moments is not None  # the target is not empty
        return cls(files, encoding, kept, moments, np.arange(len(encoding.feature_names)))

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Number of rows and of features."""
        return self.moments.count, len(self.which)

    @property
    def sizes(self) -> np.ndarray:  # type: ignore[override]
        """The largest absolute value of each feature."""
        return np.asarray(self.moments.sizes[self.which])

    def columns(self, which: np.ndarray) -> FolderFeatures:
        """Return a subset of the features, by index."""
        return replace(self, which=self.which[which])

    def standardised(self, dtype: Any) -> tuple[np.ndarray, np.ndarray, DistributedDesign]:
        """Return means, standard deviations, and the design of standardised features."""
        which, known = self.which, self.moments
        deviations = np.sqrt(known.squares[which] / known.count)
        scale, means = sizes_from_moments(
            known.means[which], deviations, True, np.dtype(float), self.shape
        )
        return means, scale, self._design(means, scale, np.dtype(dtype))

    def _design(
        self, means: np.ndarray, scale: np.ndarray, dtype: np.dtype[Any]
    ) -> DistributedDesign:
        folder, client = self.files.folder, self.files.client
        blocks = _blocks(folder.rows, sum(client.nthreads().values()))
        rows = [sum(folder.rows[k] for k in files) for files in blocks]
        in_memory = fits(client, [n * len(scale) * dtype.itemsize for n in rows])
        loaders, names = list[Callable[[], Any]](), list[str]()
        for files in blocks:
            start = folder.starts[files[0]]
            stop = folder.starts[files[-1]] + folder.rows[files[-1]]
            kept = None if self.kept is None else self.kept[start:stop]
            args = folder, files, kept, self.encoding, self.which, means, scale, dtype
            loaders.append(partial(_block if in_memory else _pieces, *args))
            ends = [folder.files[k].name for k in dict.fromkeys((files[0], files[-1]))]
            names.append(f"block {len(names)} ({' to '.join(ends)})")
        return design_of_loaders(loaders, names, client, in_memory)


def _blocks(rows: Sequence[int], count: int) -> list[list[int]]:
    """Group consecutive files into at most `count` blocks with similar numbers of rows."""
    middles = np.cumsum(rows) - np.array(rows) / 2
    places = (middles * max(1, count) / sum(rows)).astype(int)
    return [np.flatnonzero(places == place).tolist() for place in np.unique(places)]


# ------------------------------------------------------------------------------------------------
# On the workers
# ------------------------------------------------------------------------------------------------


class _Values(NamedTuple):
    """A column of a file: numbers or dates, or indices of labels; `kind` as in `Facts`."""

    kind: str
    values: np.ndarray
    labels: list[str | None]


def _read_columns(
    folder: ParquetFolder,
    k: int,
    kept: None,
    names: Sequence[str],
    as_text: Collection[str],
) -> dict[str, _Values]:
    """Read whole columns of a file."""
    parts = defaultdict[str, list[np.ndarray]](list)
    for table in folder.batches(k, names, as_text):
        for name, values in table.columns.items():
            parts[name].append(values)
    return {name: _packed(found) for name, found in parts.items()}


def _packed(parts: Sequence[np.ndarray]) -> _Values:
    """Concatenate parts of a column, with each label stored once."""
    kinds = {_kind(values) for values in parts} - {""}
    if len(kinds) > 1:
        return _Values(MIXED, np.zeros(0), [])
    kind = kinds.pop() if kinds else ""
    if kind in ("f", "M"):
        return _Values(kind, np.concatenate([_like(values, kind) for values in parts]), [])
    whole = np.concatenate(parts) if kind else objects([None] * sum(map(len, parts)))
    numbers: dict[str | None, int] = {}
    codes = np.array([numbers.setdefault(value, len(numbers)) for value in whole], np.int32)
    return _Values(kind, codes, list(numbers))


def _kind(values: np.ndarray) -> str:
    """Return the kind of a column; "" if all values are missing texts."""
    if values.dtype == object and all(value is None for value in values):
        return ""
    return values.dtype.kind


def _like(values: np.ndarray, kind: str) -> np.ndarray:
    """Return numbers or dates unchanged, and an empty column as missing numbers or dates."""
    if values.dtype.kind == kind:
        return values
    return np.full(len(values), np.nan) if kind == "f" else np.full(len(values), "NaT", "M8[us]")


def _joined(parts: Sequence[_Values]) -> np.ndarray | None:
    """Return the column of all files; None if its files are of several types."""
    columns = []
    for part in parts:
        if part.kind == MIXED:
            return None
        if part.labels:
            columns.append(objects(part.labels)[part.values])
        else:
            columns.append(part.values)
    kinds = {_kind(values) for values in columns} - {""}
    if len(kinds) > 1:
        return None
    kind = kinds.pop() if kinds else ""
    if kind in ("f", "M"):
        columns = [_like(values, kind) for values in columns]
    return np.concatenate(columns)


def _facts_of_file(
    folder: ParquetFolder,
    k: int,
    kept: np.ndarray | None,
    names: Sequence[str],
    options: EncodingOptions,
    as_text: Collection[str],
) -> dict[str, Facts]:
    found: dict[str, Facts] = {}
    for table, own in _batches(folder, k, kept, names, as_text):
        assert table.numbers is not None
        _add(
            found,
            {
                name: moved(
                    facts_of_rows(
                        table, name, own, name in options.categories, name in options.drop
                    ),
                    int(table.numbers[0]),
                )
                for name in table.columns
            },
        )
    return found


def _batches(
    folder: ParquetFolder,
    k: int,
    kept: np.ndarray | None,
    names: Collection[str],
    as_text: Collection[str] = (),
) -> Iterator[tuple[Table, np.ndarray | None]]:
    """Yield batches of rows, and the mask of those that are kept; None for all."""
    start = 0
    for table in folder.batches(k, names, as_text):
        stop = start + table.n_rows
        yield table, None if kept is None else kept[start:stop]
        start = stop


def _numbers_of_file(
    folder: ParquetFolder, k: int, kept: np.ndarray | None, names: Collection[str]
) -> dict[str, np.ndarray]:
    """Return all numbers of some columns, dates as days, without missing values."""
    parts = defaultdict[str, list[np.ndarray]](list)
    for table, own in _batches(folder, k, kept, names):
        for name, values in rows_of(table, own).columns.items():
            numbers = as_numbers(values)
            parts[name].append(numbers[~np.isnan(numbers)])
    return {name: np.concatenate(found) for name, found in parts.items()}


def _marks_of_file(
    folder: ParquetFolder, k: int, kept: np.ndarray | None, names: Collection[str]
) -> dict[str, Marks]:
    numbers = _numbers_of_file(folder, k, kept, names)
    return {name: marks_of(values) for name, values in numbers.items()}


def _within_file(
    folder: ParquetFolder,
    k: int,
    kept: np.ndarray | None,
    intervals: dict[str, tuple[float, float]],
) -> dict[str, Within]:
    numbers = _numbers_of_file(folder, k, kept, list(intervals))
    return {name: within(values, intervals[name]) for name, values in numbers.items()}


def _features(
    folder: ParquetFolder, k: int, kept: np.ndarray | None, encoding: Encoding
) -> Iterator[np.ndarray]:
    """Yield the features of a file in batches of rows."""
    names = [column.name for column in encoding.columns]
    for table, own in _batches(folder, k, kept, names, encoding.named):
        table = rows_of(table, own)
        if table.n_rows:
            yield encoding.transform(table)[0]


def _moments_of_file(
    folder: ParquetFolder, k: int, kept: np.ndarray | None, encoding: Encoding
) -> Moments | None:
    moments: Moments | None = None
    for X in _features(folder, k, kept, encoding):
        moments = Moments.of(X) if moments is None else moments + Moments.of(X)
    return moments


def _pieces(
    folder: ParquetFolder,
    files: Sequence[int],
    kept: np.ndarray | None,
    encoding: Encoding,
    which: np.ndarray,
    means: np.ndarray,
    scale: np.ndarray,
    dtype: np.dtype[Any],
) -> Iterator[np.ndarray]:
    """Yield the standardised features of a block in batches of rows."""
    start = 0
    for k in files:
        stop = start + folder.rows[k]
        for X in _features(folder, k, None if kept is None else kept[start:stop], encoding):
            yield ((X[:, which] - means) / scale).astype(dtype)
        start = stop


def _block(
    folder: ParquetFolder, files: Sequence[int], kept: np.ndarray | None, *args: Any
) -> np.ndarray:
    """Return the standardised features of a block."""
    *_, scale, dtype = args
    rows = sum(folder.rows[k] for k in files) if kept is None else int(kept.sum())
    X, stop = np.empty((rows, len(scale)), dtype), 0
    for piece in _pieces(folder, files, kept, *args):
        start, stop = stop, stop + len(piece)
        X[start:stop] = piece
    return X
