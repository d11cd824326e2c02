"""The linearised recursion, on blocks of columns.

Tangents obey the algorithm's own updates with each proximal map replaced by its Jacobian at the
realised argument, plus ``dv^t = -X db^t / √n`` and ``deta^t = Xᵀ du^t / √n``. Correction weights
are read off the responses ``db^t`` to injections into ``dv`` and ``deta``; what is injected, and
when, is the caller's business.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from steinpath._arrays import Array
from steinpath.path import Path, rows
from steinpath.recursion import Tangent

#: ``inject(t, block)`` adds to the block of time ``t`` in place.
Injection = Callable[[int, Array], None]


class Linearization:
    """The derivatives of a path's maps at its own iterates, for every iteration.

    Attributes
    ----------
    dual, primal : list of callables
        ``dual[t](du, dv)`` and ``primal[t](db, deta)`` advance tangents to time ``t``; entry 0
        is None.
    """

    def __init__(self, path: Path):
        self.path = path
        maps, v = path.maps, path.residuals()
        u, b, eta = rows(path.duals), rows(path.iterates), rows(path.etas)
        self.dual: list[Tangent | None] = [None]
        self.primal: list[Tangent | None] = [None]
        for t in range(1, path.n_iter + 1):
            self.dual.append(maps.dual_tangent(t, u[:t], v[:t]))
            self.primal.append(maps.primal_tangent(t, b[:t], eta[: t + 1]))


def _nothing(t: int, block: Array) -> None:
    pass


def tangents(
    linearization: Linearization,
    width: int,
    *,
    into_eta: Injection = _nothing,
    into_v: Injection = _nothing,
    start: int = 1,
) -> Iterator[tuple[int, Array]]:
    """Propagate ``width`` tangent columns from iteration ``start`` to the end.

    Parameters
    ----------
    linearization : Linearization
        Derivatives along the path.
    width : int
        Number of columns.
    into_eta, into_v : callable
        ``into_eta(t, block)`` adds what is injected into ``deta^t``, for ``t >= start``;
        ``into_v(t, block)`` into ``dv^t``, for ``t >= start - 1``. Before that all is zero.
    start : int, default=1
        First iteration.

    Yields
    ------
    t : int
        Iteration.
    db : Array of shape (p, width)
        Tangents of ``b^t``. They are yielded before ``into_v(t, ·)`` is called, so that what is
        injected may depend on what was read.
    """
    path = linearization.path
    design, memory = path.design, path.maps.memory
    n, p = design.shape
    scale = 1 / math.sqrt(n)
    rest_n, rest_p = design.zeros(n, width), design.zeros(p, width)
    du, db, deta = [rest_n] * start, [rest_p] * start, [rest_p] * start
    dv = [rest_n] * (start - 1) + [design.zeros(n, width)]
    into_v(start - 1, dv[-1])
    for t in range(start, path.n_iter + 1):
        du.append(linearization.dual[t](du, dv))  # type: ignore[misc]
        deta.append(scale * design.rmatmat(du[-1]))
        into_eta(t, deta[-1])
        db.append(linearization.primal[t](db, deta))  # type: ignore[misc]
        yield t, db[-1]
        if t == path.n_iter:
            return
        dv.append(design.matmat(-scale * db[-1]))
        into_v(t, dv[-1])
        if memory is not None:
            for history in (du, dv, db, deta):
                del history[:-memory]
