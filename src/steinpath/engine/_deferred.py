"""Batches too large for memory: computed in parts, and recomputed on demand.

The states of a path are ``2 (n_iter + 1) (n + p)`` numbers. Those of many penalties may exceed the
memory, while each is needed only while its risk is estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import array_api_compat

from steinpath._support.arrays import Array, copied, namespace
from steinpath.engine._batch import Batch, States
from steinpath.engine._loop import Watch
from steinpath.engine._path import Path

#: Bytes for the states of runs that advance together, on a CPU and on a device.
KEPT, KEPT_ON_DEVICE = 2**29, 2**34


def at_a_time(batch: Batch, blocks: int) -> int:
    """Return how many runs with the given number of blocks fit into memory; at least one.

    A block is one primal and one dual state: ``n + p`` numbers.
    """
    design = batch.data.design
    size = namespace(batch.data.y).finfo(design.example.dtype).bits // 8
    device = str(array_api_compat.device(batch.data.y))
    budget = KEPT_ON_DEVICE if device.startswith("cuda") else KEPT
    numbers = design.largest_share + design.shape[1]
    return int(max(1, budget // (blocks * numbers * size)))


def members_at_a_time(batch: Batch, n_iter: int) -> int:
    """Return the number of members whose states can be kept at the same time."""
    return at_a_time(batch, 2 * (n_iter + 1))


def run_all(batch: Batch, n_iter: int, watch: Watch | None = None) -> Batch:
    """Extend runs, or defer that if their states do not fit into memory.

    Parameters
    ----------
    batch : Batch
        Runs.
    n_iter : int
        Number of iterations.
    watch : callable, optional
        Called after each iteration, unless the runs are deferred.
    """
    if len(batch) <= members_at_a_time(batch, n_iter):
        return batch.extended(n_iter, watch)
    return DeferredBatch(batch.unmoved(), n_iter)


class DeferredBatch(Batch):
    """Runs that keep only the states of the path that was last used.

    `part` computes some of them and keeps their states; a path is recomputed when its states are
    needed.

    Parameters
    ----------
    batch : Batch
        Runs at iteration 0.
    n_iter : int
        Number of iterations.
    """

    def __init__(self, batch: Batch, n_iter: int):
        self.data, self.penalty, self.algorithm = batch.data, batch.penalty, batch.algorithm
        self.maps, self._unmoved, self._n_iter = batch.maps, batch, n_iter
        self._paths = {}
        self._latest: tuple[int, States] | None = None

    @property
    def n_iter(self) -> int:
        return self._n_iter

    def __len__(self) -> int:
        return len(self._unmoved)

    @property
    def states(self) -> States:  # type: ignore[override]
        """All states of all runs, regardless of the memory they take."""
        return self._unmoved.extended(self.n_iter).states

    def unmoved(self) -> Batch:
        return self._unmoved

    def part(self, members: Sequence[int]) -> Batch:
        return self._unmoved.part(members).extended(self.n_iter)

    def states_of(self, k: int) -> States:
        """Return the states of one run."""
        if self._latest is None or self._latest[0] != k:
            self._latest = None  # free the old states first
            self._latest = k, self.part([k]).states
        return self._latest[1]

    def _path(self, k: int) -> Path:
        return DeferredPath(self, k, self._unmoved[k])

    def keep(self, k: int, path: Path) -> Path:
        """Return a path that keeps a compact part of the results of a run."""
        mine = self[k]
        assert isinstance(mine, DeferredPath)
        return mine.keeping(path)


class DeferredPath(Path):
    """Path that is recomputed when its states are needed."""

    def __init__(self, batch: DeferredBatch, k: int, start: Path):
        names = ("y", "loss", "penalty", "algorithm", "design", "maps", "level", "risk")
        self.__dict__ |= {name: getattr(start, name) for name in names}
        self.__dict__ |= {"_batch": batch, "_member": k, "_products": None, "_iterates": None}

    def keeping(self, path: Path) -> DeferredPath:
        """Keep the fitted values or the coefficients of a run, whichever are fewer numbers."""
        n, p = path.design.shape
        name, values = ("_products", path.products) if n <= p else ("_iterates", path.iterates)
        self.__dict__[name] = copied(values)
        return self

    def forget_states(self) -> None:
        """Free the states of the path of this batch that was last used."""
        self._batch._latest = None

    def __deepcopy__(self, memo: Any) -> DeferredPath:
        return self  # it has no mutable state of its own

    @property
    def n_iter(self) -> int:
        return self._batch.n_iter

    @property
    def iterates(self) -> Array:
        """``b^t`` of the recursion, for each iteration."""
        return self._states.b[0, ...] if self._iterates is None else self._iterates

    @property
    def products(self) -> Array:
        """``X b^t`` of the recursion, for each iteration."""
        return self.products_at(slice(None))

    @property
    def duals(self) -> Array:
        """Dual iterates, starting with ``u^0``."""
        return self._states.u[0, ...]

    @property
    def etas(self) -> Array:
        """``Xᵀ u^t / √n``, for each iteration."""
        return self._states.eta[0, ...]

    def products_at(self, t: slice) -> Array:
        if self._products is not None:
            return self._products[t, :]
        if self._iterates is not None:
            return self.design.forward(self._iterates[t, :].T).T
        return self._states.product[0, t, :]

    @property
    def _states(self) -> States:
        return self._batch.states_of(self._member)

    # attributes set by `__init__`, for type checkers
    _batch: DeferredBatch
    _member: int
    _products: Array | None
    _iterates: Array | None
