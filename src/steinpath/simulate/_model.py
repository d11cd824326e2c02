r"""Linear models with known risk: the paper's designs, signals and noise distributions.

A `LinearModel` draws data and computes the exact risk of any coefficients. The error of a
prediction at a new observation is :math:`V = \varepsilon - x^\top d - k` with :math:`d = b - b^*`
and a constant :math:`k`. Its characteristic function is known, so the risk is a one-dimensional
integral for all designs, noise distributions and scoring losses
(`steinpath.simulate._transforms`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import array_api_compat
import numpy as np
from scipy import linalg

from steinpath._support.arrays import Array, like, namespace, to_numpy
from steinpath._support.validation import (
    check_array,
    check_count,
    check_covariance,
    check_number,
    check_rng,
    read_array,
)
from steinpath.problem._scoring import Criterion, TestLoss, resolve_test_loss
from steinpath.simulate._transforms import DESIGNS, KERNELS, Factor, Transform, expectation, student


def _student_df(name: str) -> float | None:
    """Return the degrees of freedom in a name such as "t4", or None for any other name."""
    match = re.fullmatch(r"t(\d+(\.\d+)?)", name)
    return float(match[1]) if match else None


def _check_law(kind: str, name: Any, others: Collection[str], *, above: int, moment: str) -> None:
    """Raise ValueError unless ``name`` is Student's t or in ``others``, which start with normal."""
    normal, *_ = others
    df = _student_df(name) if isinstance(name, str) else None
    if df is None and not (isinstance(name, str) and name in others):
        known = ", ".join(repr(other) for other in others)
        raise ValueError(
            f"{kind} must be one of {known}, or 't' followed by the degrees of freedom, such as "
            f"'t4'; got {name!r}"
        )
    if df is not None and not above < df <= 30:
        raise ValueError(
            f"{kind} {name!r}: degrees of freedom must be greater than {above}, so that the "
            f"{moment} exists, and at most 30; use {normal!r} for larger values"
        )


# Noise


@dataclass(frozen=True)
class Noise:
    """A symmetric noise distribution.

    Parameters
    ----------
    name : str
        "normal", "laplace", "none", or "t" followed by the degrees of freedom, such as "t2".
    scale : float, default=1.0
        Scale factor; 1 for standard normal, Student's t, and Laplace with ``exp(-|x|) / 2``.
    """

    name: str
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_number("scale", self.scale, low=0)
        _check_law("noise", self.name, ("normal", "laplace", "none"), above=1, moment="mean")

    @property
    def _df(self) -> float | None:
        return _student_df(self.name)

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Draw ``size`` values."""
        if self._df is not None:
            return self.scale * rng.standard_t(self._df, size)
        if self.name == "none":
            return np.zeros(size)
        draw = rng.standard_normal if self.name == "normal" else rng.laplace
        return self.scale * draw(size=size)

    @property
    def variance(self) -> float:
        """Variance; may be infinite."""
        unit = {"normal": 1.0, "laplace": 2.0, "none": 0.0}.get(self.name, math.inf)
        if self._df is not None and self._df > 2:
            unit = self._df / (self._df - 2)
        return self.scale**2 * unit if self.scale else 0.0

    def transform(self, s: np.ndarray) -> Factor:
        """Return the characteristic function, which is real by symmetry."""
        if self._df is not None:
            return student(self.scale, self._df)(s)
        x, square = s * self.scale, self.scale**2
        if self.name == "none":
            return Factor(1 + 0 * x, 0 * x)
        if self.name == "normal":
            phi = np.exp(-x * x / 2)
            return Factor(phi, square * phi)
        phi = 1 / (1 + x * x)
        return Factor(phi, 2 * square * phi * phi)


# Designs and signals


def toeplitz(p: int, correlation: float = 0.5) -> np.ndarray:
    """Return the covariance matrix with entries ``correlation ** |j - k|``."""
    check_number("correlation", correlation, low=-1, high=1, open_low=True, open_high=True)
    return linalg.toeplitz(correlation ** np.arange(check_count("p", p)))


def sparse_signal(covariance: np.ndarray, strength: float = 2.0) -> np.ndarray:
    """Return coefficients b with an equal first tenth, zeros otherwise, and ``bᵀΣb = strength``."""
    check_number("strength", strength, low=0)
    p = len(covariance)
    coef = np.zeros(p)
    coef[: max(1, p // 10)] = 1.0
    return coef * math.sqrt(strength / (coef @ covariance @ coef))


class Data(NamedTuple):
    """A design matrix and responses."""

    X: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class PredictionErrors:
    """Distribution of ``ε - a·z - k``, with the noise ε and the design's z; see `LinearModel`."""

    noise: Noise
    design: str

    def reduce(self, spread: Array) -> Array:
        """Return rows ``a`` with the same risk and as few entries as possible."""
        if self.design == "uniform":
            return spread
        return namespace(spread).linalg.vector_norm(spread, axis=-1, keepdims=True)

    def risk(self, spread: np.ndarray, shift: np.ndarray, criterion: Criterion) -> np.ndarray:
        """Return the risk for rows ``a`` and constants ``k``; may be infinite."""
        risk = self.comparable(spread, shift, criterion)
        return risk + self.noise.variance if criterion.quadratic else risk

    def comparable(self, spread: np.ndarray, shift: np.ndarray, criterion: Criterion) -> np.ndarray:
        """Return the risk, for squared error without the noise variance, which may be infinite."""
        noise, square = self.noise, np.sum(spread**2, axis=1)
        if criterion.quadratic:
            return np.asarray(square + shift**2)
        random = np.sqrt(square) + noise.scale * (noise.name != "none")
        result = np.array(criterion(-shift, 0 * shift))
        left = random > 1e-12 * np.abs(shift)  # the other rows are constants
        if np.any(left):
            features = self._features(spread[left])
            result[left] = expectation(
                KERNELS[criterion.name](criterion.parameter),
                lambda s: noise.transform(s).times(features(s)),
                shift[left],
                sizes=random[left] + np.abs(shift[left]),
            )
        return result

    def _features(self, spread: np.ndarray) -> Transform:
        """Return the transform of ``spread·z``, row by row."""
        df = _student_df(self.design)
        if df is None:
            return DESIGNS[self.design](spread)
        # Student's t has variance df / (df - 2), and z has variance 1
        return student(np.sqrt(np.sum(spread**2, axis=1) * (df - 2) / df), df)


@dataclass(frozen=True, eq=False)
class LinearModel:
    """``y = intercept + x·coef + noise``, with rows ``x = mean + Σ^½ z`` of covariance Σ.

    Parameters
    ----------
    coef : array-like of shape (p,)
        True coefficients.
    covariance : array-like of shape (p, p), optional
        Σ; the identity by default.
    noise : str or Noise, default="normal"
        Noise distribution: "normal", "laplace", "none", or Student's t such as "t2"; see `Noise`.
    design : str, default="gaussian"
        Distribution of ``z``, whose entries have mean 0 and variance 1: independent for "gaussian"
        and "uniform"; or "t" followed by the degrees of freedom, greater than 2 and at most 30, for
        a standard normal vector times a random scale per row with square ``(df - 2) / χ²_df``.
    mean : float or array-like of shape (p,), default=0.0
        Means of the features.
    intercept : float, default=0.0
        True intercept.

    Examples
    --------
    >>> import steinpath as sp
    >>> model = sp.simulate.paper_model(p=50, noise="t2")
    >>> X, y = model.sample(100, rng=0)
    >>> X.shape, y.shape
    ((100, 50), (100,))
    >>> round(float(model.risk(model.coef, "absolute")), 6)  # E|t₂| = √2
    1.414214
    """

    coef: Any
    covariance: Any = None
    noise: Any = "normal"
    design: str = "gaussian"
    mean: Any = 0.0
    intercept: float = 0.0

    def __post_init__(self) -> None:
        # copy, because the caller's arrays may change
        coef = np.array(to_numpy(check_array("coef", self.coef, ndim=1)), dtype=float)
        p = len(coef)
        covariance = np.eye(p) if self.covariance is None else self.covariance
        shape = np.shape(self.mean)
        if shape not in ((), (p,)):
            raise ValueError(
                f"mean must be a number or have shape ({p},), one per feature; got shape {shape}"
            )
        mean = np.broadcast_to(to_numpy(read_array("mean", self.mean)), (p,))
        _check_law("design", self.design, DESIGNS, above=2, moment="covariance")
        check_number("intercept", self.intercept)
        noise = self.noise if isinstance(self.noise, Noise) else Noise(self.noise)
        object.__setattr__(self, "coef", coef)
        object.__setattr__(self, "covariance", np.array(check_covariance(covariance, p, coef)))
        object.__setattr__(self, "mean", np.array(check_array("mean", mean, ndim=1), dtype=float))
        object.__setattr__(self, "noise", noise)

    @cached_property
    def root(self) -> np.ndarray:
        """Symmetric square root of the covariance."""
        values, vectors = np.linalg.eigh(self.covariance)
        return np.asarray((vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T)

    def under(self, *, noise: str | Noise, design: str) -> LinearModel:
        """Return the same model with another noise and design, without validating it again."""
        _check_law("design", design, DESIGNS, above=2, moment="covariance")
        noise = noise if isinstance(noise, Noise) else Noise(noise)
        other = copy(self)
        # dataclass fields and cached properties are stored in __dict__
        other.__dict__.update(root=self.root, _roots=self._roots, noise=noise, design=design)
        return other

    @cached_property
    def _roots(self) -> dict[Any, Array]:
        return {}

    def root_like(self, reference: Array) -> Array:
        """Return `root` as an array of the namespace, dtype and device of ``reference``."""
        if isinstance(reference, np.ndarray):
            return self.root
        key = type(reference), reference.dtype, array_api_compat.device(reference)
        if key not in self._roots:
            self._roots[key] = like(self.root, reference)
        return self._roots[key]

    def sample(self, n: int, rng: Any = None, like_this: Array | None = None) -> Data:
        """Draw ``n`` observations.

        Parameters
        ----------
        n : int
            Number of observations.
        rng : None, int or numpy.random.Generator
            Seed or random generator.
        like_this : Array, optional
            Return arrays with the namespace, dtype and device of this array, and compute there.
            The random numbers are the same.

        Returns
        -------
        Data
            The named tuple ``(X, y)``.
        """
        n = check_count("n", n)
        rng = check_rng(rng)
        shape = (n, len(self.coef))
        if self.design == "uniform":
            z = rng.uniform(-math.sqrt(3), math.sqrt(3), shape)
        else:
            z = rng.standard_normal(shape)
        df = _student_df(self.design)
        if df is not None:
            z *= np.sqrt((df - 2) / rng.chisquare(df, (n, 1)))
        noise = self.noise.sample(n, rng)
        reference = z if like_this is None else like_this
        z, mean, coef, noise = (like(a, reference) for a in (z, self.mean, self.coef, noise))
        X = mean + z @ self.root_like(reference)
        return Data(X, self.intercept + X @ coef + noise)

    def risk(
        self,
        coef: Any,
        test_loss: TestLoss = "squared",
        intercept: Any = 0.0,
        *,
        centered: bool = False,
    ) -> np.ndarray:
        """Return the exact risk of coefficients, by numerical integration in one dimension.

        Parameters
        ----------
        coef : array-like of shape (p,) or (T, p)
            One vector of coefficients, or one per row.
        test_loss : str or Loss, default="squared"
            Scoring loss, as in `steinpath.estimate_risk`, except callables.
        intercept : float or array-like of shape (T,), default=0.0
            Intercepts of the predictions.
        centered : bool, default=False
            Whether to subtract the risk of the prediction 0.

        Returns
        -------
        ndarray of shape () or (T,)
            Infinite if the scoring loss has infinite expectation.
        """
        criterion = resolve_test_loss(test_loss)
        if not isinstance(criterion, Criterion):
            raise TypeError("test_loss must be a name or a Loss; exact risks require a formula")
        if criterion.margin:
            raise ValueError(
                f"test_loss={criterion.name!r} is for class labels, but a linear model has numeric "
                "responses"
            )
        values, intercepts, single = self.check_predictions(coef, intercept)
        errors = self.errors.comparable if centered else self.errors.risk
        result = errors(*self.deviation(values, intercepts), criterion)
        if centered:
            result = result - errors(*self.deviation(0 * values[:1], np.zeros(1)), criterion)
        return result[0] if single else result

    def check_predictions(self, coef: Any, intercept: Any) -> tuple[np.ndarray, np.ndarray, bool]:
        """Return coefficients of shape (T, p), T intercepts, and whether there was one vector."""
        values = to_numpy(read_array("coef", coef))
        single = values.ndim == 1
        values = check_array("coef", np.atleast_2d(values), ndim=2)
        if values.shape[1] != len(self.coef):
            raise ValueError(
                f"coef must have {len(self.coef)} coefficients per row, one per feature of the "
                f"model; got {values.shape[1]}"
            )
        try:
            constants = np.broadcast_to(to_numpy(read_array("intercept", intercept)), len(values))
        except ValueError:
            raise ValueError(
                f"intercept must be a number or have shape ({len(values)},), one per row of coef"
            ) from None
        return values, check_array("intercept", constants, ndim=1), single

    def deviation(self, coef: Array, intercept: Any = 0.0) -> tuple[Array, Array]:
        """Return ``Σ^½ (b - b*)`` and the constant ``k`` for each row of coefficients."""
        distance = coef - like(self.coef, coef)
        shift = intercept - self.intercept + distance @ like(self.mean, coef)
        return distance @ self.root_like(coef), shift

    @property
    def errors(self) -> PredictionErrors:
        """Distribution of prediction errors."""
        return PredictionErrors(self.noise, self.design)


def paper_model(
    p: int = 1000, noise: str | Noise = "normal", design: str = "gaussian", **changes: Any
) -> LinearModel:
    """Return the model of the paper's experiments.

    The covariance is `toeplitz` with correlation 0.5, the coefficients are `sparse_signal` with
    strength 2.

    Parameters
    ----------
    p : int, default=1000
        Number of features.
    noise : str or Noise, default="normal"
        Noise distribution. The paper uses "t2" with LAD and "normal" with the square-root loss.
    design : str, default="gaussian"
        Distribution of the features, as for `LinearModel`.
    **changes
        Other parameters of `LinearModel`.
    """
    covariance = changes.pop("covariance", None)
    covariance = toeplitz(p) if covariance is None else covariance
    settings = {"coef": sparse_signal(covariance), "covariance": covariance, **changes}
    return LinearModel(noise=noise, design=design, **settings)
