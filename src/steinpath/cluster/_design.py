"""Designs whose rows are distributed over a Dask cluster in blocks."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from steinpath._support.arrays import Array
from steinpath._support.caching import cached_property
from steinpath._support.docstrings import describes
from steinpath._support.validation import check_flag
from steinpath.cluster._blocks import (
    ColumnNames,
    Header,
    common,
    header_of,
    info_of,
    loaded,
    read_columns,
    read_pieces,
    read_response,
    stored,
)
from steinpath.cluster._calls import Calls
from steinpath.cluster._dask import DaskCarrier
from steinpath.cluster._messages import OverRows
from steinpath.design._base import Design, ScalableDesign

# Fraction of a worker's memory that blocks may use. Single-precision copies of active parts need
# memory as well, and at 60% Dask starts to spill whole blocks to disk.
_SHARE_OF_MEMORY = 0.4
# Maximum bytes of parts copied from the file of a block, and fraction of memory for all of them.
_LARGEST_PART, _SHARE_OF_PARTS = 2**28, 0.2


class DistributedDesign(ScalableDesign):
    """Design matrix distributed over the workers of a Dask cluster in blocks of rows.

    Create one with `from_dask_array`, `from_files` or `from_delayed`. Rows are ordered by block
    and stay on the workers.

    Attributes
    ----------
    shape : tuple of int
        ``(n, p)`` of all blocks together.
    client : distributed.Client
        Client of the cluster.
    blocks : list of distributed.Future
        Blocks of rows. These references keep them in the memory of the workers.
    names : list of str
        Names of the blocks in messages.
    starts : list of int
        Index of the first row of each block.
    column_names : list of str or None
        Names of the columns, if any.
    """

    column_names: list[str] | None = None
    #: Loads the design of some columns, if whoever made this one can.
    load_columns: Callable[[np.ndarray], DistributedDesign] | None = None
    out_of_core = is_remote = True

    def __init__(self, client: Any, blocks: Sequence[Any], names: Sequence[str]):
        infos = client.gather(client.map(info_of, blocks, pure=False))
        kept = [k for k, info in enumerate(infos) if info.rows]
        if not kept:
            raise ValueError("X is empty: no block has any rows")
        self._infos = infos = [infos[k] for k in kept]
        self.client = client
        self.blocks, self.names = [blocks[k] for k in kept], [names[k] for k in kept]
        columns, dtype = common(infos, self.names)
        ends = np.cumsum([info.rows for info in infos]).tolist()
        self.starts = [0, *ends[:-1]]
        self.shape = (ends[-1], columns)
        self.example = np.zeros(1, dtype=dtype)

    def __repr__(self) -> str:
        n, p = self.shape
        return f"<DistributedDesign of {n} × {p} in {len(self.blocks)} blocks of rows>"

    def carrier(self) -> DaskCarrier:
        """Return a new connection to the blocks."""
        return DaskCarrier(self)

    @cached_property
    def _calls(self) -> Calls:
        return Calls(self.carrier(), self, self.starts)

    def on_blocks(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._calls.call(function, *args)

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> DistributedDesign | None:
        if rows is not None or columns is None or self.load_columns is None:
            return None
        return self.load_columns(columns)

    # Products for computations of the client, each by the method of the same name on all blocks,
    # which sends columns to the workers and back. Long computations run there instead.

    def matmat(self, block: Array) -> Array:
        return self.on_blocks(_rows_of_method, self, "matmat", block)

    def rmatmat(self, block: Array) -> Array:
        return self.on_blocks(_method, self, "rmatmat", OverRows(block))

    def row_squares(self, center: Array | None = None, scale: Array | None = None) -> Array:
        return self.on_blocks(_rows_of_method, self, "row_squares", center, scale)

    @property
    def has_gram(self) -> bool:
        return not self._infos[0].sparse

    def gram(self, of_rows: bool = False, dtype: Any = None, center: Array | None = None) -> Array:
        return self.on_blocks(_method, self, "gram", of_rows, dtype, center)

    def column_moments(self, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return weighted means and standard deviations of the columns."""
        found: tuple[np.ndarray, np.ndarray]
        found = self.on_blocks(_method, self, "column_moments", weights)
        return found


def _method(design: Design, name: str, *args: Any) -> Any:
    return getattr(design, name)(*args)


def _rows_of_method(design: Design, name: str, *args: Any) -> OverRows:
    return OverRows(getattr(design, name)(*args))


_loads_blocks = describes(
    """\
client : distributed.Client, optional
    Client of the cluster; the current client by default.
in_memory : bool, default=True
    Whether the workers keep blocks in memory. If False, each block is written to a file and
    read in pieces; it is in memory once before it is written. Sparse blocks always stay in
    memory.""",
    returns="DistributedDesign",
)


@_loads_blocks
def from_dask_array(X: Any, client: Any = None, in_memory: bool = True) -> DistributedDesign:
    """Create a distributed design from a Dask array, with one block per chunk of rows.

    Parameters
    ----------
    X : dask.array.Array of shape (n, p)
        Dask array or data frame. Chunks along columns are merged. A few large chunks of rows are
        best, one per thread of the cluster; rechunk an array with many small chunks.
    """
    client = _client(client)
    check_flag("in_memory", in_memory)
    from distributed import futures_of

    if hasattr(X, "to_dask_array"):
        X = X.to_dask_array()
    if X.ndim != 2:
        raise ValueError(f"X must have 2 dimensions; got shape {X.shape}")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    tasks = list(X.to_delayed().ravel())
    names = [f"block {k}" for k in range(len(tasks))]
    return make_design(tasks, names, client, in_memory, placed=not futures_of(X))


@_loads_blocks
def from_delayed(
    loaders: Sequence[Any], client: Any = None, in_memory: bool = True
) -> DistributedDesign:
    """Create a distributed design from blocks that are loaded on the workers.

    Parameters
    ----------
    loaders : sequence of callable, dask.delayed.Delayed or distributed.Future
        Each provides one block of rows, dense or sparse. A callable takes no arguments. Loaders
        are called again if a worker is lost, and must then provide the same rows. With
        ``in_memory=False``, a callable may also return an iterator over arrays of successive rows.
    """
    client = _client(client)
    from dask.base import is_dask_collection
    from distributed import Future

    check_flag("in_memory", in_memory)
    loaders = list(loaders)
    if not loaders:
        raise ValueError("loaders is empty; provide one loader per block of rows")
    tasks = all(is_dask_collection(loader) or isinstance(loader, Future) for loader in loaders)
    for k, loader in enumerate(loaders):
        if not tasks and not callable(loader):
            raise TypeError(
                "loaders must all be callables without arguments, or all be Dask delayed objects "
                f"or futures; loader {k} is {loader!r:.60}"
            )
    names = [f"block {k}" for k in range(len(loaders))]
    return make_design(loaders, names, client, in_memory)


@_loads_blocks
def from_files(
    paths: Sequence[Any],
    columns: ColumnNames | None = None,
    response: Any = None,
    client: Any = None,
    in_memory: bool | str = "auto",
) -> Any:
    """Create a distributed design from files, with one block of rows per file.

    Parameters
    ----------
    paths : sequence of path-like
        Files that all workers can read: ``.npy``, ``.npz`` of `scipy.sparse.save_npz`, or
        ``.parquet``.
    columns : sequence of str or int, optional
        Columns of X, by name for Parquet and by position otherwise. By default all columns in file
        order, except the response and the index of a pandas data frame.
    response : str or int, optional
        Column to return as y.
    in_memory : bool or "auto", default="auto"
        Whether the workers keep blocks in memory. If False, ``.npy`` files are read in pieces in
        each product. Parquet files are first converted to binary files in the scratch folders of
        the workers (``local_directory`` of Dask), which are removed with the design. "auto" keeps
        blocks in memory if they take at most 40% of the memory of each worker. Sparse blocks
        always stay in memory.

    Returns
    -------
    design : DistributedDesign
    y : ndarray of shape (n,)
        Response; only returned if ``response`` is given.
    """
    client = _client(client)
    if isinstance(paths, str | os.PathLike):
        raise TypeError("paths must be a list of files, such as sorted(glob('folder/*.parquet'))")
    files = [os.fspath(path) for path in paths]
    if not files:
        raise ValueError("paths is empty; provide one file per block of rows")
    names = [f"block {k} ({os.path.basename(file)})" for k, file in enumerate(files)]
    headers = client.gather(client.map(header_of, files, names, pure=False))
    wanted = _wanted(headers, names, columns, response)
    if isinstance(in_memory, str) and in_memory == "auto":
        in_memory = fits(client, [one.rows * one.itemsize * len(wanted) for one in headers])
    check_flag("in_memory", in_memory)
    read = read_columns if in_memory else read_pieces
    loaders = [partial(read, file, wanted) for file in files]
    design = make_design(loaders, names, client, bool(in_memory))
    if all(isinstance(name, str) for name in wanted):
        design.column_names = wanted
    if response is None:
        return design
    parts = client.map(read_response, files, names, column=response, pure=False)
    return design, np.concatenate(client.gather(parts))


def _wanted(
    headers: Sequence[Header], names: Sequence[str], columns: ColumnNames | None, response: Any
) -> list[Any]:
    """Return the columns to read from every file; raise if a file lacks one."""
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list, such as [{columns!r}]")
    defaults = [[c for c in header.columns if c not in header.index_columns] for header in headers]
    wanted = [c for c in defaults[0] if c != response] if columns is None else list(columns)
    if not wanted:
        raise ValueError("columns is empty; X must have at least one column")
    if response is not None and response in wanted:
        raise ValueError(f"column {response!r} is the response; it cannot be in columns as well")
    needed = wanted if response is None else [*wanted, response]
    for header, default, name in zip(headers, defaults, names, strict=True):
        if columns is None and len(default) != len(defaults[0]):
            raise ValueError(
                f"{name} has {len(default)} columns, but {names[0]} has {len(defaults[0])}; select "
                "common columns with columns="
            )
        missing = [c for c in needed if c not in header.columns]
        if missing:
            raise ValueError(
                f"{name} has no column {missing[0]!r}; it has {header.columns[:8]!r:.100}"
            )
    return wanted


def make_design(
    sources: Sequence[Any],
    names: Sequence[str],
    client: Any,
    in_memory: bool,
    placed: bool = True,
) -> DistributedDesign:
    """Create a design of blocks from loaders, tasks or futures, placed on workers in order."""
    from dask.base import is_dask_collection
    from dask.delayed import delayed
    from distributed import Future

    workers = _workers_for(client, len(sources))
    function: Callable[..., Any] = loaded
    more = []
    if not in_memory:
        limits, counts = _memory(client), Counter(workers)
        shares = (limits[one] * _SHARE_OF_PARTS / counts[one] for one in counts if limits[one])
        function, more = stored, [int(min([_LARGEST_PART, *shares]))]
    blocks = []
    for source, name, worker in zip(sources, names, workers, strict=True):
        on: dict[str, Any] = {"workers": [worker], "allow_other_workers": True}
        if not placed or isinstance(source, Future):  # it is there already
            on = {}
        if is_dask_collection(source):
            task = delayed(function, pure=False)(source, name, *more)
            blocks.append(client.compute(task, **on))
        else:
            blocks.append(client.submit(function, source, name, *more, pure=False, **on))
    return DistributedDesign(client, blocks, names)


def fits(client: Any, sizes: Sequence[int]) -> bool:
    """Return whether blocks of the given sizes in bytes fit in the memory of their workers."""
    limits, needed = _memory(client), Counter[str]()
    for worker, size in zip(_workers_for(client, len(sizes)), sizes, strict=True):
        needed[worker] += size
    return all(not limits[one] or needed[one] <= _SHARE_OF_MEMORY * limits[one] for one in needed)


def _memory(client: Any) -> dict[str, int]:
    """Return the limit on the memory of each worker, in bytes; 0 if it has none."""
    return Counter(client.run(_memory_limit))


def _memory_limit(dask_worker: Any) -> int:
    return int(dask_worker.memory_manager.memory_limit or 0)


def _workers_for(client: Any, count: int) -> list[str]:
    """Assign ``count`` blocks to workers: neighbours together, in proportion to threads."""
    if not client.nthreads():
        client.wait_for_workers(1, timeout=60)
    threads = client.nthreads()
    slots = [worker for worker in sorted(threads) for _ in range(threads[worker])]
    return [slots[k * len(slots) // count] for k in range(count)]


def _client(client: Any) -> Any:
    try:
        from distributed import get_client
    except ImportError:
        raise ImportError("clusters require Dask: pip install 'steinpath[cluster]'") from None
    if client is None:
        try:
            client = get_client()
        except ValueError:
            raise ValueError(
                "there is no Dask client; create one first: client = distributed.Client()"
            ) from None
    if client.asynchronous:
        raise ValueError("an asynchronous Dask client is not supported; use a synchronous one")
    return client
