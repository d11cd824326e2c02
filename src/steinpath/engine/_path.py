"""The path of one run: every iterate, and what its risk estimates need."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import array_api_compat
import numpy as np

from steinpath._support.arrays import Array, cast, copied, namespace
from steinpath.algorithms._base import Algorithm, Maps
from steinpath.design._base import Design
from steinpath.design._transformed import InterceptDesign
from steinpath.engine._data import RunData
from steinpath.engine._gap import duality_gap
from steinpath.problem._losses import Loss
from steinpath.problem._penalties import Penalty

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Path:
    """The iterates of one run, and the histories that its tangents need.

    Made by `run`. Everything is an array of the namespace, device and dtype of X; but `y`, `fitted`
    and `intercept` have the precision of y, if that is higher.

    Attributes
    ----------
    coef : Array of shape (n_iter + 1, p)
        ``coef[t]`` is the iterate ``b^t``; ``coef[0]`` is zero.
    dual : Array of shape (n_iter, n)
        ``dual[s - 1]`` is the dual iterate ``u^s``.
    fitted : Array of shape (n_iter + 1, n)
        ``X b^t`` plus the intercept.
    intercept : Array of shape (n_iter + 1,)
        Zero without an intercept.
    objective : Array of shape (n_iter + 1,)
        Loss plus penalty.
    gap : Array of shape (n_iter + 1,)
        Duality gap: the objective is at most this far above the smallest one. Where the penalty
        is not convex (MCP, SCAD), that of the local linear approximation of the penalty at each
        iterate, which is zero at stationary points only. Infinite if it is not known: for a
        `Recursion`, or a loss or penalty of your own without a conjugate. Not available for rows on
        a cluster.
    y : Array of shape (n,)
        The responses.
    loss, penalty, algorithm
        What was minimised and how; the algorithm with the step sizes it used.
    risk : Risk or None
        The estimate of the stopping rule, if `run` had one.

    Notes
    -----
    New rows are predicted by ``X_new @ path.coef[t] + path.intercept[t]``: the intercept is that
    of the columns as they were given.
    """

    y: Array
    loss: Loss
    penalty: Penalty
    algorithm: Algorithm
    #: The design that the recursion saw: X, or X centred with the intercept's column.
    design: Design = field(repr=False)
    maps: Maps = field(repr=False)
    #: Where the intercept started; the recursion worked on ``y - level``.
    level: float
    #: Rows ``b^0 … b^N``, ``X b^0 … X b^N``, ``u^0 … u^N``, ``eta^0 … eta^N`` of the recursion.
    iterates: Array = field(repr=False)
    products: Array = field(repr=False)
    duals: Array = field(repr=False)
    etas: Array = field(repr=False)
    #: What the stopping rule of `run` estimated, if there was one.
    risk: Any = field(default=None, repr=False)

    @property
    def n_iter(self) -> int:
        """Number of iterations."""
        return int(self.iterates.shape[0]) - 1

    @property
    def n_samples(self) -> int:
        """Number of observations."""
        return self.design.n_rows

    @property
    def n_features(self) -> int:
        """Number of columns of X, the intercept's not counted."""
        return self.design.shape[1] - self.fit_intercept

    @property
    def fit_intercept(self) -> bool:
        """Whether the model has an intercept."""
        return isinstance(self.design, InterceptDesign)

    @property
    def coef(self) -> Array:
        """Coefficients of each iterate."""
        return self.iterates[:, : self.n_features]

    @property
    def dual(self) -> Array:
        """Dual iterates, the first being ``u^1``."""
        return self.duals[1:, ...]

    @cached_property
    def fitted(self) -> Array:
        """Fitted values of each iterate."""
        return self.above_level(self.products)

    def products_at(self, t: slice) -> Array:
        """``X b^t`` of some iterates: their fitted values less the level."""
        return self.products[t, :]

    def above_level(self, values: Array) -> Array:
        """Add the level to predictions of ``y - level``."""
        values = cast(values, self.y.dtype)
        return values + self.level if self.level else values

    @cached_property
    def intercept(self) -> Array:
        """Intercept of each iterate."""
        if isinstance(self.design, InterceptDesign):
            return self.above_level(self.design.intercepts(self.iterates))
        return self.above_level(self.design.zeros(self.n_iter + 1))

    @cached_property
    def objective(self) -> Array:
        """Loss plus penalty of each iterate."""
        values = [self.objective_at(t) for t in range(self.n_iter + 1)]
        return namespace(self.response).stack(values)

    def objective_at(self, t: int) -> Array:
        """Loss plus penalty of one iterate."""
        residuals = self.response - self.products_at(slice(t, t + 1))[0, :]
        with np.errstate(over="ignore"):  # of iterates that run away it may be infinite
            loss = self.loss.value(residuals, self.data.rows)
            return loss + self.penalty.value(copied(self.coef[t, :]))

    @cached_property
    def gap(self) -> Array:
        """Duality gap of each iterate: how much smaller its objective can become at most."""
        return duality_gap(self)

    @property
    def data(self) -> RunData:
        """What it has in common with other paths on the same data."""
        return RunData(self.y[:, None], self.loss, self.design, np.array([self.level]))

    @cached_property
    def response(self) -> Array:
        """``y - level``, in the precision of X."""
        return self.data.response[:, 0]

    def copy(self) -> Path:
        """Return a path with arrays of its own, which may be changed."""
        names = ("y", "iterates", "products", "duals", "etas")
        return self.but(**{name: copied(getattr(self, name)) for name in names})

    def until(self, n_iter: int) -> Path:
        """Return the first iterations of the path."""
        if n_iter >= self.n_iter:
            return self
        names = ("iterates", "products", "duals", "etas")
        return self.but(**{name: getattr(self, name)[: n_iter + 1, :] for name in names})

    def but(self, **changes: Any) -> Path:
        """Return a path with some changes, all of whose arrays are here."""
        return Path(**{each.name: getattr(self, each.name) for each in fields(Path)} | changes)

    def refuse_weights(self, advice: str | None = None) -> None:
        """Refuse a path with unequal sample weights, for what is not known of it."""
        if self.design.weights is not None:
            raise ValueError(
                advice
                or "this path has unequal sample weights (sample_weight), for which its risk is "
                "not known; run it without weights, or hold out rows of your own to test it on"
            )

    def plot(
        self, names: Sequence[str] | None = None, best: int | None = None, ax: Axes | None = None
    ) -> Axes:
        """Draw the coefficients against the iteration, the largest with their names.

        `steinpath.plots.plot_coefficients` has more options.

        Parameters
        ----------
        names : sequence of str of length p, optional
            Names of the columns of X.
        best : int, optional
            The chosen iterate, to be marked.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from steinpath.plots import plot_coefficients

        return plot_coefficients(self, names, best=best, ax=ax)

    def __repr__(self) -> str:
        n, p = self.n_samples, self.n_features
        intercept = ", intercept" * self.fit_intercept
        return (
            f"<Path of {self.n_iter} iterations: {self.loss!r} + {self.penalty!r} by "
            f"{self.algorithm!r}, n={n}, p={p}{intercept}{self._kind()}>"
        )

    def _kind(self) -> str:
        """Say what its arrays are, unless they are NumPy's in double precision."""
        kind = str(self.iterates.dtype)
        if not isinstance(self.y, np.ndarray):
            return f", {kind} on {array_api_compat.device(self.y)}"
        return "" if kind == "float64" else f", {kind}"


class RemotePath(Path, ABC):
    """A path whose rows are not here, so that its risk is estimated where they are."""

    @abstractmethod
    def estimate_risk(self, options: Any, rng: Any) -> Any:
        """Do as `steinpath.estimate_risk`, with `RiskOptions` that were checked."""

    @abstractmethod
    def coefficient_intervals(
        self, times: Any, features: Any, level: float, rng: Any, options: Any
    ) -> Any:
        """Do as `steinpath.coefficient_intervals`, for several iterates."""
