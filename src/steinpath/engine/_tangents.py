"""The linearised recursion, on blocks of columns.

Tangents obey the algorithm's own updates with each proximal map replaced by its Jacobian at the
realised argument, plus ``dv^t = -X db^t / √n`` and ``deta^t = Xᵀ du^t / √n``. Correction weights
are read off the responses ``db^t`` to injections into ``dv`` and ``deta``; what is injected, and
when, is the caller's business: a `Feed`.

The path is known before its tangents start, and with it where they vanish: ``du^t`` outside the
support of the dual map's Jacobian, ``db^t`` outside that of the primal map's. So the engine
works in windows of a few iterations, each on a copy of the rows and columns of X that matter in
it. What is left out is exactly zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from steinpath._support.arrays import Array, like, namespace, take, to_numpy
from steinpath.algorithms._recursion import Tangent
from steinpath.design._designs import Design
from steinpath.engine._path import Path, rows

# Iterations that share a copy of the active part of X: few enough for their active sets to be
# alike, enough to pay for the copy.
_WINDOW = 20
# A part of X is copied if it is smaller than this share of the whole.
_WORTH_COPYING = 0.8

#: Coordinates as increasing indices on the host; None for all.
Coordinates = np.ndarray | None


@dataclass(frozen=True, eq=False)
class Window:
    """A few iterations, and what they need of the problem.

    Attributes
    ----------
    first : int
        The first iteration.
    design : Design
        The active rows and columns of X.
    rows, columns : Coordinates
        Which these are.
    dual, primal : list of Tangent
        One per iteration, on these rows and columns.
    """

    first: int
    design: Design
    rows: Coordinates
    columns: Coordinates
    dual: list[Tangent]
    primal: list[Tangent]

    @property
    def whole(self) -> bool:
        """Whether it has all rows and columns."""
        return self.rows is None and self.columns is None


class Linearization:
    """The derivatives of a path's maps at its own iterates.

    Parameters
    ----------
    path : Path
        Where to differentiate.
    design : Design, optional
        The path's design in another precision, which is then that of the tangents.
    keep : bool, default=False
        Keep the derivatives for another pass, at the memory of another path.
    """

    def __init__(self, path: Path, design: Design | None = None, keep: bool = False):
        self.path = path
        self.design = path.design if design is None else design
        self.n_iter, self.n_samples = path.n_iter, path.n_samples
        self.memory = path.maps.memory
        self._residuals: list[Array] | None = None  # of maps that look at all of them
        self._known: dict[int, tuple[Tangent, Tangent]] | None = {} if keep else None

    def windows(self, start: int = 1) -> Iterator[Window]:
        """Windows from iteration ``start`` to the end."""
        recent: list[Tangent] = []  # the primal tangents that shaped the histories of db
        for corner in range(1, self.n_iter + 1, _WINDOW):
            first, last = max(start, corner), min(corner + _WINDOW, self.n_iter + 1)
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
            self._known |= dict(enumerate(self._differentiate(first, last), first))
        return [self._known[t] for t in range(first, last)]

    def _differentiate(self, first: int, last: int) -> list[tuple[Tangent, Tangent]]:
        if not self.path.maps.structured or self.path.is_batch:
            return [self._at(t) for t in range(first, last)]
        start = max(first, 2)  # the first iteration has a shorter history
        alone = [self._at(t) for t in range(first, min(start, last))]
        return alone if start >= last else [*alone, *self._at_once(start, last)]

    def _at_once(self, first: int, last: int) -> Iterator[tuple[Tangent, Tangent]]:
        """Differentiate the maps of blocks of columns, of which each iteration is one."""
        path = self.path
        before = slice(first - 2, last - 2), slice(first - 1, last - 1)
        u, b, eta = (
            [history[times, :].T for times in before]
            for history in (path.duals, path.iterates, path.etas)
        )
        v = [path.residual(times).T for times in before]
        times = like(np.arange(first, last), path.y)
        dual = path.maps.dual_tangent(times, u, v)
        primal = path.maps.primal_tangent(times, b, [*eta, path.etas[first:last, :].T])
        iterations = range(first, last)
        return zip(dual.columns(iterations), primal.columns(iterations), strict=True)

    def _at(self, t: int) -> tuple[Tangent, Tangent]:
        path, low = self.path, 0 if self.memory is None else max(0, t - self.memory)
        u, b, eta = (
            rows(history[low:t, ...]) for history in (path.duals, path.iterates, path.etas)
        )
        if self.memory is None and self._residuals is None:
            self._residuals = [path.residual(s) for s in range(self.n_iter)]
        v = self._residuals[:t] if self._residuals else [path.residual(s) for s in range(low, t)]
        dual = path.maps.dual_tangent(t, u, v)
        primal = path.maps.primal_tangent(t, b, [*eta, path.etas[t, ...]])
        return dual, primal

    def _window(
        self, first: int, dual: list[Tangent], primal: list[Tangent], recent: list[Tangent]
    ) -> Window:
        if not self.path.maps.structured:
            return Window(first, self.design, None, None, dual, primal)
        n, p = self.design.shape
        dtype = self.design.example.dtype
        if self.path.is_batch:  # each member has active rows and columns of its own
            whole = [[tangent.part(None, dtype) for tangent in each] for each in (dual, primal)]
            return Window(first, self.design, None, None, *whole)
        active_rows = _union(dual)
        # the residuals of the first iteration still see the columns of the last iterates
        active_columns = _union([*recent, *primal])
        part = None
        count = float(self.design.over_rows(np.asarray(float(_size(active_rows, n)))))
        if count * _size(active_columns, p) < _WORTH_COPYING * self.design.n_rows * p:
            part = self.design.part(active_rows, active_columns)
        if part is None:
            part, active_rows, active_columns = self.design, None, None
        return Window(
            first,
            part,
            active_rows,
            active_columns,
            [tangent.part(active_rows, dtype) for tangent in dual],
            [tangent.part(active_columns, dtype) for tangent in primal],
        )


def _union(tangents: Sequence[Tangent]) -> Coordinates:
    """Coordinates at which any of the tangents can be nonzero."""
    union = None
    for tangent in tangents:
        mask = tangent.support()
        if mask is None:
            return None
        union = mask if union is None else union | mask
    return np.flatnonzero(to_numpy(union))


def _size(coordinates: Coordinates, all_of_them: int) -> int:
    return all_of_them if coordinates is None else len(coordinates)


@dataclass(frozen=True, eq=False)
class Feed:
    """What is injected into a block of tangent columns, and what is read from it.

    Column ``k`` of ``deta^t`` gets ``into_eta[:, k]`` times the weight ``eta_weights(t)[k]``, and
    ``dv^t`` likewise, all divided by √n. A reading is the sum of a reader and ``db^t``,
    multiplied entry by entry, over each column.

    Attributes
    ----------
    into_eta : Array of shape (p, k), optional
    into_v : Array of shape (n, k), optional
    readers : sequence of Array of shape (p, k)
        For a batch, all these have the shape (p, members, k) or (n, members, k).
    eta_weights, v_weights : callable
        From an iteration to an array of shape (k,), or to None for no injection.
        ``v_weights(t)`` is called after the readings of iteration ``t`` were handed out, so that
        it may depend on them.
    """

    into_eta: Array | None
    into_v: Array | None
    readers: Sequence[Array]
    eta_weights: Callable[[int], Array | None]
    v_weights: Callable[[int], Array | None]

    @property
    def width(self) -> tuple[int, ...]:
        """Number of columns, behind that of a batch's members."""
        return tuple(self.readers[0].shape[1:])

    def read(self, db: Array) -> list[Array]:
        """Multiply each reader with the tangents, column by column."""
        xp = namespace(db)
        return [xp.sum(reader * db, axis=0) for reader in self.readers]

    def part(self, window: Window) -> Feed:
        """Return the rows that a window needs."""
        return Feed(
            _rows_of(self.into_eta, window.columns),
            _rows_of(self.into_v, window.rows),
            [_rows_of(reader, window.columns) for reader in self.readers],
            self.eta_weights,
            self.v_weights,
        )


def _rows_of(block: Array | None, coordinates: Coordinates) -> Array | None:
    return block if block is None or coordinates is None else take(block, coordinates)


def responses(
    linearization: Linearization, feed: Feed, start: int = 1
) -> Iterator[tuple[int, list[Array]]]:
    """Propagate a feed from iteration ``start`` to the end.

    Yields
    ------
    t : int
        Iteration.
    readings : list of Array of shape (k,)
        One per reader.
    """
    memory = linearization.memory
    past = start if memory is None else min(start, memory)
    n, p = linearization.design.shape
    old: tuple[Coordinates, Coordinates] | None = None
    for window in linearization.windows(start):
        design, local = window.design, feed.part(window)
        step = _Step(design, 1 / math.sqrt(linearization.n_samples), local)
        if old is None:
            rest_n, rest_p = (design.zeros(m, *feed.width) for m in design.shape)
            du, dv = [rest_n] * past, [rest_n] * (past - 1)
            db, deta = [rest_p] * past, [rest_p] * past
        elif not window.whole or any(coordinates is not None for coordinates in old):
            du = [_moved(block, old[0], window.rows, n) for block in du]
            db = [_moved(block, old[1], window.columns, p) for block in db]
            times = range(window.first - len(db), window.first - 1)
            dv = [step.residual(t, block) for t, block in zip(times, db[:-1], strict=True)]
        for t, (dual, primal) in enumerate(
            zip(window.dual, window.primal, strict=True), window.first
        ):
            dv.append(step.residual(t - 1, db[-1]))
            du.append(dual(du, dv))
            deta.append(step.eta(t, du[-1]))
            db.append(primal(db, deta))
            yield t, local.read(db[-1])
            if memory is not None:
                for history in (du, dv, db, deta):
                    del history[:-memory]
        old = window.rows, window.columns
        del window, design, local, step  # before the next window copies its part of X


@dataclass(frozen=True, eq=False)
class _Step:
    """The two products with X, and the injections that follow them."""

    design: Design
    scale: float
    feed: Feed

    def residual(self, t: int, db: Array) -> Array:
        block = self.design.matmat(-self.scale * db)
        return self._inject(block, self.feed.into_v, self.feed.v_weights(t))

    def eta(self, t: int, du: Array) -> Array:
        block = self.design.rmatmat(self.scale * du)
        return self._inject(block, self.feed.into_eta, self.feed.eta_weights(t))

    def _inject(self, block: Array, probes: Array | None, weights: Array | None) -> Array:
        if probes is not None and weights is not None:
            block += probes * (self.scale * weights)
        return block


def _moved(block: Array, old: Coordinates, new: Coordinates, total: int) -> Array:
    """Return a block of some coordinates as one of others; where it has none, it is zero."""
    if old is None:
        return _rows_of(block, new)
    xp = namespace(block)
    nothing = xp.zeros_like(xp.sum(block, axis=0, keepdims=True))  # also where there are no rows
    padded = xp.concat([block, nothing], axis=0)
    place = np.full(total, len(old))  # of each coordinate in the padded block
    place[old] = np.arange(len(old))
    return take(padded, place if new is None else place[new])
