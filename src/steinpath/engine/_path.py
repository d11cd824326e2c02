"""The path of one run: every iterate, and the histories that risk estimates need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import array_api_compat
import numpy as np

from steinpath._support.arrays import Array, cast, copied, namespace, to_numpy
from steinpath._support.caching import cached_property
from steinpath._support.charts import line_chart, on_axes
from steinpath._support.printing import fragment
from steinpath.algorithms._base import Algorithm, Maps
from steinpath.design._base import Design
from steinpath.design._transformed import InterceptDesign
from steinpath.engine._data import RunData
from steinpath.engine._gap import duality_gap
from steinpath.problem._losses import Loss
from steinpath.problem._penalties import Penalty

#: Attributes with the states of a run, and their names in a batch.
STATES = {"iterates": "b", "products": "product", "duals": "u", "etas": "eta"}
# Coefficients in the chart that notebooks show.
_SHOWN = 10
# Iterates per step of the objective on a cluster.
_ITERATES = 32

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Path:
    """The iterates of one run. Returned by `run`.

    Arrays have the namespace, device and dtype of X; `y`, `fitted` and `intercept` have the
    precision of y if that is higher.

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
        Duality gap: an upper bound on the objective minus its minimum. For MCP and SCAD it is that
        of the local linear approximation of the penalty at each iterate, which is zero at
        stationary points only. Infinite if it is unknown: for a `Recursion`, or a user-defined loss
        or penalty without a conjugate. Not available for rows on a cluster.
    y : Array of shape (n,)
        The responses.
    loss : Loss
        The loss.
    penalty : Penalty
        The penalty.
    algorithm : Algorithm
        The algorithm, with the step sizes it used.
    risk : Risk or None
        The estimate of the stopping rule, if `run` had one.

    Notes
    -----
    Predictions for new rows are ``X_new @ path.coef[t] + path.intercept[t]``: the intercept is for
    columns that are not centred.
    """

    y: Array
    loss: Loss
    penalty: Penalty
    algorithm: Algorithm
    #: The design of the recursion: X, or X centred with a column for the intercept.
    design: Design = field(repr=False)
    maps: Maps = field(repr=False)
    #: Where the intercept started; the recursion worked on ``y - level``.
    level: float
    #: Rows ``b^0 … b^N``, ``X b^0 … X b^N``, ``u^0 … u^N``, ``eta^0 … eta^N`` of the recursion.
    iterates: Array = field(repr=False)
    products: Array = field(repr=False)
    duals: Array = field(repr=False)
    etas: Array = field(repr=False)
    #: The estimate of the stopping rule of `run`, if there was one.
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
        """Number of columns of X, without the intercept."""
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
        return self.above_level(self.products_at(slice(None)))

    def products_at(self, t: slice) -> Array:
        """``X b^t`` of some iterates: their fitted values minus the constant `level`."""
        return self.products[t, :]

    def above_level(self, values: Array) -> Array:
        """Add the constant `level`, which was subtracted from y, to predictions."""
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
        return self.design.on_blocks(_objective, self)

    @cached_property
    def gap(self) -> Array:
        """Duality gap of each iterate: an upper bound on its objective minus the minimum."""
        return self.design.on_blocks(duality_gap, self)

    @property
    def data(self) -> RunData:
        """The part that it shares with other paths on the same data."""
        return RunData(self.y[:, None], self.loss, self.design, np.array([self.level]))

    @cached_property
    def response(self) -> Array:
        """``y - level``, in the precision of X."""
        return self.data.response[:, 0]

    def copy(self) -> Path:
        """Return a copy whose arrays may be modified.

        Returns
        -------
        Path
            The copy.
        """
        return self.but(**{name: copied(getattr(self, name)) for name in ("y", *STATES)})

    def until(self, n_iter: int) -> Path:
        """Return the first iterations of the path.

        Parameters
        ----------
        n_iter : int
            Number of iterations to keep.

        Returns
        -------
        Path
            A path of at most ``n_iter`` iterations.
        """
        if n_iter >= self.n_iter:
            return self
        return self.but(**{name: getattr(self, name)[: n_iter + 1, :] for name in STATES})

    def but(self, **changes: Any) -> Path:
        """Return a path with some attributes replaced, and all arrays in memory."""
        return Path(**{own.name: getattr(self, own.name) for own in fields(Path)} | changes)

    @on_axes
    def plot(
        self, names: Sequence[str] | None = None, best: int | None = None, ax: Axes | None = None
    ) -> Axes:
        """Plot the coefficients against the iteration, the largest with their names.

        `steinpath.plots.plot_coefficients` has more options.

        Parameters
        ----------
        best : int, optional
            The selected iteration, which is marked.
        """
        from steinpath.plots import plot_coefficients

        return plot_coefficients(self, names, best=best, ax=ax)

    def _repr_html_(self) -> str:
        coef = to_numpy(self.coef)
        count = f"{np.count_nonzero(coef[-1])} of {coef.shape[1]} at the last iteration"
        facts = [
            ("Loss", repr(self.loss)),
            ("Penalty", repr(self.penalty)),
            ("Algorithm", type(self.algorithm).__name__),
            ("Data", f"n = {self.n_samples}, p = {self.n_features}"),
            ("Intercept", "yes" if self.fit_intercept else "no"),
            ("Iterations", str(self.n_iter)),
            ("Nonzero coefficients", count),
        ]
        largest = np.argsort(-np.abs(np.nan_to_num(coef[-1])), kind="stable")[:_SHOWN]
        lines = {f"coefficient {j}": coef[:, j] for j in sorted(largest)}
        times, label = np.arange(self.n_iter + 1), f"iteration ({len(lines)} largest coefficients)"
        chart = line_chart(times, lines, x_label=label, legend=False)
        return fragment("Path", facts, chart)

    def __repr__(self) -> str:
        n, p = self.n_samples, self.n_features
        intercept = ", intercept" * self.fit_intercept
        return (
            f"<Path of {self.n_iter} iterations: {self.loss!r} + {self.penalty!r} by "
            f"{self.algorithm!r}, n={n}, p={p}{intercept}{self._kind()}>"
        )

    def _kind(self) -> str:
        """Return the kind of its arrays, unless they are NumPy arrays in double precision."""
        kind = str(self.iterates.dtype)
        if not isinstance(self.y, np.ndarray):
            return f", {kind} on {array_api_compat.device(self.y)}"
        return "" if kind == "float64" else f", {kind}"


def _objective(path: Path) -> Array:
    rows, coef, values = path.data.rows, path.coef, list[Array]()
    # one at a time, since residuals take memory; on a cluster, several per sum over all blocks
    step = 1 if path.design.is_whole else _ITERATES
    with np.errstate(over="ignore"):  # it may be infinite if iterates diverge
        for first in range(0, path.n_iter + 1, step):
            times = range(first, min(first + step, path.n_iter + 1))
            products = path.products_at(slice(first, times.stop))
            losses = path.loss.value((path.response - products).T, rows)
            values += [losses[t - first] + path.penalty.value(coef[t, :]) for t in times]
    return namespace(path.response).stack(values)
