"""Estimates of the out-of-sample risk of every iterate."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from steinpath._arrays import Array, namespace
from steinpath._validation import (
    check_choice,
    check_count,
    check_flag,
    check_instance,
    check_number,
    check_rng,
)
from steinpath.baselines import cross_validate, leave_one_out
from steinpath.compression import CompressedCorrections, Compression, spectral_corrections
from steinpath.corrections import (
    compute_matrices,
    row_squares_of,
    second_moments,
)
from steinpath.path import Path
from steinpath.reduction import has_spectrum
from steinpath.scoring import (
    Criterion,
    PerObservation,
    TestLoss,
    observation_losses,
    resolve_test_loss,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: How the corrections can be computed.
METHODS = ("compressed", "spectral", "exact", "hutchinson", "loo", "folds")

# Probes are not added beyond this many times the first ones.
_MOST_PROBES = 16
# Random vectors of Hutchinson's method, and folds of cross-validation.
_HUTCHINSON, _FOLDS = 5, 10
# Iterates that are scored at a time.
_BLOCK = 16


@dataclass(frozen=True, eq=False)
class Risk:
    """Estimated risk of every iterate. Made by `estimate_risk`.

    Attributes
    ----------
    values : Array of shape (n_iter + 1,)
        Estimated risk of ``b^t``.
    train : Array of shape (n_iter + 1,)
        Training error with the same test loss.
    stderr : Array of shape (n_iter + 1,)
        Sampling standard error of `values`.
    probe_stderr : Array of shape (n_iter + 1,)
        Standard error of `values` from the random probes alone: zero where there are none,
        infinite (unknown) for a single one.
    corrected : Array of shape (n_iter + 1, n)
        Corrected fitted values, computed when asked for. The risk for another test loss is
        ``loss(y, risk.corrected[t]).mean()``.
    best_iter : int
        Iterate with the smallest estimated risk.
    test_loss : str
        Name of the test loss.
    method : str
        How the corrections were computed.
    n_probes : int
        Number of random probes.
    covariance_known : bool
        Whether this is the paper's R̃ (True) or R̂.
    centered : bool
        Whether the loss of the zero prediction was subtracted.
    """

    values: Array
    train: Array
    stderr: Array
    probe_stderr: Array
    test_loss: str
    method: str
    n_probes: int
    covariance_known: bool
    centered: bool
    criterion: PerObservation = field(repr=False)
    source: Predictions = field(repr=False)

    @cached_property
    def corrected(self) -> Array:
        """Corrected fitted values."""
        return self.source.of(slice(0, self.values.shape[0]))

    @property
    def best_iter(self) -> int:
        """Iterate with the smallest estimated risk."""
        return int(namespace(self.values).argmin(self.values))

    def compare(self, t1: int, t2: int) -> tuple[float, float]:
        """Return the estimated risk of iterate ``t1`` less that of ``t2``, and its standard error.

        The error is that of the mean difference over the observations, which is much smaller
        than those of the two risks, and of the random probes.

        Parameters
        ----------
        t1, t2 : int
            Iterates.
        """
        last = self.values.shape[0] - 1
        t1, t2 = (check_count(name, t, low=0, high=last) for name, t in (("t1", t1), ("t2", t2)))
        y, xp = self.source.path.y, namespace(self.values)
        n = y.shape[0]
        with np.errstate(over="ignore", invalid="ignore"):
            first, second = (
                observation_losses(self.criterion, y, self.source.of(slice(t, t + 1)))
                for t in (t1, t2)
            )
            spread = xp.std(first - second, correction=1.0) if n > 1 else math.inf
            errors = spread / math.sqrt(n), self.probe_stderr[t1], self.probe_stderr[t2]
            difference = float(self.values[t1] - self.values[t2])
        return difference, math.hypot(*map(float, errors))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw training error and estimated risk against the iteration.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from steinpath.plots import plot_risk

        return plot_risk(self, ax)

    def __repr__(self) -> str:
        best = self.best_iter
        return (
            f"<Risk ({self.test_loss}, {self.method}) of {self.values.shape[0]} iterates: best is "
            f"{best} with {float(self.values[best]):.4g} ± {float(self.stderr[best]):.2g}>"
        )


def estimate_risk(
    path: Path,
    test_loss: TestLoss = None,
    covariance: Any = None,
    method: str = "auto",
    row_scale: Any = None,
    *,
    rng: Any = None,
    n_probes: int | None = None,
    probe_tol: float | None = None,
    precision: str = "float32",
    centered: bool = False,
) -> Risk:
    """Estimate the out-of-sample risk of every iterate of a path, from the path alone.

    Each fitted value is corrected by a weighted combination of past dual iterates, so that it is
    close to what the iterate would predict had the observation been left out. The risk is the
    mean test loss at the corrected values.

    Parameters
    ----------
    path : Path
        What `run` returned.
    test_loss : None, str, Loss or callable, default=None
        What a prediction costs. None is the loss's own: absolute for LAD, squared for the square
        root and squared losses, and so on. A name: "absolute", "squared", "huber",
        "pseudo_huber", "epsilon_insensitive", "quantile", with the parameter of the path's loss
        if that is of the same kind and the loss class's default otherwise. A loss such as
        ``sp.Quantile(0.8)`` brings its own. A callable gets ``(y, prediction)`` and
        returns one number per observation.
    covariance : array-like of shape (p, p), optional
        Covariance of the rows of X. Given, the estimate is the paper's R̃; otherwise R̂.
    method : str, default="auto"
        How the corrections are computed:

        - "compressed": compressed in time, with random probes, at the cost of one to three runs.
        - "spectral": by the singular values of X, without probes, for the square-root or squared
          loss with an isotropic penalty; leaves out terms of relative order ``1 / p``.
        - "exact": the paper's traces, by basis vectors. Small problems only.
        - "hutchinson": the paper's traces, by random vectors.
        - "loo": no estimate, but leave-one-out itself, at n columns.
        - "folds": ten-fold cross-validation with Burman's correction of its bias.
        - "auto": "loo" for a few hundred observations or less, "spectral" where it applies and is
          cheaper, else "compressed"; with a covariance, "exact" where it takes no longer.
    row_scale : None, "norm" or array-like of shape (n,)
        Sizes of rows that are unequal, as in elliptical designs: the correction of row ``i`` is
        multiplied by its squared size, relative to the mean. None is the paper's estimator.
        "loo" and "folds" need no such help.
    rng : None, int or numpy.random.Generator
        Randomness of the probes, or of the folds.
    n_probes : int, optional
        Random probes to begin with: tangent columns of "compressed" (16, or 24 where they are
        cheap), vectors of "hutchinson" (5).
    probe_tol : float, optional
        How large the noise of the probes may be near the minimum: as root mean square over the
        iterates from half to twice the best one. "compressed" adds probes until it is no larger,
        up to 16 times as many as at first, and warns if that is not enough. A quarter of the
        sampling standard error at the minimum by default.
    precision : {"float32", "float64"}, default="float32"
        Precision of the tangents of "compressed"; the path and all else stay in their own.
    centered : bool, default=False
        Subtract the loss of the prediction 0 from every observation's. Minimum and differences
        stay the same; standard errors are much smaller under heavy-tailed noise.

    Returns
    -------
    Risk

    Examples
    --------
    >>> import numpy as np
    >>> import steinpath as sp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 100))
    >>> y = X[:, :5].sum(axis=1) + rng.standard_t(2, size=200)
    >>> path = sp.run(X, y, sp.LAD(), sp.Lasso(0.5), n_iter=40)
    >>> risk = sp.estimate_risk(path)
    >>> bool(risk.values[risk.best_iter] < risk.values[-1])
    True
    """
    check_instance("path", path, Path, "sp.run(X, y, loss, penalty)")
    check_choice("method", method, ("auto", *METHODS))
    check_choice("precision", precision, ("float32", "float64"))
    check_flag("centered", centered)
    if n_probes is not None:
        n_probes = check_count("n_probes", n_probes)
    if probe_tol is not None:
        check_number("probe_tol", probe_tol, low=0, open_low=True)
    problem = _Problem(
        path,
        resolve_test_loss(test_loss, path.loss),
        centered,
        None if covariance is None else second_moments(path, covariance),
        row_squares_of(path, row_scale),
        check_rng(rng),
    )
    if method == "auto":
        method = _cheapest(path, covariance is not None)
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
        if method == "compressed":
            found = _by_compression(problem, n_probes, probe_tol, precision)
        elif method == "spectral":
            found = _by_spectrum(problem)
        elif method in ("loo", "folds"):
            found = _by_leaving_out(problem, method)
        else:
            found = _by_matrices(problem, method, n_probes or _HUTCHINSON)
        train = _score(problem, Fitted(path)).values
    return Risk(
        values=found.score.values,
        train=train,
        stderr=found.score.stderr,
        probe_stderr=found.score.probe_stderr,
        test_loss=_name(problem.criterion),
        method=method,
        n_probes=found.n_probes,
        covariance_known=covariance is not None,
        centered=centered,
        criterion=problem.criterion,
        source=found.source,
    )


def _cheapest(path: Path, covariance_known: bool) -> str:
    """Choose a method by its number of operations, at rates measured on two cores."""
    n, p = path.n_samples, path.n_features
    N = path.n_iter
    # all else being equal, an iteration of "compressed" has a fixed cost of about 0.5 ms
    compressed = N * (5e-4 + 64e-11 * n * p)
    if covariance_known:
        if 2e-11 * n * p * (p + min(n, p)) * N**2 < compressed:
            return "exact"
    elif path.maps.structured and N * (2e-4 + 6e-11 * n * n * p) < compressed:
        return "loo"
    small = min(n, p)
    rank_one = path.loss.name == "square_root"  # which "spectral" leaves out
    spectral = 1e-10 * small**3 + 2e-11 * n * p * small + 2e-4 * N
    if has_spectrum(path) and (small >= 100 or not rank_one) and spectral < compressed:
        return "spectral"
    return "compressed"


# ------------------------------------------------------------------------------------------------
# Corrected predictions and their scores
# ------------------------------------------------------------------------------------------------


class _Problem(NamedTuple):
    """What is to be estimated, checked."""

    path: Path
    criterion: PerObservation
    centered: bool
    moments: Array | None
    row_squares: Array | None
    rng: np.random.Generator


@dataclass(frozen=True, eq=False)
class Fitted:
    """Fitted values as they are: predictions that give the training error."""

    path: Path

    def of(self, t: slice) -> Array:
        """Predictions of some iterates, of shape (iterates, n)."""
        return self.path.fitted[t, :]


@dataclass(frozen=True, eq=False)
class Given(Fitted):
    """Predictions that were computed before."""

    predictions: Array

    def of(self, t: slice) -> Array:
        return self.predictions[t, :]


@dataclass(frozen=True, eq=False)
class Compressed(Fitted):
    """Fitted values corrected in few directions, and what is known of the noise there."""

    corrections: CompressedCorrections

    def of(self, t: slice) -> Array:
        return self.path.fitted[t, :] - self.corrections.shift(t)


Predictions = Fitted | Given | Compressed


class _Score(NamedTuple):
    values: Array
    stderr: Array
    probe_stderr: Array


class _Found(NamedTuple):
    source: Predictions
    score: _Score
    n_probes: int = 0


def _score(problem: _Problem, source: Predictions) -> _Score:
    """Mean test loss of each iterate's predictions, its standard error and its probe noise."""
    path, criterion = problem.path, problem.criterion
    y, n, xp = path.y, path.n_samples, namespace(path.y)
    baseline = 0.0
    if problem.centered:
        baseline = observation_losses(criterion, y, xp.zeros_like(y[None, :]))
    T = path.n_iter + 1
    pieces = []
    for start in range(0, T, _BLOCK):
        block = slice(start, min(start + _BLOCK, T))
        predictions = source.of(block)
        if not xp.all(xp.isfinite(predictions)):
            raise FloatingPointError(
                "the corrections are not finite: the linearised algorithm diverges where the "
                "algorithm itself does not; use smaller step sizes, or None for safe ones"
            )
        losses = observation_losses(criterion, y, predictions) - baseline
        values = xp.mean(losses, axis=1)
        spread = xp.std(losses, axis=1, correction=1.0) if n > 1 else 0 * values + math.inf
        if isinstance(source, Compressed):
            noise = _noise(criterion, y, predictions, source.corrections, block)
        else:
            noise = 0 * values
        pieces.append((values, spread / math.sqrt(n), noise))
    return _Score(*(xp.concat(parts) for parts in zip(*pieces, strict=True)))


def _noise(
    criterion: Any, y: Array, predictions: Array, corrections: CompressedCorrections, block: slice
) -> Array:
    """Return the standard errors of mean losses, errors of the directions being independent."""
    xp = namespace(y)
    error = corrections.noise(block)
    # differences over the errors themselves, so that kinks and jumps of the loss are seen
    change = observation_losses(criterion, y, predictions + error)
    change = change - observation_losses(criterion, y, predictions - error)
    slopes = xp.where(error > 0, change / xp.where(error > 0, 2 * error, 1 + error), 0 * error)
    slopes = slopes @ corrections.directions / y.shape[0]
    return xp.sqrt(xp.sum(slopes**2 * corrections.variances[block, :], axis=1))


# ------------------------------------------------------------------------------------------------
# Methods
# ------------------------------------------------------------------------------------------------


def _by_compression(
    problem: _Problem, n_probes: int | None, probe_tol: float | None, precision: str
) -> _Found:
    path, xp = problem.path, namespace(problem.path.y)
    compression = Compression(
        path,
        problem.moments,
        problem.row_squares,
        n_probes,
        problem.rng,
        getattr(xp, precision),
    )
    most = _MOST_PROBES * compression.n_probes
    while True:
        source = Compressed(path, compression.corrections())
        score = _score(problem, source)
        best = int(xp.argmin(score.values))
        near = slice(best // 2, min(2 * best, path.n_iter) + 1)
        noise = math.sqrt(float(xp.mean(score.probe_stderr[near] ** 2)))
        tol = float(score.stderr[best]) / 4 if probe_tol is None else probe_tol
        if noise <= tol or compression.n_probes >= most:
            break
        wanted = 1.2 * compression.n_probes * (noise / tol) ** 2
        compression.draw(math.ceil(min(wanted, most)))
    if noise > tol:
        warnings.warn(
            f"the noise of {compression.n_probes} random probes is {noise:.2g} near the minimum, "
            f"above probe_tol = {tol:.2g}; start with more n_probes, or accept a larger probe_tol",
            stacklevel=3,
        )
    return _Found(source, score, compression.n_probes)


def _by_spectrum(problem: _Problem) -> _Found:
    path = problem.path
    if not has_spectrum(path):
        raise ValueError(
            "method 'spectral' needs the square-root or squared loss and a penalty that treats "
            f"all coefficients alike, such as Ridge; this is {path.loss!r} + {path.penalty!r} by "
            f"{path.algorithm!r}; use 'compressed'"
        )
    corrections = spectral_corrections(path, problem.moments, problem.row_squares, problem.rng)
    source = Compressed(path, corrections)
    return _Found(source, _score(problem, source))


def _by_leaving_out(problem: _Problem, method: str) -> _Found:
    path = problem.path
    if problem.moments is not None:
        raise ValueError(f"method {method!r} has no use for a covariance; leave it out")
    if method == "loo":
        source = Given(path, leave_one_out(path))
        return _Found(source, _score(problem, source))
    n = path.n_samples
    if n < 2:
        raise ValueError("method 'folds' needs two observations at least")
    if not path.maps.structured:
        raise ValueError("method 'folds' is not available for a Recursion; use 'loo'")
    found = cross_validate(path, problem.criterion, min(_FOLDS, n), problem.rng)
    source = Given(path, found.predictions)
    score = _score(problem, source)
    return _Found(source, score._replace(values=score.values + found.optimism))


def _by_matrices(problem: _Problem, method: str, n_probes: int) -> _Found:
    path, xp = problem.path, namespace(problem.path.y)
    matrices = compute_matrices(
        path,
        problem.moments,
        method,
        n_probes,
        problem.row_squares,
        problem.rng,
        with_K=problem.moments is None,
    )
    source = Given(path, matrices.corrected(path))
    score = _score(problem, source)
    if method == "exact":
        return _Found(source, score)
    # the jackknife: how much the estimate moves when a probe is left out
    if n_probes == 1:
        return _Found(source, score._replace(probe_stderr=score.values * 0 + math.inf), 1)
    without = [
        _score(problem, Given(path, matrices.corrected(path, skip=k))).values
        for k in range(n_probes)
    ]
    noise = xp.std(xp.stack(without), axis=0) * math.sqrt(n_probes - 1)
    return _Found(source, score._replace(probe_stderr=noise), n_probes)


def _name(criterion: Any) -> str:
    if isinstance(criterion, Criterion):
        return criterion.name
    return getattr(criterion, "__name__", type(criterion).__name__)
