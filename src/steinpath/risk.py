"""Estimates of the out-of-sample risk of every iterate."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from steinpath._arrays import Array, namespace
from steinpath._validation import check_choice, check_flag, check_instance
from steinpath.corrections import METHODS, CorrectionMatrices, compute_matrices
from steinpath.path import Path
from steinpath.scoring import Criterion, TestLoss, observation_losses, resolve_test_loss

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# "auto" takes the exact traces while they cost no more than this many operations: about a second.
_EXACT_OPERATIONS = 5e10


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
        Standard error of `values` from the random probes alone: zero for exact traces, infinite
        (unknown) for a single probe.
    corrected : Array of shape (n_iter + 1, n)
        Corrected fitted values. The risk for another test loss, without computing them again, is
        ``loss(y, risk.corrected[t]).mean()``.
    best_iter : int
        Iterate with the smallest estimated risk.
    test_loss : str
        Name of the test loss.
    method : str
        How the corrections were computed.
    covariance_known : bool
        Whether this is the paper's R̃ (True) or R̂.
    centered : bool
        Whether the loss of the zero prediction was subtracted.
    """

    values: Array
    train: Array
    stderr: Array
    probe_stderr: Array
    corrected: Array = field(repr=False)
    test_loss: str
    method: str
    covariance_known: bool
    centered: bool

    @property
    def best_iter(self) -> int:
        """Iterate with the smallest estimated risk."""
        return int(namespace(self.values).argmin(self.values))

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
    n_probes: int = 5,
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
    method : {"auto", "exact", "hutchinson"}, default="auto"
        How the traces are computed; "auto" is exact up to 5e10 operations, at
        ``2 n p (p + min(n, p)) n_iter²``: about a second.
    row_scale : None, "norm" or array-like of shape (n,)
        Sizes of rows that are unequal, as in elliptical designs: the correction of row ``i`` is
        multiplied by its squared size, relative to the mean. None is the paper's estimator.
    rng : None, int or numpy.random.Generator
        Randomness of the probes.
    n_probes : int, default=5
        Random vectors of Hutchinson's method.
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
    check_flag("centered", centered)
    criterion = resolve_test_loss(test_loss, path.loss)
    if method == "auto":
        method = "exact" if _exact_operations(path) <= _EXACT_OPERATIONS else "hutchinson"
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked instead
        matrices = compute_matrices(
            path, covariance, method, n_probes, row_scale, rng, with_K=covariance is None
        )
        corrected = matrices.corrected(path)
        xp = namespace(corrected)
        if not xp.all(xp.isfinite(corrected)):
            raise FloatingPointError(
                "the corrections are not finite: the linearised algorithm diverges where the "
                "algorithm itself does not; use smaller step sizes, or None for safe ones"
            )
        values, stderr = _means(path, criterion, corrected, centered)
        train, _ = _means(path, criterion, path.fitted, centered)
        probe_stderr = _probe_stderr(path, criterion, matrices, method)
    return Risk(
        values=values,
        train=train,
        stderr=stderr,
        probe_stderr=probe_stderr,
        corrected=corrected,
        test_loss=_name(criterion),
        method=method,
        covariance_known=covariance is not None,
        centered=centered,
    )


def _exact_operations(path: Path) -> float:
    n, p = path.n_samples, path.n_features
    return 2.0 * n * p * (p + min(n, p)) * path.n_iter**2


def _means(path: Path, criterion: Any, predictions: Array, centered: bool) -> tuple[Array, Array]:
    """Mean test loss of each row of predictions, and its standard error."""
    xp = namespace(path.y)
    n = path.n_samples
    baseline = observation_losses(criterion, path.y, xp.zeros_like(path.y)) if centered else 0.0
    means, errors = [], []
    for t in range(predictions.shape[0]):
        losses = observation_losses(criterion, path.y, predictions[t, :]) - baseline
        means.append(xp.mean(losses))
        spread = xp.std(losses, correction=1.0) if n > 1 else means[-1] * 0 + math.inf
        errors.append(spread / math.sqrt(n))
    return xp.stack(means), xp.stack(errors)


def _probe_stderr(path: Path, criterion: Any, matrices: CorrectionMatrices, method: str) -> Array:
    """Jackknife over the probes: how much the estimate moves when each is left out."""
    xp = namespace(path.y)
    if method == "exact":
        return path.design.zeros(path.n_iter + 1)
    m = matrices.A.shape[0]
    if m == 1:
        return path.design.zeros(path.n_iter + 1) + math.inf
    without = [
        _means(path, criterion, matrices.corrected(path, skip=k), False)[0] for k in range(m)
    ]
    return xp.std(xp.stack(without), axis=0) * math.sqrt(m - 1)


def _name(criterion: Any) -> str:
    if isinstance(criterion, Criterion):
        return criterion.name
    return getattr(criterion, "__name__", type(criterion).__name__)
