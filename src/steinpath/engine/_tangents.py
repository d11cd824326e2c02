"""The linearised recursion on blocks of columns.

Tangents follow the algorithm's updates with each proximal map replaced by its Jacobian at the
realised argument, and ``dv^t = -X db^t / √n`` and ``deta^t = Xᵀ du^t / √n``. Correction weights are
computed from the responses ``db^t`` to injections into ``dv`` and ``deta``. The caller defines the
injections by a `Feed`.

The path is known before its tangents are computed, and so is where they vanish: ``du^t`` and
``db^t`` outside the supports of the two maps' Jacobians. The engine therefore works in windows of a
few iterations, each on a copy of the active rows and columns of X.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from steinpath._support.arrays import (
    Array,
    coarse_products,
    like,
    namespace,
    on_cuda,
    take,
    to_numpy,
)
from steinpath.algorithms._base import History, Moment, ProximalMaps, Tangent
from steinpath.design._base import Design
from steinpath.engine._batch import Batch
from steinpath.engine._graphs import recording_of
from steinpath.engine._loop import Histories, iterate

#: Iterations that share a copy of the active part of X: few, to have similar active sets.
WINDOW = 12
#: A part of X is copied if it is smaller than this share of X.
WORTH_COPYING = 0.8

# Size of X up to which all of it is used on a CUDA device, and the window length then.
_SMALL_ON_DEVICE, _WINDOW_ON_DEVICE = 2**26, 64

#: Coordinates as increasing indices on the host; None for all.
Coordinates = np.ndarray | None


@dataclass(frozen=True, eq=False)
class Window:
    """A few iterations, and the part of the problem that they need."""

    first: int  # iteration
    design: Design  # the active rows and columns of X
    rows: Coordinates
    columns: Coordinates
    dual: list[Tangent]  # derivatives on these rows and columns, one per iteration
    primal: list[Tangent]

    @property
    def whole(self) -> bool:
        """Whether the window has all rows and columns."""
        return self.rows is None and self.columns is None


class Linearization:
    """Derivatives of the maps of a batch at its iterates, in the precision of the design."""

    def __init__(
        self,
        batch: Batch,
        design: Design | None = None,
        keep: bool = False,
        window: int = WINDOW,
        worth_copying: float = WORTH_COPYING,
    ):
        self.batch = batch
        self.design = batch.data.design if design is None else design
        self.n_iter, self.n_samples = batch.n_iter, batch.n_samples
        self.memory = batch.maps.memory
        self._length, self._worth_copying = window, worth_copying
        if on_cuda(self.design.example) and math.prod(self.design.shape) < _SMALL_ON_DEVICE:
            # finding the inactive part would take longer than computing with it
            self._length, self._worth_copying = _WINDOW_ON_DEVICE, 0.0
        self._residuals: list[Array] | None = None  # for maps that use all of them
        # kept for another pass, derivatives take the memory of another path; carried states require
        # a pass through all iterations
        keep = keep or batch.maps.carries
        self._known: dict[int, tuple[Tangent, Tangent]] | None = {} if keep else None

    def windows(self, start: int = 1) -> Iterator[Window]:
        """Iterate over the windows from iteration ``start`` to the end."""
        recent: list[Tangent] = []  # primal tangents that produced the current histories of db
        for corner in range(1, self.n_iter + 1, self._length):
            first, last = max(start, corner), min(corner + self._length, self.n_iter + 1)
            if first >= last:
                continue
            dual, primal = (list(x) for x in zip(*self._tangents(first, last), strict=True))
            yield self._window(first, dual, primal, recent)
            recent = primal if self.memory is None else [*recent, *primal][-self.memory :]

    def _tangents(self, first: int, last: int) -> list[tuple[Tangent, Tangent]]:
        """Differentiate both maps at the iterations from ``first`` to before ``last``."""
        if self._known is None:
            return self._differentiate(first, last)
        if not all(t in self._known for t in range(first, last)):
            low, high = (1, self.n_iter + 1) if self.batch.maps.carries else (first, last)
            self._known |= dict(enumerate(self._differentiate(low, high), low))
        return [self._known[t] for t in range(first, last)]

    def _differentiate(self, first: int, last: int) -> list[tuple[Tangent, Tangent]]:
        maps = self.batch.maps
        if isinstance(maps, ProximalMaps) and maps.carries:
            return maps.tangents_at(*self._points(maps), self.design.example.dtype)
        start = max(first, 2)  # the first iteration has a shorter history
        if not maps.structured:
            start = last
        alone = [self._at(t) for t in range(first, min(start, last))]
        return alone if start >= last else [*alone, *self._at_once(start, last)]

    def _points(self, maps: ProximalMaps) -> tuple[Array, Array]:
        """Return the points at which each iteration calls its maps, as blocks of columns.

        Carried states require a pass through all iterations.
        """
        batch, xp, last = self.batch, namespace(self.batch.data.y), self.n_iter + 1
        u, b, eta = (
            [batch.block(name, slice(s, s + 1)) for s in range(last)] for name in ("u", "b", "eta")
        )
        residuals = batch.residual(slice(0, last))
        v = [residuals[:, :, s : s + 1] for s in range(last)]
        of_u, of_b, points = History(), History(), []
        for t in range(1, last):
            of_u[:], of_b[:] = u[max(0, t - 2) : t], b[max(0, t - 2) : t]
            of_v, of_eta = History(v[max(0, t - 2) : t]), History(eta[t - 1 : t + 1])
            dual = maps.dual_point(t, of_u, of_v, u[t])
            points.append((dual, maps.primal_point(t, of_b, of_eta, b[t])))
        duals, primals = zip(*points, strict=True)
        return xp.concat(duals, axis=2), xp.concat(primals, axis=2)

    def _at_once(self, first: int, last: int) -> Iterator[tuple[Tangent, Tangent]]:
        """Differentiate maps at several iterations at once, as columns of a block."""
        batch = self.batch
        before = slice(first - 2, last - 2), slice(first - 1, last - 1)
        u, b, eta = (History(batch.block(name, s) for s in before) for name in ("u", "b", "eta"))
        v = History(map(batch.residual, before))
        eta.append(batch.block("eta", slice(first, last)))
        times = like(np.arange(first, last), batch.data.response)
        both = batch.maps.dual_tangent(times, u, v), batch.maps.primal_tangent(times, b, eta)
        iterations, dtype = range(first, last), self.design.example.dtype
        return zip(*(map_.part(None, dtype).columns(iterations) for map_ in both), strict=True)

    def _at(self, t: int) -> tuple[Tangent, Tangent]:
        """Differentiate at one iteration."""
        batch, low = self.batch, 0 if self.memory is None else max(0, t - self.memory)
        past = [slice(s, s + 1) for s in range(low, t)]
        u, b, eta = (History(batch.block(name, s) for s in past) for name in ("u", "b", "eta"))
        if self.memory is None and self._residuals is None:
            self._residuals = [batch.residual(slice(s, s + 1)) for s in range(self.n_iter)]
        v = History(map(batch.residual, past) if self._residuals is None else self._residuals[:t])
        dual = batch.maps.dual_tangent(t, u, v)
        eta.append(batch.block("eta", slice(t, t + 1)))
        return dual, batch.maps.primal_tangent(t, b, eta)

    def _window(
        self, first: int, dual: list[Tangent], primal: list[Tangent], recent: list[Tangent]
    ) -> Window:
        if not self.batch.maps.structured:
            return Window(first, self.design, None, None, dual, primal)
        n, p = self.design.shape
        dtype = self.design.example.dtype
        part, rows, columns = None, None, None
        # members with their own X have their own active rows and columns
        if self.design.members == 1 and self._worth_copying > 0:
            # the residuals of the first iteration still depend on the columns of earlier iterates
            rows, columns = _union(dual), _union([*recent, *primal])
            count = float(self.design.over_rows(np.asarray(float(_size(rows, n)))))
            share = count * _size(columns, p) / (self.design.n_rows * p)
            part = self.design.part(rows, columns) if share < self._worth_copying else None
        if part is None:
            part, rows, columns = self.design, None, None
        dual = [tangent.part(rows, dtype) for tangent in dual]
        primal = [tangent.part(columns, dtype) for tangent in primal]
        return Window(first, part, rows, columns, dual, primal)


def _union(tangents: Sequence[Tangent]) -> Coordinates:
    """Return the coordinates at which any of the tangents can be nonzero."""
    masks = [tangent.support() for tangent in tangents]
    if any(mask is None for mask in masks):
        return None
    return np.flatnonzero(to_numpy(reduce(operator.or_, masks)))


def _size(coordinates: Coordinates, total: int) -> int:
    return total if coordinates is None else len(coordinates)


@dataclass(frozen=True, eq=False)
class Feed:
    """Injections into a block of tangent columns, and readers of the responses.

    Column ``k`` of ``into_eta``, times its weight in ``eta_weights(t)`` and divided by √n, is added
    to ``deta^t``; likewise ``into_v`` to ``dv^t``. A reading is the inner product of each column of
    a reader with that of ``db^t``, and for dual readers with that of ``du^t``.
    """

    into_eta: Array | None  # (p, members, k)
    into_v: Array | None  # (n, members, k)
    readers: Sequence[Array]  # each (p, members, k)
    #: Weights (members, k) at an iteration, None for no injection; those of ``v`` may depend on the
    #: readings of the same iteration.
    eta_weights: Callable[[int], Array | None]
    v_weights: Callable[[int], Array | None]
    dual_readers: Sequence[Array] = ()  # each (n, members, k)
    #: Called with each iteration, ``du^t`` at the active rows, and these.
    watch: Callable[[int, Array, Coordinates], None] | None = None

    @property
    def width(self) -> tuple[int, ...]:
        """Number of members, and of columns per member."""
        return tuple([*self.readers, *self.dual_readers][0].shape[1:])

    def read(self, du: Array, db: Array) -> list[Array]:
        """Multiply each reader with the tangents column by column; dual readers come last."""
        products = [reader * db for reader in self.readers]
        products += [reader * du for reader in self.dual_readers]
        return [namespace(db).sum(product, axis=0) for product in products]

    def part(self, window: Window) -> Feed:
        """Return the rows that a window needs."""
        return Feed(
            _rows_of(self.into_eta, window.columns),
            _rows_of(self.into_v, window.rows),
            [_rows_of(reader, window.columns) for reader in self.readers],
            self.eta_weights,
            self.v_weights,
            [_rows_of(reader, window.rows) for reader in self.dual_readers],
            self.watch,
        )


def _rows_of(block: Array | None, coordinates: Coordinates) -> Any:
    return block if block is None or coordinates is None else take(block, coordinates)


def responses(
    linearization: Linearization, feed: Feed, start: int = 1
) -> Iterator[tuple[int, list[Array]]]:
    """Propagate a feed; yield each iteration and its readings (members, k), one per reader."""
    memory = linearization.memory
    length = start if memory is None else min(start, memory)
    n, p = linearization.design.shape
    past: Histories | None = None
    old: tuple[Coordinates, Coordinates] = None, None
    recording = recording_of(
        linearization.batch.maps, linearization.design.example, linearization.n_iter - start
    )
    for window in linearization.windows(start):
        local = feed.part(window)
        step = TangentStep(window, 1 / math.sqrt(linearization.n_samples), local)
        if past is None:
            rest_n, rest_p = (window.design.zeros(m, *feed.width) for m in window.design.shape)
            zeros = (rest_n, length), (rest_n, length - 1), (rest_p, length), (rest_p, length)
            past = Histories(*(History([block] * count) for block, count in zeros))
        elif not window.whole or any(coordinates is not None for coordinates in old):
            past.u[:] = [moved(block, old[0], window.rows, n) for block in past.u]
            past.b[:] = [moved(block, old[1], window.columns, p) for block in past.b]
            times = range(window.first - len(past.b), window.first - 1)
            past.v[:] = [
                step.injected(b, feed.v_weights(t)) for t, b in zip(times, past.b[:-1], strict=True)
            ]
        times = range(window.first, window.first + len(window.dual))
        steps = iterate(step, past, times, memory, recording if window.whole else None)
        for t, newest in zip(times, steps, strict=True):
            if feed.watch is not None:
                feed.watch(t, newest.u, window.rows)
            yield t, newest.reading
        old = window.rows, window.columns
        del window, local, step, steps  # before the next window copies its part of X


class TangentFrame(NamedTuple):
    """Data specific to one iteration of the tangents."""

    dual: Tangent
    primal: Tangent
    v_weights: Array | None
    eta_weights: Array | None


@dataclass(frozen=True, eq=False)
class TangentStep:
    """Step of tangents, with linearised updates and injections; a `Step`."""

    window: Window
    scale: float
    feed: Feed

    def now(self, t: int, moment: Moment | None = None) -> TangentFrame:
        place = t - self.window.first
        dual, primal = self.window.dual[place], self.window.primal[place]
        if moment is not None:
            dual, primal = dual.during(moment), primal.during(moment)
        return TangentFrame(dual, primal, self.feed.v_weights(t - 1), self.feed.eta_weights(t))

    def resembles(self, other: Any) -> bool:
        def arrays(feed: Feed) -> list[Array | None]:
            return [feed.into_eta, feed.into_v, *feed.readers, *feed.dual_readers]

        same_design = self.window.design is other.window.design
        return same_design and all(map(operator.is_, arrays(self.feed), arrays(other.feed)))

    def injected(self, db: Array, weights: Array | None) -> Array:
        """Return ``dv^t`` given ``db^t``, including its injection."""
        with coarse_products(db):
            block = self.window.design.forward(-self.scale * db)
        return self._inject(block, self.feed.into_v, weights)

    def residual(self, now: TangentFrame, db: Array, reading: list[Array] | None) -> Array:
        return self.injected(db, now.v_weights)

    def dual(self, now: TangentFrame, du: History, dv: History) -> Array:
        return now.dual(du, dv)

    def eta(self, now: TangentFrame, du: Array) -> Array:
        with coarse_products(du):
            block = self.window.design.adjoint(self.scale * du)
        return self._inject(block, self.feed.into_eta, now.eta_weights)

    def primal(self, now: TangentFrame, db: History, deta: History) -> Array:
        return now.primal(db, deta)

    def reading(self, du: Array, db: Array) -> list[Array]:
        return self.feed.read(du, db)

    def _inject(self, block: Array, probes: Array | None, weights: Array | None) -> Array:
        if probes is not None and weights is not None:
            block += probes * (self.scale * weights)
        return block


def moved(block: Array, old: Coordinates, new: Coordinates, total: int) -> Array:
    """Move a block from some coordinates to others, filling new ones with zeros."""
    if old is None:
        return _rows_of(block, new)
    xp = namespace(block)
    nothing = xp.zeros_like(xp.sum(block, axis=0, keepdims=True))  # works without rows, too
    padded = xp.concat([block, nothing], axis=0)
    place = np.full(total, len(old))  # index of each coordinate in the padded block
    place[old] = np.arange(len(old))
    return take(padded, place if new is None else place[new])


def design_in(batch: Batch, dtype: Any, rngs: Sequence[np.random.Generator]) -> Design:
    """Return the design in another precision, or unchanged if entries, means or paths forbid it."""
    whole = batch.data.design
    if not batch.maps.structured:  # user-defined maps are called in the path's precision
        return whole
    design = whole.astype(dtype)
    signs = [whole.signs(rng, design.shape[1]) for rng in rngs]
    probe = namespace(batch.data.y).stack(signs, axis=1)[:, :, None]
    product = whole.forward(probe)
    copied = whole.array(design.forward(design.array(probe)))
    states = batch.states

    def size(array: Array, member_axis: int) -> np.ndarray:
        """Return the largest entry of each member without a copy."""
        xp, axes = namespace(array), tuple(k for k in range(3) if k != member_axis)
        high, low = to_numpy(xp.max(array, axis=axes)), to_numpy(xp.min(array, axis=axes))
        return np.array([whole.largest(float(size)) for size in np.maximum(high, -low)])

    sizes = [size(product, 1), size(states.b, 0), size(states.u, 0)]
    moderate = all(np.all((x == 0) | ((x > 1e-10) & (x < 1e10))) for x in sizes)
    faithful = np.all(size(copied - product, 1) <= 1e-3 * sizes[0])
    return design if moderate and faithful else whole
