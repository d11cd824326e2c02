"""History-dependent maps of the user's own: the paper's general recursion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from steinpath._support.arrays import Array, copied
from steinpath._support.validation import check_returned
from steinpath.algorithms._base import Algorithm, History, Maps, Tangent
from steinpath.design._base import Design
from steinpath.problem._losses import Loss
from steinpath.problem._penalties import FreeIntercept, NoPenalty, Penalty
from steinpath.problem._rows import Rows

# One vector at each time of the past, as the user's maps see it.
Vectors = Sequence[Array]


@dataclass(frozen=True)
class Recursion(Algorithm):
    """History-dependent maps of the user's own, with their Jacobian–vector products.

    Here ``v^t = (y - X b^t) / √n`` and ``eta^t = Xᵀ u^t / √n``, and the start is ``u^0 = 0``,
    ``b^0 = 0``. Use it with the penalty ``sp.NoPenalty()`` and without ``fit_intercept``; the
    loss only sets the default test loss.

    Parameters
    ----------
    dual : callable
        ``dual(t, u, v)`` returns ``u^t`` from the lists ``u[0..t-1]`` and ``v[0..t-1]``.
    primal : callable
        ``primal(t, b, eta)`` returns ``b^t`` from the lists ``b[0..t-1]`` and ``eta[0..t]``.
    dual_jvp, primal_jvp : callable
        ``dual_jvp(t, u, v, du, dv)`` and ``primal_jvp(t, b, eta, db, deta)``: the derivatives of
        the two maps in the direction of the tangents. While ``u[s]`` is a vector, ``du[s]`` is a
        block of columns of shape ``(n, k)``, and ``db[s]`` one of shape ``(p, k)``.

    Notes
    -----
    The maps may work in place: an array that they take from a list is a copy, and what they
    return is copied.

    Examples
    --------
    Gradient descent with clipped residuals:

    >>> import numpy as np
    >>> import steinpath as sp
    >>> descent = sp.Recursion(
    ...     dual=lambda t, u, v: -np.clip(v[-1], -0.1, 0.1),
    ...     primal=lambda t, b, eta: b[-1] - 0.1 * eta[-1],
    ...     dual_jvp=lambda t, u, v, du, dv: -dv[-1] * (np.abs(v[-1]) < 0.1)[:, None],
    ...     primal_jvp=lambda t, b, eta, db, deta: db[-1] - 0.1 * deta[-1],
    ... )
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 10))
    >>> y = X[:, 0] + rng.standard_normal(50)
    >>> path = sp.run(X, y, sp.Huber(), sp.NoPenalty(), descent, n_iter=20)
    >>> sp.estimate_risk(path).values.shape
    (21,)
    """

    dual: Callable[[int, Vectors, Vectors], Array]
    primal: Callable[[int, Vectors, Vectors], Array]
    dual_jvp: Callable[[int, Vectors, Vectors, Vectors, Vectors], Array]
    primal_jvp: Callable[[int, Vectors, Vectors, Vectors, Vectors], Array]

    def __post_init__(self) -> None:
        for name in ("dual", "primal", "dual_jvp", "primal_jvp"):
            if not callable(getattr(self, name)):
                raise TypeError(f"Recursion: {name} must be callable")

    def bind(
        self, design: Design, y: Array, loss: Loss, penalty: Penalty
    ) -> tuple[Algorithm, Maps]:
        if isinstance(penalty, FreeIntercept):
            raise ValueError(
                "Recursion does not support fit_intercept=True; add a column of ones to X"
            )
        if not isinstance(penalty, NoPenalty):
            raise ValueError(
                "Recursion has maps of its own and cannot use "
                f"{penalty!r}; pass sp.NoPenalty() and put the penalty into `primal`"
            )
        return self, RecursionMaps(self, design.rows)

    def why_diverged(self, design: Design, loss: Loss) -> str:
        return "the maps given to Recursion do not contract; smaller steps may help"


@dataclass(frozen=True)
class RecursionMaps(Maps):
    """The maps of a `Recursion`, which see the whole history of a single member."""

    recursion: Recursion
    rows: Rows

    memory = None
    structured = False

    def dual(self, t: int, u: History, v: History) -> Array:
        # a row that is left out is not to be seen: its residual and its dual are zero
        v = History(map(self.rows.weighted, v))
        value = self.recursion.dual(t, Copies(_vectors(u)), Copies(_vectors(v)))
        return self.rows.weighted(_check_map("dual", value, u[-1]))

    def primal(self, t: int, b: History, eta: History) -> Array:
        value = self.recursion.primal(t, Copies(_vectors(b)), Copies(_vectors(eta)))
        return _check_map("primal", value, b[-1])

    def on(self, rows: Rows, members: int) -> RecursionMaps:
        if members > 1:
            raise ValueError("the maps of a Recursion are for vectors, one member at a time")
        return replace(self, rows=rows)

    def dual_tangent(self, t: int, u: History, v: History) -> Tangent:
        return RecursionTangent("dual_jvp", self.recursion.dual_jvp, t, _vectors(u), _vectors(v))

    def primal_tangent(self, t: int, b: History, eta: History) -> Tangent:
        jvp = self.recursion.primal_jvp
        return RecursionTangent("primal_jvp", jvp, t, _vectors(b), _vectors(eta))


class Copies(list[Array]):
    """A list whose arrays are copied when they are taken from it.

    Histories are long, and most maps look at the newest arrays alone: copies of all of them would
    take longer than the products with X.
    """

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return list(map(copied, found)) if isinstance(index, slice) else copied(found)

    def __iter__(self) -> Iterator[Array]:
        return map(copied, super().__iter__())

    def __reversed__(self) -> Iterator[Array]:
        return map(copied, super().__reversed__())

    def __add__(self, other: Any) -> Any:
        return self[:] + other

    def __radd__(self, other: Any) -> Any:
        return other + self[:]

    def copy(self) -> list[Array]:
        """Return a list of copies."""
        return self[:]  # type: ignore[no-any-return]

    def pop(self, index: Any = -1) -> Array:
        """Remove an array, and return a copy of it."""
        return copied(super().pop(index))


def _vectors(blocks: Sequence[Array]) -> list[Array]:
    return [block[:, 0, 0] for block in blocks]


@dataclass(frozen=True, eq=False)
class RecursionTangent(Tangent):
    """A user's Jacobian–vector product at the realised histories."""

    name: str
    jvp: Callable[[int, Vectors, Vectors, Vectors, Vectors], Array]
    t: int
    first: Vectors
    second: Vectors

    def __call__(self, first: History, second: History) -> Array:
        tangents = ([block[:, 0, :] for block in history] for history in (first, second))
        value = self.jvp(self.t, *map(Copies, (self.first, self.second, *tangents)))
        like = first[-1][:, 0, :]
        return check_returned(self.name, value, like, "a block of tangents")[:, None, :]


def _check_map(name: str, value: Any, block: Array) -> Array:
    """Return what a user's own map returned as a block, if it is a vector like another block's."""
    found = check_returned(f"the {name} map", value, block[:, 0, 0], "an array like X")
    return found[:, None, None]
