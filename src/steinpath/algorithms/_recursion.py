"""User-defined history-dependent maps: the general recursion of the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from steinpath._support.arrays import Array, read_only
from steinpath._support.validation import check_returned
from steinpath.algorithms._base import Algorithm, History, Maps, Tangent
from steinpath.design._base import Design
from steinpath.problem._losses import Loss
from steinpath.problem._penalties import FreeIntercept, NoPenalty, Penalty
from steinpath.problem._rows import Rows

# One vector per past iteration, as passed to user-defined maps.
Vectors = Sequence[Array]


@dataclass(frozen=True)
class Recursion(Algorithm):
    """Algorithm defined by user-supplied maps and their Jacobian–vector products.

    With ``v^t = (y - X b^t) / √n`` and ``eta^t = Xᵀ u^t / √n``, the recursion starts from
    ``u^0 = 0`` and ``b^0 = 0``. Use it with the penalty ``sp.NoPenalty()`` and without
    ``fit_intercept``; the loss only sets the default scoring loss.

    Parameters
    ----------
    dual : callable
        ``dual(t, u, v)`` returns ``u^t`` from the lists ``u[0..t-1]`` and ``v[0..t-1]``.
    primal : callable
        ``primal(t, b, eta)`` returns ``b^t`` from the lists ``b[0..t-1]`` and ``eta[0..t]``.
    dual_jvp, primal_jvp : callable
        ``dual_jvp(t, u, v, du, dv)`` and ``primal_jvp(t, b, eta, db, deta)`` return the derivatives
        of the two maps in the direction of the tangents. While ``u[s]`` is a vector, ``du[s]`` is a
        block of columns of shape ``(n, k)``, and ``db[s]`` one of shape ``(p, k)``.

    Notes
    -----
    The maps must not modify their arguments. NumPy arrays in the lists are read-only; returned
    arrays are copied.

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
                f"Recursion defines its own maps and cannot use {penalty!r}; pass sp.NoPenalty() "
                "and implement the penalty in `primal`"
            )
        return self, RecursionMaps(self, design.rows)

    def why_diverged(self, design: Design, loss: Loss) -> str:
        return "the maps passed to Recursion do not contract; try smaller steps"


@dataclass(frozen=True)
class RecursionMaps(Maps):
    """Maps of a `Recursion`, which see the full history of a single member."""

    recursion: Recursion
    rows: Rows

    memory = None
    structured = False

    def dual(self, t: int, u: History, v: History) -> Array:
        # a held-out row must not be visible: its residual and its dual are zero
        v = History(map(self.rows.weighted, v))
        value = self.recursion.dual(t, _vectors(u), _vectors(v))
        return self.rows.weighted(_check_map("dual", value, u[-1]))

    def primal(self, t: int, b: History, eta: History) -> Array:
        return _check_map("primal", self.recursion.primal(t, _vectors(b), _vectors(eta)), b[-1])

    def for_rows(self, rows: Rows, members: int) -> RecursionMaps:
        if members > 1:
            raise ValueError("the maps of a Recursion support a single member at a time")
        return replace(self, rows=rows)

    def dual_tangent(self, t: int, u: History, v: History) -> Tangent:
        return RecursionTangent(self.recursion, "dual_jvp", t, _vectors(u), _vectors(v))

    def primal_tangent(self, t: int, b: History, eta: History) -> Tangent:
        return RecursionTangent(self.recursion, "primal_jvp", t, _vectors(b), _vectors(eta))


def _vectors(blocks: Sequence[Array]) -> list[Array]:
    return [read_only(block[:, 0, 0]) for block in blocks]


@dataclass(frozen=True, eq=False)
class RecursionTangent(Tangent):
    """User-defined Jacobian–vector product at the realised histories."""

    recursion: Recursion
    name: str
    t: int
    first: Vectors
    second: Vectors

    def __call__(self, first: History, second: History) -> Array:
        tangents = ([read_only(x[:, 0, :]) for x in history] for history in (first, second))
        value = getattr(self.recursion, self.name)(self.t, self.first, self.second, *tangents)
        like = first[-1][:, 0, :]
        return check_returned(self.name, value, like, "a block of tangents")[:, None, :]


def _check_map(name: str, value: Any, block: Array) -> Array:
    """Return the result of a user-defined map as a block, if it has the expected shape."""
    vector = check_returned(f"the {name} map", value, block[:, 0, 0], "an array like X")
    return vector[:, None, None]
