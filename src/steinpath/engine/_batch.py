"""Batches: runs that advance together as members of the same blocks.

Members may differ in X, in y, in their penalties and in their step sizes. A single run is a batch
of one. Every step processes all members at once: runs with different penalties read X once for all
of them, and many small problems fill a device.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import fields, replace
from typing import Any, NamedTuple, overload

import numpy as np

from steinpath._support import timings
from steinpath._support.arrays import Array, copied, namespace, on_cuda, take
from steinpath._support.threads import in_threads, threads_allowed
from steinpath._support.validation import is_own
from steinpath.algorithms._base import Algorithm, Maps, Progress, ProximalAlgorithm
from steinpath.design._base import Design
from steinpath.engine._data import RunData
from steinpath.engine._graphs import recording_of
from steinpath.engine._loop import (
    SELDOM,
    Histories,
    Iteration,
    Newest,
    Watch,
    beginning,
    check_finite_states,
    iterate,
)
from steinpath.engine._path import STATES, Path
from steinpath.problem._penalties import Penalty

# Seconds of a step from which on parts of the members run in threads, which otherwise wait for each
# other.
_WIDE = 5e-3


#: Called after each iteration with its number, its states and the histories; True ends the run.
Check = Callable[[int, Newest, Histories], bool]


class States(NamedTuple):
    """States of several runs: ``b^t``, ``X b^t``, ``u^t``, ``eta^t`` of (members, T, size)."""

    b: Array
    product: Array
    u: Array
    eta: Array

    def until(self, n_iter: int) -> States:
        """Return the states up to an iteration."""
        return States(*(array[:, : n_iter + 1, :] for array in self))

    def some(self, members: np.ndarray) -> States:
        """Return the states of some members."""
        return States(*(_some(array, members) for array in self))


class _Storage:
    """Known states in arrays with room for more, which in NumPy takes no memory until used."""

    def __init__(self, states: States, design: Design, room: int):
        members, self.known, _ = states.b.shape
        self.states = States(*(design.zeros(members, room + 1, x.shape[2]) for x in states))
        for array, known in zip(self.states, states, strict=True):
            array[:, : self.known, :] = known


class NotAlike(ValueError):
    """Problems that cannot be members of one batch."""


class Batch(Sequence[Path]):
    """Paths that advanced together, returned by `run_batch`.

    A sequence of `Path` objects, with the arrays of all members as attributes:

    Attributes
    ----------
    coef : Array of shape (members, n_iter + 1, p)
        Coefficients.
    dual : Array of shape (members, n_iter, n)
        Dual iterates.
    fitted : Array of shape (members, n_iter + 1, n)
        Fitted values.
    intercept : Array of shape (members, n_iter + 1)
        Intercepts.
    """

    def __init__(
        self,
        data: RunData,
        penalty: Penalty,
        algorithm: Algorithm,
        maps: Maps,
        states: States,
        past: Histories | None = None,
        storage: _Storage | None = None,
    ):
        #: Data and states of all members together.
        self.data, self.penalty, self.algorithm, self.maps = data, penalty, algorithm, maps
        self.states = states
        self._past = past  # from which it continues
        self._storage = storage  # of which the states are a part
        self._paths: dict[int, Path] = {}
        self._progress: Progress | None = None  # of an algorithm that adapts

    @classmethod
    def start(
        cls, data: RunData, penalty: Penalty, algorithm: Algorithm, members: int = 1
    ) -> Batch:
        """Return runs at iteration 0, with steps that are small enough for all their penalties."""
        algorithm, maps = data.bind(algorithm, penalty)
        return cls._at_zero(data, penalty, algorithm, maps, members)

    @classmethod
    def _at_zero(
        cls, data: RunData, penalty: Penalty, algorithm: Algorithm, maps: Maps, members: int
    ) -> Batch:
        n, p = data.design.shape
        zeros = States(*(data.design.zeros(members, 1, size) for size in (p, n, n, p)))
        return Batch(data, penalty, algorithm, maps, zeros, beginning(data, members))

    @classmethod
    def joined(cls, batches: Sequence[Batch]) -> Batch:
        """Return runs at iteration 0 of several problems with the same X."""
        first, sizes = batches[0], [len(batch) for batch in batches]
        kinds = {(type(batch.algorithm), batch.data.fit_intercept) for batch in batches}
        losses = [batch.data.loss for batch in batches for _ in range(len(batch))]
        loss = losses[0].joined(losses[1:])
        if len(kinds) > 1 or loss is None or not isinstance(first.algorithm, ProximalAlgorithm):
            raise NotAlike(
                f"{losses[0]!r} and {losses[-1]!r} cannot be run together; tune them separately"
            )
        penalties = [own.penalty.member(k) for own in batches for k in range(len(own))]
        design, steps = first.data.design, dict[str, Any]()
        for name in first.algorithm.steps:
            sizes_of = [getattr(batch.algorithm, name) for batch in batches]
            steps[name] = design.array(np.repeat(np.array(sizes_of, float), sizes))[:, None]
        algorithm: Any = replace(first.algorithm, **steps)  # type: ignore[type-var]
        y = namespace(first.data.y).concat([batch.data.y for batch in batches], axis=1)
        level = np.concatenate([batch.data.level for batch in batches])
        problem = np.repeat(np.arange(len(batches)), sizes)
        data = RunData(y, loss, design, level, problem=problem)
        penalty = penalties[0].beside(penalties[1:])
        maps = algorithm.maps(loss, data.own(penalty), data.rows)
        return cls._at_zero(data, penalty, algorithm, maps, sum(sizes))

    @classmethod
    def of(cls, path: Path) -> Batch:
        """Return a path as a batch of one."""
        states = States(*(getattr(path, name)[None, ...] for name in STATES))
        batch = cls(path.data, path.penalty, path.algorithm, path.maps, states)
        batch._paths[0] = path
        return batch

    def extended(self, n_iter: int, watch: Watch | None = None, room: int = 0) -> Batch:
        """Extend all runs to ``n_iter`` iterations in total, with ``room`` for later ones."""
        if not self.algorithm.adapts:

            def seen(t: int, newest: Newest, past: Histories) -> bool:
                return watch is not None and watch(t, newest.b[:, :, 0])

            return self._extended(n_iter, None if watch is None else seen, room)
        if len(self) > 1:
            raise ValueError("restart='auto' is for a single path; use a number for several")
        batch, goes_on = self, True
        while goes_on and batch.n_iter < n_iter:
            batch, goes_on = batch._until_restart(n_iter, watch, room)
        return batch

    def _until_restart(self, n_iter: int, watch: Watch | None, room: int) -> tuple[Batch, bool]:
        """Extend a run until its algorithm changes; return whether it does."""
        old, progress, rows = self.algorithm, self._progress, self.data.rows
        assert isinstance(old, ProximalAlgorithm)
        new, largest = old, 0.5 * self.penalty.max_step * math.sqrt(self.n_samples)

        def check(t: int, newest: Newest, past: Histories) -> bool:
            nonlocal new, progress
            if watch is not None and watch(t, newest.b[:, :, 0]):
                return True
            new, progress = old.adapted(t, past.u, past.b, rows, largest, progress)
            return new is not old

        batch = self._extended(n_iter, check, room)
        if new is not old:
            batch.algorithm, batch.maps = self.data.bind(new, self.penalty)
        batch._progress = progress
        return batch, new is not old

    def _extended(self, n_iter: int, check: Check | None, room: int) -> Batch:
        storage = self._storage
        # the run may continue in place if no other run has
        latest = storage is not None and storage.known == self.n_iter + 1
        if storage is None or not latest or n_iter >= storage.states.b.shape[1]:
            # unlike NumPy's, other arrays take their memory at once
            most = max(n_iter, room) if self.on_processor else n_iter
            storage = _Storage(self.states, self.data.design, most)
        states, reached = storage.states.until(n_iter), n_iter
        count = self.threads() if check is None else 1
        if count > 1:
            members = np.array_split(np.arange(len(self)), count)
            jobs = [(self.part(list(some)), states.some(some)) for some in members]
            over = threading.Event()

            def advance(job: tuple[Batch, States]) -> Histories:
                shard, part = job
                return shard._advance(n_iter, part, lambda *seen: over.is_set())[0]

            past = Histories.joined(in_threads(advance, jobs, len(jobs), over.set))
        else:
            past, reached = self._advance(n_iter, states, check)
        storage.known, states = reached + 1, storage.states.until(reached)
        return Batch(self.data, self.penalty, self.algorithm, self.maps, states, past, storage)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_storage": None}  # copies have no spare room

    def _advance(
        self, n_iter: int, states: States, check: Check | None = None
    ) -> tuple[Histories, int]:
        """Compute the missing states; return the final histories and the last iteration."""
        assert self._past is not None
        past, first, iteration = self._past.copy(), self.n_iter + 1, Iteration(self.maps, self.data)
        recording = None
        if not self.algorithm.adapts:  # its states are read at every iteration
            recording = recording_of(self.maps, self.data.target, n_iter - self.n_iter)
        times = range(first, n_iter + 1)
        every = SELDOM if self.maps.structured else 1  # user-defined maps may return any numbers
        reached = checked = first - 1
        with (
            np.errstate(over="ignore", invalid="ignore"),  # iterates are checked instead
            closing(iterate(iteration, past, times, self.maps.memory, recording)) as steps,
        ):
            for reached, newest in enumerate(steps, first):
                blocks = (newest.b, newest.reading[0], newest.u, newest.eta)
                for array, block in zip(states, blocks, strict=True):
                    array[:, reached, :] = block[:, :, 0].T
                enough = check is not None and check(reached, newest, past)
                if enough or reached - checked == every or reached == n_iter:
                    known = states.until(reached)[:2]  # b and the products
                    check_finite_states(known, checked + 1, self.algorithm, self.data)
                    checked = reached
                if enough:
                    break
        return past, reached

    def threads(self, columns: int = 1) -> int:
        """Return the number of threads in which parts of the members run, with ``columns`` each."""
        design = self.data.design
        n, p = design.shape
        column = timings.COLUMN_ENTRY * n * p + timings.COLUMN_STATE * (n + p)
        seconds = len(self) * columns * column
        wide = seconds >= _WIDE
        own = all(map(is_own, (self.data.loss, self.penalty, self.algorithm)))
        # user-defined classes may not be thread-safe, and remote blocks of rows could not tell
        # which thread requests a sum
        several = wide and own and self.on_processor and design.is_whole and not design.out_of_core
        # two for the narrowest of these steps
        return min(threads_allowed(), len(self), int(2 * seconds / _WIDE)) if several else 1

    def unmoved(self) -> Batch:
        """Return the same runs at iteration 0."""
        return self._at_zero(self.data, self.penalty, self.algorithm, self.maps, len(self))

    def until(self, n_iter: int) -> Batch:
        """Return the first iterations of the runs, as runs that cannot be extended."""
        return Batch(self.data, self.penalty, self.algorithm, self.maps, self.states.until(n_iter))

    def with_data(self, data: RunData) -> Batch:
        """Return the same runs, to be continued with other arrays of the same data."""
        _, maps = data.bind(self.algorithm, self.penalty)
        return Batch(data, self.penalty, self.algorithm, maps, self.states, self._past)

    @property
    def n_iter(self) -> int:
        """Number of iterations."""
        return int(self.states.b.shape[1]) - 1

    @property
    def on_processor(self) -> bool:
        """Whether its arrays are NumPy arrays and not on a device."""
        return isinstance(self.data.y, np.ndarray)

    @property
    def n_samples(self) -> int:
        """Number of observations."""
        return self.data.design.n_rows

    @property
    def n_features(self) -> int:
        """Number of columns of X, without the intercept."""
        return self.data.design.shape[1] - self.data.fit_intercept

    def residual(self, times: slice) -> Array:
        """Return ``v^t`` of some iterations as a block (n, members, times)."""
        products = _as_block(self.states.product[:, times, :])
        return (self.data.target - products) / self.data.rows.root

    def block(self, name: str, times: slice) -> Array:
        """Return states by name as a block (size, members, times)."""
        return _as_block(getattr(self.states, name)[:, times, :])

    def duals_and_means(self) -> tuple[Array, Array]:
        """Return duals (members, N, n) and what corrections subtract from them, (members, N, 1).

        That is their mean with an intercept, since centred columns are orthogonal to it; with
        sample weights, the duals are those of all copies of a row, which are centred already.
        """
        duals = self.states.u[:, 1:, :]
        means = 0 * duals[:, :, :1]
        if self.data.sample_weight is None and self.data.fit_intercept:
            sums = namespace(duals).sum(duals, axis=2, keepdims=True)
            means = self.data.design.over_rows(sums) / self.n_samples
        return self.data.of_copies(duals), means

    def part(self, members: Sequence[int]) -> Batch:
        """Return a batch of some members."""
        if list(members) == list(range(len(self))):
            return self
        selected, data, algorithm = np.asarray(members), self.data, self.algorithm
        assert isinstance(algorithm, ProximalAlgorithm)  # others have a single member
        alone = len(members) == 1
        algorithm = algorithm.member(members[0]) if alone else algorithm.some(selected)
        design = data.design
        if design.members > 1:
            design = design.member(members[0]) if alone else design.some(selected)
        first, *others = (self.penalty.member(k) for k in members)
        penalty = first.beside(others)
        data = replace(data.some(selected), design=design)
        maps = algorithm.maps(data.loss, data.own(penalty), data.rows)
        past = None if self._past is None else self._past.some(selected)
        return Batch(data, penalty, algorithm, maps, self.states.some(selected), past)

    def _path(self, k: int) -> Path:
        one = self.part([k])
        return Path(
            one.data.y[:, 0],
            one.data.loss,
            one.penalty,
            one.algorithm,
            one.data.design,
            one.maps,
            float(one.data.level[0]),
            *(array[0, ...] for array in one.states),
        )

    @overload
    def __getitem__(self, index: int) -> Path: ...
    @overload
    def __getitem__(self, index: slice) -> list[Path]: ...
    def __getitem__(self, index: int | slice) -> Path | list[Path]:
        if isinstance(index, slice):
            return [self[k] for k in range(len(self))[index]]
        k = range(len(self))[index]  # also negative indices; beyond the end, an IndexError
        if k not in self._paths:
            self._paths[k] = self._path(k)
        return self._paths[k]

    def __len__(self) -> int:
        return int(self.states.b.shape[0])

    def __repr__(self) -> str:
        return f"<Batch of {len(self)} paths like {self[0]!r}>"

    @property
    def coef(self) -> Array:
        """Coefficients of all iterates of all members."""
        return self.states.b[:, :, : self.n_features]

    @property
    def dual(self) -> Array:
        """Dual iterates of all members, starting with ``u^1``."""
        return self.states.u[:, 1:, :]

    @property
    def fitted(self) -> Array:
        """Fitted values of all iterates of all members."""
        return namespace(self.data.y).stack([path.fitted for path in self])

    @property
    def intercept(self) -> Array:
        """Intercepts of all iterates of all members."""
        return namespace(self.data.y).stack([path.intercept for path in self])


def _some(array: Array, members: np.ndarray, axis: int = 0) -> Array:
    """Return the entries of some members, as a view if they are evenly spaced."""
    first, last = int(members[0]), int(members[-1]) + 1
    step = int(members[1]) - first if len(members) > 1 else 1
    if step > 0 and np.array_equal(members, np.arange(first, last, step)):
        return array[first:last:step, ...] if axis == 0 else array[:, first:last:step, ...]
    return take(array, members, axis=axis)


def _as_block(states: Array) -> Array:
    """Return states of shape (members, times, size) as a block (size, members, times)."""
    return namespace(states).permute_dims(states, (2, 0, 1))


# ------------------------------------------------------------------------------------------------
# Batches too large for memory
# ------------------------------------------------------------------------------------------------
#
# The ``2 (n_iter + 1) (n + p)`` numbers of each of many paths may exceed the memory, while each is
# needed only while its risk is estimated.

#: Bytes for the states of runs that advance together, on a CPU and on a device.
KEPT, KEPT_ON_DEVICE = 2**29, 2**34


def at_a_time(batch: Batch, blocks: int) -> int:
    """Return how many runs of this many blocks, ``n + p`` numbers each, fit into memory."""
    design = batch.data.design
    size = namespace(batch.data.y).finfo(design.example.dtype).bits // 8
    budget = KEPT_ON_DEVICE if on_cuda(batch.data.y) else KEPT
    numbers = design.largest_share + design.shape[1]
    return int(max(1, budget // (blocks * numbers * size)))


def members_at_a_time(batch: Batch, n_iter: int) -> int:
    """Return the number of members whose states can be kept at the same time."""
    return at_a_time(batch, 2 * (n_iter + 1))


def run_all(batch: Batch, n_iter: int, watch: Watch | None = None) -> Batch:
    """Extend runs, or defer that (without a watch) if their states do not fit into memory."""
    if len(batch) <= members_at_a_time(batch, n_iter):
        return batch.extended(n_iter, watch)
    return DeferredBatch(batch.unmoved(), n_iter)


class DeferredBatch(Batch):
    """Runs that keep only the states of the path last used; others are recomputed when needed."""

    def __init__(self, batch: Batch, n_iter: int):  # the batch is at iteration 0
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
        """Return a path that keeps its fitted values or coefficients, whichever are fewer."""
        n, p = path.design.shape
        name, deferred = "products" if n <= p else "iterates", self[k]
        vars(deferred)[name] = copied(getattr(path, name))
        return deferred


class DeferredPath(Path):
    """Path that is recomputed when states are needed that it does not keep."""

    _batch: DeferredBatch
    _member: int

    def __init__(self, batch: DeferredBatch, k: int, start: Path):
        own = (field.name for field in fields(start) if field.name not in STATES)
        self.__dict__ |= {name: getattr(start, name) for name in own}
        self.__dict__ |= {"_batch": batch, "_member": k}

    def __getattr__(self, name: str) -> Array:
        if name not in STATES:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        if name == "products" and "iterates" in vars(self):
            return self.products_at(slice(None))
        return getattr(self._batch.states_of(self._member), STATES[name])[0, ...]

    def __deepcopy__(self, memo: Any) -> DeferredPath:
        return self  # it has no mutable state of its own

    @property
    def n_iter(self) -> int:
        return self._batch.n_iter

    def until(self, n_iter: int) -> Path:
        if n_iter >= self.n_iter:
            return self
        return self._batch.unmoved().part([self._member]).extended(n_iter)[0]

    def products_at(self, t: slice) -> Array:
        if "iterates" in vars(self):
            return self.design.forward(self.iterates[t, :].T).T
        return super().products_at(t)
