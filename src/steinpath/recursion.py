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

from steinpath._arrays import Array, namespace
from steinpath.designs import Design
from steinpath.losses import Loss
from steinpath.penalties import FreeIntercept, NoPenalty, Penalty

History = Sequence[Array]
Tangent = Callable[[History, History], Array]


class Maps(ABC):
    """The two maps of one run and their derivatives: all that the engine knows of an algorithm."""

    #: How many past states the maps look at; None for all.
    memory: ClassVar[int | None]

    @abstractmethod
    def dual(self, t: int, u: History, v: History) -> Array:
        """``u^t`` from ``u^0 … u^{t-1}`` and ``v^0 … v^{t-1}``."""

    @abstractmethod
    def primal(self, t: int, b: History, eta: History) -> Array:
        """``b^t`` from ``b^0 … b^{t-1}`` and ``eta^0 … eta^t``."""

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

    def dual(self, t: int, u: History, v: History) -> Array:
        return _check_map("dual", self.recursion.dual(t, u, v), like=u[-1])

    def primal(self, t: int, b: History, eta: History) -> Array:
        return _check_map("primal", self.recursion.primal(t, b, eta), like=b[-1])

    def dual_tangent(self, t: int, u: History, v: History) -> Tangent:
        return lambda du, dv: _check_jvp(
            "dual_jvp", self.recursion.dual_jvp(t, u, v, du, dv), like=du[-1]
        )

    def primal_tangent(self, t: int, b: History, eta: History) -> Tangent:
        return lambda db, deta: _check_jvp(
            "primal_jvp", self.recursion.primal_jvp(t, b, eta, db, deta), like=db[-1]
        )


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


def _check_jvp(name: str, value: Array, like: Array) -> Array:
    if getattr(value, "shape", None) != like.shape:
        raise ValueError(
            f"{name} must return a block of tangents of shape {tuple(like.shape)}; it returned "
            f"{type(value).__name__} of shape {getattr(value, 'shape', None)}"
        )
    return value
