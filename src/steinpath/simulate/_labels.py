r"""Class labels with known risk: a logistic model with Gaussian features.

A prediction is :math:`z = x^\top b + k`, and the log-odds of the label 1 are
:math:`u = x^\top b^* + k^*`. With Gaussian features :math:`(u, z)` is bivariate normal, and the
risk is the mean of :math:`\sigma(u) \ell(z) + \sigma(-u) \ell(-z)`, where :math:`\ell` is a margin
loss. The integral over :math:`u` given :math:`z` uses a trapezoidal rule; the integral over
:math:`z` uses Gauss–Legendre rules between the discontinuities and kinks of the loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit

from steinpath._support.validation import check_count, check_number, check_rng
from steinpath.problem._scoring import MarginCriterion, TestLoss, resolve_test_loss
from steinpath.simulate._model import Data, LinearModel

# Standard normal values beyond this are negligible.
_RANGE = 9.0
# Break points of the integral: predictions where losses may have kinks, and normal values.
_KINKS = np.array([0.0, *(s * 2.0**k for k in range(8) for s in (-1, 1))])
_GRID = np.linspace(-_RANGE, _RANGE, 13)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
# Maximum number of array elements in a block of the double integral.
_BLOCK = 2_000_000


@dataclass(frozen=True, eq=False)
class LabelModel:
    """Labels -1 and 1 with ``P(y = 1) = 1 / (1 + exp(-x·coef - intercept))`` and Gaussian rows x.

    Parameters
    ----------
    coef : array-like of shape (p,)
        True coefficients.
    covariance : array-like of shape (p, p), optional
        Covariance of the features; the identity by default.
    mean : float or array-like of shape (p,), default=0.0
        Means of the features.
    intercept : float, default=0.0
        True intercept: the log-odds of the label 1 if all features are 0.

    See Also
    --------
    label_model : Create a `LabelModel` with a given number of features.

    Examples
    --------
    >>> import steinpath as sp
    >>> model = sp.simulate.label_model(p=50, intercept=1.5)
    >>> X, y = model.sample(100, rng=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((100, 50), [-1.0, 1.0])
    >>> round(model.share, 3)  # probability of the label 1
    0.715
    >>> round(float(model.risk(model.coef, "zero_one", model.intercept)), 3)
    0.184
    """

    coef: Any
    covariance: Any = None
    mean: Any = 0.0
    intercept: float = 0.0
    #: The model of the log-odds, without noise.
    log_odds: LinearModel = field(init=False, repr=False)

    def __post_init__(self) -> None:
        log_odds = LinearModel(
            self.coef, self.covariance, noise="none", mean=self.mean, intercept=self.intercept
        )
        for name in ("coef", "covariance", "mean"):
            object.__setattr__(self, name, getattr(log_odds, name))
        object.__setattr__(self, "log_odds", log_odds)

    @cached_property
    def share(self) -> float:
        """Probability of the label 1."""
        away, shift = self.log_odds.deviation(np.zeros((1, len(self.coef))))
        spread = np.linalg.norm(away, axis=1)
        return float(_mean_probability(-shift[:, None], spread)[0, 0])

    def sample(self, n: int, rng: Any = None) -> Data:
        """Draw ``n`` observations.

        Parameters
        ----------
        n : int
            Number of observations.
        rng : None, int or numpy.random.Generator
            Seed or random generator.

        Returns
        -------
        Data
            The named tuple ``(X, y)``, with labels -1.0 and 1.0.
        """
        rng = check_rng(rng)
        X, log_odds = self.log_odds.sample(n, rng)
        return Data(X, np.where(rng.random(len(X)) < expit(log_odds), 1.0, -1.0))

    def risk(self, coef: Any, test_loss: TestLoss = "zero_one", intercept: Any = 0.0) -> np.ndarray:
        """Return the exact risk of coefficients, by numerical integration in two dimensions.

        Parameters
        ----------
        coef : array-like of shape (p,) or (T, p)
            One vector of coefficients, or one per row.
        test_loss : str or Loss, default="zero_one"
            Scoring loss: "zero_one", "log", "hinge", "squared_hinge", "brier", or a margin loss.
            Class weights of a loss are normalised to mean 1, as in `steinpath.estimate_risk`.
        intercept : float or array-like of shape (T,), default=0.0
            Intercepts of the predictions.

        Returns
        -------
        ndarray of shape () or (T,)
        """
        criterion = resolve_test_loss(test_loss)
        if not isinstance(criterion, MarginCriterion):
            raise ValueError(
                "test_loss must be one of 'zero_one', 'log', 'hinge', 'squared_hinge', 'brier', or "
                f"a margin loss; got {test_loss!r:.60}"
            )
        values, constants, single = self.log_odds.check_predictions(coef, intercept)
        center, root = values @ self.mean + constants, self.log_odds.root
        own, true = values @ root, root @ self.coef
        spread = np.linalg.norm(own, axis=1)
        # log-odds = level + along * g + across * another standard normal; prediction = center +
        # spread * g
        divisor = np.where(spread > 0, spread, 1.0)
        along = (own @ true) / divisor
        across = np.linalg.norm(true - along[:, None] * own / divisor[:, None], axis=1)
        level = self.intercept + self.mean @ self.coef
        g, weights = _rule(center, spread)
        low = _mean_probability(-level - along[:, None] * g, across)  # of the label -1
        z = center[:, None] + spread[:, None] * g
        ones = np.ones_like(z)
        losses = (1 - low) * criterion(ones, z) + low * criterion(-ones, z)
        less, more = criterion.class_weight or (1.0, 1.0)
        risk = np.sum(weights * losses, axis=1) / (less + (more - less) * self.share)
        return np.asarray(risk[0] if single else risk)


def _rule(center: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights for expectations over a standard normal g, row by row."""
    # losses of center + spread * g are smooth between break points
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        kinks = (_KINKS - center[:, None]) / spread[:, None]
    kinks = np.clip(np.nan_to_num(kinks), -_RANGE, _RANGE)
    grid = np.broadcast_to(_GRID, (len(center), len(_GRID)))
    edges = np.sort(np.concatenate([grid, kinks], axis=1), axis=1)
    half = np.diff(edges, axis=1)[:, :, None] / 2
    middle = (edges[:, 1:] + edges[:, :-1])[:, :, None] / 2
    shape = (len(center), -1)
    g = (middle + half * _NODES).reshape(shape)
    return g, (half * _WEIGHTS).reshape(shape) * _normal_density(g)


def _normal_density(g: np.ndarray) -> np.ndarray:
    # scipy.stats is slow to import
    return np.asarray(np.exp(-(g**2) / 2) / math.sqrt(2 * math.pi))


def _mean_probability(level: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Return means of ``1 / (1 + exp(-level - spread * h))`` over a standard normal h, by row."""
    means = np.empty_like(level)
    # the trapezoidal rule is exact to rounding if its step is small compared with the distance of
    # the poles from the real line, π / spread
    step = min(0.5, 0.6 / max(float(spread.max()), 1e-300))
    count = math.ceil(_RANGE / step)
    h = step * np.arange(-count, count + 1)
    weights = step * _normal_density(h)
    rows = max(1, _BLOCK // (level.shape[1] * len(h)))
    for start in range(0, len(level), rows):
        part = slice(start, start + rows)
        values = expit(level[part, :, None] + spread[part, None, None] * h)
        means[part] = values @ weights
    return means


def label_model(
    p: int = 1000,
    intercept: float = 0.0,
    strength: float = 4.0,
    informative: int = 20,
    **changes: Any,
) -> LabelModel:
    """Return a `LabelModel` with few informative features.

    Parameters
    ----------
    p : int, default=1000
        Number of features.
    intercept : float, default=0.0
        True intercept. With the default signal strength, the label 1 has probability 1/2 for
        intercept 0 and 0.72 for intercept 1.5.
    strength : float, default=4.0
        Signal strength: the variance ``bᵀΣb`` of the log-odds.
    informative : int, default=20
        Number of nonzero coefficients. They come first and are equal.
    **changes
        Other parameters of `LabelModel`, such as ``covariance=sp.simulate.toeplitz(p)``.
    """
    p, informative = check_count("p", p), check_count("informative", informative)
    check_number("strength", strength, low=0)
    coef = np.zeros(p)
    coef[:informative] = 1.0
    covariance = changes.get("covariance")
    square = coef @ (coef if covariance is None else np.asarray(covariance, dtype=float) @ coef)
    coef *= math.sqrt(strength / square)
    return LabelModel(**{"coef": coef, "intercept": intercept, **changes})
