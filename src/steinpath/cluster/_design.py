"""Designs whose rows are blocks on the workers of a Dask cluster."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np

from steinpath._support.arrays import Array, along_rows, copied, largest
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
from steinpath.design._norm import NormBounds
from steinpath.design._reading import check_response, reads_designs
from steinpath.design._remote import RemoteDesign
from steinpath.problem._losses import Loss

# Share of a worker's memory that blocks may take: beside them, there are copies of active parts in
# single precision, and at 60% Dask begins to write what it has to files, as a whole.
_SHARE_OF_MEMORY = 0.4
# Bytes of parts that are copied from the files of blocks, and the share of memory of all of them.
_LARGEST_PART, _SHARE_OF_PARTS = 2**28, 0.2


class DistributedDesign(RemoteDesign):
    """Rows in blocks on the workers of a Dask cluster, where they stay.

    Made by `from_dask_array`, `from_files` or `from_delayed`. The order of the rows is that of
    the blocks.

    Attributes
    ----------
    shape : tuple of int
        ``(n, p)``, of all blocks together.
    client : distributed.Client
        The cluster.
    blocks : list of distributed.Future
        The blocks; what keeps them in the memory of the workers.
    names : list of str
        What they are called in messages.
    starts : list of int
        How many rows come before each.
    scale : ndarray of shape (p,) or None
        What columns are divided by, in each product.
    column_names : list of str or None
        What the columns are called, if they have names.
    """

    scale: np.ndarray | None = None
    column_names: list[str] | None = None
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
        """Return a way to sessions of a new run."""
        args = self.blocks, self._facts, self.names, self.places_of_blocks
        return DaskCarrier(self.client, *args, str(self.example.dtype))

    @property
    def places_of_blocks(self) -> list[Place]:
        """Which of all rows each block has."""
        sizes = np.diff([*self.starts, self.n_rows])
        return [
            Place(k, start, self.n_rows, int(sizes.max())) for k, start in enumerate(self.starts)
        ]

    def scaled(self, scale: np.ndarray) -> DistributedDesign:
        """Return the same rows with columns divided by numbers, in each product.

        Parameters
        ----------
        scale : ndarray of shape (p,)
            What they are divided by; positive.
        """
        scaled = copy(self)
        scaled.__dict__.pop("norms", None)  # of other columns
        scaled.scale, scaled._norm = np.asarray(scale, self.example.dtype), None
        return scaled

    @cached_property
    def norms(self) -> dict[bool, NormBounds]:
        """Bounds of the norm that runs have found: without and with an intercept."""
        return {}

    # What is worth no place of its own at the blocks is done by products from here. Each sends a
    # block of columns there and back: what runs for long goes where the rows are.

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
        """Means and standard deviations of the columns."""
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
                raise ValueError(f"{name} is not available for rows on a cluster; leave it out")
        if isinstance(algorithm, Recursion):
            raise ValueError(
                "Recursion is not available for rows on a cluster: its maps expect all rows at once"
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
        """Check what is to be fitted."""
        check_instance("loss", loss, Loss, "sp.LAD()")
        check_flag("fit_intercept", fit_intercept)
        y = check_response(y.compute() if hasattr(type(y), "compute") else y, self)
        loss = loss.on(copied(y))
        level = loss.start(copied(y)) if fit_intercept else 0.0
        check_size("y", largest(y - level), self.example.dtype, y.shape)
        return Problem(y, loss, fit_intercept, level, self.scale, self.norms.get(fit_intercept))


def from_dask_array(X: Any, client: Any = None, in_memory: bool = True) -> DistributedDesign:
    """Return the design of a Dask array: its chunks of rows are the blocks.

    Parameters
    ----------
    X : dask.array.Array of shape (n, p)
        Chunks of columns are put together. A few large chunks of rows are best, one for each
        thread of the cluster; rechunk it if it has many small ones. A Dask data frame will do.
    client : distributed.Client, optional
        The cluster; the current client's by default.
    in_memory : bool, default=True
        Whether the workers keep blocks in memory, or each in a file that is read in pieces. Each
        is in memory once, before it is written. Sparse blocks stay in memory.

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
        raise ValueError(f"X must have 2 dimensions, got shape {X.shape}")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    tasks = list(X.to_delayed().ravel())
    return _of_tasks(tasks, client, in_memory, placed=not futures_of(X))


@reads_designs
def read_dask(X: Any) -> DistributedDesign | None:
    """Return the design of a Dask array or data frame; None if X is neither."""
    known = type(X).__module__.startswith(("dask.array", "dask.dataframe", "dask_expr"))
    return from_dask_array(X) if known else None


def from_delayed(
    loaders: Sequence[Any], client: Any = None, in_memory: bool = True
) -> DistributedDesign:
    """Return the design of blocks that are loaded where they stay.

    Parameters
    ----------
    loaders : sequence of callable, dask.delayed.Delayed or distributed.Future
        Each gives one block of rows, dense or sparse. A callable takes no arguments. They are used
        again if a worker is lost, and have to give the same rows again. With
        ``in_memory=False``, a callable may also return an iterator of arrays, some of the rows
        after the other.
    client : distributed.Client, optional
        The cluster; the current client's by default.
    in_memory : bool, default=True
        Whether the workers keep blocks in memory, or each in a file that is read in pieces. Each
        is in memory once, before it is written. Sparse blocks stay in memory.

    Returns
    -------
    DistributedDesign
    """
    client = _client(client)
    check_flag("in_memory", in_memory)
    loaders = list(loaders)
    if not loaders:
        raise ValueError("there are no loaders; one is needed for each block of rows")
    if all(map(_is_task, loaders)):
        return _of_tasks(loaders, client, in_memory)
    for k, loader in enumerate(loaders):
        if not callable(loader):
            raise TypeError(
                "loaders must be callables without arguments, or all of them Dask's delayed "
                f"objects or futures; loader {k} is {loader!r:.60}"
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
    """Return the design of files, each of them a block of rows.

    Parameters
    ----------
    paths : sequence of path-like
        Files that all workers can read: ``.npy``, ``.npz`` of `scipy.sparse.save_npz`, or
        ``.parquet``.
    columns : sequence of str or int, optional
        Columns of X, by name for Parquet and by number otherwise; all of the file's by default,
        in its order, but for the response and the index of a pandas data frame.
    response : str or int, optional
        A column that is y.
    client : distributed.Client, optional
        The cluster; the current client's by default.
    in_memory : bool or "auto", default="auto"
        Whether the workers keep blocks in memory. Otherwise ``.npy`` files are read in pieces in
        each product, and so are copies of Parquet files as plain numbers, in the scratch folders
        of the workers (``local_directory`` of Dask); these are removed with the design. "auto":
        in memory, if blocks take at most 40% of that of each worker. Sparse blocks stay in memory.

    Returns
    -------
    design : DistributedDesign
    y : ndarray of shape (n,)
        Only if ``response`` is given.
    """
    client = _client(client)
    if isinstance(paths, str | os.PathLike):
        raise TypeError("paths must be a list of files, as sorted(glob('folder/*.parquet'))")
    files = [os.fspath(path) for path in paths]
    if not files:
        raise ValueError("there are no files; one is needed for each block of rows")
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
    """Return the columns to read from every file; refuse those that a file does not have."""
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list, as [{columns!r}]")
    defaults = [[c for c in there.columns if c not in there.labels] for there in known]
    wanted = [c for c in defaults[0] if c != response] if columns is None else list(columns)
    if not wanted:
        raise ValueError("columns is empty: X needs one column at least")
    if response is not None and response in wanted:
        raise ValueError(f"column {response!r} is the response, and cannot be a column of X too")
    needed = wanted if response is None else [*wanted, response]
    for there, default, name in zip(known, defaults, names, strict=True):
        if columns is None and len(default) != len(defaults[0]):
            raise ValueError(
                f"{name} has {len(default)} columns, but {names[0]} has {len(defaults[0])}; choose "
                "some by columns="
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
    """Return the design of blocks that are loaded on the workers; see `from_delayed`."""
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
    """Return what makes blocks, in memory or in files, and its arguments after their names."""
    if in_memory:
        return [here]
    limits, crowd = _memory(client), Counter(places)
    shares = (limits[each] * _SHARE_OF_PARTS / crowd[each] for each in crowd if limits[each])
    return [in_file, int(min([_LARGEST_PART, *shares]))]


def fits(client: Any, sizes: Sequence[int]) -> bool:
    """Whether blocks of so many bytes have room in the memory of the workers they are to be on."""
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
    """Workers of so many blocks: neighbours together, and to each as many as it has threads."""
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
        raise ImportError("clusters need Dask: pip install 'steinpath[cluster]'") from None
    if client is None:
        try:
            client = get_client()
        except ValueError:
            raise ValueError(
                "there is no Dask client; make one first, as client = distributed.Client()"
            ) from None
    if client.asynchronous:
        raise ValueError("an asynchronous Dask client cannot be used here; make a plain one")
    return client
