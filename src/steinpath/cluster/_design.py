"""Designs whose rows are distributed over a Dask cluster in blocks."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial, reduce
from typing import Any

import numpy as np

from steinpath._support.arrays import Array, along_rows, largest
from steinpath._support.caching import cached_property
from steinpath._support.validation import check_flag, check_instance, check_size
from steinpath.algorithms._recursion import Recursion
from steinpath.cluster import _calls as calls
from steinpath.cluster._blocks import (
    ColumnNames,
    Header,
    checked,
    common,
    facts_of,
    header_of,
    loaded,
    read_columns,
    read_pieces,
    read_response,
)
from steinpath.cluster._calls import Problem
from steinpath.cluster._carrier import DaskCarrier
from steinpath.cluster._conversation import Carrier, Conversation
from steinpath.cluster._path import DistributedPath
from steinpath.cluster._sessions import Call
from steinpath.cluster._shares import Place
from steinpath.cluster._stored import stored, stored_value
from steinpath.cluster._tuning import DistributedTuning
from steinpath.design._base import NormBounds
from steinpath.design._conversion import check_response, reads_designs
from steinpath.design._remote import RemoteDesign
from steinpath.problem._losses import Loss

# Fraction of a worker's memory that blocks may use. Single-precision copies of active parts need
# memory as well, and at 60% Dask starts to spill whole blocks to disk.
_SHARE_OF_MEMORY = 0.4
# Maximum bytes of parts copied from the file of a block, and fraction of memory for all of them.
_LARGEST_PART, _SHARE_OF_PARTS = 2**28, 0.2


class DistributedDesign(RemoteDesign):
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
    scale : ndarray of shape (p,) or None
        Divisors of the columns, applied in each product.
    column_names : list of str or None
        Names of the columns, if any.
    """

    scale: np.ndarray | None = None
    column_names: list[str] | None = None
    #: Loads the design of some columns, unscaled, if whoever made this one can.
    load_columns: Callable[[np.ndarray], DistributedDesign] | None = None
    out_of_core = True

    def __init__(self, client: Any, blocks: Sequence[Any], names: Sequence[str]):
        described = client.map(facts_of, blocks, pure=False)
        facts = client.gather(described)
        kept = [k for k, each in enumerate(facts) if each.rows]
        if not kept:
            raise ValueError("X is empty: no block has any rows")
        self._facts = facts = [facts[k] for k in kept]
        self.client = client
        self.blocks, self.names = [blocks[k] for k in kept], [names[k] for k in kept]
        columns, dtype = common(facts, self.names)
        ends = np.cumsum([each.rows for each in facts])
        self.starts = [int(end) - each.rows for end, each in zip(ends, facts, strict=True)]
        self.shape = (int(ends[-1]), columns)
        self.example = np.zeros(1, dtype=dtype)

    def __repr__(self) -> str:
        n, p = self.shape
        return f"<DistributedDesign of {n} × {p} in {len(self.blocks)} blocks of rows>"

    def carrier(self) -> Carrier:
        """Return a carrier for the sessions of a new run."""
        args = self.blocks, self._facts, self.names, self.places_of_blocks
        return DaskCarrier(self.client, *args, str(self.example.dtype))

    @property
    def places_of_blocks(self) -> list[Place]:
        """Positions of the blocks among all rows."""
        sizes = np.diff([*self.starts, self.n_rows])
        return [
            Place(k, start, self.n_rows, int(sizes.max())) for k, start in enumerate(self.starts)
        ]

    def scaled(self, scale: np.ndarray) -> DistributedDesign:
        """Return the same rows with columns divided by positive numbers in each product.

        Parameters
        ----------
        scale : ndarray of shape (p,)
            Divisors of the columns.
        """
        scaled = copy(self)
        scaled.__dict__.pop("norms", None)  # computed for the other scale
        scaled.scale, scaled._norm = np.asarray(scale, self.example.dtype), None
        return scaled

    def part(self, rows: np.ndarray | None, columns: np.ndarray | None) -> DistributedDesign | None:
        if rows is not None or columns is None or self.load_columns is None:
            return None
        loaded = self.load_columns(columns)
        return loaded if self.scale is None else loaded.scaled(self.scale[columns])

    @cached_property
    def norms(self) -> dict[bool, NormBounds]:
        """Bounds of the norm found by runs, without and with an intercept."""
        return {}

    # These products run one at a time from the client, each sending columns to the workers and
    # back. Long computations run in sessions on the workers instead.

    def matmat(self, block: Array) -> Array:
        if self.scale is not None:
            block = block / along_rows(self.scale, block)
        return np.concatenate(self._ask(calls.multiply, block))

    def rmatmat(self, block: Array) -> Array:
        parts = self._products.ask(
            [Call(calls.multiply_transposed, (part,)) for part in np.split(block, self.starts[1:])]
        )
        product = reduce(np.add, parts)
        return product if self.scale is None else product / along_rows(self.scale, product)

    def row_squares(self, center: Array | None = None) -> Array:
        if center is not None and self.scale is not None:
            center = self.scale * center
        return np.concatenate(self._ask(calls.squares_of_rows, center, self.scale))

    def column_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations of the columns."""
        means, deviations = self._ask(calls.moments_of_columns)[0]
        if self.scale is not None:
            means, deviations = means / self.scale, deviations / self.scale
        return means, deviations

    @property
    def has_gram(self) -> bool:
        return not self._facts[0].sparse

    def gram(self, of_rows: bool = False, dtype: Any = None, center: Array | None = None) -> Array:
        if of_rows:
            raise NotImplementedError("products of rows on a cluster with each other")
        if center is not None and self.scale is not None:
            center = self.scale * center
        found = reduce(np.add, self._ask(calls.gram_of_rows, dtype, center))
        return found if self.scale is None else found / self.scale / self.scale[:, None]

    @cached_property
    def _products(self) -> Conversation:
        return Conversation(self.carrier())

    def _ask(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        return self._products.ask([Call(function, args)] * len(self.blocks))

    def run(
        self,
        y: Any,
        loss: Any,
        penalty: Any,
        algorithm: Any,
        n_iter: int,
        fit_intercept: bool,
        stop: Any,
        sample_weight: Any,
    ) -> DistributedPath:
        for name, value in (("stop", stop), ("sample_weight", sample_weight)):
            if value is not None:
                raise ValueError(f"{name} is not supported for a distributed design; omit it")
        if isinstance(algorithm, Recursion):
            raise ValueError(
                "Recursion is not supported for a distributed design: its maps need all rows"
            )
        problem = self._problem(y, loss, fit_intercept)
        return DistributedPath.run(self, problem, penalty, algorithm, n_iter)

    def tune(
        self,
        y: Any,
        loss: Any,
        penalty: Any,
        grid: tuple[Any, float | None],
        algorithm: Any,
        fit_intercept: bool,
        options: Any,
        rng: Any,
        rule: str,
        iterate: int | None,
        n_iter: int | None,
    ) -> DistributedTuning:
        problem = self._problem(y, loss, fit_intercept)
        how = algorithm, options, rng, rule, iterate, n_iter
        return DistributedTuning.run(self, problem, penalty, grid, *how)

    def _problem(self, y: Any, loss: Any, fit_intercept: bool) -> Problem:
        """Validate the problem."""
        check_instance("loss", loss, Loss, "sp.LAD()")
        check_flag("fit_intercept", fit_intercept)
        y = check_response(y.compute() if hasattr(type(y), "compute") else y, self)
        loss = loss.on(y)
        level = loss.start(y) if fit_intercept else 0.0
        check_size("y", largest(y - level), self.example.dtype, y.shape)
        return Problem(y, loss, fit_intercept, level, self.scale, self.norms.get(fit_intercept))


def from_dask_array(X: Any, client: Any = None, in_memory: bool = True) -> DistributedDesign:
    """Create a distributed design from a Dask array, with one block per chunk of rows.

    Parameters
    ----------
    X : dask.array.Array of shape (n, p)
        Dask array or data frame. Chunks along columns are merged. A few large chunks of rows are
        best, one per thread of the cluster; rechunk an array with many small chunks.
    client : distributed.Client, optional
        Client of the cluster; the current client by default.
    in_memory : bool, default=True
        Whether the workers keep blocks in memory. If False, each block is written to a file and
        read in pieces; it is in memory once before it is written. Sparse blocks always stay in
        memory.

    Returns
    -------
    DistributedDesign
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
    return _of_tasks(tasks, client, in_memory, placed=not futures_of(X))


@reads_designs
def read_dask(X: Any) -> DistributedDesign | None:
    """Return the design of a Dask array or data frame; None if X is something else."""
    known = type(X).__module__.startswith(("dask.array", "dask.dataframe", "dask_expr"))
    return from_dask_array(X) if known else None


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
    client : distributed.Client, optional
        Client of the cluster; the current client by default.
    in_memory : bool, default=True
        Whether the workers keep blocks in memory. If False, each block is written to a file and
        read in pieces; it is in memory once before it is written. Sparse blocks always stay in
        memory.

    Returns
    -------
    DistributedDesign
    """
    client = _client(client)
    check_flag("in_memory", in_memory)
    loaders = list(loaders)
    if not loaders:
        raise ValueError("loaders is empty; provide one loader per block of rows")
    if all(map(_is_task, loaders)):
        return _of_tasks(loaders, client, in_memory)
    for k, loader in enumerate(loaders):
        if not callable(loader):
            raise TypeError(
                "loaders must all be callables without arguments, or all be Dask delayed objects "
                f"or futures; loader {k} is {loader!r:.60}"
            )
    names = [f"block {k}" for k in range(len(loaders))]
    return design_of_loaders(loaders, names, client, in_memory)


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
    client : distributed.Client, optional
        Client of the cluster; the current client by default.
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
    known = client.gather(client.map(header_of, files, names, pure=False))
    wanted = _wanted(known, names, columns, response)
    if isinstance(in_memory, str) and in_memory == "auto":
        in_memory = fits(client, [each.rows * each.itemsize * len(wanted) for each in known])
    check_flag("in_memory", in_memory)
    read = read_columns if in_memory else read_pieces
    loaders = [partial(read, file, wanted) for file in files]
    design = design_of_loaders(loaders, names, client, bool(in_memory))
    if all(isinstance(each, str) for each in wanted):
        design.column_names = wanted
    if response is None:
        return design
    parts = client.map(read_response, files, names, column=response, pure=False)
    return design, np.concatenate(client.gather(parts))


def _wanted(
    known: Sequence[Header], names: Sequence[str], columns: ColumnNames | None, response: Any
) -> list[Any]:
    """Return the columns to read from every file; raise if a file lacks one."""
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list, such as [{columns!r}]")
    defaults = [[c for c in there.columns if c not in there.labels] for there in known]
    wanted = [c for c in defaults[0] if c != response] if columns is None else list(columns)
    if not wanted:
        raise ValueError("columns is empty; X must have at least one column")
    if response is not None and response in wanted:
        raise ValueError(f"column {response!r} is the response; it cannot be in columns as well")
    needed = wanted if response is None else [*wanted, response]
    for there, default, name in zip(known, defaults, names, strict=True):
        if columns is None and len(default) != len(defaults[0]):
            raise ValueError(
                f"{name} has {len(default)} columns, but {names[0]} has {len(defaults[0])}; select "
                "common columns with columns="
            )
        missing = [c for c in needed if c not in there.columns]
        if missing:
            raise ValueError(
                f"{name} has no column {missing[0]!r}; it has {there.columns[:8]!r:.100}"
            )
    return wanted


def design_of_loaders(
    loaders: Sequence[Callable[[], Any]], names: Sequence[str], client: Any, in_memory: bool
) -> DistributedDesign:
    """Create a design from blocks that are loaded on the workers; see `from_delayed`."""
    places = _places(client, len(loaders))
    load, *more = _keeping(client, places, in_memory, loaded, stored)
    blocks = [
        client.submit(
            load, loader, name, *more, pure=False, workers=[place], allow_other_workers=True
        )
        for loader, name, place in zip(loaders, names, places, strict=True)
    ]
    return DistributedDesign(client, blocks, names)


def _of_tasks(
    tasks: Sequence[Any], client: Any, in_memory: bool, placed: bool = True
) -> DistributedDesign:
    from dask.delayed import delayed
    from distributed import Future

    names = [f"block {k}" for k in range(len(tasks))]
    places = _places(client, len(tasks))
    check, *more = _keeping(client, places, in_memory, checked, stored_value)
    blocks = []
    for task, name, place in zip(tasks, names, places, strict=True):
        if isinstance(task, Future):
            blocks.append(client.submit(check, task, name, *more, pure=False))
        else:
            where = {"workers": [place], "allow_other_workers": True} if placed else {}
            blocks.append(client.compute(delayed(check, pure=False)(task, name, *more), **where))
    return DistributedDesign(client, blocks, names)


def _keeping(
    client: Any, places: Sequence[str], in_memory: bool, here: Any, in_file: Any
) -> list[Any]:
    """Return the function that creates blocks, in memory or in files, and its extra arguments."""
    if in_memory:
        return [here]
    limits, crowd = _memory(client), Counter(places)
    shares = (limits[each] * _SHARE_OF_PARTS / crowd[each] for each in crowd if limits[each])
    return [in_file, int(min([_LARGEST_PART, *shares]))]


def fits(client: Any, sizes: Sequence[int]) -> bool:
    """Return whether blocks of the given sizes in bytes fit in the memory of their workers."""
    limits, needed = _memory(client), Counter[str]()
    for place, size in zip(_places(client, len(sizes)), sizes, strict=True):
        needed[place] += size
    return all(
        not limits[each] or needed[each] <= _SHARE_OF_MEMORY * limits[each] for each in needed
    )


def _memory(client: Any) -> dict[str, int]:
    """Return the limit on the memory of each worker, in bytes; 0 if it has none."""
    return Counter(client.run(_memory_limit))


def _memory_limit(dask_worker: Any) -> int:
    return int(dask_worker.memory_manager.memory_limit or 0)


def _is_task(loader: Any) -> bool:
    from dask.base import is_dask_collection
    from distributed import Future

    return is_dask_collection(loader) or isinstance(loader, Future)


def _places(client: Any, count: int) -> list[str]:
    """Assign ``count`` blocks to workers: neighbours together, in proportion to threads."""
    threads = client.nthreads()
    if not threads:
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
