"""Designs whose rows are blocks on the workers of a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from steinpath._support.arrays import Array
from steinpath._support.validation import check_flag, check_instance
from steinpath.algorithms._recursion import Recursion
from steinpath.cluster._blocks import (
    ColumnNames,
    Header,
    checked,
    common,
    facts_of,
    header_of,
    loaded,
    read_columns,
    read_response,
)
from steinpath.cluster._carrier import DaskCarrier
from steinpath.cluster._conversation import Carrier
from steinpath.cluster._path import DistributedPath
from steinpath.design._reading import check_response, reads_designs
from steinpath.design._remote import RemoteDesign
from steinpath.problem._losses import Loss


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
    """

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
        args = self.blocks, self._facts, self.names, self.starts, self.n_rows
        return DaskCarrier(self.client, *args, str(self.example.dtype))

    @cached_property
    def norms(self) -> dict[bool, tuple[float, float]]:
        """Norms that runs have found, with their tolerances: without and with an intercept."""
        return {}

    def split(self, values: Array) -> list[Array]:
        """Return the parts of an array of one entry per row, block by block."""
        return np.split(values, self.starts[1:])

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
        check_instance("loss", loss, Loss, "sp.LAD()")
        check_flag("fit_intercept", fit_intercept)
        for name, value in (("stop", stop), ("sample_weight", sample_weight)):
            if value is not None:
                raise ValueError(f"{name} is not available for rows on a cluster; leave it out")
        if isinstance(algorithm, Recursion):
            raise ValueError(
                "Recursion is not available for rows on a cluster: its maps expect all rows at once"
            )
        y = check_response(y.compute() if hasattr(type(y), "compute") else y, self)
        return DistributedPath.run(self, y, loss, penalty, algorithm, n_iter, fit_intercept)


def from_dask_array(X: Any, client: Any = None) -> DistributedDesign:
    """Return the design of a Dask array: its chunks of rows are the blocks.

    Parameters
    ----------
    X : dask.array.Array of shape (n, p)
        Chunks of columns are put together. A few large chunks of rows are best, one for each
        thread of the cluster; rechunk it if it has many small ones. A Dask data frame will do.
    client : distributed.Client, optional
        The cluster; the current client's by default.

    Returns
    -------
    DistributedDesign
    """
    client = _client(client)
    from distributed import futures_of

    if hasattr(X, "to_dask_array"):
        X = X.to_dask_array()
    if X.ndim != 2:
        raise ValueError(f"X must have 2 dimensions, got shape {X.shape}")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    return _of_tasks(list(X.to_delayed().ravel()), client, placed=not futures_of(X))


@reads_designs
def read_dask(X: Any) -> DistributedDesign | None:
    """Return the design of a Dask array or data frame; None if X is neither."""
    known = type(X).__module__.startswith(("dask.array", "dask.dataframe", "dask_expr"))
    return from_dask_array(X) if known else None


def from_delayed(loaders: Sequence[Any], client: Any = None) -> DistributedDesign:
    """Return the design of blocks that are loaded where they stay.

    Parameters
    ----------
    loaders : sequence of callable, dask.delayed.Delayed or distributed.Future
        Each gives one block of rows, dense or sparse. A callable takes no arguments. They are used
        again if a worker is lost, and have to give the same rows again.
    client : distributed.Client, optional
        The cluster; the current client's by default.

    Returns
    -------
    DistributedDesign
    """
    client = _client(client)
    loaders = list(loaders)
    if not loaders:
        raise ValueError("there are no loaders; one is needed for each block of rows")
    if all(map(_is_task, loaders)):
        return _of_tasks(loaders, client)
    for k, loader in enumerate(loaders):
        if not callable(loader):
            raise TypeError(
                "loaders must be callables without arguments, or all of them Dask's delayed "
                f"objects or futures; loader {k} is {loader!r:.60}"
            )
    return _of_loaders(loaders, [f"block {k}" for k in range(len(loaders))], client)


def from_files(
    paths: Sequence[Any],
    columns: ColumnNames | None = None,
    response: Any = None,
    client: Any = None,
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
    loaders = [partial(read_columns, file, wanted) for file in files]
    design = _of_loaders(loaders, names, client)
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


def _of_loaders(
    loaders: Sequence[Callable[[], Any]], names: Sequence[str], client: Any
) -> DistributedDesign:
    places = _places(client, len(loaders))
    blocks = [
        client.submit(loaded, loader, name, pure=False, workers=[place], allow_other_workers=True)
        for loader, name, place in zip(loaders, names, places, strict=True)
    ]
    return DistributedDesign(client, blocks, names)


def _of_tasks(tasks: Sequence[Any], client: Any, placed: bool = True) -> DistributedDesign:
    from dask.delayed import delayed
    from distributed import Future

    names = [f"block {k}" for k in range(len(tasks))]
    blocks = []
    for task, name, place in zip(tasks, names, _places(client, len(tasks)), strict=True):
        if isinstance(task, Future):
            blocks.append(client.submit(checked, task, name, pure=False))
        else:
            where = {"workers": [place], "allow_other_workers": True} if placed else {}
            blocks.append(client.compute(delayed(checked, pure=False)(task, name), **where))
    return DistributedDesign(client, blocks, names)


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
