"""The recursion: `run` advances an algorithm and returns its whole `Path`."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import array_api_compat
import numpy as np

from steinpath._support.arrays import Array, along_rows, namespace
from steinpath._support.validation import check_count, check_flag, check_instance
from steinpath.algorithms._family import ChambollePock
from steinpath.algorithms._recursion import Algorithm, Maps
from steinpath.design._designs import (
    Design,
    InterceptDesign,
    RemoteDesign,
    WeightedDesign,
    as_design,
    check_response,
)
from steinpath.problem._losses import Loss
from steinpath.problem._penalties import FreeIntercept, Penalty

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Iterates on a device are looked at this seldom, since a look waits for it; NumPy's always.
_SELDOM = 16


class StoppingRule(Protocol):
    """What may end a run early; see `steinpath.StopOnRisk`."""

    def horizons(self, n_iter: int) -> Iterable[int]:
        """Numbers of iterations after which to look, the last being ``n_iter``."""

    def judge(self, path: Path) -> tuple[Path, bool]:
        """Return the path with its estimated risk, and whether to stop."""


class DivergenceError(FloatingPointError):
    """An iterate stopped being finite.

    Attributes
    ----------
    iterate : int
        The first iterate that is not finite.
    """

    def __init__(self, iterate: int, cause: str):
        super().__init__(f"iterate {iterate} is not finite: {cause}")
        self.iterate, self._cause = iterate, cause

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.iterate, self._cause)


@dataclass(frozen=True, eq=False)
class Path:
    """The iterates of one run, and the histories that its tangents need.

    Made by `run`. Everything is an array of the namespace, dtype and device of X.

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
    #: Where the intercept started; the recursion worked on ``y - offset``.
    offset: float
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
    def is_batch(self) -> bool:
        """Whether this is all members of a `Batch`: members are the last axis."""
        return bool(self.y.ndim == 2)

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
        return self.products + self.offset if self.offset else self.products

    def fitted_at(self, t: slice) -> Array:
        """Fitted values of some iterates."""
        return self.fitted[t, :]

    @cached_property
    def intercept(self) -> Array:
        """Intercept of each iterate."""
        if isinstance(self.design, InterceptDesign):
            return self.design.intercepts(self.iterates) + self.offset
        return self.design.zeros(self.n_iter + 1)

    @cached_property
    def objective(self) -> Array:
        """Loss plus penalty of each iterate."""
        loss = self.setting.working_loss
        values = [
            loss.value(self.y - fitted) + self.penalty.value(b)
            for fitted, b in zip(rows(self.fitted), rows(self.coef), strict=True)
        ]
        return namespace(self.y).stack(values)

    def centered_duals(self) -> Array:
        """Duals as the corrections use them: with an intercept, less their means.

        Centred columns of X never show the mean of a dual to the coefficients.
        """
        if not self.fit_intercept:
            return self.dual
        return self.dual - namespace(self.y).mean(self.dual, axis=1, keepdims=True)

    @property
    def setting(self) -> Setting:
        """What it has in common with other paths on the same data."""
        return Setting(self.y, self.loss, self.design, self.offset)

    @property
    def states(self) -> State:
        """All states of the recursion, one in each row."""
        return State(self.iterates, self.products, self.duals, self.etas)

    def refuse_weights(self) -> None:
        """Refuse a path whose rows count unequally, for what cannot be said of it."""
        if self.design.weights is not None:
            raise ValueError(
                "the rows of this path count unequally (sample_weight), and its risk is not known; "
                "run it without weights, or hold out rows of your own to test it on"
            )

    def residual(self, t: int | slice) -> Array:
        """``v^t``, the scaled residual that the dual updates saw; of several iterates, in rows."""
        return (self.y - self.offset - self.products[t, ...]) / math.sqrt(self.n_samples)

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
        kind = str(self.y.dtype)
        if not isinstance(self.y, np.ndarray):
            return f", {kind} on {array_api_compat.device(self.y)}"
        return "" if kind == "float64" else f", {kind}"


class RemotePath(Path, ABC):
    """A path whose rows are not here, so that its risk is estimated where they are."""

    @abstractmethod
    def estimate_risk(self, audit: int | str, rng: Any, **options: Any) -> Any:
        """Do as `steinpath.estimate_risk`, whose options were checked."""


def run(
    X: Any,
    y: Any,
    loss: Loss,
    penalty: Penalty,
    algorithm: Algorithm = ChambollePock(),
    n_iter: int = 300,
    fit_intercept: bool = False,
    stop: StoppingRule | None = None,
    sample_weight: Any = None,
) -> Path:
    """Run an algorithm from zero and keep every iterate.

    Parameters
    ----------
    X : array-like of shape (n, p), or a `steinpath.design.Design`
        The design matrix. Its array namespace, dtype and device are those of the whole path. It
        is not copied: the risk estimates read it again, so leave it as it is until then. A SciPy
        sparse matrix stays sparse, and a `numpy.memmap` in its file: that is read in blocks, so
        that X may be larger than memory, which then holds the path: ``2 * n_iter * (n + p)``
        numbers.
    y : array-like of shape (n,)
        The responses.
    loss : Loss
        Such as ``sp.LAD()``.
    penalty : Penalty
        Such as ``sp.Lasso(0.5)``.
    algorithm : Algorithm, default=ChambollePock()
        What to run.
    n_iter : int, default=300
        Number of iterations.
    fit_intercept : bool, default=False
        Add an unpenalised intercept; off by default, unlike scikit-learn's. The columns of X are
        then centred (by a rank-one correction of the products; X is not copied) and the
        intercept starts at the best constant fit.
    stop : StopOnRisk, optional
        A rule that may end the run before ``n_iter``; ``path.risk`` is then its estimate.
    sample_weight : array-like of shape (n,), optional
        How often each row counts; positive. Only their proportions matter: integers are as good as
        rows repeated so many times, with a penalty that is larger by the root of their mean. There
        is no risk estimate for rows that count unequally.

    Returns
    -------
    Path
        All iterates, with what the risk estimates need.

    Raises
    ------
    DivergenceError
        If an iterate is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import steinpath as sp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 20))
    >>> y = X[:, 0] + rng.standard_t(2, size=100)
    >>> path = sp.run(X, y, sp.LAD(), sp.Lasso(0.5), n_iter=50)
    >>> path.coef.shape, path.dual.shape, path.fitted.shape
    ((51, 20), (50, 100), (51, 100))
    """
    check_instance("penalty", penalty, Penalty, "sp.Lasso(0.5)")
    check_instance("algorithm", algorithm, Algorithm, "sp.ChambollePock()")
    n_iter = check_count("n_iter", n_iter)
    if stop is not None and (isinstance(stop, type) or not hasattr(stop, "judge")):
        raise TypeError(f"stop must be a rule such as sp.StopOnRisk(); got {stop!r:.60}")
    design = as_design(X)
    if isinstance(design, RemoteDesign):
        path: Path = design.run(
            y, loss, penalty, algorithm, n_iter, fit_intercept, stop, sample_weight
        )
        return path
    setting = prepare(design, y, loss, fit_intercept, sample_weight)
    return advance(setting, penalty, algorithm, n_iter, stop)


def advance(
    setting: Setting,
    penalty: Penalty,
    algorithm: Algorithm,
    n_iter: int,
    stop: StoppingRule | None = None,
) -> Path:
    """Run an algorithm on data that were checked; see `run`."""
    algorithm, maps = setting.bind(algorithm, penalty)
    kept = [setting.start()]
    horizons = [n_iter] if stop is None else list(stop.horizons(n_iter))
    states = states_from(setting, algorithm, maps, kept[:], 1, horizons)
    for horizon in horizons:
        kept += islice(states, horizon + 1 - len(kept))
        arrays = (namespace(setting.y).stack(history) for history in zip(*kept, strict=True))
        path = setting.path(penalty, algorithm, maps, State(*arrays))
        if stop is not None:
            path, done = stop.judge(path)
            if done:
                break
    return path


class State(NamedTuple):
    """Where the recursion is: ``b^t``, ``X b^t``, ``u^t``, ``eta^t``, as vectors or blocks."""

    b: Array
    product: Array
    u: Array
    eta: Array

    def member(self, k: int) -> State:
        """Return one of several, which are the first axis."""
        return State(*(array[k, ...] for array in self))


class Setting(NamedTuple):
    """What all paths on the same data have in common; see the attributes of `Path`."""

    y: Array
    loss: Loss
    design: Design
    offset: float

    @property
    def target(self) -> Array:
        """What the recursion fits."""
        return self.y - self.offset

    @property
    def working_loss(self) -> Loss:
        """What it minimises: the loss, with the weights of the rows, or of those that are here."""
        design = self.design
        if design.weights is not None:
            return self.loss.weighted(design.weights)
        return self.loss if design.is_whole else self.loss.shared(design)

    def own(self, penalty: Penalty) -> Penalty:
        """Return the penalty as the recursion sees it: the intercept goes free."""
        return FreeIntercept(penalty) if isinstance(self.design, InterceptDesign) else penalty

    def bind(self, algorithm: Algorithm, penalty: Penalty) -> tuple[Algorithm, Maps]:
        """Fix the step sizes of an algorithm, and return its maps."""
        penalty = self.own(penalty)
        penalty.check_size(self.design.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):  # each iterate is checked instead
            return algorithm.bind(self.design, self.target, self.working_loss, penalty)

    def start(self) -> State:
        """Return the start of a run."""
        n, p = self.design.shape
        return State(*(self.design.zeros(size) for size in (p, n, n, p)))

    def path(self, penalty: Penalty, algorithm: Algorithm, maps: Maps, states: State) -> Path:
        """Return a path from all of its states, one in each row."""
        y, loss, design, offset = self
        return Path(y, loss, penalty, algorithm, design, maps, offset, *states)


def prepare(X: Any, y: Any, loss: Loss, fit_intercept: bool, sample_weight: Any = None) -> Setting:
    """Check the data of a run."""
    check_instance("loss", loss, Loss, "sp.LAD()")
    check_flag("fit_intercept", fit_intercept)
    design = as_design(X)
    y = check_response(y, design)
    counts = None
    if sample_weight is not None:
        weighted = WeightedDesign(design, sample_weight)
        if not weighted.all_alike:
            design, counts = weighted, weighted.given
    offset = 0.0
    if fit_intercept:
        design, offset = InterceptDesign(design), loss.location(y, counts)
    return Setting(design.here(y), loss, design, offset)


def states_from(
    setting: Setting,
    algorithm: Algorithm,
    maps: Maps,
    past: Sequence[State],
    first: int,
    horizons: Collection[int],
) -> Iterator[State]:
    """Advance the recursion from iteration ``first`` to the last horizon, after ``past``.

    At a horizon, all iterates up to it are known to be finite.
    """
    design, target = setting.design, along_rows(setting.target, past[-1].b)
    seldom = 1 if isinstance(target, np.ndarray) else _SELDOM
    b, products, u, eta = (list(history) for history in zip(*past, strict=True))
    root_n = math.sqrt(design.n_rows)
    v = [(target - product) / root_n for product in products]
    unseen: list[State] = []
    for t in range(first, max(horizons) + 1):
        with np.errstate(over="ignore", invalid="ignore"):
            u.append(maps.dual(t, u, v))
            eta.append(design.rmatmat(u[-1]) / root_n)
            b.append(maps.primal(t, b, eta))
            product = design.matmat(b[-1])
            v.append((target - product) / root_n)
        unseen.append(State(b[-1], product, u[-1], eta[-1]))
        if len(unseen) == seldom or t in horizons:
            bad = _first_infinite(unseen)
            if bad is not None:
                cause = algorithm.why_diverged(design, setting.loss)
                raise DivergenceError(t - len(unseen) + 1 + bad, cause)
            unseen.clear()
        yield State(b[-1], product, u[-1], eta[-1])
        if maps.memory is not None:
            for history in (b, u, v, eta):
                del history[: -maps.memory]


def _first_infinite(states: Sequence[State]) -> int | None:
    """Return which of the states is the first that is not finite, if any."""
    xp = namespace(states[0].b)
    finite = [xp.all(xp.isfinite(s.b)) & xp.all(xp.isfinite(s.product)) for s in states]
    return None if reduce(operator.and_, finite) else [bool(each) for each in finite].index(False)


def rows(array: Array) -> list[Array]:
    """Return the rows of a matrix as a list of views."""
    return [array[i, ...] for i in range(array.shape[0])]
