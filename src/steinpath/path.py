"""The recursion: `run` advances an algorithm and returns its whole `Path`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from steinpath._arrays import Array, namespace
from steinpath._validation import check_count, check_flag, check_instance
from steinpath.algorithms import ChambollePock
from steinpath.designs import Design, InterceptDesign, as_design, check_response
from steinpath.losses import Loss
from steinpath.penalties import FreeIntercept, Penalty
from steinpath.recursion import Algorithm, Maps

if TYPE_CHECKING:
    from steinpath.risk import Risk


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
        self.iterate = iterate


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
    risk: Risk | None = field(default=None, repr=False)

    @property
    def n_iter(self) -> int:
        """Number of iterations."""
        return int(self.iterates.shape[0]) - 1

    @property
    def n_samples(self) -> int:
        """Number of observations."""
        return self.design.shape[0]

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
        return self.duals[1:, :]

    @cached_property
    def fitted(self) -> Array:
        """Fitted values of each iterate."""
        return self.products + self.offset if self.offset else self.products

    @cached_property
    def intercept(self) -> Array:
        """Intercept of each iterate."""
        if isinstance(self.design, InterceptDesign):
            return self.design.intercepts(self.iterates) + self.offset
        return self.design.zeros(self.n_iter + 1)

    @cached_property
    def objective(self) -> Array:
        """Loss plus penalty of each iterate."""
        values = [
            self.loss.value(self.y - fitted) + self.penalty.value(b)
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

    def residual(self, t: int) -> Array:
        """``v^t``, the scaled residual that the dual updates saw."""
        return _scaled_residual(self.y - self.offset, self.products[t, ...])

    def __repr__(self) -> str:
        n, p = self.n_samples, self.n_features
        intercept = ", intercept" * self.fit_intercept
        return (
            f"<Path of {self.n_iter} iterations: {self.loss!r} + {self.penalty!r} by "
            f"{self.algorithm!r}, n={n}, p={p}{intercept}>"
        )


def run(
    X: Any,
    y: Any,
    loss: Loss,
    penalty: Penalty,
    algorithm: Algorithm = ChambollePock(),
    n_iter: int = 300,
    fit_intercept: bool = False,
    stop: StoppingRule | None = None,
) -> Path:
    """Run an algorithm from zero and keep every iterate.

    Parameters
    ----------
    X : array-like of shape (n, p), or a `steinpath.designs.Design`
        The design matrix. Its array namespace, dtype and device are those of the whole path. It
        is not copied: the risk estimates read it again, so leave it as it is until then.
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
    check_instance("loss", loss, Loss, "sp.LAD()")
    check_instance("penalty", penalty, Penalty, "sp.Lasso(0.5)")
    check_instance("algorithm", algorithm, Algorithm, "sp.ChambollePock()")
    n_iter = check_count("n_iter", n_iter)
    check_flag("fit_intercept", fit_intercept)
    design = as_design(X)
    y = check_response(y, design)
    penalty.check_size(design.shape[1])
    offset, bound_penalty = 0.0, penalty
    if fit_intercept:
        design = InterceptDesign(design)
        offset, bound_penalty = loss.location(y), FreeIntercept(penalty)

    if stop is not None and (isinstance(stop, type) or not hasattr(stop, "judge")):
        raise TypeError(f"stop must be a rule such as sp.StopOnRisk(); got {stop!r:.60}")
    target = y - offset
    with np.errstate(over="ignore", invalid="ignore"):  # each iterate is checked instead
        algorithm, maps = algorithm.bind(design, target, loss, bound_penalty)
    histories = _start(design)
    for horizon in [n_iter] if stop is None else stop.horizons(n_iter):
        with np.errstate(over="ignore", invalid="ignore"):
            _extend(histories, design, target, maps, horizon)
            reached = len(histories[0])
            if reached <= horizon:
                raise DivergenceError(reached, algorithm.why_diverged(design, loss))
        arrays = [namespace(y).stack(history) for history in histories]
        path = Path(y, loss, penalty, algorithm, design, maps, offset, *arrays)
        if stop is not None:
            path, done = stop.judge(path)
            if done:
                break
    return path


Histories = tuple[list[Array], list[Array], list[Array], list[Array]]


def _start(design: Design) -> Histories:
    """Return the histories of b, X b, u and eta, with their first entries."""
    n, p = design.shape
    return [design.zeros(p)], [design.zeros(n)], [design.zeros(n)], [design.zeros(p)]


def _extend(histories: Histories, design: Design, target: Array, maps: Maps, n_iter: int) -> None:
    """Advance the recursion to ``n_iter``, or to before the first iterate that is not finite."""
    xp = namespace(target)
    root_n = math.sqrt(design.shape[0])
    b, products, u, eta = histories
    v = [_scaled_residual(target, product) for product in products]
    for t in range(len(b), n_iter + 1):
        new_u = maps.dual(t, u, v)
        eta.append(design.rmatmat(new_u) / root_n)
        new_b = maps.primal(t, b, eta)
        product = design.matmat(new_b)
        if not (xp.all(xp.isfinite(new_b)) and xp.all(xp.isfinite(product))):
            return
        u.append(new_u)
        b.append(new_b)
        products.append(product)
        v.append(_scaled_residual(target, product))


def _scaled_residual(target: Array, product: Array) -> Array:
    return (target - product) / math.sqrt(target.shape[0])


def rows(array: Array) -> list[Array]:
    """Return the rows of a matrix as a list of views."""
    return [array[i, ...] for i in range(array.shape[0])]
