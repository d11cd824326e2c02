"""Runs that are too large to be kept: some at a time, and again when they are asked for.

The states of a path are ``2 (n_iter + 1) (n + p)`` numbers. Those of many penalties together may be
more than there is memory for, while each is needed only while its risk is estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import array_api_compat

from steinpath._support.arrays import Array, copied, namespace
from steinpath.engine._batch import Batch, States
from steinpath.engine._loop import Watch
from steinpath.engine._path import Path

#: Bytes for the states of runs that advance together, on a processor and on a device.
KEPT, KEPT_ON_DEVICE = 2**29, 2**34


def at_a_time(batch: Batch, blocks: int) -> int:
    """Return for how many runs there is room, if each has so many blocks of states; at least one.

    A block is a state of the recursion on either side: ``n + p`` numbers.
    """
    design = batch.data.design
    size = namespace(batch.data.y).finfo(design.example.dtype).bits // 8
    device = str(array_api_compat.device(batch.data.y))
    budget = KEPT_ON_DEVICE if device.startswith("cuda") else KEPT
    numbers = design.largest_share + design.shape[1]
    return int(max(1, budget // (blocks * numbers * size)))


def members_at_a_time(batch: Batch, n_iter: int) -> int:
    """Return of how many members all states may be kept together."""
    return at_a_time(batch, 2 * (n_iter + 1))


def run_all(batch: Batch, n_iter: int, watch: Watch | None = None) -> Batch:
    """Extend runs, or put that off if all of them could not be kept.

    Parameters
    ----------
    batch : Batch
        The runs.
    n_iter : int
        Number of iterations.
    watch : callable, optional
        Called after each iteration, if it is not put off.
    """
    if len(batch) <= members_at_a_time(batch, n_iter):
        return batch.extended(n_iter, watch)
    return DeferredBatch(batch.unmoved(), n_iter)


class DeferredBatch(Batch):
    """Runs of which no states are kept but those of the path that was asked for last.

    `part` runs some of them, whose states are kept; a path is run again when its states are
    asked for.

    Parameters
    ----------
    batch : Batch
        Runs that have not moved.
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
        """All states of all runs, as much memory as they take."""
        return self._unmoved.extended(self.n_iter).states

    def unmoved(self) -> Batch:
        return self._unmoved

    def part(self, members: Sequence[int]) -> Batch:
        return self._unmoved.part(members).extended(self.n_iter)

    def states_of(self, k: int) -> States:
        """Return the states of one run."""
        if self._latest is None or self._latest[0] != k:
            self._latest = None  # not to have both in memory
            self._latest = k, self.part([k]).states
        return self._latest[1]

    def _path(self, k: int) -> Path:
        return DeferredPath(self, k, self._unmoved[k])

    def keep(self, k: int, path: Path) -> Path:
        """Return one of the paths, which keeps a little of what a run of it has found."""
        mine = self[k]
        assert isinstance(mine, DeferredPath)
        return mine.keeping(path)


class DeferredPath(Path):
    """A path that is run again when its states are asked for."""

    def __init__(self, batch: DeferredBatch, k: int, start: Path):
        names = ("y", "loss", "penalty", "algorithm", "design", "maps", "level", "risk")
        self.__dict__ |= {name: getattr(start, name) for name in names}
        self.__dict__ |= {"_batch": batch, "_member": k, "_products": None, "_iterates": None}

    def keeping(self, path: Path) -> DeferredPath:
        """Keep the fitted values of a run, or the coefficients, whichever are fewer numbers."""
        n, p = path.design.shape
        name, values = ("_products", path.products) if n <= p else ("_iterates", path.iterates)
        self.__dict__[name] = copied(values)
        return self

    def forget_states(self) -> None:
        """Forget the states of the path that was asked for last, of all in its batch."""
        self._batch._latest = None

    def __deepcopy__(self, memo: Any) -> DeferredPath:
        return self  # there is nothing of its own that could change

    @property
    def n_iter(self) -> int:
        return self._batch.n_iter

    @property
    def iterates(self) -> Array:
        """``b^t`` of the recursion, for each iterate."""
        return self._states.b[0, ...] if self._iterates is None else self._iterates

    @property
    def products(self) -> Array:
        """``X b^t`` of the recursion, for each iterate."""
        return self.products_at(slice(None))

    @property
    def duals(self) -> Array:
        """Dual iterates, the first being ``u^0``."""
        return self._states.u[0, ...]

    @property
    def etas(self) -> Array:
        """``Xᵀ u^t / √n``, for each iterate."""
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

    # what `__init__` keeps, for readers of types
    _batch: DeferredBatch
    _member: int
    _products: Array | None
    _iterates: Array | None
