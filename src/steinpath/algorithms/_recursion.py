r"""The general recursion: what an algorithm is to the engine, and the user's own.

With :math:`v^t = (y - X b^t)/\sqrt n` and :math:`\eta^t = X^\top u^t/\sqrt n`, an algorithm is a
pair of maps that never see X:

.. math:: u^t = \phi^t(u^0, …, u^{t-1}, v^0, …, v^{t-1}), \qquad
          b^t = \psi^t(b^0, …, b^{t-1}, \eta^0, …, \eta^t).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import array_api_compat

from steinpath._support.arrays import Array, namespace
from steinpath.design._designs import Design
from steinpath.problem._losses import Loss
from steinpath.problem._penalties import FreeIntercept, NoPenalty, Penalty

History = Sequence[Array]


class Tangent(ABC):
    """The derivative of a map at one time, as a map of the histories of tangents."""

    @abstractmethod
    def __call__(self, first: History, second: History) -> Array:
        """Tangents of the map's value, from those of its two arguments' histories."""

    def support(self) -> Array | None:
        """Mask of the coordinates that can be nonzero; None for all of them."""
        return None

    def columns(self, times: Sequence[int]) -> list[Tangent]:
        """Return the derivatives at each of several times, from one at blocks of columns."""
        raise NotImplementedError(f"{type(self).__name__} is of one time alone")

    def part(self, coordinates: Any, dtype: Any) -> Tangent:
        """Return the same on tangents of some coordinates (None: of all), in another precision.

        The coordinates are indices in increasing order, and contain the `support`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no parts")


class Maps(ABC):
    """The two maps of one run and their derivatives: all that the engine knows of an algorithm."""

    #: How many past states the maps look at; None for all.
    memory: ClassVar[int | None]
    #: Whether tangents have parts and supports: then the dual map looks at past ``u`` and ``v``,
    #: the primal map at past ``b`` and at the newest ``eta`` alone, each row by itself but for
    #: one structured Jacobian. Iterates may then be blocks of columns, too.
    structured: ClassVar[bool]

    @abstractmethod
    def dual(self, t: int, u: History, v: History) -> Array:
        """``u^t`` from ``u^0 … u^{t-1}`` and ``v^0 … v^{t-1}``."""

    @abstractmethod
    def primal(self, t: int, b: History, eta: History) -> Array:
        """``b^t`` from ``b^0 … b^{t-1}`` and ``eta^0 … eta^t``."""

    def on_part(self, kept: int, total: int) -> Maps:
        """Return the maps for ``kept`` of ``total`` rows, the residuals of the others being 0."""
        raise NotImplementedError(f"{type(self).__name__} is for all rows alone")

    @abstractmethod
    def dual_tangent(self, t: int, u: History, v: History) -> Tangent:
        """Return the derivative of `dual` at these histories: a map of tangents' histories."""

    @abstractmethod
    def primal_tangent(self, t: int, b: History, eta: History) -> Tangent:
        """Return the derivative of `primal` at these histories: a map of tangents' histories."""


class Algorithm(ABC):
    """Something that can be bound to a problem, and then is a pair of maps."""

    @abstractmethod
    def bind(
        self, design: Design, y: Array, loss: Loss, penalty: Penalty
    ) -> tuple[Algorithm, Maps]:
        """Check that the problem can be handled; fix all step sizes.

        Returns
        -------
        algorithm : Algorithm
            The same algorithm with the step sizes that it will use.
        maps : Maps
            Its maps for this problem.
        """

    @abstractmethod
    def why_diverged(self, design: Design, loss: Loss) -> str:
        """Say, once the step sizes are fixed, why an iterate may have become infinite."""


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

    dual: Callable[[int, History, History], Array]
    primal: Callable[[int, History, History], Array]
    dual_jvp: Callable[[int, History, History, History, History], Array]
    primal_jvp: Callable[[int, History, History, History, History], Array]

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
        return self, RecursionMaps(self)

    def why_diverged(self, design: Design, loss: Loss) -> str:
        return "the maps given to Recursion do not contract; smaller steps may help"


@dataclass(frozen=True)
class RecursionMaps(Maps):
    """The maps of a `Recursion`, which see the whole history."""

    recursion: Recursion

    memory = None
    structured = False

    def dual(self, t: int, u: History, v: History) -> Array:
        return _check_map("dual", self.recursion.dual(t, u, v), like=u[-1])

    def primal(self, t: int, b: History, eta: History) -> Array:
        return _check_map("primal", self.recursion.primal(t, b, eta), like=b[-1])

    def dual_tangent(self, t: int, u: History, v: History) -> Tangent:
        return RecursionTangent("dual_jvp", self.recursion.dual_jvp, t, u, v)

    def primal_tangent(self, t: int, b: History, eta: History) -> Tangent:
        return RecursionTangent("primal_jvp", self.recursion.primal_jvp, t, b, eta)


@dataclass(frozen=True, eq=False)
class RecursionTangent(Tangent):
    """A user's Jacobian–vector product at the realised histories."""

    name: str
    jvp: Callable[[int, History, History, History, History], Array]
    t: int
    first: History
    second: History

    def __call__(self, first: History, second: History) -> Array:
        value = self.jvp(self.t, self.first, self.second, first, second)
        if getattr(value, "shape", None) != first[-1].shape:
            raise ValueError(
                f"{self.name} must return a block of tangents of shape "
                f"{tuple(first[-1].shape)}; it returned {type(value).__name__} of shape "
                f"{getattr(value, 'shape', None)}"
            )
        return value


def _check_map(name: str, value: Any, like: Array) -> Array:
    """Refuse what a user's own map should not return."""
    if (
        not array_api_compat.is_array_api_obj(value)
        or namespace(value) is not namespace(like)
        or value.shape != like.shape
        or value.dtype != like.dtype
    ):
        shape = getattr(value, "shape", None)
        raise ValueError(
            f"the {name} map must return an array like X of shape {tuple(like.shape)} and dtype "
            f"{like.dtype}; it returned {type(value).__name__} of shape {shape} and dtype "
            f"{getattr(value, 'dtype', None)}"
        )
    return value
